//! What administrators change in the records. An edit is made from the newest records: where others were faster, again.

mod moving;

pub use moving::{MOVE_IS_DONE, MOVE_LEFT, Wish};

use std::sync::Arc;

use crate::ids::{Member, NodeId, ShardId};
use crate::moves::MoveId;
use crate::records::{Key, NodeRecord, Record, ShardRecord};
use crate::slots::SlotRanges;
use crate::topology::Records;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// CLUSTER ADDSLOTS, ADDSLOTSRANGE: slots that nobody owns are this shard's.
    AddSlots(ShardId, SlotRanges),
    /// CLUSTER DELSLOTS, DELSLOTSRANGE, FLUSHSLOTS: slots that are this shard's are nobody's.
    DeleteSlots(ShardId, SlotRanges),
    /// CLUSTER SETSLOT NODE: slots are this shard's, whoever had them.
    SetSlots(ShardId, SlotRanges),
    /// CLUSTER REPLICATE: the node leaves its shard, which owns nothing if it is alone in it, for this one.
    Join(NodeId, ShardId),
    /// CLUSTER RESET of a replica: the node leaves its shard for one of its own.
    Leave(NodeId, ShardId),
    /// CLUSTER FORGET: the node is no part of the cluster. One that runs serves nothing until it is let in again.
    Forget(NodeId),
    /// A node's facts.
    Facts(NodeId, NodeRecord),
    /// CLUSTER SET-CONFIG-EPOCH, BUMPEPOCH: the shard's epoch, which must be higher than it was; None: higher than all.
    Epoch(ShardId, Option<u64>),
    /// Slots are to move from this shard to others; asked for at this time.
    Moves(ShardId, Vec<Wish>, u64),
    /// The primary of the slots has begun to copy.
    MoveBegun(ShardId, u64, u64),
    /// The primary of the slots has given a move up, for this reason.
    MoveFailed(ShardId, u64, u64, String),
    /// A move is not to be: of this number, or all of the shard's.
    CancelMoves(ShardId, Option<u64>, u64),
    /// A move's slots are the destination's, whose primary of this epoch has all that is in them, by this try. Whoever asks for it
    /// has stopped serving the slots, and serves them again only when it is known that the move has ended otherwise.
    Flip(MoveId, u64, u64),
}

/// What an edit does to the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What has to be as it was seen.
    pub compares: Vec<(Key, u64)>,
    /// What is then written; None: removed. Empty: all is so already.
    pub writes: Vec<(Key, Option<Record>)>,
    /// Shards that lose slots by it: their primaries have to stop serving those before it is asked for.
    pub takes_from: Vec<ShardId>,
}

impl Change {
    fn compare(&mut self, records: &Records, key: Key) {
        let written = records.written_at(&key);
        if !self.compares.iter().any(|(known, _)| *known == key) {
            self.compares.push((key, written));
        }
    }

    /// Who gives slots away has to be primary still: another one would go on serving them.
    fn compare_losers(&mut self, records: &Records) {
        for shard in self.takes_from.clone() {
            self.compare(records, Key::Shard(shard));
        }
    }

    /// Writes a key that is as it was seen.
    fn write(&mut self, records: &Records, key: Key, record: Option<Record>) {
        self.compare(records, key.clone());
        self.writes.push((key, record));
    }
}

impl Edit {
    /// What it changes, asked of this node; or why it cannot be, as a reply.
    pub fn change(&self, records: &Records, me: &Member) -> Result<Change, String> {
        match self {
            Edit::AddSlots(shard, slots) => add_slots(records, shard, slots),
            Edit::DeleteSlots(shard, slots) => delete_slots(records, shard, slots),
            Edit::SetSlots(shard, slots) => set_slots(records, shard, slots),
            Edit::Join(node, shard) => join(records, node, shard),
            Edit::Leave(node, shard) => leave(records, node, shard),
            Edit::Forget(node) => forget(records, me, node),
            Edit::Facts(node, facts) => change_facts(records, node, facts),
            Edit::Epoch(shard, epoch) => raise_epoch(records, me, shard, *epoch),
            Edit::Moves(from, wishes, now_ms) => moving::ask(records, from, wishes, *now_ms),
            Edit::MoveBegun(from, number, now_ms) => moving::begin(records, me, (from, *number), *now_ms),
            Edit::MoveFailed(from, number, now_ms, why) => {
                moving::fail(records, me, (from, *number), *now_ms, why)
            }
            Edit::CancelMoves(from, number, now_ms) => moving::cancel(records, from, *number, *now_ms),
            Edit::Flip(id, to_epoch, now_ms) => moving::flip(records, id, *to_epoch, *now_ms),
        }
    }
}

fn unknown(node: &NodeId) -> String {
    format!("ERR Unknown node {node}")
}

fn known_shard<'a>(records: &'a Records, shard: &ShardId) -> Result<&'a ShardRecord, String> {
    let known = records.shards.get(shard).map(|(record, _)| record);
    known.ok_or_else(|| format!("ERR Unknown shard {shard}"))
}

fn known_node<'a>(records: &'a Records, node: &NodeId) -> Result<&'a NodeRecord, String> {
    records.nodes.get(node).map(Arc::as_ref).ok_or_else(|| unknown(node))
}

/// The records are wrong: no edit is made from them.
fn wrong(why: String) -> String {
    format!("ERR etcd's records are wrong: {why}")
}

fn assign(
    records: &Records,
    slots: &SlotRanges,
    to: Option<&ShardId>,
    mut change: Change,
) -> Result<Change, String> {
    let mut map = records.slots.0.clone();
    map.assign(slots.slots(), to).map_err(wrong)?;
    if map != records.slots.0 {
        change.write(records, Key::Slots, Some(Record::Slots(map)));
    }
    Ok(change)
}

/// A change that is made only as long as this shard is there.
fn while_there(records: &Records, shard: &ShardId) -> Result<Change, String> {
    known_shard(records, shard)?;
    let mut change = Change::default();
    change.compare(records, Key::Shard(shard.clone()));
    Ok(change)
}

/// Slots of which a move is open stay whose they are until it has ended.
fn check_not_moving(records: &Records, slots: &SlotRanges) -> Result<(), String> {
    match moving::moving_slot(records, slots) {
        Some(slot) => Err(format!("ERR Slot {slot} is moving: see CLUSTER CANCELSLOTMIGRATIONS")),
        None => Ok(()),
    }
}

fn add_slots(records: &Records, shard: &ShardId, slots: &SlotRanges) -> Result<Change, String> {
    let owners = records.slots.0.owners().map_err(wrong)?;
    if let Some(busy) = slots.slots().find(|slot| owners[usize::from(*slot)].is_some()) {
        return Err(format!("ERR Slot {busy} is already busy"));
    }
    assign(records, slots, Some(shard), while_there(records, shard)?)
}

fn delete_slots(records: &Records, shard: &ShardId, slots: &SlotRanges) -> Result<Change, String> {
    let owners = records.slots.0.owners().map_err(wrong)?;
    if let Some(other) = slots.slots().find(|slot| owners[usize::from(*slot)] != Some(shard)) {
        return Err(format!("ERR Slot {other} is already unassigned"));
    }
    check_not_moving(records, slots)?;
    let takes_from = if slots.is_empty() { Vec::new() } else { vec![shard.clone()] };
    let mut change = Change { takes_from, ..Change::default() };
    change.compare_losers(records);
    assign(records, slots, None, change)
}

fn set_slots(records: &Records, shard: &ShardId, slots: &SlotRanges) -> Result<Change, String> {
    let owners = records.slots.0.owners().map_err(wrong)?;
    check_not_moving(records, slots)?;
    let mut change = while_there(records, shard)?;
    let losers = slots.slots().filter_map(|slot| owners[usize::from(slot)]).filter(|owner| *owner != shard);
    change.takes_from = losers.cloned().collect();
    change.takes_from.sort();
    change.takes_from.dedup();
    change.compare_losers(records);
    assign(records, slots, Some(shard), change)
}

/// Takes a node out of its shard: out of the set, and with the last node the shard goes.
fn take_out(records: &Records, node: &NodeId, change: &mut Change, refusal: &str) -> Result<(), String> {
    let shard = &known_node(records, node)?.shard;
    let key = Key::Shard(shard.clone());
    change.compare(records, key.clone());
    let Some((record, _)) = records.shards.get(shard) else { return Ok(()) };
    if record.primary.node == *node {
        let owns = records.slots.0.of(shard).is_some_and(|slots| !slots.is_empty());
        let is_alone = records.nodes_of(shard).all(|other| other == node);
        if owns || !is_alone {
            return Err(refusal.to_owned());
        }
        change.compare(records, Key::Slots);
        change.write(records, key, None);
    } else if record.in_sync.iter().any(|member| member.node == *node) {
        if !records.is_live(&record.primary) {
            return Err(format!(
                "ERR Node {node} may have what the primary of its shard had, which is not there"
            ));
        }
        change.compare(records, Key::Live(record.primary.node.clone()));
        let in_sync = record.in_sync.iter().filter(|member| member.node != *node).cloned().collect();
        let record = ShardRecord { in_sync, ..record.clone() };
        change.write(records, key, Some(Record::Shard(record)));
    }
    let offer = Key::Offer(shard.clone(), node.clone());
    if records.written_at(&offer) != 0 {
        change.write(records, offer, None);
    }
    Ok(())
}

fn move_node(records: &Records, node: &NodeId, shard: &ShardId, mut change: Change) -> Change {
    if let Some(record) = records.nodes.get(node) {
        let record = NodeRecord { shard: shard.clone(), ..NodeRecord::clone(record) };
        change.write(records, Key::Node(node.clone()), Some(Record::Node(record)));
    }
    change
}

fn join(records: &Records, node: &NodeId, shard: &ShardId) -> Result<Change, String> {
    if known_node(records, node)?.shard == *shard {
        let is_primary = known_shard(records, shard)?.primary.node == *node;
        return if is_primary { Err("ERR Can't replicate myself".to_owned()) } else { Ok(Change::default()) };
    }
    let mut change = while_there(records, shard)?;
    let refusal = "ERR To set a master the node must be empty and without assigned slots.";
    take_out(records, node, &mut change, refusal)?;
    Ok(move_node(records, node, shard, change))
}

fn leave(records: &Records, node: &NodeId, shard: &ShardId) -> Result<Change, String> {
    if known_node(records, node)?.shard == *shard {
        return Ok(Change::default());
    }
    if records.shards.contains_key(shard) || records.nodes_of(shard).next().is_some() {
        return Err(format!("ERR Shard {shard} has nodes already"));
    }
    let mut change = Change::default();
    change.compare(records, Key::Shard(shard.clone()));
    take_out(
        records,
        node,
        &mut change,
        "ERR CLUSTER RESET can't be called with master nodes that own slots",
    )?;
    Ok(move_node(records, node, shard, change))
}

fn forget(records: &Records, me: &Member, node: &NodeId) -> Result<Change, String> {
    let record = known_node(records, node)?;
    if *node == me.node {
        return Err("ERR I tried hard but I can't forget myself...".to_owned());
    }
    let own = records.nodes.get(&me.node).map(|own| &own.shard);
    let leads = records.shards.get(&record.shard).is_some_and(|(shard, _)| shard.primary.node == *node);
    if leads && own == Some(&record.shard) {
        return Err("ERR Can't forget my master!".to_owned());
    }
    let mut change = Change::default();
    take_out(records, node, &mut change, "ERR Can't forget a master that has slots or replicas")?;
    change.write(records, Key::Node(node.clone()), None);
    if records.live.contains_key(node) {
        change.write(records, Key::Live(node.clone()), None);
    }
    Ok(change)
}

fn change_facts(records: &Records, node: &NodeId, facts: &NodeRecord) -> Result<Change, String> {
    let known = known_node(records, node)?;
    let record = NodeRecord { shard: known.shard.clone(), ..facts.clone() };
    let mut change = Change::default();
    if record != *known {
        change.write(records, Key::Node(node.clone()), Some(Record::Node(record)));
    }
    Ok(change)
}

/// Only a primary raises its own epoch: who it is does not change by it.
fn raise_epoch(
    records: &Records,
    me: &Member,
    shard: &ShardId,
    epoch: Option<u64>,
) -> Result<Change, String> {
    let record = known_shard(records, shard)?;
    if record.primary != *me {
        return Err("ERR Only its primary can raise a shard's epoch".to_owned());
    }
    let highest = records.epoch_max();
    let is_highest_alone = record.epoch == highest
        && records.shards.values().filter(|(record, _)| record.epoch == highest).count() == 1;
    let mut change = Change::default();
    let epoch = match epoch {
        None if is_highest_alone => return Ok(change),
        None => highest + 1,
        Some(epoch) if epoch == record.epoch => return Ok(change),
        Some(epoch) if epoch < record.epoch => {
            return Err(format!("ERR The epoch must be higher than {}", record.epoch));
        }
        Some(epoch) => epoch,
    };
    let record = ShardRecord { epoch, ..record.clone() };
    change.write(records, Key::Shard(shard.clone()), Some(Record::Shard(record)));
    Ok(change)
}
