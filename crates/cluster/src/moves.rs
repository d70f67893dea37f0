//! What the two ends of a move conclude from the records, beyond what they tell each other.

use std::fmt;

use crate::ids::{Member, ShardId};
use crate::records::{MoveRecord, MoveState};
use crate::slots::SlotRanges;
use crate::topology::Records;

/// One try to carry out a move, as both ends call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveId {
    /// The shard that the slots are of.
    pub from: ShardId,
    /// The move's number there.
    pub number: u64,
    /// The shard's epoch: by another primary it is another try.
    pub epoch: u64,
    /// A revision at which the move's record was open: the destination may not have seen it yet.
    pub revision: u64,
    /// What tells this try from others of the same process.
    pub attempt: u64,
}

impl fmt::Display for MoveId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MoveId { from, number, epoch, revision, attempt } = self;
        write!(out, "{from}-{number}-{epoch}-{revision}-{attempt}")
    }
}

impl MoveId {
    /// The one that is written so.
    pub fn parse(text: &str) -> Option<MoveId> {
        let mut words = text.split('-');
        let from = ShardId::new(words.next()?)?;
        let mut number = || words.next()?.parse().ok();
        let id =
            MoveId { from, number: number()?, epoch: number()?, revision: number()?, attempt: number()? };
        words.next().is_none().then_some(id)
    }
}

/// What becomes of slots that a node receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are its shard's.
    Ours,
    /// They are not, and will not be by this try.
    NotOurs,
    /// Nobody knows yet.
    Open,
}

/// What becomes of these slots, which this shard receives by this try; None: by nobody's that the records know.
pub fn fate(records: &Records, own: &ShardId, id: Option<&MoveId>, slots: &SlotRanges) -> Fate {
    let owned = records.slots.0.of(own);
    if owned.is_some_and(|owned| slots.slots().all(|slot| owned.has(slot))) {
        return Fate::Ours;
    }
    let Some(id) = id else { return Fate::NotOurs };
    if records.revision < id.revision {
        return Fate::Open;
    }
    // The flip compares the record, and that the shard's primary is the one of this epoch.
    let record = records.moves.get(&(id.from.clone(), id.number)).map(|(record, _)| record);
    let is_open = record.is_some_and(|record| record.state.is_open() && record.to == *own);
    let is_current = records.shards.get(&id.from).is_some_and(|(shard, _)| shard.epoch == id.epoch);
    if is_open && is_current { Fate::Open } else { Fate::NotOurs }
}

/// Moves that this primary is to carry out, in the order in which they were asked for.
pub fn due<'a>(
    records: &'a Records,
    me: &'a Member,
) -> impl Iterator<Item = (&'a ShardId, u64, &'a MoveRecord)> {
    records.moves.iter().filter_map(move |((from, number), (record, _))| {
        let leads = records.shards.get(from).is_some_and(|(shard, _)| shard.primary == *me);
        (leads && record.state.is_open()).then_some((from, *number, record))
    })
}

/// Slots of moves from or to this shard that have ended, and that are another's: what its nodes hold of them was left behind
/// by who died on the way. Each with the revision at which the move ended.
pub fn left_behind(records: &Records, own: &ShardId) -> Vec<(u64, SlotRanges)> {
    let Ok(owners) = records.slots.0.owners() else { return Vec::new() };
    let is_anothers = |slot: &u16| owners[usize::from(*slot)].is_some_and(|owner| owner != own);
    let ended = records.moves.iter().filter(|((from, _), (record, _))| {
        let is_over = matches!(record.state, MoveState::Done | MoveState::Failed | MoveState::Cancelled);
        is_over && (from == own || record.to == *own)
    });
    ended
        .map(|(_, (record, revision))| (*revision, SlotRanges::of(record.slots.slots().filter(is_anothers))))
        .filter(|(_, slots)| !slots.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
