//! Rows of the stream commands.

use super::{
    Begin, Categories, Command, Find, Flags, Group, KeyAccess, KeySpec, ONE_RO, ONE_RO_ACCESS, ONE_RW_DELETE,
    ONE_RW_UPDATE,
};
use crate::commands::streams;

const STREAM: Command = Command {
    categories: Categories::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    complexity: "O(1)",
    ..Command::BLANK
};

/// A container, which is in no category of its own.
const CONTAINER: Command = Command { categories: Categories::empty(), ..STREAM };

const READ: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const SUB_READ: &[KeySpec] = &[KeySpec::one(READ, 2)];
const SUB_INSERT: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::INSERT), 2)];
const SUB_UPDATE: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::UPDATE), 2)];
const SUB_DELETE: &[KeySpec] = &[KeySpec::one(KeyAccess::RW.union(KeyAccess::DELETE), 2)];

/// The keys after STREAMS, which as many ids follow.
const fn after_streams(from: i8) -> KeySpec {
    let find = Find::Range { last: -1, step: 1, limit: 2 };
    KeySpec { access: READ, begin: Begin::Keyword("STREAMS", from), find, notes: "" }
}

const READ_KEYS: &[KeySpec] = &[after_streams(1)];
const READGROUP_KEYS: &[KeySpec] = &[after_streams(4)];

const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];
const FAST_WRITE: Flags = Flags::WRITE.union(Flags::FAST);
const RANGE: &str =
    "O(log(N)+M) where N is the number of entries of the stream and M the number of entries returned.";
const PER_ID: &str = "O(M*log(N)) where M is the number of ids given and N the number of entries.";
const HELP_FLAGS: Flags = Flags::LOADING.union(Flags::STALE);

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "xack",
        arity: -4,
        flags: FAST_WRITE,
        keys: ONE_RW_UPDATE,
        complexity: PER_ID,
        summary: "Acknowledges entries that a consumer group was given: they are pending no longer.",
        syntax: "key group:string id [id ...]",
        run: streams::xack,
        ..STREAM
    },
    Command {
        name: "xadd",
        arity: -5,
        flags: FAST_WRITE.union(Flags::DENYOOM),
        keys: ONE_RW_UPDATE,
        tips: ANY_OUTPUT,
        complexity: "O(1) for adding, O(N) for trimming where N is the number of entries removed.",
        summary: "Adds an entry to a stream, which is made if missing.",
        syntax: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value \
                 [field value ...]",
        run: streams::xadd,
        ..STREAM
    },
    Command {
        name: "xautoclaim",
        arity: -6,
        flags: FAST_WRITE,
        keys: ONE_RW_DELETE,
        tips: ANY_OUTPUT,
        since: "6.2.0",
        complexity: "O(log(N)) for each pending entry looked at, of which there are at most ten times COUNT.",
        summary: "Has a consumer take over entries that others have left pending for long.",
        syntax: "key group:string consumer min-idle-time:string start:string [COUNT count] [JUSTID]",
        run: streams::xautoclaim,
        ..STREAM
    },
    Command {
        name: "xclaim",
        arity: -6,
        flags: FAST_WRITE,
        keys: ONE_RW_UPDATE,
        tips: ANY_OUTPUT,
        complexity: PER_ID,
        summary: "Has a consumer take over pending entries of others.",
        syntax: "key group:string consumer min-idle-time:string id [id ...] [IDLE ms:integer] \
                 [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
        run: streams::xclaim,
        ..STREAM
    },
    Command {
        name: "xdel",
        arity: -3,
        flags: FAST_WRITE,
        keys: ONE_RW_DELETE,
        complexity: PER_ID,
        summary: "Removes entries from a stream and counts them.",
        syntax: "key id [id ...]",
        run: streams::xdel,
        ..STREAM
    },
    Command {
        name: "xgroup",
        arity: -2,
        complexity: "Depends on subcommand.",
        summary: "A container for the commands of consumer groups.",
        subcommands: GROUP_SUBCOMMANDS,
        ..CONTAINER
    },
    Command {
        name: "xinfo",
        arity: -2,
        complexity: "Depends on subcommand.",
        summary: "A container for the commands that tell of streams.",
        subcommands: INFO_SUBCOMMANDS,
        ..CONTAINER
    },
    Command {
        name: "xlen",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        summary: "Returns the number of entries of a stream.",
        syntax: "key",
        run: streams::xlen,
        ..STREAM
    },
    Command {
        name: "xpending",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        complexity: "O(log(N)+M) where N is the number of pending entries and M the number of those looked at.",
        summary: "Tells of the entries that a consumer group has not acknowledged.",
        syntax: "key group:string [[IDLE min-idle-time] start:string end:string count [consumer]]",
        run: streams::xpending,
        ..STREAM
    },
    Command {
        name: "xrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        complexity: RANGE,
        summary: "Returns the entries with ids within a range.",
        syntax: "key start:string end:string [COUNT count]",
        run: streams::xrange,
        ..STREAM
    },
    Command {
        name: "xread",
        arity: -4,
        flags: Flags::READONLY.union(Flags::BLOCKING),
        keys: READ_KEYS,
        find_keys: Some(streams::find_keys),
        complexity: RANGE,
        summary: "Returns the entries of streams that came after given ids, and waits for them if there are none.",
        syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        run: streams::xread,
        ..STREAM
    },
    Command {
        name: "xreadgroup",
        arity: -7,
        flags: Flags::WRITE.union(Flags::BLOCKING),
        keys: READGROUP_KEYS,
        find_keys: Some(streams::find_keys),
        complexity: "O(M*log(N)) where N is the number of pending entries and M the number of entries returned.",
        summary: "Gives a consumer of a group entries that no other was given, or those pending for it.",
        syntax: "GROUP <group consumer> [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
        run: streams::xreadgroup,
        ..STREAM
    },
    Command {
        name: "xrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        complexity: RANGE,
        summary: "Returns the entries with ids within a range, the last first.",
        syntax: "key end:string start:string [COUNT count]",
        run: streams::xrevrange,
        ..STREAM
    },
    Command {
        name: "xsetid",
        arity: -3,
        flags: FAST_WRITE.union(Flags::DENYOOM),
        keys: ONE_RW_UPDATE,
        summary: "Sets what a stream remembers of the entries it had.",
        syntax: "key last-id:string [ENTRIESADDED entries-added:integer] [MAXDELETEDID max-deleted-id]",
        run: streams::xsetid,
        ..STREAM
    },
    Command {
        name: "xtrim",
        arity: -4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        tips: ANY_OUTPUT,
        complexity: "O(N) where N is the number of entries removed.",
        summary: "Removes the oldest entries of a stream.",
        syntax: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
        run: streams::xtrim,
        ..STREAM
    },
];

const GROUP_SUBCOMMANDS: &[Command] = &[
    Command {
        name: "create",
        arity: -5,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: SUB_INSERT,
        summary: "Makes a consumer group.",
        syntax: "key group:string <id | $> [MKSTREAM] [ENTRIESREAD entries-read:integer]",
        run: streams::xgroup_create,
        ..STREAM
    },
    Command {
        name: "createconsumer",
        arity: 5,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: SUB_INSERT,
        since: "6.2.0",
        summary: "Makes a consumer in a consumer group.",
        syntax: "key group:string consumer",
        run: streams::xgroup_createconsumer,
        ..STREAM
    },
    Command {
        name: "delconsumer",
        arity: 5,
        flags: Flags::WRITE,
        keys: SUB_DELETE,
        complexity: "O(N) where N is the number of entries pending for the consumer.",
        summary: "Removes a consumer from its consumer group.",
        syntax: "key group:string consumer",
        run: streams::xgroup_delconsumer,
        ..STREAM
    },
    Command {
        name: "destroy",
        arity: 4,
        flags: Flags::WRITE,
        keys: SUB_DELETE,
        summary: "Removes a consumer group.",
        syntax: "key group:string",
        run: streams::xgroup_destroy,
        ..STREAM
    },
    Command {
        name: "help",
        arity: 2,
        flags: HELP_FLAGS,
        summary: "Prints this text.",
        run: streams::xgroup_help,
        ..STREAM
    },
    Command {
        name: "setid",
        arity: -5,
        flags: Flags::WRITE,
        keys: SUB_UPDATE,
        summary: "Moves a consumer group to another place in its stream.",
        syntax: "key group:string <id | $> [ENTRIESREAD entries-read:integer]",
        run: streams::xgroup_setid,
        ..STREAM
    },
];

const INFO_SUBCOMMANDS: &[Command] = &[
    Command {
        name: "consumers",
        arity: 4,
        flags: Flags::READONLY,
        keys: SUB_READ,
        tips: ANY_OUTPUT,
        complexity: "O(N) where N is the number of consumers.",
        summary: "Tells of the consumers of a consumer group.",
        syntax: "key group:string",
        run: streams::xinfo_consumers,
        ..STREAM
    },
    Command {
        name: "groups",
        arity: 3,
        flags: Flags::READONLY,
        keys: SUB_READ,
        complexity: "O(N) where N is the number of groups.",
        summary: "Tells of the consumer groups of a stream.",
        syntax: "key",
        run: streams::xinfo_groups,
        ..STREAM
    },
    Command {
        name: "help",
        arity: 2,
        flags: HELP_FLAGS,
        summary: "Prints this text.",
        run: streams::xinfo_help,
        ..STREAM
    },
    Command {
        name: "stream",
        arity: -3,
        flags: Flags::READONLY,
        keys: SUB_READ,
        complexity: "O(1), or O(N) with FULL where N is the number of entries, pending entries and consumers shown.",
        summary: "Tells of a stream.",
        syntax: "key [FULL [COUNT count]]",
        run: streams::xinfo_stream,
        ..STREAM
    },
];
