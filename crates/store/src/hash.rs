//! Hashes: fields with values, in insertion order while small, in the order of the field's hash when large.
//!
//! Expire times of single fields are not stored yet; `entries.rs` says where they will go.

use crate::encoding::{Encoding, Thresholds};
use crate::entries::{Entries, EntriesIter};

/// A hash. `Clone` is O(1); a writer copies what it touches.
#[derive(Clone, Default)]
pub struct Hash {
    entries: Entries<2>,
}

impl Hash {
    /// A hash without fields.
    pub fn new() -> Self {
        Hash::default()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `field`.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.entries.find(field).map(|(items, at)| items.get(at + 1))
    }

    /// True if `field` exists.
    pub fn contains(&self, field: &[u8]) -> bool {
        self.entries.find(field).is_some()
    }

    /// Sets `field` to `value`. True if the field is new. Changes to the large form when a threshold is passed.
    pub fn set(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        if field.len().max(value.len()) > thresholds.hash_max_listpack_value {
            self.entries.make_large();
        }
        let added = self.entries.put([field, value]);
        if added && !self.entries.is_large() && self.len() > thresholds.hash_max_listpack_entries {
            self.entries.make_large();
        }
        added
    }

    /// Removes `field`; false if there is none.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.entries.remove(field)
    }

    /// Bytes of the value of `field`, 0 if there is none.
    pub fn value_len(&self, field: &[u8]) -> usize {
        self.get(field).map_or(0, <[u8]>::len)
    }

    /// The field of rank `rank` (in this hash's present order) and its value: a uniform random rank gives a uniform
    /// random field.
    pub fn at(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        self.entries.at(rank).map(|(items, at)| (items.get(at), items.get(at + 1)))
    }

    /// Steps through what the hash is now, whatever is written to it meanwhile.
    pub fn iter(&self) -> HashIter {
        HashIter { inner: EntriesIter::new(&self.entries) }
    }

    /// Visits about `count` fields from `cursor` on and returns the next cursor, 0 at the end (cursors are below
    /// 2^53). A field that is there throughout a scan is visited at least once. A small hash is visited whole.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        self.entries.scan(cursor, count, &mut |items, at| visit(items.get(at), items.get(at + 1)))
    }

    /// `Listpack` or `Hashtable`.
    pub fn encoding(&self) -> Encoding {
        if self.entries.is_large() { Encoding::Hashtable } else { Encoding::Listpack }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.entries.node_count()
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        self.entries.is_same(&other.entries)
    }
}

/// Steps through a clone of a hash, which it owns.
pub struct HashIter {
    inner: EntriesIter<2>,
}

impl HashIter {
    /// The next field and its value.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(&[u8], &[u8])> {
        self.inner.next().map(|(items, at)| (items.get(at), items.get(at + 1)))
    }

    /// Fields not yet returned.
    pub fn remaining(&self) -> usize {
        self.inner.remaining()
    }
}
