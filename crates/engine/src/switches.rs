//! What DEBUG switches for those who test the server.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use rdb::payload::Checksum;

/// Switches; all are off at first.
#[derive(Default)]
pub struct Switches {
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub skips_checksums: AtomicBool,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call what is marked as not for them.
    pub allows_all_in_scripts: AtomicBool,
    /// DEBUG PAUSE-CRON: nothing is done that nobody asked for.
    pub pauses_cron: AtomicBool,
    /// DEBUG CHANGE-REPL-ID: the replication id, where it is no longer that of the start.
    replication_id: Mutex<Option<String>>,
}

impl Switches {
    /// Whether RESTORE looks at checksums.
    pub fn payload_checksum(&self) -> Checksum {
        if self.skips_checksums.load(Relaxed) { Checksum::Ignored } else { Checksum::Checked }
    }

    /// The replication id, if it was changed.
    pub fn replication_id(&self) -> Option<String> {
        self.replication_id.lock().clone()
    }

    /// Changes the replication id.
    pub fn change_replication_id(&self, id: String) {
        *self.replication_id.lock() = Some(id);
    }
}
