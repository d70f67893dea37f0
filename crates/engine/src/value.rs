//! String values as commands see them.

use std::ops::Range;

use base::limits::BYTES_PER_ELEMENT_OF_WORK;
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

    /// A copy that outlives the lock; O(1) for a long string.
    pub fn to_owned(self) -> OwnedStr {
        match self {
            Str::Inline(bytes) => OwnedStr::Short(bytes.into()),
            Str::Long(long) => OwnedStr::Long(long.clone()),
        }
    }

    /// The bytes of `range`, which is cut at the string's end, in the pieces in which they lie.
    pub fn pieces(self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let (mut at, end) = (range.start, range.end.min(self.len()));
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let piece = self.piece(at);
            let piece = &piece[..piece.len().min(end - at)];
            at += piece.len();
            Some(piece)
        })
    }

    /// The bytes from `at`, which must be below the length, to the end of the piece that it lies in.
    pub fn piece(self, at: usize) -> &'a [u8] {
        match self {
            Str::Inline(bytes) => &bytes[at..],
            Str::Long(long) => long.piece(at),
        }
    }

    /// `N` bytes from `at` on; zeros beyond the end.
    pub fn window<const N: usize>(self, at: usize) -> [u8; N] {
        let mut window = [0; N];
        let mut filled = 0;
        for piece in self.pieces(at..at.saturating_add(N)) {
            window[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        }
        window
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

/// A string value as it was when a command ran, good beyond the lock.
#[derive(Clone)]
pub enum OwnedStr {
    /// Its bytes.
    Short(Box<[u8]>),
    /// It is made of chunks, shared with the store.
    Long(LongString),
}

impl OwnedStr {
    /// To look at.
    pub fn as_str(&self) -> Str<'_> {
        match self {
            OwnedStr::Short(bytes) => Str::Inline(bytes),
            OwnedStr::Long(long) => Str::Long(long),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.as_str().len()
    }

    /// True for the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True only if nothing was written between the two copies.
    pub fn is_same(&self, other: &OwnedStr) -> bool {
        match (self, other) {
            (OwnedStr::Short(a), OwnedStr::Short(b)) => a == b,
            (OwnedStr::Long(a), OwnedStr::Long(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// What visiting all bytes costs, in elements of a collection.
    pub fn work(&self) -> usize {
        self.len() / BYTES_PER_ELEMENT_OF_WORK
    }
}
