//! The cluster commands that change something: what they refuse by themselves, with Redis's texts, and what they ask of the cluster.

use cluster::agent::{Ask, FailoverKind};
use cluster::edits::Edit;
use cluster::ids::{NodeId, ShardId};
use cluster::slots::SlotRanges;
use engine::cluster_face::topology_of;
use engine::testing::Harness;

/// The harness's own node.
fn me() -> String {
    "0".repeat(40)
}

fn id(digit: &str) -> String {
    digit.repeat(40)
}

fn slots(text: &str) -> SlotRanges {
    SlotRanges::try_from(text.to_owned()).expect("slots")
}

/// A node of a cluster of two primaries, each with a replica; it is this one of them.
fn cluster(role: &str) -> Harness {
    let harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    let (mine, others) = match role {
        "primary" => (
            format!("{} 127.0.0.1:1@2 myself,master - 0 0 2 connected 0-99\n", me()),
            format!("{} 127.0.0.1:5@6 slave {} 0 0 2 connected\n", id("a"), me()),
        ),
        _ => (
            format!("{} 127.0.0.1:1@2 myself,slave {} 0 0 2 connected\n", me(), id("a")),
            format!("{} 127.0.0.1:5@6 master - 0 0 2 connected 0-99\n", id("a")),
        ),
    };
    let rest = format!(
        "{} 127.0.0.1:3@4 master - 0 0 3 connected 100-200\n{} 127.0.0.1:7@8 slave {} 0 0 3 connected\n",
        id("b"),
        id("c"),
        id("b")
    );
    harness.server.cluster.install(topology_of(&format!("{mine}{others}{rest}")));
    harness.server.cluster.serve_until(u64::MAX);
    harness
}

#[test]
fn what_cannot_be_is_refused_with_redis_s_texts() {
    let (unknown, range) = (id("f"), "-ERR Invalid or out of range slot");
    let action = "-ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
    for (line, expected) in [
        ("ADDSLOTS x", range.to_owned()),
        ("ADDSLOTS 16384", range.to_owned()),
        ("ADDSLOTS 300 300", "-ERR Slot 300 specified multiple times".to_owned()),
        ("DELSLOTS 2 2", "-ERR Slot 2 specified multiple times".to_owned()),
        (
            "ADDSLOTSRANGE 1 2 3",
            "-ERR wrong number of arguments for 'cluster|addslotsrange' command".to_owned(),
        ),
        (
            "ADDSLOTSRANGE 305 303",
            "-ERR start slot number 305 is greater than end slot number 303".to_owned(),
        ),
        ("DELSLOTSRANGE 5 3", "-ERR start slot number 5 is greater than end slot number 3".to_owned()),
        (
            "DELSLOTSRANGE 1 2 3",
            "-ERR wrong number of arguments for 'cluster|delslotsrange' command".to_owned(),
        ),
        ("MEET a b", "-ERR Invalid TCP base port specified: b".to_owned()),
        ("MEET 127.0.0.1 99999", "-ERR Invalid node address specified: 127.0.0.1:99999".to_owned()),
        ("MEET 127.0.0.1 1 x", "-ERR Invalid TCP bus port specified: x".to_owned()),
        ("MEET a 1", "-ERR Invalid node address specified: a:1".to_owned()),
        ("MEET 127.0.0.1 0", "-ERR Invalid node address specified: 127.0.0.1:0".to_owned()),
        ("MEET 127.0.0.1 70000 7", "-ERR Invalid node address specified: 127.0.0.1:70000".to_owned()),
        ("SETSLOT 99999 STABLE", range.to_owned()),
        ("SETSLOT 10 NODE", action.to_owned()),
        ("SETSLOT 10 FOO BAR", action.to_owned()),
        ("SETSLOT 10 STABLE x", action.to_owned()),
        (&format!("SETSLOT 10 NODE {unknown}"), format!("-ERR Unknown node {unknown}")),
        ("SETSLOT 10 NODE xx", "-ERR Unknown node xx".to_owned()),
        (&format!("SETSLOT 10 NODE {}", id("c")), "-ERR Target node is not a master".to_owned()),
        (&format!("SETSLOT 10 MIGRATING {unknown}"), format!("-ERR I don't know about node {unknown}")),
        (&format!("SETSLOT 150 MIGRATING {unknown}"), "-ERR I'm not the owner of hash slot 150".to_owned()),
        (&format!("SETSLOT 10 IMPORTING {unknown}"), "-ERR I'm already the owner of hash slot 10".to_owned()),
        (&format!("SETSLOT 150 IMPORTING {}", id("c")), "-ERR Target node is not a master".to_owned()),
        (&format!("REPLICATE {}", me()), "-ERR Can't replicate myself".to_owned()),
        ("REPLICATE xx", "-ERR Unknown node xx".to_owned()),
        (&format!("REPLICATE {}", id("c")), "-ERR I can only replicate a master, not a replica.".to_owned()),
        (
            &format!("REPLICATE {}", id("b")),
            "-ERR To set a master the node must be empty and without assigned slots.".to_owned(),
        ),
        (&format!("FORGET {}", me()), "-ERR I tried hard but I can't forget myself...".to_owned()),
        ("FORGET xx", "-ERR Unknown node xx".to_owned()),
        ("FAILOVER", "-ERR You should send CLUSTER FAILOVER to a replica".to_owned()),
        ("FAILOVER FOO", "-ERR syntax error".to_owned()),
        ("SET-CONFIG-EPOCH x", "-ERR value is not an integer or out of range".to_owned()),
        ("SET-CONFIG-EPOCH -1", "-ERR Invalid config epoch specified: -1".to_owned()),
        ("SET-CONFIG-EPOCH 1", "-ERR Node config epoch is already non-zero".to_owned()),
        ("RESET FOO", "-ERR syntax error".to_owned()),
    ] {
        let mut harness = cluster("primary");
        harness.check(&format!("CLUSTER {line}"), &expected);
        assert_eq!(harness.asked(), [], "{line}");
    }
}

#[test]
fn what_can_be_is_asked_of_the_cluster() {
    let node = |digit: &str| NodeId::new(&id(digit)).expect("40 digits");
    let mut harness = cluster("primary");
    let own = ShardId::new(&harness.server.cluster.shard_id()).expect("40 digits");
    let of_b = harness.server.cluster.topology().expect("it is installed");
    let of_b = of_b.shards[of_b.nodes[of_b.place_of(&node("b")).expect("it is there")].shard.expect("one")]
        .id
        .clone();
    for (line, asked) in [
        ("ADDSLOTS 300 302 301", Ask::Edit(Edit::AddSlots(own.clone(), slots("300-302")))),
        ("ADDSLOTSRANGE 300 310 400 401", Ask::Edit(Edit::AddSlots(own.clone(), slots("300-310,400-401")))),
        ("DELSLOTS 7", Ask::Edit(Edit::DeleteSlots(own.clone(), slots("7")))),
        ("DELSLOTSRANGE 7 9", Ask::Edit(Edit::DeleteSlots(own.clone(), slots("7-9")))),
        ("FLUSHSLOTS", Ask::Edit(Edit::DeleteSlots(own.clone(), slots("0-99")))),
        (&format!("SETSLOT 10 NODE {}", id("b")), Ask::Edit(Edit::SetSlots(of_b, slots("10")))),
        ("MEET 127.0.0.1 3", Ask::Enter),
        (&format!("FORGET {}", id("c")), Ask::Edit(Edit::Forget(node("c")))),
        ("SET-CONFIG-EPOCH 9", Ask::Edit(Edit::Epoch(own.clone(), Some(9)))),
    ] {
        harness.answer_asks();
        harness.check(&format!("CLUSTER {line}"), "+OK");
        assert_eq!(harness.asked(), [asked], "{line}");
    }
    harness.check("CLUSTER BUMPEPOCH", "+BUMPED 2");
    assert_eq!(harness.asked(), [Ask::Edit(Edit::Epoch(own, None))]);
    harness.check("CLUSTER SAVECONFIG", "+OK");
    for line in ["MULTI", "CLUSTER ADDSLOTS 300", "EXEC"] {
        harness.run(line);
    }
    assert_eq!(harness.asked(), [], "a transaction holds what a change may wait for");
}

#[test]
fn replicas_are_asked_for_other_things() {
    let mut harness = cluster("replica");
    harness.answer_asks();
    harness.check("CLUSTER SETSLOT 10 STABLE", "-ERR You can use SETSLOT only with masters.");
    harness.check(&format!("CLUSTER FORGET {}", id("a")), "-ERR Can't forget my master!");
    assert_eq!(harness.asked(), []);
    for (line, asked) in [
        ("FAILOVER FORCE", Ask::Failover(FailoverKind::Force)),
        ("FAILOVER TAKEOVER", Ask::Failover(FailoverKind::Takeover)),
    ] {
        harness.check(&format!("CLUSTER {line}"), "+OK");
        assert_eq!(harness.asked(), [asked], "{line}");
    }
    harness.check(&format!("CLUSTER REPLICATE {}", id("b")), "+OK");
    assert!(matches!(&harness.asked()[..], [Ask::Edit(Edit::Join(node, _))] if node.as_str() == me()));
}

#[test]
fn slots_are_opened_here_and_given_by_who_owns_them() {
    let mut harness = cluster("primary");
    harness.answer_asks();
    for line in [
        format!("SETSLOT 10 MIGRATING {}", id("b")),
        "SETSLOT 10 STABLE".to_owned(),
        format!("SETSLOT 150 IMPORTING {}", id("b")),
        // Its owner gives it.
        format!("SETSLOT 150 NODE {}", me()),
    ] {
        harness.check(&format!("CLUSTER {line}"), "+OK");
        assert_eq!(harness.asked(), [], "{line}");
    }
    assert!(harness.server.cluster.imports(150));
}

#[test]
fn a_node_that_is_alone_has_nobody_to_ask() {
    let mut harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    for line in ["ADDSLOTS 1", "MEET 127.0.0.1 1", "BUMPEPOCH"] {
        harness.check(&format!("CLUSTER {line}"), "-ERR This node has no etcd (cluster-etcd)");
    }
    harness.check("CLUSTER RESET", "+OK");
    harness.check("CLUSTER SAVECONFIG", "+OK");
}
