//! String values as commands see them.

use store::LongString;

/// A string value under its lock.
#[derive(Clone, Copy)]
pub enum Str<'a> {
    /// It lies in its entry.
    Inline(&'a [u8]),
    /// It is made of chunks.
    Long(&'a LongString),
}

impl<'a> Str<'a> {
    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Str::Inline(bytes) => bytes.len(),
            Str::Long(long) => long.len(),
        }
    }

    /// True for the empty string.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes, copied.
    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Str::Inline(bytes) => bytes.to_vec(),
            Str::Long(long) => long.to_vec(),
        }
    }

    /// The bytes from `start` up to and without `end`, copied; both within the string.
    pub fn range(self, start: usize, end: usize) -> Vec<u8> {
        match self {
            Str::Inline(bytes) => bytes[start..end].to_vec(),
            Str::Long(long) => long.read(start..end),
        }
    }

    /// The bytes if they lie in one piece: a number always does.
    #[inline]
    pub fn as_inline(self) -> Option<&'a [u8]> {
        match self {
            Str::Inline(bytes) => Some(bytes),
            Str::Long(_) => None,
        }
    }
}
