//! Entry memory: size classes of 8 bytes, so that a key and its value cost their bytes and no more.
//!
//! | offset in a page | what |
//! |---|---|
//! | 0 | [`PageHeader`] |
//! | `HEADER_BYTES` | objects of one size class, back to back |
//!
//! A page is `PAGE_BYTES` large and aligned, so an object's page is its address rounded down.
//! Pages are cut from chunks; a chunk whose pages are all free goes back to the system. Every step is
//! O(1): a chunk knows its free pages by a mask, and an arena lists its chunks that have some.
//! Arenas are chosen by thread: a worker meets its own arena's lock unless it frees what another
//! worker allocated.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};

use parking_lot::Mutex;

use crate::alloc;

const PAGE_BYTES: usize = 256 * 1024;
/// Many, since each chunk costs the system allocator a page of its own.
const CHUNK_PAGES: usize = u32::BITS as usize;
const ALL_PAGES: u32 = u32::MAX;
const HEADER_BYTES: usize = 64;
const ARENAS: usize = 16;

const FINE_MAX_BYTES: usize = 2048;
const FINE_STEP_BYTES: usize = 8;
const COARSE_STEP_BYTES: usize = 128;
/// Objects larger than this come from the process's allocator.
const SLAB_MAX_BYTES: usize = 8 * 1024;
const FINE_CLASSES: usize = FINE_MAX_BYTES / FINE_STEP_BYTES;
const CLASSES: usize = FINE_CLASSES + (SLAB_MAX_BYTES - FINE_MAX_BYTES) / COARSE_STEP_BYTES;

const _: () = assert!(HEADER_BYTES >= size_of::<PageHeader>());
const _: () = assert!(PAGE_BYTES >= 8 * SLAB_MAX_BYTES);

/// Class of an object of `bytes`; `None` when it is too large for a slab.
#[inline]
fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= FINE_MAX_BYTES {
        Some(bytes.max(1).div_ceil(FINE_STEP_BYTES) - 1)
    } else if bytes <= SLAB_MAX_BYTES {
        Some(FINE_CLASSES + (bytes - FINE_MAX_BYTES).div_ceil(COARSE_STEP_BYTES) - 1)
    } else {
        None
    }
}

#[inline]
fn class_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        (class + 1) * FINE_STEP_BYTES
    } else {
        FINE_MAX_BYTES + (class - FINE_CLASSES + 1) * COARSE_STEP_BYTES
    }
}

/// Bytes that an object of `bytes` really takes: two sizes with one footprint can replace each
/// other in place.
#[inline]
pub fn footprint(bytes: usize) -> usize {
    class_of(bytes).map_or(bytes, class_bytes)
}

#[repr(C)]
struct PageHeader {
    next: *mut PageHeader,
    prev: *mut PageHeader,
    /// Freed objects, linked through their first word.
    free: *mut u8,
    chunk: *mut Chunk,
    /// Offset of the first byte never handed out.
    fresh_at: u32,
    live: u32,
    class: u16,
    arena: u16,
}

struct Chunk {
    base: *mut u8,
    /// One bit a page.
    free_pages: u32,
    next: *mut Chunk,
    prev: *mut Chunk,
}

struct Arena {
    /// Pages with room, by class; a full page is in no list and comes back with its first free.
    partial: [*mut PageHeader; CLASSES],
    /// Chunks with a free page.
    open_chunks: *mut Chunk,
}

// SAFETY: the raw pointers are owned by the arena and only followed under its mutex.
unsafe impl Send for Arena {}

static SLABS: [Mutex<Arena>; ARENAS] =
    [const { Mutex::new(Arena { partial: [null_mut(); CLASSES], open_chunks: null_mut() }) }; ARENAS];

/// Memory for an object of `bytes` (8-aligned, uninitialised).
#[inline]
pub fn alloc(bytes: usize) -> NonNull<u8> {
    match class_of(bytes) {
        Some(class) => {
            alloc::count(class_bytes(class) as isize);
            let arena = alloc::thread_shard() % ARENAS;
            SLABS[arena].lock().take(class, arena as u16)
        }
        None => {
            let layout = large_layout(bytes);
            // SAFETY: the layout is not empty: `bytes` exceeds SLAB_MAX_BYTES.
            let block = unsafe { std::alloc::alloc(layout) };
            NonNull::new(block).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
        }
    }
}

/// Gives back memory of [`alloc`].
///
/// # Safety
/// `object` came from `alloc(bytes)` with the same footprint, and nothing refers to it any more.
#[inline]
pub unsafe fn free(object: NonNull<u8>, bytes: usize) {
    match class_of(bytes) {
        Some(class) => {
            alloc::count(-(class_bytes(class) as isize));
            let page = page_of(object);
            // SAFETY: an object of a slab class lies in a live page, whose header outlives it. `arena`
            // is written once, before the page's first object is handed out, and no reference to the
            // whole header exists: this read races with nothing that happens under the lock.
            let arena = unsafe { (*page).arena } as usize;
            // SAFETY: the caller's contract, and the page belongs to that arena.
            unsafe { SLABS[arena].lock().give(page, object, class) }
        }
        // SAFETY: the caller's contract: a large object came from the allocator with this layout.
        None => unsafe { std::alloc::dealloc(object.as_ptr(), large_layout(bytes)) },
    }
}

fn large_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("entry-size: an entry is smaller than the address space")
}

fn chunk_layout() -> Layout {
    Layout::from_size_align(PAGE_BYTES * CHUNK_PAGES, PAGE_BYTES).expect("chunk-layout: constant and valid")
}

#[inline]
fn page_of(object: NonNull<u8>) -> *mut PageHeader {
    object.as_ptr().map_addr(|address| address & !(PAGE_BYTES - 1)).cast()
}

impl Arena {
    #[inline]
    fn take(&mut self, class: usize, arena: u16) -> NonNull<u8> {
        let mut page = self.partial[class];
        if page.is_null() {
            page = self.open_page(class, arena);
        }
        let bytes = class_bytes(class);
        // SAFETY: `page` is a live page of this arena, reached under its mutex; its free list holds
        // only objects of this page, and `fresh_at + bytes` stays inside the page (checked below,
        // when the page was left in the partial list).
        unsafe {
            let object = if (*page).free.is_null() {
                let object = page.cast::<u8>().add((*page).fresh_at as usize);
                (*page).fresh_at += bytes as u32;
                object
            } else {
                let object = (*page).free;
                (*page).free = object.cast::<*mut u8>().read();
                object
            };
            (*page).live += 1;
            if (*page).free.is_null() && (*page).fresh_at as usize + bytes > PAGE_BYTES {
                self.unlink(page, class);
            }
            NonNull::new_unchecked(object)
        }
    }

    /// # Safety
    /// `object` is a live object of `class` in `page`, a page of this arena.
    #[inline]
    unsafe fn give(&mut self, page: *mut PageHeader, object: NonNull<u8>, class: usize) {
        // SAFETY: the caller's contract; the header is only touched under this arena's mutex.
        unsafe {
            debug_assert_eq!((*page).class as usize, class, "slab-class: freed with another size");
            let was_full =
                (*page).free.is_null() && (*page).fresh_at as usize + class_bytes(class) > PAGE_BYTES;
            object.as_ptr().cast::<*mut u8>().write((*page).free);
            (*page).free = object.as_ptr();
            (*page).live -= 1;
            if was_full {
                self.link(page, class);
            }
            // One empty page a class is kept, so that a key set and deleted in turn costs no page.
            if (*page).live == 0 && (!(*page).next.is_null() || !(*page).prev.is_null()) {
                self.unlink(page, class);
                self.close_page(page);
            }
        }
    }

    #[cold]
    fn open_page(&mut self, class: usize, arena: u16) -> *mut PageHeader {
        if self.open_chunks.is_null() {
            self.open_chunk();
        }
        let chunk = self.open_chunks;
        // SAFETY: a listed chunk is live and has a free page: the mask is not 0, and the page at its
        // lowest bit is aligned, inside the chunk and in no use.
        unsafe {
            let index = (*chunk).free_pages.trailing_zeros() as usize;
            (*chunk).free_pages &= !(1 << index);
            if (*chunk).free_pages == 0 {
                self.unlink_chunk(chunk);
            }
            let page: *mut PageHeader = (*chunk).base.add(index * PAGE_BYTES).cast();
            page.write(PageHeader {
                next: null_mut(),
                prev: null_mut(),
                free: null_mut(),
                chunk,
                fresh_at: HEADER_BYTES as u32,
                live: 0,
                class: class as u16,
                arena,
            });
            self.link(page, class);
            page
        }
    }

    fn open_chunk(&mut self) {
        let layout = chunk_layout();
        // SAFETY: the layout is constant and not empty.
        let base = unsafe { System.alloc(layout) };
        if base.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        let chunk = Chunk { base, free_pages: ALL_PAGES, next: null_mut(), prev: null_mut() };
        // SAFETY: a new chunk, in no list.
        unsafe { self.link_chunk(Box::into_raw(Box::new(chunk))) };
    }

    /// # Safety
    /// `page` is an unlinked page of this arena without live objects.
    #[cold]
    unsafe fn close_page(&mut self, page: *mut PageHeader) {
        // SAFETY: the caller's contract. A chunk lives until its last page is closed here, and is listed
        // exactly while it has a free page. `page` is not touched once its chunk may be gone.
        unsafe {
            let chunk = (*page).chunk;
            let index = (page.addr() - (*chunk).base.addr()) / PAGE_BYTES;
            if (*chunk).free_pages == 0 {
                self.link_chunk(chunk);
            }
            debug_assert!((*chunk).free_pages & 1 << index == 0, "slab-page: closed twice");
            (*chunk).free_pages |= 1 << index;
            if (*chunk).free_pages == ALL_PAGES {
                self.unlink_chunk(chunk);
                System.dealloc((*chunk).base, chunk_layout());
                drop(Box::from_raw(chunk));
            }
        }
    }

    /// # Safety
    /// `chunk` is a live chunk of this arena, in no list.
    unsafe fn link_chunk(&mut self, chunk: *mut Chunk) {
        // SAFETY: the caller's contract; the head is null or a listed chunk.
        unsafe {
            (*chunk).next = self.open_chunks;
            (*chunk).prev = null_mut();
            if let Some(head) = self.open_chunks.as_mut() {
                head.prev = chunk;
            }
        }
        self.open_chunks = chunk;
    }

    /// # Safety
    /// `chunk` is in this arena's list.
    unsafe fn unlink_chunk(&mut self, chunk: *mut Chunk) {
        // SAFETY: the caller's contract: both neighbours are null or listed chunks.
        unsafe {
            let (next, prev) = ((*chunk).next, (*chunk).prev);
            match prev.as_mut() {
                Some(prev) => prev.next = next,
                None => self.open_chunks = next,
            }
            if let Some(next) = next.as_mut() {
                next.prev = prev;
            }
        }
    }

    /// # Safety
    /// `page` is a page of this arena, in no list.
    unsafe fn link(&mut self, page: *mut PageHeader, class: usize) {
        let head = self.partial[class];
        // SAFETY: the caller's contract; `head` is null or a page of this arena.
        unsafe {
            (*page).next = head;
            (*page).prev = null_mut();
            if !head.is_null() {
                (*head).prev = page;
            }
        }
        self.partial[class] = page;
    }

    /// # Safety
    /// `page` is in this arena's partial list of `class`.
    unsafe fn unlink(&mut self, page: *mut PageHeader, class: usize) {
        // SAFETY: the caller's contract: both neighbours are null or pages of the same list.
        unsafe {
            let (next, prev) = ((*page).next, (*page).prev);
            if prev.is_null() {
                self.partial[class] = next;
            } else {
                (*prev).next = next;
            }
            if !next.is_null() {
                (*next).prev = prev;
            }
            (*page).next = null_mut();
            (*page).prev = null_mut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listed chunks and their free pages, checked on the way.
    fn free_pages(arena: &Arena) -> Vec<u32> {
        let (mut masks, mut chunk, mut prev) = (Vec::new(), arena.open_chunks, null_mut());
        // SAFETY: listed chunks are live.
        while let Some(here) = unsafe { chunk.as_ref() } {
            assert_eq!(here.prev, prev);
            assert_ne!(here.free_pages, 0);
            masks.push(here.free_pages);
            (prev, chunk) = (chunk, here.next);
        }
        masks
    }

    #[test]
    fn chunks_go_back_when_all_their_pages_are_free() {
        // The largest class: few objects a page, so that several chunks fill soon.
        let class = CLASSES - 1;
        let a_page = (PAGE_BYTES - HEADER_BYTES) / class_bytes(class);
        let mut arena = Arena { partial: [null_mut(); CLASSES], open_chunks: null_mut() };
        let mut rng = fastrand::Rng::with_seed(5);
        let mut live: Vec<NonNull<u8>> = Vec::new();
        let chunks = if cfg!(miri) { 2 } else { 4 };
        for _ in 0..a_page * CHUNK_PAGES * chunks - 1 {
            live.push(arena.take(class, 0));
        }
        assert_eq!(free_pages(&arena), []);
        rng.shuffle(&mut live);
        let last = live.pop().expect("many objects");
        for object in live {
            // SAFETY: a live object of that class and arena, freed once.
            unsafe { arena.give(page_of(object), object, class) };
            free_pages(&arena);
        }
        let masks = free_pages(&arena);
        assert_eq!(masks.iter().map(|mask| mask.count_zeros()).sum::<u32>(), masks.len() as u32);
        assert!(masks.len() <= 2, "the last object's page and one empty page stay: {masks:x?}");
        // SAFETY: as above.
        unsafe {
            let page = page_of(last);
            arena.give(page, last, class);
            let kept = arena.partial[class];
            arena.unlink(kept, class);
            arena.close_page(kept);
        }
        assert_eq!(free_pages(&arena), []);
    }

    #[test]
    fn classes_cover_their_sizes() {
        for bytes in 1..=SLAB_MAX_BYTES {
            let class = class_of(bytes).expect("a slab size");
            assert!(class_bytes(class) >= bytes, "{bytes}");
            assert_eq!(class_of(class_bytes(class)), Some(class), "{bytes}");
        }
        assert_eq!(footprint(120), 120);
        assert_eq!(footprint(SLAB_MAX_BYTES + 1), SLAB_MAX_BYTES + 1);
    }

    #[test]
    fn objects_keep_their_bytes_while_others_come_and_go() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
        let steps = if cfg!(miri) { 500 } else { 50_000 };
        for step in 0..steps {
            if live.is_empty() || rng.u8(..) < 140 {
                let bytes = if rng.u8(..) < 8 { rng.usize(1..20_000) } else { rng.usize(1..300) };
                let object = alloc(bytes);
                let fill = step as u8;
                // SAFETY: freshly allocated for `bytes`.
                unsafe { object.as_ptr().write_bytes(fill, bytes) };
                live.push((object, bytes, fill));
            } else {
                let (object, bytes, fill) = live.swap_remove(rng.usize(..live.len()));
                // SAFETY: live until the `free` below.
                let content = unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) };
                assert!(content.iter().all(|byte| *byte == fill));
                // SAFETY: allocated with this size, freed once.
                unsafe { free(object, bytes) };
            }
        }
        for (object, bytes, _) in live {
            // SAFETY: allocated with this size, freed once.
            unsafe { free(object, bytes) };
        }
    }
}
