//! Streams: entries in the order of their ids, and the consumer groups that read them.
//!
//! Entries stand in a tree whose leaves are nodes of many entries (`stream/node.rs`); a group's pending entries and
//! consumers, and the groups themselves, in sorted maps of the same kind of tree. All are copy-on-write. Specified by
//! Redis's `t_stream.c`.

mod codec;
mod group;
mod id;
mod node;
mod sorted;

use std::cmp::Ordering;
use std::sync::Arc;

pub use group::{Consumer, Consumers, Group, Name, Pending, PendingIter};
pub use id::StreamId;
pub use node::{Entry, Fields};

use crate::encoding::Thresholds;
use crate::sharing::own_flat;
use crate::tree::{ByKey, ByRank, Cursor, Leaf, Tree, Walk};
use node::{Node, NodeLimits};
use sorted::{Sorted, SortedIter};

/// A stream. `Clone` is O(1); a writer copies what it touches.
#[derive(Clone, Default)]
pub struct Stream {
    body: Arc<Body>,
}

#[derive(Clone, Default)]
struct Body {
    entries: Tree<Arc<Node>>,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: Sorted<Name, Group>,
}

/// Which entries to remove from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// All but so many.
    MaxLen(usize),
    /// Those before an id.
    MinId(StreamId),
}

impl Stream {
    /// A stream without entries and groups.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.body.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.body.entries.is_empty()
    }

    /// The greatest id ever given to an entry, or set.
    pub fn last_id(&self) -> StreamId {
        self.body.last_id
    }

    /// Sets the id that the next entry has to exceed. It must not be less than that of an entry.
    pub fn set_last_id(&mut self, id: StreamId) {
        assert!(self.last_entry_id().is_none_or(|last| last <= id), "stream: the last id is the greatest");
        self.body_mut().last_id = id;
    }

    /// The greatest id of a removed entry; [`StreamId::MIN`] if none was. Trimming does not count.
    pub fn max_deleted_id(&self) -> StreamId {
        self.body.max_deleted_id
    }

    /// Sets [`Stream::max_deleted_id`].
    pub fn set_max_deleted_id(&mut self, id: StreamId) {
        self.body_mut().max_deleted_id = id;
    }

    /// Number of entries ever added.
    pub fn entries_added(&self) -> u64 {
        self.body.entries_added
    }

    /// Sets [`Stream::entries_added`].
    pub fn set_entries_added(&mut self, count: u64) {
        self.body_mut().entries_added = count;
    }

    /// The id of the first entry.
    pub fn first_entry_id(&self) -> Option<StreamId> {
        self.id_at(0)
    }

    /// The id of the last entry.
    pub fn last_entry_id(&self) -> Option<StreamId> {
        self.id_at(self.len().checked_sub(1)?)
    }

    /// The id of the entry of rank `rank`.
    pub fn id_at(&self, rank: usize) -> Option<StreamId> {
        self.body.entries.leaf_at(rank).map(|(node, at)| node.id(at))
    }

    /// Appends an entry of fields (name, value) and counts it as added. Panics unless `id` is greater than
    /// [`Stream::last_id`], which it becomes.
    pub fn append<'a>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        thresholds: &Thresholds,
    ) {
        self.append_to_named(id, fields.clone().map(|(name, _)| name), fields, thresholds);
    }

    /// [`Stream::append`] for entries that are read one after the other from a node: if this one begins a node here, that
    /// has `names` for the names of its fields, whatever this entry's own are. Entries that are named so are then short.
    pub fn append_to_named<'a>(
        &mut self,
        id: StreamId,
        names: impl Iterator<Item = &'a [u8]>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        thresholds: &Thresholds,
    ) {
        assert!(id > self.last_id(), "stream: ids grow");
        let limits = NodeLimits::new(thresholds.stream_node_max_bytes, thresholds.stream_node_max_entries);
        let bytes = fields.clone().map(|(name, value)| name.len() + value.len()).sum();
        let body = self.body_mut();
        body.last_id = id;
        body.entries_added += 1;
        let Some(last_rank) = body.entries.len().checked_sub(1) else {
            body.entries.push_leaf(id, Arc::new(Node::begin(id, names, fields, None)));
            return;
        };
        let next = body.entries.edit(&mut ByRank::existing(last_rank), |shared: &mut Arc<Node>, _| {
            let node = own_flat(shared);
            if node.is_full(bytes, limits) {
                node.finish();
                return Some(Node::begin(id, names, fields, Some(node)));
            }
            node.push(id, fields);
            None
        });
        if let Some(node) = next {
            body.entries.push_leaf(id, Arc::new(node));
        }
    }

    /// The entry of an id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        let node = self.body.entries.leaf(&mut by_id(id));
        let at = node.search(id);
        (at < node.len()).then(|| node.entry(at)).filter(|entry| entry.id == id)
    }

    /// The number of entries before `id`.
    pub fn rank(&self, id: StreamId) -> usize {
        let (node, start) = self.body.entries.find(&mut by_id(id));
        start + node.search(id)
    }

    /// Steps through what the stream is now, from the entry of rank `start_rank` up or, with `reverse`, down, whatever
    /// is written to it meanwhile. Down from past the end starts at the last entry.
    pub fn range(&self, start_rank: usize, reverse: bool) -> StreamIter {
        let entries = &self.body.entries;
        StreamIter { cursor: Cursor::new(entries), walk: Walk::new(start_rank, reverse, entries.len()) }
    }

    /// All entries, in order.
    pub fn iter(&self) -> StreamIter {
        self.range(0, false)
    }

    /// Removes the entry of an id; false if there is none.
    pub fn remove(&mut self, id: StreamId) -> bool {
        if self.get(id).is_none() {
            return false;
        }
        let body = self.body_mut();
        body.max_deleted_id = body.max_deleted_id.max(id);
        body.entries.edit(&mut by_id(id), |node: &mut Arc<Node>, _| {
            let at = node.search(id);
            node.remove_range(at..at + 1);
        });
        if body.entries.is_empty() {
            body.entries = Tree::default();
        }
        true
    }

    /// How many entries at the front `trim` asks to remove.
    pub fn trimmed_len(&self, trim: Trim) -> usize {
        match trim {
            Trim::MaxLen(len) => self.len().saturating_sub(len),
            Trim::MinId(id) => self.rank(id),
        }
    }

    /// As [`Stream::trimmed_len`], of whole nodes only, of no more than `limit` entries.
    pub fn trimmed_nodes_len(&self, trim: Trim, limit: usize) -> usize {
        let entries = &self.body.entries;
        let whole = match trim {
            Trim::MaxLen(len) => self.nodes_within(self.len().saturating_sub(len)),
            Trim::MinId(id) => {
                let (node, start) = entries.find(&mut by_id(id));
                // What counts is the last id that the node ever had.
                start + if node.last() < id { node.len() } else { 0 }
            }
        };
        whole.min(self.nodes_within(limit))
    }

    /// Entries in the first nodes that have no more than `len` together.
    fn nodes_within(&self, len: usize) -> usize {
        if len >= self.len() {
            return self.len();
        }
        self.body.entries.find(&mut ByRank::existing(len)).1
    }

    /// Removes the first `count` entries.
    pub fn remove_first(&mut self, count: usize) {
        if count > 0 {
            self.body_mut().entries.remove_range(0..count);
        }
    }

    /// True if an entry was removed at or after `id`, so that what follows cannot be counted by differences.
    pub fn has_gap_from(&self, id: StreamId) -> bool {
        !self.is_empty() && self.max_deleted_id() != StreamId::MIN && id <= self.max_deleted_id()
    }

    /// How many of all entries ever added have ids up to `id`, where that can be told without counting: at the ends of
    /// a stream between which nothing was removed.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let added = self.entries_added();
        if added == 0 {
            return Some(0);
        }
        let Some(first) = self.first_entry_id() else {
            return (id <= self.last_id()).then_some(added);
        };
        if self.is_before_gap(id) || id > self.last_id() {
            return None;
        }
        if id == self.last_id() {
            return Some(added);
        }
        let has_no_gap = self.max_deleted_id() == StreamId::MIN || self.max_deleted_id() < first;
        let before_first = added.wrapping_sub(self.len() as u64);
        match id.cmp(&first) {
            Ordering::Less if has_no_gap => Some(before_first),
            Ordering::Equal if has_no_gap => Some(before_first.wrapping_add(1)),
            _ => None,
        }
    }

    fn is_before_gap(&self, id: StreamId) -> bool {
        id != StreamId::MIN && id < self.max_deleted_id()
    }

    /// Number of nodes that entries are kept in: keys of the radix tree, in Redis.
    pub fn node_count(&self) -> usize {
        if self.is_empty() { 0 } else { self.body.entries.leaf_count() }
    }

    /// Nodes of the tree above those.
    pub fn inner_node_count(&self) -> usize {
        self.body.entries.node_count() - self.body.entries.leaf_count()
    }

    /// Number of consumer groups.
    pub fn group_count(&self) -> usize {
        self.body.groups.len()
    }

    /// A consumer group.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.body.groups.get(name)
    }

    /// Changes a consumer group, if there is one.
    pub fn edit_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        self.group(name)?;
        self.body_mut().groups.edit(name, change)
    }

    /// Adds a consumer group; false, and nothing done, if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.group(name).is_some() {
            return false;
        }
        self.body_mut().groups.insert(Name::from(name), group).is_none()
    }

    /// A clone without groups: to look at while a group is changed, which then is nobody else's.
    pub fn entries_only(&self) -> Stream {
        let Body { entries, last_id, max_deleted_id, entries_added, .. } = &*self.body;
        let (entries, last_id, max_deleted_id) = (entries.clone(), *last_id, *max_deleted_id);
        let groups = Sorted::default();
        Stream {
            body: Arc::new(Body { entries, last_id, max_deleted_id, entries_added: *entries_added, groups }),
        }
    }

    /// Takes a consumer group out. It may be large: see [`Group::weight`].
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        self.group(name)?;
        self.body_mut().groups.remove(name)
    }

    /// Delivers `count` entries from rank `first` on, all after the group's last id, to a consumer that must exist.
    /// They become pending, delivered at this time, unless it is `None`.
    pub fn deliver(
        &mut self,
        name: &[u8],
        consumer: &[u8],
        first: usize,
        count: usize,
        pending_at_ms: Option<i64>,
    ) {
        let stream = self.entries_only();
        self.edit_group(name, |group| {
            let mut entries = stream.range(first, false);
            let ids = std::iter::from_fn(|| entries.next().map(|entry| entry.id)).take(count);
            group.deliver(&stream, consumer, ids, pending_at_ms);
        });
    }

    /// The consumer groups, in the order of their names.
    pub fn groups(&self) -> Groups {
        Groups { inner: self.body.groups.iter(0) }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        size_of::<Body>() + self.body.entries.memory_bytes() + self.body.groups.memory_bytes()
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.body.entries.node_count() + self.body.groups.node_count()
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body)
    }

    fn body_mut(&mut self) -> &mut Body {
        own_flat(&mut self.body)
    }
}

/// To the node that holds the entry of an id, if it is there.
fn by_id(id: StreamId) -> ByKey<impl FnMut(&StreamId) -> bool> {
    ByKey(move |first: &StreamId| *first <= id)
}

/// Steps through a clone of a stream's entries, which it owns.
pub struct StreamIter {
    cursor: Cursor<Arc<Node>>,
    walk: Walk,
}

impl StreamIter {
    /// The next entry.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<Entry<'_>> {
        self.next_in_node().map(|(_, entry)| entry)
    }

    /// The next entry, and how many entries of its node come before it.
    pub fn next_in_node(&mut self) -> Option<(usize, Entry<'_>)> {
        let rank = self.walk.step()?;
        self.cursor.at(rank).map(|(node, at)| (at, node.entry(at)))
    }
}

/// Steps through a clone of a stream's groups, which it owns.
pub struct Groups {
    inner: SortedIter<Name, Group>,
}

impl Groups {
    /// The next group and its name.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(&[u8], &Group)> {
        self.inner.next().map(|(name, group)| (&**name, group))
    }
}
