//! The sparse representation: runs of equal registers, in order.
//!
//! ```text
//! 00llllll            l + 1 registers are 0
//! 01llllll llllllll   l + 1 registers are 0
//! 1vvvvvll            l + 1 registers are v + 1
//! ```
//!
//! Invariant *runs-complete*: the runs of a valid value cover all registers, and no more. Values come from clients, so
//! that it is checked, not relied on. How a run is split and joined decides the bytes, and those are Redis's.

use super::estimate::{Histogram, REGISTERS};

/// The greatest value a run can have.
const VALUE_MAX: u8 = 32;
/// The longest run of a value.
const VALUE_LEN_MAX: usize = 4;
/// The longest run of zeros in one byte.
const SHORT_ZERO_LEN_MAX: usize = 64;
/// Runs that are looked at for joining after a change.
const JOINED_RUNS: usize = 5;

/// A value whose runs do not cover the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupted;

/// Registers of the same value, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    /// Bytes that it takes.
    pub(super) bytes: usize,
}

impl Run {
    /// The run at `at`. A second byte that is missing counts as zero.
    pub(super) fn read(runs: &[u8], at: usize) -> Run {
        let first = runs[at];
        if first & 0x80 != 0 {
            return Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, bytes: 1 };
        }
        let len = usize::from(first & 0x3f);
        if first & 0x40 == 0 {
            return Run { value: 0, len: len + 1, bytes: 1 };
        }
        let second = runs.get(at + 1).copied().unwrap_or(0);
        Run { value: 0, len: (len << 8 | usize::from(second)) + 1, bytes: 2 }
    }

    fn write(out: &mut Vec<u8>, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, 1..=SHORT_ZERO_LEN_MAX) => out.push(len as u8 - 1),
            (0, _) => out.extend([0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
            _ => out.push(value_byte(value, len)),
        }
    }
}

fn value_byte(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len as u8 - 1)
}

/// All registers zero.
pub(super) fn empty() -> Vec<u8> {
    let mut runs = Vec::new();
    Run::write(&mut runs, 0, REGISTERS);
    runs
}

/// The runs with the index of the first register of each.
pub(super) fn each(runs: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Corrupted> {
    let (mut at, mut index) = (0, 0);
    while at < runs.len() {
        let run = Run::read(runs, at);
        if index + run.len > REGISTERS {
            return Err(Corrupted);
        }
        visit(index, run);
        index += run.len;
        at += run.bytes;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

pub(super) fn histogram(runs: &[u8]) -> Result<Histogram, Corrupted> {
    let mut histogram = [0; 64];
    each(runs, |_, run| histogram[usize::from(run.value)] += run.len as u32)?;
    Ok(histogram)
}

/// What [`raise`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register has that value or a greater one.
    Unchanged,
    /// It has that value now.
    Changed,
    /// The value does not fit this representation, or the runs would be longer than allowed.
    DoesNotFit,
}

/// Gives the register at `index` the value `value`, unless it has a greater one.
pub(super) fn raise(
    runs: &mut Vec<u8>,
    index: usize,
    value: u8,
    runs_bytes_max: usize,
) -> Result<Raised, Corrupted> {
    if value > VALUE_MAX {
        return Ok(Raised::DoesNotFit);
    }
    let (mut at, mut before, mut first) = (0, None, 0);
    let run = loop {
        if at >= runs.len() {
            return Err(Corrupted);
        }
        let run = Run::read(runs, at);
        if index < first + run.len {
            break run;
        }
        before = Some(at);
        first += run.len;
        at += run.bytes;
    };
    if run.value >= value {
        return Ok(Raised::Unchanged);
    }
    let mut split = Vec::with_capacity(5);
    Run::write(&mut split, run.value, index - first);
    Run::write(&mut split, value, 1);
    Run::write(&mut split, run.value, first + run.len - 1 - index);
    if split.len() > run.bytes && runs.len() + split.len() - run.bytes > runs_bytes_max {
        return Ok(Raised::DoesNotFit);
    }
    let length = runs.len() + split.len() - run.bytes;
    let end = (at + run.bytes).min(runs.len());
    runs.splice(at..end, split);
    // As in Redis, what replaces a run whose second byte was missing is a byte short as well.
    runs.truncate(length);
    join(runs, before.unwrap_or(0));
    Ok(Raised::Changed)
}

/// Joins neighbours of the same value, from the run at `at` on.
fn join(runs: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS {
        if at >= runs.len() {
            return;
        }
        let run = Run::read(runs, at);
        if run.value > 0 && at + 1 < runs.len() {
            let next = Run::read(runs, at + 1);
            if next.value == run.value && run.len + next.len <= VALUE_LEN_MAX {
                runs[at + 1] = value_byte(run.value, run.len + next.len);
                runs.remove(at);
                continue;
            }
        }
        at += run.bytes;
    }
}

/// The runs for a person to read, as PFDEBUG DECODE prints them: `z:` and `Z:` for zeros in one and in two bytes,
/// `v:value,len` for others.
pub(super) fn describe(runs: &[u8]) -> String {
    let mut words = Vec::new();
    let mut at = 0;
    while at < runs.len() {
        let run = Run::read(runs, at);
        words.push(match (run.value, run.bytes) {
            (0, 1) => format!("z:{}", run.len),
            (0, _) => format!("Z:{}", run.len),
            (value, _) => format!("v:{value},{}", run.len),
        });
        at += run.bytes;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_keep_the_greatest_value() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut model, mut runs) = (vec![0; REGISTERS], empty());
            // Neighbours meet, so that runs are split and joined.
            let spread = [40, 300, REGISTERS][seed as usize % 3];
            for _ in 0..1_500 {
                let most = random.u8(1..=4);
                let (index, value) = (random.usize(..spread), random.u8(1..=most));
                let expected = if model[index] < value { Raised::Changed } else { Raised::Unchanged };
                assert_eq!(raise(&mut runs, index, value, usize::MAX), Ok(expected));
                model[index] = value.max(model[index]);
            }
            let mut read = vec![0; REGISTERS];
            each(&runs, |first, run| read[first..first + run.len].fill(run.value)).expect("runs-complete");
            assert!(read == model, "seed {seed}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_alone() {
        let mut runs = empty();
        assert_eq!(raise(&mut runs, 5, VALUE_MAX + 1, usize::MAX), Ok(Raised::DoesNotFit));
        assert_eq!(raise(&mut runs, 5, 1, 2), Ok(Raised::DoesNotFit));
        assert_eq!(raise(&mut runs, 5, 1, 4), Ok(Raised::Changed));
        assert_eq!(describe(&runs), "z:5 v:1,1 Z:16378");
    }

    #[test]
    fn runs_that_cover_too_little_or_too_much_are_told() {
        for runs in [&[][..], &[0x3f], &[0x7f, 0xff, 0x00], &[0x7f]] {
            assert_eq!(histogram(runs), Err(Corrupted), "{runs:?}");
        }
        let mut short = vec![0x00];
        assert_eq!(raise(&mut short, 1, 1, 100), Err(Corrupted));
        assert_eq!(raise(&mut short, 0, 1, 100), Ok(Raised::Changed));
        let mut cut = vec![0x33, 0x41];
        assert_eq!(raise(&mut cut, 60, 1, 100), Ok(Raised::Changed));
        assert_eq!(cut, [0x33, 0x07, 0x80, 0x40]);
    }
}
