//! The memory of a packed sequence: one reference-counted allocation behind one word, copied by whoever writes to it
//! while it is shared.
//!
//! | offset | bytes | holds |
//! |---|---|---|
//! | 0 | 4 | references |
//! | 4 | 2 | size of the allocation, in words of 8 bytes |
//! | 6 | 10 | [`Meta`] |
//! | 16 | [`Meta::body_bytes`] | the body: data, slots and tail, as `packed.rs` describes |
//!
//! It comes from the slabs, whose classes are 8 bytes apart. A sequence without memory is one static head.
//!
//! Invariant *blob-owner*: a slot of two bytes with [`BLOB_FLAG`] set marks [`BLOB_BYTES`] of data that hold the pointer
//! of an `Arc<[u8]>`, one count of which the buffer owns; `Meta::blobs` is the number of such slots. Only this file
//! writes such pointers, and `packed.rs` moves them whole.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::sharing::{is_shared, note_parted};
use crate::slab;

/// Bytes before the body.
pub(super) const HEAD_BYTES: usize = 16;
/// Data of a blob: the address and length of its allocation.
pub(super) const BLOB_BYTES: usize = size_of::<*const [u8]>();
/// In a slot of two bytes: the item is a blob.
pub(super) const BLOB_FLAG: u16 = 0x8000;
/// More would mean a leak of clones.
const REFERENCES_MAX: u32 = u32::MAX / 2;
const WORD_BYTES: usize = 8;

/// How items are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape(u16);

impl Shape {
    /// Slots of one byte.
    pub(super) const NARROW: Shape = Shape(0x8001);
    /// Slots of two bytes.
    pub(super) const WIDE: Shape = Shape(0x8002);

    /// No slots: all items are of `item_bytes` bytes.
    pub(super) fn uniform(item_bytes: usize) -> Shape {
        debug_assert!(item_bytes < 0x8000);
        Shape(item_bytes as u16)
    }

    /// Bytes of a slot.
    #[inline]
    pub(super) fn slot_bytes(self) -> usize {
        if self.0 & 0x8000 == 0 { 0 } else { usize::from(self.0 & 3) }
    }

    /// What all items' sizes are, without slots.
    #[inline]
    pub(super) fn item_bytes(self) -> usize {
        usize::from(self.0)
    }
}

/// What the body consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) count: u16,
    pub(super) tail_bytes: u16,
    pub(super) data_bytes: u16,
    pub(super) blobs: u16,
    pub(super) shape: Shape,
}

impl Meta {
    pub(super) const EMPTY: Meta = Meta { count: 0, tail_bytes: 0, data_bytes: 0, blobs: 0, shape: Shape(0) };

    /// Where the slots begin.
    #[inline]
    pub(super) fn slots_at(&self) -> usize {
        usize::from(self.data_bytes)
    }

    /// Where the tail begins.
    #[inline]
    pub(super) fn tail_at(&self) -> usize {
        self.slots_at() + usize::from(self.count) * self.shape.slot_bytes()
    }

    /// Bytes of the body.
    #[inline]
    pub(super) fn body_bytes(&self) -> usize {
        self.tail_at() + usize::from(self.tail_bytes)
    }
}

#[repr(C, align(8))]
struct Head {
    references: AtomicU32,
    /// 0 for the static empty one, whose references are not counted.
    words: u16,
    meta: Meta,
}

const _: () = assert!(size_of::<Head>() == HEAD_BYTES);

static EMPTY: Head = Head { references: AtomicU32::new(1), words: 0, meta: Meta::EMPTY };

/// A place in a body, and bytes to make room for there, or to remove from there. Ascending, without overlap.
pub(super) type Gap = (usize, usize);

/// How much room for growth an allocation has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// None: nothing is expected to be added.
    None,
    /// A little, by the size.
    Some,
}

/// See the module's text.
pub(super) struct Buffer(NonNull<Head>);

// SAFETY: as `Arc<[u8]>`: the memory is plain bytes and counts of such `Arc`s; it is written only through `&mut Buffer`
// while its reference is the only one.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Default for Buffer {
    #[inline]
    fn default() -> Self {
        Buffer(NonNull::from(&EMPTY))
    }
}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Self {
        if self.capacity_bytes() > 0 {
            let before = self.head().references.fetch_add(1, Ordering::Relaxed);
            assert!(before < REFERENCES_MAX, "packed-references: clones are as many as nodes at most");
        }
        Buffer(self.0)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if self.capacity_bytes() == 0 || self.head().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        self.each_blob(|blob| {
            // SAFETY: *blob-owner*: the count that this buffer owned; nobody else reads the buffer any more.
            drop(unsafe { Arc::from_raw(blob) });
        });
        // SAFETY: this was the last reference.
        unsafe { self.free() };
    }
}

impl Buffer {
    /// An allocation of its own for a body of `meta`, with the bytes zero.
    pub(super) fn zeroed(meta: Meta, room: Room) -> Buffer {
        let buffer = Buffer::allocate(meta, size_for(meta.body_bytes(), room));
        // SAFETY: the allocation has room for the body, and nobody else knows it.
        unsafe { buffer.body_at(0).write_bytes(0, meta.body_bytes()) };
        buffer
    }

    /// Memory for a body of `meta`, whose bytes the caller initialises before anything else.
    fn allocate(meta: Meta, bytes: usize) -> Buffer {
        let words = bytes / WORD_BYTES;
        assert!(words <= usize::from(u16::MAX), "packed-room: a leaf splits long before");
        let head: NonNull<Head> = slab::alloc(bytes).cast();
        // SAFETY: fresh memory, 8-aligned, of at least HEAD_BYTES.
        unsafe { head.write(Head { references: AtomicU32::new(1), words: words as u16, meta }) };
        Buffer(head)
    }

    /// # Safety
    /// The allocation is not the static one, and no reference to it is used again. Its blobs are dropped or moved.
    unsafe fn free(&mut self) {
        let bytes = self.capacity_bytes();
        // SAFETY: the caller's contract; allocated by `allocate` with this size.
        unsafe { slab::free(self.0.cast(), bytes) };
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: a live allocation with an initialised head, or the static one. It is written only through `&mut self`.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn meta(&self) -> Meta {
        self.head().meta
    }

    /// Bytes of the allocation; 0 if there is none.
    #[inline]
    pub(super) fn capacity_bytes(&self) -> usize {
        usize::from(self.head().words) * WORD_BYTES
    }

    /// True if both are one allocation.
    pub(super) fn is_same(&self, other: &Buffer) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn body_at(&self, at: usize) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().wrapping_add(HEAD_BYTES + at)
    }

    /// The body.
    #[inline]
    pub(super) fn body(&self) -> &[u8] {
        // SAFETY: the body is initialised whenever a method returns, and as long as the meta says.
        unsafe { std::slice::from_raw_parts(self.body_at(0), self.meta().body_bytes()) }
    }

    /// The body, for writing: all but blobs.
    #[inline]
    pub(super) fn body_mut(&mut self) -> &mut [u8] {
        self.own();
        let bytes = self.meta().body_bytes();
        // SAFETY: as in `body`; the only reference, or (of the static one) no bytes.
        unsafe { std::slice::from_raw_parts_mut(self.body_at(0), bytes) }
    }

    #[inline]
    fn is_own(&self) -> bool {
        // Acquire: what others did with their clones came before.
        self.capacity_bytes() > 0 && self.head().references.load(Ordering::Acquire) == 1
    }

    /// True if others have references to its allocation, too.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.capacity_bytes() > 0 && !self.is_own()
    }

    /// Makes this the only reference.
    #[inline]
    fn own(&mut self) {
        if self.is_shared() {
            self.resize(size_for(self.meta().body_bytes(), Room::Some));
        }
    }

    /// Gets an allocation for `bytes` in all, body included.
    fn resize(&mut self, bytes: usize) {
        *self = self.copied([(0, 0); 3], true, self.meta(), bytes);
    }

    /// Has room for `body_bytes` of body.
    pub(super) fn reserve(&mut self, body_bytes: usize) {
        let bytes = size_for(body_bytes.max(self.meta().body_bytes()), Room::None);
        if !self.is_own() || self.capacity_bytes() < bytes {
            self.resize(bytes);
        }
    }

    /// Gives back memory if much of it is not used any more.
    #[inline]
    pub(super) fn trim(&mut self) {
        let wanted = size_for(self.meta().body_bytes(), Room::Some);
        if self.capacity_bytes() > wanted + wanted / 2 + 64 {
            self.fit(Room::Some);
        }
    }

    /// Gives back room for growth.
    pub(super) fn fit(&mut self, room: Room) {
        let bytes = size_for(self.meta().body_bytes(), room);
        if self.is_own() && bytes < self.capacity_bytes() {
            self.resize(bytes);
        }
    }

    /// The bytes with gaps opened or closed, in a new allocation that shares the blobs: in this one's place.
    fn copied(&self, gaps: [Gap; 3], opens: bool, meta: Meta, bytes: usize) -> Buffer {
        if self.is_shared() {
            note_parted(self.capacity_bytes());
        }
        let copy = Buffer::allocate(meta, bytes);
        let old_bytes = self.meta().body_bytes();
        let (mut from, mut to) = (0, 0);
        for (at, len) in gaps {
            // SAFETY: gaps ascend within the old body; the new one is as much longer or shorter as they say in all.
            unsafe { copy.body_at(to).copy_from_nonoverlapping(self.body_at(from), at - from) };
            to += at - from;
            from = at;
            if opens {
                // SAFETY: as above.
                unsafe { copy.body_at(to).write_bytes(0, len) };
                to += len;
            } else {
                from += len;
            }
        }
        // SAFETY: as above.
        unsafe { copy.body_at(to).copy_from_nonoverlapping(self.body_at(from), old_bytes - from) };
        debug_assert_eq!(to + old_bytes - from, meta.body_bytes());
        self.each_blob(|blob| {
            // SAFETY: *blob-owner*: the buffer owns a count, so that the allocation lives. The copy owns another.
            unsafe { Arc::increment_strong_count(blob) };
        });
        copy
    }

    /// Makes room for new bytes, which are zero; then the body consists of `meta`. The caller next moves and writes the
    /// slots that this concerns, without a step that can panic: until then blobs are not where their slots say.
    pub(super) fn open(&mut self, gaps: [Gap; 3], meta: Meta) -> &mut [u8] {
        let (old_bytes, bytes) = (self.meta().body_bytes(), meta.body_bytes());
        assert_eq!(bytes, old_bytes + gaps.iter().map(|gap| gap.1).sum::<usize>(), "packed: gaps add up");
        if !self.is_own() || HEAD_BYTES + bytes > self.capacity_bytes() {
            *self = self.copied(gaps, true, meta, size_for(bytes, Room::Some));
        } else {
            let (mut end, mut shift) = (old_bytes, bytes - old_bytes);
            for (at, len) in gaps.into_iter().rev() {
                if len == 0 {
                    continue;
                }
                // SAFETY: the only reference; source and destination end within the new body, which fits.
                unsafe {
                    self.body_at(at + shift).copy_from(self.body_at(at), end - at);
                    self.body_at(at + shift - len).write_bytes(0, len);
                }
                shift -= len;
                end = at;
            }
            // SAFETY: the only reference.
            unsafe { self.0.as_mut() }.meta = meta;
        }
        // SAFETY: initialised just now; the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.body_at(0), bytes) }
    }

    /// Removes bytes, without blobs among them; then the body consists of `meta`. As after [`Buffer::open`], the caller
    /// next moves the slots that this concerns.
    pub(super) fn close(&mut self, gaps: [Gap; 3], meta: Meta) -> &mut [u8] {
        let (old_bytes, bytes) = (self.meta().body_bytes(), meta.body_bytes());
        assert_eq!(old_bytes, bytes + gaps.iter().map(|gap| gap.1).sum::<usize>(), "packed: gaps add up");
        if !self.is_own() {
            *self = self.copied(gaps, false, meta, size_for(bytes, Room::Some));
        } else {
            let (mut from, mut to) = (0, 0);
            for (at, len) in gaps.into_iter().chain([(old_bytes, 0)]) {
                if to != from {
                    // SAFETY: the only reference; gaps ascend within the old body.
                    unsafe { self.body_at(to).copy_from(self.body_at(from), at - from) };
                }
                to += at - from;
                from = at + len;
            }
            // SAFETY: the only reference.
            unsafe { self.0.as_mut() }.meta = meta;
        }
        // SAFETY: initialised; the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.body_at(0), bytes) }
    }

    /// The blob whose data stand at `at` of the body.
    pub(super) fn blob(&self, at: usize) -> &[u8] {
        // SAFETY: *blob-owner*: the buffer owns a count as long as it is borrowed.
        unsafe { &*self.blob_pointer(at) }
    }

    /// Another reference to it.
    pub(super) fn share_blob(&self, at: usize) -> Arc<[u8]> {
        let blob = self.blob_pointer(at);
        // SAFETY: *blob-owner*: the count stays with the buffer, and another is taken.
        unsafe {
            Arc::increment_strong_count(blob);
            Arc::from_raw(blob)
        }
    }

    fn blob_pointer(&self, at: usize) -> *const [u8] {
        assert!(at + BLOB_BYTES <= self.meta().slots_at(), "blob-owner: its data lie in the body");
        // SAFETY: within the body; *blob-owner*: `packed.rs` passes the data of a slot marked as a blob.
        unsafe { self.body_at(at).cast::<*const [u8]>().read_unaligned() }
    }

    /// Puts a blob into data that were just made room for, at `at` of the body: the caller marks its slot.
    pub(super) fn put_blob(&mut self, at: usize, blob: Arc<[u8]>) {
        assert!(
            at + BLOB_BYTES <= self.meta().slots_at() && self.is_own(),
            "blob-owner: there is room for it"
        );
        // SAFETY: within the body; the only reference.
        unsafe { self.body_at(at).cast::<*const [u8]>().write_unaligned(Arc::into_raw(blob)) };
    }

    /// Drops the blobs of the slots `slots`, which the caller removes next.
    pub(super) fn drop_blobs(&mut self, slots: std::ops::Range<usize>) {
        self.own();
        let mut meta = self.meta();
        for slot in slots {
            if let Some(at) = self.blob_place(slot) {
                // The slot is unmarked first: whatever happens, the count is given back once.
                let flag_at = meta.slots_at() + 2 * slot + 1;
                // SAFETY: within the body; the only reference.
                unsafe {
                    *self.body_at(flag_at) &= 0x7f;
                    meta.blobs -= 1;
                    self.0.as_mut().meta = meta;
                    let blob = Arc::from_raw(self.blob_pointer(at));
                    if is_shared(&blob) {
                        note_parted(blob.len());
                    }
                }
            }
        }
    }

    /// Where the data of slot `slot` stand, if it is marked as a blob. Slots are of two bytes.
    fn blob_place(&self, slot: usize) -> Option<usize> {
        let (meta, body) = (self.meta(), self.body());
        let at = meta.slots_at() + 2 * slot;
        let word = u16::from_le_bytes([body[at], body[at + 1]]);
        (word & BLOB_FLAG != 0).then(|| usize::from(word & !BLOB_FLAG))
    }

    fn each_blob(&self, mut visit: impl FnMut(*const [u8])) {
        if self.meta().blobs > 0 {
            for slot in 0..usize::from(self.meta().count) {
                if let Some(at) = self.blob_place(slot) {
                    visit(self.blob_pointer(at));
                }
            }
        }
    }
}

/// Bytes of an allocation for a body: steps that grow with the size, so that leaves of a tree share a few classes of the
/// slabs, while a small collection costs its bytes.
fn size_for(body_bytes: usize, room: Room) -> usize {
    let bytes = HEAD_BYTES + body_bytes;
    match (bytes, room) {
        (..=256, _) | (..=512, Room::None) => bytes.next_multiple_of(8),
        (..=512, Room::Some) => (bytes + bytes / 16).next_multiple_of(16),
        (_, Room::Some) => (bytes + bytes / 16).next_multiple_of(64),
        (_, Room::None) => bytes.next_multiple_of(16),
    }
}
