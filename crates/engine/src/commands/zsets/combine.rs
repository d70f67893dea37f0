//! Union, intersection and difference of sorted sets and sets, their STORE forms and ZINTERCARD.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use resp::Encoder;
use store::{Kind, Thresholds, View, ZSet};

use super::{reply_range, show};
use crate::args::{self, Args};
use crate::commands::algebra::{self, Input, Members};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// A union whose smaller inputs have more members than one for this many of the largest is built anew; with fewer, they are
/// put into a clone.
const BASE_MEMBERS_PER_PUT: usize = 8;

const WEIGHT_NOT_FLOAT: Fault = Fault::Text("ERR weight value is not a float");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of a member are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// Of equal scores `score` stays, which matters for the sign of zero.
    fn apply(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

/// The sum of opposite infinities, and infinity times zero, are 0 here.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What a command is for, besides the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Answer,
    Store,
    Cardinality,
}

type Inputs<'a> = &'a [Option<Members>];

/// What is done with the inputs.
#[derive(Clone, Debug)]
struct Plan {
    operation: Operation,
    /// One for each input; empty if all are 1.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// ZINTERCARD's; 0 is none.
    limit: usize,
}

/// The members of a result.
enum Combined {
    /// In the order of scores and members.
    Sorted(Vec<(f64, Box<[u8]>)>),
    /// An input with some changes; large, so that it has the large form.
    Changed(ZSet),
}

impl Members {
    /// The score of a member; 1 in a set.
    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Members::Set(set) => set.contains(member).then_some(1.0),
            Members::ZSet(zset) => zset.score(member),
        }
    }

    /// Visits members with their scores until `visit` returns false.
    fn visit(&self, mut visit: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Members::Set(set) => {
                let mut members = set.iter();
                while let Some(member) = members.next() {
                    if !visit(member, 1.0) {
                        return;
                    }
                }
            }
            Members::ZSet(zset) => {
                let mut members = zset.iter();
                while let Some((member, score)) = members.next() {
                    if !visit(member, score) {
                        return;
                    }
                }
            }
        }
    }
}

impl Plan {
    /// Reads `numkeys key [key ...]` and the options, and looks at the keys' types: a wrong one is noticed before a
    /// wrong option is. Returns the keys and the plan.
    fn parse<'a>(
        ctx: &mut Ctx<'_>,
        args: Args<'a>,
        command: &str,
        operation: Operation,
        form: Form,
    ) -> CmdResult<(Vec<&'a [u8]>, Plan)> {
        let key_count = args::int(&args[0])?;
        let Some(key_count) = usize::try_from(key_count).ok().filter(|count| *count > 0) else {
            return Err(Fault::owned(format!("ERR at least 1 input key is needed for '{command}' command")));
        };
        if key_count > args.len() - 1 {
            return Err(Fault::SYNTAX);
        }
        let keys: Vec<&[u8]> = args.from(1).iter().take(key_count).collect();
        let mut kinds = keys.iter().map(|key| ctx.read_any(key).map(View::kind));
        if kinds.any(|kind| !matches!(kind, None | Some(Kind::Set | Kind::ZSet))) {
            return Err(Fault::WRONG_TYPE);
        }
        let weights = Vec::new();
        let mut plan = Plan { operation, weights, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        plan.read_options(args.from(1 + key_count), key_count, form)?;
        Ok((keys, plan))
    }

    fn read_options(&mut self, options: Args<'_>, key_count: usize, form: Form) -> CmdResult {
        let weighs = self.operation != Operation::Difference && form != Form::Cardinality;
        let mut at = 0;
        while let Some(word) = options.get(at) {
            let left = options.len() - at;
            if weighs && left > key_count && args::is(word, "WEIGHTS") {
                let weights = options.from(at + 1).iter().take(key_count);
                let weights = weights.map(|weight| args::float(weight).map_err(|_| WEIGHT_NOT_FLOAT));
                self.weights = weights.collect::<CmdResult<_>>()?;
                at += 1 + key_count;
            } else if weighs && left >= 2 && args::is(word, "AGGREGATE") {
                self.aggregate = match &options[at + 1] {
                    name if args::is(name, "SUM") => Aggregate::Sum,
                    name if args::is(name, "MIN") => Aggregate::Min,
                    name if args::is(name, "MAX") => Aggregate::Max,
                    _ => return Err(Fault::SYNTAX),
                };
                at += 2;
            } else if form == Form::Answer && args::is(word, "WITHSCORES") {
                self.with_scores = true;
                at += 1;
            } else if form == Form::Cardinality && left >= 2 && args::is(word, "LIMIT") {
                self.limit = args::natural(&options[at + 1], Fault::NEGATIVE_LIMIT)?;
                at += 2;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(())
    }

    fn weight(&self, input: usize) -> f64 {
        self.weights.get(input).copied().unwrap_or(1.0)
    }

    /// Members that have to be visited or looked up.
    fn work(&self, inputs: Inputs<'_>, thresholds: &Thresholds) -> usize {
        let all = algebra::elements(inputs);
        match self.operation {
            Operation::Union => {
                let base = self.union_base(inputs, thresholds);
                all - base.map_or(0, |(_, zset)| zset.len())
            }
            Operation::Intersection if inputs.iter().any(Option::is_none) => 0,
            Operation::Intersection => {
                let smallest = inputs.iter().flatten().map(Members::elements).min();
                smallest.unwrap_or(0).saturating_mul(inputs.len())
            }
            Operation::Difference if removal_base(inputs, thresholds).is_some() => removing_work(inputs),
            Operation::Difference => filtering_work(inputs),
        }
    }

    fn compute(&self, inputs: Inputs<'_>, thresholds: &Thresholds) -> Combined {
        match self.operation {
            Operation::Union => self.union(inputs, thresholds),
            Operation::Intersection => {
                let mut found = Vec::new();
                self.intersect(inputs, |member, score| {
                    found.push((score, Box::from(member)));
                    true
                });
                Combined::sorted(found)
            }
            Operation::Difference => difference(inputs, thresholds),
        }
    }

    /// Inputs that are there, with their weights, in the order in which scores are put together: the smallest first.
    fn weighted<'a>(&self, inputs: Inputs<'a>) -> Vec<(&'a Members, f64)> {
        let there = inputs.iter().enumerate().filter_map(|(at, input)| Some((at, input.as_ref()?)));
        let mut weighted: Vec<_> = there.map(|(at, input)| (input, self.weight(at))).collect();
        weighted.sort_by_key(|(input, _)| input.elements());
        weighted
    }

    /// The largest input, if a union may start as its clone: the result is then large too.
    fn union_base<'a>(&self, inputs: Inputs<'a>, thresholds: &Thresholds) -> Option<(&'a Members, &'a ZSet)> {
        match self.weighted(inputs).pop()? {
            (input @ Members::ZSet(zset), 1.0) if stays_large(zset.len(), thresholds) => Some((input, zset)),
            _ => None,
        }
    }

    fn union(&self, inputs: Inputs<'_>, thresholds: &Thresholds) -> Combined {
        let base = self.union_base(inputs, thresholds);
        let mut weighted = self.weighted(inputs);
        if base.is_some() {
            weighted.pop();
        }
        let mut scores = Scores::default();
        for (input, weight) in weighted {
            input.visit(|member, score| {
                let score = number_or_zero(score * weight);
                match scores.get_mut(member) {
                    Some(held) => *held = self.aggregate.apply(*held, score),
                    None => {
                        scores.insert(member.into(), score);
                    }
                }
                true
            });
        }
        let Some((_, base)) = base else {
            return Combined::sorted(scores.into_iter().map(|(member, score)| (score, member)).collect());
        };
        if scores.len() > base.len() / BASE_MEMBERS_PER_PUT {
            return self.merged(base, scores);
        }
        let mut result = base.clone();
        for (member, score) in scores {
            let score = match base.score(&member) {
                Some(last) => self.aggregate.apply(score, last),
                None => score,
            };
            if score == 0.0 {
                // Zeros of either sign count as the same score: an insertion alone would leave the sign as it was.
                result.remove(&member);
            }
            result.insert(&member, score, thresholds);
        }
        Combined::Changed(result)
    }

    /// The union of `base`, which comes last, with the scores of the others.
    fn merged(&self, base: &ZSet, mut scores: Scores) -> Combined {
        let mut members = Vec::with_capacity(base.len() + scores.len());
        let mut changed = Vec::new();
        let mut all = base.iter();
        while let Some((member, last)) = all.next() {
            match scores.remove_entry(member) {
                Some((member, score)) => changed.push((self.aggregate.apply(score, last), member)),
                None => members.push((last, Box::from(member))),
            }
        }
        members.append(&mut changed);
        members.extend(scores.into_iter().map(|(member, score)| (score, member)));
        Combined::sorted(members)
    }

    /// Hands the members that all inputs have to `found`, in any order, until it returns false.
    fn intersect(&self, inputs: Inputs<'_>, mut found: impl FnMut(&[u8], f64) -> bool) {
        if inputs.iter().any(Option::is_none) {
            return;
        }
        let weighted = self.weighted(inputs);
        let Some(((smallest, weight), others)) = weighted.split_first() else { return };
        smallest.visit(|member, score| {
            let mut total = number_or_zero(score * weight);
            for (other, weight) in others {
                match other.score(member) {
                    Some(score) => total = self.aggregate.apply(total, score * weight),
                    None => return true,
                }
            }
            found(member, total)
        });
    }

    /// Members that all inputs have, counted up to the limit.
    fn count(&self, inputs: Inputs<'_>) -> usize {
        let mut count = 0;
        self.intersect(inputs, |_, _| {
            count += 1;
            count != self.limit
        });
        count
    }
}

/// Scores by member.
type Scores = HashMap<Box<[u8]>, f64, BuildHasherDefault<MemberHasher>>;

/// The store's keyed hash of a byte string.
#[derive(Default)]
struct MemberHasher(u64);

impl Hasher for MemberHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = store::member_hash(bytes);
    }

    /// The length, which comes before the bytes.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// True if a sorted set with as many members is never in the small form.
fn stays_large(len: usize, thresholds: &Thresholds) -> bool {
    len > thresholds.zset_max_listpack_entries
}

/// Work of a difference done by looking every member of the first input up in the others.
fn filtering_work(inputs: Inputs<'_>) -> usize {
    let first = inputs[0].as_ref().map_or(0, Members::elements);
    first.saturating_mul(inputs.iter().flatten().count())
}

/// Work of a difference done by removing the others' members from a clone of the first input.
fn removing_work(inputs: Inputs<'_>) -> usize {
    algebra::elements(&inputs[1..])
}

/// The first input of a difference, if its clone without the others' members is the result and that is the quicker
/// way. The clone has the large form and must keep so many members that it may.
fn removal_base<'a>(inputs: Inputs<'a>, thresholds: &Thresholds) -> Option<&'a ZSet> {
    let Some(Members::ZSet(first)) = &inputs[0] else { return None };
    let others = removing_work(inputs);
    let left_min = first.len().saturating_sub(others);
    (stays_large(left_min, thresholds) && others < filtering_work(inputs)).then_some(first)
}

fn difference(inputs: Inputs<'_>, thresholds: &Thresholds) -> Combined {
    if let Some(first) = removal_base(inputs, thresholds) {
        let mut result = first.clone();
        for other in inputs[1..].iter().flatten() {
            other.visit(|member, _| {
                result.remove(member);
                true
            });
        }
        return Combined::Changed(result);
    }
    let mut found: Vec<(f64, Box<[u8]>)> = Vec::new();
    if let Some(first) = &inputs[0] {
        first.visit(|member, score| {
            if !inputs[1..].iter().flatten().any(|other| other.score(member).is_some()) {
                found.push((score, member.into()));
            }
            true
        });
    }
    Combined::sorted(found)
}

impl Combined {
    fn sorted(mut members: Vec<(f64, Box<[u8]>)>) -> Combined {
        // Stable, since that makes use of parts that are in order.
        members.sort_by(|(a_score, a), (b_score, b)| {
            a_score.partial_cmp(b_score).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
        });
        Combined::Sorted(members)
    }

    /// As a sorted set in the form that its members call for.
    fn into_zset(self, thresholds: &Thresholds) -> ZSet {
        match self {
            Combined::Changed(zset) => zset,
            Combined::Sorted(members) => {
                ZSet::from_sorted(members.into_iter().map(|(score, member)| (member, score)), thresholds)
            }
        }
    }

    fn reply(self, reply: &mut Reply<'_>, with_scores: bool) {
        match self {
            Combined::Changed(zset) => reply_range(reply, &zset, 0, zset.len(), false, with_scores),
            Combined::Sorted(members) => {
                reply.array_of(members.len(), with_scores);
                let (mut members, show) = (members.into_iter(), show(reply.proto(), with_scores));
                reply.stream(move |out: &mut Encoder<'_>| {
                    if let Some((score, member)) = members.next() {
                        show(out, &member, score);
                    }
                    members.len() > 0
                });
            }
        }
    }
}

/// ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]
pub fn zunion(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, "zunion", Operation::Union)
}

/// ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]
pub fn zinter(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, "zinter", Operation::Intersection)
}

/// ZDIFF numkeys key [key ...] [WITHSCORES]
pub fn zdiff(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, "zdiff", Operation::Difference)
}

fn answer(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    command: &str,
    operation: Operation,
) -> CmdResult {
    let (keys, plan) = Plan::parse(ctx, args.from(1), command, operation, Form::Answer)?;
    let inputs: Vec<Option<Members>> = algebra::read_all(ctx, keys.into_iter())?;
    let thresholds = ctx.thresholds();
    algebra::answer(ctx, reply, plan.work(&inputs, &thresholds), inputs, move |inputs, reply| {
        plan.compute(&inputs, &thresholds).reply(reply, plan.with_scores);
        Ok(())
    })
}

/// ZINTERCARD numkeys key [key ...] [LIMIT limit]
pub fn zintercard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (keys, plan) =
        Plan::parse(ctx, args.from(1), "zintercard", Operation::Intersection, Form::Cardinality)?;
    let inputs: Vec<Option<Members>> = algebra::read_all(ctx, keys.into_iter())?;
    let work = plan.work(&inputs, &ctx.thresholds());
    algebra::answer(ctx, reply, work, inputs, move |inputs, reply| {
        reply.int(plan.count(&inputs) as i64);
        Ok(())
    })
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]
pub fn zunionstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, "zunionstore", Operation::Union)
}

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]
pub fn zinterstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, "zinterstore", Operation::Intersection)
}

/// ZDIFFSTORE destination numkeys key [key ...]
pub fn zdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, "zdiffstore", Operation::Difference)
}

fn store(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    command: &'static str,
    operation: Operation,
) -> CmdResult {
    let (keys, plan) = Plan::parse(ctx, args.from(2), command, operation, Form::Store)?;
    let thresholds = ctx.thresholds();
    let planned = plan.clone();
    algebra::derive(
        ctx,
        reply,
        args.at(1),
        keys.into_iter(),
        move |inputs: &[Option<Members>]| planned.work(inputs, &thresholds),
        move |inputs| plan.compute(inputs, &thresholds).into_zset(&thresholds),
        move |ctx, reply, destination, zset| {
            algebra::store_result(ctx, reply, destination, zset, Event::ZSet, command);
            Ok(())
        },
    )
}
