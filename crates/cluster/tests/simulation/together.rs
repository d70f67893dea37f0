//! Faults that are dangerous together: what is lost comes back at the worst moment.

use crate::faults::{Fault, Who};
use crate::world::World;

/// When it begins, counted from the first; what; for how long.
type Planned = (u64, Fault, u64);

impl World {
    pub fn draw_together(&mut self) -> Vec<Planned> {
        let shard = self.any_shard();
        match self.random.below(4) {
            0 => self.flapping(shard),
            1 => self.severed(shard),
            2 => self.orphaned(shard),
            _ => self.overtaken(shard),
        }
    }

    /// The primary is away from etcd, comes back for a moment, and is away again, while what its replicas ask for is
    /// under way for long.
    fn flapping(&mut self, shard: usize) -> Vec<Planned> {
        let (away_us, back_us) =
            (self.random.between(2_000_000, 3_600_000), self.random.between(50_000, 900_000));
        let again_us = self.random.between(1_500_000, 3_500_000);
        let primary = Who::Primary(shard);
        let mut planned = vec![
            (0, Fault::CutFromEtcd(primary), away_us),
            (away_us + back_us, Fault::CutFromEtcd(primary), again_us),
        ];
        for nth in 0..2 {
            let at_us = self.random.between(1_000_000, 2_500_000);
            let lasts_us = self.random.between(500_000, 3_000_000);
            planned.push((at_us, Fault::Delay(Who::Replica(shard, nth)), lasts_us));
        }
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
        let end = ends[self.random.below(4) as usize].clone();
        let at_us = out_us + self.random.below(700_000);
        vec![(0, cut, out_us), (at_us, end, self.random.between(500_000, 3_500_000))]
    }
}
