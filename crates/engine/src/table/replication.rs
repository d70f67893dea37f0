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

/// What the rows of replicas' own commands have in common.
const LINK: Command = Command {
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING).union(Flags::NO_MULTI),
    group: Group::Server,
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
    Command {
        name: "role",
        arity: 1,
        flags: Flags::LOADING.union(Flags::STALE).union(Flags::NOSCRIPT).union(Flags::FAST),
        categories: Categories::ADMIN.union(Categories::DANGEROUS),
        tips: &[],
        group: Group::Server,
        since: "2.8.12",
        complexity: "O(r), with r replicas.",
        summary: "Tells the part that the server plays in replication.",
        run: replication::role,
        ..ROW
    },
    Command {
        name: "replconf",
        arity: -1,
        flags: Flags::ADMIN
            .union(Flags::NOSCRIPT)
            .union(Flags::LOADING)
            .union(Flags::STALE)
            .union(Flags::ALLOW_BUSY),
        since: "3.0.0",
        summary: "Tells the server about a replica; for replicas.",
        syntax: "[option value ...]",
        run: replication::replconf,
        ..LINK
    },
    Command {
        name: "psync",
        arity: -3,
        since: "2.8.0",
        complexity: "O(1); a full synchronization is made on other threads.",
        summary: "Has the connection sent the stream of writes, from an offset on or after all data; for replicas.",
        syntax: "replicationid offset [FAILOVER]",
        run: replication::psync,
        ..LINK
    },
    Command {
        name: "sync",
        arity: 1,
        complexity: "O(1); the full synchronization is made on other threads.",
        summary: "Has the connection sent all data, then the stream of writes; for old replicas.",
        run: replication::sync,
        ..LINK
    },
];
