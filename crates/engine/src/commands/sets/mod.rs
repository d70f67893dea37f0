//! Sets.
//!
//! Specified by Redis's `t_set.c`. Replies that hold a whole set are made from an O(1) clone.

mod combine;
mod random;

use resp::Encoder;
use store::{Kind, Set};

use crate::args::Args;
use crate::commands::scan::{self, Scanned};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub use combine::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};
pub use random::{spop, srandmember};

/// SADD key member [member ...]
pub fn sadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, members, thresholds) = (&args[1], args.from(2), ctx.thresholds());
    let added = ctx.edit_or_create(key, |set: &mut Set| {
        if members.len() > 1 {
            set.expect_members(&members[0], members.len(), &thresholds);
        }
        members.iter().filter(|member| set.insert(member, &thresholds)).count()
    })?;
    if added > 0 {
        ctx.notify(Event::Set, "sadd", key);
    }
    reply.int(added as i64);
    Ok(())
}

/// SREM key member [member ...]
pub fn srem(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let outcome = ctx.edit(key, |set: &mut Set| {
        let gone = args.from(2).iter().filter(|member| set.remove(member)).count();
        (gone, set.is_empty())
    })?;
    let (gone, emptied) = outcome.unwrap_or((0, false));
    if gone > 0 {
        ctx.notify_removed(Event::Set, "srem", key, emptied);
    }
    reply.int(gone as i64);
    Ok(())
}

/// SISMEMBER key member
pub fn sismember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let found = ctx.read::<Set>(&args[1])?.is_some_and(|set| set.contains(&args[2]));
    reply.int(found.into());
    Ok(())
}

/// SMISMEMBER key member [member ...]
pub fn smismember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let set = ctx.read::<Set>(&args[1])?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        reply.int(set.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

/// SCARD key
pub fn scard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<Set>(&args[1])?.map_or(0, Set::len) as i64);
    Ok(())
}

/// SMEMBERS key
pub fn smembers(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match ctx.read::<Set>(&args[1])? {
        Some(set) => reply_set(reply, set),
        None => reply.set(0),
    }
    Ok(())
}

/// All members, as a set.
fn reply_set(reply: &mut Reply<'_>, set: &Set) {
    reply.set(set.len());
    stream_members(reply, set);
}

/// All members; the head of the reply is written.
fn stream_members(reply: &mut Reply<'_>, set: &Set) {
    let mut members = set.iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        if let Some(member) = members.next() {
            out.bulk(member);
        }
        members.remaining() > 0
    });
}

/// SMOVE source destination member
pub fn smove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (source, destination, member) = (&args[1], &args[2], &args[3]);
    let thresholds = ctx.thresholds();
    // A missing source, or one of the wrong type, is noticed before a destination of the wrong type.
    let fits = matches!(ctx.peek_kind(destination), None | Some(Kind::Set));
    let stays = source == destination;
    let outcome = ctx.edit(source, |set: &mut Set| {
        if !fits {
            return Err(Fault::WRONG_TYPE);
        }
        let found = if stays { set.contains(member) } else { set.remove(member) };
        Ok((found, set.is_empty()))
    })?;
    let (found, emptied) = outcome.transpose()?.unwrap_or((false, false));
    if found && !stays {
        ctx.notify_removed(Event::Set, "srem", source, emptied);
        if ctx.edit_or_create(destination, |set: &mut Set| set.insert(member, &thresholds))? {
            ctx.notify(Event::Set, "sadd", destination);
        }
    }
    reply.int(found.into());
    Ok(())
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]
pub fn sscan(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let cursor = scan::cursor(&args[2])?;
    // As in Redis, nothing is said about the options where there is no key.
    let Some(set) = ctx.read::<Set>(&args[1])? else {
        scan::reply(reply, 0, 0, &[]);
        return Ok(());
    };
    let options = scan::Options::parse(args.from(3), Scanned::Members)?;
    let (mut found, mut encoded) = (0, Vec::new());
    let mut out = Encoder::new(&mut encoded, reply.proto());
    let next = set.scan(cursor, options.count, &mut |member| {
        if options.matches(member) {
            out.bulk(member);
            found += 1;
        }
    });
    scan::reply(reply, next, found, &encoded);
    Ok(())
}
