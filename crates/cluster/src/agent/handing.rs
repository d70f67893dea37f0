//! How a primary hands its shard, or slots, to somebody else: it stops serving before it asks for that, and serves
//! again only when it knows that it did not come about.

use super::commits::{Due, Purpose};
use super::machine::Agent;
use super::{Action, AskId, HoldId, Outcome};
use crate::ids::Member;
use crate::records::{Key, Record, ShardRecord};

/// Writes are held for so long at most until the replica has all.
const HOLD_US: u64 = 2_000_000;

/// Commands are parked for so long at most; then they are refused until it is known who owns what.
const PARK_US: u64 = 1_000_000;

/// The shard goes to a replica.
pub(super) struct HandOver {
    hold: HoldId,
    to: Member,
    ask: Option<AskId>,
    since_us: u64,
    /// Where the log ends: the replica has all of it.
    has_all_to: Option<u64>,
    is_asked_for: bool,
}

/// Nothing is served, since a transaction that gives it away may have been carried out.
pub(super) struct Parked {
    /// What that compares: once it was written later, it is decided.
    key: Key,
    revision: u64,
    since_us: u64,
    /// It is known that it will not be carried out.
    is_void: bool,
    /// Its end is unknown: another one has to decide.
    is_unknown: bool,
    /// Commands are refused, no longer parked.
    is_refusing: bool,
}

impl Parked {
    pub fn is_refusing(&self) -> bool {
        self.is_refusing
    }
}

impl Agent {
    /// Begins to hand the shard to this replica.
    pub(super) fn hand_to(
        &mut self,
        to: Member,
        ask: Option<AskId>,
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        let Some((_, record, _)) = self.led_shard() else {
            return Err("ERR This node leads no shard".to_owned());
        };
        if !self.is_there() {
            return Err("ERR etcd does not answer: the shard cannot be handed over now".to_owned());
        }
        if self.hand_over.is_some() || self.parked.is_some() {
            return Err("ERR The shard is being handed over already".to_owned());
        }
        if !record.in_sync.contains(&to) || !self.records.is_live(&to) || to == self.me {
            return Err("ERR That replica is not in sync".to_owned());
        }
        self.last_hold.0 += 1;
        let hold = self.last_hold;
        out.push(Action::Hold(hold, to.clone()));
        let since_us = self.now_us;
        self.hand_over = Some(HandOver { hold, to, ask, since_us, has_all_to: None, is_asked_for: false });
        Ok(())
    }

    /// The server says that the replica has all, or that it took too long: another one may be waited for by now.
    pub(super) fn held(&mut self, hold: HoldId, has_all: bool, log_end: u64, out: &mut Vec<Action>) {
        match self.hand_over.as_mut().filter(|hand_over| hand_over.hold == hold) {
            Some(hand_over) if has_all => hand_over.has_all_to = Some(log_end),
            Some(hand_over) if !hand_over.is_asked_for => {
                self.give_up_hand_over("ERR The replica did not catch up in time", out);
            }
            _ => {}
        }
    }

    /// Replicas that ask for the shard; hand-overs that take too long.
    pub(super) fn watch_hand_over(&mut self, out: &mut Vec<Action>) {
        if let Some(hand_over) = &self.hand_over {
            if !hand_over.is_asked_for && self.now_us >= hand_over.since_us + HOLD_US {
                self.give_up_hand_over("ERR The replica did not catch up in time", out);
            }
            return;
        }
        let Some((shard, record, _)) = self.led_shard() else { return };
        let is_asking = |member: &&Member| {
            let offer = self.records.offers.get(&(shard.clone(), member.node.clone()));
            **member != self.me && offer.is_some_and(|offer| offer.asks)
        };
        let Some(to) = record.in_sync.iter().find(is_asking).cloned() else { return };
        let written = self.records.written_at(&Key::Offer(shard.clone(), to.node.clone()));
        if written != self.asking_offer {
            self.asking_offer = written;
            self.hand_to(to, None, out).unwrap_or_default();
        }
    }

    fn give_up_hand_over(&mut self, why: &str, out: &mut Vec<Action>) {
        let Some(hand_over) = self.hand_over.take() else { return };
        out.push(Action::Release);
        if let Some(ask) = hand_over.ask {
            out.push(Action::Answer(ask, Err(why.to_owned())));
        }
    }

    /// The transaction that makes the replica primary.
    pub(super) fn handing(&mut self) -> Option<Due> {
        let (shard, record, revision) = self.led_shard()?;
        let (shard, record) = (shard.clone(), record.clone());
        let hand_over = self.hand_over.as_mut()?;
        let began_at = hand_over.has_all_to?;
        let to = hand_over.to.clone();
        if !record.in_sync.contains(&to) {
            // It was taken out by a transaction that was under way; the hold ends by itself.
            hand_over.has_all_to = None;
            return None;
        }
        hand_over.is_asked_for = true;
        let live = Key::Live(to.node.clone());
        let offer = Key::Offer(shard.clone(), to.node.clone());
        // Who takes the replica out of the shard writes its record.
        let compares = vec![
            (Key::Shard(shard.clone()), revision),
            (live.clone(), if self.records.is_live(&to) { self.records.written_at(&live) } else { u64::MAX }),
        ];
        let record = ShardRecord { epoch: record.epoch + 1, primary: to, began_at, ..record };
        let mut writes = vec![(Key::Shard(shard), Some(Record::Shard(record)))];
        if self.records.written_at(&offer) != 0 {
            writes.push((offer, None));
        }
        Some(Due { purpose: Purpose::HandOver, compares, writes })
    }

    /// Parks what this transaction may give away.
    pub(super) fn parks_for(&mut self, due: &Due, out: &mut Vec<Action>) {
        let key = match &due.purpose {
            Purpose::HandOver => due.compares.iter().find(|(key, _)| matches!(key, Key::Shard(_))),
            Purpose::Edit(ask) if self.takes_from_here(*ask) => {
                due.compares.iter().find(|(key, _)| matches!(key, Key::Slots))
            }
            _ => None,
        };
        let Some((key, revision)) = key.cloned() else { return };
        self.parked = Some(Parked {
            key,
            revision,
            since_us: self.now_us,
            is_void: false,
            is_unknown: false,
            is_refusing: false,
        });
        out.push(Action::Park);
    }

    pub(super) fn hand_over_ended(&mut self, purpose: &Purpose, outcome: Outcome) {
        let Some(parked) = &mut self.parked else { return };
        if matches!(purpose, Purpose::HandOver | Purpose::Edit(_)) {
            match outcome {
                Outcome::Refused => parked.is_void = true,
                Outcome::Unknown => parked.is_unknown = true,
                Outcome::Committed(_) => {}
            }
        }
    }

    /// Writes the record anew that a transaction of unknown outcome compares.
    pub(super) fn settling(&self) -> Option<Due> {
        let parked = self.parked.as_ref().filter(|parked| parked.is_unknown)?;
        let record = match &parked.key {
            Key::Shard(shard) => Record::Shard(self.records.shards.get(shard)?.0.clone()),
            _ => Record::Slots(self.records.slots.0.clone()),
        };
        let compares = vec![(parked.key.clone(), parked.revision)];
        Some(Due { purpose: Purpose::Settle, compares, writes: vec![(parked.key.clone(), Some(record))] })
    }

    /// Serves again, if it is known what has become of what was to be given away.
    pub(super) fn unpark(&mut self, out: &mut Vec<Action>) {
        let Some(parked) = &mut self.parked else { return };
        let is_decided = parked.is_void || self.records.written_at(&parked.key) != parked.revision;
        if !is_decided {
            let is_late = self.now_us >= parked.since_us + PARK_US;
            if is_late && !parked.is_refusing {
                parked.is_refusing = true;
                self.serve_until(0, out);
                out.push(Action::Release);
            }
            return;
        }
        self.parked = None;
        let is_still_primary = self.led_shard().is_some();
        if let Some(hand_over) = self.hand_over.take_if(|hand_over| hand_over.is_asked_for)
            && let Some(ask) = hand_over.ask
        {
            let answer =
                if is_still_primary { Err("ERR Something else was faster".to_owned()) } else { Ok(()) };
            out.push(Action::Answer(ask, answer));
        }
        self.releases = true;
    }

    /// This node leads no longer.
    pub(super) fn leave_lead(&mut self, out: &mut Vec<Action>) {
        if let Some(hand_over) = self.hand_over.take() {
            self.releases = true;
            if let Some(ask) = hand_over.ask {
                out.push(Action::Answer(ask, Err("ERR This node leads its shard no more".to_owned())));
            }
        }
        self.releases |= self.parked.take().is_some();
        self.leading = super::leading::Leading::default();
    }
}
