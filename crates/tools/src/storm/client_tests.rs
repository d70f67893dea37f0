//! What each kind of client does, event by event. Three nodes, 0 to 2, at ports 7000 to 7002, own slots 0-99, 100-199 and
//! 200-16383; keys have the numbers of their slots.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

struct Rig {
    client: Client,
    reader: Reader,
    random: Rng,
    now_ns: u64,
}

/// CLUSTER SLOTS with these first slots of nodes 0 to 2.
fn slots(first: [u16; 3]) -> Vec<u8> {
    let mut bytes = b"*3\r\n".to_vec();
    for node in 0..3 {
        let last = first.get(node + 1).map_or(16383, |next| next - 1);
        let port = 7000 + node;
        let range =
            format!("*3\r\n:{}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$1\r\nx\r\n", first[node]);
        bytes.extend_from_slice(range.as_bytes());
    }
    bytes
}

fn rig(kind: Kind) -> Rig {
    let mut reader = Reader::default();
    let seed = reader.node("127.0.0.1:7000".parse().unwrap()).unwrap();
    let bytes = slots([0, 100, 200]);
    let (answer, _) = resp::parse::parse(&bytes).unwrap().unwrap();
    let map = reader.map(&bytes, &answer, seed).unwrap();
    Rig { client: Client::new(kind, map, seed, 0), reader, random: Rng::with_seed(1), now_ns: 0 }
}

impl Rig {
    fn act(&mut self, act: impl FnOnce(&mut Client, &mut Turn<'_>)) -> Vec<String> {
        let mut actions = Vec::new();
        let mut turn = Turn {
            now_ns: self.now_ns,
            reader: &mut self.reader,
            random: &mut self.random,
            actions: &mut actions,
        };
        act(&mut self.client, &mut turn);
        actions.iter().map(describe).collect()
    }

    /// The application wants the key with this number.
    fn wants(&mut self, slot: u16) -> Vec<String> {
        let job = Job { key: slot.into(), slot, is_write: false, due_ns: self.now_ns, phase: 0, tries: 0 };
        self.act(|client, turn| client.request(job, turn))
    }

    /// Has this be the node that go-redis draws next.
    fn asks_next(&mut self, node: Node) {
        while self.random.clone().choice([0, 1, 2]) != Some(node) {
            self.random.u8(..);
        }
    }

    fn hears(&mut self, line: Line, text: &[u8]) -> Vec<String> {
        let (value, _) = resp::parse::parse(text).unwrap().unwrap();
        self.act(|client, turn| client.answered(line, text, &value, turn))
    }

    /// The kept connection to this node answers.
    fn answers(&mut self, node: Node, text: &str) -> Vec<String> {
        self.hears(Line::Kept(node), format!("{text}\r\n").as_bytes())
    }

    fn tells_slots(&mut self, line: Line, first: [u16; 3]) -> Vec<String> {
        self.hears(line, &slots(first))
    }
}

fn describe(action: &Action) -> String {
    let line = |line: &Line| match line {
        Line::Kept(node) => format!("{node}"),
        Line::Once(node) => format!("new {node}"),
    };
    match action {
        Action::Send(at, Sent::Slots) => format!("{}: slots", line(at)),
        Action::Send(at, Sent::Request { job, is_asking: false }) => format!("{}: get {}", line(at), job.key),
        Action::Send(at, Sent::Request { job, .. }) => format!("{}: asking, get {}", line(at), job.key),
        Action::Close(at) => format!("{}: close", line(at)),
        Action::Later { at_ns, job } => format!("get {} at {} ms", job.key, at_ns / 1_000_000),
        Action::Done(job, Ok(())) => format!("{} done", job.key),
        Action::Done(job, Err(error)) => format!("{} failed: {error}", job.key),
        Action::Redirected { is_ask } => if *is_ask { "ask" } else { "moved" }.to_owned(),
    }
}

/// So much for the eyes: no action is the empty list.
const NOTHING: [&str; 0] = [];

#[test]
fn a_connection_carries_one_request_at_a_time_in_order() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::HiredisVip) {
        let mut rig = rig(kind);
        assert_eq!(rig.wants(1), ["0: get 1"]);
        assert_eq!(rig.wants(2), NOTHING);
        assert_eq!(rig.wants(3), NOTHING);
        assert_eq!(rig.wants(150), ["1: get 150"], "other nodes have connections of their own");
        assert_eq!(rig.answers(0, "$-1"), ["1 done", "0: get 2"]);
        assert_eq!(rig.answers(0, "+OK"), ["2 done", "0: get 3"]);
        assert_eq!(rig.answers(1, "+OK"), ["150 done"]);
        assert_eq!(rig.answers(0, "-ERR no"), ["3 failed: ERR no"]);
    }
}

#[test]
fn hiredis_vip_has_one_request_at_a_time_for_all_nodes() {
    let mut rig = rig(Kind::HiredisVip);
    assert_eq!(rig.wants(1), ["0: get 1"]);
    assert_eq!(rig.wants(150), NOTHING);
    assert_eq!(rig.wants(151), NOTHING);
    assert_eq!(rig.answers(0, "+OK"), ["1 done", "1: get 150"]);
    assert_eq!(rig.answers(1, "+OK"), ["150 done", "1: get 151"]);
    assert_eq!(rig.answers(1, "+OK"), ["151 done"]);
    assert_eq!(rig.wants(2), ["0: get 2"]);
}

#[test]
fn jedis_2_asks_where_it_was_told_and_holds_everybody_up() {
    let mut rig = rig(Kind::Jedis2);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    assert_eq!(rig.wants(150), ["1: get 150"]);
    assert_eq!(rig.answers(0, "-MOVED 99 127.0.0.1:7001"), ["moved", "0: slots"]);
    assert_eq!(rig.wants(300), NOTHING, "the lock is held");
    assert_eq!(rig.answers(1, "+OK"), ["150 done"], "what is under way goes on");
    assert_eq!(rig.tells_slots(Line::Kept(0), [0, 99, 200]), ["1: get 99", "2: get 300"]);
    assert_eq!(rig.wants(98), ["0: get 98"]);
}

#[test]
fn jedis_2_asks_once_for_each_moved() {
    let mut rig = rig(Kind::Jedis2);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    assert_eq!(rig.wants(199), ["1: get 199"]);
    assert_eq!(rig.answers(0, "-MOVED 99 127.0.0.1:7001"), ["moved", "0: slots"]);
    assert_eq!(rig.answers(1, "-MOVED 199 127.0.0.1:7002"), ["moved"]);
    assert_eq!(rig.tells_slots(Line::Kept(0), [0, 99, 199]), ["1: slots"], "though it knows by now");
    assert_eq!(rig.tells_slots(Line::Kept(1), [0, 99, 199]), ["2: get 199", "1: get 99"]);
    assert_eq!(rig.answers(2, "+OK"), ["199 done"]);
}

#[test]
fn jedis_2_forgets_who_waits_to_ask_on_a_connection_that_is_lost() {
    let mut rig = rig(Kind::Jedis2);
    rig.wants(99);
    rig.wants(199);
    rig.answers(0, "-MOVED 99 127.0.0.1:7001");
    rig.answers(1, "-MOVED 199 127.0.0.1:7002");
    let lost = rig.act(|client, turn| client.lost(Line::Kept(1), turn));
    assert_eq!(lost, NOTHING, "the other one has the lock");
    assert_eq!(rig.tells_slots(Line::Kept(0), [0, 99, 199]), ["1: get 99", "2: get 199"]);
    assert_eq!(rig.wants(1), ["0: get 1"], "and nobody waits for it any more");
}

#[test]
fn jedis_7_asks_once_at_a_time_and_goes_where_it_was_told() {
    let mut rig = rig(Kind::Jedis7);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    assert_eq!(rig.wants(199), ["1: get 199"]);
    assert_eq!(rig.answers(0, "-MOVED 99 127.0.0.1:7001"), ["moved", "0: slots"]);
    assert_eq!(rig.answers(1, "-MOVED 199 127.0.0.1:7002"), ["moved", "2: get 199"], "it asks already");
    assert_eq!(rig.wants(1), NOTHING, "the connection is taken, but nothing else waits");
    assert_eq!(rig.wants(300), NOTHING, "that to node 2 as well");
    assert_eq!(rig.answers(2, "+OK"), ["199 done", "2: get 300"]);
    // An answer that is no news: the request goes where it was told all the same.
    assert_eq!(rig.tells_slots(Line::Kept(0), [0, 100, 200]), ["1: get 99", "0: get 1"]);
    assert_eq!(rig.answers(1, "-MOVED 99 127.0.0.1:7002"), ["moved", "1: slots"], "and it asks again");
}

#[test]
fn hiredis_vip_asks_its_seed_on_a_new_connection_then_the_others() {
    let mut rig = rig(Kind::HiredisVip);
    assert_eq!(rig.wants(199), ["1: get 199"]);
    assert_eq!(rig.answers(1, "-MOVED 199 127.0.0.1:7002"), ["moved", "new 0: slots"]);
    assert_eq!(rig.wants(1), NOTHING);
    assert_eq!(rig.act(|client, turn| client.lost(Line::Once(0), turn)), ["new 1: slots"]);
    let routed = rig.tells_slots(Line::Once(1), [0, 100, 199]);
    assert_eq!(routed, ["new 1: close", "2: get 199"], "where the answer says, not where MOVED said");
    assert_eq!(rig.answers(2, "+OK"), ["199 done", "0: get 1"]);
    assert_eq!(rig.answers(0, "-MOVED 1 127.0.0.1:7002"), ["moved", "new 0: slots"]);
    for node in [0, 1] {
        let next = rig.act(|client, turn| client.lost(Line::Once(node), turn));
        assert_eq!(next, [format!("new {}: slots", node + 1)]);
    }
    let last = rig.act(|client, turn| client.lost(Line::Once(2), turn));
    assert_eq!(last, ["1 failed: route update error: connection lost"]);
    assert_eq!(rig.wants(2), ["0: get 2"]);
}

#[test]
fn redis_py_corrects_four_slots_and_asks_at_the_fifth() {
    let mut rig = rig(Kind::RedisPy);
    for slot in 101..105 {
        assert_eq!(rig.wants(slot), [format!("1: get {slot}")]);
        let told = rig.answers(1, &format!("-MOVED {slot} 127.0.0.1:7002"));
        assert_eq!(told, ["moved".to_owned(), format!("2: get {slot}")]);
        assert_eq!(rig.answers(2, "+OK"), [format!("{slot} done")]);
        assert_eq!(rig.wants(slot), [format!("2: get {slot}")], "it remembers");
        assert_eq!(rig.answers(2, "+OK"), [format!("{slot} done")]);
    }
    assert_eq!(rig.wants(105), ["1: get 105"]);
    let told = rig.answers(1, "-MOVED 105 127.0.0.1:7002");
    assert_eq!(told, ["moved", "0: slots"], "the first node of the last answer");
    assert_eq!(rig.wants(150), ["1: get 150"], "the others do not wait");
    assert_eq!(rig.tells_slots(Line::Kept(0), [0, 100, 101]), ["2: get 105"]);
    assert_eq!(rig.wants(106), NOTHING, "the connection to node 2 is taken");
    assert_eq!(rig.answers(2, "+OK"), ["105 done", "2: get 106"]);
}

#[test]
fn a_correction_is_one_client_s_own() {
    let mut first = rig(Kind::RedisPy);
    let shared = first.client.map.clone();
    let mut second = Client::new(Kind::RedisPy, shared, 0, 0);
    first.wants(101);
    first.answers(1, "-MOVED 101 127.0.0.1:7002");
    assert_eq!(first.client.map.owner(101), Some(2));
    assert_eq!(second.map.owner(101), Some(1));
    assert_eq!(second.pool(1).waiting.len(), 0);
}

#[test]
fn go_redis_goes_on_and_asks_besides_at_most_every_200_ms() {
    let mut rig = rig(Kind::GoRedis);
    rig.now_ns = SECOND_NS;
    rig.asks_next(2);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    assert_eq!(rig.answers(0, "-MOVED 99 127.0.0.1:7001"), ["moved", "2: slots", "1: get 99"]);
    assert_eq!(rig.wants(98), ["0: get 98"], "nobody waits for the topology");
    assert_eq!(rig.answers(0, "-MOVED 98 127.0.0.1:7001"), ["moved"], "it is being asked for");
    assert_eq!(rig.answers(1, "+OK"), ["99 done", "1: get 98"]);
    assert_eq!(rig.answers(1, "+OK"), ["98 done"]);
    assert_eq!(rig.tells_slots(Line::Kept(2), [0, 100, 200]), NOTHING);
    rig.now_ns += SECOND_NS / 10;
    assert_eq!(rig.wants(99), ["0: get 99"]);
    assert_eq!(rig.answers(0, "-MOVED 99 127.0.0.1:7001"), ["moved", "1: get 99"], "it has asked lately");
    assert_eq!(rig.answers(1, "+OK"), ["99 done"]);
    rig.now_ns += SECOND_NS / 10;
    rig.asks_next(0);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    let told = rig.answers(0, "-MOVED 99 127.0.0.1:7001");
    assert_eq!(told, ["moved", "0: slots", "1: get 99"], "200 ms are over");
    let lost = rig.act(|client, turn| client.lost(Line::Kept(0), turn));
    assert_eq!(lost, NOTHING);
    assert_eq!(rig.answers(1, "+OK"), ["99 done"]);
    rig.asks_next(2);
    assert_eq!(rig.wants(99), ["0: get 99"]);
    let told = rig.answers(0, "-MOVED 99 127.0.0.1:7001");
    assert_eq!(told, ["moved", "2: slots", "1: get 99"], "at once, after no answer came");
}

#[test]
fn go_redis_asks_when_what_it_knows_is_old() {
    let mut rig = rig(Kind::GoRedis);
    rig.now_ns = 10 * SECOND_NS;
    assert_eq!(rig.wants(1), ["0: get 1"]);
    assert_eq!(rig.answers(0, "+OK"), ["1 done"]);
    rig.now_ns += 1;
    let sent = rig.wants(1);
    assert!(sent[0].ends_with(": slots"), "{sent:?}");
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::GoRedis) {
        let mut rig = self::rig(kind);
        rig.now_ns = 1_000 * SECOND_NS;
        assert_eq!(rig.wants(1), ["0: get 1"], "{kind} never asks by itself");
    }
}

#[test]
fn ask_is_for_one_request() {
    for kind in Kind::ALL {
        let mut rig = rig(kind);
        assert_eq!(rig.wants(1), ["0: get 1"]);
        rig.asks_next(1);
        let mut told = rig.answers(0, "-ASK 1 127.0.0.1:7002");
        assert_eq!(told.remove(0), "ask", "{kind}");
        assert_eq!(
            told.iter().any(|action| action.ends_with("slots")),
            kind == Kind::GoRedis,
            "{kind}: {told:?}"
        );
        told.retain(|action| !action.ends_with("slots"));
        assert_eq!(told, ["2: asking, get 1"], "{kind}");
        assert_eq!(rig.answers(2, "+OK"), ["1 done"], "{kind}");
        assert_eq!(rig.client.map.owner(1), Some(0), "{kind}");
    }
}

#[test]
fn redirects_end() {
    for (kind, tries_max) in
        [(Kind::Jedis2, 5), (Kind::Jedis7, 5), (Kind::HiredisVip, 5), (Kind::RedisPy, 16), (Kind::GoRedis, 3)]
    {
        let mut rig = rig(kind);
        let (mut at, mut actions, mut redirects) = (0, rig.wants(1), 0);
        for _ in 0..200 {
            let failed = actions.iter().any(|action| action == "1 failed: too many redirects");
            if failed {
                break;
            }
            let sent: Vec<String> = actions.iter().filter(|action| action.contains(": ")).cloned().collect();
            let sent = sent.iter().rfind(|action| !action.ends_with("close"));
            let sent = sent.unwrap_or_else(|| panic!("{kind} stopped: {actions:?}"));
            let (line, what) = sent.split_once(": ").unwrap();
            let node: Node = line.trim_start_matches("new ").parse().unwrap();
            let line = if line.starts_with("new") { Line::Once(node) } else { Line::Kept(node) };
            if what == "slots" {
                actions = rig.tells_slots(line, [0, 100, 200]);
                continue;
            }
            redirects += 1;
            at = (at + 1) % 3;
            actions = rig.answers(node, &format!("-MOVED 1 127.0.0.1:{}", 7000 + at));
            // go-redis asks besides; answered here at once.
            let asked = actions.iter().find(|action| kind == Kind::GoRedis && action.ends_with(": slots"));
            if let Some(node) = asked.map(|action| action.split(':').next().unwrap().parse().unwrap()) {
                actions.retain(|action| !action.ends_with(": slots"));
                actions.extend(rig.tells_slots(Line::Kept(node), [0, 100, 200]));
            }
        }
        assert_eq!(redirects, tries_max + 1, "{kind}: {actions:?}");
    }
}

#[test]
fn errors_that_pass_are_tried_again_by_those_who_do() {
    for (kind, expected) in [
        (Kind::Jedis2, "1 failed: CLUSTERDOWN The cluster is down"),
        (Kind::Jedis7, "1 failed: CLUSTERDOWN The cluster is down"),
        (Kind::HiredisVip, "0: get 1"),
        (Kind::RedisPy, "get 1 at 250 ms"),
        (Kind::GoRedis, "get 1 at 16 ms"),
    ] {
        let mut rig = rig(kind);
        rig.wants(1);
        assert_eq!(rig.answers(0, "-CLUSTERDOWN The cluster is down"), [expected], "{kind}");
    }
    let mut rig = rig(Kind::GoRedis);
    let job = Job { key: 1, slot: 1, is_write: true, due_ns: 0, phase: 0, tries: 1 };
    assert_eq!(rig.act(|client, turn| client.again(job, turn)), ["0: get 1"]);
}

#[test]
fn a_connection_that_is_lost_fails_its_request_and_nothing_else() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::HiredisVip) {
        let mut rig = rig(kind);
        rig.wants(1);
        rig.wants(2);
        let lost = rig.act(|client, turn| client.lost(Line::Kept(0), turn));
        assert_eq!(lost, ["1 failed: connection lost", "0: get 2"], "{kind}");
        let idle = rig.act(|client, turn| client.lost(Line::Kept(1), turn));
        assert_eq!(idle, NOTHING, "{kind}");
    }
}

#[test]
fn a_topology_that_does_not_come_frees_who_waited() {
    for kind in [Kind::Jedis7, Kind::RedisPy] {
        let mut rig = rig(kind);
        rig.client.redirects = REINITIALIZE_STEPS - 1;
        rig.wants(1);
        let told = rig.answers(0, "-MOVED 1 127.0.0.1:7002");
        assert_eq!(told, ["moved", "0: slots"].map(str::to_owned), "{kind}");
        let lost = rig.act(|client, turn| client.lost(Line::Kept(0), turn));
        assert_eq!(lost, ["1 failed: no topology of node 0: connection lost"], "{kind}");
        assert_eq!(rig.wants(2), ["0: get 2"], "{kind}");
    }
    let mut rig = rig(Kind::Jedis2);
    rig.wants(1);
    rig.answers(0, "-MOVED 1 127.0.0.1:7002");
    assert_eq!(rig.wants(150), NOTHING);
    let lost = rig.act(|client, turn| client.lost(Line::Kept(0), turn));
    assert_eq!(lost, ["0: get 1", "1: get 150"], "the lock is given back, and what was known is used");
}
