//! Rows of the connection commands.

use super::{Categories, Command, Flags, Group};
use crate::commands::{client, client_list, connection};

/// What a client may send before it is anybody.
const HANDSHAKE: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::NO_AUTH)
    .union(Flags::ALLOW_BUSY);
const QUICK: Flags = INFORMING.union(Flags::FAST);
const INFORMING: Flags = Flags::LOADING.union(Flags::STALE);
/// About the connection itself.
const OWN: Flags = INFORMING.union(Flags::NOSCRIPT);
const ADMIN: Flags = OWN.union(Flags::ADMIN);

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "ping",
        arity: -1,
        flags: Flags::FAST.union(Flags::SUBSCRIBED),
        categories: Categories::CONNECTION,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: Group::Connection,
        complexity: "O(1)",
        summary: "Answers PONG, or the message it was given.",
        syntax: "[message]",
        run: connection::ping,
        ..Command::BLANK
    },
    Command {
        name: "echo",
        arity: 2,
        flags: QUICK,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        complexity: "O(1)",
        summary: "Answers with its argument.",
        syntax: "message",
        run: connection::echo,
        ..Command::BLANK
    },
    Command {
        name: "select",
        arity: 2,
        flags: QUICK,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        complexity: "O(1)",
        summary: "Chooses the database that this connection works on.",
        syntax: "index",
        run: connection::select,
        ..Command::BLANK
    },
    Command {
        name: "hello",
        arity: -1,
        flags: HANDSHAKE,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Greets the server: sets the protocol version, and may authenticate and name the connection.",
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        run: connection::hello,
        ..Command::BLANK
    },
    Command {
        name: "auth",
        arity: -2,
        flags: HANDSHAKE,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        complexity: "O(N) where N is the number of passwords of the user",
        summary: "Authenticates this connection.",
        syntax: "[username] password",
        run: connection::auth,
        ..Command::BLANK
    },
    Command {
        name: "quit",
        arity: -1,
        flags: HANDSHAKE.union(Flags::SUBSCRIBED).union(Flags::OUTSIDE_MULTI),
        categories: Categories::CONNECTION,
        group: Group::Connection,
        complexity: "O(1)",
        summary: "Closes this connection.",
        run: connection::quit,
        ..Command::BLANK
    },
    Command {
        name: "reset",
        arity: 1,
        flags: HANDSHAKE.union(Flags::SUBSCRIBED).union(Flags::OUTSIDE_MULTI),
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Makes this connection as good as new.",
        run: connection::reset,
        ..Command::BLANK
    },
    Command {
        name: "client",
        arity: -2,
        group: Group::Connection,
        since: "2.4.0",
        complexity: "Depends on subcommand.",
        summary: "Commands about connections.",
        subcommands: CLIENT,
        ..Command::BLANK
    },
];

const CLIENT: &[Command] = &[
    Command {
        name: "id",
        arity: 2,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Tells the number of this connection.",
        run: client::id,
        ..Command::BLANK
    },
    Command {
        name: "info",
        arity: 2,
        flags: OWN,
        categories: Categories::CONNECTION,
        tips: &["nondeterministic_output"],
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Describes this connection.",
        run: client_list::info,
        ..Command::BLANK
    },
    Command {
        name: "list",
        arity: -2,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        tips: &["nondeterministic_output"],
        group: Group::Connection,
        since: "2.4.0",
        complexity: "O(N) where N is the number of connections",
        summary: "Describes the open connections.",
        syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
        run: client_list::list,
        ..Command::BLANK
    },
    Command {
        name: "kill",
        arity: -3,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "2.4.0",
        complexity: "O(N) where N is the number of connections",
        summary: "Closes connections.",
        syntax: "<ip:port | <<ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username | ADDR ip:port | LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage:integer> [<ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username | ADDR ip:port | LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage:integer> ...]>>",
        run: client_list::kill,
        ..Command::BLANK
    },
    Command {
        name: "getname",
        arity: 2,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "2.6.9",
        complexity: "O(1)",
        summary: "Tells the name of this connection.",
        run: client::getname,
        ..Command::BLANK
    },
    Command {
        name: "setname",
        arity: 3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "2.6.9",
        complexity: "O(1)",
        summary: "Names this connection.",
        syntax: "connection-name",
        run: client::setname,
        ..Command::BLANK
    },
    Command {
        name: "setinfo",
        arity: 4,
        flags: OWN,
        categories: Categories::CONNECTION,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        group: Group::Connection,
        since: "7.2.0",
        complexity: "O(1)",
        summary: "Names the library that this connection is made with.",
        syntax: "<LIB-NAME libname | LIB-VER libver>",
        run: client::setinfo,
        ..Command::BLANK
    },
    Command {
        name: "reply",
        arity: 3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Says whether this connection is sent replies.",
        syntax: "<ON | OFF | SKIP>",
        run: client::reply,
        ..Command::BLANK
    },
    Command {
        name: "no-evict",
        arity: 3,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Protects this connection from being closed for want of memory.",
        syntax: "<ON | OFF>",
        run: client::no_evict,
        ..Command::BLANK
    },
    Command {
        name: "no-touch",
        arity: 3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "7.2.0",
        complexity: "O(1)",
        summary: "Says whether this connection's reads count as uses of the keys.",
        syntax: "<ON | OFF>",
        run: client::no_touch,
        ..Command::BLANK
    },
    // Halcyon's own.
    Command {
        name: "durability",
        arity: 3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "7.4.0",
        complexity: "O(1)",
        summary: "Says what this connection's replies wait for.",
        syntax: "<NONE | EVERYSEC | ALWAYS | QUORUM | DEFAULT>",
        run: client::durability,
        ..Command::BLANK
    },
    Command {
        name: "pause",
        arity: -3,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "2.9.50",
        complexity: "O(1)",
        summary: "Holds back the commands of all connections for a while.",
        syntax: "timeout:integer [WRITE | ALL]",
        run: client::pause,
        ..Command::BLANK
    },
    Command {
        name: "caching",
        arity: 3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Says whether the keys of the next command are tracked.",
        syntax: "<YES | NO>",
        run: client::caching,
        ..Command::BLANK
    },
    Command {
        name: "getredir",
        arity: 2,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Shows which connection is told of invalidations in the place of this one.",
        run: client::getredir,
        ..Command::BLANK
    },
    Command {
        name: "tracking",
        arity: -3,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Says whether the connection is told when keys change that it may have cached.",
        syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        run: client::tracking,
        ..Command::BLANK
    },
    Command {
        name: "trackinginfo",
        arity: 2,
        flags: OWN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Shows how the connection is tracked.",
        run: client::trackinginfo,
        ..Command::BLANK
    },
    Command {
        name: "unpause",
        arity: 2,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(N) where N is the number of paused connections",
        summary: "Ends a pause of all connections.",
        run: client::unpause,
        ..Command::BLANK
    },
    Command {
        name: "unblock",
        arity: -3,
        flags: ADMIN,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(log N) where N is the number of connections",
        summary: "Ends the waiting of a connection whose command blocks.",
        syntax: "client-id [TIMEOUT | ERROR]",
        run: client::unblock,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: INFORMING,
        categories: Categories::CONNECTION,
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: client::help,
        ..Command::BLANK
    },
];
