//! What DUMP gives and RESTORE takes: a type's code, a value, then the version (2 bytes) and the checksum of all that
//! stands before it (8 bytes), both little-endian.

use store::{OwnedValue, Thresholds, Value};

use crate::cursor::{Cursor, ReadError};
use crate::decode::ValueDecoder;
use crate::encode::{Compression, ValueEncoder};
use crate::{crc64, reads_version};

/// Version and checksum.
pub const FOOTER_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;

/// Whether a payload's checksum is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Checksum {
    Checked,
    Ignored,
}

/// Writes the payload of a value piece by piece.
pub struct PayloadEncoder {
    value: ValueEncoder,
    crc: u64,
    is_begun: bool,
    is_whole: bool,
}

impl PayloadEncoder {
    /// For `value`; the same value always gives the same bytes.
    pub fn new(value: &OwnedValue, compression: Compression) -> PayloadEncoder {
        let value = ValueEncoder::new(value, compression);
        PayloadEncoder { value, crc: 0, is_begun: false, is_whole: false }
    }

    /// Appends the next piece; false if that was the last one.
    pub fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        if !self.is_begun {
            out.push(self.value.code());
            self.is_begun = true;
        }
        let more = self.value.fill(out);
        if !more && !self.is_whole {
            out.extend_from_slice(&self.value.version().to_le_bytes());
        }
        self.crc = crc64::update(self.crc, &out[start..]);
        if !more && !self.is_whole {
            self.is_whole = true;
            out.extend_from_slice(&self.crc.to_le_bytes());
        }
        more
    }
}

/// The payload of `value`, whole.
pub fn encode(value: &OwnedValue, compression: Compression) -> Vec<u8> {
    let (mut encoder, mut payload) = (PayloadEncoder::new(value, compression), Vec::new());
    while encoder.fill(&mut payload) {}
    payload
}

/// How many bytes the payload of `value` has. Takes the time of writing it, but not the memory.
pub fn len(value: &OwnedValue, compression: Compression) -> usize {
    let (mut encoder, mut piece, mut len) =
        (ValueEncoder::new(value, compression), Vec::new(), 1 + FOOTER_BYTES);
    loop {
        let more = encoder.fill(&mut piece);
        len += piece.len();
        piece.clear();
        if !more {
            return len;
        }
    }
}

/// The part of a payload before its footer, and the version.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    bytes: &'a [u8],
    version: u16,
}

impl<'a> Body<'a> {
    /// What is encoded, without the footer.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// The body of a payload, if its version is known and its checksum right.
pub fn body(payload: &[u8], checksum: Checksum) -> Option<Body<'_>> {
    let bytes = &payload[..payload.len().checked_sub(FOOTER_BYTES)?];
    let mut footer = Cursor::new(&payload[bytes.len()..]);
    let version = u16::from_le_bytes(footer.array().ok()?);
    let crc = u64::from_le_bytes(footer.array().ok()?);
    let is_right =
        checksum == Checksum::Ignored || crc == crc64::update(0, &payload[..payload.len() - CHECKSUM_BYTES]);
    (reads_version(version) && is_right).then_some(Body { bytes, version })
}

/// The value of a payload's [`body`]. Nothing may follow it, and it must not be an empty collection.
pub fn value(body: Body<'_>, thresholds: &Thresholds) -> Result<OwnedValue, ReadError> {
    let mut input = Cursor::new(body.bytes);
    let mut decoder = ValueDecoder::new(input.byte()?, body.version, *thresholds)?;
    let value = decoder.read(&mut input)?;
    if !input.is_at_end() {
        return Err(ReadError::Corrupt("bytes after the value"));
    }
    match &value {
        // A stream may have lost all its entries and still be one.
        OwnedValue::Object(Value::Stream(_)) => Ok(value),
        OwnedValue::Object(collection) if collection.is_empty() => {
            Err(ReadError::Corrupt("a collection without elements"))
        }
        _ => Ok(value),
    }
}
