//! One node against records that change between the making of a transaction and its commit: what it asks for, when, and what
//! makes it come to nothing.

mod facts;

use std::slice;

use cluster::agent::{
    Action, Agent, Ask, AskId, CLOCK_MARGIN_US, Event, FailoverKind, Follower, HoldId, LEASE_S, Outcome,
    PROMISE_US, TxnId,
};
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::records::{ClusterRecord, Key, LiveRecord, OfferRecord, Promise, Record, ShardRecord};
use cluster::topology::Records;

type Compares = Vec<(Key, u64)>;
type Writes = Vec<(Key, Option<Record>)>;

/// The node that decides is `a`, in its second life; others are of the same shard.
fn member(digit: &str, life: u64) -> Member {
    Member { node: NodeId::new(&digit.repeat(40)).expect("40 digits"), life: Life(life) }
}

fn me() -> Member {
    member("a", 2)
}

fn shard() -> ShardId {
    ShardId::new(&"5".repeat(40)).expect("40 digits")
}

fn offer_key(member: &Member) -> Key {
    Key::Offer(shard(), member.node.clone())
}

fn offered(life: u64, epoch: u64, offset: u64) -> OfferRecord {
    OfferRecord { life: Life(life), epoch, offset, asks: false }
}

fn live(member: &Member) -> (Key, Option<Record>) {
    (Key::Live(member.node.clone()), Some(Record::Live(LiveRecord { life: member.life })))
}

struct Desk {
    agent: Agent,
    etcd: Records,
    now_us: u64,
    done: Vec<Action>,
    /// What was asked of etcd and has not reached it.
    asked: Option<(TxnId, Compares, Writes)>,
    log_end: u64,
    log_epoch: u64,
    promised_us: Option<u64>,
    followers: Vec<Follower>,
}

impl Desk {
    /// The shard's primary is `primary`, the set is `in_sync`; these are there besides.
    fn new(primary: &Member, in_sync: &[Member], there: &[Member], promise: Promise) -> Desk {
        let identity = facts::identity(me(), &shard(), promise, 1);
        let agent = Agent::new(identity, facts::record(&shard(), ""));
        let mut desk = Desk {
            agent,
            etcd: Records::default(),
            now_us: 100_000_000,
            done: Vec::new(),
            asked: None,
            log_end: 50,
            log_epoch: 1,
            promised_us: None,
            followers: Vec::new(),
        };
        let cluster = ClusterRecord { id: facts::CLUSTER.to_owned(), format: 1 };
        desk.put(vec![(Key::Cluster, Some(Record::Cluster(cluster)))]);
        for digit in ["a", "b", "c"] {
            let node = Some(Record::Node(facts::record(&shard(), "")));
            desk.put(vec![(Key::Node(member(digit, 1).node), node)]);
        }
        desk.write_shard(primary, in_sync, promise);
        desk.put(there.iter().map(live).collect());
        let records = desk.etcd.clone();
        desk.see(Event::Records(records));
        desk
    }

    fn write_shard(&mut self, primary: &Member, in_sync: &[Member], promise: Promise) {
        let (primary, in_sync) = (primary.clone(), in_sync.to_vec());
        let record = ShardRecord { epoch: 1, primary, in_sync, promise, began_at: 0 };
        self.put(vec![(Key::Shard(shard()), Some(Record::Shard(record)))]);
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
                        assert!(self.asked.is_none(), "one at a time");
                        self.asked = Some((*txn, compares.clone(), writes.clone()));
                    }
                    _ => {}
                }
                self.done.push(action);
            }
        }
    }

    /// Somebody writes these, and this node has not heard of it.
    fn put(&mut self, writes: Writes) -> u64 {
        let revision = self.etcd.revision + 1;
        for (key, record) in writes {
            match record {
                Some(record) => self.etcd.put(key, record, revision),
                None => self.etcd.remove(&key, revision),
            }
        }
        revision
    }

    /// Somebody writes these, and this node sees it.
    fn tell(&mut self, writes: Writes) {
        let revision = self.put(writes.clone());
        self.see(Event::Changed { revision, changes: writes });
    }

    fn tick(&mut self) {
        self.now_us += 100_000;
        let (log_end, log_epoch, promised_us) = (self.log_end, self.log_epoch, self.promised_us);
        let followers = self.followers.clone();
        self.see(Event::Tick { log_end, followers, promised_us, log_epoch });
    }

    fn ticks(&mut self, count: usize) {
        for _ in 0..count {
            self.tick();
            self.carry_out();
        }
    }

    fn would_commit(&self) -> bool {
        let (_, compares, _) = self.asked.as_ref().expect("something is asked for");
        compares.iter().all(|(key, written)| self.etcd.written_at(key) == *written)
    }

    /// What is asked for reaches etcd, whose answer arrives.
    fn carry_out(&mut self) {
        while self.asked.is_some() {
            let would_commit = self.would_commit();
            let Some((txn, _, writes)) = self.asked.take() else { return };
            if would_commit {
                let revision = self.put(writes.clone());
                self.see(Event::Changed { revision, changes: writes });
                self.see(Event::Ended(txn, Outcome::Committed(revision)));
            } else {
                self.see(Event::Ended(txn, Outcome::Refused));
            }
        }
    }

    /// What is asked for is lost, or comes later.
    fn lose(&mut self) -> (Compares, Writes) {
        let (txn, compares, writes) = self.asked.take().expect("something is asked for");
        self.see(Event::Ended(txn, Outcome::Unknown));
        (compares, writes)
    }

    /// Time passes, and all is carried out, until something is asked for that writes such a key.
    fn asks_within(&mut self, ticks: usize, is_it: fn(&Key, &Option<Record>) -> bool) -> bool {
        for _ in 0..ticks {
            while let Some((_, _, writes)) = &self.asked {
                if writes.iter().any(|(key, record)| is_it(key, record)) {
                    return true;
                }
                let (txn, ..) = self.asked.clone().expect("it is");
                assert!(self.would_commit());
                let (_, _, writes) = self.asked.take().expect("it is");
                let revision = self.put(writes.clone());
                self.see(Event::Changed { revision, changes: writes });
                self.see(Event::Ended(txn, Outcome::Committed(revision)));
            }
            self.tick();
        }
        false
    }

    fn claims_within(&mut self, ticks: usize) -> bool {
        self.asks_within(ticks, |key, record| matches!(key, Key::Shard(_)) && record.is_some())
    }

    fn offers_within(&mut self, ticks: usize) -> bool {
        self.asks_within(ticks, |key, record| matches!(key, Key::Offer(..)) && record.is_some())
    }

    fn record_asked_for(&self) -> ShardRecord {
        let (_, _, writes) = self.asked.as_ref().expect("something is asked for");
        let record = writes.iter().find_map(|(_, record)| match record {
            Some(Record::Shard(record)) => Some(record.clone()),
            _ => None,
        });
        record.expect("a shard's record")
    }

    fn role(&self) -> Option<&Action> {
        let is_role =
            |action: &&Action| matches!(action, Action::Lead { .. } | Action::Follow { .. } | Action::Stand);
        self.done.iter().rev().find(is_role)
    }
}

const GONE: Option<Record> = None;

/// A replica of a set whose primary, `b`, has just gone.
fn orphan(others: &[Member]) -> Desk {
    let primary = member("b", 1);
    let mut in_sync = vec![primary.clone(), me()];
    in_sync.extend_from_slice(others);
    let mut there = vec![primary.clone()];
    there.extend_from_slice(others);
    let mut desk = Desk::new(&primary, &in_sync, &there, Promise::Quorum);
    desk.ticks(5);
    assert!(matches!(desk.role(), Some(Action::Follow { .. })), "{:?}", desk.role());
    desk.tell(vec![(Key::Live(primary.node), GONE)]);
    desk
}

/// All of the set have crashed, and are back: this node, in its second life, and `b`, in its second.
fn fallen() -> Desk {
    let in_sync = [member("b", 1), member("a", 1)];
    Desk::new(&in_sync[0], &in_sync, &[member("b", 2)], Promise::Quorum)
}

fn offer_of_b(desk: &mut Desk, offer: OfferRecord) {
    desk.tell(vec![(offer_key(&member("b", 2)), Some(Record::Offer(offer)))]);
}

/// A node that is not in the set, and is to take the shard over from a primary that is gone.
fn usurper() -> Desk {
    let primary = member("b", 1);
    let mut desk = Desk::new(&primary, slice::from_ref(&primary), slice::from_ref(&primary), Promise::Quorum);
    desk.ticks(5);
    desk.tell(vec![(Key::Live(primary.node), GONE)]);
    desk.see(Event::Asked(AskId(1), Ask::Failover(FailoverKind::Takeover)));
    desk
}

/// A primary that has this replica.
fn primary_of(replica: &Member) -> Desk {
    let mut desk = Desk::new(&me(), &[me()], slice::from_ref(replica), Promise::Quorum);
    desk.ticks(3);
    assert!(matches!(desk.role(), Some(Action::Lead { .. })), "{:?}", desk.role());
    follow(&mut desk, replica);
    desk
}

fn follow(desk: &mut Desk, replica: &Member) {
    let (now_us, acked_to) = (desk.now_us, desk.log_end);
    let follower = Follower { member: replica.clone(), acked_to, caught_up_us: now_us, heard_us: now_us };
    desk.followers = vec![follower];
}

/// A primary that hands the shard to this replica, which has all.
fn handing_to(replica: &Member) -> Desk {
    let mut desk = Desk::new(&me(), &[me(), replica.clone()], slice::from_ref(replica), Promise::Quorum);
    desk.ticks(3);
    desk.see(Event::Asked(AskId(1), Ask::HandTo(replica.node.clone())));
    desk.see(Event::HandedOver { hold: HoldId(1), has_all: true, log_end: desk.log_end });
    assert_eq!(desk.record_asked_for().primary, *replica);
    desk
}

fn shard_anew(desk: &mut Desk) {
    let (record, _) = desk.etcd.shards[&shard()].clone();
    desk.put(vec![(Key::Shard(shard()), Some(Record::Shard(record)))]);
}

/// Each of these happens after the transaction was made.
#[test]
fn what_is_asked_for_comes_to_nothing_once_what_it_stands_on_has_changed() {
    type Change = fn(&mut Desk);
    let offering = || {
        let mut desk = orphan(&[]);
        assert!(desk.offers_within(20));
        desk
    };
    let claiming = || {
        let mut desk = orphan(&[]);
        assert!(desk.claims_within(20));
        desk
    };
    let claiming_after_all_fell = || {
        let in_sync = [member("b", 1), member("a", 1), member("c", 1)];
        let there = [member("b", 2), member("c", 2)];
        let mut desk = Desk::new(&in_sync[0], &in_sync, &there, Promise::Quorum);
        for member in &there {
            desk.tell(vec![(offer_key(member), Some(Record::Offer(offered(2, 1, 10))))]);
        }
        assert!(desk.claims_within(40));
        desk
    };
    let taking_over = || {
        let mut desk = usurper();
        assert!(desk.claims_within(20));
        desk
    };
    let coming = || {
        let primary = member("b", 1);
        let desk = Desk::new(&primary, slice::from_ref(&primary), &[], Promise::Quorum);
        assert!(desk.asked.as_ref().is_some_and(|(.., writes)| writes.contains(&live(&me()))));
        desk
    };
    let taking_in = || {
        let mut desk = primary_of(&member("b", 1));
        assert!(desk.claims_within(20));
        assert_eq!(desk.record_asked_for().in_sync, [me(), member("b", 1)]);
        desk
    };
    let withdrawing = || {
        let mut desk = orphan(&[member("c", 1)]);
        assert!(desk.offers_within(20));
        desk.carry_out();
        desk.tell(vec![live(&member("b", 1))]);
        assert!(desk.asks_within(5, |key, record| matches!(key, Key::Offer(..)) && record.is_none()));
        desk
    };
    let handing = || handing_to(&member("b", 1));
    let offer_anew = |desk: &mut Desk| {
        let (key, record) = (offer_key(&me()), Record::Offer(offered(2, 1, 7)));
        desk.put(vec![(key, Some(record))]);
    };
    fn leaves(desk: &mut Desk, digit: &str) {
        let other = ShardId::new(&"6".repeat(40)).expect("40 digits");
        let record = Some(Record::Node(facts::record(&other, "")));
        desk.put(vec![(Key::Node(member(digit, 1).node), record)]);
    }
    let cases: Vec<(&str, Desk, Change)> = vec![
        ("an offer for an earlier record", offering(), shard_anew),
        ("an offer over another", offering(), offer_anew),
        ("a claim of an earlier record", claiming(), shard_anew),
        ("a claim by an offer that is gone", claiming(), |desk| {
            desk.put(vec![(offer_key(&me()), GONE)]);
        }),
        ("a claim by another offer", claiming(), offer_anew),
        ("a claim while the primary is back", claiming(), |desk| {
            desk.put(vec![live(&member("b", 1))]);
        }),
        ("a claim where another life may have more", claiming_after_all_fell(), |desk| {
            desk.put(vec![live(&member("c", 3))]);
        }),
        ("a claim by who left the shard", taking_over(), |desk| leaves(desk, "a")),
        ("a live record over another process's", coming(), |desk| {
            desk.put(vec![live(&member("a", 9))]);
        }),
        ("a live record of who was forgotten", coming(), |desk| {
            desk.put(vec![(Key::Node(me().node), GONE)]);
        }),
        ("a set of an earlier record", taking_in(), shard_anew),
        ("a set with who left the shard", taking_in(), |desk| leaves(desk, "b")),
        ("a hand-over of an earlier record", handing(), shard_anew),
        ("a hand-over to who is gone", handing(), |desk| {
            desk.put(vec![(Key::Live(member("b", 1).node), GONE)]);
        }),
        ("a hand-over to another life", handing(), |desk| {
            desk.put(vec![live(&member("b", 2))]);
        }),
        ("the withdrawal of another offer", withdrawing(), offer_anew),
    ];
    for (what, mut desk, change) in cases {
        assert!(desk.would_commit(), "{what}");
        change(&mut desk);
        assert!(!desk.would_commit(), "{what}");
    }
}

#[test]
fn who_offers_says_what_it_has_now_once_it_follows_nobody_and_what_it_promised_is_over() {
    let mut desk = orphan(&[member("c", 1)]);
    assert_eq!(desk.asked, None, "the server has not said since what it has");
    assert!(desk.offers_within(2));
    desk.carry_out();
    // The other one has not offered yet: there is time to look again.
    for (what, change) in [
        ("more", Box::new(|desk: &mut Desk| desk.log_end = 60) as Box<dyn Fn(&mut Desk)>),
        ("a newer epoch", Box::new(|desk: &mut Desk| desk.log_epoch = 2)),
        ("another life's", Box::new(|desk: &mut Desk| offers(desk, offered(1, 2, 60)))),
        (
            "one that asks",
            Box::new(|desk: &mut Desk| offers(desk, OfferRecord { asks: true, ..offered(2, 2, 60) })),
        ),
        (
            "an older record's",
            Box::new(|desk: &mut Desk| {
                shard_anew(desk);
                let (record, _) = desk.etcd.shards[&shard()].clone();
                let (revision, changes) =
                    (desk.etcd.revision, vec![(Key::Shard(shard()), Some(Record::Shard(record)))]);
                desk.see(Event::Changed { revision, changes });
            }),
        ),
    ] {
        change(&mut desk);
        assert!(desk.offers_within(2), "{what}");
        let own = desk.asked.as_ref().and_then(|(.., writes)| writes[0].1.clone());
        assert_eq!(own, Some(Record::Offer(offered(2, desk.log_epoch, desk.log_end))), "{what}");
        desk.carry_out();
    }
}

fn offers(desk: &mut Desk, offer: OfferRecord) {
    desk.tell(vec![(offer_key(&me()), Some(Record::Offer(offer)))]);
}

#[test]
fn what_the_server_said_while_it_followed_is_not_offered() {
    let mut desk = orphan(&[]);
    desk.tell(vec![live(&member("b", 1))]);
    desk.promised_us = Some(desk.now_us);
    desk.tick();
    desk.tell(vec![(Key::Live(member("b", 1).node), GONE)]);
    assert!(matches!(desk.role(), Some(Action::Follow { .. })), "its primary may come back to etcd");
    desk.tick();
    // The process was stopped meanwhile.
    desk.now_us += 1_500_000;
    desk.tell(vec![live(&member("c", 1))]);
    assert!(matches!(desk.role(), Some(Action::Stand)), "{:?}", desk.role());
    assert_eq!(desk.asked, None);
    assert!(desk.offers_within(2));
}

#[test]
fn a_takeover_is_of_the_shard_that_it_was_asked_for() {
    let mut desk = usurper();
    let other = ShardId::new(&"6".repeat(40)).expect("40 digits");
    let (record, _) = desk.etcd.shards[&shard()].clone();
    desk.tell(vec![
        (Key::Shard(other.clone()), Some(Record::Shard(record))),
        (Key::Node(me().node), Some(Record::Node(facts::record(&other, "")))),
    ]);
    assert!(!desk.claims_within(40), "that one is in the same epoch, and nobody has asked for it");
}

#[test]
fn nobody_offers_before_its_promise_is_over() {
    let mut desk = orphan(&[]);
    let promised_us = desk.now_us;
    desk.promised_us = Some(promised_us);
    assert!(desk.offers_within(60));
    assert!(desk.now_us >= promised_us + PROMISE_US + CLOCK_MARGIN_US);
}

#[test]
fn who_may_have_claimed_follows_nobody_until_the_claim_is_void() {
    let mut desk = orphan(&[]);
    assert!(desk.claims_within(20));
    let (compares, _) = desk.lose();
    desk.tell(vec![live(&member("b", 1))]);
    assert!(matches!(desk.role(), Some(Action::Stand)), "{:?}", desk.role());
    assert!(desk.asks_within(5, |key, record| matches!(key, Key::Offer(..)) && record.is_none()));
    assert!(matches!(desk.role(), Some(Action::Stand)), "{:?}", desk.role());
    desk.carry_out();
    assert!(matches!(desk.role(), Some(Action::Follow { .. })), "{:?}", desk.role());
    assert!(compares.iter().any(|(key, written)| desk.etcd.written_at(key) != *written));
}

/// None: it claims nothing.
#[test]
fn who_claims_by_which_right_and_whom_the_new_set_names() {
    let (quorum, nothing) = (Promise::Quorum, Promise::Nothing);
    let [a1, b1, b2, c1] = [member("a", 1), member("b", 1), member("b", 2), member("c", 1)];
    // The set, the primary first; who is there besides this node; the promise; the set that is claimed.
    type Case<'a> = (&'a str, &'a [&'a Member], &'a [&'a Member], Promise, Option<Vec<Member>>);
    let cases: [Case; 10] = [
        ("a member", &[&b1, &me()], &[], quorum, Some(vec![me()])),
        ("who is away stays in the set", &[&b1, &me(), &c1], &[], quorum, Some(vec![me(), c1.clone()])),
        ("but is of no use where nothing is promised", &[&b1, &me(), &c1], &[], nothing, Some(vec![me()])),
        ("the primary is there", &[&b1, &me()], &[&b1], quorum, None),
        ("another life than the set's", &[&b1, &a1], &[], quorum, None),
        ("any life where nothing is promised", &[&b1, &a1], &[], nothing, Some(vec![me()])),
        ("one of the set is there", &[&b1, &a1, &c1], &[&c1], nothing, None),
        ("not one of the set's nodes", &[&b1], &[], nothing, None),
        ("nor if all of them are back", &[&b1], &[&b2], quorum, None),
        ("not all of them are back", &[&b1, &a1, &c1], &[&b2], quorum, None),
    ];
    for (what, set, there, promise, expected) in cases {
        let set: Vec<Member> = set.iter().map(|member| (*member).clone()).collect();
        let there: Vec<Member> = there.iter().map(|member| (*member).clone()).collect();
        let mut desk = Desk::new(&set[0], &set, &there, promise);
        desk.log_epoch = 7;
        let claims = desk.claims_within(100);
        assert_eq!(claims, expected.is_some(), "{what}");
        if let Some(expected) = expected {
            let record = desk.record_asked_for();
            assert_eq!((record.primary.clone(), record.in_sync.clone()), (me(), expected), "{what}");
            assert_eq!((record.epoch, record.began_at), (8, 50), "{what}: later than what its log has");
        }
    }
}

#[test]
fn where_all_have_crashed_the_best_of_all_offers_claims() {
    let best = |offer: Option<OfferRecord>| {
        let mut desk = fallen();
        if let Some(offer) = offer {
            offer_of_b(&mut desk, offer);
        }
        desk.claims_within(100)
    };
    assert!(best(Some(offered(2, 1, 49))));
    assert!(best(Some(offered(2, 1, 50))), "the lower name");
    for (what, offer) in [
        ("it has not offered", None),
        ("it has more", Some(offered(2, 1, 51))),
        ("it has more of a newer epoch", Some(offered(2, 2, 49))),
        ("another life has offered", Some(offered(1, 1, 49))),
        ("it only asks", Some(OfferRecord { asks: true, ..offered(2, 1, 49) })),
    ] {
        assert!(!best(offer), "{what}");
    }
    let mut desk = fallen();
    offer_of_b(&mut desk, offered(2, 1, 49));
    shard_anew(&mut desk);
    let records = desk.etcd.clone();
    desk.see(Event::Records(records));
    assert!(!desk.claims_within(100), "what was offered for an earlier record");
    offer_of_b(&mut desk, offered(2, 1, 49));
    assert!(desk.claims_within(100));
    assert_eq!(desk.record_asked_for().in_sync, [me()], "the others have to catch up first");
}

fn awaited(desk: &Desk) -> &[Member] {
    match desk.role() {
        Some(Action::Lead { awaited, .. }) => awaited,
        role => panic!("it leads: {role:?}"),
    }
}

#[test]
fn whoever_may_have_come_into_the_set_is_awaited_and_its_promise_counts() {
    let [b, c] = [member("b", 1), member("c", 1)];
    let mut desk = primary_of(&b);
    desk.tell(vec![live(&c)]);
    assert!(desk.claims_within(20));
    let until = desk.done.iter().rposition(|action| matches!(action, Action::ServeUntil(_)));
    let commit = desk.done.iter().rposition(|action| matches!(action, Action::Commit { .. }));
    assert!(until < commit);
    let Some(Action::ServeUntil(until_us)) = until.map(|at| &desk.done[at]) else {
        panic!("it says how long")
    };
    assert!(
        *until_us <= desk.now_us + LEASE_S * 1_000_000,
        "before it asks, it serves no longer than is promised"
    );
    desk.lose();
    follow(&mut desk, &c);
    assert!(desk.claims_within(30));
    assert_eq!(desk.record_asked_for().in_sync, [me(), c.clone()]);
    desk.lose();
    desk.followers.clear();
    desk.tick();
    assert_eq!(awaited(&desk), [b.clone(), c.clone()]);
    // Once it is of another shard, nothing that was asked for can take it in any more.
    let other = ShardId::new(&"6".repeat(40)).expect("40 digits");
    desk.tell(vec![(Key::Node(c.node), Some(Record::Node(facts::record(&other, ""))))]);
    desk.tick();
    assert_eq!(awaited(&desk), [b]);
}

#[test]
fn all_are_awaited_while_it_may_have_been_promised_that_they_have_everything() {
    let b = member("b", 1);
    let mut desk = Desk::new(&me(), &[me(), b.clone()], slice::from_ref(&b), Promise::Nothing);
    desk.ticks(3);
    follow(&mut desk, &b);
    desk.agent.configure_promise(Promise::Quorum);
    assert!(desk.claims_within(5));
    assert_eq!(desk.record_asked_for().promise, Promise::Quorum);
    desk.lose();
    desk.agent.configure_promise(Promise::Nothing);
    desk.followers.clear();
    desk.ticks(30);
    assert_eq!(awaited(&desk), [b]);
}

#[test]
fn a_node_is_in_the_set_in_one_life() {
    let back = member("b", 2);
    let mut desk = Desk::new(&me(), &[me(), member("b", 1)], slice::from_ref(&back), Promise::Quorum);
    desk.ticks(2);
    follow(&mut desk, &back);
    assert!(desk.claims_within(5));
    assert_eq!(desk.record_asked_for().in_sync, [me(), back]);
}

#[test]
fn what_waits_too_long_to_know_its_owner_is_refused_and_serves_again_when_that_is_known() {
    let mut desk = handing_to(&member("b", 1));
    let begun = desk.done.len();
    desk.lose();
    while desk.asked.take().is_some() || desk.now_us < 102_500_000 {
        desk.tick();
        assert!(desk.now_us < 200_000_000);
        if desk.done[begun..].iter().any(|action| matches!(action, Action::Release)) {
            break;
        }
    }
    let released = desk.done[begun..].iter().position(|action| matches!(action, Action::Release));
    let refused = desk.done[begun..].iter().position(|action| matches!(action, Action::ServeUntil(0)));
    assert!(refused.is_some() && refused < released, "{refused:?} {released:?}");
}

#[test]
fn what_is_held_is_released_when_the_lead_is_lost() {
    let replica = member("b", 1);
    let mut desk = Desk::new(&me(), &[me(), replica.clone()], slice::from_ref(&replica), Promise::Quorum);
    desk.ticks(3);
    desk.see(Event::Asked(AskId(1), Ask::HandTo(replica.node.clone())));
    let held = desk.done.len();
    let record = ShardRecord {
        epoch: 2,
        primary: replica.clone(),
        in_sync: vec![replica],
        promise: Promise::Quorum,
        began_at: 50,
    };
    desk.tell(vec![(Key::Shard(shard()), Some(Record::Shard(record)))]);
    assert!(desk.done[held..].iter().any(|action| matches!(action, Action::Release)));
}

/// The server had said it, or was about to, when the first one was given up.
#[test]
fn what_is_said_of_one_hand_over_is_not_taken_for_the_next() {
    let [b, c] = [member("b", 1), member("c", 1)];
    for (has_all, log_end) in [(true, 40), (false, 50)] {
        let set = [me(), b.clone(), c.clone()];
        let mut desk = Desk::new(&me(), &set, &set[1..], Promise::Quorum);
        desk.ticks(3);
        desk.see(Event::Asked(AskId(1), Ask::HandTo(b.node.clone())));
        desk.see(Event::HandedOver { hold: HoldId(1), has_all: false, log_end: 40 });
        desk.see(Event::Asked(AskId(2), Ask::HandTo(c.node.clone())));
        let held = desk.done.iter().rev().find(|action| matches!(action, Action::Hold(..)));
        assert!(matches!(held, Some(Action::Hold(HoldId(2), to)) if *to == c), "{held:?}");
        let begun = desk.done.len();
        desk.see(Event::HandedOver { hold: HoldId(1), has_all, log_end });
        assert_eq!(desk.asked, None);
        assert_eq!(desk.done.len(), begun);
        desk.see(Event::HandedOver { hold: HoldId(2), has_all: true, log_end: 50 });
        let record = desk.record_asked_for();
        assert_eq!((record.primary, record.began_at), (c.clone(), 50));
    }
}

#[test]
fn a_lease_counts_once_all_is_seen_that_was_committed_before_its_live_record() {
    let mut desk = Desk::new(&me(), &[me(), member("b", 1)], &[], Promise::Quorum);
    let (txn, _, writes) = desk.asked.take().expect("it says that it is there");
    desk.put(vec![live(&member("c", 1))]);
    let revision = desk.put(writes);
    desk.see(Event::Ended(txn, Outcome::Committed(revision)));
    desk.tick();
    let serves = |desk: &Desk| {
        desk.done
            .iter()
            .any(|action| matches!(action, Action::ServeUntil(until_us) if *until_us > desk.now_us))
    };
    assert!(!serves(&desk), "somebody else may have become primary before");
    let records = desk.etcd.clone();
    desk.see(Event::Records(records));
    desk.tick();
    assert!(serves(&desk));
}
