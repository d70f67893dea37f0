//! Numbers and short byte strings, one after the other.
//!
//! | first varint | then | is |
//! |---|---|---|
//! | `2 * n` | n bytes | a byte string |
//! | `4 * n + 1` | | the text of the integer n |
//! | `4 * n + 3` | | the text of the integer -n - 1 |
//!
//! A varint has seven bits in each byte, the lowest first, and bit 7 set in all but the last. No text is longer than
//! it would be in a listpack, except integers of 62 bits and more, which stay text.

use crate::packed::{Bytes, canonical_integer};

const MORE: u8 = 0x80;
/// Integers below this in magnitude are kept as numbers.
const NUMBER_LIMIT: u64 = 1 << 62;

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= u64::from(MORE) {
        out.push(value as u8 | MORE);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front of `bytes`.
#[inline]
pub(super) fn take_varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let [byte, rest @ ..] = *bytes {
        *bytes = rest;
        value |= u64::from(byte & !MORE) << shift;
        if byte & MORE == 0 {
            break;
        }
        shift += 7;
    }
    value
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let number = canonical_integer(text).map(|number| {
        let magnitude = if number < 0 { !number } else { number } as u64;
        (magnitude, number < 0)
    });
    match number {
        Some((magnitude, is_negative)) if magnitude < NUMBER_LIMIT => {
            put_varint(out, magnitude << 2 | u64::from(is_negative) << 1 | 1);
        }
        _ => {
            put_varint(out, (text.len() as u64) << 1);
            out.extend_from_slice(text);
        }
    }
}

/// Takes a byte string off the front of `bytes`.
#[inline]
pub(super) fn take_text<'a>(bytes: &mut &'a [u8]) -> Bytes<'a> {
    let head = take_varint(bytes);
    if head & 1 == 0 {
        let (text, rest) = bytes.split_at((head >> 1) as usize);
        *bytes = rest;
        return Bytes::slice(text);
    }
    let magnitude = (head >> 2) as i64;
    Bytes::integer(if head & 2 == 0 { magnitude } else { !magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let mut texts: Vec<Vec<u8>> =
            vec![b"".into(), b"-".into(), b"-0".into(), b"007".into(), vec![b'x'; 300]];
        for shift in 0..64 {
            for near in -2i64..=2 {
                let number = (1i64 << shift).wrapping_add(near);
                texts.push(number.to_string().into_bytes());
                texts.push(number.wrapping_neg().to_string().into_bytes());
            }
        }
        let mut out = Vec::new();
        for text in &texts {
            let before = out.len();
            put_text(&mut out, text);
            let is_long_number = text.len() > 18 && text.len() < 21;
            let listpack_bytes = crate::list::listpack_entry_bytes(text);
            assert!(is_long_number || out.len() - before <= listpack_bytes, "{}", text.escape_ascii());
        }
        let mut rest = &out[..];
        for text in &texts {
            assert_eq!(&*take_text(&mut rest), &text[..]);
        }
        assert!(rest.is_empty());
    }
}
