//! DUMP and RESTORE.

use engine::testing::Harness;

/// The bytes of a bulk reply.
fn bulk(reply: &[u8]) -> Vec<u8> {
    match resp::parse::parse(reply) {
        Ok(Some((resp::Value::Bulk(bytes), used))) if used == reply.len() => bytes,
        other => panic!("no bulk reply: {other:?}"),
    }
}

fn dump(harness: &mut Harness, key: &str) -> Vec<u8> {
    bulk(&harness.run_args(&[b"DUMP", key.as_bytes()]))
}

fn restore(harness: &mut Harness, key: &str, ttl: &str, payload: &[u8], options: &str) -> String {
    let mut args: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
    args.extend(options.split_whitespace().map(str::as_bytes));
    String::from_utf8_lossy(&harness.run_args(&args)).trim_end().to_owned()
}

/// A payload that Redis 7.0 made of SET k bar.
const BAR: &[u8] = b"\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17";

#[test]
fn values_come_back_with_their_encodings() {
    let mut harness = Harness::new();
    for (key, commands, read) in [
        ("int", vec!["SET int 1234567"], "GET int"),
        ("text", vec!["SET text \"some words\""], "GET text"),
        ("list", vec!["RPUSH list a 1 b 2 c"], "LRANGE list 0 -1"),
        ("numbers", vec!["SADD numbers 3 1 2"], "SMEMBERS numbers"),
        ("zset", vec!["ZADD zset 1.5 a -inf b 3 c"], "ZRANGE zset 0 -1 WITHSCORES"),
        ("hash", vec!["HSET hash a 1 b two"], "HGETALL hash"),
        ("set", vec!["SADD set one"], "SMEMBERS set"),
    ] {
        commands.iter().for_each(|command| drop(harness.run(command)));
        let (before, encoding) = (harness.run(read), harness.run(&format!("OBJECT ENCODING {key}")));
        let payload = dump(&mut harness, key);
        assert_eq!(restore(&mut harness, key, "0", &payload, "REPLACE"), "+OK");
        harness.check(read, &before);
        harness.check(&format!("OBJECT ENCODING {key}"), &encoding);
        assert_eq!(dump(&mut harness, key), payload);
    }
    harness.check("DUMP missing", "(nil)");
}

#[test]
fn big_values_come_back_from_the_long_lane() {
    let mut harness = Harness::new();
    for start in (0..30_000).step_by(1000) {
        let words: Vec<String> = (start..start + 1000).map(|n| format!("element:{n}")).collect();
        harness.run(&format!("RPUSH list {}", words.join(" ")));
        harness.run(&format!("SADD set {}", words.join(" ")));
    }
    harness.run("SETRANGE text 1000000 end");
    for (key, size) in [("list", "LLEN"), ("set", "SCARD"), ("text", "STRLEN")] {
        let payload = dump(&mut harness, key);
        assert!(payload.len() > 300_000, "{key}: {} bytes", payload.len());
        let copy = format!("{key}-copy");
        assert_eq!(restore(&mut harness, &copy, "0", &payload, ""), "+OK");
        let expected = harness.run(&format!("{size} {key}"));
        harness.check(&format!("{size} {copy}"), &expected);
        // Members of one place in the order of hashes stand in the order they came in.
        let sorted = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() - 10);
            bytes.sort_unstable();
            bytes
        };
        assert!(sorted(dump(&mut harness, &copy)) == sorted(payload.clone()), "{key}");
        assert_eq!(
            restore(&mut harness, &copy, "0", &payload, ""),
            "-BUSYKEY Target key name already exists."
        );
        let mut changed = payload.clone();
        changed[100] ^= 1;
        assert_eq!(
            restore(&mut harness, "other", "0", &changed, ""),
            "-ERR DUMP payload version or checksum are wrong"
        );
    }
    harness.check("LINDEX list-copy 29999", "element:29999");
    harness.check("SISMEMBER set-copy element:77", ":1");
    harness.check("GETRANGE text-copy 999999 -1", "\0end");
}

#[test]
fn a_time_to_live_and_an_idle_time_are_given() {
    let mut harness = Harness::new();
    for (ttl, options, pttl) in [
        ("0", "", ":-1"),
        ("5000", "REPLACE", ":5000"),
        ("1704067205000", "REPLACE ABSTTL", ":5000"),
        ("1704067100000", "REPLACE ABSTTL", ":-2"),
        ("9223372036854775807", "REPLACE", ":9223370332787575807"),
        ("0", "replace absttl", ":-1"),
    ] {
        assert_eq!(restore(&mut harness, "k", ttl, BAR, options), "+OK", "{ttl} {options}");
        harness.check("PTTL k", pttl);
    }
    assert_eq!(restore(&mut harness, "k", "0", BAR, "REPLACE IDLETIME 1000"), "+OK");
    harness.check("OBJECT IDLETIME k", ":1000");
    assert_eq!(restore(&mut harness, "k", "0", BAR, "REPLACE FREQ 100"), "+OK");
}

#[test]
fn fields_keep_their_ends() {
    let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
    harness.check("HSET h a 1 b 2 c 3", ":3");
    harness.check("HPEXPIRE h 5000 FIELDS 1 a", "[:1]");
    harness.check("HPEXPIRE h 7000 FIELDS 1 b", "[:1]");
    let (payload, digest) = (dump(&mut harness, "h"), harness.run("DEBUG DIGEST-VALUE h"));
    assert_eq!(payload[payload.len() - 10], 12, "a version that knows of ends");
    assert_eq!(restore(&mut harness, "copy", "0", &payload, ""), "+OK");
    harness.check("DEBUG DIGEST-VALUE copy", &digest);
    harness.check("OBJECT ENCODING copy", "listpackex");
    harness.check("HPTTL copy FIELDS 3 a b c", "[:5000 :7000 :-1]");
    harness.advance_ms(6000);
    harness.check("HMGET copy a b c", "[(nil) 2 3]");
    harness.check("DEBUG RELOAD", "+OK");
    harness.check("HPTTL copy FIELDS 3 a b c", "[:-2 :1000 :-1]");
    harness.check("HPERSIST h FIELDS 1 b", "[:1]");
    harness.run("HDEL h a");
    let payload = dump(&mut harness, "h");
    assert_eq!(payload[payload.len() - 10], 10, "no field ends any more");
}

#[test]
fn streams_keep_their_groups() {
    let mut harness = Harness::new();
    for (line, expected) in [
        ("XADD s 1-1 a 1", "1-1"),
        ("XADD s 2-0 a 2 b 3", "2-0"),
        ("XADD s 3-0 a 4", "3-0"),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g alice COUNT 2 STREAMS s >", "[[s [[1-1 [a 1]] [2-0 [a 2 b 3]]]]]"),
        ("XDEL s 2-0", ":1"),
    ] {
        harness.check(line, expected);
    }
    let payload = dump(&mut harness, "s");
    assert_eq!(restore(&mut harness, "copy", "0", &payload, ""), "+OK");
    for line in ["XINFO STREAM s FULL", "XRANGE s - +", "XPENDING s g - + 10"] {
        let expected = harness.run(line);
        harness.check(&line.replace(" s ", " copy "), &expected);
    }
    harness.check(
        "XADD copy 2-5 a 1",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
    );
    harness.check("XREADGROUP GROUP g bob STREAMS copy >", "[[copy [[3-0 [a 4]]]]]");
}

#[test]
fn mistakes_are_told_in_redis_words() {
    let mut harness = Harness::new();
    harness.check("SET k v", "+OK");
    for (key, ttl, payload, options, expected) in [
        ("k", "0", BAR, "", "-BUSYKEY Target key name already exists."),
        ("k", "x", BAR, "", "-BUSYKEY Target key name already exists."),
        ("n", "x", BAR, "", "-ERR value is not an integer or out of range"),
        ("n", "-1", BAR, "", "-ERR Invalid TTL value, must be >= 0"),
        ("n", "0", b"short", "", "-ERR DUMP payload version or checksum are wrong"),
        (
            "n",
            "0",
            b"\x00\x03bar\x0d\x00\xe6\xbeI`\xeef\xfd\x17",
            "",
            "-ERR DUMP payload version or checksum are wrong",
        ),
        ("n", "0", BAR, "IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0"),
        ("n", "0", BAR, "IDLETIME x", "-ERR value is not an integer or out of range"),
        ("n", "0", BAR, "FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("n", "0", BAR, "FREQ 1 IDLETIME 1", "-ERR syntax error"),
        ("n", "0", BAR, "IDLETIME", "-ERR syntax error"),
        ("n", "0", BAR, "REPLACE WHAT", "-ERR syntax error"),
    ] {
        assert_eq!(restore(&mut harness, key, ttl, payload, options), expected, "{key} {ttl} {options}");
    }
    harness.check("GET k", "v");
    harness.check("EXISTS n", ":0");
    harness.check("RESTORE n 0", "-ERR wrong number of arguments for 'restore' command");
    let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
    harness.check("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK");
    // A body of an unknown type, and one that goes on after its value.
    for body in [&b"\x08\x00"[..], b"\x00\x03barr"] {
        let payload = [body, &[10, 0], &[0; 8]].concat();
        assert_eq!(restore(&mut harness, "n", "0", &payload, ""), "-ERR Bad data format");
    }
    harness.check("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0", "+OK");
}
