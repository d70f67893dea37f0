//! Rows of SENTINEL, which is no command but on `sentinel-port`.

use super::{Command, Deprecated, Flags, Group};
use crate::commands::sentinel;

/// What the subcommands have in common.
const SUB: Command = Command {
    arity: 3,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE),
    group: Group::Sentinel,
    since: "2.8.4",
    complexity: "O(N) in the number of nodes",
    syntax: "master-name",
    ..Command::BLANK
};

/// The row.
pub const ROW: Command = Command {
    name: "sentinel",
    arity: -2,
    complexity: "Depends on the subcommand",
    summary: "Tells clients of Redis Sentinel who the primaries are.",
    syntax: "",
    subcommands: SUBCOMMANDS,
    ..SUB
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "ckquorum",
        summary: "Tells whether enough nodes are there.",
        run: sentinel::ckquorum,
        ..SUB
    },
    Command {
        name: "get-master-addr-by-name",
        summary: "Tells the address of a primary.",
        run: sentinel::get_master_addr_by_name,
        ..SUB
    },
    Command { name: "help", arity: 2, syntax: "", summary: "Prints a text.", run: sentinel::help, ..SUB },
    Command {
        name: "is-master-down-by-addr",
        arity: 6,
        syntax: "ip port current-epoch runid",
        summary: "Tells whether a primary is gone.",
        run: sentinel::is_master_down_by_addr,
        ..SUB
    },
    Command { name: "master", summary: "Tells of a primary.", run: sentinel::master, ..SUB },
    Command {
        name: "masters",
        arity: 2,
        syntax: "",
        summary: "Tells of all primaries.",
        run: sentinel::masters,
        ..SUB
    },
    Command {
        name: "myid",
        arity: 2,
        syntax: "",
        summary: "Tells this node's id.",
        run: sentinel::myid,
        ..SUB
    },
    Command {
        name: "replicas",
        since: "5.0.0",
        summary: "Tells of a primary's replicas.",
        run: sentinel::replicas,
        ..SUB
    },
    Command { name: "sentinels", summary: "Tells of the other nodes.", run: sentinel::sentinels, ..SUB },
    Command {
        name: "slaves",
        summary: "Tells of a primary's replicas.",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`SENTINEL REPLICAS`" }),
        run: sentinel::replicas,
        ..SUB
    },
];
