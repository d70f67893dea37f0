//! Damage to payloads.

use rdb::crc64;
use rdb::payload::FOOTER_BYTES;

/// Numbers that lengths, counts and offsets break at.
const EDGES: [u8; 16] = [0, 1, 2, 3, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3, 0xfd, 0xfe, 0xff];
/// Longest payload that is made.
const PAYLOAD_BYTES_MAX: usize = 20_000;
/// Kinds of damage done to one payload.
const CHANGES_MAX: usize = 4;
/// Type codes up to this are tried on any body.
const CODE_MAX: u8 = 26;
/// Versions in footers, of which some are not known.
const VERSIONS: [u8; 8] = [1, 9, 11, 12, 13, 80, 80, 80];

/// Makes damaged payloads from whole ones.
pub struct Mutator {
    rng: fastrand::Rng,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// From these payloads.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Mutator {
        Mutator { rng: fastrand::Rng::with_seed(seed), seeds }
    }

    /// The next payload, with a right checksum.
    pub fn payload(&mut self) -> Vec<u8> {
        let mut body = self.body();
        for _ in 0..self.rng.usize(..=CHANGES_MAX) {
            self.change(&mut body);
        }
        body.truncate(PAYLOAD_BYTES_MAX);
        let version = if self.rng.u8(..8) == 0 { VERSIONS[self.rng.usize(..VERSIONS.len())] } else { 10 };
        body.extend_from_slice(&[version, 0]);
        let crc = crc64::update(0, &body);
        body.extend_from_slice(&crc.to_le_bytes());
        body
    }

    /// A whole payload without its footer.
    fn body(&mut self) -> Vec<u8> {
        let seed = &self.seeds[self.rng.usize(..self.seeds.len())];
        seed[..seed.len() - FOOTER_BYTES].to_vec()
    }

    fn change(&mut self, body: &mut Vec<u8>) {
        if body.is_empty() {
            return body.push(self.rng.u8(..));
        }
        // The beginning holds types, lengths and counts: it is hit as often as all the rest.
        let reach = if self.rng.bool() { body.len().min(40) } else { body.len() };
        let at = self.rng.usize(..reach);
        match self.rng.u8(..10) {
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
                let other = self.body();
                let from = self.rng.usize(..other.len());
                body.splice(at.., other[from..].iter().copied());
            }
            _ => body[0] = self.rng.u8(..=CODE_MAX),
        }
    }
}
