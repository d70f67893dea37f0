//! Listpacks: small collections in one buffer.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | bytes of the whole, little-endian |
//! | 2 | elements, little-endian; 65,535: as many as there are |
//! | | elements, each followed by its length for those who read backwards |
//! | 1 | 255 |
//!
//! An element begins with:
//!
//! | bits | then |
//! |---|---|
//! | `0IIIIIII` | nothing: an integer from 0 to 127 |
//! | `10LLLLLL` | L bytes of text |
//! | `110IIIII` | 1 byte: 13 bits of an integer with a sign, high bits first |
//! | `1110LLLL` | 1 byte: 12 bits of length, high bits first; the text |
//! | `11110000` | 4 bytes of length, little-endian; the text |
//! | `11110001` to `11110100` | an integer of 2, 3, 4, 8 bytes, little-endian |

use base::num::{I64_TEXT_BYTES_MAX, format_i64, parse_i64};

use crate::cursor::{Cursor, ReadError};

const HEADER_BYTES: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

const BROKEN: ReadError = ReadError::Corrupt("a listpack that does not hold together");

/// An element of a packed collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Text(&'a [u8]),
    Integer(i64),
}

impl Item<'_> {
    /// The element as text, an integer's in `buffer`.
    pub(crate) fn text<'b>(&'b self, buffer: &'b mut [u8; I64_TEXT_BYTES_MAX]) -> &'b [u8] {
        match self {
            Item::Text(text) => text,
            Item::Integer(number) => format_i64(*number, buffer),
        }
    }
}

/// The elements of a listpack, checked while they are read: after the first error there are none.
pub(crate) struct Listpack<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Elements that the header promises and that have not come yet.
    promised: Option<usize>,
}

impl<'a> Listpack<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Listpack<'a>, ReadError> {
        let mut header = Cursor::new(bytes);
        let shorter = |_| BROKEN;
        let len = u32::from_le_bytes(header.array().map_err(shorter)?);
        let count = u16::from_le_bytes(header.array().map_err(shorter)?);
        if len as usize != bytes.len() || bytes.len() <= HEADER_BYTES || bytes.last() != Some(&END) {
            return Err(BROKEN);
        }
        let promised = (count != COUNT_UNKNOWN).then_some(usize::from(count));
        Ok(Listpack { bytes: &bytes[..bytes.len() - 1], at: HEADER_BYTES, promised })
    }

    fn element(&mut self) -> Result<Item<'a>, ReadError> {
        let mut input = Cursor::new(&self.bytes[self.at..]);
        let item = read_item(&mut input).map_err(|_| BROKEN)?;
        let mut backwards = [0; 5];
        let expected = length_backwards(input.position(), &mut backwards);
        if input.take(expected.len() as u64) != Ok(expected) {
            return Err(BROKEN);
        }
        self.promised = match self.promised {
            Some(0) => return Err(BROKEN),
            Some(count) => Some(count - 1),
            None => None,
        };
        self.at += input.position();
        Ok(item)
    }
}

impl<'a> Iterator for Listpack<'a> {
    type Item = Result<Item<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return matches!(self.promised.take(), Some(1..)).then_some(Err(BROKEN));
        }
        let element = self.element();
        if element.is_err() {
            (self.at, self.promised) = (self.bytes.len(), None);
        }
        Some(element)
    }
}

fn read_item<'a>(input: &mut Cursor<'a>) -> Result<Item<'a>, ReadError> {
    let first = input.byte()?;
    Ok(match first {
        0x00..=0x7f => Item::Integer(i64::from(first)),
        0x80..=0xbf => Item::Text(input.take(u64::from(first & 0x3f))?),
        0xc0..=0xdf => {
            let unsigned = i64::from(first & 0x1f) << 8 | i64::from(input.byte()?);
            Item::Integer(if unsigned < 1 << 12 { unsigned } else { unsigned - (1 << 13) })
        }
        0xe0..=0xef => {
            let len = u64::from(first & 0x0f) << 8 | u64::from(input.byte()?);
            Item::Text(input.take(len)?)
        }
        0xf0 => {
            let len = u32::from_le_bytes(input.array()?);
            Item::Text(input.take(u64::from(len))?)
        }
        0xf1 => Item::Integer(i64::from(i16::from_le_bytes(input.array()?))),
        0xf2 => Item::Integer(integer_of_24_bits(input.array()?)),
        0xf3 => Item::Integer(i64::from(i32::from_le_bytes(input.array()?))),
        0xf4 => Item::Integer(i64::from_le_bytes(input.array()?)),
        _ => return Err(BROKEN),
    })
}

/// A little-endian integer of three bytes with its sign.
pub(crate) fn integer_of_24_bits(bytes: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8)
}

/// The bytes after an element of `len` bytes: seven bits of its length each, high ones first; all but the first have
/// their top bit set.
fn length_backwards(len: usize, buffer: &mut [u8; 5]) -> &[u8] {
    // Redis's writer takes a byte more than it needs for the largest length of each size but the first.
    let count = match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    for (place, byte) in buffer[..count].iter_mut().rev().enumerate() {
        *byte = (len >> (7 * place)) as u8 & 0x7f;
    }
    buffer[1..count].iter_mut().for_each(|byte| *byte |= 0x80);
    &buffer[..count]
}

/// Builds a listpack.
pub(crate) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    pub(crate) fn new() -> ListpackWriter {
        ListpackWriter { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    /// Appends an element; the text of an integer is kept as one.
    pub(crate) fn push(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        match parse_i64(text) {
            Some(number) => self.put_integer(number),
            None => self.put_text(text),
        }
        let mut buffer = [0; 5];
        let backwards = length_backwards(self.bytes.len() - start, &mut buffer);
        self.bytes.extend_from_slice(backwards);
        self.count += 1;
    }

    fn put_text(&mut self, text: &[u8]) {
        let len = text.len();
        match len {
            0..=63 => self.bytes.push(0x80 | len as u8),
            64..=4095 => self.bytes.extend_from_slice(&[0xe0 | (len >> 8) as u8, len as u8]),
            _ => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
    }

    fn put_integer(&mut self, number: i64) {
        let bytes = number.to_le_bytes();
        let (head, len) = match number {
            0..=127 => return self.bytes.push(bytes[0]),
            -4096..=4095 => {
                return self.bytes.extend_from_slice(&[0xc0 | (bytes[1] & 0x1f), bytes[0]]);
            }
            -0x8000..=0x7fff => (0xf1, 2),
            -0x80_0000..=0x7f_ffff => (0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
            _ => (0xf4, 8),
        };
        self.bytes.push(head);
        self.bytes.extend_from_slice(&bytes[..len]);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = self.bytes.len() as u32;
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut buffer = [0; I64_TEXT_BYTES_MAX];
        Listpack::new(bytes)?.map(|item| Ok(item?.text(&mut buffer).to_vec())).collect()
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut samples: Vec<Vec<u8>> =
            [0, 1, 63, 64, 126, 127, 4095, 4096, 16_370, 16_380, 16_390].map(|len| vec![b'x'; len]).into();
        for power in [0, 6, 7, 11, 12, 15, 23, 31, 62] {
            for near in -1..=1 {
                for number in [(1i64 << power) + near, -(1i64 << power) + near] {
                    samples.push(number.to_string().into_bytes());
                }
            }
        }
        samples.extend([i64::MIN, i64::MAX].map(|number| number.to_string().into_bytes()));
        samples.extend([b"-0".to_vec(), b"01".to_vec(), b"9223372036854775808".to_vec()]);
        samples
    }

    #[test]
    fn elements_come_back() {
        let samples = samples();
        let mut writer = ListpackWriter::new();
        samples.iter().for_each(|sample| writer.push(sample));
        let bytes = writer.finish();
        assert_eq!(elements(&bytes), Ok(samples));
        assert_eq!(elements(&ListpackWriter::new().finish()), Ok(vec![]));
    }

    #[test]
    fn redis_writes_the_same_bytes() {
        // What DUMP of Redis 7.0 has for HSET h a 1 bc -5000 d 70000, without its type and string length.
        let mut writer = ListpackWriter::new();
        ["a", "1", "bc", "-5000", "d", "70000"].iter().for_each(|text| writer.push(text.as_bytes()));
        let expected =
            b"\x1c\0\0\0\x06\0\x81a\x02\x01\x01\x82bc\x03\xf1\x78\xec\x03\x81d\x02\xf2\x70\x11\x01\x04\xff";
        let bytes = writer.finish();
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn no_change_goes_unseen_or_panics() {
        let mut writer = ListpackWriter::new();
        samples().iter().filter(|sample| sample.len() < 200).for_each(|sample| writer.push(sample));
        let bytes = writer.finish();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                // Some changes make another text or number of the same length.
                if let Ok(read) = elements(&changed) {
                    assert!(at >= 4 && read.len() == elements(&bytes).map_or(0, |all| all.len()));
                }
            }
            assert!(elements(&bytes[..at]).is_err());
        }
    }
}
