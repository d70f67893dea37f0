//! What a replica is sent: the payload of a full synchronization, and the stream from there or from where it stopped.
//!
//! A feed is a cursor, owned by the connection's worker. It puts no more into the output than the socket takes soon:
//! however far behind a replica is, that is all the memory that its connection holds. What it lacks lies in the log,
//! which all replicas share and which is sent without being copied, or on the disk.
//!
//! | state | left when |
//! |---|---|
//! | [`State::Waits`] | a synchronization begins for it |
//! | [`State::Prepares`] | the payload can be sent: its size is known, or its end will be marked |
//! | [`State::Payload`] | the payload is sent |
//! | [`State::Acknowledges`] | the replica has loaded it: only then can it tell a marked end from what follows |
//! | [`State::Spooled`] | it has all that the synchronization's spool has of the stream |
//! | [`State::Filed`] | it has all that the append-only files have, or else the disk's part of the backlog |
//! | [`State::Memory`] | it is so slow that the log has dropped what it needs: back to the files, if there are any |

use std::sync::Arc;
use std::task::Waker;

use base::clock::Now;
use base::limits::{OUTPUT_HIGH_WATER_BYTES, REPLICA_BATCH_US, REPLICA_FETCH_BYTES};
use journal::files::BacklogReader;
use journal::log::{Consumer, Gone, Part};

use super::disk_backlog::DiskReader;
use super::full_sync::FullSync;
use super::replica::{Replica, Stage};
use crate::output::Output;
use crate::server::Server;

/// Between two empty lines that tell a replica that its synchronization is being prepared.
const NEWLINE_INTERVAL_US: u64 = 1_000_000;
/// Why a connection is closed whose synchronization cannot be ended: the replica comes again.
const SYNC_FAILED: &str = "its full synchronization failed";
/// Between two looks at a file that is being written.
const FILE_INTERVAL_US: u64 = 5_000;

/// What a replica is sent next.
pub struct Feed {
    /// Whose it is.
    pub replica: Arc<Replica>,
    state: State,
    newline_at_us: u64,
}

enum State {
    Waits,
    Prepares(Arc<FullSync>),
    Payload {
        sync: Arc<FullSync>,
        at: u64,
        is_marked: bool,
        is_fetching: bool,
    },
    Acknowledges(Arc<FullSync>),
    Spooled {
        sync: Arc<FullSync>,
        at: u64,
        is_fetching: bool,
    },
    /// None: the reader is with who fetches.
    Filed(Option<FiledStream>),
    Memory(Following),
    Served,
}

/// A place in the log.
struct Following {
    consumer: Consumer,
    at: u64,
    /// The log keeps what is not sent.
    is_kept: bool,
    /// The worker is woken when more is appended.
    is_armed: bool,
    /// When something was last sent (`Now::mono_us`), if that was all there was.
    sent_at_us: Option<u64>,
}

/// What a feed wants next.
pub enum Next {
    /// To be asked again when the output has been sent.
    Room,
    /// To be asked again when the worker is woken, or at its next tick.
    Wake,
    /// To be asked again after so many microseconds: a file is being written, or more will have come by then.
    Later(u64),
    /// Something from a disk, by way of [`Feed::take`].
    Fetch(Source),
    /// The connection to be closed once everything is sent.
    Finish,
    /// The connection to be closed, for this reason.
    End(String),
}

/// A place on a disk that a replica is sent something from. Reading it is for a thread that may wait.
pub enum Source {
    /// A payload, from this byte on.
    Payload(Arc<FullSync>, u64),
    /// The stream of a synchronization, from this offset on.
    Spool(Arc<FullSync>, u64),
    /// The stream in files.
    Files(FiledStream),
}

/// Where on a disk the stream is read from.
pub enum FiledStream {
    /// The append-only files.
    Appended(Box<BacklogReader>),
    /// What is kept for replicas alone.
    Kept(DiskReader),
}

impl FiledStream {
    /// The stream from `offset` on, in the append-only files or else in what is kept for replicas.
    fn open(server: &Server, offset: u64) -> Result<FiledStream, Gone> {
        let appended = server.files_backlog().and_then(|files| files.reader(offset).ok());
        match appended {
            Some(reader) => Ok(FiledStream::Appended(Box::new(reader))),
            None => server.replication.replicas.on_disk.reader(offset).map(FiledStream::Kept),
        }
    }

    fn offset(&self) -> u64 {
        match self {
            FiledStream::Appended(reader) => reader.offset(),
            FiledStream::Kept(reader) => reader.offset(),
        }
    }

    fn read(&mut self) -> Result<Vec<u8>, String> {
        match self {
            FiledStream::Appended(reader) => {
                let bytes = reader.read(REPLICA_FETCH_BYTES).map_err(|error| error.to_string())?;
                Ok(bytes.unwrap_or_default())
            }
            FiledStream::Kept(reader) => reader.read(),
        }
    }
}

impl Source {
    /// Reads the next bytes; none if there are no more as yet.
    pub fn read(&mut self) -> Result<Vec<u8>, String> {
        match self {
            Source::Payload(sync, at) => sync.read_payload(*at).map_err(|error| error.to_string()),
            Source::Spool(sync, at) => sync.read_stream(*at).map_err(|error| error.to_string()),
            Source::Files(stream) => stream.read(),
        }
    }
}

impl Feed {
    /// A feed that begins with a full synchronization.
    pub(crate) fn of_everything(replica: Arc<Replica>, now: Now) -> Feed {
        Feed { replica, state: State::Waits, newline_at_us: now.mono_us + NEWLINE_INTERVAL_US }
    }

    /// A feed of the stream from `offset` on.
    pub(crate) fn of_stream(server: &Server, replica: Arc<Replica>, offset: u64) -> Result<Feed, Gone> {
        let mut feed = Feed { replica, state: State::Served, newline_at_us: 0 };
        feed.follow(server, offset)?;
        Ok(feed)
    }

    /// Goes on at `offset`, from memory if it is there.
    fn follow(&mut self, server: &Server, offset: u64) -> Result<(), Gone> {
        self.replica.follow_from(offset, || server.keep_for_replica(offset));
        // What lies in files, or will before memory drops it, need not be kept in memory for a slow replica.
        let is_kept = server.files_backlog().is_none() && server.disk_backlog_bytes() == 0;
        let consumer = match is_kept {
            true => server.log.retaining_consumer(offset, u64::MAX),
            false => server.log.consumer(offset, false),
        };
        self.state = match consumer {
            Ok(consumer) => State::Memory(Following::new(consumer, offset, is_kept)),
            Err(gone) => State::Filed(Some(FiledStream::open(server, offset).map_err(|_| gone)?)),
        };
        Ok(())
    }

    /// Bytes of the stream that are kept in memory because they are not sent.
    pub fn kept_bytes(&self, server: &Server) -> u64 {
        match &self.state {
            State::Memory(following) if following.is_kept => server.log.end().saturating_sub(following.at),
            _ => 0,
        }
    }

    /// Appends to `out` what is to be sent next, as long as it has room. `waker` is woken when there is more.
    pub fn fill(&mut self, server: &Server, now: Now, waker: &Waker, out: &mut Output) -> Next {
        while out.pending_bytes() < OUTPUT_HIGH_WATER_BYTES {
            if let Some(next) = self.step(server, now, waker, out) {
                return next;
            }
        }
        Next::Room
    }

    /// One step; None if another may follow.
    fn step(&mut self, server: &Server, now: Now, waker: &Waker, out: &mut Output) -> Option<Next> {
        match &mut self.state {
            State::Waits => match self.replica.sync() {
                Some(sync) if sync.has_failed() => Some(Next::End(SYNC_FAILED.to_owned())),
                Some(sync) => {
                    if !self.replica.is_silent {
                        let line = format!("+FULLRESYNC {} {}\r\n", sync.id, sync.offset);
                        out.tail().extend_from_slice(line.as_bytes());
                    }
                    self.state = State::Prepares(sync);
                    None
                }
                None => self.keep_alive(now, out),
            },
            State::Prepares(_) => self.prepare(server, now, out),
            State::Payload { .. } => self.send_payload(server, now, out),
            State::Acknowledges(sync) => {
                if !self.replica.has_acked() {
                    return Some(Next::Wake);
                }
                self.state = State::Spooled { sync: sync.clone(), at: sync.offset, is_fetching: false };
                None
            }
            State::Spooled { is_fetching: true, .. } => Some(Next::Wake),
            State::Spooled { sync, at, is_fetching } if *at < sync.spooled_to() => {
                *is_fetching = true;
                Some(Next::Fetch(Source::Spool(sync.clone(), *at)))
            }
            State::Spooled { sync, at, .. } => {
                let (sync, at) = (sync.clone(), *at);
                match self.follow(server, at) {
                    Ok(()) => self.replica.leave_sync(),
                    // It has just gone from memory to the spool.
                    Err(_) if at < sync.spooled_to() && !sync.has_failed() => {}
                    Err(gone) => return Some(Next::End(gone.to_string())),
                }
                None
            }
            State::Filed(reader) => {
                Some(reader.take().map_or(Next::Wake, |reader| Next::Fetch(Source::Files(reader))))
            }
            State::Memory(following) => {
                if following.is_armed && server.log.end() == following.at {
                    return Some(Next::Wake);
                }
                let is_urgent = server.replication.replicas.waits.any() || server.gates.awaits_copies();
                match following.send(waker, now, is_urgent, out) {
                    Ok(next) => next,
                    Err(_) => {
                        let at = following.at;
                        self.follow(server, at).err().map(|gone| Next::End(gone.to_string()))
                    }
                }
            }
            State::Served => Some(Next::Finish),
        }
    }

    fn keep_alive(&mut self, now: Now, out: &mut Output) -> Option<Next> {
        if now.mono_us >= self.newline_at_us {
            self.newline_at_us = now.mono_us + NEWLINE_INTERVAL_US;
            out.tail().push(b'\n');
        }
        Some(Next::Wake)
    }

    fn prepare(&mut self, server: &Server, now: Now, out: &mut Output) -> Option<Next> {
        let State::Prepares(sync) = &self.state else { unreachable!("feed-state: looked at before") };
        if sync.has_failed() {
            return Some(Next::End(SYNC_FAILED.to_owned()));
        }
        let greeting = &self.replica.greeting;
        let is_marked = greeting.takes_marked_end
            && (greeting.filter.is_some() || server.config.bool("repl-diskless-sync"));
        let line = match is_marked {
            true => format!("$EOF:{}\r\n", sync.mark),
            false if sync.is_made() => format!("${}\r\n", sync.payload_written()),
            false => return self.keep_alive(now, out),
        };
        out.tail().extend_from_slice(line.as_bytes());
        self.replica.enter(Stage::Receives, now.unix_ms);
        self.state = State::Payload { sync: sync.clone(), at: 0, is_marked, is_fetching: false };
        None
    }

    fn send_payload(&mut self, server: &Server, now: Now, out: &mut Output) -> Option<Next> {
        let State::Payload { sync, at, is_marked, is_fetching } = &mut self.state else {
            unreachable!("feed-state: looked at before")
        };
        if *is_fetching {
            return Some(Next::Wake);
        }
        if sync.has_failed() {
            return Some(Next::End(SYNC_FAILED.to_owned()));
        }
        // Asked before how much there is: what is whole does not grow.
        let is_made = sync.is_made();
        if *at < sync.payload_written() {
            *is_fetching = true;
            return Some(Next::Fetch(Source::Payload(sync.clone(), *at)));
        }
        if !is_made {
            return Some(Next::Later(FILE_INTERVAL_US));
        }
        let (sync, is_marked) = (sync.clone(), *is_marked);
        if is_marked {
            out.tail().extend_from_slice(sync.mark.as_bytes());
        }
        server.notice(&format!("The payload of a full synchronization is sent to {}", self.replica.name()));
        if self.replica.greeting.wants_payload_only {
            self.replica.enter(Stage::Served, now.unix_ms);
            self.replica.leave_sync();
            self.state = State::Served;
            return None;
        }
        self.replica.enter(Stage::Online, now.unix_ms);
        self.state = match is_marked && !self.replica.is_silent {
            true => State::Acknowledges(sync),
            false => State::Spooled { at: sync.offset, sync, is_fetching: false },
        };
        server.replication.replicas.count_good(server, now.unix_ms);
        None
    }

    /// Takes what was fetched for it. The error says why the connection is to be closed.
    pub fn take(
        &mut self,
        server: &Server,
        now: Now,
        source: Source,
        fetched: Result<Vec<u8>, String>,
        out: &mut Output,
    ) -> Result<(), String> {
        let bytes = fetched?;
        match (&mut self.state, source) {
            (State::Payload { at, is_fetching, .. } | State::Spooled { at, is_fetching, .. }, _) => {
                if bytes.is_empty() {
                    return Err("the spool of its full synchronization is too short".to_owned());
                }
                *is_fetching = false;
                *at += bytes.len() as u64;
                self.replica.serve(now.unix_ms);
            }
            (State::Filed(place), Source::Files(reader)) if !bytes.is_empty() => *place = Some(reader),
            // All that was written: the log has the rest.
            (State::Filed(_), Source::Files(reader)) => {
                let offset = reader.offset();
                self.follow(server, offset).map_err(|gone| gone.to_string())?;
            }
            _ => unreachable!("feed-state: it stays the same while something is fetched"),
        }
        out.push_bytes(bytes);
        Ok(())
    }
}

impl Following {
    fn new(consumer: Consumer, at: u64, is_kept: bool) -> Following {
        Following { consumer, at, is_kept, is_armed: false, sent_at_us: None }
    }

    /// Appends what follows, if there is something; None: it may be called again at once. Where nobody waits for it,
    /// what is written shortly after each other is sent together: it costs writers a system call less often.
    fn send(
        &mut self,
        waker: &Waker,
        now: Now,
        is_urgent: bool,
        out: &mut Output,
    ) -> Result<Option<Next>, Gone> {
        let wait_us =
            self.sent_at_us.map_or(0, |at_us| (at_us + REPLICA_BATCH_US).saturating_sub(now.mono_us));
        if !is_urgent && wait_us > 0 {
            return Ok(Some(Next::Later(wait_us)));
        }
        let mut parts: Vec<Part> = Vec::new();
        self.is_armed = false;
        self.consumer.read(self.at, OUTPUT_HIGH_WATER_BYTES, &mut parts)?;
        let Some(last) = parts.last() else {
            self.is_armed = !self.consumer.is_ready(self.at, waker);
            return Ok(self.is_armed.then_some(Next::Wake));
        };
        self.at = last.end();
        if (last.end() - parts[0].start()) < OUTPUT_HIGH_WATER_BYTES as u64 {
            // All there was.
            self.sent_at_us = Some(now.mono_us);
        }
        // The parts hold their bytes themselves.
        self.consumer.release(self.at);
        parts.into_iter().for_each(|part| out.push_log(part));
        Ok(None)
    }
}
