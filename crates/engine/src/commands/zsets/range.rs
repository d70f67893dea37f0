//! Ranges of ranks, scores and names: ZRANGE and its kin, counting and removing.

use std::ops::{Bound, Range};

use base::limits::BIG_INPUT_ELEMENTS;
use base::num::parse_f64_saturating;
use store::{LexBound, Thresholds, ZSet};

use super::reply_range;
use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const NOT_A_SCORE_RANGE: Fault = Fault::Text("ERR min or max is not a float");
const NOT_A_LEX_RANGE: Fault = Fault::Text("ERR min or max not valid string range item");
const LIMIT_OF_RANKS: Fault =
    Fault::Text("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_OF_LEX: Fault =
    Fault::Text("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// What a range is a range of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rank,
    Score,
    Lex,
}

/// The ends of a range, the lower one first. Ranks may be negative: they count from the end.
#[derive(Clone, Debug)]
enum Span {
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(LexEnd, LexEnd),
}

/// A [`LexBound`] that owns its member.
#[derive(Clone, Debug)]
enum LexEnd {
    Min,
    Max,
    Incl(Box<[u8]>),
    Excl(Box<[u8]>),
}

impl LexEnd {
    fn parse(arg: &[u8]) -> CmdResult<LexEnd> {
        match arg {
            [b'-'] | [b'-', 0, ..] => Ok(LexEnd::Min),
            [b'+'] | [b'+', 0, ..] => Ok(LexEnd::Max),
            [b'[', member @ ..] => Ok(LexEnd::Incl(member.into())),
            [b'(', member @ ..] => Ok(LexEnd::Excl(member.into())),
            _ => Err(NOT_A_LEX_RANGE),
        }
    }

    fn bound(&self) -> LexBound<'_> {
        match self {
            LexEnd::Min => LexBound::Min,
            LexEnd::Max => LexBound::Max,
            LexEnd::Incl(member) => LexBound::Incl(member),
            LexEnd::Excl(member) => LexBound::Excl(member),
        }
    }
}

fn score_bound(arg: &[u8]) -> CmdResult<Bound<f64>> {
    let (exclusive, text) = match arg {
        [b'(', text @ ..] => (true, text),
        text => (false, text),
    };
    let score = parse_f64_saturating(text).ok_or(NOT_A_SCORE_RANGE)?;
    Ok(if exclusive { Bound::Excluded(score) } else { Bound::Included(score) })
}

impl Span {
    fn parse(kind: Kind, min: &[u8], max: &[u8]) -> CmdResult<Span> {
        Ok(match kind {
            Kind::Rank => Span::Rank(args::int(min)?, args::int(max)?),
            Kind::Score => Span::Score(score_bound(min)?, score_bound(max)?),
            Kind::Lex => Span::Lex(LexEnd::parse(min)?, LexEnd::parse(max)?),
        })
    }

    /// The ranks it covers, counted from the lowest score. Where it is given as ranks, those count from the highest
    /// with `reverse`.
    fn ranks(&self, zset: &ZSet, reverse: bool) -> Range<usize> {
        match self {
            Span::Rank(start, stop) => {
                let Range { start, end } = args::index_range(*start, *stop, zset.len());
                if reverse { zset.len() - end..zset.len() - start } else { start..end }
            }
            Span::Score(min, max) => zset.ranks_by_score(*min, *max),
            Span::Lex(min, max) => zset.ranks_by_lex(min.bound(), max.bound()),
        }
    }
}

/// A range with all that ZRANGE and its kin say about it.
#[derive(Clone, Debug)]
struct Query {
    span: Span,
    reverse: bool,
    offset: i64,
    /// Negative: no limit.
    limit: i64,
    with_scores: bool,
}

/// What the command's name has decided already. `None` is left to the options.
#[derive(Clone, Copy)]
struct Form {
    kind: Option<Kind>,
    reverse: Option<bool>,
    stores: bool,
}

impl Query {
    /// Reads `key min max` and what follows.
    fn parse(args: Args<'_>, form: Form) -> CmdResult<Query> {
        let Form { mut kind, mut reverse, stores } = form;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let options = args.from(3);
        let mut at = 0;
        while let Some(word) = options.get(at) {
            if !stores && args::is(word, "WITHSCORES") {
                with_scores = true;
            } else if args::is(word, "LIMIT") && at + 2 < options.len() {
                (offset, limit) = (args::int(&options[at + 1])?, args::int(&options[at + 2])?);
                at += 2;
            } else if form.reverse.is_none() && reverse.is_none() && args::is(word, "REV") {
                reverse = Some(true);
            } else if kind.is_none() && args::is(word, "BYLEX") {
                kind = Some(Kind::Lex);
            } else if kind.is_none() && args::is(word, "BYSCORE") {
                kind = Some(Kind::Score);
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 1;
        }
        let (kind, reverse) = (kind.unwrap_or(Kind::Rank), reverse.unwrap_or(false));
        if limit != -1 && kind == Kind::Rank {
            return Err(LIMIT_OF_RANKS);
        }
        if with_scores && kind == Kind::Lex {
            return Err(SCORES_OF_LEX);
        }
        let (min, max) = if reverse && kind != Kind::Rank { (2, 1) } else { (1, 2) };
        let span = Span::parse(kind, &args[min], &args[max])?;
        Ok(Query { span, reverse, offset, limit, with_scores })
    }

    /// The ranks it selects, counted from the lowest score.
    fn ranks(&self, zset: &ZSet) -> Range<usize> {
        let Range { start, end } = self.span.ranks(zset, self.reverse);
        if matches!(self.span, Span::Rank(..)) {
            return start..end;
        }
        let Ok(offset) = usize::try_from(self.offset) else { return start..start };
        let skipped = offset.min(end - start);
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX).min(end - start - skipped);
        if self.reverse {
            end - skipped - count..end - skipped
        } else {
            start + skipped..start + skipped + count
        }
    }

    /// A sorted set of the members it selects, in the form that they call for.
    fn part(&self, zset: &ZSet, thresholds: &Thresholds) -> ZSet {
        let ranks = self.ranks(zset);
        let is_by_rank = matches!(self.span, Span::Rank(..));
        let has_no_zero = || zset.ranks_by_score(Bound::Included(0.0), Bound::Included(0.0)).is_empty();
        if ranks.len() > thresholds.zset_max_listpack_entries && (is_by_rank || has_no_zero()) {
            let mut members = zset.range(ranks.start, false);
            let next = || members.next().map(|(member, score)| (Box::<[u8]>::from(member), score));
            return ZSet::from_sorted(std::iter::from_fn(next).take(ranks.len()), thresholds);
        }
        let mut part = ZSet::new();
        // Only a range of ranks is known to be long before it is copied, as in Redis. The small form forgets the sign
        // of zero, so this and the direction show.
        if is_by_rank {
            part.expect_members(ranks.len(), 0, thresholds);
        }
        let mut members = zset.range(first_of(&ranks, self.reverse), self.reverse);
        for _ in ranks {
            let Some((member, score)) = members.next() else { break };
            part.insert(member, score, thresholds);
        }
        part
    }
}

/// The rank that comes first in this direction.
fn first_of(ranks: &Range<usize>, reverse: bool) -> usize {
    if reverse { ranks.end.saturating_sub(1) } else { ranks.start }
}

fn range(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, form: Form) -> CmdResult {
    let query = Query::parse(args.from(1), form)?;
    match ctx.read::<ZSet>(&args[1])? {
        Some(zset) => {
            let ranks = query.ranks(zset);
            let first = first_of(&ranks, query.reverse);
            reply_range(reply, zset, first, ranks.len(), query.reverse, query.with_scores);
        }
        None => reply.empty_array(),
    }
    Ok(())
}

const fn reading(kind: Option<Kind>, reverse: Option<bool>) -> Form {
    Form { kind, reverse, stores: false }
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub fn zrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(None, None))
}

/// ZREVRANGE key start stop [WITHSCORES]
pub fn zrevrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(Some(Kind::Rank), Some(true)))
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub fn zrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(Some(Kind::Score), Some(false)))
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub fn zrevrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(Some(Kind::Score), Some(true)))
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub fn zrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(Some(Kind::Lex), Some(false)))
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub fn zrevrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    range(ctx, args, reply, reading(Some(Kind::Lex), Some(true)))
}

/// ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]
pub fn zrangestore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let query = Query::parse(args.from(2), Form { kind: None, reverse: None, stores: true })?;
    let (selecting, thresholds) = (query.clone(), ctx.thresholds());
    algebra::derive(
        ctx,
        reply,
        args.at(1),
        std::iter::once(args.at(2)),
        move |inputs: &[Option<ZSet>]| inputs[0].as_ref().map_or(0, |zset| selecting.ranks(zset).len()),
        move |inputs| inputs[0].as_ref().map(|zset| query.part(zset, &thresholds)),
        |ctx, reply, destination, part| {
            let part = part.unwrap_or_default();
            algebra::store_result(ctx, reply, destination, part, Event::ZSet, "zrangestore");
            Ok(())
        },
    )
}

/// ZCOUNT key min max
pub fn zcount(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    count(ctx, args, reply, Kind::Score)
}

/// ZLEXCOUNT key min max
pub fn zlexcount(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    count(ctx, args, reply, Kind::Lex)
}

fn count(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, kind: Kind) -> CmdResult {
    let span = Span::parse(kind, &args[2], &args[3])?;
    let count = ctx.read::<ZSet>(&args[1])?.map_or(0, |zset| span.ranks(zset, false).len());
    reply.int(count as i64);
    Ok(())
}

/// ZREMRANGEBYRANK key start stop
pub fn zremrangebyrank(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    remove(ctx, args, reply, Kind::Rank, "zremrangebyrank")
}

/// ZREMRANGEBYSCORE key min max
pub fn zremrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    remove(ctx, args, reply, Kind::Score, "zremrangebyscore")
}

/// ZREMRANGEBYLEX key min max
pub fn zremrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    remove(ctx, args, reply, Kind::Lex, "zremrangebylex")
}

fn remove(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    kind: Kind,
    event: &'static str,
) -> CmdResult {
    let key = args.at(1);
    let span = Span::parse(kind, &args[2], &args[3])?;
    let removal = ctx.edit(key, |zset: &mut ZSet| {
        let ranks = span.ranks(zset, false);
        let whole = ranks.len() == zset.len();
        if !whole && ranks.len() <= BIG_INPUT_ELEMENTS {
            remove_ranks(zset, ranks.clone());
        }
        (ranks.len(), whole)
    })?;
    match removal {
        None | Some((0, _)) => reply.int(0),
        Some((count, true)) => {
            ctx.delete(key);
            ctx.notify_removed(Event::ZSet, event, key, true);
            reply.int(count as i64);
        }
        Some((count, false)) if count <= BIG_INPUT_ELEMENTS => {
            ctx.notify_removed(Event::ZSet, event, key, false);
            reply.int(count as i64);
        }
        Some(_) => return remove_aside(ctx, key, reply, span, event),
    }
    Ok(())
}

fn remove_ranks(zset: &mut ZSet, ranks: Range<usize>) -> usize {
    if ranks.is_empty() { 0 } else { zset.remove_range(ranks.start, ranks.end - 1) }
}

/// Removes more than can be removed while others wait.
fn remove_aside(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    reply: &mut Reply<'_>,
    span: Span,
    event: &'static str,
) -> CmdResult {
    algebra::derive(
        ctx,
        reply,
        key,
        std::iter::once(key),
        |_: &[Option<ZSet>]| usize::MAX,
        move |inputs| {
            inputs[0].as_ref().map(|zset| {
                let mut rest = zset.clone();
                let count = remove_ranks(&mut rest, span.ranks(zset, false));
                (rest, count)
            })
        },
        move |ctx, reply, key, outcome| {
            let Some((rest, count)) = outcome else {
                reply.int(0);
                return Ok(());
            };
            let emptied = rest.is_empty();
            // The key keeps its time to live.
            ctx.edit(key, |zset: &mut ZSet| *zset = rest)?;
            if count > 0 {
                ctx.notify_removed(Event::ZSet, event, key, emptied);
            }
            reply.int(count as i64);
            Ok(())
        },
    )
}
