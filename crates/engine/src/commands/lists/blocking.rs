//! BLPOP, BRPOP, BLMOVE, BRPOPLPUSH and BLMPOP: as their kin, but they wait where there is nothing.

use store::Kind;

use super::End;
use super::moves::{move_one, parse_mpop};
use super::pop_one;
use crate::args::{self, Args};
use crate::blocking::{Block, TimeoutReply};
use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::reply::Reply;

/// Waits for a list at one of `keys`, or answers at once where waiting is not possible.
fn wait(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    keys: Vec<&[u8]>,
    timeout_us: Option<u64>,
    on_timeout: TimeoutReply,
    reply: &mut Reply<'_>,
) {
    let (kind, class) = (Kind::List, &b""[..]);
    let block =
        Block { keys, args: args.to_owned(), kind, even_if_gone: false, class, timeout_us, on_timeout };
    ctx.block_or_time_out(block, reply);
}

/// BLPOP key [key ...] timeout
pub fn blpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_or_wait(ctx, args, reply, End::Left)
}

/// BRPOP key [key ...] timeout
pub fn brpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop_or_wait(ctx, args, reply, End::Right)
}

fn pop_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> CmdResult {
    let last = args.len() - 1;
    let timeout_us = args::timeout_s(&args[last])?;
    let keys: Vec<&[u8]> = args.from(1).iter().take(last - 1).collect();
    for key in &keys {
        if let Some(element) = pop_one(ctx, key, end)? {
            ctx.effect(&[end.pop_word(), key]);
            reply.array(2);
            reply.bulk(key);
            reply.bulk(&element);
            return Ok(());
        }
    }
    wait(ctx, args, keys, timeout_us, TimeoutReply::NullArray, reply);
    Ok(())
}

/// BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout
pub fn blmove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (End::parse(&args[3])?, End::parse(&args[4])?);
    move_or_wait(ctx, args, reply, from, to)
}

/// BRPOPLPUSH source destination timeout
pub fn brpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    move_or_wait(ctx, args, reply, End::Right, End::Left)
}

fn move_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, from: End, to: End) -> CmdResult {
    let timeout_us = args::timeout_s(&args[args.len() - 1])?;
    if move_one(ctx, &args[1], &args[2], from, to, reply)? {
        match args.len() {
            // BLMOVE names the ends, BRPOPLPUSH does not.
            6 => ctx.effect_with(&[b"LMOVE"], args.from(1).first(4)),
            _ => ctx.effect(&[b"RPOPLPUSH", &args[1], &args[2]]),
        }
        return Ok(());
    }
    if ctx.may_block() {
        wait(ctx, args, vec![args.at(1)], timeout_us, TimeoutReply::NullArray, reply);
    } else {
        // As Redis: another null than after a wait.
        reply.null();
    }
    Ok(())
}

/// BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub fn blmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let timeout_us = args::timeout_s(&args[1])?;
    // What LMPOP takes begins an argument later.
    let mpop = parse_mpop(args.from(1))?;
    if !mpop.run(ctx, reply)? {
        wait(ctx, args, mpop.keys, timeout_us, TimeoutReply::NullArray, reply);
    }
    Ok(())
}
