//! A place in bytes that may go on later.

use std::fmt;

use crate::foreign::Unsupported;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes end within the value. Nothing is lost: read on from the same place when there are more.
    Short,
    /// The bytes are no value; the text says what is wrong with them.
    Corrupt(&'static str),
    /// The bytes are sound, and nothing that this codec knows.
    Unsupported(Unsupported),
}

impl fmt::Display for ReadError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Short => to.write_str("it ends too early"),
            ReadError::Corrupt(why) => to.write_str(why),
            ReadError::Unsupported(what) => what.fmt(to),
        }
    }
}

/// A place in a slice of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Bytes before the place.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The bytes after it.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// True at the end of the bytes that are there.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8], ReadError> {
        let len = usize::try_from(len).ok().filter(|len| *len <= self.bytes.len() - self.at);
        let start = self.at;
        self.at += len.ok_or(ReadError::Short)?;
        Ok(&self.bytes[start..self.at])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ReadError> {
        let [byte] = self.array()?;
        Ok(byte)
    }
}
