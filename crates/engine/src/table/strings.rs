//! Rows of the string commands.

use super::{
    Categories, Command, Deprecated, Flags, Group, InvalidKeys, KeyAccess, KeySpec, ONE_OW_UPDATE, ONE_RO,
    ONE_RO_ACCESS, ONE_RW_ACCESS_DELETE, ONE_RW_ACCESS_UPDATE, ONE_RW_INSERT, ONE_RW_UPDATE,
};
use crate::args::{Args, is};
use crate::commands::strings::{self, counters, parts, subsequence};

const RO_ACCESS: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const RW_ACCESS_UPDATE: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::UPDATE);
const OW_INSERT: KeyAccess = KeyAccess::OW.union(KeyAccess::INSERT);

const ONE_OW_INSERT: &[KeySpec] = &[KeySpec::one(OW_INSERT, 1)];
const TWO_RO_ACCESS: &[KeySpec] = &[KeySpec::range(RO_ACCESS, 1, 1, 1)];
const ALL_RO_ACCESS: &[KeySpec] = &[KeySpec::range(RO_ACCESS, 1, -1, 1)];
const PAIRS_OW_UPDATE: &[KeySpec] = &[KeySpec::range(KeyAccess::OW.union(KeyAccess::UPDATE), 1, -1, 2)];
const PAIRS_OW_INSERT: &[KeySpec] = &[KeySpec::range(OW_INSERT, 1, -1, 2)];
const GETEX_KEY: &[KeySpec] = &[KeySpec {
    notes: "Counts as a write because it may change the time to live",
    ..KeySpec::one(RW_ACCESS_UPDATE, 1)
}];
const SET_KEY: &[KeySpec] = &[KeySpec {
    notes: "Counts as reading the old value because of GET",
    ..KeySpec::one(RW_ACCESS_UPDATE.union(KeyAccess::VARIABLE_FLAGS), 1)
}];

/// SET reads the old value only for GET.
fn find_set_key(args: Args<'_>, each: &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys> {
    let reads = args.iter().skip(3).any(|word| is(word, "GET"));
    each(1, if reads { RW_ACCESS_UPDATE } else { KeyAccess::OW.union(KeyAccess::UPDATE) });
    Ok(())
}

/// The string commands.
pub const ROWS: &[Command] = &[
    Command {
        name: "append",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_INSERT,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.0.0",
        complexity: "O(N) in the bytes added",
        summary: "Adds bytes to the end of a string, which starts empty if it is not there.",
        syntax: "key value",
        run: parts::append,
        ..Command::BLANK
    },
    Command {
        name: "decr",
        arity: 2,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Lowers an integer by one; no key counts as 0.",
        syntax: "key",
        run: counters::decr,
        ..Command::BLANK
    },
    Command {
        name: "decrby",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Lowers an integer by an amount; no key counts as 0.",
        syntax: "key decrement",
        run: counters::decrby,
        ..Command::BLANK
    },
    Command {
        name: "get",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Reads a string.",
        syntax: "key",
        run: strings::get,
        ..Command::BLANK
    },
    Command {
        name: "getdel",
        arity: 2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        categories: Categories::STRING,
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Reads a string and deletes its key.",
        syntax: "key",
        run: strings::getdel,
        ..Command::BLANK
    },
    Command {
        name: "getex",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: GETEX_KEY,
        categories: Categories::STRING,
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Reads a string and sets or removes its time to live.",
        syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        run: strings::getex,
        ..Command::BLANK
    },
    Command {
        name: "getrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.4.0",
        complexity: "O(N) in the bytes read",
        summary: "Reads part of a string.",
        syntax: "key start end",
        run: parts::getrange,
        ..Command::BLANK
    },
    Command {
        name: "getset",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Replaces a string and answers the one before.",
        syntax: "key value",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`SET` with the `!GET` argument" }),
        run: strings::getset,
        ..Command::BLANK
    },
    Command {
        name: "incr",
        arity: 2,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Raises an integer by one; no key counts as 0.",
        syntax: "key",
        run: counters::incr,
        ..Command::BLANK
    },
    Command {
        name: "incrby",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Raises an integer by an amount; no key counts as 0.",
        syntax: "key increment",
        run: counters::incrby,
        ..Command::BLANK
    },
    Command {
        name: "incrbyfloat",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_ACCESS_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Raises a float by an amount; no key counts as 0.",
        syntax: "key increment:double",
        run: counters::incrbyfloat,
        ..Command::BLANK
    },
    Command {
        name: "lcs",
        arity: -3,
        flags: Flags::READONLY,
        keys: TWO_RO_ACCESS,
        categories: Categories::STRING,
        group: Group::String,
        since: "7.0.0",
        complexity: "O(N*M) in the lengths of the two strings",
        summary: "Finds the longest subsequence that two strings have in common.",
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
        run: subsequence::lcs,
        ..Command::BLANK
    },
    Command {
        name: "mget",
        arity: -2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ALL_RO_ACCESS,
        categories: Categories::STRING,
        tips: &["request_policy:multi_shard"],
        group: Group::String,
        complexity: "O(N) in the number of keys",
        summary: "Reads several strings at one instant.",
        syntax: "key [key ...]",
        run: strings::mget,
        ..Command::BLANK
    },
    Command {
        name: "mset",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: PAIRS_OW_UPDATE,
        categories: Categories::STRING,
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) in the number of keys",
        summary: "Sets several strings at one instant.",
        syntax: "key value [key value ...]",
        run: strings::mset,
        ..Command::BLANK
    },
    Command {
        name: "msetnx",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: PAIRS_OW_INSERT,
        categories: Categories::STRING,
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) in the number of keys",
        summary: "Sets several strings at one instant, if none of their keys is there.",
        syntax: "key value [key value ...]",
        run: strings::msetnx,
        ..Command::BLANK
    },
    Command {
        name: "psetex",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BRIEF),
        keys: ONE_OW_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Sets a string with a time to live in milliseconds.",
        syntax: "key milliseconds value",
        run: strings::psetex,
        ..Command::BLANK
    },
    Command {
        name: "set",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BRIEF),
        keys: SET_KEY,
        find_keys: Some(find_set_key),
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Sets a string, whatever the key held before.",
        syntax: "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        run: strings::set,
        ..Command::BLANK
    },
    Command {
        name: "setex",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BRIEF),
        keys: ONE_OW_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets a string with a time to live in seconds.",
        syntax: "key seconds value",
        run: strings::setex,
        ..Command::BLANK
    },
    Command {
        name: "setnx",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_OW_INSERT,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(1)",
        summary: "Sets a string if its key is not there.",
        syntax: "key value",
        run: strings::setnx,
        ..Command::BLANK
    },
    Command {
        name: "setrange",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: ONE_RW_UPDATE,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.2.0",
        complexity: "O(N) in the bytes written",
        summary: "Overwrites part of a string, filling a gap before it with zero bytes.",
        syntax: "key offset value",
        run: parts::setrange,
        ..Command::BLANK
    },
    Command {
        name: "strlen",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        categories: Categories::STRING,
        group: Group::String,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Counts the bytes of a string.",
        syntax: "key",
        run: strings::strlen,
        ..Command::BLANK
    },
    Command {
        name: "substr",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        categories: Categories::STRING,
        group: Group::String,
        complexity: "O(N) in the bytes read",
        summary: "Reads part of a string, as GETRANGE does.",
        syntax: "key start end",
        deprecated: Some(Deprecated { since: "2.0.0", replaced_by: "`GETRANGE`" }),
        run: parts::getrange,
        ..Command::BLANK
    },
];
