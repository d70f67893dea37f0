//! XREAD and XREADGROUP: what came after an id, now or later.

use base::limits::BIG_INPUT_ELEMENTS;
use resp::{Encoder, OwnedArgs, Proto};
use store::stream::{Name, Pending};
use store::{Kind, Stream, StreamId};

use super::ids::{self, Shown};
use super::told::Told;
use super::{no_group, peek, show_entry, show_id, stream_entries};
use crate::args::{self, Args};
use crate::blocking::{Block, TimeoutReply};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::table::{InvalidKeys, KeyAccess};

const GROUP_WITH_XREAD: Fault =
    Fault::Text("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_WITH_XREAD: Fault =
    Fault::Text("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const GROUP_MISSING: Fault = Fault::Text("ERR Missing GROUP option for XREADGROUP");
const NEW_WITHOUT_GROUP: Fault = Fault::Text(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);

/// What either command is asked.
struct Options<'a> {
    /// Whether to wait, and how many microseconds, `None` for ever.
    block_us: Option<Option<u64>>,
    count: usize,
    no_ack: bool,
    group: Option<(&'a [u8], &'a [u8])>,
    /// Where the keys begin.
    keys_at: usize,
    streams: usize,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, in_group: bool, in_script: bool) -> CmdResult<Options<'a>> {
        let mut options =
            Options { block_us: None, count: 0, no_ack: false, group: None, keys_at: 0, streams: 0 };
        let mut at = 1;
        while let Some(word) = args.get(at) {
            let more = args.len() - at - 1;
            if args::is(word, "BLOCK") && more >= 1 {
                if in_script {
                    let text = " command is not allowed with BLOCK option from scripts";
                    return Err(Fault::quoting("ERR ", &args[0], text));
                }
                options.block_us = Some(args::timeout_ms(&args[at + 1])?);
                at += 2;
            } else if args::is(word, "COUNT") && more >= 1 {
                options.count = usize::try_from(args::int(&args[at + 1])?).unwrap_or(0);
                at += 2;
            } else if args::is(word, "STREAMS") && more >= 1 {
                if !more.is_multiple_of(2) {
                    return Err(unbalanced(in_group));
                }
                (options.keys_at, options.streams) = (at + 1, more / 2);
                break;
            } else if args::is(word, "GROUP") && more >= 2 {
                if !in_group {
                    return Err(GROUP_WITH_XREAD);
                }
                options.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if args::is(word, "NOACK") {
                if !in_group {
                    return Err(NOACK_WITH_XREAD);
                }
                options.no_ack = true;
                at += 1;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        match options.keys_at {
            0 => Err(Fault::SYNTAX),
            _ => Ok(options),
        }
    }

    /// Entries to show of each stream.
    fn count_max(&self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    fn keys(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
        let first = self.keys_at;
        (first..first + self.streams).map(move |at| args.at(at))
    }

    /// Each key with the id given for it.
    fn pairs(&self, args: Args<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let streams = self.streams;
        let first = self.keys_at;
        (first..first + streams).map(move |at| (args.at(at), args.at(at + streams)))
    }
}

fn unbalanced(in_group: bool) -> Fault {
    Fault::Text(if in_group {
        "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
    } else {
        "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."
    })
}

fn meaningless(id: &str) -> Fault {
    Fault::owned(format!(
        "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
         specifying a proper ID, or use the > ID to get new messages. The {id} ID would just return an empty result \
         set."
    ))
}

/// The keys of XREAD and XREADGROUP: the word STREAMS may also be the value of an option before them.
pub fn find_keys(args: Args<'_>, each: &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys> {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        if args::is(word, "STREAMS") {
            // As Redis: where an id is missing no key is touched, but who may not read them is told so first.
            let keys = (args.len() - at - 1) / 2;
            if keys == 0 {
                return Err(InvalidKeys);
            }
            (at + 1..at + 1 + keys).for_each(|key| each(key, KeyAccess::RO | KeyAccess::ACCESS));
            break;
        }
        at += if args::is(word, "BLOCK") || args::is(word, "COUNT") {
            2
        } else if args::is(word, "GROUP") {
            3
        } else if args::is(word, "NOACK") {
            1
        } else {
            break;
        };
    }
    Ok(())
}

/// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
pub fn xread(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let options = Options::parse(args, false, ctx.session_ref().in_script)?;
    let mut after = Vec::with_capacity(options.streams);
    for (key, id) in options.pairs(args) {
        after.push(read_after(ctx.read::<Stream>(key)?, id)?);
    }
    let mut served = Vec::new();
    for (key, after) in options.keys(args).zip(&after) {
        if let Some(stream) = ctx.read::<Stream>(key)?
            && stream.last_entry_id().is_some_and(|last| last > *after)
        {
            served.push((key, stream.clone(), *after));
        }
    }
    if served.is_empty() {
        return wait(ctx, args, reply, &options, &after);
    }
    reply_head(reply, served.len());
    for (key, stream, after) in served {
        reply_key(reply, key);
        let first = after.next().map_or(stream.len(), |next| stream.rank(next));
        stream_entries(reply, &stream, first, (stream.len() - first).min(options.count_max()), false);
    }
    Ok(())
}

/// The id after which XREAD reads.
fn read_after(stream: Option<&Stream>, id: &[u8]) -> CmdResult<StreamId> {
    let last_id = stream.map_or(StreamId::MIN, Stream::last_id);
    match id {
        b"$" => Ok(last_id),
        // The last entry, or else the first to come.
        b"+" => {
            Ok(stream.and_then(Stream::last_entry_id).map_or(last_id, |id| id.prev().unwrap_or_default()))
        }
        b">" => Err(NEW_WITHOUT_GROUP),
        id => ids::parse(id, 0),
    }
}

fn reply_head(reply: &mut Reply<'_>, streams: usize) {
    match reply.proto() {
        Proto::V2 => reply.array(streams),
        Proto::V3 => reply.map(streams),
    }
}

fn reply_key(reply: &mut Reply<'_>, key: &[u8]) {
    if reply.proto() == Proto::V2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Nothing is there: waits for it, if the client wants to. `after` are the ids behind the ones given, for XREAD.
fn wait(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    options: &Options<'_>,
    after: &[StreamId],
) -> CmdResult {
    let Some(timeout_us) = options.block_us.filter(|_| ctx.may_block()) else {
        reply.null_array();
        return Ok(());
    };
    // Ids that mean "now" have to mean the now of this call when the command runs again.
    let ids_at = options.keys_at + options.streams;
    let shown: Vec<Shown> = after.iter().map(|id| Shown::new(*id)).collect();
    let words: Vec<&[u8]> = (0..args.len())
        .map(|at| at.checked_sub(ids_at).and_then(|id| shown.get(id)).map_or(&args[at], Shown::as_bytes))
        .collect();
    // Readers of a group wait for the same entries: whom there is nothing for, there is nothing for those behind. Other
    // readers do if they wait for what comes after the same ids of the same keys.
    let class = match options.group {
        Some((group, _)) => [b"g", group].concat(),
        None => words[options.keys_at..].iter().fold(vec![b'r'], |mut class, word| {
            class.extend_from_slice(&(word.len() as u64).to_le_bytes());
            class.extend_from_slice(word);
            class
        }),
    };
    ctx.block(Block {
        keys: options.keys(args).collect(),
        args: OwnedArgs::new(words.iter().copied()),
        kind: Kind::Stream,
        even_if_gone: options.group.is_some(),
        class: &class,
        timeout_us,
        on_timeout: TimeoutReply::NullArray,
    });
    Ok(())
}

/// What XREADGROUP wants of one stream.
#[derive(Clone, Copy)]
enum Wanted {
    /// `>`: entries that nobody of the group was given.
    New,
    /// What is pending for the consumer, after this id.
    History(StreamId),
}

/// Who reads, and how.
struct Reader {
    group: Name,
    consumer: Name,
    now_ms: i64,
    count_max: usize,
    no_ack: bool,
}

/// What a reader got of one stream.
#[derive(Clone, Copy)]
struct Served {
    what: Option<Got>,
    has_new_consumer: bool,
}

#[derive(Clone, Copy)]
enum Got {
    /// So many entries from this rank on.
    Entries { first: usize, count: usize },
    /// So many of what is pending for the consumer, from this rank on.
    Pending { first: usize, count: usize },
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]
pub fn xreadgroup(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let options = Options::parse(args, true, ctx.session_ref().in_script)?;
    let (group, consumer) = options.group.ok_or(GROUP_MISSING)?;
    let mut wanted = Vec::with_capacity(options.streams);
    for (key, id) in options.pairs(args) {
        if ctx.read::<Stream>(key)?.and_then(|stream| stream.group(group)).is_none() {
            return Err(no_group(key, group, " in XREADGROUP with GROUP option"));
        }
        wanted.push(match id {
            b"$" => return Err(meaningless("$")),
            b"+" => return Err(meaningless("+")),
            b">" => Wanted::New,
            id => Wanted::History(ids::parse(id, 0)?),
        });
    }
    let (group, consumer) = (Name::from(group), Name::from(consumer));
    let (now_ms, count_max) = (ctx.wall_ms(), options.count_max());
    let reader = Reader { group, consumer, now_ms, count_max, no_ack: options.no_ack };
    let mut work = 0;
    for (key, wanted) in options.keys(args).zip(&wanted) {
        work += ctx.read::<Stream>(key)?.map_or(0, |stream| reader.work(stream, *wanted));
    }
    if work > BIG_INPUT_ELEMENTS {
        return read_aside(ctx, reply, &options.keys(args).collect::<Vec<_>>(), reader, wanted);
    }
    let mut served = Vec::with_capacity(options.streams);
    for (key, wanted) in options.keys(args).zip(wanted) {
        let got = ctx.edit(key, |stream: &mut Stream| reader.serve(stream, wanted))?;
        served.push(got.unwrap_or_else(|| unreachable!("xreadgroup: the stream was there")));
    }
    let keys: Vec<&[u8]> = options.keys(args).collect();
    if !report(ctx, reply, &keys, &reader, &served)? {
        return wait(ctx, args, reply, &options, &[]);
    }
    Ok(())
}

/// Serves a reader of very many entries, on clones that then take the streams' places.
fn read_aside(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    keys: &[&[u8]],
    reader: Reader,
    wanted: Vec<Wanted>,
) -> CmdResult {
    let owned: Vec<Box<[u8]>> = keys.iter().copied().map(Box::from).collect();
    let reader = std::sync::Arc::new(reader);
    let (computing, names) = (reader.clone(), owned.clone());
    algebra::derive(
        ctx,
        reply,
        keys[0],
        keys.iter().copied(),
        |_: &[Option<Stream>]| usize::MAX,
        move |inputs| {
            let mut changed: Vec<Option<Stream>> = inputs.to_vec();
            let served = wanted.iter().enumerate().map(|(at, wanted)| {
                // A key may be named twice: it is one stream.
                let first = names.iter().position(|name| *name == names[at]).unwrap_or(at);
                let stream = changed[first].as_mut()?;
                stream.group(&computing.group)?;
                Some(computing.serve(stream, *wanted))
            });
            let served: Vec<Option<Served>> = served.collect();
            (changed, served)
        },
        move |ctx, reply, _, (changed, served)| {
            let keys: Vec<&[u8]> = owned.iter().map(|key| &**key).collect();
            let served: Option<Vec<Served>> = served.into_iter().collect();
            // Another worker may have taken a group away meanwhile.
            let Some(served) = served else {
                let is_gone = |stream: &Option<Stream>| {
                    stream.as_ref().is_none_or(|stream| stream.group(&reader.group).is_none())
                };
                let at = changed.iter().position(is_gone).unwrap_or(0);
                return Err(no_group(keys[at], &reader.group, " in XREADGROUP with GROUP option"));
            };
            for (at, (key, stream)) in keys.iter().zip(changed).enumerate() {
                if let Some(stream) = stream.filter(|_| !keys[..at].contains(key)) {
                    ctx.edit(key, |kept: &mut Stream| *kept = stream)?;
                }
            }
            if !report(ctx, reply, &keys, &reader, &served)? {
                reply.null_array();
            }
            Ok(())
        },
    )
}

impl Reader {
    /// How many entries serving it will visit.
    fn work(&self, stream: &Stream, wanted: Wanted) -> usize {
        let Some(group) = stream.group(&self.group) else { return 0 };
        let there = match wanted {
            Wanted::New => stream.len() - stream.rank(group.last_id()),
            Wanted::History(_) => group.consumer(&self.consumer).map_or(0, |consumer| consumer.pending_len()),
        };
        there.min(self.count_max)
    }

    /// Gives the consumer what it wants of a stream that has the group.
    fn serve(&self, stream: &mut Stream, wanted: Wanted) -> Served {
        let has_new_consumer = stream
            .edit_group(&self.group, |group| {
                let is_new = group.create_consumer(&self.consumer, self.now_ms, None);
                group.touch_consumer(&self.consumer, self.now_ms, false);
                is_new
            })
            .unwrap_or(false);
        let what = match wanted {
            Wanted::New => self.deliver(stream),
            Wanted::History(after) => Some(self.repeat(stream, after)),
        };
        Served { what, has_new_consumer }
    }

    /// Delivers entries for the first time.
    fn deliver(&self, stream: &mut Stream) -> Option<Got> {
        let last_id = stream.group(&self.group)?.last_id();
        let first = last_id.next().map_or(stream.len(), |next| stream.rank(next));
        let count = (stream.len() - first).min(self.count_max);
        if count == 0 {
            return None;
        }
        stream.deliver(&self.group, &self.consumer, first, count, (!self.no_ack).then_some(self.now_ms));
        Some(Got::Entries { first, count })
    }

    /// Counts what is pending for the consumer as delivered once more.
    fn repeat(&self, stream: &mut Stream, after: StreamId) -> Got {
        let consumer = stream.group(&self.group).and_then(|group| group.consumer(&self.consumer));
        let Some(consumer) = consumer.cloned() else { return Got::Pending { first: 0, count: 0 } };
        let first = after.next().map_or(consumer.pending_len(), |next| consumer.pending_rank(next));
        let count = (consumer.pending_len() - first).min(self.count_max);
        let ids = (first..first + count).filter_map(|rank| consumer.pending_at(rank));
        let there: Vec<StreamId> = ids.filter(|id| stream.get(*id).is_some()).collect();
        stream.edit_group(&self.group, |group| {
            for id in there {
                let Some(known) = group.pending(id).cloned() else { continue };
                let deliveries = known.deliveries.wrapping_add(1);
                group.assign(id, Pending { delivered_ms: self.now_ms, deliveries, ..known });
            }
        });
        Got::Pending { first, count }
    }
}

/// Tells of what was done and replies with what the reader got; false, with no reply, if that is nothing at all.
fn report(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    keys: &[&[u8]],
    reader: &Reader,
    served: &[Served],
) -> CmdResult<bool> {
    ctx.no_effect();
    for (key, served) in keys.iter().zip(served) {
        if served.has_new_consumer {
            ctx.notify_event(Event::Stream, "xgroup-createconsumer", key);
        }
        if ctx.is_journaled() {
            tell(ctx, key, reader, *served)?;
        }
    }
    let got: Vec<(&[u8], Got)> =
        keys.iter().zip(served).filter_map(|(key, served)| Some((*key, served.what?))).collect();
    if got.is_empty() {
        return Ok(false);
    }
    reply_head(reply, got.len());
    for (key, got) in got {
        ctx.stats().dirty.add(1);
        reply_key(reply, key);
        let stream = ctx.read::<Stream>(key)?.unwrap_or_else(|| unreachable!("xreadgroup: it was there"));
        match got {
            Got::Entries { first, count } => stream_entries(reply, stream, first, count, false),
            Got::Pending { first, count } => stream_history(reply, stream, reader, first, count),
        }
    }
    Ok(true)
}

/// The effect of serving a reader from one stream.
fn tell(ctx: &mut Ctx<'_>, key: &[u8], reader: &Reader, served: Served) -> CmdResult {
    let told = Told { key, group: &reader.group };
    let delivered = match served.what {
        Some(Got::Entries { first, count }) => Some((first, count)),
        Some(Got::Pending { .. }) | None => None,
    };
    if served.has_new_consumer && (delivered.is_none() || reader.no_ack) {
        told.consumer(ctx, &reader.consumer);
    }
    let Some((first, count)) = delivered else { return Ok(()) };
    let Some(stream) = peek(ctx, key)?.cloned() else { return Ok(()) };
    if !reader.no_ack {
        let mut entries = stream.range(first, false);
        let ids = std::iter::from_fn(|| entries.next().map(|entry| entry.id)).take(count);
        told.delivered(ctx, &stream, ids);
    }
    if let Some(group) = stream.group(&reader.group) {
        told.position(ctx, group);
    }
    Ok(())
}

/// Entries that are pending for a consumer; those that the stream no longer has, without fields.
fn stream_history(reply: &mut Reply<'_>, stream: &Stream, reader: &Reader, first: usize, count: usize) {
    reply.array(count);
    let consumer = stream.group(&reader.group).and_then(|group| group.consumer(&reader.consumer));
    let (Some(consumer), stream) = (consumer.cloned(), stream.clone()) else { return };
    let mut ranks = first..first + count;
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some(id) = ranks.next().and_then(|rank| consumer.pending_at(rank)) else { return false };
        match stream.get(id) {
            Some(entry) => show_entry(out, &entry),
            None => {
                out.array(2);
                show_id(out, id);
                out.null_array();
            }
        }
        true
    });
}
