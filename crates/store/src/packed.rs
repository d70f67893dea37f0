//! A packed sequence of byte strings: the body of every small collection and of every tree leaf.
//!
//! # Format
//! One allocation (`packed/buffer.rs`), shared by clones until one is written to. Its body:
//!
//! | bytes | holds |
//! |---|---|
//! | D | the items' bytes, one after the other |
//! | W * count | a slot for each item: where its bytes start |
//! | T | the tail: what the owner keeps beside the items, of the same size for each of its entries |
//!
//! W is 0 as long as all items are equally long, as ids and hashes are; 1 while D is at most 255; else 2. An item ends
//! where the next one starts.
//!
//! A blob is an item too long to copy whenever its leaf is copied: its data are a reference to a shared allocation, and
//! bit 15 of its slot is set. There are blobs only where W is 2.
//!
//! Invariants: slots never decrease (bit 15 aside); D <= 32,767.

mod buffer;
mod text;

use std::ops::Range;
use std::sync::Arc;

use buffer::{BLOB_BYTES, BLOB_FLAG, Buffer, Meta, Room, Shape};

pub(crate) use text::Decimal;
pub use text::{Bytes, canonical_integer};

/// Longest item kept in the buffer, in bytes. Longer ones become blobs.
pub const INLINE_BYTES_MAX: usize = 1024;
/// What a blob counts for in [`Packed::fill_bytes`] beyond its slot and data: the bookkeeping of its allocation.
const BLOB_FILL_BYTES: usize = 46;
/// Reference counts and the allocator's rounding, for each blob.
const BLOB_HEAP_BYTES: usize = 32;
const DATA_BYTES_MAX: usize = 0x7fff;
const NARROW_DATA_BYTES_MAX: usize = 0xff;

/// A sequence of byte strings in one buffer. `Clone` is O(1); a writer copies a shared buffer. See the module's text for
/// the format.
#[derive(Clone, Default)]
pub struct Packed(Buffer);

/// An item on its way into a sequence.
enum Piece<'a> {
    Inline(&'a [u8]),
    Blob(Arc<[u8]>),
}

impl<'a> Piece<'a> {
    /// A blob if it is long, or does not fit beside `data_bytes` of others, which then count it, too.
    fn new(item: &'a [u8], data_bytes: &mut usize) -> Piece<'a> {
        let is_inline = item.len() <= INLINE_BYTES_MAX && *data_bytes + item.len() <= DATA_BYTES_MAX;
        let piece = if is_inline { Piece::Inline(item) } else { Piece::Blob(Arc::from(item)) };
        *data_bytes += piece.data_bytes();
        piece
    }

    fn data_bytes(&self) -> usize {
        match self {
            Piece::Inline(bytes) => bytes.len(),
            Piece::Blob(_) => BLOB_BYTES,
        }
    }

    fn is_blob(&self) -> bool {
        matches!(self, Piece::Blob(_))
    }
}

/// Where an item's data are, from the start of the body, and whether they are a blob's.
struct Place {
    start: usize,
    end: usize,
    is_blob: bool,
}

impl Packed {
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.0.meta().count)
    }

    /// What this sequence weighs when deciding whether a leaf is full: at least a byte for each item.
    pub fn fill_bytes(&self) -> usize {
        let meta = self.0.meta();
        let slot_bytes = meta.shape.slot_bytes().max(1);
        let slots_bytes = slot_bytes * usize::from(meta.count);
        meta.slots_at()
            + slots_bytes
            + usize::from(meta.tail_bytes)
            + BLOB_FILL_BYTES * usize::from(meta.blobs)
    }

    /// Bytes of memory behind this value, blobs included.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        if self.0.meta().blobs > 0 { self.heap_bytes_with_blobs() } else { self.0.capacity_bytes() }
    }

    fn heap_bytes_with_blobs(&self) -> usize {
        let places = (0..self.len()).map(|index| self.place(index)).filter(|place| place.is_blob);
        let blobs: usize = places.map(|place| self.0.blob(place.start).len() + BLOB_HEAP_BYTES).sum();
        self.0.capacity_bytes() + blobs
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Packed) -> bool {
        self.0.is_same(&other.0)
    }

    /// True if there is another clone of it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// The item at `index`. Panics when there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        assert!(index < self.len(), "packed: item {index} of {}", self.len());
        let place = self.place(index);
        if place.is_blob { self.0.blob(place.start) } else { &self.0.body()[place.start..place.end] }
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The first index at or after `from`, in steps of `stride`, whose item equals `wanted`.
    pub fn find(&self, wanted: &[u8], from: usize, stride: usize) -> Option<usize> {
        let shape = self.0.meta().shape;
        if shape.slot_bytes() == 0 && wanted.len() != shape.item_bytes() {
            return None;
        }
        if shape.slot_bytes() == 0 && !wanted.is_empty() {
            let items = self.0.body()[..self.0.meta().slots_at()].chunks_exact(wanted.len()).enumerate();
            return items
                .skip(from)
                .step_by(stride)
                .find(|(_, item)| *item == wanted)
                .map(|(index, _)| index);
        }
        let meta = self.0.meta();
        let (data, slots) = self.0.body()[..meta.tail_at()].split_at(meta.slots_at());
        match shape {
            _ if meta.blobs > 0 => {
                (from..self.len()).step_by(stride).find(|&index| self.get(index) == wanted)
            }
            Shape::NARROW => find_by_slots(data, wanted, (from, stride), meta.count.into(), |index| {
                usize::from(slots[index])
            }),
            Shape::WIDE => find_by_slots(data, wanted, (from, stride), meta.count.into(), |index| {
                usize::from(u16::from_le_bytes([slots[2 * index], slots[2 * index + 1]]))
            }),
            _ => (from < self.len()).then_some(from),
        }
    }

    /// What the owner keeps beside the items.
    #[inline]
    pub fn tail(&self) -> &[u8] {
        &self.0.body()[self.0.meta().tail_at()..]
    }

    /// Replaces the whole tail by one of another size.
    pub fn set_tail(&mut self, tail: &[u8]) {
        let tail_bytes = usize::from(self.0.meta().tail_bytes);
        let end = self.len();
        self.remove(end..end, 0..tail_bytes);
        self.insert_pieces::<0>(end, 0, tail, []);
    }

    /// Appends an item.
    pub fn push(&mut self, item: &[u8]) {
        self.insert(self.len(), item);
    }

    /// Inserts `item` before the item at `index`, or at the end. Panics when `index` is past the end.
    pub fn insert(&mut self, index: usize, item: &[u8]) {
        self.insert_all(index, [item], &[]);
    }

    /// Inserts the items of one entry before the item at `index`, a multiple of their number, or at the end, and the
    /// entry's part of the tail, which is equally long for all entries.
    #[inline]
    pub fn insert_all<const S: usize>(&mut self, index: usize, items: [&[u8]; S], tail: &[u8]) {
        let mut data_bytes = usize::from(self.0.meta().data_bytes);
        let pieces = items.map(|item| Piece::new(item, &mut data_bytes));
        self.insert_pieces(index, index / S * tail.len(), tail, pieces);
    }

    /// Appends entry `entry` of `S` items of `other`, sharing blobs.
    pub(crate) fn push_from<const S: usize>(&mut self, other: &Packed, entry: usize, tail: &[u8]) {
        let mut data_bytes = usize::from(self.0.meta().data_bytes);
        let pieces = std::array::from_fn::<_, S, _>(|i| {
            let place = other.place(entry * S + i);
            if place.is_blob {
                Piece::Blob(other.0.share_blob(place.start))
            } else {
                Piece::new(&other.0.body()[place.start..place.end], &mut data_bytes)
            }
        });
        let tail_at = self.tail().len();
        self.insert_pieces(self.len(), tail_at, tail, pieces);
    }

    fn insert_pieces<const K: usize>(
        &mut self,
        index: usize,
        tail_at: usize,
        tail: &[u8],
        pieces: [Piece<'_>; K],
    ) {
        let count = self.len();
        assert!(index <= count, "packed: insert at {index} of {count}");
        assert!(count + K <= usize::from(u16::MAX), "packed: a leaf splits long before");
        let added = pieces.iter().map(Piece::data_bytes).sum();
        assert!(self.tail().len() + tail.len() <= usize::from(u16::MAX), "packed: a leaf splits long before");
        let shape = self.shape_for(&pieces, added);
        if count > 0 && shape != self.0.meta().shape {
            self.reshape(shape);
        }
        let old = Meta { shape, ..self.0.meta() };
        let (slot_bytes, slots_at) = (old.shape.slot_bytes(), old.slots_at());
        let start = self.start_of(index);
        let data_bytes = usize::from(old.data_bytes) + added;
        assert!(data_bytes <= DATA_BYTES_MAX, "packed: a leaf splits long before");
        let meta = Meta {
            count: (count + K) as u16,
            tail_bytes: old.tail_bytes + tail.len() as u16,
            data_bytes: data_bytes as u16,
            blobs: old.blobs + pieces.iter().filter(|piece| piece.is_blob()).count() as u16,
            shape: old.shape,
        };
        let slots_in = slots_at + slot_bytes * index;
        let tail_in = old.tail_at() + tail_at;
        let gaps = [(start, added), (slots_in, slot_bytes * K), (tail_in, tail.len())];
        let body = self.0.open(gaps, meta);
        let tail_in = meta.tail_at() + tail_at;
        body[tail_in..tail_in + tail.len()].copy_from_slice(tail);
        let (mut at, mut slot_at) = (start, slots_in + added);
        shift_slots(&mut body[slot_at + slot_bytes * K..meta.tail_at()], slot_bytes, added as u16);
        let mut blobs = [const { None }; K];
        for (blob, piece) in blobs.iter_mut().zip(pieces) {
            let slot = at as u16 | if piece.is_blob() { BLOB_FLAG } else { 0 };
            body[slot_at..slot_at + slot_bytes].copy_from_slice(&slot.to_le_bytes()[..slot_bytes]);
            slot_at += slot_bytes;
            let end = at + piece.data_bytes();
            match piece {
                Piece::Inline(bytes) => body[at..end].copy_from_slice(bytes),
                Piece::Blob(bytes) => *blob = Some((at, bytes)),
            }
            at = end;
        }
        for (at, blob) in blobs.into_iter().flatten() {
            self.0.put_blob(at, blob);
        }
    }

    /// The narrowest shape that can take the pieces, too.
    #[inline]
    fn shape_for(&self, pieces: &[Piece<'_>], added: usize) -> Shape {
        let meta = self.0.meta();
        let Some(first) = pieces.first() else { return meta.shape };
        let item_bytes = if meta.count == 0 { first.data_bytes() } else { meta.shape.item_bytes() };
        let is_plain = meta.blobs == 0 && !pieces.iter().any(Piece::is_blob);
        let is_uniform = (meta.count == 0 || meta.shape.slot_bytes() == 0)
            && pieces.iter().all(|piece| piece.data_bytes() == item_bytes);
        let may_be_narrow = (meta.count == 0 || meta.shape != Shape::WIDE)
            && usize::from(meta.data_bytes) + added <= NARROW_DATA_BYTES_MAX;
        match is_plain {
            true if is_uniform => Shape::uniform(item_bytes),
            true if may_be_narrow => Shape::NARROW,
            _ => Shape::WIDE,
        }
    }

    /// Changes to a wider shape. There are no blobs yet.
    #[cold]
    fn reshape(&mut self, shape: Shape) {
        let old = self.0.meta();
        debug_assert_eq!(old.blobs, 0, "packed: blobs have the widest slots");
        let meta = Meta { shape, ..old };
        let mut wider = Buffer::zeroed(meta, Room::Some);
        let body = wider.body_mut();
        body[..old.slots_at()].copy_from_slice(&self.0.body()[..old.slots_at()]);
        body[meta.tail_at()..].copy_from_slice(self.tail());
        let slot_bytes = shape.slot_bytes();
        let mut slot_at = old.slots_at();
        for index in 0..self.len() {
            let start = self.place(index).start as u16;
            body[slot_at..slot_at + slot_bytes].copy_from_slice(&start.to_le_bytes()[..slot_bytes]);
            slot_at += slot_bytes;
        }
        self.0 = wider;
    }

    /// Replaces the item at `index`. Panics when there is none.
    pub fn set(&mut self, index: usize, item: &[u8]) {
        assert!(index < self.len(), "packed: set {index} of {}", self.len());
        let place = self.place(index);
        if !place.is_blob && place.end - place.start == item.len() {
            self.0.body_mut()[place.start..place.end].copy_from_slice(item);
        } else {
            self.remove(index..index + 1, 0..0);
            self.insert(index, item);
        }
    }

    /// Removes the items of `range`, and the bytes `tail` of the tail. Panics when they reach past the ends.
    pub fn remove(&mut self, range: Range<usize>, tail: Range<usize>) {
        let count = self.len();
        assert!(range.start <= range.end && range.end <= count, "packed: remove {range:?} of {count}");
        assert!(
            tail.start <= tail.end && tail.end <= self.tail().len(),
            "packed: remove {tail:?} of the tail"
        );
        if range.is_empty() && tail.is_empty() {
            return;
        }
        if self.0.meta().blobs > 0 {
            self.0.drop_blobs(range.clone());
        }
        let old = self.0.meta();
        let (low, high) = (self.start_of(range.start), self.start_of(range.end));
        let (cut, slot_bytes) = (high - low, old.shape.slot_bytes());
        let meta = Meta {
            count: old.count - range.len() as u16,
            tail_bytes: old.tail_bytes - tail.len() as u16,
            data_bytes: old.data_bytes - cut as u16,
            ..old
        };
        let slots = (old.slots_at() + slot_bytes * range.start, slot_bytes * range.len());
        let later_at = meta.slots_at() + slot_bytes * range.start;
        let body = self.0.close([(low, cut), slots, (old.tail_at() + tail.start, tail.len())], meta);
        shift_slots(&mut body[later_at..meta.tail_at()], slot_bytes, (cut as u16).wrapping_neg());
        self.0.trim();
    }

    /// Keeps the items before `index` and the tail before `tail_at`, and returns the others.
    pub fn split_off(&mut self, index: usize, tail_at: usize) -> Packed {
        let (count, tail_bytes) = (self.len(), self.tail().len());
        assert!(index <= count && tail_at <= tail_bytes, "packed: split at {index} of {count}");
        // The clone shares the buffer: each side then copies its part.
        let mut right = self.clone();
        right.remove(0..index, 0..tail_at);
        self.remove(index..count, tail_at..tail_bytes);
        self.0.fit(Room::Some);
        right
    }

    /// Appends all items of `right`, and its tail.
    pub fn append(&mut self, right: &Packed) {
        self.reserve(right.0.meta().body_bytes());
        for index in 0..right.len() {
            self.push_from::<1>(right, index, &[]);
        }
        self.insert_pieces::<0>(self.len(), self.tail().len(), right.tail(), []);
    }

    /// Makes room for `bytes` more bytes, slots and tail included.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.0.reserve(self.0.meta().body_bytes() + bytes);
    }

    /// Gives back memory reserved for growth.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.0.fit(Room::None);
    }

    /// Gives back memory reserved for more growth than usual.
    pub(crate) fn shrink(&mut self) {
        self.0.fit(Room::Some);
    }

    /// Where item `index` starts in the body; where the items end, for an index at the end.
    #[inline]
    fn start_of(&self, index: usize) -> usize {
        if index < self.len() { self.place(index).start } else { self.0.meta().slots_at() }
    }

    #[inline]
    fn place(&self, index: usize) -> Place {
        let meta = self.0.meta();
        let slots_at = meta.slots_at();
        let slot_bytes = meta.shape.slot_bytes();
        if slot_bytes == 0 {
            let start = index * meta.shape.item_bytes();
            return Place { start, end: start + meta.shape.item_bytes(), is_blob: false };
        }
        let slots = &self.0.body()[slots_at..];
        let slot = |index: usize| match slot_bytes {
            1 => u16::from(slots[index]),
            _ => u16::from_le_bytes([slots[2 * index], slots[2 * index + 1]]),
        };
        let first = slot(index);
        let end = if index + 1 < usize::from(meta.count) {
            usize::from(slot(index + 1) & !BLOB_FLAG)
        } else {
            slots_at
        };
        let start = usize::from(first & !BLOB_FLAG);
        Place { start, end, is_blob: first & BLOB_FLAG != 0 }
    }
}

/// The first item from `from` on in steps of `stride` that equals `wanted`. Lengths first: of most items nothing more is
/// looked at.
#[inline]
fn find_by_slots(
    data: &[u8],
    wanted: &[u8],
    (from, stride): (usize, usize),
    count: usize,
    slot: impl Fn(usize) -> usize,
) -> Option<usize> {
    let mut index = from;
    while index < count {
        let start = slot(index);
        let end = if index + 1 < count { slot(index + 1) } else { data.len() };
        if end - start == wanted.len() && data[start..end] == *wanted {
            return Some(index);
        }
        index += stride;
    }
    None
}

/// Adds `by`, modulo 2^16, to every slot in `slots`. Blob flags survive since offsets stay below bit 15.
fn shift_slots(slots: &mut [u8], slot_bytes: usize, by: u16) {
    if by == 0 {
        return;
    }
    if slot_bytes == 1 {
        slots.iter_mut().for_each(|slot| *slot = slot.wrapping_add(by as u8));
        return;
    }
    for slot in slots.chunks_exact_mut(2) {
        let moved = u16::from_le_bytes([slot[0], slot[1]]).wrapping_add(by);
        slot.copy_from_slice(&moved.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sequence is to hold.
    #[derive(Clone, Default)]
    struct Model {
        items: Vec<Vec<u8>>,
        tail: Vec<u8>,
    }

    fn check(packed: &Packed, model: &Model) {
        assert_eq!(packed.len(), model.items.len());
        assert_eq!(packed.iter().collect::<Vec<_>>(), model.items);
        assert_eq!(packed.tail(), model.tail);
        let meta = packed.0.meta();
        let blobs = model.items.iter().filter(|item| item.len() > INLINE_BYTES_MAX).count();
        assert!(usize::from(meta.blobs) >= blobs && (meta.blobs == 0 || meta.shape == Shape::WIDE));
        assert!(packed.heap_bytes() >= meta.body_bytes() || model.items.is_empty());
        for item in model.items.iter().take(3) {
            let found = model.items.iter().position(|other| other == item);
            assert_eq!(packed.find(item, 0, 1), found);
        }
    }

    /// Random edits with items as `item` makes them, on a few clones at a time.
    fn run(seed: u64, item: impl Fn(&mut fastrand::Rng) -> Vec<u8>) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut pairs = vec![(Packed::default(), Model::default())];
        for _ in 0..if cfg!(miri) { 150 } else { 4_000 } {
            let at = rng.usize(..pairs.len());
            let (mut packed, mut model) = pairs[at].clone();
            let len = model.items.len();
            match rng.usize(..12) {
                0..6 => {
                    let (index, new, tag) = (rng.usize(..=len), item(&mut rng), rng.u8(..));
                    packed.insert_all(index, [&new], &[tag]);
                    model.items.insert(index, new);
                    model.tail.insert(index, tag);
                }
                6 if len > 0 => {
                    let (index, new) = (rng.usize(..len), item(&mut rng));
                    packed.set(index, &new);
                    model.items[index] = new;
                }
                7 => {
                    let start = rng.usize(..=len);
                    let end = rng.usize(start..=len);
                    packed.remove(start..end, start..end);
                    model.items.drain(start..end);
                    model.tail.drain(start..end);
                }
                8 => {
                    let index = rng.usize(..=len);
                    let right = packed.split_off(index, index);
                    let other =
                        Model { items: model.items.split_off(index), tail: model.tail.split_off(index) };
                    check(&right, &other);
                    pairs.push((right, other));
                }
                9 => {
                    let (right, other) = &pairs[rng.usize(..pairs.len())];
                    let all = other.items.iter().chain(&model.items);
                    if all.map(|item| item.len() + 1).sum::<usize>() < 20_000 {
                        packed.append(right);
                        model.items.extend(other.items.iter().cloned());
                        model.tail.extend(&other.tail);
                    }
                }
                10 => packed.shrink_to_fit(),
                _ => {
                    model.tail.iter_mut().for_each(|byte| *byte ^= 1);
                    packed.set_tail(&model.tail);
                }
            }
            check(&packed, &model);
            check(&pairs[at].0, &pairs[at].1);
            // In place of what it came from, or beside it: so both owned and shared buffers are edited.
            if rng.bool() && pairs.len() < 6 {
                pairs.push((packed, model));
            } else {
                pairs[at] = (packed, model);
            }
            pairs.truncate(6);
        }
    }

    #[test]
    fn sequences_are_what_was_put_into_them() {
        let text = |rng: &mut fastrand::Rng, len: usize| (0..len).map(|_| rng.u8(b'a'..b'e')).collect();
        run(1, |rng| text(rng, 16));
        run(2, |rng| {
            let len = if rng.u8(..50) == 0 { 7 } else { 8 };
            text(rng, len)
        });
        run(3, |rng| {
            let len = rng.usize(..40);
            text(rng, len)
        });
        run(4, |rng| {
            let len = if rng.u8(..8) == 0 { INLINE_BYTES_MAX + rng.usize(..20) } else { rng.usize(..3) };
            text(rng, len)
        });
        run(5, |_| Vec::new());
    }

    #[test]
    fn equal_lengths_cost_no_slots_and_few_bytes_narrow_ones() {
        let mut packed = Packed::default();
        for _ in 0..10 {
            packed.push(b"sixteen bytes...");
        }
        assert_eq!((packed.fill_bytes(), packed.heap_bytes()), (170, 176));
        packed.push(b"other");
        assert_eq!(packed.0.meta().shape, Shape::NARROW);
        for _ in 0..10 {
            packed.push(b"sixteen bytes...");
        }
        assert_eq!(packed.0.meta().shape, Shape::WIDE);
    }

    #[test]
    fn blobs_are_shared_and_freed_with_their_last_owner() {
        let long = [b'x'; INLINE_BYTES_MAX + 1];
        let mut packed = Packed::default();
        packed.push(b"short");
        packed.push(&long);
        let clone = packed.clone();
        packed.push(&long);
        let mut other = Packed::default();
        other.push_from::<1>(&packed, 1, &[]);
        assert!(std::ptr::eq(other.get(0), clone.get(1)), "one allocation");
        packed.remove(1..3, 0..0);
        drop(clone);
        assert_eq!((packed.len(), other.get(0)), (1, &long[..]));
    }
}
