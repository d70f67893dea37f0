//! Moving slots in one step: Valkey's CLUSTER MIGRATESLOTS, CANCELSLOTMIGRATIONS and GETSLOTMIGRATIONS.
//!
//! What is asked for stands in the cluster's records. The primary of the slots carries it out, and goes on with it after a crash of
//! whoever asked.

use base::limits::SLOT_MOVES_ASKED_MAX;
use cluster::agent::Ask;
use cluster::edits::{Edit, Wish};
use cluster::ids::ShardId;
use cluster::slots::SlotRanges;

use super::cluster::enabled;
use super::cluster_changes::{NO_MASTER, Place, ask, find, own_id, own_shard, slot};
use crate::args::{Args, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::Server;
use crate::slot_moves::Migration;

const NAME_DIGITS: usize = 40;

const NO_END: Fault = Fault::Text("ERR No end slot for final slot range");
const NO_RANGES: Fault = Fault::Text("ERR No slot ranges specified");
const OVERLAP: Fault = Fault::Text("ERR Slot ranges in migrations overlap");
const SEVERAL_SHARDS: Fault = Fault::Text("ERR Requested slots span multiple shards");
const NOT_SERVED: Fault = Fault::Text("ERR Slots are not served by this node.");
const ONLY_PRIMARIES: Fault = Fault::Text("ERR Slot migration can only be used on primary nodes.");
const TO_ITSELF: Fault = Fault::Text("ERR Target node can not be this node.");
const BY_HAND_FROM: Fault = Fault::Text("ERR Slots are being manually migrated");
const BY_HAND_TO: Fault = Fault::Text("ERR Slots are being manually imported");
const NONE_ONGOING: Fault = Fault::Text("ERR No migrations ongoing");

/// CLUSTER MIGRATESLOTS SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id [SLOTSRANGE ... NODE node-id ...]
pub fn migrateslots(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    check_place(server)?;
    let (mut wishes, mut taken, mut rest) = (Vec::new(), Vec::new(), args.from(2));
    while !rest.is_empty() {
        if !is(&rest[0], "SLOTSRANGE") {
            return Err(Fault::SYNTAX);
        }
        let (ranges, used) = ranges(server, rest.from(1))?;
        rest = rest.from(1 + used);
        if ranges.iter().any(|range| taken.iter().any(|other| meet(*range, *other))) {
            return Err(OVERLAP);
        }
        taken.extend(ranges.iter().copied());
        let id = rest.get(1).filter(|_| is(&rest[0], "NODE")).ok_or(Fault::SYNTAX)?;
        let to = target(server, id)?;
        rest = rest.from(2);
        let mut slots: Vec<u16> = ranges.iter().flat_map(|(start, end)| *start..=*end).collect();
        slots.sort_unstable();
        wishes.push((SlotRanges::of(slots), to));
    }
    if wishes.len() > SLOT_MOVES_ASKED_MAX {
        return Err(Fault::owned(format!("ERR At most {SLOT_MOVES_ASKED_MAX} migrations in one command")));
    }
    let wishes = wishes.into_iter().map(|(slots, to)| Wish { name: new_name(ctx), slots, to }).collect();
    let now_ms = ctx.now_ms().max(0) as u64;
    ask(ctx, Ask::Edit(Edit::Moves(own_shard(ctx.server()), wishes, now_ms)))
}

fn check_place(server: &Server) -> CmdResult {
    if Place::of(server).is_some_and(|place| !place.node().is_primary) {
        return Err(ONLY_PRIMARIES);
    }
    match server.cluster.opened_by_hand() {
        (true, _) => Err(BY_HAND_FROM),
        (_, true) => Err(BY_HAND_TO),
        _ => Ok(()),
    }
}

fn new_name(ctx: &mut Ctx<'_>) -> String {
    let rng = ctx.rng();
    (0..NAME_DIGITS).map(|_| rng.digit(16)).collect()
}

type Range = (u16, u16);

fn meet(one: Range, other: Range) -> bool {
    one.1 >= other.0 && one.0 <= other.1
}

/// Ranges, up to the first word that is no number, and how many words they are. They are all this node's.
fn ranges(server: &Server, args: Args<'_>) -> CmdResult<(Vec<Range>, usize)> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut at = 0;
    let mut owner = None;
    let is_number = |at: usize| args.get(at).is_some_and(|word| base::num::parse_i64(word).is_some());
    while is_number(at) {
        let start = slot(&args[at])?;
        let end = slot(args.get(at + 1).ok_or(NO_END)?)?;
        if start > end {
            return Err(Fault::owned(format!(
                "ERR Start slot number {start} is greater than end slot number {end}."
            )));
        }
        for slot in start..=end {
            let of = server.cluster.owner(slot);
            let of = of.ok_or_else(|| Fault::owned(format!("ERR Slot {slot} has no node served.")))?;
            if *owner.get_or_insert(of) != of {
                return Err(SEVERAL_SHARDS);
            }
        }
        if let Some(other) = ranges.iter().find(|other| meet((start, end), **other)) {
            return Err(Fault::owned(format!(
                "ERR Slot range {start}-{end} overlaps with previous range {}-{}.",
                other.0, other.1
            )));
        }
        ranges.push((start, end));
        at += 2;
    }
    if ranges.is_empty() {
        return Err(NO_RANGES);
    }
    let is_own = ranges.iter().all(|(start, end)| (*start..=*end).all(|slot| server.cluster.owns(slot)));
    if is_own { Ok((ranges, at)) } else { Err(NOT_SERVED) }
}

fn target(server: &Server, id: &[u8]) -> CmdResult<ShardId> {
    if id.len() != NAME_DIGITS {
        return Err(Fault::quoting("ERR Invalid node name: ", id, ""));
    }
    if id == own_id(server).as_str().as_bytes() {
        return Err(TO_ITSELF);
    }
    let unknown = || Fault::quoting("ERR Unknown node name: ", id, "");
    let (topology, at) = find(server, id).ok_or_else(unknown)?;
    let node = &topology.nodes[at];
    let shard = node.shard.filter(|_| node.is_primary).ok_or(NO_MASTER)?;
    Ok(topology.shards[shard].id.clone())
}

/// CLUSTER CANCELSLOTMIGRATIONS
pub fn cancelslotmigrations(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    if Place::of(server).is_none_or(|place| !place.node().is_primary) {
        return Err(NONE_ONGOING);
    }
    let now_ms = ctx.now_ms().max(0) as u64;
    ask(ctx, Ask::Edit(Edit::CancelMoves(own_shard(ctx.server()), None, now_ms)))
}

/// CLUSTER GETSLOTMIGRATIONS
pub fn getslotmigrations(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let migrations = ctx.server().migrations();
    reply.array(migrations.len());
    for migration in &*migrations {
        tell(ctx.server(), migration, reply);
    }
    Ok(())
}

/// Valkey's fields, and behind them those that only the source of the slots knows.
fn tell(server: &Server, migration: &Migration, reply: &mut Reply<'_>) {
    let telling = server.telling(&migration.name);
    let texts = [
        ("name", &migration.name[..]),
        ("operation", if migration.is_export { "EXPORT" } else { "IMPORT" }),
        ("slot_ranges", &migration.slots),
        ("target_node", &migration.target),
        ("source_node", &migration.source),
    ];
    let times = [
        ("create_time", migration.begun_s),
        ("last_update_time", migration.changed_s),
        ("last_ack_time", migration.changed_s),
    ];
    let counts = [
        ("cow_size", 0),
        ("remaining_repl_size", 0),
        ("copied_keys", telling.keys),
        ("sent_bytes", telling.bytes),
        ("paused_us", telling.paused_us),
    ];
    reply.map(texts.len() + times.len() + 2 + counts.len());
    for (name, text) in texts {
        reply.text(name);
        reply.text(text);
    }
    for (name, time_s) in times {
        reply.text(name);
        reply.int(time_s);
    }
    for (name, text) in [("state", migration.state), ("message", &migration.message)] {
        reply.text(name);
        reply.text(text);
    }
    for (name, count) in counts {
        reply.text(name);
        reply.int(count as i64);
    }
}
