//! SPOP and SRANDMEMBER.

use base::limits::BIG_INPUT_ELEMENTS;
use fastrand::Rng;
use resp::Encoder;
use store::Set;

use super::{reply_set, stream_members};
use crate::args::{self, Args};
use crate::commands::algebra;
use crate::commands::random::{Draw, DrawCount, Sample};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// So many members are taken out of a set in place.
const POPPED_IN_PLACE_MAX: usize = BIG_INPUT_ELEMENTS / POP_WORK;
/// Taking a random member out costs as much as visiting so many.
const POP_WORK: usize = 10;
/// So many members are told in one SREM.
const MEMBERS_TOLD_MAX: usize = 1024;

/// SRANDMEMBER key [count]
pub fn srandmember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let wanted = match args.len() {
        2 => None,
        3 => Some(DrawCount::parse(&args[2])?),
        _ => return Err(Fault::SYNTAX),
    };
    let mut rng = ctx.rng().fork();
    let Some(set) = ctx.read::<Set>(&args[1])? else {
        match wanted {
            Some(_) => reply.empty_array(),
            None => reply.null(),
        }
        return Ok(());
    };
    let Some(DrawCount { count, distinct }) = wanted else {
        match set.at(rng.usize(..set.len())) {
            Some(member) => reply.bulk(&member),
            None => unreachable!("srandmember: a rank within the set"),
        }
        return Ok(());
    };
    if distinct && count >= set.len() {
        reply.array(set.len());
        stream_members(reply, set);
        return Ok(());
    }
    let (set, len) = (set.clone(), set.len());
    if !distinct {
        reply.array(count);
        stream_ranks(reply, set, (0..count).map(move |_| rng.usize(..len)));
        return Ok(());
    }
    algebra::answer(ctx, reply, count, set, move |set, reply| {
        reply.array(count);
        if count <= BIG_INPUT_ELEMENTS {
            stream_ranks(reply, set, Draw::new(len, rng).take(count));
        } else {
            stream_ranks(reply, set, Sample::new(len, count, &mut rng));
        }
        Ok(())
    })
}

/// The members of these ranks, the head of the reply being written.
pub(super) fn stream_ranks(
    reply: &mut Reply<'_>,
    set: Set,
    mut ranks: impl Iterator<Item = usize> + Send + 'static,
) {
    reply.stream(move |out: &mut Encoder<'_>| match ranks.next().and_then(|rank| set.at(rank)) {
        Some(member) => {
            out.bulk(&member);
            true
        }
        None => false,
    });
}

/// SPOP key [count]
pub fn spop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match args.len() {
        2 => pop_one(ctx, &args[1], reply),
        3 => {
            let count = args::natural(&args[2], Fault::NOT_POSITIVE)?;
            pop_many(ctx, &args[1], count, reply)
        }
        _ => Err(Fault::SYNTAX),
    }
}

fn pop_one(ctx: &mut Ctx<'_>, key: &[u8], reply: &mut Reply<'_>) -> CmdResult {
    let mut rng = ctx.rng().fork();
    let popped = ctx.edit(key, |set: &mut Set| (set.take_at(rng.usize(..set.len())), set.is_empty()))?;
    match popped {
        Some((member, emptied)) => {
            ctx.notify_removed(Event::Set, "spop", key, emptied);
            ctx.effect(&[b"SREM", key, &member]);
            reply.bulk(&member);
        }
        None => reply.null(),
    }
    Ok(())
}

/// What SPOP leaves and returns.
enum Popped {
    All(Set),
    Some { members: Vec<Vec<u8>>, rest: Set },
}

fn pop_many(ctx: &mut Ctx<'_>, key: &[u8], count: usize, reply: &mut Reply<'_>) -> CmdResult {
    let rng = ctx.rng().fork();
    let mut inline_rng = rng.clone();
    // A few members are taken out in place, without the copies that a clone would cost.
    let taken = ctx.edit(key, |set: &mut Set| {
        let inline = count < set.len() && count <= POPPED_IN_PLACE_MAX;
        inline.then(|| take(set, count, &mut inline_rng))
    })?;
    match taken {
        None => {
            reply.set(0);
            Ok(())
        }
        Some(Some(members)) => {
            if !members.is_empty() {
                ctx.notify_removed(Event::Set, "spop", key, false);
                tell_members(ctx, key, &members);
            }
            reply_members(reply, members);
            Ok(())
        }
        Some(None) => algebra::derive(
            ctx,
            reply,
            key,
            std::iter::once(key),
            // The whole set is handed over at once; members of a part have to be found one by one.
            move |inputs: &[Option<Set>]| {
                if algebra::elements(inputs) <= count { 0 } else { count.saturating_mul(POP_WORK) }
            },
            move |inputs| {
                let mut rest = inputs[0].clone().unwrap_or_default();
                if rest.len() <= count {
                    return Popped::All(rest);
                }
                let members = take(&mut rest, count, &mut rng.clone());
                Popped::Some { members, rest }
            },
            finish_pop,
        ),
    }
}

fn take(set: &mut Set, count: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    (0..count).map(|_| set.take_at(rng.usize(..set.len()))).collect()
}

fn finish_pop(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>, key: &[u8], popped: Popped) -> CmdResult {
    match popped {
        Popped::All(set) => {
            reply_set(reply, &set);
            if ctx.delete(key) {
                ctx.notify_removed(Event::Set, "spop", key, true);
                ctx.effect(&[b"DEL", key]);
            }
        }
        Popped::Some { members, rest } => {
            // Not put: the key keeps its time to live.
            ctx.edit(key, |set: &mut Set| *set = rest)?;
            ctx.notify_removed(Event::Set, "spop", key, false);
            tell_members(ctx, key, &members);
            reply_members(reply, members);
        }
    }
    Ok(())
}

/// The effect of SPOP: the removal of what it took, in commands of a length that others can read.
fn tell_members(ctx: &mut Ctx<'_>, key: &[u8], members: &[Vec<u8>]) {
    if ctx.is_journaled() {
        for members in members.chunks(MEMBERS_TOLD_MAX) {
            let members: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
            ctx.effect_with(&[b"SREM", key], Args::from_slices(&members));
        }
    }
}

fn reply_members(reply: &mut Reply<'_>, members: Vec<Vec<u8>>) {
    reply.set(members.len());
    let mut members = members.into_iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        if let Some(member) = members.next() {
            out.bulk(&member);
        }
        members.len() > 0
    });
}
