//! How many connections of which worker have subscribed to what: all that a publisher has to know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::glob;
use parking_lot::RwLock;
use store::key_hash;

use super::Space;

const SHARDS: usize = 64;

/// Subscribed connections of each worker that has any.
pub type Counts = Vec<(u16, u64)>;

type Names = HashMap<Box<[u8]>, Counts>;

/// The subscriptions of all connections.
pub struct Channels {
    channels: [RwLock<Names>; SHARDS],
    shard_channels: [RwLock<Names>; SHARDS],
    patterns: RwLock<Names>,
    /// Names in use, by space.
    used: [AtomicU64; 3],
    /// Connections with a subscription.
    pub clients: AtomicU64,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels {
            channels: std::array::from_fn(|_| RwLock::default()),
            shard_channels: std::array::from_fn(|_| RwLock::default()),
            patterns: RwLock::default(),
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
        }
    }

    /// A connection of a worker has subscribed.
    pub fn add(&self, space: Space, name: &[u8], worker: u16) {
        let mut names = self.names(space, name).write();
        if !names.contains_key(name) {
            self.used[space.index()].fetch_add(1, Relaxed);
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

    /// Connections that have subscribed to a name.
    pub fn subscribers(&self, space: Space, name: &[u8]) -> u64 {
        let names = self.names(space, name).read();
        names.get(name).map_or(0, |counts| counts.iter().map(|(_, count)| count).sum())
    }

    /// By worker, the connections that have subscribed to a name.
    pub fn counts(&self, space: Space, name: &[u8]) -> Counts {
        self.names(space, name).read().get(name).cloned().unwrap_or_default()
    }

    /// The patterns that a channel's name fits, with their subscribers by worker. O(patterns).
    pub fn patterns_of(&self, channel: &[u8]) -> Vec<(Box<[u8]>, Counts)> {
        if self.used(Space::Pattern) == 0 {
            return Vec::new();
        }
        let patterns = self.patterns.read();
        let fitting = patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel, false));
        fitting.map(|(pattern, counts)| (pattern.clone(), counts.clone())).collect()
    }

    /// Names in use that fit a pattern. O(names): for PUBSUB CHANNELS.
    pub fn list(&self, space: Space, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let shards: &[RwLock<Names>] = match space {
            Space::Channel => &self.channels,
            Space::Shard => &self.shard_channels,
            Space::Pattern => std::slice::from_ref(&self.patterns),
        };
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
        let in_shard = |shard: &RwLock<Names>| {
            shard.read().keys().filter(|name| fits(name)).cloned().collect::<Vec<_>>()
        };
        shards.iter().flat_map(in_shard).collect()
    }
}
