//! Moves of slots that stand in the records: carried out by the primary of the slots, each on a thread of its own, and taken in by
//! the primary that is to have them.
//!
//! What decides is the transaction that changes the slots' owner. Whoever began a move goes on asking until it is known what
//! became of that; after a change of primaries the next one begins anew; and the destination learns from the records what its
//! source cannot tell it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use base::limits::{SLOT_MOVE_FLIP_MS_MAX, SLOT_MOVES_RUNNING_MAX};
use cluster::agent::Ask;
use cluster::edits::{Edit, MOVE_IS_DONE, MOVE_LEFT};
use cluster::ids::{Member, ShardId};
use cluster::moves::{self, Fate, MoveId};
use cluster::records::{MoveRecord, MoveState};
use cluster::slots::SlotRanges;
use cluster::topology::Records;
use engine::outgoing::Target;
use engine::server::Server;
use engine::slot_moves::{Flipped, Migration, NOT_YET, SlotMove, SlotSet};

use crate::shared::Shared;

/// Between two tries to learn what became of a transaction, or to begin.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The destination may take so long to let go of what it has of an earlier move.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// Between looks whether who waits for an answer has other things to do.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A move: its shard, and its number there.
type Name = (ShardId, u64);

/// The moves of this node.
pub struct Mover {
    shared: Arc<Shared>,
    running: BTreeMap<Name, Arc<SlotMove>>,
    ended: (Sender<Name>, Receiver<Name>),
    attempts: u64,
    /// The records' revision when they were looked over last.
    seen: u64,
    /// Revisions at which moves have ended whose remains are looked for no more.
    cleared: BTreeSet<u64>,
}

impl Mover {
    /// None yet.
    pub fn new(shared: Arc<Shared>) -> Mover {
        let ended = channel();
        Mover { shared, running: BTreeMap::new(), ended, attempts: 0, seen: 0, cleared: BTreeSet::new() }
    }

    /// Begins what is to be begun, ends what is cancelled, and decides what has come.
    pub fn look(&mut self, records: &Records, me: &Member) {
        while let Ok(name) = self.ended.1.try_recv() {
            self.running.remove(&name);
        }
        let own = records.nodes.get(&me.node).map(|node| &node.shard);
        let led = own.filter(|own| records.shards.get(own).is_some_and(|(shard, _)| shard.primary == *me));
        self.cancel_ended(records, led);
        match led {
            Some(led) => {
                self.begin_due(records, me);
                self.decide_imports(records, led);
                self.clear_left_behind(records, led);
            }
            None => {
                self.cleared.clear();
                self.shared.server.forget_imports();
            }
        }
        if self.seen != records.revision
            && let Some(own) = own
        {
            self.shared.server.tell_migrations(migrations(records, own));
        }
        self.seen = records.revision;
    }

    fn cancel_ended(&self, records: &Records, led: Option<&ShardId>) {
        for (name, task) in &self.running {
            let record = records.moves.get(name).filter(|_| led == Some(&name.0));
            if record.is_none_or(|(record, _)| !record.state.is_open()) {
                task.cancel();
            }
        }
    }

    fn begin_due(&mut self, records: &Records, me: &Member) {
        for (from, number, record) in moves::due(records, me) {
            let name = (from.clone(), number);
            if self.running.len() >= SLOT_MOVES_RUNNING_MAX {
                return;
            }
            if !self.running.contains_key(&name) {
                self.begin(name, record, records);
            }
        }
    }

    fn begin(&mut self, name: Name, record: &MoveRecord, records: &Records) {
        self.attempts += 1;
        let epoch = records.shards.get(&name.0).map_or(0, |(shard, _)| shard.epoch);
        let (from, number) = name.clone();
        let id = MoveId { from, number, epoch, revision: records.revision, attempt: self.attempts };
        let there = records.shards.get(&record.to).map(|(shard, _)| shard);
        let there = there.filter(|shard| records.is_live(&shard.primary));
        let node = there.and_then(|shard| records.nodes.get(&shard.primary.node));
        let is_over_tls = self.shared.server.config.bool("tls-cluster");
        let target = node.map(|node| Target {
            host: node.ip.clone(),
            port: if is_over_tls { node.tls_port } else { node.port },
        });
        let no_target = Target { host: String::new(), port: 0 };
        let task = SlotMove::new(id.to_string(), set_of(&record.slots), target.unwrap_or(no_target));
        let task = Arc::new(task);
        self.running.insert(name.clone(), task.clone());
        self.shared.server.note_move(record.name.clone(), task.clone());
        let run = Run { shared: self.shared.clone(), id, to_epoch: there.map(|shard| shard.epoch), task };
        let ended = self.ended.0.clone();
        let work = move || {
            run.carry_out();
            // Nobody listens where the server ends.
            let _ = ended.send(name);
        };
        let started = thread::Builder::new().name("slot-move".to_owned()).spawn(work);
        started.map(drop).expect("thread-limit: one more thread");
    }

    fn decide_imports(&self, records: &Records, led: &ShardId) {
        let server = &self.shared.server;
        for import in server.imports() {
            let slots = SlotRanges::of(import.slots.slots());
            match moves::fate(records, led, MoveId::parse(&import.id).as_ref(), &slots) {
                // Whatever it is that makes them this shard's, if not all has come, its source will say so.
                Fate::Ours if import.is_ready => drop(server.settle_import(&import.id, true)),
                Fate::NotOurs => {
                    tracing::info!("cluster: slots {slots} do not come, after all");
                    server.settle_import(&import.id, false);
                }
                Fate::Ours | Fate::Open => {}
            }
        }
    }

    fn clear_left_behind(&mut self, records: &Records, led: &ShardId) {
        if self.seen == records.revision && !self.cleared.is_empty() {
            return;
        }
        let left = moves::left_behind(records, led);
        for (revision, slots) in &left {
            if !self.cleared.contains(revision) {
                self.shared.server.clear_left_behind(&set_of(slots));
            }
        }
        self.cleared = left.into_iter().map(|(revision, _)| revision).collect();
    }
}

fn set_of(slots: &SlotRanges) -> SlotSet {
    SlotSet::of(slots.ranges().iter().cloned())
}

/// What clients are told, the newest first.
fn migrations(records: &Records, own: &ShardId) -> Vec<Migration> {
    let primary = |shard: &ShardId| {
        records.shards.get(shard).map(|(record, _)| record.primary.node.to_string()).unwrap_or_default()
    };
    let concerned = records.moves.iter().filter(|((from, _), (record, _))| from == own || record.to == *own);
    let mut all: Vec<(u64, u64, Migration)> = concerned
        .map(|((from, number), (record, _))| {
            let ranges = record.slots.ranges().iter();
            let ranges: Vec<String> =
                ranges.map(|range| format!("{}-{}", range.start(), range.end())).collect();
            let migration = Migration {
                name: record.name.clone(),
                is_export: from == own,
                slots: ranges.join(" "),
                target: primary(&record.to),
                source: primary(from),
                begun_s: (record.begun_ms / 1000) as i64,
                changed_s: (record.changed_ms / 1000) as i64,
                state: word(record.state, from == own),
                message: record.error.clone(),
            };
            (record.begun_ms, *number, migration)
        })
        .collect();
    all.sort_by_key(|(begun_ms, number, _)| std::cmp::Reverse((*begun_ms, *number)));
    all.into_iter().map(|(.., migration)| migration).collect()
}

fn word(state: MoveState, is_export: bool) -> &'static str {
    match (state, is_export) {
        (MoveState::Asked, true) => "waiting-to-snapshot",
        (MoveState::Copying, true) => "snapshotting",
        (MoveState::Asked | MoveState::Copying, false) => "receiving-snapshot",
        (MoveState::Done, _) => "success",
        (MoveState::Failed, _) => "failed",
        (MoveState::Cancelled, _) => "cancelled",
    }
}

/// One move, on its thread.
struct Run {
    shared: Arc<Shared>,
    id: MoveId,
    /// The epoch of the primary that is to own the slots; None: it is not there.
    to_epoch: Option<u64>,
    task: Arc<SlotMove>,
}

/// What the records say of an edit that was asked for.
enum Said {
    Yes,
    No(String),
    /// The server ends.
    Nothing,
}

impl Run {
    fn server(&self) -> &Server {
        &self.shared.server
    }

    fn now_ms(&self) -> u64 {
        self.server().clock.now().unix_ms.max(0) as u64
    }

    /// If the records cannot be changed, they are as they were: the move is begun anew.
    fn carry_out(&self) {
        let (shard, number) = (self.id.from.clone(), self.id.number);
        let slots = &self.task.slots;
        if !matches!(self.ask(Edit::MoveBegun(shard, number, self.now_ms()), &mut || {}), Said::Yes) {
            thread::sleep(RETRY_PAUSE);
            return;
        }
        let Some(to_epoch) = self.to_epoch else {
            self.give_up("the destination has no primary that is there");
            return;
        };
        match self.move_slots(to_epoch) {
            Ok(()) => {
                let paused_us = self.task.progress.paused_us.load(std::sync::atomic::Ordering::Relaxed);
                tracing::info!("cluster: slots {slots} have moved; their commands waited for {paused_us} us");
            }
            Err(why) => {
                tracing::warn!("cluster: slots {slots} have not moved: {why}");
                self.give_up(&why);
            }
        }
    }

    fn move_slots(&self, to_epoch: u64) -> Result<(), String> {
        let until = Instant::now() + READY_PATIENCE;
        loop {
            let result = self.server().move_slots(&self.task, &mut |_: &SlotMove| self.flip(to_epoch));
            let is_passing = result.as_ref().is_err_and(|why| why.contains(NOT_YET));
            let is_over = self.task.is_cancelled() || self.shared.is_stopping();
            if !is_passing || is_over || Instant::now() >= until {
                return result;
            }
            thread::sleep(RETRY_PAUSE);
        }
    }

    fn flip(&self, to_epoch: u64) -> Flipped {
        let since = Instant::now();
        let mut is_refused = false;
        let mut meanwhile = || {
            if !is_refused && since.elapsed() >= Duration::from_millis(SLOT_MOVE_FLIP_MS_MAX) {
                is_refused = true;
                self.server().refuse_parked(&self.task.slots);
            }
        };
        match self.ask(Edit::Flip(self.id.clone(), to_epoch, self.now_ms()), &mut meanwhile) {
            Said::Yes => Flipped::Done,
            // It may have been carried out all the same.
            Said::No(why) => self.decide(&why, &mut meanwhile),
            Said::Nothing => Flipped::Unknown("the server ends".to_owned()),
        }
    }

    /// Ends the move, unless it has flipped: then nothing that was asked for before can flip it any more.
    fn decide(&self, why: &str, meanwhile: &mut dyn FnMut()) -> Flipped {
        loop {
            let (shard, number) = (self.id.from.clone(), self.id.number);
            match self.ask(Edit::MoveFailed(shard, number, self.now_ms(), why.to_owned()), meanwhile) {
                Said::Yes => return Flipped::Refused(why.to_owned()),
                Said::No(text) if text == MOVE_IS_DONE => return Flipped::Done,
                Said::No(text) if text == MOVE_LEFT => return Flipped::Left(text),
                Said::No(_) => thread::sleep(RETRY_PAUSE),
                Said::Nothing => return Flipped::Unknown("the server ends".to_owned()),
            }
        }
    }

    /// Writes down why nothing became of it, where nobody has yet.
    fn give_up(&self, why: &str) {
        self.decide(why, &mut || {});
    }

    /// Asks for a change of the records; `meanwhile` is called now and then until there is an answer.
    fn ask(&self, edit: Edit, meanwhile: &mut dyn FnMut()) -> Said {
        let (sender, answered) = channel();
        let answer = move |result| drop(sender.send(result));
        self.server().host.cluster_ask(Ask::Edit(edit), Box::new(answer));
        loop {
            meanwhile();
            match answered.recv_timeout(LOOK_INTERVAL) {
                _ if self.shared.is_stopping() => return Said::Nothing,
                Ok(Ok(())) => return Said::Yes,
                Ok(Err(why)) => return Said::No(why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Said::Nothing,
            }
        }
    }
}
