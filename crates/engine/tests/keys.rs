//! The commands on keys of any type, as clients see them. Every reply here was given by a redis-server 7.0.15 as well.

use engine::testing::Harness;

fn check(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    script.iter().for_each(|(line, expected)| harness.check(line, expected));
}

#[test]
fn keys_are_deleted_counted_and_typed() {
    check(&[
        ("mset a 1 b 2 c 3", "+OK"),
        ("exists a b nokey a", ":3"),
        ("touch a nokey a", ":2"),
        ("type a", "+string"),
        ("type nokey", "+none"),
        ("del a nokey a", ":1"),
        ("unlink b b", ":1"),
        ("exists a b c", ":1"),
        ("del", "-ERR wrong number of arguments for 'del' command"),
        ("exists", "-ERR wrong number of arguments for 'exists' command"),
    ]);
}

#[test]
fn expiries_are_set_and_told() {
    check(&[
        ("ttl nokey", ":-2"),
        ("pttl nokey", ":-2"),
        ("expiretime nokey", ":-2"),
        ("pexpiretime nokey", ":-2"),
        ("persist nokey", ":0"),
        ("expire nokey 10", ":0"),
        ("set k v", "+OK"),
        ("ttl k", ":-1"),
        ("pttl k", ":-1"),
        ("expiretime k", ":-1"),
        ("persist k", ":0"),
        ("expire k 100", ":1"),
        ("ttl k", ":100"),
        ("pttl k", ":100000"),
        ("persist k", ":1"),
        ("ttl k", ":-1"),
        ("pexpire k 100499", ":1"),
        ("ttl k", ":100"),
        ("pexpire k 100500", ":1"),
        ("ttl k", ":101"),
        ("expireat k 99999999999", ":1"),
        ("expiretime k", ":99999999999"),
        ("pexpiretime k", ":99999999999000"),
        ("pexpireat k 99999999999500", ":1"),
        ("expiretime k", ":100000000000"),
        ("pexpireat k 9223372036854775807", ":1"),
        ("expiretime k", ":9223372036854776"),
        ("expire k x", "-ERR value is not an integer or out of range"),
        ("expire nokey x", "-ERR value is not an integer or out of range"),
        ("expire k 1.5", "-ERR value is not an integer or out of range"),
        ("expire k 9223372036854775", "-ERR invalid expire time in 'expire' command"),
        ("expire k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("expire k -9223372036854775808", "-ERR invalid expire time in 'expire' command"),
        ("pexpire k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
        ("expireat k 9223372036854776", "-ERR invalid expire time in 'expireat' command"),
        ("get k", "v"),
    ]);
}

#[test]
fn a_past_expiry_deletes() {
    check(&[
        ("mset a 1 b 2 c 3 d 4", "+OK"),
        ("expire a 0", ":1"),
        ("pexpire b -5", ":1"),
        ("expireat c 1", ":1"),
        ("pexpireat d -9223372036854775808", ":1"),
        ("exists a b c d", ":0"),
        ("pexpire nokey -1", ":0"),
    ]);
}

#[test]
fn expiries_take_conditions() {
    check(&[
        ("set k v", "+OK"),
        ("expire k 100 xx", ":0"),
        ("expire k 100 gt", ":0"),
        ("ttl k", ":-1"),
        ("expire k 100 lt", ":1"),
        ("expire k 200 nx", ":0"),
        ("expire k 50 gt", ":0"),
        ("expire k 100 gt", ":0"),
        ("expire k 150 gt", ":1"),
        ("ttl k", ":150"),
        ("expire k 200 lt", ":0"),
        ("expire k 50 lt", ":1"),
        ("ttl k", ":50"),
        ("expire k 60 xx gt", ":1"),
        ("expire k 40 lt xx", ":1"),
        ("ttl k", ":40"),
        ("persist k", ":1"),
        ("expire k 10 nx", ":1"),
        ("ttl k", ":10"),
        ("expire k 10 nx xx", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("expire k 10 nx gt", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("expire k 10 lt nx", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("expire k 10 gt lt", "-ERR GT and LT options at the same time are not compatible"),
        ("expire k 10 foo", "-ERR Unsupported option foo"),
        ("expire k x foo", "-ERR Unsupported option foo"),
        ("expire k -1 gt", ":0"),
        ("expire k -1 lt", ":1"),
        ("exists k", ":0"),
    ]);
}

#[test]
fn renaming() {
    check(&[
        ("rename nokey a", "-ERR no such key"),
        ("renamenx nokey nokey", "-ERR no such key"),
        ("mset a 1 b 2", "+OK"),
        ("rename a a", "+OK"),
        ("renamenx a a", ":0"),
        ("renamenx a b", ":0"),
        ("renamenx a c", ":1"),
        ("mget a b c", "[(nil) 2 1]"),
        ("expire c 100", ":1"),
        ("rename c b", "+OK"),
        ("ttl b", ":100"),
        ("get b", "1"),
        ("exists c", ":0"),
        ("rename a", "-ERR wrong number of arguments for 'rename' command"),
    ]);
}

#[test]
fn copying() {
    check(&[
        ("mset a 1 b 2", "+OK"),
        ("copy a a", "-ERR source and destination objects are the same"),
        ("copy nokey nokey", "-ERR source and destination objects are the same"),
        ("copy nokey c", ":0"),
        ("copy a b", ":0"),
        ("copy a b replace", ":1"),
        ("get b", "1"),
        ("expire a 100", ":1"),
        ("copy a c", ":1"),
        ("ttl c", ":100"),
        ("copy a a db 0", "-ERR source and destination objects are the same"),
        ("copy a a db 1", ":1"),
        ("copy a a db 1", ":0"),
        ("copy a a db 1 replace", ":1"),
        ("copy a b db 16", "-ERR DB index is out of range"),
        ("copy a b db -1", "-ERR DB index is out of range"),
        ("copy a b db x", "-ERR value is not an integer or out of range"),
        (
            "copy a b db 99999999999",
            "-ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        ("copy a b db", "-ERR syntax error"),
        ("copy a b foo", "-ERR syntax error"),
        ("copy a b foo db 99", "-ERR syntax error"),
        ("copy a b db 1 db 2", ":1"),
    ]);
}

#[test]
fn databases_are_apart() {
    check(&[
        ("mset a 1 b 2", "+OK"),
        ("move a 0", "-ERR source and destination objects are the same"),
        ("move a 1", ":1"),
        ("move a 1", ":0"),
        ("move nokey 1", ":0"),
        ("move a 16", "-ERR DB index is out of range"),
        ("move a -1", "-ERR DB index is out of range"),
        ("move a x", "-ERR value is not an integer or out of range"),
        ("set a 3", "+OK"),
        ("move a 1", ":0"),
        ("get a", "3"),
        ("dbsize", ":2"),
        ("swapdb 0 1", "+OK"),
        ("dbsize", ":1"),
        ("mget a b", "[1 (nil)]"),
        ("swapdb 1 0", "+OK"),
        ("mget a b", "[3 2]"),
        ("swapdb 0 0", "+OK"),
        ("swapdb x 0", "-ERR invalid first DB index"),
        ("swapdb 0 x", "-ERR invalid second DB index"),
        ("swapdb 0 16", "-ERR DB index is out of range"),
        ("swapdb -1 0", "-ERR DB index is out of range"),
        ("swapdb 99999999999 0", "-ERR invalid first DB index"),
        ("copy b b db 5", ":1"),
        ("flushdb", "+OK"),
        ("dbsize", ":0"),
        ("swapdb 0 5", "+OK"),
        ("dbsize", ":1"),
        ("get b", "2"),
        ("flushall", "+OK"),
        ("swapdb 0 5", "+OK"),
        ("swapdb 0 1", "+OK"),
        ("dbsize", ":0"),
    ]);
}

#[test]
fn flushing() {
    check(&[
        ("set a 1", "+OK"),
        ("flushdb foo", "-ERR syntax error"),
        ("flushall async x", "-ERR syntax error"),
        ("flushdb sync sync", "-ERR syntax error"),
        ("dbsize", ":1"),
        ("flushdb async", "+OK"),
        ("dbsize", ":0"),
        ("set a 1", "+OK"),
        ("flushall SYNC", "+OK"),
        ("dbsize", ":0"),
        ("get a", "(nil)"),
        ("set a 2", "+OK"),
        ("get a", "2"),
    ]);
}

#[test]
fn walking_one_key() {
    check(&[
        ("randomkey", "(nil)"),
        ("keys *", "[]"),
        ("set key:1 v", "+OK"),
        ("randomkey", "key:1"),
        ("keys *", "[key:1]"),
        ("keys key:[0-9]", "[key:1]"),
        ("keys k?y:1", "[key:1]"),
        ("keys nomatch*", "[]"),
        (r#"keys """#, "[]"),
        ("keys", "-ERR wrong number of arguments for 'keys' command"),
        ("scan 0", "[0 [key:1]]"),
        ("scan 0 count 100 match key:* type string", "[0 [key:1]]"),
        ("scan 0 type list", "[0 []]"),
        ("scan 0 TYPE STRING", "[0 [key:1]]"),
        ("scan 0 match a match key*", "[0 [key:1]]"),
        ("scan +0", "[0 [key:1]]"),
        (r#"scan """#, "[0 [key:1]]"),
        ("scan x", "-ERR invalid cursor"),
        ("scan -x", "-ERR invalid cursor"),
        ("scan +", "-ERR invalid cursor"),
        (r#"scan "0 ""#, "-ERR invalid cursor"),
        ("scan 18446744073709551616", "-ERR invalid cursor"),
        ("scan 0 count 0", "-ERR syntax error"),
        ("scan 0 count x", "-ERR value is not an integer or out of range"),
        ("scan 0 count", "-ERR syntax error"),
        ("scan 0 match", "-ERR syntax error"),
        ("scan 0 foo 1", "-ERR syntax error"),
    ]);
}

#[test]
fn encodings_are_told() {
    check(&[
        ("object encoding nokey", "(nil)"),
        ("object refcount nokey", "(nil)"),
        ("object idletime nokey", "(nil)"),
        ("object freq nokey", "(nil)"),
        ("set k 123", "+OK"),
        ("object encoding k", "int"),
        ("object refcount k", ":2147483647"),
        ("object idletime k", ":0"),
        (
            "object freq k",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ),
        ("set k 10000", "+OK"),
        ("object refcount k", ":1"),
        ("set k -1", "+OK"),
        ("object refcount k", ":1"),
        ("set k 9223372036854775807", "+OK"),
        ("object encoding k", "int"),
        ("set k 9223372036854775808", "+OK"),
        ("object encoding k", "embstr"),
        ("set k 007", "+OK"),
        ("object encoding k", "embstr"),
        ("set k aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeee", "+OK"),
        ("object encoding k", "embstr"),
        ("set k aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeee", "+OK"),
        ("object encoding k", "raw"),
        ("set k 12", "+OK"),
        ("append k 3", ":3"),
        ("object encoding k", "raw"),
        ("object refcount k", ":1"),
        ("incr k", ":124"),
        ("object encoding k", "int"),
        ("append new 12", ":2"),
        ("object encoding new", "int"),
        ("setrange n2 0 12", ":2"),
        ("object encoding n2", "raw"),
        ("copy k k2", ":1"),
        ("append k 4", ":4"),
        ("rename k k3", "+OK"),
        ("object encoding k3", "raw"),
        ("object foo k", "-ERR unknown subcommand 'foo'. Try OBJECT HELP."),
        ("object", "-ERR wrong number of arguments for 'object' command"),
        ("object encoding", "-ERR wrong number of arguments for 'object|encoding' command"),
        ("object encoding a b", "-ERR wrong number of arguments for 'object|encoding' command"),
    ]);
}
fn with_keys(count: usize) -> Harness {
    let mut harness = Harness::new();
    for start in (0..count).step_by(1000) {
        let end = count.min(start + 1000);
        let pairs: Vec<String> = (start..end).map(|number| format!("key:{number} v")).collect();
        harness.check(&format!("mset {}", pairs.join(" ")), "+OK");
    }
    harness
}

/// The words of a reply like `[a b]` or `[cursor [a b]]`, sorted.
fn sorted_words(reply: &str) -> Vec<String> {
    let mut words: Vec<String> =
        reply.split([' ', '[', ']']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.sort_unstable();
    words
}

fn sorted_keys(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let mut keys: Vec<String> = numbers.map(|number| format!("key:{number}")).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn all_keys_are_listed_on_and_off_the_loop() {
    for count in [500, 12_000] {
        let mut harness = with_keys(count);
        harness.check("dbsize", &format!(":{count}"));
        assert_eq!(sorted_words(&harness.run("keys *")), sorted_keys(0..count));
        assert_eq!(sorted_words(&harness.run("keys key:1?9")), sorted_keys((109..=199).step_by(10)));
        let scanned = harness.run("scan 0 count 1000000");
        assert!(scanned.starts_with("[0 ["), "a walk that visits everything is over");
        assert_eq!(sorted_words(&scanned)[1..], sorted_keys(0..count));
    }
}

#[test]
fn a_walk_meets_every_key_that_stays() {
    let mut harness = with_keys(2000);
    let (mut cursor, mut met, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = harness.run(&format!("scan {cursor} count 50 match key:*"));
        let (next, keys) = reply[1..].split_once(' ').expect("a cursor and keys");
        met.extend(sorted_words(keys));
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
        // Keys that come and go, and growth, must not hide the others.
        harness.run(&format!("mset new:{calls} v other:{calls} v"));
        harness.run(&format!("del new:{}", calls / 2));
        calls += 1;
    }
    met.sort_unstable();
    met.dedup();
    assert_eq!(met, sorted_keys(0..2000));
    assert!(calls >= 10, "{calls} calls: the count was not heeded");
}

#[test]
fn walks_tell_types_apart_and_skip_expired_keys() {
    let mut harness = Harness::new();
    harness.check("rpush l 1", ":1");
    harness.check("mset a 1 b 2", "+OK");
    harness.check("pexpire b 100", ":1");
    harness.check("scan 0 type list", "[0 [l]]");
    harness.check("scan 0 type string match b", "[0 [b]]");
    harness.advance_ms(101);
    harness.check("scan 0 type string", "[0 [a]]");
    harness.check("keys b", "[]");
    harness.check("type l", "+list");
}

#[test]
fn a_random_key_is_a_live_one() {
    let mut harness = with_keys(300);
    for number in 0..300 {
        harness.check(&format!("pexpire key:{number} 10"), ":1");
    }
    harness.check("set live v", "+OK");
    harness.advance_ms(11);
    harness.check("randomkey", "live");
    harness.check("del live", ":1");
    harness.check("randomkey", "(nil)");
    harness.check("mset a 1 b 2", "+OK");
    let picks: Vec<String> = (0..100).map(|_| harness.run("randomkey")).collect();
    assert!(picks.iter().any(|key| key == "a") && picks.iter().any(|key| key == "b"), "{picks:?}");
}

#[test]
fn idle_time_grows_until_a_key_is_used() {
    let mut harness = Harness::new();
    harness.check("set k v", "+OK");
    harness.advance_ms(5000);
    for (line, expected) in [
        ("exists k", ":1"),
        ("type k", "+string"),
        ("ttl k", ":-1"),
        ("object idletime k", ":5"),
        ("touch k", ":1"),
        ("object idletime k", ":0"),
    ] {
        harness.check(line, expected);
    }
    harness.advance_ms(5000);
    harness.check("get k", "v");
    harness.check("object idletime k", ":0");
}

#[test]
fn frequency_is_told_under_lfu_policies_only() {
    let mut harness = Harness::with_config(&[("maxmemory-policy", "allkeys-lfu")]);
    harness.check("set k v", "+OK");
    harness.check("object freq k", ":5");
    harness.advance_ms(180_000);
    harness.check("object freq k", ":2");
    assert!(harness.run("object idletime k").starts_with("-ERR An LFU maxmemory policy is selected"));
    let mut harness = Harness::with_config(&[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")]);
    harness.check("set k 1", "+OK");
    harness.check("object refcount k", ":1");
    assert!(harness.run("object freq k").starts_with("-ERR An LFU maxmemory policy is not selected"));
}

#[test]
fn a_cluster_node_has_one_database() {
    let mut harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    for (line, expected) in [
        ("set a 1", "+OK"),
        ("copy a a db 1", "-ERR Copying to another database is not allowed in cluster mode"),
        ("copy a b{a} db 0", ":1"),
        ("move a 1", "-ERR MOVE is not allowed in cluster mode"),
        ("swapdb 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
    ] {
        harness.check(line, expected);
    }
}
