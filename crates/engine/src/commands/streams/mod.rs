//! Streams.
//!
//! Specified by Redis's `t_stream.c`. Ranges are never walked under the lock: a range is read from an O(1) clone.
//! What changes many entries at once is done on the long lane ([`change`]).

mod add;
mod claim;
mod groups;
mod ids;
mod info;
mod pending;
mod read;
mod told;

use base::limits::BIG_INPUT_ELEMENTS;
use resp::Encoder;
use store::stream::{Entry, Trim};
use store::{Stream, StreamId, Typed, ValueRef, View};

use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use ids::Shown;

pub use add::{xadd, xsetid, xtrim};
pub use claim::{xack, xautoclaim, xclaim};
pub use groups::{
    xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_help, xgroup_setid,
};
pub use info::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};
pub use pending::xpending;
pub use read::{find_keys, xread, xreadgroup};

/// XLEN key
pub fn xlen(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.read::<Stream>(&args[1])?.map_or(0, Stream::len) as i64);
    Ok(())
}

/// XRANGE key start end [COUNT count]
pub fn xrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (start, end) = (ids::parse_start(&args[2])?, ids::parse_end(&args[3])?);
    range(ctx, args, reply, start, end, false)
}

/// XREVRANGE key end start [COUNT count]
pub fn xrevrange(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (start, end) = (ids::parse_start(&args[3])?, ids::parse_end(&args[2])?);
    range(ctx, args, reply, start, end, true)
}

fn range(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    start: StreamId,
    end: StreamId,
    reverse: bool,
) -> CmdResult {
    let mut count_max = usize::MAX;
    let mut at = 4;
    while at < args.len() {
        let value = args.get(at + 1).filter(|_| args::is(&args[at], "COUNT")).ok_or(Fault::SYNTAX)?;
        count_max = usize::try_from(args::int(value)?).unwrap_or(0);
        at += 2;
    }
    let Some(stream) = ctx.read::<Stream>(&args[1])? else {
        reply.empty_array();
        return Ok(());
    };
    if count_max == 0 {
        reply.null_array();
        return Ok(());
    }
    let first = stream.rank(start);
    let after = end.next().map_or(stream.len(), |next| stream.rank(next)).max(first);
    let count = (after - first).min(count_max);
    let from = if reverse { after.saturating_sub(1) } else { first };
    stream_entries(reply, stream, from, count, reverse);
    Ok(())
}

/// XDEL key id [id ...]
pub fn xdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = args.at(1);
    // Nobody looks at the ids where there is no stream.
    if peek(ctx, key)?.is_none() {
        reply.int(0);
        return Ok(());
    }
    let doomed = ids::parse_all(args.from(2).iter())?;
    let work = doomed.len();
    let remove = move |stream: &mut Stream| doomed.iter().filter(|id| stream.remove(**id)).count();
    change(ctx, reply, key, work, remove, |ctx, reply, key, removed| {
        let removed = removed.unwrap_or(0);
        if removed > 0 {
            ctx.notify(Event::Stream, "xdel", key);
        }
        reply.int(removed as i64);
        Ok(())
    })
}

/// The stream at a key that a command is going to write to: counted neither as a hit nor as a miss.
fn peek<'c>(ctx: &'c mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<&'c Stream>> {
    match ctx.peek(key).map(View::value) {
        None => Ok(None),
        Some(ValueRef::Object(value)) => Stream::of(value).map(Some).ok_or(Fault::WRONG_TYPE),
        Some(ValueRef::Inline(_)) => Err(Fault::WRONG_TYPE),
    }
}

/// An array of `count` entries from rank `from` on, made as the connection has room for them.
fn stream_entries(reply: &mut Reply<'_>, stream: &Stream, from: usize, count: usize, reverse: bool) {
    reply.array(count);
    let mut entries = stream.range(from, reverse);
    let mut left = count;
    reply.stream(move |out: &mut Encoder<'_>| {
        if left == 0 {
            return false;
        }
        let Some(entry) = entries.next() else { unreachable!("stream: as many entries as announced") };
        show_entry(out, &entry);
        left -= 1;
        left > 0
    });
}

/// An entry: its id, and its fields and values one after the other.
fn show_entry(out: &mut Encoder<'_>, entry: &Entry<'_>) {
    out.array(2);
    show_id(out, entry.id);
    out.array(2 * entry.fields.len());
    for (name, value) in entry.fields.clone() {
        out.bulk(&name);
        out.bulk(&value);
    }
}

fn show_id(out: &mut Encoder<'_>, id: StreamId) {
    out.bulk(Shown::new(id).as_bytes());
}

/// Changes a stream where it is, or, if that is `work` over many entries, a clone on the long lane that then takes
/// its place. `change` may run several times; `finish` runs once, under the lock, with what `change` returned, `None`
/// if there is no stream.
fn change<R, C, F>(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    key: &[u8],
    work: usize,
    change: C,
    finish: F,
) -> CmdResult
where
    C: Fn(&mut Stream) -> R + Send + 'static,
    F: FnOnce(&mut Ctx<'_>, &mut Reply<'_>, &[u8], Option<R>) -> CmdResult + Send + 'static,
{
    if work <= BIG_INPUT_ELEMENTS {
        let result = ctx.edit(key, |stream: &mut Stream| change(stream))?;
        return finish(ctx, reply, key, result);
    }
    algebra::derive(
        ctx,
        reply,
        key,
        std::iter::once(key),
        |_: &[Option<Stream>]| usize::MAX,
        move |inputs| {
            inputs[0].as_ref().map(|stream| {
                let mut changed = stream.clone();
                let result = change(&mut changed);
                (changed, result)
            })
        },
        move |ctx, reply, key, outcome| {
            let Some((changed, result)) = outcome else { return finish(ctx, reply, key, None) };
            ctx.edit(key, |stream: &mut Stream| *stream = changed)?;
            finish(ctx, reply, key, Some(result))
        },
    )
}

/// How a stream is to be trimmed.
#[derive(Clone, Copy)]
struct Trimming {
    trim: Trim,
    /// Whole nodes only (`~`), of no more entries than this.
    nodes_limit: Option<usize>,
}

/// Trims the stream at a key and tells how many entries went.
fn trim(ctx: &mut Ctx<'_>, key: &[u8], trimming: Trimming) -> CmdResult<usize> {
    let trimmed = ctx.edit(key, |stream: &mut Stream| {
        let count = match trimming.nodes_limit {
            Some(limit) => stream.trimmed_nodes_len(trimming.trim, limit),
            None => stream.trimmed_len(trimming.trim),
        };
        // While a clone holds them, nothing is freed here: it is the reaper who lets go of many entries.
        let before = (count > BIG_INPUT_ELEMENTS).then(|| stream.clone());
        stream.remove_first(count);
        (count, before)
    })?;
    let Some((count, before)) = trimmed else { return Ok(0) };
    if let Some(before) = before {
        ctx.server().keyspace.discard_elsewhere(Box::new(before));
    }
    if count > 0 {
        ctx.notify(Event::Stream, "xtrim", key);
    }
    Ok(count)
}

/// There is no such group, or no stream that could have it.
fn no_group(key: &[u8], group: &[u8], after: &str) -> Fault {
    let before = Fault::quoting("NOGROUP No such key '", key, "' or consumer group '");
    append_quote(before, group, &format!("'{after}"))
}

/// There is no such group.
fn no_such_group(key: &[u8], group: &[u8]) -> Fault {
    let before = Fault::quoting("NOGROUP No such consumer group '", group, "' for key name '");
    append_quote(before, key, "'")
}

fn append_quote(before: Fault, client_bytes: &[u8], after: &str) -> Fault {
    let rest = Fault::quoting("", client_bytes, after);
    Fault::Quoting([before.bytes(), rest.bytes()].concat())
}
