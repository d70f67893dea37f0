//! Intsets: sorted integers of one width.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | bytes of an integer: 2, 4 or 8, little-endian |
//! | 4 | integers, little-endian |
//! | | the integers, ascending, little-endian |

use crate::cursor::{Cursor, ReadError};

const BROKEN: ReadError = ReadError::Corrupt("an intset that does not hold together");

/// The integers of an intset, which are distinct and ascending; checked while they are read.
pub(crate) fn integers(bytes: &[u8]) -> Result<impl Iterator<Item = Result<i64, ReadError>>, ReadError> {
    let mut header = Cursor::new(bytes);
    let shorter = |_| BROKEN;
    let width = u32::from_le_bytes(header.array().map_err(shorter)?) as usize;
    let count = u32::from_le_bytes(header.array().map_err(shorter)?) as usize;
    if !matches!(width, 2 | 4 | 8) || header.rest().len() != width * count {
        return Err(BROKEN);
    }
    let mut last = None;
    Ok(header.rest().chunks_exact(width).map(move |bytes| {
        let mut sign_extended = if bytes[width - 1] & 0x80 == 0 { [0; 8] } else { [0xff; 8] };
        sign_extended[..width].copy_from_slice(bytes);
        let number = i64::from_le_bytes(sign_extended);
        if last.replace(number).is_some_and(|last| last >= number) { Err(BROKEN) } else { Ok(number) }
    }))
}

/// The intset of ascending integers.
pub(crate) fn intset_of(numbers: &[i64]) -> Vec<u8> {
    let fits =
        |bits: u32| numbers.iter().all(|number| number >> (bits - 1) == 0 || number >> (bits - 1) == -1);
    let width: usize = [16, 32].into_iter().find(|bits| fits(*bits)).unwrap_or(64) as usize / 8;
    let mut bytes = Vec::with_capacity(8 + numbers.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..width]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<i64>, ReadError> {
        integers(bytes)?.collect()
    }

    #[test]
    fn integers_come_back_in_the_least_width() {
        for (numbers, width) in [
            (vec![-32_768, 0, 32_767], 2),
            (vec![-32_769, 5], 4),
            (vec![5, 32_768], 4),
            (vec![i64::from(i32::MIN), i64::from(i32::MAX)], 4),
            (vec![1, i64::from(i32::MAX) + 1], 8),
            (vec![i64::MIN, i64::MAX], 8),
            (vec![], 2),
        ] {
            let bytes = intset_of(&numbers);
            assert_eq!(bytes.len(), 8 + width * numbers.len());
            assert_eq!(read(&bytes), Ok(numbers));
        }
    }

    #[test]
    fn what_is_no_intset_is_refused() {
        let bytes = intset_of(&[1, 2, 3]);
        assert!((0..bytes.len()).all(|end| read(&bytes[..end]).is_err()));
        let mut wide = bytes.clone();
        wide[0] = 3;
        assert!(read(&wide).is_err());
        assert!(read(&intset_of(&[1, 1])).is_err());
        assert!(read(&intset_of(&[2, 1])).is_err());
    }
}
