//! SPOP and SRANDMEMBER.

use std::collections::HashMap;

use base::limits::BIG_INPUT_ELEMENTS;
use fastrand::Rng;
use resp::Encoder;
use store::Set;

use super::{removed, reply_set, stream_members};
use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// So many members are taken out of a set in place.
const POPPED_IN_PLACE_MAX: usize = BIG_INPUT_ELEMENTS / POP_WORK;
/// Taking a random member out costs as much as visiting so many.
const POP_WORK: usize = 10;

/// Draws from `0..len` without putting back, uniformly, one at a time: a Fisher-Yates shuffle of which only the
/// places that differ from the identity are kept, so that drawing costs O(1), however large `len` is.
pub struct Draw {
    len: usize,
    drawn: usize,
    moved: HashMap<usize, usize>,
    rng: Rng,
}

impl Draw {
    /// Draws from `0..len`.
    pub fn new(len: usize, rng: Rng) -> Draw {
        Draw { len, drawn: 0, moved: HashMap::new(), rng }
    }
}

/// Some of the ranks below `len`, in ascending order, drawn uniformly: a bit each, so that drawing very many costs
/// little memory.
struct Sample {
    bits: Vec<u64>,
    len: usize,
    next: usize,
    /// The value of the bits that belong to the sample.
    wanted: bool,
}

impl Sample {
    /// Draws `count` of `len` ranks.
    fn new(len: usize, count: usize, rng: &mut Rng) -> Sample {
        // Of the drawn ones and the others, the fewer are marked: every second try at least hits a free place.
        let (marked, wanted) = if count <= len / 2 { (count, true) } else { (len - count, false) };
        let mut sample = Sample { bits: vec![0; len.div_ceil(64)], len, next: 0, wanted };
        for _ in 0..marked {
            loop {
                let rank = rng.usize(..len);
                let (word, bit) = (&mut sample.bits[rank / 64], 1 << (rank % 64));
                if *word & bit == 0 {
                    *word |= bit;
                    break;
                }
            }
        }
        sample
    }
}

impl Iterator for Sample {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.next < self.len {
            let rank = self.next;
            self.next += 1;
            if (self.bits[rank / 64] >> (rank % 64) & 1 == 1) == self.wanted {
                return Some(rank);
            }
        }
        None
    }
}

impl Iterator for Draw {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.drawn == self.len {
            return None;
        }
        let at = self.rng.usize(self.drawn..self.len);
        let first = self.moved.remove(&self.drawn).unwrap_or(self.drawn);
        let drawn = if at == self.drawn { first } else { self.moved.insert(at, first).unwrap_or(at) };
        self.drawn += 1;
        Some(drawn)
    }
}

/// SRANDMEMBER key [count]
pub fn srandmember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let count = match args.len() {
        2 => None,
        3 => Some(args::int(&args[2])?),
        _ => return Err(Fault::SYNTAX),
    };
    if count == Some(i64::MIN) {
        return Err(Fault::Text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let mut rng = ctx.rng().fork();
    let set = ctx.read::<Set>(&args[1])?;
    let (Some(set), count) = (set, count) else {
        if count.is_some() {
            reply.empty_array();
        } else {
            reply.null();
        }
        return Ok(());
    };
    let Some(count) = count else {
        match set.at(rng.usize(..set.len())) {
            Some(member) => reply.bulk(&member),
            None => unreachable!("srandmember: a rank within the set"),
        }
        return Ok(());
    };
    let (distinct, count) = (count >= 0, usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX));
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
            let count = args::int(&args[2]).ok().and_then(|count| usize::try_from(count).ok());
            pop_many(ctx, &args[1], count.ok_or(Fault::NOT_POSITIVE)?, reply)
        }
        _ => Err(Fault::SYNTAX),
    }
}

fn pop_one(ctx: &mut Ctx<'_>, key: &[u8], reply: &mut Reply<'_>) -> CmdResult {
    let mut rng = ctx.rng().fork();
    let popped = ctx.edit(key, |set: &mut Set| (set.take_at(rng.usize(..set.len())), set.is_empty()))?;
    match popped {
        Some((member, emptied)) => {
            removed(ctx, key, "spop", emptied);
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
                removed(ctx, key, "spop", false);
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
                removed(ctx, key, "spop", true);
            }
        }
        Popped::Some { members, rest } => {
            // Not put: the key keeps its time to live.
            ctx.edit(key, |set: &mut Set| *set = rest)?;
            removed(ctx, key, "spop", false);
            reply_members(reply, members);
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_even() {
        for count in 0..=7 {
            let mut drawn = [0_usize; 7];
            for seed in 0..2000 {
                let sample: Vec<usize> = Sample::new(7, count, &mut Rng::with_seed(seed)).collect();
                assert_eq!(sample.len(), count);
                assert!(sample.is_sorted_by(|a, b| a < b));
                sample.into_iter().for_each(|rank| drawn[rank] += 1);
            }
            let even = count * 2000 / 7;
            assert!(drawn.iter().all(|times| times.abs_diff(even) < 150), "{count}: {drawn:?}");
        }
    }

    #[test]
    fn draws_are_distinct_complete_and_even() {
        let mut firsts = [0; 5];
        for seed in 0..5000 {
            let drawn: Vec<usize> = Draw::new(5, Rng::with_seed(seed)).collect();
            firsts[drawn[2]] += 1;
            let mut sorted = drawn;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!(firsts.iter().all(|count| (800..1200).contains(count)), "{firsts:?}");
    }
}
