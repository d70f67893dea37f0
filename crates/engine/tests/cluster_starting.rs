//! A node that does not know its cluster yet: it does not answer as if it did.

use engine::cluster_face::topology_of;
use engine::testing::Harness;

const ME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const MOVED: &str = "-MOVED 5061 127.0.0.1:7001";

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
