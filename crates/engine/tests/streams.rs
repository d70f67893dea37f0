//! The stream commands, as a client sees them. What Redis 7.0 has, `tests/differential/streams.txt` asks a real one;
//! here stand what came later, waiting, the events, and streams so large that they go through the long lane.

use engine::testing::{Harness, play};

fn run(mut harness: Harness, script: &[(&str, &str)]) {
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

#[test]
fn ids_follow_the_clock_and_never_go_back() {
    let mut harness = Harness::new();
    harness.check("XADD s * f v", "1704067200000-0");
    harness.check("XADD s * f v", "1704067200000-1");
    harness.advance_ms(5);
    harness.check("XADD s * f v", "1704067200005-0");
    harness.check("XADD s 1704067200005-* f v", "1704067200005-1");
    harness.check("XADD s 1804067200000-7 f v", "1804067200000-7");
    harness.check("XADD s * f v", "1804067200000-8");
    harness.check("XADD s 1804067200000-18446744073709551615 f v", "1804067200000-18446744073709551615");
    harness.check("XADD s * f v", "1804067200001-0");
    harness.check("XLEN s", ":8");
}

#[test]
fn the_last_entry_is_read_with_a_plus() {
    run(
        Harness::new(),
        &[
            ("XREAD STREAMS s +", "(nil array)"),
            ("XADD s 1-0 k1 v1", "1-0"),
            ("XADD s 2-0 k2 v2", "2-0"),
            ("XREAD STREAMS s +", "[[s [[2-0 [k2 v2]]]]]"),
            ("XREAD COUNT 5 STREAMS s s + 1", "[[s [[2-0 [k2 v2]]]] [s [[2-0 [k2 v2]]]]]"),
            ("XADD s 3-18446744073709551615 k3 v3", "3-18446744073709551615"),
            ("XREAD STREAMS s +", "[[s [[3-18446744073709551615 [k3 v3]]]]]"),
            ("XDEL s 3-18446744073709551615", ":1"),
            ("XREAD STREAMS s +", "[[s [[2-0 [k2 v2]]]]]"),
            ("XTRIM s MAXLEN 0", ":2"),
            ("XREAD STREAMS s +", "(nil array)"),
            ("XGROUP CREATE s g 0", "+OK"),
            (
                "XREADGROUP GROUP g c STREAMS s +",
                "-ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer \
                 by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty \
                 result set.",
            ),
        ],
    );
}

#[test]
fn the_last_id_stays_above_what_was_removed() {
    let too_small = "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
    run(
        Harness::new(),
        &[
            ("XADD s 1-1 f v", "1-1"),
            ("XADD s 5-1 f v", "5-1"),
            ("XDEL s 5-1", ":1"),
            ("XSETID s 5-0", too_small),
            ("XSETID s 5-1", "+OK"),
            ("XSETID s 9-0 MAXDELETEDID 8-0", "+OK"),
            ("XSETID s 7-0", too_small),
        ],
    );
}

#[test]
fn consumers_are_seen_and_active() {
    let mut harness = Harness::new().resp3();
    harness.check("XADD s 1-1 f v", "1-1");
    harness.check("XADD s 2-1 f v", "2-1");
    harness.check("XGROUP CREATE s g 0", "+OK");
    harness.check("XGROUP CREATECONSUMER s g idle", ":1");
    harness.check("XREADGROUP GROUP g busy COUNT 1 STREAMS s >", "%{s=[[1-1 [f v]]]}");
    harness.check("XREADGROUP GROUP g sly NOACK STREAMS s >", "%{s=[[2-1 [f v]]]}");
    harness.advance_ms(30);
    harness.check("XREADGROUP GROUP g busy STREAMS s >", "(nil)");
    harness.check("XREADGROUP GROUP g empty STREAMS s >", "(nil)");
    harness.advance_ms(20);
    harness.check(
        "XINFO CONSUMERS s g",
        "[%{name=busy pending=:1 idle=:20 inactive=:50} %{name=empty pending=:0 idle=:20 inactive=:-1} \
         %{name=idle pending=:0 idle=:50 inactive=:-1} %{name=sly pending=:0 idle=:50 inactive=:-1}]",
    );
    harness.check("XCLAIM s g empty 60 1-1 JUSTID", "[]");
    harness.check("XCLAIM s g claimant 10 1-1 JUSTID", "[1-1]");
    harness.check("XAUTOCLAIM s g other 10 0 JUSTID", "[0-0 [] []]");
    harness.check(
        "XINFO STREAM s FULL",
        "%{length=:2 radix-tree-keys=:1 radix-tree-nodes=:2 last-generated-id=2-1 max-deleted-entry-id=0-0 \
         entries-added=:2 recorded-first-entry-id=1-1 entries=[[1-1 [f v]] [2-1 [f v]]] groups=[%{name=g \
         last-delivered-id=2-1 entries-read=:2 lag=:0 pel-count=:1 pending=[[1-1 claimant :1704067200050 :1]] \
         consumers=[%{name=busy seen-time=:1704067200030 active-time=:1704067200000 pel-count=:0 pending=[]} \
         %{name=claimant seen-time=:1704067200050 active-time=:1704067200050 pel-count=:1 \
         pending=[[1-1 :1704067200050 :1]]} %{name=empty seen-time=:1704067200050 active-time=:-1 pel-count=:0 \
         pending=[]} %{name=idle seen-time=:1704067200000 active-time=:-1 pel-count=:0 pending=[]} %{name=other \
         seen-time=:1704067200050 active-time=:-1 pel-count=:0 pending=[]} %{name=sly seen-time=:1704067200000 \
         active-time=:-1 pel-count=:0 pending=[]}]}]}",
    );
}

#[test]
fn pending_entries_grow_idle() {
    let mut harness = Harness::new();
    harness.check("XGROUP CREATE s g 0 MKSTREAM", "+OK");
    for id in ["1-1", "2-1", "3-1"] {
        harness.check(&format!("XADD s {id} f v"), id);
        harness.run("XREADGROUP GROUP g c STREAMS s >");
        harness.advance_ms(100);
    }
    harness.check("XPENDING s g - + 9", "[[1-1 c :300 :1] [2-1 c :200 :1] [3-1 c :100 :1]]");
    harness.check("XPENDING s g IDLE 200 - + 9", "[[1-1 c :300 :1] [2-1 c :200 :1]]");
    harness.check("XPENDING s g IDLE 200 - + 1", "[[1-1 c :300 :1]]");
    harness.check("XPENDING s g IDLE 201 (1-1 + 9 c", "[]");
    harness.check("XAUTOCLAIM s g d 150 0 COUNT 1", "[2-1 [[1-1 [f v]]] []]");
    harness.check("XAUTOCLAIM s g d 150 2-1", "[0-0 [[2-1 [f v]]] []]");
    harness.check("XCLAIM s g e 100 1-1 2-1 3-1 JUSTID", "[3-1]");
    harness.check("XREADGROUP GROUP g d STREAMS s 1-1", "[[s [[2-1 [f v]]]]]");
    harness.check("XPENDING s g - + 9", "[[1-1 d :0 :2] [2-1 d :0 :3] [3-1 e :0 :1]]");
}

#[test]
fn readers_wait_for_what_comes_after_their_ids() {
    play(
        "0> XADD s 1-1 f v => 1-1
         1> XREAD BLOCK 0 STREAMS s $
         2> XREAD BLOCK 0 STREAMS s 5-0
         3> XREAD COUNT 1 BLOCK 0 STREAMS t s 0 1-1
         4> XREAD BLOCK 0 STREAMS s 0 => [[s [[1-1 [f v]]]]]
         5> XREAD BLOCK 10 STREAMS s +=> [[s [[1-1 [f v]]]]]
         0> XADD s 4-1 f w => 4-1
         1< [[s [[4-1 [f w]]]]]
         2<
         3< [[s [[4-1 [f w]]]]]
         0> XADD s 5-1 f x => 5-1
         2< [[s [[5-1 [f x]]]]]
         1> XREAD BLOCK 20 STREAMS s $
         wait 19
         1<
         wait 1
         1< (nil array)
         1> XREAD BLOCK 0 STREAMS new $
         2> XREAD BLOCK 0 STREAMS new +
         0> LPUSH new x => :1
         0> DEL new => :1
         1<
         0> XADD new 1-1 a b => 1-1
         1< [[new [[1-1 [a b]]]]]
         2< [[new [[1-1 [a b]]]]]
         1> XREAD BLOCK 0 STREAMS s $
         0> XADD s 6-1 f y => 6-1
         1< [[s [[6-1 [f y]]]]]"
            .replace("+=>", "+ =>")
            .as_str(),
    );
}

#[test]
fn a_reader_is_not_woken_by_what_is_gone() {
    play(
        "0> XADD s 666-0 f v => 666-0
         0> XDEL s 666 => :1
         1> XREAD BLOCK 10 STREAMS s 665
         wait 10
         1< (nil array)
         1> XREAD BLOCK 0 STREAMS s 665
         0> MULTI => +OK
         0> XADD s 667-0 f v => +QUEUED
         0> XDEL s 667 => +QUEUED
         0> EXEC => [667-0 :1]
         1<
         0> XADD s 668 f w => 668-0
         1< [[s [[668-0 [f w]]]]]",
    );
}

#[test]
fn consumers_wait_for_new_entries_in_turn() {
    play(
        "0> XGROUP CREATE s g $ MKSTREAM => +OK
         0> XGROUP CREATE s h $ => +OK
         1> XREADGROUP GROUP g alice COUNT 1 BLOCK 0 STREAMS s >
         2> XREADGROUP GROUP g bob COUNT 1 BLOCK 0 STREAMS s >
         3> XREADGROUP GROUP h alice BLOCK 0 STREAMS s >
         4> XREADGROUP GROUP g carol BLOCK 0 STREAMS s 0 => [[s []]]
         0> XADD s 1-1 f v => 1-1
         1< [[s [[1-1 [f v]]]]]
         2<
         3< [[s [[1-1 [f v]]]]]
         0> XADD s 2-1 f w => 2-1
         2< [[s [[2-1 [f w]]]]]
         0> XPENDING s g => [:2 1-1 2-1 [[alice 1] [bob 1]]]
         0> XPENDING s h => [:1 1-1 1-1 [[alice 1]]]
         1> XREADGROUP GROUP g alice BLOCK 0 STREAMS t s > > => -NOGROUP No such key 't' or consumer group 'g' in \
            XREADGROUP with GROUP option
         1> MULTI => +OK
         1> XREADGROUP GROUP g alice BLOCK 0 STREAMS s > => +QUEUED
         1> EXEC => [(nil array)]"
            .replace("\\\n            ", "")
            .as_str(),
    );
}

#[test]
fn consumers_are_told_when_what_they_wait_for_is_gone() {
    play(
        "0> XGROUP CREATE s g $ MKSTREAM => +OK
         1> XREADGROUP GROUP g alice BLOCK 0 STREAMS s >
         2> XREADGROUP GROUP g bob BLOCK 0 STREAMS s >
         3> XREAD BLOCK 10 STREAMS s $
         0> DEL s => :1
         1< -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
         2< -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
         3<
         wait 10
         3< (nil array)
         0> XGROUP CREATE s g $ MKSTREAM => +OK
         1> XREADGROUP GROUP g alice BLOCK 0 STREAMS s >
         0> SET s x => +OK
         1< -WRONGTYPE Operation against a key holding the wrong kind of value
         0> DEL s => :1
         0> XGROUP CREATE s g $ MKSTREAM => +OK
         0> XGROUP CREATE s h $ => +OK
         1> XREADGROUP GROUP g alice BLOCK 0 STREAMS s >
         2> XREADGROUP GROUP h alice BLOCK 0 STREAMS s >
         0> XGROUP DESTROY s g => :1
         1< -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
         2<
         0> FLUSHALL => +OK
         2< -NOGROUP No such key 's' or consumer group 'h' in XREADGROUP with GROUP option",
    );
}

#[test]
fn events_have_redis_names() {
    let mut harness = Harness::new();
    harness.check("CONFIG SET notify-keyspace-events KEA", "+OK");
    harness.on(1).check("PSUBSCRIBE __keyspace@*", "[psubscribe __keyspace@* :1]");
    let mut events = |line: &str, expected: &str| {
        harness.on(0).run(line);
        let received = harness.on(1).received();
        let names: Vec<&str> = received
            .split("[pmessage __keyspace@* __keyspace@0__:s ")
            .filter(|name| !name.is_empty())
            .collect();
        let names: Vec<&str> = names.iter().map(|name| name.trim().trim_end_matches(']')).collect();
        assert_eq!(names.join(" "), expected, "{line}");
    };
    events("XADD s 1-1 f v", "xadd");
    events("XADD s MAXLEN 1 2-1 f v", "xadd xtrim");
    events("XADD s MAXLEN 9 3-1 f v", "xadd");
    events("XADD s 3-1 f v", "");
    events("XADD s NOMKSTREAM 4-1 f v", "xadd");
    events("XDEL s 3-1", "xdel");
    events("XDEL s 3-1", "");
    events("XTRIM s MAXLEN 9", "");
    events("XTRIM s MAXLEN 1", "xtrim");
    events("XSETID s 9-1", "xsetid");
    events("XGROUP CREATE s g 0", "xgroup-create");
    events("XGROUP CREATE s g 0", "");
    events("XGROUP SETID s g 0", "xgroup-setid");
    events("XGROUP CREATECONSUMER s g c", "xgroup-createconsumer");
    events("XGROUP CREATECONSUMER s g c", "");
    events("XREADGROUP GROUP g c STREAMS s >", "");
    events("XREADGROUP GROUP g d STREAMS s >", "xgroup-createconsumer");
    events("XCLAIM s g e 0 4-1", "xgroup-createconsumer");
    events("XAUTOCLAIM s g f 0 0", "xgroup-createconsumer");
    events("XACK s g 4-1", "");
    events("XGROUP DELCONSUMER s g c", "xgroup-delconsumer");
    events("XGROUP DELCONSUMER s g c", "");
    events("XGROUP DESTROY s g", "xgroup-destroy");
    events("XGROUP DESTROY s g", "");
    events("XTRIM s MAXLEN 0", "xtrim");
    events("XRANGE s - +", "");
    events("DEL s", "del");
    events("XGROUP CREATE s g 0 MKSTREAM", "xgroup-create");
}

/// More than one worker's turn may visit.
const MANY: usize = 25_000;

fn large() -> Harness {
    let mut harness = Harness::new();
    for id in 1..=MANY {
        harness.run(&format!("XADD s {id}-1 field {id}"));
    }
    harness.check("XGROUP CREATE s g 0", "+OK");
    harness
}

fn ids(from: usize, to: usize) -> String {
    (from..=to).map(|id| format!(" {id}-1")).collect()
}

#[test]
fn large_groups_are_read_and_acknowledged() {
    let mut harness = large();
    let all = harness.run("XRANGE s - +");
    assert!(all.starts_with("[[1-1 [field 1]] [2-1 ") && all.ends_with("[25000-1 [field 25000]]]"));
    assert_eq!(harness.run("XREADGROUP GROUP g alice STREAMS s >"), format!("[[s {all}]]"));
    harness.check("XREADGROUP GROUP g alice STREAMS s >", "(nil array)");
    harness.check("XPENDING s g", "[:25000 1-1 25000-1 [[alice 25000]]]");
    assert_eq!(harness.run("XREADGROUP GROUP g alice STREAMS s 0"), format!("[[s {all}]]"));
    harness.check("XPENDING s g 7 8 9", "[[7-1 alice :0 :2] [8-1 alice :0 :2]]");
    harness.check(&format!("XACK s g{}", ids(1, 12_000)), ":12000");
    harness.check(&format!("XACK s g{}", ids(11_999, 12_001)), ":1");
    assert_eq!(harness.run("XREADGROUP GROUP g bob STREAMS s 0"), "[[s []]]");
    harness.check("XGROUP DELCONSUMER s g alice", ":12999");
    harness.check("XPENDING s g", "[:0 (nil) (nil) (nil array)]");
    harness.check(
        "XINFO GROUPS s",
        "[[name g consumers :1 pending :0 last-delivered-id 25000-1 entries-read :25000 lag :0]]",
    );
}

#[test]
fn one_stream_named_twice_is_one_stream() {
    let mut harness = large();
    let all = harness.run("XRANGE s - +");
    let reply = harness.run("XREADGROUP GROUP g alice STREAMS s s > 0");
    assert_eq!(reply, format!("[[s {all}] [s {all}]]"));
    harness.check("XPENDING s g - + 1", "[[1-1 alice :0 :2]]");
}

#[test]
fn large_claims() {
    let mut harness = large();
    harness.run("XREADGROUP GROUP g alice STREAMS s >");
    harness.advance_ms(100);
    harness.check(&format!("XDEL s{}", ids(3, 20_002)), ":20000");
    harness.check("XLEN s", ":5000");
    harness.check("XPENDING s g IDLE 100 20000 + 2", "[[20000-1 alice :100 :1] [20001-1 alice :100 :1]]");
    harness.check("XPENDING s g IDLE 101 - + 2", "[]");
    let claimed = harness.run("XAUTOCLAIM s g bob 100 0 COUNT 15000 JUSTID");
    assert_eq!(claimed, format!("[15001-1 [1-1 2-1] [{}]]", ids(3, 15_000).trim_start()));
    let claimed = harness.run(&format!("XCLAIM s g carol 100{} JUSTID", ids(1, 21_000)));
    assert_eq!(claimed, format!("[{}]", ids(20_003, 21_000).trim_start()));
    harness.check("XPENDING s g", "[:5000 1-1 25000-1 [[alice 4000] [bob 2] [carol 998]]]");
    harness.check("XGROUP DESTROY s g", ":1");
    harness.check("XPENDING s g", "-NOGROUP No such key 's' or consumer group 'g'");
}

#[test]
fn large_trims() {
    let mut harness = large();
    harness.check("COPY s t", ":1");
    harness.check("XTRIM s MAXLEN ~ 100", ":10000");
    harness.check("XTRIM s MAXLEN ~ 100 LIMIT 0", ":14900");
    harness.check("XTRIM s MAXLEN 7", ":93");
    harness.check("XRANGE s - + COUNT 1", "[[24994-1 [field 24994]]]");
    harness.check("XADD t MINID 20000 30000-1 f v", "30000-1");
    harness.check("XLEN t", ":5002");
    harness.check("XLEN s", ":7");
    harness.check("XADD t MAXLEN 0 30001-1 f v", "30001-1");
    harness.check(
        "XINFO GROUPS t",
        "[[name g consumers :0 pending :0 last-delivered-id 0-0 entries-read (nil) lag :0]]",
    );
    harness.check("XLEN t", ":0");
    harness.check("TYPE t", "+stream");
}
