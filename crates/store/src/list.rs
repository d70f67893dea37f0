//! Lists: a tree of packed leaves by position.
//!
//! What `OBJECT ENCODING` calls a listpack or a quicklist is here one representation; the encoding reported follows
//! the sizes Redis 7.2 would have (`listTypeTryConversionAppend`, `listTypeTryConvertQuicklist`).

use crate::encoding::{Encoding, Thresholds};
use crate::entries::SequenceLeaf;
use crate::packed::{Bytes, canonical_integer};
use crate::tree::{ByRank, Cursor, LEAF_FILL_BYTES_MAX, Leaf, Tree, TreeBuilder, Walk};

/// Header and end byte of a listpack, in bytes.
pub(crate) const LISTPACK_FRAME_BYTES: usize = 7;
/// With a limit in elements, a listpack is still no larger than this, in bytes.
const LISTPACK_SAFE_BYTES_MAX: usize = 8192;
/// Redis's default: 8 KiB.
const DEFAULT_FILL: i16 = -2;

/// A list. `Clone` is O(1); a writer copies what it touches.
#[derive(Clone)]
pub struct List {
    tree: Tree<SequenceLeaf<1>>,
    /// Of a small list: bytes of the elements in a listpack's encoding, without its frame. Of a large one: elements
    /// removed or replaced since it was last measured, as far as they can be counted.
    measure: u32,
    /// `list_max_listpack_size` at the last write that knew it, as near as matters: beyond 16 bits, sizes in bytes decide.
    fill: i16,
    is_small: bool,
}

impl Default for List {
    fn default() -> Self {
        List { tree: Tree::default(), measure: 0, fill: DEFAULT_FILL, is_small: true }
    }
}

impl List {
    /// A list without elements.
    pub fn new() -> Self {
        List::default()
    }

    /// The list of `elements`. Cheaper than pushing one by one, with the same result.
    pub fn from_elements<E: AsRef<[u8]>>(
        elements: impl IntoIterator<Item = E>,
        thresholds: &Thresholds,
    ) -> Self {
        let mut list = List { fill: kept_fill(thresholds), ..List::default() };
        let (bytes_max, count_max) = limits(list.fill);
        let (mut builder, mut leaf) = (TreeBuilder::default(), SequenceLeaf::default());
        let (mut count, mut bytes) = (0, LISTPACK_FRAME_BYTES);
        for element in elements {
            let element = element.as_ref();
            list.is_small = list.is_small && bytes + element.len() <= bytes_max && count < count_max;
            (count, bytes) = (count + 1, bytes + listpack_entry_bytes(element));
            if leaf.fill_bytes() + element.len() > LEAF_FILL_BYTES_MAX && leaf.len() > 0 {
                leaf.items.shrink_to_fit();
                builder.push((), std::mem::take(&mut leaf));
                leaf.items.reserve(LEAF_FILL_BYTES_MAX);
            }
            leaf.items.push(element);
        }
        if leaf.len() > 0 {
            leaf.items.shrink_to_fit();
            builder.push((), leaf);
        }
        list.tree = builder.finish();
        list.measure = if list.is_small { (bytes - LISTPACK_FRAME_BYTES) as u32 } else { 0 };
        list
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Announces that `count` elements of `bytes` bytes in all follow, as one RPUSH's arguments do: a list that
    /// cannot stay small with them changes its encoding now.
    pub fn expect_elements(&mut self, bytes: usize, count: usize, thresholds: &Thresholds) {
        self.fill = kept_fill(thresholds);
        self.will_grow(bytes, count);
    }

    /// Inserts at the front.
    pub fn push_front(&mut self, element: &[u8], thresholds: &Thresholds) {
        self.fill = kept_fill(thresholds);
        self.insert(0, element);
    }

    /// Inserts at the back.
    pub fn push_back(&mut self, element: &[u8], thresholds: &Thresholds) {
        self.fill = kept_fill(thresholds);
        self.insert(self.len(), element);
    }

    /// Removes and returns the first element.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        self.take(0)
    }

    /// Removes and returns the last element.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        self.take(self.len().checked_sub(1)?)
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Bytes<'_>> {
        self.tree.leaf_at(index).map(|(leaf, at)| Bytes::slice(leaf.items.get(at)))
    }

    /// Replaces the element at `index`; false if there is none.
    pub fn set(&mut self, index: usize, element: &[u8]) -> bool {
        if index >= self.len() {
            return false;
        }
        // A replacement is judged like an addition, as in Redis.
        self.will_grow(element.len(), 1);
        let old_bytes = self.tree.edit(&mut ByRank::existing(index), |leaf, seek: &ByRank| {
            let old_bytes = listpack_entry_bytes(leaf.items.get(seek.rest));
            leaf.items.set(seek.rest, element);
            old_bytes
        });
        if self.is_small {
            self.measure = self.measure + listpack_entry_bytes(element) as u32 - old_bytes as u32;
        }
        self.shrunk(1);
        true
    }

    /// Inserts before the element at `index`, or at the end. Panics when `index` is past the end.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        assert!(index <= self.len(), "list: insert at {index} of {}", self.len());
        self.will_grow(element.len(), 1);
        self.tree
            .edit(&mut ByRank::insertion(index), |leaf, seek: &ByRank| leaf.items.insert(seek.rest, element));
        if self.is_small {
            self.measure += listpack_entry_bytes(element) as u32;
        }
    }

    /// Removes the elements from `start` up to but not including `end`.
    pub fn remove_range(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        if self.is_small {
            let removed: usize = (start..end)
                .filter_map(|index| self.tree.leaf_at(index))
                .map(|(leaf, at)| listpack_entry_bytes(leaf.items.get(at)))
                .sum();
            self.measure -= removed as u32;
        }
        self.tree.remove_range(start..end);
        self.shrunk(end - start);
    }

    /// Steps through what the list is now, from index `start` on or, with `reverse`, from there towards the front
    /// (a start past the end then means the last element), whatever is written to it meanwhile.
    pub fn iter(&self, start: usize, reverse: bool) -> ListIter {
        ListIter { cursor: Cursor::new(&self.tree), walk: Walk::new(start, reverse, self.len()) }
    }

    /// `Listpack` or `Quicklist`.
    pub fn encoding(&self) -> Encoding {
        if self.is_small { Encoding::Listpack } else { Encoding::Quicklist }
    }

    /// How many listpacks the list would be cut into in Redis if it was pushed to at its end alone, and their bytes.
    /// O(n).
    pub fn listpack_nodes(&self) -> (usize, usize) {
        let (bytes_max, count_max) = limits(self.fill);
        let (mut nodes, mut total_bytes, mut bytes, mut count) = (1, 0, LISTPACK_FRAME_BYTES, 0);
        for element in self.tree.leaves().flat_map(|(_, leaf)| leaf.items.iter()) {
            let added = listpack_entry_bytes(element);
            if count > 0 && (count == count_max || bytes + added > bytes_max) {
                (nodes, total_bytes) = (nodes + 1, total_bytes + bytes);
                (bytes, count) = (LISTPACK_FRAME_BYTES, 0);
            }
            (bytes, count) = (bytes + added, count + 1);
        }
        (nodes, total_bytes + bytes)
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes()
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.tree.node_count()
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        self.tree.is_same(&other.tree)
    }

    /// Leaves the small form if `count` more elements of `bytes` bytes in all exceed its limits.
    fn will_grow(&mut self, bytes: usize, count: usize) {
        let (bytes_max, count_max) = limits(self.fill);
        let listpack_bytes = LISTPACK_FRAME_BYTES + self.measure as usize + bytes;
        if self.is_small && (listpack_bytes > bytes_max || self.len() + count > count_max) {
            self.is_small = false;
            self.measure = 0;
        }
    }

    fn take(&mut self, index: usize) -> Option<Vec<u8>> {
        if index >= self.len() {
            return None;
        }
        let element = self.tree.edit(&mut ByRank::existing(index), |leaf, seek: &ByRank| {
            let element = leaf.items.get(seek.rest).to_vec();
            leaf.items.remove(seek.rest..seek.rest + 1, 0..0);
            element
        });
        if self.is_small {
            self.measure -= listpack_entry_bytes(&element) as u32;
        }
        self.shrunk(1);
        Some(element)
    }

    /// A large list that has become smaller than half the limit is a listpack again. Measuring costs a look at each
    /// element, so that a list is measured again only after an eighth of it has gone.
    fn shrunk(&mut self, removed: usize) {
        if self.is_small {
            return;
        }
        self.measure = self.measure.saturating_add(u32::try_from(removed).unwrap_or(u32::MAX));
        if (self.measure as usize) < self.len() / 8 && self.measure < u32::MAX {
            return;
        }
        self.measure = 0;
        let (bytes_max, count_max) = limits(self.fill);
        let (bytes_max, count_max) = (bytes_max / 2, count_max / 2);
        if self.len() > count_max || self.tree.memory_bytes() / 2 > bytes_max {
            return;
        }
        let bytes: usize =
            self.tree.leaves().flat_map(|(_, leaf)| leaf.items.iter()).map(listpack_entry_bytes).sum();
        if LISTPACK_FRAME_BYTES + bytes <= bytes_max {
            self.is_small = true;
            self.measure = bytes as u32;
        }
    }
}

fn kept_fill(thresholds: &Thresholds) -> i16 {
    thresholds.list_max_listpack_size.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// Largest listpack, in bytes and in elements, under `list-max-listpack-size fill`.
fn limits(fill: i16) -> (usize, usize) {
    if fill >= 0 {
        return (LISTPACK_SAFE_BYTES_MAX, usize::try_from(fill).unwrap_or(usize::MAX).max(1));
    }
    let bytes_max = match fill {
        -1 => 4096,
        -2 => 8192,
        -3 => 16384,
        -4 => 32768,
        _ => 65536,
    };
    (bytes_max, usize::MAX)
}

/// Bytes of one element in Redis's listpack encoding.
pub(crate) fn listpack_entry_bytes(element: &[u8]) -> usize {
    if let Some(value) = canonical_integer(element) {
        return listpack_integer_bytes(value);
    }
    let encoded = element.len()
        + match element.len() {
            0..=63 => 1,
            64..=4095 => 2,
            _ => 5,
        };
    let length_of_length = match encoded {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152..=268_435_455 => 4,
        _ => 5,
    };
    encoded + length_of_length
}

/// Bytes of an integer in Redis's listpack encoding.
pub(crate) fn listpack_integer_bytes(value: i64) -> usize {
    let encoded = match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        _ if i16::try_from(value).is_ok() => 3,
        -8_388_608..=8_388_607 => 4,
        _ if i32::try_from(value).is_ok() => 5,
        _ => 9,
    };
    encoded + 1
}

/// Steps through a clone of a list, which it owns.
pub struct ListIter {
    cursor: Cursor<SequenceLeaf<1>>,
    walk: Walk,
}

impl ListIter {
    /// The next element.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<&[u8]> {
        let index = self.walk.step()?;
        self.cursor.at(index).map(|(leaf, at)| leaf.items.get(at))
    }

    /// The index of the element that [`ListIter::next`] will return.
    pub fn index(&self) -> Option<usize> {
        self.walk.peek().filter(|&index| index < self.cursor.len())
    }
}
