//! Rows of the hash commands.

use super::{
    Categories, Command, Deprecated, Flags, Group, ONE_RO, ONE_RO_ACCESS, ONE_RW_ACCESS_DELETE,
    ONE_RW_ACCESS_UPDATE, ONE_RW_DELETE, ONE_RW_INSERT, ONE_RW_UPDATE,
};
use crate::commands::hashes::{self, expiry, together};

const HASH: Command = Command {
    categories: Categories::HASH,
    group: Group::Hash,
    since: "2.0.0",
    complexity: "O(1)",
    ..Command::BLANK
};

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "hdel",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_DELETE,
        complexity: "O(N) where N is the number of fields given.",
        summary: "Removes fields from a hash; a hash without fields is deleted.",
        syntax: "key field [field ...]",
        run: hashes::hdel,
        ..HASH
    },
    Command {
        name: "hexists",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        summary: "Tells whether a hash has a field.",
        syntax: "key field",
        run: hashes::hexists,
        ..HASH
    },
    Command {
        name: "hexpire",
        arity: -6,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Gives fields an end, in seconds from now.",
        syntax: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        run: expiry::hexpire,
        ..HASH
    },
    Command {
        name: "hexpireat",
        arity: -6,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Gives fields an end, in Unix seconds.",
        syntax: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        run: expiry::hexpireat,
        ..HASH
    },
    Command {
        name: "hexpiretime",
        arity: -5,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns the ends of fields, in Unix seconds.",
        syntax: "key FIELDS numfields field [field ...]",
        run: expiry::hexpiretime,
        ..HASH
    },
    Command {
        name: "hget",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        summary: "Returns the value of a field.",
        syntax: "key field",
        run: hashes::hget,
        ..HASH
    },
    Command {
        name: "hgetall",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_ORDER,
        complexity: "O(N) where N is the number of fields.",
        summary: "Returns all fields of a hash with their values.",
        syntax: "key",
        run: hashes::hgetall,
        ..HASH
    },
    Command {
        name: "hgetdel",
        arity: -5,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns the values of fields and removes them.",
        syntax: "key FIELDS numfields field [field ...]",
        run: together::hgetdel,
        ..HASH
    },
    Command {
        name: "hgetex",
        arity: -5,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_UPDATE,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns the values of fields and may change their ends.",
        syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
        run: together::hgetex,
        ..HASH
    },
    Command {
        name: "hincrby",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_ACCESS_UPDATE,
        summary: "Adds to the integer in a field; a missing field counts as 0.",
        syntax: "key field increment",
        run: hashes::hincrby,
        ..HASH
    },
    Command {
        name: "hincrbyfloat",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_ACCESS_UPDATE,
        since: "2.6.0",
        summary: "Adds to the float in a field; a missing field counts as 0.",
        syntax: "key field increment:double",
        run: hashes::hincrbyfloat,
        ..HASH
    },
    Command {
        name: "hkeys",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_ORDER,
        complexity: "O(N) where N is the number of fields.",
        summary: "Returns all fields of a hash.",
        syntax: "key",
        run: hashes::hkeys,
        ..HASH
    },
    Command {
        name: "hlen",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        summary: "Returns the number of fields of a hash.",
        syntax: "key",
        run: hashes::hlen,
        ..HASH
    },
    Command {
        name: "hmget",
        arity: -3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns the values of several fields.",
        syntax: "key field [field ...]",
        run: hashes::hmget,
        ..HASH
    },
    Command {
        name: "hmset",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        complexity: "O(N) where N is the number of fields given.",
        summary: "Sets several fields, as HSET does.",
        syntax: "key field value [field value ...]",
        deprecated: Some(Deprecated {
            since: "4.0.0",
            replaced_by: "`HSET` with multiple field-value pairs",
        }),
        run: hashes::hmset,
        ..HASH
    },
    Command {
        name: "hpersist",
        arity: -5,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Takes the ends of fields away.",
        syntax: "key FIELDS numfields field [field ...]",
        run: expiry::hpersist,
        ..HASH
    },
    Command {
        name: "hpexpire",
        arity: -6,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Gives fields an end, in milliseconds from now.",
        syntax: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        run: expiry::hpexpire,
        ..HASH
    },
    Command {
        name: "hpexpireat",
        arity: -6,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Gives fields an end, in Unix milliseconds.",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        run: expiry::hpexpireat,
        ..HASH
    },
    Command {
        name: "hpexpiretime",
        arity: -5,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns the ends of fields, in Unix milliseconds.",
        syntax: "key FIELDS numfields field [field ...]",
        run: expiry::hpexpiretime,
        ..HASH
    },
    Command {
        name: "hpttl",
        arity: -5,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns how many milliseconds fields have left.",
        syntax: "key FIELDS numfields field [field ...]",
        run: expiry::hpttl,
        ..HASH
    },
    Command {
        name: "hrandfield",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "6.2.0",
        complexity: "O(N) where N is the number of fields returned.",
        summary: "Returns fields of a hash drawn at random.",
        syntax: "key [count [WITHVALUES]]",
        run: hashes::hrandfield,
        ..HASH
    },
    Command {
        name: "hscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "2.8.0",
        complexity: "O(1) for a call, O(N) for the whole walk, where N is the number of fields.",
        summary: "Walks through the fields of a hash, some with each call.",
        syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        run: hashes::hscan,
        ..HASH
    },
    Command {
        name: "hset",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        complexity: "O(N) where N is the number of fields given.",
        summary: "Sets fields of a hash, which is created if missing.",
        syntax: "key field value [field value ...]",
        run: hashes::hset,
        ..HASH
    },
    Command {
        name: "hsetex",
        arity: -6,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Sets fields together with their ends.",
        syntax: "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
        run: together::hsetex,
        ..HASH
    },
    Command {
        name: "hsetnx",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_INSERT,
        summary: "Sets a field unless it exists.",
        syntax: "key field value",
        run: hashes::hsetnx,
        ..HASH
    },
    Command {
        name: "hstrlen",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        since: "3.2.0",
        summary: "Returns the length in bytes of a field's value.",
        syntax: "key field",
        run: hashes::hstrlen,
        ..HASH
    },
    Command {
        name: "httl",
        arity: -5,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields given.",
        summary: "Returns how many seconds fields have left.",
        syntax: "key FIELDS numfields field [field ...]",
        run: expiry::httl,
        ..HASH
    },
    Command {
        name: "hvals",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_ORDER,
        complexity: "O(N) where N is the number of fields.",
        summary: "Returns all values of a hash.",
        syntax: "key",
        run: hashes::hvals,
        ..HASH
    },
];
