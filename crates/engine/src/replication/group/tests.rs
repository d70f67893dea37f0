//! One server in its shard: the others' words are said by the test.

use cluster::agent::HoldId;
use cluster::ids::{Life, Member, NodeId};
use cluster::records::NodeRecord;

use super::Membership;
use crate::testing::Harness;

fn id(digit: &str) -> String {
    digit.repeat(40)
}

fn member(digit: &str) -> Member {
    Member { node: NodeId::new(&id(digit)).expect("40 digits"), life: Life(1) }
}

fn node_record() -> NodeRecord {
    let shard = cluster::ids::ShardId::new(&id("e")).expect("40 digits");
    let (ip, hostname, zone, version) = ("127.0.0.1".to_owned(), String::new(), String::new(), String::new());
    NodeRecord { ip, port: 7000, tls_port: 0, bus_port: 17_000, hostname, zone, shard, version }
}

/// A server that leads epoch 1 of its shard and awaits these.
fn leader(awaited: &[&str]) -> Harness {
    let harness = Harness::with_config(&[("cluster-enabled", "yes"), ("durability", "quorum")]);
    let awaited: Vec<Member> = awaited.iter().map(|digit| member(digit)).collect();
    harness.server.cluster_lead(1, &awaited, false);
    harness
}

/// What a member says of itself.
fn claim(harness: &Harness, digit: &str, epoch: u64) -> String {
    let primary = harness.server.cluster_me();
    let shard = node_record().shard;
    let membership = Membership { shard, epoch, member: member(digit), primary };
    format!("REPLCONF halcyon-member \"{membership}\"")
}

/// Connection `number` becomes a member of this shard that has everything.
fn attach(harness: &mut Harness, number: usize, digit: &str, epoch: u64) {
    let line = claim(harness, digit, epoch);
    harness.on(number).check(&line, "+OK");
    let ids = harness.server.replication.ids.lock().clone();
    let next = harness.server.log.end() + 1;
    let answer = harness.run(&format!("PSYNC {} {next}", ids.id));
    assert!(answer.starts_with("+CONTINUE"), "{answer}");
    acknowledge(harness, number, next - 1);
}

/// The member on this connection has all up to here.
fn acknowledge(harness: &mut Harness, number: usize, offset: u64) {
    assert_eq!(harness.on(number).run(&format!("REPLCONF ACK {offset}")), "");
    harness.on(0);
}

fn end(harness: &Harness) -> u64 {
    harness.server.log.end()
}

#[test]
fn replies_wait_for_every_copy_that_is_awaited() {
    let mut harness = leader(&["a", "b"]);
    attach(&mut harness, 1, "a", 1);
    attach(&mut harness, 2, "b", 1);
    let before = end(&harness);
    assert_eq!(harness.reply("SET key 1").waits_for(), Some(end(&harness)));
    let written = end(&harness);
    acknowledge(&mut harness, 1, written);
    assert_eq!(harness.server.gates.safe().in_copies, before, "the other lacks it");
    assert_eq!(harness.reply("GET key").waits_for(), Some(written));
    assert_eq!(harness.reply("GET other").waits_for(), None, "what it tells is everywhere");
    assert_eq!(harness.reply("PING").waits_for(), None);
    acknowledge(&mut harness, 2, written);
    assert_eq!(harness.reply("GET key").waits_for(), None);
    // A third joins: what it lacks is waited for, whoever has acknowledged it before.
    harness.server.cluster_lead(1, &[member("a"), member("b"), member("c")], false);
    assert_eq!(harness.reply("GET key").waits_for(), Some(end(&harness)));
    // One leaves: nobody waits for it.
    harness.server.cluster_lead(1, &[member("a")], false);
    assert_eq!(harness.reply("GET key").waits_for(), None);
    harness.check("CLIENT DURABILITY none", "+OK");
    assert_eq!(harness.reply("SET key 2").waits_for(), None);
    harness.check("CLIENT DURABILITY quorum", "+OK");
    assert_eq!(harness.reply("GET key").waits_for(), Some(end(&harness)));
}

#[test]
fn in_a_new_epoch_nobody_has_anything_yet() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    let written = end(&harness);
    acknowledge(&mut harness, 1, written);
    harness.server.cluster_lead(2, &[member("a")], false);
    assert!(harness.reply("GET key").waits_for() >= Some(written));
    assert_eq!(harness.reply("PING").waits_for(), None, "whoever comes to get what it lacks is answered");
    // What it acknowledges is of the epoch before.
    let later = end(&harness) + 100;
    acknowledge(&mut harness, 1, later);
    assert!(harness.reply("GET key").waits_for() >= Some(written));
    attach(&mut harness, 2, "a", 2);
    assert_eq!(harness.reply("GET key").waits_for(), None);
}

#[test]
fn where_replies_wait_for_the_disk_so_do_copies() {
    let mut harness = Harness::with_config(&[
        ("cluster-enabled", "yes"),
        ("durability", "quorum"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
    ]);
    harness.server.cluster_lead(1, &[member("a")], false);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    let written = end(&harness);
    acknowledge(&mut harness, 1, written);
    assert_eq!(harness.reply("GET key").waits_for(), Some(written), "it is not on its disk");
    harness.on(1).run(&format!("REPLCONF ACK {written} FACK {written}"));
    let reached = crate::gates::Reached { written_to: written, synced_to: written - 1 };
    harness.server.gates.set_reached(Some(reached));
    assert_eq!(harness.on(0).reply("GET key").waits_for(), Some(written), "nor on this one's");
    harness.server.gates.set_reached(Some(crate::gates::Reached { synced_to: written, ..reached }));
    assert_eq!(harness.reply("GET key").waits_for(), None);
}

#[test]
fn what_copies_have_counts_only_while_this_server_serves() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    let written = end(&harness);
    harness.server.cluster.serve_until(0);
    acknowledge(&mut harness, 1, written);
    assert_eq!(harness.server.safe().in_copies, 0, "another may lead by now, whatever this one had promised");
    harness.server.cluster.serve_until(u64::MAX);
    assert_eq!(harness.server.safe().in_copies, written);
}

#[test]
fn members_of_another_epoch_are_refused() {
    let mut harness = leader(&["a"]);
    harness.server.cluster_lead(5, &[member("a")], false);
    let line = claim(&harness, "a", 4);
    harness.on(1).check(&line, "-NOTLEADER This node leads epoch 5");
    let line = claim(&harness, "a", 6);
    harness.check(&line, "-NOTLEADER This node leads epoch 5");
    assert!(harness.server.cluster.serves.at(0), "it may have been told before this node was");
    let line = claim(&harness, "a", 5);
    harness.check(&line, "+OK");
    // It was admitted, and this server is deposed before it asks for the stream.
    harness.server.cluster_stand();
    assert!(harness.run("PSYNC ? -1").starts_with("-N"), "it leads nothing");
    harness.on(2).check(&line, "-NOTLEADER This node leads no shard now");
    harness.check("REPLCONF halcyon-member x", "-ERR syntax error");
}

#[test]
fn who_hears_of_a_newer_primary_serves_nothing() {
    let mut harness = leader(&["a"]);
    let claim = |digit: &str, epoch| {
        let shard = node_record().shard;
        let membership = Membership { shard, epoch, member: member(digit), primary: member("f") };
        format!("REPLCONF halcyon-member \"{membership}\"")
    };
    for (digit, epoch) in [("b", 9), ("a", 1)] {
        assert!(harness.on(1).run(&claim(digit, epoch)).starts_with("-NOTLEADER"));
        assert!(harness.server.cluster.serves.at(0), "{digit} {epoch}");
    }
    assert!(harness.run(&claim("a", 2)).starts_with("-NOTLEADER"));
    harness.server.cluster.serve_until(u64::MAX);
    assert!(!harness.server.cluster.serves.at(0));
    harness.server.cluster_lead(3, &[], false);
    harness.server.cluster.serve_until(u64::MAX);
    assert!(harness.server.cluster.serves.at(0));
}

#[test]
fn a_deposed_primary_tells_of_nothing_that_was_not_acknowledged() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET old 1");
    let acked = end(&harness);
    acknowledge(&mut harness, 1, acked);
    let mut reply = harness.reply("SET key 1");
    let (offset, awaits) = reply.closed_gate().expect("it waits");
    harness.server.cluster_follow(&node_record(), member("a"), 2);
    let copies = &harness.server.gates.copies;
    assert!(copies.is_lost(awaits) && reply.open(harness.server.gates.safe()) == 0);
    assert_eq!(offset, end(&harness));
    // What it has as a copy is another matter.
    assert!(harness.is_held_up("SET key 2"), "nobody knows yet who takes it");
    assert_eq!(harness.reply("GET key").waits_for(), None);
    assert!(harness.server.cluster_followers().is_empty());
    harness.server.cluster_lead(3, &[], false);
    assert_eq!(harness.reply("SET key 2").waits_for(), None, "nobody is awaited");
}

#[test]
fn writes_are_refused_while_too_few_are_in_sync() {
    let mut harness = leader(&[]);
    harness.server.cluster_lead(1, &[], true);
    let refusal = "-NOREPLICAS Not enough good replicas to write.";
    harness.check("SET key 1", refusal);
    harness.check("GET key", "(nil)");
    let scripted = harness.run("EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 key");
    assert!(scripted.starts_with("-NOREPLICAS"), "{scripted}");
    harness.check("MULTI", "+OK");
    harness.check("SET key 1", refusal);
    harness.check("DISCARD", "+OK");
    harness.server.cluster_lead(1, &[], false);
    harness.check("SET key 1", "+OK");
    harness.server.cluster_lead(1, &[], true);
    harness.server.cluster_stand();
    assert!(harness.is_held_up("SET key 1"));
}

#[test]
fn writes_wait_until_the_next_primary_has_everything() {
    let mut harness = leader(&["a", "b"]);
    attach(&mut harness, 1, "a", 1);
    attach(&mut harness, 2, "b", 1);
    harness.run("SET key 1");
    let written = end(&harness);
    harness.server.cluster_hold(HoldId(1), member("b"));
    assert!(harness.stops("SET key 2").is_some(), "it waits");
    assert_eq!(harness.stops("GET key"), None);
    // As one that had passed the pause when it began.
    harness.server.pause.stop();
    assert!(harness.is_held_up("SET key 2"));
    harness.advance_ms(500);
    harness.server.tend_replicas();
    assert_eq!(end(&harness), written, "nothing is appended");
    acknowledge(&mut harness, 1, written);
    acknowledge(&mut harness, 2, written - 1);
    assert!(harness.handed_over().is_empty());
    acknowledge(&mut harness, 2, written);
    acknowledge(&mut harness, 2, written);
    assert_eq!(harness.handed_over(), [(HoldId(1), true)]);
    harness.server.cluster_release();
    assert_eq!(harness.stops("SET key 2"), None);
    // One that takes too long.
    harness.server.cluster_hold(HoldId(2), member("b"));
    harness.advance_ms(1001);
    harness.server.tend_replicas();
    assert_eq!(harness.handed_over(), [(HoldId(2), false)]);
    // Whatever this server is by then.
    harness.server.cluster_follow(&node_record(), member("b"), 2);
    assert!(harness.stops("SET key 2").is_some());
    harness.server.cluster_release();
    assert!(harness.is_held_up("SET key 3"));
    harness.server.cluster_park();
    assert!(harness.stops("GET key").is_some());
    harness.server.cluster_release();
    assert_eq!(harness.stops("GET key"), None);
}

#[test]
fn writes_wait_until_a_new_replica_knows_who_is_primary() {
    let mut harness = leader(&["a"]);
    let me = harness.server.cluster_me().node;
    let lines = [
        "SET key 1",
        "EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 key",
        "SDIFFSTORE {key}1 key",
        "MSET {key}1 1 {key}2 2",
    ];
    // One is within a transaction, another about to run one.
    harness.on(1).check("MULTI", "+OK");
    harness.on(2).check("MULTI", "+OK");
    harness.check("SET key 1", "+QUEUED");
    harness.server.cluster_follow(&node_record(), member("a"), 2);
    assert!(harness.on(1).is_held_up("SET key 1"));
    assert!(harness.on(2).is_held_up("EXEC"));
    for line in lines {
        assert!(harness.on(0).is_held_up(line), "{line}");
    }
    harness.check("FLUSHALL", "-READONLY You can't write against a read only replica.");
    let nodes = format!(
        "{me} 127.0.0.1:7000@17000 myself,slave {0} 0 0 2 connected\n\
         {0} 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n",
        id("a"),
    );
    harness.server.cluster.install(crate::cluster_face::topology_of(&nodes));
    let moved = "-MOVED 12539 127.0.0.1:7001";
    for line in lines {
        harness.check(line, moved);
    }
    harness.on(1).check("SET key 1", moved);
    harness.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    harness.on(2).check("EXEC", moved);
}

#[test]
fn a_new_replica_queues_writes_for_the_new_primary() {
    let mut harness = Harness::with_config(&[
        ("cluster-enabled", "yes"),
        ("cluster-redirects", "damped"),
        ("cluster-redirect-rate", "0"),
    ]);
    harness.server.cluster_lead(1, &[], false);
    let me = harness.server.cluster_me().node;
    let install = |harness: &Harness, (mine, others): (&str, &str), slots: (&str, &str)| {
        let nodes = format!(
            "{me} 127.0.0.1:7000@17000 myself,{mine} 0 0 1 connected{}\n\
             {} 127.0.0.1:7001@17001 {others} 0 0 1 connected{}\n",
            slots.0,
            id("a"),
            slots.1,
        );
        harness.server.cluster.install(crate::cluster_face::topology_of(&nodes));
    };
    install(&harness, ("master -", &format!("slave {me}")), (" 0-16383", ""));
    harness.server.cluster_follow(&node_record(), member("a"), 2);
    install(&harness, (&format!("slave {}", id("a")), "master -"), ("", " 0-16383"));
    harness.check("MULTI", "+OK");
    harness.check("SET key 1", "+QUEUED");
    assert_eq!(harness.run("EXEC"), "", "it is forwarded");
}

#[test]
fn an_acknowledgement_tells_when_its_sender_was_heard() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    let now_us = |harness: &Harness| harness.server.clock.now().mono_us;
    let heard = |harness: &Harness| harness.server.cluster_followers()[0].clone();
    for _ in 0..5 {
        harness.advance_ms(250);
        harness.server.tend_replicas();
    }
    let silent = heard(&harness);
    assert!(silent.heard_us < now_us(&harness) - 1_000_000);
    assert!(silent.caught_up_us < now_us(&harness) - 900_000);
    let offset = end(&harness);
    acknowledge(&mut harness, 1, offset);
    let now = now_us(&harness);
    let follower = heard(&harness);
    assert_eq!((follower.heard_us, follower.caught_up_us, follower.acked_to), (now, now, offset));
    harness.advance_ms(100);
    assert_eq!(heard(&harness).caught_up_us, now_us(&harness), "it has all there is");
    acknowledge(&mut harness, 1, offset);
    assert_eq!(heard(&harness).heard_us, now, "it may be an old one");
}

#[test]
fn nothing_is_promised_once_it_stands() {
    let harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    let server = &harness.server;
    assert_eq!(server.cluster_promised_us(), None);
    server.cluster_follow(&node_record(), member("a"), 1);
    let term = server.replication.following.term();
    assert!(server.replication.following.plan(server).is_some());
    assert_eq!(server.cluster_promise(term), Some(server.log.end()));
    assert_eq!(server.cluster_promised_us(), Some(server.clock.now().mono_us));
    server.cluster_follow(&node_record(), member("a"), 1);
    assert_eq!(server.replication.following.term(), term, "it is followed already");
    server.cluster_stand();
    assert_eq!((server.cluster_promise(term), server.cluster_promise(term + 1)), (None, None));
    assert!(server.replication.following.plan(server).is_none());
}

#[test]
fn of_a_member_that_comes_again_the_newer_connection_counts() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    attach(&mut harness, 2, "a", 1);
    let followers = harness.server.cluster_followers();
    assert_eq!((followers.len(), followers[0].acked_to), (1, end(&harness)));
    let former = harness.server.replication.replicas.list().remove(0);
    assert!(former.client.kill.load(std::sync::atomic::Ordering::Relaxed), "it is closed");
}

#[test]
fn stamps_come_back_in_the_stream() {
    let mut harness = leader(&[]);
    let stamp = format!("{} 0000000000000001 12345", id("a"));
    assert_eq!(harness.effects(&format!("REPLCONF halcyon-stamp \"{stamp}\"")), "", "it is no replica");
    attach(&mut harness, 1, "a", 1);
    harness.on(1);
    let effects = harness.effects(&format!("REPLCONF halcyon-stamp \"{stamp}\""));
    assert_eq!(effects, format!("PING halcyon-stamp {stamp}"));
    assert_eq!(harness.effects(&format!("REPLCONF halcyon-stamp {}", "x".repeat(200))), "");
}

#[test]
fn a_replica_answers_while_it_is_young_enough() {
    let pairs = [("cluster-enabled", "yes"), ("replica-max-staleness-ms", "100")];
    let mut harness = Harness::with_config(&pairs);
    let server = harness.server.clone();
    harness.check("GET key", "(nil)");
    harness.advance_ms(1000);
    server.cluster_follow(&node_record(), member("a"), 1);
    let refusal = "-MASTERDOWN This replica may lack what its primary has had for longer than replica-max-staleness-ms allows.";
    harness.check("READONLY", "+OK");
    harness.check("GET key", refusal);
    harness.check("PING", "+PONG");
    let following = &server.replication.following;
    let take = |text: String| {
        let mut stream = Vec::new();
        resp::write_command(&mut stream, [b"PING".as_slice(), text.as_bytes()]);
        let mut reader = crate::replication::replica::StreamReader::new(0, 1);
        reader.push(&stream);
        let batch = reader.next(&server).expect("a stream").expect("a record");
        assert!(server.take_batch(following.term(), &batch, || {}));
    };
    let stamp = server.cluster_stamp();
    harness.advance_ms(50);
    take(format!("halcyon-stamp {} 0000000000000000 9999999999", id("a")));
    take("halcyon-stamp".to_owned());
    harness.check("GET key", refusal);
    take(format!("halcyon-stamp {stamp}"));
    harness.check("GET key", "(nil)");
    harness.advance_ms(50);
    harness.check("GET key", "(nil)");
    assert!(harness.run("INFO replication").contains("replica_staleness_ms:100\r\n"));
    harness.advance_ms(1);
    harness.check("GET key", refusal);
    server.config.override_value("replica-max-staleness-ms", b"0").expect("a number");
    harness.check("GET key", "(nil)");
}

#[test]
fn the_clock_is_read_only_where_an_acknowledgement_decides() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    let readings_of = |harness: &mut Harness, line: &str| {
        let before = harness.clock_readings();
        harness.reply(line);
        harness.clock_readings() - before
    };
    let line = "GET other";
    harness.run("CLIENT DURABILITY none");
    let plain = readings_of(&mut harness, line);
    harness.run("CLIENT DURABILITY quorum");
    assert_eq!(readings_of(&mut harness, line), plain, "what it tells is everywhere");
    assert_eq!(readings_of(&mut harness, "GET key"), plain, "not acknowledged, whatever the time is");
    let written = end(&harness);
    acknowledge(&mut harness, 1, written);
    assert_eq!(harness.reply("GET key").waits_for(), None);
}

#[test]
fn what_was_looked_at_once_counts_for_all_that_is_let_go_of() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    let mut replies = [harness.reply("SET key 1"), harness.reply("SET key 2")];
    let written = end(&harness);
    let mut worker = crate::worker::Worker::new(
        0,
        harness.server.stats[0].clone(),
        1,
        base::clock::Now { unix_ms: 0, unix_us: 0, mono_us: 0 },
    );
    worker.open_gates(&harness.server, &mut replies[0]);
    assert!(replies[0].waits_for().is_some(), "nobody has acknowledged it");
    acknowledge(&mut harness, 1, written);
    worker.looked = Some(harness.server.safe());
    let mut late = harness.reply("SET key 3");
    let before = harness.clock_readings();
    harness.server.cluster.serve_until(0);
    for reply in &mut replies {
        worker.open_gates(&harness.server, reply);
        assert_eq!(reply.waits_for(), None);
    }
    assert_eq!(harness.clock_readings(), before);
    let written = end(&harness);
    acknowledge(&mut harness, 1, written);
    worker.looked = None;
    worker.open_gates(&harness.server, &mut late);
    assert!(late.waits_for().is_some(), "this server serves no more");
}

#[test]
fn who_is_killed_knows_its_stream_by_its_files() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    let ping = format!("PING \"halcyon-stream {id} 7\"");
    let replayed = |harness: &Harness| {
        let mut bytes = Vec::new();
        let words = crate::config::text::split_words(ping.as_bytes()).expect("balanced quotes");
        resp::write_command(&mut bytes, words.iter().map(Vec::as_slice));
        let mut batch = resp::Batch::new();
        let mut decoder = resp::Decoder::new();
        decoder.decode(&bytes, &resp::DecodeLimits::default(), 1, &mut batch).expect("a command");
        harness.server.note_replayed_ping(batch.command(0, &bytes));
    };
    let harness = Harness::with_config(&[("cluster-enabled", "yes"), ("appendonly", "yes")]);
    let server = &harness.server;
    server.cluster_stand();
    replayed(&harness);
    server.resume_replayed(900, 0);
    assert_eq!((end(&harness), server.cluster_log_epoch()), (900, 7));
    assert_eq!(server.replication.ids.lock().id, id);
    server.cluster_follow(&node_record(), member("a"), 8);
    let plan = server.replication.following.plan(server).expect("somebody to follow");
    assert_eq!(plan.introduction.position, Some((id.to_owned(), 900)));
    // Who leads goes on with another stream, and says so first of all.
    server.cluster_lead(9, &[], false);
    let ids = server.replication.ids.lock().clone();
    assert_eq!((ids.id2.as_str(), ids.second_offset), (id, 901));
    assert!(ids.id != id && end(&harness) > 900);
    // Whoever has more of the former one learns where it ends.
    let mut harness = harness;
    let line = claim(&harness, "b", 9);
    harness.check(&line, &format!("+OK {id} 901"));
    // Nobody goes on with a stream that does not know whom to follow.
    let alone = Harness::with_config(&[("cluster-enabled", "yes"), ("appendonly", "yes")]);
    replayed(&alone);
    alone.server.resume_replayed(900, 0);
    assert_eq!(end(&alone), 0);
}

#[test]
fn without_files_all_is_asked_for() {
    let harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    let server = &harness.server;
    server.cluster_stand();
    server.resume_at(&id("c"), 50, 0);
    server.cluster_follow(&node_record(), member("a"), 8);
    let term = server.replication.following.term();
    let position = || server.replication.following.plan(server).expect("somebody").introduction.position;
    assert_eq!(position(), Some((id("c"), 50)));
    let rewound = server.rewind(term, 20);
    assert!(matches!(rewound, crate::replication::replica::Rewound::Refused(_)), "{rewound:?}");
    assert_eq!((position(), end(&harness)), (None, 50), "nothing is lost until all comes");
}

#[test]
fn who_has_thrown_its_data_away_promises_not_to_lead() {
    let harness = Harness::with_config(&[("cluster-enabled", "yes")]);
    let server = &harness.server;
    server.cluster_follow(&node_record(), member("a"), 8);
    assert_eq!(server.cluster_promised_us(), None);
    let term = server.replication.following.term();
    assert!(server.begin_sync_load(term, 0));
    let now_us = server.clock.mono_us();
    assert_eq!(server.cluster_promised_us(), Some(now_us));
    assert!(server.end_sync_load(term, &id("c"), 40, 0));
    assert_eq!(server.cluster_promised_us(), None);
}

#[test]
fn a_shards_nodes_tell_how_far_it_is() {
    let mut harness = leader(&["a"]);
    attach(&mut harness, 1, "a", 1);
    harness.run("SET key 1");
    let (own, acked) = (end(&harness), end(&harness) - 3);
    acknowledge(&mut harness, 1, acked);
    let me = harness.server.cluster_me().node;
    let nodes = format!(
        "{me} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-99\n\
         {} 127.0.0.1:7001@17001 slave {me} 0 0 1 connected\n\
         {} 127.0.0.1:7002@17002 master - 0 0 2 connected 100-16383\n",
        id("a"),
        id("b"),
    );
    harness.server.cluster.install(crate::cluster_face::topology_of(&nodes));
    let told = harness.run("CLUSTER SHARDS");
    let offset_of = |node: &str| {
        let (_, rest) = told.split_once(&format!("id {node} ")).expect("the node");
        let (_, rest) = rest.split_once("replication-offset :").expect("an offset");
        rest.split(' ').next().and_then(|digits| digits.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!((offset_of(me.as_str()), offset_of(&id("a")), offset_of(&id("b"))), (own, acked, 0), "{told}");
}
