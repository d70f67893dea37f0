//! The cluster in words.

use std::collections::BTreeSet;
use std::fmt::Write;

use cluster::ids::{NodeId, ShardId};
use cluster::records::{MoveState, NodeRecord};
use cluster::slots::SlotRanges;
use cluster::topology::Records;

use super::plan::SlotMove;

/// Digits of an id that people are shown.
const SHORT_DIGITS: usize = 8;

/// The beginning of an id.
pub fn short(id: &str) -> &str {
    &id[..SHORT_DIGITS.min(id.len())]
}

/// Where a node is reached.
pub fn address(record: &NodeRecord) -> String {
    let port = if record.port == 0 { record.tls_port } else { record.port };
    format!("{}:{port}", record.ip)
}

/// A node, by its id and address.
pub fn node(records: &Records, id: &NodeId) -> String {
    let place = records.nodes.get(id).map(|record| address(record)).unwrap_or_default();
    format!("{} {place}", short(id.as_str()))
}

/// All there is to know.
pub fn status(records: &Records) -> String {
    let mut text = String::new();
    let cluster = records.cluster.as_ref().map_or("", |cluster| &cluster.id);
    let assigned: usize = records.slots.0.shards().map(|(_, slots)| slots.count()).sum();
    line(
        &mut text,
        &format!("cluster {} at revision {}: {assigned} slots assigned", short(cluster), records.revision),
    );
    for (id, (shard, _)) in &records.shards {
        let slots = records.slots.0.of(id).cloned().unwrap_or_default();
        let which = if slots.is_empty() {
            "no slots".to_owned()
        } else {
            format!("{} slots: {slots}", slots.count())
        };
        line(&mut text, &format!("shard {} in epoch {}, {which}", short(id.as_str()), shard.epoch));
        for node in records.nodes_of(id) {
            let role = if shard.primary.node == *node { "primary" } else { "replica" };
            let is_live = records.live.contains_key(node);
            let is_in_sync =
                shard.in_sync.iter().any(|member| member.node == *node && records.is_live(member));
            let state = match (is_live, is_in_sync) {
                (false, _) => "is not there",
                (true, true) => "in sync",
                (true, false) => "behind",
            };
            let zone = records.nodes.get(node).map_or("", |record| &record.zone);
            let zone = if zone.is_empty() { String::new() } else { format!(", zone {zone}") };
            line(&mut text, &format!("  {role} {}{zone}: {state}", self::node(records, node)));
        }
    }
    for ((from, number), (record, _)) in &records.moves {
        let is_last = !records.moves.contains_key(&(from.clone(), number + 1));
        if !record.state.is_open() && !is_last {
            continue;
        }
        let state = match record.state {
            MoveState::Asked => "waits",
            MoveState::Copying => "copies",
            MoveState::Done => "done",
            MoveState::Failed => "failed",
            MoveState::Cancelled => "cancelled",
        };
        let (from, to) = (short(from.as_str()), short(record.to.as_str()));
        let slots = record.slots.count();
        line(
            &mut text,
            &format!("move {number} of {slots} slots from {from} to {to}: {state} {}", record.error),
        );
    }
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{}", line.trim_end()).expect("status: a string takes every line");
}

/// What is to move, a line each.
pub fn moves(moves: &[SlotMove]) -> String {
    let mut text = String::new();
    for SlotMove { from, to, slots } in moves {
        let (from, to) = (short(from.as_str()), short(to.as_str()));
        line(&mut text, &format!("  {} slots from shard {from} to shard {to}: {slots}", slots.count()));
    }
    text
}

/// The slots that a word names: so many of this shard's, its first ones, or those of ranges.
pub fn slots_of(records: &Records, shard: &ShardId, word: &str) -> Result<SlotRanges, String> {
    if word.contains('-') || word.contains(',') {
        return ranges_of(word);
    }
    let count: usize =
        word.parse().map_err(|_| format!("'{word}' is neither a number nor ranges of slots"))?;
    let owned = records.slots.0.of(shard).cloned().unwrap_or_default();
    if count > owned.count() {
        return Err(format!("Shard {} owns {} slots, not {count}", short(shard.as_str()), owned.count()));
    }
    Ok(SlotRanges::of(owned.slots().take(count)))
}

/// The slots of ranges in any order, which may touch and overlap.
fn ranges_of(word: &str) -> Result<SlotRanges, String> {
    let mut slots = BTreeSet::new();
    for range in word.split(',').filter(|range| !range.is_empty()) {
        slots.extend(SlotRanges::try_from(range.to_owned())?.slots());
    }
    Ok(SlotRanges::of(slots))
}
