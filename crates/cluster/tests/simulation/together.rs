//! Faults that are dangerous together: what is lost comes back at the worst moment.

use cluster::agent::FailoverKind;
use cluster::records::Promise;

use crate::faults::{Fault, Who};
use crate::world::World;

/// When it begins, counted from the first; what; for how long.
type Planned = (u64, Fault, u64);

impl World {
    pub fn draw_together(&mut self) -> Vec<Planned> {
        let shard = self.any_shard();
        if self.shards > 1 && self.random.one_in(2) {
            return self.moving(shard);
        }
        match self.random.below(8) {
            0 => self.flapping(shard),
            1 => self.severed(shard),
            2 => self.orphaned(shard),
            3 => self.overtaken(shard),
            4 => self.fallen(shard),
            5 => self.handed(shard),
            6 => self.promised(shard),
            _ => self.removed(shard),
        }
    }

    /// The primary is away from etcd and from its replicas, comes back for a moment, and is away from etcd again, while
    /// what its replicas ask for is under way for long.
    fn flapping(&mut self, shard: usize) -> Vec<Planned> {
        let primary = Who::Primary(shard);
        let away_us = self.random.between(2_300_000, 3_400_000);
        let again_us = away_us + self.random.between(50_000, 900_000);
        let mut planned = vec![
            (0, Fault::CutFromEtcd(primary), away_us),
            (again_us, Fault::CutFromEtcd(primary), self.random.between(2_000_000, 4_500_000)),
        ];
        for nth in 0..2 {
            let replica = Who::Replica(shard, nth);
            planned.push((0, Fault::Cut(primary, replica, true), away_us));
            let lasts_us = self.random.between(300_000, 2_000_000);
            planned.push((self.random.between(1_900_000, 2_700_000), Fault::Delay(replica), lasts_us));
        }
        if self.random.one_in(2) {
            planned.push((away_us, Fault::SlowWatch(primary), self.random.between(200_000, 3_000_000)));
        }
        planned
    }

    /// What is promised changes while the primary hears late of what becomes of that, and replicas come and go.
    fn promised(&mut self, shard: usize) -> Vec<Planned> {
        let primary = Who::Primary(shard);
        let mut planned = Vec::new();
        for promise in [Promise::Nothing, Promise::Quorum] {
            planned.push((self.random.below(2_000_000), Fault::Promise(promise), 0));
        }
        for _ in 0..self.random.between(1, 4) {
            let replica = Who::Replica(shard, self.random.below(2) as usize);
            let fault = self.one_of(&[
                Fault::Lose(primary),
                Fault::Delay(primary),
                Fault::SlowWatch(primary),
                Fault::CutFromEtcd(primary),
                Fault::Cut(primary, replica, true),
                Fault::Pause(replica),
            ]);
            let lasts_us = self.random.between(300_000, 4_000_000);
            planned.push((self.random.below(3_000_000), fault, lasts_us));
        }
        planned.push((self.random.between(1_000_000, 5_000_000), Fault::Crash(primary), 2_000_000));
        planned
    }

    /// The primary is away from etcd and from its replicas, and hears the replicas again about when its lease has ended.
    fn severed(&mut self, shard: usize) -> Vec<Planned> {
        let primary = Who::Primary(shard);
        let mut planned = vec![(0, Fault::CutFromEtcd(primary), self.random.between(2_500_000, 5_000_000))];
        let is_all = self.random.one_in(2);
        for nth in 0..2 {
            let from_us = self.random.below(700_000);
            let to_us = self.random.between(1_500_000, 2_800_000);
            if is_all || nth == 0 {
                planned.push((from_us, Fault::Cut(primary, Who::Replica(shard, nth), true), to_us - from_us));
            }
        }
        planned
    }

    /// The primary is away from etcd while its replicas, away as well, crash and come back alone.
    fn orphaned(&mut self, shard: usize) -> Vec<Planned> {
        let mut planned = Vec::new();
        for nth in 0..2 {
            let replica = Who::Replica(shard, nth);
            let away_us = self.random.between(1_000_000, 3_000_000);
            planned.push((self.random.below(300_000), Fault::CutFromEtcd(replica), away_us));
            let crash_us = away_us - self.random.below(300_000);
            planned.push((crash_us, Fault::Crash(replica), self.random.between(50_000, 600_000)));
        }
        let lasts_us = self.random.between(2_000_000, 5_000_000);
        planned.push((self.random.below(1_500_000), Fault::CutFromEtcd(Who::Primary(shard)), lasts_us));
        planned
    }

    /// The primary is cut from one replica for so long that it is taken out of the set, and dies, is handed over or is
    /// away while it is taken in again.
    fn overtaken(&mut self, shard: usize) -> Vec<Planned> {
        let primary = Who::Primary(shard);
        let out_us = self.random.between(900_000, 1_900_000);
        let cut = Fault::Cut(primary, Who::Replica(shard, 0), true);
        let ends =
            [Fault::Crash(primary), Fault::CutFromEtcd(primary), Fault::Delay(primary), Fault::Lose(primary)];
        let end = self.one_of(&ends);
        let at_us = out_us + self.random.below(700_000);
        vec![(0, cut, out_us), (at_us, end, self.random.between(500_000, 3_500_000))]
    }

    fn one_of(&mut self, faults: &[Fault]) -> Fault {
        faults[self.random.below(faults.len() as u64) as usize].clone()
    }

    /// All nodes of the shard crash, and what they ask for when they are back comes late, or they crash again.
    fn fallen(&mut self, shard: usize) -> Vec<Planned> {
        let mut planned = vec![(0, Fault::CrashAll(shard), 0)];
        for _ in 0..self.random.between(1, 4) {
            let who = Who::Node(self.any_node());
            let fault = self.one_of(&[
                Fault::Delay(who),
                Fault::Delay(who),
                Fault::Crash(who),
                Fault::CutFromEtcd(who),
                Fault::SlowWatch(who),
                Fault::CrashAll(shard),
            ]);
            let lasts_us = self.random.between(50_000, 3_000_000);
            planned.push((self.random.between(100_000, 6_000_000), fault, lasts_us));
        }
        planned
    }

    /// The shard, or slots of it, are given away while the primary hears late of what it has asked for, or never.
    fn handed(&mut self, shard: usize) -> Vec<Planned> {
        let primary = Who::Primary(shard);
        let late = self.one_of(&[
            Fault::Delay(primary),
            Fault::Lose(primary),
            Fault::SlowWatch(primary),
            Fault::CutFromEtcd(primary),
        ]);
        let mut planned = vec![(0, late, self.random.between(300_000, 3_000_000))];
        for _ in 0..2 {
            let gifts = [
                Fault::HandTo(shard, self.any_node()),
                Fault::FailOver(self.any_node(), FailoverKind::Ordered),
                Fault::MoveSlot(self.slot(), self.any_shard()),
                Fault::DeleteSlot(self.slot()),
            ];
            planned.push((self.random.below(600_000), self.one_of(&gifts), 0));
        }
        let replica = Who::Replica(shard, self.random.below(2) as usize);
        let end = self.one_of(&[
            Fault::Crash(primary),
            Fault::Crash(replica),
            Fault::Pause(primary),
            Fault::CutFromEtcd(replica),
            Fault::Cut(primary, replica, true),
            Fault::Bump(shard),
        ]);
        planned.push((self.random.below(1_500_000), end, self.random.between(50_000, 4_000_000)));
        planned
    }

    /// A node leaves its shard, or the cluster, while it asks for something that comes late, or somebody does.
    fn removed(&mut self, shard: usize) -> Vec<Planned> {
        let (node, other) = (self.any_node(), self.any_node());
        let primary = Who::Primary(shard);
        let late = self.one_of(&[
            Fault::Delay(Who::Node(node)),
            Fault::Delay(Who::Node(other)),
            Fault::SlowWatch(Who::Node(node)),
            Fault::Delay(primary),
        ]);
        let leaves = [Fault::Forget(other, node), Fault::Replicate(node, self.any_shard())];
        let ends = [
            Fault::Crash(primary),
            Fault::CutFromEtcd(primary),
            Fault::FailOver(node, FailoverKind::Takeover),
            Fault::HandTo(shard, node),
            Fault::Cut(primary, Who::Node(node), true),
            Fault::Crash(Who::Node(node)),
        ];
        let mut planned = vec![(0, late, self.random.between(500_000, 4_000_000))];
        planned.push((self.random.below(3_000_000), self.one_of(&leaves), 0));
        planned.push((
            self.random.below(1_000_000),
            self.one_of(&ends),
            self.random.between(50_000, 3_000_000),
        ));
        planned
    }

    /// Slots move to this shard, from another as a rule, while something happens to one end, the other, or between them.
    fn moving(&mut self, shard: usize) -> Vec<Planned> {
        let (from, to) = (Who::Primary((shard + 1) % self.shards), Who::Primary(shard));
        let mut planned = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            planned.push((self.random.below(300_000), Fault::Move(self.slot(), shard), 0));
        }
        for _ in 0..self.random.between(1, 3) {
            let end = if self.random.one_in(2) { from } else { to };
            let faults = [
                Fault::Crash(end),
                Fault::Pause(end),
                Fault::CutFromEtcd(end),
                Fault::Delay(end),
                Fault::Lose(end),
                Fault::SlowWatch(end),
                Fault::Cut(from, to, self.random.one_in(2)),
                Fault::CancelMoves((shard + 1) % self.shards),
                Fault::Bump(self.any_shard()),
                Fault::HandTo(if end == to { shard } else { (shard + 1) % self.shards }, self.any_node()),
                Fault::EtcdDown,
            ];
            let fault = self.one_of(&faults);
            let lasts_us = self.random.between(50_000, 7_000_000);
            planned.push((self.random.between(300_000, 2_500_000), fault, lasts_us));
        }
        planned
    }
}
