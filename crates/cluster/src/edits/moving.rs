//! Moves of slots: asked for, begun, flipped, ended.
//!
//! A move's record is written by every change of its state, and compared by the flip, which ends it in the same transaction. So
//! whoever has written that a move is over knows that it will not flip, whatever was asked of etcd before.

use base::limits::SLOT_MOVES_ASKED_MAX;

use super::{Change, known_shard, while_there, wrong};
use crate::ids::{Member, ShardId};
use crate::moves::MoveId;
use crate::records::{Key, MoveRecord, MoveState, Record};
use crate::slots::SlotRanges;
use crate::topology::Records;

/// Ended moves of a shard that are remembered.
const ENDED_KEPT: usize = 100;

/// Ended moves that are forgotten at a time.
const FORGOTTEN_MAX: usize = 8;

/// What is said to who wants to end a move that has flipped.
pub const MOVE_IS_DONE: &str = "ERR That move is done";

/// What is said to who wants to go on with a move and is not the primary of its slots.
pub const MOVE_LEFT: &str = "ERR The slots of that move are another node's to move";

/// Slots that are to move, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What clients call it: 40 hex digits.
    pub name: String,
    /// Which.
    pub slots: SlotRanges,
    /// Where to.
    pub to: ShardId,
}

/// A move: the shard that its slots are of, and its number there.
type Name<'a> = (&'a ShardId, u64);

/// A slot of these of which a move is open.
pub(super) fn moving_slot(records: &Records, slots: &SlotRanges) -> Option<u16> {
    let open = records.moves.values().filter(|(record, _)| record.state.is_open());
    open.flat_map(|(record, _)| record.slots.slots()).find(|slot| slots.has(*slot))
}

pub(super) fn ask(records: &Records, from: &ShardId, wishes: &[Wish], now_ms: u64) -> Result<Change, String> {
    known_shard(records, from)?;
    if wishes.len() > SLOT_MOVES_ASKED_MAX {
        return Err(format!("ERR At most {SLOT_MOVES_ASKED_MAX} migrations can be asked for at once"));
    }
    let owned = records.slots.0.of(from).cloned().unwrap_or_default();
    let mut change = Change::default();
    change.compare(records, Key::Slots);
    let first = moves_of(records, from).map(|(number, _)| number + 1).max().unwrap_or(0);
    let mut taken = SlotRanges::default();
    for (number, wish) in (first..).zip(wishes) {
        if wish.to == *from {
            return Err("ERR Target node can not be this node.".to_owned());
        }
        known_shard(records, &wish.to)?;
        change.compare(records, Key::Shard(wish.to.clone()));
        if wish.slots.is_empty() {
            return Err("ERR No slot ranges specified".to_owned());
        }
        if wish.slots.slots().any(|slot| !owned.has(slot)) {
            return Err("ERR Slots are not served by this node.".to_owned());
        }
        if let Some(slot) = moving_slot(records, &wish.slots) {
            return Err(format!("ERR I am already migrating slot {slot}."));
        }
        if wish.slots.slots().any(|slot| taken.has(slot)) {
            return Err("ERR Slot ranges in migrations overlap".to_owned());
        }
        let mut all: Vec<u16> = taken.slots().chain(wish.slots.slots()).collect();
        all.sort_unstable();
        taken = SlotRanges::of(all);
        let record = MoveRecord {
            slots: wish.slots.clone(),
            to: wish.to.clone(),
            state: MoveState::Asked,
            error: String::new(),
            name: wish.name.clone(),
            begun_ms: now_ms,
            changed_ms: now_ms,
        };
        change.write(records, Key::Move(from.clone(), number), Some(Record::Move(record)));
    }
    forget_old(records, from, &mut change);
    Ok(change)
}

fn moves_of<'a>(records: &'a Records, shard: &ShardId) -> impl Iterator<Item = (u64, &'a MoveRecord)> {
    let of_shard = records.moves.range((shard.clone(), 0)..=(shard.clone(), u64::MAX));
    of_shard.map(|((_, number), (record, _))| (*number, record))
}

/// Forgets the oldest of those that have ended.
fn forget_old(records: &Records, shard: &ShardId, change: &mut Change) {
    let ended: Vec<u64> =
        moves_of(records, shard).filter(|(_, record)| !record.state.is_open()).map(|it| it.0).collect();
    let surplus = ended.len().saturating_sub(ENDED_KEPT).min(FORGOTTEN_MAX);
    for number in &ended[..surplus] {
        change.write(records, Key::Move(shard.clone(), *number), None);
    }
}

fn known_move<'a>(records: &'a Records, (from, number): Name<'_>) -> Result<&'a MoveRecord, String> {
    let known = records.moves.get(&(from.clone(), number)).map(|(record, _)| record);
    known.ok_or_else(|| format!("ERR Shard {from} has no move {number}"))
}

fn check_leads(records: &Records, me: &Member, from: &ShardId) -> Result<(), String> {
    let leads = records.shards.get(from).is_some_and(|(shard, _)| shard.primary == *me);
    if leads { Ok(()) } else { Err(MOVE_LEFT.to_owned()) }
}

fn has_ended(state: MoveState) -> String {
    match state {
        MoveState::Done => MOVE_IS_DONE.to_owned(),
        MoveState::Cancelled => "ERR That move was cancelled".to_owned(),
        _ => "ERR That move has ended".to_owned(),
    }
}

fn write(
    records: &Records,
    (from, number): Name<'_>,
    record: &MoveRecord,
    state: MoveState,
    now_ms: u64,
    change: &mut Change,
) {
    let record = MoveRecord { state, changed_ms: now_ms, ..record.clone() };
    change.write(records, Key::Move(from.clone(), number), Some(Record::Move(record)));
}

/// By the primary of the slots: again if another one had begun before.
pub(super) fn begin(records: &Records, me: &Member, name: Name<'_>, now_ms: u64) -> Result<Change, String> {
    let record = known_move(records, name)?;
    check_leads(records, me, name.0)?;
    let mut change = Change::default();
    match record.state {
        MoveState::Asked => write(records, name, record, MoveState::Copying, now_ms, &mut change),
        MoveState::Copying => {}
        ended => return Err(has_ended(ended)),
    }
    Ok(change)
}

/// OK where it has failed or is cancelled already.
pub(super) fn fail(
    records: &Records,
    me: &Member,
    name: Name<'_>,
    now_ms: u64,
    why: &str,
) -> Result<Change, String> {
    let Ok(record) = known_move(records, name) else { return Ok(Change::default()) };
    let mut change = Change::default();
    match record.state {
        MoveState::Done => return Err(has_ended(MoveState::Done)),
        MoveState::Failed | MoveState::Cancelled => return Ok(change),
        MoveState::Asked | MoveState::Copying => {}
    }
    check_leads(records, me, name.0)?;
    let record = MoveRecord { error: why.to_owned(), ..record.clone() };
    write(records, name, &record, MoveState::Failed, now_ms, &mut change);
    Ok(change)
}

pub(super) fn cancel(
    records: &Records,
    from: &ShardId,
    number: Option<u64>,
    now_ms: u64,
) -> Result<Change, String> {
    let mut change = Change::default();
    let open = moves_of(records, from)
        .filter(|(known, record)| record.state.is_open() && number.is_none_or(|number| number == *known));
    for (number, record) in open.take(SLOT_MOVES_ASKED_MAX) {
        write(records, (from, number), record, MoveState::Cancelled, now_ms, &mut change);
    }
    match change.writes.is_empty() {
        true => Err("ERR No migrations ongoing".to_owned()),
        false => Ok(change),
    }
}

/// The slots are the source's still, and the destination's primary is there. Both lead in the epochs in which the data came: in
/// later ones, though they are the same processes', the destination has let go of it.
pub(super) fn flip(records: &Records, id: &MoveId, to_epoch: u64, now_ms: u64) -> Result<Change, String> {
    let (from, number) = (&id.from, id.number);
    let record = known_move(records, (from, number))?;
    match record.state {
        // By a transaction of which nobody said what became of it.
        MoveState::Done => return Ok(Change::default()),
        MoveState::Copying => {}
        ended => return Err(has_ended(ended)),
    }
    if known_shard(records, from)?.epoch != id.epoch {
        return Err("ERR The epoch of the slots' shard was raised meanwhile".to_owned());
    }
    let owned = records.slots.0.of(from).cloned().unwrap_or_default();
    if record.slots.slots().any(|slot| !owned.has(slot)) {
        return Err("ERR Slots are not served by this node.".to_owned());
    }
    let takes = known_shard(records, &record.to)?;
    if takes.epoch != to_epoch || !records.is_live(&takes.primary) {
        return Err("ERR The destination has another primary now, or none, or leads anew".to_owned());
    }
    let mut change = while_there(records, &record.to)?;
    change.takes_from = vec![from.clone()];
    change.compare_losers(records);
    change.compare(records, Key::Live(takes.primary.node.clone()));
    let mut map = records.slots.0.clone();
    map.assign(record.slots.slots(), Some(&record.to)).map_err(wrong)?;
    change.write(records, Key::Slots, Some(Record::Slots(map)));
    write(records, (from, number), record, MoveState::Done, now_ms, &mut change);
    Ok(change)
}
