//! The agents of some nodes against a simulated etcd, network and log: seeds decide what breaks and when, and what must
//! hold is asserted at each step.
//!
//! `HALCYON_SIMULATION=FIRST,COUNT` runs other seeds than the usual ones, `HALCYON_SIMULATION_TRACE=SEED` one of
//! them, and says all that happened.

#[path = "simulation/checks.rs"]
mod checks;
#[path = "simulation/etcd.rs"]
mod etcd;
mod facts;
#[path = "simulation/faults.rs"]
mod faults;
#[path = "simulation/links.rs"]
mod links;
#[path = "simulation/moving.rs"]
mod moving;
#[path = "simulation/node.rs"]
mod node;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/together.rs"]
mod together;
#[path = "simulation/world.rs"]
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// So long after all was mended everybody has to serve or follow.
const RECOVERY_US: u64 = 30_000_000;

#[derive(Default)]
struct Counts {
    promotions: u64,
    reads: u64,
    acknowledgements: u64,
    moved: u64,
}

fn run(seed: u64, trace: bool) -> Counts {
    let mut world = World::new(seed, trace);
    let (start_us, chaos_us) = (world.now_us + 600_000, world.random.between(1_500_000, 6_000_000));
    world.plan(start_us, chaos_us);
    let end_us = start_us + chaos_us + world.random.below(2_000_000);
    while world.now_us < end_us {
        world.step();
    }
    world.mend_all();
    let mended_us = world.now_us;
    let mut look_us = mended_us + 500_000;
    loop {
        world.step();
        if world.now_us < look_us {
            continue;
        }
        look_us += 250_000;
        world.start_refused();
        match world.ailing() {
            None => break,
            Some(why) if world.now_us > mended_us + RECOVERY_US => world.fail(&format!("RECOVERY: {why}")),
            Some(_) => {}
        }
    }
    let checks = &world.checks;
    Counts {
        promotions: checks.promotions,
        reads: checks.reads,
        acknowledgements: checks.acknowledgements,
        moved: checks.moved,
    }
}

#[test]
fn what_must_hold_holds_whatever_breaks() {
    if let Some(seed) = env::var("HALCYON_SIMULATION_TRACE").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, true);
        return;
    }
    let asked = env::var("HALCYON_SIMULATION").unwrap_or_else(|_| "1,3000".to_owned());
    let (first, count) = asked.split_once(',').expect("FIRST,COUNT");
    let (first, count): (u64, u64) = (first.parse().expect("a seed"), count.parse().expect("a count"));
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for seed in first..first + count {
        match catch_unwind(AssertUnwindSafe(|| run(seed, false))) {
            Ok(counts) => {
                total.promotions += counts.promotions;
                total.reads += counts.reads;
                total.acknowledgements += counts.acknowledgements;
                total.moved += counts.moved;
            }
            Err(_) => failed.push(seed),
        }
        if failed.len() >= 5 {
            break;
        }
    }
    println!(
        "{count} schedules from seed {first}: {} promotions, {} acknowledgements, {} reads, {} slots moved",
        total.promotions, total.acknowledgements, total.reads, total.moved
    );
    assert!(failed.is_empty(), "schedules that fail, by seed: {failed:?}");
    assert!(count < 1_000 || total.moved > count / 100, "too few slots move");
    assert!(count < 1_000 || total.promotions > count / 10, "the faults cause too few changes of primaries");
}
