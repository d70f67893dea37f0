//! Commands over several lists: LMOVE, RPOPLPUSH, LMPOP.

use store::{Kind, List};

use super::{End, pop_from, pop_many, push_to};
use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
pub fn lmove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (from, to) = (End::parse(&args[3])?, End::parse(&args[4])?);
    if !move_one(ctx, &args[1], &args[2], from, to, reply)? {
        reply.null();
    }
    Ok(())
}

/// RPOPLPUSH source destination
pub fn rpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if !move_one(ctx, &args[1], &args[2], End::Right, End::Left, reply)? {
        reply.null();
    }
    Ok(())
}

/// Moves an element and replies with it; false, with no reply, if there is none.
pub(super) fn move_one(
    ctx: &mut Ctx<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
    reply: &mut Reply<'_>,
) -> CmdResult<bool> {
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
    let Some((element, emptied)) = popped else { return Ok(false) };
    let element = element.ok_or(Fault::WRONG_TYPE)?;
    if !rotates {
        ctx.edit_or_create(destination, |list: &mut List| push_to(list, &element, to, &thresholds))?;
    }
    ctx.notify(Event::List, to.push_event(), destination);
    ctx.notify_removed(Event::List, from.pop_event(), source, emptied);
    reply.bulk(&element);
    Ok(true)
}

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub fn lmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if !parse_mpop(args)?.run(ctx, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// Which lists LMPOP and BLMPOP look at, and what they take.
pub(super) struct Mpop<'a> {
    pub(super) keys: Vec<&'a [u8]>,
    end: End,
    count: usize,
}

impl Mpop<'_> {
    /// Pops from the first list that is there; false, with no reply, if there is none.
    pub(super) fn run(&self, ctx: &mut Ctx<'_>, reply: &mut Reply<'_>) -> CmdResult<bool> {
        for key in &self.keys {
            match ctx.peek_kind(key) {
                None => {}
                Some(Kind::List) => {
                    reply.array(2);
                    reply.bulk(key);
                    let popped = pop_many(ctx, key, self.end, self.count, reply)?.unwrap_or(0);
                    ctx.effect(&[self.end.pop_word(), key, popped.to_string().as_bytes()]);
                    return Ok(true);
                }
                Some(_) => return Err(Fault::WRONG_TYPE),
            }
        }
        Ok(false)
    }
}

/// Reads `numkeys key [key ...] LEFT|RIGHT [COUNT count]`, which begins at argument 1.
pub(super) fn parse_mpop(args: Args<'_>) -> CmdResult<Mpop<'_>> {
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
    if options.len() > 2 {
        return Err(Fault::SYNTAX);
    }
    Ok(Mpop { keys: args.from(2).iter().take(key_count).collect(), end, count })
}
