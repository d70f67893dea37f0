//! Commands over several lists: LMOVE, RPOPLPUSH, LMPOP.

use store::{Kind, List};

use super::{End, pop_from, pop_many, push_to};
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
    ctx.notify_removed(Event::List, from.pop_event(), source, emptied);
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
    let key_count = args::positive(&args[1], Fault::KEY_COUNT_NOT_POSITIVE)?;
    let end_at = key_count.saturating_add(2);
    let end = End::parse(args.get(end_at).ok_or(Fault::SYNTAX)?)?;
    let options = args.from(end_at + 1);
    let count = match options.len() {
        0 => 1,
        2.. if args::is(&options[0], "COUNT") => args::positive(&options[1], Fault::COUNT_NOT_POSITIVE)?,
        _ => return Err(Fault::SYNTAX),
    };
    // A faulty COUNT is reported before what follows it.
    if options.len() > 2 { Err(Fault::SYNTAX) } else { Ok((2..end_at, end, count)) }
}
