//! Rows of the sorted set commands.

use super::{
    Categories, Command, Deprecated, Flags, Group, KeyAccess, KeySpec, ONE_RO, ONE_RO_ACCESS,
    ONE_RW_ACCESS_DELETE, ONE_RW_ACCESS_UPDATE, ONE_RW_DELETE, ONE_RW_UPDATE,
};
use crate::commands::zsets;

const ZSET: Command = Command {
    categories: Categories::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    complexity: "O(1)",
    ..Command::BLANK
};

const READ: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const OVERWRITTEN: KeyAccess = KeyAccess::OW.union(KeyAccess::UPDATE);
const COUNTED_READ: &[KeySpec] = &[KeySpec::counted(READ, 1)];
const POPPED: KeyAccess = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE);
const COUNTED_POP: &[KeySpec] = &[KeySpec::counted(POPPED, 1)];
const POPPED_FROM_MANY: &[KeySpec] = &[KeySpec::range(POPPED, 1, -2, 1)];
const BLOCKING: Flags = Flags::WRITE.union(Flags::BLOCKING);
const FROM_COUNTED_TO: &[KeySpec] = &[KeySpec::one(OVERWRITTEN, 1), KeySpec::counted(READ, 2)];
const FROM_TO: &[KeySpec] = &[KeySpec::one(OVERWRITTEN, 1), KeySpec::one(READ, 2)];

const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];
const INTERSECTION: &str = "O(N*K)+O(M*log(M)) where N is the size of the smallest input, K the number of inputs, and M the size of the result.";
const UNION: &str =
    "O(N)+O(M*log(M)) where N is the number of elements in all inputs and M the size of the result.";
const DIFFERENCE: &str = "O(L+(N-K)*log(N)) where L is the number of elements in all inputs, N the size of the first, and K the size of the result.";
const RANGE: &str = "O(log(N)+M) where N is the size of the sorted set and M the number of members returned.";
const RANGE_REMOVAL: &str =
    "O(log(N)+M) where N is the size of the sorted set and M the number of members removed.";
const LOGARITHMIC: &str = "O(log(N)) where N is the size of the sorted set.";
const POP: &str = "O(M*log(N)) where N is the size of the sorted set and M the number of members taken.";

/// Every command of the family.
pub const ROWS: &[Command] = &[
    Command {
        name: "bzmpop",
        arity: -5,
        flags: BLOCKING,
        keys: &[KeySpec::counted(POPPED, 2)],
        since: "7.0.0",
        complexity: "O(K)+O(M*log(N)) where K is the number of keys, N the size of the sorted set, and M \
             the number of members taken.",
        summary: "Takes members with the lowest or highest scores from the first sorted set that is there, \
             waiting for one if need be.",
        syntax: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        run: zsets::bzmpop,
        ..ZSET
    },
    Command {
        name: "bzpopmax",
        arity: -3,
        flags: BLOCKING.union(Flags::NOSCRIPT).union(Flags::FAST),
        keys: POPPED_FROM_MANY,
        since: "5.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set.",
        summary: "Takes the member with the highest score, waiting for one if need be.",
        syntax: "key [key ...] timeout",
        run: zsets::bzpopmax,
        ..ZSET
    },
    Command {
        name: "bzpopmin",
        arity: -3,
        flags: BLOCKING.union(Flags::NOSCRIPT).union(Flags::FAST),
        keys: POPPED_FROM_MANY,
        since: "5.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set.",
        summary: "Takes the member with the lowest score, waiting for one if need be.",
        syntax: "key [key ...] timeout",
        run: zsets::bzpopmin,
        ..ZSET
    },
    Command {
        name: "zadd",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_UPDATE,
        complexity: "O(M*log(N)) where N is the size of the sorted set and M the number of members given.",
        summary: "Adds members to a sorted set, or gives them other scores.",
        syntax: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        run: zsets::zadd,
        ..ZSET
    },
    Command {
        name: "zcard",
        arity: 2,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO,
        summary: "Returns the number of members of a sorted set.",
        syntax: "key",
        run: zsets::zcard,
        ..ZSET
    },
    Command {
        name: "zcount",
        arity: 4,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "2.0.0",
        complexity: LOGARITHMIC,
        summary: "Counts the members with scores within a range.",
        syntax: "key min:double max:double",
        run: zsets::zcount,
        ..ZSET
    },
    Command {
        name: "zdiff",
        arity: -3,
        flags: Flags::READONLY,
        keys: COUNTED_READ,
        since: "6.2.0",
        complexity: DIFFERENCE,
        summary: "Returns the members of the first sorted set that no other has.",
        syntax: "numkeys key [key ...] [WITHSCORES]",
        run: zsets::zdiff,
        ..ZSET
    },
    Command {
        name: "zdiffstore",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_COUNTED_TO,
        since: "6.2.0",
        complexity: DIFFERENCE,
        summary: "Stores the members of the first sorted set that no other has.",
        syntax: "destination numkeys key [key ...]",
        run: zsets::zdiffstore,
        ..ZSET
    },
    Command {
        name: "zincrby",
        arity: 4,
        flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
        keys: ONE_RW_ACCESS_UPDATE,
        complexity: LOGARITHMIC,
        summary: "Adds to the score of a member, which is added if missing.",
        syntax: "key increment:double member",
        run: zsets::zincrby,
        ..ZSET
    },
    Command {
        name: "zinter",
        arity: -3,
        flags: Flags::READONLY,
        keys: COUNTED_READ,
        since: "6.2.0",
        complexity: INTERSECTION,
        summary: "Returns the members that all inputs have.",
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] \
             [WITHSCORES]",
        run: zsets::zinter,
        ..ZSET
    },
    Command {
        name: "zintercard",
        arity: -3,
        flags: Flags::READONLY,
        keys: COUNTED_READ,
        since: "7.0.0",
        complexity: "O(N*K) where N is the size of the smallest input and K the number of inputs.",
        summary: "Counts the members that all inputs have.",
        syntax: "numkeys key [key ...] [LIMIT limit]",
        run: zsets::zintercard,
        ..ZSET
    },
    Command {
        name: "zinterstore",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_COUNTED_TO,
        since: "2.0.0",
        complexity: INTERSECTION,
        summary: "Stores the members that all inputs have.",
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | \
             MAX>]",
        run: zsets::zinterstore,
        ..ZSET
    },
    Command {
        name: "zlexcount",
        arity: 4,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "2.8.9",
        complexity: LOGARITHMIC,
        summary: "Counts the members within a range of names, all scores being equal.",
        syntax: "key min max",
        run: zsets::zlexcount,
        ..ZSET
    },
    Command {
        name: "zmpop",
        arity: -4,
        flags: Flags::WRITE,
        keys: COUNTED_POP,
        since: "7.0.0",
        complexity: "O(K)+O(M*log(N)) where K is the number of keys, N the size of the sorted set, and M \
             the number of members taken.",
        summary: "Takes members with the lowest or highest scores from the first sorted set that is there.",
        syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        run: zsets::zmpop,
        ..ZSET
    },
    Command {
        name: "zmscore",
        arity: -3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members given.",
        summary: "Returns the scores of several members.",
        syntax: "key member [member ...]",
        run: zsets::zmscore,
        ..ZSET
    },
    Command {
        name: "zpopmax",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        since: "5.0.0",
        complexity: POP,
        summary: "Takes out the members with the highest scores.",
        syntax: "key [count]",
        run: zsets::zpopmax,
        ..ZSET
    },
    Command {
        name: "zpopmin",
        arity: -2,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_ACCESS_DELETE,
        since: "5.0.0",
        complexity: POP,
        summary: "Takes out the members with the lowest scores.",
        syntax: "key [count]",
        run: zsets::zpopmin,
        ..ZSET
    },
    Command {
        name: "zrandmember",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members returned.",
        summary: "Returns members of a sorted set drawn at random.",
        syntax: "key [count [WITHSCORES]]",
        run: zsets::zrandmember,
        ..ZSET
    },
    Command {
        name: "zrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        complexity: RANGE,
        summary: "Returns the members within a range of ranks, scores or names.",
        syntax: "key start:string stop:string [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        run: zsets::zrange,
        ..ZSET
    },
    Command {
        name: "zrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "2.8.9",
        complexity: RANGE,
        summary: "Returns the members within a range of names, all scores being equal.",
        syntax: "key min max [LIMIT offset count]",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `BYLEX` argument" }),
        run: zsets::zrangebylex,
        ..ZSET
    },
    Command {
        name: "zrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "1.0.5",
        complexity: RANGE,
        summary: "Returns the members with scores within a range.",
        syntax: "key min:double max:double [WITHSCORES] [LIMIT offset count]",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `BYSCORE` argument" }),
        run: zsets::zrangebyscore,
        ..ZSET
    },
    Command {
        name: "zrangestore",
        arity: -5,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_TO,
        since: "6.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M the number of members stored.",
        summary: "Stores a range of members of a sorted set in another key.",
        syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        run: zsets::zrangestore,
        ..ZSET
    },
    Command {
        name: "zrank",
        arity: -3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "2.0.0",
        complexity: LOGARITHMIC,
        summary: "Returns the rank of a member, counted from the lowest score.",
        syntax: "key member [WITHSCORE]",
        run: zsets::zrank,
        ..ZSET
    },
    Command {
        name: "zrem",
        arity: -3,
        flags: Flags::WRITE.union(Flags::FAST),
        keys: ONE_RW_DELETE,
        complexity: "O(M*log(N)) where N is the size of the sorted set and M the number of members given.",
        summary: "Removes members from a sorted set; one without members is deleted.",
        syntax: "key member [member ...]",
        run: zsets::zrem,
        ..ZSET
    },
    Command {
        name: "zremrangebylex",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        since: "2.8.9",
        complexity: RANGE_REMOVAL,
        summary: "Removes the members within a range of names, all scores being equal.",
        syntax: "key min max",
        run: zsets::zremrangebylex,
        ..ZSET
    },
    Command {
        name: "zremrangebyrank",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        since: "2.0.0",
        complexity: RANGE_REMOVAL,
        summary: "Removes the members within a range of ranks.",
        syntax: "key start stop",
        run: zsets::zremrangebyrank,
        ..ZSET
    },
    Command {
        name: "zremrangebyscore",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_RW_DELETE,
        complexity: RANGE_REMOVAL,
        summary: "Removes the members with scores within a range.",
        syntax: "key min:double max:double",
        run: zsets::zremrangebyscore,
        ..ZSET
    },
    Command {
        name: "zrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        complexity: RANGE,
        summary: "Returns the members within a range of ranks, the highest score first.",
        syntax: "key start stop [WITHSCORES]",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `REV` argument" }),
        run: zsets::zrevrange,
        ..ZSET
    },
    Command {
        name: "zrevrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "2.8.9",
        complexity: RANGE,
        summary: "Returns the members within a range of names, the last first, all scores being equal.",
        syntax: "key max min [LIMIT offset count]",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `REV` and `BYLEX` arguments",
        }),
        run: zsets::zrevrangebylex,
        ..ZSET
    },
    Command {
        name: "zrevrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        since: "2.2.0",
        complexity: RANGE,
        summary: "Returns the members with scores within a range, the highest first.",
        syntax: "key max:double min:double [WITHSCORES] [LIMIT offset count]",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `REV` and `BYSCORE` arguments",
        }),
        run: zsets::zrevrangebyscore,
        ..ZSET
    },
    Command {
        name: "zrevrank",
        arity: -3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        since: "2.0.0",
        complexity: LOGARITHMIC,
        summary: "Returns the rank of a member, counted from the highest score.",
        syntax: "key member [WITHSCORE]",
        run: zsets::zrevrank,
        ..ZSET
    },
    Command {
        name: "zscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_RO_ACCESS,
        tips: ANY_OUTPUT,
        since: "2.8.0",
        complexity: "O(1) for a call, O(N) for the whole walk, where N is the size of the sorted set.",
        summary: "Walks through the members of a sorted set, some with each call.",
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        run: zsets::zscan,
        ..ZSET
    },
    Command {
        name: "zscore",
        arity: 3,
        flags: Flags::READONLY.union(Flags::FAST),
        keys: ONE_RO_ACCESS,
        summary: "Returns the score of a member.",
        syntax: "key member",
        run: zsets::zscore,
        ..ZSET
    },
    Command {
        name: "zunion",
        arity: -3,
        flags: Flags::READONLY,
        keys: COUNTED_READ,
        since: "6.2.0",
        complexity: UNION,
        summary: "Returns the members of all inputs together.",
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] \
             [WITHSCORES]",
        run: zsets::zunion,
        ..ZSET
    },
    Command {
        name: "zunionstore",
        arity: -4,
        flags: Flags::WRITE.union(Flags::DENYOOM),
        keys: FROM_COUNTED_TO,
        since: "2.0.0",
        complexity: UNION,
        summary: "Stores the members of all inputs together.",
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | \
             MAX>]",
        run: zsets::zunionstore,
        ..ZSET
    },
];
