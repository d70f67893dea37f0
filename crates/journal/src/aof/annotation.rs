//! The lines of an append-only file that are no commands.

use std::io::IoSlice;

use rdb::crc64;

const SUM: &str = "#SUM:";
const AT: &str = "#AT:";
const CUT: &str = "#CUT:";
const TIMESTAMP: &str = "#TS:";

/// What a `#SUM` line says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// So many bytes follow the line that were written together.
    pub(crate) bytes: u64,
    /// The file was safe up to here then.
    pub(crate) synced: u64,
    /// Of the two numbers as text and of the bytes.
    pub(crate) crc: u64,
}

/// A line, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    Sum(Sum),
    At(u64),
    Cut(u64),
    Timestamp(i64),
    /// Passed over.
    Other,
}

impl Annotation {
    /// Reads a line, without its end. None: it starts like one of ours, but does not go on so.
    pub(super) fn parse(line: &[u8]) -> Option<Annotation> {
        let Ok(text) = std::str::from_utf8(line) else { return Some(Annotation::Other) };
        let text = text.trim_ascii_end();
        if let Some(rest) = text.strip_prefix(SUM) {
            let mut fields = rest.split(':');
            let bytes = fields.next()?.parse().ok()?;
            let synced = fields.next()?.parse().ok()?;
            let crc = fields.next().filter(|crc| crc.len() == 16)?;
            let crc = u64::from_str_radix(crc, 16).ok()?;
            return fields.next().is_none().then_some(Annotation::Sum(Sum { bytes, synced, crc }));
        }
        if let Some(rest) = text.strip_prefix(AT) {
            return rest.parse().ok().map(Annotation::At);
        }
        if let Some(rest) = text.strip_prefix(CUT) {
            return rest.parse().ok().map(Annotation::Cut);
        }
        let time = text.strip_prefix(TIMESTAMP).and_then(|rest| rest.parse().ok());
        Some(time.map_or(Annotation::Other, Annotation::Timestamp))
    }
}

impl Sum {
    /// Whether `bytes` are what was written.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.bytes
            && crc_of(self.bytes, self.synced, &[IoSlice::new(bytes)]) == self.crc
    }

    /// Appends the line.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            format!("{SUM}{}:{}:{:016x}\r\n", self.bytes, self.synced, self.crc).as_bytes(),
        );
    }
}

/// The sum of what is about to be written.
pub(crate) fn sum_of(pieces: &[IoSlice<'_>], synced: u64) -> Sum {
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    Sum { bytes, synced, crc: crc_of(bytes, synced, pieces) }
}

fn crc_of(bytes: u64, synced: u64, pieces: &[IoSlice<'_>]) -> u64 {
    let start = crc64::update(0, format!("{bytes}:{synced}:").as_bytes());
    pieces.iter().fold(start, |crc, piece| crc64::update(crc, piece))
}

/// Appends a `#TS` line.
pub fn put_timestamp(out: &mut Vec<u8>, unix_s: i64) {
    out.extend_from_slice(format!("{TIMESTAMP}{unix_s}\r\n").as_bytes());
}

/// Appends an `#AT` line.
pub fn put_at(out: &mut Vec<u8>, offset: u64) {
    out.extend_from_slice(format!("{AT}{offset}\r\n").as_bytes());
}

/// Appends a `#CUT` line for the `#SUM` line at `position`.
pub fn put_cut(out: &mut Vec<u8>, position: u64) {
    out.extend_from_slice(format!("{CUT}{position}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let sum = sum_of(&[IoSlice::new(b"ab"), IoSlice::new(b"c")], 77);
        assert!(sum.is_of(b"abc") && !sum.is_of(b"abd") && !sum.is_of(b"ab"));
        assert!(!Sum { synced: 78, ..sum }.is_of(b"abc"), "the line is covered, too");
        let mut line = Vec::new();
        sum.put(&mut line);
        assert_eq!(Annotation::parse(&line), Some(Annotation::Sum(sum)));
        line.clear();
        put_cut(&mut line, 12);
        assert_eq!(Annotation::parse(&line), Some(Annotation::Cut(12)));
        line.clear();
        put_at(&mut line, 30);
        assert_eq!(Annotation::parse(&line), Some(Annotation::At(30)));
        line.clear();
        put_timestamp(&mut line, 1_700_000_000);
        assert_eq!(line, b"#TS:1700000000\r\n");
        assert_eq!(Annotation::parse(&line), Some(Annotation::Timestamp(1_700_000_000)));
        for other in ["#", "# remark", "#TS:soon", "#SUMMARY"] {
            assert_eq!(Annotation::parse(other.as_bytes()), Some(Annotation::Other), "{other}");
        }
        for broken in [
            "#SUM:1:2:3",
            "#SUM:1:2",
            "#SUM:x:2:0123456789abcdef",
            "#CUT:",
            "#AT:",
            "#SUM:1:2:0123456789abcdef:",
        ] {
            assert_eq!(Annotation::parse(broken.as_bytes()), None, "{broken}");
        }
    }
}
