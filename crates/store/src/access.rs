//! What an entry remembers of its use: a clock of 24 bits, read in one of two ways.
//!
//! By recency it is the second of the last use, which wraps after 194 days. By frequency its upper 16 bits are the
//! minute of the last decay and its lower 8 a counter that grows with the logarithm of the uses and decays with time.
//! Nothing tells the two apart: when the reading changes, clocks are wrong until their keys are used again.

/// The bits of a clock.
const CLOCK_MASK: u32 = 0xff_ffff;
/// The counter of a new key: high enough not to be the first to go, and soon decayed if nobody comes back.
const FIRST_COUNT: u8 = 5;

/// How a lookup marks the entry it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// With the second of the use.
    Recency,
    /// By counting the use.
    Frequency(Frequency),
}

/// How uses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// A random number that decides whether this use counts; `None`: it does not (CLIENT NO-TOUCH).
    pub chance: Option<u32>,
    /// How slowly the counter saturates.
    pub log_factor: u64,
    /// Minutes for the counter to lose one; 0: it never does.
    pub decay_min: u64,
}

impl Touch {
    /// The clock of a new entry.
    #[inline]
    pub(crate) fn first(self, now_ms: i64) -> u32 {
        match self {
            Touch::Recency => recency(now_ms),
            Touch::Frequency(_) => frequency(FIRST_COUNT, now_ms),
        }
    }

    /// The clock of an entry that had `clock` before this use.
    #[inline]
    pub(crate) fn again(self, clock: u32, now_ms: i64) -> u32 {
        match self {
            Touch::Recency => recency(now_ms),
            Touch::Frequency(Frequency { chance: None, .. }) => clock,
            Touch::Frequency(Frequency { chance: Some(chance), log_factor, decay_min }) => {
                let count = count(clock, now_ms, decay_min);
                frequency(counted(count, chance, log_factor), now_ms)
            }
        }
    }
}

/// The clock of an entry used now.
#[inline]
pub fn recency(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & CLOCK_MASK
}

/// Seconds since a clock was stamped by recency.
pub fn idle_s(clock: u32, now_ms: i64) -> u32 {
    recency(now_ms).wrapping_sub(clock) & CLOCK_MASK
}

/// The clock of an entry that has been idle for so long.
pub fn idle_for(idle_s: u32, now_ms: i64) -> u32 {
    recency(now_ms).wrapping_sub(idle_s) & CLOCK_MASK
}

/// The clock of an entry with this count.
pub fn frequency(count: u8, now_ms: i64) -> u32 {
    u32::from(minute(now_ms)) << 8 | u32::from(count)
}

/// The count of a clock, decayed until now.
pub fn count(clock: u32, now_ms: i64, decay_min: u64) -> u8 {
    // The minutes wrap after 45 days, and a longer time looks shorter.
    let idle_min = minute(now_ms).wrapping_sub((clock >> 8) as u16);
    let lost = u64::from(idle_min).checked_div(decay_min).unwrap_or(0);
    (clock as u8).saturating_sub(lost.min(u64::from(u8::MAX)) as u8)
}

/// The first instant after 1970 that gives the same clocks as `now_ms`, of either kind: before 1978.
pub fn long_ago_ms(now_ms: i64) -> i64 {
    // After so many seconds both the clock of seconds and that of minutes have come round.
    const PERIOD_MS: i64 = (CLOCK_MASK as i64 + 1) * 15 * 1000;
    now_ms.rem_euclid(PERIOD_MS)
}

fn minute(now_ms: i64) -> u16 {
    (now_ms / 60_000) as u16
}

/// A count after one more use, which raises it with a chance of 1 in (uses counted beyond the first * factor + 1).
fn counted(count: u8, chance: u32, log_factor: u64) -> u8 {
    let rarity = u64::from(count.saturating_sub(FIRST_COUNT)).saturating_mul(log_factor).saturating_add(1);
    let counts = u64::from(chance).saturating_mul(rarity) < 1 << u32::BITS;
    count.saturating_add(u8::from(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[test]
    fn idle_seconds_survive_the_wrap() {
        let wrap_ms = i64::from(CLOCK_MASK) * 1000;
        for (clock, now_ms, expected) in [(7, 9_999, 2), (CLOCK_MASK, wrap_ms + 3_000, 3), (9, 9_000, 0)] {
            assert_eq!(idle_s(clock, now_ms), expected);
            assert_eq!(idle_for(expected, now_ms), clock);
        }
    }

    #[test]
    fn long_ago_has_the_clocks_of_now() {
        for now_ms in [0, 1_704_067_200_123, 1_999_999_999_999, 4_000_000_000_000] {
            let ago_ms = long_ago_ms(now_ms);
            assert!((0..8 * 366 * 86_400_000).contains(&ago_ms), "{ago_ms}");
            assert_eq!((recency(ago_ms), minute(ago_ms)), (recency(now_ms), minute(now_ms)));
        }
    }

    #[test]
    fn counts_decay_by_the_minute() {
        let clock = frequency(100, 10 * MINUTE_MS);
        for (minutes, decay_min, expected) in
            [(0, 1, 100), (1, 1, 99), (30, 1, 70), (30, 7, 96), (101, 1, 0), (5_000, 1, 0), (5_000, 0, 100)]
        {
            assert_eq!(
                count(clock, (10 + minutes) * MINUTE_MS, decay_min),
                expected,
                "{minutes} {decay_min}"
            );
        }
    }

    #[test]
    fn uses_count_with_the_chance_of_the_scheme() {
        let now_ms = 10 * MINUTE_MS;
        let again = |count: u8, chance: Option<u32>, log_factor: u64| {
            let touch = Touch::Frequency(Frequency { chance, log_factor, decay_min: 1 });
            touch.again(frequency(count, now_ms), now_ms) as u8
        };
        // 1 in (count - 5) * factor + 1.
        let one_in = |n: u64| ((1u64 << 32) / n) as u32;
        for (count, log_factor, rarity) in [(15, 10, 101), (6, 1, 2), (255 - 1, 100, 24_901)] {
            assert_eq!(again(count, Some(one_in(rarity) - 1), log_factor), count + 1);
            assert_eq!(again(count, Some(one_in(rarity) + 1), log_factor), count);
        }
        for count in 0..=FIRST_COUNT {
            assert_eq!(again(count, Some(u32::MAX), 10), count + 1, "the first uses always count");
        }
        assert_eq!(again(200, Some(u32::MAX), 0), 201);
        assert_eq!(again(255, Some(0), 0), 255);
        assert_eq!(again(9, None, 10), 9);
    }
}
