//! What waits for what, with a watermark that the test moves.

use journal::log::Consumer;

use super::*;
use crate::dispatch::Stop;
use crate::letter::Letter;
use crate::propagation::LogReader;
use crate::testing::Harness;

/// A server with these directives, whose log is written and never synced by itself.
fn server_with(pairs: &[(&str, &str)]) -> Harness {
    let harness = Harness::with_config(pairs);
    harness.server.want_log(LogReader::Files, true);
    harness.server.gates.set_reached(Some(Reached { written_to: 0, synced_to: 0 }));
    harness
}

/// Where every reply waits.
fn strict() -> Harness {
    server_with(&[("appendonly", "yes"), ("appendfsync", "always")])
}

fn sync(harness: &Harness) {
    let end = harness.server.log.end();
    harness.server.gates.set_reached(Some(Reached { written_to: end, synced_to: end }));
}

/// What the reply waits for.
fn awaited(harness: &mut Harness, line: &str) -> Option<u64> {
    harness.reply(line).waits_for()
}

/// Whether replies wait for what an earlier command did: `line` is one, with `yes` or `no` behind it.
fn check(harness: &mut Harness, script: &[(&str, bool)]) {
    for (line, waits) in script {
        let offset = harness.server.log.end();
        let expected = waits.then_some(offset);
        assert_eq!(awaited(harness, line), expected, "{line}");
        assert_eq!(harness.server.log.end(), offset, "{line} is here to look");
    }
}

#[test]
fn a_write_waits_for_its_own_record() {
    let mut harness = strict();
    for line in [
        "SET k v",
        "INCR n",
        "MSET a 1 b 2",
        "RPUSH list a b c",
        "LPOP list",
        "DEL a none",
        "EVAL \"return redis.call('INCR', KEYS[1])\" 1 n",
        "PEXPIRE k 100000",
        "FLUSHALL",
    ] {
        let before = harness.server.log.end();
        let offset = awaited(&mut harness, line);
        assert!(harness.server.log.end() > before, "{line} writes");
        assert_eq!(offset, Some(harness.server.log.end()), "{line}");
    }
    sync(&harness);
    // What changes nothing is not waited for.
    check(
        &mut harness,
        &[("DEL none", false), ("SET k v XX", false), ("PING", false), ("CONFIG GET port", false)],
    );
}

#[test]
fn a_read_waits_for_the_newest_write_of_its_keys_and_for_no_other() {
    let mut harness = strict();
    harness.run("MSET other 1 key 1 list 1");
    sync(&harness);
    let first = awaited(&mut harness, "SET key 2");
    harness.run("SET later 1");
    assert_eq!(awaited(&mut harness, "GET key"), first, "not for what came after it");
    let mut harness = strict();
    harness.run("MSET other 1 key 1");
    sync(&harness);
    harness.run("SET key 2");
    check(
        &mut harness,
        &[
            ("GET key", true),
            ("GET other", false),
            ("GET none", false),
            ("MGET other none", false),
            ("MGET other key", true),
            ("EXISTS none key", true),
            ("STRLEN key", true),
            ("TYPE key", true),
            ("OBJECT ENCODING key", true),
            ("OBJECT ENCODING other", false),
            // They write nothing, since of what they see.
            ("SET key 3 NX", true),
            ("SETNX key 3", true),
            ("LPUSH key x", true),
            ("LPUSH other x", false),
            ("DEL none", false),
            ("EVAL \"return redis.call('GET', KEYS[1])\" 1 key", true),
            ("EVAL \"return redis.call('GET', KEYS[1])\" 1 other", false),
            ("EVAL \"return redis.call('GET', 'key')\" 0", true),
            ("EVAL \"return 1\" 1 key", false),
            ("SUBSCRIBE c", false),
        ],
    );
    sync(&harness);
    check(&mut harness, &[("GET key", false), ("MGET other key", false)]);
}

#[test]
fn what_looks_at_the_whole_keyspace_waits_for_the_log() {
    let mut harness = strict();
    harness.run("SET key 2");
    check(
        &mut harness,
        &[
            ("DBSIZE", true),
            ("KEYS nothing*", true),
            ("SCAN 0", true),
            ("RANDOMKEY", true),
            ("SORT l BY w_*", true),
        ],
    );
    sync(&harness);
    check(
        &mut harness,
        &[("DBSIZE", false), ("KEYS nothing*", false), ("SCAN 0", false), ("RANDOMKEY", false)],
    );
    // And what changes all of it is seen with every key.
    harness.run("FLUSHDB");
    check(&mut harness, &[("GET any", true), ("PING", false)]);
    sync(&harness);
    harness.run("SWAPDB 0 1");
    check(&mut harness, &[("GET any", true)]);
    sync(&harness);
    harness.run("FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 1 end)\"");
    check(&mut harness, &[("FUNCTION LIST", true), ("FCALL f 0", true)]);
    sync(&harness);
    check(&mut harness, &[("FUNCTION LIST", false), ("FCALL f 0", false), ("GET any", false)]);
}

#[test]
fn a_transaction_waits_for_what_its_commands_saw_and_wrote() {
    let mut harness = strict();
    harness.run("SET other 1");
    sync(&harness);
    harness.run("SET key 1");
    check(&mut harness, &[("MULTI", false), ("GET other", false), ("EXEC", false)]);
    check(&mut harness, &[("MULTI", false), ("GET other", false), ("GET key", false), ("EXEC", true)]);
    sync(&harness);
    for line in ["MULTI", "INCR key", "GET other", "INCR key"] {
        assert_eq!(awaited(&mut harness, line), None, "{line}");
    }
    let before = harness.server.log.end();
    let offset = awaited(&mut harness, "EXEC").expect("it wrote");
    assert_eq!(offset, harness.server.log.end());
    assert!(offset > before);
    check(&mut harness, &[("GET key", true), ("GET other", false)]);
    // That a watched key was written is told, too.
    sync(&harness);
    harness.run("WATCH key");
    harness.on(1).run("SET key x");
    let offset = harness.server.log.end();
    harness.on(0).run("MULTI");
    assert_eq!(awaited(&mut harness, "EXEC"), Some(offset));
}

#[test]
fn errors_wait_for_what_was_done_before_them() {
    let mut harness = strict();
    for line in [
        "EVAL \"redis.call('SET', KEYS[1], 1) return redis.call('LPUSH', KEYS[1], 1)\" 1 k",
        "EVAL \"redis.call('SET', KEYS[1], 2) error('no')\" 1 k",
    ] {
        let before = harness.server.log.end();
        let mut reply = harness.reply(line);
        let offset = reply.waits_for().expect("it wrote before it failed");
        assert!(offset > before && offset == harness.server.log.end());
        reply.open(offset);
        assert!(reply.plain().is_some_and(|bytes| bytes.starts_with(b"-")), "{line}");
    }
    check(&mut harness, &[("INCRBY k notanumber", true), ("GET", false), ("NOSUCH", false)]);
}

#[test]
fn what_has_expired_is_gone_for_good() {
    let mut harness = strict();
    harness.run("SET k v");
    harness.run("PEXPIRE k 10");
    sync(&harness);
    harness.advance_ms(20);
    let before = harness.server.log.end();
    assert_eq!(awaited(&mut harness, "GET k"), None);
    assert!(harness.server.log.end() > before, "its removal is in the log");
    check(&mut harness, &[("GET k", false)]);
}

#[test]
fn what_was_evicted_may_come_back() {
    let mut harness = server_with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("maxmemory-policy", "allkeys-random"),
    ]);
    harness.run("SET k v");
    sync(&harness);
    check(&mut harness, &[("GET k", false)]);
    assert!(harness.evict_one());
    check(&mut harness, &[("GET k", true), ("GET other", false)]);
}

#[test]
fn replies_that_are_not_sent_wait_for_nothing() {
    let mut harness = strict();
    harness.run("CLIENT REPLY SKIP");
    let reply = harness.reply("SET k v");
    assert!(reply.is_empty() && !reply.has_gates());
    assert_eq!(awaited(&mut harness, "GET other"), None);
    harness.run("CLIENT REPLY OFF");
    let reply = harness.reply("SET k v");
    assert!(reply.is_empty() && !reply.has_gates());
}

#[test]
fn what_the_long_lane_answers_waits_as_well() {
    let mut harness = strict();
    let members: Vec<String> = (0..10_100).map(|number| number.to_string()).collect();
    harness.run(&format!("SADD big {}", members.join(" ")));
    harness.run(&format!("SADD quiet {}", members.join(" ")));
    sync(&harness);
    assert_eq!(awaited(&mut harness, "SUNION big quiet"), None);
    assert_eq!(harness.deferred, 1);
    harness.run("SADD big more");
    let offset = harness.server.log.end();
    assert_eq!(awaited(&mut harness, "SUNION big quiet"), Some(offset));
    assert_eq!(awaited(&mut harness, "SUNION quiet quiet"), None);
    let offset = awaited(&mut harness, "SUNIONSTORE dest quiet quiet");
    assert_eq!(offset, Some(harness.server.log.end()));
    assert_eq!(harness.deferred, 4);
    check(&mut harness, &[("SCARD dest", true), ("SCARD quiet", false)]);
}

/// The offsets of the letters that were sent, which all have to have one.
fn letters(harness: &mut Harness) -> Vec<u64> {
    let offset = |letter| match letter {
        Letter::Gated { offset, .. } => offset,
        _ => panic!("a letter that waits for nothing"),
    };
    harness.take_letters().into_iter().map(offset).collect()
}

#[test]
fn what_others_are_told_waits_for_the_record_that_it_tells_of() {
    let mut harness =
        server_with(&[("appendonly", "yes"), ("appendfsync", "always"), ("notify-keyspace-events", "KEA")]);
    harness.on(1).run("PSUBSCRIBE __key*");
    harness.on(2).run("HELLO 3");
    harness.run("CLIENT TRACKING ON");
    harness.run("GET k");
    harness.take_letters();
    harness.on(0).run("SET k v");
    let end = harness.server.log.end();
    let told = letters(&mut harness);
    assert_eq!(told, vec![end; told.len()]);
    assert!(told.len() >= 3, "two events and an invalidation: {told:?}");
    harness.run("PUBLISH __key_own hello");
    let told = letters(&mut harness);
    assert!(!told.is_empty() && told.iter().all(|offset| *offset >= end), "{told:?}");
    // In a transaction and in a script, which tell of themselves at their end.
    for lines in [&["MULTI", "SET a 1", "SET b 1", "EXEC"][..], &["EVAL \"redis.call('SET', 'c', 1)\" 0"]] {
        lines.iter().for_each(|line| drop(harness.run(line)));
        let (end, told) = (harness.server.log.end(), letters(&mut harness));
        assert!(!told.is_empty() && told.iter().all(|offset| *offset == end), "{told:?}");
    }
}

#[test]
fn a_client_that_waited_waits_for_the_push_that_served_it() {
    let mut harness = strict();
    assert!(harness.on(1).reply("BLPOP q 0").is_empty());
    harness.on(0).run("RPUSH q x");
    let end = harness.server.log.end();
    let letter = harness.take_letters().pop().expect("the reply");
    let Letter::Gated { offset, letter } = letter else { panic!("it waits") };
    assert_eq!(offset, end);
    let Letter::Reply { mut output, .. } = *letter else { panic!("it is a reply") };
    let server = harness.server.clone();
    let (worker, session) = harness.on(1).worker_and_session();
    worker.gate_output(&server, session, offset, &mut output);
    assert_eq!(output.waits_for(), Some(end));
    sync(&harness);
    let (worker, _) = harness.worker_and_session();
    worker.open_gates(&server, &mut output);
    assert_eq!(output.plain(), Some(&b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n"[..]));
    let (gated, released) = (worker.stats.gated_replies.get(), worker.stats.released_replies.get());
    assert_eq!((gated, released), (2, 1), "the push's own reply was not sent");
}

#[test]
fn who_waits_is_a_setting() {
    let mut harness = server_with(&[("appendonly", "yes"), ("appendfsync", "everysec")]);
    let gates = |harness: &Harness| (harness.server.gates.policy(), harness.server.gates.is_kept());
    assert_eq!(gates(&harness), (Durability::EverySecond, false));
    assert_eq!(awaited(&mut harness, "SET before 1"), None);
    let before = harness.server.log.end();
    harness.on(1).check("CLIENT DURABILITY ALWAYS", "+OK");
    assert_eq!(gates(&harness), (Durability::EverySecond, true));
    // Nobody knows which keys were written before somebody wanted to know.
    assert_eq!(awaited(&mut harness, "GET any"), Some(before));
    sync(&harness);
    assert_eq!(awaited(&mut harness, "GET any"), None);
    assert_eq!(awaited(harness.on(0), "SET key 1"), None, "others do not wait");
    assert_eq!(awaited(&mut harness, "GET key"), None);
    let written = harness.server.log.end();
    assert_eq!(awaited(harness.on(1), "GET key"), Some(written), "but what they write is waited for");
    assert_eq!(awaited(&mut harness, "GET any"), None);
    // A second one, and each way to end it.
    harness.on(2).check("CLIENT DURABILITY always", "+OK");
    harness.check("CLIENT DURABILITY everysec", "+OK");
    assert_eq!(awaited(&mut harness, "SET key 2"), None);
    assert_eq!(harness.server.gates.sync_mode(), Durability::EverySecond);
    harness.on(1).check("RESET", "+RESET");
    assert_eq!(gates(&harness), (Durability::EverySecond, false));
    harness.on(0).check("CLIENT DURABILITY always", "+OK");
    harness.check("CLIENT DURABILITY default", "+OK");
    assert_eq!(gates(&harness), (Durability::EverySecond, false));
    harness.check("CLIENT DURABILITY sometimes", "-ERR syntax error");
    harness.check("CLIENT DURABILITY", "-ERR wrong number of arguments for 'client|durability' command");
    // The server's mode, and connections that want less.
    harness.check("CONFIG SET appendfsync always", "+OK");
    assert_eq!(gates(&harness), (Durability::Always, true));
    assert!(awaited(&mut harness, "SET key 3").is_some());
    harness.check("CLIENT DURABILITY none", "+OK");
    assert_eq!(awaited(&mut harness, "SET key 4"), None);
    assert_eq!(awaited(&mut harness, "GET key"), None);
    let end = harness.server.log.end();
    assert_eq!(awaited(harness.on(1), "GET key"), Some(end));
    harness.check("CONFIG SET durability none", "+OK");
    assert_eq!(awaited(&mut harness, "SET key 5"), None);
    harness.check("CONFIG SET durability always appendfsync no", "+OK");
    assert!(awaited(&mut harness, "SET key 6").is_some());
    harness.server.gates.set_reached(None);
    assert_eq!(awaited(&mut harness, "SET key 7"), None, "there are no files to wait for");
}

#[test]
fn promises_need_files() {
    let mut harness = Harness::new();
    let needs_files = |mode: &str| format!("durability {mode} needs append-only files: appendonly yes");
    for mode in ["everysec", "always"] {
        harness.check(&format!("CLIENT DURABILITY {mode}"), &format!("-ERR {}", needs_files(mode)));
        harness.check(
            &format!("CONFIG SET durability {mode}"),
            &format!(
                "-ERR CONFIG SET failed (possibly related to argument 'durability') - {}",
                needs_files(mode)
            ),
        );
    }
    harness.check("CLIENT DURABILITY none", "+OK");
    harness.check("CONFIG SET durability none", "+OK");
    harness.check("CONFIG GET durability", "[durability none]");
    let mut harness = Harness::with_config(&[("appendonly", "yes"), ("durability", "always")]);
    harness.check(
        "CONFIG SET appendonly no",
        &format!(
            "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - {}",
            needs_files("always")
        ),
    );
    harness.check("CONFIG SET timeout 5", "+OK");
    harness.check("CONFIG SET durability auto", "+OK");
}

#[test]
fn the_modes_follow_from_the_directives() {
    for (pairs, expected) in [
        (&[][..], Durability::None),
        (&[("appendfsync", "always")], Durability::None),
        (&[("appendonly", "yes")], Durability::EverySecond),
        (&[("appendonly", "yes"), ("appendfsync", "no")], Durability::None),
        (&[("appendonly", "yes"), ("appendfsync", "always")], Durability::Always),
        (&[("appendonly", "yes"), ("appendfsync", "always"), ("durability", "none")], Durability::None),
        (&[("appendonly", "yes"), ("durability", "always")], Durability::Always),
    ] {
        assert_eq!(Harness::with_config(pairs).server.gates.policy(), expected, "{pairs:?}");
    }
}

#[test]
fn info_tells_how_far_the_log_is_and_who_waits() {
    let mut harness = strict();
    harness.run("SET k v");
    let end = harness.server.log.end();
    harness.server.gates.set_reached(Some(Reached { written_to: 20, synced_to: 10 }));
    let info = harness.run("INFO persistence");
    for line in [
        "durability:always".to_owned(),
        format!("log_offset_executed:{end}"),
        "log_offset_written:20".to_owned(),
        "log_offset_synced:10".to_owned(),
        "log_offset_acknowledged:0".to_owned(),
        "replies_waiting:1".to_owned(),
        "connections_waiting:0".to_owned(),
    ] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} in {info}");
    }
}

/// A reader of the log that does not get on.
fn stalled(harness: &Harness) -> Consumer {
    harness.server.log.set_limits(1000, 0);
    harness.server.log.consumer(harness.server.log.end(), true).expect("the end is in memory")
}

#[test]
fn writers_wait_for_room_and_others_do_not() {
    let mut harness = strict();
    let mut reader = stalled(&harness);
    let value = "x".repeat(100);
    let write = format!("SET key {value}");
    let mut written = 0;
    let stop = loop {
        match harness.stops(&write) {
            None => written += 1,
            Some(stop) => break stop,
        }
        assert!(written < 100, "the log is bounded");
    };
    assert_eq!(stop, Stop::Full);
    let end = harness.server.log.end();
    assert!(end < 1000 + 200, "{end} bytes in a log of 1000");
    for line in ["INCR n", "EVAL \"return redis.call('INCR', 'n')\" 0"] {
        assert_eq!(harness.stops(line), Some(Stop::Full), "{line}");
    }
    // Neither reads nor transactions that only read.
    for line in ["GET key", "PING", "MULTI", "GET key", "EXEC", "MULTI", "INCR n"] {
        assert_eq!(harness.stops(line), None, "{line}");
    }
    assert_eq!(harness.stops("EXEC"), Some(Stop::Full));
    assert_eq!(harness.server.log.end(), end);
    reader.release(end);
    assert_eq!(harness.run("EXEC"), "[:1]");
    assert_eq!(harness.stops(&write), None);
}
