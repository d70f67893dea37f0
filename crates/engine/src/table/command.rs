//! Rows of COMMAND and its subcommands.

use super::{Categories, Command, Flags, Group};
use crate::commands::command;

const ALWAYS: Flags = Flags::LOADING.union(Flags::STALE);
const ORDER: &[&str] = &["nondeterministic_output_order"];

/// What the subcommands have in common.
const SUB: Command = Command {
    flags: ALWAYS,
    categories: Categories::CONNECTION,
    group: Group::Server,
    since: "2.8.13",
    ..Command::BLANK
};

/// The rows.
pub const ROWS: &[Command] = &[Command {
    name: "command",
    arity: -1,
    tips: ORDER,
    complexity: "O(N) in the number of commands",
    summary: "Tells of all commands: arity, flags, keys, categories.",
    subcommands: SUBCOMMANDS,
    run: command::command,
    ..SUB
}];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "count",
        arity: 2,
        complexity: "O(1)",
        summary: "Counts the commands.",
        run: command::count,
        ..SUB
    },
    Command {
        name: "docs",
        arity: -2,
        tips: ORDER,
        since: "7.0.0",
        complexity: "O(N) in the number of commands asked for",
        summary: "Gives the documentation of commands, of all if none is named.",
        syntax: "[command-name [command-name ...]]",
        run: command::docs,
        ..SUB
    },
    Command {
        name: "getkeys",
        arity: -4,
        complexity: "O(N) in the number of arguments",
        summary: "Picks the keys from the arguments of a command.",
        syntax: "command arg [arg ...]",
        run: command::getkeys,
        ..SUB
    },
    Command {
        name: "getkeysandflags",
        arity: -4,
        since: "7.0.0",
        complexity: "O(N) in the number of arguments",
        summary: "Picks the keys from the arguments of a command, and tells what it does to them.",
        syntax: "command arg [arg ...]",
        run: command::getkeysandflags,
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Prints this text.",
        run: command::help,
        ..SUB
    },
    Command {
        name: "info",
        arity: -2,
        tips: ORDER,
        complexity: "O(N) in the number of commands asked for",
        summary: "Tells of some commands what COMMAND tells of all; of all if none is named.",
        syntax: "[command-name [command-name ...]]",
        run: command::info,
        ..SUB
    },
    Command {
        name: "list",
        arity: -2,
        tips: ORDER,
        since: "7.0.0",
        complexity: "O(N) in the number of commands",
        summary: "Lists the names of commands.",
        syntax: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
        run: command::list,
        ..SUB
    },
];
