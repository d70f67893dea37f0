//! How many share a sync under `appendfsync always`.
//!
//! A sync lets go of everybody whose record it made safe, and they send their next commands at about the same time.
//! Syncing when the first of these is there splits them for good into two groups, each of which waits for its own sync
//! and for the other's. So after a sync as many bytes are awaited as it made safe, for a part of the time that it took.
//! Who comes when nobody else does is synced at once, since that time is over.

use std::time::Duration;

use base::limits::{SYNC_AWAITED_US_MAX, SYNC_PARTS_AWAITED};

/// The last sync.
#[derive(Debug, Default)]
pub struct Grouping {
    bytes: u64,
    /// Nothing is awaited from then on.
    until_us: u64,
}

/// What a sync is to wait for.
#[derive(Debug, PartialEq, Eq)]
pub struct Awaited {
    /// So many bytes that are not safe yet.
    pub bytes: u64,
    /// No longer than this.
    pub time: Duration,
}

impl Grouping {
    /// Notes a sync that made so many bytes of the log safe.
    pub fn note_sync(&mut self, bytes: u64, began_us: u64, ended_us: u64) {
        let took_us = ended_us.saturating_sub(began_us);
        self.bytes = bytes;
        self.until_us = ended_us + (took_us / SYNC_PARTS_AWAITED).min(SYNC_AWAITED_US_MAX);
    }

    /// What is to be waited for with so many bytes that are not safe; None: nothing.
    pub fn awaited(&self, unsafe_bytes: u64, now_us: u64) -> Option<Awaited> {
        // A few that do not come back should not keep the others waiting.
        let bytes = self.bytes - self.bytes / 8;
        let left_us = self.until_us.saturating_sub(now_us);
        (left_us > 0 && unsafe_bytes < bytes).then(|| Awaited { bytes, time: Duration::from_micros(left_us) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaited(bytes: u64, us: u64) -> Option<Awaited> {
        Some(Awaited { bytes, time: Duration::from_micros(us) })
    }

    #[test]
    fn those_who_shared_a_sync_are_awaited_for_a_part_of_its_time() {
        let mut grouping = Grouping::default();
        assert_eq!(grouping.awaited(0, 5), None, "there was no sync");
        grouping.note_sync(800, 10_000, 12_000);
        let parts_us = 2_000 / SYNC_PARTS_AWAITED;
        assert_eq!(grouping.awaited(0, 12_000), awaited(700, parts_us));
        assert_eq!(grouping.awaited(699, 12_100), awaited(700, parts_us - 100));
        assert_eq!(grouping.awaited(700, 12_100), None, "all but a few are there");
        assert_eq!(grouping.awaited(1, 12_000 + parts_us), None, "they do not come");
        grouping.note_sync(1, 20_000, 22_000);
        assert_eq!(grouping.awaited(0, 22_000), awaited(1, parts_us));
        assert_eq!(grouping.awaited(1, 22_000), None, "who is alone waits for nobody");
    }

    #[test]
    fn a_slow_disk_is_not_made_much_slower() {
        let mut grouping = Grouping::default();
        grouping.note_sync(800, 0, 5_000_000);
        assert_eq!(grouping.awaited(1, 5_000_000), awaited(700, SYNC_AWAITED_US_MAX));
    }
}
