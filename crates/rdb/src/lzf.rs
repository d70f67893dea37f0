//! LZF, the compression of strings in files and payloads.
//!
//! Compressed bytes are a sequence of:
//!
//! | first byte | then | means |
//! |---|---|---|
//! | `000LLLLL` | L + 1 bytes | these bytes |
//! | `LLLHHHHH`, L of 1 to 6 | 1 byte D | L + 2 bytes as they stand H * 256 + D + 1 bytes before |
//! | `111HHHHH` | 1 byte L, 1 byte D | likewise, L + 9 bytes |

/// Farthest and longest repetition that can be said.
const DISTANCE_MAX: usize = 1 << 13;
const REPEAT_BYTES_MAX: usize = 264;
const LITERAL_BYTES_MAX: usize = 32;
const HASH_BITS: u32 = 14;
/// Shorter repetitions are not worth their two bytes.
const REPEAT_BYTES_MIN: usize = 3;

/// Compresses. Keeps its table from one string to the next, as clearing it would cost more than a short string.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    /// Where three bytes with this hash stood last, counted from `base`; below it: in an earlier string.
    last_seen: Vec<u32>,
    base: u32,
}

impl Compressor {
    /// The compressed form of `input`, if it has at most `bytes_max` bytes.
    pub(crate) fn compress(&mut self, input: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        self.begin(input.len())?;
        let mut out = Vec::with_capacity(bytes_max);
        let (mut at, mut literal_from) = (0, 0);
        while at + REPEAT_BYTES_MIN <= input.len() {
            let Some(from) = self.seen_before(input, at) else {
                at += 1;
                continue;
            };
            // The last two bytes stay out of long repetitions, as in Redis, which thereby makes the same bytes.
            let limit = (input.len() - at - 2).clamp(REPEAT_BYTES_MIN, REPEAT_BYTES_MAX);
            let len = (0..limit).take_while(|&i| input[from + i] == input[at + i]).count();
            put_literals(&mut out, &input[literal_from..at]);
            put_repeat(&mut out, at - from, len);
            if out.len() > bytes_max {
                return None;
            }
            // What lies inside a repetition is remembered by its last bytes alone: that is enough for the next one.
            for inside in (at + len).saturating_sub(2)..at + len {
                if inside > at && inside + REPEAT_BYTES_MIN <= input.len() {
                    self.seen_before(input, inside);
                }
            }
            at += len;
            literal_from = at;
        }
        put_literals(&mut out, &input[literal_from..]);
        (out.len() <= bytes_max).then_some(out)
    }

    /// Makes whatever the table holds older than the string that begins. None for one too long for the table.
    fn begin(&mut self, len: usize) -> Option<()> {
        let len = u32::try_from(len).ok()?;
        if self.last_seen.is_empty() || self.base.checked_add(len)? > u32::MAX / 2 {
            self.last_seen = vec![0; 1 << HASH_BITS];
            self.base = 1;
        }
        self.base.checked_add(len).map(|_| ())
    }

    /// Where the three bytes at `at` stood before, near enough; remembers that they stand here.
    fn seen_before(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let word = u32::from_le_bytes([input[at], input[at + 1], input[at + 2], 0]);
        let slot = (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize;
        let here = self.base + at as u32;
        let from = std::mem::replace(&mut self.last_seen[slot], here).checked_sub(self.base)? as usize;
        let is_same = from < at && input[from..from + 3] == input[at..at + 3];
        (is_same && at - from <= DISTANCE_MAX).then_some(from)
    }

    /// Tells that the string is done.
    pub(crate) fn end(&mut self, len: usize) {
        self.base = self.base.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
    }
}

fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(LITERAL_BYTES_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn put_repeat(out: &mut Vec<u8>, distance: usize, len: usize) {
    let back = distance - 1;
    let (high, low) = ((back >> 8) as u8, back as u8);
    match len - 2 {
        short @ 1..=6 => out.extend_from_slice(&[(short as u8) << 5 | high, low]),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8, low]),
    }
}

/// The bytes that `input` is the compressed form of, which must be `len`; `None` if they are not.
pub(crate) fn decompress(input: &[u8], len: u64) -> Option<Vec<u8>> {
    // Three bytes say 264 at most: a length beyond that is no reason to allocate.
    let len = usize::try_from(len).ok().filter(|len| len / (REPEAT_BYTES_MAX / 3) <= input.len())?;
    let mut out = Vec::with_capacity(len);
    let mut rest = input.iter();
    while let Some(&control) = rest.next() {
        let (high, count) = (control & 0x1f, control >> 5);
        if count == 0 {
            let literals = rest.as_slice().get(..usize::from(high) + 1)?;
            out.extend_from_slice(literals);
            rest = rest.as_slice()[literals.len()..].iter();
        } else {
            let longer = if count == 7 { *rest.next()? } else { 0 };
            let distance = usize::from(high) << 8 | usize::from(*rest.next()?);
            let from = out.len().checked_sub(distance + 1)?;
            repeat(&mut out, from, usize::from(count) + usize::from(longer) + 2);
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Appends `len` bytes as they stand from `from` on; they may begin before they are all there.
fn repeat(out: &mut Vec<u8>, from: usize, mut len: usize) {
    while len > 0 {
        let step = len.min(out.len() - from);
        out.extend_from_within(from..from + step);
        len -= step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut compressor = Compressor::default();
        let mut shorter = 0;
        for round in 0..3000 {
            let alphabet = rng.u8(1..=255);
            let mut input: Vec<u8> = Vec::new();
            while input.len() < round * 7 {
                if input.len() > 10 && rng.bool() {
                    let from = rng.usize(..input.len());
                    repeat(&mut input, from, rng.usize(1..400));
                } else {
                    input.push(rng.u8(..alphabet));
                }
            }
            let bytes_max = input.len() * 33 / 32 + 8;
            let packed = compressor.compress(&input, bytes_max).expect("fits: literals cost one byte in 32");
            compressor.end(input.len());
            assert_eq!(decompress(&packed, input.len() as u64).as_ref(), Some(&input));
            assert_eq!(decompress(&packed, input.len() as u64 + 1), None);
            shorter += usize::from(packed.len() < input.len() / 2);
        }
        assert!(shorter > 1000, "{shorter} inputs became half as long");
    }

    #[test]
    fn a_repetition_may_run_into_itself() {
        assert_eq!(decompress(&[0, b'a', 0xe0, 255, 0], 265), Some(vec![b'a'; 265]));
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 0x80, 2], 9), Some(b"abcabcabc".to_vec()));
    }

    #[test]
    fn garbage_is_told_from_text() {
        let wrong: [&[u8]; 5] =
            [&[1, b'a'], &[0x20, 0], &[0, b'a', 0x20, 1], &[0, b'a', 0xe0, 1], &[0, b'a', 0x20]];
        for input in wrong {
            assert_eq!(decompress(input, 4), None, "{input:?}");
        }
        assert_eq!(decompress(&[0, b'a'], u64::MAX), None, "a length nobody can fill");
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..50_000 {
            let input: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            if let Some(out) = decompress(&input, rng.u64(..2000)) {
                assert!(out.len() < 2000);
            }
        }
    }
}
