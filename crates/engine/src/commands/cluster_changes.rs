//! The cluster commands that change something: what owns which slots, who follows whom, who is part of the cluster.
//!
//! Each is looked over here as Redis does, by the topology that this node has, and then asked of the cluster ([`Host::cluster_ask`]),
//! whose records decide. Its client waits for the answer; nobody else does.
//!
//! [`Host::cluster_ask`]: crate::server::Host::cluster_ask

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use base::slot::SLOT_COUNT;
use cluster::agent::{Ask, FailoverKind};
use cluster::edits::Edit;
use cluster::ids::{NodeId, ShardId};
use cluster::slots::SlotRanges;
use cluster::topology::{NO_OWNER, Node, Topology};

use super::cluster::enabled;
use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::server::Server;

/// How long a client waits for the cluster's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it waits for this node to have another role, and between looks.
const ROLE_TIMEOUT: Duration = Duration::from_secs(5);
const ROLE_INTERVAL: Duration = Duration::from_millis(5);

/// How long until every node has seen a change of the records, and much longer.
const SEEN_TIMEOUT: Duration = Duration::from_secs(1);

const BAD_SLOT: Fault = Fault::Text("ERR Invalid or out of range slot");
const BAD_ACTION: Fault =
    Fault::Text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");
pub(super) const NO_MASTER: Fault = Fault::Text("ERR Target node is not a master");
/// What a transaction holds may be what the change waits for.
const NESTED: Fault = Fault::Text("ERR Command not allowed inside a transaction");

/// This node in the topology that it has.
pub(super) struct Place {
    topology: Arc<Topology>,
    at: usize,
}

impl Place {
    /// None: nobody has told this node of a cluster that it is part of.
    pub(super) fn of(server: &Server) -> Option<Place> {
        let topology = server.cluster.topology()?;
        let at = topology.place_of(&own_id(server))?;
        Some(Place { topology, at })
    }

    pub(super) fn node(&self) -> &Node {
        &self.topology.nodes[self.at]
    }

    /// Slots of this node's shard.
    fn slots(&self) -> SlotRanges {
        let shard = self.node().shard.map_or(NO_OWNER, |shard| shard as u16);
        let is_own = |slot: &u16| shard != NO_OWNER && self.topology.owners[usize::from(*slot)] == shard;
        SlotRanges::of((0..SLOT_COUNT).filter(is_own))
    }
}

pub(super) fn own_id(server: &Server) -> NodeId {
    NodeId::new(&server.cluster.identity.node_id).expect("node-id: 40 hex digits")
}

pub(super) fn own_shard(server: &Server) -> ShardId {
    ShardId::new(&server.cluster.shard_id()).expect("shard-id: 40 hex digits")
}

/// The node of this name, and the topology that has it.
pub(super) fn find(server: &Server, id: &[u8]) -> Option<(Arc<Topology>, usize)> {
    let topology = server.cluster.topology()?;
    let at = topology.place_of(&NodeId::new(std::str::from_utf8(id).ok()?)?)?;
    Some((topology, at))
}

/// What the cluster answers.
fn await_answer(server: &Server, ask: Ask) -> CmdResult {
    let (sender, answered) = channel();
    // Who asked may have given up.
    server.host.cluster_ask(ask, Box::new(move |result| drop(sender.send(result))));
    match answered.recv_timeout(ANSWER_TIMEOUT) {
        Ok(result) => result.map_err(Fault::owned),
        Err(_) => Err(Fault::Text(
            "ERR The cluster has not answered: etcd may be away, and the change may still be made",
        )),
    }
}

/// Asks for this, then does the rest, and answers OK.
fn ask_then(
    ctx: &mut Ctx<'_>,
    ask: Ask,
    then: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static,
) -> CmdResult {
    if ctx.is_nested() {
        return Err(NESTED);
    }
    ctx.defer_script(move |lane: &mut Lane<'_>| {
        await_answer(lane.server(), ask)?;
        then(lane)
    });
    Ok(())
}

pub(super) fn ask(ctx: &mut Ctx<'_>, ask: Ask) -> CmdResult {
    ask_then(ctx, ask, answer_ok)
}

fn answer_ok(lane: &mut Lane<'_>) -> CmdResult {
    lane.reply().ok();
    Ok(())
}

pub(super) fn slot(arg: &[u8]) -> CmdResult<u16> {
    let number = base::num::parse_i64(arg).and_then(|number| u16::try_from(number).ok());
    number.filter(|slot| *slot < SLOT_COUNT).ok_or(BAD_SLOT)
}

/// Slots, each once.
fn collect(slots: impl IntoIterator<Item = u16>) -> CmdResult<SlotRanges> {
    let mut named = vec![false; usize::from(SLOT_COUNT)];
    for slot in slots {
        if std::mem::replace(&mut named[usize::from(slot)], true) {
            return Err(Fault::owned(format!("ERR Slot {slot} specified multiple times")));
        }
    }
    Ok(SlotRanges::of((0..SLOT_COUNT).filter(|slot| named[usize::from(*slot)])))
}

/// `slot [slot ...]`
fn slots(args: Args<'_>) -> CmdResult<SlotRanges> {
    let slots: Vec<u16> = (0..args.len()).map(|at| slot(&args[at])).collect::<CmdResult<_>>()?;
    collect(slots)
}

/// `start-slot end-slot [start-slot end-slot ...]`
fn ranges(name: &str, args: Args<'_>) -> CmdResult<SlotRanges> {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity(name));
    }
    let mut all = Vec::new();
    for at in (0..args.len()).step_by(2) {
        let (start, end) = (slot(&args[at])?, slot(&args[at + 1])?);
        if start > end {
            let text = format!("ERR start slot number {start} is greater than end slot number {end}");
            return Err(Fault::owned(text));
        }
        all.extend(start..=end);
    }
    collect(all)
}

/// Asks for a change of which slots are this node's shard's.
fn change_own(
    ctx: &mut Ctx<'_>,
    read: impl FnOnce() -> CmdResult<SlotRanges>,
    edit: fn(ShardId, SlotRanges) -> Edit,
) -> CmdResult {
    enabled(ctx)?;
    let edit = edit(own_shard(ctx.server()), read()?);
    ask(ctx, Ask::Edit(edit))
}

/// CLUSTER ADDSLOTS slot [slot ...]
pub fn addslots(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    change_own(ctx, || slots(args.from(2)), Edit::AddSlots)
}

/// CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
pub fn addslotsrange(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    change_own(ctx, || ranges("cluster|addslotsrange", args.from(2)), Edit::AddSlots)
}

/// CLUSTER DELSLOTS slot [slot ...]
pub fn delslots(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    change_own(ctx, || slots(args.from(2)), Edit::DeleteSlots)
}

/// CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
pub fn delslotsrange(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    change_own(ctx, || ranges("cluster|delslotsrange", args.from(2)), Edit::DeleteSlots)
}

/// CLUSTER FLUSHSLOTS
pub fn flushslots(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    if ctx.server().keyspace.len(0) > 0 {
        return Err(Fault::Text("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    let owned = Place::of(ctx.server()).map(|place| place.slots());
    match owned {
        Some(owned) if owned.is_empty() => {
            reply.ok();
            Ok(())
        }
        owned => {
            let edit = Edit::DeleteSlots(own_shard(ctx.server()), owned.unwrap_or_default());
            ask(ctx, Ask::Edit(edit))
        }
    }
}

/// CLUSTER SETSLOT slot IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE
pub fn setslot(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    if Place::of(server).is_some_and(|place| !place.node().is_primary) {
        return Err(Fault::Text("ERR You can use SETSLOT only with masters."));
    }
    let slot = slot(&args[2])?;
    let face = &server.cluster;
    let id = args.get(4).filter(|_| args.len() == 5);
    match (&args[3], id) {
        (word, Some(id)) if is(word, "MIGRATING") => {
            if !face.owns(slot) {
                return Err(Fault::owned(format!("ERR I'm not the owner of hash slot {slot}")));
            }
            face.open_slot(slot, true, primary_for_slot(server, id)?);
        }
        (word, Some(id)) if is(word, "IMPORTING") => {
            if face.owns(slot) {
                return Err(Fault::owned(format!("ERR I'm already the owner of hash slot {slot}")));
            }
            face.open_slot(slot, false, primary_for_slot(server, id)?);
        }
        (word, None) if is(word, "STABLE") && args.len() == 4 => face.close_slot(slot),
        (word, Some(id)) if is(word, "NODE") => return assign(ctx, slot, id, reply),
        _ => return Err(BAD_ACTION),
    }
    reply.ok();
    Ok(())
}

/// The primary that a slot may be given to, or taken from, key by key.
fn primary_for_slot(server: &Server, id: &[u8]) -> CmdResult<NodeId> {
    let unknown = || Fault::quoting("ERR I don't know about node ", id, "");
    let (topology, at) = find(server, id).ok_or_else(unknown)?;
    let node = &topology.nodes[at];
    if node.is_primary { Ok(node.id.clone()) } else { Err(NO_MASTER) }
}

/// CLUSTER SETSLOT slot NODE node-id
fn assign(ctx: &mut Ctx<'_>, slot: u16, id: &[u8], reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let unknown = || Fault::quoting("ERR Unknown node ", id, "");
    let (topology, at) = find(server, id).ok_or_else(unknown)?;
    let node = &topology.nodes[at];
    let shard = node.shard.filter(|_| node.is_primary).ok_or(NO_MASTER)?;
    let is_given_away = server.cluster.owns(slot) && node.id != own_id(server);
    if is_given_away && server.keyspace.count_in_slot(0, slot) > 0 {
        return Err(Fault::owned(format!(
            "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
        )));
    }
    if node.id == own_id(server) && server.cluster.imports(slot) {
        // Who serves the slot gives it away, when it is told the same. Tools tell the taker first.
        reply.ok();
        return Ok(());
    }
    let to = topology.shards[shard].id.clone();
    let owner = topology.owners[usize::from(slot)];
    let is_of_others = owner != NO_OWNER && !server.cluster.owns(slot);
    let edit = Ask::Edit(Edit::SetSlots(to.clone(), SlotRanges::of([slot])));
    if ctx.is_nested() {
        return Err(NESTED);
    }
    ctx.defer_script(move |lane: &mut Lane<'_>| {
        let server = lane.server();
        // Tools tell every node: who serves the slot may have given it away a moment ago.
        if !(is_of_others && comes_to_own(server, slot, &to)) {
            await_answer(server, edit)?;
        }
        server.cluster.close_slot(slot);
        answer_ok(lane)
    });
    Ok(())
}

/// True once this node has heard that the slot is this shard's; false if it does not.
fn comes_to_own(server: &Server, slot: u16, shard: &ShardId) -> bool {
    let owns = |topology: Arc<Topology>| {
        let owner = topology.shards.get(usize::from(topology.owners[usize::from(slot)]));
        owner.is_some_and(|owner| owner.id == *shard)
    };
    (0..SEEN_TIMEOUT.as_millis() / ROLE_INTERVAL.as_millis()).any(|turn| {
        if turn > 0 {
            std::thread::sleep(ROLE_INTERVAL);
        }
        server.cluster.topology().is_some_and(owns)
    })
}

/// CLUSTER MEET ip port [bus-port]: nodes of one etcd and one name know each other already. One that was forgotten comes back.
pub fn meet(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let number = |arg: &[u8], what: &str| {
        let bad = || Fault::quoting(&format!("ERR Invalid TCP {what} port specified: "), arg, "");
        base::num::parse_i64(arg).ok_or_else(bad)
    };
    if args.len() > 5 {
        return Err(Fault::wrong_subcommand("CLUSTER", &args[1]));
    }
    let port = number(&args[3], "base")?;
    // Nodes have none: it is looked over where it is named.
    let bus_port = args.get(4).map_or(Ok(port), |arg| number(arg, "bus"))?;
    let is_port = |port: i64| (1..=65_535).contains(&port);
    let ip = std::str::from_utf8(&args[2]).ok().and_then(|text| text.parse::<IpAddr>().ok());
    if ip.is_none() || !is_port(port) || !is_port(bus_port) {
        let place = [&args[2], b":", &args[3]].concat();
        return Err(Fault::quoting("ERR Invalid node address specified: ", &place, ""));
    }
    ask(ctx, Ask::Enter)
}

/// CLUSTER REPLICATE node-id
pub fn replicate(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    let me = own_id(server);
    if me.as_str().as_bytes() == &args[2] {
        return Err(Fault::Text("ERR Can't replicate myself"));
    }
    let unknown = || Fault::quoting("ERR Unknown node ", &args[2], "");
    let (topology, at) = find(server, &args[2]).ok_or_else(unknown)?;
    let primary = &topology.nodes[at];
    let shard = primary.shard.filter(|_| primary.is_primary);
    let shard = shard.ok_or(Fault::Text("ERR I can only replicate a master, not a replica."))?;
    let leads = Place::of(server).is_some_and(|place| place.node().is_primary && !place.slots().is_empty());
    let is_empty = (0..server.keyspace.databases()).all(|db| server.keyspace.len(db) == 0);
    let is_replica = Place::of(server).is_some_and(|place| !place.node().is_primary);
    if leads || (!is_replica && !is_empty) {
        return Err(Fault::Text("ERR To set a master the node must be empty and without assigned slots."));
    }
    let edit = Edit::Join(me, topology.shards[shard].id.clone());
    ask(ctx, Ask::Edit(edit))
}

/// CLUSTER FORGET node-id
pub fn forget(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    let id = std::str::from_utf8(&args[2]).ok().and_then(NodeId::new);
    let id = id.ok_or_else(|| Fault::quoting("ERR Unknown node ", &args[2], ""))?;
    if id == own_id(server) {
        return Err(Fault::Text("ERR I tried hard but I can't forget myself..."));
    }
    if let Some(place) = Place::of(server)
        && !place.node().is_primary
        && place.node().shard.is_some_and(|shard| {
            let primary = place.topology.shards[shard].nodes.first();
            primary.is_some_and(|primary| place.topology.nodes[*primary].id == id)
        })
    {
        return Err(Fault::Text("ERR Can't forget my master!"));
    }
    ask(ctx, Ask::Edit(Edit::Forget(id)))
}

/// CLUSTER FAILOVER [FORCE | TAKEOVER]
pub fn failover(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let kind = match args.get(2) {
        None => FailoverKind::Ordered,
        Some(_) if args.len() > 3 => return Err(Fault::wrong_subcommand("CLUSTER", &args[1])),
        Some(word) if is(word, "FORCE") => FailoverKind::Force,
        Some(word) if is(word, "TAKEOVER") => FailoverKind::Takeover,
        Some(_) => return Err(Fault::SYNTAX),
    };
    let place = Place::of(ctx.server());
    let to_replica = Fault::Text("ERR You should send CLUSTER FAILOVER to a replica");
    let place = place.filter(|place| !place.node().is_primary).ok_or(to_replica)?;
    let shard = place.node().shard.map(|shard| &place.topology.shards[shard]);
    let primary = shard.and_then(|shard| shard.nodes.first()).map(|at| &place.topology.nodes[*at]);
    let primary = primary.filter(|primary| primary.is_primary);
    let primary = primary.ok_or(Fault::Text("ERR I'm a replica but my master is unknown to me"))?;
    if kind == FailoverKind::Ordered && !primary.is_live {
        return Err(Fault::Text("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE"));
    }
    ask(ctx, Ask::Failover(kind))
}

/// CLUSTER RESET [HARD | SOFT]: a replica leaves its shard, and its data; a primary gives its slots back. The node's id stays, which
/// is kept beside its data.
pub fn reset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    match args.get(2) {
        Some(_) if args.len() > 3 => return Err(Fault::wrong_subcommand("CLUSTER", &args[1])),
        Some(word) if !is(word, "HARD") && !is(word, "SOFT") => return Err(Fault::SYNTAX),
        _ => {}
    }
    if ctx.is_nested() {
        return Err(NESTED);
    }
    let server = ctx.server();
    let place = Place::of(server);
    let is_empty = (0..server.keyspace.databases()).all(|db| server.keyspace.len(db) == 0);
    if !is_empty && place.as_ref().is_none_or(|place| place.node().is_primary) {
        return Err(Fault::Text("ERR CLUSTER RESET can't be called with master nodes containing keys"));
    }
    let Some(place) = place else {
        // It is part of no cluster.
        reply.ok();
        return Ok(());
    };
    let (me, shard, owned) = (own_id(server), own_shard(server), place.slots());
    let fresh = ShardId::new(&server.random_mark()).expect("random-mark: 40 hex digits");
    let is_primary = place.node().is_primary;
    ctx.defer_script(move |lane: &mut Lane<'_>| {
        let server = lane.server();
        if is_primary && !owned.is_empty() {
            await_answer(server, Ask::Edit(Edit::DeleteSlots(shard, owned)))?;
        }
        if !is_primary {
            await_answer(server, Ask::Edit(Edit::Leave(me, fresh)))?;
            await_lead(server)?;
            super::keys::whole::empty_all(lane)?;
        }
        answer_ok(lane)
    });
    Ok(())
}

/// Waits until this node leads a shard.
fn await_lead(server: &Server) -> CmdResult {
    for _ in 0..ROLE_TIMEOUT.as_millis() / ROLE_INTERVAL.as_millis() {
        let leads = Place::of(server).is_some_and(|place| place.node().is_primary);
        if leads && !server.replication.following.is_replica() {
            return Ok(());
        }
        std::thread::sleep(ROLE_INTERVAL);
    }
    Err(Fault::Text("ERR The node has left its shard, but does not lead one of its own yet: its data stays"))
}

/// CLUSTER SET-CONFIG-EPOCH config-epoch
pub fn set_config_epoch(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let epoch = int(&args[2])?;
    let Ok(wanted) = u64::try_from(epoch) else {
        return Err(Fault::owned(format!("ERR Invalid config epoch specified: {epoch}")));
    };
    let place = Place::of(ctx.server());
    let present = place.and_then(|place| Some(place.topology.shards[place.node().shard?].epoch));
    if present.is_some_and(|present| present >= wanted) {
        return Err(Fault::Text("ERR Node config epoch is already non-zero"));
    }
    let edit = Edit::Epoch(own_shard(ctx.server()), Some(wanted));
    ask(ctx, Ask::Edit(edit))
}

/// CLUSTER BUMPEPOCH
pub fn bumpepoch(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let epoch_of = |place: &Place| place.node().shard.map(|shard| place.topology.shards[shard].epoch);
    let place = Place::of(ctx.server());
    let present = place.as_ref().and_then(epoch_of).filter(|epoch| *epoch > 0);
    if let Some(place) = &place
        && present == Some(place.topology.epoch)
    {
        reply.simple(&format!("STILL {}", place.topology.epoch));
        return Ok(());
    }
    let edit = Edit::Epoch(own_shard(ctx.server()), None);
    ask_then(ctx, Ask::Edit(edit), move |lane| {
        let now = Place::of(lane.server()).as_ref().and_then(epoch_of).unwrap_or(0);
        lane.reply().simple(&format!("BUMPED {now}"));
        Ok(())
    })
}

/// CLUSTER SAVECONFIG
pub fn saveconfig(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    if ctx.is_nested() {
        // It is written all the time.
        reply.ok();
        return Ok(());
    }
    ctx.defer_script(|lane: &mut Lane<'_>| {
        let saved = lane.server().host.save_cluster_config();
        saved.map_err(|error| Fault::owned(format!("ERR error saving the cluster node config: {error}")))?;
        answer_ok(lane)
    });
    Ok(())
}
