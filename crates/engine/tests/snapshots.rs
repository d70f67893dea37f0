//! Commands while a snapshot is walked.

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
