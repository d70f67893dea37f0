//! SUBSCRIBE and its kin, PUBLISH, SPUBLISH, PUBSUB.

use resp::Proto;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::propagation::LogReader;
use crate::pubsub::Space;
use crate::reply::Reply;

const HELP: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    List the channels that have subscribers, or those of them that match <pattern>.",
    "NUMPAT",
    "    Count the patterns that have subscribers.",
    "NUMSUB [<channel> ...]",
    "    Count the subscribers of channels; those by pattern do not count.",
    "SHARDCHANNELS [<pattern>]",
    "    As CHANNELS, for shard channels.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    As NUMSUB, for shard channels.",
    "HELP",
    "    Print this text.",
];

/// SUBSCRIBE channel [channel ...]
pub(crate) fn subscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    subscribe_to(ctx, Space::Channel, args, reply)
}

/// PSUBSCRIBE pattern [pattern ...]
pub(crate) fn psubscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    subscribe_to(ctx, Space::Pattern, args, reply)
}

/// SSUBSCRIBE shardchannel [shardchannel ...]
pub(crate) fn ssubscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.check_one_slot(args.from(1))?;
    subscribe_to(ctx, Space::Shard, args, reply)
}

fn subscribe_to(ctx: &mut Ctx<'_>, space: Space, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    for name in args.from(1) {
        let count = ctx.subscribe(space, name);
        tell(reply, space.subscribed(), Some(name), count);
    }
    Ok(())
}

/// UNSUBSCRIBE [channel [channel ...]]
pub(crate) fn unsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    unsubscribe_from(ctx, Space::Channel, args, reply)
}

/// PUNSUBSCRIBE [pattern [pattern ...]]
pub(crate) fn punsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    unsubscribe_from(ctx, Space::Pattern, args, reply)
}

/// SUNSUBSCRIBE [shardchannel [shardchannel ...]]
pub(crate) fn sunsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.check_one_slot(args.from(1))?;
    unsubscribe_from(ctx, Space::Shard, args, reply)
}

fn unsubscribe_from(ctx: &mut Ctx<'_>, space: Space, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names: Vec<Box<[u8]>> = match args.len() {
        1 => ctx.subscribed(space),
        _ => args.from(1).iter().map(Box::from).collect(),
    };
    for name in &names {
        let count = ctx.unsubscribe(space, name);
        tell(reply, space.unsubscribed(), Some(name), count);
    }
    if names.is_empty() {
        let count = ctx.subscription_count(space);
        tell(reply, space.unsubscribed(), None, count);
    }
    Ok(())
}

fn tell(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.text(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(count as i64);
}

/// PUBLISH channel message
pub(crate) fn publish(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let receivers = ctx.publish_everywhere(&args[1], &args[2]);
    // Those who have subscribed at another node of a cluster are told by way of its own subscriptions, replica or not.
    if !ctx.server().channels.spans_nodes() {
        tell_replicas(ctx, args);
    }
    reply.int(receivers as i64);
    Ok(())
}

/// Those who have subscribed at a replica are told by it.
fn tell_replicas(ctx: &mut Ctx<'_>, args: Args<'_>) {
    if ctx.server().is_log_wanted(LogReader::Replicas) {
        ctx.effect_with(&[], args);
    }
}

/// SPUBLISH shardchannel message
pub(crate) fn spublish(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let receivers = ctx.publish(Space::Shard, &args[1], &args[2]);
    tell_replicas(ctx, args);
    reply.int(receivers as i64);
    Ok(())
}

/// REPLCONF halcyon-listen name, or halcyon-unlisten: another node of the cluster wants, or does not any more, what PUBLISH says here to
/// a channel (`c` and its name), or to those of a pattern (`p` and that).
pub(crate) fn listen(ctx: &mut Ctx<'_>, wanted: &[u8], is_wanted: bool) -> CmdResult {
    let (space, name) = match wanted.split_first() {
        Some((b'c', name)) => (Space::NodeChannel, name),
        Some((b'p', name)) => (Space::NodePattern, name),
        _ => return Err(Fault::SYNTAX),
    };
    match is_wanted {
        true => ctx.subscribe(space, name),
        false => ctx.unsubscribe(space, name),
    };
    Ok(())
}

/// What PING answers a RESP2 connection that has subscribed: a status line would not be told from a message.
pub(crate) fn pong(ctx: &Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> bool {
    if reply.proto() == Proto::V3 || ctx.session_ref().subscriptions.is_none() {
        return false;
    }
    reply.array(2);
    reply.text("pong");
    reply.bulk(args.get(1).unwrap_or_default());
    true
}

/// PUBSUB CHANNELS [pattern]
pub(crate) fn channels(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    list(ctx, Space::Channel, args, reply)
}

/// PUBSUB SHARDCHANNELS [pattern]
pub(crate) fn shardchannels(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    list(ctx, Space::Shard, args, reply)
}

fn list(ctx: &mut Ctx<'_>, space: Space, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() > 3 {
        return Err(Fault::wrong_subcommand("PUBSUB", &args[1]));
    }
    let names = ctx.server().channels.list(space, args.get(2));
    reply.array(names.len());
    let mut names = names.into_iter();
    reply.stream(move |out: &mut resp::Encoder<'_>| {
        names.next().is_some_and(|name| {
            out.bulk(&name);
            names.len() > 0
        })
    });
    Ok(())
}

/// PUBSUB NUMSUB [channel [channel ...]]
pub(crate) fn numsub(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    count(ctx, Space::Channel, args, reply)
}

/// PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]
pub(crate) fn shardnumsub(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    count(ctx, Space::Shard, args, reply)
}

fn count(ctx: &mut Ctx<'_>, space: Space, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names = args.from(2);
    reply.array(2 * names.len());
    for name in names {
        reply.bulk(name);
        reply.int(ctx.server().channels.subscribers(space, name) as i64);
    }
    Ok(())
}

/// PUBSUB NUMPAT
pub(crate) fn numpat(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().channels.used(Space::Pattern) as i64);
    Ok(())
}

/// PUBSUB HELP
pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}
