//! Which keys were written by what is not yet on the disk.
//!
//! By stripe: what a key's stripe guards, this does, too, so that its lock is never waited for. A stripe without unsynced
//! writes costs a reader one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::limits::UNSYNCED_KEYS_MAX;
use parking_lot::Mutex;
use store::{Position, STRIPES};

/// The newest write of each key, as far as it may not be safe yet.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// Offset after the newest record that may concern any key.
    everything: AtomicU64,
    /// Made when they are first needed.
    stripes: OnceLock<Box<[Stripe]>>,
}

/// On a cache line of its own, since its owners are many.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    /// Offset after the newest write of any of its keys.
    newest: AtomicU64,
    writes: Mutex<Writes>,
}

#[derive(Debug, Default)]
struct Writes {
    /// Whatever its database: that two keys of one name are confused makes one wait a little longer.
    by_key: Vec<(Position, u64)>,
    /// The newest write of keys that are not told apart.
    of_others: u64,
}

impl Unsynced {
    fn stripe(&self, position: Position) -> &Stripe {
        let stripes = self.stripes.get_or_init(|| (0..STRIPES).map(|_| Stripe::default()).collect());
        &stripes[position.stripe()]
    }

    /// A key was written by the record that ends at `offset`; its stripe is held. What is before `synced_to` is safe.
    pub(super) fn add(&self, position: Position, offset: u64, synced_to: u64) {
        let stripe = self.stripe(position);
        let mut writes = stripe.writes.lock();
        if stripe.newest.swap(offset, Relaxed) <= synced_to {
            writes.by_key.clear();
        } else if let Some(known) = writes.by_key.iter_mut().find(|known| known.0 == position) {
            known.1 = offset;
            return;
        }
        if writes.by_key.len() == UNSYNCED_KEYS_MAX {
            writes.by_key.retain(|(_, offset)| *offset > synced_to);
        }
        if writes.by_key.len() == UNSYNCED_KEYS_MAX {
            writes.by_key.clear();
            writes.of_others = offset;
        } else {
            writes.by_key.push((position, offset));
        }
    }

    /// Any key may have been written by the record that ends at `offset`.
    pub(super) fn add_everything(&self, offset: u64) {
        self.everything.fetch_max(offset, Relaxed);
    }

    /// The offset after the newest record that may concern any key.
    #[inline]
    pub(super) fn of_everything(&self) -> u64 {
        self.everything.load(Relaxed)
    }

    /// The offset after the newest write of a key, whose stripe is held; what is not above `synced_to` may be too low.
    #[inline]
    pub(super) fn of_key(&self, position: Position, synced_to: u64) -> u64 {
        let stripe = self.stripe(position);
        if stripe.newest.load(Relaxed) <= synced_to {
            return 0;
        }
        let writes = stripe.writes.lock();
        let known = writes.by_key.iter().find(|known| known.0 == position);
        known.map_or(0, |known| known.1).max(writes.of_others)
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        for stripe in self.stripes.get().into_iter().flatten() {
            *stripe.writes.lock() = Writes::default();
            stripe.newest.store(0, Relaxed);
        }
        self.everything.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use store::{Keyspace, Placement};

    use super::*;

    /// Positions of one stripe.
    fn positions(count: usize) -> Vec<Position> {
        let keyspace = Keyspace::new(1, Placement::Hash, 0);
        let all = (0..).map(|number: u32| keyspace.position(&number.to_le_bytes()));
        all.filter(|position| position.stripe() == 7).take(count).collect()
    }

    #[test]
    fn a_key_waits_for_its_own_newest_write() {
        let (unsynced, keys) = (Unsynced::default(), positions(3));
        unsynced.add(keys[0], 10, 0);
        unsynced.add(keys[1], 20, 0);
        unsynced.add(keys[0], 30, 0);
        assert_eq!(keys.iter().map(|key| unsynced.of_key(*key, 0)).collect::<Vec<_>>(), [30, 20, 0]);
        assert_eq!(unsynced.of_key(keys[0], 30), 0, "all of the stripe is safe");
        unsynced.add(keys[2], 40, 30);
        assert_eq!(unsynced.of_key(keys[1], 30), 0);
        assert_eq!(unsynced.of_key(keys[2], 30), 40);
        unsynced.clear();
        assert_eq!(unsynced.of_key(keys[2], 30), 0);
    }

    #[test]
    fn of_too_many_keys_all_wait_for_the_newest() {
        let (unsynced, keys) = (Unsynced::default(), positions(UNSYNCED_KEYS_MAX + 2));
        for (number, key) in keys[..UNSYNCED_KEYS_MAX].iter().enumerate() {
            unsynced.add(*key, number as u64 + 1, 0);
        }
        assert_eq!(unsynced.of_key(keys[0], 0), 1);
        let (last, never_written) = (keys[UNSYNCED_KEYS_MAX], keys[UNSYNCED_KEYS_MAX + 1]);
        // Some are safe by now: there is room.
        unsynced.add(last, 500, 10);
        assert_eq!((unsynced.of_key(last, 10), unsynced.of_key(never_written, 10)), (500, 0));
        for key in &keys[..10] {
            unsynced.add(*key, 600, 10);
        }
        assert_eq!(unsynced.of_key(never_written, 10), 600);
        assert_eq!(unsynced.of_key(keys[30], 10), 600);
        assert_eq!(unsynced.of_key(keys[30], 600), 0);
    }
}
