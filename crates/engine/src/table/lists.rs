//! Lists.

use super::{
    Categories, Command, Deprecated, Flags, Group, KeyAccess, KeySpec, ONE_RO, ONE_RO_ACCESS,
    ONE_RW_ACCESS_DELETE, ONE_RW_DELETE, ONE_RW_INSERT, ONE_RW_UPDATE,
};
use crate::commands::lists;

const LIST: Command = Command { categories: Categories::LIST, group: Group::List, ..Command::BLANK };

const POPPED: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE);
const PUSHED: KeyAccess = KeyAccess::RW.union(KeyAccess::INSERT);
const FROM_TO: &[KeySpec] = &[KeySpec::one(POPPED, 1), KeySpec::one(PUSHED, 2)];

const POPPED_FROM_MANY: &[KeySpec] = &[KeySpec::range(POPPED, 1, -2, 1)];

const BLOCKING: Flags = Flags::WRITE.union(Flags::NOSCRIPT).union(Flags::BLOCKING);
const PUSH_FLAGS: Flags = Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST);
const PUSH_COMPLEXITY: &str = "O(N) where N is the number of elements pushed.";

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "blpop",
        arity: -3,
        flags: BLOCKING,
        keys: POPPED_FROM_MANY,
        since: "2.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Removes and returns the first element of the first list that has one, waiting for it if need be.",
        syntax: "key [key ...] timeout",
        run: lists::blpop,
        ..LIST
    },
    Command {
        name: "brpop",
        arity: -3,
        flags: BLOCKING,
        keys: POPPED_FROM_MANY,
        since: "2.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Removes and returns the last element of the first list that has one, waiting for it if need be.",
        syntax: "key [key ...] timeout",
        run: lists::brpop,
        ..LIST
    },
    Command {
        name: "blmove",
        arity: 6,
        flags: BLOCKING.union(Flags::DENYOOM),
        keys: FROM_TO,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from one list to another, waiting for it if need be.",
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
        run: lists::blmove,
        ..LIST
    },
    Command {
        name: "brpoplpush",
        arity: 4,
        flags: BLOCKING.union(Flags::DENYOOM),
        keys: FROM_TO,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to the front of another, waiting for it if need be.",
        syntax: "source destination timeout",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        run: lists::brpoplpush,
        ..LIST
    },
    Command {
        name: "blmpop",
        arity: -5,
        flags: Flags::WRITE.union(Flags::BLOCKING),
        keys: &[KeySpec::counted(POPPED, 2)],
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of keys and M the number of elements returned.",
        summary: "Removes and returns elements of the first list that has any, waiting for them if need be.",
        syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        run: lists::blmpop,
        ..LIST
    },
    Command {
        name: "lindex",
        arity: 3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "1.0.0",
        complexity: "O(log N) where N is the length of the list.",
        summary: "Returns the element at a position of a list.",
        syntax: "key index",
        run: lists::lindex,
        ..LIST
    },
    Command {
        name: "linsert",
        arity: 5,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: ONE_RW_INSERT,
        since: "2.2.0",
        complexity: "O(N) where N is the number of elements up to the pivot.",
        summary: "Inserts an element next to the first occurrence of another.",
        syntax: "key <BEFORE | AFTER> pivot element",
        run: lists::linsert,
        ..LIST
    },
    Command {
        name: "llen",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the number of elements of a list.",
        syntax: "key",
        run: lists::llen,
        ..LIST
    },
    Command {
        name: "lmove",
        arity: 5,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_TO,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Takes an element off one list, pushes it onto another, and returns it.",
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        run: lists::lmove,
        ..LIST
    },
    Command {
        name: "lmpop",
        arity: -4,
        flags: Flags::WRITE,
        keys: &[KeySpec::counted(POPPED, 1)],
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of keys given and M the number of elements returned.",
        summary: "Removes and returns elements of the first list that has any.",
        syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        run: lists::lmpop,
        ..LIST
    },
    Command {
        name: "lpop",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned.",
        summary: "Removes and returns elements at the front of a list.",
        syntax: "key [count]",
        run: lists::lpop,
        ..LIST
    },
    Command {
        name: "lpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "6.0.6",
        complexity: "O(N) where N is the number of elements compared: the list's length, or MAXLEN.",
        summary: "Returns the positions at which an element occurs in a list.",
        syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        run: lists::lpos,
        ..LIST
    },
    Command {
        name: "lpush",
        arity: -3,
        flags: PUSH_FLAGS,
        keys: ONE_RW_INSERT,
        since: "1.0.0",
        complexity: PUSH_COMPLEXITY,
        summary: "Pushes elements onto the front of a list, which is created if missing.",
        syntax: "key element [element ...]",
        run: lists::lpush,
        ..LIST
    },
    Command {
        name: "lpushx",
        arity: -3,
        flags: PUSH_FLAGS,
        keys: ONE_RW_INSERT,
        since: "2.2.0",
        complexity: PUSH_COMPLEXITY,
        summary: "Pushes elements onto the front of a list that exists.",
        syntax: "key element [element ...]",
        run: lists::lpushx,
        ..LIST
    },
    Command {
        name: "lrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "1.0.0",
        complexity: "O(log N + M) where N is the length of the list and M the number of elements returned.",
        summary: "Returns the elements between two positions of a list.",
        syntax: "key start stop",
        run: lists::lrange,
        ..LIST
    },
    Command {
        name: "lrem",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        since: "1.0.0",
        complexity: "O(N+M log N) where N is the length of the list and M the number of elements removed.",
        summary: "Removes occurrences of an element from a list.",
        syntax: "key count element",
        run: lists::lrem,
        ..LIST
    },
    Command {
        name: "lset",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: ONE_RW_UPDATE,
        since: "1.0.0",
        complexity: "O(log N) where N is the length of the list.",
        summary: "Replaces the element at a position of a list.",
        syntax: "key index element",
        run: lists::lset,
        ..LIST
    },
    Command {
        name: "ltrim",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        since: "1.0.0",
        complexity: "O(log N + M) where N is the length of the list and M the number of elements removed.",
        summary: "Keeps only the elements between two positions of a list.",
        syntax: "key start stop",
        run: lists::ltrim,
        ..LIST
    },
    Command {
        name: "rpop",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned.",
        summary: "Removes and returns elements at the back of a list.",
        syntax: "key [count]",
        run: lists::rpop,
        ..LIST
    },
    Command {
        name: "rpoplpush",
        arity: 3,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_TO,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Takes the last element of one list, pushes it onto the front of another, and returns it.",
        syntax: "source destination",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        run: lists::rpoplpush,
        ..LIST
    },
    Command {
        name: "rpush",
        arity: -3,
        flags: PUSH_FLAGS,
        keys: ONE_RW_INSERT,
        since: "1.0.0",
        complexity: PUSH_COMPLEXITY,
        summary: "Pushes elements onto the back of a list, which is created if missing.",
        syntax: "key element [element ...]",
        run: lists::rpush,
        ..LIST
    },
    Command {
        name: "rpushx",
        arity: -3,
        flags: PUSH_FLAGS,
        keys: ONE_RW_INSERT,
        since: "2.2.0",
        complexity: PUSH_COMPLEXITY,
        summary: "Pushes elements onto the back of a list that exists.",
        syntax: "key element [element ...]",
        run: lists::rpushx,
        ..LIST
    },
];
