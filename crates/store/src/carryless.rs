//! Checksums by the instruction that multiplies without carries: long input is folded into a few bytes with the same one.
//!
//! For a checksum of 64 bits that is computed with its bits reflected. It is a remainder, by a polynomial P, of the input
//! taken as a polynomial, and stays the same if 64 of the input's coefficients, which stand D places higher than others, are
//! taken away and, times x^D modulo P, added to those. Each word is that many coefficients, its lowest bit the highest
//! one, and a product of two such words is one place too low: so the factors are of x^(D-1).

#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

/// Input that is folded at a time: words enough to keep the multiplier busy.
pub const FOLDED_BYTES: usize = 64;

/// What words are multiplied with to stand lower: x^(n-1) modulo the polynomial, as words.
#[derive(Clone, Copy, Debug)]
pub struct Factors {
    /// By [`FOLDED_BYTES`]: the first word of two, which stands a word higher, and the second.
    pub by_fold: [u64; 2],
    /// By two words: as above.
    pub by_pair: [u64; 2],
}

impl Factors {
    /// For a polynomial, of which the highest coefficient is left out and the others are a word.
    pub const fn of(polynomial: u64) -> Factors {
        const FOLDED_BITS: u32 = FOLDED_BYTES as u32 * 8;
        Factors {
            by_fold: [power(polynomial, FOLDED_BITS + 63), power(polynomial, FOLDED_BITS - 1)],
            by_pair: [power(polynomial, 128 + 63), power(polynomial, 128 - 1)],
        }
    }
}

/// x^n modulo the polynomial.
const fn power(polynomial: u64, n: u32) -> u64 {
    let (mut word, mut left) = (1 << 63, n);
    while left > 0 {
        word = (word >> 1) ^ if word & 1 == 1 { polynomial } else { 0 };
        left -= 1;
    }
    word
}

/// Two words whose checksum, from zero, is that of `blocks` from `crc`. None: this machine lacks the instruction, or there
/// are no blocks.
#[inline]
pub fn fold(factors: &Factors, crc: u64, blocks: &[[u8; FOLDED_BYTES]]) -> Option<[u64; 2]> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq")
        && let Some((first, rest)) = blocks.split_first()
    {
        // SAFETY: the machine has the instruction, as was just looked up; nothing else is asked of the caller.
        return Some(unsafe { x86_64::fold(factors, crc, first, rest) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (factors, crc, blocks);
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64, _mm_xor_si128,
    };

    use super::{FOLDED_BYTES, Factors};

    const PAIR_BYTES: usize = 16;
    const PAIRS: usize = FOLDED_BYTES / PAIR_BYTES;

    /// As [`super::fold`], of a first block and the others.
    #[target_feature(enable = "pclmulqdq")]
    pub(super) fn fold(
        factors: &Factors,
        crc: u64,
        first: &[u8; FOLDED_BYTES],
        rest: &[[u8; FOLDED_BYTES]],
    ) -> [u64; 2] {
        let (by_fold, by_pair) = (pair(factors.by_fold), pair(factors.by_pair));
        let mut sums = pairs(first);
        sums[0] = _mm_xor_si128(sums[0], pair([crc, 0]));
        for block in rest {
            let next = pairs(block);
            for (sum, next) in sums.iter_mut().zip(next) {
                *sum = _mm_xor_si128(lowered(*sum, by_fold), next);
            }
        }
        let [first, rest @ ..] = sums;
        let sum = rest.into_iter().fold(first, |sum, next| _mm_xor_si128(lowered(sum, by_pair), next));
        [_mm_cvtsi128_si64(sum) as u64, _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)) as u64]
    }

    #[target_feature(enable = "pclmulqdq")]
    #[inline]
    fn pairs(block: &[u8; FOLDED_BYTES]) -> [__m128i; PAIRS] {
        let (words, _) = block.as_chunks();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        [
            pair([word(0), word(1)]),
            pair([word(2), word(3)]),
            pair([word(4), word(5)]),
            pair([word(6), word(7)]),
        ]
    }

    #[target_feature(enable = "pclmulqdq")]
    #[inline]
    fn pair([first, second]: [u64; 2]) -> __m128i {
        _mm_set_epi64x(second as i64, first as i64)
    }

    /// Both words of a pair, each times its factor.
    #[target_feature(enable = "pclmulqdq")]
    #[inline]
    fn lowered(pair: __m128i, factors: __m128i) -> __m128i {
        _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(pair, factors),
            _mm_clmulepi64_si128::<0x11>(pair, factors),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit.
    fn checksum(polynomial: u64, crc: u64, bytes: &[u8]) -> u64 {
        bytes.iter().fold(crc, |crc, byte| {
            let mixed = crc ^ u64::from(*byte);
            (0..8).fold(mixed, |crc, _| (crc >> 1) ^ if crc & 1 == 1 { polynomial } else { 0 })
        })
    }

    #[test]
    fn what_is_folded_keeps_its_checksum() {
        // Jones's and ECMA's polynomials, reflected.
        for polynomial in [0x95ac_9329_ac4b_c9b5, 0xc96c_5795_d787_0f42] {
            let factors = Factors::of(polynomial);
            let bytes: Vec<u8> = (0..640u32).map(|n| (n * n % 251) as u8).collect();
            let (blocks, _) = bytes.as_chunks();
            assert_eq!(fold(&factors, 5, &[]), None, "nothing is left of nothing");
            for count in 1..=blocks.len() {
                let Some([first, second]) = fold(&factors, 0xdead_beef, &blocks[..count]) else { return };
                let folded = [first.to_le_bytes(), second.to_le_bytes()].concat();
                let whole = checksum(polynomial, 0xdead_beef, &bytes[..count * FOLDED_BYTES]);
                assert_eq!(checksum(polynomial, 0, &folded), whole, "{count} blocks");
            }
        }
    }
}
