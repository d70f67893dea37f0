//! Moves between two servers of one process, with everything that can come between.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base::slot::slot_of;

use super::*;
use crate::outgoing::Target;
use crate::server::Server;
use crate::testing::{DirectLink, Harness};

type Shared = Arc<Mutex<Harness>>;

/// Tags of the slots that are moved, the last slot among them, and of one that stays.
const MOVED: [&str; 3] = ["a", "b", "hia"];
const STAYING: &str = "d";

fn node() -> Harness {
    Harness::with_config(&[("cluster-enabled", "yes"), ("enable-debug-command", "yes")])
}

fn two() -> (Harness, Shared) {
    (node(), Arc::new(Mutex::new(node())))
}

fn task() -> SlotMove {
    let slots = SlotSet::of(MOVED.map(|tag| slot_of(tag.as_bytes())).map(|slot| slot..=slot));
    SlotMove::new("move-1".to_owned(), slots, Target { host: "there".to_owned(), port: 7000 })
}

/// Gives the source a connection; `meanwhile` is called each time that an answer is waited for.
fn connect(from: &mut Harness, to: &Shared, meanwhile: impl FnMut(usize) -> io::Result<()> + Send + 'static) {
    from.give_link(Box::new(DirectLink::new(to, meanwhile)));
}

fn keys_of(harness: &mut Harness, tag: &str) -> Vec<String> {
    let slot = slot_of(tag.as_bytes());
    let keys = harness.server.keyspace.keys_in_slot(None, 0, slot, usize::MAX);
    keys.into_iter().map(|key| String::from_utf8(key).expect("a key of these tests")).collect()
}

/// What the keys of the moved slots hold.
fn contents(harness: &mut Harness) -> BTreeMap<String, String> {
    let keys: Vec<String> = MOVED.iter().flat_map(|tag| keys_of(harness, tag)).collect();
    let mut contents = BTreeMap::new();
    for key in keys {
        let looks =
            ["TYPE", "DEBUG DIGEST-VALUE", "PEXPIRETIME"].map(|look| harness.run(&format!("{look} {key}")));
        contents.insert(key, looks.join(" "));
    }
    contents
}

fn there(to: &Shared) -> BTreeMap<String, String> {
    contents(to.lock().expect("a test that goes on").on(1))
}

fn moved(_: &SlotMove) -> Flipped {
    Flipped::Done
}

fn fill(from: &mut Harness) {
    for tag in MOVED.iter().chain(&[STAYING]) {
        for line in [
            "SET {T}text v",
            "SET {T}number 17 PX 90000",
            "SET {T}ended v PX 1",
            "RPUSH {T}list a b c",
            "SADD {T}set a b",
            "ZADD {T}zset 1 a 2.5 b",
            "HSET {T}hash f v g w",
            "HPEXPIRE {T}hash 70000 FIELDS 1 f",
            "XADD {T}stream 5-1 f v",
            "XGROUP CREATE {T}stream group 0",
            "XREADGROUP GROUP group reader STREAMS {T}stream >",
            "PEXPIRE {T}list 80000",
        ] {
            let reply = from.run(&line.replace("{T}", &format!("{{{tag}}}")));
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        let words: Vec<String> = (0..3000).map(|n| format!("{n} element:{n}")).collect();
        for (command, every) in [("RPUSH", 1), ("SADD", 1), ("ZADD", 1), ("HSET", 1)] {
            let key = format!("{{{tag}}}big:{command}");
            let line = format!(
                "{command} {key} {}",
                words.iter().step_by(every).cloned().collect::<Vec<_>>().join(" ")
            );
            assert!(!from.run(&line).starts_with('-'));
        }
        from.run(&format!("SET {{{tag}}}long {}", "z".repeat(200_000)));
        from.run(&format!("PEXPIRE {{{tag}}}big:ZADD 60000"));
    }
}

#[test]
fn keys_of_every_kind_arrive_as_they_were() {
    let (mut from, to) = two();
    fill(&mut from);
    connect(&mut from, &to, |_| Ok(()));
    let (task, before) = (task(), contents(&mut from));
    assert_eq!(before.len(), 3 * 13);
    assert_eq!(from.server.move_slots(&task, &mut moved), Ok(()));
    assert_eq!(there(&to), before);
    assert_eq!(task.progress.keys.load(Relaxed), 39);
    from.server.clear_left_slots();
    assert_eq!(contents(&mut from), BTreeMap::new());
    assert_eq!(keys_of(&mut from, STAYING).len(), 13);
    let mut to = to.lock().expect("a test that goes on");
    assert_eq!(keys_of(&mut to, STAYING).len(), 0);
    assert!(!to.server.slot_moves.importing.any());
    assert!(!from.server.log.is_active(), "nobody wants it any more");
}

/// A command that writes somewhere in the slots, by chance.
fn some_write(rng: &mut fastrand::Rng) -> String {
    let tag = ["a", "b", "hia", "d"][rng.usize(..4)];
    let mut key = |kind: &str| format!("{{{tag}}}{kind}:{}", rng.u8(..6));
    let (text, list, set, zset, hash) = (key("t"), key("l"), key("s"), key("z"), key("h"));
    let (list2, set2, text2) = (key("l"), key("s"), key("t"));
    let n = rng.u8(..50);
    match rng.u8(..24) {
        0 => format!("SET {text} {n}"),
        1 => format!("APPEND {text} {n}"),
        2 => format!("SET {text} {n} PX 500000"),
        3 => format!("PERSIST {text}"),
        4 => format!("PEXPIRE {list} {}", 100_000 + u32::from(n)),
        5 => format!("DEL {text} {set}"),
        6 => format!("RPUSH {list} {n}"),
        7 => format!("LPUSH {list} {n}"),
        8 => format!("LPOP {list}"),
        9 => format!("LMOVE {list} {list2} LEFT RIGHT"),
        10 => format!("SADD {set} {n}"),
        11 => format!("SPOP {set}"),
        12 => format!("SUNIONSTORE {set} {set} {set2}"),
        13 => format!("SMOVE {set} {set2} {n}"),
        14 => format!("SINTERSTORE {set2} {set}"),
        15 => format!("RENAME {text} {text2}"),
        16 => format!("COPY {text} {text2} REPLACE"),
        17 => format!("ZADD {zset} {n} m{n}"),
        18 => format!("ZPOPMIN {zset}"),
        19 => format!("ZINCRBY {zset} 2 m{n}"),
        20 => format!("HSET {hash} f{n} {n}"),
        21 => format!("HDEL {hash} f{n}"),
        22 => format!("SORT {list} ALPHA STORE {list2}"),
        _ => format!("SETRANGE {text} 2 {n}"),
    }
}

/// Writes a little, alone or as a transaction or a script.
fn write_some(harness: &mut Harness, rng: &mut fastrand::Rng) {
    let lines = match rng.u8(..5) {
        0 => {
            let both = [some_write(rng), some_write(rng)];
            [vec!["MULTI".to_owned()], both.to_vec(), vec!["EXEC".to_owned()]].concat()
        }
        _ => vec![some_write(rng)],
    };
    for line in lines {
        // What is parked comes again later, or never.
        if harness.stops(&line).is_none() {
            harness.take_letters();
        }
    }
}

#[test]
fn what_is_written_meanwhile_arrives_too() {
    for seed in 0..150 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut from, to) = two();
        for _ in 0..rng.usize(..200) {
            write_some(&mut from, &mut rng);
        }
        let mut other = Harness::sharing(&from);
        let mut meanwhile = fastrand::Rng::with_seed(seed + 1000);
        let often = meanwhile.usize(1..6);
        // Nothing here writes to slots that are another server's.
        let is_moved = Arc::new(AtomicBool::new(false));
        let is_over = is_moved.clone();
        connect(&mut from, &to, move |_| {
            if !is_over.load(Relaxed) {
                (0..meanwhile.usize(..often)).for_each(|_| write_some(&mut other, &mut meanwhile));
            }
            Ok(())
        });
        let mut flip = |_: &SlotMove| {
            is_moved.store(true, Relaxed);
            Flipped::Done
        };
        assert_eq!(from.server.move_slots(&task(), &mut flip), Ok(()), "seed {seed}");
        assert_eq!(there(&to), contents(&mut from), "seed {seed}");
    }
}

#[test]
fn a_move_that_fails_anywhere_leaves_nothing_there_and_everything_here() {
    let mut succeeded = false;
    for breaks_at in 1..10_000 {
        let (mut from, to) = two();
        for n in 0..40 {
            from.run(&format!("SET {{a}}{n} {n}"));
        }
        let before = contents(&mut from);
        connect(&mut from, &to, move |reads| {
            if reads == breaks_at { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
        });
        let result = from.server.move_slots(&task(), &mut moved);
        let mut to = to.lock().expect("a test that goes on");
        to.disconnect();
        succeeded = result.is_ok();
        if succeeded {
            break;
        }
        from.server.clear_left_slots();
        to.server.clear_left_slots();
        assert_eq!(contents(&mut from), before, "{breaks_at}");
        for (id, _) in to.server.undecided_imports() {
            assert!(to.server.settle_import(&id, false));
        }
        to.server.clear_left_slots();
        assert_eq!(contents(&mut to).len(), 0, "{breaks_at}");
        assert!(!to.server.slot_moves.importing.any() && !from.server.slot_moves.parked.any());
        assert!(!from.server.log.is_active());
    }
    assert!(succeeded);
}

#[test]
fn who_is_told_no_keeps_its_slots() {
    let (mut from, to) = two();
    fill(&mut from);
    let before = contents(&mut from);
    connect(&mut from, &to, |_| Ok(()));
    let mut refusing = |_: &SlotMove| Flipped::Refused("the slots are somebody else's".to_owned());
    let result = from.server.move_slots(&task(), &mut refusing);
    assert_eq!(result, Err("the slots are somebody else's".to_owned()));
    from.server.clear_left_slots();
    assert_eq!(contents(&mut from), before);
    to.lock().expect("a test that goes on").server.clear_left_slots();
    assert_eq!(there(&to).len(), 0);
    // And may try again.
    connect(&mut from, &to, |_| Ok(()));
    assert_eq!(from.server.move_slots(&task(), &mut moved), Ok(()));
    assert_eq!(there(&to), before);
}

#[test]
fn a_move_is_cancelled_and_a_flush_ends_it() {
    for change in ["FLUSHALL", "cancel"] {
        let (mut from, to) = two();
        fill(&mut from);
        let (task, mut other) = (Arc::new(task()), Harness::sharing(&from));
        let cancelled = task.clone();
        connect(&mut from, &to, move |reads| {
            match (reads, change) {
                (5, "cancel") => cancelled.cancel(),
                (5, _) => drop(other.run(change)),
                _ => {}
            }
            Ok(())
        });
        let expected = if change == "cancel" { "cancelled" } else { "the data were flushed" };
        assert_eq!(from.server.move_slots(&task, &mut moved), Err(expected.to_owned()));
        let mut to = to.lock().expect("a test that goes on");
        to.disconnect();
        to.server.clear_left_slots();
        assert_eq!(contents(&mut to).len(), 0);
    }
}

#[test]
fn what_is_complete_waits_for_the_owner_to_be_known() {
    for is_ours in [false, true] {
        let mut to = node();
        to.check("CLUSTER SYNCSLOTS START m1 0 100 15495 15495", "+OK");
        to.check("SET {a}x 1", "+OK");
        to.check("CLUSTER SYNCSLOTS READY m2", "-ERR No such import on this connection");
        to.check("CLUSTER SYNCSLOTS READY m1", "+OK");
        to.on(1).check("CLUSTER SYNCSLOTS DONE m1", "-ERR No such import on this connection");
        to.check("CLUSTER SYNCSLOTS START m2 15000 16383", "-ERR Slots are being imported already");
        to.on(0).disconnect();
        to.server.clear_left_slots();
        assert_eq!(keys_of(&mut to, "a").len(), 1);
        assert_eq!(to.server.undecided_imports().len(), 1);
        assert!(to.server.settle_import("m1", is_ours) && !to.server.settle_import("m1", is_ours));
        to.server.clear_left_slots();
        assert_eq!(keys_of(&mut to, "a").len(), usize::from(is_ours));
        let again = to.on(2).run("CLUSTER SYNCSLOTS START m2 15000 16383");
        assert_eq!(again, if is_ours { "-ERR Slots to be imported hold keys" } else { "+OK" });
    }
    let mut to = node();
    for (line, expected) in [
        ("CLUSTER SYNCSLOTS START m 0", "-ERR syntax error"),
        ("CLUSTER SYNCSLOTS START m 0 16384", "-ERR Invalid or out of range slot"),
        ("CLUSTER SYNCSLOTS START m x 1", "-ERR Invalid or out of range slot"),
        ("CLUSTER SYNCSLOTS START m 5 4", "-ERR start slot number 5 is greater than end slot number 4"),
        ("CLUSTER SYNCSLOTS STOP m", "-ERR syntax error"),
    ] {
        to.check(line, expected);
    }
}

#[test]
fn what_ends_meanwhile_is_kept_until_the_source_says_so() {
    let mut to = node();
    for line in ["CLUSTER SYNCSLOTS START m 15495 15495", "SET {a}x 1 PX 10"] {
        to.check(line, "+OK");
    }
    to.advance_ms(50);
    let stripe = to.server.keyspace.position(b"{a}x").stripe();
    assert_eq!(to.server.expire_slice(stripe, to.server.clock.now().unix_ms, 100), (0, false));
    // The source has prolonged it in time.
    to.check("PERSIST {a}x", ":1");
    to.check("CLUSTER SYNCSLOTS READY m", "+OK");
    to.check("CLUSTER SYNCSLOTS DONE m", "+OK");
    to.check("GET {a}x", "1");
    to.check("PTTL {a}x", ":-1");
}

#[test]
fn only_the_commands_of_the_slots_wait_for_the_flip() {
    let (mut from, to) = two();
    fill(&mut from);
    connect(&mut from, &to, |_| Ok(()));
    let mut other = Harness::sharing(&from);
    other.run("SCRIPT FLUSH");
    for line in ["MULTI", "GET {a}text", "SET {a}text other"] {
        other.on(1).run(line);
    }
    let mut flips = 0;
    let mut flip = |_: &SlotMove| {
        flips += 1;
        for line in [
            "GET {a}text",
            "SET {b}text w",
            "DEL {hia}list {hia}set",
            "FLUSHALL",
            "EVAL \"return 1\" 1 {a}text",
        ] {
            assert!(other.on(0).is_held_up(line), "{line}");
        }
        assert!(other.on(1).is_held_up("EXEC"));
        for line in
            ["GET {d}text", "SET {d}text w", "PING", "EVAL \"return redis.call('GET', KEYS[1])\" 1 {d}text"]
        {
            assert!(!other.on(0).is_held_up(line), "{line}");
        }
        Flipped::Done
    };
    assert_eq!(from.server.move_slots(&task(), &mut flip), Ok(()));
    assert_eq!(flips, 1);
    other.on(1).check("EXEC", "[v +OK]");
}

#[test]
fn slots_are_left_in_slices_and_others_hear_of_it() {
    let mut from = node();
    for n in 0..500 {
        from.run(&format!("SET {{a}}{n} {n}"));
    }
    from.run("SET {a}ended v PX 1");
    from.run("SET {d}stays v");
    from.advance_ms(10);
    let server: Arc<Server> = from.server.clone();
    let effects = from.effects_of(|_| {
        server.leave_slots(task().slots);
        assert!(server.is_leaving(&task().slots));
        server.clear_left_slots();
    });
    assert!(!server.is_leaving(&task().slots));
    let records: Vec<&str> = effects.split('|').filter(|record| record.starts_with("UNLINK ")).collect();
    assert_eq!(records.iter().map(|record| record.split(' ').count() - 1).sum::<usize>(), 501);
    assert!(records.len() > 10);
    from.check("DBSIZE", ":1");
}

#[test]
fn what_has_not_flipped_yet_is_not_seen() {
    let mut to = node();
    to.on(1).check("SET {d}own v", "+OK");
    to.on(0).check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
    for n in 0..50 {
        to.check(&format!("SET {{a}}{n} v"), "+OK");
    }
    to.on(1);
    for (line, expected) in [
        ("DBSIZE", ":1"),
        ("KEYS *", "[{d}own]"),
        ("SCAN 0 COUNT 1000", "[0 [{d}own]]"),
        ("RANDOMKEY", "{d}own"),
        ("CLUSTER COUNTKEYSINSLOT 15495", ":0"),
        ("CLUSTER GETKEYSINSLOT 15495 10", "[]"),
        ("CLUSTER SLOT-STATS SLOTSRANGE 15495 15495", "[[:15495 [key-count :0]]]"),
    ] {
        to.check(line, expected);
    }
    assert!(to.run("INFO keyspace").contains("db0:keys=1,"));
    to.check("DEL {d}own", ":1");
    to.check("RANDOMKEY", "(nil)");
    assert!(!to.run("INFO keyspace").contains("db0"));
    to.on(0).check("CLUSTER SYNCSLOTS READY m", "+OK");
    to.on(1).check("DBSIZE", ":0");
    to.on(0).check("CLUSTER SYNCSLOTS DONE m", "+OK");
    to.on(1).check("DBSIZE", ":50");
    to.check("CLUSTER COUNTKEYSINSLOT 15495", ":50");
    to.check("CLUSTER SLOT-STATS SLOTSRANGE 15495 15495", "[[:15495 [key-count :50]]]");
    assert_ne!(to.run("CLUSTER GETKEYSINSLOT 15495 10"), "[]");
    assert_ne!(to.run("RANDOMKEY"), "(nil)");
}

#[test]
fn what_comes_with_its_slot_is_no_event() {
    let mut to = node();
    to.on(1).check("CONFIG SET notify-keyspace-events EA", "+OK");
    to.on(2).run("PSUBSCRIBE __key*");
    let lines =
        ["CLUSTER SYNCSLOTS START m 15495 15495", "SET {a}x v", "MULTI", "APPEND {a}x w", "DEL {a}x", "EXEC"];
    lines.iter().for_each(|line| drop(to.on(0).run(line)));
    to.check("SET {a}y v", "+OK");
    assert_eq!(to.on(2).received(), "");
    to.on(0).check("CLUSTER SYNCSLOTS READY m", "+OK");
    to.check("CLUSTER SYNCSLOTS DONE m", "+OK");
    assert_eq!(to.on(2).received(), "");
    // What clients do to it from then on is.
    to.on(1).check("SET {a}y w", "+OK");
    assert_eq!(to.on(2).received(), "[pmessage __key* __keyevent@0__:set {a}y]");
}

#[test]
fn what_has_not_flipped_yet_is_not_evicted() {
    let mut to = node();
    to.check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
    for n in 0..50 {
        to.check(&format!("SET {{a}}{n} v"), "+OK");
    }
    to.on(1).check("CONFIG SET maxmemory-policy allkeys-random", "+OK");
    assert!((0..100).all(|_| !to.evict_one()));
    to.check("SET {d}own v", "+OK");
    // Most samples see none but the others.
    assert!((0..100_000).any(|_| to.evict_one()));
    to.check("EXISTS {d}own", ":0");
    assert_eq!(keys_of(&mut to, "a").len(), 50);
}

#[test]
fn what_was_flushed_meanwhile_does_not_come_to_count() {
    let mut to = node();
    to.check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
    to.check("SET {a}x v", "+OK");
    to.on(1).check("FLUSHALL", "+OK");
    to.on(0).check("CLUSTER SYNCSLOTS READY m", "-ERR No such import on this connection");
    to.disconnect();
    to.server.clear_left_slots();
    assert!(to.server.imports().is_empty() && !to.server.slot_moves.importing.any());
}

/// A source that was stopped, deposed, and goes on: its successor has moved the slots meanwhile.
#[test]
fn what_an_old_connection_still_sends_is_not_run_where_the_slots_have_come_by_another() {
    let mut to = node();
    to.on(1).check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
    to.check("RPUSH {a}list x", ":1");
    to.check("MULTI", "+OK");
    to.check("RPUSH {a}list late", "+QUEUED");
    assert!(to.server.settle_import("m", false));
    to.server.clear_left_slots();
    to.on(0).check("CLUSTER SYNCSLOTS START m2 15495 15495", "+OK");
    to.check("RPUSH {a}list x y", ":2");
    let late = "-ERR No such import on this connection";
    to.on(1).check("EXEC", "-EXECABORT Transaction discarded because of: No such import on this connection");
    to.check("RPUSH {a}list late", late);
    to.on(0).check("CLUSTER SYNCSLOTS READY m2", "+OK");
    to.check("CLUSTER SYNCSLOTS DONE m2", "+OK");
    to.on(1).check("RPUSH {a}list late", late);
    to.check("SDIFFSTORE {a}set {a}list", late);
    to.check("MULTI", "+OK");
    to.check("RPUSH {a}list late", late);
    to.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    to.on(2).check("LRANGE {a}list 0 -1", "[x y]");
}

#[test]
fn an_import_that_was_given_up_can_come_again_but_not_by_its_old_connection() {
    let mut to = node();
    to.check("CLUSTER SYNCSLOTS START m 15495 15495", "+OK");
    to.check("SET {a}x v", "+OK");
    assert!(to.server.settle_import("m", false));
    to.check("CLUSTER SYNCSLOTS READY m", "-ERR No such import on this connection");
    to.on(1).check("CLUSTER SYNCSLOTS START m2 15495 15495", "-ERR Slots to be imported hold keys");
    to.server.clear_left_slots();
    to.on(1).check("CLUSTER SYNCSLOTS START m2 15495 15495", "+OK");
    let slots = SlotSet::of([15495..=15495]);
    let view = ImportView { id: "m2".to_owned(), slots: slots.clone(), is_ready: false };
    assert_eq!(to.server.imports(), [view]);
    // What a move had left behind is not looked for in what is coming.
    to.on(1).check("SET {a}x v", "+OK");
    to.server.clear_left_behind(&slots);
    to.server.clear_left_slots();
    assert_eq!(keys_of(&mut to, "a").len(), 1);
    to.server.forget_imports();
    assert!(to.server.imports().is_empty() && !to.server.slot_moves.importing.any());
    assert_eq!(keys_of(&mut to, "a").len(), 1, "who is primary lets go of them");
}

/// A key of another slot that shares its lock with that of the tag `a`.
fn neighbour() -> String {
    let slot = slot_of(b"a");
    let is_near = |key: &String| slot_of(key.as_bytes()) != slot && slot_of(key.as_bytes()) / 16 == slot / 16;
    (0..).map(|n: u32| format!("n{n}")).find(is_near).expect("there are many")
}

#[test]
fn slots_that_share_a_lock_with_moved_ones_do_not_wait() {
    let (mut from, to) = two();
    from.run("SET {a}text v");
    connect(&mut from, &to, |_| Ok(()));
    let (mut other, near) = (Harness::sharing(&from), neighbour());
    other.run(&format!("SET {near} v"));
    let mut flip = |_: &SlotMove| {
        assert!(other.on(0).is_held_up("GET {a}text"));
        for line in [format!("GET {near}"), format!("EVAL \"return redis.call('GET', KEYS[1])\" 1 {near}")] {
            assert!(!other.on(1).is_held_up(&line), "{line}");
        }
        Flipped::Done
    };
    assert_eq!(from.server.move_slots(&task(), &mut flip), Ok(()));
}

#[test]
fn commands_that_have_waited_for_long_are_refused_until_the_owner_is_known() {
    let (mut from, to) = two();
    from.run("SET {a}text v");
    connect(&mut from, &to, |_| Ok(()));
    let mut other = Harness::sharing(&from);
    let mut flip = |task: &SlotMove| {
        assert!(other.on(0).is_held_up("GET {a}text"));
        other.server.refuse_parked(&task.slots);
        let refused = "-CLUSTERDOWN The slot is moving, and etcd has not said whose it is";
        other.on(1).check("GET {a}text", refused);
        other.on(1).check("EVAL \"return 1\" 1 {a}text", refused);
        other.on(1).check("SET {d}text w", "+OK");
        Flipped::Refused("nobody knows".to_owned())
    };
    assert_eq!(from.server.move_slots(&task(), &mut flip), Err("nobody knows".to_owned()));
    other.on(1).check("GET {a}text", "v");
}

#[test]
fn migrations_are_looked_over_and_asked_of_the_cluster() {
    let mut node = node();
    let other = "f".repeat(40);
    let own = node.server.cluster.identity.node_id.clone();
    for (line, expected) in [
        ("", "-ERR wrong number of arguments for 'cluster|migrateslots' command"),
        ("SLOTSRANGE 0", "-ERR No end slot for final slot range"),
        ("SLOTSRANGE x 1", "-ERR No slot ranges specified"),
        ("SLOTSRANGE 0 x", "-ERR Invalid or out of range slot"),
        ("SLOTSRANGE 0 16384", "-ERR Invalid or out of range slot"),
        ("SLOTSRANGE 5 0 NODE x", "-ERR Start slot number 5 is greater than end slot number 0."),
        ("SLOTSRANGE 0 5 3 8 NODE x", "-ERR Slot range 3-8 overlaps with previous range 0-5."),
        ("SLOTSRANGE 0 5", "-ERR syntax error"),
        ("SLOTSRANGE 0 5 NODE", "-ERR syntax error"),
        ("SLOTSRANGE 0 5 FOO x", "-ERR syntax error"),
        ("NODE x SLOTSRANGE 0 1", "-ERR syntax error"),
        ("SLOTSRANGE 0 5 NODE xyz", "-ERR Invalid node name: xyz"),
        (&format!("SLOTSRANGE 0 5 NODE {other}"), &format!("-ERR Unknown node name: {other}")),
        (&format!("SLOTSRANGE 0 5 NODE {own}"), "-ERR Target node can not be this node."),
    ] {
        node.check(&format!("CLUSTER MIGRATESLOTS {line}"), expected);
    }
    node.check("CLUSTER CANCELSLOTMIGRATIONS", "-ERR No migrations ongoing");
    node.check("CLUSTER GETSLOTMIGRATIONS", "[]");
    let told = Migration {
        name: "a".repeat(40),
        is_export: true,
        slots: "0-5 7-7".to_owned(),
        target: other,
        source: own,
        begun_s: 1,
        changed_s: 2,
        state: "success",
        message: String::new(),
    };
    node.server.tell_migrations(vec![told]);
    let reply = node.run("CLUSTER GETSLOTMIGRATIONS");
    for part in
        ["operation EXPORT slot_ranges 0-5 7-7 target_node ff", "create_time :1", "state success message"]
    {
        assert!(reply.contains(part), "{reply}");
    }
}
