//! The set commands, as a client sees them. Replies were asked of redis-server 7.0.15.

use std::collections::BTreeSet;

use engine::testing::Harness;

fn run(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

/// The elements of a shown array or set, sorted: for replies whose order means nothing.
fn elements(shown: &str) -> Vec<String> {
    let inner = shown.trim_start_matches('~').trim_start_matches('[').trim_end_matches(']');
    let mut elements: Vec<String> = inner.split_whitespace().map(str::to_owned).collect();
    elements.sort();
    elements
}

fn sorted<I: IntoIterator<Item = String>>(members: I) -> Vec<String> {
    let mut members: Vec<String> = members.into_iter().collect();
    members.sort();
    members
}

/// Adds the members, in pieces, to a set that does not exist.
fn filled(harness: &mut Harness, key: &str, members: &[String]) {
    for piece in members.chunks(1000) {
        harness.run(&format!("SADD {key} {}", piece.join(" ")));
    }
    harness.check(&format!("SCARD {key}"), &format!(":{}", members.len()));
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("m{n}")).collect()
}

#[test]
fn adding_removing_asking() {
    run(&[
        ("SCARD s", ":0"),
        ("SISMEMBER s a", ":0"),
        ("SMISMEMBER s a b", "[:0 :0]"),
        ("SMEMBERS s", "[]"),
        ("SREM s a", ":0"),
        ("SADD s 3 1 2 1", ":3"),
        ("OBJECT ENCODING s", "intset"),
        ("SADD s 1", ":0"),
        ("SCARD s", ":3"),
        ("SMEMBERS s", "[1 2 3]"),
        ("SISMEMBER s 2", ":1"),
        ("SMISMEMBER s 2 4 1", "[:1 :0 :1]"),
        ("SREM s 1 2 9", ":2"),
        ("SREM s 3", ":1"),
        ("EXISTS s", ":0"),
        ("SADD s", "-ERR wrong number of arguments for 'sadd' command"),
    ]);
}

#[test]
fn moving() {
    run(&[
        ("SET str x", "+OK"),
        ("SMOVE none str a", ":0"),
        ("SADD s a b", ":2"),
        ("SMOVE s str a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMOVE s str nothing", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMOVE str s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SCARD s", ":2"),
        ("SMOVE s s a", ":1"),
        ("SMOVE s s nothing", ":0"),
        ("SMOVE s t nothing", ":0"),
        ("EXISTS t", ":0"),
        ("SMOVE s t a", ":1"),
        ("SADD t b", ":1"),
        ("SMOVE s t b", ":1"),
        ("EXISTS s", ":0"),
        ("SCARD t", ":2"),
    ]);
}

#[test]
fn algebra_over_small_sets() {
    run(&[
        ("SADD a 1 2 3 4", ":4"),
        ("SADD b 3 4 5", ":3"),
        ("SADD c 4 6", ":2"),
        ("SET str x", "+OK"),
        ("SINTER a b c", "[4]"),
        ("SINTER a", "[1 2 3 4]"),
        ("SINTER a a", "[1 2 3 4]"),
        ("SINTER a none", "[]"),
        ("SUNION a b c", "[1 2 3 4 5 6]"),
        ("SUNION none", "[]"),
        ("SDIFF a b c", "[1 2]"),
        ("SDIFF a a", "[]"),
        ("SDIFF a none", "[1 2 3 4]"),
        ("SDIFF none a", "[]"),
        ("SINTER none str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SUNION a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SDIFF none str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTERSTORE d a b", ":2"),
        ("SMEMBERS d", "[3 4]"),
        ("OBJECT ENCODING d", "intset"),
        ("EXPIRE d 100", ":1"),
        ("SUNIONSTORE d d c", ":3"),
        ("SMEMBERS d", "[3 4 6]"),
        ("TTL d", ":-1"),
        ("SDIFFSTORE d a b", ":2"),
        ("SMEMBERS d", "[1 2]"),
        ("SINTERSTORE str none a", ":0"),
        ("EXISTS str", ":0"),
        ("SET str x", "+OK"),
        ("SUNIONSTORE str a", ":4"),
        ("TYPE str", "+set"),
        ("SDIFFSTORE d none a", ":0"),
        ("EXISTS d", ":0"),
        ("SINTERCARD 2 a b", ":2"),
        ("SINTERCARD 2 a b LIMIT 1", ":1"),
        ("SINTERCARD 2 a b LIMIT 0", ":2"),
        ("SINTERCARD 2 a b LIMIT 2 LIMIT 1", ":1"),
        ("SINTERCARD 2 a none", ":0"),
        ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD x a", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD 2 a", "-ERR Number of keys can't be greater than number of args"),
        ("SINTERCARD 1 a LIMIT", "-ERR syntax error"),
        ("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 1 none LIMIT x", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 1 a AMOUNT 1", "-ERR syntax error"),
    ]);
}

/// Every operation, over sizes that are worked on at once, cloned, rebuilt or deferred, against a model.
#[test]
fn algebra_over_sets_of_every_size() {
    let sets: [(&str, Vec<String>); 4] = [
        ("tiny", numbers(5..8)),
        ("small", numbers(0..700)),
        ("medium", numbers(500..2_500)),
        ("large", numbers(2_000..14_000)),
    ];
    let mut harness = Harness::new();
    for (key, members) in &sets {
        filled(&mut harness, key, members);
    }
    let model = |index: usize| sets[index].1.iter().cloned().collect::<BTreeSet<String>>();
    for (a, b) in (0..16).map(|pair| (pair / 4, pair % 4)) {
        let keys = format!("{} {}", sets[a].0, sets[b].0);
        let (left, right) = (model(a), model(b));
        let inter: BTreeSet<String> = left.intersection(&right).cloned().collect();
        for (name, expected) in [
            ("SINTER", inter.clone()),
            ("SUNION", left.union(&right).cloned().collect()),
            ("SDIFF", left.difference(&right).cloned().collect()),
        ] {
            let expected = sorted(expected);
            assert_eq!(elements(&harness.run(&format!("{name} {keys}"))), expected, "{name} {keys}");
            harness.check(&format!("{name}STORE out {keys}"), &format!(":{}", expected.len()));
            assert_eq!(elements(&harness.run("SMEMBERS out")), expected, "{name}STORE {keys}");
        }
        harness.check(&format!("SINTERCARD 2 {keys}"), &format!(":{}", inter.len()));
        harness.check(&format!("SINTERCARD 2 {keys} LIMIT 2"), &format!(":{}", inter.len().min(2)));
        // The destination is a source, too.
        harness.check(&format!("SUNIONSTORE out {}", sets[a].0), &format!(":{}", left.len()));
        let kept = left.difference(&right).count();
        harness.check(&format!("SDIFFSTORE out out {}", sets[b].0), &format!(":{kept}"));
    }
    for (key, members) in &sets {
        harness.check(&format!("SCARD {key}"), &format!(":{}", members.len()));
    }
}

#[test]
fn popping() {
    run(&[
        ("SPOP s", "(nil)"),
        ("SPOP s 3", "[]"),
        ("SPOP s -1", "-ERR value is out of range, must be positive"),
        ("SPOP s x", "-ERR value is out of range, must be positive"),
        ("SPOP s 1 2", "-ERR syntax error"),
        ("SADD s 1", ":1"),
        ("SPOP s 0", "[]"),
        ("SPOP s", "1"),
        ("EXISTS s", ":0"),
        ("SADD s 1 2 3", ":3"),
        ("SPOP s 3", "[1 2 3]"),
        ("EXISTS s", ":0"),
    ]);
    for (len, count) in [(3, 2), (300, 299), (2_000, 7), (11_000, 9_000), (12_000, 11_000), (12_000, 12_000)]
    {
        let mut harness = Harness::new();
        let members = numbers(0..len);
        filled(&mut harness, "s", &members);
        harness.run("EXPIRE s 100");
        let popped = elements(&harness.run(&format!("SPOP s {count}")));
        assert_eq!(popped.len(), count);
        if count < len {
            harness.check("TTL s", ":100");
        }
        let rest = elements(&harness.run("SMEMBERS s"));
        assert_eq!(rest.len(), len - count, "of {len}, {count} were popped");
        assert_eq!(sorted(popped.into_iter().chain(rest)), sorted(members), "{count} of {len}");
    }
}

#[test]
fn random_members() {
    run(&[
        ("SRANDMEMBER s", "(nil)"),
        ("SRANDMEMBER s 3", "[]"),
        ("SRANDMEMBER s x", "-ERR value is not an integer or out of range"),
        ("SRANDMEMBER s 1 2", "-ERR syntax error"),
        (
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("SADD s 1", ":1"),
        ("SRANDMEMBER s", "1"),
        ("SRANDMEMBER s 0", "[]"),
        ("SRANDMEMBER s 7", "[1]"),
        ("SRANDMEMBER s -3", "[1 1 1]"),
    ]);
    let mut harness = Harness::new();
    let members = numbers(0..20_000);
    filled(&mut harness, "s", &members);
    let all: BTreeSet<String> = members.into_iter().collect();
    for count in [1, 10, 5_000, 19_999, 20_000, 20_001] {
        let drawn = elements(&harness.run(&format!("SRANDMEMBER s {count}")));
        assert_eq!(drawn.len(), count.min(20_000));
        let distinct: BTreeSet<String> = drawn.iter().cloned().collect();
        assert_eq!(distinct.len(), drawn.len(), "a positive count draws distinct members");
        assert!(distinct.is_subset(&all));
    }
    let drawn = elements(&harness.run("SRANDMEMBER s -40000"));
    assert_eq!(drawn.len(), 40_000);
    assert!(drawn.iter().all(|member| all.contains(member)));
    harness.check("SCARD s", ":20000");
}

#[test]
fn scanning() {
    run(&[
        ("SSCAN s 0", "[0 []]"),
        ("SSCAN s x", "-ERR invalid cursor"),
        ("SSCAN s 0 NONSENSE", "[0 []]"),
        ("SADD s 1 2 30", ":3"),
        ("SSCAN s 0", "[0 [1 2 30]]"),
        ("SSCAN s 0 MATCH ?", "[0 [1 2]]"),
        ("SSCAN s 0 COUNT 1 MATCH *", "[0 [1 2 30]]"),
        ("SSCAN s 0 COUNT 0", "-ERR syntax error"),
        ("SSCAN s 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("SSCAN s 0 COUNT", "-ERR syntax error"),
        ("SSCAN s 0 NONSENSE", "-ERR syntax error"),
        ("SSCAN s 0 TYPE set", "-ERR syntax error"),
        ("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
    ]);
    for (count, len) in [(1, 600), (100, 3_000), (1_000_000, 11_000)] {
        let mut harness = Harness::new();
        let members = numbers(0..len);
        filled(&mut harness, "s", &members);
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        loop {
            let shown = harness.run(&format!("SSCAN s {cursor} COUNT {count}"));
            let (next, found) = shown[1..shown.len() - 1].split_once(' ').expect("a cursor and members");
            seen.extend(elements(found));
            if next == "0" {
                break;
            }
            cursor = next.to_owned();
        }
        assert_eq!(seen, members.into_iter().collect(), "COUNT {count}");
    }
}

#[test]
fn other_types_are_refused() {
    let mut harness = Harness::new();
    harness.run("SET s x");
    for line in [
        "SADD s a",
        "SREM s a",
        "SISMEMBER s a",
        "SMISMEMBER s a",
        "SCARD s",
        "SMEMBERS s",
        "SPOP s",
        "SPOP s 0",
        "SRANDMEMBER s",
        "SSCAN s 0 NONSENSE",
        "SINTERCARD 1 s",
        "SUNIONSTORE d s",
    ] {
        harness.check(line, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    harness.check("GET s", "x");
}

#[test]
fn resp3_shapes() {
    let mut harness = Harness::new().resp3();
    for (line, expected) in [
        ("SMEMBERS s", "~[]"),
        ("SPOP s 1", "~[]"),
        ("SADD s 1 2", ":2"),
        ("SMEMBERS s", "~[1 2]"),
        ("SINTER s s", "~[1 2]"),
        ("SUNION s none", "~[1 2]"),
        ("SDIFF s none", "~[1 2]"),
        ("SRANDMEMBER s 5", "[1 2]"),
        ("SSCAN s 0", "[0 [1 2]]"),
        ("SPOP s 2", "~[1 2]"),
    ] {
        harness.check(line, expected);
    }
}
