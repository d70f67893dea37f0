//! A packed sequence of byte strings: the body of every small collection and of every tree leaf.
//!
//! # Format
//! One buffer of `D + 2 * count` bytes. An item's length is not stored: it ends where the next one starts.
//!
//! | offset | bytes | holds |
//! |---|---|---|
//! | 0 | D | the items' bytes, one after the other |
//! | D + 2 * i | 2 | slot of item `i`, little-endian: bits 0-14 where its bytes start, bit 15 set if it is a blob |
//!
//! A blob is an item too long to copy whenever its leaf is copied. It has no bytes in the buffer; it stands in a
//! side list of shared allocations, which keeps the items' order.
//!
//! Invariants: slots never decrease (bit 15 aside); D <= 32,767; the k-th slot with bit 15 set owns the k-th blob.

use std::ops::Deref;
use std::sync::Arc;

/// Longest item kept in the buffer, in bytes. Longer ones become blobs.
pub const INLINE_BYTES_MAX: usize = 1024;
/// What a blob counts for in [`Packed::fill_bytes`]: its slot, its handle and the bookkeeping of its allocation.
const BLOB_FILL_BYTES: usize = 64;
const BLOB_FLAG: u16 = 0x8000;
const OFFSET_MASK: u16 = 0x7fff;
const SLOT_BYTES: usize = 2;

/// A byte string handed out by a collection: a slice of it, or the text of an integer that is not stored as text.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Slice(&'a [u8]),
    Decimal(Decimal),
}

impl<'a> Bytes<'a> {
    pub(crate) fn slice(slice: &'a [u8]) -> Self {
        Bytes(Repr::Slice(slice))
    }

    pub(crate) fn integer(value: i64) -> Self {
        Bytes(Repr::Decimal(Decimal::new(value)))
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Slice(slice) => slice,
            Repr::Decimal(decimal) => decimal.as_slice(),
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl PartialEq<[u8]> for Bytes<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

/// An integer's decimal text, held in place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Decimal {
    text: [u8; 20],
    len: u8,
}

impl Decimal {
    pub(crate) fn new(value: i64) -> Self {
        let mut reversed = [0u8; 20];
        let mut digits = 0;
        let mut rest = value.unsigned_abs();
        loop {
            reversed[digits] = b'0' + (rest % 10) as u8;
            rest /= 10;
            digits += 1;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            reversed[digits] = b'-';
            digits += 1;
        }
        let mut decimal = Decimal { text: [0; 20], len: digits as u8 };
        for (to, from) in decimal.text.iter_mut().zip(reversed[..digits].iter().rev()) {
            *to = *from;
        }
        decimal
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }
}

/// The integer that `text` is the one canonical decimal form of: no sign but `-`, no leading zero, within 64 bits.
pub fn canonical_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// A sequence of byte strings in one buffer. See the module's text for its format.
#[derive(Clone, Default)]
pub struct Packed {
    buffer: Vec<u8>,
    count: u32,
    blobs: Option<Box<Blobs>>,
}

#[derive(Clone, Default)]
struct Blobs {
    items: Vec<Arc<[u8]>>,
    bytes: usize,
}

impl Packed {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// What this sequence weighs when deciding whether a leaf is full: the buffer, and a token for each blob.
    pub fn fill_bytes(&self) -> usize {
        self.buffer.len() + self.blobs.as_ref().map_or(0, |blobs| blobs.items.len() * BLOB_FILL_BYTES)
    }

    /// Bytes of memory behind this value, blobs included.
    pub fn heap_bytes(&self) -> usize {
        let blob_bytes = self.blobs.as_ref().map_or(0, |blobs| blobs.bytes + blobs.items.len() * 32 + 32);
        self.buffer.capacity() + blob_bytes
    }

    /// The item at `index`. Panics when there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        assert!(index < self.len(), "packed: item {index} of {}", self.len());
        let data_len = self.data_len();
        let (start, end) = self.bounds(index, data_len);
        if start & usize::from(BLOB_FLAG) == 0 { &self.buffer[start..end] } else { self.blob(index) }
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The first index at or after `from`, in steps of `stride`, whose item equals `wanted`.
    pub fn find(&self, wanted: &[u8], from: usize, stride: usize) -> Option<usize> {
        let data_len = self.data_len();
        let count = self.len();
        let mut index = from;
        while index < count {
            let (start, end) = self.bounds(index, data_len);
            let equal = if start & usize::from(BLOB_FLAG) == 0 {
                end - start == wanted.len() && self.buffer[start..end] == *wanted
            } else {
                self.blob(index) == wanted
            };
            if equal {
                return Some(index);
            }
            index += stride;
        }
        None
    }

    /// Appends an item.
    pub fn push(&mut self, item: &[u8]) {
        self.insert(self.len(), item);
    }

    /// Inserts `item` before the item at `index`, or at the end. Panics when `index` is past the end.
    pub fn insert(&mut self, index: usize, item: &[u8]) {
        let count = self.len();
        assert!(index <= count, "packed: insert at {index} of {count}");
        let data_len = self.data_len();
        let inline = item.len() <= INLINE_BYTES_MAX && data_len + item.len() <= usize::from(OFFSET_MASK);
        let added = if inline { item.len() } else { 0 };
        let start = self.offset(index, data_len);
        if !inline {
            let rank = self.blob_rank(index);
            let blobs = self.blobs.get_or_insert_default();
            blobs.items.insert(rank, Arc::from(item));
            blobs.bytes += item.len();
        }
        let old_len = self.buffer.len();
        self.grow(added + SLOT_BYTES);
        self.buffer.resize(old_len + added + SLOT_BYTES, 0);
        let slot_at = data_len + SLOT_BYTES * index;
        self.buffer.copy_within(slot_at..old_len, slot_at + added + SLOT_BYTES);
        self.buffer.copy_within(start..slot_at, start + added);
        self.buffer[start..start + added].copy_from_slice(if inline { item } else { &[] });
        let slot = start as u16 | if inline { 0 } else { BLOB_FLAG };
        let slot_at = slot_at + added;
        self.buffer[slot_at..slot_at + SLOT_BYTES].copy_from_slice(&slot.to_le_bytes());
        self.count += 1;
        shift_slots(&mut self.buffer[slot_at + SLOT_BYTES..], added as u16);
    }

    /// Replaces the item at `index`. Panics when there is none.
    pub fn set(&mut self, index: usize, item: &[u8]) {
        assert!(index < self.len(), "packed: set {index} of {}", self.len());
        let data_len = self.data_len();
        let (start, end) = self.bounds(index, data_len);
        if start & usize::from(BLOB_FLAG) == 0 && end - start == item.len() {
            self.buffer[start..end].copy_from_slice(item);
        } else {
            self.remove(index..index + 1);
            self.insert(index, item);
        }
    }

    /// Removes the items of `range`. Panics when it reaches past the end.
    pub fn remove(&mut self, range: std::ops::Range<usize>) {
        let count = self.len();
        assert!(range.start <= range.end && range.end <= count, "packed: remove {range:?} of {count}");
        if range.is_empty() {
            return;
        }
        let data_len = self.data_len();
        let (low, high) = (self.offset(range.start, data_len), self.offset(range.end, data_len));
        if self.blobs.is_some() {
            let ranks = self.blob_rank(range.start)..self.blob_rank(range.end);
            self.drop_blobs(ranks);
        }
        let cut = high - low;
        let first_slot = data_len + SLOT_BYTES * range.start;
        self.buffer.copy_within(high..first_slot, low);
        let tail_at = first_slot - cut;
        self.buffer.copy_within(data_len + SLOT_BYTES * range.end.., tail_at);
        self.buffer.truncate(self.buffer.len() - cut - SLOT_BYTES * range.len());
        self.count -= range.len() as u32;
        shift_slots(&mut self.buffer[tail_at..], (cut as u16).wrapping_neg());
        if self.buffer.capacity() > 2 * self.buffer.len() + 64 {
            self.buffer.shrink_to(self.buffer.len() + self.buffer.len() / 8);
        }
    }

    /// Keeps the items before `index` and returns the others.
    pub fn split_off(&mut self, index: usize) -> Packed {
        let count = self.len();
        assert!(index <= count, "packed: split at {index} of {count}");
        let data_len = self.data_len();
        let start = self.offset(index, data_len);
        let mut right = Packed { count: (count - index) as u32, ..Packed::default() };
        right.buffer.reserve_exact(self.buffer.len() - start - SLOT_BYTES * index);
        right.buffer.extend_from_slice(&self.buffer[start..data_len]);
        right.buffer.extend_from_slice(&self.buffer[data_len + SLOT_BYTES * index..]);
        shift_slots(&mut right.buffer[data_len - start..], (start as u16).wrapping_neg());
        if self.blobs.is_some() {
            let rank = self.blob_rank(index);
            if let Some(blobs) = &mut self.blobs {
                let items = blobs.items.split_off(rank);
                if !items.is_empty() {
                    let bytes = items.iter().map(|item| item.len()).sum();
                    blobs.bytes -= bytes;
                    right.blobs = Some(Box::new(Blobs { items, bytes }));
                }
                if blobs.items.is_empty() {
                    self.blobs = None;
                }
            }
        }
        self.buffer.copy_within(data_len..data_len + SLOT_BYTES * index, start);
        self.buffer.truncate(start + SLOT_BYTES * index);
        self.buffer.shrink_to_fit();
        self.count = index as u32;
        right
    }

    /// Appends all items of `right`.
    pub fn append(&mut self, right: &Packed) {
        let (left_data, right_data) = (self.data_len(), right.data_len());
        if left_data + right_data > usize::from(OFFSET_MASK) {
            for item in right.iter() {
                self.push(item);
            }
            return;
        }
        let old_len = self.buffer.len();
        self.buffer.reserve_exact(right.buffer.len());
        self.buffer.resize(old_len + right_data, 0);
        self.buffer.copy_within(left_data..old_len, left_data + right_data);
        self.buffer[left_data..left_data + right_data].copy_from_slice(&right.buffer[..right_data]);
        self.buffer.extend_from_slice(&right.buffer[right_data..]);
        shift_slots(&mut self.buffer[old_len + right_data..], left_data as u16);
        self.count += right.count;
        if let Some(more) = &right.blobs {
            let blobs = self.blobs.get_or_insert_default();
            blobs.items.extend(more.items.iter().cloned());
            blobs.bytes += more.bytes;
        }
    }

    /// Appends item `index` of `other`, sharing it if it is a blob.
    pub(crate) fn push_from(&mut self, other: &Packed, index: usize) {
        if other.slot(index, other.data_len()) & BLOB_FLAG == 0 {
            return self.push(other.get(index));
        }
        let Some(source) = &other.blobs else { return };
        let item = source.items[other.blob_rank(index)].clone();
        let data_len = self.data_len();
        let blobs = self.blobs.get_or_insert_default();
        blobs.bytes += item.len();
        blobs.items.push(item);
        self.buffer.extend_from_slice(&(data_len as u16 | BLOB_FLAG).to_le_bytes());
        self.count += 1;
    }

    /// Gives back memory reserved for growth.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.buffer.shrink_to_fit();
    }

    #[inline]
    fn data_len(&self) -> usize {
        self.buffer.len() - SLOT_BYTES * self.len()
    }

    #[inline]
    fn slot(&self, index: usize, data_len: usize) -> u16 {
        let at = data_len + SLOT_BYTES * index;
        u16::from_le_bytes([self.buffer[at], self.buffer[at + 1]])
    }

    /// Where item `index` starts; where the items end, for an index at the end.
    #[inline]
    fn offset(&self, index: usize, data_len: usize) -> usize {
        if index < self.len() { usize::from(self.slot(index, data_len) & OFFSET_MASK) } else { data_len }
    }

    /// Start (with the blob flag) and end of item `index`.
    #[inline]
    fn bounds(&self, index: usize, data_len: usize) -> (usize, usize) {
        (usize::from(self.slot(index, data_len)), self.offset(index + 1, data_len))
    }

    fn blob(&self, index: usize) -> &[u8] {
        let rank = self.blob_rank(index);
        self.blobs.as_ref().map_or(&[], |blobs| &blobs.items[rank])
    }

    /// Number of blobs before item `index`.
    fn blob_rank(&self, index: usize) -> usize {
        if self.blobs.is_none() {
            return 0;
        }
        let data_len = self.data_len();
        (0..index).filter(|&i| self.slot(i, data_len) & BLOB_FLAG != 0).count()
    }

    fn drop_blobs(&mut self, ranks: std::ops::Range<usize>) {
        if let Some(blobs) = &mut self.blobs {
            let dropped: usize = blobs.items.drain(ranks).map(|item| item.len()).sum();
            blobs.bytes -= dropped;
            if blobs.items.is_empty() {
                self.blobs = None;
            }
        }
    }

    /// Doubling would leave leaves a third empty; steps of a quarter cost a copy of a few hundred bytes now and then.
    fn grow(&mut self, added: usize) {
        if self.buffer.capacity() - self.buffer.len() < added {
            self.buffer.reserve_exact(added.max(self.buffer.len() / 4));
        }
    }
}

/// Adds `by`, modulo 2^16, to every slot in `slots`. Blob flags survive since offsets stay below bit 15.
fn shift_slots(slots: &mut [u8], by: u16) {
    if by == 0 {
        return;
    }
    for slot in slots.chunks_exact_mut(SLOT_BYTES) {
        let moved = u16::from_le_bytes([slot[0], slot[1]]).wrapping_add(by);
        slot.copy_from_slice(&moved.to_le_bytes());
    }
}
