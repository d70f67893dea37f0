//! Random elements: what SRANDMEMBER, SPOP, HRANDFIELD and ZRANDMEMBER are asked for, and which ranks they draw.

use std::collections::HashMap;

use fastrand::Rng;

use crate::args::{self, Args};
use crate::fault::{CmdResult, Fault};

/// How many elements to draw.
#[derive(Clone, Copy)]
pub struct DrawCount {
    /// Elements wanted.
    pub count: usize,
    /// No element twice.
    pub distinct: bool,
}

impl DrawCount {
    /// A count that is negative where elements may repeat.
    pub fn parse(arg: &[u8]) -> CmdResult<DrawCount> {
        let count = args::int(arg)?;
        if count == i64::MIN {
            return Err(Fault::NO_OPPOSITE);
        }
        let magnitude = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(DrawCount { count: magnitude, distinct: count >= 0 })
    }

    /// `key count [WITH...]`, and whether the last word is there: each element with its value or score.
    pub fn parse_pairs(args: Args<'_>, with: &str) -> CmdResult<(DrawCount, bool)> {
        let draw = DrawCount::parse(&args[2])?;
        let in_pairs = args.len() > 3;
        if args.len() > 4 || (in_pairs && !args::is(&args[3], with)) {
            return Err(Fault::SYNTAX);
        }
        if in_pairs && draw.count > i64::MAX as usize / 2 {
            return Err(Fault::OUT_OF_RANGE);
        }
        Ok((draw, in_pairs))
    }

    /// Elements that are drawn from `len`.
    pub fn drawn(self, len: usize) -> usize {
        if self.distinct { self.count.min(len) } else { self.count }
    }
}

/// Draws from `0..len` without putting back, uniformly, one at a time: a Fisher-Yates shuffle of which only the
/// places that differ from the identity are kept, so that drawing costs O(1), however large `len` is.
pub struct Draw {
    len: usize,
    drawn: usize,
    moved: HashMap<usize, usize>,
    rng: Rng,
}

impl Draw {
    /// Draws from `0..len`.
    pub fn new(len: usize, rng: Rng) -> Draw {
        Draw { len, drawn: 0, moved: HashMap::new(), rng }
    }
}

impl Iterator for Draw {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.drawn == self.len {
            return None;
        }
        let at = self.rng.usize(self.drawn..self.len);
        let first = self.moved.remove(&self.drawn).unwrap_or(self.drawn);
        let drawn = if at == self.drawn { first } else { self.moved.insert(at, first).unwrap_or(at) };
        self.drawn += 1;
        Some(drawn)
    }
}

/// Some of the ranks below `len`, in ascending order, drawn uniformly: a bit each, so that drawing very many costs
/// little memory.
pub struct Sample {
    bits: Vec<u64>,
    len: usize,
    next: usize,
    /// The value of the bits that belong to the sample.
    wanted: bool,
}

impl Sample {
    /// Draws `count` of `len` ranks.
    pub fn new(len: usize, count: usize, rng: &mut Rng) -> Sample {
        // Of the drawn ones and the others, the fewer are marked: every second try at least hits a free place.
        let (marked, wanted) = if count <= len / 2 { (count, true) } else { (len - count, false) };
        let mut sample = Sample { bits: vec![0; len.div_ceil(64)], len, next: 0, wanted };
        for _ in 0..marked {
            loop {
                let rank = rng.usize(..len);
                let (word, bit) = (&mut sample.bits[rank / 64], 1 << (rank % 64));
                if *word & bit == 0 {
                    *word |= bit;
                    break;
                }
            }
        }
        sample
    }
}

impl Iterator for Sample {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.next < self.len {
            let rank = self.next;
            self.next += 1;
            if (self.bits[rank / 64] >> (rank % 64) & 1 == 1) == self.wanted {
                return Some(rank);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_even() {
        for count in 0..=7 {
            let mut drawn = [0_usize; 7];
            for seed in 0..2000 {
                let sample: Vec<usize> = Sample::new(7, count, &mut Rng::with_seed(seed)).collect();
                assert_eq!(sample.len(), count);
                assert!(sample.is_sorted_by(|a, b| a < b));
                sample.into_iter().for_each(|rank| drawn[rank] += 1);
            }
            let even = count * 2000 / 7;
            assert!(drawn.iter().all(|times| times.abs_diff(even) < 150), "{count}: {drawn:?}");
        }
    }

    #[test]
    fn draws_are_distinct_complete_and_even() {
        let mut firsts = [0; 5];
        for seed in 0..5000 {
            let drawn: Vec<usize> = Draw::new(5, Rng::with_seed(seed)).collect();
            firsts[drawn[2]] += 1;
            let mut sorted = drawn;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!(firsts.iter().all(|count| (800..1200).contains(count)), "{firsts:?}");
    }
}
