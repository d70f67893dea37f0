//! Longest common subsequence of two byte strings, with the choices among equally long ones that Redis makes.
//!
//! The classical table of lengths L\[i\]\[j\] is kept as one bit a cell: whether L grows from column j to j + 1
//! in that row. A row follows from the one above by three word operations for 64 cells (Crochemore et al.,
//! "A fast and practical bit-vector algorithm for the longest common subsequence problem", 2001), and the
//! walk back needs no more than those bits.

/// One stretch that both strings share: `length` bytes, from `a_start` in the first and from `b_start` in
/// the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Match {
    pub a_start: usize,
    pub b_start: usize,
    pub length: usize,
}

/// The number of bytes in the longest common subsequence. Memory: a bit for each byte of `b`, for each
/// distinct byte of `a`.
pub(crate) fn length(a: &[u8], b: &[u8]) -> usize {
    let masks = Masks::new(a, b);
    let mut row = vec![u64::MAX; masks.words];
    for byte in a {
        masks.advance(*byte, &mut row);
    }
    // A zero bit is a step up by one; bits past the end of `b` never match and stay set.
    row.iter().map(|word| word.count_zeros() as usize).sum()
}

/// The stretches that make up the subsequence, last first. Memory: a bit a cell of the table.
pub(crate) fn matches(a: &[u8], b: &[u8]) -> Vec<Match> {
    let masks = Masks::new(a, b);
    let words = masks.words;
    let mut rows = vec![u64::MAX; words * (a.len() + 1)];
    for (at, byte) in a.iter().enumerate() {
        let (above, below) = rows.split_at_mut((at + 1) * words);
        let row = &mut below[..words];
        row.copy_from_slice(&above[at * words..]);
        masks.advance(*byte, row);
    }

    let mut found: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            match found.last_mut() {
                Some(last) if last.a_start == i + 1 && last.b_start == j + 1 => {
                    *last = Match { a_start: i, b_start: j, length: last.length + 1 };
                }
                _ => found.push(Match { a_start: i, b_start: j, length: 1 }),
            }
        } else if rows[i * words + (j - 1) / 64] >> ((j - 1) % 64) & 1 == 0 {
            // The bytes differ, so L grew here from the row above: going up keeps the length, going left
            // would lose one.
            i -= 1;
        } else {
            j -= 1;
        }
    }
    found
}

/// For each byte that `a` contains: where `b` has it, a bit a position.
struct Masks {
    words: usize,
    bits: Vec<u64>,
    place_of_byte: [u16; 256],
}

impl Masks {
    fn new(a: &[u8], b: &[u8]) -> Self {
        const ABSENT: u16 = u16::MAX;
        let words = b.len().div_ceil(64);
        let mut place_of_byte = [ABSENT; 256];
        let mut places = 0;
        for byte in a {
            let place = &mut place_of_byte[usize::from(*byte)];
            if *place == ABSENT {
                *place = places;
                places += 1;
            }
        }
        let mut bits = vec![0; words * usize::from(places)];
        for (at, byte) in b.iter().enumerate() {
            let place = place_of_byte[usize::from(*byte)];
            if place != ABSENT {
                bits[usize::from(place) * words + at / 64] |= 1 << (at % 64);
            }
        }
        Self { words, bits, place_of_byte }
    }

    /// Turns the row above into the row of `byte`, which occurs in `a`.
    fn advance(&self, byte: u8, row: &mut [u64]) {
        let start = usize::from(self.place_of_byte[usize::from(byte)]) * self.words;
        let mut carry = false;
        for (word, mask) in row.iter_mut().zip(&self.bits[start..start + self.words]) {
            let (sum, over) = word.overflowing_add(*word & mask);
            let (sum, over_by_carry) = sum.overflowing_add(u64::from(carry));
            carry = over || over_by_carry;
            *word = sum | (*word & !mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Match, length, matches};

    /// The textbook algorithm and walk back, on a full table.
    fn reference(a: &[u8], b: &[u8]) -> (usize, Vec<Match>) {
        let mut table = vec![vec![0usize; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = if a[i - 1] == b[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        let mut runs: Vec<Match> = Vec::new();
        for (i, j) in pairs {
            match runs.last_mut() {
                Some(run) if (run.a_start, run.b_start) == (i + 1, j + 1) => {
                    *run = Match { a_start: i, b_start: j, length: run.length + 1 }
                }
                _ => runs.push(Match { a_start: i, b_start: j, length: 1 }),
            }
        }
        (table[a.len()][b.len()], runs)
    }

    #[test]
    fn agrees_with_the_textbook_table() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for round in 0..300 {
            let letters = [2, 3, 20, 256][round % 4];
            let mut text =
                |bytes_max| (0..random(bytes_max)).map(|_| random(letters) as u8).collect::<Vec<u8>>();
            let (a, b) = (text(150), text(200));
            let (expected_length, expected_matches) = reference(&a, &b);
            assert_eq!(length(&a, &b), expected_length, "{a:?} {b:?}");
            assert_eq!(matches(&a, &b), expected_matches, "{a:?} {b:?}");
        }
    }

    #[test]
    fn empty_strings_share_nothing() {
        for (a, b) in [("", ""), ("a", ""), ("", "a"), ("a", "b")] {
            assert_eq!(length(a.as_bytes(), b.as_bytes()), 0);
            assert_eq!(matches(a.as_bytes(), b.as_bytes()), []);
        }
    }
}
