//! Values and ends in one step: HGETEX, HSETEX, HGETDEL.

use store::{Hash, Thresholds};

use super::expiry::{
    NUMBER_NOT_POSITIVE, end_ms, named_fields, persist, set_or_remove, tell_ends, tell_persisted,
    tell_removed,
};
use super::lapse::{Changes, remove_if_past};
use super::write_values;
use crate::args::{Args, is, positive};
use crate::commands::keys::expiry::{Origin, Unit};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const INVALID_NUMBER: Fault = Fault::Text("ERR invalid number of fields");
const NO_TIME: Fault = Fault::Text("ERR missing expire time");
const CONDITIONS_CLASH: Fault = Fault::Text("ERR Only one of FXX or FNX arguments can be specified");
const ENDS_CLASH: Fault =
    Fault::Text("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");

/// What becomes of the fields' ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Nothing was said of them.
    Unsaid,
    /// They stay.
    Keep,
    /// They are taken away.
    Persist,
    /// They become this time.
    At(i64),
}

/// The unit and origin of the amount after this word, if it is such a word.
fn time_of(word: &[u8]) -> Option<(Unit, Origin)> {
    [
        ("EX", (Unit::Seconds, Origin::Now)),
        ("PX", (Unit::Milliseconds, Origin::Now)),
        ("EXAT", (Unit::Seconds, Origin::Epoch)),
        ("PXAT", (Unit::Milliseconds, Origin::Epoch)),
    ]
    .into_iter()
    .find_map(|(name, time)| is(word, name).then_some(time))
}

/// HGETDEL key FIELDS numfields field [field ...]
pub(crate) fn hgetdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let before = ctx.read::<Hash>(key)?.cloned();
    let fields = named_fields(args, 2, NUMBER_NOT_POSITIVE)?;
    take(ctx, key, before, fields, reply, |hash, field, changes| {
        changes.removed.extend(hash.remove(field).then_some(field));
    })
}

/// Answers with the values of fields that `remove` removes: one that is named twice is found once.
fn take<'f>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    before: Option<Hash>,
    fields: Args<'f>,
    reply: &mut Reply<'_>,
    mut remove: impl FnMut(&mut Hash, &'f [u8], &mut Changes<'f>),
) -> CmdResult {
    let (mut is_found, now_ms) = (vec![false; fields.len()], ctx.ends_now_ms());
    let changes = ctx.edit(key, |hash: &mut Hash| {
        let mut changes = Changes::default();
        for (field, is_found) in fields.iter().zip(&mut is_found) {
            changes.lapsed.extend(remove_if_past(hash, field, now_ms).then_some(field));
            *is_found = hash.contains(field, now_ms);
            remove(hash, field, &mut changes);
        }
        changes.emptied = hash.is_empty();
        changes
    })?;
    write_values(reply, before.as_ref(), fields, now_ms, |index| is_found[index]);
    if let Some(changes) = changes {
        changes.tell(ctx, key);
        ctx.no_effect();
        tell_removed(ctx, key, &[changes.ended, changes.removed].concat());
    }
    Ok(())
}

/// HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field [field ...]
pub(crate) fn hgetex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, now_ms) = (&args[1], ctx.ends_now_ms());
    let before = ctx.read::<Hash>(key)?.cloned();
    let (ends, fields_at) = match time_of(&args[2]) {
        Some((unit, origin)) => (Ends::At(end_ms(&args[3], unit, origin, ctx.now_ms(), "hgetex")?), 4),
        None if is(&args[2], "PERSIST") => (Ends::Persist, 3),
        None => (Ends::Unsaid, 2),
    };
    let fields = named_fields(args, fields_at, NUMBER_NOT_POSITIVE)?;
    if let Ends::At(end_ms) = ends
        && end_ms <= now_ms
    {
        return take(ctx, key, before, fields, reply, |hash, field, changes| {
            set_or_remove(hash, field, end_ms, now_ms, changes);
        });
    }
    write_values(reply, before.as_ref(), fields, now_ms, |_| true);
    let has_past = before.is_some_and(|hash| hash.past_len(now_ms) > 0);
    if ends == Ends::Unsaid && !has_past {
        return Ok(());
    }
    let changes = ctx.edit(key, |hash: &mut Hash| {
        let mut changes = Changes::default();
        if ends != Ends::Unsaid {
            hash.expect_ends();
        }
        for field in fields.iter() {
            changes.lapsed.extend(remove_if_past(hash, field, now_ms).then_some(field));
            match ends {
                Ends::At(end_ms) => {
                    set_or_remove(hash, field, end_ms, now_ms, &mut changes);
                }
                Ends::Persist => {
                    persist(hash, field, &mut changes);
                }
                Ends::Unsaid | Ends::Keep => {}
            }
        }
        changes.emptied = hash.is_empty();
        changes
    })?;
    if let Some(changes) = changes {
        changes.tell(ctx, key);
        ctx.no_effect();
        if let Ends::At(end_ms) = ends {
            tell_ends(ctx, key, end_ms, None, &changes);
        }
        tell_persisted(ctx, key, &changes.persisted);
    }
    Ok(())
}

/// Whether HSETEX sets anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// Only if none of the fields exists.
    IfNone,
    /// Only if all of them exist.
    IfAll,
}

struct SetOptions<'a> {
    condition: Condition,
    ends: Ends,
    /// Fields and values, in turns.
    pairs: Args<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>, now_ms: i64) -> CmdResult<SetOptions<'a>> {
        let (mut condition, mut ends) = (Condition::Always, Ends::Unsaid);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            at += 1;
            if is(word, "FIELDS") {
                return Ok(SetOptions { condition, ends, pairs: pairs(args, at)? });
            } else if let Some((unit, origin)) = time_of(word) {
                if ends != Ends::Unsaid {
                    return Err(ENDS_CLASH);
                }
                let amount = args.get(at).ok_or(NO_TIME)?;
                ends = Ends::At(end_ms(amount, unit, origin, now_ms, "hsetex")?);
                at += 1;
            } else if is(word, "KEEPTTL") {
                if ends != Ends::Unsaid {
                    return Err(ENDS_CLASH);
                }
                ends = Ends::Keep;
            } else if is(word, "FXX") || is(word, "FNX") {
                if condition != Condition::Always {
                    return Err(CONDITIONS_CLASH);
                }
                condition = if is(word, "FXX") { Condition::IfAll } else { Condition::IfNone };
            } else {
                return Err(Fault::quoting("ERR unknown argument: ", word, ""));
            }
        }
        // The shortest command has a word more than all options together, FIELDS left out.
        unreachable!("hsetex-arity: a word that is no option was reached")
    }
}

/// What follows the word FIELDS, at `at`: a number, and as many fields with their values.
fn pairs(args: Args<'_>, at: usize) -> CmdResult<Args<'_>> {
    let wrong_arity = || Fault::wrong_arity("hsetex");
    if args.len() < at + 3 {
        return Err(wrong_arity());
    }
    let count = positive(&args[at], INVALID_NUMBER)?;
    if count > i32::MAX as usize {
        return Err(INVALID_NUMBER);
    }
    let pairs = args.from(at + 1);
    if pairs.len() != 2 * count {
        return Err(wrong_arity());
    }
    Ok(pairs)
}

/// HSETEX key [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields field value [field value ...]
pub(crate) fn hsetex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, now_ms, thresholds) = (&args[1], ctx.ends_now_ms(), ctx.thresholds());
    let options = SetOptions::parse(args, ctx.now_ms())?;
    let changes =
        ctx.edit_or_create(key, |hash: &mut Hash| set_pairs(hash, &options, now_ms, &thresholds))?;
    reply.int(changes.set.into());
    changes.tell(ctx, key);
    ctx.no_effect();
    if changes.set {
        tell_set(ctx, key, &options, &changes);
    }
    Ok(())
}

/// The effect of HSETEX that has set fields: their values with an end that is a time, or that they are gone.
fn tell_set(ctx: &mut Ctx<'_>, key: &[u8], options: &SetOptions<'_>, changes: &Changes<'_>) {
    if !ctx.is_journaled() {
        return;
    }
    let count = (options.pairs.len() / 2).to_string();
    let end_ms = if let Ends::At(end_ms) = options.ends { end_ms } else { 0 }.to_string();
    let mut words: Vec<&[u8]> = vec![b"HSETEX", key];
    match options.ends {
        Ends::At(_) if changes.timed.is_empty() => return tell_removed(ctx, key, &changes.ended),
        Ends::At(_) => words.extend([b"PXAT", end_ms.as_bytes()]),
        Ends::Keep => words.push(b"KEEPTTL"),
        Ends::Unsaid | Ends::Persist => {}
    }
    words.extend([b"FIELDS", count.as_bytes()]);
    ctx.effect_with(&words, options.pairs);
}

fn set_pairs<'f>(
    hash: &mut Hash,
    options: &SetOptions<'f>,
    now_ms: i64,
    thresholds: &Thresholds,
) -> Changes<'f> {
    let mut changes = Changes::default();
    let pairs = options.pairs;
    let starts = || (0..pairs.len()).step_by(2);
    changes.lapsed =
        starts().map(|at| pairs.at(at)).filter(|field| remove_if_past(hash, field, now_ms)).collect();
    let mut exists = starts().map(|at| hash.contains(&pairs[at], now_ms));
    changes.set = match options.condition {
        Condition::Always => true,
        Condition::IfNone => !exists.any(|exists| exists),
        Condition::IfAll => exists.all(|exists| exists),
    };
    if changes.set {
        for at in starts() {
            let (field, value) = (pairs.at(at), &pairs[at + 1]);
            match options.ends {
                Ends::Unsaid | Ends::Persist => hash.set(field, value, thresholds),
                Ends::Keep => hash.set_value(field, value, thresholds),
                Ends::At(end_ms) => {
                    hash.set_value(field, value, thresholds);
                    set_or_remove(hash, field, end_ms, now_ms, &mut changes)
                }
            };
        }
    }
    changes.emptied = hash.is_empty() && (changes.set || !changes.lapsed.is_empty());
    changes
}
