//! Byte strings as collections hand them out, and integers as text.

use std::ops::Deref;

/// A byte string handed out by a collection: a slice of it, or the text of an integer that is not stored as text.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Slice(&'a [u8]),
    Decimal(Decimal),
}

impl<'a> Bytes<'a> {
    pub(crate) fn slice(slice: &'a [u8]) -> Self {
        Bytes(Repr::Slice(slice))
    }

    pub(crate) fn integer(value: i64) -> Self {
        Bytes(Repr::Decimal(Decimal::new(value)))
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Slice(slice) => slice,
            Repr::Decimal(decimal) => decimal.as_slice(),
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl PartialEq<[u8]> for Bytes<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

/// An integer's decimal text, held in place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Decimal {
    text: [u8; 20],
    len: u8,
}

impl Decimal {
    pub(crate) fn new(value: i64) -> Self {
        let mut reversed = [0u8; 20];
        let mut digits = 0;
        let mut rest = value.unsigned_abs();
        loop {
            reversed[digits] = b'0' + (rest % 10) as u8;
            rest /= 10;
            digits += 1;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            reversed[digits] = b'-';
            digits += 1;
        }
        let mut decimal = Decimal { text: [0; 20], len: digits as u8 };
        for (to, from) in decimal.text.iter_mut().zip(reversed[..digits].iter().rev()) {
            *to = *from;
        }
        decimal
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }
}

/// The integer that `text` is the one canonical decimal form of: no sign but `-`, no leading zero, within 64 bits.
pub fn canonical_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}
