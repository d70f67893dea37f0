//! Rows of the HyperLogLog commands.

use super::{Categories, Command, Flags, Group, KeyAccess, KeySpec, ONE_RW_INSERT};
use crate::commands::hyperloglog;

const RO_ACCESS: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const RW_ACCESS: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS);
const COUNT_KEYS: &[KeySpec] = &[KeySpec {
    notes: "Counts as a write because the cardinality that is kept with the value may change",
    ..KeySpec::range(RW_ACCESS, 1, -1, 1)
}];
const DEBUG_KEY: &[KeySpec] = &[KeySpec::one(RW_ACCESS, 2)];
const MERGE_KEYS: &[KeySpec] =
    &[KeySpec::one(RW_ACCESS.union(KeyAccess::INSERT), 1), KeySpec::range(RO_ACCESS, 2, -1, 1)];

/// The HyperLogLog commands.
pub const ROWS: &[Command] = &[
    Command {
        name: "pfadd",
        arity: -2,
        flags: Flags::WRITE.union(Flags::DENYOOM.union(Flags::FAST)),
        keys: ONE_RW_INSERT,
        categories: Categories::HYPERLOGLOG,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) for each element",
        summary: "Adds elements to a HyperLogLog, which starts empty if it is not there.",
        syntax: "key [element [element ...]]",
        run: hyperloglog::pfadd,
        ..Command::BLANK
    },
    Command {
        name: "pfcount",
        arity: -2,
        flags: Flags::READONLY.union(Flags::MAY_REPLICATE),
        keys: COUNT_KEYS,
        categories: Categories::HYPERLOGLOG,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) for one key; O(N) in the number of several",
        summary: "Estimates how many different elements were added to HyperLogLogs.",
        syntax: "key [key ...]",
        run: hyperloglog::pfcount,
        ..Command::BLANK
    },
    Command {
        name: "pfdebug",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::ADMIN),
        keys: DEBUG_KEY,
        categories: Categories::HYPERLOGLOG,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1)",
        summary: "Shows the inside of a HyperLogLog, or makes it dense.",
        syntax: "subcommand key",
        run: hyperloglog::pfdebug,
        ..Command::BLANK
    },
    Command {
        name: "pfmerge",
        arity: -2,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: MERGE_KEYS,
        categories: Categories::HYPERLOGLOG,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(N) in the number of keys",
        summary: "Adds to a HyperLogLog what was added to others.",
        syntax: "destkey [sourcekey [sourcekey ...]]",
        run: hyperloglog::pfmerge,
        ..Command::BLANK
    },
    Command {
        name: "pfselftest",
        arity: 1,
        flags: Flags::ADMIN,
        categories: Categories::HYPERLOGLOG,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1)",
        summary: "Tests how HyperLogLogs work inside.",
        run: hyperloglog::pfselftest,
        ..Command::BLANK
    },
];
