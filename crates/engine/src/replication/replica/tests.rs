//! A server that follows nobody in particular: what its primary would have sent is made here.

use std::sync::Arc;

use super::{Applier, LinkState, Primary, StreamBatch, StreamReader};
use crate::clients::Peer;
use crate::gates::Reached;
use crate::testing::Harness;

const LANES: usize = 2;

/// Commands, each a line, as a primary sends them.
fn stream_of(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words = crate::config::text::split_words(line.as_bytes()).expect("balanced quotes");
        resp::write_command(&mut bytes, words.iter().map(Vec::as_slice));
    }
    bytes
}

/// A replica whose link is up.
struct Replica {
    harness: Harness,
    reader: StreamReader,
    appliers: Vec<Applier>,
}

impl Replica {
    fn new(config: &[(&str, &str)]) -> Replica {
        let harness = Harness::with_config(config);
        let server = &harness.server;
        server.follow(Primary { host: "primary".to_owned(), port: 7000 });
        server.replication.following.set_link(server.replication.following.term(), LinkState::Connected, 0);
        let client = server.clients.open(Peer::Unix(Arc::from("link")), 0, 0);
        let appliers = (0..LANES).map(|lane| Applier::new(server, lane, client.clone(), 1)).collect();
        Replica { reader: StreamReader::new(0, LANES), appliers, harness }
    }

    /// Takes bytes of the stream; the log must get them as they are.
    fn take(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
        let server = self.harness.server.clone();
        let term = server.replication.following.term();
        while let Some(batch) = self.reader.next(&server).expect("a sound stream") {
            let before = server.log.end();
            let appliers = &mut self.appliers;
            assert!(server.take_batch(term, &batch, || apply(appliers, &server, &batch)));
            assert_eq!(server.log.end() - before, batch.bytes().len() as u64);
            assert_eq!(server.replication.following.applied(), server.log.end());
        }
    }

    fn check(&mut self, line: &str, expected: &str) {
        self.harness.check(line, expected);
    }
}

/// The later lanes first: what they do must not depend on the others.
fn apply(appliers: &mut [Applier], server: &crate::server::Server, batch: &StreamBatch) {
    for round in 0..batch.rounds() {
        for (lane, applier) in appliers.iter_mut().enumerate().rev() {
            applier.run(server, batch, round, lane);
        }
    }
}

#[test]
fn reads_wait_for_what_the_primary_sent_and_is_not_safe_here() {
    let mut replica = Replica::new(&[("appendonly", "yes"), ("durability", "always")]);
    let gates = replica.harness.server.clone();
    let synced = |to| gates.gates.set_reached(Some(Reached { written_to: to, synced_to: to }));
    synced(0);
    replica.take(&stream_of(&["SELECT 0", "SET other 1", "RPUSH list a"]));
    synced(gates.log.end());
    replica.take(&stream_of(&["SET key 1", "PING"]));
    let end = gates.log.end();
    for (line, waits) in [
        ("GET key", true),
        ("EXISTS other key", true),
        ("DBSIZE", true),
        ("GET other", false),
        ("LRANGE list 0 -1", false),
        ("GET none", false),
        ("PING", false),
    ] {
        assert_eq!(replica.harness.reply(line).waits_for(), waits.then_some(end), "{line}");
    }
    synced(end);
    assert_eq!(replica.harness.reply("GET key").waits_for(), None);
    replica.take(&stream_of(&["MULTI", "SET a 1", "DEL list", "EXEC"]));
    let end = gates.log.end();
    for (line, waits) in [("GET a", true), ("LLEN list", true), ("GET key", false)] {
        assert_eq!(replica.harness.reply(line).waits_for(), waits.then_some(end), "{line}");
    }
    replica.take(&stream_of(&["FLUSHALL"]));
    assert_eq!(replica.harness.reply("GET key").waits_for(), Some(gates.log.end()));
    replica.check("CLIENT DURABILITY none", "+OK");
    assert_eq!(replica.harness.reply("GET key").waits_for(), None);
}

#[test]
fn a_stream_is_applied_however_it_is_cut() {
    let stream = stream_of(&[
        "SELECT 2",
        "SET a 1",
        "MULTI",
        "INCR a",
        "SELECT 3",
        "RPUSH list x y",
        "EXEC",
        "PING",
        "SADD set m",
        "MSET p 1 q 2",
        "REPLCONF GETACK *",
        "SELECT 2",
        "APPEND a 0",
    ]);
    for piece in 1..stream.len() + 1 {
        let mut replica = Replica::new(&[]);
        for bytes in stream.chunks(piece) {
            replica.take(bytes);
        }
        assert_eq!(replica.harness.server.log.end(), stream.len() as u64, "by {piece}");
        for (line, expected) in [
            ("SELECT 2", "+OK"),
            ("GET a", "20"),
            ("SELECT 3", "+OK"),
            ("LRANGE list 0 -1", "[x y]"),
            ("SMEMBERS set", "[m]"),
            ("MGET p q", "[1 2]"),
        ] {
            replica.check(line, expected);
        }
    }
}

/// Nor is it on the primary, which marks it in the stream.
#[test]
fn what_comes_with_its_slot_or_goes_with_it_is_no_event() {
    let config = [("cluster-enabled", "yes"), ("notify-keyspace-events", "EA")];
    let mut primary = Harness::with_config(&config);
    primary.on(2).run("PSUBSCRIBE __key*");
    let effects = primary.effects_of(|primary| {
        primary.on(0).check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
        for line in ["SET {a}x v", "MULTI", "APPEND {a}x w", "RPUSH {a}list v", "EXEC", "DEL {a}list"] {
            primary.run(line);
        }
        primary.on(1).check("SET {d}own v", "+OK");
        primary.on(0).check("SET {a}y v", "+OK");
        assert!(primary.server.settle_import("m", false));
        primary.server.clear_left_slots();
        primary.on(1).check("DEL {d}own", ":1");
    });
    let events = "[pmessage __key* __keyevent@0__:set {d}own] [pmessage __key* __keyevent@0__:del {d}own]";
    assert_eq!(primary.on(2).received(), events);
    let stream = stream_of(&effects.split('|').collect::<Vec<_>>());
    for piece in [1, 7, stream.len()] {
        let mut replica = Replica::new(&config);
        replica.harness.on(2).run("PSUBSCRIBE __key*");
        stream.chunks(piece).for_each(|bytes| replica.take(bytes));
        assert_eq!(replica.harness.received(), events, "by {piece}");
        replica.harness.on(0).check("DBSIZE", ":0");
    }
}

#[test]
fn half_a_transaction_is_not_there() {
    let mut replica = Replica::new(&[]);
    let half = stream_of(&["SET a 1", "MULTI", "SET a 2", "SET b 2"]);
    replica.take(&half);
    replica.check("MGET a b", "[1 (nil)]");
    let whole_bytes = stream_of(&["SET a 1"]).len() as u64;
    assert_eq!(replica.harness.server.log.end(), whole_bytes, "what is asked for anew begins with MULTI");
    replica.take(&stream_of(&["EXEC"]));
    replica.check("MGET a b", "[2 2]");
}

#[test]
fn every_key_sees_its_commands_in_order() {
    let mut replica = Replica::new(&[]);
    let mut lines: Vec<String> = Vec::new();
    for number in 0..3_000 {
        lines.push(format!("RPUSH list:{} {number}", number % 37));
        if number % 500 == 0 {
            lines.push(format!("RENAME list:{} list:{}", number % 37, (number + 5) % 37));
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    replica.take(&stream_of(&lines));
    let mut primary = Harness::new();
    lines.iter().for_each(|line| drop(primary.run(line)));
    for list in 0..37 {
        let line = format!("LRANGE list:{list} 0 -1");
        let expected = primary.run(&line);
        replica.check(&line, &expected);
    }
}

#[test]
fn clients_cannot_write_to_a_replica() {
    let mut replica = Replica::new(&[]);
    let refusal = "-READONLY You can't write against a read only replica.";
    replica.check("SET k v", refusal);
    replica.check("MULTI", "+OK");
    replica.check("SET k v", refusal);
    replica.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    replica.check("GET k", "(nil)");
    replica.check("PUBLISH channel message", ":0");
    let reply = replica.harness.run("EVAL \"return redis.call('SET', KEYS[1], 'v')\" 1 k");
    assert!(reply.starts_with(refusal), "{reply}");
    replica.check("CONFIG SET replica-read-only no", "+OK");
    let before = replica.harness.server.log.end();
    replica.check("SET k v", "+OK");
    assert_eq!(replica.harness.server.log.end(), before, "what is written here is nobody else's");
}

#[test]
fn a_replica_without_its_primary_may_keep_silent() {
    let mut replica = Replica::new(&[("replica-serve-stale-data", "no")]);
    replica.check("GET k", "(nil)");
    let following = &replica.harness.server.replication.following;
    following.set_link(following.term(), LinkState::Connect, 0);
    let refusal = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    replica.check("GET k", refusal);
    replica.check("PING", refusal);
    replica.check("CONFIG GET replica-priority", "[replica-priority 100]");
    replica.check("CONFIG SET replica-serve-stale-data yes", "+OK");
    replica.check("GET k", "(nil)");
}

#[test]
fn what_has_ended_is_hidden_until_the_primary_deletes_it() {
    let mut replica = Replica::new(&[]);
    let now_ms = replica.harness.server.clock.now().unix_ms;
    let (key_end, field_end) =
        (format!("SET k v PXAT {}", now_ms + 100), format!("HPEXPIREAT h {} FIELDS 1 f", now_ms + 100));
    replica.take(&stream_of(&[&key_end, "HSET h f v g w", &field_end]));
    replica.check("GET k", "v");
    replica.harness.advance_ms(200);
    for (line, expected) in [
        ("GET k", "(nil)"),
        ("EXISTS k", ":0"),
        ("KEYS *", "[h]"),
        ("DBSIZE", ":2"),
        ("HGET h f", "(nil)"),
        ("HMGET h f g", "[(nil) w]"),
        ("HLEN h", ":2"),
    ] {
        replica.check(line, expected);
    }
    // To the primary's commands it has not ended.
    replica.take(&stream_of(&["APPEND k w", "PERSIST k", "HPERSIST h FIELDS 1 f"]));
    replica.check("GET k", "vw");
    replica.check("HGET h f", "v");
    replica.take(&stream_of(&["DEL k"]));
    replica.check("DBSIZE", ":1");
}

#[test]
fn an_end_in_the_past_is_no_reason_to_delete() {
    let mut replica = Replica::new(&[]);
    replica.take(&stream_of(&["SET k v", "PEXPIREAT k 1000"]));
    replica.check("DBSIZE", ":1");
    replica.check("GET k", "(nil)");
    replica.take(&stream_of(&["PERSIST k"]));
    replica.check("GET k", "v");
}

#[test]
fn roles_change_and_the_stream_goes_on() {
    let mut replica = Replica::new(&[]);
    replica.check("REPLICAOF primary 7000", "+OK Already connected to specified master");
    replica.check("REPLICAOF primary x", "-ERR Invalid master port");
    replica.check("CONFIG GET replicaof", "[replicaof primary 7000]");
    replica.take(&stream_of(&["SET k v"]));
    let (server, offset) = (replica.harness.server.clone(), replica.harness.server.log.end());
    let id = server.replication.ids.lock().id.clone();
    replica.check("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.");
    replica.check("REPLICAOF NO ONE", "+OK");
    replica.check("CONFIG GET replicaof", "[replicaof ]");
    let ids = server.replication.ids.lock().clone();
    assert_eq!((ids.id2, ids.second_offset), (id.clone(), offset as i64 + 1));
    assert_ne!(ids.id, id);
    replica.check("SET k w", "+OK");
    assert!(server.log.end() > offset, "now the log has what clients write");
    // The way back: it goes on with its own stream.
    replica.check("REPLICAOF other 7001", "+OK");
    let plan = server.replication.following.plan(&server).expect("it follows");
    assert_eq!(plan.introduction.position, Some((ids.id, server.log.end())));
}

#[test]
fn a_primary_without_a_log_has_no_place_in_a_stream() {
    let mut harness = Harness::new();
    harness.check("SET k v", "+OK");
    harness.check("REPLICAOF primary 7000", "+OK");
    let plan = harness.server.replication.following.plan(&harness.server).expect("it follows");
    assert_eq!(plan.introduction.position, None);
    harness.check("FAILOVER ABORT", "-ERR No failover in progress.");
    harness.check("MULTI", "+OK");
    harness.check("REPLICAOF NO ONE", "+QUEUED");
    harness.check("EXEC", "[-ERR Command not allowed inside a transaction]");
}

#[test]
fn who_waits_for_a_write_is_told_that_none_comes() {
    let mut harness = Harness::new();
    harness.run("BLPOP k 0");
    harness.server.follow(Primary { host: "primary".to_owned(), port: 7000 });
    assert_eq!(
        harness.received(),
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
    );
}

#[test]
fn commands_that_fail_are_counted() {
    for config in [("propagation-error-behavior", "ignore"), ("replica-read-only", "no")] {
        let mut replica = Replica::new(&[("propagation-error-behavior", "panic"), config]);
        replica.take(&stream_of(&["SET k v", "LPUSH k x", "INCR n"]));
        replica.check("GET n", "1");
        assert!(replica.harness.run("INFO stats").contains("unexpected_error_replies:1\r\n"));
    }
}

#[test]
#[should_panic(
    expected = "This replica panicked sending an error to its master after processing the command 'LPUSH'"
)]
fn a_replica_that_fails_may_be_told_to_end() {
    let mut replica = Replica::new(&[("propagation-error-behavior", "panic-on-replicas")]);
    replica.take(&stream_of(&["SET k v", "LPUSH k x"]));
}

fn with_failing_disk(config: &[(&str, &str)]) -> Replica {
    use journal::files::{Sizes, Status};
    let replica = Replica::new(config);
    let status = Status { write_error: Some("no space (os error 28)".to_owned()), ..Status::default() };
    replica.harness.server.note_files(&status, Sizes::default());
    replica
}

#[test]
fn a_replica_may_go_on_though_its_disk_fails() {
    let mut replica = with_failing_disk(&[("replica-ignore-disk-write-errors", "yes")]);
    replica.take(&stream_of(&["SET k v", "PING"]));
    replica.check("GET k", "v");
}

#[test]
#[should_panic(expected = "Replica was unable to write command to disk")]
fn a_replica_whose_disk_fails_ends_before_it_writes() {
    let mut replica = with_failing_disk(&[]);
    replica.take(&stream_of(&["PING", "GET k"]));
    assert_eq!(replica.harness.server.replication.following.applied(), replica.harness.server.log.end());
    replica.take(&stream_of(&["SET k v"]));
}

#[test]
fn failover_says_what_it_lacks() {
    let mut harness = Harness::new();
    for (line, expected) in [
        ("FAILOVER", "-ERR FAILOVER requires connected replicas."),
        ("FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TIMEOUT x", "-ERR value is not an integer or out of range"),
        ("FAILOVER TO a", "-ERR syntax error"),
        ("FAILOVER TO a 1 TO b 2", "-ERR syntax error"),
        ("FAILOVER ABORT now", "-ERR syntax error"),
        ("FAILOVER ABORT", "-ERR No failover in progress."),
    ] {
        harness.check(line, expected);
    }
}
