//! Tests of relays: what they send and when, and what becomes of requests whatever happens to them.

use super::*;
use crate::cluster_face::topology_of;
use crate::testing::Harness;

const NOW_US: u64 = 1_000_000;

fn request(words: &[&str]) -> Forward {
    let mut bytes = Vec::new();
    write_command(&mut bytes, words);
    Forward { bytes, slot: 7, replies_before: 0, is_silent: false, revision: 5 }
}

fn origin(client_id: u64) -> Origin {
    Origin { token: client_id as usize, client_id, slot: 7, is_silent: false, is_last: true }
}

/// What is to be sent, which is taken for sent.
fn sent(relay: &mut Relay, now_us: u64) -> String {
    relay.pump(now_us);
    let bytes = relay.unsent().to_vec();
    relay.advance(bytes.len());
    let text = String::from_utf8(bytes).expect("text");
    text.split("\r\n")
        .filter(|line| !line.starts_with(['*', '$']))
        .collect::<Vec<_>>()
        .join(" ")
        .trim_end()
        .to_owned()
}

fn shown(answers: &mut Answers) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "~");
    let show = |(origin, answer): (Origin, Answer<'_>)| match answer {
        Answer::Piece(bytes) => format!("{}:{}..", origin.client_id, text(bytes)),
        Answer::End(bytes) => format!("{}:{}", origin.client_id, text(bytes)),
        Answer::NotRun => format!("{}:not run", origin.client_id),
        Answer::Lost => format!("{}:lost", origin.client_id),
    };
    let shown = answers.iter().map(show).collect::<Vec<_>>().join(" ");
    answers.clear();
    shown
}

/// What comes of these bytes.
fn received(relay: &mut Relay, bytes: &str, now_us: u64) -> String {
    let mut answers = Answers::default();
    relay.receive(bytes.as_bytes(), now_us, &mut answers).expect("replies");
    shown(&mut answers)
}

fn failed(relay: Relay) -> String {
    let mut answers = Answers::default();
    relay.fail(&mut answers);
    shown(&mut answers)
}

/// A relay to a node that knows the topology of revision 5.
fn open() -> Relay {
    let mut relay = Relay::new(&[], NOW_US);
    relay.push(origin(0), request(&["PING"]), NOW_US);
    assert_eq!(sent(&mut relay, NOW_US), "CLUSTER REDIRECTS PLAIN");
    assert_eq!(received(&mut relay, ":5\r\n", NOW_US), "");
    assert_eq!(sent(&mut relay, NOW_US), "PING");
    assert_eq!(received(&mut relay, "+PONG\r\n", NOW_US), "0:+PONG~");
    relay
}

#[test]
fn nothing_is_sent_before_the_other_node_knows_of_the_change() {
    let words = ["AUTH a b", "HELLO 3"].map(|line| format!("{line}\r\n").into_bytes());
    let mut relay = Relay::new(&words, NOW_US);
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    assert_eq!(sent(&mut relay, NOW_US), "AUTH a b HELLO 3");
    assert_eq!(received(&mut relay, "+OK\r\n", NOW_US), "");
    assert_eq!(sent(&mut relay, NOW_US), "");
    assert_eq!(received(&mut relay, "%1\r\n+a\r\n:1\r\n", NOW_US), "");
    assert_eq!(sent(&mut relay, NOW_US), "CLUSTER REDIRECTS PLAIN");
    assert_eq!(sent(&mut relay, NOW_US), "", "once");
    assert_eq!(received(&mut relay, ":4\r\n", NOW_US), "");
    assert_eq!(sent(&mut relay, NOW_US), "");
    assert_eq!(relay.due_us(), NOW_US + base::limits::RELAY_ASK_US);
    let later_us = relay.due_us();
    assert_eq!(sent(&mut relay, later_us), "CLUSTER REDIRECTS PLAIN");
    assert_eq!(received(&mut relay, ":6\r\n", later_us), "");
    assert_eq!(sent(&mut relay, later_us), "GET a");
    relay.push(origin(2), Forward { revision: 7, ..request(&["GET", "b"]) }, later_us);
    assert_eq!(sent(&mut relay, later_us + 1_000), "CLUSTER REDIRECTS PLAIN", "a later change");
    assert_eq!(received(&mut relay, "$1\r\nx\r\n:7\r\n", later_us), "1:$1~x~");
    assert_eq!(sent(&mut relay, later_us), "GET b");
}

#[test]
fn a_greeting_that_is_refused_ends_the_relay() {
    for (answer, why) in [
        ("-WRONGPASS no\r\n", "it answers -WRONGPASS no"),
        ("-DENIED x\r\n-DENIED x\r\n", "it answers -DENIED x"),
        ("HTTP\r\n", "what it answers is no reply"),
        ("+OK\r\n+OK\r\n", "it says something unasked"),
    ] {
        let mut relay = Relay::new(&[b"AUTH x\r\n".to_vec()], NOW_US);
        relay.push(origin(1), request(&["GET", "a"]), NOW_US);
        sent(&mut relay, NOW_US);
        let failure = relay.receive(answer.as_bytes(), NOW_US, &mut Answers::default());
        assert_eq!(failure, Err(why.to_owned()), "{answer}");
        assert_eq!(failed(relay), "1:not run");
    }
    let mut relay = Relay::new(&[], NOW_US);
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    sent(&mut relay, NOW_US);
    let failure = relay.receive(b"-ERR unknown subcommand\r\n", NOW_US, &mut Answers::default());
    assert_eq!(failure, Err("it answers -ERR unknown subcommand".to_owned()));
}

#[test]
fn replies_are_passed_on_as_they_come() {
    let all = "$5\r\nab\r\nc\r\n-ERR x\r\n*2\r\n:1\r\n%1\r\n+a\r\n$2\r\nbc\r\n+OK\r\n";
    for piece in 1..=all.len() {
        let mut relay = open();
        for client in 1..=3 {
            relay.push(origin(client), request(&["GET", "a"]), NOW_US);
        }
        relay.push(Origin { is_silent: true, ..origin(4) }, request(&["GET", "a"]), NOW_US);
        assert_eq!(sent(&mut relay, NOW_US), "GET a GET a GET a GET a");
        let (mut got, mut ends) = (vec![String::new(); 5], Vec::new());
        let mut answers = Answers::default();
        for chunk in all.as_bytes().chunks(piece) {
            relay.receive(chunk, NOW_US, &mut answers).expect("replies");
        }
        for (origin, answer) in answers.iter() {
            let (Answer::Piece(bytes) | Answer::End(bytes)) = answer else { panic!("{answer:?}") };
            got[origin.client_id as usize].push_str(std::str::from_utf8(bytes).expect("text"));
            if matches!(answer, Answer::End(_)) {
                ends.push(origin.client_id);
            }
        }
        assert_eq!(got[1..], ["$5\r\nab\r\nc\r\n", "-ERR x\r\n", "*2\r\n:1\r\n%1\r\n+a\r\n$2\r\nbc\r\n", ""]);
        assert_eq!(ends, [1, 2, 3, 4]);
        assert!(relay.is_empty());
    }
}

#[test]
fn what_was_sent_is_lost_with_the_relay_and_the_rest_was_not_run() {
    let mut relay = open();
    for client in 1..=3 {
        relay.push(origin(client), request(&["GET", "a"]), NOW_US);
    }
    relay.push(origin(4), Forward { revision: 9, ..request(&["GET", "a"]) }, NOW_US);
    relay.pump(NOW_US);
    // The first whole, the second but for its last byte.
    relay.advance(2 * request(&["GET", "a"]).bytes.len() - 1);
    assert_eq!(received(&mut relay, "$100\r\nabc", NOW_US), "1:$100~abc..");
    assert_eq!(failed(relay), "1:lost 2:not run 3:not run 4:not run");
}

#[test]
fn who_waits_for_too_long_is_told_in_order() {
    let mut relay = open();
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    assert_eq!(sent(&mut relay, NOW_US), "GET a");
    relay.push(origin(2), Forward { revision: 9, ..request(&["GET", "b"]) }, NOW_US);
    assert_eq!(sent(&mut relay, NOW_US + 1_000), "CLUSTER REDIRECTS PLAIN");
    let late_us = NOW_US + base::limits::RELAY_SEND_US_MAX;
    assert!(relay.due_us() <= late_us);
    let mut answers = Answers::default();
    relay.give_up(late_us - 1, &mut answers);
    relay.push(origin(3), request(&["GET", "c"]), late_us - 1);
    relay.give_up(late_us, &mut answers);
    assert_eq!(shown(&mut answers), "", "not before the first");
    assert_eq!(relay.is_late(late_us), None);
    assert_eq!(sent(&mut relay, late_us), "GET c");
    assert_eq!(received(&mut relay, "+1\r\n:8\r\n+3\r\n", late_us), "1:+1~ 2:not run 3:+3~");
}

#[test]
fn a_node_that_is_not_reached_or_does_not_answer_ends_the_relay() {
    let mut relay = Relay::new(&[], NOW_US);
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    relay.pump(NOW_US);
    assert_eq!(relay.is_late(NOW_US + base::limits::RELAY_SEND_US_MAX - 1), None);
    assert!(relay.is_late(NOW_US + base::limits::RELAY_SEND_US_MAX).is_some());
    let mut relay = open();
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    sent(&mut relay, NOW_US);
    let late_us = NOW_US + base::limits::RELAY_ANSWER_US_MAX;
    assert_eq!((relay.is_late(late_us - 1), relay.due_us()), (None, late_us));
    assert_eq!(relay.is_late(late_us), Some("it does not answer in time"));
    // As long as more comes it is not late.
    assert_eq!(received(&mut relay, "$5\r\nab", late_us - 1), "1:$5~ab..");
    assert_eq!(relay.is_late(late_us), None);
}

#[test]
fn what_the_relay_may_not_do_was_not_run_and_a_transaction_says_why() {
    let mut relay = open();
    relay.push(origin(1), request(&["GET", "a"]), NOW_US);
    relay.push(origin(2), Forward { replies_before: 2, ..request(&["EXEC"]) }, NOW_US);
    relay.push(origin(3), Forward { replies_before: 2, ..request(&["EXEC"]) }, NOW_US);
    relay.push(origin(4), Forward { replies_before: 1, ..request(&["EXEC"]) }, NOW_US);
    sent(&mut relay, NOW_US);
    let replies = "-NOPERM x\r\n+OK\r\n+QUEUED\r\n*1\r\n+a\r\n+OK\r\n-MOVED 1 b:2\r\n-EXECABORT x\r\n+OK\r\n-EXECABORT y\r\n";
    let expected = "1:not run 2:*1~+a~ 3:-MOVED 1 b:2~ 4:-EXECABORT y~";
    assert_eq!(received(&mut relay, replies, NOW_US), expected);
}

#[test]
fn room_is_bounded_in_requests_and_bytes_and_a_node_that_failed_rests() {
    let mut forwarding = Forwarding::default();
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let door = Door::new(address, false, Proto::V2);
    let config = Config::defaults();
    for _ in 0..base::limits::RELAY_REQUESTS_MAX {
        assert_eq!(forwarding.has_room(door, 9, NOW_US), Room::Now);
        forwarding.take(door, request(&["PING"]));
        assert_eq!(forwarding.has_room(Door { is_resp3: true, ..door }, 9, NOW_US), Room::Later);
        forwarding.push_taken(&config, 1, 1, NOW_US);
    }
    assert_eq!(forwarding.has_room(door, 9, NOW_US), Room::None);
    let other = Door { is_resp3: true, ..door };
    forwarding.take(other, request(&["PING"]));
    forwarding.push_taken(&config, 1, 1, NOW_US);
    let (_, waiting) = forwarding.relays[&other].waiting();
    assert_eq!(forwarding.has_room(other, base::limits::RELAY_BYTES_MAX - waiting, NOW_US), Room::Now);
    assert_eq!(forwarding.has_room(other, base::limits::RELAY_BYTES_MAX - waiting + 1, NOW_US), Room::None);
    assert_eq!(forwarding.waiting().0, base::limits::RELAY_REQUESTS_MAX + 2, "one greets");
    forwarding.rest(address, NOW_US);
    assert_eq!(forwarding.has_room(other, 9, NOW_US + RELAY_REST_US - 1), Room::None);
    assert_eq!(forwarding.has_room(other, 9, NOW_US + RELAY_REST_US), Room::Now);
}

const OWNERS: [&str; 2] = ["0-16383", ""];

/// Installs two nodes with their slots as node `me` sees them.
fn install(harness: &Harness, me: usize, slots: [&str; 2]) {
    let line = |number: usize| {
        let (id, is_me) = (["a", "b"][number].repeat(40), if number == me { "myself," } else { "" });
        let port = 7000 + number;
        format!("{id} 127.0.0.1:{port}@17000 {is_me}master - 0 0 {number} connected {}", slots[number])
    };
    let nodes = format!("{}\n{}\n", line(0), line(1)).replace(" \n", "\n");
    harness.server.cluster.install(topology_of(&nodes));
}

fn node(number: usize) -> Harness {
    let pairs = [("cluster-redirects", "damped"), ("cluster-redirect-rate", "0")];
    let harness = Harness::of_node(&pairs, &["a", "b"][number].repeat(40));
    install(&harness, number, OWNERS);
    harness
}

#[test]
fn two_nodes_answer_as_one_and_never_send_each_other_in_circles() {
    let (mut old, mut new) = (node(0), node(1));
    install(&new, 1, ["", "0-16383"]);
    install(&old, 0, ["", "0-16383"]);
    let mut relay = Relay::new(&[], NOW_US);
    let mut ask = |old: &mut Harness, new: &mut Harness, line: &str| {
        assert_eq!(old.run(line), "");
        for (door, forward) in old.forwards() {
            assert_eq!(door.address.port(), 7001);
            relay.push(origin(1), Forward { revision: 0, ..forward }, NOW_US);
        }
        let mut answers = Answers::default();
        loop {
            relay.pump(NOW_US);
            let bytes = relay.unsent().to_vec();
            if bytes.is_empty() {
                return shown(&mut answers);
            }
            relay.advance(bytes.len());
            relay.receive(&new.run_wire(&bytes), NOW_US, &mut answers).expect("replies");
        }
    };
    assert_eq!(ask(&mut old, &mut new, "RPUSH k a b"), "1::2~");
    assert_eq!(ask(&mut old, &mut new, "LRANGE k 0 -1"), "1:*2~$1~a~$1~b~");
    assert_eq!(
        ask(&mut old, &mut new, "GET k"),
        "1:-WRONGTYPE Operation against a key holding the wrong kind of value~"
    );
    for line in ["MULTI", "SET k 1", "INCR k"] {
        assert!(["+OK", "+QUEUED"].contains(&&*old.run(line)), "{line}");
    }
    assert_eq!(ask(&mut old, &mut new, "EXEC"), "1:*2~+OK~:2~");
    // It has gone back, and the old owner has not heard of it yet.
    install(&new, 1, OWNERS);
    for line in ["MULTI", "SET k 1"] {
        old.run(line);
    }
    assert_eq!(ask(&mut old, &mut new, "EXEC"), "1:-MOVED 7629 127.0.0.1:7000~");
    assert_eq!(ask(&mut old, &mut new, "GET k"), "1:-MOVED 7629 127.0.0.1:7000~");
    assert!(new.forwards().is_empty(), "what a relay brings is not forwarded");
    new.on(1).check("GET k", "");
    assert_eq!(new.forwards().len(), 1, "what others ask is");
}
