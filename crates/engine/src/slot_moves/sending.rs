//! The source's end of a move.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use base::limits::{
    SLOT_MOVE_FLIP_BYTES_LAST, SLOT_MOVE_FLIP_BYTES_MAX, SLOT_MOVE_FLIP_MS_MAX, SLOT_MOVE_LOG_BYTES_MAX,
    SLOT_MOVE_PATIENCE_MS, SLOT_MOVE_WINDOW_BYTES,
};
use base::slot::SLOT_COUNT;
use journal::log::{Consumer, Part};
use parking_lot::MutexGuard;
use rdb::payload;
use resp::{Args, Batch, DecodeLimits, Decoder};
use store::{OwnedEntry, OwnedValue, Position, View};

use super::channel::Channel;
use super::filter::{Filter, Verdict};
use super::slot_set::SlotSet;
use crate::commands::keys::dump::compression;
use crate::outgoing::Target;
use crate::persistence::value_commands::ValueCommands;
use crate::propagation::LogReader;
use crate::server::Server;

/// Keys that are copied under one lock (a bucket's more at most).
const KEYS_PER_LOCK: usize = 32;
/// A value of more bytes, or nodes, is sent in pieces, so that nobody has to take it at once.
const WHOLE_BYTES_MAX: usize = 16 * 1024;
const WHOLE_WEIGHT_MAX: usize = 64;
/// What is read from the log at a time.
const LOG_READ_BYTES: usize = 1024 * 1024;
/// Commands of the log that are decoded together.
const DECODED_COMMANDS: usize = 64;

/// Slots that go, and where to.
pub struct SlotMove {
    /// What both ends call it: no other has the same.
    pub id: String,
    /// The slots.
    pub slots: SlotSet,
    /// The primary that is to own them.
    pub target: Target,
    /// How far it is.
    pub progress: Progress,
    is_cancelled: AtomicBool,
}

/// How far a move is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Keys that were copied.
    pub keys: AtomicU64,
    /// Bytes that were sent.
    pub bytes: AtomicU64,
    /// Commands of the log that were sent.
    pub commands: AtomicU64,
    /// Microseconds for which the slots' commands waited.
    pub paused_us: AtomicU64,
}

impl SlotMove {
    /// A move that has not begun.
    pub fn new(id: String, slots: SlotSet, target: Target) -> SlotMove {
        SlotMove { id, slots, target, progress: Progress::default(), is_cancelled: AtomicBool::new(false) }
    }

    /// Has it end soon, unless the owner has changed by then.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// True if it is to end.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }

    fn check(&self) -> Result<(), String> {
        if self.is_cancelled() { Err("cancelled".to_owned()) } else { Ok(()) }
    }
}

/// Changes the owner of a move's slots.
pub trait Flip {
    /// Makes the target the owner, in one transaction. Returns once it is known whether that was done, and, if so, once this
    /// node sends the slots' commands there. The commands wait meanwhile.
    fn flip(&mut self, task: &SlotMove) -> Flipped;
}

/// What became of a flip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flipped {
    /// The target owns the slots.
    Done,
    /// It does not, and will not by this move.
    Refused(String),
    /// This node leads its shard no longer: whose the slots are is not its business.
    Left(String),
    /// Nobody knows, and this server ends.
    Unknown(String),
}

impl<F: FnMut(&SlotMove) -> Flipped> Flip for F {
    fn flip(&mut self, task: &SlotMove) -> Flipped {
        self(task)
    }
}

impl Server {
    /// Moves slots to another server; returns when that is done, or has failed and nothing has changed here. Takes its time:
    /// for a thread of its own.
    pub fn move_slots(&self, task: &SlotMove, flip: &mut dyn Flip) -> Result<(), String> {
        let _wanted = WantedLog::begin(self);
        let patience = Duration::from_millis(SLOT_MOVE_PATIENCE_MS);
        let link = self.host.connect(self, &task.target, patience);
        let link = link.map_err(|error| format!("cannot connect to the destination: {error}"))?;
        let mut sender = Sender::begin(self, task, Channel::new(self, link))?;
        while sender.copy_some()? {}
        sender.catch_up()?;
        let turn = self.slot_moves.turn.lock();
        // Others may have had theirs for long.
        sender.catch_up()?;
        sender.hand_over(flip, turn)?;
        self.leave_slots(task.slots.clone());
        Ok(())
    }
}

/// As long as it lives, the log is written.
struct WantedLog<'a>(&'a Server);

impl WantedLog<'_> {
    fn begin(server: &Server) -> WantedLog<'_> {
        let held = server.keyspace.lock_all();
        *server.slot_moves.senders.lock() += 1;
        server.want_log(LogReader::SlotMoves, true);
        drop(held);
        WantedLog(server)
    }
}

impl Drop for WantedLog<'_> {
    fn drop(&mut self) {
        let _held = self.0.keyspace.lock_all();
        let mut senders = self.0.slot_moves.senders.lock();
        *senders -= 1;
        self.0.want_log(LogReader::SlotMoves, *senders > 0);
    }
}

struct Sender<'a> {
    server: &'a Server,
    task: &'a SlotMove,
    channel: Channel<'a>,
    filter: Filter,
    log: Consumer,
    /// Up to where the log is sent.
    at: u64,
    /// The database of the log's commands from there on.
    db: usize,
    /// Where the walk goes on; `None`: it is over.
    next: Option<Position>,
    /// It is slowed down as the directive says: not while the slots' commands wait.
    is_paced: bool,
}

impl<'a> Sender<'a> {
    fn begin(server: &'a Server, task: &'a SlotMove, mut channel: Channel<'a>) -> Result<Sender<'a>, String> {
        authenticate(server, &mut channel)?;
        let numbers: Vec<String> = task
            .slots
            .ranges()
            .iter()
            .flat_map(|range| [range.start().to_string(), range.end().to_string()])
            .collect();
        let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"SYNCSLOTS", b"START", task.id.as_bytes()];
        words.extend(numbers.iter().map(String::as_bytes));
        channel.ask(&words)?;
        let at = server.log.end();
        let log =
            server.log.retaining_consumer(at, SLOT_MOVE_LOG_BYTES_MAX).map_err(|gone| gone.to_string())?;
        let next = task.slots.next(0).map(Position::first_of_slot);
        let filter = Filter::new(task.slots.clone());
        Ok(Sender { server, task, channel, filter, log, at, db: 0, next, is_paced: true })
    }

    /// Copies some keys; false if there are no more.
    fn copy_some(&mut self) -> Result<bool, String> {
        let Some(from) = self.next else { return Ok(false) };
        self.task.check()?;
        let mut batch: Vec<(Vec<u8>, OwnedEntry)> = Vec::new();
        let locked = self.server.keyspace.lock(from);
        let next = self.server.keyspace.visit_slot(&locked, 0, from, KEYS_PER_LOCK, &mut |key, view| {
            batch.push((key.to_vec(), view.to_owned()));
        });
        let offset = self.server.log.end();
        drop(locked);
        // Up to there the log's commands on these keys are in the copies.
        self.send_log(offset)?;
        self.task.progress.keys.fetch_add(batch.len() as u64, Relaxed);
        for (key, entry) in batch {
            self.send_key(&key, &entry)?;
        }
        self.next = match next {
            Some(next) => Some(next),
            None => self.task.slots.next(from.slot() + 1).map(Position::first_of_slot),
        };
        let passed = from.slot() + 1;
        self.filter.left_from =
            next.or_else(|| (passed < SLOT_COUNT).then(|| Position::first_of_slot(passed)));
        Ok(true)
    }

    /// Sends what is in the log by now, until little more comes.
    fn catch_up(&mut self) -> Result<(), String> {
        let mut allowed = SLOT_MOVE_FLIP_BYTES_MAX;
        loop {
            self.task.check()?;
            self.send_log(self.server.log.end())?;
            self.channel.settle()?;
            if self.server.log.end() - self.at <= allowed {
                return Ok(());
            }
            // Most of the log may be about other slots: reading that takes little time.
            allowed = (allowed + allowed / 16).min(SLOT_MOVE_FLIP_BYTES_LAST);
        }
    }

    /// Has the slots' commands wait, the destination get the rest, and the owner change.
    fn hand_over(&mut self, flip: &mut dyn Flip, turn: MutexGuard<'_, ()>) -> Result<(), String> {
        self.channel.set_deadline(Duration::from_millis(SLOT_MOVE_FLIP_MS_MAX));
        self.is_paced = false;
        self.channel.pace(0);
        let started_us = self.server.clock.mono_us();
        let parked = self.server.park(&self.task.slots, turn);
        self.send_log(parked.offset)?;
        self.channel.ask(&[b"CLUSTER", b"SYNCSLOTS", b"READY", self.task.id.as_bytes()])?;
        self.task.check()?;
        let result = match flip.flip(self.task) {
            Flipped::Done => Ok(()),
            Flipped::Refused(why) => Err(why),
            // The destination learns it from the records.
            Flipped::Left(why) => return Err(why),
            Flipped::Unknown(why) => {
                // Nobody touches the slots as long as there are clients.
                std::mem::forget(parked);
                return Err(why);
            }
        };
        drop(parked);
        let paused_us = self.server.clock.mono_us().saturating_sub(started_us);
        self.task.progress.paused_us.store(paused_us, Relaxed);
        let word: &[u8] = if result.is_ok() { b"DONE" } else { b"CANCEL" };
        self.channel.set_deadline(Duration::from_millis(SLOT_MOVE_FLIP_MS_MAX));
        // If it is not told, it finds out by itself.
        let told = self.channel.ask(&[b"CLUSTER", b"SYNCSLOTS", word, self.task.id.as_bytes()]);
        if let Err(reason) = told {
            self.server.host.log(&format!(
                "The destination of slots {} is not told of their move's end: {reason}",
                self.task.slots
            ));
        }
        result
    }

    /// Sends what the log has below an offset, at which a record ends.
    fn send_log(&mut self, end: u64) -> Result<(), String> {
        while self.at < end {
            let mut parts = Vec::new();
            let read = self.log.read(self.at, LOG_READ_BYTES, &mut parts);
            read.map_err(|_| "writes came faster than they could be sent".to_owned())?;
            // What is beyond is read again: more may be asked for by then.
            for part in parts.iter().take_while(|part| part.start() < end) {
                self.send_part(part, end)?;
            }
            self.log.release(self.at);
        }
        Ok(())
    }

    fn send_part(&mut self, part: &Part, end: u64) -> Result<(), String> {
        let bytes = &part[..usize::try_from(end.min(part.end()).saturating_sub(part.start())).unwrap_or(0)];
        let (limits, mut batch, mut decoder) = (log_limits(), Batch::new(), Decoder::new());
        let mut at = 0;
        while at < bytes.len() {
            let used = decoder.decode(&bytes[at..], &limits, DECODED_COMMANDS, &mut batch);
            let used = used.ok().filter(|used| *used > 0).expect("whole-records: the log has whole commands");
            let mut from = 0;
            for command in 0..batch.len() {
                let to = batch.end_of(command);
                let args = batch.command(command, &bytes[at..]);
                self.send_command(args, &bytes[at + from..at + to], part.start() + (at + from) as u64)?;
                from = to;
            }
            at += used;
        }
        self.at = part.start() + bytes.len() as u64;
        Ok(())
    }

    fn send_command(&mut self, args: Args<'_>, encoded: &[u8], offset: u64) -> Result<(), String> {
        let Some(name) = args.get(0) else { return Ok(()) };
        if name.eq_ignore_ascii_case(b"SELECT") {
            self.db = args.get(1).and_then(base::num::parse_i64).map_or(0, |db| db as usize);
            return Ok(());
        }
        let Ok(info) = self.server.registry.resolve(args) else { return Ok(()) };
        match self.filter.judge(&self.server.keyspace, info, args, offset) {
            Verdict::Flushed => return Err("the data were flushed".to_owned()),
            Verdict::Skip => {}
            _ if self.db != 0 => {}
            Verdict::Send => {
                self.task.progress.commands.fetch_add(1, Relaxed);
                self.channel.encoded(encoded, 1)?;
                self.after_sending()?;
            }
            Verdict::Copy(keys) => {
                for key in keys {
                    self.copy_again(key)?;
                }
            }
        }
        Ok(())
    }

    /// Sends a key as it is now.
    fn copy_again(&mut self, key: Vec<u8>) -> Result<(), String> {
        let position = self.server.keyspace.position(&key);
        let mut locked = self.server.keyspace.lock(position);
        locked.see_expired();
        let entry =
            locked.get(0, position, &key, store::Instant { now_ms: 0, touch: None }).map(View::to_owned);
        let offset = self.server.log.end();
        drop(locked);
        match entry {
            Some(entry) => {
                self.channel.command(&[b"DEL", &key])?;
                self.send_key(&key, &entry)?;
            }
            None => self.channel.command(&[b"DEL", &key])?,
        }
        self.filter.note_copy(key, offset);
        Ok(())
    }

    /// Sends commands that make a key, which the destination does not have.
    fn send_key(&mut self, key: &[u8], entry: &OwnedEntry) -> Result<(), String> {
        let end = entry.expire_at_ms.map(|at_ms| at_ms.to_string());
        match &entry.value {
            OwnedValue::Inline(text, _) => match &end {
                None => self.channel.command(&[b"SET", key, text])?,
                Some(end) => self.channel.command(&[b"SET", key, text, b"PXAT", end.as_bytes()])?,
            },
            OwnedValue::Object(value)
                if value.memory_bytes() > WHOLE_BYTES_MAX || value.weight() > WHOLE_WEIGHT_MAX =>
            {
                let mut commands = ValueCommands::in_pieces(key, value, entry.expire_at_ms);
                let mut piece = Vec::new();
                loop {
                    piece.clear();
                    let (more, count) = commands.fill(&mut piece, SLOT_MOVE_WINDOW_BYTES);
                    self.channel.encoded(&piece, count)?;
                    self.after_sending()?;
                    if !more {
                        return Ok(());
                    }
                }
            }
            value => {
                let payload = payload::encode(value, compression(self.server));
                let end = end.as_deref().unwrap_or("0");
                self.channel.command(&[b"RESTORE", key, end.as_bytes(), &payload, b"ABSTTL"])?;
            }
        }
        self.after_sending()
    }

    /// Waits as long as the pace that was asked for wants it.
    fn after_sending(&mut self) -> Result<(), String> {
        self.task.progress.bytes.store(self.channel.sent_bytes, Relaxed);
        let wanted = self.server.config.int("cluster-migration-max-bytes-per-second");
        while self.is_paced && self.channel.pace(wanted.max(0) as u64) {
            self.task.check()?;
        }
        Ok(())
    }
}

/// Says who this server is, as its own replicas' links would.
fn authenticate(server: &Server, channel: &mut Channel<'_>) -> Result<(), String> {
    let (user, password) = (server.config.bytes("masteruser"), server.config.bytes("masterauth"));
    match (user.is_empty(), password.is_empty()) {
        (_, true) => Ok(()),
        (true, false) => channel.ask(&[b"AUTH", &password]),
        (false, false) => channel.ask(&[b"AUTH", &user, &password]),
    }
}

/// What this server has written may be of any length.
fn log_limits() -> DecodeLimits {
    DecodeLimits { bulk_bytes_max: u64::MAX >> 1, query_buffer_bytes_max: u64::MAX >> 1, authenticated: true }
}
