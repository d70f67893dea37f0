//! Publish and subscribe, and keyspace notifications.

use engine::testing::Harness;

#[test]
fn messages_reach_channels_patterns_and_shard_channels() {
    let mut harness = Harness::new();
    harness.on(1).check("SUBSCRIBE a b a", "[subscribe a :1] [subscribe b :2] [subscribe a :2]");
    harness.on(2).check("PSUBSCRIBE a* x?", "[psubscribe a* :1] [psubscribe x? :2]");
    harness.on(2).check("SSUBSCRIBE a", "[ssubscribe a :1]");
    harness.on(3).check("HELLO 3 SETNAME three", &harness_hello(4));
    harness.on(3).check("SUBSCRIBE a", ">[subscribe a :1]");
    harness.on(0).check("PUBLISH a hello", ":3");
    harness.on(0).check("PUBLISH nobody hello", ":0");
    harness.on(0).check("SPUBLISH a hi", ":1");
    assert_eq!(harness.on(1).received(), "[message a hello]");
    assert_eq!(harness.on(2).received(), "[pmessage a* a hello] [smessage a hi]");
    assert_eq!(harness.on(3).received(), ">[message a hello]");
    harness.on(0).check("PUBSUB NUMSUB a b c", "[a :2 b :1 c :0]");
    harness.on(0).check("PUBSUB NUMPAT", ":2");
    harness.on(0).check("PUBSUB CHANNELS b*", "[b]");
    harness.on(0).check("PUBSUB SHARDCHANNELS", "[a]");
    harness.on(0).check("PUBSUB SHARDNUMSUB a", "[a :1]");
    harness.on(1).check("UNSUBSCRIBE", "[unsubscribe a :1] [unsubscribe b :0]");
    harness.on(1).check("UNSUBSCRIBE", "[unsubscribe (nil) :0]");
    harness.on(1).check("PUNSUBSCRIBE q", "[punsubscribe q :0]");
    harness.on(2).check("RESET", "+RESET");
    harness.on(3).check("UNSUBSCRIBE a", ">[unsubscribe a :0]");
    harness.on(0).check("PUBSUB CHANNELS", "[]");
    harness.on(0).check("PUBSUB NUMPAT", ":0");
}

fn harness_hello(id: u64) -> String {
    format!("%{{server=redis version=7.4.2 proto=:3 id=:{id} mode=standalone role=master modules=[]}}")
}

#[test]
fn a_listening_connection_may_do_little_in_resp2() {
    let mut harness = Harness::new();
    harness.check("SUBSCRIBE a", "[subscribe a :1]");
    harness.check(
        "GET x",
        "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
    );
    harness.check("PING", "[pong ]");
    harness.check("PING x", "[pong x]");
    let mut harness = Harness::new().resp3();
    harness.check("SUBSCRIBE a", ">[subscribe a :1]");
    harness.check("PING", "+PONG");
    harness.check("GET x", "(nil)");
}

/// Lines of `command => channel suffix:message ...`, as a listener to everything gets them.
#[test]
fn writes_are_published_by_key_and_by_event() {
    let mut harness = Harness::with_config(&[("notify-keyspace-events", "KEA")]);
    harness.on(1).run("PSUBSCRIBE __key*");
    for (line, expected) in [
        ("SET a 1", "[pmessage __key* __keyspace@0__:a set] [pmessage __key* __keyevent@0__:set a]"),
        ("GET a", ""),
        ("RPOPLPUSH nolist a", ""),
        ("DEL a nothere", "[pmessage __key* __keyspace@0__:a del] [pmessage __key* __keyevent@0__:del a]"),
    ] {
        harness.on(0).run(line);
        assert_eq!(harness.on(1).received(), expected, "{line}");
    }
    harness.on(0).run("CONFIG SET notify-keyspace-events Ex");
    harness.on(0).run("SET a 1 PX 5");
    harness.on(0).advance_ms(10);
    harness.on(0).check("GET a", "(nil)");
    assert_eq!(harness.on(1).received(), "[pmessage __key* __keyevent@0__:expired a]");
}

/// A key is told of before what was written to it, and again where another one takes its name.
#[test]
fn misses_and_new_keys_come_before_what_is_written() {
    let mut harness = Harness::with_config(&[("notify-keyspace-events", "KAmn")]);
    harness.on(1).run("PSUBSCRIBE __key*");
    let mut check = |line: &str, expected: &[(&str, &str)]| {
        harness.on(0).run(line);
        let message = |(key, event): &(&str, &str)| format!("[pmessage __key* __keyspace@0__:{key} {event}]");
        let expected: Vec<String> = expected.iter().map(message).collect();
        assert_eq!(harness.on(1).received(), expected.join(" "), "{line}");
    };
    check("SET a 1", &[("a", "new"), ("a", "set")]);
    check("SET a 2", &[("a", "set")]);
    check("RPUSH l x", &[("l", "new"), ("l", "rpush")]);
    check("RENAME l a", &[("a", "new"), ("l", "rename_from"), ("a", "rename_to")]);
    check("EXISTS l a", &[("l", "keymiss")]);
    check("TYPE l", &[("l", "keymiss")]);
    check("SUNIONSTORE d l m", &[("l", "keymiss"), ("m", "keymiss")]);
    check("GETSET s 1", &[("s", "keymiss"), ("s", "new"), ("s", "set")]);
    // What is looked for before a refusal was missed all the same.
    let both = [("l", "keymiss"), ("m", "keymiss")];
    check("ZUNION 2 l s", &both[..1]);
    check("ZUNION 2 s l", &[]);
    check("ZUNION 2 l m WEIGHTS 1 x", &both);
    check("ZINTERCARD 2 l m LIMIT x", &both);
    check("SINTERCARD 2 l m LIMIT x", &[]);
    check("ZINTERSTORE d 2 l m", &both);
    check("ZDIFFSTORE d 2 l m AGGREGATE", &both);
    check("HSET h f v", &[("h", "new"), ("h", "hset")]);
    check("LCS h l", &both[..1]);
    check("SORT l BY w_* GET m STORE d", &both[..1]);
    check("XAUTOCLAIM l g c x 0", &both[..1]);
    check("XAUTOCLAIM l g c 0 0 COUNT 0", &both[..1]);
    check("XAUTOCLAIM l g c 0 0", &both[..1]);
    check("XCLAIM l g c x 0", &both[..1]);
    check("COPY s a REPLACE", &[("a", "new"), ("a", "copy_to")]);
    check("SETRANGE s 3 b", &[("s", "setrange")]);
    harness.on(0).run("CONFIG SET notify-keyspace-events KEA");
    harness.on(0).run("SET b 1 PX 5");
    harness.on(0).run("CONFIG SET notify-keyspace-events Kn$");
    harness.on(1).received();
    harness.on(0).run("MSET c 1 b 2");
    let new = |key: &str| format!("[pmessage __key* __keyspace@0__:{key} new]");
    let set = |key: &str| format!("[pmessage __key* __keyspace@0__:{key} set]");
    assert_eq!(harness.on(1).received(), [new("c"), set("c"), set("b")].join(" "));
}
