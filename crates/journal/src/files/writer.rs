//! From the log to the files: a state machine that a thread drives. It is told the time and does its I/O through
//! [`Storage`](crate::storage::Storage), so a test can break every step of it.
//!
//! ```text
//!            +--> write what there is --> sync (always: here; everysec: a request for another thread) --+
//!            |                                                                                          |
//!   step ----+                                        a write or a sync fails                           +--> Progress
//!            |                                                  v                                       |
//!            +--> latched: nothing is written until the tail is cut, or a new file has what is not safe-+
//! ```
//!
//! The log keeps what was not synced (under `no`: not written), so whatever the disk does, it can be written again.
//!
//! What syncs more than one file is a [`Change`], which another thread makes while this one writes on. For a rewrite the
//! next file is made and listed before it is known where it begins ([`Writer::prepare_file`]); there, writing goes over
//! to it at once, and the file before is *closing* until it is safe.

mod append;
mod mend;
mod rewrite;

use std::sync::Arc;

use base::clock::Now;
use base::limits::{JOURNAL_RETRY_US, JOURNAL_UNSAFE_BYTES_MAX};

use super::backlog::Backlog;
use super::change::Change;
use super::directory::{Directory, Names};
use super::folder::NotPersisted;
use super::status::{Sizes, Status, Watermarks};
use super::sync::{Mark, Policy, SyncDone, SyncRequest};
use crate::error::JournalError;
use crate::log::{Consumer, Log, Part};
use crate::manifest::{Entry, Manifest, StreamEnd};
use crate::recover::{LastFile, Recovered};
use crate::storage::{Storage, StoredFile};
use append::Current;
use rewrite::Spare;

const SECOND_US: u64 = 1_000_000;

/// How to write.
#[derive(Copy, Clone, Debug)]
pub struct WriterOptions {
    /// `appendfsync`.
    pub policy: Policy,
    /// `aof-timestamp-enabled`.
    pub timestamps: bool,
    /// Whether what is written together is preceded by its checksum, in a line that other servers pass over. Without,
    /// what a crash lost within a value cannot be told from the value, and what another server appended not from ours:
    /// so after a restart offsets are not exact.
    pub checksums: bool,
    /// Files that a rewrite made superfluous are kept up to so many bytes, for replicas that fell far behind.
    pub kept_history_bytes: u64,
    /// And however many these are, those that have the stream from this offset on: somebody reads them. `u64::MAX`: nobody.
    pub needed_from: u64,
}

/// What a step came to.
#[must_use = "a sync may have to be run"]
pub struct Progress {
    /// Everything before this offset was given to the operating system.
    pub written_to: u64,
    /// Everything before this offset is safe.
    pub synced_to: u64,
    /// Run it on another thread and give the result to [`Writer::sync_done`].
    pub sync: Option<SyncRequest>,
    /// Run it on another thread and give the result to [`Writer::change_done`].
    pub change: Option<Change>,
    /// Call again then ([`Now::mono_us`]) even if nothing is appended; None: only when something is.
    pub wake_at_us: Option<u64>,
}

/// The writer of the append-only files.
pub struct Writer {
    directory: Directory,
    options: WriterOptions,
    consumer: Consumer,
    current: Current,
    /// The file before it, until that is safe: nothing in the current one counts as safe before.
    closing: Option<Current>,
    /// The file that comes next, if it was made already.
    spare: Option<Spare>,
    /// The incremental files since the log was begun anew, until a base makes sense of them; they are not listed, and
    /// nothing in them counts as safe. None: all files are listed.
    pending: Option<Vec<Entry>>,
    in_flight: bool,
    /// Somebody waits for this offset to be safe.
    wanted_to: u64,
    synced_at_us: u64,
    /// Where a new file was last asked for, and why there is none, if so.
    rotated: Option<(u64, Option<String>)>,
    status: Status,
    /// Something failed; nothing is tried before this time.
    retry_at_us: Option<u64>,
    /// The manifest could not be brought up to date; that is not tried before this time.
    listed_again_at_us: u64,
    /// There are bytes in the file after what was written.
    is_torn: bool,
    /// A sync failed: what is not safe has to go to another file.
    is_distrusted: bool,
    /// Closed files that have bytes after their end, which could not be cut off.
    leftovers: Vec<(Arc<dyn StoredFile>, u64)>,
    watermarks: Arc<Watermarks>,
    backlog: Arc<Backlog>,
    parts: Vec<Part>,
    timestamp_s: i64,
    /// Bytes of the listed files but the current one.
    closed_bytes: u64,
    base_bytes: u64,
}

impl Writer {
    /// Goes on from what was read. `log` starts at [`crate::recover::Summary::end_offset`] or, if that is not exact,
    /// anywhere: then a new file begins.
    pub fn open(
        recovered: Recovered,
        log: &Arc<Log>,
        options: WriterOptions,
        now: Now,
    ) -> Result<Writer, JournalError> {
        let Recovered { mut directory, covered, last, .. } = recovered;
        let offset = log.end();
        let fits = last.filter(|last: &LastFile| last.end == offset);
        directory.note_found(&covered);
        directory.settle()?;
        let backlog = Backlog::new(Arc::clone(directory.storage()), covered);
        let current = match fits {
            Some(last) => {
                Current::at(last.seq, last.file, Mark { offset, bytes: last.bytes, db: log.file_db(offset) })
            }
            None => {
                let (entry, current) = Current::begin(&mut directory, log, offset, options.checksums)?;
                let covered = current.covered(&directory, &entry);
                let mut manifest = directory.manifest().clone();
                manifest.incrs.push(entry);
                directory.persist(manifest).map_err(NotPersisted::into_error)?;
                backlog.update(|files| files.push(covered));
                current
            }
        };
        let mut writer = Writer::new(directory, log, options, current, backlog, now)?;
        writer.remove_history();
        writer.recount();
        writer.base_bytes = writer.sizes().current_bytes;
        Ok(writer)
    }

    /// Begins anew at offset `at`, which [`Log::begin_file`] gave, without regard to the files that are there. They stay
    /// what a start would load until a base is installed ([`Writer::install_base`]), and nothing counts as safe until
    /// then: what `CONFIG SET appendonly yes` does, and a replica after a full synchronization.
    pub fn start_anew(
        storage: &Arc<dyn Storage>,
        names: &Names,
        log: &Arc<Log>,
        at: u64,
        options: WriterOptions,
        now: Now,
    ) -> Result<Writer, JournalError> {
        let mut directory = Directory::for_new_files(storage, names)?;
        let (entry, current) = Current::begin(&mut directory, log, at, options.checksums)?;
        let covered = current.covered(&directory, &entry);
        let backlog = Backlog::new(Arc::clone(storage), vec![covered]);
        let mut writer = Writer::new(directory, log, options, current, backlog, now)?;
        writer.pending = Some(vec![entry]);
        writer.rotated = Some((at, None));
        Ok(writer)
    }

    fn new(
        directory: Directory,
        log: &Arc<Log>,
        options: WriterOptions,
        current: Current,
        backlog: Backlog,
        now: Now,
    ) -> Result<Writer, JournalError> {
        let offset = current.written.offset;
        Ok(Writer {
            consumer: log.consumer(offset, true)?,
            watermarks: Arc::new(Watermarks::new(offset)),
            backlog: Arc::new(backlog),
            directory,
            options,
            current,
            closing: None,
            spare: None,
            pending: None,
            in_flight: false,
            wanted_to: 0,
            synced_at_us: now.mono_us,
            rotated: None,
            status: Status::default(),
            retry_at_us: None,
            listed_again_at_us: 0,
            is_torn: false,
            is_distrusted: false,
            leftovers: Vec::new(),
            parts: Vec::new(),
            timestamp_s: 0,
            closed_bytes: 0,
            base_bytes: 0,
        })
    }

    /// Writes all that the log has, and syncs it or asks for a sync, as the policy says. If the disk fails, that is
    /// latched, shown by [`Writer::status`], and mended by a later step as soon as the disk allows.
    pub fn step(&mut self, now: Now) -> Progress {
        let (mut sync, mut change) = (None, None);
        if self.retry_at_us.is_none_or(|retry_at_us| retry_at_us <= now.mono_us) {
            match self.try_step(now) {
                Ok(request) => {
                    (self.retry_at_us, self.status.write_error, self.status.sync_error) = (None, None, None);
                    sync = request;
                    change = self.listing_due(now);
                }
                Err(error) => self.latch(&error, now),
            }
        }
        self.publish();
        Progress {
            written_to: self.watermarks.written_to(),
            synced_to: self.watermarks.synced_to(),
            sync,
            change,
            wake_at_us: self.wake_at_us(),
        }
    }

    fn try_step(&mut self, now: Now) -> Result<Option<SyncRequest>, JournalError> {
        self.mend()?;
        self.write_all(now)?;
        let safe_to = self.safe().offset;
        let is_behind = safe_to < self.current.written.offset || self.closing.is_some();
        // A file that ended is not to stay unsafe for long, whatever the policy: more is lost with it.
        let is_wanted = is_behind && (safe_to < self.wanted_to || self.closing.is_some());
        match self.options.policy {
            Policy::Always if is_behind && !self.in_flight => self.sync_now()?,
            Policy::EverySecond if is_behind && self.is_sync_due(now) => {
                // Late or not, the next is due a second from now.
                self.synced_at_us = now.mono_us;
                if !self.in_flight {
                    return Ok(Some(self.begin_sync()));
                }
                self.status.syncs_delayed += 1;
            }
            Policy::EverySecond | Policy::No if is_wanted && !self.in_flight => {
                return Ok(Some(self.begin_sync()));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Whether a sync is due that no one waits for: the last was long ago, or much is not safe.
    fn is_sync_due(&self, now: Now) -> bool {
        let unsafe_bytes = self.current.written.offset - self.safe().offset;
        now.mono_us >= self.synced_at_us + SECOND_US
            || (!self.in_flight && unsafe_bytes >= JOURNAL_UNSAFE_BYTES_MAX)
    }

    /// The change that has the manifest say where files ended and began, once the disk has those that ended.
    fn listing_due(&mut self, now: Now) -> Option<Change> {
        let is_due = self.directory.is_stale() && self.closing.is_none() && !self.directory.is_changing();
        let is_due = is_due && self.listed_again_at_us <= now.mono_us;
        is_due.then(|| self.directory.begin_listing(&self.backlog))
    }

    fn begin_sync(&mut self) -> SyncRequest {
        self.in_flight = true;
        let before = self.closing.as_ref().map(|closing| Arc::clone(&closing.file));
        let Current { seq, ref file, written, .. } = self.current;
        SyncRequest { before, file: Arc::clone(file), seq, mark: written }
    }

    /// Up to where everything is safe.
    fn safe(&self) -> Mark {
        self.closing.as_ref().map_or(self.current.synced, |closing| closing.synced)
    }

    /// Somebody waits for this offset to be safe: whatever the policy, a step that has written it asks for a sync.
    pub fn want_sync(&mut self, offset: u64) {
        self.wanted_to = self.wanted_to.max(offset);
    }

    /// Takes the result of a sync that a step asked for.
    pub fn sync_done(&mut self, done: SyncDone, now: Now) {
        self.in_flight = false;
        self.retry_at_us = self.retry_at_us.map(|_| now.mono_us);
        let is_of_closing = self.closing.as_ref().is_some_and(|closing| closing.seq == done.seq);
        if done.seq != self.current.seq && !is_of_closing {
            // The file was given up meanwhile, and what it had is elsewhere.
            return;
        }
        match done.result {
            Ok(()) if is_of_closing => self.note_closing_synced(done.mark),
            Ok(()) => self.note_synced(done.mark),
            Err(error) => {
                self.is_distrusted = true;
                self.latch(&error.into(), now);
                // Another file may do at once.
                self.retry_at_us = Some(now.mono_us);
            }
        }
    }

    /// Syncs here and now.
    fn sync_now(&mut self) -> Result<(), JournalError> {
        if self.in_flight {
            return Err(JournalError::SyncInFlight);
        }
        let closing = self.closing.as_ref().map_or(Ok(()), |closing| closing.file.sync_data());
        if let Err(error) = closing.and_then(|()| self.current.file.sync_data()) {
            self.is_distrusted = true;
            return Err(error.into());
        }
        self.note_synced(self.current.written);
        Ok(())
    }

    /// Everything up to `mark`, which is in the current file, is safe.
    fn note_synced(&mut self, mark: Mark) {
        self.closing = None;
        if mark.offset > self.current.synced.offset {
            self.current.synced = mark;
        }
        self.consumer.release(self.current.synced.offset);
        self.publish();
    }

    /// Everything up to `mark`, which is in the file before the current one, is safe.
    fn note_closing_synced(&mut self, mark: Mark) {
        if let Some(closing) = self.closing.as_mut().filter(|closing| mark.offset > closing.synced.offset) {
            closing.synced = mark;
        }
        self.closing.take_if(|closing| closing.synced.offset == closing.written.offset);
        self.consumer.release(self.safe().offset);
        self.publish();
    }

    /// Whether what is in the files is what a start would load.
    fn counts(&self) -> bool {
        self.pending.is_none() && !self.directory.is_unsettled()
    }

    fn publish(&self) {
        if self.counts() {
            self.watermarks.publish(self.current.written.offset, self.safe().offset);
        }
    }

    fn latch(&mut self, error: &JournalError, now: Now) {
        // A sync that is under way is no failure: its end is waited for.
        if *error == JournalError::SyncInFlight {
            self.retry_at_us = self.retry_at_us.map(|_| now.mono_us + JOURNAL_RETRY_US);
            return;
        }
        let text = Some(error.to_string());
        if self.is_distrusted {
            self.status.sync_error = text;
        } else {
            self.status.write_error = text;
        }
        self.retry_at_us = Some(now.mono_us + JOURNAL_RETRY_US);
    }

    fn wake_at_us(&self) -> Option<u64> {
        let is_behind = self.safe().offset < self.current.written.offset;
        let due = is_behind && !self.in_flight && self.options.policy == Policy::EverySecond;
        self.retry_at_us.or(due.then_some(self.synced_at_us + SECOND_US))
    }

    /// Writes and syncs everything: before the server ends, or files are no longer wanted. Fails if a sync or a change is
    /// under way, or the disk does.
    pub fn close(&mut self, now: Now) -> Result<(), JournalError> {
        if self.in_flight || self.is_changing() {
            return Err(JournalError::SyncInFlight);
        }
        let written = self.mend().and_then(|()| self.write_all(now));
        let closed = written.and_then(|()| self.sync_now()).and_then(|()| self.directory.settle());
        if let Err(error) = &closed {
            self.latch(error, now);
        }
        closed
    }

    /// Whether a change is under way: these files are to be written on until it is over.
    pub fn is_changing(&self) -> bool {
        self.directory.is_changing()
    }

    /// Whether it is well, and if not, why.
    pub fn status(&self) -> Status {
        Status { sync_in_flight: self.in_flight, ..self.status.clone() }
    }

    /// The offsets that it reached, to be read from any thread.
    pub fn watermarks(&self) -> Arc<Watermarks> {
        Arc::clone(&self.watermarks)
    }

    /// The files as a backlog.
    pub fn backlog(&self) -> Arc<Backlog> {
        Arc::clone(&self.backlog)
    }

    /// Bytes of the files.
    pub fn sizes(&self) -> Sizes {
        let current_bytes = self.closed_bytes + self.current.written.bytes;
        Sizes { current_bytes, base_bytes: self.base_bytes }
    }

    /// The files as they are listed.
    pub fn manifest(&self) -> &Manifest {
        self.directory.manifest()
    }

    /// How things are called.
    pub fn names(&self) -> &Names {
        self.directory.names()
    }

    /// The consumer's place in the log, to sleep by ([`Consumer::is_ready`]).
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// The offset that it reads next.
    pub fn position(&self) -> u64 {
        self.current.written.offset
    }

    /// Changes how it writes from now on.
    pub fn set_options(&mut self, options: WriterOptions) {
        let needed_before = std::mem::replace(&mut self.options, options).needed_from;
        if options.needed_from > needed_before {
            self.remove_history();
        }
    }

    /// Has the manifest say which stream ends with the files, and where, if they are safe up to there: after
    /// [`Writer::close`], so that a start can go on with it.
    pub fn note_stream(&mut self, stream: StreamEnd) -> Result<(), JournalError> {
        if self.current.synced.offset != stream.offset || !self.counts() || self.is_changing() {
            return Err(JournalError::Refused("the files do not end where the stream does".to_owned()));
        }
        let manifest = Manifest { stream: Some(stream), ..self.directory.manifest().clone() };
        self.directory.persist(manifest).map_err(NotPersisted::into_error)
    }

    /// Bytes of all listed files but the current one, as they are on the disk.
    fn recount(&mut self) {
        let size = |entry: &Entry| match entry.closed_bytes() {
            Some(bytes) => bytes,
            None => {
                let file = self.directory.storage().open(&self.directory.path(entry));
                file.and_then(|file| file.size()).unwrap_or(0)
            }
        };
        let is_current = |entry: &&Entry| entry.name != self.current_name();
        self.closed_bytes = self.directory.manifest().loaded().filter(is_current).map(size).sum();
    }

    fn current_name(&self) -> String {
        name_of(&*self.current.file)
    }
}

/// A file's name in the directory.
fn name_of(file: &dyn StoredFile) -> String {
    let name = file.path().file_name();
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
