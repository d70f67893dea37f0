//! Consumer groups: what was delivered to whom and is not acknowledged.

use std::sync::Arc;

use super::sorted::{Item, Sorted, SortedIter};
use super::{Stream, StreamId};

/// The name of a group or a consumer.
pub type Name = Arc<[u8]>;

/// A consumer group. `Clone` is O(1); a writer copies what it touches.
///
/// Invariant *pending-owner*: an id is pending in the group exactly if it is pending for one of its consumers, the
/// one that the group's record names.
#[derive(Clone, Default)]
pub struct Group {
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: Sorted<StreamId, Pending>,
    consumers: Sorted<Name, Consumer>,
}

/// An entry that was delivered and not yet acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Whom it was delivered to last.
    pub consumer: Name,
    /// When, in unix milliseconds.
    pub delivered_ms: i64,
    /// How often.
    pub deliveries: u64,
}

/// A consumer of a group. `Clone` is O(1).
#[derive(Clone)]
pub struct Consumer {
    /// When it last asked for anything, in unix milliseconds.
    pub seen_ms: i64,
    /// When it last got anything, in unix milliseconds.
    pub active_ms: Option<i64>,
    pending: Sorted<StreamId, ()>,
}

impl Item for Pending {}

impl Item for Consumer {
    fn heap_bytes(&self) -> usize {
        self.pending.memory_bytes()
    }

    fn node_count(&self) -> usize {
        self.pending.node_count()
    }
}

impl Item for Group {
    fn heap_bytes(&self) -> usize {
        self.pending.memory_bytes() + self.consumers.memory_bytes()
    }

    fn node_count(&self) -> usize {
        self.weight()
    }
}

impl Group {
    /// A group without consumers, which has read up to `last_id`: `entries_read` entries, if that is known.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group { last_id, entries_read, ..Group::default() }
    }

    /// The id of the last entry delivered.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// How many of all entries ever added were read up to [`Group::last_id`], if that is known.
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// Moves the group to another place in the stream.
    pub fn set_position(&mut self, last_id: StreamId, entries_read: Option<u64>) {
        (self.last_id, self.entries_read) = (last_id, entries_read);
    }

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// What is known of a pending entry.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The pending entry of rank `rank`, in the order of ids.
    pub fn pending_at(&self, rank: usize) -> Option<(StreamId, &Pending)> {
        self.pending.at(rank).map(|(id, pending)| (*id, pending))
    }

    /// Number of pending entries before `id`.
    pub fn pending_rank(&self, id: StreamId) -> usize {
        self.pending.rank(&id)
    }

    /// Steps through the pending entries from `id` on, as they are now.
    pub fn pending_from(&self, id: StreamId) -> PendingIter {
        PendingIter { inner: self.pending.iter(self.pending.rank(&id)) }
    }

    /// Makes an entry pending, for a consumer that must exist, or changes what is known of one that is.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        assert!(self.consumers.get(&pending.consumer).is_some(), "pending-owner: it exists");
        let consumer = pending.consumer.clone();
        match self.pending.insert(id, pending) {
            Some(known) if known.consumer == consumer => return,
            Some(known) => self.unlist(&known.consumer, id),
            None => {}
        }
        self.consumers.edit(&consumer, |consumer| consumer.pending.insert(id, ()));
    }

    /// An entry is pending no longer; false if it was not.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(known) = self.pending.remove(&id) else { return false };
        self.unlist(&known.consumer, id);
        true
    }

    /// Takes in that entries after [`Group::last_id`] are read, and makes them pending for a consumer.
    pub(super) fn deliver(
        &mut self,
        stream: &Stream,
        consumer: &[u8],
        ids: impl Iterator<Item = StreamId>,
        pending_at_ms: Option<i64>,
    ) {
        let Some(name) = self.consumer_name(consumer) else { panic!("pending-owner: it exists") };
        // Out of its consumer, so that it is not looked up for each entry.
        let taken = self.consumers.edit(consumer, |consumer| std::mem::take(&mut consumer.pending));
        let mut list = taken.unwrap_or_default();
        let mut is_active = false;
        for id in ids {
            self.advance(stream, id);
            let Some(delivered_ms) = pending_at_ms else { continue };
            let pending = Pending { consumer: name.clone(), delivered_ms, deliveries: 1 };
            if let Some(known) = self.pending.insert(id, pending).filter(|known| known.consumer != name) {
                self.unlist(&known.consumer, id);
            }
            list.insert(id, ());
            is_active = true;
        }
        self.consumers.edit(consumer, |consumer| {
            consumer.pending = list;
            if is_active {
                consumer.active_ms = pending_at_ms;
            }
        });
    }

    /// The entry of this id is the last delivered.
    fn advance(&mut self, stream: &Stream, id: StreamId) {
        let is_within = stream.first_entry_id().is_none_or(|first| self.last_id >= first);
        self.entries_read = match self.entries_read {
            Some(read) if is_within && !stream.has_gap_from(self.last_id) => Some(read.wrapping_add(1)),
            // Not known, or not to be trusted: what the stream can tell.
            read if stream.entries_added() == 0 => read,
            _ => stream.entries_up_to(id),
        };
        self.last_id = id;
    }

    fn unlist(&mut self, consumer: &[u8], id: StreamId) {
        self.consumers.edit(consumer, |consumer| consumer.pending.remove(&id));
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// A consumer.
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// A consumer's name as the group keeps it, to be named in [`Pending`] without a copy.
    pub fn consumer_name(&self, name: &[u8]) -> Option<Name> {
        self.consumers.item(name).map(|(name, _)| name.clone())
    }

    /// Adds a consumer; false, and nothing done, if there is one of this name.
    pub fn create_consumer(&mut self, name: &[u8], seen_ms: i64, active_ms: Option<i64>) -> bool {
        if self.consumer(name).is_some() {
            return false;
        }
        let consumer = Consumer { seen_ms, active_ms, pending: Sorted::default() };
        self.consumers.insert(Name::from(name), consumer).is_none()
    }

    /// A consumer was seen, and, if it `is_active`, got something.
    pub fn touch_consumer(&mut self, name: &[u8], now_ms: i64, is_active: bool) {
        self.consumers.edit(name, |consumer| {
            consumer.seen_ms = now_ms;
            if is_active {
                consumer.active_ms = Some(now_ms);
            }
        });
    }

    /// Removes a consumer with what is pending for it, and tells how much that was. O(n) in that.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        if consumer.pending.len() == self.pending.len() {
            self.pending = Sorted::default();
        } else {
            let mut ids = consumer.pending.iter(0);
            while let Some((id, ())) = ids.next() {
                self.pending.remove(id);
            }
        }
        Some(consumer.pending.len())
    }

    /// The consumers, in the order of their names.
    pub fn consumers(&self) -> Consumers {
        Consumers { inner: self.consumers.iter(0) }
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.pending.node_count() + self.consumers.node_count()
    }
}

impl Consumer {
    /// Number of entries pending for it.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Number of entries pending for it before `id`.
    pub fn pending_rank(&self, id: StreamId) -> usize {
        self.pending.rank(&id)
    }

    /// The id of rank `rank` among those pending for it.
    pub fn pending_at(&self, rank: usize) -> Option<StreamId> {
        self.pending.at(rank).map(|(id, ())| *id)
    }
}

/// Steps through a clone of a group's pending entries, which it owns.
pub struct PendingIter {
    inner: SortedIter<StreamId, Pending>,
}

impl PendingIter {
    /// The next pending entry.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(StreamId, &Pending)> {
        self.inner.next().map(|(id, pending)| (*id, pending))
    }
}

/// Steps through a clone of a group's consumers, which it owns.
pub struct Consumers {
    inner: SortedIter<Name, Consumer>,
}

impl Consumers {
    /// The next consumer and its name.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(&[u8], &Consumer)> {
        self.inner.next().map(|(name, consumer)| (&**name, consumer))
    }
}
