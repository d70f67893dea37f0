//! Commands on slots whose owner is about to change wait, and everybody else's go on.

use std::time::Duration;

use super::SlotMoves;
use super::slot_set::SlotSet;
use crate::server::Server;

/// Between looks whether slots are parked no more, for threads that may wait.
const PARKED_INTERVAL: Duration = Duration::from_micros(500);

/// As long as it lives, the slots are parked.
pub(super) struct Parked<'a> {
    server: &'a Server,
    slots: &'a SlotSet,
    /// The log's end: it has all that was done to the slots.
    pub(super) offset: u64,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.server.slot_moves.parked.unmark(self.slots);
    }
}

impl SlotMoves {
    /// True if a command on this slot has to come again. Its stripe is held: so whoever marks slots and then takes their
    /// stripes once knows that nobody touches them any more.
    #[inline]
    pub(crate) fn holds_up(&self, slot: u16) -> bool {
        self.parked.any() && self.parked.has(slot)
    }

    /// True if who holds these stripes, or all, has to let go of them and come again.
    pub(crate) fn holds_up_stripes(&self, stripes: Option<&[usize]>) -> bool {
        self.parked.any()
            && stripes.is_none_or(|stripes| stripes.iter().any(|stripe| self.parked.has_in_stripe(*stripe)))
    }

    /// Lets a moment pass, on a thread that may wait.
    pub(crate) fn wait_a_moment() {
        std::thread::sleep(PARKED_INTERVAL);
    }
}

impl Server {
    pub(super) fn park<'a>(&'a self, slots: &'a SlotSet) -> Parked<'a> {
        self.slot_moves.parked.mark(slots);
        let held = self.keyspace.lock_stripes(&mut slots.stripes());
        let offset = self.log.end();
        drop(held);
        Parked { server: self, slots, offset }
    }
}
