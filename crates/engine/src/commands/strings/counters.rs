//! Strings that hold numbers: INCR and its kin.

use base::float80::{FloatError, add_text};
use base::num::{I64_TEXT_BYTES_MAX, format_i64, parse_i64};
use store::Expiry;

use crate::args::{Args, int};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::Str;

const NEGATION_OVERFLOW: Fault = Fault::Text("ERR decrement would overflow");
/// More bytes than any text of a float has (5 KiB, to Redis).
const FLOAT_READ_BYTES_MAX: usize = 8 * 1024;

pub(crate) fn incr(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    add(ctx, &args[1], 1, reply)
}

pub(crate) fn decr(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    add(ctx, &args[1], -1, reply)
}

pub(crate) fn incrby(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    add(ctx, &args[1], int(&args[2])?, reply)
}

pub(crate) fn decrby(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let decrement = int(&args[2])?;
    add(ctx, &args[1], decrement.checked_neg().ok_or(NEGATION_OVERFLOW)?, reply)
}

fn add(ctx: &mut Ctx<'_>, key: &[u8], increment: i64, reply: &mut Reply<'_>) -> CmdResult {
    let current = match ctx.peek_str(key)? {
        None => 0,
        Some(text) => text.as_inline().and_then(parse_i64).ok_or(Fault::NOT_INTEGER)?,
    };
    let sum = current.checked_add(increment).ok_or(Fault::OVERFLOW)?;
    ctx.put_str(key, format_i64(sum, &mut [0; I64_TEXT_BYTES_MAX]), Expiry::Keep);
    ctx.notify(Event::String, "incrby", key);
    reply.int(sum);
    Ok(())
}

pub(crate) fn incrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let sum = match ctx.peek_str(key)? {
        None => add_text(b"0", &args[2]),
        Some(Str::Inline(text)) => add_text(text, &args[2]),
        // A longer text is no number; enough of it is read for that to show.
        Some(Str::Long(text)) => add_text(&text.read(0..FLOAT_READ_BYTES_MAX), &args[2]),
    };
    let sum = sum.map_err(|error| match error {
        FloatError::NotAFloat => Fault::NOT_FLOAT,
        FloatError::NanOrInfinity => Fault::NAN_OR_INFINITY,
    })?;
    ctx.put_float_str(key, &sum);
    ctx.notify(Event::String, "incrbyfloat", key);
    // Another machine may add floats in another way.
    ctx.effect(&[b"SET", key, &sum, b"KEEPTTL"]);
    reply.bulk(&sum);
    Ok(())
}
