//! What the nodes have seen, and when: each notes its own, and whoever makes changes looks at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

/// A revision that a node routes by.
#[derive(Clone, Copy, Debug)]
pub struct InPlace {
    pub revision: u64,
    pub at_us: u64,
    /// What deciding and routing by it took.
    pub work_us: u64,
}

/// What one node has seen since it was last made to forget.
#[derive(Default)]
struct Seen {
    /// Revisions that etcd has told of, and when that came.
    arrived: Vec<(u64, u64)>,
    in_place: Vec<InPlace>,
}

/// One node.
#[derive(Default)]
struct Node {
    seen: Mutex<Seen>,
    is_in: AtomicBool,
    /// How many nodes are there, as far as it knows.
    live: AtomicUsize,
}

/// All nodes.
pub struct Sightings {
    began: Instant,
    nodes: Vec<Node>,
    /// How many nodes are part of the cluster, or have been.
    joined: AtomicUsize,
    leases_lost: AtomicUsize,
    failure: Mutex<Option<String>>,
}

impl Sightings {
    /// Of so many nodes, which have seen nothing.
    pub fn new(nodes: usize) -> Sightings {
        Sightings {
            began: Instant::now(),
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            joined: AtomicUsize::new(0),
            leases_lost: AtomicUsize::new(0),
            failure: Mutex::new(None),
        }
    }

    /// The time by which everything is noted.
    pub fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// etcd has told this node of this revision.
    pub fn arrived(&self, node: usize, revision: u64) {
        let at_us = self.now_us();
        self.nodes[node].seen.lock().arrived.push((revision, at_us));
    }

    /// This node routes by this revision, in which so many nodes are there.
    pub fn in_place(&self, node: usize, revision: u64, work_us: u64, live: usize) {
        let at_us = self.now_us();
        self.nodes[node].live.store(live, Relaxed);
        self.nodes[node].seen.lock().in_place.push(InPlace { revision, at_us, work_us });
    }

    /// This node is part of the cluster.
    pub fn is_in(&self, node: usize) {
        if !self.nodes[node].is_in.swap(true, Relaxed) {
            self.joined.fetch_add(1, Relaxed);
        }
    }

    /// A lease was lost, which no idle node should.
    pub fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Relaxed);
    }

    /// A node can do nothing more, or must not: nothing can be measured. What was first is kept.
    pub fn fail(&self, why: String) {
        self.failure.lock().get_or_insert(why);
    }

    /// An error if a node has failed.
    pub fn check(&self) -> Result<(), String> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    pub fn leases_lost(&self) -> usize {
        self.leases_lost.load(Relaxed)
    }

    pub fn has_joined(&self, node: usize) -> bool {
        self.nodes[node].is_in.load(Relaxed)
    }

    /// How many nodes are part of the cluster, or have been.
    pub fn joined(&self) -> usize {
        self.joined.load(Relaxed)
    }

    /// All are, or have been.
    pub fn has_everybody(&self) -> bool {
        self.joined() == self.nodes.len()
    }

    /// The least number of nodes that any of the first so many knows to be there.
    pub fn known_by_all(&self, agents: usize) -> usize {
        self.nodes[..agents].iter().map(|node| node.live.load(Relaxed)).min().unwrap_or(0)
    }

    /// What was seen until now counts no more.
    pub fn forget(&self) {
        for node in &self.nodes {
            *node.seen.lock() = Seen::default();
        }
    }

    /// When this revision, or one after it, came to each node that it has come to.
    pub fn arrivals_us(&self, revision: u64) -> Vec<u64> {
        let first = |node: &Node| {
            let seen = node.seen.lock();
            seen.arrived.iter().find(|(arrived, _)| *arrived >= revision).map(|(_, at_us)| *at_us)
        };
        self.nodes.iter().filter_map(first).collect()
    }

    /// What was in place when each node first routed by this revision, or one after it.
    pub fn in_place_of(&self, revision: u64) -> Vec<InPlace> {
        let first = |node: &Node| {
            let seen = node.seen.lock();
            seen.in_place.iter().find(|in_place| in_place.revision >= revision).copied()
        };
        self.nodes.iter().filter_map(first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sight_of_a_revision_counts() {
        let sightings = Sightings::new(3);
        sightings.arrived(0, 4);
        sightings.arrived(0, 6);
        sightings.arrived(0, 7);
        sightings.arrived(1, 4);
        sightings.in_place(2, 5, 30, 2);
        sightings.in_place(2, 9, 40, 3);
        assert_eq!(sightings.arrivals_us(5).len(), 1, "a later one tells of it as well");
        assert_eq!(sightings.arrivals_us(4).len(), 2);
        let works = |revision| -> Vec<u64> {
            sightings.in_place_of(revision).iter().map(|in_place| in_place.work_us).collect()
        };
        assert_eq!((works(5), works(6), works(10)), (vec![30], vec![40], vec![]));
        assert_eq!((sightings.known_by_all(3), sightings.joined()), (0, 0));
        for node in [1, 1, 2] {
            sightings.is_in(node);
        }
        assert_eq!((sightings.joined(), sightings.has_everybody()), (2, false), "who comes back counts once");
        sightings.forget();
        assert!(sightings.arrivals_us(0).is_empty() && sightings.in_place_of(0).is_empty());
        sightings.fail("first".to_owned());
        sightings.fail("second".to_owned());
        assert_eq!(sightings.check(), Err("first".to_owned()));
    }
}
