//! Set algebra: SINTER, SUNION, SDIFF, their STORE forms and SINTERCARD.

use store::{Set, Thresholds};

use super::random::stream_ranks;
use super::reply_set;
use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Up to this size a result is built from nothing, so that it gets the encoding that its members call for. A larger
/// one may start as a clone of an input: it is in the large form anyway.
const REBUILT_MEMBERS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

type Inputs<'a> = &'a [Option<Set>];

impl Operation {
    fn store_event(self) -> &'static str {
        match self {
            Operation::Intersection => "sinterstore",
            Operation::Union => "sunionstore",
            Operation::Difference => "sdiffstore",
        }
    }

    /// Members that have to be visited or looked up.
    fn work(self, inputs: Inputs<'_>) -> usize {
        match self {
            Operation::Intersection if inputs.iter().any(Option::is_none) => 0,
            Operation::Intersection => smallest(inputs).map_or(0, Set::len).saturating_mul(inputs.len()),
            Operation::Union => algebra::elements(inputs) - largest(inputs).map_or(0, Set::len),
            Operation::Difference => removing_work(inputs).min(filtering_work(inputs)),
        }
    }

    /// The result as a set.
    fn compute(self, inputs: Inputs<'_>, thresholds: &Thresholds) -> Set {
        if self == Operation::Union {
            union(inputs, thresholds)
        } else if self.removes(inputs) {
            remove_others(inputs, thresholds)
        } else {
            Set::from_members(self.filter(inputs).into_members(), thresholds)
        }
    }

    /// True if removing the other sets' members is less work than looking each of the first set's up.
    fn removes(self, inputs: Inputs<'_>) -> bool {
        self == Operation::Difference && removing_work(inputs) < filtering_work(inputs)
    }

    /// The members of the result by what is tested; not for unions.
    fn filter(self, inputs: Inputs<'_>) -> Filter {
        let wanted = self == Operation::Intersection;
        let candidates = match wanted {
            true if inputs.iter().any(Option::is_none) => None,
            true => smallest(inputs),
            false => inputs.first().and_then(Option::as_ref),
        };
        let Some(candidates) = candidates else {
            return Filter { candidates: Set::new(), others: Vec::new(), wanted };
        };
        // An intersection's candidates need not be looked up among themselves.
        let others = inputs.iter().skip(usize::from(!wanted)).flatten();
        let mut others: Vec<Set> =
            others.filter(|set| !wanted || !set.is_same(candidates)).cloned().collect();
        // The set that rules out most candidates comes first: the smallest, or for a difference the largest.
        others.sort_by_key(|set| if wanted { set.len() } else { usize::MAX - set.len() });
        Filter { candidates: candidates.clone(), others, wanted }
    }
}

fn smallest(inputs: Inputs<'_>) -> Option<&Set> {
    inputs.iter().flatten().min_by_key(|set| set.len())
}

fn largest(inputs: Inputs<'_>) -> Option<&Set> {
    inputs.iter().flatten().max_by_key(|set| set.len())
}

/// Work of a difference done by looking every member of the first set up in the others.
fn filtering_work(inputs: Inputs<'_>) -> usize {
    let first = inputs.first().and_then(Option::as_ref).map_or(0, Set::len);
    first.saturating_mul(inputs.iter().flatten().count())
}

/// Work of a difference done by removing the others' members from a clone of the first set.
fn removing_work(inputs: Inputs<'_>) -> usize {
    let first = inputs.first().and_then(Option::as_ref).map_or(0, Set::len);
    if first == 0 { 0 } else { algebra::elements(inputs) - first + first.min(REBUILT_MEMBERS_MAX) }
}

/// Those of the candidates that are in all (`wanted`) or in none of the others.
struct Filter {
    candidates: Set,
    others: Vec<Set>,
    wanted: bool,
}

impl Filter {
    fn passes(&self, member: &[u8]) -> bool {
        self.others.iter().all(|set| set.contains(member) == self.wanted)
    }

    /// The first `limit` members that pass, by their ranks among the candidates.
    fn ranks(&self, limit: usize) -> Vec<usize> {
        let (mut ranks, mut candidates) = (Vec::new(), self.candidates.iter());
        for rank in 0..self.candidates.len() {
            match candidates.next() {
                Some(member) if ranks.len() < limit => {
                    if self.passes(member) {
                        ranks.push(rank);
                    }
                }
                _ => break,
            }
        }
        ranks
    }

    fn into_members(self) -> impl Iterator<Item = Vec<u8>> {
        let mut candidates = self.candidates.iter();
        std::iter::from_fn(move || {
            loop {
                let member = candidates.next()?;
                if self.passes(member) {
                    return Some(member.to_vec());
                }
            }
        })
    }
}

fn union(inputs: Inputs<'_>, thresholds: &Thresholds) -> Set {
    let base = largest(inputs).filter(|set| set.len() > REBUILT_MEMBERS_MAX);
    let mut result = base.cloned().unwrap_or_default();
    for set in inputs.iter().flatten().filter(|set| base.is_none_or(|base| !set.is_same(base))) {
        let mut members = set.iter();
        while let Some(member) = members.next() {
            result.insert(member, thresholds);
        }
    }
    result
}

fn remove_others(inputs: Inputs<'_>, thresholds: &Thresholds) -> Set {
    let Some(Some(first)) = inputs.first() else { return Set::new() };
    let mut result = first.clone();
    for set in inputs[1..].iter().flatten() {
        let mut members = set.iter();
        while let Some(member) = members.next() {
            result.remove(member);
        }
    }
    if result.len() > REBUILT_MEMBERS_MAX {
        return result;
    }
    let mut members = result.iter();
    Set::from_members(std::iter::from_fn(|| members.next().map(<[u8]>::to_vec)), thresholds)
}

/// SINTER key [key ...]
pub fn sinter(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, Operation::Intersection)
}

/// SUNION key [key ...]
pub fn sunion(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, Operation::Union)
}

/// SDIFF key [key ...]
pub fn sdiff(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    answer(ctx, args, reply, Operation::Difference)
}

fn answer(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, operation: Operation) -> CmdResult {
    let inputs: Vec<Option<Set>> = algebra::read_all(ctx, args.from(1).iter())?;
    let thresholds = ctx.thresholds();
    algebra::answer(ctx, reply, operation.work(&inputs), inputs, move |inputs, reply| {
        if operation == Operation::Union || operation.removes(&inputs) {
            reply_set(reply, &operation.compute(&inputs, &thresholds));
        } else {
            let filter = operation.filter(&inputs);
            let ranks = filter.ranks(usize::MAX);
            reply.set(ranks.len());
            stream_ranks(reply, filter.candidates, ranks.into_iter());
        }
        Ok(())
    })
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
pub fn sintercard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key_count = args::positive(&args[1], Fault::KEY_COUNT_NOT_POSITIVE)?;
    if key_count > args.len() - 2 {
        return Err(Fault::Text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = usize::MAX;
    let options = args.from(2 + key_count);
    for at in (0..options.len()).step_by(2) {
        let value = options.get(at + 1).filter(|_| args::is(&options[at], "LIMIT")).ok_or(Fault::SYNTAX)?;
        limit = match args::natural(value, Fault::NEGATIVE_LIMIT)? {
            0 => usize::MAX,
            limit => limit,
        };
    }
    let inputs: Vec<Option<Set>> = algebra::read_all(ctx, args.from(2).iter().take(key_count))?;
    let operation = Operation::Intersection;
    algebra::answer(ctx, reply, operation.work(&inputs), inputs, move |inputs, reply| {
        reply.int(operation.filter(&inputs).ranks(limit).len() as i64);
        Ok(())
    })
}

/// SINTERSTORE destination key [key ...]
pub fn sinterstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, Operation::Intersection)
}

/// SUNIONSTORE destination key [key ...]
pub fn sunionstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, Operation::Union)
}

/// SDIFFSTORE destination key [key ...]
pub fn sdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    store(ctx, args, reply, Operation::Difference)
}

fn store(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, operation: Operation) -> CmdResult {
    let thresholds = ctx.thresholds();
    algebra::derive(
        ctx,
        reply,
        args.at(1),
        args.from(2).iter(),
        move |inputs| operation.work(inputs),
        move |inputs: &[Option<Set>]| operation.compute(inputs, &thresholds),
        move |ctx, reply, destination, set| {
            algebra::store_result(ctx, reply, destination, set, Event::Set, operation.store_event());
            Ok(())
        },
    )
}
