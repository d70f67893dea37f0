//! Keys, whatever they hold: deleting, asking about, renaming, copying and moving them.

pub(crate) mod dump;
pub(crate) mod expiry;
pub(crate) mod object;
pub(crate) mod whole;

use store::Kind;

use crate::args::{Args, db_index, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const SAME_KEY: Fault = Fault::Text("ERR source and destination objects are the same");

/// DEL and UNLINK: either way, big values are freed in the background.
pub(crate) fn del(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mut deleted = 0;
    for key in args.from(1).iter() {
        if ctx.delete(key) {
            ctx.notify(Event::Generic, "del", key);
            deleted += 1;
        }
    }
    reply.int(deleted);
    Ok(())
}

/// Counts a key as often as it is named.
pub(crate) fn exists(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = args.from(1).iter().filter(|key| facts(ctx, key).is_some()).count();
    reply.int(found as i64);
    Ok(())
}

/// What the commands that only look at a key ask: its type and its end.
struct Facts {
    kind: Kind,
    expire_at_ms: Option<i64>,
}

/// Looks at a key without touching its access clock; counted as a hit or miss.
fn facts(ctx: &mut Ctx<'_>, key: &[u8]) -> Option<Facts> {
    let found = ctx.peek(key).map(|view| Facts { kind: view.kind(), expire_at_ms: view.expire_at_ms() });
    ctx.count_peek(key, found.is_some());
    found
}

pub(crate) fn touch(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    // Touches even for a client that asked for its accesses not to count.
    let no_touch = std::mem::replace(&mut ctx.session().no_touch, false);
    let found = args.from(1).iter().filter(|key| ctx.exists(key)).count();
    ctx.session().no_touch = no_touch;
    reply.int(found as i64);
    Ok(())
}

pub(crate) fn type_(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.simple(facts(ctx, &args[1]).map_or("none", |facts| facts.kind.as_str()));
    Ok(())
}

pub(crate) fn rename(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (&args[1], &args[2]);
    if !ctx.exists_in(ctx.db(), from) {
        return Err(Fault::NO_SUCH_KEY);
    }
    rename_existing(ctx, from, to);
    reply.ok();
    Ok(())
}

pub(crate) fn renamenx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (&args[1], &args[2]);
    if !ctx.exists_in(ctx.db(), from) {
        return Err(Fault::NO_SUCH_KEY);
    }
    let free = !ctx.exists_in(ctx.db(), to);
    if free {
        rename_existing(ctx, from, to);
    }
    reply.int(i64::from(free));
    Ok(())
}

fn rename_existing(ctx: &mut Ctx<'_>, from: &[u8], to: &[u8]) {
    if from == to {
        return;
    }
    if let Some(entry) = ctx.take(from) {
        ctx.put_in_place(ctx.db(), to, &entry);
        ctx.notify(Event::Generic, "rename_from", from);
        ctx.notify(Event::Generic, "rename_to", to);
    }
}

pub(crate) fn copy(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (&args[1], &args[2]);
    let (mut db, mut replace) = (ctx.db(), false);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match args.get(at + 1) {
            _ if is(word, "REPLACE") => replace = true,
            Some(number) if is(word, "DB") => {
                db = db_number(ctx, number)?;
                at += 1;
            }
            _ => return Err(Fault::SYNTAX),
        }
        at += 1;
    }
    if db != ctx.db() && ctx.server().config.bool("cluster-enabled") {
        return Err(Fault::Text("ERR Copying to another database is not allowed in cluster mode"));
    }
    if db == ctx.db() && from == to {
        return Err(SAME_KEY);
    }
    let source = ctx.read_entry(ctx.db(), from);
    ctx.count_peek(from, source.is_some());
    let copied = match source {
        Some(entry) if replace || !ctx.exists_in(db, to) => {
            ctx.put_in_place(db, to, &entry);
            ctx.notify_in(db, Event::Generic, "copy_to", to);
            true
        }
        _ => false,
    };
    reply.int(i64::from(copied));
    Ok(())
}

pub(crate) fn move_(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.server().config.bool("cluster-enabled") {
        return Err(Fault::Text("ERR MOVE is not allowed in cluster mode"));
    }
    let key = &args[1];
    let db = db_number(ctx, &args[2])?;
    if db == ctx.db() {
        return Err(SAME_KEY);
    }
    let moved = ctx.exists_in(ctx.db(), key) && !ctx.exists_in(db, key);
    if moved && let Some(entry) = ctx.take(key) {
        ctx.put_in_place(db, key, &entry);
        ctx.notify(Event::Generic, "move_from", key);
        ctx.notify_in(db, Event::Generic, "move_to", key);
    }
    reply.int(i64::from(moved));
    Ok(())
}

/// A database named by a C `int`, which has an error of its own for numbers beyond 32 bits.
fn db_number(ctx: &Ctx<'_>, arg: &[u8]) -> CmdResult<usize> {
    db_index(arg, ctx.server().keyspace.databases())
}
