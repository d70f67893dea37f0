//! Memory that one thread appends to while others read what is there already.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A fixed number of bytes. Which of them are written, and so may be read and no more written, its owner knows.
pub(super) struct Segment {
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: bytes are accessed by `write` and `read` alone, whose contracts exclude a write beside any other access of
// the same byte; who reads learnt of the bytes under the lock that they were written under.
unsafe impl Sync for Segment {}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} bytes)", self.len())
    }
}

impl Segment {
    pub(super) fn new(bytes: usize) -> Arc<Segment> {
        let zeros = std::iter::repeat_with(|| UnsafeCell::new(0)).take(bytes);
        Arc::new(Segment { bytes: zeros.collect() })
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies `records` to `at`.
    ///
    /// # Safety
    /// The range lies within the segment, nobody else writes to it, and nobody reads it before this returns.
    #[inline]
    pub(super) unsafe fn write(&self, at: usize, records: &[u8]) {
        debug_assert!(at + records.len() <= self.bytes.len(), "written-once: a record outgrows its segment");
        let room = self.bytes.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the caller answers for the range, and the cells allow writing through a shared reference.
        unsafe { std::ptr::copy_nonoverlapping(records.as_ptr(), room.add(at), records.len()) }
    }

    /// The bytes of `range`.
    ///
    /// # Safety
    /// They have been written, which the caller knows by way of the writer's lock, and are not written again while the
    /// slice lives.
    #[inline]
    unsafe fn read(&self, range: Range<usize>) -> &[u8] {
        let cells = &self.bytes[range];
        // SAFETY: a cell has the layout of its content, and the caller excludes writes while the slice lives.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<u8>(), cells.len()) }
    }
}

/// Where a piece's bytes lie.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// Copied by the log.
    Segment(Arc<Segment>),
    /// Taken over.
    Whole(Arc<Box<[u8]>>),
}

impl Bytes {
    /// The bytes of `range`.
    ///
    /// # Safety
    /// The range is part of a piece that the caller found under the log's lock (*written-once*).
    #[inline]
    pub(super) unsafe fn read(&self, range: Range<usize>) -> &[u8] {
        match self {
            // SAFETY: a piece's bytes are written before the lock is let go of, and again only once its segment is
            // held by nobody else, not by `self` either.
            Bytes::Segment(segment) => unsafe { segment.read(range) },
            Bytes::Whole(record) => &record[range],
        }
    }
}
