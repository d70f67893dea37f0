//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC takes the stripes of all keys that its commands name, and of those it watches, in ascending order; what they do
//! appears as one. If one of the commands works on something big, the transaction runs on the long lane, so that a
//! worker's other connections do not wait for it.

use std::mem::take;

use base::limits::BIG_INPUT_ELEMENTS;

use crate::acl;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::table::{Categories, CommandInfo, Flags};
use crate::transaction::{Queued, Transaction};
use crate::watches::Watch;

/// MULTI
pub(crate) fn multi(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.session().multi.is_some() {
        return Err(Fault::Text("ERR MULTI calls can not be nested"));
    }
    ctx.session().multi = Some(Box::default());
    ctx.session().tell_transaction();
    reply.ok();
    Ok(())
}

/// DISCARD
pub(crate) fn discard(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.session().multi.is_none() {
        return Err(Fault::Text("ERR DISCARD without MULTI"));
    }
    forget(ctx);
    reply.ok();
    Ok(())
}

/// Ends a connection's transaction and its watches, without running anything.
pub(crate) fn forget(ctx: &mut Ctx<'_>) {
    ctx.session().multi = None;
    let watching = take(&mut ctx.session().watching);
    watching.into_iter().for_each(|watch| ctx.server().watches.unwatch(watch));
    ctx.session().tell_transaction();
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
    let watching = take(&mut ctx.session().watching);
    watching.into_iter().for_each(|watch| ctx.server().watches.unwatch(watch));
    ctx.session().tell_transaction();
    reply.ok();
    Ok(())
}

/// EXEC
pub(crate) fn exec(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let Some(transaction) = ctx.session_ref().multi.as_deref() else {
        return Err(Fault::Text("ERR EXEC without MULTI"));
    };
    if transaction.aborted {
        forget(ctx);
        return Err(Fault::Text("EXECABORT Transaction discarded because of previous errors."));
    }
    if transaction.queue.is_empty() && ctx.session_ref().watching.is_empty() {
        forget(ctx);
        reply.empty_array();
        return Ok(());
    }
    let mut stripes = match stripes_of(ctx, transaction) {
        Ok(stripes) => stripes,
        Err(fault) => {
            forget(ctx);
            return Err(fault);
        }
    };
    if !ctx.hold(stripes.as_mut()) {
        ctx.come_again();
        return Ok(());
    }
    let transaction = ctx.session().multi.take().unwrap_or_else(|| unreachable!("exec: seen above"));
    let watching = take(&mut ctx.session().watching);
    ctx.session().tell_transaction();
    if is_heavy(ctx, &transaction.queue) {
        ctx.release();
        ctx.defer(move |lane: &mut Lane<'_>| {
            lane.with_stripes(stripes, |ctx, reply| {
                run(ctx, &transaction.queue, watching, reply);
                Ok(())
            })
        });
        return Ok(());
    }
    run(ctx, &transaction.queue, watching, reply);
    Ok(())
}

/// Runs the queue, if no watched key was written. Its stripes are held.
fn run(ctx: &mut Ctx<'_>, queue: &[Queued], watching: Vec<Watch>, reply: &mut Reply<'_>) {
    let is_stale = is_stale(ctx, &watching);
    watching.into_iter().for_each(|watch| ctx.server().watches.unwatch(watch));
    if is_stale {
        reply.null_array();
        return;
    }
    reply.array(queue.len());
    for queued in queue {
        let info = ctx.server().registry.get(queued.command);
        let mark = reply.output().mark();
        let (server, args) = (ctx.server(), queued.args.as_args());
        let admitted = acl::admit_queued(server, ctx.session(), info, args);
        if let Err(fault) = admitted.and_then(|()| ctx.call(info, args, reply)) {
            reply.output().rewind(mark);
            ctx.count_error(&fault);
            reply.encoder().error_bytes(fault.bytes());
        }
        reply.output().seal_if_long();
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
    watching.iter().any(Watch::is_touched)
}

/// The stripes of all keys of the queue and of the watches; `None` for every stripe. In cluster mode, an error if
/// the keys are of several slots.
fn stripes_of(ctx: &Ctx<'_>, transaction: &Transaction) -> CmdResult<Option<Vec<usize>>> {
    let server = ctx.server();
    let needs_all = |info: &CommandInfo, args: Args<'_>| {
        info.needs_all_stripes(args)
            || info.spec.flags.contains(Flags::WHOLE_KEYSPACE)
            || info.spec.categories.contains(Categories::SCRIPTING)
    };
    let (mut slot, mut crosses, mut all) = (None, false, false);
    let mut stripes = Vec::new();
    let mut add = |key: &[u8]| {
        let position = server.keyspace.position(key);
        crosses |= *slot.get_or_insert(position.slot()) != position.slot();
        stripes.push(position.stripe());
    };
    for queued in &transaction.queue {
        let info = server.registry.get(queued.command);
        let args = queued.args.as_args();
        all |= needs_all(info, args);
        // Keys that cannot be told are the command's own error to report.
        let _ = info.each_key(args, &mut |index, _| add(&args[index]));
    }
    for watch in &ctx.session_ref().watching {
        add(&watch.key);
    }
    if crosses && server.cluster.enabled {
        return Err(Fault::CROSS_SLOT);
    }
    if all {
        return Ok(None);
    }
    Ok(Some(stripes))
}

/// True if a queued command may visit more elements than a worker's turn allows. Only a queue in which every command
/// names its keys is looked at: what changes the connection itself has to run where that lives.
fn is_heavy(ctx: &mut Ctx<'_>, queue: &[Queued]) -> bool {
    let server = ctx.server();
    let info_of = |queued: &Queued| server.registry.get(queued.command);
    if !queue.iter().all(|queued| info_of(queued).has_keys()) {
        return false;
    }
    let db = ctx.db();
    queue.iter().filter(|queued| !info_of(queued).spec.flags.intersects(Flags::FAST | Flags::BRIEF)).any(
        |queued| {
            let (info, args) = (info_of(queued), queued.args.as_args());
            let mut elements = 0;
            let _ = info.each_key(args, &mut |index, _| elements += ctx.elements_in(db, &args[index]));
            elements > BIG_INPUT_ELEMENTS
        },
    )
}
