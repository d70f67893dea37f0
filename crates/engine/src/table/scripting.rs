//! EVAL, SCRIPT, FCALL, FUNCTION.

use super::{Categories, Command, Flags, Group, KeyAccess, KeySpec};
use crate::commands::{functions, scripting};

/// Flags of everything that runs a script.
const RUNS: Flags =
    Flags::NOSCRIPT.union(Flags::STALE).union(Flags::SKIP_MONITOR).union(Flags::NO_MANDATORY_KEYS);
const RUNS_RO: Flags = RUNS.union(Flags::READONLY);
const RUNS_RW: Flags = RUNS.union(Flags::MAY_REPLICATE);
const SCRIPTING: Command =
    Command { categories: Categories::SCRIPTING, group: Group::Scripting, since: "2.6.0", ..Command::BLANK };
const FUNCTIONS: Command = Command { since: "7.0.0", ..SCRIPTING };
/// SCRIPT and FUNCTION themselves.
const CONTAINER: Command =
    Command { arity: -2, group: Group::Scripting, complexity: "Depends on subcommand.", ..Command::BLANK };

const RW: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::UPDATE);
const RO: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const KEYS_RW: &[KeySpec] = &[KeySpec::counted(RW, 2)];
const KEYS_RO: &[KeySpec] = &[KeySpec::counted(RO, 2)];
const NOTED_RW: &[KeySpec] = &[KeySpec {
    notes: "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE",
    ..KeySpec::counted(RW, 2)
}];
const NOTED_RO: &[KeySpec] = &[KeySpec {
    notes: "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
    ..KeySpec::counted(RO, 2)
}];

const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const ONE_SUCCEEDS: &[&str] = &["request_policy:all_shards", "response_policy:one_succeeded"];
const RUN_COMPLEXITY: &str = "Depends on the script that is executed.";
const CALL_COMPLEXITY: &str = "Depends on the function that is executed.";

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "eval",
        arity: -3,
        flags: RUNS_RW,
        keys: NOTED_RW,
        complexity: RUN_COMPLEXITY,
        summary: "Runs a Lua script.",
        syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
        run: scripting::eval,
        ..SCRIPTING
    },
    Command {
        name: "evalsha",
        arity: -3,
        flags: RUNS_RW,
        keys: KEYS_RW,
        complexity: RUN_COMPLEXITY,
        summary: "Runs a Lua script that the server knows, by its SHA1 digest.",
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        run: scripting::evalsha,
        ..SCRIPTING
    },
    Command {
        name: "evalsha_ro",
        arity: -3,
        flags: RUNS_RO,
        keys: KEYS_RO,
        since: "7.0.0",
        complexity: RUN_COMPLEXITY,
        summary: "Runs a Lua script that only reads, by its SHA1 digest.",
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        run: scripting::evalsha_ro,
        ..SCRIPTING
    },
    Command {
        name: "eval_ro",
        arity: -3,
        flags: RUNS_RO,
        keys: NOTED_RO,
        since: "7.0.0",
        complexity: RUN_COMPLEXITY,
        summary: "Runs a Lua script that only reads.",
        syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
        run: scripting::eval_ro,
        ..SCRIPTING
    },
    Command {
        name: "fcall",
        arity: -3,
        flags: RUNS_RW,
        keys: NOTED_RW,
        complexity: CALL_COMPLEXITY,
        summary: "Runs a function.",
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        run: functions::fcall,
        ..FUNCTIONS
    },
    Command {
        name: "fcall_ro",
        arity: -3,
        flags: RUNS_RO,
        keys: NOTED_RO,
        complexity: CALL_COMPLEXITY,
        summary: "Runs a function that only reads.",
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        run: functions::fcall_ro,
        ..FUNCTIONS
    },
    Command {
        name: "function",
        since: "7.0.0",
        summary: "A container for function commands.",
        subcommands: FUNCTION_ROWS,
        ..CONTAINER
    },
    Command {
        name: "script",
        since: "2.6.0",
        summary: "A container for Lua scripts management commands.",
        subcommands: SCRIPT_ROWS,
        ..CONTAINER
    },
];

const SCRIPT_ROWS: &[Command] = &[
    Command {
        name: "debug",
        arity: 3,
        flags: Flags::NOSCRIPT,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Sets the debug mode of scripts.",
        syntax: "<YES | SYNC | NO>",
        run: scripting::debug,
        ..SCRIPTING
    },
    Command {
        name: "exists",
        arity: -3,
        flags: Flags::NOSCRIPT,
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        complexity: "O(N) with N being the number of digests.",
        summary: "Tells of SHA1 digests whether the server knows their scripts.",
        syntax: "sha1 [sha1 ...]",
        run: scripting::exists,
        ..SCRIPTING
    },
    Command {
        name: "flush",
        arity: -2,
        flags: Flags::NOSCRIPT,
        tips: ALL_NODES,
        complexity: "O(N) with N being the number of scripts.",
        summary: "Forgets all scripts.",
        syntax: "[ASYNC | SYNC]",
        run: scripting::flush,
        ..SCRIPTING
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Prints this text.",
        run: scripting::help,
        ..SCRIPTING
    },
    Command {
        name: "kill",
        arity: 2,
        flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
        tips: ONE_SUCCEEDS,
        complexity: "O(1)",
        summary: "Ends the script that runs.",
        run: scripting::kill,
        ..SCRIPTING
    },
    Command {
        name: "load",
        arity: 3,
        flags: Flags::NOSCRIPT.union(Flags::STALE),
        tips: ALL_NODES,
        complexity: "O(N) with N being the length of the script.",
        summary: "Makes a script known to the server.",
        syntax: "script",
        run: scripting::load,
        ..SCRIPTING
    },
];

const FUNCTION_ROWS: &[Command] = &[
    Command {
        name: "delete",
        arity: 3,
        flags: Flags::NOSCRIPT.union(Flags::WRITE),
        tips: ALL_SHARDS,
        complexity: "O(1)",
        summary: "Deletes a library and its functions.",
        syntax: "library-name",
        run: functions::delete,
        ..FUNCTIONS
    },
    Command {
        name: "dump",
        arity: 2,
        flags: Flags::NOSCRIPT,
        complexity: "O(N) with N being the number of functions.",
        summary: "Serializes all libraries.",
        run: functions::dump,
        ..FUNCTIONS
    },
    Command {
        name: "flush",
        arity: -2,
        flags: Flags::NOSCRIPT.union(Flags::WRITE),
        tips: ALL_SHARDS,
        complexity: "O(N) with N being the number of functions.",
        summary: "Deletes all libraries.",
        syntax: "[ASYNC | SYNC]",
        run: functions::flush,
        ..FUNCTIONS
    },
    Command {
        name: "help",
        arity: 2,
        flags: Flags::LOADING.union(Flags::STALE),
        complexity: "O(1)",
        summary: "Prints this text.",
        run: functions::help,
        ..FUNCTIONS
    },
    Command {
        name: "kill",
        arity: 2,
        flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
        tips: ONE_SUCCEEDS,
        complexity: "O(1)",
        summary: "Ends the function that runs.",
        run: functions::kill,
        ..FUNCTIONS
    },
    Command {
        name: "list",
        arity: -2,
        flags: Flags::NOSCRIPT,
        tips: &["nondeterministic_output_order"],
        complexity: "O(N) with N being the number of functions.",
        summary: "Tells of all libraries.",
        syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        run: functions::list,
        ..FUNCTIONS
    },
    Command {
        name: "load",
        arity: -3,
        flags: Flags::NOSCRIPT.union(Flags::WRITE).union(Flags::DENYOOM),
        tips: ALL_SHARDS,
        complexity: "O(1) (considering compilation time is redundant)",
        summary: "Creates a library.",
        syntax: "[REPLACE] function-code",
        run: functions::load,
        ..FUNCTIONS
    },
    Command {
        name: "restore",
        arity: -3,
        flags: Flags::NOSCRIPT.union(Flags::WRITE).union(Flags::DENYOOM),
        tips: ALL_SHARDS,
        complexity: "O(N) with N being the number of functions in the payload.",
        summary: "Creates the libraries of a serialized payload.",
        syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
        run: functions::restore,
        ..FUNCTIONS
    },
    Command {
        name: "stats",
        arity: 2,
        flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        complexity: "O(1)",
        summary: "Tells of the function that runs, and of the engines.",
        run: functions::stats,
        ..FUNCTIONS
    },
];
