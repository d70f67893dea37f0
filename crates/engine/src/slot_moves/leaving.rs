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
        let first = Position::first_of_slot(slot);
        while self.keyspace.count_in_slot(0, slot) > 0 {
            while self.holds_up_writers(Some(first)) {
                std::thread::sleep(ROOM_INTERVAL);
            }
            let mut locked = self.keyspace.lock(first);
            // What has ended goes as what has not.
            locked.see_expired();
            let mut keys = Vec::new();
            self.keyspace.visit_slot(&locked, 0, first, KEYS_PER_LOCK, &mut |key, _| keys.push(key.to_vec()));
            // It may have become this node's meanwhile, or this node a replica, which does what its primary says.
            let is_wanted = self.cluster.topology().is_some() && self.cluster.owns(slot);
            if keys.is_empty() || is_wanted || self.replication.following.is_replica() {
                return;
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
                self.log_alone(0, &words.collect::<Vec<_>>());
            }
        }
    }
}
