//! Eviction under a real limit: memory is this process's own, so the tests run one at a time.

use std::sync::Mutex;

use engine::testing::Harness;
use store::alloc::{Counting, used_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ALONE: Mutex<()> = Mutex::new(());

/// A server that may use so many bytes more than it does when it is empty.
fn harness_with_room(bytes: usize, policy: &str) -> Harness {
    let mut harness = Harness::with_config(&[("maxmemory-policy", policy)]);
    // Whatever is made at first use is there.
    harness.run("SET k v EX 100");
    harness.run("DEL k");
    harness.check(&format!("CONFIG SET maxmemory {}", used_bytes() + bytes), "+OK");
    harness
}

fn info(harness: &mut Harness, field: &str) -> u64 {
    let info = harness.run("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
    line.expect("a field").parse().expect("a number")
}

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn without_eviction_commands_that_need_memory_are_refused() {
    let _alone = ALONE.lock();
    let mut harness = harness_with_room(300_000, "noeviction");
    harness.advance_ms(1);
    let value = "x".repeat(1_000);
    let stored = (0..1_000).take_while(|n| harness.run(&format!("SET {n} {value}")) == "+OK").count();
    assert!((200..300).contains(&stored), "{stored} values of 1,000 bytes in 300,000");
    // The arguments count, too: a short command may still have room.
    harness.check(&format!("SET more {value}"), OOM);
    harness.check(&format!("LPUSH more {value}"), OOM);
    // What needs none, or gives some back, is not.
    harness.check("GET more", "(nil)");
    harness.check("EXPIRE 0 100", ":1");
    assert!(info(&mut harness, "total_eviction_exceeded_time") == 0);
    harness.advance_ms(40);
    assert_eq!(info(&mut harness, "current_eviction_exceeded_time"), 40);
    (0..20).for_each(|n| harness.check(&format!("DEL {n}"), ":1"));
    harness.check(&format!("SET more {value}"), "+OK");
    assert_eq!(info(&mut harness, "current_eviction_exceeded_time"), 0);
    assert_eq!(info(&mut harness, "total_eviction_exceeded_time"), 40);
    assert_eq!(info(&mut harness, "evicted_keys"), 0);
}

#[test]
fn memory_stays_at_the_limit_whatever_the_policy() {
    let _alone = ALONE.lock();
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let mut harness = harness_with_room(2_000_000, policy);
        let limit = used_bytes() + 2_000_000;
        let mut value_bytes = 10;
        for n in 0..20_000 {
            // Small and large ones by turns; the longest pass the inline limit.
            value_bytes = value_bytes * 7 % 9_001;
            let value = vec![b'x'; value_bytes];
            let key = format!("key:{n}");
            let args: [&[u8]; 5] = [b"SET", key.as_bytes(), &value, b"EX", b"1000"];
            assert_eq!(harness.run_args(&args), b"+OK\r\n", "{policy}");
            assert!(used_bytes() < limit + 20_000, "{policy}: {} over", used_bytes() - limit);
        }
        let keys: u64 = harness.run("DBSIZE").trim_start_matches(':').parse().expect("a number");
        assert!(keys > 200, "{policy}: only {keys} keys are left");
        assert_eq!(info(&mut harness, "evicted_keys"), 20_000 - keys, "{policy}");
    }
}

#[test]
fn where_nothing_may_go_commands_are_refused() {
    let _alone = ALONE.lock();
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let mut harness = harness_with_room(100_000, policy);
        let value = "x".repeat(1_000);
        (0..20).for_each(|n| drop(harness.run(&format!("SET goes:{n} {value} EX 100"))));
        let stored =
            (0..1_000).take_while(|n| harness.run(&format!("SET stays:{n} {value}")) == "+OK").count();
        assert!((60..100).contains(&stored), "{policy}: {stored}");
        harness.check(&format!("SET more {value}"), OOM);
        harness.check("EXISTS goes:0 goes:7 goes:19", ":0");
        harness.check("EXISTS stays:0 stays:1", ":2");
        assert_eq!(info(&mut harness, "evicted_keys"), 20, "{policy}");
    }
}

/// What was deleted and is not yet freed does not count: nothing else has to go for it.
#[test]
fn a_big_value_on_its_way_out_evicts_nothing() {
    let _alone = ALONE.lock();
    let mut harness = harness_with_room(20_000_000, "allkeys-lru");
    (0..1_000).for_each(|n| drop(harness.run(&format!("SET small:{n} v"))));
    let members: Vec<String> = (0..10_000).map(|n| format!("member:{n}:{}", "x".repeat(200))).collect();
    for chunk in members.chunks(1_000) {
        let mut args: Vec<&[u8]> = vec![b"SADD", b"big"];
        args.extend(chunk.iter().map(|member| member.as_bytes()));
        harness.run_args(&args);
    }
    drop(members);
    // Nobody runs the reaper: the value stays where it is.
    harness.check("UNLINK big", ":1");
    let limit = used_bytes() - 1_000_000;
    harness.check(&format!("CONFIG SET maxmemory {limit}"), "+OK");
    harness.check("SET another v", "+OK");
    assert_eq!(info(&mut harness, "evicted_keys"), 0);
    harness.check("DBSIZE", ":1001");
    harness.check("FLUSHALL", "+OK");
    harness.check("SET another v", "+OK");
    assert_eq!(info(&mut harness, "evicted_keys"), 0);
}

#[test]
fn access_clocks_answer_as_the_policy_reads_them() {
    let mut harness = Harness::with_config(&[("maxmemory-policy", "allkeys-lfu")]);
    for (line, expected) in [
        ("SET k v", "+OK"),
        ("OBJECT FREQ k", ":5"),
        ("OBJECT FREQ nosuch", "(nil)"),
        // The first use of a new key always counts, and looking does not.
        ("GET k", "v"),
        ("OBJECT FREQ k", ":6"),
        ("OBJECT FREQ k", ":6"),
        ("CONFIG SET lfu-log-factor 0", "+OK"),
        ("GET k", "v"),
        ("SET k w", "+OK"),
        ("APPEND k x", ":2"),
        ("OBJECT FREQ k", ":9"),
        ("CLIENT NO-TOUCH ON", "+OK"),
        ("GET k", "wx"),
        ("SET k v", "+OK"),
        ("OBJECT FREQ k", ":9"),
        ("TOUCH k", ":1"),
        ("OBJECT FREQ k", ":10"),
        ("SET new v", "+OK"),
        ("OBJECT FREQ new", ":5"),
    ] {
        harness.check(line, expected);
    }
    harness.advance_ms(4 * 60_000);
    harness.check("OBJECT FREQ k", ":6");
    harness.check("CONFIG SET lfu-decay-time 2", "+OK");
    harness.check("OBJECT FREQ k", ":8");
    harness.check("CONFIG SET lfu-decay-time 0", "+OK");
    harness.check("OBJECT FREQ k", ":10");

    let mut harness = Harness::new();
    harness.run("CLIENT NO-TOUCH ON");
    harness.run("SET k v");
    harness.advance_ms(7_000);
    harness.check("OBJECT IDLETIME k", ":7");
    harness.check("GET k", "v");
    harness.check("OBJECT IDLETIME k", ":7");
    harness.check("TOUCH k", ":1");
    harness.check("OBJECT IDLETIME k", ":0");
}
