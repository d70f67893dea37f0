//! Ziplists: what small collections were before listpacks. They are only read.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | bytes of the whole, little-endian |
//! | 4 | where the last element starts, little-endian |
//! | 2 | elements, little-endian; 65,535: as many as there are |
//! | | elements, each preceded by the bytes of the one before (1 byte, or 254 and 4 bytes little-endian) |
//! | 1 | 255 |
//!
//! An element begins with:
//!
//! | bits | then |
//! |---|---|
//! | `00LLLLLL`, `01LLLLLL` + 1 byte, `10......` + 4 bytes | that many bytes of text; lengths are big-endian |
//! | `11000000`, `11010000`, `11100000`, `11110000`, `11111110` | an integer of 2, 4, 8, 3, 1 bytes, little-endian |
//! | `1111IIII`, I of 1 to 13 | nothing: the integer I - 1 |

use crate::cursor::{Cursor, ReadError};
use crate::listpack::{Item, integer_of_24_bits};

const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// The first byte of a long "bytes of the one before".
const LONG: u8 = 254;

const BROKEN: ReadError = ReadError::Corrupt("a ziplist that does not hold together");

/// The elements of a ziplist, checked while they are read: after the first error there are none.
pub(crate) struct Ziplist<'a> {
    /// Without the end byte.
    bytes: &'a [u8],
    at: usize,
    tail: usize,
    previous_len: usize,
    promised: Option<usize>,
}

impl<'a> Ziplist<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Ziplist<'a>, ReadError> {
        let mut header = Cursor::new(bytes);
        let shorter = |_| BROKEN;
        let len = u32::from_le_bytes(header.array().map_err(shorter)?) as usize;
        let tail = u32::from_le_bytes(header.array().map_err(shorter)?) as usize;
        let count = u16::from_le_bytes(header.array().map_err(shorter)?);
        if len != bytes.len() || len <= HEADER_BYTES || bytes.last() != Some(&END) {
            return Err(BROKEN);
        }
        let promised = (count != COUNT_UNKNOWN).then_some(usize::from(count));
        let bytes = &bytes[..len - 1];
        Ok(Ziplist { bytes, at: HEADER_BYTES, tail, previous_len: 0, promised })
    }

    fn element(&mut self) -> Result<Item<'a>, ReadError> {
        let mut input = Cursor::new(&self.bytes[self.at..]);
        let read = |input: &mut Cursor<'a>| -> Result<(usize, Item<'a>), ReadError> {
            let previous_len = match input.byte()? {
                LONG => u32::from_le_bytes(input.array()?) as usize,
                short => usize::from(short),
            };
            Ok((previous_len, read_item(input)?))
        };
        let (previous_len, item) = read(&mut input).map_err(|_| BROKEN)?;
        let is_last = self.at + input.position() == self.bytes.len();
        if previous_len != self.previous_len || is_last != (self.at == self.tail) {
            return Err(BROKEN);
        }
        self.promised = match self.promised {
            Some(0) => return Err(BROKEN),
            Some(count) => Some(count - 1),
            None => None,
        };
        self.previous_len = input.position();
        self.at += input.position();
        Ok(item)
    }
}

impl<'a> Iterator for Ziplist<'a> {
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
        0x00..=0x3f => Item::Text(input.take(u64::from(first))?),
        0x40..=0x7f => {
            let len = u64::from(first & 0x3f) << 8 | u64::from(input.byte()?);
            Item::Text(input.take(len)?)
        }
        0x80..=0xbf => {
            let len = u32::from_be_bytes(input.array()?);
            Item::Text(input.take(u64::from(len))?)
        }
        0xc0 => Item::Integer(i64::from(i16::from_le_bytes(input.array()?))),
        0xd0 => Item::Integer(i64::from(i32::from_le_bytes(input.array()?))),
        0xe0 => Item::Integer(i64::from_le_bytes(input.array()?)),
        0xf0 => Item::Integer(integer_of_24_bits(input.array()?)),
        0xfe => Item::Integer(i64::from(i8::from_le_bytes(input.array()?))),
        0xf1..=0xfd => Item::Integer(i64::from(first & 0x0f) - 1),
        _ => return Err(BROKEN),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use base::num::I64_TEXT_BYTES_MAX;

    use super::*;

    /// A ziplist of texts, as old servers wrote it.
    pub(crate) fn ziplist_of(texts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let (mut tail, mut previous) = (HEADER_BYTES, 0);
        for text in texts {
            tail = bytes.len();
            match previous {
                0..254 => bytes.push(previous as u8),
                _ => {
                    bytes.push(LONG);
                    bytes.extend_from_slice(&(previous as u32).to_le_bytes());
                }
            }
            match text.len() {
                len @ 0..64 => bytes.push(len as u8),
                len @ 64..16_384 => bytes.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
                len => {
                    bytes.push(0x80);
                    bytes.extend_from_slice(&(len as u32).to_be_bytes());
                }
            }
            bytes.extend_from_slice(text);
            previous = bytes.len() - tail;
        }
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&(tail as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(texts.len() as u16).to_le_bytes());
        bytes
    }

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut buffer = [0; I64_TEXT_BYTES_MAX];
        Ziplist::new(bytes)?.map(|item| Ok(item?.text(&mut buffer).to_vec())).collect()
    }

    #[test]
    fn texts_of_every_length() {
        let texts: Vec<Vec<u8>> =
            [0, 1, 63, 64, 251, 252, 253, 300, 16_383, 16_384].map(|len| vec![b'z'; len]).into();
        let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        assert_eq!(elements(&ziplist_of(&slices)), Ok(texts));
        assert_eq!(elements(&ziplist_of(&[])), Ok(vec![]));
    }

    #[test]
    fn integers_of_every_size() {
        for (encoded, expected) in [
            (&b"\xc0\xfe\xff"[..], "-2"),
            (b"\xd0\x00\x00\x00\x80", "-2147483648"),
            (b"\xe0\xff\xff\xff\xff\xff\xff\xff\x7f", "9223372036854775807"),
            (b"\xf0\x00\x00\x80", "-8388608"),
            (b"\xfe\x80", "-128"),
            (b"\xf1", "0"),
            (b"\xfd", "12"),
        ] {
            // An element of which the encoding is put in place of a text's.
            let mut bytes = ziplist_of(&[&encoded[..encoded.len() - 1]]);
            bytes.splice(11..bytes.len() - 1, encoded.iter().copied());
            assert_eq!(elements(&bytes), Ok(vec![expected.as_bytes().to_vec()]));
        }
    }

    #[test]
    fn no_change_goes_unseen_or_panics() {
        let long = [b'l'; 300];
        let bytes = ziplist_of(&[b"a", &long, b"", b"bcd", &long[..70], b"e"]);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                if let Ok(read) = elements(&changed) {
                    assert!(at >= HEADER_BYTES && read.len() == 6);
                }
            }
            assert!(elements(&bytes[..at]).is_err());
        }
    }
}
