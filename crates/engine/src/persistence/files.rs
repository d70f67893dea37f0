//! The append-only files, as the engine sees them: whether they are kept, how far they are, and how they do.
//!
//! They are written by a thread of the host, which publishes here what it has reached. Nothing here waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use journal::files::{Backlog, Sizes, Status, Watermarks};
use parking_lot::{Mutex, RwLock};

/// Between two attempts to begin files that are missing.
const RETRY_S: i64 = 1;

/// What is called when the files have got on.
pub type OnProgress = Box<dyn Fn() + Send + Sync>;

/// What others need of files that a start would load.
#[derive(Clone)]
pub struct FilesFace {
    /// How far they are.
    pub watermarks: Arc<Watermarks>,
    /// The log by offset, as far back as they have it.
    pub backlog: Arc<Backlog>,
}

/// Whether there are files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FilesState {
    /// `appendonly no`.
    Off = 0,
    /// They are written, but are worth nothing yet: their base is still to be made.
    Begun = 1,
    /// A start loads them.
    On = 2,
}

/// The append-only files.
#[derive(Default)]
pub struct Files {
    state: AtomicU8,
    face: RwLock<Option<FilesFace>>,
    /// They are being loaded: nobody else may begin or end them.
    is_recovering: AtomicBool,
    is_awaited: AtomicBool,
    on_progress: RwLock<Option<OnProgress>>,
    /// Why they cannot be written.
    error: Mutex<Option<String>>,
    /// They are wanted and could not be begun: unix seconds of the next attempt; 0: they are not missing.
    begin_at_s: AtomicI64,
    current_bytes: AtomicU64,
    base_bytes: AtomicU64,
    syncs_delayed: AtomicU64,
    is_syncing: AtomicBool,
}

impl Files {
    /// Whether there are files, and what they are worth.
    pub fn state(&self) -> FilesState {
        match self.state.load(SeqCst) {
            0 => FilesState::Off,
            1 => FilesState::Begun,
            _ => FilesState::On,
        }
    }

    /// True unless `appendonly` is off.
    pub fn are_kept(&self) -> bool {
        self.state() != FilesState::Off
    }

    /// True while they are being loaded at a start.
    pub fn is_recovering(&self) -> bool {
        self.is_recovering.load(SeqCst)
    }

    /// They are being loaded, or no longer.
    pub fn set_recovering(&self, is_recovering: bool) {
        self.is_recovering.store(is_recovering, SeqCst);
    }

    /// The files, if a start would load them. None: no reply has to wait for them.
    pub fn face(&self) -> Option<FilesFace> {
        self.face.read().clone()
    }

    /// The offsets that the files have reached, if a start would load them.
    pub fn watermarks(&self) -> Option<Arc<Watermarks>> {
        self.face.read().as_ref().map(|face| face.watermarks.clone())
    }

    /// The log as the files have it, if a start would load them.
    pub fn backlog(&self) -> Option<Arc<Backlog>> {
        self.face.read().as_ref().map(|face| face.backlog.clone())
    }

    /// Sets what is called when the watermarks have moved, or the files have begun or ended, and somebody waits for it.
    /// It is called on the thread that writes, so it has to be brief.
    pub fn set_on_progress(&self, on_progress: OnProgress) {
        *self.on_progress.write() = Some(on_progress);
    }

    /// Has the next progress told, once. To be called before the watermarks are looked at for the last time: else what
    /// happens in between is missed.
    pub fn await_progress(&self) {
        self.is_awaited.store(true, SeqCst);
    }

    /// Tells those who wait that there was progress. For the thread that writes, after it published.
    pub fn tell_progress(&self) {
        if self.is_awaited.swap(false, SeqCst)
            && let Some(on_progress) = &*self.on_progress.read()
        {
            on_progress();
        }
    }

    /// The files have begun, count from now on, or are gone. For the thread that writes.
    pub fn set_state(&self, state: FilesState, face: Option<FilesFace>) {
        debug_assert_eq!(state == FilesState::On, face.is_some(), "files-face: of files that count");
        *self.face.write() = face;
        self.state.store(state as u8, SeqCst);
        self.tell_progress();
    }

    /// Takes over how the writer does; the error that it has now, if that is another than before (`Some(None)`: it is
    /// well again).
    pub(super) fn take_over(&self, status: &Status, sizes: Sizes) -> Option<Option<String>> {
        self.current_bytes.store(sizes.current_bytes, Relaxed);
        self.base_bytes.store(sizes.base_bytes, Relaxed);
        self.syncs_delayed.store(status.syncs_delayed, Relaxed);
        self.is_syncing.store(status.sync_in_flight, Relaxed);
        let (mut known, error) = (self.error.lock(), status.error());
        if known.as_deref() == error {
            return None;
        }
        *known = error.map(str::to_owned);
        Some(known.clone())
    }

    /// Why the files cannot be written now, if they cannot.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    /// They are wanted, and could not be begun.
    pub(super) fn miss(&self, reason: &str, now_s: i64) {
        *self.error.lock() = Some(reason.to_owned());
        self.begin_at_s.store(now_s + RETRY_S, SeqCst);
    }

    /// They are begun, or not wanted any more.
    pub(super) fn end_missing(&self) {
        self.begin_at_s.store(0, SeqCst);
    }

    /// True if they are wanted, and could not be begun.
    pub fn are_missing(&self) -> bool {
        self.begin_at_s.load(SeqCst) != 0
    }

    /// True, once in a while, if they are missing: it is time for another attempt.
    pub(super) fn is_beginning_due(&self, now_s: i64) -> bool {
        let begin_at_s = self.begin_at_s.load(SeqCst);
        let is_due = begin_at_s != 0 && begin_at_s <= now_s;
        is_due && self.begin_at_s.compare_exchange(begin_at_s, now_s + RETRY_S, SeqCst, SeqCst).is_ok()
    }

    /// Bytes of all files, and what they were when they were last rewritten.
    pub fn sizes(&self) -> Sizes {
        let (current_bytes, base_bytes) = (self.current_bytes.load(Relaxed), self.base_bytes.load(Relaxed));
        Sizes { current_bytes, base_bytes }
    }

    /// How often a sync was due while the one before was still under way.
    pub fn syncs_delayed(&self) -> u64 {
        self.syncs_delayed.load(Relaxed)
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.is_syncing.load(Relaxed)
    }
}

/// The system's own words of an error that names what was done and to what: `cannot write x: No room (os error 28)`.
pub(super) fn system_words(error: &str) -> &str {
    let reason = error.rsplit(": ").next().unwrap_or(error);
    reason.split(" (os error ").next().unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn progress_is_told_once_to_those_who_wait() {
        let (files, told) = (Files::default(), Arc::new(AtomicUsize::new(0)));
        let count = told.clone();
        files.set_on_progress(Box::new(move || {
            count.fetch_add(1, Relaxed);
        }));
        files.tell_progress();
        assert_eq!(told.load(Relaxed), 0, "nobody waits");
        files.await_progress();
        files.tell_progress();
        files.tell_progress();
        assert_eq!(told.load(Relaxed), 1);
        files.await_progress();
        files.set_state(FilesState::Begun, None);
        assert_eq!((told.load(Relaxed), files.are_kept()), (2, true));
    }

    #[test]
    fn an_error_is_news_once_and_so_is_its_end() {
        let files = Files::default();
        let bad = Status {
            write_error: Some("cannot write x: No room (os error 28)".to_owned()),
            ..Status::default()
        };
        let sizes = Sizes { current_bytes: 7, base_bytes: 3 };
        assert_eq!(files.take_over(&Status::default(), sizes), None);
        assert_eq!(files.take_over(&bad, sizes), Some(bad.write_error.clone()));
        assert_eq!(files.take_over(&bad, sizes), None);
        assert_eq!(files.error().as_deref().map(system_words), Some("No room"));
        assert_eq!(files.take_over(&Status::default(), sizes), Some(None));
        assert_eq!((files.error(), files.sizes()), (None, sizes));
    }
}
