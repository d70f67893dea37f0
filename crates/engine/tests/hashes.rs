//! The hash commands, as a client sees them. Replies were asked of redis-server 7.0.15.

use std::collections::{BTreeMap, BTreeSet};

use engine::testing::Harness;

fn run(mut harness: Harness, script: &[(&str, &str)]) {
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

/// Sets `len` fields `f0..` to `v0..`, in pieces.
fn filled(harness: &mut Harness, len: usize) {
    let pairs: Vec<String> = (0..len).map(|n| format!("f{n} v{n}")).collect();
    for piece in pairs.chunks(500) {
        harness.check(&format!("HSET h {}", piece.join(" ")), &format!(":{}", piece.len()));
    }
}

/// The elements of a shown array.
fn elements(shown: &str) -> Vec<&str> {
    shown.trim_start_matches('[').trim_end_matches(']').split_whitespace().collect()
}

#[test]
fn setting_and_asking() {
    run(
        Harness::new(),
        &[
            ("HSET h a 1 b 2", ":2"),
            ("HSET h a 3 c 4", ":1"),
            ("HGET h a", "3"),
            ("HGET h nothere", "(nil)"),
            ("HGET nokey a", "(nil)"),
            ("HMGET h a x c", "[3 (nil) 4]"),
            ("HMGET nokey a b", "[(nil) (nil)]"),
            ("HMSET h d 5 e 6", "+OK"),
            ("HSETNX h a 9", ":0"),
            ("HSETNX h f 9", ":1"),
            ("HLEN h", ":6"),
            ("HLEN nokey", ":0"),
            ("HEXISTS h a", ":1"),
            ("HEXISTS h x", ":0"),
            ("HSTRLEN h f", ":1"),
            ("HSTRLEN h x", ":0"),
            ("HKEYS h", "[a b c d e f]"),
            ("HVALS h", "[3 2 4 5 6 9]"),
            ("HGETALL h", "[a 3 b 2 c 4 d 5 e 6 f 9]"),
            ("HGETALL nokey", "[]"),
            ("HKEYS nokey", "[]"),
            ("HDEL h a x b", ":2"),
            ("HDEL nokey a", ":0"),
            ("HDEL h c d e f", ":4"),
            ("EXISTS h", ":0"),
            ("HSET h \"\" \"\"", ":1"),
            ("HGET h \"\"", ""),
            ("HSTRLEN h \"\"", ":0"),
            ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
            ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
            ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command"),
            ("HGET h", "-ERR wrong number of arguments for 'hget' command"),
            ("SET s x", "+OK"),
            ("HSET s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSETNX s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HGET s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HMGET s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HGETALL s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HDEL s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HINCRBY s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HINCRBYFLOAT s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HRANDFIELD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
}

#[test]
fn numbers_in_fields() {
    run(
        Harness::new(),
        &[
            ("HINCRBY h n 5", ":5"),
            ("HINCRBY h n -7", ":-2"),
            ("HINCRBY h n x", "-ERR value is not an integer or out of range"),
            ("HINCRBY h n 9223372036854775807", ":9223372036854775805"),
            ("HINCRBY h n 9223372036854775807", "-ERR increment or decrement would overflow"),
            ("HSET h text x float 1.5 spaced \" 1\" empty \"\"", ":4"),
            ("HINCRBY h text 1", "-ERR hash value is not an integer"),
            ("HINCRBY h float 1", "-ERR hash value is not an integer"),
            ("HINCRBY h spaced 1", "-ERR hash value is not an integer"),
            ("HINCRBY h empty 1", "-ERR hash value is not an integer"),
            ("HINCRBYFLOAT h float 1.25", "2.75"),
            ("HINCRBYFLOAT h float -2.75", "0"),
            ("HINCRBYFLOAT h fresh 3.0e3", "3000"),
            ("HINCRBYFLOAT h n 0.1", "9223372036854775805"),
            ("HINCRBYFLOAT h text 1", "-ERR hash value is not a float"),
            ("HINCRBYFLOAT h empty 1", "-ERR hash value is not a float"),
            ("HINCRBYFLOAT h float x", "-ERR value is not a valid float"),
            ("HINCRBYFLOAT h float inf", "-ERR value is NaN or Infinity"),
            ("HINCRBYFLOAT h float nan", "-ERR value is not a valid float"),
            ("HSET h big 1e4932 endless inf", ":2"),
            ("HINCRBYFLOAT h big 1e4932", "-ERR increment would produce NaN or Infinity"),
            ("HINCRBYFLOAT h endless 1", "-ERR increment would produce NaN or Infinity"),
            ("HINCRBYFLOAT nokey a x", "-ERR value is not a valid float"),
            ("HINCRBY nokey a x", "-ERR value is not an integer or out of range"),
            ("EXISTS nokey", ":0"),
            ("HINCRBYFLOAT h tenth 0.1", "0.1"),
            ("HINCRBYFLOAT h tenth 0.2", "0.3"),
            ("HGET h tenth", "0.3"),
        ],
    );
}

#[test]
fn drawing_and_scanning() {
    run(
        Harness::new(),
        &[
            ("HRANDFIELD nokey", "(nil)"),
            ("HRANDFIELD nokey 1", "[]"),
            ("HRANDFIELD nokey 1 foo", "-ERR syntax error"),
            ("HSET h a 1", ":1"),
            ("HRANDFIELD h", "a"),
            ("HRANDFIELD h 0", "[]"),
            ("HRANDFIELD h 5", "[a]"),
            ("HRANDFIELD h -3", "[a a a]"),
            ("HRANDFIELD h 5 WITHVALUES", "[a 1]"),
            ("HRANDFIELD h -2 WITHVALUES", "[a 1 a 1]"),
            ("HRANDFIELD h 0 WITHVALUES", "[]"),
            ("HRANDFIELD h x", "-ERR value is not an integer or out of range"),
            ("HRANDFIELD h 1 foo", "-ERR syntax error"),
            ("HRANDFIELD h 1 WITHVALUES foo", "-ERR syntax error"),
            (
                "HRANDFIELD h -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("HRANDFIELD h 5000000000000000000 WITHVALUES", "-ERR value is out of range"),
            ("HRANDFIELD h 5000000000000000000 foo", "-ERR syntax error"),
            ("HSCAN h 0", "[0 [a 1]]"),
            ("HSCAN h 0 MATCH a*", "[0 [a 1]]"),
            ("HSCAN h 0 MATCH b* COUNT 5", "[0 []]"),
            ("HSCAN h 0 NOVALUES", "[0 [a]]"),
            ("HSCAN h x", "-ERR invalid cursor"),
            ("HSCAN h 0 COUNT 0", "-ERR syntax error"),
            ("HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("HSCAN h 0 MATCH", "-ERR syntax error"),
            ("HSCAN h 0 foo", "-ERR syntax error"),
            ("HSCAN nokey 0 foo", "[0 []]"),
        ],
    );
}

#[test]
fn replies_of_resp3() {
    run(
        Harness::new().resp3(),
        &[
            ("HSET h a 1", ":1"),
            ("HGETALL h", "%{a=1}"),
            ("HGETALL nokey", "%{}"),
            ("HKEYS h", "[a]"),
            ("HVALS h", "[1]"),
            ("HGET h x", "(nil)"),
            ("HMGET h a x", "[1 (nil)]"),
            ("HRANDFIELD h 5 WITHVALUES", "[[a 1]]"),
            ("HRANDFIELD h -2 WITHVALUES", "[[a 1] [a 1]]"),
            ("HRANDFIELD h 2", "[a]"),
            ("HRANDFIELD nokey 1", "[]"),
            ("HRANDFIELD nokey", "(nil)"),
            ("HINCRBYFLOAT h a 0.5", "1.5"),
            ("HSCAN h 0", "[0 [a 1.5]]"),
        ],
    );
}

#[test]
fn encodings() {
    let mut harness = Harness::new();
    filled(&mut harness, 512);
    harness.check("OBJECT ENCODING h", "listpack");
    harness.check("HSET h f0 again", ":0");
    harness.check("OBJECT ENCODING h", "listpack");
    harness.check("HSET h one-more 1", ":1");
    harness.check("OBJECT ENCODING h", "hashtable");
    for (script, encoding) in [
        (format!("HSET x {} 1", "f".repeat(64)), "listpack"),
        (format!("HSET x {} 1", "f".repeat(65)), "hashtable"),
        (format!("HSET x f {}", "v".repeat(65)), "hashtable"),
        (format!("HSETNX x f {}", "v".repeat(65)), "hashtable"),
    ] {
        harness.run("DEL x");
        harness.check(&script, ":1");
        harness.check("OBJECT ENCODING x", encoding);
    }
}

#[test]
fn long_replies_hold_every_field_once() {
    // More than one piece of a streamed reply.
    const LEN: usize = 8_000;
    let mut harness = Harness::new();
    filled(&mut harness, LEN);
    let all: BTreeMap<String, String> = (0..LEN).map(|n| (format!("f{n}"), format!("v{n}"))).collect();

    let shown = harness.run("HGETALL h");
    let flat = elements(&shown);
    assert_eq!(flat.len(), 2 * LEN);
    let got: BTreeMap<String, String> =
        flat.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    assert!(got == all);

    for (command, expected) in
        [("HKEYS h", all.keys().collect::<BTreeSet<_>>()), ("HVALS h", all.values().collect())]
    {
        let shown = harness.run(command);
        let got: BTreeSet<String> = elements(&shown).into_iter().map(str::to_owned).collect();
        assert!(got.iter().collect::<BTreeSet<_>>() == expected, "{command}");
    }

    for count in [1, 100, LEN - 1, LEN, LEN + 1] {
        let shown = harness.run(&format!("HRANDFIELD h {count} WITHVALUES"));
        let flat = elements(&shown);
        let drawn: BTreeMap<&str, &str> = flat.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(flat.len(), 2 * count.min(LEN));
        assert_eq!(drawn.len(), count.min(LEN), "fields are distinct");
        assert!(drawn.iter().all(|(field, value)| all.get(*field).is_some_and(|held| held == value)));
    }
    let shown = harness.run("HRANDFIELD h -9000");
    assert_eq!(elements(&shown).len(), 9_000);
    assert!(elements(&shown).iter().all(|field| all.contains_key(*field)));

    let (mut cursor, mut seen) = ("0".to_owned(), BTreeMap::new());
    loop {
        let shown = harness.run(&format!("HSCAN h {cursor} COUNT 500"));
        let (next, rest) = shown[1..].split_once(' ').expect("a cursor and elements");
        let rest = elements(rest);
        seen.extend(rest.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())));
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert!(seen == all);
}
