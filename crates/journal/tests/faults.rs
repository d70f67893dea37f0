//! A seeded disk that fails and crashes wherever it can, under a journal that must keep its word:
//! - what is read back is a prefix of what was appended, in whole records, each in its database;
//! - it has everything that was ever reported as synced;
//! - a server that fails to start says so and loses nothing: it starts when the disk is well again;
//! - when the disk is well, the writer recovers without a restart.
//!
//! `HALCYON_JOURNAL_SCHEDULES=100000 cargo test --release -p journal --test faults` runs that many schedules;
//! `HALCYON_JOURNAL_SEED` starts from another seed, and repeats one with `HALCYON_JOURNAL_SCHEDULES=1`.

mod simulation;

use simulation::Simulation;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_the_disk_does_what_was_synced_is_read_back() {
    let schedules = from_environment("HALCYON_JOURNAL_SCHEDULES").unwrap_or(3_000);
    let first = from_environment("HALCYON_JOURNAL_SEED").unwrap_or(1);
    let mut totals = simulation::Totals::default();
    for seed in first..first + schedules {
        let result = std::panic::catch_unwind(|| Simulation::run(seed));
        match result {
            Ok(totals_of_one) => totals.add(totals_of_one),
            Err(_) => panic!(
                "seed {seed} failed: HALCYON_JOURNAL_SEED={seed} HALCYON_JOURNAL_SCHEDULES=1 repeats it"
            ),
        }
    }
    println!("{schedules} schedules: {totals:?}");
    if schedules >= 1_000 {
        totals.assert_all_happened();
    }
}
