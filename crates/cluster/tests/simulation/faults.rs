//! What breaks, for how long, and what administrators do meanwhile.

use cluster::agent::{Ask, FailoverKind};
use cluster::edits::{Edit, Wish};
use cluster::records::Promise;
use cluster::slots::SlotRanges;

use crate::node::{Node, Role, SLOTS_SAMPLED, shard_id};
use crate::world::{Happening, World};

/// A node, as it is found when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// By its number.
    Node(usize),
    /// Who leads this shard.
    Primary(usize),
    /// The shard's first, second node that does not lead it.
    Replica(usize, usize),
}

#[derive(Clone, Debug)]
pub enum Fault {
    Crash(Who),
    CrashAll(usize),
    Pause(Who),
    CutFromEtcd(Who),
    /// Answers of etcd do not arrive, but what is asked does.
    Lose(Who),
    /// What is asked of etcd arrives much later, when nobody waits for it any more.
    Delay(Who),
    Cut(Who, Who, bool),
    /// From all other nodes, not from etcd.
    Alone(Who),
    EtcdDown,
    SlowWatch(Who),
    FailOver(usize, FailoverKind),
    HandTo(usize, usize),
    End(Who),
    MoveSlot(u16, usize),
    /// By a move that copies.
    Move(u16, usize),
    CancelMoves(usize),
    DeleteSlot(u16),
    AddSlot(u16, usize),
    Replicate(usize, usize),
    Forget(usize, usize),
    Bump(usize),
    New(usize),
    Promise(Promise),
}

impl World {
    /// Plans the faults of a schedule: each begins and ends at its time.
    pub fn plan(&mut self, from_us: u64, for_us: u64) {
        let count = self.random.between(1, 9);
        for _ in 0..count {
            let at_us = from_us + self.random.below(for_us);
            let (fault, lasts_us) = (self.draw(), self.lasting_us());
            self.after(at_us - self.now_us, Happening::Fault(fault, lasts_us));
        }
        if self.random.one_in(4) {
            let at_us = from_us + self.random.below(for_us / 2);
            for (delay_us, fault, lasts_us) in self.draw_together() {
                self.after(at_us + delay_us - self.now_us, Happening::Fault(fault, lasts_us));
            }
        }
    }

    fn lasting_us(&mut self) -> u64 {
        if self.random.one_in(3) {
            self.random.between(50_000, 1_200_000)
        } else {
            self.random.between(1_000_000, 5_000_000)
        }
    }

    pub fn any_node(&mut self) -> usize {
        let count = self.nodes.len() as u64;
        self.random.below(count) as usize
    }

    /// A primary, more often than not.
    fn target(&mut self) -> Who {
        if self.random.one_in(3) {
            return Who::Node(self.any_node());
        }
        Who::Primary(self.any_shard())
    }

    pub fn any_shard(&mut self) -> usize {
        let shards = self.shards as u64;
        self.random.below(shards) as usize
    }

    pub fn slot(&mut self) -> u16 {
        SLOTS_SAMPLED[self.random.below(8) as usize]
    }

    fn draw(&mut self) -> Fault {
        match self.random.below(34) {
            0..=3 => Fault::Crash(self.target()),
            4 => Fault::CrashAll(self.any_shard()),
            5..=7 => Fault::Pause(self.target()),
            8..=10 => Fault::CutFromEtcd(self.target()),
            11 => Fault::Lose(self.target()),
            12 | 13 => {
                Fault::Cut(Who::Node(self.any_node()), Who::Node(self.any_node()), self.random.one_in(2))
            }
            14 => Fault::Alone(self.target()),
            15 => Fault::EtcdDown,
            16 | 17 => Fault::SlowWatch(self.target()),
            18 => Fault::FailOver(self.any_node(), FailoverKind::Ordered),
            19 => {
                let kinds = [FailoverKind::Force, FailoverKind::Ordered, FailoverKind::Takeover];
                let kind =
                    if self.random.one_in(6) { kinds[2] } else { kinds[self.random.below(2) as usize] };
                Fault::FailOver(self.any_node(), kind)
            }
            20 | 21 => Fault::HandTo(self.any_shard(), self.any_node()),
            22 => Fault::End(self.target()),
            23 => Fault::MoveSlot(self.slot(), self.any_shard()),
            24 if self.random.one_in(2) => Fault::DeleteSlot(self.slot()),
            24 => Fault::AddSlot(self.slot(), self.any_shard()),
            25 => Fault::Replicate(self.any_node(), self.any_shard()),
            26 => Fault::Forget(self.any_node(), self.any_node()),
            27 => Fault::Bump(self.any_shard()),
            28 => Fault::New(self.any_shard()),
            29..=31 => Fault::Move(self.slot(), self.any_shard()),
            32 => Fault::CancelMoves(self.any_shard()),
            33 => Fault::Promise(if self.random.one_in(2) { Promise::Quorum } else { Promise::Nothing }),
            number => unreachable!("no fault has number {number}"),
        }
    }

    /// The node that is meant, as things are now.
    fn meant(&self, who: Who) -> usize {
        match who {
            Who::Node(at) => at,
            Who::Primary(shard) => self.primary_of(&shard_id(shard)).unwrap_or(0),
            Who::Replica(shard, nth) => {
                let shard = shard_id(shard);
                let primary = self.primary_of(&shard);
                let nodes = self.etcd.records.nodes_of(&shard).filter_map(|node| self.place_of(node));
                nodes.filter(|at| Some(*at) != primary).nth(nth).or(primary).unwrap_or(0)
            }
        }
    }

    fn ask(&mut self, at: usize, ask: Ask) {
        let life = self.nodes[at].life;
        self.after(0, Happening::Ask(at, life, ask));
    }

    fn cut(&mut self, from: usize, to: usize, cuts: bool) {
        let count = self.cuts.entry((from, to)).or_default();
        *count = if cuts { *count + 1 } else { count.saturating_sub(1) };
    }

    fn cut_all(&mut self, at: usize, cuts: bool) {
        for other in 0..self.nodes.len() {
            self.cut(at, other, cuts);
            self.cut(other, at, cuts);
        }
    }

    pub fn break_something(&mut self, fault: Fault, lasts_us: u64) {
        if self.is_over {
            return;
        }
        self.log(|| format!("FAULT {fault:?} for {lasts_us} us"));
        match fault {
            Fault::Crash(target) => {
                let at = self.meant(target);
                self.crash(at);
                self.after(lasts_us, Happening::Start(at));
            }
            Fault::CrashAll(shard) => self.crash_all(shard),
            Fault::Pause(target) => {
                let at = self.meant(target);
                self.nodes[at].paused_until_us = self.now_us + lasts_us;
            }
            Fault::CutFromEtcd(target) => {
                let (at, etcd) = (self.meant(target), self.etcd_place());
                self.cut(at, etcd, true);
                self.cut(etcd, at, true);
                self.after(lasts_us, Happening::Mend(Fault::CutFromEtcd(Who::Node(at))));
            }
            Fault::Lose(target) => {
                let at = self.meant(target);
                self.losing[at] = true;
                self.after(lasts_us, Happening::Mend(Fault::Lose(Who::Node(at))));
            }
            Fault::Delay(target) => {
                let at = self.meant(target);
                self.nodes[at].delays_commits = true;
                self.after(lasts_us, Happening::Mend(Fault::Delay(Who::Node(at))));
            }
            Fault::Cut(one, other, is_both) => {
                let (one, other) = (self.meant(one), self.meant(other));
                self.cut(one, other, true);
                if is_both {
                    self.cut(other, one, true);
                }
                let cut = Fault::Cut(Who::Node(one), Who::Node(other), is_both);
                self.after(lasts_us, Happening::Mend(cut));
            }
            Fault::Alone(target) => {
                let at = self.meant(target);
                self.cut_all(at, true);
                self.after(lasts_us, Happening::Mend(Fault::Alone(Who::Node(at))));
            }
            Fault::EtcdDown => {
                self.etcd.is_down = true;
                self.after(lasts_us, Happening::Mend(fault));
            }
            Fault::SlowWatch(target) => {
                let at = self.meant(target);
                self.nodes[at].watch_delay_us = lasts_us / 2;
                self.after(lasts_us, Happening::Mend(Fault::SlowWatch(Who::Node(at))));
            }
            _ => self.administrate(fault, lasts_us),
        }
    }

    fn crash_all(&mut self, shard: usize) {
        let shard = shard_id(shard);
        let nodes: Vec<usize> = (0..self.nodes.len())
            .filter(|at| {
                self.etcd.records.nodes.get(&self.nodes[*at].id).is_some_and(|node| node.shard == shard)
            })
            .collect();
        for at in nodes {
            self.crash(at);
            let delay_us = self.random.between(50_000, 4_000_000);
            self.after(delay_us, Happening::Start(at));
        }
    }

    fn administrate(&mut self, fault: Fault, lasts_us: u64) {
        match fault {
            Fault::FailOver(at, kind) => {
                if kind == FailoverKind::Takeover
                    && let Some(node) = self.etcd.records.nodes.get(&self.nodes[at].id)
                {
                    self.checks.taken_over.insert(node.shard.clone());
                }
                self.ask(at, Ask::Failover(kind));
            }
            Fault::HandTo(shard, to) => {
                if let Some(at) = self.primary_of(&shard_id(shard)) {
                    let to = self.nodes[to].id.clone();
                    self.ask(at, Ask::HandTo(to));
                }
            }
            Fault::End(target) => {
                let at = self.meant(target);
                self.ask(at, Ask::End);
                self.after(4_500_000, Happening::Mend(Fault::Crash(Who::Node(at))));
                self.after(4_600_000 + lasts_us / 4, Happening::Start(at));
            }
            Fault::MoveSlot(slot, to) => {
                let edit = Edit::SetSlots(shard_id(to), SlotRanges::of(slot..slot + 2048));
                self.ask_owner(slot, edit);
            }
            Fault::Move(slot, to) => {
                let wish =
                    Wish { name: "e".repeat(40), slots: SlotRanges::of(slot..slot + 2048), to: shard_id(to) };
                if let Some(owner) = self.owner(slot) {
                    self.ask_owner(slot, Edit::Moves(owner, vec![wish], 0));
                }
            }
            Fault::CancelMoves(shard) => {
                let at = self.any_node();
                self.ask(at, Ask::Edit(Edit::CancelMoves(shard_id(shard), None, 0)));
            }
            Fault::DeleteSlot(slot) => {
                if let Some(owner) = self.owner(slot) {
                    let edit = Edit::DeleteSlots(owner, SlotRanges::of([slot]));
                    self.ask_owner(slot, edit);
                }
            }
            Fault::AddSlot(slot, to) => {
                let at = self.any_node();
                self.ask(at, Ask::Edit(Edit::AddSlots(shard_id(to), SlotRanges::of([slot]))));
            }
            Fault::Replicate(at, shard) => {
                let node = self.nodes[at].id.clone();
                self.ask(at, Ask::Edit(Edit::Join(node, shard_id(shard))));
            }
            Fault::Forget(by, at) => {
                let node = self.nodes[at].id.clone();
                self.ask(by, Ask::Edit(Edit::Forget(node)));
            }
            Fault::Bump(shard) => {
                if let Some(at) = self.primary_of(&shard_id(shard)) {
                    self.ask(at, Ask::Edit(Edit::Epoch(shard_id(shard), None)));
                }
            }
            Fault::New(shard) => {
                let promise = self.nodes[0].promise;
                let number = self.nodes.len();
                if number < self.shards * 3 + 2 {
                    self.nodes.push(Node::new(number, shard_id(shard), promise));
                    self.losing.push(false);
                    self.after(0, Happening::Start(number));
                }
            }
            Fault::Promise(promise) => {
                for node in &mut self.nodes {
                    node.promise = promise;
                    if let Some(agent) = &mut node.agent {
                        agent.configure_promise(promise);
                    }
                }
            }
            _ => unreachable!("a fault"),
        }
    }

    fn owner(&self, slot: u16) -> Option<cluster::ids::ShardId> {
        self.etcd.records.slots.0.owners().ok()?[usize::from(slot)].cloned()
    }

    /// Mostly asks who serves the slot, sometimes somebody else, who has to refuse.
    fn ask_owner(&mut self, slot: u16, edit: Edit) {
        let owner = self.owner(slot).and_then(|owner| self.primary_of(&owner));
        let at = if self.random.one_in(4) { self.any_node() } else { owner.unwrap_or(0) };
        self.ask(at, Ask::Edit(edit));
    }

    pub fn mend(&mut self, fault: Fault) {
        if self.is_over && !matches!(fault, Fault::Crash(_)) {
            return;
        }
        self.log(|| format!("MEND {fault:?}"));
        match fault {
            Fault::Crash(who) => self.crash(self.meant(who)),
            Fault::CutFromEtcd(who) => {
                let (at, etcd) = (self.meant(who), self.etcd_place());
                self.cut(at, etcd, false);
                self.cut(etcd, at, false);
            }
            Fault::Lose(who) => {
                let at = self.meant(who);
                self.losing[at] = false;
            }
            Fault::Delay(who) => {
                let at = self.meant(who);
                self.nodes[at].delays_commits = false;
            }
            Fault::Cut(one, other, is_both) => {
                let (one, other) = (self.meant(one), self.meant(other));
                self.cut(one, other, false);
                if is_both {
                    self.cut(other, one, false);
                }
            }
            Fault::Alone(who) => self.cut_all(self.meant(who), false),
            Fault::EtcdDown => {
                let now_us = self.now_us;
                self.etcd.recover(now_us, &mut self.random);
            }
            Fault::SlowWatch(who) => {
                let at = self.meant(who);
                self.nodes[at].watch_delay_us = 1_000;
            }
            _ => {}
        }
    }

    /// All is mended: who crashed comes back, who was forgotten is started again.
    pub fn mend_all(&mut self) {
        self.log(|| "MEND all".to_owned());
        self.is_over = true;
        self.cuts.clear();
        self.losing.iter_mut().for_each(|losing| *losing = false);
        let now_us = self.now_us;
        self.etcd.recover(now_us, &mut self.random);
        for at in 0..self.nodes.len() {
            self.nodes[at].watch_delay_us = 1_000;
            self.nodes[at].delays_commits = false;
            self.nodes[at].paused_until_us = self.nodes[at].paused_until_us.min(now_us);
            if self.nodes[at].is_refused {
                self.crash(at);
            }
            let delay_us = self.random.between(0, 300_000);
            self.after(delay_us, Happening::Start(at));
        }
    }

    /// Processes that serve no more, since they end or were forgotten, are started again.
    pub fn start_refused(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_refused && self.random.one_in(4) {
                self.crash(at);
                self.after(50_000, Happening::Start(at));
            }
        }
    }

    /// What is still wrong, some time after all was mended.
    pub fn ailing(&self) -> Option<String> {
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(record) = self.etcd.records.nodes.get(&node.id) else {
                return Some(format!("n{at} is unknown"));
            };
            let Some((shard, _)) = self.etcd.records.shards.get(&record.shard) else {
                return Some(format!("n{at} has no shard"));
            };
            if node.is_refused || node.held.is_some() || node.is_parked || !node.asks.is_empty() {
                return Some(format!("n{at} is held up: {:?}", node.asks));
            }
            if !shard.in_sync.contains(&node.member()) {
                return Some(format!("n{at} is not in sync: {shard:?}"));
            }
            match &node.role {
                Role::Lead { refuses_writes, .. } => {
                    let copies = self.etcd.records.nodes_of(&record.shard).count();
                    if *refuses_writes && copies >= self.min_in_sync {
                        return Some(format!("n{at} refuses writes"));
                    }
                    if node.served_shard(self.now_us) != Some(&record.shard) {
                        return Some(format!("n{at} leads and does not serve"));
                    }
                    if node.acknowledged_to() < node.log.entries.len() {
                        return Some(format!("n{at}'s replies wait"));
                    }
                }
                Role::Follow { .. } if node.is_linked => {}
                role => return Some(format!("n{at} is {role:?}")),
            }
        }
        let open = self.etcd.records.moves.iter().find(|(_, (record, _))| record.state.is_open());
        if let Some((name, _)) = open {
            return Some(format!("move {name:?} is open"));
        }
        let lacks =
            self.etcd.records.slots.0.shards().find(|(shard, _)| {
                !self.nodes.iter().any(|node| node.served_shard(self.now_us) == Some(shard))
            });
        lacks.map(|(shard, _)| format!("nobody serves {shard}"))
    }
}
