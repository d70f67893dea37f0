//! The checksum at the end of files and payloads: CRC-64 with Jones's polynomial, bits reflected, from zero.
//!
//! Long input is folded by an instruction that most machines have ([`carryless`]). On others it is cut into blocks of
//! [`LANES`] lanes, whose checksums are computed side by side, since each lookup needs the one before; what a lane's
//! checksum becomes by the bytes of the lanes after it is looked up.

use store::carryless::{self, Factors};

/// 0xad93d23594c935a9 with its bits in the other order.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// To fold with.
static FACTORS: Factors = Factors::of(POLYNOMIAL);

const LANES: usize = 4;
const LANE_BYTES: usize = 256;
const LANE_WORDS: usize = LANE_BYTES / WORD_BYTES;
const WORD_BYTES: usize = 8;

/// For each byte of eight, by its value.
type Tables = [[u64; 256]; WORD_BYTES];

const BY_DISTANCE: Tables = by_distance();

/// `[k][b]`: the checksum of byte `b` followed by `k` zero bytes. So eight bytes are looked up at once.
static TABLES: Tables = BY_DISTANCE;

/// `[k][b]`: what byte `k` of a checksum, being `b`, adds to it after a lane of zero bytes.
static PAST_LANE: Tables = past_zeros(LANE_BYTES);

const fn by_distance() -> Tables {
    let mut tables = [[0; 256]; WORD_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut distance = 1;
    while distance < WORD_BYTES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[distance - 1][byte];
            tables[distance][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        distance += 1;
    }
    tables
}

/// A checksum is a sum of its bits, and so is what zeros make of it: each bit is taken past them by itself.
const fn past_zeros(zeros: usize) -> Tables {
    let mut tables = [[0; 256]; WORD_BYTES];
    let mut bit = 0;
    while bit < u64::BITS as usize {
        let (mut crc, mut left) = (1 << bit, zeros);
        while left > 0 {
            crc = BY_DISTANCE[0][(crc & 0xff) as usize] ^ (crc >> 8);
            left -= 1;
        }
        let mut byte = 0;
        while byte < 256 {
            if byte >> (bit % 8) & 1 == 1 {
                tables[bit / 8][byte] ^= crc;
            }
            byte += 1;
        }
        bit += 1;
    }
    tables
}

#[inline]
fn add_word(crc: u64, word: &[u8; WORD_BYTES]) -> u64 {
    let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
    mixed.iter().zip(TABLES.iter().rev()).fold(0, |crc, (byte, table)| crc ^ table[*byte as usize])
}

fn past_lane(crc: u64) -> u64 {
    crc.to_le_bytes().iter().zip(&PAST_LANE).fold(0, |sum, (byte, table)| sum ^ table[*byte as usize])
}

fn add_block(crc: u64, block: &[u8; LANES * LANE_BYTES]) -> u64 {
    let (words, _) = block.as_chunks();
    let mut crcs = [0; LANES];
    crcs[0] = crc;
    for at in 0..LANE_WORDS {
        for (lane, crc) in crcs.iter_mut().enumerate() {
            *crc = add_word(*crc, &words[lane * LANE_WORDS + at]);
        }
    }
    crcs[1..].iter().fold(crcs[0], |before, crc| past_lane(before) ^ crc)
}

/// The checksum of what had `crc` (0: of nothing), followed by `bytes`.
pub fn update(crc: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    match carryless::fold(&FACTORS, crc, blocks) {
        Some(words) => add_rest(words.iter().fold(0, |crc, word| add_word(crc, &word.to_le_bytes())), rest),
        None => by_lookups(crc, bytes),
    }
}

fn by_lookups(crc: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    add_rest(blocks.iter().fold(crc, add_block), rest)
}

fn add_rest(crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let crc = words.iter().fold(crc, add_word);
    rest.iter().fold(crc, |crc, byte| TABLES[0][(crc as u8 ^ byte) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the polynomial is defined.
    fn slowly(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |crc, byte| {
            let mixed = crc ^ u64::from(*byte);
            (0..8).fold(mixed, |crc, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 })
        })
    }

    #[test]
    fn as_redis_computes_it() {
        assert_eq!(update(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(update(0, b""), 0);
    }

    #[test]
    fn however_the_input_is_cut() {
        let text: Vec<u8> = (0..5_000u32).map(|n| (n * n % 251) as u8).collect();
        let whole = slowly(&text);
        for at in [0, 1, 7, 8, 9, 63, 64, 65, 128, 500, 1_000, 1_023, 1_024, 1_025, 2_048, 3_100, 5_000] {
            assert_eq!(update(0, &text[..at]), slowly(&text[..at]), "the first {at}");
            assert_eq!(update(update(0, &text[..at]), &text[at..]), whole, "in two parts");
            assert_eq!(by_lookups(by_lookups(0, &text[..at]), &text[at..]), whole, "without the instruction");
        }
    }
}
