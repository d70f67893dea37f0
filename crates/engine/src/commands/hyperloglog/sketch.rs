//! A HyperLogLog as the string that clients see: a header, then registers, dense or sparse.
//!
//! ```text
//! 0   "HYLL"
//! 4   0: dense, 1: sparse
//! 5   three bytes that mean nothing
//! 8   cardinality, little-endian; its highest bit says that it is out of date
//! 16  registers
//! ```

use store::rope::CHUNK_BYTES;

use super::estimate::{self, REGISTERS};
use super::sparse::{Corrupted, Raised};
use super::{dense, sparse};

/// Bytes before the registers.
pub(super) const HEADER_BYTES: usize = 16;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
const OUTDATED: u8 = 0x80;
/// Length of every dense value.
pub(super) const DENSE_BYTES: usize = HEADER_BYTES + dense::REGISTERS_BYTES;
/// Length that no valid value passes: a run takes at most two bytes.
pub(super) const BYTES_MAX: usize = HEADER_BYTES + 2 * REGISTERS;
const _: () = assert!(DENSE_BYTES < BYTES_MAX);
const _: () = assert!(DENSE_BYTES <= CHUNK_BYTES, "a dense value is one piece");

/// How registers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Dense,
    Sparse,
}

/// How a string keeps its registers, by its header and length. `None`: it is no HyperLogLog.
pub(super) fn encoding(header: &[u8; HEADER_BYTES], length_bytes: usize) -> Option<Encoding> {
    if length_bytes < HEADER_BYTES || !header.starts_with(MAGIC) {
        return None;
    }
    match header[ENCODING_AT] {
        0 if length_bytes == DENSE_BYTES => Some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// Whether a register got a greater value.
pub(super) type Added = Result<bool, Corrupted>;

/// The registers of a dense value that elements would raise, and the values they would have.
pub(super) fn missing_from_dense<'a>(
    bytes: &[u8],
    elements: impl Iterator<Item = &'a [u8]>,
) -> Vec<(usize, u8)> {
    let places = elements.map(estimate::place);
    places.filter(|(index, value)| dense::get(&bytes[HEADER_BYTES..], *index) < *value).collect()
}

/// Raises registers of a dense value.
pub(super) fn raise_dense(bytes: &mut [u8], places: &[(usize, u8)]) {
    let registers = &mut bytes[HEADER_BYTES..];
    for (index, value) in places {
        if dense::get(registers, *index) < *value {
            dense::set(registers, *index, *value);
        }
    }
    outdate(bytes);
}

/// The cardinality in the header, unless it is out of date.
pub(super) fn cached_cardinality(header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let [.., a, b, c, d, e, f, g, h] = *header;
    (h & OUTDATED == 0).then(|| u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

/// Puts a cardinality into the header.
pub(super) fn cache_cardinality(bytes: &mut [u8], cardinality: u64) {
    bytes[CARDINALITY_AT..HEADER_BYTES].copy_from_slice(&cardinality.to_le_bytes());
}

fn outdate(bytes: &mut [u8]) {
    bytes[HEADER_BYTES - 1] |= OUTDATED;
}

/// A HyperLogLog that is being worked on, whole in memory.
#[derive(Clone)]
pub(super) struct Sketch {
    /// The header alone.
    header: [u8; HEADER_BYTES],
    /// Registers or runs.
    body: Vec<u8>,
    /// Longest sparse value, its header included.
    sparse_bytes_max: usize,
}

impl Sketch {
    /// Without elements.
    pub(super) fn new(sparse_bytes_max: usize) -> Sketch {
        let mut header = [0; HEADER_BYTES];
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        header[ENCODING_AT] = 1;
        Sketch { header, body: sparse::empty(), sparse_bytes_max }
    }

    /// The value that `bytes` are; they were checked with [`encoding`].
    pub(super) fn from_bytes(bytes: &[u8], sparse_bytes_max: usize) -> Sketch {
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes[..HEADER_BYTES]);
        Sketch { header, body: bytes[HEADER_BYTES..].to_vec(), sparse_bytes_max }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        [&self.header, self.body.as_slice()].concat()
    }

    pub(super) fn is_dense(&self) -> bool {
        self.header[ENCODING_AT] == 0
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn add(&mut self, element: &[u8]) -> Added {
        let (index, value) = estimate::place(element);
        self.raise(index, value)
    }

    /// Gives a register a value, unless it has a greater one. May make the value dense.
    pub(super) fn raise(&mut self, index: usize, value: u8) -> Added {
        if self.is_dense() {
            let grows = dense::get(&self.body, index) < value;
            if grows {
                dense::set(&mut self.body, index, value);
            }
            return Ok(grows);
        }
        let runs_bytes_max = self.sparse_bytes_max.saturating_sub(HEADER_BYTES);
        match sparse::raise(&mut self.body, index, value, runs_bytes_max)? {
            Raised::Unchanged => Ok(false),
            Raised::Changed => {
                self.outdate();
                Ok(true)
            }
            Raised::DoesNotFit => {
                self.make_dense()?;
                self.raise(index, value)
            }
        }
    }

    pub(super) fn make_dense(&mut self) -> Result<(), Corrupted> {
        if self.is_dense() {
            return Ok(());
        }
        let mut registers = vec![0; dense::REGISTERS_BYTES];
        sparse::each(&self.body, |first, run| {
            if run.value > 0 {
                (first..first + run.len).for_each(|index| dense::set(&mut registers, index, run.value));
            }
        })?;
        self.body = registers;
        self.header[ENCODING_AT] = 0;
        Ok(())
    }

    pub(super) fn outdate(&mut self) {
        outdate(&mut self.header);
    }

    /// An error if this is no valid value.
    pub(super) fn check(&self) -> Result<(), Corrupted> {
        if self.is_dense() { Ok(()) } else { sparse::each(&self.body, |_, _| {}) }
    }

    pub(super) fn cardinality(&self) -> Result<u64, Corrupted> {
        let histogram =
            if self.is_dense() { dense::histogram(&self.body) } else { sparse::histogram(&self.body)? };
        Ok(estimate::cardinality(&histogram))
    }
}

/// The greatest value of each register among several HyperLogLogs.
pub(super) struct Union {
    registers: Vec<u8>,
}

impl Union {
    pub(super) fn new() -> Union {
        Union { registers: vec![0; REGISTERS] }
    }

    pub(super) fn add(&mut self, sketch: &Sketch) -> Result<(), Corrupted> {
        if sketch.is_dense() {
            let pairs = self.registers.iter_mut().zip(dense::values(&sketch.body));
            pairs.for_each(|(greatest, value)| *greatest = value.max(*greatest));
            return Ok(());
        }
        sparse::each(&sketch.body, |first, run| {
            let covered = self.registers[first..first + run.len].iter_mut();
            covered.for_each(|greatest| *greatest = run.value.max(*greatest));
        })
    }

    pub(super) fn cardinality(&self) -> u64 {
        let mut histogram = [0; 64];
        self.registers.iter().for_each(|value| histogram[usize::from(*value)] += 1);
        estimate::cardinality(&histogram)
    }

    /// The registers that are not zero.
    pub(super) fn registers(&self) -> impl Iterator<Item = (usize, u8)> {
        self.registers.iter().copied().enumerate().filter(|(_, value)| *value > 0)
    }
}
