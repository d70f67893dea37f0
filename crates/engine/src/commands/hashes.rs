//! Hashes.
//!
//! Specified by Redis's `t_hash.c`. Replies that hold a whole hash are made from an O(1) clone.

use base::float80::LongDouble;
use base::limits::STREAM_PIECE_BYTES;
use base::num::{I64_TEXT_BYTES_MAX, format_i64, parse_i64};
use resp::{Encoder, Proto};
use store::{Hash, Thresholds};

use crate::args::{self, Args};
use crate::commands::random::{Draw, DrawCount};
use crate::commands::scan::{self, Scanned};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

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
    let added = ctx.edit_or_create(key, |hash: &mut Hash| {
        !hash.contains(field) && hash.set(field, value, &thresholds)
    })?;
    if added {
        ctx.notify(Event::Hash, "hset", key);
    }
    reply.int(added.into());
    Ok(())
}

/// HGET key field
pub fn hget(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let value = ctx.read::<Hash>(&args[1])?.and_then(|hash| hash.get(&args[2]));
    reply.encoder().bulk_or_null(value);
    Ok(())
}

/// HMGET key field [field ...]
pub fn hmget(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let hash = ctx.read::<Hash>(&args[1])?;
    let fields = args.from(2);
    reply.array(fields.len());
    let full_bytes = reply.output().pending_bytes() + STREAM_PIECE_BYTES;
    for (index, field) in fields.iter().enumerate() {
        if let Some(hash) = hash
            && reply.output().pending_bytes() > full_bytes
        {
            // A short request may name one long value many times.
            let hash = hash.clone();
            let mut rest = fields.from(index).iter().map(Box::from).collect::<Vec<Box<[u8]>>>().into_iter();
            reply.stream(move |out: &mut Encoder<'_>| {
                if let Some(field) = rest.next() {
                    out.bulk_or_null(hash.get(&field));
                }
                rest.len() > 0
            });
            return Ok(());
        }
        reply.encoder().bulk_or_null(hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

/// HEXISTS key field
pub fn hexists(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = ctx.read::<Hash>(&args[1])?.is_some_and(|hash| hash.contains(&args[2]));
    reply.int(found.into());
    Ok(())
}

/// HLEN key
pub fn hlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<Hash>(&args[1])?.map_or(0, Hash::len) as i64);
    Ok(())
}

/// HSTRLEN key field
pub fn hstrlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let len = ctx.read::<Hash>(&args[1])?.map_or(0, |hash| hash.value_len(&args[2]));
    reply.int(len as i64);
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
    match ctx.read::<Hash>(&args[1])? {
        Some(hash) => {
            reply.map(hash.len());
            stream_all(reply, hash, |out, field, value| {
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
    match ctx.read::<Hash>(&args[1])? {
        Some(hash) => {
            reply.array(hash.len());
            stream_all(reply, hash, show);
        }
        None => reply.empty_array(),
    }
    Ok(())
}

/// All fields; the head of the reply is written.
fn stream_all(reply: &mut Reply<'_>, hash: &Hash, show: Show) {
    let mut fields = hash.iter();
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
    let sum = ctx.edit_or_create(key, |hash: &mut Hash| {
        let current = match hash.get(field) {
            Some(text) => parse_i64(text).ok_or(NOT_INTEGER_FIELD)?,
            None => 0,
        };
        let sum = current.checked_add(increment).ok_or(Fault::OVERFLOW)?;
        hash.set(field, format_i64(sum, &mut [0; I64_TEXT_BYTES_MAX]), &thresholds);
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
    let text = ctx.edit_or_create(key, |hash: &mut Hash| increase(hash, field, increment, &thresholds))??;
    ctx.notify(Event::Hash, "hincrbyfloat", key);
    reply.bulk(&text);
    Ok(())
}

fn increase(
    hash: &mut Hash,
    field: &[u8],
    increment: LongDouble,
    thresholds: &Thresholds,
) -> CmdResult<Vec<u8>> {
    let sum = match hash.get(field) {
        Some(text) => LongDouble::parse(text).ok_or(NOT_FLOAT_FIELD)?.add(increment),
        None => increment,
    };
    if !sum.is_finite() {
        return Err(Fault::NAN_OR_INFINITY);
    }
    let text = sum.format();
    hash.set(field, &text, thresholds);
    Ok(text)
}

/// HRANDFIELD key [count [WITHVALUES]]
pub fn hrandfield(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() == 2 {
        let mut rng = ctx.rng().fork();
        let field = ctx.read::<Hash>(&args[1])?.and_then(|hash| hash.at(rng.usize(..hash.len())));
        reply.encoder().bulk_or_null(field.map(|(field, _)| field));
        return Ok(());
    }
    let (draw, with_values) = DrawCount::parse_pairs(args, "WITHVALUES")?;
    let mut rng = ctx.rng().fork();
    let Some(hash) = ctx.read::<Hash>(&args[1])? else {
        reply.empty_array();
        return Ok(());
    };
    let len = hash.len();
    reply.array_of(draw.drawn(len), with_values);
    let show: Show = match (with_values, reply.proto()) {
        (false, _) => |out, field, _| out.bulk(field),
        (true, Proto::V2) => |out, field, value| {
            out.bulk(field);
            out.bulk(value);
        },
        (true, Proto::V3) => |out, field, value| {
            out.array(2);
            out.bulk(field);
            out.bulk(value);
        },
    };
    if draw.distinct && draw.count >= len {
        stream_all(reply, hash, show);
    } else if draw.distinct {
        stream_ranks(reply, hash.clone(), Draw::new(len, rng).take(draw.count), show);
    } else {
        stream_ranks(reply, hash.clone(), (0..draw.count).map(move |_| rng.usize(..len)), show);
    }
    Ok(())
}

/// The fields of these ranks; the head of the reply is written.
fn stream_ranks(
    reply: &mut Reply<'_>,
    hash: Hash,
    mut ranks: impl Iterator<Item = usize> + Send + 'static,
    show: Show,
) {
    reply.stream(move |out: &mut Encoder<'_>| match ranks.next().and_then(|rank| hash.at(rank)) {
        Some((field, value)) => {
            show(out, field, value);
            true
        }
        None => false,
    });
}

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
pub fn hscan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let cursor = scan::cursor(&args[2])?;
    // As in Redis, nothing is said about the options where there is no key.
    let Some(hash) = ctx.read::<Hash>(&args[1])? else {
        scan::reply(reply, 0, 0, &[]);
        return Ok(());
    };
    let options = scan::Options::parse(args.from(3), Scanned::Fields)?;
    let (mut found, mut encoded) = (0, Vec::new());
    let mut out = Encoder::new(&mut encoded, reply.proto());
    let next = hash.scan(cursor, options.count, &mut |field, value| {
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
