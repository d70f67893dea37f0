//! The primary's stream, cut into what is applied as one, and that into what may be applied side by side.
//!
//! A *record* is a command, or a transaction with its MULTI and EXEC: it is appended to the log and applied wholly or not at
//! all, so a transaction of which the end has not come stays in the buffer. The keys of a record lie in stripes, and each
//! stripe belongs to a *lane*: records of different lanes have no key in common, so lanes are applied by different threads,
//! each in the stream's order. What belongs to several lanes, or to none, is applied alone: it ends a *round*.

use resp::{Args, Batch, DecodeError, DecodeLimits, Decoder};
use store::Position;

use crate::lanes::Needs;
use crate::server::Server;
use crate::slot_moves::unseen;
use crate::table::{CommandInfo, Flags};

/// Commands that are taken from the buffer together, unless a transaction has more.
const COMMANDS_MAX: usize = 1024;
/// With fewer records, a round is not worth waking other threads for.
const LANE_RECORDS_MIN: usize = 64;
/// A primary's commands have no bounds but those that it kept to.
const LIMITS: DecodeLimits =
    DecodeLimits { bulk_bytes_max: i64::MAX as u64, query_buffer_bytes_max: u64::MAX, authenticated: true };

/// What is to be done with a command.
pub(super) enum Step {
    /// It is run. The position is that of its only key.
    Run(&'static CommandInfo, Option<Position>),
    /// It selects this database.
    Select(usize),
    /// It only counts as bytes.
    Pass,
    /// This server does not know it, or not with these arguments.
    Unknown,
}

/// What is applied as one.
pub(super) struct Record {
    /// Its commands among those of the batch.
    pub(super) commands: std::ops::Range<usize>,
    /// The database that is selected at its start.
    pub(super) db: usize,
    pub(super) needs: Needs,
    /// It came to the primary with its slot, or goes with it.
    pub(super) is_unseen: bool,
}

/// Records that are appended to the log together, and how they are applied.
pub struct StreamBatch {
    bytes: Vec<u8>,
    batch: Batch,
    pub(super) steps: Vec<Step>,
    pub(super) records: Vec<Record>,
    /// For each round, the records of each lane.
    pub(super) rounds: Vec<Vec<Vec<usize>>>,
    db_after: usize,
    wants_ack: bool,
    stamp_us: Option<u64>,
}

impl StreamBatch {
    /// The bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The database that is selected after it.
    pub fn db_after(&self) -> usize {
        self.db_after
    }

    /// The primary asks how far this server is.
    pub fn wants_ack(&self) -> bool {
        self.wants_ack
    }

    /// The newest stamp of this process in it.
    pub(super) fn stamp_us(&self) -> Option<u64> {
        self.stamp_us
    }

    /// True if a command of it writes.
    pub(super) fn writes(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Run(info, _) if info.spec.flags.contains(Flags::WRITE)))
    }

    /// Rounds, one to be applied after the other.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// True if a round has something for a lane.
    pub fn has_work(&self, round: usize, lane: usize) -> bool {
        self.rounds[round].get(lane).is_some_and(|records| !records.is_empty())
    }

    pub(super) fn command(&self, index: usize) -> Args<'_> {
        self.batch.command(index, &self.bytes)
    }
}

/// Cuts a stream.
pub struct StreamReader {
    /// From the start of a record.
    buffer: Vec<u8>,
    decoder: Decoder,
    /// So much of the buffer was looked at for the end of the transaction at its start; 0: it starts with none.
    scanned: usize,
    /// The database that is selected at the start of the buffer.
    db: usize,
    /// The last command before the buffer was the mark of [`unseen`].
    is_marked: bool,
    lanes: usize,
}

impl StreamReader {
    /// A reader of a stream that goes on with database `db`; `lanes` threads apply it.
    pub fn new(db: usize, lanes: usize) -> StreamReader {
        StreamReader {
            buffer: Vec::new(),
            decoder: Decoder::new(),
            scanned: 0,
            db,
            is_marked: false,
            lanes: lanes.max(1),
        }
    }

    /// Adds what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The database that is selected after the whole records so far.
    pub fn db(&self) -> usize {
        self.db
    }

    /// The next whole records, if there are any. After an error nothing more can be read.
    pub fn next(&mut self, server: &Server) -> Result<Option<StreamBatch>, StreamError> {
        let mut batch = Batch::new();
        if self.scanned > 0 {
            let Some(end) = self.find_end(&mut batch)? else { return Ok(None) };
            return self.cut(server, end, usize::MAX).map(Some);
        }
        let consumed = self.decoder.decode(&self.buffer, &LIMITS, COMMANDS_MAX, &mut batch)?;
        if consumed == 0 {
            return Ok(None);
        }
        let mut open = None;
        for index in 0..batch.len() {
            let name = &batch.command(index, &self.buffer)[0];
            if name.eq_ignore_ascii_case(b"multi") {
                open = Some(index);
            } else if name.eq_ignore_ascii_case(b"exec") {
                open = None;
            }
        }
        let whole = match open {
            None => consumed,
            Some(0) => 0,
            Some(first) => batch.end_of(first - 1),
        };
        self.scanned = consumed - whole;
        if whole > 0 {
            let count = open.unwrap_or(batch.len());
            let rest = self.buffer.split_off(whole);
            let bytes = std::mem::replace(&mut self.buffer, rest);
            return self.plan(server, bytes, batch, count).map(Some);
        }
        self.next(server)
    }

    /// Looks on for the end of the transaction that the buffer starts with.
    fn find_end(&mut self, batch: &mut Batch) -> Result<Option<usize>, StreamError> {
        loop {
            let rest = &self.buffer[self.scanned..];
            let consumed = self.decoder.decode(rest, &LIMITS, COMMANDS_MAX, batch)?;
            let is_end = |index: &usize| batch.command(*index, rest)[0].eq_ignore_ascii_case(b"exec");
            if let Some(index) = (0..batch.len()).find(is_end) {
                return Ok(Some(self.scanned + batch.end_of(index)));
            }
            if consumed == 0 {
                return Ok(None);
            }
            self.scanned += consumed;
        }
    }

    /// Takes the first `end` bytes, which are one whole record.
    fn cut(&mut self, server: &Server, end: usize, commands_max: usize) -> Result<StreamBatch, StreamError> {
        let rest = self.buffer.split_off(end);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let mut batch = Batch::new();
        (self.decoder, self.scanned) = (Decoder::new(), 0);
        Decoder::new().decode(&bytes, &LIMITS, commands_max, &mut batch)?;
        let count = batch.len();
        self.plan(server, bytes, batch, count)
    }

    /// Says how the first `count` commands are applied.
    fn plan(
        &mut self,
        server: &Server,
        bytes: Vec<u8>,
        batch: Batch,
        count: usize,
    ) -> Result<StreamBatch, StreamError> {
        let mut planned = StreamBatch {
            bytes,
            batch,
            steps: Vec::with_capacity(count),
            records: Vec::with_capacity(count),
            rounds: Vec::new(),
            db_after: self.db,
            wants_ack: false,
            stamp_us: None,
        };
        let mut start = None;
        for index in 0..count {
            let step = self.step(server, &planned, index, &mut start)?;
            if matches!(step, Step::Pass) && planned.command(index).len() > 1 {
                let args = planned.command(index);
                let (is_question, stamp_us) = (is_question(args), stamp_of(server, args));
                self.is_marked |= unseen::is_mark(args);
                planned.wants_ack |= is_question;
                planned.stamp_us = planned.stamp_us.max(stamp_us);
            }
            planned.steps.push(step);
            let (first, db) = start.unwrap_or((index, planned.db_after));
            if let Step::Select(db) = planned.steps[index] {
                planned.db_after = db;
            }
            if start.is_none() {
                let commands = first..index + 1;
                if commands.clone().any(|at| matches!(planned.steps[at], Step::Run(..) | Step::Unknown)) {
                    let needs = needs(server, &planned, commands.clone());
                    let is_unseen = std::mem::take(&mut self.is_marked);
                    planned.records.push(Record { commands, db, needs, is_unseen });
                }
            } else if first == index {
                start = Some((index, planned.db_after));
            } else if planned.command(index)[0].eq_ignore_ascii_case(b"exec") {
                let commands = first..index + 1;
                let needs = needs(server, &planned, commands.clone());
                let is_unseen = std::mem::take(&mut self.is_marked);
                planned.records.push(Record { commands, db, needs, is_unseen });
                start = None;
            }
        }
        planned.rounds = rounds(&planned.records, self.lanes);
        self.db = planned.db_after;
        Ok(planned)
    }

    /// What a command is; `start` is set where it opens a transaction.
    fn step(
        &self,
        server: &Server,
        planned: &StreamBatch,
        index: usize,
        start: &mut Option<(usize, usize)>,
    ) -> Result<Step, StreamError> {
        let args = planned.command(index);
        let Ok(info) = server.registry.resolve(args) else {
            // A primary may say things between replicas and primaries that this server has no command for.
            let is_talk = args[0].eq_ignore_ascii_case(b"replconf");
            return Ok(if is_talk { Step::Pass } else { Step::Unknown });
        };
        Ok(match info.spec.name {
            "ping" | "replconf" | "exec" => Step::Pass,
            "multi" => {
                *start = Some((index, planned.db_after));
                Step::Pass
            }
            "select" => {
                let number = base::num::parse_i64(&args[1]).and_then(|number| usize::try_from(number).ok());
                let databases = server.keyspace.databases();
                Step::Select(number.filter(|db| *db < databases).ok_or(StreamError::Database)?)
            }
            _ => Step::Run(info, info.only_key(args).map(|key| server.keyspace.position(key))),
        })
    }
}

/// When this process made the stamp that a PING brings back.
fn stamp_of(server: &Server, args: Args<'_>) -> Option<u64> {
    let is_ping = server.cluster.enabled && args[0].eq_ignore_ascii_case(b"ping");
    if is_ping { server.own_stamp(args) } else { None }
}

/// True for REPLCONF GETACK.
fn is_question(args: Args<'_>) -> bool {
    args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"))
}

/// Why a stream cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// It is no stream of commands.
    Malformed(DecodeError),
    /// It selects a database that this server does not have.
    Database,
}

impl From<DecodeError> for StreamError {
    fn from(error: DecodeError) -> StreamError {
        StreamError::Malformed(error)
    }
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Malformed(error) => write!(f, "what it sends is no stream of commands: {error}"),
            StreamError::Database => {
                f.write_str("it uses a database that this server does not have: raise directive databases")
            }
        }
    }
}

fn needs(server: &Server, planned: &StreamBatch, commands: std::ops::Range<usize>) -> Needs {
    let mut needs = Needs::default();
    for at in commands {
        if let Step::Run(info, position) = planned.steps[at] {
            needs.add(&server.keyspace, info, planned.command(at), position);
        }
    }
    needs
}

fn rounds(records: &[Record], lanes: usize) -> Vec<Vec<Vec<usize>>> {
    let mut rounds: Vec<(bool, Vec<Vec<usize>>)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let lane = record.needs.lane(lanes);
        if rounds.last().is_none_or(|(is_shared, _)| *is_shared != lane.is_some()) {
            rounds.push((lane.is_some(), vec![Vec::new(); if lane.is_some() { lanes } else { 1 }]));
        }
        let (_, round) = rounds.last_mut().expect("there is one now");
        round[lane.unwrap_or(0)].push(index);
    }
    rounds.into_iter().map(|(_, round)| worth_sharing(round)).collect()
}

/// A round of few records is for one thread.
fn worth_sharing(round: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    if round.iter().map(Vec::len).sum::<usize>() >= LANE_RECORDS_MIN {
        return round;
    }
    let mut all: Vec<usize> = round.into_iter().flatten().collect();
    all.sort_unstable();
    vec![all]
}
