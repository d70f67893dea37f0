//! What the engine knows of the data's files: when they were saved, whether they are being loaded, and which commands must
//! not run meanwhile.
//!
//! Reading and writing is the host's ([`crate::server::Host::save`]), on threads of its own; nothing here waits for a disk.

pub mod command_base;
pub mod files;
pub mod loading;
pub mod replaying;
pub mod rewriting;
pub mod saving;
pub(crate) mod value_commands;

use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release,
};

use journal::files::{Sizes, Status};
use parking_lot::Mutex;

use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::table::{CommandInfo, Flags};
use crate::transaction::Transaction;
use files::Files;
use loading::Loading;
use rewriting::Rewriting;
use saving::{Instant, SavePurpose};

/// After a save that failed, the save points wait so long before they try again.
const RETRY_AFTER_S: i64 = 5;

/// Bits of what holds commands back.
const IS_LOADING: u8 = 1;
const CANNOT_SAVE: u8 = 2;
const CANNOT_APPEND: u8 = 4;

const CANNOT_SAVE_COMMAND: Fault = Fault::Text(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.",
);
const CANNOT_SAVE_SCRIPT: Fault = Fault::Text(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts.",
);

/// Who asks whether something may be written: the texts of errors differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A command, of a client or within a script.
    Command,
    /// A script that says what it does, before it runs.
    Script,
}

/// The state of the data's files.
pub struct Persistence {
    /// Why some commands are refused now; 0 nearly always.
    refusals: AtomicU8,
    /// What a snapshot is taken for now; 0: none is ([`SavePurpose`]).
    running: AtomicU8,
    /// BGSAVE is to begin as soon as nothing else runs.
    is_save_scheduled: AtomicBool,
    /// The snapshot of a save that the host has not come to yet.
    begun: Mutex<Option<Instant>>,
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
    /// The append-only files.
    pub files: Files,
    /// How they are rewritten.
    pub rewriting: Rewriting,
}

impl Persistence {
    pub(crate) fn new(now_s: i64) -> Persistence {
        Persistence {
            refusals: AtomicU8::new(0),
            running: AtomicU8::new(0),
            is_save_scheduled: AtomicBool::new(false),
            begun: Mutex::new(None),
            saved_at_s: AtomicI64::new(now_s),
            tried_at_s: AtomicI64::new(0),
            changes_saved: AtomicU64::new(0),
            last_took_s: AtomicI64::new(-1),
            saves: AtomicU64::new(0),
            keys_written: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            kept_peak_bytes: AtomicU64::new(0),
            loading: Loading::default(),
            files: Files::default(),
            rewriting: Rewriting::default(),
        }
    }

    /// Unix seconds of the last save that succeeded, or of the start.
    pub fn saved_at_s(&self) -> i64 {
        self.saved_at_s.load(Relaxed)
    }

    /// What a snapshot is written for, if one is.
    pub fn running(&self) -> Option<SavePurpose> {
        SavePurpose::ALL.into_iter().find(|purpose| *purpose as u8 == self.running.load(Relaxed))
    }

    /// True while a snapshot is written, but for the append-only files.
    pub fn is_saving(&self) -> bool {
        self.running().is_some_and(|purpose| purpose != SavePurpose::Rewrite)
    }

    /// True while the append-only files are rewritten.
    pub fn is_rewriting(&self) -> bool {
        self.running() == Some(SavePurpose::Rewrite)
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
        self.running().is_some().then(|| now_s - self.tried_at_s.load(Relaxed))
    }

    /// Saves that succeeded since the start.
    pub fn saves(&self) -> u64 {
        self.saves.load(Relaxed)
    }

    /// True if anything holds commands back.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusals.load(Relaxed) != 0
    }

    fn refuse(&self, reason: u8, holds: bool) {
        if holds {
            self.refusals.fetch_or(reason, Relaxed);
        } else {
            self.refusals.fetch_and(!reason, Relaxed);
        }
    }

    /// Claims the right to take a snapshot (*one-save*); false if somebody has it.
    pub(crate) fn claim(&self, purpose: SavePurpose, now_s: i64) -> bool {
        let claimed = self.running.compare_exchange(0, purpose as u8, AcqRel, Relaxed).is_ok();
        if claimed {
            self.tried_at_s.store(now_s, Relaxed);
        }
        claimed
    }

    /// Gives back the right that [`Persistence::claim`] gave.
    pub(crate) fn let_go(&self) {
        self.running.store(0, Release);
    }

    /// Has BGSAVE begin as soon as nothing else runs.
    pub(crate) fn schedule_save(&self) {
        self.is_save_scheduled.store(true, Relaxed);
    }
}

impl Server {
    /// Changes since the last save that succeeded began.
    pub fn unsaved_changes(&self) -> u64 {
        let changes = self.total(|stats| &stats.dirty);
        changes.saturating_sub(self.persistence.changes_saved.load(Relaxed))
    }

    /// What a command is told while the data is loaded, or cannot be saved. `queued` is what EXEC would run.
    #[inline]
    pub(crate) fn admit_by_persistence(&self, info: &CommandInfo, queued: Option<&Transaction>) -> CmdResult {
        match self.persistence.refusals.load(Relaxed) {
            0 => Ok(()),
            _ => self.refuse_by_persistence(info, queued),
        }
    }

    #[cold]
    fn refuse_by_persistence(&self, info: &CommandInfo, queued: Option<&Transaction>) -> CmdResult {
        let queued = queued.filter(|_| info.spec.name == "exec");
        self.admit_to_loading(info.spec.flags & queued.map_or(Flags::all(), Transaction::shared_flags))?;
        let writes = queued.map_or(info.spec.flags, Transaction::flags).contains(Flags::WRITE);
        // PING tells that writes fail, as in Redis.
        if writes || info.spec.name == "ping" { self.admit_write(Asker::Command) } else { Ok(()) }
    }

    /// What commands are told, each of which has these flags, while the data is loaded. Asked again under their stripes: a
    /// replica's data may have been thrown away for others since they were admitted.
    #[inline]
    pub(crate) fn admit_to_loading(&self, flags: Flags) -> CmdResult {
        match self.persistence.is_loading() && !flags.contains(Flags::LOADING) {
            true => Err(Fault::Text("LOADING Redis is loading the dataset in memory")),
            false => Ok(()),
        }
    }

    /// An error if nothing may be written since it could not be kept.
    pub(crate) fn admit_write(&self, asker: Asker) -> CmdResult {
        let refusals = self.persistence.refusals.load(Relaxed);
        let is_script = asker == Asker::Script;
        if refusals & CANNOT_SAVE != 0
            && self.config.bool("stop-writes-on-bgsave-error")
            && !self.save_points().is_empty()
        {
            return Err(if is_script { CANNOT_SAVE_SCRIPT } else { CANNOT_SAVE_COMMAND });
        }
        if refusals & CANNOT_APPEND != 0
            && let Some(error) = self.persistence.files.error()
        {
            let words = files::system_words(&error);
            return Err(Fault::owned(match is_script {
                false => format!("MISCONF Errors writing to the AOF file: {words}"),
                true => format!(
                    "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: {words}"
                ),
            }));
        }
        Ok(())
    }

    /// Takes over how the writer of the append-only files does, and says so in the log where that changed.
    pub fn note_files(&self, status: &Status, sizes: Sizes) {
        match self.persistence.files.take_over(status, sizes) {
            None => {}
            Some(Some(error)) => {
                let was_refused = self.persistence.refusals.load(Relaxed) & CANNOT_APPEND != 0;
                self.persistence.refuse(CANNOT_APPEND, true);
                if !was_refused {
                    self.host.log(&format!(
                        "The append-only files cannot be written: {error}. Commands that write are refused until they can."
                    ));
                }
            }
            Some(None) => {
                self.persistence.refuse(CANNOT_APPEND, false);
                self.host.log("The append-only files are written again.");
            }
        }
    }

    /// The pairs of directive `save`: so many seconds, so many changes.
    pub fn save_points(&self) -> Vec<(i64, u64)> {
        let words = self.config.list("save");
        let number = |word: &Vec<u8>| base::num::parse_i64(word).unwrap_or(0);
        words.chunks_exact(2).map(|pair| (number(&pair[0]), number(&pair[1]) as u64)).collect()
    }

    /// Begins what is due: append-only files that could not be begun before, a save or a rewrite that was scheduled, that a
    /// save point asks for, or the growth of the append-only files. To be called every now and then.
    pub fn check_save_points(&self, now_s: i64) {
        let state = &self.persistence;
        if state.is_loading() || self.has_nothing_whole() {
            return;
        }
        if state.files.is_beginning_due(now_s) {
            self.host.follow_appendonly();
        }
        if state.running().is_some() {
            return;
        }
        if self.begin_due_rewrite(now_s) {
            return;
        }
        if state.cannot_save() && now_s - state.tried_at_s.load(Relaxed) <= RETRY_AFTER_S {
            return;
        }
        if state.is_save_scheduled.swap(false, Relaxed) {
            let _ = self.save_in_background(None);
            return;
        }
        let (changes, elapsed_s) = (self.unsaved_changes(), now_s - state.saved_at_s());
        if changes == 0 {
            return;
        }
        let reached = |(seconds, wanted): &(i64, u64)| changes >= *wanted && elapsed_s > *seconds;
        if let Some((seconds, wanted)) = self.save_points().into_iter().find(reached) {
            self.notice(&format!("{wanted} changes in {seconds} seconds. Saving..."));
            let _ = self.save_in_background(None);
        }
    }

    pub(crate) fn notice(&self, text: &str) {
        self.host.log_at(crate::server::LogLevel::Notice, text);
    }
}
