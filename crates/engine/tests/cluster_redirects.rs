//! Late requests: what is forwarded, who is told of the new owner, and what stays plain.

use std::sync::atomic::Ordering::Relaxed;

use engine::cluster_face::topology_of;
use engine::testing::Harness;

const ME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const THIRD: &str = "cccccccccccccccccccccccccccccccccccccccc";
const MOVED: &str = "-MOVED 5061 127.0.0.1:7001";

/// Three nodes with their slots; `flags` and `primary` are this one's.
fn install(harness: &Harness, flags: &str, primary: &str, slots: [&str; 3]) {
    let nodes = format!(
        "{ME} 127.0.0.1:7000@17000 myself,{flags} {primary} 0 0 1 connected {}\n\
         {OTHER} 127.0.0.1:7001@17001 master - 0 0 2 connected {}\n\
         {THIRD} 127.0.0.1:7002@17002 master - 0 0 3 connected {}\n",
        slots[0], slots[1], slots[2]
    );
    harness.server.cluster.install(topology_of(nodes.replace(" \n", "\n").as_str()));
}

/// A node that had the slots of `bar` (5061), `baz` (4813) and `hello` (866), and has given the first to the second node, the
/// other to the third. `rate`: who is told in a second.
fn node(rate: &str) -> Harness {
    let harness = Harness::of_node(&[("cluster-redirects", "damped"), ("cluster-redirect-rate", rate)], ME);
    install(&harness, "master", "-", ["0-8191", "8192-12000", "12001-16383"]);
    install(&harness, "master", "-", ["0-4812 4814-5060 5062-8191", "5061 8192-12000", "4813 12001-16383"]);
    harness
}

/// What was to be forwarded: where, and its words.
fn forwarded(harness: &mut Harness) -> String {
    let show = |(door, forward): (engine::forwarding::Door, engine::forwarding::Forward)| {
        let (proto, silent) =
            (if door.is_resp3 { "/3" } else { "" }, if forward.is_silent { "!" } else { "" });
        let (mut rest, mut commands) = (&forward.bytes[..], Vec::new());
        while !rest.is_empty() {
            let (value, used) = resp::parse::parse(rest).expect("a command").expect("a whole one");
            let words = value.as_elements().expect("words").iter();
            let words =
                words.map(|word| String::from_utf8_lossy(word.as_bytes().unwrap_or(b"?")).into_owned());
            commands.push(words.collect::<Vec<_>>().join(" "));
            rest = &rest[used..];
        }
        assert_eq!(commands.len(), forward.replies_before + 1);
        format!("{}{proto}{silent} {}", door.address.port(), commands.join("; "))
    };
    harness.forwards().into_iter().map(show).collect::<Vec<_>>().join("|")
}

#[test]
fn late_requests_are_forwarded_and_others_are_told() {
    let mut harness = node("0");
    for (line, expected) in [
        ("GET bar", "7001 GET bar"),
        ("SET baz 1", "7002 SET baz 1"),
        ("MGET bar bar", "7001 MGET bar bar"),
        ("XREAD COUNT 1 STREAMS bar 0", "7001 XREAD COUNT 1 STREAMS bar 0"),
        ("EVAL \"return 1\" 1 bar", "7001 EVAL return 1 1 bar"),
        ("SPUBLISH bar m", "7001 SPUBLISH bar m"),
        ("SORT bar", "7001 SORT bar"),
        ("OBJECT ENCODING bar", "7001 OBJECT ENCODING bar"),
    ] {
        harness.check(line, "");
        assert_eq!(forwarded(&mut harness), expected, "{line}");
    }
    for (line, expected) in [
        ("GET hello", "(nil)"),
        // Never this node's since it runs.
        ("GET foo", "-MOVED 12182 127.0.0.1:7002"),
        ("MGET bar hello", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
    ] {
        harness.check(line, expected);
        assert_eq!(forwarded(&mut harness), "", "{line}");
    }
    assert_eq!(harness.server.cluster.redirects.forwarded.load(Relaxed), 8);
    let mut resp3 = harness.resp3();
    resp3.check("HGETALL bar", "");
    assert_eq!(forwarded(&mut resp3), "7001/3 HGETALL bar");
}

#[test]
fn what_cannot_be_forwarded_is_told_at_once() {
    let mut harness = node("0");
    let long = format!("SET bar {}", "x".repeat(base::limits::FORWARD_REQUEST_BYTES_MAX));
    let lines = [
        "BLPOP bar 0",
        "XREAD BLOCK 0 STREAMS bar $",
        "WATCH bar",
        "SSUBSCRIBE bar",
        "MIGRATE 127.0.0.1 1 bar 0 1",
        "RESTORE-ASKING bar 0 x",
        &long,
    ];
    for line in lines {
        harness.check(line, MOVED);
    }
    assert_eq!(harness.server.cluster.redirects.told_at_once.load(Relaxed), lines.len() as u64);
    // What the connection has said before matters.
    for (number, before) in [
        (1, "WATCH hello"),
        (2, "CLIENT TRACKING ON"),
        (3, "SUBSCRIBE x"),
        (4, "CLIENT NO-TOUCH ON"),
        (5, "ASKING"),
        (6, "CLUSTER REDIRECTS PLAIN"),
        (7, "CLIENT DURABILITY none"),
    ] {
        let answer = harness.on(number).run(before);
        assert!(!answer.starts_with('-'), "{before}: {answer}");
        harness.check("GET bar", MOVED);
    }
    assert_eq!(forwarded(&mut harness), "");
    harness.on(8).check("CONFIG SET cluster-redirects plain", "+OK");
    harness.on(8).check("GET bar", MOVED);
}

#[test]
fn a_transaction_is_forwarded_whole_or_not_at_all() {
    let mut harness = node("0");
    for (lines, answer, expected) in [
        (
            &["SET bar 1", "BLPOP {bar}l 0", "EVAL \"return 1\" 1 bar"][..],
            "",
            "7001 MULTI; SET bar 1; BLPOP {bar}l 0; EVAL return 1 1 bar; EXEC",
        ),
        // What has no key may say something of the connection.
        (&["SET bar 1", "CLIENT REPLY OFF"], MOVED, ""),
        (&["GET hello"], "[(nil)]", ""),
        (&["GET hello", "SET bar 1"], "-CROSSSLOT Keys in request don't hash to the same slot", ""),
    ] {
        harness.check("MULTI", "+OK");
        lines.iter().for_each(|line| harness.check(line, "+QUEUED"));
        harness.check("EXEC", answer);
        assert_eq!(forwarded(&mut harness), expected, "{lines:?}");
        harness.check("EXEC", "-ERR EXEC without MULTI");
    }
    harness.check("WATCH hello", "+OK");
    harness.check("MULTI", "+OK");
    harness.check("SET bar 1", MOVED);
    harness.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(forwarded(&mut harness), "");
    // The slot leaves while the queue is filled.
    install(&harness, "master", "-", ["0-8191", "8192-12000", "12001-16383"]);
    harness.check("MULTI", "+OK");
    harness.check("SET bar 1", "+QUEUED");
    install(&harness, "master", "-", ["0-5060 5062-8191", "5061 8192-12000", "12001-16383"]);
    harness.check("EXEC", "");
    assert_eq!(forwarded(&mut harness), "7001 MULTI; SET bar 1; EXEC");
    let mut told = node("1000");
    told.check("MULTI", "+OK");
    told.check("SET bar 1", MOVED);
    told.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(forwarded(&mut told), "");
}

#[test]
fn what_a_user_may_not_do_is_not_forwarded_for_it() {
    let mut harness = node("0");
    harness.check("ACL SETUSER u on nopass ~b* +get +eval +sort +auth", "+OK");
    harness.check("AUTH u x", "+OK");
    harness.check("GET bar", "");
    assert_eq!(forwarded(&mut harness), "7001 GET bar");
    harness.check("SET bar 1", "-NOPERM User u has no permissions to run the 'set' command");
    // What they do is asked as they do it, and the other node would not ask.
    harness.check("EVAL \"return 1\" 1 bar", MOVED);
    harness.check("SORT bar", MOVED);
    assert_eq!(forwarded(&mut harness), "");
}

#[test]
fn a_batch_goes_to_one_node_and_what_comes_after_it_waits() {
    let mut harness = node("0");
    for (lines, sent, executed, expected) in [
        (&["GET bar", "SET bar 1", "GET hello", "GET bar"][..], "", 2, "7001 GET bar|7001 SET bar 1"),
        (&["GET hello", "GET bar", "GET baz"], "(nil)", 2, "7001 GET bar"),
        (&["GET bar", "GET foo"], "", 1, "7001 GET bar"),
        (&["GET bar", "BLPOP bar 0"], "", 1, "7001 GET bar"),
        (&["GET bar", "NOSUCH"], "", 1, "7001 GET bar"),
        (&["CLIENT REPLY SKIP", "SET bar 1", "GET bar"], "", 3, "7001! SET bar 1|7001 GET bar"),
        (&["CLIENT REPLY OFF", "SET bar 1", "CLIENT REPLY ON"], "", 2, "7001! SET bar 1"),
    ] {
        assert_eq!(harness.batch(lines), (sent.to_owned(), executed), "{lines:?}");
        assert_eq!(forwarded(&mut harness), expected, "{lines:?}");
    }
    let redirects = &harness.server.cluster.redirects;
    assert_eq!((redirects.forwarded.load(Relaxed), redirects.told_at_once.load(Relaxed)), (9, 0));
}

#[test]
fn a_client_is_told_when_it_is_its_turn_and_served_when_it_is_not() {
    let mut harness = node("10");
    for number in 0..5 {
        harness.on(number).check("GET bar", if number == 0 { MOVED } else { "" });
        harness.on(number).check("GET bar", "");
    }
    harness.advance_ms(100);
    harness.on(0).check("GET bar", "");
    harness.on(1).check("GET bar", MOVED);
    harness.on(2).check("GET bar", "");
    // All are told before one is told again.
    for number in [2, 3, 4] {
        harness.advance_ms(100);
        harness.on(0).check("GET bar", "");
        harness.on(number).check("GET bar", MOVED);
    }
    harness.advance_ms(600);
    harness.on(0).check("GET bar", MOVED);
    harness.on(1).check("GET bar", "");
}

#[test]
fn it_is_told_who_is_late() {
    let mut harness = node("0");
    harness.on(1).check("CLIENT SETINFO LIB-NAME jedis", "+OK");
    harness.on(1).check("CLIENT SETINFO LIB-VER 2.9", "+OK");
    for _ in 0..3 {
        harness.on(1).check("GET bar", "");
    }
    harness.on(0).check("GET bar", "");
    harness.on(0).check("BLPOP bar 0", MOVED);
    harness.advance_ms(5);
    harness.check(
        "CLUSTER REDIRECTS",
        "[[id :2 addr 127.0.0.1:6379 name  lib-name jedis lib-ver 2.9 forwarded :3 told :0 idle-ms :5] \
         [id :1 addr 127.0.0.1:6379 name  lib-name  lib-ver  forwarded :1 told :1 idle-ms :5]]",
    );
    let info = harness.run("INFO cluster");
    for line in [
        "cluster_redirects:damped",
        "cluster_late_clients:2",
        "cluster_forwarded_requests:4",
        "cluster_redirects_told:0",
        "cluster_redirects_told_at_once:1",
        "cluster_relays:0",
    ] {
        assert!(info.lines().any(|found| found == line), "{line} in {info}");
    }
    harness.server.cluster.redirects.lost.fetch_add(1, Relaxed);
    harness.check("CONFIG RESETSTAT", "+OK");
    let info = harness.run("INFO cluster");
    for name in ["forwarded_requests", "forwarded_lost", "redirects_told", "redirects_told_at_once"] {
        assert!(info.contains(&format!("cluster_{name}:0\r\n")), "{name} in {info}");
    }
    harness.check("CLUSTER REDIRECTS PLAIN x", "-ERR syntax error");
    harness.check("CLUSTER REDIRECTS x", "-ERR syntax error");
    assert!(
        Harness::new()
            .run("CLUSTER REDIRECTS")
            .starts_with("-ERR This instance has cluster support disabled")
    );
}

#[test]
fn a_slot_is_late_from_when_it_leaves_until_it_comes_back() {
    let mut harness = node("0");
    harness.check("GET bar", "");
    // On from the second node to the third.
    install(&harness, "master", "-", ["0-4812 4814-5060 5062-8191", "8192-12000", "4813 5061 12001-16383"]);
    harness.check("GET bar", "");
    assert_eq!(forwarded(&mut harness), "7001 GET bar|7002 GET bar");
    install(&harness, "master", "-", ["0-8191", "8192-12000", "12001-16383"]);
    harness.check("GET bar", "(nil)");
    // This node hands its shard over.
    install(&harness, "slave", OTHER, ["", "0-12000", "12001-16383"]);
    harness.check("SET bar 1", "");
    harness.check("READONLY", "+OK");
    harness.check("GET bar", "(nil)");
    harness.check("SET bar 1", "");
    assert_eq!(forwarded(&mut harness), "7001 SET bar 1|7001 SET bar 1");
    harness.check("SET foo 1", "-MOVED 12182 127.0.0.1:7002");
    // Nobody is there to forward it to.
    let nodes = format!(
        "{ME} 127.0.0.1:7000@17000 myself,slave {OTHER} 0 0 1 connected\n\
         {OTHER} 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-12000\n\
         {THIRD} 127.0.0.1:7002@17002 master - 0 0 3 connected 12001-16383\n"
    );
    harness.server.cluster.install(topology_of(&nodes));
    harness.check("SET bar 1", MOVED);
}

#[test]
fn reads_of_a_replica_are_late_and_nothing_else_that_it_is_asked() {
    let mut harness =
        Harness::of_node(&[("cluster-redirects", "damped"), ("cluster-redirect-rate", "0")], ME);
    install(&harness, "slave", OTHER, ["", "0-12000", "12001-16383"]);
    install(&harness, "slave", OTHER, ["", "0-5060 5062-12000", "5061 12001-16383"]);
    let moved = "-MOVED 5061 127.0.0.1:7002";
    harness.check("GET bar", moved);
    harness.check("READONLY", "+OK");
    harness.check("GET bar", "");
    harness.check("SET bar 1", moved);
    assert_eq!(forwarded(&mut harness), "7002 GET bar");
}
