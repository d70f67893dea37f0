//! Rows of the commands on keys of any type, and on whole databases.

use super::{
    Begin, Categories, Command, Find, Flags, Group, KeyAccess, KeySpec, ONE_RO, ONE_RO_ACCESS,
    ONE_RW_ACCESS_UPDATE, ONE_RW_UPDATE,
};
use crate::commands::keys::{self, dump, expiry, object, whole};
use crate::commands::{migrate, sort};

const RO_ACCESS: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const RW_ACCESS_DELETE: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE);
const OW_UPDATE: KeyAccess = KeyAccess::OW.union(KeyAccess::UPDATE);
const OW_INSERT: KeyAccess = KeyAccess::OW.union(KeyAccess::INSERT);

const ALL_RO: &[KeySpec] = &[KeySpec::range(KeyAccess::RO, 1, -1, 1)];
const ALL_RM_DELETE: &[KeySpec] = &[KeySpec::range(KeyAccess::RM.union(KeyAccess::DELETE), 1, -1, 1)];
const RENAME_KEYS: &[KeySpec] = &[KeySpec::one(RW_ACCESS_DELETE, 1), KeySpec::one(OW_UPDATE, 2)];
const RENAMENX_KEYS: &[KeySpec] = &[KeySpec::one(RW_ACCESS_DELETE, 1), KeySpec::one(OW_INSERT, 2)];
const COPY_KEYS: &[KeySpec] = &[KeySpec::one(RO_ACCESS, 1), KeySpec::one(OW_UPDATE, 2)];
const ONE_OW_UPDATE: &[KeySpec] = &[KeySpec::one(OW_UPDATE, 1)];
const PATTERN_KEYS: KeySpec = KeySpec {
    access: RO_ACCESS,
    begin: Begin::Unknown,
    find: Find::Unknown,
    notes: "Keys of BY and GET are named by the elements that are sorted",
};
const STORE_KEY: KeySpec = KeySpec {
    access: OW_UPDATE,
    begin: Begin::Unknown,
    find: Find::Unknown,
    notes: "The last STORE counts, wherever it stands",
};
const SORT_KEYS: &[KeySpec] = &[KeySpec::one(RO_ACCESS, 1), PATTERN_KEYS, STORE_KEY];
const SORT_RO_KEYS: &[KeySpec] = &[KeySpec::one(RO_ACCESS, 1), PATTERN_KEYS];
const SORT_CATEGORIES: Categories =
    Categories::SET.union(Categories::SORTEDSET).union(Categories::LIST).union(Categories::DANGEROUS);
const MIGRATE_KEYS: &[KeySpec] = &[
    KeySpec::one(RW_ACCESS_DELETE, 3),
    KeySpec {
        access: RW_ACCESS_DELETE.union(KeyAccess::INCOMPLETE),
        begin: Begin::Keyword("KEYS", -2),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: "",
    },
];
const OBJECT_KEY: &[KeySpec] = &[KeySpec::one(KeyAccess::RO, 2)];

const RESTORE_SYNTAX: &str =
    "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]";

/// The commands on keys of any type.
pub const ROWS: &[Command] = &[
    Command {
        name: "del",
        arity: -2,
        flags: Flags::WRITE,
        keys: ALL_RM_DELETE,
        categories: Categories::KEYSPACE,
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        complexity: "O(N) in the number of keys",
        summary: "Deletes keys.",
        syntax: "key [key ...]",
        run: keys::del,
        ..Command::BLANK
    },
    Command {
        name: "unlink",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ALL_RM_DELETE,
        categories: Categories::KEYSPACE,
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        since: "4.0.0",
        complexity: "O(N) in the number of keys",
        summary: "Deletes keys, freeing their memory in the background.",
        syntax: "key [key ...]",
        run: keys::del,
        ..Command::BLANK
    },
    Command {
        name: "exists",
        arity: -2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ALL_RO,
        categories: Categories::KEYSPACE,
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        complexity: "O(N) in the number of keys",
        summary: "Counts which of these keys are there.",
        syntax: "key [key ...]",
        run: keys::exists,
        ..Command::BLANK
    },
    Command {
        name: "sort",
        arity: -2,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: SORT_KEYS,
        find_keys: Some(sort::find_sort_keys),
        reaches_beyond: Some(sort::reaches_beyond),
        categories: SORT_CATEGORIES,
        complexity: "O(N+M*log(M)) in the elements and in those that are answered; O(N) if they are not sorted",
        summary: "Sorts the elements of a list, set or sorted set, and stores them if asked to.",
        syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
        run: sort::sort,
        ..Command::BLANK
    },
    Command {
        name: "sort_ro",
        arity: -2,
        flags: Flags::READONLY,
        keys: SORT_RO_KEYS,
        reaches_beyond: Some(sort::reaches_beyond),
        categories: SORT_CATEGORIES,
        since: "7.0.0",
        complexity: "O(N+M*log(M)) in the elements and in those that are answered; O(N) if they are not sorted",
        summary: "Sorts the elements of a list, set or sorted set.",
        syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
        run: sort::sort_ro,
        ..Command::BLANK
    },
    Command {
        name: "type",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        categories: Categories::KEYSPACE,
        complexity: "O(1)",
        summary: "Tells the type of the value that a key holds.",
        syntax: "key",
        run: keys::type_,
        ..Command::BLANK
    },
    Command {
        name: "ttl",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        complexity: "O(1)",
        summary: "Tells how many seconds a key has left.",
        syntax: "key",
        run: expiry::ttl,
        ..Command::BLANK
    },
    Command {
        name: "pttl",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Tells how many milliseconds a key has left.",
        syntax: "key",
        run: expiry::pttl,
        ..Command::BLANK
    },
    Command {
        name: "expire",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        categories: Categories::KEYSPACE,
        complexity: "O(1)",
        summary: "Gives a key a number of seconds to live.",
        syntax: "key seconds [NX | XX | GT | LT]",
        run: expiry::expire,
        ..Command::BLANK
    },
    Command {
        name: "pexpire",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        categories: Categories::KEYSPACE,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Gives a key a number of milliseconds to live.",
        syntax: "key milliseconds [NX | XX | GT | LT]",
        run: expiry::pexpire,
        ..Command::BLANK
    },
    Command {
        name: "expireat",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        categories: Categories::KEYSPACE,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Lets a key live until a Unix time in seconds.",
        syntax: "key unix-time-seconds [NX | XX | GT | LT]",
        run: expiry::expireat,
        ..Command::BLANK
    },
    Command {
        name: "pexpireat",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        categories: Categories::KEYSPACE,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Lets a key live until a Unix time in milliseconds.",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT]",
        run: expiry::pexpireat,
        ..Command::BLANK
    },
    Command {
        name: "expiretime",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::KEYSPACE,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Tells the Unix time in seconds until which a key lives.",
        syntax: "key",
        run: expiry::expiretime,
        ..Command::BLANK
    },
    Command {
        name: "pexpiretime",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::KEYSPACE,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Tells the Unix time in milliseconds until which a key lives.",
        syntax: "key",
        run: expiry::pexpiretime,
        ..Command::BLANK
    },
    Command {
        name: "persist",
        arity: 2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        categories: Categories::KEYSPACE,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Takes the time to live off a key.",
        syntax: "key",
        run: expiry::persist,
        ..Command::BLANK
    },
    Command {
        name: "dump",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        complexity: "O(N) in the number and size of elements",
        summary: "Answers a key's value in the form that RESTORE takes.",
        syntax: "key",
        run: dump::dump,
        ..Command::BLANK
    },
    Command {
        name: "restore",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: ONE_OW_UPDATE,
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        since: "2.6.0",
        complexity: "O(N*log(N)) in the number of elements, O(N) in their size",
        summary: "Gives a key the value that DUMP answered.",
        syntax: RESTORE_SYNTAX,
        run: dump::restore,
        ..Command::BLANK
    },
    Command {
        name: "restore-asking",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::ASKING),
        keys: ONE_OW_UPDATE,
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        group: Group::Server,
        since: "3.0.0",
        complexity: "O(N*log(N)) in the number of elements, O(N) in their size",
        summary: "RESTORE, for a slot that is being moved here.",
        syntax: RESTORE_SYNTAX,
        run: dump::restore,
        ..Command::BLANK
    },
    Command {
        name: "migrate",
        arity: -6,
        flags: Flags::WRITE.union(Flags::OUTGOING),
        keys: MIGRATE_KEYS,
        find_keys: Some(migrate::find_migrated_keys),
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        complexity: "O(N) in the number of keys and the size of their values",
        summary: "Moves keys to another server, which takes them as RESTORE does.",
        syntax: "host port <key | \"\"> destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key [key ...]]",
        run: migrate::migrate,
        ..Command::BLANK
    },
    Command {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE,
        keys: RENAME_KEYS,
        categories: Categories::KEYSPACE,
        complexity: "O(1)",
        summary: "Renames a key, replacing what has the new name.",
        syntax: "key newkey",
        run: keys::rename,
        ..Command::BLANK
    },
    Command {
        name: "renamenx",
        arity: 3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: RENAMENX_KEYS,
        categories: Categories::KEYSPACE,
        complexity: "O(1)",
        summary: "Renames a key, if the new name is free.",
        syntax: "key newkey",
        run: keys::renamenx,
        ..Command::BLANK
    },
    Command {
        name: "copy",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: COPY_KEYS,
        categories: Categories::KEYSPACE,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Copies a key with its value and time to live.",
        syntax: "source destination [DB destination-db] [REPLACE]",
        run: keys::copy,
        ..Command::BLANK
    },
    Command {
        name: "move",
        arity: 3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::KEYSPACE,
        complexity: "O(1)",
        summary: "Moves a key to another database.",
        syntax: "key db",
        run: keys::move_,
        ..Command::BLANK
    },
    Command {
        name: "swapdb",
        arity: 3,
        flags: Flags::WRITE.union(Flags::FAST).union(Flags::ALL_STRIPES),
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Exchanges the contents of two databases.",
        syntax: "index1 index2",
        run: whole::swapdb,
        ..Command::BLANK
    },
    Command {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY.union(Flags::WHOLE_KEYSPACE),
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        complexity: "O(N) in the number of keys in the database",
        summary: "Lists all keys whose names match a pattern.",
        syntax: "pattern",
        run: whole::keys,
        ..Command::BLANK
    },
    Command {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY.union(Flags::WHOLE_KEYSPACE),
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output", "request_policy:special"],
        since: "2.8.0",
        complexity: "O(1) for a call, O(N) for a whole walk",
        summary: "Walks through the keys, a few with each call.",
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        run: whole::scan,
        ..Command::BLANK
    },
    Command {
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY.union(Flags::WHOLE_KEYSPACE),
        categories: Categories::KEYSPACE,
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        complexity: "O(1)",
        summary: "Picks a key by chance.",
        run: whole::randomkey,
        ..Command::BLANK
    },
    Command {
        name: "touch",
        arity: -2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ALL_RO,
        categories: Categories::KEYSPACE,
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        since: "3.2.1",
        complexity: "O(N) in the number of keys",
        summary: "Marks keys as just used and counts them.",
        syntax: "key [key ...]",
        run: keys::touch,
        ..Command::BLANK
    },
    Command {
        name: "object",
        arity: -2,
        since: "2.2.3",
        complexity: "Depends on the subcommand",
        summary: "Tells how values are kept.",
        subcommands: OBJECT,
        ..Command::BLANK
    },
    Command {
        name: "dbsize",
        arity: 1,
        flags: Flags::READONLY.union(Flags::FAST),
        categories: Categories::KEYSPACE,
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        group: Group::Server,
        complexity: "O(1)",
        summary: "Counts the keys of the database.",
        run: whole::dbsize,
        ..Command::BLANK
    },
    Command {
        name: "flushdb",
        arity: -1,
        flags: Flags::WRITE.union(Flags::ALL_STRIPES),
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: Group::Server,
        complexity: "O(1); memory is freed in the background",
        summary: "Deletes all keys of the database.",
        syntax: "[ASYNC | SYNC]",
        run: whole::flushdb,
        ..Command::BLANK
    },
    Command {
        name: "flushall",
        arity: -1,
        flags: Flags::WRITE.union(Flags::ALL_STRIPES),
        categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: Group::Server,
        complexity: "O(1); memory is freed in the background",
        summary: "Deletes all keys of all databases.",
        syntax: "[ASYNC | SYNC]",
        run: whole::flushall,
        ..Command::BLANK
    },
];

const OBJECT: &[Command] = &[
    Command {
        name: "encoding",
        arity: 3,
        flags: Flags::READONLY,
        keys: OBJECT_KEY,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Names the representation that a value has in memory.",
        syntax: "key",
        run: object::encoding,
        ..Command::BLANK
    },
    Command {
        name: "freq",
        arity: 3,
        flags: Flags::READONLY,
        keys: OBJECT_KEY,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells how often a value was used, as the LFU policies see it.",
        syntax: "key",
        run: object::freq,
        ..Command::BLANK
    },
    Command {
        name: "idletime",
        arity: 3,
        flags: Flags::READONLY,
        keys: OBJECT_KEY,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Tells how many seconds ago a value was last used.",
        syntax: "key",
        run: object::idletime,
        ..Command::BLANK
    },
    Command {
        name: "refcount",
        arity: 3,
        flags: Flags::READONLY,
        keys: OBJECT_KEY,
        categories: Categories::KEYSPACE,
        tips: &["nondeterministic_output"],
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Tells how many references a value has.",
        syntax: "key",
        run: object::refcount,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        categories: Categories::KEYSPACE,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Lists what OBJECT can tell.",
        run: object::help,
        ..Command::BLANK
    },
];
