//! The lease, and the record that says under it that this node is there.

use super::commits::{Due, Purpose};
use super::machine::{Agent, Cause, Membership};
use super::{Action, CLOCK_MARGIN_US, LEASE_S, Outcome, RENEW_US};
use crate::ids::Member;
use crate::records::{Key, LiveRecord, Record};
use crate::topology::Records;

/// A live record of this node in another life that is there for so long is another process that has the same name.
const TWIN_US: u64 = 4 * LEASE_S * 1_000_000;

/// What is known of the lease.
#[derive(Default)]
pub(super) struct Lease {
    /// Raised with each lease: what was committed under an earlier one is gone with it.
    number: u64,
    is_granted: bool,
    /// When this lease was asked for first.
    since_us: Option<u64>,
    /// When it was asked for last, or its renewal was.
    requested_us: Option<u64>,
    /// The newest instant from which it is known to last.
    asked_us: u64,
    /// The live record stands under this lease, since this revision.
    live_at: Option<u64>,
    twin_since_us: Option<u64>,
}

impl Lease {
    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Asks for what is due.
    pub fn keep(&mut self, now_us: u64, out: &mut Vec<Action>) {
        if self.requested_us.is_some_and(|requested_us| now_us < requested_us + RENEW_US) {
            return;
        }
        self.requested_us = Some(now_us);
        if self.is_granted {
            return out.push(Action::Renew);
        }
        self.since_us.get_or_insert(now_us);
        out.push(Action::Grant);
    }

    pub fn kept(&mut self, asked_us: u64) {
        if self.since_us.is_some_and(|since_us| asked_us >= since_us) {
            self.asked_us = self.asked_us.max(asked_us);
            self.is_granted = true;
        }
    }

    pub fn gone(&mut self) {
        let twin_since_us = self.twin_since_us;
        *self = Lease { number: self.number + 1, twin_since_us, ..Lease::default() };
    }

    pub fn ended(&mut self, purpose: &Purpose, outcome: Outcome) {
        if let (Purpose::Live(number), Outcome::Committed(revision)) = (purpose, outcome)
            && *number == self.number
        {
            self.live_at = Some(revision);
        }
    }

    /// The live record was removed, or is another life's: the lease has ended, though nobody has said so yet.
    pub fn look(&mut self, records: &Records, me: &Member) {
        if self.live_at.is_some_and(|live_at| records.revision >= live_at) && !records.is_live(me) {
            self.gone();
        }
    }

    /// Until then nobody can see this node's live record gone. None: it is not known to be there, or who was
    /// promoted before it was is not known yet.
    pub fn until_us(&self, records: &Records) -> Option<u64> {
        let is_current = self.live_at.is_some_and(|live_at| records.revision >= live_at);
        is_current.then(|| self.asked_us + LEASE_S * 1_000_000 - CLOCK_MARGIN_US)
    }
}

impl Agent {
    /// True while this node is known to be there.
    pub(super) fn is_there(&self) -> bool {
        self.lease.until_us(&self.records).is_some_and(|until_us| self.now_us < until_us)
    }

    /// The transaction that says that this node is there. Not over another life's record: that ends by itself where
    /// its process has.
    pub(super) fn living(&self) -> Option<Due> {
        if !self.lease.is_granted || self.lease.live_at.is_some() || self.membership != Membership::In {
            return None;
        }
        if self.records.live.get(&self.me.node).is_some_and(|life| *life != self.me.life) {
            return None;
        }
        let key = Key::Live(self.me.node.clone());
        let compares = vec![
            (key.clone(), self.records.written_at(&key)),
            (Key::Node(self.me.node.clone()), self.records.written_at(&Key::Node(self.me.node.clone()))),
        ];
        let record = Record::Live(LiveRecord { life: self.me.life });
        Some(Due { purpose: Purpose::Live(self.lease.number), compares, writes: vec![(key, Some(record))] })
    }

    /// Another process that has this node's name keeps its record alive.
    pub(super) fn watch_for_twin(&mut self) {
        let now_us = self.now_us;
        let is_there = self.records.live.get(&self.me.node).is_some_and(|life| *life != self.me.life);
        if !is_there {
            if self.lease.twin_since_us.take().is_some_and(|since_us| now_us >= since_us + TWIN_US) {
                self.relent(Cause::Twin);
            }
            return;
        }
        let since_us = *self.lease.twin_since_us.get_or_insert(now_us);
        if now_us >= since_us + TWIN_US {
            let node = &self.me.node;
            let why =
                format!("Another process runs as node {node}: two nodes cannot have one data directory");
            self.refuse(Cause::Twin, why);
        }
    }

    pub(super) fn waits_for_twin(&self) -> bool {
        self.lease.twin_since_us.is_some()
    }
}
