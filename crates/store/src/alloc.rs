//! The process's allocator: mimalloc, with every live byte counted.
//!
//! Counters are sharded by thread, so that counting never makes two workers share a cache line;
//! the sum is exact, and reading it costs `SHARDS` loads.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

const SHARDS: usize = 64;

#[repr(align(128))]
struct Shard(AtomicIsize);

static BYTES: [Shard; SHARDS] = [const { Shard(AtomicIsize::new(0)) }; SHARDS];
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // `const` and without a destructor: reading it never allocates, which an allocator must not.
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The calling thread's shard number, `0..SHARDS`; also picks its slab arena.
#[inline]
pub(crate) fn thread_shard() -> usize {
    SHARD
        .try_with(|cell| {
            let mut shard = cell.get();
            if shard == usize::MAX {
                shard = NEXT_SHARD.fetch_add(1, Relaxed) % SHARDS;
                cell.set(shard);
            }
            shard
        })
        // A thread that is being torn down still frees: any shard will do.
        .unwrap_or(0)
}

#[inline]
pub(crate) fn count(bytes: isize) {
    BYTES[thread_shard()].0.fetch_add(bytes, Relaxed);
}

/// Bytes allocated and not freed, by the whole process: heap, slabs in use and buffers.
pub fn used_bytes() -> usize {
    // A thread takes its shard before it counts: those beyond the last taken are empty.
    let taken = NEXT_SHARD.load(Relaxed).clamp(1, SHARDS);
    let total: isize = BYTES[..taken].iter().map(|shard| shard.0.load(Relaxed)).sum();
    let total = total.max(0) as usize;
    // Asked before every command where memory is bounded: the peak is written when it rises only.
    if total > PEAK_BYTES.load(Relaxed) {
        PEAK_BYTES.fetch_max(total, Relaxed);
    }
    total
}

/// The largest value [`used_bytes`] has returned.
pub fn peak_bytes() -> usize {
    used_bytes();
    PEAK_BYTES.load(Relaxed)
}

/// Forgets the peak (`CONFIG RESETSTAT`).
pub fn reset_peak() {
    PEAK_BYTES.store(0, Relaxed);
    used_bytes();
}

/// The allocator to declare with `#[global_allocator]`.
pub struct Counting;

// SAFETY: every call is handed to mimalloc unchanged; counting touches only atomics and a
// destructor-free thread local, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is mimalloc's.
        let block = unsafe { mimalloc::MiMalloc.alloc(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `block` came from `alloc` above with this layout.
        unsafe { mimalloc::MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is mimalloc's.
        let block = unsafe { mimalloc::MiMalloc.alloc_zeroed(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is mimalloc's.
        let grown = unsafe { mimalloc::MiMalloc.realloc(block, layout, new_size) };
        if !grown.is_null() {
            count(new_size as isize - layout.size() as isize);
        }
        grown
    }
}
