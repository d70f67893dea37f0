//! The mathematics of a HyperLogLog: where an element goes, and how many elements the registers tell of.
//!
//! Specified by Redis's `hyperloglog.c`, and by Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches", arXiv:1702.01284. Everything here has to give the very bits that Redis gives: values are exchanged.

/// Bits of the hash that choose a register.
const INDEX_BITS: u32 = 14;
/// Registers.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of the hash in which zeros are counted.
const COUNTED_BITS: usize = 64 - INDEX_BITS as usize;
/// 0.5 / ln(2), with the digits that Redis has.
const ALPHA: f64 = 0.721_347_520_444_481_7;

const HASH_SEED: u64 = 0xadc8_3b19;
const HASH_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const HASH_SHIFT: u32 = 47;

/// How many registers have each value.
pub(super) type Histogram = [u32; 64];

/// MurmurHash2, the 64-bit variant for 64-bit machines, over little-endian words.
fn hash(element: &[u8]) -> u64 {
    let (words, rest) = element.as_chunks::<8>();
    let mut hash = HASH_SEED ^ (element.len() as u64).wrapping_mul(HASH_FACTOR);
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(HASH_FACTOR);
        mixed = (mixed ^ mixed >> HASH_SHIFT).wrapping_mul(HASH_FACTOR);
        hash = (hash ^ mixed).wrapping_mul(HASH_FACTOR);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        hash = (hash ^ tail).wrapping_mul(HASH_FACTOR);
    }
    hash = (hash ^ hash >> HASH_SHIFT).wrapping_mul(HASH_FACTOR);
    hash ^ hash >> HASH_SHIFT
}

/// The register of an element, and the value that it has at least once the element is in.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    // A bit past the counted ones ends the run of zeros.
    let counted = hash >> INDEX_BITS | 1 << COUNTED_BITS;
    (hash as usize % REGISTERS, counted.trailing_zeros() as u8 + 1)
}

/// The number of elements that registers tell of.
pub(super) fn cardinality(histogram: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let share = |value: usize| f64::from(histogram[value]);
    let mut z = m * tau((m - share(COUNTED_BITS + 1)) / m);
    for value in (1..=COUNTED_BITS).rev() {
        z = (z + share(value)) * 0.5;
    }
    z += m * sigma(share(0) / m);
    let estimate = (ALPHA * m * m / z).round();
    // Registers that no element can have set: C's conversion gives the number that is furthest off.
    if estimate.is_finite() { estimate as u64 } else { i64::MIN as u64 }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
