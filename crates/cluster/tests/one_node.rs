//! One node against records that change at once: from nothing to a primary that serves.

use cluster::agent::{Action, Agent, Ask, AskId, Event, Identity, Outcome, Place};
use cluster::edits::Edit;
use cluster::ids::{Life, NodeId, ShardId};
use cluster::records::{Key, NodeRecord, Promise};
use cluster::slots::SlotRanges;
use cluster::topology::Records;

struct OneNode {
    agent: Agent,
    etcd: Records,
    now_us: u64,
    /// All that was done, in order.
    done: Vec<Action>,
}

impl OneNode {
    fn new(etcd: Records, kept: Option<(String, u64)>) -> OneNode {
        let node = NodeId::new(&"a".repeat(40)).expect("40 digits");
        let shard = ShardId::new(&"b".repeat(40)).expect("40 digits");
        let identity = Identity {
            node,
            life: Life(1),
            kept,
            new_cluster: "c".repeat(40),
            place: Place::In(shard.clone()),
            promise: Promise::Quorum,
            min_in_sync: 1,
            replicas_wanted: 2,
        };
        let facts = NodeRecord {
            ip: "127.0.0.1".to_owned(),
            port: 7000,
            tls_port: 0,
            bus_port: 17_000,
            hostname: String::new(),
            zone: String::new(),
            shard,
            version: String::new(),
        };
        OneNode { agent: Agent::new(identity, facts), etcd, now_us: 1_000_000, done: Vec::new() }
    }

    fn see(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut out = Vec::new();
            self.agent.handle(self.now_us, event, &mut out);
            for action in out {
                match &action {
                    Action::Grant | Action::Renew => events.push(Event::LeaseKept { asked_us: self.now_us }),
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
    assert_eq!(node.agent.to_keep().map(|(cluster, _)| cluster.to_owned()), Some("c".repeat(40)));
}

#[test]
fn another_cluster_and_an_older_one_are_refused() {
    for kept in [("d".repeat(40), 0), ("c".repeat(40), 1_000)] {
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
