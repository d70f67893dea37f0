//! Zipmaps: what small hashes were in Redis 2.4. They are only read.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | fields; 254 and above: as many as there are |
//! | | of each field: its length and text; its value's length, a number of unused bytes (1 byte), text, unused bytes |
//! | 1 | 255 |
//!
//! A length is one byte below 254, or 254 and 4 bytes little-endian.

use crate::cursor::{Cursor, ReadError};

const END: u8 = 0xff;
const LONG: u8 = 254;
const COUNT_UNKNOWN: u8 = 254;

const BROKEN: ReadError = ReadError::Corrupt("a zipmap that does not hold together");

/// Fields and values, checked while they are read: after the first error there are none.
pub(crate) struct Zipmap<'a> {
    input: Cursor<'a>,
    promised: Option<usize>,
}

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

impl<'a> Zipmap<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Zipmap<'a>, ReadError> {
        let [count, rest @ .., END] = bytes else { return Err(BROKEN) };
        let promised = (*count < COUNT_UNKNOWN).then_some(usize::from(*count));
        Ok(Zipmap { input: Cursor::new(rest), promised })
    }

    fn pair(&mut self) -> Result<Pair<'a>, ReadError> {
        let field_len = length(&mut self.input)?;
        let field = self.input.take(field_len)?;
        let value_len = length(&mut self.input)?;
        let unused = self.input.byte()?;
        let value = self.input.take(value_len)?;
        self.input.take(u64::from(unused))?;
        match &mut self.promised {
            Some(0) => return Err(BROKEN),
            Some(count) => *count -= 1,
            None => {}
        }
        Ok((field, value))
    }
}

impl<'a> Iterator for Zipmap<'a> {
    type Item = Result<Pair<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.input.is_at_end() {
            return matches!(self.promised.take(), Some(1..)).then_some(Err(BROKEN));
        }
        let pair = self.pair();
        if pair.is_err() {
            (self.input, self.promised) = (Cursor::new(&[]), None);
        }
        Some(pair.map_err(|_| BROKEN))
    }
}

fn length(input: &mut Cursor<'_>) -> Result<u64, ReadError> {
    match input.byte()? {
        LONG => Ok(u64::from(u32::from_le_bytes(input.array()?))),
        END => Err(BROKEN),
        short => Ok(u64::from(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(bytes: &[u8]) -> Result<Vec<Pair<'_>>, ReadError> {
        Zipmap::new(bytes)?.collect()
    }

    #[test]
    fn pairs_and_their_unused_bytes() {
        let bytes = b"\x02\x03foo\x03\x00bar\x01a\x02\x03hi...\xff";
        assert_eq!(pairs(bytes), Ok(vec![(&b"foo"[..], &b"bar"[..]), (b"a", b"hi")]));
        let mut unknown = bytes.to_vec();
        unknown[0] = COUNT_UNKNOWN;
        assert_eq!(pairs(&unknown).map(|pairs| pairs.len()), Ok(2));
        let long = [&b"\x01\xfe\x2c\x01\0\0"[..], &[b'f'; 300], b"\x00\x00\xff"].concat();
        assert_eq!(pairs(&long), Ok(vec![(&[b'f'; 300][..], &b""[..])]));
        assert_eq!(pairs(b"\x00\xff"), Ok(vec![]));
    }

    #[test]
    fn what_is_no_zipmap_is_refused() {
        let bytes = b"\x02\x03foo\x03\x00bar\x01a\x02\x03hi...\xff";
        for end in 0..bytes.len() {
            assert!(pairs(&bytes[..end]).is_err());
            // One byte less than the whole, with its end put back, is the whole.
            let cut = [&bytes[..end], &[END]].concat();
            assert_eq!(pairs(&cut).is_err(), end < bytes.len() - 1, "ends at {end}");
        }
        for count in [0, 1, 3] {
            let mut wrong = bytes.to_vec();
            wrong[0] = count;
            assert!(pairs(&wrong).is_err());
        }
    }
}
