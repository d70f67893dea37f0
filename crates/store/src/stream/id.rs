//! Entry ids.

use std::fmt;

/// The id of an entry: a time in milliseconds, and a number that tells entries of one millisecond apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix milliseconds, by convention.
    pub ms: u64,
    /// Counts within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// An id of its two parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The id after this one, if there is one.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before this one, if there is one.
    pub fn prev(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::StreamId;

    #[test]
    fn neighbours() {
        let last_of_3 = StreamId::new(3, u64::MAX);
        assert_eq!(last_of_3.next(), Some(StreamId::new(4, 0)));
        assert_eq!(StreamId::new(4, 0).prev(), Some(last_of_3));
        assert_eq!(StreamId::new(4, 7).next(), Some(StreamId::new(4, 8)));
        assert_eq!(StreamId::new(4, 7).prev(), Some(StreamId::new(4, 6)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.prev()), (None, None));
        assert!(last_of_3 < StreamId::new(4, 0));
        assert_eq!(last_of_3.to_string(), "3-18446744073709551615");
    }
}
