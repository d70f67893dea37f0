//! Keys of slots that are another node's now, or were never to be this one's: let go of in slices.

use std::time::Duration;

use store::Position;

use super::slot_set::SlotSet;
use crate::server::Server;
use crate::tracking;

/// Keys that go under one lock.
const KEYS_PER_LOCK: usize = 32;
/// Between looks whether writers may go on.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// How far a slot's keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Some are gone.
    More,
    /// None can go now.
    Wait,
    /// All are gone, or none is to go.
    Over,
}

impl Server {
    /// Has another thread let go of the keys of these slots.
    pub fn leave_slots(&self, slots: SlotSet) {
        self.slot_moves.leaving.lock().push(slots);
        self.host.leave_slots();
    }

    /// Lets go of the keys of all slots that were left; takes its time.
    pub fn clear_left_slots(&self) {
        loop {
            // They count as being left until all are gone.
            let Some(slots) = self.slot_moves.leaving.lock().first().cloned() else { return };
            slots.slots().for_each(|slot| self.clear_slot(slot));
            self.slot_moves.leaving.lock().remove(0);
        }
    }

    /// True if keys of these slots are still being let go of.
    pub fn is_leaving(&self, slots: &SlotSet) -> bool {
        self.slot_moves.leaving.lock().iter().any(|leaving| leaving.meets(slots))
    }

    fn clear_slot(&self, slot: u16) {
        loop {
            match self.clear_some(slot) {
                Step::More => {}
                Step::Wait => std::thread::sleep(ROOM_INTERVAL),
                Step::Over => return,
            }
        }
    }

    /// Lets go of some keys of a slot.
    pub(super) fn clear_some(&self, slot: u16) -> Step {
        let first = Position::first_of_slot(slot);
        if self.keyspace.count_in_slot(0, slot) == 0 {
            return Step::Over;
        }
        if self.holds_up_writers(Some(first)) {
            return Step::Wait;
        }
        let mut locked = self.keyspace.lock(first);
        // What has ended goes as what has not.
        locked.see_expired();
        let mut keys = Vec::new();
        self.keyspace.visit_slot(&locked, 0, first, KEYS_PER_LOCK, &mut |key, _| keys.push(key.to_vec()));
        // It may have become this node's meanwhile, or this node a replica, which does what its primary says.
        let is_wanted = self.cluster.topology().is_some() && self.cluster.owns(slot);
        if keys.is_empty() || is_wanted || self.replication.following.is_replica() {
            return Step::Over;
        }
        // Where the log ends while the shard is handed over, the next primary begins.
        if self.replication.following.holds_writes() {
            return Step::Wait;
        }
        for key in &keys {
            locked.remove(0, self.keyspace.position(key), key, i64::MIN);
            if self.watches.any() {
                self.watches.touch(0, key);
            }
            if self.tracking.any() {
                tracking::invalidate(self, None, key, None);
            }
        }
        if self.log.is_active() {
            let words = [&b"UNLINK"[..]].into_iter().chain(keys.iter().map(Vec::as_slice));
            self.log_unseen(&words.collect::<Vec<_>>());
        }
        Step::More
    }
}

#[cfg(test)]
mod tests {
    use base::slot::slot_of;
    use cluster::agent::HoldId;
    use cluster::ids::{Life, Member, NodeId};

    use super::*;
    use crate::replication::replica::Primary;
    use crate::testing::Harness;

    /// A node that leads its shard and has keys in the slot of the tag `a`, which are others' now.
    fn leader() -> (Harness, SlotSet) {
        let mut harness = Harness::with_config(&[("cluster-enabled", "yes")]);
        harness.server.cluster_lead(1, &[], false);
        for n in 0..20 * KEYS_PER_LOCK {
            harness.check(&format!("SET {{a}}{n} {n}"), "+OK");
        }
        let slot = slot_of(b"a");
        (harness, SlotSet::of([slot..=slot]))
    }

    /// A source that was deposed, and learns late that its move is done.
    #[test]
    fn who_leads_no_more_lets_go_of_what_its_primary_lets_go_of() {
        let (harness, slots) = leader();
        let server = &harness.server;
        let keys = || server.keyspace.count_in_slot(0, slot_of(b"a"));
        assert_eq!(server.clear_some(slot_of(b"a")), Step::More);
        let before = (keys(), server.log.end());
        assert!(before.0 > 0);
        server.cluster_stand();
        server.leave_slots(slots.clone());
        server.clear_left_slots();
        server.follow(Primary { host: "primary".to_owned(), port: 7000 });
        server.leave_slots(slots.clone());
        server.clear_left_slots();
        assert_eq!((keys(), server.log.end()), before);
        assert!(!server.is_leaving(&slots));
        // What a primary has left behind, who leads next lets go of.
        server.cluster_lead(3, &[], false);
        server.leave_slots(slots);
        server.clear_left_slots();
        assert_eq!(keys(), 0);
    }

    #[test]
    fn nothing_is_let_go_of_while_the_shard_is_handed_over() {
        let (harness, _) = leader();
        let (server, slot) = (&harness.server, slot_of(b"a"));
        let to = Member { node: NodeId::new(&"b".repeat(40)).expect("40 digits"), life: Life(1) };
        server.cluster_hold(HoldId(1), to);
        let before = (server.keyspace.count_in_slot(0, slot), server.log.end());
        assert_eq!(server.clear_some(slot), Step::Wait);
        assert_eq!((server.keyspace.count_in_slot(0, slot), server.log.end()), before);
        server.cluster_release();
        assert_eq!(server.clear_some(slot), Step::More);
        assert!(server.keyspace.count_in_slot(0, slot) < before.0 && server.log.end() > before.1);
    }
}
