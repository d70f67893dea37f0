//! XINFO: streams, their groups and their consumers, in numbers.

use resp::Encoder;
use store::stream::{Consumer, Consumers, Group, Groups};
use store::{Stream, StreamId};

use super::{no_such_group, show_entry, show_id, stream_entries};
use crate::args::{self, Args};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Entries, and pending entries of each group and consumer, that FULL shows without COUNT.
const SHOWN_DEFAULT: usize = 10;

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Tell of the consumers of <groupname>.",
    "GROUPS <key>",
    "    Tell of the consumer groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    Tell of a stream; FULL: with its entries, groups and consumers, no more than",
    "    <count> of each kind.",
    "HELP",
    "    Print this text.",
];

/// XINFO HELP
pub fn xinfo_help(_ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// A clone of the stream at a key, which must exist.
fn existing(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Stream> {
    ctx.read::<Stream>(key)?.cloned().ok_or(Fault::NO_SUCH_KEY)
}

/// XINFO GROUPS key
pub fn xinfo_groups(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let stream = existing(ctx, &args[2])?;
    reply.array(stream.group_count());
    let mut groups = stream.groups();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some((name, group)) = groups.next() else { return false };
        out.map(6);
        show_bulk(out, "name", name);
        show_int(out, "consumers", group.consumer_count() as u64);
        show_int(out, "pending", group.pending_len() as u64);
        show_labelled_id(out, "last-delivered-id", group.last_id());
        show_progress(out, &stream, group);
        true
    });
    Ok(())
}

/// XINFO CONSUMERS key group
pub fn xinfo_consumers(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, now_ms) = (&args[2], ctx.now_ms());
    let stream = existing(ctx, key)?;
    let group = stream.group(&args[3]).ok_or_else(|| no_such_group(key, &args[3]))?;
    reply.array(group.consumer_count());
    let mut consumers = group.consumers();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some((name, consumer)) = consumers.next() else { return false };
        out.map(4);
        show_bulk(out, "name", name);
        show_int(out, "pending", consumer.pending_len() as u64);
        label(out, "idle");
        out.int((now_ms - consumer.seen_ms).max(0));
        label(out, "inactive");
        out.int(consumer.active_ms.map_or(-1, |active_ms| now_ms - active_ms));
        true
    });
    Ok(())
}

/// XINFO STREAM key [FULL [COUNT count]]
pub fn xinfo_stream(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    // A key that is not there is found before an option that is not known.
    let stream = existing(ctx, &args[2])?;
    let wrong = || Err(Fault::wrong_subcommand("XINFO", &args[1]));
    let is = |at: usize, word: &str| args.get(at).is_some_and(|arg| args::is(arg, word));
    match args.len() {
        3 => summary(reply, &stream),
        4 if is(3, "FULL") => full(reply, &stream, SHOWN_DEFAULT),
        6 if is(3, "FULL") && is(4, "COUNT") => {
            let count = usize::try_from(args::int(&args[5])?).unwrap_or(SHOWN_DEFAULT);
            full(reply, &stream, if count == 0 { usize::MAX } else { count });
        }
        _ => return wrong(),
    }
    Ok(())
}

fn counters(out: &mut Encoder<'_>, stream: &Stream) {
    show_int(out, "length", stream.len() as u64);
    show_int(out, "radix-tree-keys", stream.node_count() as u64);
    // Redis's tree has its own nodes besides; with a single key it has two.
    show_int(out, "radix-tree-nodes", (stream.node_count() + stream.inner_node_count() + 1) as u64);
    show_labelled_id(out, "last-generated-id", stream.last_id());
    show_labelled_id(out, "max-deleted-entry-id", stream.max_deleted_id());
    show_int(out, "entries-added", stream.entries_added());
    show_labelled_id(out, "recorded-first-entry-id", stream.first_entry_id().unwrap_or_default());
}

fn summary(reply: &mut Reply<'_>, stream: &Stream) {
    let out = &mut reply.encoder();
    out.map(10);
    counters(out, stream);
    show_int(out, "groups", stream.group_count() as u64);
    for (name, is_last) in [("first-entry", false), ("last-entry", true)] {
        label(out, name);
        match stream.range(if is_last { stream.len() } else { 0 }, is_last).next() {
            Some(entry) => show_entry(out, &entry),
            None => out.null(),
        }
    }
}

fn full(reply: &mut Reply<'_>, stream: &Stream, count_max: usize) {
    let out = &mut reply.encoder();
    out.map(9);
    counters(out, stream);
    label(out, "entries");
    stream_entries(reply, stream, 0, stream.len().min(count_max), false);
    label(&mut reply.encoder(), "groups");
    reply.array(stream.group_count());
    reply.stream(FullGroups { groups: stream.groups(), stream: stream.clone(), count_max, now: None });
}

/// The groups of XINFO STREAM FULL, made a pending entry at a time.
struct FullGroups {
    groups: Groups,
    stream: Stream,
    count_max: usize,
    now: Option<FullGroup>,
}

/// The rest of one group.
struct FullGroup {
    group: Group,
    /// Pending entries of the group that were shown.
    shown: usize,
    consumers: Option<Consumers>,
    consumer: Option<(Consumer, usize)>,
}

impl crate::output::Stream for FullGroups {
    fn fill(&mut self, out: &mut Encoder<'_>) -> bool {
        if let Some(group) = &mut self.now {
            if !group.fill(out, self.count_max) {
                self.now = None;
            }
            return true;
        }
        let Some((name, group)) = self.groups.next() else { return false };
        out.map(7);
        show_bulk(out, "name", name);
        show_labelled_id(out, "last-delivered-id", group.last_id());
        show_progress(out, &self.stream, group);
        show_int(out, "pel-count", group.pending_len() as u64);
        label(out, "pending");
        out.array(group.pending_len().min(self.count_max));
        self.now = Some(FullGroup { group: group.clone(), shown: 0, consumers: None, consumer: None });
        true
    }
}

impl FullGroup {
    /// Shows the next pending entry or consumer; false when nothing is left.
    fn fill(&mut self, out: &mut Encoder<'_>, count_max: usize) -> bool {
        if self.shown < count_max
            && self.consumers.is_none()
            && let Some((id, pending)) = self.group.pending_at(self.shown)
        {
            out.array(4);
            show_id(out, id);
            out.bulk(&pending.consumer);
            out.int(pending.delivered_ms);
            out.int(pending.deliveries as i64);
            self.shown += 1;
            return true;
        }
        let consumers = self.consumers.get_or_insert_with(|| {
            label(out, "consumers");
            out.array(self.group.consumer_count());
            self.group.consumers()
        });
        if let Some((consumer, shown)) = &mut self.consumer {
            if *shown < count_max
                && let Some(id) = consumer.pending_at(*shown)
                && let Some(pending) = self.group.pending(id)
            {
                out.array(3);
                show_id(out, id);
                out.int(pending.delivered_ms);
                out.int(pending.deliveries as i64);
                *shown += 1;
                return true;
            }
            self.consumer = None;
        }
        let Some((name, consumer)) = consumers.next() else { return false };
        out.map(5);
        show_bulk(out, "name", name);
        label(out, "seen-time");
        out.int(consumer.seen_ms);
        label(out, "active-time");
        out.int(consumer.active_ms.unwrap_or(-1));
        show_int(out, "pel-count", consumer.pending_len() as u64);
        label(out, "pending");
        out.array(consumer.pending_len().min(count_max));
        self.consumer = Some((consumer.clone(), 0));
        true
    }
}

fn label(out: &mut Encoder<'_>, name: &str) {
    out.bulk(name.as_bytes());
}

fn show_bulk(out: &mut Encoder<'_>, name: &str, bytes: &[u8]) {
    label(out, name);
    out.bulk(bytes);
}

fn show_int(out: &mut Encoder<'_>, name: &str, value: u64) {
    label(out, name);
    out.int(value as i64);
}

fn show_labelled_id(out: &mut Encoder<'_>, name: &str, id: StreamId) {
    label(out, name);
    show_id(out, id);
}

/// How far a group has come.
fn show_progress(out: &mut Encoder<'_>, stream: &Stream, group: &Group) {
    for (name, count) in
        [("entries-read", group.entries_read().map(|read| read as i64)), ("lag", lag(stream, group))]
    {
        label(out, name);
        match count {
            Some(count) => out.int(count),
            None => out.null(),
        }
    }
}

/// How many entries the group has still to read, where that can be told without counting.
fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    if stream.entries_added() == 0 {
        return Some(0);
    }
    let read = match group.entries_read() {
        Some(read) if !stream.has_gap_from(group.last_id()) => read,
        _ => stream.entries_up_to(group.last_id())?,
    };
    Some((stream.entries_added() as i64).wrapping_sub(read as i64))
}
