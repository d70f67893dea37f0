//! Tests of the one-node cluster's face: what it says of itself, and its file.

use cluster::ids::{Life, Member, ShardId};
use cluster::records::{Key, LiveRecord, NodeRecord, Promise, Record, ShardRecord};
use cluster::slots::SlotMap;
use cluster::topology::Records;

use super::*;
use crate::testing::Harness;

fn cluster(directives: &[(&str, &str)]) -> Harness {
    let mut all = vec![("cluster-enabled", "yes"), ("client-compat", "modern")];
    all.extend(directives);
    Harness::with_config(&all)
}

#[test]
fn the_topology_in_every_endpoint_type() {
    let id = "0".repeat(40);
    let named = ("cluster-announce-hostname", "h.example");
    for (directives, slots, endpoint, hostname) in [
        (vec![], "127.0.0.1 :6379 ID []", "127.0.0.1", ""),
        (vec![named], "127.0.0.1 :6379 ID [hostname h.example]", "127.0.0.1", "h.example"),
        (vec![("cluster-preferred-endpoint-type", "hostname")], "? :6379 ID [ip 127.0.0.1]", "?", ""),
        (
            vec![("cluster-preferred-endpoint-type", "hostname"), named],
            "h.example :6379 ID [ip 127.0.0.1]",
            "h.example",
            "h.example",
        ),
        (
            vec![("cluster-preferred-endpoint-type", "unknown-endpoint"), named],
            "(nil) :6379 ID [ip 127.0.0.1 hostname h.example]",
            "",
            "h.example",
        ),
    ] {
        let mut harness = cluster(&directives);
        let slots = slots.replace("ID", &id);
        harness.check("CLUSTER SLOTS", &format!("[[:0 :16383 [{slots}]]]"));
        let name = if hostname.is_empty() { String::new() } else { format!(" hostname {hostname}") };
        let shard = format!(
            "[[slots [:0 :16383] nodes [[id {id} port :6379 ip 127.0.0.1 endpoint {endpoint}{name} role master \
             replication-offset :0 health online]]]]"
        );
        harness.check("CLUSTER SHARDS", &shard);
        let name = if hostname.is_empty() { String::new() } else { format!(",{hostname}") };
        let line = format!("{id} 127.0.0.1:6379@16379{name} myself,master - 0 0 0 connected 0-16383\n");
        harness.check("CLUSTER NODES", &line);
    }
}

#[test]
fn old_clients_get_three_elements_and_a_host() {
    let id = "0".repeat(40);
    let host = ("cluster-announce-hostname", "h.example");
    for (directives, expected) in [
        (vec![], "127.0.0.1"),
        (vec![("cluster-preferred-endpoint-type", "unknown-endpoint")], "127.0.0.1"),
        (vec![("cluster-preferred-endpoint-type", "hostname")], "127.0.0.1"),
        (vec![("cluster-preferred-endpoint-type", "hostname"), host], "h.example"),
    ] {
        for compat in ["auto", "legacy"] {
            let mut all = directives.clone();
            all.push(("client-compat", compat));
            cluster(&all).check("CLUSTER SLOTS", &format!("[[:0 :16383 [{expected} :6379 {id}]]]"));
        }
    }
}

#[test]
fn what_is_announced_is_told_and_follows_config_set() {
    let mut harness = cluster(&[("cluster-announce-ip", "10.0.0.1"), ("cluster-announce-port", "7001")]);
    let line =
        |address: &str| format!("{} {address} myself,master - 0 0 0 connected 0-16383\n", "0".repeat(40));
    harness.check("CLUSTER NODES", &line("10.0.0.1:7001@16379"));
    harness.server.config.set_from(&[(b"cluster-announce-ip", b"10.0.0.2")], false).expect("a valid address");
    harness.check("CLUSTER NODES", &line("10.0.0.2:7001@16379"));
    harness.server.config.set_from(&[(b"cluster-announce-bus-port", b"5")], false).expect("a valid port");
    harness.check("CLUSTER NODES", &line("10.0.0.2:7001@5"));
    let lines = harness.run("CLUSTER NODES").matches("myself").count();
    assert_eq!(lines, 1);
}

#[test]
fn each_client_is_told_the_address_it_knows() {
    let config = Config::defaults();
    config.override_value("bind", b"10.0.0.9 127.0.0.1").expect("valid addresses");
    let face = ClusterFace::new(&config, &Process::default());
    let told = |peer: &Peer| {
        let (replies, _) = face.replies(&config, peer).expect("the cluster is known");
        String::from_utf8_lossy(replies.nodes(resp::Proto::V2)).into_owned()
    };
    let tcp = |local: &str| {
        Peer::tcp("10.9.9.9:1".parse().expect("an address"), local.parse().expect("an address"))
    };
    for (peer, expected) in [
        (tcp("192.168.1.5:6379"), " 192.168.1.5:6379@16379 "),
        (tcp("[::ffff:10.0.0.1]:6379"), " 10.0.0.1:6379@16379 "),
        (tcp("[fe80::1]:6379"), " fe80::1:6379@16379 "),
        (Peer::Unix("/tmp/s".into()), " 10.0.0.9:6379@16379 "),
    ] {
        assert!(told(&peer).contains(expected), "{peer:?}: {}", told(&peer));
    }
    for last in 0..=255 {
        told(&tcp(&format!("10.1.1.{last}:6379")));
    }
    assert_eq!(face.encoded.read().by_way.len(), WAYS_MAX, "addresses-bounded");
}

#[test]
fn resp3_has_maps_and_verbatim_text() {
    let mut harness = cluster(&[("cluster-announce-hostname", "h")]).resp3();
    let id = "0".repeat(40);
    harness.check("CLUSTER SLOTS", &format!("[[:0 :16383 [127.0.0.1 :6379 {id} %{{hostname=h}}]]]"));
    assert!(harness.run("CLUSTER SHARDS").starts_with("[%{slots=[:0 :16383] nodes=[%{id="));
    assert!(harness.run("CLUSTER NODES").starts_with(&format!("={id} ")));
    assert!(harness.run("CLUSTER INFO").starts_with("=cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"));
}

#[test]
fn redirections_lead_to_where_nodes_are_now() {
    let id = |digit: &str| NodeId::new(&digit.repeat(40)).expect("40 digits");
    let shard = |digit: &str| ShardId::new(&digit.repeat(40)).expect("40 digits");
    let mut records = Records::default();
    let put = |records: &mut Records, digit: &str, port: u16| {
        let primary = Member { node: id(digit), life: Life(1) };
        let facts = NodeRecord {
            ip: "127.0.0.1".to_owned(),
            port,
            tls_port: 0,
            bus_port: 1,
            hostname: String::new(),
            zone: String::new(),
            shard: shard(digit),
            version: String::new(),
        };
        let lead = ShardRecord {
            epoch: 1,
            primary: primary.clone(),
            in_sync: vec![primary],
            promise: Promise::Nothing,
            began_at: 0,
        };
        let revision = records.revision + 1;
        records.put(Key::Node(id(digit)), Record::Node(facts), revision);
        records.put(Key::Live(id(digit)), Record::Live(LiveRecord { life: Life(1) }), revision);
        records.put(Key::Shard(shard(digit)), Record::Shard(lead), revision);
    };
    for (digit, port) in [("0", 6379), ("5", 7005), ("9", 7009)] {
        put(&mut records, digit, port);
    }
    let mut map = SlotMap::default();
    for (digit, slots) in [("0", 0..5_000), ("5", 5_000..12_000), ("9", 12_000..16_384)] {
        map.assign(slots, Some(&shard(digit))).expect("one owner");
    }
    records.put(Key::Slots, Record::Slots(map), 10);
    let mut harness = cluster(&[]);
    let mut before: Option<Topology> = None;
    // The second is somewhere else; then nodes come before and behind it; then one goes.
    for (changes, second, third) in [
        (vec![], 7005, 7009),
        (vec![("5", 8005)], 8005, 7009),
        (vec![("3", 7003), ("7", 7007), ("a", 7010)], 8005, 7009),
        (vec![("9", 8009)], 8005, 8009),
    ] {
        for (digit, port) in changes {
            put(&mut records, digit, port);
        }
        let topology = Topology::after(&records, before.as_ref()).expect("one owner each");
        harness.server.cluster.install(Arc::new(topology.clone()));
        harness.check("GET {bar}", &format!("-MOVED 5061 127.0.0.1:{second}"));
        harness.check("GET foo", &format!("-MOVED 12182 127.0.0.1:{third}"));
        before = Some(topology);
    }
    harness
        .server
        .config
        .override_value("cluster-preferred-endpoint-type", b"unknown-endpoint")
        .expect("a value");
    harness.server.cluster.follow(&harness.server.config);
    harness.check("GET foo", "-MOVED 12182 :8009");
}
