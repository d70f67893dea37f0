//! Strings: reading and writing whole values. Counters, parts of strings and LCS have files of their own.

pub(crate) mod counters;
mod lcs;
pub(crate) mod parts;
pub(crate) mod subsequence;

use base::num::{I64_TEXT_BYTES_MAX, format_i64};
use store::Expiry;

use super::keys::expiry::{Origin, Unit, expire_or_delete, positive_expire_at_ms};
use crate::args::{Args, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub(crate) fn get(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match ctx.read_str(&args[1])? {
        Some(value) => reply.bulk_str(value),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn set(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, value) = (&args[1], &args[2]);
    let mut expiry = Expiry::Clear;
    if args.len() > 3 {
        let options = SetOptions::parse(args)?;
        expiry = options.expiry(ctx.now_ms())?;
        let allowed = match options.condition {
            Condition::Always => true,
            Condition::IfAbsent => !ctx.exists_in(ctx.db(), key),
            Condition::IfPresent => ctx.exists_in(ctx.db(), key),
        };
        match (options.get, allowed) {
            (true, _) => get(ctx, args, reply)?,
            (false, true) => reply.ok(),
            (false, false) => reply.null(),
        }
        if !allowed {
            return Ok(());
        }
        write(ctx, key, value, expiry);
        tell_set(ctx, args, options.get, expiry);
    } else {
        reply.ok();
        write(ctx, key, value, expiry);
    }
    Ok(())
}

/// The effect of a SET with options: its end is a time, and it answers nothing.
fn tell_set(ctx: &mut Ctx<'_>, args: Args<'_>, answers: bool, expiry: Expiry) {
    let (key, value) = (&args[1], &args[2]);
    if let Expiry::At(at_ms) = expiry {
        tell_value_until(ctx, key, value, at_ms);
    } else if answers && ctx.is_journaled() {
        let words: Vec<&[u8]> = args.from(3).iter().filter(|word| !is(word, "GET")).collect();
        ctx.effect_with(&[&args[0], key, value], Args::from_slices(&words));
    }
}

fn tell_value_until(ctx: &mut Ctx<'_>, key: &[u8], value: &[u8], at_ms: i64) {
    ctx.effect(&[b"SET", key, value, b"PXAT", format_i64(at_ms, &mut [0; I64_TEXT_BYTES_MAX])]);
}

pub(crate) fn setnx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let absent = !ctx.exists_in(ctx.db(), &args[1]);
    if absent {
        write(ctx, &args[1], &args[2], Expiry::Clear);
    }
    reply.int(i64::from(absent));
    Ok(())
}

pub(crate) fn setex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiring(ctx, args, reply, Unit::Seconds, "setex")
}

pub(crate) fn psetex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiring(ctx, args, reply, Unit::Milliseconds, "psetex")
}

fn set_expiring(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    unit: Unit,
    command: &str,
) -> CmdResult {
    let at_ms = positive_expire_at_ms(&args[2], unit, Origin::Now, ctx.now_ms(), command)?;
    write(ctx, &args[1], &args[3], Expiry::At(at_ms));
    tell_value_until(ctx, &args[1], &args[3], at_ms);
    reply.ok();
    Ok(())
}

pub(crate) fn getset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    get(ctx, args, reply)?;
    write(ctx, &args[1], &args[2], Expiry::Clear);
    ctx.effect(&[b"SET", &args[1], &args[2]]);
    Ok(())
}

pub(crate) fn getdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    get(ctx, args, reply)?;
    if ctx.delete(&args[1]) {
        ctx.notify(Event::Generic, "del", &args[1]);
        let is_lazy = ctx.server().config.hot().lazyfree_lazy_user_del();
        ctx.effect_removal(is_lazy, &args[1]);
    }
    Ok(())
}

pub(crate) fn getex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let options = GetexOptions::parse(args)?;
    match ctx.read_str(key)? {
        Some(value) => reply.bulk_str(value),
        None => {
            reply.null();
            return Ok(());
        }
    }
    if let Some(expire) = options.expire {
        let now_ms = ctx.now_ms();
        let at_ms = expire.at_ms(now_ms, "getex")?;
        expire_or_delete(ctx, key, at_ms, Args::from_slices(&[]));
    } else if options.persist && ctx.expire_at_ms(key).flatten().is_some() {
        ctx.set_expire_at_ms(key, None);
        ctx.notify(Event::Generic, "persist", key);
        ctx.effect(&[b"PERSIST", key]);
    }
    Ok(())
}

pub(crate) fn strlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let length_bytes = ctx.read_str(&args[1])?.map_or(0, |value| value.len());
    reply.int(length_bytes as i64);
    Ok(())
}

pub(crate) fn mget(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.array(args.len() - 1);
    for key in args.from(1).iter() {
        // A value of another type reads as none.
        match ctx.read_str(key) {
            Ok(Some(value)) => reply.bulk_str(value),
            Ok(None) | Err(_) => reply.null(),
        }
    }
    Ok(())
}

pub(crate) fn mset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity("mset"));
    }
    write_pairs(ctx, args);
    reply.ok();
    Ok(())
}

pub(crate) fn msetnx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity("msetnx"));
    }
    let absent = !args.from(1).iter().step_by(2).any(|key| ctx.exists_in(ctx.db(), key));
    if absent {
        write_pairs(ctx, args);
    }
    reply.int(i64::from(absent));
    Ok(())
}

fn write_pairs(ctx: &mut Ctx<'_>, args: Args<'_>) {
    for at in (1..args.len()).step_by(2) {
        write(ctx, &args[at], &args[at + 1], Expiry::Clear);
    }
}

/// Stores a value and tells of it as SET does.
fn write(ctx: &mut Ctx<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    ctx.put_str(key, value, expiry);
    ctx.notify(Event::String, "set", key);
    if let Expiry::At(_) = expiry {
        ctx.notify(Event::Generic, "expire", key);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// A word like `EX 10` in SET or GETEX.
#[derive(Clone, Copy)]
struct ExpireOption<'a> {
    amount: &'a [u8],
    unit: Unit,
    origin: Origin,
}

impl<'a> ExpireOption<'a> {
    /// The option that `word` names, with its amount. It may be repeated, but not joined with `earlier` ones
    /// of its like.
    fn parse(word: &[u8], amount: Option<&'a [u8]>, earlier: Option<Self>) -> CmdResult<Self> {
        let (unit, origin) = match word.len() {
            2 if is(word, "EX") => (Unit::Seconds, Origin::Now),
            2 if is(word, "PX") => (Unit::Milliseconds, Origin::Now),
            4 if is(word, "EXAT") => (Unit::Seconds, Origin::Epoch),
            4 if is(word, "PXAT") => (Unit::Milliseconds, Origin::Epoch),
            _ => return Err(Fault::SYNTAX),
        };
        if earlier.is_some_and(|earlier| (earlier.unit, earlier.origin) != (unit, origin)) {
            return Err(Fault::SYNTAX);
        }
        Ok(Self { amount: amount.ok_or(Fault::SYNTAX)?, unit, origin })
    }

    fn at_ms(&self, now_ms: i64, command: &str) -> CmdResult<i64> {
        positive_expire_at_ms(self.amount, self.unit, self.origin, now_ms, command)
    }
}

struct SetOptions<'a> {
    condition: Condition,
    get: bool,
    keep_ttl: bool,
    expire: Option<ExpireOption<'a>>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>) -> CmdResult<Self> {
        let mut options = Self { condition: Condition::Always, get: false, keep_ttl: false, expire: None };
        let mut at = 3;
        while let Some(word) = args.get(at) {
            if is(word, "NX") && options.condition != Condition::IfPresent {
                options.condition = Condition::IfAbsent;
            } else if is(word, "XX") && options.condition != Condition::IfAbsent {
                options.condition = Condition::IfPresent;
            } else if is(word, "GET") {
                options.get = true;
            } else if is(word, "KEEPTTL") && options.expire.is_none() {
                options.keep_ttl = true;
            } else {
                if options.keep_ttl {
                    return Err(Fault::SYNTAX);
                }
                options.expire = Some(ExpireOption::parse(word, args.get(at + 1), options.expire)?);
                at += 1;
            }
            at += 1;
        }
        Ok(options)
    }

    fn expiry(&self, now_ms: i64) -> CmdResult<Expiry> {
        Ok(match &self.expire {
            Some(expire) => Expiry::At(expire.at_ms(now_ms, "set")?),
            None if self.keep_ttl => Expiry::Keep,
            None => Expiry::Clear,
        })
    }
}

#[derive(Default)]
struct GetexOptions<'a> {
    persist: bool,
    expire: Option<ExpireOption<'a>>,
}

impl<'a> GetexOptions<'a> {
    fn parse(args: Args<'a>) -> CmdResult<Self> {
        let mut options = Self::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            if is(word, "PERSIST") && options.expire.is_none() {
                options.persist = true;
            } else if options.persist {
                return Err(Fault::SYNTAX);
            } else {
                options.expire = Some(ExpireOption::parse(word, args.get(at + 1), options.expire)?);
                at += 1;
            }
            at += 1;
        }
        Ok(options)
    }
}
