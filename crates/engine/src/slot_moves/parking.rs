//! Commands on slots whose owner is about to change wait, and everybody else's go on.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use parking_lot::MutexGuard;

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
    /// One move is decided at a time: the next one's slots need not wait for it.
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let moves = &self.server.slot_moves;
        if moves.is_overdue() {
            self.server.cluster.withhold(None);
        }
        moves.parked.unmark(self.slots);
        moves.is_overdue.store(false, SeqCst);
    }
}

impl SlotMoves {
    /// True if a command on this slot has to come again. Its stripe is held: so whoever marks slots and then takes their
    /// stripes once knows that nobody touches them any more.
    #[inline]
    pub(crate) fn holds_up_slot(&self, slot: u16) -> bool {
        self.parked.any() && self.parked.has(slot) && !self.is_overdue()
    }

    /// As [`SlotMoves::holds_up_slot`], of a command on keys of this slot, or without keys; `covers_all`: it holds every stripe.
    #[inline]
    pub(crate) fn holds_up(&self, slot: Option<u16>, covers_all: impl FnOnce() -> bool) -> bool {
        self.parked.any()
            && match slot {
                Some(slot) => self.holds_up_slot(slot),
                None => covers_all() && self.holds_up_stripes(None),
            }
    }

    fn is_overdue(&self) -> bool {
        self.is_overdue.load(SeqCst)
    }

    /// True if who holds these stripes, or all, has to let go of them and come again. `slot` is that of all that it touches in
    /// them, if it is one.
    pub(crate) fn holds_up_any(&self, stripes: Option<&[usize]>, slot: Option<u16>) -> bool {
        match slot.filter(|_| stripes.is_some()) {
            Some(slot) => self.holds_up_slot(slot),
            None => self.holds_up_stripes(stripes),
        }
    }

    fn holds_up_stripes(&self, stripes: Option<&[usize]>) -> bool {
        self.parked.any()
            && !self.is_overdue()
            && stripes.is_none_or(|stripes| stripes.iter().any(|stripe| self.parked.has_in_stripe(*stripe)))
    }

    /// Lets a moment pass, on a thread that may wait.
    pub(crate) fn wait_a_moment() {
        std::thread::sleep(PARKED_INTERVAL);
    }
}

impl Server {
    pub(super) fn park<'a>(&'a self, slots: &'a SlotSet, turn: MutexGuard<'a, ()>) -> Parked<'a> {
        self.slot_moves.parked.mark(slots);
        let held = self.keyspace.lock_stripes(&mut slots.stripes());
        let offset = self.log.end();
        drop(held);
        Parked { server: self, slots, offset, _turn: turn }
    }

    /// Whose the slots of a move are cannot be known for now: their commands, which have waited, are refused until it is.
    pub fn refuse_parked(&self, slots: &SlotSet) {
        self.cluster.withhold(Some(slots.clone()));
        self.slot_moves.is_overdue.store(true, SeqCst);
    }
}
