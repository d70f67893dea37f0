//! What replicas are answered and sent.

use std::sync::Arc;
use std::task::Waker;

use engine::output::Output;
use engine::replication::primary::{Feed, Next};
use engine::testing::Harness;
use journal::storage::{Faults, SimulatedStorage, Storage};
use rdb::Piece;

/// What the feed sends until it waits for something.
fn pump(harness: &mut Harness, feed: &mut Feed) -> (Vec<u8>, Next) {
    let (server, mut out, mut sent) = (harness.server.clone(), Output::new(), Vec::new());
    let server = &server;
    loop {
        let next = feed.fill(server, server.clock.now(), Waker::noop(), &mut out);
        out.drain_into(&mut sent);
        match next {
            Next::Room => {}
            Next::Later(wait_us) => harness.advance_ms(wait_us.div_ceil(1000)),
            Next::Fetch(mut source) => {
                let bytes = source.read();
                feed.take(server, server.clock.now(), source, bytes, &mut out)
                    .expect("a source that is whole");
            }
            next => return (sent, next),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes the synchronization that is due.
fn synchronize(harness: &Harness) {
    let storage = SimulatedStorage::new(1);
    let work = harness.server.begin_sync(&storage).expect("one is due");
    if let Some(save) = &work.save {
        let (mut encoder, mut payload) = (save.encoder(&harness.server), save.head.clone());
        while encoder.fill(&mut payload, usize::MAX) != Piece::Last {}
        work.sync.write(&payload).expect("a disk without faults");
    }
    harness.server.end_sync(work, Ok(()));
}

/// A replica that has been synchronized, on connection 1, and its feed.
fn attach(harness: &mut Harness) -> Box<Feed> {
    harness.on(1).run("REPLCONF listening-port 7001 capa psync2");
    assert_eq!(harness.run("PSYNC ? -1"), "");
    let mut feed = harness.feed.take().expect("a replica");
    synchronize(harness);
    let (sent, next) = pump(harness, &mut feed);
    assert!(matches!(next, Next::Wake) && sent.starts_with(b"+FULLRESYNC "), "{}", text(&sent));
    harness.on(0);
    feed
}

fn harness() -> Harness {
    Harness::with_config(&[("repl-diskless-sync", "no")])
}

#[test]
fn replicas_introduce_themselves_as_to_redis() {
    let mut harness = harness();
    for (line, expected) in [
        ("REPLCONF", "+OK"),
        ("REPLCONF listening-port", "-ERR syntax error"),
        ("REPLCONF listening-port x", "-ERR value is not an integer or out of range"),
        ("REPLCONF listening-port 6380 ip-address 10.0.0.1 CAPA eof capa psync2", "+OK"),
        ("REPLCONF capa dual-channel version 9.1.2", "+OK"),
        ("REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1"),
        ("REPLCONF rdb-only 1 rdb-only 0", "+OK"),
        ("REPLCONF rdb-filter-only keys", "-ERR Unsupported rdb-filter-only option: keys"),
        ("REPLCONF rdb-filter-only '\"'", "-ERR Missing rdb-filter-only values"),
        ("REPLCONF nosuch 1", "-ERR Unrecognized REPLCONF option: nosuch"),
        // Not answered, whoever sends it.
        ("REPLCONF ACK 5", ""),
        ("REPLCONF GETACK *", ""),
        ("PSYNC x", "-ERR wrong number of arguments for 'psync' command"),
        ("PSYNC ? x", "-ERR value is not an integer or out of range"),
        ("PSYNC ? -1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master."),
        ("ROLE", "[master :0 []]"),
    ] {
        harness.check(line, expected);
    }
    let long = format!("REPLCONF ip-address {}", "x".repeat(256));
    harness.check(&long, "-ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes");
    harness.run("MULTI");
    harness.check("SYNC", "-ERR Command not allowed inside a transaction");
}

#[test]
fn a_replica_is_sent_everything_and_what_follows() {
    let mut harness = harness();
    harness.run("SET before 1");
    harness.on(1).run("REPLCONF listening-port 7001");
    assert_eq!(harness.run("PSYNC ? -1"), "");
    let mut feed = harness.feed.take().expect("a replica");
    // While it waits it hears of that every second.
    for (ms, expected) in [(0, ""), (999, ""), (1, "\n"), (500, ""), (700, "\n")] {
        harness.advance_ms(ms);
        let (sent, _) = pump(&mut harness, &mut feed);
        assert_eq!(text(&sent), expected, "after {ms} ms");
    }
    let state = harness.on(0).run("INFO replication");
    assert!(state.contains("slave0:ip=127.0.0.1,port=7001,state=wait_bgsave,offset=0,lag=0"), "{state}");
    synchronize(&harness);
    harness.run("SET after 1");
    let (sent, _) = pump(&mut harness, &mut feed);
    let sent = text(&sent);
    let (line, rest) = sent.split_once("\r\n").expect("a line");
    assert_eq!(
        line,
        format!("+FULLRESYNC {} 0", "a5".repeat(20)),
        "a stream that begins now has an id of its own"
    );
    assert!(rest.starts_with('$') && rest.contains("REDIS0010") && rest.contains("before"), "{rest}");
    let stream = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$5\r\nafter\r\n$1\r\n1\r\n";
    assert!(rest.ends_with(stream), "{rest}");
    harness.run("SET more 1");
    harness.server.tend_replicas();
    let (sent, _) = pump(&mut harness, &mut feed);
    assert_eq!(text(&sent), "*3\r\n$3\r\nSET\r\n$4\r\nmore\r\n$1\r\n1\r\n*1\r\n$4\r\nPING\r\n");
    harness.check("ROLE", &format!("[master :{} [[127.0.0.1 7001 0]]]", harness.server.log.end()));
}

#[test]
fn the_end_of_a_payload_is_marked_for_those_who_can_read_it() {
    let mut harness = Harness::with_config(&[("repl-diskless-sync-delay", "3")]);
    harness.run("SET k v");
    harness.on(1).run("REPLCONF capa eof");
    harness.run("PSYNC ? -1");
    let mut feed = harness.feed.take().expect("a replica");
    let storage = SimulatedStorage::new(1);
    assert!(harness.server.begin_sync(&storage).is_none(), "others may come");
    harness.advance_ms(3000);
    synchronize(&harness);
    harness.on(0).run("SET after 1");
    let sent = text(&pump(&mut harness, &mut feed).0);
    let sent = sent.trim_start_matches('\n');
    let mark = "a5".repeat(20);
    let payload = sent.split_once(&format!("$EOF:{mark}\r\n")).expect("a mark").1;
    assert!(payload.starts_with("REDIS0010") && payload.ends_with(&mark), "{payload}");
    // What follows is not sent before the replica has the payload.
    harness.on(1).run("REPLCONF ACK 0");
    let sent = text(&pump(&mut harness, &mut feed).0);
    assert!(sent.starts_with("*2\r\n$6\r\nSELECT") && sent.contains("after"), "{sent}");
}

#[test]
fn a_stream_goes_on_where_it_stopped() {
    let mut harness = harness();
    let feed = attach(&mut harness);
    harness.run("SET a 1");
    let middle = harness.server.log.end();
    harness.run("SET b 2");
    let id = harness.server.replication.ids.lock().id.clone();
    drop(feed);
    harness.on(2).run("REPLCONF capa psync2");
    assert_eq!(harness.run(&format!("PSYNC {id} {}", middle + 1)), format!("+CONTINUE {id}"));
    let mut feed = harness.feed.take().expect("a replica");
    assert_eq!(text(&pump(&mut harness, &mut feed).0), "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n");
    // One that knows of no second id is told none; one that asks for too much is sent everything.
    assert_eq!(harness.on(3).run(&format!("PSYNC {id} {}", middle + 1)), "+CONTINUE");
    harness.feed = None;
    assert_eq!(harness.on(4).run(&format!("PSYNC {id} {}", middle + 1000)), "");
    let mut feed = harness.feed.take().expect("a replica");
    let (_, next) = pump(&mut harness, &mut feed);
    assert!(matches!(next, Next::Wake));
    let stats = harness.on(0).run("INFO stats");
    for field in ["sync_full:2", "sync_partial_ok:2", "sync_partial_err:1"] {
        assert!(stats.contains(field), "{field}: {stats}");
    }
}

#[test]
fn replicas_touch_no_key_and_are_not_paused() {
    let mut harness = harness();
    let _feed = attach(&mut harness);
    harness.check("CLIENT PAUSE 10000 ALL", "+OK");
    harness.on(1).check("REPLCONF ACK 0", "");
    harness.check("GET k", "-ERR Replica can't interact with the keyspace");
    harness.check("SET k v", "-ERR Replica can't interact with the keyspace");
    harness.check("PSYNC ? -1", "");
    harness.check("SYNC", "");
    let listed = harness.on(0).run("CLIENT LIST TYPE replica");
    assert!(listed.lines().count() == 1 && listed.contains(" flags=S "), "{listed}");
    harness.check("CLIENT KILL TYPE slave", ":1");
}

#[test]
fn clients_wait_for_acknowledgements() {
    let mut harness = harness();
    harness.check("WAIT 0 0", ":0");
    harness.check("WAIT x 0", "-ERR value is not an integer or out of range");
    harness.check("WAIT 1 -1", "-ERR timeout is negative");
    let mut feed = attach(&mut harness);
    harness.check("WAIT 1 0", ":1");
    harness.run("SET k v");
    let end = harness.server.log.end();
    // Nobody has acknowledged it: the replica is asked, the client waits.
    harness.check("WAIT 1 0", "");
    harness.server.ask_for_acks();
    let sent = text(&pump(&mut harness, &mut feed).0);
    assert!(sent.ends_with("*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"), "{sent}");
    harness.on(1).run(&format!("REPLCONF ACK {}", end - 1));
    assert_eq!(harness.on(0).received(), "");
    harness.on(1).run(&format!("REPLCONF ACK {end}"));
    assert_eq!(harness.on(0).received(), ":1");
    harness.check("WAIT 1 0", ":1");
    // Who waits for too many is told how many there are.
    harness.check("WAIT 2 100", "");
    harness.advance_ms(100);
    harness.end_waits();
    assert_eq!(harness.received(), ":1");
    harness.check(
        "WAITAOF 1 0 0",
        "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
    );
    harness.check("WAITAOF 0 1 0", "");
    harness.on(1).run(&format!("REPLCONF ACK {end} FACK {end}"));
    assert_eq!(harness.on(0).received(), "[:0 :1]");
    harness.run("SET k w");
    harness.run("MULTI");
    harness.run("WAIT 1 0");
    harness.check("EXEC", "[:0]");
    harness.check("WAIT 1 0", "");
    harness.on(2).check("CLIENT UNBLOCK 1 TIMEOUT", ":1");
    assert_eq!(harness.on(0).received(), ":0");
}

#[test]
fn writes_need_replicas_where_that_is_asked_for() {
    let refusal = "-NOREPLICAS Not enough good replicas to write.";
    let mut harness = harness();
    harness.check("CONFIG SET min-replicas-to-write 1", "+OK");
    harness.check("SET k v", refusal);
    harness.check("GET k", "(nil)");
    harness.run("MULTI");
    harness.check("SET k v", refusal);
    harness.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    let _feed = attach(&mut harness);
    harness.check("SET k v", "+OK");
    harness.advance_ms(11_000);
    harness.server.tend_replicas();
    harness.check("SET k v", refusal);
    harness.on(1).run("REPLCONF ACK 0");
    harness.server.tend_replicas();
    harness.on(0).check("SET k v", "+OK");
    harness.check("CONFIG SET min-replicas-max-lag 0", "+OK");
    harness.advance_ms(30_000);
    harness.server.tend_replicas();
    harness.check("SET k v", "+OK");
}

#[test]
fn a_backlog_ends_when_nobody_comes_back() {
    let mut harness = harness();
    harness.run("CONFIG SET repl-backlog-ttl 10");
    let feed = attach(&mut harness);
    let id = harness.server.replication.ids.lock().id.clone();
    let (server, client) = (harness.server.clone(), feed.replica.client.clone());
    server.replication.replicas.detach(&server, &client);
    drop((feed, Arc::clone(&client)));
    harness.advance_ms(9_000);
    server.tend_replicas();
    assert!(harness.run("INFO replication").contains("repl_backlog_active:1"));
    harness.advance_ms(2_000);
    server.tend_replicas();
    assert!(harness.run("INFO replication").contains("repl_backlog_active:0"));
    assert!(!server.log.is_active());
    harness.on(3).check(&format!("PSYNC {id} 1"), "");
}

/// Ends the connection of a replica.
fn detach(harness: &Harness, feed: Box<Feed>) {
    let client = feed.replica.client.clone();
    drop(feed);
    harness.server.replication.replicas.detach(&harness.server, &client);
}

/// The stream's id, and an attached replica's feed after it has acknowledged all of it.
fn attach_and_acknowledge(harness: &mut Harness) -> (String, u64, Box<Feed>) {
    harness.run("SET before 1");
    let mut feed = attach(harness);
    harness.run("SET known 1");
    pump(harness, &mut feed);
    // Its synchronization is over.
    harness.server.replication.replicas.syncs.tend_spools();
    let (id, end) = (harness.server.replication.ids.lock().id.clone(), harness.server.log.end());
    harness.on(1).run(&format!("REPLCONF ACK {end}"));
    harness.on(0);
    (id, end, feed)
}

/// Writes 40 MB, with what is done every now and then in between; the commands, as the stream should have them.
fn write_much(harness: &mut Harness, storage: &SimulatedStorage) -> Vec<u8> {
    let (value, mut written) = ("v".repeat(10_000), Vec::new());
    for number in 0..4_000 {
        let key = format!("key:{number}");
        harness.run(&format!("SET {key} {value}"));
        resp::write_command(&mut written, [b"SET", key.as_bytes(), value.as_bytes()]);
        if number % 100 == 0 {
            harness.server.tend_disk_backlog(storage);
        }
    }
    written
}

#[test]
fn a_long_outage_is_made_up_from_the_disk() {
    let (mut harness, storage) = (harness(), SimulatedStorage::new(1));
    let (id, end, feed) = attach_and_acknowledge(&mut harness);
    harness.server.tend_disk_backlog(&storage);
    detach(&harness, feed);
    let written = write_much(&mut harness, &storage);
    let in_memory = harness.server.log.kept_bytes();
    assert!(in_memory < 20 << 20, "{in_memory} bytes in memory");
    assert!(storage.list(".".as_ref()).is_ok_and(|names| names.is_empty()), "its files have no names");
    harness.on(2).run("REPLCONF listening-port 7001 capa psync2");
    assert_eq!(harness.run(&format!("PSYNC {id} {}", end + 1)), format!("+CONTINUE {id}"));
    let mut feed = harness.feed.take().expect("a replica");
    let (sent, next) = pump(&mut harness, &mut feed);
    assert!(sent == written && matches!(next, Next::Wake), "{} of {} bytes", sent.len(), written.len());
    // Once it has acknowledged that, nobody lacks anything.
    let end = harness.server.log.end();
    harness.on(2).run(&format!("REPLCONF ACK {end}"));
    harness.server.tend_disk_backlog(&storage);
    assert!(harness.on(0).run("INFO replication").contains("repl_backlog_disk_bytes:0\r\n"));
    assert!(harness.server.log.kept_bytes() < 3 << 20);
    let stats = harness.run("INFO stats");
    assert!(stats.contains("sync_full:1\r\nsync_partial_ok:1\r\n"), "{stats}");
}

#[test]
fn nothing_is_kept_on_the_disk_while_all_acknowledge() {
    let (mut harness, storage) = (harness(), SimulatedStorage::new(1));
    let (_, _, mut feed) = attach_and_acknowledge(&mut harness);
    // At the first call.
    storage.crash_after(1);
    for _ in 0..10 {
        let value = "v".repeat(1 << 20);
        for _ in 0..5 {
            harness.run(&format!("SET k {value}"));
        }
        pump(&mut harness, &mut feed);
        let end = harness.server.log.end();
        harness.on(1).run(&format!("REPLCONF ACK {end}"));
        harness.on(0);
        harness.server.tend_disk_backlog(&storage);
    }
    assert!(!storage.has_crashed(), "the disk was used");
    assert!(harness.server.log.kept_bytes() < 8 << 20);
}

#[test]
fn what_is_kept_on_the_disk_has_its_bounds() {
    // Too little room, none, a disk that fails, and one who does not come back in time.
    for (option, value, fails, away_ms) in [
        ("repl-backlog-disk-size", "10mb", false, 0),
        ("repl-backlog-disk-size", "0", false, 0),
        ("repl-backlog-disk-size", "1gb", true, 0),
        ("repl-backlog-ttl", "5", false, 6_000),
    ] {
        let mut harness = Harness::with_config(&[("repl-diskless-sync", "no"), (option, value)]);
        let storage = SimulatedStorage::new(1);
        let (id, end, feed) = attach_and_acknowledge(&mut harness);
        harness.server.tend_disk_backlog(&storage);
        detach(&harness, feed);
        if fails {
            storage.set_faults(Faults { write: 1000, other: 1000, ..Faults::default() });
        }
        harness.advance_ms(away_ms);
        write_much(&mut harness, &storage);
        harness.server.tend_disk_backlog(&storage);
        let state = harness.run("INFO replication");
        let bytes = state.split_once("repl_backlog_disk_bytes:").and_then(|(_, rest)| rest.split_once('\r'));
        let bytes: u64 = bytes.and_then(|(bytes, _)| bytes.parse().ok()).expect("a field of INFO");
        assert!(bytes <= 10 << 20, "{option} {value}: {bytes}");
        assert!(harness.server.log.kept_bytes() < 20 << 20, "{option} {value}");
        harness.on(2).run("REPLCONF listening-port 7001");
        assert_eq!(harness.run(&format!("PSYNC {id} {}", end + 1)), "", "{option} {value}");
        assert!(harness.on(0).run("INFO stats").contains("sync_partial_err:1"), "{option} {value}");
    }
}

#[test]
fn a_slow_replica_keeps_the_log_and_a_lost_one_does_not() {
    let off = [("repl-diskless-sync", "no"), ("repl-backlog-disk-size", "0")];
    let mut harness = Harness::with_config(&off);
    let mut feed = attach(&mut harness);
    let value = "v".repeat(10_000);
    for _ in 0..500 {
        harness.run(&format!("SET k {value}"));
    }
    let kept = harness.server.log.kept_bytes();
    assert!(kept > 4_900_000 && feed.kept_bytes(&harness.server) > 4_900_000, "{kept} bytes are kept");
    let (sent, _) = pump(&mut harness, &mut feed);
    assert!(sent.len() > 5_000_000 && feed.kept_bytes(&harness.server) == 0);
    // Nobody needs what was kept for the synchronization either.
    harness.server.replication.replicas.syncs.tend_spools();
    assert!(harness.server.log.kept_bytes() < 3_000_000, "what is sent goes");
}

#[test]
fn a_synchronization_that_cannot_begin_ends_the_link() {
    let mut harness = harness();
    harness.on(1).run("PSYNC ? -1");
    let mut feed = harness.feed.take().expect("a replica");
    let storage = SimulatedStorage::new(1);
    storage.set_faults(Faults { other: 1000, ..Faults::default() });
    assert!(harness.server.begin_sync(&storage).is_none() && !harness.server.persistence.is_saving());
    let (sent, next) = pump(&mut harness, &mut feed);
    assert!(sent.is_empty() && matches!(next, Next::End(_)));
}
