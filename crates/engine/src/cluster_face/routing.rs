//! Which requests this node runs. Asked twice: before a command is admitted, as Redis does, and again under the stripes of
//! its keys. So once a slot's bit is cleared and its stripe was locked and let go of, nobody runs a command of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use base::slot::SLOT_COUNT;
use resp::Args;
use store::{Instant, Position};

use super::ClusterFace;
use super::late::send_elsewhere;
use super::standing::{Elsewhere, Request};
use crate::clients::Peer;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::session::Session;
use crate::slot_moves::UNKNOWN_IMPORT;
use crate::table::{CommandInfo, Flags, KeyRule};
use crate::transaction::Transaction;
use crate::worker::Worker;

const WORDS: usize = SLOT_COUNT as usize / 64;

/// A bit for each slot.
pub(super) struct SlotBits([AtomicU64; WORDS]);

impl SlotBits {
    pub(super) fn all(value: bool) -> SlotBits {
        SlotBits(std::array::from_fn(|_| AtomicU64::new(if value { u64::MAX } else { 0 })))
    }

    /// One load.
    #[inline]
    fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot) / 64].load(Relaxed) >> (slot % 64) & 1 != 0
    }

    pub(super) fn set(&self, is_set: impl Fn(u16) -> bool) {
        for (at, word) in self.0.iter().enumerate() {
            let first = at as u16 * 64;
            let bits = (0..64).filter(|bit| is_set(first + bit)).fold(0, |bits, bit| bits | 1 << bit);
            word.store(bits, SeqCst);
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    Command(&'a CommandInfo, Args<'a>),
    /// EXEC.
    Queue(&'a Transaction),
}

impl<'a> Asked<'a> {
    fn of(session: &'a Session, info: &'a CommandInfo, args: Args<'a>) -> Asked<'a> {
        match &session.multi {
            Some(queue) if info.spec.name == "exec" => Asked::Queue(queue),
            _ => Asked::Command(info, args),
        }
    }

    /// Calls `each` with every key or shard channel.
    fn each_name(self, server: &Server, each: &mut dyn FnMut(&[u8])) {
        let mut of_command = |info: &CommandInfo, args: Args<'_>| {
            // A number of keys that does not fit is the command's own error to report.
            let _ = info.each_key(args, &mut |at, _| each(&args[at]));
        };
        match self {
            Asked::Command(info, args) => of_command(info, args),
            Asked::Queue(queue) => {
                queue.commands(server.registry).for_each(|queued| of_command(queued.info, queued.args));
            }
        }
    }

    fn names(self, server: &Server) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        self.each_name(server, &mut |name| names.push(name.into()));
        names
    }

    pub(super) fn request(self, session: &Session) -> Request {
        let (flags, name) = match self {
            Asked::Command(info, _) => (info.spec.flags, info.spec.name),
            Asked::Queue(queue) => (queue.flags(), "exec"),
        };
        Request {
            writes: flags.contains(Flags::WRITE),
            names_channels: matches!(name, "ssubscribe" | "sunsubscribe" | "spublish"),
            is_migrate: name == "migrate",
            readonly: session.readonly,
            asking: session.asking || flags.contains(Flags::ASKING),
            is_cut_off: false,
        }
    }
}

impl ClusterFace {
    /// True if requests on a slot's keys are run here whoever sends them, as long as this node may serve.
    #[inline]
    pub(crate) fn is_served(&self, slot: u16) -> bool {
        self.served.has(slot)
    }

    /// True if this node is a replica of the slot's primary and the connection may read its key, of which there is one.
    #[inline]
    fn is_readable(&self, session: &Session, info: &CommandInfo, slot: u16) -> bool {
        session.readonly
            && info.spec.flags.contains(Flags::READONLY)
            && matches!(info.keys, KeyRule::One(_))
            && self.readable.has(slot)
    }

    /// True if this node may run commands as a primary at this instant, which was read after the commands' bytes were.
    #[inline]
    pub(crate) fn may_serve(&self, now_us: u64) -> bool {
        self.serves.at(now_us)
    }

    pub(super) fn port_of(peer: &Peer) -> Option<u16> {
        match peer {
            Peer::Tcp { local, .. } => Some(std::net::SocketAddr::from(*local).port()),
            Peer::Unix(_) => None,
        }
    }

    #[cold]
    fn decide(
        &self,
        server: &Server,
        session: &Session,
        asked: Asked<'_>,
        is_cut_off: bool,
        is_there: &mut dyn FnMut(&[u8]) -> Option<bool>,
    ) -> Result<(), Elsewhere> {
        let request = Request { is_cut_off, ..asked.request(session) };
        let names = asked.names(server);
        self.standing().decide(request, names.iter().map(|name| &**name), is_there)
    }

    #[cold]
    pub(super) fn fault(&self, elsewhere: Elsewhere, peer: &Peer) -> Fault {
        Fault::Owned(self.standing().text(elsewhere, ClusterFace::port_of(peer)))
    }
}

/// Before a command is admitted: an error says who runs it, or that it was taken to be forwarded there. True if it is only to be
/// queued, for an EXEC that is run elsewhere. `position` is that of its first key, if that is known.
#[inline]
pub(crate) fn admit(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    info: &CommandInfo,
    args: Args<'_>,
    position: Option<Position>,
) -> CmdResult<bool> {
    let slot = match info.keys {
        KeyRule::One(at) | KeyRule::Many { first: at, .. } => match args.get(at) {
            Some(key) => position.unwrap_or_else(|| server.keyspace.position(key)).slot(),
            None => return Ok(false),
        },
        KeyRule::None if info.spec.keys.is_empty() && info.spec.find_keys.is_none() => match &session.multi {
            Some(queue) if info.spec.name == "exec" => match queue.reach.slot() {
                Some(slot) => slot,
                None => return Ok(false),
            },
            _ => return Ok(false),
        },
        KeyRule::None | KeyRule::Specs => match slot_of(server, info, args) {
            Some(slot) => slot,
            None => return Ok(false),
        },
    };
    let cluster = &server.cluster;
    if cluster.is_served(slot) && !worker.is_cut_off && !session.importing {
        return Ok(false);
    }
    if cluster.is_readable(session, info, slot) {
        return Ok(false);
    }
    admit_slowly(server, worker, session, info, args)
}

/// The slot of the first key or shard channel that a command names.
pub(crate) fn slot_of(server: &Server, info: &CommandInfo, args: Args<'_>) -> Option<u16> {
    let mut slot = None;
    let _ = info.each_key(args, &mut |at, _| {
        slot.get_or_insert_with(|| server.keyspace.position(&args[at]).slot());
    });
    slot
}

/// True if these write, and this node, which has become a replica, does not know yet who leads their slot: its role changes
/// before its map does. They wait for the map, since no client of a cluster expects `-READONLY`.
#[cold]
pub(crate) fn awaits_owner(server: &Server, session: &Session, info: &CommandInfo, args: Args<'_>) -> bool {
    let asked = Asked::of(session, info, args);
    let slot = match asked {
        Asked::Queue(queue) => queue.reach.slot(),
        Asked::Command(..) => slot_of(server, info, args),
    };
    asked.request(session).writes && awaits_owner_of(server, slot)
}

/// As [`awaits_owner`], of something that writes to this slot.
pub(crate) fn awaits_owner_of(server: &Server, slot: Option<u16>) -> bool {
    let cluster = &server.cluster;
    cluster.enabled && server.is_read_only() && slot.is_some_and(|slot| cluster.is_served(slot))
}

#[cold]
fn admit_slowly(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    info: &CommandInfo,
    args: Args<'_>,
) -> CmdResult<bool> {
    let asked = Asked::of(session, info, args);
    if session.importing {
        return check_import(server, session, asked).map(|()| false);
    }
    let now_ms = worker.now.unix_ms;
    let mut is_there = |key: &[u8]| {
        let position = server.keyspace.position(key);
        let mut locked = server.keyspace.lock_briefly(position)?;
        let is_there = locked.get(session.db, position, key, Instant { now_ms, touch: None }).is_some();
        for expired in locked.take_expired() {
            server.key_lost(session.db, &expired.key, &[(Event::Expired, "expired")]);
        }
        Some(is_there)
    };
    let decided = server.cluster.decide(server, session, asked, worker.is_cut_off, &mut is_there);
    match decided {
        Ok(()) => Ok(false),
        Err(elsewhere) => send_elsewhere(server, worker, session, asked, elsewhere),
    }
}

/// Asks again under the stripes of a command's keys, of which `slot` is one's slot.
#[inline]
pub(crate) fn recheck(ctx: &mut Ctx<'_>, info: &CommandInfo, args: Args<'_>, slot: Option<u16>) -> CmdResult {
    let cluster = &ctx.server().cluster;
    let is_run = |slot: &u16| cluster.is_served(*slot) && !ctx.session_ref().importing;
    let Some(slot) = slot.filter(|slot| cluster.enabled && !is_run(slot)) else { return Ok(()) };
    if cluster.is_readable(ctx.session_ref(), info, slot) {
        return Ok(());
    }
    recheck_slowly(ctx, Asked::Command(info, args))
}

/// As [`recheck`], of a transaction that is about to run.
pub(crate) fn recheck_queue(ctx: &mut Ctx<'_>, queue: &Transaction) -> CmdResult {
    let cluster = &ctx.server().cluster;
    let is_run = |slot| cluster.is_served(slot) && !ctx.session_ref().importing;
    if !cluster.enabled || queue.reach.slot().is_none_or(is_run) {
        return Ok(());
    }
    recheck_slowly(ctx, Asked::Queue(queue))
}

/// As [`recheck`], of work that has let go of its stripes since, on keys of this slot.
pub(crate) fn recheck_slot(ctx: &mut Ctx<'_>, slot: Option<u16>) -> CmdResult {
    let cluster = &ctx.server().cluster;
    let session = ctx.session_ref();
    let is_run = |slot: &u16| cluster.is_served(*slot) && !session.importing;
    let Some(slot) = slot.filter(|slot| cluster.enabled && !is_run(slot)) else { return Ok(()) };
    if session.importing {
        return if ctx.server().takes_from(session, slot) { Ok(()) } else { Err(UNKNOWN_IMPORT) };
    }
    let standing = cluster.standing();
    let stays = standing.leads(slot)
        || (standing.owns(slot) && session.readonly && standing.has_data)
        || standing.opened.importing.contains_key(&slot);
    match standing.redirection(slot) {
        Some(elsewhere) if !stays => Err(cluster.fault(elsewhere, &session.client.peer)),
        _ => Ok(()),
    }
}

/// What the connection is told that sends slots which are being moved here: it may touch these, and nothing else. What it sends once
/// its import is over has come too late, all the more if the slots have come by another: a source that was stopped goes on
/// where it was.
fn check_import(server: &Server, session: &Session, asked: Asked<'_>) -> CmdResult {
    let is_coming = |name: &[u8]| server.takes_from(session, server.keyspace.position(name).slot());
    match asked.names(server).iter().all(|name| is_coming(name)) {
        true => Ok(()),
        false => Err(UNKNOWN_IMPORT),
    }
}

#[cold]
fn recheck_slowly(ctx: &mut Ctx<'_>, asked: Asked<'_>) -> CmdResult {
    if ctx.session_ref().importing {
        return check_import(ctx.server(), ctx.session_ref(), asked);
    }
    decide_held(ctx, asked).map_err(|elsewhere| {
        let (server, peer) = (ctx.server(), &ctx.session_ref().client.peer);
        server.cluster.fault(elsewhere, peer)
    })
}

fn decide_held(ctx: &mut Ctx<'_>, asked: Asked<'_>) -> Result<(), Elsewhere> {
    let (server, db) = (ctx.server(), ctx.db());
    let request = asked.request(ctx.session_ref());
    let names = asked.names(server);
    let standing = server.cluster.standing();
    standing.decide(request, names.iter().map(|name| &**name), |key| Some(ctx.exists_in(db, key)))
}

/// What a script is told that calls a command on keys which are not this node's.
pub(crate) fn check_in_script(
    ctx: &mut Ctx<'_>,
    info: &CommandInfo,
    args: Args<'_>,
) -> Result<(), &'static str> {
    let mut is_served = true;
    let (server, is_cut_off) = (ctx.server(), ctx.worker().is_cut_off);
    let _ = info.each_key(args, &mut |at, _| {
        is_served &= server.cluster.is_served(server.keyspace.position(&args[at]).slot());
    });
    if is_served && !is_cut_off {
        return Ok(());
    }
    let (db, asked) = (ctx.db(), Asked::Command(info, args));
    let request = Request { is_cut_off, ..asked.request(ctx.session_ref()) };
    let names = asked.names(server);
    let standing = server.cluster.standing();
    // A key whose stripe is not held is not waited for: what others hold may wait for what this script holds.
    let is_there = |key: &[u8]| {
        let is_held = ctx.held().is_some_and(|held| held.covers(server.keyspace.position(key)));
        is_held.then(|| ctx.exists_in(db, key))
    };
    let decided = standing.decide(request, names.iter().map(|name| &**name), is_there);
    decided.map_err(|elsewhere| match elsewhere {
        Elsewhere::DownForWrites => {
            "ERR Script attempted to execute a write command while the cluster is down and readonly"
        }
        Elsewhere::Down | Elsewhere::Refused(_) => {
            "ERR Script attempted to execute a command while the cluster is down"
        }
        Elsewhere::Unbound => "ERR Script attempted to access a slot not served",
        Elsewhere::CrossSlot => "ERR Script attempted to access keys that do not hash to the same slot",
        _ => "ERR Script attempted to access a non local key in a cluster node",
    })
}
