//! The thread that writes the append-only files, and the one that syncs them where that may take its time.
//!
//! ```text
//!   append -> log -> journal: step -> files
//!                        |   ^
//!    sync, change wanted |   | done            others: begin, end, rewrite, flush -> tasks
//!                        v   |
//!                    journal-sync
//! ```
//!
//! Files are made, listed and replaced by journal-sync, too, or by whoever rewrites them: each of that takes several syncs,
//! and what is acknowledged meanwhile should be written at once.
//!
//! The thread sleeps on the log while there is nothing to write. Unless every write is to be synced, it rests a moment
//! after each round: so it is not woken for every command, and writes many together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use base::limits::{JOURNAL_HISTORY_BYTES, JOURNAL_REST_US, JOURNAL_RETRY_US};
use engine::gates::{Durability, Reached};
use engine::persistence::files::{FilesFace, FilesState};
use engine::persistence::rewriting::Rewritten;
use engine::propagation::LogReader;
use journal::JournalError;
use journal::files::{Change, ChangeDone, Names, Policy, SyncDone, SyncRequest, Writer, WriterOptions};
use journal::manifest::{BaseFormat, StreamEnd};
use journal::recover::Recovered;
use journal::storage::{RealStorage, Storage};
use parking_lot::Mutex;

use super::disk::disk;
use super::grouping::Grouping;
use crate::shared::Shared;

const RETRY: Duration = Duration::from_micros(JOURNAL_RETRY_US);

/// Where a task's result goes.
type Answer<T> = Sender<Result<T, String>>;

/// What is asked of the thread.
enum Task {
    /// Go on with the files that were loaded.
    Adopt(Box<Recovered>, Answer<()>),
    /// Begin new files; those there were are written no more.
    BeginAnew(Answer<()>),
    /// Say where the base of a rewrite is to be written, and what is to be changed before. Without files, they begin,
    /// until the rewrite is over.
    BeginRewrite(Answer<(Rewrite, Option<Change>)>),
    /// Say what has to be changed so that the file that was written there is the base for what follows an offset; nothing
    /// if the files are gone.
    Install(Rewrite, BaseFormat, u64, Answer<Option<Change>>),
    /// The rewrite's base is installed, or is not.
    Installed(ChangeDone, Answer<()>),
    /// The rewrite came to nothing.
    GiveUp,
    /// Write and sync what there is. And then end, or go on.
    Flush { ends: bool, answer: Answer<()> },
    /// Have the manifest say which stream ends with the files.
    NoteStream(StreamEnd, Answer<()>),
    /// A sync is over.
    Synced(SyncDone),
    /// A change is over.
    Changed(ChangeDone),
    /// End the thread.
    End,
}

/// What is to be done on another thread.
pub enum Errand {
    /// A sync.
    Sync(SyncRequest),
    /// A change of the directory.
    Change(Box<Change>),
}

/// A rewrite that was begun.
#[derive(Clone)]
pub struct Rewrite {
    /// How things are called.
    pub names: Names,
    /// Which files it is for: they may be given up meanwhile.
    generation: u64,
}

/// The way to the thread.
#[derive(Default)]
pub struct Journal {
    tasks: Mutex<Vec<Task>>,
    thread: Mutex<Option<Thread>>,
}

impl Journal {
    fn send(&self, task: Task) {
        self.tasks.lock().push(task);
        self.wake();
    }

    /// Has the thread look around: directives have changed.
    pub fn wake(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// Asks something of the thread and waits for the answer.
    fn ask<T>(&self, task: impl FnOnce(Answer<T>) -> Task) -> Result<T, String> {
        let (answer, answered) = channel();
        self.send(task(answer));
        answered.recv().unwrap_or_else(|_| Err("the server is ending".to_owned()))
    }

    /// Goes on with files that were loaded.
    pub fn adopt(&self, recovered: Recovered) -> Result<(), String> {
        self.ask(|answer| Task::Adopt(Box::new(recovered), answer))
    }

    /// Begins new files, from the log's end on.
    pub fn begin_anew(&self) -> Result<(), String> {
        self.ask(Task::BeginAnew)
    }

    /// Begins a rewrite. The file that will follow its base is made here.
    pub fn begin_rewrite(&self) -> Result<Rewrite, String> {
        let (rewrite, change) = self.ask(Task::BeginRewrite)?;
        if let Some(change) = change {
            self.send(Task::Changed(change.run()));
        }
        Ok(rewrite)
    }

    /// Ends a rewrite whose base is written: it is what comes before `at`.
    pub fn install(&self, rewrite: Rewrite, format: BaseFormat, at: u64) -> Result<Rewritten, String> {
        let names = rewrite.names.clone();
        let Some(change) = self.ask(|answer| Task::Install(rewrite, format, at, answer))? else {
            let _ = RealStorage.remove(&names.temporary_base());
            return Ok(Rewritten::Superseded);
        };
        let done = change.run();
        self.ask(|answer| Task::Installed(done, answer)).map(|()| Rewritten::Done)
    }

    /// Says that the rewrite that was begun comes to nothing.
    pub fn give_up(&self) {
        self.send(Task::GiveUp);
    }

    /// Writes and syncs all that is in the log.
    pub fn flush(&self) -> Result<(), String> {
        self.ask(|answer| Task::Flush { ends: false, answer })
    }

    /// As [`Journal::flush`], and then writes no more.
    pub fn end_files(&self) -> Result<(), String> {
        self.ask(|answer| Task::Flush { ends: true, answer })
    }

    /// Writes all that is in the log, notes which stream that is, and ends the thread: nobody appends any more.
    pub fn close(&self, stream: Option<StreamEnd>) -> Result<(), String> {
        let flushed = self.flush();
        if let Some(stream) = stream.filter(|_| flushed.is_ok())
            && let Err(reason) = self.ask(|answer| Task::NoteStream(stream, answer))
        {
            tracing::warn!("Replicas will need a full synchronization after a restart: {reason}");
        }
        self.send(Task::End);
        flushed
    }

    /// Runs errands until the other thread is gone.
    pub fn run_errands(&self, errands: &Receiver<Errand>) {
        while let Ok(errand) = errands.recv() {
            self.send(match errand {
                Errand::Sync(request) => Task::Synced(request.run()),
                Errand::Change(change) => Task::Changed(change.run()),
            });
        }
    }

    /// Writes files until the process ends.
    pub fn run(&self, shared: &Shared, errands: Sender<Errand>) {
        *self.thread.lock() = Some(thread::current());
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut writing = Writing {
            shared,
            errands,
            writer: None,
            generation: 0,
            is_temporary: false,
            options: Options::of(shared),
            grouping: Grouping::default(),
            told: None,
        };
        loop {
            let mut waits = false;
            // Those that have to wait are put back, so the lock is not held.
            let tasks = std::mem::take(&mut *self.tasks.lock());
            for task in tasks {
                if matches!(task, Task::End) {
                    return;
                }
                if let Some(later) = writing.run(task) {
                    self.tasks.lock().push(later);
                    waits = true;
                }
            }
            match writing.step(&waker) {
                Rest::None => {}
                Rest::UntilWoken if waits => thread::park_timeout(RETRY),
                Rest::UntilWoken => thread::park(),
                Rest::For(time) => thread::park_timeout(time),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What the directives say, as of a version of theirs.
struct Options {
    version: u64,
    policy: Policy,
    timestamps: bool,
    no_sync_on_rewrite: bool,
    keeps_all_history: bool,
}

impl Options {
    fn of(shared: &Shared) -> Options {
        let config = &shared.server.config;
        let version = config.version();
        let policy = match config.string("appendfsync").as_str() {
            "always" => Policy::Always,
            "no" => Policy::No,
            _ => Policy::EverySecond,
        };
        Options {
            version,
            policy,
            timestamps: config.bool("aof-timestamp-enabled"),
            no_sync_on_rewrite: config.bool("no-appendfsync-on-rewrite"),
            keeps_all_history: config.bool("aof-disable-auto-gc"),
        }
    }
}

/// Until when the thread has nothing to do.
enum Rest {
    None,
    UntilWoken,
    For(Duration),
}

/// The thread's own state.
struct Writing<'a> {
    shared: &'a Shared,
    errands: Sender<Errand>,
    writer: Option<Writer>,
    /// Which files these are: one more each time that others begin.
    generation: u64,
    /// The files are for one rewrite only, with `appendonly no`.
    is_temporary: bool,
    options: Options,
    grouping: Grouping,
    /// How far the files were, and what they still needed of the log, when that was told last.
    told: Option<(Option<Reached>, u64)>,
}

impl Writing<'_> {
    /// Does what is asked; comes back with it if that has to wait for a sync that is under way.
    fn run(&mut self, task: Task) -> Option<Task> {
        match task {
            Task::Adopt(recovered, answer) => {
                let _ = answer.send(self.adopt(*recovered));
            }
            Task::BeginAnew(answer) => {
                if self.is_changing() {
                    return Some(Task::BeginAnew(answer));
                }
                let _ = answer.send(self.begin_anew(false));
            }
            Task::BeginRewrite(answer) => match self.begin_rewrite() {
                Err(JournalError::SyncInFlight) => return Some(Task::BeginRewrite(answer)),
                begun => drop(answer.send(begun.map_err(|error| error.to_string()))),
            },
            Task::Install(rewrite, format, at, answer) => match self.install(&rewrite, format, at) {
                Err(JournalError::SyncInFlight) => return Some(Task::Install(rewrite, format, at, answer)),
                Ok(Some(change)) => drop(answer.send(Ok(Some(change)))),
                ended => {
                    let _ = answer.send(ended.map_err(|error| error.to_string()));
                    self.end_temporary();
                }
            },
            Task::Installed(done, answer) => {
                let installed = self.end_change(done);
                let files = &self.shared.server.persistence.files;
                if installed.is_ok() && files.state() == FilesState::Begun {
                    files.set_state(FilesState::On, self.face());
                }
                self.publish();
                let _ = answer.send(installed);
                self.end_temporary();
            }
            Task::GiveUp => self.end_temporary(),
            Task::Flush { ends, answer } => match self.flush() {
                Err(JournalError::SyncInFlight) => return Some(Task::Flush { ends, answer }),
                flushed => {
                    if ends {
                        self.end();
                    }
                    let _ = answer.send(flushed.map_err(|error| error.to_string()));
                }
            },
            Task::NoteStream(stream, answer) => {
                let writer = self.writer.as_mut().filter(|_| !self.is_temporary);
                let noted = writer.map_or(Ok(()), |writer| writer.note_stream(stream));
                let _ = answer.send(noted.map_err(|error| error.to_string()));
            }
            Task::Synced(done) => {
                let now = self.shared.server.clock.now();
                if let Some(writer) = &mut self.writer {
                    writer.sync_done(done, now);
                }
            }
            // Whoever needs it to have worked finds out that it has not.
            Task::Changed(done) => drop(self.end_change(done)),
            Task::End => unreachable!("journal-end: dealt with before"),
        }
        None
    }

    fn adopt(&mut self, recovered: Recovered) -> Result<(), String> {
        let server = &self.shared.server;
        let writer = Writer::open(recovered, &server.log, self.writer_options(), server.clock.now());
        self.start(writer.map_err(|error| error.to_string())?, false);
        server.persistence.files.set_state(FilesState::On, self.face());
        self.publish();
        Ok(())
    }

    fn begin_anew(&mut self, is_temporary: bool) -> Result<(), String> {
        self.end();
        let server = &self.shared.server;
        let at = server.log.begin_file();
        let (storage, names) = (disk(), super::names(&server.config)?);
        let options = self.writer_options();
        let writer = Writer::start_anew(&storage, &names, &server.log, at, options, server.clock.now());
        self.start(writer.map_err(|error| error.to_string())?, is_temporary);
        if !is_temporary {
            server.persistence.files.set_state(FilesState::Begun, None);
        }
        self.publish();
        Ok(())
    }

    fn start(&mut self, writer: Writer, is_temporary: bool) {
        self.writer = Some(writer);
        self.is_temporary = is_temporary;
        self.generation += 1;
    }

    fn face(&self) -> Option<FilesFace> {
        let writer = self.writer.as_ref()?;
        Some(FilesFace { watermarks: writer.watermarks(), backlog: writer.backlog() })
    }

    fn is_changing(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_changing)
    }

    fn end_change(&mut self, done: ChangeDone) -> Result<(), String> {
        let now = self.shared.server.clock.now();
        let writer = self.writer.as_mut().expect("one-change: files are written on while they are changed");
        writer.change_done(done, now).map_err(|error| error.to_string())
    }

    fn begin_rewrite(&mut self) -> Result<(Rewrite, Option<Change>), JournalError> {
        if self.writer.is_none() {
            self.begin_anew(true).map_err(JournalError::Refused)?;
        }
        let generation = self.generation;
        let writer = self.writer.as_mut().expect("rewrite-files: they were just begun");
        let change = writer.prepare_file()?;
        Ok((Rewrite { names: writer.names().clone(), generation }, change))
    }

    /// The change that installs a rewrite's base; nothing if its files are gone.
    fn install(
        &mut self,
        rewrite: &Rewrite,
        format: BaseFormat,
        at: u64,
    ) -> Result<Option<Change>, JournalError> {
        let now = self.shared.server.clock.now();
        let writer = self.writer.as_mut().filter(|_| rewrite.generation == self.generation);
        writer.map(|writer| writer.begin_install(format, at, now)).transpose()
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        let now = self.shared.server.clock.now();
        let flushed = self.writer.as_mut().map_or(Ok(()), |writer| writer.close(now));
        self.publish();
        flushed
    }

    fn end_temporary(&mut self) {
        if self.is_temporary {
            self.end();
        }
    }

    /// Writes no more.
    fn end(&mut self) {
        if self.writer.take().is_some() && !std::mem::take(&mut self.is_temporary) {
            self.shared.server.persistence.files.set_state(FilesState::Off, None);
        }
        self.publish();
    }

    fn writer_options(&self) -> WriterOptions {
        let no_sync = self.options.no_sync_on_rewrite && self.shared.server.persistence.running().is_some();
        // What was promised to be synced before it is answered is.
        let policy = match (self.options.policy, self.shared.server.gates.sync_mode()) {
            (Policy::Always, _) | (_, Durability::Always) => Policy::Always,
            (Policy::EverySecond, _) | (_, Durability::EverySecond) if !no_sync => Policy::EverySecond,
            _ => Policy::No,
        };
        let kept_history_bytes = match self.options.keeps_all_history {
            true => u64::MAX,
            false if self.shared.server.is_log_wanted(LogReader::Replicas) => JOURNAL_HISTORY_BYTES,
            false => 0,
        };
        let needed_from = self.shared.server.replication.replicas.needed_from();
        let timestamps = self.options.timestamps;
        WriterOptions { policy, timestamps, checksums: true, kept_history_bytes, needed_from }
    }

    /// Tells how far the files are, and wakes those who wait for that if there is news.
    fn publish(&mut self) {
        let server = &self.shared.server;
        let reached = server.persistence.files.watermarks().map(|watermarks| Reached {
            written_to: watermarks.written_to(),
            synced_to: watermarks.synced_to(),
        });
        server.gates.set_reached(reached);
        if let Some(writer) = self.writer.as_ref().filter(|_| !self.is_temporary) {
            server.note_files(&writer.status(), writer.sizes());
        }
        let needed_from = self.writer.as_ref().map_or(u64::MAX, |writer| writer.consumer().held());
        if self.told.replace((reached, needed_from)) != Some((reached, needed_from)) {
            server.note_files_progress();
        }
    }

    /// Writes what there is; says how long there is nothing more to do.
    fn step(&mut self, waker: &Waker) -> Rest {
        if self.shared.server.debug.pauses_journal.load(Relaxed) {
            return Rest::For(RETRY);
        }
        if self.options.version != self.shared.server.config.version() {
            self.options = Options::of(self.shared);
        }
        let (options, now) = (self.writer_options(), self.shared.server.clock.now());
        let Some(writer) = &mut self.writer else { return Rest::UntilWoken };
        let (before, wanted) = (writer.position(), writer.consumer().log().end());
        if options.policy == Policy::Always
            && let Some(awaited) = self.grouping.awaited(wanted - before, now.mono_us)
            && !writer.consumer().is_ready(before + awaited.bytes - 1, waker)
        {
            return Rest::For(awaited.time);
        }
        writer.set_options(options);
        writer.want_sync(self.shared.server.gates.wanted_to());
        let safe_before = writer.watermarks().synced_to();
        let progress = writer.step(now);
        if options.policy == Policy::Always && progress.synced_to > safe_before {
            let ended_us = self.shared.server.clock.mono_us();
            self.grouping.note_sync(progress.synced_to - safe_before, now.mono_us, ended_us);
        }
        let sync = progress.sync.map(Errand::Sync);
        let change = progress.change.map(|change| Errand::Change(Box::new(change)));
        for errand in sync.into_iter().chain(change) {
            // The other thread ends after this one only.
            let _ = self.errands.send(errand);
        }
        self.publish();
        let Some(writer) = &self.writer else { return Rest::UntilWoken };
        let has_written = writer.position() != before;
        let is_stuck = writer.position() < wanted;
        let until_due = progress
            .wake_at_us
            .map(|wake_at_us| Duration::from_micros(wake_at_us.saturating_sub(now.mono_us)));
        if is_stuck {
            // Behind a sync that is under way, or a disk that fails.
            return Rest::For(until_due.unwrap_or(RETRY));
        }
        if has_written && options.policy != Policy::Always {
            return Rest::For(Duration::from_micros(JOURNAL_REST_US));
        }
        if writer.consumer().is_ready(writer.position(), waker) {
            return Rest::None;
        }
        until_due.map_or(Rest::UntilWoken, Rest::For)
    }
}
