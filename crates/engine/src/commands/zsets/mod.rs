//! Sorted sets.
//!
//! Specified by Redis's `t_zset.c`. Replies that hold many members are made from an O(1) clone.

mod combine;
mod pop;
mod range;

use base::num::write_f64;
use resp::{Encoder, Proto};
use store::{Encoding, Thresholds, ZInsert, ZSet};

use crate::args::{self, Args};
use crate::commands::random::{Draw, DrawCount};
use crate::commands::scan::{self, Scanned};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub use pop::{bzmpop, bzpopmax, bzpopmin, zmpop, zpopmax, zpopmin};
pub use range::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex, zremrangebyrank,
    zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

/// Up to here ZSCAN prints the whole scores of a small sorted set with all their digits: Redis keeps them as integers.
const SCANNED_WHOLE_MAX: f64 = (1u64 << 62) as f64;

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
pub(crate) struct AddOptions {
    pub(crate) only_new: bool,
    pub(crate) only_existing: bool,
    only_greater: bool,
    only_less: bool,
    pub(crate) count_changes: bool,
    increment: bool,
}

impl AddOptions {
    /// The options at the start of `args`, and how many words they take.
    fn parse(args: Args<'_>) -> (AddOptions, usize) {
        let mut options = AddOptions::default();
        for (at, word) in args.iter().enumerate() {
            match word {
                _ if args::is(word, "NX") => options.only_new = true,
                _ if args::is(word, "XX") => options.only_existing = true,
                _ if args::is(word, "GT") => options.only_greater = true,
                _ if args::is(word, "LT") => options.only_less = true,
                _ if args::is(word, "CH") => options.count_changes = true,
                _ if args::is(word, "INCR") => options.increment = true,
                _ => return (options, at),
            }
        }
        (options, args.len())
    }

    fn check(self) -> CmdResult {
        if self.only_new && self.only_existing {
            return Err(Fault::Text("ERR XX and NX options at the same time are not compatible"));
        }
        let limits = [self.only_new, self.only_greater, self.only_less];
        if limits.iter().filter(|limit| **limit).count() > 1 {
            return Err(Fault::Text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        Ok(())
    }

    /// Gives `member` the score, or adds it to the score it has. `None` if the options forbid it.
    fn add(
        self,
        zset: &mut ZSet,
        member: &[u8],
        score: f64,
        thresholds: &Thresholds,
    ) -> CmdResult<Option<(ZInsert, f64)>> {
        let looks = self.only_new || self.only_existing || self.only_greater || self.only_less;
        if !looks && !self.increment {
            return Ok(Some((zset.insert(member, score, thresholds), score)));
        }
        let mut score = score;
        match zset.score(member) {
            Some(_) if self.only_new => return Ok(None),
            None if self.only_existing => return Ok(None),
            Some(current) => {
                if self.increment {
                    score += current;
                    if score.is_nan() {
                        return Err(Fault::NAN_SCORE);
                    }
                }
                if (self.only_less && score >= current) || (self.only_greater && score <= current) {
                    return Ok(None);
                }
            }
            None => {}
        }
        Ok(Some((zset.insert(member, score, thresholds), score)))
    }
}

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
pub fn zadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (options, words) = AddOptions::parse(args.from(2));
    let pairs = args.from(2 + words);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Fault::SYNTAX);
    }
    options.check()?;
    if options.increment && pairs.len() > 2 {
        return Err(Fault::Text("ERR INCR option supports a single increment-element pair"));
    }
    add_pairs(ctx, &args[1], pairs, options, reply)
}

/// ZINCRBY key increment member
pub fn zincrby(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let options = AddOptions { increment: true, ..AddOptions::default() };
    add_pairs(ctx, &args[1], args.from(2), options, reply)
}

/// Adds `pairs` of scores and members.
fn add_pairs(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    pairs: Args<'_>,
    options: AddOptions,
    reply: &mut Reply<'_>,
) -> CmdResult {
    // All of them before the first change.
    let starts = (0..pairs.len()).step_by(2);
    let scores: Vec<f64> = starts.map(|at| args::float(&pairs[at])).collect::<CmdResult<_>>()?;
    add_scored(ctx, key, &scores, |index| pairs.at(2 * index + 1), options, reply)
}

/// Adds members, which `member` gives by their index, with their scores.
pub(crate) fn add_scored<'m>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    scores: &[f64],
    member: impl Fn(usize) -> &'m [u8],
    options: AddOptions,
    reply: &mut Reply<'_>,
) -> CmdResult {
    let thresholds = ctx.thresholds();
    let (mut added, mut updated, mut last) = (0, 0, None);
    ctx.edit_or_create(key, |zset: &mut ZSet| {
        for (index, score) in scores.iter().enumerate() {
            last = options.add(zset, member(index), *score, &thresholds)?;
            match last {
                Some((ZInsert::Added, _)) => added += 1,
                Some((ZInsert::Updated, _)) => updated += 1,
                Some((ZInsert::Unchanged, _)) | None => {}
            }
        }
        CmdResult::Ok(())
    })??;
    if added + updated > 0 {
        ctx.notify(Event::ZSet, if options.increment { "zincr" } else { "zadd" }, key);
    }
    match last {
        Some((_, score)) if options.increment => reply.double(score),
        None if options.increment => reply.null(),
        _ if options.count_changes => reply.int(added + updated),
        _ => reply.int(added),
    }
    Ok(())
}

/// ZREM key member [member ...]
pub fn zrem(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let outcome = ctx.edit(key, |zset: &mut ZSet| {
        let gone = args.from(2).iter().filter(|member| zset.remove(member).is_some()).count();
        (gone, zset.is_empty())
    })?;
    let (gone, emptied) = outcome.unwrap_or((0, false));
    if gone > 0 {
        ctx.notify_removed(Event::ZSet, "zrem", key, emptied);
    }
    reply.int(gone as i64);
    Ok(())
}

/// ZSCORE key member
pub fn zscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let score = ctx.read::<ZSet>(&args[1])?.and_then(|zset| zset.score(&args[2]));
    reply_score(reply, score);
    Ok(())
}

/// ZMSCORE key member [member ...]
pub fn zmscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let zset = ctx.read::<ZSet>(&args[1])?;
    let members = args.from(2);
    reply.array(members.len());
    members.iter().for_each(|member| reply_score(reply, zset.and_then(|zset| zset.score(member))));
    Ok(())
}

fn reply_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// ZCARD key
pub fn zcard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<ZSet>(&args[1])?.map_or(0, ZSet::len) as i64);
    Ok(())
}

/// ZRANK key member [WITHSCORE]
pub fn zrank(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    rank(ctx, args, reply, "zrank", false)
}

/// ZREVRANK key member [WITHSCORE]
pub fn zrevrank(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    rank(ctx, args, reply, "zrevrank", true)
}

fn rank(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, command: &str, reverse: bool) -> CmdResult {
    let with_score = match args.len() {
        3 => false,
        4 if args::is(&args[3], "WITHSCORE") => true,
        4 => return Err(Fault::SYNTAX),
        _ => return Err(Fault::wrong_arity(command)),
    };
    match ctx.read::<ZSet>(&args[1])?.and_then(|zset| zset.rank(&args[2], reverse)) {
        Some((rank, score)) if with_score => {
            reply.array(2);
            reply.int(rank as i64);
            reply.double(score);
        }
        Some((rank, _)) => reply.int(rank as i64),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

/// Writes what a reply shows of a member and its score.
type Show = fn(&mut Encoder<'_>, &[u8], f64);

/// How members are shown in a reply of this version: with scores, RESP2 has them one after the other and RESP3 in
/// pairs.
fn show(proto: Proto, with_scores: bool) -> Show {
    match (with_scores, proto) {
        (false, _) => |out, member, _| out.bulk(member),
        (true, Proto::V2) => |out, member, score| {
            out.bulk(member);
            out.double(score);
        },
        (true, Proto::V3) => |out, member, score| {
            out.array(2);
            out.bulk(member);
            out.double(score);
        },
    }
}

/// `count` members from a rank on, up or down, as an array.
fn reply_range(
    reply: &mut Reply<'_>,
    zset: &ZSet,
    start_rank: usize,
    count: usize,
    reverse: bool,
    with_scores: bool,
) {
    reply.array_of(count, with_scores);
    if count > 0 {
        stream_range(reply, zset, start_rank, count, reverse, show(reply.proto(), with_scores));
    }
}

/// `count` members from a rank on, up or down; the head of the reply is written.
fn stream_range(
    reply: &mut Reply<'_>,
    zset: &ZSet,
    start_rank: usize,
    count: usize,
    reverse: bool,
    show: Show,
) {
    let (mut members, mut left) = (zset.range(start_rank, reverse), count);
    reply.stream(move |out: &mut Encoder<'_>| match members.next() {
        Some((member, score)) if left > 0 => {
            show(out, member, score);
            left -= 1;
            left > 0
        }
        _ => false,
    });
}

/// ZRANDMEMBER key [count [WITHSCORES]]
pub fn zrandmember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() == 2 {
        let mut rng = ctx.rng().fork();
        let member = ctx.read::<ZSet>(&args[1])?.and_then(|zset| zset.at(rng.usize(..zset.len())));
        reply.encoder().bulk_or_null(member.map(|(member, _)| member));
        return Ok(());
    }
    let (draw, with_scores) = DrawCount::parse_pairs(args, "WITHSCORES")?;
    let mut rng = ctx.rng().fork();
    let Some(zset) = ctx.read::<ZSet>(&args[1])? else {
        reply.empty_array();
        return Ok(());
    };
    let len = zset.len();
    reply.array_of(draw.drawn(len), with_scores);
    let show = show(reply.proto(), with_scores);
    if draw.distinct && draw.count >= len {
        stream_range(reply, zset, 0, len, false, show);
    } else if draw.distinct {
        stream_ranks(reply, zset.clone(), Draw::new(len, rng).take(draw.count), show);
    } else {
        stream_ranks(reply, zset.clone(), (0..draw.count).map(move |_| rng.usize(..len)), show);
    }
    Ok(())
}

/// The members of these ranks; the head of the reply is written.
fn stream_ranks(
    reply: &mut Reply<'_>,
    zset: ZSet,
    mut ranks: impl Iterator<Item = usize> + Send + 'static,
    show: Show,
) {
    reply.stream(move |out: &mut Encoder<'_>| match ranks.next().and_then(|rank| zset.at(rank)) {
        Some((member, score)) => {
            show(out, member, score);
            true
        }
        None => false,
    });
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub fn zscan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let cursor = scan::cursor(&args[2])?;
    // As in Redis, nothing is said about the options where there is no key.
    let Some(zset) = ctx.read::<ZSet>(&args[1])? else {
        scan::reply(reply, 0, 0, &[]);
        return Ok(());
    };
    let options = scan::Options::parse(args.from(3), Scanned::Members)?;
    let (mut found, mut encoded, mut text) = (0, Vec::new(), Vec::new());
    let mut out = Encoder::new(&mut encoded, reply.proto());
    let is_small = zset.encoding() == Encoding::Listpack;
    let next = zset.scan(cursor, options.count, &mut |member, score| {
        if !options.matches(member) {
            return;
        }
        out.bulk(member);
        // A string in RESP3 too.
        if is_small && score.abs() <= SCANNED_WHOLE_MAX && score == score.trunc() {
            out.bulk_int(score as i64);
        } else {
            text.clear();
            write_f64(&mut text, score);
            out.bulk(&text);
        }
        found += 2;
    });
    scan::reply(reply, next, found, &encoded);
    Ok(())
}
