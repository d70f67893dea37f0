//! Rows of the cluster commands.

use super::{Categories, Command, Deprecated, Flags, Group};
use crate::commands::{cluster, cluster_changes, redirects, slot_migrations, sync_slots};

const OUTPUT: &[&str] = &["nondeterministic_output"];

/// What the subcommands have in common.
const SUB: Command = Command {
    flags: Flags::STALE,
    group: Group::Cluster,
    since: "3.0.0",
    complexity: "O(1)",
    ..Command::BLANK
};

/// What the subcommands that change the cluster have in common.
const CHANGE: Command =
    Command { flags: Flags::ADMIN.union(Flags::STALE).union(Flags::NO_ASYNC_LOADING), ..SUB };

/// What the commands that concern the connection have in common.
const CONNECTION: Command = Command { categories: Categories::CONNECTION, arity: 1, ..SUB };

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "cluster",
        arity: -2,
        flags: Flags::empty(),
        complexity: "Depends on the subcommand",
        summary: "Tells of the cluster that this node is part of.",
        subcommands: SUBCOMMANDS,
        ..SUB
    },
    Command {
        name: "readonly",
        flags: Flags::FAST.union(Flags::LOADING).union(Flags::STALE),
        summary: "Lets this connection read from a replica.",
        run: cluster::readonly,
        ..CONNECTION
    },
    Command {
        name: "readwrite",
        flags: Flags::FAST.union(Flags::LOADING).union(Flags::STALE),
        summary: "Takes READONLY back.",
        run: cluster::readwrite,
        ..CONNECTION
    },
    Command {
        name: "asking",
        flags: Flags::FAST,
        summary: "Announces a command that another node sent here.",
        run: cluster::asking,
        ..CONNECTION
    },
];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "slots",
        arity: 2,
        tips: OUTPUT,
        complexity: "O(1): a copy",
        summary: "Maps ranges of slots to the addresses of their nodes.",
        deprecated: Some(Deprecated { since: "7.0.0", replaced_by: "`CLUSTER SHARDS`" }),
        run: cluster::slots,
        ..SUB
    },
    Command {
        name: "shards",
        arity: 2,
        tips: OUTPUT,
        since: "7.0.0",
        complexity: "O(1): a copy",
        summary: "Tells of the shards: their slots, and their nodes.",
        run: cluster::shards,
        ..SUB
    },
    Command {
        name: "nodes",
        arity: 2,
        tips: OUTPUT,
        complexity: "O(1): a copy",
        summary: "Tells of the nodes, a line for each.",
        run: cluster::nodes,
        ..SUB
    },
    Command {
        name: "info",
        arity: 2,
        tips: OUTPUT,
        summary: "Tells how the cluster does.",
        run: cluster::info,
        ..SUB
    },
    Command { name: "myid", arity: 2, summary: "Tells this node's id.", run: cluster::myid, ..SUB },
    Command {
        name: "myshardid",
        arity: 2,
        tips: OUTPUT,
        since: "7.2.0",
        summary: "Tells the id of this node's shard.",
        run: cluster::myshardid,
        ..SUB
    },
    Command {
        name: "links",
        arity: 2,
        tips: OUTPUT,
        since: "7.0.0",
        complexity: "O(N) in the number of nodes",
        summary: "Tells of the connections to other nodes.",
        run: cluster::links,
        ..SUB
    },
    Command {
        name: "keyslot",
        arity: 3,
        complexity: "O(N) in the length of the key",
        summary: "Tells the slot of a key.",
        syntax: "key",
        run: cluster::keyslot,
        ..SUB
    },
    Command {
        name: "countkeysinslot",
        arity: 3,
        summary: "Counts the keys in a slot.",
        syntax: "slot",
        run: cluster::countkeysinslot,
        ..SUB
    },
    Command {
        name: "getkeysinslot",
        arity: 4,
        flags: SUB.flags.union(Flags::WHOLE_KEYSPACE),
        tips: OUTPUT,
        complexity: "O(N) in the number of keys asked for",
        summary: "Lists keys of a slot.",
        syntax: "slot count",
        run: cluster::getkeysinslot,
        ..SUB
    },
    Command {
        name: "slot-stats",
        arity: -4,
        tips: &["nondeterministic_output", "request_policy:all_shards"],
        since: "8.2.0",
        complexity: "O(N) in the number of slots",
        summary: "Counts the keys of slots, in the order of slots or of their counts.",
        syntax: "<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>",
        run: cluster::slot_stats,
        ..SUB
    },
    Command {
        name: "replicas",
        arity: 3,
        flags: Flags::ADMIN.union(Flags::STALE),
        tips: OUTPUT,
        since: "5.0.0",
        complexity: "O(N) in the number of replicas",
        summary: "Lists the replicas of a node.",
        syntax: "node-id",
        run: cluster::replicas,
        ..SUB
    },
    Command {
        name: "slaves",
        arity: 3,
        flags: Flags::ADMIN.union(Flags::STALE),
        tips: OUTPUT,
        complexity: "O(N) in the number of replicas",
        summary: "Lists the replicas of a node.",
        syntax: "node-id",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`CLUSTER REPLICAS`" }),
        run: cluster::replicas,
        ..SUB
    },
    Command {
        name: "migrateslots",
        arity: -4,
        since: "9.0.0",
        complexity: "O(N) in the number of slots",
        summary: "Moves slots of this node to others, each time in one step.",
        syntax: "<SLOTSRANGE <start-slot end-slot>... NODE node-id>...",
        run: slot_migrations::migrateslots,
        ..CHANGE
    },
    Command {
        name: "cancelslotmigrations",
        arity: 2,
        since: "9.0.0",
        complexity: "O(N) in the number of migrations",
        summary: "Ends what MIGRATESLOTS has begun here; the slots stay.",
        run: slot_migrations::cancelslotmigrations,
        ..CHANGE
    },
    Command {
        name: "getslotmigrations",
        arity: 2,
        since: "9.0.0",
        complexity: "O(N) in the number of migrations",
        summary: "Tells of slots that move from or to this node, and of moves that have ended.",
        run: slot_migrations::getslotmigrations,
        ..CHANGE
    },
    Command {
        name: "redirects",
        arity: -2,
        tips: OUTPUT,
        flags: Flags::LOADING.union(Flags::STALE),
        since: "9.0.0",
        complexity: "O(N) in the number of clients whose requests come late",
        summary: "Tells whose requests for slots that have left are forwarded, or has this connection redirected at once.",
        syntax: "[PLAIN]",
        run: redirects::redirects,
        ..SUB
    },
    Command {
        name: "syncslots",
        arity: -4,
        flags: Flags::ADMIN.union(Flags::STALE),
        since: "9.0.0",
        complexity: "O(N) in the number of slots",
        summary: "Announces slots that another node sends here, and how that ended.",
        syntax: "<START move-id start-slot end-slot [start-slot end-slot ...] | READY move-id | DONE move-id | CANCEL move-id>",
        run: sync_slots::syncslots,
        ..SUB
    },
    Command {
        name: "count-failure-reports",
        arity: 3,
        flags: Flags::ADMIN.union(Flags::STALE),
        tips: OUTPUT,
        complexity: "O(N) in the number of reports",
        summary: "Counts the nodes that hold a node to be failing.",
        syntax: "node-id",
        run: cluster::count_failure_reports,
        ..SUB
    },
    Command {
        name: "meet",
        arity: -4,
        flags: CHANGE.flags.union(Flags::LOADING),
        summary: "Makes the node part of the cluster that another one is part of.",
        syntax: "ip port [cluster-bus-port]",
        run: cluster_changes::meet,
        ..CHANGE
    },
    Command {
        name: "addslots",
        arity: -3,
        complexity: "O(N) in the number of slots",
        summary: "Gives slots that nobody owns to this node's shard.",
        syntax: "slot [slot ...]",
        run: cluster_changes::addslots,
        ..CHANGE
    },
    Command {
        name: "addslotsrange",
        arity: -4,
        since: "7.0.0",
        complexity: "O(N) in the number of slots",
        summary: "Gives ranges of slots that nobody owns to this node's shard.",
        syntax: "start-slot end-slot [start-slot end-slot ...]",
        run: cluster_changes::addslotsrange,
        ..CHANGE
    },
    Command {
        name: "delslots",
        arity: -3,
        complexity: "O(N) in the number of slots",
        summary: "Takes slots from this node's shard.",
        syntax: "slot [slot ...]",
        run: cluster_changes::delslots,
        ..CHANGE
    },
    Command {
        name: "delslotsrange",
        arity: -4,
        since: "7.0.0",
        complexity: "O(N) in the number of slots",
        summary: "Takes ranges of slots from this node's shard.",
        syntax: "start-slot end-slot [start-slot end-slot ...]",
        run: cluster_changes::delslotsrange,
        ..CHANGE
    },
    Command {
        name: "flushslots",
        arity: 2,
        summary: "Takes all slots from this node's shard.",
        run: cluster_changes::flushslots,
        ..CHANGE
    },
    Command {
        name: "setslot",
        arity: -4,
        summary: "Gives a slot to a node, or says that its keys are on their way.",
        syntax: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
        run: cluster_changes::setslot,
        ..CHANGE
    },
    Command {
        name: "replicate",
        arity: 3,
        summary: "Makes this node a replica of another.",
        syntax: "node-id",
        run: cluster_changes::replicate,
        ..CHANGE
    },
    Command {
        name: "forget",
        arity: 3,
        summary: "Removes a node from the cluster.",
        syntax: "node-id",
        run: cluster_changes::forget,
        ..CHANGE
    },
    Command {
        name: "reset",
        arity: -2,
        flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE),
        complexity: "O(N) in the number of known nodes",
        summary: "Takes this node out of its shard.",
        syntax: "[HARD | SOFT]",
        run: cluster_changes::reset,
        ..CHANGE
    },
    Command {
        name: "failover",
        arity: -2,
        summary: "Makes this replica the primary of its shard.",
        syntax: "[FORCE | TAKEOVER]",
        run: cluster_changes::failover,
        ..CHANGE
    },
    Command {
        name: "set-config-epoch",
        arity: 3,
        summary: "Sets the epoch of a new node.",
        syntax: "config-epoch",
        run: cluster_changes::set_config_epoch,
        ..CHANGE
    },
    Command {
        name: "bumpepoch",
        arity: 2,
        tips: OUTPUT,
        summary: "Raises this node's epoch above all others.",
        run: cluster_changes::bumpepoch,
        ..CHANGE
    },
    Command {
        name: "saveconfig",
        arity: 2,
        summary: "Writes cluster-config-file.",
        run: cluster_changes::saveconfig,
        ..CHANGE
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        since: "5.0.0",
        summary: "Prints this text.",
        run: cluster::help,
        ..SUB
    },
];
