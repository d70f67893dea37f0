//! Requests for slots that have left this node while it ran: late ones, which are forwarded to the new owner unless it is the
//! client's turn to be told of it.
//!
//! What is not late is told plainly: a slot that this node has never served since it started was not asked for here by any
//! client that was right once, and who has just come has to learn anyway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::FORWARD_REQUEST_BYTES_MAX;
use base::slot::SLOT_COUNT;
use resp::{Args, Proto, write_command};

use super::redirects::Verdict;
use super::routing::Asked;
use super::standing::{Elsewhere, Request, Standing};
use crate::acl;
use crate::args::is;
use crate::clients::{Client, Peer};
use crate::fault::{CmdResult, Fault};
use crate::forwarding::{Door, Forward, Room};
use crate::server::Server;
use crate::session::Session;
use crate::table::{Categories, CommandInfo, Flags};
use crate::worker::Worker;

/// What stands before an argument, at most, in most requests.
const WORD_HEADER_BYTES: usize = 16;

/// What this node has served of a slot that it does not serve any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Served {
    #[default]
    Nothing,
    /// As a replica: reads of connections that have sent READONLY.
    Reads,
    /// As its primary.
    All,
}

/// Slots that have left.
#[derive(Clone)]
pub(super) struct Left {
    slots: Box<[Served]>,
    /// The topology by which the last of them did.
    revision: u64,
}

impl Default for Left {
    fn default() -> Left {
        Left { slots: vec![Served::Nothing; SLOT_COUNT.into()].into(), revision: 0 }
    }
}

impl Left {
    /// Takes in a change from `before` to `after`, as of a revision.
    pub(super) fn follow(&mut self, before: &Standing, after: &Standing, revision: u64) {
        // What a node that has just started serves nobody knows yet.
        if before.topology().is_none() {
            return;
        }
        let (owned_before, owned_after) = (before.owned(), after.owned());
        let (led_before, leads_after) = (before.is_primary(), after.is_primary());
        for (slot, served) in (0..SLOT_COUNT).zip(&mut self.slots) {
            let now = match (owned_before(slot), owned_after(slot)) {
                (_, true) if leads_after => Served::Nothing,
                (true, _) if led_before => Served::All,
                (_, true) if *served == Served::Reads => Served::Nothing,
                (true, false) if *served == Served::Nothing => Served::Reads,
                _ => *served,
            };
            if now != Served::Nothing && now != *served {
                self.revision = revision;
            }
            *served = now;
        }
    }

    /// True if this request was run here once.
    fn has(&self, slot: u16, request: Request) -> bool {
        match self.slots[usize::from(slot)] {
            Served::Nothing => false,
            Served::Reads => request.readonly && !request.writes,
            Served::All => true,
        }
    }
}

/// What stands for a request that was taken to be forwarded, or is to come again after those that were: nobody is told.
const FORWARDED: Fault = Fault::Text("MOVED");

/// What a request is told that is run elsewhere, unless it was taken to be forwarded ([`crate::forwarding`]). Behind requests
/// that were taken nothing is decided: what is not forwarded with them comes again. True if it is to be queued for an EXEC
/// that will be forwarded.
#[cold]
pub(super) fn send_elsewhere(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    asked: Asked<'_>,
    elsewhere: Elsewhere,
) -> CmdResult<bool> {
    let (cluster, standing) = (&server.cluster, server.cluster.standing());
    let is_behind = worker.forwarding.taken() > 0;
    let told = |elsewhere| match is_behind {
        true => Err(FORWARDED),
        false => Err(cluster.fault(elsewhere, &session.client.peer)),
    };
    let (slot, shard) = match elsewhere {
        Elsewhere::Moved(slot, shard) if standing.is_late(session, slot, asked.request(session)) => {
            (slot, shard)
        }
        elsewhere => return told(elsewhere),
    };
    let (client, now_us) = (&session.client, worker.now.mono_us);
    let bytes = bytes_of(server, asked).filter(|_| may_be_forwarded(server, session, asked));
    let door = bytes.and_then(|bytes| Some((standing.relay_to(shard, session.proto)?, bytes)));
    let door = door.filter(|(door, bytes)| worker.forwarding.has_room(*door, *bytes, now_us) == Room::Now);
    let Some((door, _)) = door else {
        if !is_behind {
            cluster.redirects.note_told_at_once(client, now_us);
        }
        return told(elsewhere);
    };
    if !is_behind && cluster.redirects.judge(client, now_us, standing.manner.redirects_per_s) == Verdict::Tell
    {
        return told(elsewhere);
    }
    if session.multi.is_some() && matches!(asked, Asked::Command(..)) {
        return Ok(true);
    }
    cluster.redirects.note_forwarded(client, now_us);
    worker.forwarding.take(door, encode(server, asked, slot, standing.left.revision));
    Err(FORWARDED)
}

/// True if nothing that the connection has said before matters to the request, and it does not wait.
fn may_be_forwarded(server: &Server, session: &Session, asked: Asked<'_>) -> bool {
    let client = &session.client;
    let is_listening = session.subscriptions.is_some() && session.proto == Proto::V2;
    let is_special = client.is_monitor.load(Relaxed) || client.is_replica.load(Relaxed) || session.importing;
    let is_plain = session.db == 0
        && session.watching.is_empty()
        && session.multi.as_ref().is_none_or(|queue| !queue.aborted)
        && !session.asking
        && !session.no_touch
        && session.durability.is_none()
        // What it reads elsewhere nobody would tell it the end of.
        && session.tracking.is_none();
    is_plain
        && !is_listening
        && !is_special
        && match asked {
            Asked::Command(info, args) => may_run_elsewhere(session, info, args),
            // Some may have been queued while their keys were here, or the user might do more.
            Asked::Queue(queue) => queue.commands(server.registry).all(|queued| {
                let is_allowed = acl::check(server, &session.user, queued.info, queued.args).is_ok();
                is_allowed && may_run_elsewhere(session, queued.info, queued.args)
            }),
        }
}

/// True if the command can be run for a client by another node, as somebody who may do everything. In a transaction it does
/// not wait, and says nothing of the connection.
fn may_run_elsewhere(session: &Session, info: &CommandInfo, args: Args<'_>) -> bool {
    let (flags, categories) = (info.spec.flags, info.spec.categories);
    let waits = session.multi.is_none()
        && flags.contains(Flags::BLOCKING)
        && (!matches!(info.spec.name, "xread" | "xreadgroup") || args.iter().any(|word| is(word, "BLOCK")));
    // WATCH, MIGRATE, SSUBSCRIBE and their like.
    let concerns_connection = flags.intersects(Flags::OUTGOING | Flags::SUBSCRIBED | Flags::ASKING)
        || categories.contains(Categories::TRANSACTION);
    // What these may touch is asked as they run.
    let asks_rights =
        categories.contains(Categories::SCRIPTING) || matches!(info.spec.name, "sort" | "sort_ro");
    let mut has_key = false;
    let _ = info.each_key(args, &mut |_, _| has_key = true);
    has_key && !waits && !concerns_connection && (!asks_rights || session.user.is_unrestricted())
}

/// Bytes of a request, or somewhat more; `None`: too many to be forwarded.
fn bytes_of(server: &Server, asked: Asked<'_>) -> Option<usize> {
    let of_command = |args: Args<'_>| args.iter().map(|word| word.len() + WORD_HEADER_BYTES).sum::<usize>();
    let bytes = match asked {
        Asked::Command(_, args) => of_command(args),
        Asked::Queue(queue) => queue.commands(server.registry).map(|queued| of_command(queued.args)).sum(),
    };
    (bytes <= FORWARD_REQUEST_BYTES_MAX).then_some(bytes)
}

fn encode(server: &Server, asked: Asked<'_>, slot: u16, revision: u64) -> Forward {
    let (mut bytes, mut replies_before) = (Vec::new(), 0);
    match asked {
        Asked::Command(_, args) => match args.as_encoded() {
            Some(encoded) => bytes.extend_from_slice(encoded),
            None => write_command(&mut bytes, args.iter()),
        },
        Asked::Queue(queue) => {
            write_command(&mut bytes, ["MULTI"]);
            queue.commands(server.registry).for_each(|queued| write_command(&mut bytes, queued.args.iter()));
            write_command(&mut bytes, ["EXEC"]);
            replies_before = 1 + queue.len();
        }
    }
    Forward { bytes, slot, replies_before, is_silent: false, revision }
}

impl Standing {
    /// True if a request has come too late, and the connection does not want to be told so plainly.
    fn is_late(&self, session: &Session, slot: u16, request: Request) -> bool {
        self.manner.is_damped && !session.wants_plain_redirects && self.left.has(slot, request)
    }

    /// The relay to a shard's primary; `None`: it is not there, or its address is none.
    fn relay_to(&self, shard: usize, proto: Proto) -> Option<Door> {
        let leader = self.leader_of(shard)?;
        let node = &self.topology()?.nodes[leader];
        let over_tls = self.manner.of_nodes;
        let port = if over_tls { node.record.tls_port } else { node.record.port };
        let ip = node.record.ip.parse().ok().filter(|_| port != 0 && node.is_live)?;
        Some(Door::new(SocketAddr::new(ip, port), over_tls, proto))
    }

    /// The end of a redirection that another node has told a relay, as this client has to be told it: to a port that it can
    /// speak to.
    fn translated(&self, told: &str, over_tls: bool) -> Option<&str> {
        let from = usize::from(self.manner.of_nodes);
        let node = self.doors.iter().find(|doors| doors[from] == told)?;
        Some(&node[usize::from(over_tls)])
    }
}

impl Server {
    /// An answer that a relay has brought, as the client at `peer` is told it.
    pub fn passed_on(&self, reply: &[u8], peer: &Peer) -> Option<Vec<u8>> {
        let standing = self.cluster.standing();
        let over_tls = standing.manner.over_tls(super::ClusterFace::port_of(peer));
        if !reply.starts_with(b"-MOVED ") || over_tls == standing.manner.of_nodes {
            return None;
        }
        let text = std::str::from_utf8(reply).ok()?.trim_end();
        let (before, told) = text.rsplit_once(' ')?;
        Some(format!("{before} {}\r\n", standing.translated(told, over_tls)?).into_bytes())
    }

    /// What the client at `peer` is told whose request for a slot was not forwarded in the end.
    pub fn not_forwarded(&self, slot: u16, client: &Arc<Client>, now_us: u64) -> Vec<u8> {
        self.cluster.redirects.note_told_at_once(client, now_us);
        let standing = self.cluster.standing();
        // Where it has come back meanwhile, the client finds it where it has asked for it.
        let elsewhere =
            standing.redirection(slot).or_else(|| Some(Elsewhere::Moved(slot, standing.shard()?)));
        let fault = self.cluster.fault(elsewhere.unwrap_or(Elsewhere::Unbound), &client.peer);
        [b"-", fault.bytes(), b"\r\n"].concat()
    }
}
