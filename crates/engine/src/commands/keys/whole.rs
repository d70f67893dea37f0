//! Commands over a whole database: walking, counting, emptying and swapping. They name no keys, so nothing
//! is locked when they start; the keyspace locks what it visits, a stripe at a time.

use base::glob;
use base::limits::BIG_INPUT_ELEMENTS;
use store::Locked;

use crate::args::{Args, int, is};
use crate::commands::scan::{self, Options, Scanned};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::server::Server;
use crate::tracking;

/// Keys visited between two looks at whether to go on, where a walk must end by itself.
const WALK_STEP_KEYS: usize = 1024;
/// Chances that RANDOMKEY takes to meet a key that has not expired.
const RANDOM_TRIES_MAX: usize = 100;

pub(crate) fn dbsize(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let hidden = if ctx.db() == 0 { server.hidden_keys() } else { 0 };
    reply.int(server.keyspace.len(ctx.db()).saturating_sub(hidden) as i64);
    Ok(())
}

pub(crate) fn keys(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (db, now_ms) = (ctx.db(), ctx.now_ms());
    if ctx.server().keyspace.len(db) <= BIG_INPUT_ELEMENTS {
        matching_keys(ctx.server(), ctx.held(), db, now_ms, &args[1]).answer(reply);
        return Ok(());
    }
    let pattern = args[1].to_vec();
    ctx.defer(move |lane: &mut Lane<'_>| {
        matching_keys(lane.server(), lane.held(), db, now_ms, &pattern).answer(&mut lane.reply());
        Ok(())
    });
    Ok(())
}

fn matching_keys(
    server: &Server,
    held: Option<&Locked<'_>>,
    db: usize,
    now_ms: i64,
    pattern: &[u8],
) -> Packed {
    let mut found = Packed::default();
    let mut cursor = 0;
    loop {
        cursor = server.keyspace.scan(held, db, cursor, WALK_STEP_KEYS, now_ms, &mut |key, _| {
            if (pattern == b"*" || glob::matches(pattern, key, false)) && !server.hides_key(key) {
                found.push(key);
            }
        });
        if cursor == 0 {
            return found;
        }
    }
}

/// Many keys, one after another in one piece of memory.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Answers an array of the keys, in pieces when they are many.
    fn answer(self, reply: &mut Reply<'_>) {
        let (mut at, mut start) = (0, 0);
        reply.array(self.ends.len());
        reply.stream(move |out: &mut resp::Encoder<'_>| {
            let Some(end) = self.ends.get(at) else { return false };
            out.bulk(&self.bytes[start..*end]);
            (at, start) = (at + 1, *end);
            at < self.ends.len()
        });
    }
}

/// The cursor to go on with, and the keys found.
fn scan_keys(
    server: &Server,
    held: Option<&Locked<'_>>,
    db: usize,
    cursor: u64,
    options: &Options,
    now_ms: i64,
) -> (u64, Packed) {
    let mut found = Packed::default();
    let next = server.keyspace.scan(held, db, cursor, options.count, now_ms, &mut |key, view| {
        if options.wants(view.kind()) && options.matches(key) && !server.hides_key(key) {
            found.push(key);
        }
    });
    (next, found)
}

fn answer_scan((next, found): (u64, Packed), reply: &mut Reply<'_>) {
    reply.array(2);
    reply.text(&next.to_string());
    found.answer(reply);
}

pub(crate) fn scan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let cursor = scan::cursor(&args[1])?;
    let options = Options::parse(args.from(2), Scanned::Keys)?;
    let (db, now_ms) = (ctx.db(), ctx.now_ms());
    if options.count.min(ctx.server().keyspace.len(db)) <= BIG_INPUT_ELEMENTS {
        answer_scan(scan_keys(ctx.server(), ctx.held(), db, cursor, &options, now_ms), reply);
        return Ok(());
    }
    ctx.defer(move |lane: &mut Lane<'_>| {
        let found = scan_keys(lane.server(), lane.held(), db, cursor, &options, now_ms);
        answer_scan(found, &mut lane.reply());
        Ok(())
    });
    Ok(())
}

pub(crate) fn randomkey(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, db, now_ms) = (ctx.server(), ctx.db(), ctx.now_ms());
    for _ in 0..RANDOM_TRIES_MAX {
        let mut rng = ctx.rng().fork();
        let Some(key) = server.keyspace.random_key(ctx.held(), db, &mut rng) else { break };
        if !server.hides_key(&key) && ctx.visit(db, &key, |view| view.is_some()) {
            reply.bulk(&key);
            return Ok(());
        }
    }
    // Nearly all keys have expired: any live one is as good as another.
    let answer = |key: Option<Vec<u8>>, reply: &mut Reply<'_>| match key {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    };
    if server.keyspace.len(db) <= BIG_INPUT_ELEMENTS {
        answer(first_live_key(server, ctx.held(), db, now_ms), reply);
        return Ok(());
    }
    ctx.defer(move |lane: &mut Lane<'_>| {
        let key = first_live_key(lane.server(), lane.held(), db, now_ms);
        answer(key, &mut lane.reply());
        Ok(())
    });
    Ok(())
}

fn first_live_key(server: &Server, held: Option<&Locked<'_>>, db: usize, now_ms: i64) -> Option<Vec<u8>> {
    let (mut found, mut cursor) = (None, 0);
    loop {
        cursor = server.keyspace.scan(held, db, cursor, WALK_STEP_KEYS, now_ms, &mut |key, _| {
            if found.is_none() && !server.hides_key(key) {
                found = Some(key.to_vec());
            }
        });
        if cursor == 0 || found.is_some() {
            return found;
        }
    }
}

pub(crate) fn flushdb(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let db = ctx.db();
    flush(ctx, args, reply, Some(db))
}

pub(crate) fn flushall(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    flush(ctx, args, reply, None)
}

/// ASYNC and SYNC mean the same here: the keys are gone at once and their memory is freed in the background.
fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, db: Option<usize>) -> CmdResult {
    match args.get(1) {
        None => {}
        Some(word) if args.len() == 2 && (is(word, "ASYNC") || is(word, "SYNC")) => {}
        Some(_) => return Err(Fault::SYNTAX),
    }
    let removed = empty(ctx, db);
    ctx.stats().dirty.add(removed as u64);
    // Told even if there was nothing, as Redis does.
    ctx.effect_with(&[], args);
    reply.ok();
    Ok(())
}

/// Empties a database or all, and tells those who watch them or track their keys. Returns how many keys there were. Every
/// stripe is held.
pub(crate) fn empty(ctx: &mut Ctx<'_>, db: Option<usize>) -> usize {
    let dbs: Vec<usize> = db.map_or(0..ctx.server().keyspace.databases(), |db| db..db + 1).collect();
    for db in &dbs {
        ctx.touch_watched(&[*db], &[*db]);
    }
    let removed = ctx.locked_all().flush(db);
    ctx.server().spoil_imports();
    ctx.notify_databases(&dbs);
    if ctx.server().tracking.any() {
        tracking::invalidate_all(ctx.server(), Some(ctx.worker()));
    }
    removed
}

/// Empties every database, and says so in the log, as FLUSHALL does; off the workers.
pub(crate) fn empty_all(lane: &mut Lane<'_>) -> CmdResult {
    lane.with_stripes(None, |ctx, _| {
        empty(ctx, None);
        ctx.effect(&[b"FLUSHALL"]);
        Ok(())
    })
}

pub(crate) fn swapdb(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.server().config.bool("cluster-enabled") {
        return Err(Fault::Text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let number = |arg: &[u8], fault| int(arg).ok().and_then(|number| i32::try_from(number).ok()).ok_or(fault);
    let first = number(&args[1], Fault::Text("ERR invalid first DB index"))?;
    let second = number(&args[2], Fault::Text("ERR invalid second DB index"))?;
    let keyspace = &ctx.server().keyspace;
    let existing = |number| usize::try_from(number).ok().filter(|db| *db < keyspace.databases());
    match (existing(first), existing(second)) {
        (Some(first), Some(second)) => {
            ctx.touch_watched(&[first, second], &[first, second]);
            ctx.locked_all().swap(first, second);
            ctx.notify_databases(&[first, second]);
            ctx.stats().dirty.add(1);
        }
        _ => return Err(Fault::DB_OUT_OF_RANGE),
    }
    reply.ok();
    Ok(())
}
