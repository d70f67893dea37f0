//! Slots that move: what the server does of it, with the log in the place of the keys.
//!
//! ```text
//!   source: begun -> copies, follows its log -> parks the slots -> flips, until it is known what became of that -> serves, or not
//!   destination: takes in what comes, hidden -> says what is safe -> decides by the records
//! ```

use cluster::agent::Ask;
use cluster::edits::{Edit, MOVE_IS_DONE, MOVE_LEFT};
use cluster::ids::{Member, ShardId};
use cluster::moves::{self, Fate, MoveId};
use cluster::records::MoveRecord;
use cluster::slots::SlotRanges;

use crate::node::{Log, Message, Node, Role, SLOTS_SAMPLED};
use crate::world::{Happening, World};

/// A destination that says nothing for so long is given up.
const PATIENCE_US: u64 = 2_000_000;

/// Between two tries.
const RETRY_US: u64 = 100_000;

/// The bits of an entry that say which of the sampled slots it is of.
const SLOT_SHIFT: u32 = 24;

/// An entry that says that a slot holds nothing.
const EMPTY: u64 = 1 << 28;

/// An entry that is of no slot.
const OF_NONE: u64 = 1 << 29;

/// What is written to one of the sampled slots; None: to another.
pub fn entry_of(slot: Option<usize>, epoch: u64, number: u64) -> u64 {
    epoch << 32 | slot.map_or(OF_NONE, |slot| (slot as u64) << SLOT_SHIFT) | number
}

fn emptied(slot: usize) -> u64 {
    EMPTY | ((slot as u64) << SLOT_SHIFT)
}

/// The place of the slot that an entry is of, whether it says what is in it, or that nothing is.
pub fn slot_of(entry: u64) -> Option<usize> {
    (entry & OF_NONE == 0).then_some((entry >> SLOT_SHIFT) as usize & 7)
}

/// The place of the slot that this entry puts something into.
pub fn slot_written(entry: u64) -> Option<usize> {
    slot_of(entry).filter(|_| entry & EMPTY == 0)
}

/// What tells entries apart: who writes later has a higher one, of whatever epoch.
pub fn number_of(entry: u64) -> u64 {
    entry & ((1 << SLOT_SHIFT) - 1)
}

/// True if a slot holds what this entry says.
pub fn holds(log: &Log, slot: usize, entry: u64) -> bool {
    let last = log.entries.iter().rev().find(|known| **known == entry || **known == emptied(slot));
    last == Some(&entry)
}

/// One try of the source.
pub struct Sending {
    id: MoveId,
    /// Who is to have them, in which epoch.
    to: Option<(Member, u64)>,
    slots: SlotRanges,
    state: State,
    /// What is to be sent, in order, and how much of it has come.
    queue: Vec<u64>,
    come: usize,
    /// Where the log was read to.
    read_to: usize,
    heard_us: u64,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Beginning(u64),
    Copying,
    /// Nothing is written to the slots any more.
    Parked,
    Flipping(u64),
    /// The flip came to nothing, or nobody knows: the move is to end otherwise.
    Deciding(u64),
    /// As that, after a while.
    Retry(u64),
    /// The destination owns the slots. They stay parked until this node knows.
    Done,
    Over,
}

impl Sending {
    fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked | State::Flipping(_) | State::Deciding(_) | State::Retry(_))
            || self.state == State::Done
    }
}

/// What a destination receives.
pub struct Receiving {
    id: MoveId,
    slots: SlotRanges,
    /// How much has come, and where the log ended then.
    count: usize,
    end: usize,
    is_ready: bool,
}

fn sampled(slots: &SlotRanges) -> impl Iterator<Item = usize> + '_ {
    (0..SLOTS_SAMPLED.len()).filter(|slot| slots.has(SLOTS_SAMPLED[*slot]))
}

impl Node {
    pub fn is_slot_parked(&self, slot: u16) -> bool {
        self.sending.iter().any(|sending| sending.is_parked() && sending.slots.has(slot))
    }
}

impl World {
    fn ask_of(&mut self, at: usize, edit: Edit) -> u64 {
        let id = self.next_ask;
        self.next_ask += 1;
        let life = self.nodes[at].life;
        self.after(0, Happening::AskOwn(at, life, id, Ask::Edit(edit)));
        id
    }

    /// Goes on with the moves.
    pub fn go_on_with_moves(&mut self, at: usize) {
        for index in 0..self.nodes[at].sending.len() {
            self.go_on(at, index);
        }
        self.nodes[at].sending.retain(|sending| sending.state != State::Over);
    }

    /// Looks over the moves, as the records are.
    pub fn look_at_moves(&mut self, at: usize) {
        let node = &self.nodes[at];
        let (Some(agent), me) = (&node.agent, node.member()) else { return };
        let records = agent.records();
        let own = records.nodes.get(&me.node).map(|node| node.shard.clone());
        let led = own.filter(|own| records.shards.get(own).is_some_and(|(shard, _)| shard.primary == me));
        match led.filter(|_| matches!(node.role, Role::Lead { .. })) {
            Some(led) => {
                let due = moves::due(records, &me);
                let due = due.map(|(from, number, record)| (from.clone(), number, record.clone()));
                for (from, number, record) in due.collect::<Vec<_>>() {
                    self.begin_move(at, from, number, &record);
                }
                self.decide_imports(at, &led);
            }
            None => self.leave_moves(at),
        }
    }

    /// Nothing comes any more, and nothing goes. What was asked of etcd can come to be still.
    fn leave_moves(&mut self, at: usize) {
        self.nodes[at].receiving.clear();
        for sending in &mut self.nodes[at].sending {
            if matches!(sending.state, State::Copying | State::Parked) {
                (sending.state, sending.why) = (State::Retry(self.now_us), "this node leads no more");
            }
        }
    }

    fn begin_move(&mut self, at: usize, from: ShardId, number: u64, record: &MoveRecord) {
        let is_running = |sending: &Sending| sending.id.from == from && sending.id.number == number;
        if self.nodes[at].sending.iter().any(is_running) {
            return;
        }
        let Some(agent) = &self.nodes[at].agent else { return };
        let records = agent.records();
        let epoch = records.shards.get(&from).map_or(0, |(shard, _)| shard.epoch);
        let to = records.shards.get(&record.to).map(|(shard, _)| (shard.primary.clone(), shard.epoch));
        let to = to.filter(|(to, _)| records.is_live(to));
        let revision = records.revision;
        let attempt = self.next_link;
        self.next_link += 1;
        let ask = self.ask_of(at, Edit::MoveBegun(from.clone(), number, 0));
        self.log(|| format!("n{at} begins try {attempt} of move {number} to {to:?}"));
        self.nodes[at].sending.push(Sending {
            id: MoveId { from, number, epoch, revision, attempt },
            to,
            slots: record.slots.clone(),
            state: State::Beginning(ask),
            queue: Vec::new(),
            come: 0,
            read_to: 0,
            heard_us: self.now_us,
            why: "",
        });
    }

    /// An edit that a move has asked for is answered.
    pub fn move_answered(&mut self, at: usize, ask: u64, result: &Result<(), String>) {
        let now_us = self.now_us;
        let is_it = |sending: &&mut Sending| {
            [State::Beginning(ask), State::Flipping(ask), State::Deciding(ask)].contains(&sending.state)
        };
        let Some(sending) = self.nodes[at].sending.iter_mut().find(is_it) else { return };
        sending.state = match (sending.state, result) {
            (State::Beginning(_), Ok(())) => {
                sending.heard_us = now_us;
                State::Copying
            }
            (State::Beginning(_), Err(_)) => State::Over,
            (State::Flipping(_), Ok(())) => State::Over,
            (State::Flipping(_), Err(_)) => State::Retry(now_us),
            (_, Ok(())) => State::Over,
            (_, Err(why)) if why == MOVE_IS_DONE => State::Done,
            (_, Err(why)) if why == MOVE_LEFT => State::Over,
            _ => State::Retry(now_us + RETRY_US),
        };
        let state = sending.state;
        self.log(|| format!("n{at} hears of its move: {result:?}, and is {state:?}"));
    }

    fn go_on(&mut self, at: usize, index: usize) {
        let now_us = self.now_us;
        match self.nodes[at].sending[index].state {
            State::Copying => self.copy(at, index),
            State::Parked => self.send_the_rest(at, index),
            State::Retry(at_us) if now_us >= at_us => {
                let sending = &self.nodes[at].sending[index];
                let edit =
                    Edit::MoveFailed(sending.id.from.clone(), sending.id.number, 0, sending.why.to_owned());
                let ask = self.ask_of(at, edit);
                self.nodes[at].sending[index].state = State::Deciding(ask);
            }
            State::Done => {
                let node = &self.nodes[at];
                let is_owner = |slot: usize| node.owns_slot(SLOTS_SAMPLED[slot]);
                if !sampled(&node.sending[index].slots).any(is_owner) {
                    self.nodes[at].sending[index].state = State::Over;
                }
            }
            _ => {}
        }
    }

    fn give_up_if_late(&mut self, at: usize, index: usize) -> bool {
        let now_us = self.now_us;
        let node = &mut self.nodes[at];
        let is_open = node.agent.as_ref().is_some_and(|agent| {
            let id = &node.sending[index].id;
            agent.records().moves.get(&(id.from.clone(), id.number)).is_some_and(|(it, _)| it.state.is_open())
        });
        let sending = &mut node.sending[index];
        let is_late = sending.to.is_none() || now_us > sending.heard_us + PATIENCE_US || !is_open;
        if is_late {
            (sending.state, sending.why) = (State::Retry(now_us), "the destination does not answer");
        }
        is_late
    }

    fn send_the_rest(&mut self, at: usize, index: usize) {
        if !self.give_up_if_late(at, index) {
            self.send_some(at, index, true);
        }
    }

    fn copy(&mut self, at: usize, index: usize) {
        if self.give_up_if_late(at, index) {
            return;
        }
        self.read_log(at, index);
        let sending = &self.nodes[at].sending[index];
        let lacks = sending.queue.len() - sending.come;
        if lacks <= 1 && sending.come > 0 && self.random.one_in(3) {
            self.nodes[at].sending[index].state = State::Parked;
            self.log(|| format!("n{at} parks the slots of its move"));
        }
        let is_parked = self.nodes[at].sending[index].state == State::Parked;
        self.send_some(at, index, is_parked);
    }

    /// What the log says of the slots, since they were empty last.
    fn read_log(&mut self, at: usize, index: usize) {
        let node = &mut self.nodes[at];
        let sending = &mut node.sending[index];
        if sending.queue.is_empty() {
            sending.queue.extend(sampled(&sending.slots).map(emptied));
        }
        let is_of_slots =
            |entry: &&u64| slot_of(**entry).is_some_and(|slot| sending.slots.has(SLOTS_SAMPLED[slot]));
        sending.queue.extend(node.log.entries[sending.read_to..].iter().filter(is_of_slots));
        sending.read_to = node.log.entries.len();
    }

    fn send_some(&mut self, at: usize, index: usize, is_all: bool) {
        let sending = &self.nodes[at].sending[index];
        let Some((to, _)) = sending.to.clone() else { return };
        let end = if is_all { sending.queue.len() } else { sending.queue.len().min(sending.come + 8) };
        let message = Message::Slots {
            id: sending.id.clone(),
            slots: sending.slots.clone(),
            to: to.clone(),
            start: sending.come,
            entries: sending.queue[sending.come..end].to_vec(),
            is_all,
        };
        if let Some(to) = self.place_of(&to.node) {
            self.send(at, to, message);
        }
    }

    /// The destination: only in the life that the source means, as the connection is to that one.
    pub fn take_slots(&mut self, from: usize, at: usize, message: Message) {
        let Message::Slots { id, slots, to, start, entries, is_all } = message else { return };
        let node = &mut self.nodes[at];
        let may_write = matches!(node.role, Role::Lead { .. }) && node.held.is_none() && !node.is_parked;
        if node.member() != to || !may_write {
            return;
        }
        if !node.receiving.iter().any(|known| known.id == id) {
            let meets = |known: &Receiving| sampled(&known.slots).any(|slot| slots.has(SLOTS_SAMPLED[slot]));
            let is_own = sampled(&slots).any(|slot| node.owns_slot(SLOTS_SAMPLED[slot]));
            if start > 0 || is_own || node.receiving.iter().any(meets) {
                return;
            }
            node.receiving.push(Receiving { id: id.clone(), slots, count: 0, end: 0, is_ready: false });
        }
        let released_to = node.released_to;
        let Some(known) = node.receiving.iter_mut().find(|known| known.id == id) else { return };
        if start > known.count || known.is_ready && start + entries.len() > known.count {
            return;
        }
        let new = &entries[(known.count - start).min(entries.len())..];
        node.log.entries.extend(new);
        known.count += new.len();
        if !new.is_empty() {
            known.end = node.log.entries.len();
        }
        known.is_ready |= is_all;
        let (come, is_safe) = (known.count, released_to >= known.end);
        self.release_replies(at);
        self.send(at, from, Message::SlotsCame { id, come, is_safe });
        self.feed(at);
    }

    pub fn slots_came(&mut self, at: usize, id: &MoveId, come: usize, is_safe: bool) {
        let now_us = self.now_us;
        let node = &mut self.nodes[at];
        let Some(index) = node.sending.iter().position(|sending| sending.id == *id) else { return };
        let sending = &mut node.sending[index];
        sending.come = sending.come.max(come);
        sending.heard_us = now_us;
        if sending.state != State::Parked {
            return;
        }
        self.read_log(at, index);
        let sending = &self.nodes[at].sending[index];
        if is_safe && come == sending.queue.len() {
            let Some((_, epoch)) = sending.to else { return };
            let ask = self.ask_of(at, Edit::Flip(id.clone(), epoch, 0));
            self.nodes[at].sending[index].state = State::Flipping(ask);
            self.nodes[at].sending[index].why = "the flip came to nothing";
        }
    }

    fn decide_imports(&mut self, at: usize, led: &ShardId) {
        if self.nodes[at].held.is_some() || self.nodes[at].is_parked {
            return;
        }
        let mut index = 0;
        while let Some(known) = self.nodes[at].receiving.get(index) {
            let Some(agent) = &self.nodes[at].agent else { return };
            match moves::fate(agent.records(), led, Some(&known.id), &known.slots) {
                Fate::Ours if known.is_ready => drop(self.nodes[at].receiving.remove(index)),
                Fate::NotOurs => {
                    let gone = self.nodes[at].receiving.remove(index);
                    self.nodes[at].log.entries.extend(sampled(&gone.slots).map(emptied));
                    self.feed(at);
                }
                Fate::Ours | Fate::Open => index += 1,
            }
        }
    }
}
