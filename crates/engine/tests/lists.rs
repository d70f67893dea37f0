//! The list commands, as a client sees them. Replies were asked of redis-server 7.0.15.

use engine::testing::Harness;

fn run(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

/// A list of `0..len`, pushed in pieces.
fn filled(harness: &mut Harness, key: &str, len: usize) {
    let numbers: Vec<String> = (0..len).map(|n| n.to_string()).collect();
    for piece in numbers.chunks(1000) {
        harness.run(&format!("RPUSH {key} {}", piece.join(" ")));
    }
    harness.check(&format!("LLEN {key}"), &format!(":{len}"));
}

#[test]
fn pushing_and_popping() {
    run(&[
        ("LPUSHX l a", ":0"),
        ("RPUSHX l a", ":0"),
        ("EXISTS l", ":0"),
        ("LPUSH l a b c", ":3"),
        ("RPUSH l x y", ":5"),
        ("LPUSHX l d e", ":7"),
        ("RPUSHX l z", ":8"),
        ("LRANGE l 0 -1", "[e d c b a x y z]"),
        ("LPOP l", "e"),
        ("RPOP l", "z"),
        ("LPOP l 2", "[d c]"),
        ("RPOP l 2", "[y x]"),
        ("LPOP l 0", "[]"),
        ("LLEN l", ":2"),
        ("RPOP l 9", "[a b]"),
        ("EXISTS l", ":0"),
        ("LLEN l", ":0"),
        ("LPOP l", "(nil)"),
        ("LPOP l 1", "(nil array)"),
        ("RPOP l 0", "(nil array)"),
        ("LPOP l -1", "-ERR value is out of range, must be positive"),
        ("LPOP l x", "-ERR value is out of range, must be positive"),
        ("LPOP l 1 2", "-ERR wrong number of arguments for 'lpop' command"),
        ("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command"),
        ("LPUSH l", "-ERR wrong number of arguments for 'lpush' command"),
    ]);
}

#[test]
fn popping_many_from_either_end() {
    for count in [31, 32, 33, 999, 11_999, 12_000, 12_001] {
        let mut harness = Harness::new();
        let shown = |numbers: &mut dyn Iterator<Item = usize>| {
            format!("[{}]", numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" "))
        };
        filled(&mut harness, "l", 12_000);
        filled(&mut harness, "r", 12_000);
        harness.check(&format!("LPOP l {count}"), &shown(&mut (0..12_000).take(count)));
        harness.check(&format!("RPOP r {count}"), &shown(&mut (0..12_000).rev().take(count)));
        harness.check("LRANGE l 0 -1", &shown(&mut (0..12_000).skip(count)));
        harness.check("LRANGE r 0 -1", &shown(&mut (0..12_000usize.saturating_sub(count))));
    }
}

#[test]
fn reading_and_replacing_by_index() {
    run(&[
        ("LINDEX l x", "(nil)"),
        ("LSET l x v", "-ERR no such key"),
        ("RPUSH l a b c d e", ":5"),
        ("LINDEX l 0", "a"),
        ("LINDEX l -1", "e"),
        ("LINDEX l 5", "(nil)"),
        ("LINDEX l -6", "(nil)"),
        ("LINDEX l -9223372036854775808", "(nil)"),
        ("LINDEX l x", "-ERR value is not an integer or out of range"),
        ("LSET l 1 B", "+OK"),
        ("LSET l -1 E", "+OK"),
        ("LSET l 5 x", "-ERR index out of range"),
        ("LSET l -6 x", "-ERR index out of range"),
        ("LSET l x x", "-ERR value is not an integer or out of range"),
        ("LRANGE l 0 -1", "[a B c d E]"),
        ("LRANGE l 1 2", "[B c]"),
        ("LRANGE l -2 -1", "[d E]"),
        ("LRANGE l -100 100", "[a B c d E]"),
        ("LRANGE l 3 1", "[]"),
        ("LRANGE l 5 9", "[]"),
        ("LRANGE l 0 -6", "[]"),
        ("LRANGE l -9223372036854775808 9223372036854775807", "[a B c d E]"),
        ("LRANGE none 0 -1", "[]"),
        ("LRANGE none x 1", "-ERR value is not an integer or out of range"),
        ("LTRIM l 1 -2", "+OK"),
        ("LRANGE l 0 -1", "[B c d]"),
        ("LTRIM l 0 100", "+OK"),
        ("LLEN l", ":3"),
        ("LTRIM l 2 1", "+OK"),
        ("EXISTS l", ":0"),
        ("LTRIM l 0 1", "+OK"),
        ("LTRIM l 0 x", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn inserting_and_removing_by_value() {
    run(&[
        ("LINSERT l BEFORE a b", ":0"),
        ("LREM l 0 a", ":0"),
        ("RPUSH l a b a c a", ":5"),
        ("LINSERT l before b X", ":6"),
        ("LINSERT l AFTER a Y", ":7"),
        ("LINSERT l AFTER nothing Y", ":-1"),
        ("LINSERT l AROUND a Y", "-ERR syntax error"),
        ("LRANGE l 0 -1", "[a Y X b a c a]"),
        ("LREM l -1 a", ":1"),
        ("LRANGE l 0 -1", "[a Y X b a c]"),
        ("LREM l 1 a", ":1"),
        ("LRANGE l 0 -1", "[Y X b a c]"),
        ("LREM l 0 nothing", ":0"),
        ("LREM l x a", "-ERR value is not an integer or out of range"),
        ("DEL l", ":1"),
        ("RPUSH l a a a", ":3"),
        ("LREM l -2 a", ":2"),
        ("LREM l 5 a", ":1"),
        ("EXISTS l", ":0"),
    ]);
}

#[test]
fn moving_between_lists() {
    run(&[
        ("SET s x", "+OK"),
        ("LMOVE none s LEFT LEFT", "(nil)"),
        ("RPOPLPUSH none s", "(nil)"),
        ("RPUSH l a b c", ":3"),
        ("LMOVE l s LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMOVE s l LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMOVE l l MIDDLE LEFT", "-ERR syntax error"),
        ("LMOVE l m LEFT RIGHT", "a"),
        ("LMOVE l m right left", "c"),
        ("LRANGE m 0 -1", "[c a]"),
        ("RPOPLPUSH m m", "a"),
        ("LRANGE m 0 -1", "[a c]"),
        ("LMOVE m m LEFT LEFT", "a"),
        ("LRANGE m 0 -1", "[a c]"),
        ("EXPIRE l 100", ":1"),
        ("LMOVE l l LEFT RIGHT", "b"),
        ("TTL l", ":100"),
        ("RPOPLPUSH l m", "b"),
        ("EXISTS l", ":0"),
        ("LRANGE m 0 -1", "[b a c]"),
        ("LMPOP 2 none m LEFT", "[m [b]]"),
        ("LMPOP 1 m RIGHT COUNT 9", "[m [c a]]"),
        ("EXISTS m", ":0"),
        ("LMPOP 2 none m LEFT", "(nil array)"),
        ("LMPOP 2 none s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMPOP 0 m LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP x m LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP -1 m LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP 5 m LEFT", "-ERR syntax error"),
        ("LMPOP 9223372036854775807 m LEFT", "-ERR syntax error"),
        ("LMPOP 1 m MIDDLE", "-ERR syntax error"),
        ("LMPOP 1 m LEFT COUNT", "-ERR syntax error"),
        ("LMPOP 1 m LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("LMPOP 1 m LEFT COUNT 0 x", "-ERR count should be greater than 0"),
        ("LMPOP 1 m LEFT COUNT 1 COUNT 1", "-ERR syntax error"),
        ("LMPOP 1 m LEFT AMOUNT 1", "-ERR syntax error"),
    ]);
}

#[test]
fn finding_positions() {
    run(&[
        ("LPOS l a", "(nil)"),
        ("LPOS l a COUNT 0", "[]"),
        (
            "LPOS l a RANK 0 COUNT 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        ),
        ("RPUSH l a b c a b c a", ":7"),
        ("LPOS l a", ":0"),
        ("LPOS l c", ":2"),
        ("LPOS l x", "(nil)"),
        ("LPOS l a RANK 2", ":3"),
        ("LPOS l a RANK -1", ":6"),
        ("LPOS l a RANK -3", ":0"),
        ("LPOS l a RANK -4", "(nil)"),
        ("LPOS l a RANK -9223372036854775807", "(nil)"),
        ("LPOS l a RANK -9223372036854775808", ":6"),
        ("LPOS l a COUNT 0", "[:0 :3 :6]"),
        ("LPOS l a COUNT 2", "[:0 :3]"),
        ("LPOS l a COUNT 0 RANK -2", "[:3 :0]"),
        ("LPOS l x COUNT 0", "[]"),
        ("LPOS l a COUNT 0 MAXLEN 3", "[:0]"),
        ("LPOS l a COUNT 0 MAXLEN 4", "[:0 :3]"),
        ("LPOS l a RANK -1 COUNT 0 MAXLEN 4", "[:6 :3]"),
        ("LPOS l c MAXLEN 2", "(nil)"),
        ("LPOS l a RANK 1 RANK -1", ":6"),
        ("LPOS l a RANK", "-ERR syntax error"),
        ("LPOS l a DEPTH 1", "-ERR syntax error"),
        ("LPOS l a RANK x", "-ERR value is not an integer or out of range"),
        ("LPOS l a COUNT -1", "-ERR COUNT can't be negative"),
        ("LPOS l a MAXLEN -1", "-ERR MAXLEN can't be negative"),
    ]);
}

#[test]
fn a_long_search_goes_on_off_the_loop() {
    let mut harness = Harness::new();
    filled(&mut harness, "l", 25_000);
    harness.check("RPUSH l 7 7", ":25002");
    for (line, expected) in [
        ("LPOS l 24999", ":24999"),
        ("LPOS l 7 COUNT 0", "[:7 :25000 :25001]"),
        ("LPOS l 7 COUNT 0 RANK -2", "[:25000 :7]"),
        ("LPOS l 7 RANK -3", ":7"),
        ("LPOS l none", "(nil)"),
        ("LPOS l 7 COUNT 2 MAXLEN 12000", "[:7]"),
    ] {
        harness.check(line, expected);
    }
}

/// Lists so large that the commands on them leave the loop, or hand what they remove to the reaper.
#[test]
fn large_lists_are_changed_as_small_ones_are() {
    let mut harness = Harness::new();
    filled(&mut harness, "l", 25_000);
    for (line, expected) in [
        ("EXPIRE l 1000", ":1"),
        ("LINSERT l BEFORE 24000 x", ":25001"),
        ("LINSERT l AFTER 10 x", ":25002"),
        ("LINSERT l AFTER none x", ":-1"),
        ("LRANGE l 24000 24002", "[23999 x 24000]"),
        ("LREM l 0 none", ":0"),
        ("LREM l -1 x", ":1"),
        ("LREM l 0 x", ":1"),
        ("LREM l 2 20000", ":1"),
        ("LREM l -1 3", ":1"),
        ("LLEN l", ":24998"),
        ("LTRIM l 12000 -3", "+OK"),
        ("LLEN l", ":12996"),
        ("LINDEX l 0", "12001"),
        ("LINDEX l -1", "24997"),
        ("LTRIM l -2 -1", "+OK"),
        ("LRANGE l 0 -1", "[24996 24997]"),
        ("TTL l", ":1000"),
    ] {
        harness.check(line, expected);
    }
    filled(&mut harness, "gone", 15_000);
    harness.check("LTRIM gone 1 0", "+OK");
    harness.check("EXISTS gone", ":0");
}

#[test]
fn many_occurrences_are_removed() {
    for (len, every) in [(3_000, 2), (12_000, 2), (12_000, 3), (40_000, 30)] {
        for count in [0, 1_100, -1_100, -700] {
            let mut harness = Harness::new();
            let mut model: Vec<String> =
                (0..len).map(|n| if n % every == 0 { "x".to_owned() } else { n.to_string() }).collect();
            for piece in model.chunks(1000) {
                harness.run(&format!("RPUSH l {}", piece.join(" ")));
            }
            let mut places: Vec<usize> = (0..len).step_by(every).collect();
            if count < 0 {
                places.reverse();
            }
            if count != 0 {
                places.truncate(i64::unsigned_abs(count) as usize);
            }
            harness.check(&format!("LREM l {count} x"), &format!(":{}", places.len()));
            places.sort_unstable();
            places.iter().rev().for_each(|place| drop(model.remove(*place)));
            assert_eq!(
                harness.run("LRANGE l 0 -1"),
                format!("[{}]", model.join(" ")),
                "{len} {every} {count}"
            );
        }
    }
}

#[test]
fn other_types_are_refused() {
    let mut harness = Harness::new();
    harness.run("SET s x");
    for line in [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 1",
        "LLEN s",
        "LINDEX s 0",
        "LSET s 0 a",
        "LRANGE s 0 1",
        "LTRIM s 0 1",
        "LREM s 0 a",
        "LINSERT s BEFORE a b",
        "LPOS s a",
    ] {
        harness.check(line, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    harness.check("GET s", "x");
}

#[test]
fn resp3_shapes() {
    let mut harness = Harness::new().resp3();
    for (line, expected) in [
        ("LPOP l", "(nil)"),
        ("LPOP l 1", "(nil)"),
        ("LMPOP 1 l LEFT", "(nil)"),
        ("RPUSH l a", ":1"),
        ("LRANGE l 0 -1", "[a]"),
        ("LMPOP 1 l LEFT", "[l [a]]"),
    ] {
        harness.check(line, expected);
    }
}
