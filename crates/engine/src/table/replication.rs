//! Rows of what waits for copies of the data.

use super::{Categories, Command, Flags, Group};
use crate::commands::replication;

/// What the rows have in common.
const ROW: Command = Command {
    flags: Flags::NOSCRIPT,
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    group: Group::Generic,
    complexity: "O(1)",
    ..Command::BLANK
};

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "wait",
        arity: 3,
        since: "3.0.0",
        summary: "Waits until so many replicas have all writes of this connection.",
        syntax: "numreplicas timeout",
        run: replication::wait,
        ..ROW
    },
    Command {
        name: "waitaof",
        arity: 4,
        since: "7.2.0",
        summary: "Waits until all writes of this connection are in the append-only files of this server and of replicas.",
        syntax: "numlocal numreplicas timeout",
        run: replication::waitaof,
        ..ROW
    },
];
