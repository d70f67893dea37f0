//! Commands over a whole database: walking, counting, emptying and swapping. They name no keys, so nothing
//! is locked when they start; the keyspace locks what it visits, a stripe at a time.

use base::glob;
use base::limits::BIG_INPUT_ELEMENTS;
use store::Instant;

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::server::Server;

/// Keys visited between two looks at whether to go on, where a walk must end by itself.
const WALK_STEP_KEYS: usize = 1024;
/// Keys that one SCAN call visits unless it asks for another number.
const SCAN_COUNT_DEFAULT: i64 = 10;
/// Chances that RANDOMKEY takes to meet a key that has not expired.
const RANDOM_TRIES_MAX: usize = 100;

pub(crate) fn dbsize(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().keyspace.len(ctx.db()) as i64);
    Ok(())
}

pub(crate) fn keys(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (db, now_ms) = (ctx.db(), ctx.now_ms());
    if ctx.server().keyspace.len(db) <= BIG_INPUT_ELEMENTS {
        matching_keys(ctx.server(), db, now_ms, &args[1]).answer(reply);
        return Ok(());
    }
    let pattern = args[1].to_vec();
    ctx.defer(move |lane: &mut Lane<'_>| {
        matching_keys(lane.server(), db, now_ms, &pattern).answer(&mut lane.reply());
        Ok(())
    });
    Ok(())
}

fn matching_keys(server: &Server, db: usize, now_ms: i64, pattern: &[u8]) -> Packed {
    let mut found = Packed::default();
    let mut cursor = 0;
    loop {
        cursor = server.keyspace.scan(db, cursor, WALK_STEP_KEYS, now_ms, &mut |key, _| {
            if pattern == b"*" || glob::matches(pattern, key, false) {
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

/// What one SCAN call was asked for.
struct Scan {
    cursor: u64,
    pattern: Option<Vec<u8>>,
    count: usize,
    kind: Option<Vec<u8>>,
}

impl Scan {
    fn parse(args: Args<'_>) -> CmdResult<Self> {
        let mut scan =
            Self { cursor: cursor(&args[1])?, pattern: None, count: SCAN_COUNT_DEFAULT as usize, kind: None };
        let mut at = 2;
        while let Some(word) = args.get(at) {
            if is(word, "NOVALUES") {
                return Err(Fault::Text("ERR NOVALUES option can only be used in HSCAN"));
            }
            let value = args.get(at + 1).ok_or(Fault::SYNTAX)?;
            if is(word, "COUNT") {
                let count = int(value)?;
                scan.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Fault::SYNTAX)?;
            } else if is(word, "MATCH") {
                scan.pattern = (value != b"*").then(|| value.to_vec());
            } else if is(word, "TYPE") {
                scan.kind = Some(value.to_ascii_lowercase());
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 2;
        }
        Ok(scan)
    }

    /// The cursor to go on with, and the keys found.
    fn run(&self, server: &Server, db: usize, now_ms: i64) -> (u64, Packed) {
        let mut found = Packed::default();
        let next = server.keyspace.scan(db, self.cursor, self.count, now_ms, &mut |key, view| {
            let type_fits = self.kind.as_ref().is_none_or(|kind| kind == view.kind().as_str().as_bytes());
            if type_fits && self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, key, false)) {
                found.push(key);
            }
        });
        (next, found)
    }
}

fn answer_scan((next, found): (u64, Packed), reply: &mut Reply<'_>) {
    reply.array(2);
    reply.text(&next.to_string());
    found.answer(reply);
}

pub(crate) fn scan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let scan = Scan::parse(args)?;
    let (db, now_ms) = (ctx.db(), ctx.now_ms());
    if scan.count.min(ctx.server().keyspace.len(db)) <= BIG_INPUT_ELEMENTS {
        answer_scan(scan.run(ctx.server(), db, now_ms), reply);
        return Ok(());
    }
    ctx.defer(move |lane: &mut Lane<'_>| {
        let found = scan.run(lane.server(), db, now_ms);
        answer_scan(found, &mut lane.reply());
        Ok(())
    });
    Ok(())
}

/// A cursor, read as C's `strtoul` does: leading zeros and a sign are taken, and a negative one wraps around.
pub(crate) fn cursor(arg: &[u8]) -> CmdResult<u64> {
    let (negative, digits) = match arg {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() && !arg.is_empty() {
        return Err(Fault::INVALID_CURSOR);
    }
    let mut cursor = 0u64;
    for digit in digits {
        let value = digit.checked_sub(b'0').filter(|value| *value <= 9).ok_or(Fault::INVALID_CURSOR)?;
        let longer = cursor.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(value)));
        cursor = longer.ok_or(Fault::INVALID_CURSOR)?;
    }
    Ok(if negative { cursor.wrapping_neg() } else { cursor })
}

pub(crate) fn randomkey(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, db, now_ms) = (ctx.server(), ctx.db(), ctx.now_ms());
    for _ in 0..RANDOM_TRIES_MAX {
        let Some(key) = server.keyspace.random_key(db, ctx.rng()) else { break };
        if is_live(server, db, &key, now_ms) {
            reply.bulk(&key);
            return Ok(());
        }
    }
    // Nearly all keys have expired: any live one is as good as another.
    match first_live_key(server, db, now_ms) {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(())
}

fn is_live(server: &Server, db: usize, key: &[u8], now_ms: i64) -> bool {
    let position = server.keyspace.position(key);
    let at = Instant { now_ms, touch: None };
    server.keyspace.lock(position).get(db, position, key, at).is_some()
}

fn first_live_key(server: &Server, db: usize, now_ms: i64) -> Option<Vec<u8>> {
    let (mut found, mut cursor) = (None, 0);
    loop {
        cursor = server.keyspace.scan(db, cursor, WALK_STEP_KEYS, now_ms, &mut |key, _| {
            found.get_or_insert_with(|| key.to_vec());
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
    let removed = ctx.server().keyspace.flush(db);
    ctx.stats().dirty.add(removed as u64);
    reply.ok();
    Ok(())
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
        (Some(first), Some(second)) => keyspace.swap(first, second),
        _ => return Err(Fault::DB_OUT_OF_RANGE),
    }
    reply.ok();
    Ok(())
}
