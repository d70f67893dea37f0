//! SENTINEL, as clients of Redis Sentinel ask: who is the primary, who are its replicas, who else can be asked.

use engine::cluster_face::topology_of;
use engine::testing::Harness;

const PRIMARY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const REPLICA: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const THIRD: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// One shard of three nodes, as the first tells of it; `states` are the flags and primaries of each.
fn nodes(states: [(&str, &str); 3]) -> String {
    let ids = [PRIMARY, REPLICA, THIRD];
    let line = |(at, (flags, primary)): (usize, (&str, &str))| {
        let slots = if flags.contains("master") { " 0-16383" } else { "" };
        format!("{} 10.0.0.{at}:7000@17000 {flags} {primary} 0 0 4 connected{slots}\n", ids[at])
    };
    states.into_iter().enumerate().map(line).collect()
}

fn one_shard() -> Harness {
    // Connections of the harness come to this port.
    let harness = Harness::of_node(&[("sentinel-port", "6379")], PRIMARY);
    let states = [("myself,master", "-"), ("slave", PRIMARY), ("slave,fail", PRIMARY)];
    harness.server.cluster.install(topology_of(&nodes(states)));
    harness.server.sample();
    harness
}

#[test]
fn the_primary_and_its_replicas_are_found() {
    let mut harness = one_shard();
    harness.check("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster", "[10.0.0.0 7000]");
    harness.check("sentinel get-master-addr-by-name other", "(nil array)");
    let primary = format!(
        "[name mymaster ip 10.0.0.0 port 7000 runid {PRIMARY} flags master link-pending-commands 0 link-refcount 1 \
         last-ping-sent 0 last-ok-ping-reply 0 last-ping-reply 0 down-after-milliseconds 2000 info-refresh 0 \
         role-reported master role-reported-time 0 config-epoch 4 num-slaves 2 num-other-sentinels 2 quorum 2 \
         failover-timeout 180000 parallel-syncs 1]"
    );
    harness.check("SENTINEL MASTERS", &format!("[{primary}]"));
    harness.check("SENTINEL MASTER mymaster", &primary);
    let replicas = harness.run("SENTINEL REPLICAS mymaster");
    assert_eq!(replicas, harness.run("SENTINEL SLAVES mymaster"));
    assert!(
        replicas
            .starts_with(&format!("[[name 10.0.0.1:7000 ip 10.0.0.1 port 7000 runid {REPLICA} flags slave "))
    );
    assert!(replicas.contains(&format!("runid {THIRD} flags s_down,slave,disconnected ")), "{replicas}");
    assert!(
        replicas.contains("master-link-status ok master-host 10.0.0.0 master-port 7000 slave-priority 100 ")
    );
    let others = harness.run("SENTINEL SENTINELS mymaster");
    assert!(
        others
            .starts_with(&format!("[[name {REPLICA} ip 10.0.0.1 port 6379 runid {REPLICA} flags sentinel "))
    );
    assert_eq!(others.matches("voted-leader ? voted-leader-epoch 0]").count(), 2, "{others}");
    harness.check("SENTINEL MYID", PRIMARY);
    harness.check("ROLE", "[sentinel [mymaster]]");
    let info = harness.run("INFO");
    assert!(info.contains("redis_mode:sentinel\r\n"), "{info}");
    assert!(
        info.contains("master0:name=mymaster,status=ok,address=10.0.0.0:7000,slaves=2,sentinels=3\r\n"),
        "{info}"
    );
}

#[test]
fn mistakes_are_told_as_redis_tells_them() {
    let mut harness = one_shard();
    for (line, expected) in [
        ("SENTINEL MASTER other", "-ERR No such master with that name"),
        ("SENTINEL REPLICAS other", "-ERR No such master with that name"),
        ("SENTINEL SENTINELS other", "-ERR No such master with that name"),
        ("SENTINEL CKQUORUM other", "-ERR No such master with that name"),
        ("SENTINEL MASTER", "-ERR wrong number of arguments for 'sentinel|master' command"),
        ("SENTINEL NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try SENTINEL HELP."),
        ("SENTINEL", "-ERR wrong number of arguments for 'sentinel' command"),
        (
            "SENTINEL CKQUORUM mymaster",
            "+OK 2 usable Sentinels. Quorum and failover authorization can be reached",
        ),
        ("SENTINEL IS-MASTER-DOWN-BY-ADDR 10.0.0.0 7000 0 *", "[:0 * :0]"),
    ] {
        harness.check(line, expected);
    }
    assert!(harness.run("SENTINEL HELP").starts_with("[+SENTINEL <subcommand>"));
}

#[test]
fn elsewhere_there_is_no_such_command() {
    let unknown = "-ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' ";
    Harness::new().check("SENTINEL MASTERS", unknown);
    Harness::with_config(&[("sentinel-port", "6379")]).check("SENTINEL MASTERS", unknown);
    let mut harness = Harness::of_node(&[("sentinel-port", "1")], PRIMARY);
    harness.check("SENTINEL MASTERS", unknown);
    assert!(harness.run("INFO server").contains("redis_mode:cluster"));
    assert!(harness.run("ROLE").starts_with("[master "));
}

#[test]
fn subscribers_are_told_of_another_primary() {
    let mut harness = one_shard();
    harness.check("SUBSCRIBE +switch-master", "[subscribe +switch-master :1]");
    harness.server.sample();
    assert_eq!(harness.received(), "");
    let states = [("myself,slave", REPLICA), ("master", "-"), ("slave", REPLICA)];
    harness.server.cluster.install(topology_of(&nodes(states)));
    harness.server.sample();
    assert_eq!(harness.received(), "[message +switch-master mymaster 10.0.0.0 7000 10.0.0.1 7000]");
    harness.on(1).check("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster", "[10.0.0.1 7000]");
    harness.server.sample();
    assert_eq!(harness.on(0).received(), "");
}

#[test]
fn several_shards_are_told_apart_by_their_ids() {
    let mut harness = one_shard();
    let nodes = format!(
        "{PRIMARY} 10.0.0.0:7000@17000 myself,master - 0 0 1 connected 0-99\n\
         {REPLICA} 10.0.0.1:7000@17000 master - 0 0 2 connected 100-16383\n\
         {THIRD} 10.0.0.2:7000@17000 master - 0 0 0 connected\n"
    );
    harness.server.cluster.install(topology_of(&nodes));
    harness.check("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster-aaaaaaaa", "[10.0.0.0 7000]");
    harness.check("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster-bbbbbbbb", "[10.0.0.1 7000]");
    harness.check("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster", "(nil array)");
    harness.check("ROLE", "[sentinel [mymaster-aaaaaaaa mymaster-bbbbbbbb]]");
}

#[test]
fn a_node_that_is_alone_is_the_primary() {
    let mut harness = Harness::of_node(&[("sentinel-port", "6379"), ("sentinel-master-name", "db")], PRIMARY);
    harness.check("SENTINEL GET-MASTER-ADDR-BY-NAME db", "[127.0.0.1 6379]");
    let mut harness = harness.resp3();
    assert!(harness.run("SENTINEL MASTERS").starts_with("[%{name=db ip=127.0.0.1 port=6379 runid=aaaa"));
}
