//! Ends of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST.

use base::limits::FIELD_END_MS_MAX;
use store::{Hash, Kind};

use super::lapse::Changes;
use crate::args::{Args, int, is, positive};
use crate::commands::keys::expiry::{Origin, Unit};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const NO_FIELDS_WORD: Fault =
    Fault::Text("ERR Mandatory argument FIELDS is missing or not at the right position");
const NOT_THE_NUMBER: Fault = Fault::Text("ERR The `numfields` parameter must match the number of arguments");
const NEGATIVE_TIME: Fault = Fault::Text("ERR invalid expire time, must be >= 0");
/// What HEXPIRE and its kin say of a number of fields below one.
const PARAMETER_NOT_POSITIVE: Fault = Fault::Text("ERR Parameter `numFields` should be greater than 0");
/// What the others say.
pub(super) const NUMBER_NOT_POSITIVE: Fault = Fault::Text("ERR Number of fields must be a positive integer");

/// What replies say of a field that is not there.
const NO_FIELD: i64 = -2;
/// What replies say of a field without an end.
const NO_END: i64 = -1;

/// The fields of `FIELDS numfields field [field ...]`, which stands at `at` and ends the arguments.
pub(super) fn named_fields(args: Args<'_>, at: usize, not_positive: Fault) -> CmdResult<Args<'_>> {
    if !args.get(at).is_some_and(|word| is(word, "FIELDS")) {
        return Err(NO_FIELDS_WORD);
    }
    let Some(count) = args.get(at + 1) else { return Err(not_positive) };
    if positive(count, not_positive)? != args.len() - at - 2 {
        return Err(NOT_THE_NUMBER);
    }
    Ok(args.from(at + 2))
}

/// The end in unix milliseconds that an amount of time means.
pub(super) fn end_ms(
    amount: &[u8],
    unit: Unit,
    origin: Origin,
    now_ms: i64,
    command: &str,
) -> CmdResult<i64> {
    let amount = int(amount)?;
    if amount < 0 {
        return Err(NEGATIVE_TIME);
    }
    let amount_ms = match unit {
        Unit::Seconds => amount.checked_mul(1000),
        Unit::Milliseconds => Some(amount),
    };
    let end_ms = match origin {
        Origin::Now => amount_ms.and_then(|amount_ms| amount_ms.checked_add(now_ms)),
        Origin::Epoch => amount_ms,
    };
    end_ms.filter(|end_ms| *end_ms <= FIELD_END_MS_MAX).ok_or_else(|| Fault::invalid_expire(command))
}

/// An error if the key holds another type.
pub(super) fn check_is_hash(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult {
    match ctx.peek_kind(key) {
        None | Some(Kind::Hash) => Ok(()),
        Some(_) => Err(Fault::WRONG_TYPE),
    }
}

/// When HEXPIRE and its kin may replace an end. No end counts as one later than any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    /// The condition that a word is, if it is one.
    fn of(word: &[u8]) -> Option<Condition> {
        [
            ("NX", Condition::IfNone),
            ("XX", Condition::IfSome),
            ("GT", Condition::IfLater),
            ("LT", Condition::IfEarlier),
        ]
        .into_iter()
        .find_map(|(name, condition)| is(word, name).then_some(condition))
    }

    fn allows(self, current_ms: Option<i64>, end_ms: i64) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => current_ms.is_none(),
            Condition::IfSome => current_ms.is_some(),
            Condition::IfLater => current_ms.is_some_and(|current_ms| end_ms > current_ms),
            Condition::IfEarlier => current_ms.is_none_or(|current_ms| end_ms < current_ms),
        }
    }
}

/// Gives a field an end, or removes it if that has passed.
pub(super) fn set_or_remove<'f>(
    hash: &mut Hash,
    field: &'f [u8],
    end_ms: i64,
    now_ms: i64,
    changes: &mut Changes<'f>,
) -> bool {
    let has_passed = end_ms <= now_ms;
    if has_passed {
        changes.ended.extend(hash.remove(field).then_some(field));
    } else {
        changes.timed.extend(hash.set_end_ms(field, Some(end_ms)).then_some(field));
    }
    has_passed
}

/// The effect of giving fields an end: that they have it, or that they are gone. `condition` is what the client said.
pub(super) fn tell_ends(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    end_ms: i64,
    condition: Option<&[u8]>,
    changes: &Changes<'_>,
) {
    if !ctx.is_journaled() {
        return;
    }
    if !changes.timed.is_empty() {
        let (end_ms, count) = (end_ms.to_string(), changes.timed.len().to_string());
        let mut words: Vec<&[u8]> = vec![b"HPEXPIREAT", key, end_ms.as_bytes()];
        words.extend(condition);
        words.extend([b"FIELDS", count.as_bytes()]);
        ctx.effect_with(&words, Args::from_slices(&changes.timed));
    }
    tell_removed(ctx, key, &changes.ended);
}

/// The effect of removing fields.
pub(super) fn tell_removed(ctx: &mut Ctx<'_>, key: &[u8], fields: &[&[u8]]) {
    if !fields.is_empty() {
        ctx.effect_with(&[b"HDEL", key], Args::from_slices(fields));
    }
}

/// The effect of taking fields' ends away.
pub(super) fn tell_persisted(ctx: &mut Ctx<'_>, key: &[u8], fields: &[&[u8]]) {
    if !fields.is_empty() {
        let count = fields.len().to_string();
        ctx.effect_with(&[b"HPERSIST", key, b"FIELDS", count.as_bytes()], Args::from_slices(fields));
    }
}

fn set_ends(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    (unit, origin): (Unit, Origin),
    command: &str,
) -> CmdResult {
    let (key, now_ms) = (&args[1], ctx.ends_now_ms());
    check_is_hash(ctx, key)?;
    let end_ms = end_ms(&args[2], unit, origin, ctx.now_ms(), command)?;
    let (condition, fields_at) = match Condition::of(&args[3]) {
        Some(condition) => (condition, 4),
        None => (Condition::Always, 3),
    };
    let fields = named_fields(args, fields_at, PARAMETER_NOT_POSITIVE)?;
    reply.array(fields.len());
    let changes = ctx.edit(key, |hash: &mut Hash| {
        let mut changes = Changes::default();
        hash.expect_ends();
        for field in fields.iter() {
            changes.lapsed.extend(super::lapse::remove_if_past(hash, field, now_ms).then_some(field));
            reply.int(match hash.end_ms(field) {
                None => NO_FIELD,
                Some(current_ms) if !condition.allows(current_ms, end_ms) => 0,
                Some(_) if set_or_remove(hash, field, end_ms, now_ms, &mut changes) => 2,
                Some(_) => 1,
            });
        }
        changes.emptied = hash.is_empty();
        changes
    })?;
    match changes {
        Some(changes) => {
            changes.tell(ctx, key);
            ctx.no_effect();
            tell_ends(ctx, key, end_ms, (fields_at == 4).then(|| args.at(3)), &changes);
        }
        None => fields.iter().for_each(|_| reply.int(NO_FIELD)),
    }
    Ok(())
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(crate) fn hexpire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_ends(ctx, args, reply, (Unit::Seconds, Origin::Now), "hexpire")
}

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(crate) fn hpexpire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_ends(ctx, args, reply, (Unit::Milliseconds, Origin::Now), "hpexpire")
}

/// HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(crate) fn hexpireat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_ends(ctx, args, reply, (Unit::Seconds, Origin::Epoch), "hexpireat")
}

/// HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(crate) fn hpexpireat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    set_ends(ctx, args, reply, (Unit::Milliseconds, Origin::Epoch), "hpexpireat")
}

/// Answers, for each field, what `shown` makes of (end, now).
fn answer_ends(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    shown: impl Fn(i64, i64) -> i64,
) -> CmdResult {
    let now_ms = ctx.ends_now_ms();
    let hash = ctx.read::<Hash>(&args[1])?;
    let fields = named_fields(args, 2, NUMBER_NOT_POSITIVE)?;
    reply.array(fields.len());
    for field in fields.iter() {
        reply.int(match hash.and_then(|hash| hash.end_ms(field)) {
            None => NO_FIELD,
            Some(None) => NO_END,
            Some(Some(end_ms)) if end_ms < now_ms => NO_FIELD,
            Some(Some(end_ms)) => shown(end_ms, now_ms),
        });
    }
    Ok(())
}

/// Milliseconds as whole seconds, rounded up: a field that lives has at least one, where a key may have none.
fn seconds_up(ms: i64) -> i64 {
    (ms + 999) / 1000
}

/// HTTL key FIELDS numfields field [field ...]
pub(crate) fn httl(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_ends(ctx, args, reply, |end_ms, now_ms| seconds_up(end_ms - now_ms))
}

/// HPTTL key FIELDS numfields field [field ...]
pub(crate) fn hpttl(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_ends(ctx, args, reply, |end_ms, now_ms| end_ms - now_ms)
}

/// HEXPIRETIME key FIELDS numfields field [field ...]
pub(crate) fn hexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_ends(ctx, args, reply, |end_ms, _| seconds_up(end_ms))
}

/// HPEXPIRETIME key FIELDS numfields field [field ...]
pub(crate) fn hpexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer_ends(ctx, args, reply, |end_ms, _| end_ms)
}

/// Takes a field's end away: true if it had one.
pub(super) fn persist<'f>(hash: &mut Hash, field: &'f [u8], changes: &mut Changes<'f>) -> bool {
    let had_end = hash.end_ms(field).flatten().is_some() && hash.set_end_ms(field, None);
    changes.persisted.extend(had_end.then_some(field));
    had_end
}

/// HPERSIST key FIELDS numfields field [field ...]
pub(crate) fn hpersist(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, now_ms) = (&args[1], ctx.ends_now_ms());
    check_is_hash(ctx, key)?;
    let fields = named_fields(args, 2, NUMBER_NOT_POSITIVE)?;
    reply.array(fields.len());
    let changes = ctx.edit(key, |hash: &mut Hash| {
        let mut changes = Changes::default();
        for field in fields.iter() {
            reply.int(match hash.contains(field, now_ms) {
                false => NO_FIELD,
                true if persist(hash, field, &mut changes) => 1,
                true => NO_END,
            });
        }
        changes
    })?;
    match changes {
        Some(changes) => changes.tell(ctx, key),
        None => fields.iter().for_each(|_| reply.int(NO_FIELD)),
    }
    Ok(())
}
