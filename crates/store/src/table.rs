//! The table of one slot: a binary trie of leaves, ordered by the keys' hash.
//!
//! A key's place is its *position*: 14 bits of slot, then 50 bits of keyed hash. Everything that walks
//! the keyspace walks positions in ascending order, so a cursor is a position and survives any growth.
//!
//! | word | low 6 bits | top 16 bits |
//! |---|---|---|
//! | nothing | null | |
//! | small leaf | 0..=3: 1, 2, 4 or 8 buckets, in one block | entries in the leaf |
//! | large leaf | 4 + m, m = 2..=16: a directory, whose first m words are mini-blocks of 8 buckets | entries in the leaf |
//! | branch | 63: a block whose first two words are the halves of the hash space | |
//! | entry (in a bucket) | | tag: the 16 hash bits below the leaf's prefix |
//!
//! A bucket is one cache line of 8 entry words. An entry's home bucket is its tag scaled to the number
//! of buckets; it lies there or in the next buckets with room (linear probing by whole buckets).
//! Invariant *no-gap*: between an entry's home and the bucket it lies in, every bucket is full. So a
//! search stops at the first bucket with room, and there are no tombstones.
//!
//! No growth step touches more than one leaf, at most [`LEAF_ENTRIES_MAX`] entries.
//!
//! Words are written under the slot's lock. [`glimpse`] reads them without it: so a word that leads to a
//! block is stored with `Release` and glimpsed with `Acquire`, which hands over the block's memory, and
//! an entry word leads an unlocked reader nowhere.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::blocks::{Block, LINE_WORDS, Role, Word};
use crate::entry::Entry;

/// Bits of a position that the hash has; the slot stands above them.
pub const HASH_BITS: u32 = 50;

const CODE_MASK: usize = 63;
const BRANCH: usize = 63;
const LARGE: usize = 4;
const MINI_BUCKETS: usize = 8;
const MINI: Role = Role::Buckets(3);
/// Small under Miri, so that a few hundred entries meet splits and joins.
const MINIS_MAX: usize = if cfg!(miri) { 2 } else { 16 };
const TOP_SHIFT: u32 = 48;
const ADDRESS_MASK: usize = (1 << TOP_SHIFT) - 1;
const TAG_BITS: u32 = 16;

/// Bytes that a key takes in its table: a word, at the usual load.
pub const TABLE_BYTES_PER_KEY: usize = 9;

/// A leaf is split when it would hold more.
pub const LEAF_ENTRIES_MAX: usize = capacity(MINIS_MAX * MINI_BUCKETS);
/// Two sibling leaves that hold fewer together are joined.
const JOIN_ENTRIES: usize = LEAF_ENTRIES_MAX / 3;

/// Entries that `buckets` may hold: 15/16 of their words. Above that, probe chains get long; at 7/8,
/// 20 million keys of 100 bytes cost 0.9 bytes more each.
const fn capacity(buckets: usize) -> usize {
    buckets * LINE_WORDS * 15 / 16
}

/// The hash part of a position.
#[inline]
fn hash_of(position: u64) -> u64 {
    position & ((1 << HASH_BITS) - 1)
}

/// The 16 hash bits below a prefix of `depth` bits.
#[inline]
fn tag_of(position: u64, depth: u32) -> usize {
    (hash_of(position) << depth >> (HASH_BITS - TAG_BITS)) as usize & 0xffff
}

#[inline]
fn tagged(pointer: *mut u8, top: usize) -> *mut u8 {
    pointer.map_addr(|address| address & ADDRESS_MASK | top << TOP_SHIFT)
}

#[inline]
fn top(word: *mut u8) -> usize {
    word.addr() >> TOP_SHIFT
}

#[inline]
fn address(word: *mut u8) -> *mut u8 {
    word.map_addr(|address| address & ADDRESS_MASK & !CODE_MASK)
}

#[inline]
fn entry(word: *mut u8) -> Entry {
    let pointer = word.map_addr(|address| address & ADDRESS_MASK);
    // SAFETY: a non-null bucket word holds a live entry (*entry-owner*): callers hold the lock.
    unsafe { Entry::from_ptr(pointer) }
}

/// A decoded leaf word.
#[derive(Clone, Copy)]
struct Leaf {
    block: Block,
    /// 0 for a small leaf.
    minis: usize,
    buckets: usize,
    len: usize,
}

impl Leaf {
    /// The leaf behind a non-null word that is no branch.
    #[inline]
    fn decode(word: *mut u8) -> Leaf {
        let code = word.addr() & CODE_MASK;
        // SAFETY: a leaf word holds a block's address.
        let block = unsafe { Block::from_ptr(address(word)) };
        let (minis, buckets) =
            if code < LARGE { (0, 1 << code) } else { (code - LARGE, (code - LARGE) * MINI_BUCKETS) };
        Leaf { block, minis, buckets, len: top(word) }
    }

    #[inline]
    fn encode(self) -> *mut u8 {
        let code = if self.minis == 0 { self.buckets.trailing_zeros() as usize } else { LARGE + self.minis };
        tagged(self.block.as_ptr(), self.len).map_addr(|address| address | code)
    }

    fn alloc(buckets: usize) -> Leaf {
        if buckets <= MINI_BUCKETS {
            let block = Block::alloc(Role::Buckets(buckets.trailing_zeros()));
            return Leaf { block, minis: 0, buckets, len: 0 };
        }
        let minis = buckets / MINI_BUCKETS;
        let block = Block::alloc(Role::Directory);
        for word in &block.words(Role::Directory)[..minis] {
            word.store(Block::alloc(MINI).as_ptr(), Release);
        }
        Leaf { block, minis, buckets, len: 0 }
    }

    /// # Safety
    /// No word points to the leaf any more; its entries were moved out or disposed.
    unsafe fn free(self) {
        // SAFETY: the caller's contract; roles as in `alloc`.
        unsafe {
            if self.minis == 0 {
                self.block.free(Role::Buckets(self.buckets.trailing_zeros()));
                return;
            }
            for word in &self.block.words(Role::Directory)[..self.minis] {
                Block::from_ptr(word.load(Relaxed)).free(MINI);
            }
            self.block.free(Role::Directory);
        }
    }

    #[inline]
    fn bucket<'a>(self, index: usize) -> &'a [Word; LINE_WORDS] {
        self.try_bucket(index).expect("leaf-directory: a live leaf has all its mini-blocks")
    }

    /// As `bucket`, for a leaf that may be stale: a directory word may be null by now.
    #[inline]
    fn try_bucket<'a>(self, index: usize) -> Option<&'a [Word; LINE_WORDS]> {
        debug_assert!(index < self.buckets, "leaf-bounds");
        let words = if self.minis == 0 {
            &self.block.words(Role::Buckets(self.buckets.trailing_zeros()))[LINE_WORDS * index..]
        } else {
            let mini = self.block.words(Role::Directory)[index / MINI_BUCKETS].load(Acquire);
            if mini.is_null() {
                return None;
            }
            // SAFETY: a directory's words are null or mini-blocks, for ever (*role-stable*).
            let mini = unsafe { Block::from_ptr(mini) };
            &mini.words(MINI)[LINE_WORDS * (index % MINI_BUCKETS)..]
        };
        words.first_chunk()
    }

    #[inline]
    fn home(self, tag: usize) -> usize {
        (tag * self.buckets) >> TAG_BITS
    }

    #[inline]
    fn next(self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets { 0 } else { bucket + 1 }
    }

    /// Puts a tagged entry word into the first bucket with room. The leaf has room.
    #[inline]
    fn place(self, word: *mut u8) {
        let mut index = self.home(top(word));
        for _ in 0..self.buckets {
            for place in self.bucket(index) {
                if place.load(Relaxed).is_null() {
                    place.store(word, Relaxed);
                    return;
                }
            }
            index = self.next(index);
        }
        unreachable!("leaf-room: a leaf is grown before it is full");
    }

    /// Calls `visit` with every entry word, in bucket order.
    fn each(self, mut visit: impl FnMut(*mut u8)) {
        for index in 0..self.buckets {
            for place in self.bucket(index) {
                let word = place.load(Relaxed);
                if !word.is_null() {
                    visit(word);
                }
            }
        }
    }
}

/// The next size up from `buckets`.
fn grown(buckets: usize) -> usize {
    if buckets < MINI_BUCKETS { buckets * 2 } else { buckets + MINI_BUCKETS }
}

/// The smallest number of buckets for `entries`, with room for a few more.
fn buckets_for(entries: usize) -> usize {
    let mut buckets = 1;
    while capacity(buckets) <= entries {
        buckets = grown(buckets);
    }
    buckets
}

/// What is found at the end of a descent from a slot's root.
struct Found<'a> {
    place: &'a Word,
    depth: u32,
    parent: Option<&'a Word>,
}

/// Goes down to the word (null or leaf) that covers `position`.
#[inline]
fn descend(root: &Word, position: u64) -> Found<'_> {
    let mut found = Found { place: root, depth: 0, parent: None };
    loop {
        let word = found.place.load(Relaxed);
        if word.addr() & CODE_MASK != BRANCH {
            return found;
        }
        let half = (hash_of(position) >> (HASH_BITS - 1 - found.depth)) as usize & 1;
        // SAFETY: a branch word holds the address of a block.
        let block = unsafe { Block::from_ptr(address(word)) };
        found = Found {
            place: &block.words(Role::Branch)[half],
            depth: found.depth + 1,
            parent: Some(found.place),
        };
    }
}

/// The entry at `position` for which `matches` holds. The caller holds the slot's stripe lock.
#[inline]
pub fn find(root: &Word, position: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Entry> {
    let found = descend(root, position);
    let word = found.place.load(Relaxed);
    if word.is_null() {
        return None;
    }
    let leaf = Leaf::decode(word);
    let tag = tag_of(position, found.depth);
    let mut index = leaf.home(tag);
    for _ in 0..leaf.buckets {
        let mut full = true;
        for place in leaf.bucket(index) {
            let word = place.load(Relaxed);
            if word.is_null() {
                full = false;
            } else if top(word) == tag && matches(entry(word)) {
                return Some(entry(word));
            }
        }
        if !full {
            return None;
        }
        index = leaf.next(index);
    }
    None
}

/// Asks the CPU for the bucket line of `position`. Needs no lock (*role-stable*).
#[inline]
pub fn prefetch_bucket(root: &Word, position: u64) {
    if let Some(bucket) = glimpse(root, position).and_then(|(leaf, tag)| leaf.try_bucket(leaf.home(tag))) {
        prefetch(bucket.as_ptr().cast());
    }
}

/// Asks the CPU for the entry of `position`, or what looks like it. Needs no lock.
#[inline]
pub fn prefetch_entry(root: &Word, position: u64) {
    if let Some(address) = glimpse_entry(root, position) {
        prefetch(address);
        prefetch(address.wrapping_add(64));
    }
}

/// The address of what may be the entry of `position`, or was. Nobody may read there.
#[inline]
fn glimpse_entry(root: &Word, position: u64) -> Option<*const u8> {
    let (leaf, tag) = glimpse(root, position)?;
    let words = leaf.try_bucket(leaf.home(tag))?.iter().map(|place| place.load(Relaxed));
    let word = { words }.find(|word| top(*word) == tag && !word.is_null())?;
    Some(word.map_addr(|address| address & ADDRESS_MASK))
}

/// An unlocked look at the leaf that covers `position`: every word is checked for its shape, since
/// it may be stale; blocks are role-stable, so following one is sound. A block read here may have been
/// given back and taken again by another table: what is found is a hint, and nothing is written.
#[inline]
fn glimpse(root: &Word, position: u64) -> Option<(Leaf, usize)> {
    let mut word = root.load(Acquire);
    for depth in 0..HASH_BITS - TAG_BITS {
        let code = word.addr() & CODE_MASK;
        if address(word).is_null() {
            return None;
        }
        if code != BRANCH {
            let leaf = Leaf::decode(word);
            return (leaf.buckets > 0).then(|| (leaf, tag_of(position, depth)));
        }
        let half = (hash_of(position) >> (HASH_BITS - 1 - depth)) as usize & 1;
        // SAFETY: a branch word holds the address of a block.
        let block = unsafe { Block::from_ptr(address(word)) };
        word = block.words(Role::Branch)[half].load(Acquire);
    }
    None
}

#[inline]
pub(crate) fn prefetch(pointer: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}

/// Adds an entry that is not in the table. `position_of` gives an entry's position (it hashes the
/// key); it is needed when a leaf is split.
pub fn insert(root: &Word, position: u64, new: Entry, position_of: &impl Fn(Entry) -> u64) {
    loop {
        let found = descend(root, position);
        let word = found.place.load(Relaxed);
        let mut leaf = if word.is_null() { Leaf::alloc(1) } else { Leaf::decode(word) };
        if leaf.len >= LEAF_ENTRIES_MAX && found.depth < HASH_BITS - TAG_BITS - 1 {
            split(found.place, leaf, found.depth, position_of);
            continue;
        }
        if leaf.len >= capacity(leaf.buckets) {
            assert!(leaf.minis < MINIS_MAX, "leaf-depth: 2^33 leaves share a slot");
            leaf = resize(leaf, grown(leaf.buckets));
        }
        leaf.place(tagged(new.as_ptr(), tag_of(position, found.depth)));
        leaf.len += 1;
        found.place.store(leaf.encode(), Release);
        return;
    }
}

/// Moves the leaf's words into a leaf of another size. The order of tags does not change, and no
/// entry is read.
fn resize(old: Leaf, buckets: usize) -> Leaf {
    let mut new = Leaf::alloc(buckets);
    old.each(|word| new.place(word));
    new.len = old.len;
    // SAFETY: the caller stores the new leaf where the old one was; its words were moved.
    unsafe { old.free() };
    new
}

fn split(place: &Word, old: Leaf, depth: u32, position_of: &impl Fn(Entry) -> u64) {
    let mut lower: Vec<*mut u8> = Vec::with_capacity(old.len);
    let mut upper: Vec<*mut u8> = Vec::with_capacity(old.len);
    let mut words = Vec::with_capacity(old.len);
    old.each(|word| words.push(word));
    // Each entry is a cache miss of its own: they are asked for together.
    for chunk in words.chunks(16) {
        chunk.iter().for_each(|word| prefetch(entry(*word).as_ptr()));
        for word in chunk {
            let position = position_of(entry(*word));
            let half = if top(*word) & (1 << (TAG_BITS - 1)) == 0 { &mut lower } else { &mut upper };
            half.push(tagged(entry(*word).as_ptr(), tag_of(position, depth + 1)));
        }
    }
    let branch = Block::alloc(Role::Branch);
    for (half, words) in branch.words(Role::Branch).iter().zip([lower, upper]) {
        half.store(filled(&words), Release);
    }
    place.store(branch.as_ptr().map_addr(|address| address | BRANCH), Release);
    // SAFETY: the branch stands where the leaf was, and its words were moved.
    unsafe { old.free() };
}

/// A leaf word with these entry words in it; null for none.
fn filled(words: &[*mut u8]) -> *mut u8 {
    if words.is_empty() {
        return std::ptr::null_mut();
    }
    let mut leaf = Leaf::alloc(buckets_for(words.len()));
    words.iter().for_each(|word| leaf.place(*word));
    leaf.len = words.len();
    leaf.encode()
}

/// Replaces the word of `old` by one of `new`, which has the same key.
#[inline]
pub fn replace(root: &Word, position: u64, old: Entry, new: Entry) {
    let (_, found_place) = locate(root, position, old).expect("table-replace: the old entry is in the table");
    let tag = top(found_place.load(Relaxed));
    found_place.store(tagged(new.as_ptr(), tag), Relaxed);
}

/// The bucket index and place of `wanted`, by address.
fn locate(root: &Word, position: u64, wanted: Entry) -> Option<(usize, &Word)> {
    let found = descend(root, position);
    let word = found.place.load(Relaxed);
    if word.is_null() {
        return None;
    }
    let leaf = Leaf::decode(word);
    let tag = tag_of(position, found.depth);
    let target = tagged(wanted.as_ptr(), tag);
    let mut index = leaf.home(tag);
    for _ in 0..leaf.buckets {
        if let Some(place) = leaf.bucket(index).iter().find(|place| place.load(Relaxed) == target) {
            return Some((index, place));
        }
        index = leaf.next(index);
    }
    None
}

/// Takes `old` out of the table; the caller disposes of it.
pub fn remove(root: &Word, position: u64, old: Entry, position_of: &impl Fn(Entry) -> u64) {
    let (index, place) = locate(root, position, old).expect("table-remove: the entry is in the table");
    let found = descend(root, position);
    let mut leaf = Leaf::decode(found.place.load(Relaxed));
    place.store(std::ptr::null_mut(), Relaxed);
    close_gap(leaf, index, place);
    leaf.len -= 1;
    if leaf.len == 0 {
        found.place.store(std::ptr::null_mut(), Relaxed);
        // SAFETY: the leaf is empty and out of the table.
        unsafe { leaf.free() };
    } else {
        if leaf.buckets > 1 && leaf.len * 5 < capacity(leaf.buckets) * 2 {
            leaf = resize(leaf, buckets_for(leaf.len + leaf.len / 4));
        }
        found.place.store(leaf.encode(), Release);
    }
    if leaf.len < JOIN_ENTRIES
        && let Some(parent) = found.parent
    {
        join(parent, found.depth - 1, position_of);
    }
}

/// Restores *no-gap* after the word at `hole` in bucket `index` was cleared.
fn close_gap(leaf: Leaf, mut index: usize, mut hole: &Word) {
    let was_full = |index: usize, hole: &Word| {
        leaf.bucket(index).iter().all(|place| std::ptr::eq(place, hole) || !place.load(Relaxed).is_null())
    };
    'holes: while was_full(index, hole) {
        let hole_index = index;
        let mut distance = 0;
        let mut candidate = index;
        loop {
            candidate = leaf.next(candidate);
            distance += 1;
            if candidate == hole_index {
                return;
            }
            let mut full = true;
            for place in leaf.bucket(candidate) {
                let word = place.load(Relaxed);
                if word.is_null() {
                    full = false;
                    continue;
                }
                let home = leaf.home(top(word));
                let displaced = (candidate + leaf.buckets - home) % leaf.buckets;
                if displaced >= distance {
                    hole.store(word, Relaxed);
                    place.store(std::ptr::null_mut(), Relaxed);
                    index = candidate;
                    hole = place;
                    continue 'holes;
                }
            }
            if !full {
                return;
            }
        }
    }
}

/// Makes one leaf of a branch whose two leaves have become small.
fn join(place: &Word, depth: u32, position_of: &impl Fn(Entry) -> u64) {
    let word = place.load(Relaxed);
    // SAFETY: the caller found a branch here, and holds the lock.
    let branch = unsafe { Block::from_ptr(address(word)) };
    let mut words = Vec::new();
    let halves = [branch.words(Role::Branch)[0].load(Relaxed), branch.words(Role::Branch)[1].load(Relaxed)];
    let is_leaf = |half: &*mut u8| half.is_null() || half.addr() & CODE_MASK != BRANCH;
    let len = |half: &*mut u8| if half.is_null() { 0 } else { top(*half) };
    if !halves.iter().all(is_leaf) || halves.iter().map(len).sum::<usize>() >= JOIN_ENTRIES {
        return;
    }
    for half in halves.into_iter().filter(|half| !half.is_null()) {
        let leaf = Leaf::decode(half);
        leaf.each(|word| {
            let position = position_of(entry(word));
            words.push(tagged(entry(word).as_ptr(), tag_of(position, depth)));
        });
        // SAFETY: the joined leaf replaces the branch below; the words were moved.
        unsafe { leaf.free() };
    }
    place.store(filled(&words), Release);
    // SAFETY: the branch is out of the table.
    unsafe { branch.free(Role::Branch) };
}

/// Visits the entries at and above `from` in bucket order, all of a bucket or none, until `visit`
/// says stop (false) after a bucket. Returns the position to go on from, or `None` at the slot's end.
/// An entry that is in the table from the first call to the last is visited at least once.
pub fn scan(
    root: &Word,
    from: u64,
    visit: &mut impl FnMut(Entry),
    more: &mut impl FnMut() -> bool,
) -> Option<u64> {
    let slot_base = from & !((1 << HASH_BITS) - 1);
    let mut hash = hash_of(from);
    loop {
        let found = descend(root, slot_base | hash);
        let word = found.place.load(Relaxed);
        let prefix_shift = HASH_BITS - found.depth;
        let leaf_base = if found.depth == 0 { 0 } else { hash >> prefix_shift << prefix_shift };
        if !word.is_null() {
            let leaf = Leaf::decode(word);
            let first = leaf.home(tag_of(hash, found.depth));
            for bucket in first..leaf.buckets {
                visit_homed(leaf, bucket, visit);
                if bucket + 1 < leaf.buckets && !more() {
                    // The first tag whose home is the next bucket.
                    let tag = ((bucket + 1) << TAG_BITS).div_ceil(leaf.buckets) as u64;
                    return Some(slot_base | leaf_base | tag << (prefix_shift - TAG_BITS));
                }
            }
        }
        let next = leaf_base + (1 << prefix_shift);
        if next >> HASH_BITS != 0 {
            return None;
        }
        hash = next;
        if !more() {
            return Some(slot_base | hash);
        }
    }
}

/// Visits the entries whose home is `bucket`, wherever they lie.
fn visit_homed(leaf: Leaf, bucket: usize, visit: &mut impl FnMut(Entry)) {
    let mut index = bucket;
    for _ in 0..leaf.buckets {
        let mut full = true;
        for place in leaf.bucket(index) {
            let word = place.load(Relaxed);
            if word.is_null() {
                full = false;
            } else if leaf.home(top(word)) == bucket {
                visit(entry(word));
            }
        }
        if !full {
            return;
        }
        index = leaf.next(index);
    }
}

/// An entry picked by chance: halves by the toss of a coin down to a leaf, then one of its entries. `None` if empty.
pub fn random(root: &Word, rng: &mut fastrand::Rng) -> Option<Entry> {
    let leaf = random_leaf(root, rng)?;
    let mut left = rng.usize(..leaf.len);
    let mut chosen = None;
    leaf.each(|word| {
        if left == 0 && chosen.is_none() {
            chosen = Some(entry(word));
        }
        left = left.saturating_sub(1);
    });
    chosen
}

/// Shows entries of one leaf in their order from a place picked by chance, until `visit` returns false or all were
/// shown. The caller holds the slot's stripe lock.
pub fn sample(root: &Word, rng: &mut fastrand::Rng, visit: &mut impl FnMut(Entry) -> bool) {
    let Some(leaf) = random_leaf(root, rng) else { return };
    let words = leaf.buckets * LINE_WORDS;
    let first = rng.usize(..words);
    for at in (first..words).chain(0..first) {
        let word = leaf.bucket(at / LINE_WORDS)[at % LINE_WORDS].load(Relaxed);
        if !word.is_null() && !visit(entry(word)) {
            return;
        }
    }
}

fn random_leaf(root: &Word, rng: &mut fastrand::Rng) -> Option<Leaf> {
    let mut place = root;
    loop {
        let word = place.load(Relaxed);
        if word.is_null() {
            return None;
        }
        if word.addr() & CODE_MASK != BRANCH {
            return Some(Leaf::decode(word));
        }
        // SAFETY: a branch word holds the address of a block.
        let branch = unsafe { Block::from_ptr(address(word)) };
        let halves = &branch.words(Role::Branch)[..2];
        let pick = rng.usize(..2);
        place = if halves[pick].load(Relaxed).is_null() { &halves[1 - pick] } else { &halves[pick] };
    }
}

/// Empties a detached root, handing every entry out. At most one leaf's entries are touched between
/// two calls of `visit`.
pub fn drain(word: *mut u8, visit: &mut impl FnMut(Entry)) {
    if word.is_null() {
        return;
    }
    if word.addr() & CODE_MASK == BRANCH {
        // SAFETY: a branch word holds the address of a block; the root is detached.
        let branch = unsafe { Block::from_ptr(address(word)) };
        for half in &branch.words(Role::Branch)[..2] {
            drain(half.load(Relaxed), visit);
        }
        // SAFETY: both halves are empty now, and nothing points to the branch.
        unsafe { branch.free(Role::Branch) };
        return;
    }
    let leaf = Leaf::decode(word);
    leaf.each(|word| visit(entry(word)));
    // SAFETY: the entries were handed out; nothing points to the leaf.
    unsafe { leaf.free() };
}

#[cfg(test)]
mod tests;
