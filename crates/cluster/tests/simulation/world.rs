//! Nodes, etcd and what lies between them, in one order of time that a seed decides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cluster::agent::{Action, Ask, AskId, Event, Outcome, TxnId};
use cluster::ids::{Life, Member, ShardId};
use cluster::records::{ClusterRecord, Key, LiveRecord, Promise, Record, ShardRecord};
use cluster::slots::SlotMap;
use cluster::topology::Records;

use crate::checks::Checks;
use crate::etcd::Etcd;
use crate::facts;
use crate::faults::Fault;
use crate::node::{Message, Node, Request, shard_id};
use crate::random::Random;

const TICK_US: u64 = 100_000;
const TIMEOUT_US: u64 = 1_000_000;

/// What happens, at its time. What is sent to a process that has ended since is lost.
pub enum Happening {
    Tick(usize, u64),
    ToEtcd(usize, u64, Request),
    FromEtcd(usize, u64, Event),
    FromServer(usize, u64, Event),
    Granted(usize, u64, u64, u64),
    Renewed(usize, u64, u64, u64),
    LeaseGone(usize, u64, u64),
    TimedOut(usize, u64, TxnId),
    Watch(usize, u64),
    Message(usize, usize, Message),
    Hello(usize, u64),
    Write(usize),
    Leases,
    Fault(Fault, u64),
    Mend(Fault),
    Start(usize),
    Ask(usize, u64, Ask),
    /// What the server asks of its own agent.
    AskOwn(usize, u64, u64, Ask),
}

pub struct World {
    pub now_us: u64,
    pub random: Random,
    pub etcd: Etcd,
    pub nodes: Vec<Node>,
    pub shards: usize,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    /// Links that are cut, from one to another; etcd is the number behind the last node.
    pub cuts: BTreeMap<(usize, usize), u32>,
    /// Nodes whose answers from etcd are lost.
    pub losing: Vec<bool>,
    pub checks: Checks,
    pub min_in_sync: usize,
    pub is_always_synced: bool,
    pub is_over: bool,
    pub trace: Option<Vec<String>>,
    pub next_entry: u64,
    pub next_ask: u64,
    pub next_link: u64,
    actions: Vec<Action>,
}

impl World {
    pub fn new(seed: u64, trace: bool) -> World {
        let mut random = Random::new(seed);
        let shards = if random.one_in(3) { 2 } else { 1 };
        let copies = random.between(1, 4) as usize;
        let copies = if random.one_in(4) { copies } else { 3 };
        let promise = if random.one_in(4) { Promise::Nothing } else { Promise::Quorum };
        let min_in_sync = if random.one_in(3) { 1 } else { 2.min(copies) };
        let is_always_synced = random.one_in(2);
        let nodes: Vec<Node> = (0..shards * copies)
            .map(|number| Node::new(number, shard_id(number % shards), promise))
            .collect();
        let mut world = World {
            now_us: 1_000_000,
            losing: vec![false; nodes.len() + 2],
            random,
            etcd: Etcd::default(),
            nodes,
            shards,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            sequence: 0,
            cuts: BTreeMap::new(),
            checks: Checks::default(),
            min_in_sync,
            is_always_synced,
            is_over: false,
            trace: trace.then(Vec::new),
            next_entry: 1,
            next_ask: 1,
            next_link: 1,
            actions: Vec::new(),
        };
        world.found(promise);
        world
    }

    /// Most schedules begin with a cluster that is there, some with nothing.
    fn found(&mut self, promise: Promise) {
        for node in &mut self.nodes {
            node.drift_ppm = self.random.below(40_001) as i64 - 20_000;
            node.ahead_us = self.random.below(1_000_000_000);
        }
        if !self.random.one_in(8) {
            self.write_founded(promise);
        }
        for at in 0..self.nodes.len() {
            let delay_us = self.random.below(20_000);
            self.after(delay_us, Happening::Start(at));
        }
        self.after(TICK_US, Happening::Leases);
        for shard in 0..self.shards {
            let delay_us = self.random.below(50_000);
            self.after(delay_us, Happening::Write(shard));
        }
    }

    fn write_founded(&mut self, promise: Promise) {
        let mut writes = vec![(
            Key::Cluster,
            Some(Record::Cluster(ClusterRecord { id: facts::CLUSTER.to_owned(), format: 1 })),
        )];
        for node in &self.nodes {
            let record = facts::record(&node.home, &node.zone);
            writes.push((Key::Node(node.id.clone()), Some(Record::Node(record))));
        }
        let mut map = SlotMap::default();
        for shard in 0..self.shards {
            let first = Member { node: self.nodes[shard].id.clone(), life: Life(1) };
            let record =
                ShardRecord { epoch: 1, primary: first.clone(), in_sync: vec![first], promise, began_at: 0 };
            let size = 16_384 / self.shards as u16;
            let slots = shard as u16 * size..(shard as u16 + 1) * size;
            map.assign(slots, Some(&shard_id(shard))).expect("one owner each");
            writes.push((Key::Shard(shard_id(shard)), Some(Record::Shard(record))));
        }
        writes.push((Key::Slots, Some(Record::Slots(map))));
        for shard in 0..self.shards {
            let live = Record::Live(LiveRecord { life: Life(1) });
            let lease = self.etcd.grant(self.now_us, &mut self.random);
            let key = Key::Live(self.nodes[shard].id.clone());
            self.etcd.commit(Some(lease), &[], &vec![(key, Some(live))]);
        }
        self.etcd.commit(None, &[], &writes);
    }

    pub fn after(&mut self, delay_us: u64, happening: Happening) {
        self.sequence += 1;
        let at = (self.now_us + delay_us, self.sequence);
        self.queue.push(Reverse(at));
        self.happenings.insert(at, happening);
    }

    pub fn log(&mut self, line: impl FnOnce() -> String) {
        let now_us = self.now_us;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", now_us as f64 / 1e6, line()));
        }
    }

    /// The next thing happens.
    pub fn step(&mut self) {
        let Some(Reverse(at)) = self.queue.pop() else { return };
        let Some(happening) = self.happenings.remove(&at) else { return };
        self.now_us = at.0;
        match happening {
            Happening::Tick(node, life) => self.on_node(node, life, Happening::Tick(node, life)),
            Happening::FromEtcd(node, life, event) => {
                self.on_node(node, life, Happening::FromEtcd(node, life, event));
            }
            Happening::FromServer(node, life, event) => {
                self.on_node(node, life, Happening::FromServer(node, life, event));
            }
            Happening::Granted(node, life, lease, asked_us) => {
                self.on_node(node, life, Happening::Granted(node, life, lease, asked_us));
            }
            Happening::Renewed(node, life, lease, asked_us) => {
                self.on_node(node, life, Happening::Renewed(node, life, lease, asked_us));
            }
            Happening::LeaseGone(node, life, lease) => {
                self.on_node(node, life, Happening::LeaseGone(node, life, lease));
            }
            Happening::TimedOut(node, life, txn) => {
                self.on_node(node, life, Happening::TimedOut(node, life, txn))
            }
            Happening::Watch(node, life) => self.on_node(node, life, Happening::Watch(node, life)),
            Happening::Hello(node, life) => self.on_node(node, life, Happening::Hello(node, life)),
            Happening::Ask(node, life, ask) => self.on_node(node, life, Happening::Ask(node, life, ask)),
            Happening::AskOwn(node, life, id, ask) => {
                self.on_node(node, life, Happening::AskOwn(node, life, id, ask));
            }
            Happening::Message(from, to, message) => {
                let life = self.nodes[to].life;
                self.on_node(to, life, Happening::Message(from, to, message));
            }
            Happening::ToEtcd(node, life, request) => self.at_etcd(node, life, request),
            Happening::Write(shard) => self.write(shard),
            Happening::Leases => {
                if !self.etcd.is_down {
                    self.etcd.expire(self.now_us);
                    self.tell_watchers();
                }
                self.after(TICK_US, Happening::Leases);
            }
            Happening::Fault(fault, lasts_us) => self.break_something(fault, lasts_us),
            Happening::Mend(fault) => self.mend(fault),
            Happening::Start(node) => self.start(node),
        }
    }

    /// A stopped process sees what comes when it goes on.
    fn on_node(&mut self, at: usize, life: u64, happening: Happening) {
        let node = &self.nodes[at];
        if !node.is_up || node.life != life {
            return;
        }
        if self.now_us < node.paused_until_us {
            let delay_us = node.paused_until_us - self.now_us;
            return self.after(delay_us, happening);
        }
        match happening {
            Happening::Tick(..) => self.tick(at),
            Happening::FromEtcd(_, _, event) => self.hear_etcd(at, event),
            Happening::FromServer(_, _, event) => self.handle(at, event),
            Happening::Granted(_, _, lease, asked_us) => {
                let node = &mut self.nodes[at];
                if std::mem::take(&mut node.wants_lease) {
                    node.lease = Some(lease);
                }
                if node.lease == Some(lease) {
                    self.handle(at, Event::LeaseKept { asked_us });
                }
            }
            Happening::Renewed(_, _, lease, asked_us) => {
                if self.nodes[at].lease == Some(lease) {
                    self.handle(at, Event::LeaseKept { asked_us });
                }
            }
            Happening::LeaseGone(_, _, lease) => {
                if self.nodes[at].lease == Some(lease) {
                    self.nodes[at].lease = None;
                    self.handle(at, Event::LeaseGone);
                }
            }
            Happening::TimedOut(_, _, txn) => {
                if self.nodes[at].pending == Some(txn) {
                    self.nodes[at].pending = None;
                    self.handle(at, Event::Ended(txn, Outcome::Unknown));
                }
            }
            Happening::Watch(..) => self.watch(at),
            Happening::Hello(..) => self.hello(at),
            Happening::Ask(_, _, ask) => {
                let id = self.next_ask;
                self.next_ask += 1;
                self.nodes[at].asks.push(id);
                self.log(|| format!("n{at} is asked {ask:?}"));
                self.handle(at, Event::Asked(AskId(id), ask));
            }
            Happening::AskOwn(_, _, id, ask) => self.handle(at, Event::Asked(AskId(id), ask)),
            Happening::Message(from, _, message) => self.receive(from, at, message),
            _ => unreachable!("not of a node"),
        }
        self.check(at);
    }

    fn check(&mut self, at: usize) {
        if let Err(why) = self.checks.serving(at, &self.nodes, self.now_us) {
            self.fail(&why);
        }
    }

    fn check_began(&mut self, at: usize) {
        let Some(records) = self.nodes[at].agent.as_ref().map(|agent| agent.records()) else { return };
        if let Err(why) = self.checks.began(&self.nodes[at], records) {
            self.fail(&why);
        }
    }

    pub fn fail(&mut self, why: &str) {
        if let Some(trace) = &self.trace {
            trace.iter().for_each(|line| println!("{line}"));
        }
        panic!("at {} us: {why}", self.now_us);
    }

    fn start(&mut self, at: usize) {
        if self.nodes[at].is_up {
            return;
        }
        let min_in_sync = self.min_in_sync;
        self.nodes[at].start(min_in_sync);
        let life = self.nodes[at].life;
        self.log(|| format!("n{at} starts, life {life}"));
        self.after(0, Happening::Tick(at, life));
        self.ask_etcd(at, Request::Snapshot);
        self.after(100_000, Happening::Hello(at, life));
    }

    fn tick(&mut self, at: usize) {
        let life = self.nodes[at].life;
        let delay_us = TICK_US + self.random.below(2_000);
        self.after(delay_us, Happening::Tick(at, life));
        if !self.nodes[at].is_watching && self.random.one_in(3) {
            self.ask_etcd(at, Request::Snapshot);
        }
        self.feed(at);
        let tick = self.nodes[at].tick();
        self.handle(at, tick);
        self.hold_check(at);
        self.go_on_with_moves(at);
    }

    /// Gives the agent an event, and does what it says.
    pub fn handle(&mut self, at: usize, event: Event) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        let mut actions = std::mem::take(&mut self.actions);
        if self.trace.is_some()
            && !matches!(event, Event::Tick { .. } | Event::LeaseKept { .. } | Event::HandedOver { .. })
        {
            let text = match &event {
                Event::Records(records) => format!("Records at {}", records.revision),
                event => format!("{event:?}"),
            };
            self.log(|| format!("n{at} sees {text}"));
        }
        if let Some(agent) = &mut self.nodes[at].agent {
            agent.handle(clock_us, event, &mut actions);
        }
        for action in actions.drain(..) {
            self.act(at, action);
        }
        self.actions = actions;
        self.look_at_moves(at);
        self.check(at);
    }

    fn act(&mut self, at: usize, action: Action) {
        if self.trace.is_some() && !matches!(action, Action::Renew | Action::Grant | Action::ServeUntil(_)) {
            let text = match &action {
                Action::Install(topology) => format!("Install {}", topology.revision),
                action => format!("{action:?}"),
            };
            self.log(|| format!("n{at} does {text}"));
        }
        let clock_us = self.nodes[at].clock_us(self.now_us);
        let life = self.nodes[at].life;
        match action {
            Action::Grant => {
                // What is known of the one before arrives still.
                self.nodes[at].wants_lease = true;
                self.ask_etcd(at, Request::Grant { asked_us: clock_us });
            }
            Action::Renew => {
                if let Some(lease) = self.nodes[at].lease {
                    self.ask_etcd(at, Request::Renew { lease, asked_us: clock_us });
                }
            }
            Action::Revoke => {
                if let Some(lease) = self.nodes[at].lease.take() {
                    self.ask_etcd(at, Request::Revoke { lease });
                }
            }
            Action::Commit { txn, compares, writes } => {
                let lease = self.nodes[at].lease;
                self.nodes[at].pending = Some(txn);
                self.after(TIMEOUT_US, Happening::TimedOut(at, life, txn));
                self.ask_etcd(at, Request::Commit { txn, lease, compares, writes });
            }
            Action::Lead { .. } | Action::Follow { .. } | Action::Stand => {
                let led = self.nodes[at].led_epoch();
                self.nodes[at].take_role(&action);
                if self.nodes[at].led_epoch() != led {
                    self.check_began(at);
                }
                if matches!(action, Action::Follow { .. }) {
                    self.hello_now(at);
                }
                self.release_replies(at);
            }
            Action::ServeUntil(until_us) => {
                self.nodes[at].serve_until_us = until_us;
                self.release_replies(at);
            }
            Action::Hold(hold, member) => {
                self.nodes[at].held = Some((hold, member));
                self.nodes[at].held_since_us = clock_us;
                self.feed(at);
            }
            Action::Park => self.nodes[at].is_parked = true,
            Action::Release => {
                self.nodes[at].held = None;
                self.nodes[at].is_parked = false;
            }
            Action::Install(topology) => {
                self.nodes[at].topology = Some(topology);
                self.nodes[at].is_refused = false;
            }
            Action::Answer(ask, result) => {
                self.nodes[at].asks.retain(|id| *id != ask.0);
                self.move_answered(at, ask.0, &result);
            }
            Action::Tell(_) => {}
            Action::Refuse(_) => self.nodes[at].is_refused = true,
        }
    }

    // Etcd.

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|count| *count > 0)
    }

    pub fn etcd_place(&self) -> usize {
        usize::MAX
    }

    fn delay_us(&mut self) -> u64 {
        if self.random.one_in(60) {
            self.random.between(20_000, 700_000)
        } else {
            self.random.between(200, 4_000)
        }
    }

    fn ask_etcd(&mut self, at: usize, request: Request) {
        let mut delay_us = self.delay_us();
        if matches!(request, Request::Commit { .. }) && self.nodes[at].delays_commits && self.random.one_in(2)
        {
            delay_us = self.random.between(100_000, 5_000_000);
        }
        let life = self.nodes[at].life;
        self.after(delay_us, Happening::ToEtcd(at, life, request));
    }

    fn at_etcd(&mut self, at: usize, life: u64, request: Request) {
        let etcd = self.etcd_place();
        if self.is_cut(at, etcd) || self.etcd.is_down {
            // Some of what cannot get there yet comes later, when nobody waits for it any more.
            if matches!(request, Request::Commit { .. }) && self.random.one_in(3) {
                let delay_us = self.random.between(100_000, 2_500_000);
                self.after(delay_us, Happening::ToEtcd(at, life, request));
            }
            return;
        }
        let delay_us = self.delay_us();
        let is_lost = self.is_cut(etcd, at) || (self.losing[at] && self.random.one_in(2));
        let now_us = self.now_us;
        let answer = match request {
            Request::Snapshot => {
                Some(Happening::FromEtcd(at, life, Event::Records(self.etcd.records.clone())))
            }
            Request::Grant { asked_us } => {
                let lease = self.etcd.grant(now_us, &mut self.random);
                Some(Happening::Granted(at, life, lease, asked_us))
            }
            Request::Renew { lease, asked_us } => {
                self.etcd.expire(now_us);
                if self.etcd.renew(now_us, lease, &mut self.random) {
                    Some(Happening::Renewed(at, life, lease, asked_us))
                } else {
                    Some(Happening::LeaseGone(at, life, lease))
                }
            }
            Request::Revoke { lease } => {
                self.etcd.revoke(lease);
                None
            }
            Request::Commit { txn, lease, compares, writes } => {
                self.etcd.expire(now_us);
                let touches = |key: &Key| matches!(key, Key::Shard(_) | Key::Node(_) | Key::Slots);
                let is_of_note = writes.iter().any(|(key, _)| touches(key));
                let before = if is_of_note { self.etcd.records.clone() } else { Records::default() };
                let outcome = self.etcd.commit(lease, &compares, &writes);
                if is_of_note && matches!(outcome, Outcome::Committed(_)) {
                    let who = Member { node: self.nodes[at].id.clone(), life: Life(life) };
                    self.log(|| format!("etcd commits {outcome:?} of n{at}: {writes:?}"));
                    let checked = self.checks.committed(
                        &before,
                        &self.etcd.records,
                        &who,
                        &self.nodes,
                        self.min_in_sync,
                    );
                    if let Err(why) = checked {
                        self.fail(&why);
                    }
                }
                Some(Happening::FromEtcd(at, life, Event::Ended(txn, outcome)))
            }
        };
        if let Some(answer) = answer
            && !is_lost
        {
            self.after(delay_us, answer);
        }
        self.tell_watchers();
    }

    fn tell_watchers(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.is_watching && !node.is_watch_due && node.watch_at < self.etcd.history.len() {
                let delay_us = node.watch_delay_us + self.random.below(node.watch_delay_us);
                let life = node.life;
                self.nodes[at].is_watch_due = true;
                self.after(delay_us, Happening::Watch(at, life));
            }
        }
    }

    fn watch(&mut self, at: usize) {
        self.nodes[at].is_watch_due = false;
        if !self.nodes[at].is_watching {
            return;
        }
        let etcd = self.etcd_place();
        if self.etcd.is_down || self.is_cut(etcd, at) {
            self.nodes[at].is_watch_due = true;
            let life = self.nodes[at].life;
            return self.after(100_000, Happening::Watch(at, life));
        }
        let behind = self.etcd.history.len().saturating_sub(self.nodes[at].watch_at);
        // What was compacted meanwhile is read anew.
        if behind > 3 && self.random.one_in(10) {
            self.nodes[at].is_watching = false;
            return self.ask_etcd(at, Request::Snapshot);
        }
        let count = if self.random.one_in(4) { 1 } else { behind };
        // What has come together may be decided together.
        let is_decided_at_once = self.random.one_in(2);
        for left in (0..count).rev() {
            let index = self.nodes[at].watch_at;
            let Some((revision, changes)) = self.etcd.history.get(index).cloned() else { break };
            self.nodes[at].watch_at = index + 1;
            if is_decided_at_once && left > 0 {
                self.take_in(at, revision, changes.to_vec());
            } else {
                self.handle(at, Event::Changed { revision, changes: changes.to_vec() });
            }
            self.keep(at);
        }
        self.tell_watchers();
    }

    fn take_in(&mut self, at: usize, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        self.log(|| format!("n{at} takes in {revision}: {changes:?}"));
        if let Some(agent) = &mut self.nodes[at].agent {
            agent.take_in(clock_us, revision, changes);
        }
    }

    fn keep(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let kept = node.agent.as_ref().and_then(|agent| agent.to_keep());
        node.kept = kept.map(|(cluster, revision)| (cluster.to_owned(), revision));
    }

    fn hear_etcd(&mut self, at: usize, event: Event) {
        match &event {
            Event::Records(records) => {
                if self.nodes[at].is_watching {
                    return;
                }
                let index = self.etcd.history.partition_point(|(revision, _)| *revision <= records.revision);
                self.nodes[at].watch_at = index;
                self.nodes[at].is_watching = true;
                self.nodes[at].is_watch_due = false;
                self.handle(at, event);
                self.keep(at);
                self.tell_watchers();
            }
            Event::Ended(txn, _) => {
                if self.nodes[at].pending == Some(*txn) {
                    self.nodes[at].pending = None;
                    self.handle(at, event);
                }
            }
            _ => self.handle(at, event),
        }
    }

    pub fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if !node.is_up {
            return;
        }
        node.is_up = false;
        node.agent = None;
        node.forget_process();
        if !self.is_always_synced {
            let lost = self.random.below(8) as usize;
            let end = self.nodes[at].log.entries.len();
            self.nodes[at].log.cut_to(end.saturating_sub(lost));
        }
        self.log(|| format!("n{at} crashes"));
    }

    /// The node of a shard that leads it by etcd's records.
    pub fn primary_of(&self, shard: &ShardId) -> Option<usize> {
        let (record, _) = self.etcd.records.shards.get(shard)?;
        self.place_of(&record.primary.node)
    }
}
