//! Tests of the one-node cluster's face: what it says of itself, and its file.

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
