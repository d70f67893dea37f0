//! A node among others, beside what real clusters have answered: `tests/data/cluster/script.txt` says what was asked, and
//! `scripts/record-cluster-replies` asks it.

use std::collections::{BTreeMap, HashMap};

use cluster::ids::NodeId;
use engine::cluster_face::topology_of;
use engine::replication::replica::Primary;
use engine::testing::Harness;
use resp::Value;

const SCRIPT: &str = include_str!("data/cluster/script.txt");

/// What was recorded, in order: the head of each entry, and its bytes.
fn recorded(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
        let text = |line: Option<&[u8]>| String::from_utf8(line.expect("a line").to_vec()).expect("text");
        let (head, length) = (text(lines.next()), text(lines.next()).parse::<usize>().expect("a length"));
        let rest = lines.next().expect("a body");
        entries.push((head, rest[..length].to_vec()));
        bytes = &rest[length + 1..];
    }
    entries
}

/// A reply as a text to compare: what has no order in Redis is sorted, and what Halcyon's nodes do not know is left out.
fn normal(command: &str, reply: &[u8]) -> String {
    let (value, used) = resp::parse::parse(reply).expect("a valid reply").expect("a whole reply");
    assert!(command.starts_with("SSUBSCRIBE") || used == reply.len(), "{command}: one reply");
    let words: Vec<String> = command.to_ascii_uppercase().split(' ').take(2).map(str::to_owned).collect();
    match (words[0].as_str(), words.get(1).map(String::as_str)) {
        ("CLUSTER", Some("NODES")) => sorted_lines(&value),
        ("CLUSTER", Some("REPLICAS" | "SLAVES")) if matches!(value, Value::Array(_)) => {
            let Value::Array(lines) = value else { unreachable!("an array") };
            lines.iter().map(sorted_lines).collect::<Vec<_>>().join("\n")
        }
        ("CLUSTER", Some("SLOTS")) => sorted(value, &[]),
        ("CLUSTER", Some("SHARDS")) => sorted(value, &["replication-offset", "id", "availability-zone"]),
        ("CLUSTER", Some("INFO")) => info(&value),
        _ => shown(&value),
    }
}

/// A reply in a line.
fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Bulk(bytes) => format!("\"{}\"", text(bytes)),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{}={}", shown(name), shown(value)));
            format!("%{{{}}}", pairs.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("a text, not {other:?}"),
    }
}

/// The lines of nodes, without when they were last heard of.
fn sorted_lines(value: &Value) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        (words[4], words[5]) = ("0", "0");
        words.join(" ")
    };
    let mut lines: Vec<String> = text_of(value).lines().map(line).collect();
    lines.sort();
    lines.join("\n")
}

/// What CLUSTER INFO says of slots and nodes.
fn info(value: &Value) -> String {
    let told = ["state", "slots_assigned", "slots_ok", "slots_pfail", "slots_fail", "known_nodes", "size"];
    let text = text_of(value);
    let is_told = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        told.iter().any(|told| name == format!("cluster_{told}"))
    };
    text.lines().filter(is_told).collect::<Vec<_>>().join("\n")
}

/// An array whose elements have no order, and its maps without some fields.
fn sorted(value: Value, without: &[&str]) -> String {
    let Value::Array(items) = value else { panic!("an array") };
    let mut items: Vec<String> = items.into_iter().map(|item| shown(&shorn(item, without))).collect();
    items.sort();
    items.join("\n")
}

fn shorn(value: Value, without: &[&str]) -> Value {
    let is_left_out = |name: &Value| matches!(name, Value::Bulk(name) if without.iter().any(|known| known.as_bytes() == &name[..]));
    match value {
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().filter(|(name, _)| !is_left_out(name));
            Value::Map(pairs.map(|(name, value)| (name, shorn(value, without))).collect())
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            let mut items = items.into_iter();
            while let Some(item) = items.next() {
                if is_left_out(&item) && !without.is_empty() {
                    items.next();
                } else {
                    kept.push(shorn(item, without));
                }
            }
            Value::Array(kept)
        }
        other => other,
    }
}

/// The nodes that are asked, as Halcyon.
struct Nodes {
    /// By name.
    nodes: BTreeMap<String, Harness>,
    ids: HashMap<String, String>,
}

impl Nodes {
    fn start(entries: &[(String, Vec<u8>)]) -> Nodes {
        let names = entries.iter().find(|(head, _)| head == "names").expect("names").1.clone();
        let names = String::from_utf8(names).expect("text");
        let ids: HashMap<String, String> = names
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, id)| (name.to_owned(), id.to_owned()))
            .collect();
        let node = |name: &str| {
            let mut harness = Harness::of_node(&[("client-compat", "modern")], &ids[name]);
            harness.on(1).run("HELLO 3");
            (name.to_owned(), harness)
        };
        Nodes { nodes: ["A", "R"].into_iter().map(node).collect(), ids }
    }

    fn of(&mut self, name: &str) -> &mut Harness {
        let connection = usize::from(name.ends_with('3'));
        self.nodes.get_mut(&name[..1]).expect("A or R").on(connection)
    }

    /// Does what a line says that asks nothing; false: it asks something.
    fn is_set_up(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "uncover" => {}
            "have" => {
                let write = words[1..].join(" ");
                self.nodes.values_mut().for_each(|node| node.on(2).check(&write, "+OK"));
            }
            "config" => {
                let set = format!("CONFIG SET {}", words[1..].join(" "));
                self.nodes.values_mut().for_each(|node| node.on(2).check(&set, "+OK"));
            }
            "open" => {
                let other = NodeId::new(&self.ids[words[4]]).expect("an id");
                let (slot, gives) = (words[2].parse().expect("a slot"), words[3] == "migrating");
                self.of(words[1]).server.cluster.open_slot(slot, gives, other);
            }
            "close" => self.of(words[1]).server.cluster.close_slot(words[2].parse().expect("a slot")),
            _ => return false,
        }
        true
    }
}

/// Asks what was recorded; what is answered otherwise.
fn differences(recording: &[u8]) -> Vec<String> {
    let entries = recorded(recording);
    let mut nodes = Nodes::start(&entries);
    let (mut entries, mut found) = (entries.into_iter(), Vec::new());
    for line in SCRIPT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if nodes.is_set_up(line) {
            continue;
        }
        let mut next = || entries.next().expect("the recording ends with the script");
        if line == "topology" {
            for name in ["A", "R"] {
                let (head, lines) = next();
                assert_eq!(head, format!("nodes {name}"));
                let topology = topology_of(std::str::from_utf8(&lines).expect("text"));
                nodes.of(name).server.cluster.install(topology);
            }
            nodes.of("R").server.follow(Primary { host: "127.0.0.1".to_owned(), port: 1 });
            assert_eq!(next().0, "names");
            continue;
        }
        let (head, expected) = next();
        assert_eq!(head, line);
        let (name, command) = line.split_once(' ').expect("a command");
        let named = nodes
            .ids
            .iter()
            .fold(command.to_owned(), |text, (name, id)| text.replace(&format!("@{name}"), id));
        let given = nodes.of(name).run_raw(&named);
        if command.starts_with("SSUBSCRIBE") {
            nodes.of(name).run("RESET");
        }
        let (given, expected) = (normal(command, &given), normal(command, &expected));
        if given != expected {
            found.push(format!("{line} => {given}\n  not {expected}"));
        }
    }
    found
}

/// Fails if anything but these is answered otherwise.
fn check(recording: &[u8], otherwise: &[&str]) {
    let found = differences(recording);
    let is_known = |found: &&String| otherwise.iter().any(|known| found.starts_with(known));
    let surprises: Vec<&str> = found.iter().filter(|found| !is_known(found)).map(String::as_str).collect();
    assert!(surprises.is_empty(), "{} differences\n{}", surprises.len(), surprises.join("\n"));
    let is_left = |known: &&&str| !found.iter().any(|found| found.starts_with(**known));
    assert_eq!(otherwise.iter().filter(is_left).count(), 0, "what is answered otherwise is");
}

/// What Redis 7.0 has another text for than those after it.
#[test]
fn as_redis_7() {
    let unowned =
        "A EVAL \"return redis.call('get', 'b')\" 0 => -ERR Script attempted to access a slot not served";
    check(include_bytes!("data/cluster/redis-7.0.15.replies"), &[unowned]);
}

#[test]
fn as_redis_8() {
    check(include_bytes!("data/cluster/redis-8.0.6.replies"), &[]);
}

/// Valkey 9 has other texts for scripts, asks a replica's script whose key it is before whether it may write, lets keys of a
/// transaction be asked for until EXEC, and tells of several slots before that one is nobody's.
#[test]
fn as_valkey_9() {
    let otherwise = [
        "A EVAL \"return redis.call('get', 'foo')\" 0 => -ERR Script attempted to access a non local key",
        "A EVAL \"return redis.pcall('get', 'foo')\" 0 => -ERR Script attempted to access a non local key",
        "A EVAL \"return redis.call('get', 'foo')\" 1 bar => -ERR Script attempted to access a non local key",
        "A EVAL \"#!lua flags=allow-cross-slot-keys\\nreturn redis.call('get', 'foo')\" 1 bar => -ERR Script attempted",
        "R EVAL \"return redis.call('get', 'bar')\" 0 => -ERR Script attempted to access a non local key",
        "R EVAL \"return redis.call('set', 'bar', 1)\" 0 => -READONLY You can't write",
        "R EVAL \"return redis.call('get', 'foo')\" 0 => -ERR Script attempted to access a non local key",
        "A GET {bar}gone => -ASK 5061",
        "A EXEC => -EXECABORT",
        "A EVAL \"return redis.call('get', '{bar}gone')\" 1 bar => -ERR Script attempted to access a non local key",
        "A MGET b bar => -CLUSTERDOWN Hash slot not served",
        "A EVAL \"return redis.call('get', 'bar')\" 0 => -ERR Script attempted to execute a command while",
        "A EVAL \"return redis.call('set', 'bar', 1)\" 0 => -ERR Script attempted to execute a write command",
        "A EVAL \"return redis.call('set', 'bar', 1)\" 1 bar => -ERR Script attempted to execute a write command",
        "A EVAL \"return redis.call('get', 'b')\" 0 => -ERR Script attempted to access a slot not served",
    ];
    check(include_bytes!("data/cluster/valkey-9.1.2.replies"), &otherwise);
}
