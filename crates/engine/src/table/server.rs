//! Rows of the server commands.

use super::{Categories, Command, Flags, Group, KeyAccess, KeySpec};
use crate::commands::{config, debug, info, latency, memory, persistence, server, slowlog};

const INFORMING: Flags = Flags::LOADING.union(Flags::STALE);
const ADMIN: Flags = INFORMING.union(Flags::NOSCRIPT).union(Flags::ADMIN);
const SAVING: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "info",
        arity: -1,
        flags: INFORMING,
        categories: Categories::DANGEROUS,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        group: Group::Server,
        complexity: "O(1)",
        summary: "Tells what the server is, does and has done.",
        syntax: "[section [section ...]]",
        run: info::info,
        ..Command::BLANK
    },
    Command {
        name: "config",
        arity: -2,
        group: Group::Server,
        since: "2.0.0",
        complexity: "Depends on subcommand.",
        summary: "Commands about the configuration.",
        subcommands: CONFIG,
        ..Command::BLANK
    },
    Command {
        name: "time",
        arity: 1,
        flags: INFORMING.union(Flags::FAST),
        tips: &["nondeterministic_output"],
        group: Group::Server,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Tells the time.",
        run: server::time,
        ..Command::BLANK
    },
    Command {
        name: "monitor",
        arity: 1,
        flags: ADMIN,
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1) for each command shown",
        summary: "Shows this connection every command that runs, until it is reset or closed.",
        run: server::monitor,
        ..Command::BLANK
    },
    Command {
        name: "shutdown",
        arity: -1,
        flags: ADMIN.union(Flags::NO_MULTI).union(Flags::ALLOW_BUSY),
        group: Group::Server,
        complexity: "O(N) when saving, where N is the number of keys, otherwise O(1)",
        summary: "Ends the server.",
        syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        run: server::shutdown,
        ..Command::BLANK
    },
    Command {
        name: "save",
        arity: 1,
        flags: SAVING.union(Flags::NO_MULTI),
        group: Group::Server,
        complexity: "O(N) where N is the number of keys in all databases; only its own client waits",
        summary: "Saves all data to a file, and answers when it is safe.",
        run: persistence::save,
        ..Command::BLANK
    },
    Command {
        name: "bgsave",
        arity: -1,
        // What is saved is what there is at this instant.
        flags: SAVING.union(Flags::ALL_STRIPES),
        group: Group::Server,
        complexity: "O(1)",
        summary: "Begins to save all data to a file.",
        syntax: "[SCHEDULE]",
        run: persistence::bgsave,
        ..Command::BLANK
    },
    Command {
        name: "bgrewriteaof",
        arity: 1,
        flags: SAVING,
        group: Group::Server,
        complexity: "O(1)",
        summary: "Begins to write the append-only files anew, as short as they can be.",
        run: persistence::bgrewriteaof,
        ..Command::BLANK
    },
    Command {
        name: "lastsave",
        arity: 1,
        flags: INFORMING.union(Flags::FAST),
        categories: Categories::ADMIN.union(Categories::DANGEROUS),
        tips: &["nondeterministic_output"],
        group: Group::Server,
        complexity: "O(1)",
        summary: "Tells when data was last saved, in unix seconds.",
        run: persistence::lastsave,
        ..Command::BLANK
    },
    Command {
        name: "lolwut",
        arity: -1,
        flags: Flags::READONLY.union(Flags::FAST),
        group: Group::Server,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Draws something, and tells the version.",
        syntax: "[VERSION version:integer]",
        run: server::lolwut,
        ..Command::BLANK
    },
    Command {
        name: "debug",
        arity: -2,
        flags: ADMIN.union(Flags::WHOLE_KEYSPACE),
        group: Group::Server,
        complexity: "Depends on subcommand.",
        summary: "Helps those who test the server and its clients.",
        syntax: "subcommand [argument [argument ...]]",
        run: debug::debug,
        ..Command::BLANK
    },
    Command {
        name: "slowlog",
        arity: -2,
        group: Group::Server,
        since: "2.2.12",
        complexity: "Depends on subcommand.",
        summary: "Commands about the log of slow commands.",
        subcommands: SLOWLOG,
        ..Command::BLANK
    },
    Command {
        name: "latency",
        arity: -2,
        group: Group::Server,
        since: "2.8.13",
        complexity: "Depends on subcommand.",
        summary: "Commands about events that took long.",
        subcommands: LATENCY,
        ..Command::BLANK
    },
    Command {
        name: "memory",
        arity: -2,
        group: Group::Server,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "Commands about the use of memory.",
        subcommands: MEMORY,
        ..Command::BLANK
    },
];

const CONFIG: &[Command] = &[
    Command {
        name: "get",
        arity: -3,
        flags: ADMIN,
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(N) where N is the number of directives given",
        summary: "Tells the values of directives.",
        syntax: "parameter [parameter ...]",
        run: config::get,
        ..Command::BLANK
    },
    Command {
        name: "set",
        arity: -4,
        flags: ADMIN,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(N) where N is the number of directives given",
        summary: "Changes directives, all of them or none.",
        syntax: "parameter value [parameter value ...]",
        run: config::set,
        ..Command::BLANK
    },
    Command {
        name: "resetstat",
        arity: 2,
        flags: ADMIN,
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets the statistics that INFO shows to zero.",
        run: config::resetstat,
        ..Command::BLANK
    },
    Command {
        name: "rewrite",
        arity: 2,
        flags: ADMIN,
        group: Group::Server,
        since: "2.8.0",
        complexity: "O(1)",
        summary: "Writes the configuration in force to its file.",
        run: config::rewrite,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: INFORMING,
        group: Group::Server,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: config::help,
        ..Command::BLANK
    },
];

const SLOWLOG: &[Command] = &[
    Command {
        name: "get",
        arity: -2,
        flags: INFORMING.union(Flags::ADMIN),
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        group: Group::Server,
        since: "2.2.12",
        complexity: "O(N) where N is the number of entries returned",
        summary: "Tells the slowest commands of late.",
        syntax: "[count]",
        run: slowlog::get,
        ..Command::BLANK
    },
    Command {
        name: "len",
        arity: 2,
        flags: INFORMING.union(Flags::ADMIN),
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        group: Group::Server,
        since: "2.2.12",
        complexity: "O(1)",
        summary: "Counts the entries of the slow log.",
        run: slowlog::len,
        ..Command::BLANK
    },
    Command {
        name: "reset",
        arity: 2,
        flags: INFORMING.union(Flags::ADMIN),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        group: Group::Server,
        since: "2.2.12",
        complexity: "O(N) where N is the number of entries",
        summary: "Empties the slow log.",
        run: slowlog::reset,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: INFORMING,
        group: Group::Server,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: slowlog::help,
        ..Command::BLANK
    },
];

const LATENCY: &[Command] = &[
    Command {
        name: "doctor",
        arity: 2,
        flags: ADMIN,
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Explains the latencies seen, in words.",
        run: latency::doctor,
        ..Command::BLANK
    },
    Command {
        name: "graph",
        arity: 3,
        flags: ADMIN,
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Draws the latencies of an event.",
        syntax: "event",
        run: latency::graph,
        ..Command::BLANK
    },
    Command {
        name: "histogram",
        arity: -2,
        flags: ADMIN,
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        group: Group::Server,
        since: "7.0.0",
        complexity: "O(N) where N is the number of commands shown",
        summary: "Tells how the run times of commands are distributed.",
        syntax: "[command [command ...]]",
        run: latency::histogram,
        ..Command::BLANK
    },
    Command {
        name: "history",
        arity: 3,
        flags: ADMIN,
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Tells when an event took how long.",
        syntax: "event",
        run: latency::history,
        ..Command::BLANK
    },
    Command {
        name: "latest",
        arity: 2,
        flags: ADMIN,
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Tells the latest latency of every event.",
        run: latency::latest,
        ..Command::BLANK
    },
    Command {
        name: "reset",
        arity: -2,
        flags: ADMIN,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Forgets the latencies of events.",
        syntax: "[event [event ...]]",
        run: latency::reset,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: INFORMING,
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: latency::help,
        ..Command::BLANK
    },
];

const MEMORY: &[Command] = &[
    Command {
        name: "doctor",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells in words what is wrong with the use of memory.",
        run: memory::doctor,
        ..Command::BLANK
    },
    Command {
        name: "malloc-stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells what the allocator has counted.",
        run: memory::malloc_stats,
        ..Command::BLANK
    },
    Command {
        name: "purge",
        arity: 2,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Asks the allocator to give unused memory back.",
        run: memory::purge,
        ..Command::BLANK
    },
    Command {
        name: "stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells what memory is used for.",
        run: memory::stats,
        ..Command::BLANK
    },
    Command {
        name: "usage",
        arity: -3,
        flags: Flags::READONLY,
        keys: &[KeySpec::one(KeyAccess::RO, 2)],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells how many bytes a key and its value take.",
        syntax: "key [SAMPLES count]",
        run: memory::usage,
        ..Command::BLANK
    },
    Command {
        name: "help",
        arity: 2,
        flags: INFORMING,
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Describes the subcommands.",
        run: memory::help,
        ..Command::BLANK
    },
];
