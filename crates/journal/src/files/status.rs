//! What others see of the writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets of the log that have been reached, for whoever holds replies back until then.
#[derive(Debug, Default)]
pub struct Watermarks {
    written_to: AtomicU64,
    synced_to: AtomicU64,
}

impl Watermarks {
    /// Both at `offset`.
    pub fn new(offset: u64) -> Watermarks {
        Watermarks { written_to: AtomicU64::new(offset), synced_to: AtomicU64::new(offset) }
    }

    /// Everything before this offset was given to the operating system: it survives this process.
    pub fn written_to(&self) -> u64 {
        self.written_to.load(Ordering::Acquire)
    }

    /// Everything before this offset is safe on the disk: it survives the machine.
    pub fn synced_to(&self) -> u64 {
        self.synced_to.load(Ordering::Acquire)
    }

    pub(super) fn publish(&self, written_to: u64, synced_to: u64) {
        self.written_to.fetch_max(written_to, Ordering::Release);
        self.synced_to.fetch_max(synced_to, Ordering::Release);
    }
}

/// How the writer does: INFO's `aof_last_write_status` and the like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What is wrong with writing; None: `ok`.
    pub write_error: Option<String>,
    /// What is wrong with syncing; None: nothing.
    pub sync_error: Option<String>,
    /// How often a sync was due while the one before was still under way (`aof_delayed_fsync`).
    pub syncs_delayed: u64,
    /// Whether a sync is under way on another thread.
    pub sync_in_flight: bool,
}

impl Status {
    /// Whether writes are to be refused, and why.
    pub fn error(&self) -> Option<&str> {
        self.sync_error.as_deref().or(self.write_error.as_deref())
    }
}

/// Bytes of the files, for `auto-aof-rewrite-*`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of all listed files (`aof_current_size`).
    pub current_bytes: u64,
    /// Of all listed files when they were last rewritten, or at the start (`aof_base_size`).
    pub base_bytes: u64,
}
