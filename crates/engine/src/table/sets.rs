//! Sets.

use super::{
    Categories, Command, Flags, Group, KeyAccess, KeySpec, ONE_RO, ONE_RO_ACCESS, ONE_RW_ACCESS_DELETE,
    ONE_RW_DELETE, ONE_RW_INSERT,
};
use crate::commands::sets;

const SET: Command = Command { categories: Categories::SET, group: Group::Set, ..Command::BLANK };

const READ: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const OVERWRITTEN: KeyAccess = KeyAccess::OW.union(KeyAccess::UPDATE);
const REWRITTEN: KeyAccess = KeyAccess::RW.union(KeyAccess::UPDATE);
const ALL_READ: &[KeySpec] = &[KeySpec::range(READ, 1, -1, 1)];
const STORE: &[KeySpec] = &[KeySpec::one(OVERWRITTEN, 1), KeySpec::range(READ, 2, -1, 1)];
const FROM_TO: &[KeySpec] = &[
    KeySpec::one(KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE), 1),
    KeySpec::one(KeyAccess::RW.union(KeyAccess::INSERT), 2),
];

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];
const INTERSECTION: &str =
    "O(N*M) where N is the number of members of the smallest set and M the number of sets.";
const UNION: &str = "O(N) where N is the number of members of all sets but the largest.";
const DIFFERENCE: &str = "O(min(N*M,K)) where N is the number of members of the first set, M the number of sets, and K the number of \
     members of all others.";

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "sadd",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_INSERT,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members given.",
        summary: "Adds members to a set, which is created if missing.",
        syntax: "key member [member ...]",
        run: sets::sadd,
        ..SET
    },
    Command {
        name: "scard",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the number of members of a set.",
        syntax: "key",
        run: sets::scard,
        ..SET
    },
    Command {
        name: "sdiff",
        arity: -2,
        flags: Flags::READONLY,
        keys: ALL_READ,
        tips: ANY_ORDER,
        since: "1.0.0",
        complexity: DIFFERENCE,
        summary: "Returns the members of the first set that are in none of the others.",
        syntax: "key [key ...]",
        run: sets::sdiff,
        ..SET
    },
    Command {
        name: "sdiffstore",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: STORE,
        since: "1.0.0",
        complexity: DIFFERENCE,
        summary: "Stores the members of the first set that are in none of the others.",
        syntax: "destination key [key ...]",
        run: sets::sdiffstore,
        ..SET
    },
    Command {
        name: "sinter",
        arity: -2,
        flags: Flags::READONLY,
        keys: ALL_READ,
        tips: ANY_ORDER,
        since: "1.0.0",
        complexity: INTERSECTION,
        summary: "Returns the members that all sets have.",
        syntax: "key [key ...]",
        run: sets::sinter,
        ..SET
    },
    Command {
        name: "sintercard",
        arity: -3,
        flags: Flags::READONLY,
        keys: &[KeySpec::counted(READ, 1)],
        since: "7.0.0",
        complexity: INTERSECTION,
        summary: "Returns the number of members that all sets have.",
        syntax: "numkeys key [key ...] [LIMIT limit]",
        run: sets::sintercard,
        ..SET
    },
    Command {
        name: "sinterstore",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: &[KeySpec::one(REWRITTEN, 1), KeySpec::range(READ, 2, -1, 1)],
        since: "1.0.0",
        complexity: INTERSECTION,
        summary: "Stores the members that all sets have.",
        syntax: "destination key [key ...]",
        run: sets::sinterstore,
        ..SET
    },
    Command {
        name: "sismember",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Tells whether a set has a member.",
        syntax: "key member",
        run: sets::sismember,
        ..SET
    },
    Command {
        name: "smembers",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_ORDER,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members.",
        summary: "Returns all members of a set.",
        syntax: "key",
        run: sets::smembers,
        ..SET
    },
    Command {
        name: "smismember",
        arity: -3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members given.",
        summary: "Tells of each of several members whether a set has it.",
        syntax: "key member [member ...]",
        run: sets::smismember,
        ..SET
    },
    Command {
        name: "smove",
        arity: 4,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: FROM_TO,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Moves a member from one set to another.",
        syntax: "source destination member",
        run: sets::smove,
        ..SET
    },
    Command {
        name: "spop",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        tips: ANY_OUTPUT,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members returned.",
        summary: "Removes and returns random members of a set.",
        syntax: "key [count]",
        run: sets::spop,
        ..SET
    },
    Command {
        name: "srandmember",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members returned.",
        summary: "Returns random members of a set: distinct ones, or, with a negative count, any.",
        syntax: "key [count]",
        run: sets::srandmember,
        ..SET
    },
    Command {
        name: "srem",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_DELETE,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members given.",
        summary: "Removes members from a set.",
        syntax: "key member [member ...]",
        run: sets::srem,
        ..SET
    },
    Command {
        name: "sscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "2.8.0",
        complexity: "O(1) a call, O(N) for a whole iteration over N members.",
        summary: "Iterates over the members of a set.",
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        run: sets::sscan,
        ..SET
    },
    Command {
        name: "sunion",
        arity: -2,
        flags: Flags::READONLY,
        keys: ALL_READ,
        tips: ANY_ORDER,
        since: "1.0.0",
        complexity: UNION,
        summary: "Returns the members that any of the sets has.",
        syntax: "key [key ...]",
        run: sets::sunion,
        ..SET
    },
    Command {
        name: "sunionstore",
        arity: -3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: STORE,
        since: "1.0.0",
        complexity: UNION,
        summary: "Stores the members that any of the sets has.",
        syntax: "destination key [key ...]",
        run: sets::sunionstore,
        ..SET
    },
];
