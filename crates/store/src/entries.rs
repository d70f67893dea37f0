//! What sets and hashes have in common: entries of `S` byte strings each, the first of them unique.
//!
//! The small form keeps entries in insertion order and finds them by comparing; the large one is ordered by the
//! member's hash. A leaf of the large form holds the entries whose hash lies between its separators, in no
//! particular order, with one byte of each hash as a tag: a lookup compares tags, eight at a time, before members.
//! Hashes are not stored; a split computes them anew.
//!
//! `S` is 1 for a set (member) and 2 for a hash (field, value). The index of a sorted set keeps member and score in one
//! item: the last `SUFFIX` bytes of an entry's first item are not its member's.

use std::ops::Range;

use crate::keyhash::member_hash;
use crate::packed::Packed;
use crate::tree::{Bias, ByKey, ByRank, Cursor, LEAF_FILL_BYTES_MAX, Leaf, Tree, TreeBuilder, Walk};

/// Bits of a member's hash that order it: what a scan cursor can hold.
const PLACE_BITS: u32 = 53;
/// How full a bulk build makes leaves.
const LEAF_FILL_BYTES_BUILT: usize = LEAF_FILL_BYTES_MAX * 7 / 8;
/// How much a bulk build collects in one buffer before it sorts.
const PAGE_FILL_BYTES_MAX: usize = 4 * LEAF_FILL_BYTES_MAX;

/// A position in member-hash space, below 2^53.
type Place = u64;

fn place_of(hash: u64) -> Place {
    hash >> (u64::BITS - PLACE_BITS)
}

fn tag_of(hash: u64) -> u8 {
    hash as u8
}

/// Entries in the order in which they came: `S` items each.
#[derive(Clone, Default)]
pub struct SequenceLeaf<const S: usize> {
    /// The items of all entries.
    pub items: Packed,
}

impl<const S: usize> Leaf for SequenceLeaf<S> {
    type Key = ();

    fn len(&self) -> usize {
        self.items.len() / S
    }

    fn fill_bytes(&self) -> usize {
        self.items.fill_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.items.heap_bytes()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.items.is_same(&other.items)
    }

    fn is_shared(&self) -> bool {
        self.items.is_shared()
    }

    /// At the ends of a list all that came before stays together: seldom does anything arrive between it.
    fn split(&mut self, bias: Bias) -> Option<((), Self)> {
        let at = match bias {
            Bias::Middle => balanced_split(&self.items, S, bias)?,
            Bias::Back => self.len().checked_sub(1)?,
            Bias::Front => 1,
        };
        let mut right = SequenceLeaf { items: self.items.split_off(at * S, 0) };
        match bias {
            Bias::Middle => {}
            Bias::Back => self.items.shrink_to_fit(),
            Bias::Front => right.items.shrink_to_fit(),
        }
        Some(((), right))
    }

    fn append(&mut self, right: &Self) {
        self.items.append(&right.items);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.items.remove(range.start * S..range.end * S, 0..0);
    }
}

/// The number of entries, of `stride` items each, that give the left part its share of the bytes.
pub(crate) fn balanced_split(items: &Packed, stride: usize, bias: Bias) -> Option<usize> {
    let entries = items.len() / stride;
    if entries < 2 {
        return None;
    }
    let total = (0..entries).map(|entry| entry_fill_bytes(items, entry, stride)).sum();
    let target = bias.left_share(total);
    let mut filled = 0;
    let mut at = 0;
    while at < entries && filled < target {
        filled += entry_fill_bytes(items, at, stride);
        at += 1;
    }
    Some(at.clamp(1, entries - 1))
}

/// What one entry contributes to its leaf's weight, nearly.
pub(crate) fn entry_fill_bytes(items: &Packed, entry: usize, stride: usize) -> usize {
    (entry * stride..(entry + 1) * stride).map(|i| items.get(i).len().min(62) + 2).sum()
}

/// Entries whose hashes lie in one range, unordered. The tags are the items' tail.
#[derive(Clone, Default)]
pub struct TaggedLeaf<const S: usize, const SUFFIX: usize = 0> {
    /// The items of all entries, `S` each.
    pub items: Packed,
}

impl<const S: usize, const SUFFIX: usize> TaggedLeaf<S, SUFFIX> {
    fn member(&self, entry: usize) -> &[u8] {
        member_of::<SUFFIX>(self.items.get(entry * S))
    }

    fn find(&self, member: &[u8], tag: u8) -> Option<usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let wanted = LOW * u64::from(tag);
        let mut chunks = self.items.tail().chunks_exact(8);
        let mut base = 0;
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            let differing = u64::from_le_bytes(word) ^ wanted;
            // A byte that is zero shows as a high bit; now and then so does its neighbour, which the comparison settles.
            let mut zeros = differing.wrapping_sub(LOW) & !differing & HIGH;
            while zeros != 0 {
                let entry = base + zeros.trailing_zeros() as usize / 8;
                if self.member(entry) == member {
                    return Some(entry);
                }
                zeros &= zeros - 1;
            }
            base += 8;
        }
        let rest = chunks.remainder().iter().enumerate();
        rest.filter(|&(_, &t)| t == tag).map(|(i, _)| base + i).find(|&entry| self.member(entry) == member)
    }

    fn push(&mut self, tag: u8, entry: [&[u8]; S]) {
        self.items.insert_all(self.items.len(), entry, &[tag]);
    }

    fn push_from(&mut self, other: &Packed, entry: usize, tag: u8) {
        self.items.push_from::<S>(other, entry, &[tag]);
    }
}

fn member_of<const SUFFIX: usize>(item: &[u8]) -> &[u8] {
    &item[..item.len() - SUFFIX]
}

impl<const S: usize, const SUFFIX: usize> Leaf for TaggedLeaf<S, SUFFIX> {
    type Key = Place;

    fn len(&self) -> usize {
        self.items.tail().len()
    }

    fn fill_bytes(&self) -> usize {
        self.items.fill_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.items.heap_bytes()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.items.is_same(&other.items)
    }

    fn is_shared(&self) -> bool {
        self.items.is_shared()
    }

    fn split(&mut self, bias: Bias) -> Option<(Place, Self)> {
        let mut order: Vec<(Place, usize)> =
            (0..self.len()).map(|i| (place_of(member_hash(self.member(i))), i)).collect();
        order.sort_unstable();
        let total = (0..self.len()).map(|entry| entry_fill_bytes(&self.items, entry, S)).sum();
        let target = bias.left_share(total);
        let (mut filled, mut at) = (0, 0);
        while at < order.len() && filled < target {
            filled += entry_fill_bytes(&self.items, order[at].1, S);
            at += 1;
        }
        at = at.clamp(1, order.len() - 1);
        let boundary = (at..order.len()).chain((1..at).rev()).find(|&i| order[i - 1].0 != order[i].0)?;
        let key = order[boundary].0;
        let (mut left, mut right) = (Self::default(), Self::default());
        for side in [&mut left, &mut right] {
            side.items.reserve(LEAF_FILL_BYTES_MAX * 5 / 8);
        }
        let mut is_right = vec![false; self.len()];
        for &(_, entry) in &order[boundary..] {
            is_right[entry] = true;
        }
        for (entry, &goes_right) in is_right.iter().enumerate() {
            let side = if goes_right { &mut right } else { &mut left };
            side.push_from(&self.items, entry, self.items.tail()[entry]);
        }
        left.items.shrink();
        right.items.shrink();
        *self = left;
        Some((key, right))
    }

    fn append(&mut self, right: &Self) {
        self.items.append(&right.items);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.items.remove(range.start * S..range.end * S, range);
    }
}

fn by_place(place: Place) -> ByKey<impl FnMut(&Place) -> bool> {
    ByKey(move |key: &Place| *key <= place)
}

/// Entries of `S` byte strings, the first of them unique, small or large.
#[derive(Clone)]
pub enum Entries<const S: usize, const SUFFIX: usize = 0> {
    /// In insertion order.
    Small(Tree<SequenceLeaf<S>>),
    /// In the order of the member's hash. Boxed: the many small ones cost the bytes of the largest form.
    Large(Box<Tree<TaggedLeaf<S, SUFFIX>>>),
}

impl<const S: usize, const SUFFIX: usize> Default for Entries<S, SUFFIX> {
    fn default() -> Self {
        Entries::Small(Tree::default())
    }
}

impl<const S: usize, const SUFFIX: usize> Entries<S, SUFFIX> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Entries::Small(tree) => tree.len(),
            Entries::Large(tree) => tree.len(),
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Entries::Large(_))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Entries::Small(tree) => tree.memory_bytes(),
            Entries::Large(tree) => tree.memory_bytes(),
        }
    }

    pub(crate) fn node_count(&self) -> usize {
        match self {
            Entries::Small(tree) => tree.node_count(),
            Entries::Large(tree) => tree.node_count(),
        }
    }

    /// It is let go of: what is shared of it is left to clones.
    pub(crate) fn note_parted(&self) {
        match self {
            Entries::Small(tree) => tree.note_parted(),
            Entries::Large(tree) => tree.note_parted(),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Entries::Small(a), Entries::Small(b)) => a.is_same(b),
            (Entries::Large(a), Entries::Large(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// Where `member` stands: the items of its leaf, and the index of its first item.
    #[inline]
    pub(crate) fn find(&self, member: &[u8]) -> Option<(&Packed, usize)> {
        match self {
            Entries::Small(tree) => {
                tree.leaves().find_map(|(_, leaf)| Some((&leaf.items, leaf.items.find(member, 0, S)?)))
            }
            Entries::Large(tree) => {
                let hash = member_hash(member);
                let leaf = tree.leaf(&mut by_place(place_of(hash)));
                Some((&leaf.items, leaf.find(member, tag_of(hash))? * S))
            }
        }
    }

    /// The rank of `member` in the small form.
    fn small_rank(tree: &Tree<SequenceLeaf<S>>, member: &[u8]) -> Option<usize> {
        tree.leaves().find_map(|(start, leaf)| Some(start + leaf.items.find(member, 0, S)? / S))
    }

    /// Adds the entry, or replaces all but the member of the one that is there. True if it was added. The small form has
    /// no suffix.
    pub(crate) fn put(&mut self, entry: [&[u8]; S]) -> bool {
        let member = member_of::<SUFFIX>(entry[0]);
        match self {
            Entries::Small(tree) => match Self::small_rank(tree, member) {
                Some(rank) if S == 1 => {
                    debug_assert!(rank < tree.len());
                    false
                }
                Some(rank) => {
                    tree.edit(&mut ByRank::existing(rank), |leaf, seek| {
                        replace_values(&mut leaf.items, seek.rest, &entry);
                    });
                    false
                }
                None => {
                    tree.edit(&mut ByRank::insertion(tree.len()), |leaf, _| {
                        leaf.items.insert_all(leaf.items.len(), entry, &[]);
                    });
                    true
                }
            },
            Entries::Large(tree) => {
                let hash = member_hash(member);
                let mut seek = by_place(place_of(hash));
                // Without values to replace, a member that is there must not cost a shared leaf its copy.
                if S == 1 && SUFFIX == 0 && tree.leaf(&mut seek).find(member, tag_of(hash)).is_some() {
                    return false;
                }
                tree.edit(&mut seek, |leaf, _| match leaf.find(member, tag_of(hash)) {
                    Some(found) => {
                        if SUFFIX > 0 {
                            leaf.items.set(found * S, entry[0]);
                        }
                        replace_values(&mut leaf.items, found, &entry);
                        false
                    }
                    None => {
                        leaf.push(tag_of(hash), entry);
                        true
                    }
                })
            }
        }
    }

    /// Removes the entry of `member`; false if there is none.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Entries::Small(tree) => {
                let Some(rank) = Self::small_rank(tree, member) else { return false };
                tree.remove_range(rank..rank + 1);
                true
            }
            Entries::Large(tree) => {
                let hash = member_hash(member);
                let mut seek = by_place(place_of(hash));
                let Some(found) = tree.leaf(&mut seek).find(member, tag_of(hash)) else { return false };
                tree.edit(&mut seek, |leaf, _| leaf.remove_range(found..found + 1));
                true
            }
        }
    }

    /// Removes the entry of `member`, which is known to be there: in one descent. False if it is not.
    pub(crate) fn remove_known(&mut self, member: &[u8]) -> bool {
        let Entries::Large(tree) = self else { return self.remove(member) };
        let hash = member_hash(member);
        tree.edit(&mut by_place(place_of(hash)), |leaf, _| {
            let found = leaf.find(member, tag_of(hash));
            if let Some(found) = found {
                leaf.remove_range(found..found + 1);
            }
            found.is_some()
        })
    }

    /// Removes the entry of rank `rank`, which must exist.
    pub(crate) fn remove_at(&mut self, rank: usize) {
        match self {
            Entries::Small(tree) => tree.remove_range(rank..rank + 1),
            Entries::Large(tree) => tree.edit(&mut ByRank::existing(rank), |leaf, seek: &ByRank| {
                leaf.remove_range(seek.rest..seek.rest + 1);
            }),
        }
    }

    /// The entry of rank `rank`: the items of its leaf, and the index of its first item.
    pub(crate) fn at(&self, rank: usize) -> Option<(&Packed, usize)> {
        match self {
            Entries::Small(tree) => tree.leaf_at(rank).map(|(leaf, i)| (&leaf.items, i * S)),
            Entries::Large(tree) => tree.leaf_at(rank).map(|(leaf, i)| (&leaf.items, i * S)),
        }
    }

    /// Calls `visit` with all entries of the small form, or with at least `count` entries (if there are so many) of
    /// the large one whose place is not below `cursor`. Returns the cursor to go on from, 0 at the end. An entry
    /// that is there from the first to the last call of a scan is visited, however the tree changes in between.
    pub(crate) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&Packed, usize)) -> u64 {
        let tree = match self {
            Entries::Small(tree) => {
                for (_, leaf) in tree.leaves() {
                    (0..leaf.len()).for_each(|i| visit(&leaf.items, i * S));
                }
                return 0;
            }
            Entries::Large(tree) => tree,
        };
        if cursor >> PLACE_BITS != 0 {
            return 0;
        }
        let mut visited = 0;
        let mut order = Vec::new();
        let (mut leaf, mut rank) = tree.find(&mut by_place(cursor));
        loop {
            order.clear();
            order.extend((0..leaf.len()).map(|i| (place_of(member_hash(leaf.member(i))), i)));
            order.retain(|&(place, _)| place >= cursor);
            order.sort_unstable();
            let mut last = None;
            for &(place, entry) in &order {
                if visited >= count.max(1) && last != Some(place) {
                    return place;
                }
                visit(&leaf.items, entry * S);
                visited += 1;
                last = Some(place);
            }
            rank += leaf.len();
            match tree.leaf_at(rank) {
                Some((next, _)) => leaf = next,
                None => return 0,
            }
        }
    }

    /// Changes to the large form, for good.
    pub(crate) fn make_large(&mut self) {
        if let Entries::Small(tree) = self {
            let mut builder = EntriesBuilder::default();
            for (_, leaf) in tree.leaves() {
                for entry in 0..leaf.len() {
                    builder.push(std::array::from_fn(|i| leaf.items.get(entry * S + i)));
                }
            }
            *self = builder.finish();
        }
    }
}

fn replace_values<const S: usize>(items: &mut Packed, entry: usize, new: &[&[u8]; S]) {
    for (i, item) in new.iter().enumerate().skip(1) {
        items.set(entry * S + i, item);
    }
}

/// Collects distinct entries in any order and builds their large form at once.
pub(crate) struct EntriesBuilder<const S: usize, const SUFFIX: usize = 0> {
    order: Vec<(u64, u32, u32)>,
    pages: Vec<Packed>,
}

impl<const S: usize, const SUFFIX: usize> Default for EntriesBuilder<S, SUFFIX> {
    fn default() -> Self {
        EntriesBuilder { order: Vec::new(), pages: Vec::new() }
    }
}

impl<const S: usize, const SUFFIX: usize> EntriesBuilder<S, SUFFIX> {
    /// Adds an entry whose member was not added before.
    pub(crate) fn push(&mut self, entry: [&[u8]; S]) {
        if self.pages.last().is_none_or(|page| page.fill_bytes() > PAGE_FILL_BYTES_MAX) {
            let mut page = Packed::default();
            // The first may be the only one, of few entries.
            if !self.pages.is_empty() {
                page.reserve(PAGE_FILL_BYTES_MAX * 9 / 8);
            }
            self.pages.push(page);
        }
        let page_index = self.pages.len() - 1;
        let page = &mut self.pages[page_index];
        let hash = member_hash(member_of::<SUFFIX>(entry[0]));
        self.order.push((hash, page_index as u32, (page.len() / S) as u32));
        page.insert_all(page.len(), entry, &[]);
    }

    pub(crate) fn finish(mut self) -> Entries<S, SUFFIX> {
        self.order.sort_unstable();
        let mut builder = TreeBuilder::default();
        let mut leaf = TaggedLeaf::<S, SUFFIX>::default();
        let (mut leaf_place, mut last_place) = (0, 0);
        for &(hash, page, entry) in &self.order {
            let place = place_of(hash);
            // Entries of one place must share a leaf.
            if leaf.fill_bytes() > LEAF_FILL_BYTES_BUILT && place != last_place {
                leaf.items.shrink();
                builder.push(leaf_place, std::mem::take(&mut leaf));
                leaf.items.reserve(LEAF_FILL_BYTES_BUILT * 9 / 8);
                leaf_place = place;
            }
            leaf.push_from(&self.pages[page as usize], entry as usize, tag_of(hash));
            last_place = place;
        }
        if leaf.len() > 0 {
            leaf.items.shrink();
            builder.push(leaf_place, leaf);
        }
        Entries::Large(Box::new(builder.finish()))
    }
}

enum Standing<const S: usize> {
    Small(Cursor<SequenceLeaf<S>>),
    Large(Cursor<TaggedLeaf<S>>),
}

/// Steps through a clone of the entries, which it owns.
pub(crate) struct EntriesIter<const S: usize> {
    cursor: Standing<S>,
    walk: Walk,
    /// Of the entry that was gone to last.
    rank: usize,
    remaining: usize,
}

impl<const S: usize> EntriesIter<S> {
    pub(crate) fn new(entries: &Entries<S>) -> Self {
        let cursor = match entries {
            Entries::Small(tree) => Standing::Small(Cursor::new(tree)),
            Entries::Large(tree) => Standing::Large(Cursor::new(tree)),
        };
        let len = entries.len();
        EntriesIter { cursor, walk: Walk::new(0, false, len), rank: 0, remaining: len }
    }

    /// The next entry: the items of its leaf, and the index of its first item.
    pub(crate) fn next(&mut self) -> Option<(&Packed, usize)> {
        if self.advance() { self.current() } else { None }
    }

    /// Goes to the next entry; false if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(rank) = self.walk.step() else { return false };
        let found = match &mut self.cursor {
            Standing::Small(cursor) => cursor.at(rank).is_some(),
            Standing::Large(cursor) => cursor.at(rank).is_some(),
        };
        self.rank = rank;
        self.remaining -= usize::from(found);
        found
    }

    /// The entry that was gone to last.
    pub(crate) fn current(&self) -> Option<(&Packed, usize)> {
        match &self.cursor {
            Standing::Small(cursor) => cursor.here(self.rank).map(|(leaf, i)| (&leaf.items, i * S)),
            Standing::Large(cursor) => cursor.here(self.rank).map(|(leaf, i)| (&leaf.items, i * S)),
        }
    }

    /// Entries not yet returned.
    pub(crate) fn remaining(&self) -> usize {
        self.remaining
    }
}
