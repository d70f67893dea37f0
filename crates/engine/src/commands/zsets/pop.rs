//! ZPOPMIN, ZPOPMAX, ZMPOP, and those of them that wait.

use base::limits::BIG_INPUT_ELEMENTS;
use store::{Kind, Typed, ValueRef, ZSet};

use super::{show, stream_range};
use crate::args::{self, Args};
use crate::blocking::{Block, TimeoutReply};
use crate::commands::algebra::{self, Input};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Which members are taken, and how the reply is built.
#[derive(Clone, Copy)]
struct Pop {
    max: bool,
    count: usize,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Member and score, or all of them in one row.
    Flat,
    /// An array of pairs.
    Pairs,
    /// The key, a member and its score in one row.
    KeyAndOne,
    /// The key, and an array of pairs.
    KeyAndPairs,
}

impl Pop {
    fn event(self) -> &'static str {
        if self.max { "zpopmax" } else { "zpopmin" }
    }

    /// All that comes before `taken` members.
    fn head(self, reply: &mut Reply<'_>, key: &[u8], taken: usize) {
        match self.form {
            Form::Flat => reply.array(2 * taken),
            Form::Pairs => reply.array_of(taken, true),
            Form::KeyAndOne => {
                reply.array(3);
                reply.bulk(key);
            }
            Form::KeyAndPairs => {
                reply.array(2);
                reply.bulk(key);
                reply.array(taken);
            }
        }
    }

    /// Writes one member with its score.
    fn show(self) -> super::Show {
        match self.form {
            Form::Flat | Form::KeyAndOne => show(resp::Proto::V2, true),
            Form::Pairs | Form::KeyAndPairs => show(resp::Proto::V3, true),
        }
    }

    /// The effect of a command that has taken so many members from one of several keys, or had to wait for them.
    fn tell(self, ctx: &mut Ctx<'_>, key: &[u8], taken: usize) {
        let word: &[u8] = if self.max { b"ZPOPMAX" } else { b"ZPOPMIN" };
        match self.form {
            Form::Flat | Form::Pairs => {}
            Form::KeyAndOne => ctx.effect(&[word, key]),
            Form::KeyAndPairs => ctx.effect(&[word, key, taken.to_string().as_bytes()]),
        }
    }

    fn reply_none(self, reply: &mut Reply<'_>) {
        match self.form {
            Form::Flat | Form::Pairs => reply.empty_array(),
            Form::KeyAndPairs | Form::KeyAndOne => reply.null_array(),
        }
    }

    /// Replies with the members that the sorted set loses.
    fn reply_taken(self, reply: &mut Reply<'_>, key: &[u8], zset: &ZSet) {
        let taken = self.count.min(zset.len());
        self.head(reply, key, taken);
        let first = if self.max { zset.len() - 1 } else { 0 };
        stream_range(reply, zset, first, taken, self.max, self.show());
    }

    /// The sorted set without them. It keeps at least one member.
    fn rest(self, zset: &ZSet) -> ZSet {
        let mut rest = zset.clone();
        if self.max {
            rest.remove_range(zset.len() - self.count, zset.len() - 1);
        } else {
            rest.remove_range(0, self.count - 1);
        }
        rest
    }

    /// Pops from the first of `keys` that is there.
    fn run(self, ctx: &mut Ctx<'_>, keys: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        if !self.try_run(ctx, keys, reply)? {
            self.reply_none(reply);
        }
        Ok(())
    }

    /// As `run`; where there is nothing, the client waits.
    fn run_or_wait(
        self,
        ctx: &mut Ctx<'_>,
        args: Args<'_>,
        keys: Vec<&[u8]>,
        timeout_us: Option<u64>,
        reply: &mut Reply<'_>,
    ) -> CmdResult {
        if !self.try_run(ctx, Args::from_slices(&keys), reply)? {
            let (kind, on_timeout) = (Kind::ZSet, TimeoutReply::NullArray);
            let (args, class) = (args.to_owned(), &b""[..]);
            let block = Block { keys, args, kind, even_if_gone: false, class, timeout_us, on_timeout };
            ctx.block_or_time_out(block, reply);
        }
        Ok(())
    }

    /// As `run`; false, with no reply, if none is there.
    fn try_run(self, ctx: &mut Ctx<'_>, keys: Args<'_>, reply: &mut Reply<'_>) -> CmdResult<bool> {
        let Some((key, len)) = first_there(ctx, keys)? else { return Ok(false) };
        if self.count == 0 {
            reply.empty_array();
        } else if self.count >= len {
            if let Some(zset) = peek(ctx, key)? {
                self.reply_taken(reply, key, &zset);
            }
            ctx.delete(key);
            ctx.notify_removed(Event::ZSet, self.event(), key, true);
            self.tell(ctx, key, len);
        } else if self.count <= BIG_INPUT_ELEMENTS {
            self.head(reply, key, self.count);
            let (mut out, show) = (reply.encoder(), self.show());
            ctx.edit(key, |zset: &mut ZSet| {
                for _ in 0..self.count {
                    let taken = if self.max { zset.pop_max() } else { zset.pop_min() };
                    let Some((member, score)) = taken else { unreachable!("zpop: fewer than there are") };
                    show(&mut out, &member, score);
                }
            })?;
            ctx.notify_removed(Event::ZSet, self.event(), key, false);
            self.tell(ctx, key, self.count);
        } else {
            self.run_aside(ctx, keys, reply)?;
        }
        Ok(true)
    }

    /// Pops more members than can be removed while others wait.
    fn run_aside(self, ctx: &mut Ctx<'_>, keys: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        let owned_keys = keys.to_owned();
        algebra::derive(
            ctx,
            reply,
            keys.at(0),
            keys.iter(),
            |_: &[Option<Candidate>]| usize::MAX,
            move |inputs| {
                let found = inputs.iter().enumerate().find_map(|(at, input)| Some((at, input.clone()?)));
                match found {
                    None => Ok(None),
                    Some((_, Candidate::Other)) => Err(Fault::WRONG_TYPE),
                    Some((at, Candidate::ZSet(zset))) => {
                        let rest = (self.count < zset.len()).then(|| self.rest(&zset));
                        Ok(Some((at, zset, rest)))
                    }
                }
            },
            move |ctx, reply, _, outcome: CmdResult<_>| {
                let Some((at, before, rest)) = outcome? else {
                    self.reply_none(reply);
                    return Ok(());
                };
                let key = owned_keys.as_args().at(at);
                let emptied = rest.is_none();
                match rest {
                    Some(rest) => {
                        ctx.edit(key, |zset: &mut ZSet| *zset = rest)?;
                    }
                    None => {
                        ctx.delete(key);
                    }
                }
                ctx.notify_removed(Event::ZSet, self.event(), key, emptied);
                self.tell(ctx, key, self.count.min(before.len()));
                self.reply_taken(reply, key, &before);
                Ok(())
            },
        )
    }
}

/// A clone of the sorted set at `key`, not counted as a read.
fn peek(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<ZSet>> {
    let Some(view) = ctx.peek(key) else { return Ok(None) };
    match view.value() {
        ValueRef::Object(value) => ZSet::of(value).cloned().map(Some).ok_or(Fault::WRONG_TYPE),
        ValueRef::Inline(_) => Err(Fault::WRONG_TYPE),
    }
}

/// The first key that is there, and the size of its sorted set.
fn first_there<'a>(ctx: &mut Ctx<'_>, keys: Args<'a>) -> CmdResult<Option<(&'a [u8], usize)>> {
    for key in keys.iter() {
        if let Some(zset) = peek(ctx, key)? {
            return Ok(Some((key, zset.len())));
        }
    }
    Ok(None)
}

/// What may be popped from: other types are noticed only where they come first.
#[derive(Clone)]
enum Candidate {
    ZSet(ZSet),
    Other,
}

impl Input for Candidate {
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Candidate>> {
        Ok(match ctx.peek_kind(key) {
            None => None,
            Some(Kind::ZSet) => peek(ctx, key)?.map(Candidate::ZSet),
            Some(_) => Some(Candidate::Other),
        })
    }

    fn elements(&self) -> usize {
        match self {
            Candidate::ZSet(zset) => zset.len(),
            Candidate::Other => 0,
        }
    }

    fn is_same(&self, other: &Candidate) -> bool {
        match (self, other) {
            (Candidate::ZSet(a), Candidate::ZSet(b)) => a.is_same(b),
            (Candidate::Other, Candidate::Other) => true,
            _ => false,
        }
    }
}

/// ZPOPMIN key [count]
pub fn zpopmin(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_one_key(ctx, args, reply, false)
}

/// ZPOPMAX key [count]
pub fn zpopmax(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_one_key(ctx, args, reply, true)
}

fn pop_one_key(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, max: bool) -> CmdResult {
    if args.len() > 3 {
        return Err(Fault::SYNTAX);
    }
    let count = match args.get(2) {
        Some(count) => args::natural(count, Fault::NOT_POSITIVE)?,
        None => 1,
    };
    let form = if args.len() == 3 && reply.proto() == resp::Proto::V3 { Form::Pairs } else { Form::Flat };
    Pop { max, count, form }.run(ctx, Args::from_slices(&[args.at(1)]), reply)
}

/// ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]
pub fn zmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (keys, pop) = parse_mpop(args)?;
    pop.run(ctx, Args::from_slices(&keys), reply)
}

/// BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]
pub fn bzmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let timeout_us = args::timeout_s(&args[1])?;
    // What ZMPOP takes begins an argument later.
    let (keys, pop) = parse_mpop(args.from(1))?;
    pop.run_or_wait(ctx, args, keys, timeout_us, reply)
}

/// BZPOPMIN key [key ...] timeout
pub fn bzpopmin(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_one_or_wait(ctx, args, reply, false)
}

/// BZPOPMAX key [key ...] timeout
pub fn bzpopmax(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_one_or_wait(ctx, args, reply, true)
}

fn pop_one_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, max: bool) -> CmdResult {
    let last = args.len() - 1;
    let timeout_us = args::timeout_s(&args[last])?;
    let keys = args.from(1).iter().take(last - 1).collect();
    Pop { max, count: 1, form: Form::KeyAndOne }.run_or_wait(ctx, args, keys, timeout_us, reply)
}

/// Reads `numkeys key [key ...] <MIN | MAX> [COUNT count]`, which begins at argument 1.
fn parse_mpop(args: Args<'_>) -> CmdResult<(Vec<&[u8]>, Pop)> {
    let key_count = args::positive(&args[1], Fault::KEY_COUNT_NOT_POSITIVE)?;
    let end = key_count.checked_add(2).filter(|end| *end < args.len()).ok_or(Fault::SYNTAX)?;
    let max = match &args[end] {
        word if args::is(word, "MIN") => false,
        word if args::is(word, "MAX") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let options = args.from(end + 1);
    let count = match options.len() {
        0 => 1,
        2.. if args::is(&options[0], "COUNT") => args::positive(&options[1], Fault::COUNT_NOT_POSITIVE)?,
        _ => return Err(Fault::SYNTAX),
    };
    if options.len() > 2 {
        return Err(Fault::SYNTAX);
    }
    let keys = args.from(2).iter().take(key_count).collect();
    Ok((keys, Pop { max, count, form: Form::KeyAndPairs }))
}
