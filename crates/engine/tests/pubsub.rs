//! Publish and subscribe, and keyspace notifications.

use std::sync::{Arc, Mutex};

use engine::pubsub::{Space, deliver_from_node};
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

#[test]
fn other_nodes_are_told_what_was_published_here_and_nothing_else() {
    let mut harness = Harness::with_config(&[("notify-keyspace-events", "KEA")]);
    let told = Arc::new(Mutex::new(String::new()));
    let tells = told.clone();
    harness.server.channels.span_nodes(Box::new(move |space, name, is_wanted| {
        let (kind, name) = (if space == Space::Pattern { "p" } else { "c" }, String::from_utf8_lossy(name));
        let sign = if is_wanted { "+" } else { "-" };
        tells.lock().expect("no panic").push_str(&format!("{sign}{kind}:{name} "));
    }));
    harness.on(1).check("HELLO 3 SETNAME node", &harness_hello(2));
    for line in
        ["REPLCONF halcyon-listen cnews", "REPLCONF halcyon-listen p*", "REPLCONF halcyon-listen pn?ws"]
    {
        harness.on(1).check(line, "+OK");
    }
    harness.on(1).check("REPLCONF halcyon-listen xnews", "-ERR syntax error");
    // Nodes are nobody's subscribers.
    harness.on(0).check("PUBLISH news hello", ":0");
    let received = harness.on(1).received();
    for one in [">[message news hello]", ">[pmessage * news hello]", ">[pmessage n?ws news hello]"] {
        assert_eq!(received.matches(one).count(), 1, "{received}");
    }
    for (line, expected) in
        [("PUBSUB NUMSUB news", "[news :0]"), ("PUBSUB NUMPAT", ":0"), ("PUBSUB CHANNELS", "[]")]
    {
        harness.on(0).check(line, expected);
    }
    // What happens to keys, and what other nodes say, is not for them.
    harness.on(0).check("SET key 1", "+OK");
    harness.on(2).check("SUBSCRIBE news", "[subscribe news :1]");
    harness.on(2).check("PSUBSCRIBE n*", "[psubscribe n* :2]");
    let server = harness.server.clone();
    deliver_from_node(&server, Space::Channel, b"news", b"news", b"afar");
    deliver_from_node(&server, Space::Pattern, b"n*", b"news", b"afar");
    deliver_from_node(&server, Space::Pattern, b"other*", b"news", b"afar");
    assert_eq!(harness.on(2).received(), "[message news afar] [pmessage n* news afar]");
    assert_eq!(harness.on(1).received(), "");
    harness.on(0).check("PUBLISH news both", ":2");
    assert_eq!(harness.on(2).received(), "[message news both] [pmessage n* news both]");
    assert!(!harness.on(1).received().is_empty());
    for line in ["REPLCONF halcyon-unlisten cnews", "REPLCONF halcyon-unlisten p*"] {
        harness.on(1).check(line, "+OK");
    }
    harness.on(0).check("PUBLISH news again", ":2");
    assert_eq!(harness.on(1).received(), ">[pmessage n?ws news again]");
    harness.on(3).check("SUBSCRIBE news", "[subscribe news :1]");
    harness.on(3).check("RESET", "+RESET");
    harness.on(2).check("RESET", "+RESET");
    assert_eq!(*told.lock().expect("no panic"), "+c:news +p:n* -c:news -p:n* ");
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
