//! Rows of transactions.

use super::{Categories, Command, Flags, Group, KeyAccess, KeySpec};
use crate::commands::transactions;

const ALWAYS: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
const QUICK: Flags = ALWAYS.union(Flags::FAST).union(Flags::ALLOW_BUSY);

/// What the rows have in common.
const ROW: Command =
    Command { categories: Categories::TRANSACTION, group: Group::Transactions, ..Command::BLANK };

/// The rows.
pub const ROWS: &[Command] = &[
    Command {
        name: "multi",
        arity: 1,
        flags: QUICK.union(Flags::OUTSIDE_MULTI),
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Begins a transaction: the commands that follow are queued.",
        run: transactions::multi,
        ..ROW
    },
    Command {
        name: "exec",
        arity: 1,
        flags: ALWAYS.union(Flags::SKIP_SLOWLOG).union(Flags::OUTSIDE_MULTI),
        since: "1.2.0",
        complexity: "Depends on the queued commands",
        summary: "Runs the queued commands as one.",
        run: transactions::exec,
        ..ROW
    },
    Command {
        name: "discard",
        arity: 1,
        flags: QUICK.union(Flags::OUTSIDE_MULTI),
        since: "2.0.0",
        complexity: "O(N) in the number of queued commands",
        summary: "Forgets the queued commands and the watched keys.",
        run: transactions::discard,
        ..ROW
    },
    Command {
        name: "watch",
        arity: -2,
        flags: QUICK.union(Flags::OUTSIDE_MULTI),
        keys: &[KeySpec::range(KeyAccess::RO, 1, -1, 1)],
        since: "2.2.0",
        complexity: "O(1) for each key",
        summary: "Has the next EXEC run nothing if one of these keys is written before it.",
        syntax: "key [key ...]",
        run: transactions::watch,
        ..ROW
    },
    Command {
        name: "unwatch",
        arity: 1,
        flags: QUICK,
        since: "2.2.0",
        complexity: "O(N) in the number of watched keys",
        summary: "Forgets all watched keys.",
        run: transactions::unwatch,
        ..ROW
    },
];
