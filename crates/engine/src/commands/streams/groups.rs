//! XGROUP: making, moving and removing consumer groups and consumers.

use base::limits::BIG_INPUT_ELEMENTS;
use store::stream::Group;
use store::{Stream, StreamId};

use super::{change, ids, no_such_group, peek};
use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const NO_STREAM: Fault = Fault::Text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);
const NEGATIVE_READ: Fault = Fault::Text("ERR value for ENTRIESREAD must be positive or -1");
const GROUP_EXISTS: Fault = Fault::Text("BUSYGROUP Consumer Group name already exists");
/// Most arguments of CREATE, all options given once.
const CREATE_ARGS_MAX: usize = 8;

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option ...]",
    "    Make a consumer group that reads what comes after <id>. Options are:",
    "    * MKSTREAM: make the stream, too, if it does not exist.",
    "    * ENTRIESREAD <count>: how many entries count as read.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Make a consumer in a group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove a consumer, and what is pending for it.",
    "DESTROY <key> <groupname>",
    "    Remove a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD <count>]",
    "    Have a group go on reading after <id>.",
    "HELP",
    "    Print this text.",
];

/// XGROUP HELP
pub fn xgroup_help(_ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// What CREATE and SETID may be told.
#[derive(Default)]
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: Args<'_>, creating: bool) -> CmdResult<Options> {
        let mut options = Options::default();
        let mut at = 5;
        while let Some(word) = args.get(at) {
            if creating && args::is(word, "MKSTREAM") {
                options.make_stream = true;
                at += 1;
            } else if args::is(word, "ENTRIESREAD") && at + 1 < args.len() {
                options.entries_read = match args::int(&args[at + 1])? {
                    -1 => None,
                    count => Some(u64::try_from(count).map_err(|_| NEGATIVE_READ)?),
                };
                at += 2;
            } else {
                return Err(wrong(args));
            }
        }
        Ok(options)
    }
}

fn wrong(args: Args<'_>) -> Fault {
    Fault::wrong_subcommand("XGROUP", &args[1])
}

/// The stream of a subcommand that does not make it.
fn existing<'c>(ctx: &'c mut Ctx<'_>, key: &[u8]) -> CmdResult<&'c Stream> {
    peek(ctx, key)?.ok_or(NO_STREAM)
}

/// Fails unless there is such a stream, with such a group.
fn demand_group(ctx: &mut Ctx<'_>, args: Args<'_>) -> CmdResult {
    let (key, name) = (&args[2], &args[3]);
    existing(ctx, key)?.group(name).map(|_| ()).ok_or_else(|| no_such_group(key, name))
}

/// XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]
pub fn xgroup_create(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name, options) = (&args[2], &args[3], Options::parse(args, true)?);
    let last_id = peek(ctx, key)?.map(Stream::last_id);
    if last_id.is_none() && !options.make_stream {
        return Err(NO_STREAM);
    }
    if args.len() > CREATE_ARGS_MAX {
        return Err(wrong(args));
    }
    let id = match &args[4] {
        b"$" => last_id.unwrap_or_default(),
        id => ids::parse(id, 0)?,
    };
    let group = Group::new(id, options.entries_read);
    let created = ctx.edit_or_create(key, |stream: &mut Stream| stream.create_group(name, group))?;
    if !created {
        return Err(GROUP_EXISTS);
    }
    if last_id.is_none() {
        ctx.notify(Event::Stream, "xgroup-create", key);
    } else {
        ctx.notify_event(Event::Stream, "xgroup-create", key);
    }
    reply.ok();
    Ok(())
}

/// XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]
pub fn xgroup_setid(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name, options) = (&args[2], &args[3], Options::parse(args, false)?);
    demand_group(ctx, args)?;
    if !matches!(args.len(), 5 | 7) {
        return Err(wrong(args));
    }
    let given = match &args[4] {
        b"$" => None,
        id => Some(ids::parse_or_edge(id, 0)?),
    };
    ctx.edit(key, |stream: &mut Stream| {
        let id: StreamId = given.unwrap_or(stream.last_id());
        stream.edit_group(name, |group| group.set_position(id, options.entries_read));
    })?;
    ctx.notify_event(Event::Stream, "xgroup-setid", key);
    reply.ok();
    Ok(())
}

/// XGROUP DESTROY key group
pub fn xgroup_destroy(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name) = (&args[2], &args[3]);
    existing(ctx, key)?;
    let removed = ctx.edit(key, |stream: &mut Stream| stream.remove_group(name))?.flatten();
    reply.int(i64::from(removed.is_some()));
    if let Some(group) = removed {
        if group.pending_len() > BIG_INPUT_ELEMENTS {
            ctx.server().keyspace.discard_elsewhere(Box::new(group));
        }
        ctx.notify_event(Event::Stream, "xgroup-destroy", key);
    }
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer
pub fn xgroup_createconsumer(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name, now_ms) = (&args[2], &args[3], ctx.wall_ms());
    demand_group(ctx, args)?;
    let create = |stream: &mut Stream| {
        stream.edit_group(name, |group| group.create_consumer(&args[4], now_ms, None)).unwrap_or(false)
    };
    let created = ctx.edit(key, create)?.unwrap_or(false);
    if created {
        ctx.notify_event(Event::Stream, "xgroup-createconsumer", key);
    }
    reply.int(i64::from(created));
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
pub fn xgroup_delconsumer(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, group, consumer) = (&args[2], args[3].to_vec(), args[4].to_vec());
    demand_group(ctx, args)?;
    let known = peek(ctx, key)?.and_then(|stream| stream.group(&group)?.consumer(&consumer));
    let Some(work) = known.map(|consumer| consumer.pending_len()) else {
        reply.int(0);
        return Ok(());
    };
    let remove = move |stream: &mut Stream| {
        stream.edit_group(&group, |group| group.remove_consumer(&consumer)).flatten()
    };
    change(ctx, reply, key, work, remove, |ctx, reply, key, removed| {
        let removed = removed.flatten();
        if removed.is_some() {
            ctx.notify_event(Event::Stream, "xgroup-delconsumer", key);
        }
        reply.int(removed.unwrap_or(0) as i64);
        Ok(())
    })
}
