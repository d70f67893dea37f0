//! Damage to payloads and files.

/// Numbers that lengths, counts and offsets break at.
const EDGES: [u8; 16] = [0, 1, 2, 3, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3, 0xfd, 0xfe, 0xff];
/// Longest body that is made.
const BODY_BYTES_MAX: usize = 20_000;
/// Kinds of damage done to one body.
const CHANGES_MAX: usize = 4;

/// Makes damaged bodies, which have no footer, from whole ones.
pub struct Mutator {
    pub rng: fastrand::Rng,
    seeds: Vec<Vec<u8>>,
    /// So many bytes are hit as often as all the rest.
    head_bytes: usize,
    /// A change may put a number up to this in the first place.
    first_max: u8,
}

impl Mutator {
    /// From these bodies. Changes prefer their first `head_bytes`, where types, lengths and counts may stand, and the
    /// very first byte may become anything up to `first_max`.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>, head_bytes: usize, first_max: u8) -> Mutator {
        Mutator { rng: fastrand::Rng::with_seed(seed), seeds, head_bytes, first_max }
    }

    /// The next body, with up to four changes.
    pub fn body(&mut self) -> Vec<u8> {
        let mut body = self.whole().to_vec();
        for _ in 0..self.rng.usize(..=CHANGES_MAX) {
            self.change(&mut body);
        }
        body.truncate(BODY_BYTES_MAX);
        body
    }

    fn whole(&mut self) -> &[u8] {
        let place = self.rng.usize(..self.seeds.len());
        &self.seeds[place]
    }

    fn change(&mut self, body: &mut Vec<u8>) {
        if body.is_empty() {
            return body.push(self.rng.u8(..));
        }
        let reach = match self.rng.bool() {
            true if self.head_bytes > 0 => body.len().min(self.head_bytes),
            _ => body.len(),
        };
        let at = self.rng.usize(..reach);
        match self.rng.u8(..12) {
            0 => body[at] ^= 1 << self.rng.u8(..8),
            1 => body[at] = self.rng.u8(..),
            2 => body[at] = EDGES[self.rng.usize(..EDGES.len())],
            3 => body[at] = body[at].wrapping_add(if self.rng.bool() { 1 } else { 255 }),
            4 => body.truncate(at),
            5 => body.insert(at, EDGES[self.rng.usize(..EDGES.len())]),
            6 => drop(body.remove(at)),
            7 => {
                let end = (at + self.rng.usize(1..40)).min(body.len());
                let part = body[at..end].to_vec();
                let to = self.rng.usize(..=body.len());
                body.splice(to..to, part);
            }
            8 => {
                let other = self.whole().to_vec();
                let from = self.rng.usize(..other.len());
                body.splice(at.., other[from..].iter().copied());
            }
            9 => {
                // A length of 4 or 8 bytes, most often of more than is there.
                let (form, bytes) = if self.rng.bool() { (0x80, 4) } else { (0x81, 8) };
                let length = self.rng.u64(..) >> self.rng.u32(..64);
                let length = [&[form], &length.to_be_bytes()[8 - bytes..]].concat();
                let end = (at + self.rng.usize(..=1)).min(body.len());
                body.splice(at..end, length);
            }
            10 => {
                // Sizes within packed values are written low bytes first.
                let number = (self.rng.u32(..) >> self.rng.u32(..32)).to_le_bytes();
                body.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
            }
            _ => body[0] = self.rng.u8(..=self.first_max),
        }
    }
}
