//! Publish and subscribe.
//!
//! Who subscribed to what is kept twice. Each worker knows which of its own connections want a channel or pattern
//! ([`Subscribers`]); all know how many connections of which worker do ([`Channels`]). A publish looks there, encodes its
//! message once, and sends one letter to each worker that has subscribers, which hands the same bytes to all of them.

mod channels;
mod events;
mod publication;
mod subscribers;
mod subscribing;

use std::collections::BTreeSet;

pub use channels::Channels;
pub use events::EventMask;
pub use publication::{Publication, Published};
pub use subscribers::Subscribers;
pub use subscribing::{deliver_from_node, leave_shard, left_shards, publish, publish_event, unsubscribe_all};

/// The three name spaces that can be subscribed to, and two of them again for the cluster's other nodes: these want what PUBLISH says
/// here for subscribers of their own, and neither what happens to this node's keys nor what others have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Channels by name.
    Channel,
    /// Channels by pattern.
    Pattern,
    /// Channels of one cluster slot.
    Shard,
    /// Channels by name, for subscribers at another node.
    NodeChannel,
    /// Channels by pattern, for subscribers at another node.
    NodePattern,
}

impl Space {
    /// Those of clients.
    pub const ALL: [Space; 3] = [Space::Channel, Space::Pattern, Space::Shard];
    /// All of them.
    pub(crate) const EVERY: [Space; 5] =
        [Space::Channel, Space::Pattern, Space::Shard, Space::NodeChannel, Space::NodePattern];

    /// The word in the answer to a subscription.
    pub fn subscribed(self) -> &'static str {
        match self {
            Space::Channel | Space::NodeChannel => "subscribe",
            Space::Pattern | Space::NodePattern => "psubscribe",
            Space::Shard => "ssubscribe",
        }
    }

    /// The word in the answer to its end.
    pub fn unsubscribed(self) -> &'static str {
        match self {
            Space::Channel | Space::NodeChannel => "unsubscribe",
            Space::Pattern | Space::NodePattern => "punsubscribe",
            Space::Shard => "sunsubscribe",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// What one connection has subscribed to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    names: [BTreeSet<Box<[u8]>>; Space::EVERY.len()],
}

impl Subscriptions {
    /// The names in one space, in order.
    pub fn names(&self, space: Space) -> &BTreeSet<Box<[u8]>> {
        &self.names[space.index()]
    }

    pub(crate) fn names_mut(&mut self, space: Space) -> &mut BTreeSet<Box<[u8]>> {
        &mut self.names[space.index()]
    }

    /// The number that the answer to a subscription tells: shard channels are counted apart.
    pub fn count_told(&self, space: Space) -> usize {
        match space {
            Space::Shard => self.names(Space::Shard).len(),
            _ => self.names(Space::Channel).len() + self.names(Space::Pattern).len(),
        }
    }

    /// True if nothing is subscribed to any more.
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }
}
