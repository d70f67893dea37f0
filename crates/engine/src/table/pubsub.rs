//! Rows of publish and subscribe.

use super::{ChannelSpec, Command, Flags, Group, KeyAccess, KeySpec};
use crate::commands::pubsub;

const LISTENING: Flags =
    Flags::PUBSUB.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::SUBSCRIBED);
const SENDING: Flags =
    Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST).union(Flags::MAY_REPLICATE);
const ASKING: Flags = Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE);
const SHARD_CHANNELS: &[KeySpec] = &[KeySpec::range(KeyAccess::NOT_KEY, 1, -1, 1)];
const SHARD_CHANNEL: &[KeySpec] = &[KeySpec::one(KeyAccess::NOT_KEY, 1)];
const PER_NAME: &str = "O(N) where N is the number of names.";
const SENT: &str = "O(N+M) where N is the number of subscribers and M the number of patterns.";

/// What the rows have in common.
const ROW: Command = Command { group: Group::PubSub, since: "2.0.0", ..Command::BLANK };

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "psubscribe",
        arity: -2,
        flags: LISTENING,
        channels: ChannelSpec::ALL_PATTERNS,
        complexity: PER_NAME,
        summary: "Listens to the channels whose names fit patterns.",
        syntax: "pattern [pattern ...]",
        run: pubsub::psubscribe,
        ..ROW
    },
    Command {
        name: "publish",
        arity: 3,
        flags: SENDING,
        channels: ChannelSpec::ONE,
        complexity: SENT,
        summary: "Sends a message to a channel.",
        syntax: "channel message",
        run: pubsub::publish,
        ..ROW
    },
    Command {
        name: "pubsub",
        arity: -2,
        since: "2.8.0",
        complexity: "Depends on the subcommand.",
        summary: "Tells of channels and subscribers.",
        subcommands: SUBCOMMANDS,
        ..ROW
    },
    Command {
        name: "punsubscribe",
        arity: -1,
        flags: LISTENING,
        complexity: PER_NAME,
        summary: "Stops listening to channels by pattern.",
        syntax: "[pattern [pattern ...]]",
        run: pubsub::punsubscribe,
        ..ROW
    },
    Command {
        name: "spublish",
        arity: 3,
        flags: SENDING,
        keys: SHARD_CHANNEL,
        since: "7.0.0",
        channels: ChannelSpec::ONE,
        complexity: "O(N) where N is the number of subscribers.",
        summary: "Sends a message to a shard channel.",
        syntax: "shardchannel message",
        run: pubsub::spublish,
        ..ROW
    },
    Command {
        name: "ssubscribe",
        arity: -2,
        flags: LISTENING,
        keys: SHARD_CHANNELS,
        since: "7.0.0",
        channels: ChannelSpec::ALL,
        complexity: PER_NAME,
        summary: "Listens to shard channels.",
        syntax: "shardchannel [shardchannel ...]",
        run: pubsub::ssubscribe,
        ..ROW
    },
    Command {
        name: "subscribe",
        arity: -2,
        flags: LISTENING,
        channels: ChannelSpec::ALL,
        complexity: PER_NAME,
        summary: "Listens to channels.",
        syntax: "channel [channel ...]",
        run: pubsub::subscribe,
        ..ROW
    },
    Command {
        name: "sunsubscribe",
        arity: -1,
        flags: LISTENING,
        keys: SHARD_CHANNELS,
        since: "7.0.0",
        complexity: PER_NAME,
        summary: "Stops listening to shard channels.",
        syntax: "[shardchannel [shardchannel ...]]",
        run: pubsub::sunsubscribe,
        ..ROW
    },
    Command {
        name: "unsubscribe",
        arity: -1,
        flags: LISTENING,
        complexity: PER_NAME,
        summary: "Stops listening to channels.",
        syntax: "[channel [channel ...]]",
        run: pubsub::unsubscribe,
        ..ROW
    },
];

const SUB: Command = Command { flags: ASKING, since: "2.8.0", ..ROW };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "channels",
        arity: -2,
        complexity: "O(N) where N is the number of channels.",
        summary: "Lists the channels that have subscribers.",
        syntax: "[pattern]",
        run: pubsub::channels,
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: pubsub::help,
        ..SUB
    },
    Command {
        name: "numpat",
        arity: 2,
        complexity: "O(1)",
        summary: "Counts the patterns that have subscribers.",
        run: pubsub::numpat,
        ..SUB
    },
    Command {
        name: "numsub",
        arity: -2,
        complexity: PER_NAME,
        summary: "Counts the subscribers of channels.",
        syntax: "[channel [channel ...]]",
        run: pubsub::numsub,
        ..SUB
    },
    Command {
        name: "shardchannels",
        arity: -2,
        since: "7.0.0",
        complexity: "O(N) where N is the number of shard channels.",
        summary: "Lists the shard channels that have subscribers.",
        syntax: "[pattern]",
        run: pubsub::shardchannels,
        ..SUB
    },
    Command {
        name: "shardnumsub",
        arity: -2,
        since: "7.0.0",
        complexity: PER_NAME,
        summary: "Counts the subscribers of shard channels.",
        syntax: "[shardchannel [shardchannel ...]]",
        run: pubsub::shardnumsub,
        ..SUB
    },
];
