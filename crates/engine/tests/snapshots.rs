//! Commands while a snapshot is walked, and data that is saved and loaded again.

use engine::testing::Harness;
use store::{SnapshotBatch, Walk};

const KEYS: usize = 20_000;

#[test]
fn writers_wait_for_a_walker_that_is_slow_and_nobody_else_does() {
    let mut harness = Harness::new();
    for number in 0..KEYS {
        harness.run(&format!("SET key:{number} {number:0100}"));
    }
    harness.run("SET short v PX 10");
    harness.run("MULTI");
    harness.run("SET k v");
    let server = harness.server.clone();
    let keyspace = &server.keyspace;
    let snapshot = keyspace.begin_snapshot(&keyspace.lock_all()).expect("the first");

    let is_written =
        |harness: &mut Harness, number: usize| !harness.is_held_up(&format!("SET key:{number} w"));
    let written = (0..KEYS).take_while(|number| is_written(harness.on(1), *number)).count();
    assert!((1..KEYS).contains(&written), "{written}");
    assert!(keyspace.kept_bytes() < keyspace.kept_bytes_max() + 1_000);
    for write in
        ["DEL key:0 key:1", "INCR other", "EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 k", "FLUSHALL"]
    {
        assert!(harness.is_held_up(write), "{write}");
    }
    harness.check("GET key:0", "w");
    harness.check("MULTI", "+OK");
    harness.check("SET k v", "+QUEUED");
    harness.check("DISCARD", "+OK");
    assert!(harness.on(0).is_held_up("EXEC"));
    // Nor is what has ended removed.
    harness.advance_ms(20);
    let now_ms = server.clock.now().unix_ms;
    let expired =
        || (0..store::STRIPES).map(|stripe| server.expire_slice(stripe, now_ms, 32).0).sum::<usize>();
    assert_eq!(expired(), 0);

    let (mut walk, mut batch) = (Walk::default(), SnapshotBatch::default());
    while snapshot.next(keyspace, &mut walk, &mut batch) {}
    assert_eq!(keyspace.kept_bytes(), 0);
    assert_eq!(expired(), 1);
    assert!(!harness.is_held_up("EXEC"));
    harness.check("GET k", "v");
    harness.on(1).check(&format!("SET key:{written} w"), "+OK");
}

#[test]
fn a_reload_is_a_restart() {
    let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
    for command in ["SET a 1", "RPUSH list x y", "SET ends v PX 5000", "HSET hash f v"] {
        harness.run(command);
    }
    let digest = harness.run("DEBUG DIGEST");
    harness.check("WATCH list", "+OK");
    for options in ["", " MERGE", " merge NOFLUSH", " nosave", " NOSAVE NOFLUSH MERGE"] {
        harness.check(&format!("DEBUG RELOAD{options}"), "+OK");
        assert_eq!(harness.run("DEBUG DIGEST"), digest, "{options}");
    }
    harness.check("PTTL ends", ":5000");
    harness.check("MULTI", "+OK");
    harness.check("GET a", "+QUEUED");
    harness.check("EXEC", "(nil array)");

    harness.run("SET b new");
    harness.run("SET a changed");
    harness.check("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK");
    harness.check("MGET a b", "[1 new]");
    let clash = "-ERR Error trying to load the RDB dump, check server logs.";
    harness.check("DEBUG RELOAD NOSAVE NOFLUSH", clash);
    harness.check("DEBUG RELOAD NOSAVE", "+OK");
    harness.check("MGET a b", "[1 (nil)]");
    harness.check("MULTI", "+OK");
    harness.check("SET b 2", "+QUEUED");
    harness.check("DEBUG RELOAD", "+QUEUED");
    harness.check("GET b", "+QUEUED");
    harness.check("EXEC", "[+OK +OK 2]");
    harness
        .check("DEBUG RELOAD NOW", "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
}
