//! A run of neighbouring entries: a leaf of the stream's tree.
//!
//! A node is what one node of Redis's radix tree is: it is filled until `stream-node-max-bytes` or `-entries` is
//! reached, entries removed from it count on, and it goes when its last entry does. So trimming by whole nodes (`~`)
//! finds the same boundaries.
//!
//! # An entry
//! One item of a [`Packed`], in the words of `codec.rs`:
//!
//! | part | is |
//! |---|---|
//! | varint | 0: the fields are named as the node's; n > 0: there are n fields, whose names follow |
//! | varint | milliseconds since the node's first id |
//! | varint | sequence number; within the first millisecond, what it is above the first id's |
//! | texts | the values, or each name with its value |

use std::ops::Range;
use std::sync::Arc;

use super::StreamId;
use super::codec::{put_text, put_varint, take_text, take_varint};
use crate::list::{LISTPACK_FRAME_BYTES, listpack_entry_bytes, listpack_integer_bytes};
use crate::packed::{Bytes, Packed};
use crate::sharing::{is_shared, own_flat};
use crate::tree::{Bias, LEAF_FILL_BYTES_MAX, Leaf};

/// A node is full at this size of its listpack whatever the configuration says, in bytes: a writer copies a whole
/// node while a clone lives.
const NODE_BYTES_MAX: usize = 16 * 1024;

/// When a node is full.
#[derive(Clone, Copy)]
pub(super) struct NodeLimits {
    pub(super) bytes_max: usize,
    pub(super) entries_max: usize,
}

impl NodeLimits {
    /// Limits as configured, where 0 means none.
    pub(super) fn new(bytes_max: usize, entries_max: usize) -> NodeLimits {
        let limit = |value: usize| if value == 0 { usize::MAX } else { value };
        NodeLimits { bytes_max: limit(bytes_max).min(NODE_BYTES_MAX), entries_max: limit(entries_max) }
    }
}

/// The names of a node's fields, encoded. Nodes whose first entries have the same fields share them.
#[derive(Clone, Default)]
struct Names {
    count: u64,
    texts: Arc<[u8]>,
    /// The texts are another node's, which answers for their memory.
    is_shared: bool,
}

/// A run of entries.
#[derive(Clone, Default)]
pub(super) struct Node {
    /// The id of the first entry it ever had.
    first: StreamId,
    /// The id of the last entry it ever had.
    last: StreamId,
    names: Names,
    entries: Packed,
    /// Bytes of names and entries in Redis's listpack, removed entries included.
    listpack_bytes: usize,
    removed: usize,
}

impl Node {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of the last entry it ever had.
    pub(super) fn last(&self) -> StreamId {
        self.last
    }

    /// True if `bytes` more bytes of names and values belong into another node.
    pub(super) fn is_full(&self, bytes: usize, limits: NodeLimits) -> bool {
        self.node_bytes() + bytes >= limits.bytes_max || self.len() + self.removed >= limits.entries_max
    }

    /// What the node takes in Redis.
    fn node_bytes(&self) -> usize {
        LISTPACK_FRAME_BYTES
            + listpack_integer_bytes(self.len() as i64)
            + listpack_integer_bytes(self.removed as i64)
            + self.listpack_bytes
    }

    /// A node of one entry, whose own names may be others. `left`: the one before it, whose names it may share.
    pub(super) fn begin<'a>(
        id: StreamId,
        names: impl Iterator<Item = &'a [u8]>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        left: Option<&Node>,
    ) -> Node {
        let mut texts = Vec::new();
        let (mut count, mut name_bytes) = (0, 0);
        for name in names {
            put_text(&mut texts, name);
            name_bytes += listpack_entry_bytes(name);
            count += 1;
        }
        let names = match left {
            Some(left) if *left.names.texts == *texts => Names { is_shared: true, ..left.names.clone() },
            _ => Names { count, texts: texts.into(), is_shared: false },
        };
        let terminator_bytes = listpack_integer_bytes(0);
        let listpack_bytes = listpack_integer_bytes(count as i64) + name_bytes + terminator_bytes;
        let mut node = Node { first: id, names, listpack_bytes, ..Node::default() };
        node.push(id, fields);
        node
    }

    /// Appends an entry; its id is the greatest.
    pub(super) fn push<'a>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) {
        let (is_alike, count) = self.names.describe(fields.clone());
        let mut item = Vec::with_capacity(64);
        put_varint(&mut item, if is_alike { 0 } else { count });
        put_varint(&mut item, id.ms - self.first.ms);
        put_varint(&mut item, if id.ms == self.first.ms { id.seq - self.first.seq } else { id.seq });
        let mut bytes = 0;
        for (name, value) in fields {
            if !is_alike {
                put_text(&mut item, name);
                bytes += listpack_entry_bytes(name);
            }
            put_text(&mut item, value);
            bytes += listpack_entry_bytes(value);
        }
        self.entries.push(&item);
        self.last = id;
        self.listpack_bytes += bytes + self.head_bytes(id, is_alike, count as i64);
    }

    /// What an entry takes in Redis besides its names and values.
    fn head_bytes(&self, id: StreamId, is_alike: bool, fields: i64) -> usize {
        let flags_bytes = listpack_integer_bytes(0);
        let elements = if is_alike { fields + 3 } else { 2 * fields + 4 };
        let count_bytes = if is_alike { 0 } else { listpack_integer_bytes(fields) };
        flags_bytes
            + listpack_integer_bytes((id.ms - self.first.ms) as i64)
            + listpack_integer_bytes(id.seq.wrapping_sub(self.first.seq) as i64)
            + count_bytes
            + listpack_integer_bytes(elements)
    }

    /// Gives back memory reserved for growth: no entry will come.
    pub(super) fn finish(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// The id of the entry at `index`.
    pub(super) fn id(&self, index: usize) -> StreamId {
        self.head(index).1
    }

    /// The entry at `index`.
    pub(super) fn entry(&self, index: usize) -> Entry<'_> {
        let (own_fields, id, texts) = self.head(index);
        let names = if own_fields == 0 { Some(&*self.names.texts) } else { None };
        let fields = if own_fields == 0 { self.names.count } else { own_fields };
        Entry { id, fields: Fields { left: fields as usize, names, texts } }
    }

    fn head(&self, index: usize) -> (u64, StreamId, &[u8]) {
        let mut rest = self.entries.get(index);
        let own_fields = take_varint(&mut rest);
        let ms = self.first.ms + take_varint(&mut rest);
        let seq = take_varint(&mut rest) + if ms == self.first.ms { self.first.seq } else { 0 };
        (own_fields, StreamId { ms, seq }, rest)
    }

    /// The index of the first entry at or after `id`.
    pub(super) fn search(&self, id: StreamId) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(middle) < id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Names {
    /// True if `fields` are named so, and their number.
    fn describe<'a>(&self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> (bool, u64) {
        let (mut is_alike, mut count) = (true, 0);
        let mut texts = &*self.texts;
        for (name, _) in fields {
            is_alike = is_alike && count < self.count && *take_text(&mut texts) == *name;
            count += 1;
        }
        (is_alike && count == self.count, count)
    }
}

impl Leaf for Arc<Node> {
    type Key = StreamId;

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never so much that the tree splits a node, nor so little that it joins two: their boundaries are Redis's.
    fn fill_bytes(&self) -> usize {
        if self.len() == 0 { 0 } else { LEAF_FILL_BYTES_MAX }
    }

    fn heap_bytes(&self) -> usize {
        let names_bytes = if self.names.is_shared { 0 } else { self.names.texts.len() };
        self.entries.heap_bytes() + names_bytes + size_of::<Node>() + 2 * size_of::<usize>()
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn is_shared(&self) -> bool {
        is_shared(self)
    }

    fn split(&mut self, _: Bias) -> Option<(StreamId, Self)> {
        None
    }

    fn append(&mut self, _: &Self) {
        unreachable!("stream: nodes are never joined");
    }

    fn remove_range(&mut self, range: Range<usize>) {
        let node = own_flat(self);
        node.removed += range.len();
        node.entries.remove(range, 0..0);
    }
}

/// An entry of a stream.
#[derive(Clone)]
pub struct Entry<'a> {
    /// Its id.
    pub id: StreamId,
    /// Its fields, in the order given.
    pub fields: Fields<'a>,
}

/// The fields of an entry: names and values.
#[derive(Clone)]
pub struct Fields<'a> {
    left: usize,
    names: Option<&'a [u8]>,
    texts: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Bytes<'a>, Bytes<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = take_text(self.names.as_mut().unwrap_or(&mut self.texts));
        Some((name, take_text(&mut self.texts)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}
