//! Memory for table words that stays table words for ever.
//!
//! A worker prefetches the entries of a whole pipeline before it takes any lock, so it may read a
//! block that another worker has just given back. Invariant *role-stable*: memory that was once a
//! block of a [`Role`] is only ever a block of that role, is only accessed as atomic words, and is
//! never returned to the system. So a stale pointer to a block leads to a block of the same shape,
//! and a stale entry word is good for a prefetch and used for nothing else.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::alloc;

/// One table word: an entry, a leaf, a branch or nothing (null).
pub type Word = AtomicPtr<u8>;

/// Words in a cache line, the unit of a block.
pub const LINE_WORDS: usize = 8;
/// Large, since each costs the system allocator a page of its own. Untouched pages cost nothing.
const REGION_BYTES: usize = 1024 * 1024;
const ROLES: usize = 6;

/// What a block is for; decides its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// `1 << n` buckets of one line each, `n` up to 3.
    Buckets(u32),
    /// The mini-blocks of a large leaf: two lines, words are null or `Buckets(3)` blocks.
    Directory,
    /// The two halves of a branch: one line, words are table words.
    Branch,
}

impl Role {
    #[inline]
    fn index(self) -> usize {
        match self {
            Role::Buckets(log2) => log2 as usize,
            Role::Directory => 4,
            Role::Branch => 5,
        }
    }

    /// Words in a block of this role.
    #[inline]
    pub const fn words(self) -> usize {
        match self {
            Role::Buckets(log2) => LINE_WORDS << log2,
            Role::Directory => 2 * LINE_WORDS,
            Role::Branch => LINE_WORDS,
        }
    }

    fn bytes(self) -> usize {
        self.words() * size_of::<Word>()
    }
}

struct Pool {
    /// Blocks given back, by role. A list apart: a link inside a block would not be role-stable.
    free: [Vec<Block>; ROLES],
    region: *mut u8,
    region_left_bytes: usize,
}

// SAFETY: the region is owned by the pool and cut under its mutex; a block is atomic memory that is
// never unmapped, whoever holds it.
unsafe impl Send for Pool {}

const ARENAS: usize = 16;
/// Blocks that a pool takes from another at a time.
const BORROW_BLOCKS: usize = 256;
static POOLS: [Mutex<Pool>; ARENAS] = [const {
    Mutex::new(Pool { free: [const { Vec::new() }; ROLES], region: null_mut(), region_left_bytes: 0 })
}; ARENAS];

/// A block of some role, which its owner knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Block(NonNull<Word>);

impl Block {
    /// A block with every word null, aligned to a line.
    pub fn alloc(role: Role) -> Block {
        alloc::count(role.bytes() as isize);
        let own = alloc::thread_shard() % ARENAS;
        let block = POOLS[own].lock().take(role, own);
        for word in block.words(role) {
            word.store(null_mut(), Relaxed);
        }
        block
    }

    /// Gives the block back.
    ///
    /// # Safety
    /// The block came from `alloc(role)`, and no table word points to it any more.
    pub unsafe fn free(self, role: Role) {
        alloc::count(-(role.bytes() as isize));
        POOLS[alloc::thread_shard() % ARENAS].lock().free[role.index()].push(self);
    }

    /// The block's words.
    #[inline]
    pub fn words<'a>(self, role: Role) -> &'a [Word] {
        // SAFETY: a block has the length of its role, for ever, is never unmapped, and holds only
        // atomic words (*role-stable*), so a shared slice of it is always valid.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), role.words()) }
    }

    /// The block's address.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// # Safety
    /// `pointer` is the address of a block, live or given back.
    #[inline]
    pub unsafe fn from_ptr(pointer: *mut u8) -> Block {
        // SAFETY: the caller's contract: blocks are never null.
        Block(unsafe { NonNull::new_unchecked(pointer.cast()) })
    }
}

impl Pool {
    fn take(&mut self, role: Role, own: usize) -> Block {
        if let Some(block) = self.free[role.index()].pop() {
            return block;
        }
        if self.region_left_bytes < role.bytes() {
            if let Some(block) = self.borrow(role, own) {
                return block;
            }
            self.open_region();
        }
        let base = self.region.cast::<Word>();
        // SAFETY: that many bytes are left in the region: the result is inside it or at its end.
        self.region = unsafe { self.region.add(role.bytes()) };
        self.region_left_bytes -= role.bytes();
        Block(NonNull::new(base).expect("block-region: a region was just opened"))
    }

    /// Takes over blocks that other threads gave back: those of a flushed database lie with the reaper,
    /// and would lie there for ever while workers opened regions. Waits for nobody (two pools may try
    /// each other).
    #[cold]
    fn borrow(&mut self, role: Role, own: usize) -> Option<Block> {
        let others = (1..ARENAS).map(|step| (own + step) % ARENAS);
        for mut other in others.filter_map(|other| POOLS[other].try_lock()) {
            let free = &mut other.free[role.index()];
            let kept = free.len().saturating_sub(BORROW_BLOCKS);
            self.free[role.index()].extend(free.drain(kept..));
            if let Some(block) = self.free[role.index()].pop() {
                return Some(block);
            }
        }
        None
    }

    fn open_region(&mut self) {
        // What is left of the old region becomes blocks of one bucket.
        let line_bytes = Role::Buckets(0).bytes();
        while self.region_left_bytes >= line_bytes {
            let block = NonNull::new(self.region.cast()).expect("block-region: words are left in it");
            self.free[Role::Buckets(0).index()].push(Block(block));
            // SAFETY: a whole line is left in the region.
            self.region = unsafe { self.region.add(line_bytes) };
            self.region_left_bytes -= line_bytes;
        }
        let layout = Layout::from_size_align(REGION_BYTES, 64).expect("block-region: constant and valid");
        // SAFETY: the layout is constant and not empty. Zeroed memory is valid atomic words.
        let region = unsafe { System.alloc_zeroed(layout) };
        if region.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        self.region = region;
        self.region_left_bytes = REGION_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_given_back_by_another_thread_are_used_before_a_region_is_opened() {
        let role = Role::Directory;
        let mut pool = Pool { free: [const { Vec::new() }; ROLES], region: null_mut(), region_left_bytes: 0 };
        // Other tests of this process may take a few of these first.
        let blocks: Vec<Block> = (0..4 * BORROW_BLOCKS).map(|_| Block::alloc(role)).collect();
        let freed_by = alloc::thread_shard() % ARENAS;
        for block in &blocks {
            // SAFETY: allocated above, freed once, and in no table.
            unsafe { block.free(role) };
        }
        let taken = pool.take(role, (freed_by + 1) % ARENAS);
        assert_eq!(pool.region, null_mut(), "no region was opened");
        let back = &mut POOLS[freed_by].lock().free[role.index()];
        back.push(taken);
        back.append(&mut pool.free[role.index()]);
    }
}
