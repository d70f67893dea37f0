//! What the model tests share: seeds, numbers of steps, elements of every size that matters.

#![allow(dead_code, reason = "each test uses its part")]

use fastrand::Rng;
use store::Thresholds;

/// Says which seed failed. `HALCYON_MODEL_SEED` replays it.
struct SeedNote(u64);

impl Drop for SeedNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("model test failed with HALCYON_MODEL_SEED={}", self.0);
        }
    }
}

/// Runs `model` with a few seeds, or with `HALCYON_MODEL_SEED`; `HALCYON_MODEL_STEPS` sets the steps of each run.
pub fn with_seeds(steps_default: usize, model: impl Fn(&mut Rng, usize)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("HALCYON_MODEL_STEPS").map_or(steps_default, |steps| steps as usize);
    let seeds = number("HALCYON_MODEL_SEED").map_or_else(|| vec![1, 2, fastrand::u64(..)], |seed| vec![seed]);
    for seed in seeds {
        let _note = SeedNote(seed);
        model(&mut Rng::with_seed(seed), steps);
    }
}

/// A byte string: mostly short, of few different values, now and then around each size at which something changes.
pub fn element(rng: &mut Rng, variety: u32) -> Vec<u8> {
    let number = rng.u32(..variety);
    match number % 16 {
        0..=4 => number.to_string().into_bytes(),
        5 => format!("-{number}").into_bytes(),
        6 => vec![b'x'; 55 + number as usize % 20],
        7 if number.is_multiple_of(5) => {
            [&number.to_le_bytes()[..], &vec![b'y'; 1016 + number as usize % 9]].concat()
        }
        8 if number.is_multiple_of(25) => [&number.to_le_bytes()[..], &vec![b'z'; 5000]].concat(),
        _ => format!("member:{number}").into_bytes(),
    }
}

/// Thresholds under which every form is taken often.
pub fn thresholds(rng: &mut Rng) -> Thresholds {
    let mut size = |choices: &[usize]| choices[rng.usize(..choices.len())];
    Thresholds {
        list_max_listpack_size: -2,
        hash_max_listpack_entries: size(&[0, 4, 128, 1000]),
        hash_max_listpack_value: size(&[64, 6000]),
        set_max_intset_entries: size(&[0, 4, 512]),
        set_max_listpack_entries: size(&[0, 4, 128, 1000]),
        set_max_listpack_value: size(&[64, 6000]),
        zset_max_listpack_entries: size(&[0, 4, 128, 1000]),
        zset_max_listpack_value: size(&[64, 6000]),
        stream_node_max_bytes: size(&[0, 300, 4096]),
        stream_node_max_entries: size(&[0, 3, 100]),
    }
}

/// True while a run grows its collection: long stretches of growth and of shrinking take turns.
pub fn is_growing(step: usize, steps: usize) -> bool {
    (step * 5 / steps.max(1)).is_multiple_of(2)
}
