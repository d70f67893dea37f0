//! Rows of what changes whom this server follows.

use super::{Command, Deprecated, Flags, Group};
use crate::commands::following;

/// What the rows have in common.
const ROW: Command = Command {
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE),
    group: Group::Server,
    complexity: "O(1)",
    ..Command::BLANK
};

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "failover",
        arity: -1,
        since: "6.2.0",
        summary: "Changes roles with a replica, once that has everything.",
        syntax: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        run: following::failover,
        ..ROW
    },
    Command {
        name: "replicaof",
        arity: 3,
        flags: ROW.flags.union(Flags::NO_ASYNC_LOADING),
        since: "5.0.0",
        summary: "Makes this server a replica of another, or with NO ONE a primary.",
        syntax: "host port",
        run: following::replicaof,
        ..ROW
    },
    Command {
        name: "slaveof",
        arity: 3,
        flags: ROW.flags.union(Flags::NO_ASYNC_LOADING),
        since: "1.0.0",
        summary: "Makes this server a replica of another, or with NO ONE a primary.",
        syntax: "host port",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`REPLICAOF`" }),
        run: following::replicaof,
        ..ROW
    },
];
