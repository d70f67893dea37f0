//! How many connections of which worker have subscribed to what: all that a publisher has to know.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::glob;
use parking_lot::RwLock;
use store::key_hash;

use super::Space;

const SHARDS: usize = 64;

/// Subscribed connections of each worker that has any.
pub type Counts = Vec<(u16, u64)>;

type Names = HashMap<Box<[u8]>, Counts>;

/// Told of a channel or pattern when a client is the first here to subscribe to it, and when none does any more. Brief: it is called
/// under a lock.
pub type OnChange = Box<dyn Fn(Space, &[u8], bool) + Send + Sync>;

/// The subscriptions of all connections.
pub struct Channels {
    channels: [RwLock<Names>; SHARDS],
    shard_channels: [RwLock<Names>; SHARDS],
    patterns: RwLock<Names>,
    node_channels: RwLock<Names>,
    node_patterns: RwLock<Names>,
    /// Names in use, by space.
    used: [AtomicU64; Space::EVERY.len()],
    /// The cluster's other nodes hear what clients here want.
    on_change: OnceLock<OnChange>,
    /// Connections with a subscription.
    pub clients: AtomicU64,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels {
            channels: std::array::from_fn(|_| RwLock::default()),
            shard_channels: std::array::from_fn(|_| RwLock::default()),
            patterns: RwLock::default(),
            node_channels: RwLock::default(),
            node_patterns: RwLock::default(),
            on_change: OnceLock::new(),
            used: Default::default(),
            clients: AtomicU64::new(0),
        }
    }
}

impl Channels {
    fn names(&self, space: Space, name: &[u8]) -> &RwLock<Names> {
        let shard = key_hash(name) as usize % SHARDS;
        match space {
            Space::Channel => &self.channels[shard],
            Space::Shard => &self.shard_channels[shard],
            Space::Pattern => &self.patterns,
            Space::NodeChannel => &self.node_channels,
            Space::NodePattern => &self.node_patterns,
        }
    }

    /// From now on PUBLISH reaches other nodes by their own subscriptions here; `on_change` is told what they are to have sent to this
    /// one.
    pub fn span_nodes(&self, on_change: OnChange) {
        assert!(self.on_change.set(on_change).is_ok(), "one-cluster: it is begun once");
    }

    /// True if PUBLISH reaches other nodes by their own subscriptions here.
    #[inline]
    pub(crate) fn spans_nodes(&self) -> bool {
        self.on_change.get().is_some()
    }

    fn tell_change(&self, space: Space, name: &[u8], is_wanted: bool) {
        if matches!(space, Space::Channel | Space::Pattern)
            && let Some(on_change) = self.on_change.get()
        {
            on_change(space, name, is_wanted);
        }
    }

    /// A connection of a worker has subscribed.
    pub fn add(&self, space: Space, name: &[u8], worker: u16) {
        let mut names = self.names(space, name).write();
        if !names.contains_key(name) {
            self.used[space.index()].fetch_add(1, Relaxed);
            self.tell_change(space, name, true);
        }
        let counts = names.entry(name.into()).or_default();
        match counts.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, count)) => *count += 1,
            None => counts.push((worker, 1)),
        }
    }

    /// A connection of a worker has unsubscribed.
    pub fn remove(&self, space: Space, name: &[u8], worker: u16) {
        let mut names = self.names(space, name).write();
        let Some(counts) = names.get_mut(name) else { return };
        if let Some((_, count)) = counts.iter_mut().find(|(of, _)| *of == worker) {
            *count -= 1;
        }
        counts.retain(|(_, count)| *count > 0);
        if counts.is_empty() {
            names.remove(name);
            self.used[space.index()].fetch_sub(1, Relaxed);
            self.tell_change(space, name, false);
        }
    }

    /// Names that somebody has subscribed to.
    pub fn used(&self, space: Space) -> u64 {
        self.used[space.index()].load(Relaxed)
    }

    /// True if a message may have receivers at all.
    #[inline]
    pub fn any(&self, space: Space) -> bool {
        self.used(space) > 0 || (space == Space::Channel && self.used(Space::Pattern) > 0)
    }

    /// True if other nodes may have subscribers for what PUBLISH says here.
    #[inline]
    pub(super) fn any_node(&self) -> bool {
        self.used(Space::NodeChannel) + self.used(Space::NodePattern) > 0
    }

    /// Connections that have subscribed to a name.
    pub fn subscribers(&self, space: Space, name: &[u8]) -> u64 {
        let names = self.names(space, name).read();
        names.get(name).map_or(0, |counts| counts.iter().map(|(_, count)| count).sum())
    }

    /// By worker, the connections that have subscribed to a name.
    pub fn counts(&self, space: Space, name: &[u8]) -> Counts {
        self.names(space, name).read().get(name).cloned().unwrap_or_default()
    }

    /// The patterns of this space that a channel's name fits, with their subscribers by worker. O(patterns).
    pub(super) fn patterns_of(&self, space: Space, channel: &[u8]) -> Vec<(Box<[u8]>, Counts)> {
        if self.used(space) == 0 {
            return Vec::new();
        }
        let patterns = self.names(space, channel).read();
        let fitting = patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel, false));
        fitting.map(|(pattern, counts)| (pattern.clone(), counts.clone())).collect()
    }

    /// Names in use that fit a pattern. O(names): for PUBSUB CHANNELS.
    pub fn list(&self, space: Space, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let shards: &[RwLock<Names>] = match space {
            Space::Channel => &self.channels,
            Space::Shard => &self.shard_channels,
            Space::Pattern => std::slice::from_ref(&self.patterns),
            Space::NodeChannel => std::slice::from_ref(&self.node_channels),
            Space::NodePattern => std::slice::from_ref(&self.node_patterns),
        };
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
        let in_shard = |shard: &RwLock<Names>| {
            shard.read().keys().filter(|name| fits(name)).cloned().collect::<Vec<_>>()
        };
        shards.iter().flat_map(in_shard).collect()
    }
}
