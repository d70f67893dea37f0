//! Beginning, ending and rewriting the append-only files: when, and what is told of it. Writing them is the host's.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::files::FilesState;
use super::saving::SavePurpose;
use crate::propagation::LogReader;
use crate::server::Server;

/// After so many failures in a row the next attempts wait, longer and longer.
const FAILURES_MAX: u64 = 3;
/// The longest wait.
const DELAY_MIN_MAX: i64 = 60;

/// How a rewrite ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The files have a new base.
    Done,
    /// The files that it was for are gone.
    Superseded,
}

/// How BGREWRITEAOF is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteAnswer {
    /// It has begun.
    Started,
    /// It begins when what runs now is over.
    Scheduled,
    /// One runs already.
    Busy,
}

/// What is known of rewrites.
pub struct Rewriting {
    is_scheduled: AtomicBool,
    has_failed: AtomicBool,
    /// Seconds that the last one took; -1: there was none.
    last_took_s: AtomicI64,
    count: AtomicU64,
    failures_in_a_row: AtomicU64,
    /// Bytes that writers kept for the last one at most.
    kept_peak_bytes: AtomicU64,
    /// After many failures: unix seconds of the next attempt, and minutes of the last wait.
    next_at_s: AtomicI64,
    delay_min: AtomicI64,
    /// Held while files are begun or ended.
    changing: Mutex<()>,
}

impl Default for Rewriting {
    fn default() -> Rewriting {
        Rewriting {
            is_scheduled: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            last_took_s: AtomicI64::new(-1),
            count: AtomicU64::new(0),
            failures_in_a_row: AtomicU64::new(0),
            kept_peak_bytes: AtomicU64::new(0),
            next_at_s: AtomicI64::new(0),
            delay_min: AtomicI64::new(0),
            changing: Mutex::new(()),
        }
    }
}

impl Rewriting {
    /// One is to begin when what runs is over.
    pub fn is_scheduled(&self) -> bool {
        self.is_scheduled.load(Relaxed)
    }

    /// True if the last one failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Seconds that the last one took; -1: there was none.
    pub fn last_took_s(&self) -> i64 {
        self.last_took_s.load(Relaxed)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// How many have failed since the last that did not.
    pub fn failures_in_a_row(&self) -> u64 {
        self.failures_in_a_row.load(Relaxed)
    }

    /// Bytes that writers kept for the last one at most.
    pub fn kept_peak_bytes(&self) -> u64 {
        self.kept_peak_bytes.load(Relaxed)
    }

    /// True if, after many failures, it is too early for another attempt. Asked when there is a reason for one.
    fn must_wait(&self, now_s: i64) -> bool {
        if self.failures_in_a_row() < FAILURES_MAX {
            self.delay_min.store(0, Relaxed);
            self.next_at_s.store(0, Relaxed);
            return false;
        }
        let next_at_s = self.next_at_s.load(Relaxed);
        if next_at_s > 0 && now_s >= next_at_s {
            self.next_at_s.store(0, Relaxed);
            return false;
        }
        if next_at_s == 0 {
            let delay_min = (self.delay_min.load(Relaxed) * 2).clamp(1, DELAY_MIN_MAX);
            self.delay_min.store(delay_min, Relaxed);
            self.next_at_s.store(now_s + delay_min * 60, Relaxed);
        }
        true
    }
}

impl Server {
    /// What BGREWRITEAOF asks for. `at_once`: nothing stands in the way of beginning now.
    pub fn rewrite_when_possible(&self, at_once: bool) -> RewriteAnswer {
        let (state, rewriting) = (&self.persistence, &self.persistence.rewriting);
        if state.is_rewriting() {
            return RewriteAnswer::Busy;
        }
        if at_once && self.rewrite_in_background() {
            return RewriteAnswer::Started;
        }
        rewriting.is_scheduled.store(true, Relaxed);
        rewriting.failures_in_a_row.store(0, Relaxed);
        RewriteAnswer::Scheduled
    }

    /// Has the host rewrite the files on another thread; false if a snapshot is being written, or this is not the time for one.
    fn rewrite_in_background(&self) -> bool {
        if self.has_nothing_whole()
            || !self.persistence.claim(SavePurpose::Rewrite, self.clock.now().unix_ms / 1000)
        {
            return false;
        }
        self.persistence.rewriting.is_scheduled.store(false, Relaxed);
        self.notice("Background append only file rewriting started");
        self.host.rewrite_in_background();
        true
    }

    /// Begins a rewrite that was scheduled, or that the files' growth asks for; false if none is due.
    pub(super) fn begin_due_rewrite(&self, now_s: i64) -> bool {
        let (files, rewriting) = (&self.persistence.files, &self.persistence.rewriting);
        // The first base has no room where the files have none, and after some failures it would be tried in minutes only.
        if files.state() == FilesState::Begun && files.error().is_some() {
            return false;
        }
        let growth = self.growth_to_rewrite();
        if !(rewriting.is_scheduled() || growth.is_some()) || rewriting.must_wait(now_s) {
            return false;
        }
        if let Some(percent) = growth {
            self.notice(&format!("Starting automatic rewriting of AOF on {percent}% growth"));
        }
        self.rewrite_in_background()
    }

    /// By how many percent the files have grown, if that is a reason to rewrite them.
    fn growth_to_rewrite(&self) -> Option<u64> {
        let files = &self.persistence.files;
        let sizes = files.sizes();
        let least_bytes = self.config.int("auto-aof-rewrite-min-size") as u64;
        let wanted_percent = self.config.int("auto-aof-rewrite-percentage") as u64;
        if files.state() != FilesState::On || wanted_percent == 0 || sizes.current_bytes <= least_bytes {
            return None;
        }
        let percent = u128::from(sizes.current_bytes) * 100 / u128::from(sizes.base_bytes.max(1));
        let percent = u64::try_from(percent).unwrap_or(u64::MAX).saturating_sub(100);
        (percent >= wanted_percent).then_some(percent)
    }

    /// Does what [`Host::rewrite_in_background`](crate::server::Host::rewrite_in_background) asked for.
    pub fn finish_rewrite(&self) {
        let (state, rewriting) = (&self.persistence, &self.persistence.rewriting);
        let started = self.clock.now();
        let result = self.host.begin_rewrite(self).and_then(|()| {
            let save = self.begin_save(SavePurpose::Rewrite);
            self.host.rewrite(self, &save)
        });
        let took_s = (self.clock.mono_us().saturating_sub(started.mono_us) / 1_000_000) as i64;
        rewriting.last_took_s.store(took_s, Relaxed);
        rewriting.kept_peak_bytes.store(state.kept_peak_bytes.load(Relaxed), Relaxed);
        rewriting.count.fetch_add(1, Relaxed);
        match result {
            Ok(Rewritten::Done) => {
                rewriting.has_failed.store(false, Relaxed);
                rewriting.failures_in_a_row.store(0, Relaxed);
                self.notice("Background AOF rewrite finished successfully");
            }
            Ok(Rewritten::Superseded) => {
                self.notice("Background AOF rewrite given up: its files are not wanted")
            }
            Err(reason) => {
                rewriting.has_failed.store(true, Relaxed);
                rewriting.failures_in_a_row.fetch_add(1, Relaxed);
                self.host.log(&format!("Rewriting the append-only files failed: {reason}"));
            }
        }
        if state.files.state() == FilesState::Begun {
            // What is written is worth nothing before it has a base.
            rewriting.is_scheduled.store(true, Relaxed);
        }
        state.let_go();
    }

    /// Begins or ends the append-only files as `appendonly` says. Waits for the disk: off the workers only.
    pub fn follow_appendonly(&self) -> Result<(), String> {
        let state = &self.persistence;
        let _changing = state.rewriting.changing.lock();
        if state.files.is_recovering() {
            // Whoever loads them looks at the directive when that is done.
            return Ok(());
        }
        match (self.config.bool("appendonly"), state.files.are_kept()) {
            (true, false) => {
                self.host.begin_files(self)?;
                state.files.end_missing();
                self.want_files(true);
                self.rewrite_when_possible(!state.is_loading());
            }
            (false, are_kept) if are_kept || state.files.are_missing() => {
                if are_kept {
                    self.host.end_files(self);
                }
                state.files.end_missing();
                self.want_files(false);
                state.refuse(super::CANNOT_APPEND, false);
                state.rewriting.is_scheduled.store(false, Relaxed);
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins the log anew at `offset`, as with each full synchronization, and the append-only files with it. Waits for the
    /// disk: off the workers only.
    pub(crate) fn restart_log_at(&self, offset: u64, db: u32) {
        let state = &self.persistence;
        let _changing = state.rewriting.changing.lock();
        let are_kept = state.files.are_kept();
        if are_kept {
            self.host.end_files(self);
        }
        self.log.restart_at(offset);
        self.log.set_stream(Some(db));
        self.gates.restart();
        if !are_kept && !state.files.are_missing() {
            return;
        }
        match self.host.begin_files(self) {
            Ok(()) => {
                state.files.end_missing();
                // Once everything is loaded.
                self.rewrite_when_possible(false);
            }
            Err(reason) => self.miss_files(&reason),
        }
    }

    /// The append-only files are wanted and cannot be begun. It is tried again until they are, and nothing is written before:
    /// whoever asked for them is not to find out after a crash that there are none.
    pub(crate) fn miss_files(&self, reason: &str) {
        let state = &self.persistence;
        let is_news = !state.files.are_missing();
        state.files.miss(reason, self.clock.now().unix_ms / 1000);
        state.refuse(super::CANNOT_APPEND, true);
        if is_news {
            self.host.log(&format!(
                "The append-only files cannot be begun: {reason}. Commands that write are refused until they can."
            ));
        }
    }

    /// From this instant on what is written is for the files, or no longer.
    pub fn want_files(&self, are_wanted: bool) {
        let _long = self.keyspace.hold_long();
        let _held = self.keyspace.lock_all();
        self.want_log(LogReader::Files, are_wanted);
    }

    /// Tells those who wait for the append-only files that these have got on. For the thread that writes them.
    pub fn note_files_progress(&self) {
        self.replication.replicas.waits.check(self);
        self.persistence.files.tell_progress();
    }

    /// What keeps the append-only files from being left as they are: the process should not end now.
    pub fn files_at_risk(&self) -> Option<String> {
        let files = &self.persistence.files;
        if files.state() == FilesState::Begun {
            return Some("the first append-only file is still being written".to_owned());
        }
        files.error().filter(|_| files.are_kept() || files.are_missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_delay_the_next_attempt() {
        let rewriting = Rewriting::default();
        assert!(!rewriting.must_wait(1_000));
        rewriting.failures_in_a_row.store(FAILURES_MAX, Relaxed);
        for (now_s, waits) in
            [(1_000, true), (1_059, true), (1_060, false), (1_061, true), (1_180, true), (1_181, false)]
        {
            assert_eq!(rewriting.must_wait(now_s), waits, "at {now_s}");
        }
        for _ in 0..20 {
            rewriting.next_at_s.store(0, Relaxed);
            assert!(rewriting.must_wait(2_000));
        }
        assert_eq!(rewriting.next_at_s.load(Relaxed), 2_000 + DELAY_MIN_MAX * 60);
        rewriting.failures_in_a_row.store(0, Relaxed);
        assert!(!rewriting.must_wait(2_001));
    }
}
