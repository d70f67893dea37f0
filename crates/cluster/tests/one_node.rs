//! One node against records that change at once: from nothing to a primary that serves.

mod facts;

use cluster::agent::{Action, Agent, Ask, AskId, Event, HoldId, Identity, Outcome};
use cluster::edits::{Edit, Wish};
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::moves::MoveId;
use cluster::records::{ClusterRecord, Key, LiveRecord, MoveState, Promise, Record, ShardRecord};
use cluster::slots::SlotRanges;
use cluster::topology::Records;

struct OneNode {
    agent: Agent,
    etcd: Records,
    now_us: u64,
    /// All that was done, in order.
    done: Vec<Action>,
    /// Before so many changes of who owns what, somebody else makes one.
    races: usize,
}

impl OneNode {
    fn new(etcd: Records, kept: Option<(String, u64)>) -> OneNode {
        let node = NodeId::new(&"a".repeat(40)).expect("40 digits");
        let shard = ShardId::new(&"b".repeat(40)).expect("40 digits");
        let me = Member { node, life: Life(1) };
        let identity = Identity { kept, ..facts::identity(me, &shard, Promise::Quorum, 1) };
        let facts = facts::record(&shard, "");
        OneNode { agent: Agent::new(identity, facts), etcd, now_us: 1_000_000, done: Vec::new(), races: 0 }
    }

    fn see(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut out = Vec::new();
            self.agent.handle(self.now_us, event, &mut out);
            for action in out {
                match &action {
                    Action::Grant | Action::Renew => events.push(Event::LeaseKept { asked_us: self.now_us }),
                    Action::Commit { txn, writes, .. } if self.races > 0 && changes_slots(writes) => {
                        self.races -= 1;
                        let slots = Record::Slots(self.etcd.slots.0.clone());
                        let revision = self.etcd.revision + 1;
                        self.etcd.put(Key::Slots, slots.clone(), revision);
                        // The last is seen first.
                        events.push(Event::Changed { revision, changes: vec![(Key::Slots, Some(slots))] });
                        events.push(Event::Ended(*txn, Outcome::Refused));
                    }
                    Action::Commit { txn, compares, writes } => {
                        assert!(
                            compares.iter().all(|(key, at)| self.etcd.written_at(key) == *at),
                            "{action:?}"
                        );
                        let revision = self.etcd.revision + 1;
                        for (key, record) in writes.clone() {
                            match record {
                                Some(record) => self.etcd.put(key, record, revision),
                                None => self.etcd.remove(&key, revision),
                            }
                        }
                        self.etcd.revision = revision;
                        events.push(Event::Changed { revision, changes: writes.clone() });
                        events.push(Event::Ended(*txn, Outcome::Committed(revision)));
                    }
                    _ => {}
                }
                self.done.push(action);
            }
        }
    }

    /// Somebody else writes these.
    fn write<const COUNT: usize>(&mut self, changes: [(Key, Record); COUNT]) {
        let revision = self.etcd.revision + 1;
        for (key, record) in &changes {
            self.etcd.put(key.clone(), record.clone(), revision);
        }
        let changes = changes.into_iter().map(|(key, record)| (key, Some(record))).collect();
        self.see(Event::Changed { revision, changes });
    }

    fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now_us += 100_000;
            self.see(Event::Tick { log_end: 0, followers: Vec::new(), promised_us: None, log_epoch: 0 });
        }
    }

    fn answer(&self, ask: u64) -> Option<Result<(), String>> {
        self.done.iter().find_map(|action| match action {
            Action::Answer(id, answer) if id.0 == ask => Some(answer.clone()),
            _ => None,
        })
    }
}

fn changes_slots(writes: &[(Key, Option<Record>)]) -> bool {
    writes.iter().any(|(key, _)| *key == Key::Slots)
}

#[test]
fn the_first_node_founds_the_cluster_and_owns_what_it_is_given() {
    let mut node = OneNode::new(Records::default(), None);
    node.see(Event::Records(Records::default()));
    node.run_ms(1_000);
    let shard = node.etcd.shards.keys().next().cloned().expect("the node's own shard");
    let all = SlotRanges::of(0..16_384);
    node.see(Event::Asked(AskId(1), Ask::Edit(Edit::AddSlots(shard.clone(), all.clone()))));
    node.run_ms(200);
    assert_eq!(node.answer(1), Some(Ok(())));
    let topology = node.agent.topology().expect("a topology");
    assert_eq!(topology.owners.iter().filter(|owner| **owner == 0).count(), 16_384);
    node.see(Event::Asked(AskId(2), Ask::Edit(Edit::AddSlots(shard, all))));
    assert_eq!(node.answer(2), Some(Err("ERR Slot 0 is already busy".to_owned())));
    let serves = node.done.iter().rev().find_map(|action| match action {
        Action::ServeUntil(until_us) => Some(*until_us),
        _ => None,
    });
    assert_eq!(serves, Some(u64::MAX), "nobody else can become primary");
    assert!(node.done.iter().any(|action| matches!(action, Action::Renew)));
    assert!(node.etcd.written_at(&Key::Live(node.agent.member().node.clone())) > 0);
    assert_eq!(node.agent.to_keep().map(|(cluster, _)| cluster.to_owned()), Some(facts::CLUSTER.to_owned()));
}

#[test]
fn what_was_taken_in_is_decided_with_the_next_event() {
    let mut node = OneNode::new(Records::default(), None);
    node.see(Event::Records(Records::default()));
    node.run_ms(1_000);
    let before = node.done.len();
    let revision = node.etcd.revision;
    let others: Vec<NodeId> =
        ["1", "2"].iter().map(|digit| NodeId::new(&digit.repeat(40)).expect("40 digits")).collect();
    for (other, at) in others.iter().zip(1..) {
        let shard = ShardId::new(other.as_str()).expect("40 digits");
        let record = Record::Node(facts::record(&shard, ""));
        node.agent.take_in(node.now_us, revision + at, vec![(Key::Node(other.clone()), Some(record))]);
    }
    node.see(Event::Tick { log_end: 0, followers: Vec::new(), promised_us: None, log_epoch: 0 });
    let installed: Vec<_> = node.done[before..]
        .iter()
        .filter_map(|action| match action {
            Action::Install(topology) => Some((topology.revision, topology.nodes.len())),
            _ => None,
        })
        .collect();
    assert_eq!(installed, [(revision + 2, 3)], "one topology for both");
    let written: Vec<u64> =
        others.iter().map(|other| node.agent.records().written_at(&Key::Node(other.clone()))).collect();
    assert_eq!(written, [revision + 1, revision + 2], "each has its own revision");
}

#[test]
fn another_cluster_and_an_older_one_are_refused() {
    for kept in [("d".repeat(40), 0), (facts::CLUSTER.to_owned(), 1_000)] {
        let mut first = OneNode::new(Records::default(), None);
        first.see(Event::Records(Records::default()));
        first.run_ms(500);
        let mut node = OneNode::new(first.etcd.clone(), Some(kept));
        node.see(Event::Records(first.etcd.clone()));
        node.run_ms(500);
        assert!(node.done.iter().any(|action| matches!(action, Action::Refuse(_))));
        assert!(
            !node.done.iter().any(|action| matches!(action, Action::Lead { .. } | Action::Commit { .. }))
        );
    }
}

fn started() -> OneNode {
    let mut node = OneNode::new(Records::default(), None);
    node.see(Event::Records(Records::default()));
    node.run_ms(1_000);
    node
}

fn refusal(node: &OneNode) -> Option<&str> {
    node.done.iter().rev().find_map(|action| match action {
        Action::Refuse(why) => Some(why.as_str()),
        _ => None,
    })
}

#[test]
fn an_etcd_that_was_restored_while_the_node_ran_is_refused_for_good() {
    let mut node = started();
    let newest = node.etcd.clone();
    let mut older = Records::default();
    for (key, written) in newest.written.iter().filter(|(_, written)| **written < newest.revision) {
        if let (Key::Cluster, Some(cluster)) = (key, &newest.cluster) {
            older.put(Key::Cluster, cluster::records::Record::Cluster(cluster.clone()), *written);
        }
    }
    node.see(Event::Records(older));
    assert!(refusal(&node).is_some_and(|why| why.contains("restored from a backup")), "{:?}", refusal(&node));
    node.see(Event::Records(newest));
    node.run_ms(5_000);
    let after = node.done.iter().rposition(|action| matches!(action, Action::Refuse(_))).expect("refused");
    assert!(
        !node.done[after..].iter().any(|action| matches!(action, Action::Lead { .. } | Action::Install(_)))
    );
}

#[test]
fn a_history_that_goes_on_otherwise_is_refused() {
    let mut node = started();
    let mut other = node.etcd.clone();
    let shard = other.shards.keys().next().cloned().expect("a shard");
    let (record, written) = other.shards[&shard].clone();
    other.put(Key::Shard(shard), cluster::records::Record::Shard(record), written - 1);
    other.revision += 10;
    node.see(Event::Records(other));
    assert!(refusal(&node).is_some_and(|why| why.contains("history is another")), "{:?}", refusal(&node));
}

#[test]
fn another_cluster_under_the_same_name_is_refused_though_its_history_is_longer() {
    let mut node = started();
    let mut other = Records::default();
    let cluster = ClusterRecord { id: "d".repeat(40), format: 1 };
    other.put(Key::Cluster, Record::Cluster(cluster), node.etcd.revision + 10);
    node.see(Event::Records(other));
    let why = refusal(&node);
    assert!(why.is_some_and(|why| why.contains("another one under this name")), "{why:?}");
}

#[test]
fn another_process_of_the_same_name_is_told_apart_from_one_that_ends() {
    let first = started();
    let name = first.agent.member().node.clone();
    let mut etcd = first.etcd.clone();
    let live = cluster::records::LiveRecord { life: Life(9) };
    let revision = etcd.revision + 1;
    etcd.put(Key::Live(name.clone()), cluster::records::Record::Live(live), revision);
    let mut second = OneNode::new(etcd.clone(), None);
    second.see(Event::Records(etcd));
    second.run_ms(4_000);
    assert_eq!(refusal(&second), None, "its predecessor's lease may still run");
    second.run_ms(6_000);
    assert!(refusal(&second).is_some_and(|why| why.starts_with("Another process runs as node")));
    let revision = second.etcd.revision + 1;
    second.etcd.remove(&Key::Live(name.clone()), revision);
    second.see(Event::Changed { revision, changes: vec![(Key::Live(name.clone()), None)] });
    second.run_ms(3_000);
    assert_eq!(second.etcd.live.get(&name), Some(&Life(1)), "it takes its place once the other is gone");
    assert!(second.done.iter().any(|action| matches!(action, Action::Lead { .. })));
}

#[test]
fn a_node_that_was_forgotten_serves_nothing_until_it_is_let_in_again() {
    let mut node = started();
    let name = node.agent.member().node.clone();
    let shard = node.etcd.shards.keys().next().cloned().expect("a shard");
    let keys = [Key::Node(name.clone()), Key::Live(name.clone()), Key::Shard(shard)];
    let revision = node.etcd.revision + 1;
    keys.iter().for_each(|key| node.etcd.remove(key, revision));
    node.see(Event::Changed { revision, changes: keys.into_iter().map(|key| (key, None)).collect() });
    node.run_ms(3_000);
    assert!(refusal(&node).is_some_and(|why| why.contains("forgotten")));
    assert!(!node.etcd.nodes.contains_key(&name), "it does not come back by itself");
    node.see(Event::Asked(AskId(7), Ask::Enter));
    node.run_ms(3_000);
    assert_eq!(node.answer(7), Some(Ok(())));
    assert!(node.etcd.nodes.contains_key(&name) && node.etcd.is_live(node.agent.member()));
}

/// A shard of another node, which is there.
fn add_shard(node: &mut OneNode) -> ShardId {
    let shard = ShardId::new(&"e".repeat(40)).expect("40 digits");
    let primary = Member { node: NodeId::new(&"f".repeat(40)).expect("40 digits"), life: Life(1) };
    let in_sync = vec![primary.clone()];
    let record =
        ShardRecord { epoch: 1, primary: primary.clone(), in_sync, promise: Promise::Nothing, began_at: 0 };
    let changes = [
        (Key::Node(primary.node.clone()), Record::Node(facts::record(&shard, ""))),
        (Key::Live(primary.node.clone()), Record::Live(LiveRecord { life: primary.life })),
        (Key::Shard(shard.clone()), Record::Shard(record)),
    ];
    node.write(changes);
    shard
}

fn parks(node: &OneNode) -> usize {
    node.done.iter().filter(|action| matches!(action, Action::Park)).count()
}

#[test]
fn a_move_flips_at_once_however_many_others_change_slots_and_holds_nothing_else_up() {
    let mut node = started();
    let own = node.etcd.shards.keys().next().cloned().expect("the node's own shard");
    let other = add_shard(&mut node);
    let all = SlotRanges::of(0..16_384);
    node.see(Event::Asked(AskId(1), Ask::Edit(Edit::AddSlots(own.clone(), all))));
    node.run_ms(200);
    let wish = Wish { name: String::new(), slots: SlotRanges::of(5..10), to: other.clone() };
    node.see(Event::Asked(AskId(2), Ask::Edit(Edit::Moves(own.clone(), vec![wish], 1))));
    node.see(Event::Asked(AskId(3), Ask::Edit(Edit::MoveBegun(own.clone(), 0, 2))));
    node.races = 5;
    let (epoch, revision) = (node.etcd.shards[&own].0.epoch, node.etcd.revision);
    let id = MoveId { from: own.clone(), number: 0, epoch, revision, attempt: 1 };
    node.see(Event::Asked(AskId(4), Ask::Edit(Edit::Flip(id, 1, 3))));
    assert_eq!([2, 3, 4].map(|ask| node.answer(ask)), [Some(Ok(())), Some(Ok(())), Some(Ok(()))]);
    assert_eq!((node.races, parks(&node)), (0, 0));
    assert_eq!(node.etcd.slots.0.of(&other), Some(&SlotRanges::of(5..10)));
    assert_eq!(node.etcd.moves[&(own.clone(), 0)].0.state, MoveState::Done);
    // What gives slots away otherwise holds everything up first.
    node.see(Event::Asked(AskId(5), Ask::Edit(Edit::SetSlots(other, SlotRanges::of([10])))));
    assert_eq!((node.answer(5), parks(&node)), (Some(Ok(())), 1));
}

#[test]
fn slots_are_not_given_away_while_the_shard_is_being_handed_over() {
    let mut node = started();
    let own = node.etcd.shards.keys().next().cloned().expect("the node's own shard");
    let other = add_shard(&mut node);
    let replica = Member { node: NodeId::new(&"9".repeat(40)).expect("40 digits"), life: Life(1) };
    let (mut record, _) = node.etcd.shards[&own].clone();
    record.in_sync.push(replica.clone());
    let changes = [
        (Key::Node(replica.node.clone()), Record::Node(facts::record(&own, ""))),
        (Key::Live(replica.node.clone()), Record::Live(LiveRecord { life: replica.life })),
        (Key::Shard(own.clone()), Record::Shard(record)),
    ];
    node.write(changes);
    node.see(Event::Asked(AskId(1), Ask::Edit(Edit::AddSlots(own.clone(), SlotRanges::of(0..16_384)))));
    node.see(Event::Asked(AskId(2), Ask::HandTo(replica.node.clone())));
    node.see(Event::Asked(AskId(3), Ask::Edit(Edit::SetSlots(other, SlotRanges::of([5])))));
    assert_eq!((node.answer(3), parks(&node)), (None, 0), "writes are held, and stay held");
    node.see(Event::HandedOver { hold: HoldId(1), has_all: true, log_end: 0 });
    assert_eq!(node.etcd.shards[&own].0.primary, replica);
    assert_eq!(node.answer(2), Some(Ok(())));
    assert!(node.answer(3).is_some_and(|answer| answer.is_err()), "the slots are not its to give any more");
    let held = node.done.iter().position(|action| matches!(action, Action::Hold(..))).expect("held");
    let parked = node.done.iter().position(|action| matches!(action, Action::Park)).expect("parked");
    assert!(!node.done[held..parked].iter().any(|action| matches!(action, Action::Release)));
}
