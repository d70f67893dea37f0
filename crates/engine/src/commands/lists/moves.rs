//! Commands over several lists: LMOVE, RPOPLPUSH, LMPOP.

use store::{Kind, List};

use super::{End, pop_from, pop_many, push_to, removed};
use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// RPOPLPUSH source destination
pub fn rpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    move_one(ctx, &args[1], &args[2], End::Right, End::Left, reply)
}

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
pub fn lmove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (End::parse(&args[3])?, End::parse(&args[4])?);
    move_one(ctx, &args[1], &args[2], from, to, reply)
}

fn move_one(
    ctx: &mut Ctx<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
    reply: &mut Reply<'_>,
) -> CmdResult {
    let thresholds = ctx.thresholds();
    let rotates = source == destination;
    // A missing source, or one of the wrong type, is noticed before a destination of the wrong type.
    let fits = matches!(ctx.peek_kind(destination), None | Some(Kind::List));
    let popped = ctx.edit(source, |list: &mut List| {
        let element = if fits { pop_from(list, from) } else { None };
        if let (true, Some(element)) = (rotates, &element) {
            // Within one edit: a list of one element must not be deleted in between.
            push_to(list, element, to, &thresholds);
        }
        (element, list.is_empty())
    })?;
    let Some((element, emptied)) = popped else {
        reply.null();
        return Ok(());
    };
    let element = element.ok_or(Fault::WRONG_TYPE)?;
    if !rotates {
        ctx.edit_or_create(destination, |list: &mut List| push_to(list, &element, to, &thresholds))?;
    }
    ctx.notify(Event::List, to.push_event(), destination);
    removed(ctx, source, from.pop_event(), emptied);
    reply.bulk(&element);
    Ok(())
}

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub fn lmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (keys, end, count) = parse_mpop(args)?;
    for key in keys.map(|index| &args[index]) {
        match ctx.peek_kind(key) {
            None => {}
            Some(Kind::List) => {
                reply.array(2);
                reply.bulk(key);
                pop_many(ctx, key, end, count, reply)?;
                return Ok(());
            }
            Some(_) => return Err(Fault::WRONG_TYPE),
        }
    }
    reply.null_array();
    Ok(())
}

fn parse_mpop(args: Args<'_>) -> CmdResult<(std::ops::Range<usize>, End, usize)> {
    let positive = |arg: &[u8]| args::int(arg).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let key_count = positive(&args[1]).ok_or(Fault::Text("ERR numkeys should be greater than 0"))?;
    let end_at = key_count.saturating_add(2);
    let end = End::parse(args.get(end_at).ok_or(Fault::SYNTAX)?)?;
    let count = match args.len() - end_at {
        1 => 1,
        3 if args::is(&args[end_at + 1], "COUNT") => {
            positive(&args[end_at + 2]).ok_or(Fault::Text("ERR count should be greater than 0"))?
        }
        // Of what follows a valid COUNT, nothing is known; a faulty COUNT is reported first.
        more if more > 3 && args::is(&args[end_at + 1], "COUNT") => {
            positive(&args[end_at + 2]).ok_or(Fault::Text("ERR count should be greater than 0"))?;
            return Err(Fault::SYNTAX);
        }
        _ => return Err(Fault::SYNTAX),
    };
    Ok((2..end_at, end, count))
}
