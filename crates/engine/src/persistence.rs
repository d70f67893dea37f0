//! What the engine knows of the data's files: when they were saved, whether they are being loaded, and which commands must
//! not run meanwhile.
//!
//! Reading and writing is the host's ([`crate::server::Host::save`]), on threads of its own; nothing here waits for a disk.

pub mod loading;
pub mod saving;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::table::{CommandInfo, Flags};
use loading::Loading;

/// After a save that failed, the save points wait so long before they try again.
const RETRY_AFTER_S: i64 = 5;

/// Bits of what holds commands back.
const IS_LOADING: u8 = 1;
const CANNOT_SAVE: u8 = 2;

/// The state of the data's files.
pub struct Persistence {
    /// Why some commands are refused now; 0 nearly always.
    refusals: AtomicU8,
    is_saving: AtomicBool,
    /// Unix seconds of the last save that succeeded (or of the start), and of the last attempt's beginning.
    saved_at_s: AtomicI64,
    tried_at_s: AtomicI64,
    /// Changes counted when the last save that succeeded began.
    changes_saved: AtomicU64,
    /// Seconds that the last save took; -1: there was none.
    last_took_s: AtomicI64,
    saves: AtomicU64,
    /// Keys of the save that runs: written, and all; bytes that writers kept for it, now and at most.
    pub(crate) keys_written: AtomicU64,
    pub(crate) keys_total: AtomicU64,
    pub(crate) kept_peak_bytes: AtomicU64,
    /// What is being loaded.
    pub loading: Loading,
}

impl Persistence {
    pub(crate) fn new(now_s: i64) -> Persistence {
        Persistence {
            refusals: AtomicU8::new(0),
            is_saving: AtomicBool::new(false),
            saved_at_s: AtomicI64::new(now_s),
            tried_at_s: AtomicI64::new(0),
            changes_saved: AtomicU64::new(0),
            last_took_s: AtomicI64::new(-1),
            saves: AtomicU64::new(0),
            keys_written: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            kept_peak_bytes: AtomicU64::new(0),
            loading: Loading::default(),
        }
    }

    /// Unix seconds of the last save that succeeded, or of the start.
    pub fn saved_at_s(&self) -> i64 {
        self.saved_at_s.load(Relaxed)
    }

    /// True while a snapshot is written.
    pub fn is_saving(&self) -> bool {
        self.is_saving.load(Relaxed)
    }

    /// True if the last save failed.
    pub fn cannot_save(&self) -> bool {
        self.refusals.load(Relaxed) & CANNOT_SAVE != 0
    }

    /// True while the data is loaded.
    pub fn is_loading(&self) -> bool {
        self.refusals.load(Relaxed) & IS_LOADING != 0
    }

    /// Seconds that the last save took, if there was one.
    pub fn last_took_s(&self) -> i64 {
        self.last_took_s.load(Relaxed)
    }

    /// Seconds since the running save began.
    pub fn running_for_s(&self, now_s: i64) -> Option<i64> {
        self.is_saving().then(|| now_s - self.tried_at_s.load(Relaxed))
    }

    /// Saves that succeeded since the start.
    pub fn saves(&self) -> u64 {
        self.saves.load(Relaxed)
    }

    fn refuse(&self, reason: u8, holds: bool) {
        if holds {
            self.refusals.fetch_or(reason, Relaxed);
        } else {
            self.refusals.fetch_and(!reason, Relaxed);
        }
    }

    /// Claims the right to save; false if a save runs.
    pub(crate) fn claim(&self, now_s: i64) -> bool {
        let claimed = !self.is_saving.swap(true, AcqRel);
        if claimed {
            self.tried_at_s.store(now_s, Relaxed);
        }
        claimed
    }
}

impl Persistence {
    /// Gives the right to save back that [`Persistence::claim`] gave.
    pub(crate) fn let_go(&self) {
        self.is_saving.store(false, Relaxed);
    }
}

impl Server {
    /// Changes since the last save that succeeded began.
    pub fn unsaved_changes(&self) -> u64 {
        let changes = self.total(|stats| &stats.dirty);
        changes.saturating_sub(self.persistence.changes_saved.load(Relaxed))
    }

    /// What a command is told while the data is loaded, or cannot be saved.
    #[inline]
    pub(crate) fn admit_by_persistence(&self, info: &CommandInfo) -> CmdResult {
        match self.persistence.refusals.load(Relaxed) {
            0 => Ok(()),
            refusals => self.refuse_by_persistence(info, refusals),
        }
    }

    #[cold]
    fn refuse_by_persistence(&self, info: &CommandInfo, refusals: u8) -> CmdResult {
        let flags = info.spec.flags;
        if refusals & IS_LOADING != 0 && !flags.contains(Flags::LOADING) {
            return Err(Fault::Text("LOADING Redis is loading the dataset in memory"));
        }
        let writes = flags.contains(Flags::WRITE);
        let must_save = self.config.bool("stop-writes-on-bgsave-error") && !self.save_points().is_empty();
        if refusals & CANNOT_SAVE != 0 && writes && must_save {
            return Err(Fault::Text(
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.",
            ));
        }
        Ok(())
    }

    /// The pairs of directive `save`: so many seconds, so many changes.
    pub fn save_points(&self) -> Vec<(i64, u64)> {
        let words = self.config.list("save");
        let number = |word: &Vec<u8>| base::num::parse_i64(word).unwrap_or(0);
        words.chunks_exact(2).map(|pair| (number(&pair[0]), number(&pair[1]) as u64)).collect()
    }

    /// Begins a save if a save point is reached, or if one was scheduled. To be called every now and then.
    pub fn check_save_points(&self, now_s: i64) {
        let state = &self.persistence;
        if state.is_saving() || state.is_loading() {
            return;
        }
        if state.cannot_save() && now_s - state.tried_at_s.load(Relaxed) <= RETRY_AFTER_S {
            return;
        }
        let (changes, elapsed_s) = (self.unsaved_changes(), now_s - state.saved_at_s());
        if changes == 0 {
            return;
        }
        let reached = |(seconds, wanted): &(i64, u64)| changes >= *wanted && elapsed_s > *seconds;
        if let Some((seconds, wanted)) = self.save_points().into_iter().find(reached) {
            self.notice(&format!("{wanted} changes in {seconds} seconds. Saving..."));
            let _ = self.save_in_background();
        }
    }

    pub(crate) fn notice(&self, text: &str) {
        self.host.log_at(crate::server::LogLevel::Notice, text);
    }
}
