//! What the log says of records that come with their slot from another node, or go with it: `PING halcyon-slot-move` stands before
//! each. No client has done what they say, so neither this server nor its replicas tell of it by keyspace events.
//!
//! The mark and its record are appended together. Whoever does not know it takes it for any other PING.

use resp::Args;

/// The mark, as it stands in the log.
pub(crate) const MARK: &[u8] = b"*2\r\n$4\r\nPING\r\n$17\r\nhalcyon-slot-move\r\n";
/// What it says.
const TEXT: &[u8] = b"halcyon-slot-move";

/// True if this PING is such a mark.
pub(crate) fn is_mark(args: Args<'_>) -> bool {
    args.get(1).is_some_and(|text| text == TEXT)
}

#[cfg(test)]
mod tests {
    use resp::{Batch, DecodeLimits, Decoder};

    use super::*;

    fn is_one(record: &[u8]) -> bool {
        let mut batch = Batch::new();
        let read = Decoder::new().decode(record, &DecodeLimits::default(), 1, &mut batch);
        assert_eq!(read.expect("a command"), record.len());
        is_mark(batch.command(0, record))
    }

    #[test]
    fn a_mark_is_a_ping_and_no_other_ping_is_one() {
        assert!(is_one(MARK) && MARK.starts_with(b"*2\r\n$4\r\nPING\r\n"));
        assert!(!is_one(b"*1\r\n$4\r\nPING\r\n"));
        assert!(!is_one(b"*2\r\n$4\r\nPING\r\n$4\r\nhalc\r\n"));
    }
}
