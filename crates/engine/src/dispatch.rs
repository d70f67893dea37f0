//! From decoded commands to replies.
//!
//! A pipeline runs in batches: first every key of the batch is hashed and its bucket and entry are asked
//! for from memory, then the commands run one by one, each under the locks of its own keys.

use std::sync::atomic::Ordering::Relaxed;

use base::limits::{BATCH_COMMANDS, OUTPUT_HIGH_WATER_BYTES};
use resp::{Args, Batch, Proto};
use store::{Locked, Position};

use crate::acl;
use crate::blocking;
use crate::clients::Client;
use crate::cluster_face::routing;
use crate::commands::sentinel;
use crate::ctx::Ctx;
use crate::eviction::{self, Room};
use crate::fault::{CmdResult, Fault};
use crate::lane::Call;
use crate::monitor;
use crate::output::Output;
use crate::propagation;
use crate::reach::check_slots;
use crate::reply::Reply;
use crate::server::{PauseMode, Server};
use crate::session::{ReplyMode, Session};
use crate::slowlog::clipped;
use crate::table::{CommandInfo, Flags, KeyRule};
use crate::worker::Worker;

/// Why a batch ended before its last command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It did not.
    Done,
    /// The output is full, or a reply is still being made: go on when it has drained.
    Output,
    /// The turn is over: go on in the connection's next.
    Turn,
    /// The long lane has the command that just ran: go on when its reply is there.
    Deferred,
    /// CLIENT PAUSE holds the next command back.
    Paused,
    /// The command that just ran waits for a key (`Worker::blocked`): go on when it is answered.
    Blocked,
    /// Other nodes run what has just been taken to be forwarded (`Worker::forwarding`): go on when it is answered.
    Forwarded,
    /// The next command needs a stripe that is held for long: go on in a while.
    Busy,
    /// The command that just ran has made the connection a replica (`Worker::attached`): go on at once.
    Replica,
    /// The next command may write, and the log has no room: go on when it has.
    Full,
    /// The connection is to be closed after its replies.
    Close,
    /// The connection is to be closed at once, unsent replies and all.
    Abort,
}

/// How far a batch got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Commands of the batch that ran; the others have to be presented again.
    pub executed: usize,
    /// Why it ended.
    pub stop: Stop,
}

/// A command that takes part in prefetching: its row, and its key's position if it has one key.
type Routed<'a> = (Result<&'a CommandInfo, ()>, Option<Position>);

/// Arguments above which even a command flagged fast is timed on its own.
const FAST_ARGS_MAX: usize = 64;

/// Bytes above which a command is timed on its own, whatever it is.
pub(crate) const BRIEF_WIRE_BYTES_MAX: usize = 32 * 1024;

/// A slow log that starts below this wants every command timed on its own.
const SLOWLOG_COARSE_US: i64 = 1_000;

const _: () = assert!(BATCH_COMMANDS <= u32::BITS as usize, "a bit for each command of a batch");

/// Runs the commands of a batch (at most [`BATCH_COMMANDS`]) in order. `input` is what the batch was
/// decoded from; `worker.now` is the instant they run at.
pub fn run_batch(
    server: &Server,
    worker: &mut Worker,
    session: &mut Session,
    batch: &Batch,
    input: &[u8],
    out: &mut Output,
) -> Progress {
    debug_assert!(batch.len() <= BATCH_COMMANDS, "batch-bounds");
    let mut routed: [Routed<'_>; BATCH_COMMANDS] = [(Err(()), None); BATCH_COMMANDS];
    route(server, session.db, batch, input, &mut routed);
    let time_each = times_each(server);
    let started_us = server.clock.mono_us();
    worker.is_cut_off = !server.cluster.may_serve(started_us);
    worker.copies_primary = session.importing;
    // One bit a command: it ran and is timed with the batch.
    let mut untimed = 0_u32;
    let mut progress = Progress { executed: 0, stop: Stop::Done };
    for (index, (info, position)) in routed.into_iter().enumerate().take(batch.len()) {
        let args = batch.command(index, input);
        if let Ok(info) = info
            && is_paused(server, worker, session, info)
        {
            progress.stop = Stop::Paused;
            break;
        }
        if info.is_err() && is_http(args) {
            progress.stop = Stop::Abort;
            break;
        }
        let brief = !time_each && batch.wire_bytes(index) <= BRIEF_WIRE_BYTES_MAX;
        if brief && info.is_ok_and(|info| is_quick(info, args)) {
            let ran = run_one(server, worker, session, args, info, position, out);
            untimed |= u32::from(ran.is_some()) << index;
        } else {
            run_timed(server, worker, session, args, info, position, out);
        }
        if std::mem::take(&mut worker.held_up) {
            progress.stop = match () {
                () if worker.forwarding.taken() > 0 => Stop::Forwarded,
                () if server.is_log_full() => Stop::Full,
                () => Stop::Busy,
            };
            break;
        }
        out.seal_if_long();
        progress.executed = index + 1;
        if session.close_after_reply {
            progress.stop = Stop::Close;
        } else if worker.deferred.is_some() {
            progress.stop = Stop::Deferred;
        } else if worker.blocked.is_some() {
            progress.stop = Stop::Blocked;
        } else if worker.attached.is_some() {
            progress.stop = Stop::Replica;
        } else if out.is_streaming() || out.pending_bytes() > OUTPUT_HIGH_WATER_BYTES {
            progress.stop = Stop::Output;
        } else if worker.now.mono_us >= worker.turn_ends_us {
            progress.stop = Stop::Turn;
        }
        if progress.stop != Stop::Done {
            break;
        }
    }
    if worker.forwarding.taken() > 0 {
        // Whatever else there is to wait for, replies come in order.
        progress.stop = Stop::Forwarded;
    }
    worker.stats.commands.add(progress.executed as u64);
    if untimed != 0 {
        record_untimed(server, worker, &routed, started_us, untimed);
    }
    progress
}

/// True for a line of an HTTP request. A web page can make its visitor's browser send one to a server
/// on the visitor's machine, with commands in its body: as Redis does, nothing after it is run.
fn is_http(args: Args<'_>) -> bool {
    let name = &args[0];
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// True if somebody looks for commands that take less than a batch does.
#[inline]
pub(crate) fn times_each(server: &Server) -> bool {
    (0..SLOWLOG_COARSE_US).contains(&server.config.hot().slowlog_log_slower_than_us())
}

/// True if reading the clock for this command alone would cost more than it is worth.
#[inline]
pub(crate) fn is_quick(info: &CommandInfo, args: Args<'_>) -> bool {
    info.spec.flags.intersects(Flags::FAST.union(Flags::BRIEF)) && args.len() <= FAST_ARGS_MAX
}

/// Finds each command's row and its key's place, and asks memory for what the commands will need.
#[inline]
fn route<'s>(
    server: &'s Server,
    db: usize,
    batch: &Batch,
    input: &[u8],
    routed: &mut [Routed<'s>; BATCH_COMMANDS],
) {
    let keyspace = &server.keyspace;
    let prefetcher = (batch.len() > 1).then(|| keyspace.prefetcher(db));
    for (index, route) in routed.iter_mut().enumerate().take(batch.len()) {
        let args = batch.command(index, input);
        let Some(info) = server.registry.find(&args[0]) else { continue };
        let position = match info.keys {
            KeyRule::One(at) if args.len() > at => Some(keyspace.position(&args[at])),
            KeyRule::Many { first, .. } if args.len() > first => Some(keyspace.position(&args[first])),
            _ => None,
        };
        *route = (Ok(info), position);
        if let (Some(prefetcher), Some(position)) = (prefetcher, position) {
            prefetcher.root(position);
        }
    }
    let Some(prefetcher) = prefetcher else { return };
    let positions = || routed[..batch.len()].iter().filter_map(|(_, position)| *position);
    positions().for_each(|position| prefetcher.bucket(position));
    positions().for_each(|position| prefetcher.entry(position));
}

#[inline]
fn is_paused(server: &Server, worker: &Worker, session: &Session, info: &CommandInfo) -> bool {
    match server.pause.mode(worker.now.unix_ms) {
        None => false,
        // It writes nothing, and others wait for what it acknowledges.
        Some(_) if session.client.is_replica.load(Relaxed) => false,
        // What ends or shortens a pause must not be held back by it.
        Some(PauseMode::All) => info.spec.name != "client",
        Some(PauseMode::Write) => {
            let flags = match &session.multi {
                // Queueing writes nothing; EXEC does.
                Some(multi) if info.spec.name == "exec" => multi.flags(),
                Some(_) => Flags::empty(),
                None => info.spec.flags,
            };
            flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
        }
    }
}

/// Runs a command that may take long, and says so where it did.
fn run_timed(
    server: &Server,
    worker: &mut Worker,
    session: &mut Session,
    args: Args<'_>,
    info: Result<&CommandInfo, ()>,
    position: Option<Position>,
    out: &mut Output,
) {
    let started_us = server.clock.mono_us();
    let ran = run_one(server, worker, session, args, info, position, out);
    let now = server.clock.now();
    let elapsed_us = now.mono_us - started_us;
    worker.set_now(now);
    let Some(info) = ran else { return };
    let hot = server.config.hot();
    worker.stats.command(info.id).record(elapsed_us * 1000, hot.latency_tracking());
    let shown = || clipped(&info.full_name, args);
    note_slow(server, &session.client, info, elapsed_us, now.unix_ms / 1000, shown);
}

/// Enters a command that took long in the slow log and the latency monitor; `args` makes what is shown of it.
pub(crate) fn note_slow(
    server: &Server,
    client: &Client,
    info: &CommandInfo,
    elapsed_us: u64,
    now_s: i64,
    args: impl FnOnce() -> Vec<Vec<u8>>,
) {
    let hot = server.config.hot();
    let threshold_us = hot.slowlog_log_slower_than_us();
    if threshold_us >= 0
        && elapsed_us >= threshold_us as u64
        && !info.spec.flags.contains(Flags::SKIP_SLOWLOG)
    {
        server.slowlog.push(args(), elapsed_us, now_s, client, hot.slowlog_len_max() as usize);
    }
    let threshold_ms = hot.latency_monitor_threshold_ms();
    if threshold_ms > 0 && elapsed_us / 1000 >= threshold_ms as u64 {
        let event = if info.spec.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        server.latency.record(event, elapsed_us / 1000, now_s);
    }
}

/// Shares the time of a batch between its quick commands: reading the clock for each would cost more
/// than some of them do.
fn record_untimed(
    server: &Server,
    worker: &mut Worker,
    routed: &[Routed<'_>; BATCH_COMMANDS],
    started_us: u64,
    mut untimed: u32,
) {
    let now = server.clock.now();
    worker.set_now(now);
    let each_ns = now.mono_us.saturating_sub(started_us) * 1000 / u64::from(untimed.count_ones());
    let tracking = server.config.hot().latency_tracking();
    while untimed != 0 {
        if let Ok(info) = routed[untimed.trailing_zeros() as usize].0 {
            worker.stats.command(info.id).record(each_ns, tracking);
        }
        untimed &= untimed - 1;
    }
}

/// Runs one command; `None` if there is no run to time: it was refused, or the long lane has it, which times
/// it itself.
#[inline]
fn run_one<'s>(
    server: &'s Server,
    worker: &mut Worker,
    session: &mut Session,
    args: Args<'_>,
    info: Result<&'s CommandInfo, ()>,
    position: Option<Position>,
    out: &mut Output,
) -> Option<&'s CommandInfo> {
    let mark = out.mark();
    if session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::Skip;
    }
    let mut ran = None;
    let taken = worker.forwarding.taken();
    let admitted = admit(server, worker, session, args, info, position);
    if worker.forwarding.taken() > 0 {
        // What is not forwarded with the others runs after them.
        worker.held_up = worker.forwarding.taken() == taken;
        if !worker.held_up {
            note_forwarded(server, worker, session, info);
        }
        return None;
    }
    let result = match admitted {
        Ok(info) if session.multi.is_some() && !info.spec.flags.contains(Flags::OUTSIDE_MULTI) => {
            queue(server, session, info, args, position, out)
        }
        Ok(info) => {
            ran = Some(info);
            session.client.last_command.store(info.id as u16 + 1, Relaxed);
            let result = run_locked(server, worker, session, args, info, position, out);
            if worker.held_up {
                out.rewind(mark);
                if server.is_log_full() {
                    return None;
                }
                let busy = busy_fault(server, info)?;
                worker.held_up = false;
                let fault = refuse(server, session, Ok(info), busy);
                report(server, worker, session, fault, None, mark, out);
                return None;
            }
            monitor::show(server, worker, session, info, args);
            if !worker.unserved.is_empty() {
                serve_unserved(server, worker, session);
            }
            result
        }
        Err(_) if worker.held_up => return None,
        Err(fault) => {
            if let Ok(info) = info {
                worker.stats.command(info.id).rejected.add(1);
            }
            Err(refuse(server, session, info, fault))
        }
    };
    if let Err(fault) = result {
        report(server, worker, session, fault, ran, mark, out);
    }
    if session.reply_mode != ReplyMode::On {
        swallow(session, mark, out);
    }
    if session.asking {
        end_asking(session, info);
    }
    if worker.observed.is_any() {
        worker.gate_reply(server, session, mark, out);
    }
    if let (Some(deferred), Some(info)) = (&mut worker.deferred, ran) {
        if server.cluster.enabled {
            deferred.slot = routing::slot_of(server, info, args);
        }
        deferred.call = Some(Call { command: info.id, args: clipped(&info.full_name, args) });
        if server.log.is_active() && info.spec.flags.contains(Flags::WRITE) {
            deferred.words = Some(args.to_owned());
        }
        return None;
    }
    ran
}

/// A request was taken to be forwarded: it gets its reply as the connection wants it.
#[cold]
fn note_forwarded(
    server: &Server,
    worker: &mut Worker,
    session: &mut Session,
    info: Result<&CommandInfo, ()>,
) {
    if info.is_ok_and(|info| info.spec.name == "exec") {
        session.end_transaction(server);
    }
    if session.reply_mode != ReplyMode::On
        && let Some(forward) = worker.forwarding.last_taken()
    {
        forward.is_silent = true;
        if session.reply_mode == ReplyMode::Skip {
            session.reply_mode = ReplyMode::On;
        }
    }
}

/// ASKING holds for the next command, or the next transaction.
#[cold]
fn end_asking(session: &mut Session, info: Result<&CommandInfo, ()>) {
    session.asking = session.multi.is_some() || info.is_ok_and(|info| info.spec.name == "asking");
}

/// What a command that has to wait for a stripe is told, if a script has kept it for too long.
#[cold]
fn busy_fault(server: &Server, info: &CommandInfo) -> Option<Fault> {
    let threshold_ms = server.config.hot().busy_reply_threshold_ms();
    if threshold_ms == 0 || info.spec.flags.contains(Flags::ALLOW_BUSY) {
        return None;
    }
    let now_us = server.clock.mono_us();
    server.scripting.running.busy(now_us, threshold_ms.saturating_mul(1000))
}

/// Queues a command of a transaction.
fn queue(
    server: &Server,
    session: &mut Session,
    info: &CommandInfo,
    args: Args<'_>,
    position: Option<Position>,
    out: &mut Output,
) -> CmdResult {
    let refusal = if info.spec.flags.contains(Flags::NO_MULTI) {
        Err(Fault::Text("ERR Command not allowed inside a transaction"))
    } else {
        check_slots(server, info, args).map(drop)
    };
    let Some(multi) = &mut session.multi else { unreachable!("queue: inside MULTI") };
    match refusal {
        Ok(()) => multi.push(&server.keyspace, info, args, position),
        Err(_) => multi.aborted = true,
    }
    session.tell_transaction();
    refusal?;
    out.tail().extend_from_slice(b"+QUEUED\r\n");
    Ok(())
}

/// What refusing a command does to the transaction that it was meant for.
#[cold]
fn refuse(server: &Server, session: &mut Session, info: Result<&CommandInfo, ()>, fault: Fault) -> Fault {
    if info.is_ok_and(|info| info.spec.name == "exec") {
        session.end_transaction(server);
        if fault.sends_elsewhere() {
            return fault;
        }
        let reason = fault.bytes();
        let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
        return Fault::Quoting([b"EXECABORT Transaction discarded because of: ", reason].concat());
    }
    if let Some(multi) = &mut session.multi {
        multi.aborted = true;
    }
    fault
}

/// Serves waiting clients whose stripes were not to be had when their keys became ready.
pub(crate) fn serve_unserved(server: &Server, worker: &mut Worker, session: &mut Session) {
    while let Some(mut unserved) = worker.unserved.pop() {
        let mut ctx = Ctx::new(server, worker, session, None, None);
        let slot = server.keyspace.position(&unserved.key).slot();
        ctx.hold_patiently(Some(&mut unserved.stripes), Some(slot).filter(|_| server.cluster.enabled));
        blocking::serve(&mut ctx, unserved.db, &unserved.key);
        ctx.settle();
    }
}

#[cold]
fn report(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    fault: Fault,
    ran: Option<&CommandInfo>,
    mark: crate::output::Mark,
    out: &mut Output,
) {
    out.rewind(mark);
    worker.deferred = None;
    server.errors.count(fault.code());
    worker.stats.errors.add(1);
    if let Some(info) = ran {
        worker.stats.command(info.id).failed.add(1);
    }
    Reply::new(out, session.proto).encoder().error_bytes(fault.bytes());
}

/// Takes the reply back, for CLIENT REPLY OFF and SKIP.
#[cold]
fn swallow(session: &mut Session, mark: crate::output::Mark, out: &mut Output) {
    match session.reply_mode {
        ReplyMode::Off => out.rewind(mark),
        ReplyMode::Skip => {
            out.rewind(mark);
            session.reply_mode = ReplyMode::On;
        }
        ReplyMode::SkipNext | ReplyMode::On => {}
    }
}

/// The row to run, or why the command is refused.
#[inline]
fn admit<'s>(
    server: &'s Server,
    worker: &mut Worker,
    session: &mut Session,
    args: Args<'_>,
    info: Result<&'s CommandInfo, ()>,
    position: Option<Position>,
) -> CmdResult<&'s CommandInfo> {
    let info = match info {
        Ok(info) if info.subcommands.is_empty() && info.arity_fits(args.len()) => info,
        Err(()) if sentinel::is_asked(server, session, args) => server.registry.resolve_sentinel(args)?,
        _ => server.registry.resolve(args)?,
    };
    if !session.authenticated && info.needs_auth() && server.requires_auth() {
        return Err(Fault::NO_AUTH);
    }
    let context = if session.multi.is_some() { acl::Context::Multi } else { acl::Context::TopLevel };
    acl::admit(server, session, info, args, context)?;
    if server.cluster.enabled && routing::admit(server, worker, session, info, args, position)? {
        // What holds here does not matter to it.
        return Ok(info);
    }
    if session.subscriptions.is_some()
        && session.proto == Proto::V2
        && !info.spec.flags.contains(Flags::SUBSCRIBED)
    {
        return Err(Fault::owned(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            info.full_name
        )));
    }
    if let Err(fault) = server.admit_by_role(session, info) {
        worker.held_up = routing::awaits_owner(server, session, info, args);
        // The map may have changed since it was asked: no client of a cluster expects this fault.
        let is_changing = server.cluster.enabled && !worker.held_up;
        let is_elsewhere = is_changing && routing::admit(server, worker, session, info, args, position)?;
        return if is_elsewhere { Ok(info) } else { Err(fault) };
    }
    server.admit_by_persistence(info, session.multi.as_deref())?;
    server.admit_by_replicas(info, session)?;
    if server.config.hot().maxmemory_bytes() > 0 {
        admit_to_memory(server, worker, session, info, args)?;
    }
    if (session.client.is_monitor.load(Relaxed) || session.client.is_replica.load(Relaxed))
        && info.spec.flags.intersects(Flags::WRITE | Flags::READONLY | Flags::MAY_REPLICATE)
    {
        return Err(Fault::Text("ERR Replica can't interact with the keyspace"));
    }
    Ok(info)
}

/// Makes room for a command that may need memory. Refuses it if that fails and the command itself, or one that was
/// queued before it, says that it needs some; and any that would be queued.
#[inline]
fn admit_to_memory(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    info: &CommandInfo,
    args: Args<'_>,
) -> CmdResult {
    let flags = info.spec.flags;
    let needs_memory = match &session.multi {
        None => flags.contains(Flags::DENYOOM),
        Some(multi) if flags.contains(Flags::OUTSIDE_MULTI) => {
            info.spec.name == "exec" && multi.flags().contains(Flags::DENYOOM)
        }
        Some(_) => true,
    };
    // What scripts are going to run is not known yet: there is room made for them, and they are not refused.
    if !needs_memory && !flags.contains(Flags::MAY_REPLICATE) {
        return Ok(());
    }
    let room = eviction::make_room(server, worker);
    if !needs_memory || room != Room::None {
        return Ok(());
    }
    // That the keys are of several slots is said first.
    check_slots(server, info, args)?;
    Err(Fault::OOM)
}

#[inline]
fn run_locked(
    server: &Server,
    worker: &mut Worker,
    session: &mut Session,
    args: Args<'_>,
    info: &CommandInfo,
    position: Option<Position>,
    out: &mut Output,
) -> CmdResult {
    let keyspace = &server.keyspace;
    worker.appended_to = 0;
    let only_key = position.filter(|_| matches!(info.keys, KeyRule::One(_)));
    if server.holds_up_writers(only_key)
        && propagation::may_leave_effects(info, session.multi.as_ref().map(|multi| multi.flags()))
    {
        worker.held_up = true;
        return Ok(());
    }
    let mut reply = Reply::new(out, session.proto);
    let mut slot = None;
    // What is locked; `None` if the command is to come again, since somebody holds a stripe for long.
    let (locked, hashed) = match info.keys {
        KeyRule::One(at) => {
            let position = position.unwrap_or_else(|| keyspace.position(&args[at]));
            slot = Some(position.slot());
            (keyspace.lock_briefly(position).map(Some), Some((&args[at], position)))
        }
        _ if info.needs_all_stripes(args) => {
            slot = check_slots(server, info, args)?;
            (keyspace.lock_all_briefly().map(Some), None)
        }
        KeyRule::None => (Some(None), None),
        KeyRule::Many { .. } | KeyRule::Specs => {
            let reach = &mut worker.reach;
            reach.clear();
            reach.add_command(keyspace, info, args, None);
            reach.check(server)?;
            slot = reach.slot();
            match reach.stripes.is_empty() {
                true => (Some(None), None),
                false => (keyspace.lock_stripes_briefly(&mut reach.stripes).map(Some), None),
            }
        }
    };
    let Some(locked) = locked else {
        worker.held_up = true;
        return Ok(());
    };
    let role = server.admit_under_stripes(session, info, slot);
    if matches!(role, Ok(true)) {
        worker.held_up = true;
        return Ok(());
    }

    let covers_all = || locked.as_ref().is_some_and(Locked::covers_all);
    if server.slot_moves.holds_up(slot, covers_all) {
        worker.held_up = true;
        return Ok(());
    }
    let mut locked = locked;
    if session.importing {
        locked.iter_mut().for_each(Locked::see_expired);
    }
    let mut ctx = Ctx::new(server, worker, session, locked, hashed);
    let result = routing::recheck(&mut ctx, info, args, slot).and(role).and_then(|_| {
        let result = ctx.run_told(info, args, &mut reply, |ctx, reply| (info.spec.run)(ctx, args, reply));
        ctx.note_read(info, args);
        result
    });
    ctx.settle();
    drop(ctx);
    if let Some(tracking) = &mut session.tracking
        && session.multi.is_none()
        && !info.full_name.starts_with("client|")
    {
        tracking.forget_caching();
    }
    result
}
