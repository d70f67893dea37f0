//! Times to live: EXPIRE and its kin, TTL and its kin, PERSIST.

use base::num::{I64_TEXT_BYTES_MAX, format_i64};

use super::facts;
use crate::args::{Args, int, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What a client counts time in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// Where a client counts time from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Origin {
    /// The moment of the command.
    Now,
    /// The start of 1970, UTC.
    Epoch,
}

/// The Unix time in milliseconds that an amount means; `None` when it does not fit 64 bits.
fn expire_at_ms(amount: i64, unit: Unit, origin: Origin, now_ms: i64) -> Option<i64> {
    let amount_ms = match unit {
        Unit::Seconds => amount.checked_mul(1000)?,
        Unit::Milliseconds => amount,
    };
    match origin {
        Origin::Now => amount_ms.checked_add(now_ms),
        Origin::Epoch => Some(amount_ms),
    }
}

/// The expiry that SET, GETEX, SETEX and PSETEX ask for: `amount` must be a positive integer and must not
/// overflow.
pub(crate) fn positive_expire_at_ms(
    amount: &[u8],
    unit: Unit,
    origin: Origin,
    now_ms: i64,
    command: &str,
) -> CmdResult<i64> {
    let amount = int(amount)?;
    let at_ms = expire_at_ms(amount, unit, origin, now_ms).filter(|_| amount > 0);
    at_ms.ok_or_else(|| Fault::invalid_expire(command))
}

/// Gives a key its end; one that has passed already deletes it. False if there is no such key. The effect ends with
/// `conditions`.
pub(crate) fn expire_or_delete(ctx: &mut Ctx<'_>, key: &[u8], at_ms: i64, conditions: Args<'_>) -> bool {
    let (done, event) = if at_ms <= ctx.ends_now_ms() {
        (ctx.delete(key), "del")
    } else {
        (ctx.set_expire_at_ms(key, Some(at_ms)), "expire")
    };
    if done {
        ctx.notify(Event::Generic, event, key);
        if event == "del" {
            let is_lazy = ctx.server().config.hot().lazyfree_lazy_expire();
            ctx.effect_removal(is_lazy, key);
        } else {
            let mut digits = [0; I64_TEXT_BYTES_MAX];
            let at_ms = format_i64(at_ms, &mut digits);
            ctx.effect_with(&[b"PEXPIREAT", key, at_ms], conditions);
        }
    }
    done
}

/// When EXPIRE and its kin may replace a time to live. No time to live counts as an endless one for GT and
/// LT.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> CmdResult<Self> {
        let mut conditions = Self::default();
        for word in args.from(3).iter() {
            let wanted = match word {
                _ if is(word, "NX") => &mut conditions.if_none,
                _ if is(word, "XX") => &mut conditions.if_some,
                _ if is(word, "GT") => &mut conditions.if_later,
                _ if is(word, "LT") => &mut conditions.if_earlier,
                _ => return Err(Fault::quoting("ERR Unsupported option ", word, "")),
            };
            *wanted = true;
        }
        let Self { if_none, if_some, if_later, if_earlier } = conditions;
        if if_none && (if_some || if_later || if_earlier) {
            return Err(Fault::Text("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if if_later && if_earlier {
            return Err(Fault::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    fn allow(self, current_at_ms: Option<i64>, at_ms: i64) -> bool {
        let current_or_endless_ms = current_at_ms.unwrap_or(i64::MAX);
        !(self.if_none && current_at_ms.is_some()
            || self.if_some && current_at_ms.is_none()
            || self.if_later && (current_at_ms.is_none() || at_ms <= current_or_endless_ms)
            || self.if_earlier && current_at_ms.is_some() && at_ms >= current_or_endless_ms)
    }
}

fn set_expiry(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    (unit, origin): (Unit, Origin),
    command: &str,
) -> CmdResult {
    let key = &args[1];
    let conditions = Conditions::parse(args)?;
    let at_ms = expire_at_ms(int(&args[2])?, unit, origin, ctx.now_ms());
    let at_ms = at_ms.ok_or_else(|| Fault::invalid_expire(command))?;
    let allowed = ctx.expire_at_ms(key).is_some_and(|current_at_ms| conditions.allow(current_at_ms, at_ms));
    let done = allowed && expire_or_delete(ctx, key, at_ms, args.from(3));
    reply.int(i64::from(done));
    Ok(())
}

pub(crate) fn expire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiry(ctx, args, reply, (Unit::Seconds, Origin::Now), "expire")
}

pub(crate) fn pexpire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiry(ctx, args, reply, (Unit::Milliseconds, Origin::Now), "pexpire")
}

pub(crate) fn expireat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiry(ctx, args, reply, (Unit::Seconds, Origin::Epoch), "expireat")
}

pub(crate) fn pexpireat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_expiry(ctx, args, reply, (Unit::Milliseconds, Origin::Epoch), "pexpireat")
}

/// Answers -2 for no key, -1 for no time to live, and otherwise what `shown` makes of (expiry, now).
fn answer_expiry(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    shown: impl FnOnce(i64, i64) -> i64,
) -> CmdResult {
    let now_ms = ctx.now_ms();
    reply.int(match facts(ctx, &args[1]).map(|facts| facts.expire_at_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => shown(at_ms, now_ms),
    });
    Ok(())
}

/// Milliseconds from 0 on as whole seconds, rounded to nearest: 400 ms left read as 0 s.
fn rounded_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

pub(crate) fn ttl(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_expiry(ctx, args, reply, |at_ms, now_ms| rounded_seconds((at_ms - now_ms).max(0)))
}

pub(crate) fn pttl(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_expiry(ctx, args, reply, |at_ms, now_ms| (at_ms - now_ms).max(0))
}

pub(crate) fn expiretime(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_expiry(ctx, args, reply, |at_ms, _| rounded_seconds(at_ms))
}

pub(crate) fn pexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_expiry(ctx, args, reply, |at_ms, _| at_ms)
}

pub(crate) fn persist(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let expiring = ctx.expire_at_ms(key).flatten().is_some();
    if expiring {
        ctx.set_expire_at_ms(key, None);
        ctx.notify(Event::Generic, "persist", key);
    }
    reply.int(i64::from(expiring));
    Ok(())
}
