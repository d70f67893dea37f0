//! What becomes of those who wait, listen, watch or work on keys when their slot leaves this node.

use engine::cluster_face::topology_of;
use engine::testing::Harness;

const ME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// This node and another one, with their slots; `flags` and `primary` are this node's.
fn install(harness: &Harness, flags: &str, primary: &str, mine: &str, theirs: &str) {
    let nodes = format!(
        "{ME} 127.0.0.1:7000@17000 myself,{flags} {primary} 0 0 1 connected {mine}\n\
         {OTHER} 127.0.0.1:7001@17001 master - 0 0 2 connected {theirs}\n"
    );
    harness.server.cluster.install(topology_of(nodes.replace(" \n", "\n").as_str()));
}

/// A node that owns the slots of `bar` (5061) and `hello` (866).
fn node() -> Harness {
    let harness = Harness::of_node(&[], ME);
    install(&harness, "master", "-", "0-8191", "8192-16383");
    harness
}

fn lose_bar(harness: &Harness) {
    install(harness, "master", "-", "0-5060 5062-8191", "5061 8192-16383");
}

#[test]
fn who_waits_for_a_key_is_told_where_it_is() {
    let mut harness = node();
    for (number, line) in
        ["BLPOP bar 0", "BLPOP hello 0", "XREAD BLOCK 0 STREAMS bar $", "BZPOPMIN bar 0"].iter().enumerate()
    {
        assert_eq!(harness.on(number).run(line), "");
    }
    lose_bar(&harness);
    harness.server.sample();
    for (number, expected) in [
        (0, "-MOVED 5061 127.0.0.1:7001"),
        (1, ""),
        (2, "-MOVED 5061 127.0.0.1:7001"),
        (3, "-MOVED 5061 127.0.0.1:7001"),
    ] {
        assert_eq!(harness.on(number).received(), expected, "{number}");
    }
    harness.on(4).check("RPUSH hello a", ":1");
    assert_eq!(harness.on(1).received(), "[hello a]");
}

#[test]
fn who_waits_at_a_primary_that_becomes_a_replica_is_told_who_the_primary_is() {
    let mut harness = node();
    assert_eq!(harness.on(0).run("BLPOP bar 0"), "");
    assert_eq!(harness.on(1).run("READONLY"), "+OK");
    assert_eq!(harness.on(1).run("XREAD BLOCK 0 STREAMS bar $"), "");
    install(&harness, "slave", OTHER, "", "0-16383");
    harness.server.sample();
    assert_eq!(harness.on(0).received(), "-MOVED 5061 127.0.0.1:7001");
    assert_eq!(harness.on(1).received(), "", "it may go on reading here");
}

#[test]
fn who_waits_while_the_cluster_is_down_or_this_node_cut_off_is_told_so() {
    let mut harness = node();
    assert_eq!(harness.on(0).run("BLPOP bar 0"), "");
    install(&harness, "master", "-", "0-8191", "8192-16382");
    harness.server.sample();
    assert_eq!(harness.on(0).received(), "-CLUSTERDOWN The cluster is down");
    install(&harness, "master", "-", "0-8191", "8192-16383");
    assert_eq!(harness.on(0).run("BLPOP bar 0"), "");
    harness.advance_ms(1000);
    harness.server.cluster.serve_until(500_000);
    harness.server.sample();
    assert_eq!(harness.on(0).received(), "-CLUSTERDOWN The cluster is down");
    for line in
        ["GET bar", "SET bar 1", "BLPOP bar 0", "EVAL \"return 1\" 1 bar", "MGET bar bar", "SPUBLISH bar m"]
    {
        harness.check(line, "-CLUSTERDOWN The cluster is down");
    }
    harness.check("GET foo", "-MOVED 12182 127.0.0.1:7001");
    harness.check("PING", "+PONG");
    assert!(harness.run("CLUSTER INFO").starts_with("cluster_state:fail"));
    harness.server.cluster.serve_until(u64::MAX);
    harness.check("GET bar", "(nil)");
    harness.server.cluster.refuse("This node was forgotten".to_owned());
    harness.check("GET bar", "-CLUSTERDOWN This node was forgotten");
    harness.check("GET foo", "-CLUSTERDOWN This node was forgotten");
    install(&harness, "master", "-", "0-8191", "8192-16383");
    harness.check("GET bar", "(nil)");
}

#[test]
fn subscriptions_to_shard_channels_end_with_their_slot() {
    let mut harness = node();
    harness.on(0).check("SSUBSCRIBE bar {bar}x", "[ssubscribe bar :1] [ssubscribe {bar}x :2]");
    harness.on(1).check("SSUBSCRIBE hello", "[ssubscribe hello :1]");
    lose_bar(&harness);
    harness.server.sample();
    let told = harness.on(0).received();
    let both =
        ["[sunsubscribe bar :1] [sunsubscribe {bar}x :0]", "[sunsubscribe {bar}x :1] [sunsubscribe bar :0]"];
    assert!(both.contains(&told.as_str()), "{told}");
    assert_eq!(harness.on(1).received(), "");
    harness.on(2).check("PUBSUB SHARDCHANNELS", "[hello]");
    harness.check("SPUBLISH hello m", ":1");
    assert_eq!(harness.on(1).received(), "[smessage hello m]");
}

#[test]
fn a_watched_key_whose_slot_left_has_changed() {
    let mut harness = node();
    harness.check("WATCH bar", "+OK");
    lose_bar(&harness);
    harness.check("MULTI", "+OK");
    harness.check("SET hello 1", "+QUEUED");
    harness.check("EXEC", "(nil array)");
    harness.check("EXISTS hello", ":0");
}

#[test]
fn a_transaction_whose_slot_left_is_sent_after_it() {
    let mut harness = node();
    for line in ["MULTI", "SET bar 1"] {
        harness.run(line);
    }
    lose_bar(&harness);
    harness.check("EXEC", "-MOVED 5061 127.0.0.1:7001");
    harness.check("EXEC", "-ERR EXEC without MULTI");
}

#[test]
fn work_on_the_long_lane_stores_nothing_where_its_slot_has_left() {
    let mut harness = node();
    for set in ["{bar}a", "{bar}b"] {
        let members: Vec<String> = (0..20_000).map(|member| member.to_string()).collect();
        harness.run(&format!("SADD {set} {}", members.join(" ")));
    }
    let server = harness.server.clone();
    harness.before_job(move || {
        let nodes = format!(
            "{ME} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5060 5062-8191\n\
             {OTHER} 127.0.0.1:7001@17001 master - 0 0 2 connected 5061 8192-16383\n"
        );
        server.cluster.install(topology_of(&nodes));
    });
    harness.check("SINTERSTORE {bar}c {bar}a {bar}b", "-MOVED 5061 127.0.0.1:7001");
    assert_eq!(harness.deferred, 1);
    assert_eq!(harness.server.keyspace.count_in_slot(0, 5061), 2);
}

#[test]
fn a_topology_without_this_node_serves_nothing() {
    let mut harness = Harness::of_node(&[], &"c".repeat(40));
    install(&harness, "master", "-", "0-8191", "8192-16383");
    harness.check("GET bar", "-MOVED 5061 127.0.0.1:7000");
    harness.check("READONLY", "+OK");
    harness.check("GET bar", "-MOVED 5061 127.0.0.1:7000");
}

#[test]
fn a_dead_primary_with_a_live_replica_takes_nobody_else_with_it() {
    let replica = "c".repeat(40);
    let nodes = format!(
        "{ME} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-8191\n\
         {OTHER} 127.0.0.1:7001@17001 master,fail - 0 0 2 disconnected 8192-16383\n\
         {replica} 127.0.0.1:7002@17002 slave {OTHER} 0 0 2 connected\n"
    );
    let mut harness = Harness::of_node(&[("client-compat", "modern")], ME);
    harness.server.cluster.install(topology_of(&nodes));
    harness.check("GET bar", "(nil)");
    harness.check("GET foo", "-MOVED 12182 127.0.0.1:7001");
    harness.check("CLUSTER NODES", &nodes);
    let info = harness.run("CLUSTER INFO");
    assert!(info.contains("cluster_state:ok\r\n") && info.contains("cluster_slots_fail:8192\r\n"), "{info}");
    harness.server.cluster.install(topology_of(&nodes.replace("slave", "slave,fail")));
    harness.check("GET bar", "-CLUSTERDOWN The cluster is down");
    harness.check("CONFIG SET cluster-require-full-coverage no", "+OK");
    harness.check("GET bar", "(nil)");
    let shown = harness.run("CLUSTER SHARDS");
    assert_eq!(
        (shown.matches("health fail").count(), shown.matches("health online").count()),
        (2, 1),
        "{shown}"
    );
    assert!(!harness.run("CLUSTER SLOTS").contains("7002"), "replicas that are not there are not told of");
}

#[test]
fn each_connection_is_told_of_another_range_first() {
    let mut harness = node();
    let mut first = Vec::new();
    for number in 0..4 {
        let told = harness.on(number).run("CLUSTER SLOTS");
        assert!(
            told.contains("[:0 :8191 [127.0.0.1 :7000") && told.contains("[:8192 :16383 [127.0.0.1 :7001"),
            "{told}"
        );
        first.push(told.split(' ').next().map(str::to_owned));
    }
    first.sort();
    assert_eq!(first, ["[[:0", "[[:0", "[[:8192", "[[:8192"].map(|word| Some(word.to_owned())));
}
