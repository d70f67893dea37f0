//! What DEBUG switches for those who test the server.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    /// DEBUG JOURNAL-PAUSE: the append-only files are not written.
    pub pauses_journal: AtomicBool,
}

impl Switches {
    /// Whether RESTORE looks at checksums.
    pub fn payload_checksum(&self) -> Checksum {
        if self.skips_checksums.load(Relaxed) { Checksum::Ignored } else { Checksum::Checked }
    }
}
