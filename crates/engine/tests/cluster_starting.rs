//! A node that does not know its cluster yet, and a replica that does not have its shard's data yet: neither answers as if it did.

use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::records::NodeRecord;
use engine::cluster_face::topology_of;
use engine::replication::replica::Primary;
use engine::testing::Harness;

const ME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const MOVED: &str = "-MOVED 5061 127.0.0.1:7001";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// This node and another one, which has all slots; `role` is this one's words of CLUSTER NODES.
fn install(harness: &Harness, role: &str) {
    let nodes = format!(
        "{ME} 127.0.0.1:7000@17000 myself,{role} 0 0 1 connected\n\
         {OTHER} 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n"
    );
    harness.server.cluster.install(topology_of(&nodes));
}

/// A node that etcd has told nothing yet.
fn starting() -> Harness {
    let harness = Harness::of_node(&[], ME);
    let alone = format!("{ME} 127.0.0.1:7000@17000 myself,master - 0 0 0 connected\n");
    harness.server.cluster.await_etcd(topology_of(&alone), "not heard".to_owned());
    harness
}

#[test]
fn a_node_that_does_not_know_the_cluster_says_so() {
    let mut harness = starting();
    let replicas = format!("CLUSTER REPLICAS {ME}");
    let asking =
        ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER MYSHARDID", &replicas, "GET bar"];
    for line in asking {
        harness.check(line, "-CLUSTERDOWN not heard");
    }
    harness.check("CLUSTER MYID", ME);
    assert!(harness.run("CLUSTER INFO").starts_with("cluster_state:fail\r\n"));
    // What etcd holds cannot be used: that is the reason now.
    harness.server.cluster.refuse("another cluster".to_owned());
    asking.iter().for_each(|line| harness.check(line, "-CLUSTERDOWN another cluster"));
    install(&harness, "master -");
    assert!(harness.run("CLUSTER SLOTS").starts_with("[[:0 :16383 [127.0.0.1 :7001"));
    harness.check("GET bar", MOVED);
    // From then on it tells what it has known last.
    harness.server.cluster.refuse("forgotten".to_owned());
    assert!(harness.run("CLUSTER SLOTS").starts_with("[[:0 :16383 [127.0.0.1 :7001"));
    harness.check("GET bar", "-CLUSTERDOWN forgotten");
}

/// Has this node follow the other one, which is reached by nobody here.
fn follow(harness: &Harness) {
    let node = NodeRecord {
        ip: "127.0.0.1".to_owned(),
        port: 7001,
        tls_port: 0,
        bus_port: 17_001,
        hostname: String::new(),
        zone: String::new(),
        shard: ShardId::new(OTHER).expect("an id"),
        version: String::new(),
    };
    let primary = Member { node: NodeId::new(OTHER).expect("an id"), life: Life(1) };
    harness.server.cluster_follow(&node, primary, 2);
    install(harness, &format!("slave {OTHER}"));
}

fn term(harness: &Harness) -> u64 {
    harness.server.replication.following.term()
}

#[test]
fn a_replica_that_has_just_started_sends_readers_to_its_primary() {
    let mut harness = starting();
    follow(&harness);
    harness.check("READONLY", "+OK");
    harness.check("GET bar", MOVED);
    harness.check("MULTI", "+OK");
    harness.check("GET bar", MOVED);
    harness.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    harness.check("EVAL \"return redis.call('get', KEYS[1])\" 1 bar", MOVED);
    // The primary goes on with the stream where this server has it.
    assert!(harness.server.resume_stream(term(&harness), None));
    harness.check("GET bar", "(nil)");
    harness.on(1).check("GET bar", MOVED);
}

#[test]
fn a_replica_that_throws_its_data_away_for_others_sends_readers_to_its_primary() {
    let mut harness = Harness::of_node(&[], ME);
    follow(&harness);
    harness.check("READONLY", "+OK");
    harness.check("GET bar", "(nil)");
    harness.on(1).check("READONLY", "+OK");
    for (line, expected) in [("MULTI", "+OK"), ("GET bar", "+QUEUED")] {
        harness.check(line, expected);
    }
    assert!(harness.server.begin_sync_load(term(&harness), 0));
    harness.check("EXEC", MOVED);
    harness.on(0).check("GET bar", MOVED);
    harness.check("DBSIZE", &format!("-{LOADING}"));
    // The data could not be loaded: it has none until they are.
    harness.server.abandon_sync_load();
    harness.check("DBSIZE", ":0");
    harness.check("GET bar", MOVED);
    assert!(harness.server.begin_sync_load(term(&harness), 0));
    assert!(harness.server.end_sync_load(term(&harness), &"c".repeat(40), 100, 0));
    harness.check("GET bar", "(nil)");
    // A primary has what it has.
    assert!(harness.server.begin_sync_load(term(&harness), 0));
    harness.server.abandon_sync_load();
    harness.check("GET bar", MOVED);
    harness.server.cluster_lead(3, &[], false);
    harness.check("GET bar", "(nil)");
}

#[test]
fn what_was_queued_does_not_see_data_that_are_being_loaded() {
    let mut harness = Harness::new();
    let elements: Vec<String> =
        (0..base::limits::BIG_INPUT_ELEMENTS).map(|number| number.to_string()).collect();
    harness.run(&format!("SADD big {}", elements.join(" ")));
    harness.server.follow(Primary { host: "primary".to_owned(), port: 7000 });
    for (number, line) in [(0, "GET k"), (1, "SUNION big big"), (2, "INFO persistence")] {
        harness.on(number).check("MULTI", "+OK");
        harness.check(line, "+QUEUED");
    }
    let server = harness.server.clone();
    // The second one's work is for the long lane, which comes to it after that.
    harness.before_job(move || assert!(server.begin_sync_load(server.replication.following.term(), 0)));
    harness.on(1).check("EXEC", &format!("-{LOADING}"));
    harness.on(0).check("EXEC", &format!("-EXECABORT Transaction discarded because of: {LOADING}"));
    assert!(harness.on(2).run("EXEC").contains("loading:1"));
    harness.on(3).check("MULTI", "+OK");
    harness.check("EXEC", "[]");
}
