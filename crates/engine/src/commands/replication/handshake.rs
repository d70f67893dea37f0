//! How a connection becomes a replica: REPLCONF says what it is, PSYNC or SYNC asks for the stream.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::args::{self, Args, is};
use crate::commands::pubsub::listen;
use crate::config::text::split_words;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::replication::group::Membership;
use crate::replication::primary::psync::{has_from, resume};
use crate::replication::primary::{Feed, Filter, Greeting, Replica};
use crate::replication::replica::FailoverState;
use crate::reply::Reply;
use crate::server::Server;

/// Longest address that a replica may announce, as Redis has it.
const ADDRESS_BYTES_MAX: usize = 255;

/// REPLCONF option value [option value ...]
pub(crate) fn replconf(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len().is_multiple_of(2) {
        return Err(Fault::SYNTAX);
    }
    let mut former = None;
    for at in (1..args.len()).step_by(2) {
        let (option, value) = (args.at(at), args.at(at + 1));
        if is(option, "ACK") {
            acknowledge(ctx, args.from(at));
            return Ok(());
        }
        if is(option, "GETACK") {
            return Ok(());
        }
        if is(option, "HALCYON-STAMP") {
            if ctx.session_ref().client.is_replica.load(Relaxed) {
                ctx.server().put_stamp(value);
            }
            return Ok(());
        }
        let listens = is(option, "HALCYON-LISTEN");
        if listens || is(option, "HALCYON-UNLISTEN") {
            listen(ctx, value, listens)?;
            continue;
        }
        if is(option, "HALCYON-MEMBER") {
            let membership = Membership::parse(value).ok_or(Fault::SYNTAX)?;
            ctx.server().admit_member(&membership)?;
            ctx.session().client.identify(|identity| {
                identity.replica.get_or_insert_default().membership = Some(Box::new(membership));
            });
            former = former_stream(ctx.server());
            continue;
        }
        let mut change = None;
        read_option(option, value, &mut change)?;
        if let Some(change) = change {
            ctx.session().client.identify(|identity| change(identity.replica.get_or_insert_default()));
        }
    }
    match former {
        Some((id, next)) => reply.simple(&format!("OK {id} {next}")),
        None => reply.ok(),
    }
    Ok(())
}

/// The stream that this server's is the continuation of, and the first offset that is not in that one, as PSYNC counts: so a member
/// knows what of it is void.
fn former_stream(server: &Server) -> Option<(String, i64)> {
    let ids = server.replication.ids.lock();
    (ids.second_offset > 0).then(|| (ids.id2.clone(), ids.second_offset))
}

type Change = Box<dyn FnOnce(&mut Greeting)>;

/// Finds out what an option changes in what the server knows of the replica: maybe nothing.
fn read_option(option: &[u8], value: &[u8], change: &mut Option<Change>) -> CmdResult {
    let mut set = |to: Change| *change = Some(to);
    if is(option, "LISTENING-PORT") {
        let port = args::int(value)?;
        set(Box::new(move |greeting| greeting.listening_port = port));
    } else if is(option, "IP-ADDRESS") {
        if value.len() > ADDRESS_BYTES_MAX {
            let len = value.len();
            return Err(Fault::owned(format!(
                "ERR REPLCONF ip-address provided by replica instance is too long: {len} bytes"
            )));
        }
        let address = value.to_vec();
        set(Box::new(move |greeting| greeting.address = address));
    } else if is(option, "CAPA") {
        // What is not known here is not used.
        if is(value, "eof") {
            set(Box::new(|greeting| greeting.takes_marked_end = true));
        } else if is(value, "psync2") {
            set(Box::new(|greeting| greeting.takes_new_id = true));
        }
    } else if is(option, "VERSION") {
        // Every version is sent the same.
    } else if is(option, "RDB-ONLY") {
        let only = args::int(value)?;
        if !(0..=1).contains(&only) {
            return Err(Fault::Text("ERR value is out of range, value must between 0 and 1"));
        }
        set(Box::new(move |greeting| greeting.wants_payload_only = only == 1));
    } else if is(option, "RDB-FILTER-ONLY") {
        let words = split_words(value).ok_or(Fault::Text("ERR Missing rdb-filter-only values"))?;
        let mut filter = Filter::default();
        for word in words {
            if !is(&word, "functions") {
                return Err(Fault::quoting("ERR Unsupported rdb-filter-only option: ", &word, ""));
            }
            filter.functions = true;
        }
        set(Box::new(move |greeting| greeting.filter = Some(filter)));
    } else {
        return Err(Fault::quoting("ERR Unrecognized REPLCONF option: ", option, ""));
    }
    Ok(())
}

/// ACK offset [FACK offset]: how far a replica is. It is not answered.
fn acknowledge(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let replicas = &server.replication.replicas;
    let client = &ctx.session_ref().client;
    if !client.is_replica.load(Relaxed) {
        return;
    }
    let Some(replica) = replicas.of_client(client.id) else { return };
    let Ok(acked_to) = args::int(args.at(1)) else { return };
    let synced_to = match (args.get(2), args.get(3)) {
        (Some(word), Some(offset)) if is(word, "FACK") => match args::int(offset) {
            Ok(offset) => Some(offset),
            Err(_) => return,
        },
        _ => None,
    };
    replica.acknowledge(acked_to, synced_to, now_ms);
    server.note_acked(&replica);
    replicas.waits.check(server);
}

/// PSYNC replicationid offset
pub(crate) fn psync(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if is_fed(ctx) {
        return Ok(());
    }
    if args.get(3).is_some_and(|word| is(word, "FAILOVER")) {
        take_over(ctx.server(), &args[1])?;
    }
    admit(ctx, reply)?;
    let (id, next) = (&args[1], args::int(&args[2])?);
    let server = ctx.server();
    let replicas = &server.replication.replicas;
    let ids = server.replication.ids.lock().clone();
    let files = server.files_backlog().and_then(|files| files.range());
    let has = |offset| {
        let has_from = |files| has_from(offset, server.log_range(), files);
        has_from(files) || has_from(replicas.on_disk.range())
    };
    let replica = Arc::new(Replica::new(ctx.session_ref().client.clone(), false, ctx.now_ms()));
    if let Some(membership) = replica.membership() {
        server.end_former(&membership.member.node);
    }
    let refusal = match resume(&ids, id, next, has) {
        Ok(offset) => match Feed::of_stream(server, replica.clone(), offset) {
            Ok(feed) => {
                go_on(ctx, feed, offset, &ids.id, reply);
                return Ok(());
            }
            // It was there a moment ago.
            Err(gone) => gone.to_string(),
        },
        Err(refusal) => refusal.text().to_owned(),
    };
    if !id.starts_with(b"?") {
        replicas.partial_refusals.fetch_add(1, Relaxed);
    }
    server.notice(&format!("Replica {} needs a full synchronization: {refusal}", replica.name()));
    send_everything(ctx, replica);
    Ok(())
}

/// The primary that this server follows asks it to take its place.
fn take_over(server: &Server, id: &[u8]) -> CmdResult {
    if !server.replication.following.is_replica() {
        return Err(Fault::Text("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !id.eq_ignore_ascii_case(server.replication.ids.lock().id.as_bytes()) {
        return Err(Fault::Text("ERR PSYNC FAILOVER replid must match my replid."));
    }
    server.notice("Failover request received: this server becomes the primary of the one that was its own");
    server.stop_following();
    Ok(())
}

/// SYNC: as PSYNC of one that knows of no ids.
pub(crate) fn sync(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if is_fed(ctx) {
        return Ok(());
    }
    admit(ctx, reply)?;
    let replica = Arc::new(Replica::new(ctx.session_ref().client.clone(), true, ctx.now_ms()));
    ctx.server().notice(&format!("Replica {} asks for a full synchronization", replica.name()));
    send_everything(ctx, replica);
    Ok(())
}

/// True if the connection is sent what it did not ask for: as Redis, that is not begun twice, and not answered.
fn is_fed(ctx: &Ctx<'_>) -> bool {
    let client = &ctx.session_ref().client;
    client.is_replica.load(Relaxed) || client.is_monitor.load(Relaxed)
}

/// Whether a connection may become a replica now.
fn admit(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.server().failover_state() != FailoverState::None {
        return Err(Fault::Text("NOMASTERLINK Can't SYNC while failing over"));
    }
    if reply.output().pending_bytes() > 0 {
        return Err(Fault::Text("ERR SYNC and PSYNC are invalid with pending output"));
    }
    let following = &ctx.server().replication.following;
    if following.is_replica() && !following.is_link_up() {
        return Err(Fault::Text("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let greeting = ctx.session_ref().client.identity().replica;
    if let Some(membership) = greeting.as_ref().and_then(|greeting| greeting.membership.as_deref()) {
        // It may have been deposed since it was told.
        ctx.server().admit_member(membership)?;
    }
    if greeting.is_some_and(|greeting| greeting.filter.is_some() && !greeting.takes_marked_end) {
        return Err(Fault::Text("ERR Filtered replica requires EOF capability"));
    }
    Ok(())
}

/// Has a replica go on with the stream.
fn go_on(ctx: &mut Ctx<'_>, feed: Feed, offset: u64, id: &str, reply: &mut Reply<'_>) {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let replicas = &server.replication.replicas;
    let replica = feed.replica.clone();
    let id = if replica.greeting.takes_new_id { format!(" {id}") } else { String::new() };
    reply.simple(&format!("CONTINUE{id}"));
    replica.go_online(now_ms);
    replicas.partial_syncs.fetch_add(1, Relaxed);
    replicas.attach(&replica);
    replicas.count_good(server, now_ms);
    let lacks_bytes = server.log.end().saturating_sub(offset);
    server.notice(&format!(
        "Partial resynchronization of replica {}: it lacks {lacks_bytes} bytes from offset {offset} on",
        replica.name()
    ));
    ctx.worker().attached = Some(Box::new(feed));
}

/// Has a replica wait for a full synchronization.
fn send_everything(ctx: &mut Ctx<'_>, replica: Arc<Replica>) {
    let (server, now) = (ctx.server(), ctx.now());
    let replicas = &server.replication.replicas;
    replicas.full_syncs.fetch_add(1, Relaxed);
    replicas.attach(&replica);
    replicas.syncs.add(&replica, now.unix_ms);
    ctx.worker().attached = Some(Box::new(Feed::of_everything(replica, now)));
}
