//! Hashes.
//!
//! Specified by Redis's `t_hash.c`. Replies that hold a whole hash are made from an O(1) clone.
//!
//! Fields may end (`expiry`). A field past its end is absent for all who name it, and who names it removes it; HLEN,
//! HSET and HDEL, as in Redis, still see it until then.

pub(crate) mod expiry;
pub(crate) mod lapse;
mod random;
pub(crate) mod together;

use base::float80::LongDouble;
use base::limits::STREAM_PIECE_BYTES;
use base::num::{I64_TEXT_BYTES_MAX, format_i64, parse_i64};
use resp::Encoder;
use store::{Hash, HashIter, Thresholds};

use crate::args::{self, Args};
use crate::commands::scan::{self, Scanned};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub(crate) use random::hrandfield;

const NOT_INTEGER_FIELD: Fault = Fault::Text("ERR hash value is not an integer");
const NOT_FLOAT_FIELD: Fault = Fault::Text("ERR hash value is not a float");
const NAN_OR_INFINITY_ARGUMENT: Fault = Fault::Text("ERR value is NaN or Infinity");

/// HSET key field value [field value ...]
pub fn hset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let added = set_pairs(ctx, args, "hset")?;
    reply.int(added as i64);
    Ok(())
}

/// HMSET key field value [field value ...]
pub fn hmset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_pairs(ctx, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// Sets all pairs and returns the number of new fields.
fn set_pairs(ctx: &mut Ctx<'_>, args: Args<'_>, command: &str) -> CmdResult<usize> {
    let (key, pairs, thresholds) = (&args[1], args.from(2), ctx.thresholds());
    if !pairs.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity(command));
    }
    let added = ctx.edit_or_create(key, |hash: &mut Hash| {
        let starts = (0..pairs.len()).step_by(2);
        starts.filter(|&at| hash.set(&pairs[at], &pairs[at + 1], &thresholds)).count()
    })?;
    ctx.notify(Event::Hash, "hset", key);
    Ok(added)
}

/// HSETNX key field value
pub fn hsetnx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, value, thresholds) = (&args[1], &args[2], &args[3], ctx.thresholds());
    let now_ms = ctx.ends_now_ms();
    let added = lapse::edit_field(ctx, key, field, |hash| {
        !hash.contains(field, now_ms) && hash.set(field, value, &thresholds)
    })?;
    if added {
        ctx.notify(Event::Hash, "hset", key);
    }
    reply.int(added.into());
    Ok(())
}

/// HGET key field
pub fn hget(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, now_ms) = (&args[1], &args[2], ctx.ends_now_ms());
    let hash = ctx.read::<Hash>(key)?;
    let value = hash.and_then(|hash| hash.get(field, now_ms));
    reply.encoder().bulk_or_null(value);
    let is_past = value.is_none() && hash.is_some_and(|hash| hash.is_past_end(field, now_ms));
    lapse::remove_met(ctx, key, is_past, field);
    Ok(())
}

/// HMGET key field [field ...]
pub fn hmget(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, fields, now_ms) = (&args[1], args.from(2), ctx.ends_now_ms());
    let hash = ctx.read::<Hash>(key)?;
    write_values(reply, hash, fields, now_ms, |_| true);
    if hash.is_some_and(|hash| hash.past_len(now_ms) > 0) {
        lapse::remove_past(ctx, key, fields);
    }
    Ok(())
}

/// The values of `fields`, as an array, but null for those whose index is not `shown`.
fn write_values(
    reply: &mut Reply<'_>,
    hash: Option<&Hash>,
    fields: Args<'_>,
    now_ms: i64,
    shown: impl Fn(usize) -> bool,
) {
    reply.array(fields.len());
    let full_bytes = reply.output().pending_bytes() + STREAM_PIECE_BYTES;
    for (index, field) in fields.iter().enumerate() {
        if let Some(hash) = hash
            && reply.output().pending_bytes() > full_bytes
        {
            // A short request may name one long value many times.
            let hash = hash.clone();
            let rest = fields.from(index).iter().enumerate();
            let rest: Vec<Option<Box<[u8]>>> =
                rest.map(|(more, field)| shown(index + more).then(|| Box::from(field))).collect();
            let mut rest = rest.into_iter();
            reply.stream(move |out: &mut Encoder<'_>| {
                if let Some(field) = rest.next() {
                    out.bulk_or_null(field.as_deref().and_then(|field| hash.get(field, now_ms)));
                }
                rest.len() > 0
            });
            return;
        }
        let hash = hash.filter(|_| shown(index));
        reply.encoder().bulk_or_null(hash.and_then(|hash| hash.get(field, now_ms)));
    }
}

/// HEXISTS key field
pub fn hexists(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, now_ms) = (&args[1], &args[2], ctx.ends_now_ms());
    let hash = ctx.read::<Hash>(key)?;
    reply.int(hash.is_some_and(|hash| hash.contains(field, now_ms)).into());
    let is_past = hash.is_some_and(|hash| hash.is_past_end(field, now_ms));
    lapse::remove_met(ctx, key, is_past, field);
    Ok(())
}

/// HLEN key
pub fn hlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<Hash>(&args[1])?.map_or(0, Hash::len) as i64);
    Ok(())
}

/// HSTRLEN key field
pub fn hstrlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, now_ms) = (&args[1], &args[2], ctx.ends_now_ms());
    let hash = ctx.read::<Hash>(key)?;
    reply.int(hash.map_or(0, |hash| hash.value_len(field, now_ms)) as i64);
    let is_past = hash.is_some_and(|hash| hash.is_past_end(field, now_ms));
    lapse::remove_met(ctx, key, is_past, field);
    Ok(())
}

/// HDEL key field [field ...]
pub fn hdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let outcome = ctx.edit(key, |hash: &mut Hash| {
        let gone = args.from(2).iter().filter(|field| hash.remove(field)).count();
        (gone, hash.is_empty())
    })?;
    let (gone, emptied) = outcome.unwrap_or((0, false));
    if gone > 0 {
        ctx.notify_removed(Event::Hash, "hdel", key, emptied);
    }
    reply.int(gone as i64);
    Ok(())
}

/// HGETALL key
pub fn hgetall(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let now_ms = ctx.ends_now_ms();
    match ctx.read::<Hash>(&args[1])? {
        Some(hash) => {
            let fields = hash.live_iter(now_ms);
            reply.map(fields.remaining());
            stream_all(reply, fields, |out, field, value| {
                out.bulk(field);
                out.bulk(value);
            });
        }
        None => reply.map(0),
    }
    Ok(())
}

/// HKEYS key
pub fn hkeys(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    array_of_all(ctx, args, reply, |out, field, _| out.bulk(field))
}

/// HVALS key
pub fn hvals(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    array_of_all(ctx, args, reply, |out, _, value| out.bulk(value))
}

/// Writes what a reply shows of a field and its value.
type Show = fn(&mut Encoder<'_>, &[u8], &[u8]);

fn array_of_all(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, show: Show) -> CmdResult {
    let now_ms = ctx.ends_now_ms();
    match ctx.read::<Hash>(&args[1])? {
        Some(hash) => {
            let fields = hash.live_iter(now_ms);
            reply.array(fields.remaining());
            stream_all(reply, fields, show);
        }
        None => reply.empty_array(),
    }
    Ok(())
}

/// All fields; the head of the reply is written.
fn stream_all(reply: &mut Reply<'_>, mut fields: HashIter, show: Show) {
    reply.stream(move |out: &mut Encoder<'_>| {
        if let Some((field, value)) = fields.next() {
            show(out, field, value);
        }
        fields.remaining() > 0
    });
}

/// HINCRBY key field increment
pub fn hincrby(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, increment, thresholds) = (&args[1], &args[2], args::int(&args[3])?, ctx.thresholds());
    let now_ms = ctx.ends_now_ms();
    let sum = lapse::edit_field(ctx, key, field, |hash| {
        let current = match hash.get(field, now_ms) {
            Some(text) => parse_i64(text).ok_or(NOT_INTEGER_FIELD)?,
            None => 0,
        };
        let sum = current.checked_add(increment).ok_or(Fault::OVERFLOW)?;
        hash.set_value(field, format_i64(sum, &mut [0; I64_TEXT_BYTES_MAX]), &thresholds);
        CmdResult::Ok(sum)
    })??;
    ctx.notify(Event::Hash, "hincrby", key);
    reply.int(sum);
    Ok(())
}

/// HINCRBYFLOAT key field increment
pub fn hincrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, field, thresholds) = (&args[1], &args[2], ctx.thresholds());
    let increment = LongDouble::parse(&args[3]).ok_or(Fault::NOT_FLOAT)?;
    if !increment.is_finite() {
        return Err(NAN_OR_INFINITY_ARGUMENT);
    }
    let now_ms = ctx.ends_now_ms();
    let (text, has_end) = lapse::edit_field(ctx, key, field, |hash| {
        let text = increase(hash, field, increment, &thresholds, now_ms)?;
        CmdResult::Ok((text, hash.end_ms(field).flatten().is_some()))
    })??;
    ctx.notify(Event::Hash, "hincrbyfloat", key);
    // Another machine may add floats in another way.
    if has_end {
        ctx.effect(&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text]);
    } else {
        ctx.effect(&[b"HSET", key, field, &text]);
    }
    reply.bulk(&text);
    Ok(())
}

fn increase(
    hash: &mut Hash,
    field: &[u8],
    increment: LongDouble,
    thresholds: &Thresholds,
    now_ms: i64,
) -> CmdResult<Vec<u8>> {
    let sum = match hash.get(field, now_ms) {
        Some(text) => LongDouble::parse(text).ok_or(NOT_FLOAT_FIELD)?.add(increment),
        None => increment,
    };
    if !sum.is_finite() {
        return Err(Fault::NAN_OR_INFINITY);
    }
    let text = sum.format();
    hash.set_value(field, &text, thresholds);
    Ok(text)
}

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
pub fn hscan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (cursor, now_ms) = (scan::cursor(&args[2])?, ctx.ends_now_ms());
    // As in Redis, nothing is said about the options where there is no key.
    let Some(hash) = ctx.read::<Hash>(&args[1])? else {
        scan::reply(reply, 0, 0, &[]);
        return Ok(());
    };
    let options = scan::Options::parse(args.from(3), Scanned::Fields)?;
    let (mut found, mut encoded) = (0, Vec::new());
    let mut out = Encoder::new(&mut encoded, reply.proto());
    let next = hash.scan(cursor, options.count, now_ms, &mut |field, value| {
        if !options.matches(field) {
            return;
        }
        out.bulk(field);
        found += 1;
        if !options.no_values {
            out.bulk(value);
            found += 1;
        }
    });
    scan::reply(reply, next, found, &encoded);
    Ok(())
}
