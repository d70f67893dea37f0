//! Durations, counted in buckets that are at most 1/64 wide of what they hold: recording is a shift and an addition.

/// Buckets of each power of two.
const PARTS: u64 = 64;
const PARTS_BITS: u32 = PARTS.trailing_zeros();
/// Longest that is told apart from longer ones: 2^40 us are twelve days.
const BITS_MAX: u32 = 40;
const BUCKETS: usize = ((BITS_MAX - PARTS_BITS + 1) as usize) * PARTS as usize;

/// How long things took, in microseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest_us: u64,
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, longest_us: 0 }
    }

    /// Counts one.
    pub fn record(&mut self, took_us: u64) {
        self.counts[bucket(took_us)] += 1;
        self.total += 1;
        self.longest_us = self.longest_us.max(took_us);
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub fn longest_us(&self) -> u64 {
        self.longest_us
    }

    /// What this share of all, 0 to 1, took at most; 0 where nothing was counted. At most 1/64 above the truth.
    pub fn share_us(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound_us(at).min(self.longest_us);
            }
        }
        self.longest_us
    }
}

/// Up to 2 * PARTS a bucket holds one value; above, each power of two has PARTS buckets.
fn bucket(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS_BITS;
    (u64::from(shift) * PARTS + (value >> shift)).min(BUCKETS as u64 - 1) as usize
}

fn upper_bound_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    (((bucket % PARTS) + PARTS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_the_bucket_that_says_so() {
        let mut values: Vec<u64> = (0..100_000).collect();
        values.extend((0..39).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for value in values {
            let upper = upper_bound_us(bucket(value));
            assert!(upper >= value && upper - value <= value / PARTS, "{value}: {upper}");
        }
        for at in 1..BUCKETS {
            assert_eq!(bucket(upper_bound_us(at - 1)), at - 1, "a bucket holds its own bound");
            assert_eq!(bucket(upper_bound_us(at - 1) + 1), at, "and the next one what is just above");
        }
    }

    #[test]
    fn shares() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.share_us(0.5), histogram.longest_us()), (0, 0));
        for value in 1..=100 {
            histogram.record(value);
        }
        histogram.record(1_000_000);
        assert_eq!(histogram.share_us(0.5), 51);
        assert_eq!(histogram.share_us(0.99), 100);
        assert_eq!(histogram.share_us(1.0), 1_000_000);
        assert_eq!((histogram.total(), histogram.longest_us()), (101, 1_000_000));
    }

    #[test]
    fn the_longest_that_can_be_told_apart_is_not_the_longest_that_can_be_recorded() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.longest_us(), u64::MAX);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
