//! Places as 52-bit numbers: the bits of longitude and latitude take turns, so that places that share leading bits lie
//! in the same cell of a grid. A number is exact as the score of a sorted set.

/// Bits of longitude, and of latitude, in a score.
pub(super) const STEPS_MAX: u32 = 26;

pub(super) const LONGITUDE_MAX: f64 = 180.0;
/// Where the Mercator projection ends.
pub(super) const LATITUDE_MAX: f64 = 85.05112878;
/// The latitude up to which standard geohashes count.
const POLE: f64 = 90.0;

/// The alphabet of geohashes in text.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
const TEXT_BYTES: usize = 11;

const EVEN_BITS: u64 = 0x5555_5555_5555_5555;

/// A place on Earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A cell of the grid in which each coordinate has `steps` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) steps: u32,
}

/// Between two longitudes and two latitudes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) longitude: (f64, f64),
    pub(super) latitude: (f64, f64),
}

/// A direction in which a neighbour lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Down,
    Stay,
    Up,
}

/// Puts the bits of a number at the even places.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The number whose bits are at the even places.
fn gather(bits: u64) -> u32 {
    let mut number = bits & EVEN_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        number = (number | number >> shift) & mask;
    }
    number as u32
}

impl Point {
    /// The cell that the place lies in.
    pub(super) fn cell(self, steps: u32) -> Cell {
        self.cell_up_to(LATITUDE_MAX, steps)
    }

    fn cell_up_to(self, latitude_max: f64, steps: u32) -> Cell {
        let scale = (1_u64 << steps) as f64;
        let part = |value: f64, max: f64| ((value + max) / (max + max) * scale) as u32;
        let (latitude, longitude) = (part(self.latitude, latitude_max), part(self.longitude, LONGITUDE_MAX));
        Cell { bits: spread(latitude) | spread(longitude) << 1, steps }
    }

    /// The place as a score.
    pub(super) fn score(self) -> f64 {
        self.cell(STEPS_MAX).bits as f64
    }

    /// The middle of the cell that a score tells. Any score tells one: those of other sorted sets too.
    pub(super) fn of_score(score: f64) -> Point {
        let area = Cell { bits: bits_of(score), steps: STEPS_MAX }.area();
        let middle = |(min, max): (f64, f64), end: f64| ((min + max) / 2.0).min(end).max(-end);
        Point {
            longitude: middle(area.longitude, LONGITUDE_MAX),
            latitude: middle(area.latitude, LATITUDE_MAX),
        }
    }

    /// The standard geohash, as other programs read it. The last of its letters would need more bits than there are.
    pub(super) fn geohash(self) -> [u8; TEXT_BYTES] {
        let bits = self.cell_up_to(POLE, STEPS_MAX).bits;
        let mut text = [ALPHABET[0]; TEXT_BYTES];
        for (index, letter) in text[..TEXT_BYTES - 1].iter_mut().enumerate() {
            let shift = 2 * STEPS_MAX as usize - 5 * (index + 1);
            *letter = ALPHABET[(bits >> shift) as usize & 0x1f];
        }
        text
    }
}

/// A score as the processor converts it for Redis: what is below zero wraps, what no 64 bits hold becomes the highest
/// bit.
fn bits_of(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    const NONE: u64 = 1 << 63;
    let signed = |value: f64| if (-HALF..HALF).contains(&value) { value as i64 as u64 } else { NONE };
    if score < HALF { signed(score) } else { signed(score - HALF) ^ NONE }
}

impl Cell {
    pub(super) fn area(self) -> Area {
        let scale = (1_u64 << self.steps) as f64;
        let side = |index: u32, max: f64| {
            let end = |index: u32| -max + f64::from(index) / scale * (max + max);
            (end(index), end(index.wrapping_add(1)))
        };
        Area {
            longitude: side(gather(self.bits >> 1), LONGITUDE_MAX),
            latitude: side(gather(self.bits), LATITUDE_MAX),
        }
    }

    /// The scores of its places: from the first up to but not including the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    /// The neighbour to the east or west and to the north or south. Beyond an end of the grid is its other end.
    pub(super) fn neighbor(self, longitude: Move, latitude: Move) -> Cell {
        let moved = step(self.bits, EVEN_BITS << 1, self.steps, longitude);
        Cell { bits: step(moved, EVEN_BITS, self.steps, latitude), steps: self.steps }
    }
}

/// Counts the number up or down whose bits are those of `lane`; the other bits stay. A number too long for the grid, as
/// the easternmost and northernmost places have, is cut to its length.
fn step(bits: u64, lane: u64, steps: u32, direction: Move) -> u64 {
    let all = u64::MAX >> (64 - 2 * steps);
    let number = bits & lane;
    let moved = match direction {
        Move::Stay => return bits,
        // The other bits, all set, hand the carry on.
        Move::Up => (number | !lane & all).wrapping_add(1),
        Move::Down => number.wrapping_sub(1),
    };
    moved & lane & all | bits & !lane
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_within_their_cell() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..20_000 {
            let point = Point {
                longitude: (random.f64() - 0.5) * 2.0 * LONGITUDE_MAX,
                latitude: (random.f64() - 0.5) * 2.0 * LATITUDE_MAX,
            };
            let back = Point::of_score(point.score());
            assert!((back.longitude - point.longitude).abs() < 6e-6, "{point:?} {back:?}");
            assert!((back.latitude - point.latitude).abs() < 3e-6, "{point:?} {back:?}");
            assert_eq!(back.score(), point.score());
            let cell = point.cell(random.u32(1..=STEPS_MAX));
            let (min, max) = cell.scores();
            assert!((min..max).contains(&point.score()));
            assert_eq!(cell.neighbor(Move::Up, Move::Down).neighbor(Move::Down, Move::Up), cell);
            assert_eq!(gather(spread(cell.bits as u32)), cell.bits as u32);
        }
    }

    #[test]
    fn scores_that_are_no_places_tell_one_all_the_same() {
        for (score, bits) in [
            (-1.0, u64::MAX),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (1e19, 10_000_000_000_000_000_000),
            (1e30, 0),
            (2.9, 2),
        ] {
            assert_eq!(bits_of(score), bits, "{score}");
        }
        assert_eq!(Point::of_score(-1.0), Point { longitude: LONGITUDE_MAX, latitude: LATITUDE_MAX });
    }
}
