//! Lengths and strings.
//!
//! | first byte | then | means |
//! |---|---|---|
//! | `00LLLLLL` | | the length L |
//! | `01LLLLLL` | 1 byte | 14 bits of length, high bits first |
//! | `10000000` | 4 bytes | length, big-endian |
//! | `10000001` | 8 bytes | length, big-endian |
//! | `110000EE` | | in place of a string: E = 0, 1, 2: an integer of 1, 2, 4 bytes; E = 3: compressed |

use std::borrow::Cow;

use base::num::{parse_i64, write_i64};

use crate::cursor::{Cursor, ReadError};
use crate::lzf::{Compressor, decompress};

/// Strings up to this many bytes gain nothing from compression.
const UNCOMPRESSED_BYTES_MAX: usize = 20;
/// Longer ones are not compressed: their compressed length has to be known before their first byte is written.
const COMPRESSED_BYTES_MAX: usize = 1 << 20;
/// The longest text that may be written as an integer.
const INTEGER_TEXT_BYTES_MAX: usize = 11;

/// What stands where a length may.
enum Head {
    Length(u64),
    Encoded(u8),
}

fn head(input: &mut Cursor<'_>) -> Result<Head, ReadError> {
    let first = input.byte()?;
    Ok(match first {
        0x00..=0x3f => Head::Length(u64::from(first)),
        0x40..=0x7f => Head::Length(u64::from(first & 0x3f) << 8 | u64::from(input.byte()?)),
        0x80 => Head::Length(u64::from(u32::from_be_bytes(input.array()?))),
        0x81 => Head::Length(u64::from_be_bytes(input.array()?)),
        0xc0..=0xff => Head::Encoded(first & 0x3f),
        _ => return Err(ReadError::Corrupt("a length of an unknown form")),
    })
}

/// A length or count.
pub(crate) fn length(input: &mut Cursor<'_>) -> Result<u64, ReadError> {
    match head(input)? {
        Head::Length(length) => Ok(length),
        Head::Encoded(_) => Err(ReadError::Corrupt("a string where a length belongs")),
    }
}

/// A string, in whichever of its forms.
pub(crate) fn string<'a>(input: &mut Cursor<'a>) -> Result<Cow<'a, [u8]>, ReadError> {
    let number = match head(input)? {
        Head::Length(len) => return Ok(Cow::Borrowed(input.take(len)?)),
        Head::Encoded(0) => i64::from(i8::from_le_bytes(input.array()?)),
        Head::Encoded(1) => i64::from(i16::from_le_bytes(input.array()?)),
        Head::Encoded(2) => i64::from(i32::from_le_bytes(input.array()?)),
        Head::Encoded(3) => {
            let (packed_len, len) = (length(input)?, length(input)?);
            let text = decompress(input.take(packed_len)?, len);
            return text
                .map(Cow::Owned)
                .ok_or(ReadError::Corrupt("a compressed string that does not unpack"));
        }
        Head::Encoded(_) => return Err(ReadError::Corrupt("a string of an unknown form")),
    };
    let mut text = Vec::new();
    write_i64(&mut text, number);
    Ok(Cow::Owned(text))
}

/// Appends a length or count.
pub(crate) fn put_length(out: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]);
    } else if let Ok(length) = u32::try_from(length) {
        out.push(0x80);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

/// Writes strings, compressed or not.
#[derive(Debug, Default)]
pub(crate) struct StringWriter {
    compressor: Option<Compressor>,
}

impl StringWriter {
    pub(crate) fn new(compresses: bool) -> StringWriter {
        StringWriter { compressor: compresses.then(Compressor::default) }
    }

    /// Appends a string in the shortest of its forms.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        if text.len() <= INTEGER_TEXT_BYTES_MAX
            && let Some(number) = parse_i64(text).and_then(|number| i32::try_from(number).ok())
        {
            return put_integer(out, number);
        }
        if (UNCOMPRESSED_BYTES_MAX + 1..=COMPRESSED_BYTES_MAX).contains(&text.len())
            && let Some(compressor) = &mut self.compressor
        {
            // Four bytes at least must be gained, as in Redis.
            let packed = compressor.compress(text, text.len() - 4);
            compressor.end(text.len());
            if let Some(packed) = packed {
                out.push(0xc3);
                put_length(out, packed.len() as u64);
                put_length(out, text.len() as u64);
                return out.extend_from_slice(&packed);
            }
        }
        put_length(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

fn put_integer(out: &mut Vec<u8>, number: i32) {
    if let Ok(number) = i8::try_from(number) {
        out.push(0xc0);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xc1);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        out.push(0xc2);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back_and_are_short() {
        for (value, bytes) in
            [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 5), (u64::from(u32::MAX), 5), (1 << 32, 9)]
        {
            let mut out = Vec::new();
            put_length(&mut out, value);
            assert_eq!((length(&mut Cursor::new(&out)), out.len()), (Ok(value), bytes));
            assert_eq!(length(&mut Cursor::new(&out[..bytes - 1])), Err(ReadError::Short));
        }
    }

    #[test]
    fn strings_take_their_shortest_form() {
        let long = [b'x'; 400];
        let cases: [(&[u8], usize); 10] = [
            (b"", 1),
            (b"0", 2),
            (b"-128", 2),
            (b"128", 3),
            (b"-32769", 5),
            (b"2147483647", 5),
            (b"2147483648", 11),
            (b"007", 4),
            (b"abcdefghijklmnopqrstuvwxyz", 27),
            (&long, 15),
        ];
        for (text, bytes) in cases {
            let mut out = Vec::new();
            StringWriter::new(true).put(&mut out, text);
            assert_eq!(out.len(), bytes, "{}", text.escape_ascii());
            assert_eq!(string(&mut Cursor::new(&out)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn unknown_forms_are_refused() {
        for (bytes, why) in [(&[0x82u8, 0, 0][..], "length"), (&[0xc4, 0], "string"), (&[0xff, 0], "string")]
        {
            let Err(ReadError::Corrupt(text)) = string(&mut Cursor::new(bytes)) else { panic!("{bytes:?}") };
            assert!(text.contains(why), "{text}");
        }
        assert_eq!(
            string(&mut Cursor::new(&[0x81, 255, 255, 255, 255, 255, 255, 255, 255])),
            Err(ReadError::Short)
        );
    }
}
