//! How the two replies to a command are compared: byte for byte unless Redis leaves something open.

use crate::differences;
use resp::Value;

use crate::user_facts;
use crate::value::Reply;

/// What may differ between the two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing. RESP3 sets and maps are compared without order, as they have none.
    Exact,
    /// The order of an array.
    Unordered,
    /// The order of an array of pairs.
    UnorderedPairs,
    /// All but the type of the reply.
    TypeOnly,
    /// All leaves: types and lengths agree at every depth.
    Shape,
    /// An integer by so much, as long as both are non-negative: clocks are read at different moments.
    Near(i64),
    /// The way through: a full iteration of SCAN and its kin gives the same elements.
    ScanAll,
    /// Which elements were drawn; they must exist on the oracle.
    RandomMembers,
    /// Which elements were taken out; the oracle is made to take out the same.
    Pop,
    /// The name of an encoding that 7.2 introduced, as `differences` maps it.
    Encoding,
    /// What is told of streams, without times and without how the inside is built.
    StreamFacts,
    /// What ACL LOG tells, without times and connections.
    LogFacts,
    /// What ACL GETUSER and ACL LIST tell, without rules about commands.
    UserFacts,
    /// As `StreamFacts`, without what groups have read, which 7.4 tells in fewer cases, and without their consumers,
    /// which it makes in more.
    StreamFactsBut,
}

/// What `StreamFacts` leaves out, with its name; some came with 7.2.
const INNER_FACTS: &[&[u8]] = &[b"radix-tree-nodes", b"idle", b"inactive", b"seen-time", b"active-time"];
/// What `StreamFactsBut` leaves out besides.
const READ_FACTS: &[&[u8]] = &[b"entries-read", b"lag", b"consumers"];

const NEAR_SECONDS: i64 = 2;
const NEAR_MS: i64 = 2_000;

/// The rule of a command, from its own words.
pub fn rule_of(args: &[Vec<u8>]) -> Rule {
    let word = |index: usize| args.get(index).map(|arg| arg.to_ascii_uppercase()).unwrap_or_default();
    let (name, sub) = (word(0), word(1));
    match name.as_slice() {
        b"SMEMBERS" | b"SUNION" | b"SDIFF" | b"SINTER" | b"HKEYS" | b"HVALS" | b"KEYS" => Rule::Unordered,
        b"HGETALL" => Rule::UnorderedPairs,
        b"TTL" | b"EXPIRETIME" => Rule::Near(NEAR_SECONDS),
        b"PTTL" | b"PEXPIRETIME" => Rule::Near(NEAR_MS),
        b"SCAN" | b"HSCAN" | b"SSCAN" | b"ZSCAN" => Rule::ScanAll,
        b"SRANDMEMBER" | b"HRANDFIELD" | b"ZRANDMEMBER" | b"RANDOMKEY" => Rule::RandomMembers,
        b"SPOP" => Rule::Pop,
        b"TIME" | b"ROLE" | b"HELLO" => Rule::Shape,
        b"DEBUG" if sub.starts_with(b"DIGEST") => Rule::Exact,
        b"INFO" | b"LOLWUT" | b"SLOWLOG" | b"LATENCY" | b"MEMORY" | b"DEBUG" => Rule::TypeOnly,
        b"ACL" => match sub.as_slice() {
            b"GETUSER" | b"LIST" => Rule::UserFacts,
            b"LOG" => Rule::LogFacts,
            _ => Rule::Exact,
        },
        b"OBJECT" => match sub.as_slice() {
            b"ENCODING" => Rule::Encoding,
            b"IDLETIME" | b"HELP" => Rule::TypeOnly,
            _ => Rule::Exact,
        },
        b"CONFIG" => match sub.as_slice() {
            b"GET" => Rule::UnorderedPairs,
            b"HELP" => Rule::TypeOnly,
            _ => Rule::Exact,
        },
        b"CLIENT" => match sub.as_slice() {
            b"ID" | b"INFO" | b"LIST" | b"HELP" => Rule::TypeOnly,
            _ => Rule::Exact,
        },
        b"COMMAND" => match sub.as_slice() {
            b"GETKEYS" | b"GETKEYSANDFLAGS" => Rule::Exact,
            _ => Rule::TypeOnly,
        },
        b"XINFO" => match sub.as_slice() {
            b"HELP" => Rule::TypeOnly,
            b"STREAM" if args.len() > 3 => Rule::StreamFactsBut,
            _ => Rule::StreamFacts,
        },
        b"XPENDING" => Rule::StreamFacts,
        b"CLUSTER" => match sub.as_slice() {
            b"KEYSLOT" | b"COUNTKEYSINSLOT" => Rule::Exact,
            b"GETKEYSINSLOT" => Rule::Unordered,
            _ => Rule::TypeOnly,
        },
        _ => Rule::Exact,
    }
}

/// Whether the replies agree under a rule that needs nothing but the two of them.
/// Rules that ask the servers again (`ScanAll`, `RandomMembers`, `Pop`, `Encoding`) are `duo`'s.
pub fn agree(args: &[Vec<u8>], rule: Rule, oracle: &Value, halcyon: &Value) -> bool {
    if oracle == halcyon {
        return true;
    }
    if oracle.is_error() || halcyon.is_error() {
        return differences::is_known(args, oracle, halcyon);
    }
    let plain = match rule {
        Rule::TypeOnly => oracle.kind() == halcyon.kind(),
        Rule::Shape => same_shape(oracle, halcyon),
        Rule::Near(tolerance) => match (oracle.int(), halcyon.int()) {
            (Some(one), Some(other)) => one >= 0 && other >= 0 && one.abs_diff(other) <= tolerance as u64,
            _ => false,
        },
        Rule::Unordered => sorted(oracle, 1) == sorted(halcyon, 1),
        Rule::UnorderedPairs => sorted(oracle, 2) == sorted(halcyon, 2),
        Rule::StreamFacts => facts_agree(oracle, halcyon, &[]),
        Rule::LogFacts => user_facts::logs_agree(oracle, halcyon),
        Rule::UserFacts => user_facts::users_agree(oracle, halcyon),
        Rule::StreamFactsBut => facts_agree(oracle, halcyon, READ_FACTS),
        _ => sorted(oracle, 0) == sorted(halcyon, 0),
    };
    plain || differences::is_known(args, oracle, halcyon)
}

fn facts_agree(oracle: &Value, halcyon: &Value, besides: &[&[u8]]) -> bool {
    let [oracle, halcyon] = [oracle, halcyon].map(|value| sorted(&stream_facts(value, besides), 0));
    oracle == halcyon
}

/// A reply of XINFO or XPENDING without the facts that differ from server to server, and those in `besides`.
fn stream_facts(value: &Value, besides: &[&[u8]]) -> Value {
    let is_left_out = |label: &Value| {
        let label = label.text().unwrap_or_default();
        INNER_FACTS.iter().chain(besides).any(|name| **name == *label)
    };
    match value {
        Value::Map(pairs) => {
            let kept = pairs.iter().filter(|(label, _)| !is_left_out(label));
            Value::Map(kept.map(|(label, fact)| (label.clone(), stream_facts(fact, besides))).collect())
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            let mut at = 0;
            while at < items.len() {
                if matches!(items[at], Value::Bulk(_)) && is_left_out(&items[at]) {
                    at += 1;
                } else if !is_delivery_time(items, at) {
                    kept.push(stream_facts(&items[at], besides));
                }
                at += 1;
            }
            Value::Array(kept)
        }
        other => other.clone(),
    }
}

/// Whether this is the time in a pending entry: id, consumer, time, deliveries; or id, time, deliveries.
fn is_delivery_time(items: &[Value], at: usize) -> bool {
    let is_int = |item: &Value| matches!(item, Value::Int(_));
    let is_pending = matches!(items.len(), 3 | 4) && items[items.len() - 2..].iter().all(is_int);
    is_pending && matches!(items[0], Value::Bulk(_)) && at + 2 == items.len()
}

/// The reply with everything unordered in a fixed order: RESP3 sets and maps at every depth, and the
/// outermost array in groups of `group` (0: arrays keep their order).
pub fn sorted(value: &Value, group: usize) -> Value {
    let inner = |items: &[Value]| items.iter().map(|item| sorted(item, 0)).collect::<Vec<_>>();
    match value {
        Value::Array(items) => {
            let items = inner(items);
            if group == 0 {
                return Value::Array(items);
            }
            let mut groups: Vec<Vec<Value>> = items.chunks(group).map(<[Value]>::to_vec).collect();
            groups.sort_by_cached_key(|group| group.iter().map(Reply::sort_key).collect::<Vec<_>>());
            Value::Array(groups.concat())
        }
        Value::Set(items) => {
            let mut items = inner(items);
            items.sort_by_cached_key(Reply::sort_key);
            Value::Set(items)
        }
        Value::Map(pairs) => {
            let mut pairs: Vec<_> =
                pairs.iter().map(|(key, value)| (sorted(key, 0), sorted(value, 0))).collect();
            pairs.sort_by_cached_key(|(key, value)| (key.sort_key(), value.sort_key()));
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

/// Whether types and lengths agree at every depth.
pub fn same_shape(one: &Value, other: &Value) -> bool {
    one.kind() == other.kind()
        && match (one.children(), other.children()) {
            (Some(ones), Some(others)) => {
                ones.len() == others.len()
                    && ones.iter().zip(&others).all(|(one, other)| same_shape(one, other))
            }
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    #[test]
    fn what_each_rule_lets_pass() {
        let check = |line: &str, oracle: &str, halcyon: &str, expected: bool| {
            let args = words::split(line.as_bytes()).expect(line);
            let parse = |wire: &str| {
                let bytes = wire.replace(' ', "\r\n").into_bytes();
                resp::parse::parse(&bytes).expect(wire).expect(wire).0
            };
            let agreed = agree(&args, rule_of(&args), &parse(oracle), &parse(halcyon));
            assert_eq!(agreed, expected, "{line}: {oracle:?} {halcyon:?}");
        };
        check("GET a", "$1 a ", "$1 a ", true);
        check("GET a", "$1 a ", "+a ", false);
        check("GET a", "$-1 ", "*-1 ", false);
        check("SMEMBERS s", "*2 $1 a $1 b ", "*2 $1 b $1 a ", true);
        check("SMEMBERS s", "*2 $1 a $1 b ", "*2 $1 b $1 b ", false);
        check("LRANGE l 0 -1", "*2 $1 a $1 b ", "*2 $1 b $1 a ", false);
        check("HGETALL h", "*4 $1 a :1 $1 b :2 ", "*4 $1 b :2 $1 a :1 ", true);
        check("HGETALL h", "*4 $1 a :1 $1 b :2 ", "*4 $1 b :1 $1 a :2 ", false);
        check("X", "%2 $1 a :1 $1 b :2 ", "%2 $1 b :2 $1 a :1 ", true);
        check("X", "~2 :1 :2 ", "~2 :2 :1 ", true);
        check("TTL k", ":10 ", ":11 ", true);
        check("TTL k", ":10 ", ":13 ", false);
        check("TTL k", ":-1 ", ":0 ", false);
        check("TIME", "*2 $1 1 $1 2 ", "*2 $1 5 $1 6 ", true);
        check("TIME", "*2 $1 1 $1 2 ", "*1 $1 1 ", false);
        check("INFO", "$1 a ", "$2 ab ", true);
        check("INFO", "$1 a ", "-ERR ", false);
        check("XPENDING s g - + 9", "*1 *4 $1 a $1 b :5 :1 ", "*1 *4 $1 a $1 b :7 :1 ", true);
        check("XPENDING s g - + 9", "*1 *4 $1 a $1 b :5 :1 ", "*1 *4 $1 a $1 b :5 :2 ", false);
        check("XPENDING s g", "*2 :1 *1 $1 a ", "*2 :2 *1 $1 a ", false);
        check("XINFO CONSUMERS s g", "*1 *4 $4 idle :5 $1 a :1 ", "*1 *4 $4 idle :6 $1 a :1 ", true);
        check("XINFO CONSUMERS s g", "*1 %1 $4 name :5 ", "*1 %2 $4 name :5 $8 inactive :1 ", true);
        check("XINFO GROUPS s", "*1 *2 $3 lag :5 ", "*1 *2 $3 lag :6 ", false);
        check("XINFO STREAM s FULL", "*1 *2 $3 lag :5 ", "*1 *2 $3 lag :6 ", true);
    }
}
