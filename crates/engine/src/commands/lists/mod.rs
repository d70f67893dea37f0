//! Lists.
//!
//! Specified by Redis's `t_list.c`. Ranges are never walked under the lock: a range is read from an O(1) clone.

mod blocking;
mod moves;
mod search;

use std::ops::Range;

use base::limits::BIG_INPUT_ELEMENTS;
use store::{List, ListIter, OwnedValue, Thresholds, Value};

use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub use blocking::{blmove, blmpop, blpop, brpop, brpoplpush};
pub use moves::{lmove, lmpop, rpoplpush};
pub use search::{linsert, lpos, lrem};

/// So many popped elements are read one by one. To read more, the list is cloned first.
const POPPED_ONE_BY_ONE_MAX: usize = 32;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The first element.
    Left,
    /// The last element.
    Right,
}

impl End {
    fn parse(arg: &[u8]) -> CmdResult<End> {
        if args::is(arg, "LEFT") {
            Ok(End::Left)
        } else if args::is(arg, "RIGHT") {
            Ok(End::Right)
        } else {
            Err(Fault::SYNTAX)
        }
    }

    fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    /// The command that pops there.
    fn pop_word(self) -> &'static [u8] {
        if self == End::Left { b"LPOP" } else { b"RPOP" }
    }

    fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}

/// The element's index, if the list has it.
fn existing_index(index: i64, len: usize) -> Option<usize> {
    usize::try_from(args::absolute_index(index, len)).ok().filter(|index| *index < len)
}

/// LPUSH key element [element ...]
pub fn lpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    push(ctx, args, reply, End::Left)
}

/// RPUSH key element [element ...]
pub fn rpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    push(ctx, args, reply, End::Right)
}

fn push(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> CmdResult {
    let (key, thresholds) = (&args[1], ctx.thresholds());
    let len = ctx.edit_or_create(key, |list: &mut List| push_all(list, args.from(2), end, &thresholds))?;
    ctx.notify(Event::List, end.push_event(), key);
    reply.int(len as i64);
    Ok(())
}

/// LPUSHX key element [element ...]
pub fn lpushx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    push_existing(ctx, args, reply, End::Left)
}

/// RPUSHX key element [element ...]
pub fn rpushx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    push_existing(ctx, args, reply, End::Right)
}

fn push_existing(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> CmdResult {
    let (key, thresholds) = (&args[1], ctx.thresholds());
    let len = ctx.edit(key, |list: &mut List| push_all(list, args.from(2), end, &thresholds))?;
    if len.is_some() {
        ctx.notify(Event::List, end.push_event(), key);
    }
    reply.int(len.unwrap_or(0) as i64);
    Ok(())
}

fn push_all(list: &mut List, elements: Args<'_>, end: End, thresholds: &Thresholds) -> usize {
    if elements.len() > 1 {
        list.expect_elements(elements.iter().map(<[u8]>::len).sum(), elements.len(), thresholds);
    }
    for element in elements.iter() {
        push_to(list, element, end, thresholds);
    }
    list.len()
}

fn push_to(list: &mut List, element: &[u8], end: End, thresholds: &Thresholds) {
    match end {
        End::Left => list.push_front(element, thresholds),
        End::Right => list.push_back(element, thresholds),
    }
}

/// LPOP key [count]
pub fn lpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop(ctx, args, reply, End::Left)
}

/// RPOP key [count]
pub fn rpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    pop(ctx, args, reply, End::Right)
}

fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> CmdResult {
    let key = &args[1];
    match args.len() {
        2 => match pop_one(ctx, key, end)? {
            Some(element) => reply.bulk(&element),
            None => reply.null(),
        },
        3 => {
            let count = args::natural(&args[2], Fault::NOT_POSITIVE)?;
            if pop_many(ctx, key, end, count, reply)?.is_none() {
                reply.null_array();
            }
        }
        _ => return Err(Fault::wrong_arity(end.pop_event())),
    }
    Ok(())
}

fn pop_from(list: &mut List, end: End) -> Option<Vec<u8>> {
    match end {
        End::Left => list.pop_front(),
        End::Right => list.pop_back(),
    }
}

fn pop_one(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> CmdResult<Option<Vec<u8>>> {
    let popped = ctx.edit(key, |list: &mut List| (pop_from(list, end), list.is_empty()))?;
    let Some((element, emptied)) = popped else { return Ok(None) };
    ctx.notify_removed(Event::List, end.pop_event(), key, emptied);
    Ok(element)
}

/// Pops up to `count` elements, replies with them and returns how many they are; `None`, with no reply, if there is no
/// list.
fn pop_many(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    end: End,
    count: usize,
    reply: &mut Reply<'_>,
) -> CmdResult<Option<usize>> {
    let outcome = ctx.edit(key, |list: &mut List| {
        let len = list.len();
        let count = count.min(len);
        reply.array(count);
        let kept = if end == End::Left { count..len } else { 0..len - count };
        if count <= POPPED_ONE_BY_ONE_MAX {
            for at in 0..count {
                let index = if end == End::Left { at } else { len - 1 - at };
                reply.bulk(&list.get(index).unwrap_or_else(|| unreachable!("pop: within the list")));
            }
        } else {
            stream_elements(reply, list, end, count);
        }
        ((count > 0).then(|| Cut::new(list, kept)), count)
    })?;
    let Some((cut, popped)) = outcome else { return Ok(None) };
    if let Some(cut) = cut {
        let emptied = cut.finish(ctx, key);
        ctx.notify_removed(Event::List, end.pop_event(), key, emptied);
    }
    Ok(Some(popped))
}

/// The removal of all but a range.
enum Cut {
    Done {
        emptied: bool,
    },
    /// So much goes that the reaper has to free it.
    Big {
        kept: Range<usize>,
    },
}

impl Cut {
    fn new(list: &mut List, kept: Range<usize>) -> Cut {
        if list.len() - kept.len() > BIG_INPUT_ELEMENTS {
            return Cut::Big { kept };
        }
        keep(list, kept);
        Cut::Done { emptied: list.is_empty() }
    }

    /// Completes the removal; true if nothing is left.
    fn finish(self, ctx: &mut Ctx<'_>, key: &[u8]) -> bool {
        let kept = match self {
            Cut::Done { emptied } => return emptied,
            Cut::Big { kept } => kept,
        };
        // It is a clone that loses elements, which frees nothing; the list that it replaces goes to the reaper.
        if !kept.is_empty()
            && let Some(mut entry) = ctx.read_entry(ctx.db(), key)
            && let OwnedValue::Object(Value::List(list)) = &mut entry.value
        {
            keep(list, kept);
            ctx.put_entry(ctx.db(), key, &entry);
            return false;
        }
        ctx.delete(key)
    }
}

fn keep(list: &mut List, kept: Range<usize>) {
    list.remove_range(kept.end, list.len());
    list.remove_range(0, kept.start);
}

/// The first `count` elements from an end on, the head of the reply being written.
fn stream_elements(reply: &mut Reply<'_>, list: &List, end: End, count: usize) {
    let from = if end == End::Left { 0 } else { list.len() };
    stream(reply, list.iter(from, end == End::Right), count);
}

fn stream(reply: &mut Reply<'_>, mut elements: ListIter, count: usize) {
    let mut left = count;
    reply.stream(move |out: &mut resp::Encoder<'_>| {
        if left == 0 {
            return false;
        }
        let Some(element) = elements.next() else { unreachable!("stream: as many elements as announced") };
        out.bulk(element);
        left -= 1;
        left > 0
    });
}

/// LLEN key
pub fn llen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<List>(&args[1])?.map_or(0, List::len) as i64);
    Ok(())
}

/// LINDEX key index
pub fn lindex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    // The index is only looked at where there is a list.
    let Some(list) = ctx.read::<List>(&args[1])? else {
        reply.null();
        return Ok(());
    };
    match existing_index(args::int(&args[2])?, list.len()).and_then(|index| list.get(index)) {
        Some(element) => reply.bulk(&element),
        None => reply.null(),
    }
    Ok(())
}

/// LSET key index element
pub fn lset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, index) = (&args[1], args::int(&args[2]));
    let set = ctx.edit(key, |list: &mut List| -> CmdResult {
        let index = existing_index(index?, list.len()).ok_or(Fault::INDEX_OUT_OF_RANGE)?;
        list.set(index, &args[3]);
        Ok(())
    })?;
    set.ok_or(Fault::NO_SUCH_KEY)??;
    ctx.notify(Event::List, "lset", key);
    reply.ok();
    Ok(())
}

/// LRANGE key start stop
pub fn lrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (start, stop) = (args::int(&args[2])?, args::int(&args[3])?);
    let Some(list) = ctx.read::<List>(&args[1])? else {
        reply.empty_array();
        return Ok(());
    };
    let range = args::index_range(start, stop, list.len());
    reply.array(range.len());
    if !range.is_empty() {
        stream(reply, list.iter(range.start, false), range.len());
    }
    Ok(())
}

/// LTRIM key start stop
pub fn ltrim(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, start, stop) = (&args[1], args::int(&args[2])?, args::int(&args[3])?);
    let cut = ctx.edit(key, |list: &mut List| {
        let kept = args::index_range(start, stop, list.len());
        let takes_all_in = kept.len() == list.len();
        (Cut::new(list, kept), takes_all_in)
    })?;
    if let Some((cut, takes_all_in)) = cut {
        let emptied = cut.finish(ctx, key);
        ctx.notify_removed(Event::List, "ltrim", key, emptied);
        if takes_all_in {
            // There is an event all the same.
            ctx.no_effect();
        }
    }
    reply.ok();
    Ok(())
}
