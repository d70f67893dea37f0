//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC takes the stripes of all keys that its commands name, and of those it watches, in ascending order; what they do
//! appears as one. If one of the commands works on something big, the transaction runs on the long lane, so that a
//! worker's other connections do not wait for it.

use std::mem::take;

use base::limits::BIG_INPUT_ELEMENTS;

use crate::acl;
use store::Locked;

use crate::args::Args;
use crate::cluster_face::routing;
use crate::ctx::Ctx;
use crate::dispatch::times_each;
use crate::fault::{CmdResult, Fault};
use crate::lane::{Lane, Line};
use crate::reply::Reply;
use crate::server::Server;
use crate::table::{CommandInfo, Flags};
use crate::transaction::{QueuedCommand, Transaction};
use crate::watches::Watch;

/// MULTI
pub(crate) fn multi(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.session().multi.is_some() {
        return Err(Fault::Text("ERR MULTI calls can not be nested"));
    }
    let transaction = ctx.worker().spare_transaction.take().unwrap_or_default();
    ctx.session().multi = Some(transaction);
    ctx.session().tell_transaction();
    reply.ok();
    Ok(())
}

/// DISCARD
pub(crate) fn discard(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.session().multi.is_none() {
        return Err(Fault::Text("ERR DISCARD without MULTI"));
    }
    let server = ctx.server();
    ctx.session().end_transaction(server);
    reply.ok();
    Ok(())
}

/// WATCH key [key ...]
pub(crate) fn watch(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.session().multi.is_some() {
        return Err(Fault::Text("ERR WATCH inside MULTI is not allowed"));
    }
    let db = ctx.db();
    for key in args.from(1) {
        if ctx.session_ref().watching.iter().any(|watch| watch.db == db && *watch.key == *key) {
            continue;
        }
        // A key that has expired is removed by this look, so that its removal is not seen as a write later.
        ctx.exists_in(db, key);
        ctx.report_expired();
        let watch = ctx.server().watches.watch(db, key);
        ctx.session().watching.push(watch);
    }
    ctx.session().tell_transaction();
    reply.ok();
    Ok(())
}

/// UNWATCH
pub(crate) fn unwatch(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    ctx.session().end_watches(server);
    reply.ok();
    Ok(())
}

/// EXEC
pub(crate) fn exec(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let Some(mut transaction) = ctx.session().multi.take() else {
        return Err(Fault::Text("ERR EXEC without MULTI"));
    };
    let admitted = match transaction.aborted {
        true => Err(Fault::Text("EXECABORT Transaction discarded because of previous errors.")),
        false => transaction.reach.check(server),
    };
    for watch in ctx.session_ref().watching.iter() {
        transaction.reach.add(server.keyspace.position(&watch.key));
    }
    if let Err(fault) = admitted {
        ctx.session().end_transaction(server);
        return Err(fault);
    }
    let is_held = ctx.hold(transaction.stripes());
    let waits = server
        .admit_to_loading(transaction.shared_flags())
        .and_then(|()| server.admit_flags_under_stripes(transaction.flags(), transaction.reach.slot()));
    if !is_held || matches!(waits, Ok(true)) {
        ctx.session().multi = Some(transaction);
        ctx.come_again();
        return Ok(());
    }
    let covers_all = || ctx.held().is_some_and(Locked::covers_all);
    if server.slot_moves.holds_up(transaction.reach.slot(), covers_all) {
        ctx.release();
        ctx.session().multi = Some(transaction);
        ctx.come_again();
        return Ok(());
    }
    if let Err(fault) = routing::recheck_queue(ctx, &transaction).and(waits) {
        ctx.session().end_transaction(server);
        return Err(fault);
    }
    let watching = ctx.session().watching.take();
    ctx.session().tell_transaction();
    if is_heavy(ctx, &transaction) {
        ctx.release();
        let is_outgoing = transaction.flags().contains(Flags::OUTGOING);
        let line = if is_outgoing { Line::Outgoing } else { Line::Long };
        ctx.defer_to(line, move |lane: &mut Lane<'_>| {
            let stripes = transaction.stripes().map(take);
            lane.with_stripes(stripes, |ctx, reply| {
                let is_loaded = ctx.server().admit_to_loading(transaction.shared_flags());
                if let Err(fault) = routing::recheck_queue(ctx, &transaction).and(is_loaded) {
                    ctx.server().watches.end(watching);
                    return Err(fault);
                }
                run(ctx, &transaction, watching, reply);
                Ok(())
            })
        });
        return Ok(());
    }
    run(ctx, &transaction, watching, reply);
    ctx.worker().spare_transaction = transaction.recycled();
    Ok(())
}

/// Runs the queue, if no watched key was written. Its stripes are held.
fn run(ctx: &mut Ctx<'_>, transaction: &Transaction, watching: Vec<Watch>, reply: &mut Reply<'_>) {
    let server = ctx.server();
    let is_stale = is_stale(ctx, &watching);
    server.watches.end(watching);
    if is_stale {
        // Which says that somebody wrote.
        ctx.observe_everything();
        reply.null_array();
        return;
    }
    reply.array(transaction.len());
    let mut laps = Laps::start(server);
    for (at, command) in transaction.commands(server.registry).enumerate() {
        let mark = reply.output().mark();
        let result = match acl::admit_queued(server, ctx.session(), command.info, command.args) {
            Ok(()) => laps.run(ctx, transaction, at, command, reply),
            Err(fault) => {
                laps.leave_out(ctx, transaction, at);
                Err(fault)
            }
        };
        if let Err(fault) = result {
            reply.output().rewind(mark);
            ctx.count_error(&fault);
            reply.encoder().error_bytes(fault.bytes());
        }
        reply.output().seal_if_long();
    }
    laps.share_out(ctx, transaction, transaction.len());
}

/// The clock of a transaction: one reading a command, which ends one and begins the next, and for quick ones in a row, one
/// for all of them.
struct Laps {
    since_us: u64,
    /// The first command that is not timed yet. All after it are quick.
    untimed_from: usize,
    times_each: bool,
}

impl Laps {
    fn start(server: &Server) -> Laps {
        Laps { since_us: server.clock.mono_us(), untimed_from: 0, times_each: times_each(server) }
    }

    fn run(
        &mut self,
        ctx: &mut Ctx<'_>,
        transaction: &Transaction,
        at: usize,
        command: QueuedCommand<'_>,
        reply: &mut Reply<'_>,
    ) -> CmdResult {
        let QueuedCommand { info, args, position, is_quick } = command;
        if is_quick && !self.times_each {
            return ctx.call_untimed(info, args, position, reply);
        }
        self.share_out(ctx, transaction, at);
        let result = ctx.call_untimed(info, args, position, reply);
        let started_us = self.lap(ctx);
        ctx.count_timed_call(info, args, self.since_us - started_us);
        self.untimed_from = at + 1;
        result
    }

    /// Begins a new lap; returns when the last one began.
    fn lap(&mut self, ctx: &Ctx<'_>) -> u64 {
        std::mem::replace(&mut self.since_us, ctx.server().clock.mono_us())
    }

    /// A command that does not run is counted by nobody.
    #[cold]
    fn leave_out(&mut self, ctx: &Ctx<'_>, transaction: &Transaction, at: usize) {
        self.share_out(ctx, transaction, at);
        self.untimed_from = at + 1;
    }

    /// Shares the time since the last lap between the quick commands before `end`.
    fn share_out(&mut self, ctx: &Ctx<'_>, transaction: &Transaction, end: usize) {
        let count = end - self.untimed_from;
        if count == 0 {
            return;
        }
        let started_us = self.lap(ctx);
        let each_ns = (self.since_us - started_us) * 1000 / count as u64;
        for info in transaction.infos(ctx.server().registry, self.untimed_from..end) {
            ctx.count_call(info, each_ns);
        }
        self.untimed_from = end;
    }
}

/// True if a watched key was written, or has expired.
fn is_stale(ctx: &mut Ctx<'_>, watching: &[Watch]) -> bool {
    if watching.is_empty() {
        return false;
    }
    // A look at each key removes it if it has expired, which counts as a write.
    for watch in watching {
        ctx.exists_in(watch.db, &watch.key);
    }
    ctx.report_expired();
    let server = ctx.server();
    watching.iter().any(|watch| watch.is_touched() || has_left(server, &watch.key))
}

/// True if the key's slot is another shard's, where it may have been written.
fn has_left(server: &Server, key: &[u8]) -> bool {
    let cluster = &server.cluster;
    cluster.enabled && {
        let slot = server.keyspace.position(key).slot();
        !cluster.is_served(slot) && !cluster.owns(slot)
    }
}

/// True if a queued command may visit more elements than a worker's turn allows, or waits for another server. Only a queue
/// in which every command
/// names its keys is looked at: what changes the connection itself has to run where that lives.
fn is_heavy(ctx: &mut Ctx<'_>, transaction: &Transaction) -> bool {
    if transaction.is_swift() {
        return false;
    }
    let (registry, db) = (ctx.server().registry, ctx.db());
    if !transaction.commands(registry).all(|command| command.info.has_keys()) {
        return false;
    }
    if transaction.flags().contains(Flags::OUTGOING) {
        return true;
    }
    let is_slow = |info: &CommandInfo| !info.spec.flags.intersects(Flags::FAST | Flags::BRIEF);
    transaction.commands(registry).filter(|command| is_slow(command.info)).any(|command| {
        let mut work = 0;
        let _ = command
            .info
            .each_key(command.args, &mut |index, _| work += ctx.work_in(db, &command.args[index]));
        work > BIG_INPUT_ELEMENTS
    })
}
