//! The transactions of a node: one at a time, each made from records that hold what the one before has written.

use super::{Action, AskId, Outcome, TxnId};
use crate::records::{Key, Record};

/// After a transaction whose end is unknown, so long nothing is asked for; after one that was refused, unless something was
/// written since, which others may have been refused for.
const PAUSE_US: u64 = 50_000;

/// What a transaction is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be known: the cluster, this node, its shard.
    Enter,
    /// To be there, under the lease of this number.
    Live(u64),
    /// To change who is in sync.
    Set,
    /// To hand the shard to a replica.
    HandOver,
    /// To change a record that one of unknown outcome compares, which then cannot be carried out any more.
    Settle,
    /// To offer, or to ask for the shard.
    Offer,
    /// To offer no longer.
    Withdraw,
    /// To become primary.
    Claim,
    /// What somebody asked for.
    Edit(AskId),
}

/// A transaction that is due.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub purpose: Purpose,
    pub compares: Vec<(Key, u64)>,
    pub writes: Vec<(Key, Option<Record>)>,
}

/// What was asked of etcd.
#[derive(Default)]
pub(super) struct Commits {
    last: u64,
    in_flight: Option<(TxnId, Purpose)>,
    /// The next is made from records of this revision at least.
    from_revision: u64,
    not_before_us: u64,
    /// The records' revision when the last one was made.
    made_from: u64,
    /// That revision, if it was refused.
    refused_at: Option<u64>,
}

impl Commits {
    /// Another transaction can be made from records of this revision.
    pub fn is_free(&self, now_us: u64, revision: u64) -> bool {
        let is_time = now_us >= self.not_before_us || self.refused_at.is_some_and(|at| revision > at);
        self.in_flight.is_none() && is_time && revision >= self.from_revision
    }

    /// The next transaction, made from records of this revision.
    pub fn begin(&mut self, due: Due, revision: u64, out: &mut Vec<Action>) {
        self.made_from = revision;
        self.last += 1;
        let txn = TxnId(self.last);
        self.in_flight = Some((txn, due.purpose));
        out.push(Action::Commit { txn, compares: due.compares, writes: due.writes });
    }

    /// What the transaction was for that has ended.
    pub fn end(&mut self, now_us: u64, txn: TxnId, outcome: Outcome) -> Option<Purpose> {
        let (_, purpose) = self.in_flight.take_if(|(in_flight, _)| *in_flight == txn)?;
        self.refused_at = (outcome == Outcome::Refused).then_some(self.made_from);
        match outcome {
            Outcome::Committed(revision) => {
                self.from_revision = self.from_revision.max(revision);
                self.not_before_us = 0;
            }
            Outcome::Refused | Outcome::Unknown => self.not_before_us = now_us + PAUSE_US,
        }
        Some(purpose)
    }
}
