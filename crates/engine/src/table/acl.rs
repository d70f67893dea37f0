//! Rows of ACL and its subcommands.

use super::{Command, Flags, Group};
use crate::commands::acl;

const OWN: Flags = Flags::LOADING.union(Flags::STALE).union(Flags::NOSCRIPT);
const ADMIN: Flags = OWN.union(Flags::ADMIN);

/// What the subcommands have in common.
const SUB: Command = Command { flags: ADMIN, group: Group::Server, since: "6.0.0", ..Command::BLANK };

/// The rows.
pub const ROWS: &[Command] = &[Command {
    name: "acl",
    arity: -2,
    group: Group::Server,
    since: "6.0.0",
    complexity: "Depends on subcommand.",
    summary: "Commands about users and their permissions.",
    subcommands: SUBCOMMANDS,
    ..Command::BLANK
}];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "cat",
        arity: -2,
        flags: OWN,
        complexity: "O(1), as the categories and commands are what they are",
        summary: "Lists the categories of commands, or the commands of one.",
        syntax: "[category]",
        run: acl::cat,
        ..SUB
    },
    Command {
        name: "deluser",
        arity: -3,
        complexity: "O(N) in the number of connections",
        summary: "Deletes users, and closes their connections.",
        syntax: "username [username ...]",
        run: acl::deluser,
        ..SUB
    },
    Command {
        name: "dryrun",
        arity: -4,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Tells whether a user may run a command, without running it.",
        syntax: "username command [arg [arg ...]]",
        run: acl::dryrun,
        ..SUB
    },
    Command {
        name: "genpass",
        arity: -2,
        flags: OWN,
        complexity: "O(1)",
        summary: "Makes a password that nobody can guess.",
        syntax: "[bits:integer]",
        run: acl::genpass,
        ..SUB
    },
    Command {
        name: "getuser",
        arity: 3,
        complexity: "O(N) in the number of the user's rules",
        summary: "Tells everything about a user.",
        syntax: "username",
        run: acl::getuser,
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: acl::help,
        ..SUB
    },
    Command {
        name: "list",
        arity: 2,
        complexity: "O(N) in the number of users",
        summary: "Lists the users, as lines of a configuration file.",
        run: acl::list,
        ..SUB
    },
    Command {
        name: "load",
        arity: 2,
        complexity: "O(N) in the number of users and connections",
        summary: "Reads the users from the ACL file.",
        run: acl::load,
        ..SUB
    },
    Command {
        name: "log",
        arity: -2,
        complexity: "O(N) in the number of entries shown",
        summary: "Shows what was refused lately, or forgets it.",
        syntax: "[count:integer | RESET]",
        run: acl::log,
        ..SUB
    },
    Command {
        name: "save",
        arity: 2,
        complexity: "O(N) in the number of users",
        summary: "Writes the users to the ACL file.",
        run: acl::save,
        ..SUB
    },
    Command {
        name: "setuser",
        arity: -3,
        complexity: "O(N) in the number of rules",
        summary: "Makes a user, or changes one.",
        syntax: "username [rule [rule ...]]",
        run: acl::setuser,
        ..SUB
    },
    Command {
        name: "users",
        arity: 2,
        complexity: "O(N) in the number of users",
        summary: "Lists the names of the users.",
        run: acl::users,
        ..SUB
    },
    Command {
        name: "whoami",
        arity: 2,
        flags: OWN,
        complexity: "O(1)",
        summary: "Tells the name of this connection's user.",
        run: acl::whoami,
        ..SUB
    },
];
