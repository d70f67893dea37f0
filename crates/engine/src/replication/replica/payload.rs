//! How a primary sends all its data: a line, then a file of a length that is known (`$<bytes>`), or one that ends with 40
//! bytes which were named before (`$EOF:<40 bytes>`). Bytes in, bytes out.

/// Length of the mark that ends a file of unknown length.
const MARK_BYTES: usize = 40;

/// A file that is being received.
#[derive(Debug)]
pub enum Payload {
    /// So many bytes are still to come.
    Sized(u64),
    /// It ends with `mark`; `held` is what may be a part of that.
    Marked {
        /// The 40 bytes.
        mark: [u8; MARK_BYTES],
        /// The last bytes so far, up to 40.
        held: Vec<u8>,
    },
}

impl Payload {
    /// What the line announces, which has no end. The error is for the log.
    pub fn announced(line: &[u8]) -> Result<Payload, String> {
        let shown = || String::from_utf8_lossy(line).into_owned();
        if line.starts_with(b"-") {
            return Err(format!("MASTER aborted replication with an error: {}", &shown()[1..]));
        }
        if let Some(mark) = line.strip_prefix(b"$EOF:") {
            let mark =
                mark.try_into().map_err(|_| format!("Bad mark of the end from MASTER: {}", shown()))?;
            return Ok(Payload::Marked { mark, held: Vec::with_capacity(MARK_BYTES) });
        }
        let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
        let bytes = length.and_then(|digits| digits.parse().ok());
        bytes.map(Payload::Sized).ok_or_else(|| {
            format!("Bad protocol from MASTER, the first byte is not '$' (we received '{}'), are you sure the host and port are right?", shown())
        })
    }

    /// The length, if it is known beforehand.
    pub fn total_bytes(&self) -> Option<u64> {
        match self {
            Payload::Sized(bytes) => Some(*bytes),
            Payload::Marked { .. } => None,
        }
    }

    /// Takes bytes from the front of `input`, and appends to `file` those that are certainly the file's. How many were
    /// taken, and whether the file is whole. Nothing follows a mark before the replica has acknowledged the file.
    pub fn take(&mut self, input: &[u8], file: &mut Vec<u8>) -> (usize, bool) {
        match self {
            Payload::Sized(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                file.extend_from_slice(&input[..taken]);
                *left -= taken as u64;
                (taken, *left == 0)
            }
            Payload::Marked { mark, held } => {
                let start = file.len();
                file.append(held);
                file.extend_from_slice(input);
                let kept = file.len().saturating_sub(MARK_BYTES).max(start);
                held.extend_from_slice(&file[kept..]);
                file.truncate(kept);
                (input.len(), held[..] == mark[..])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is received in pieces of `piece` bytes, and how much of the input that took.
    fn receive(line: &[u8], input: &[u8], piece: usize) -> Option<(Vec<u8>, usize)> {
        let mut payload = Payload::announced(line).expect("a good line");
        let (mut file, mut at) = (Vec::new(), 0);
        while at < input.len() {
            let end = (at + piece).min(input.len());
            let (taken, is_whole) = payload.take(&input[at..end], &mut file);
            at += taken;
            if is_whole {
                return Some((file, at));
            }
        }
        None
    }

    #[test]
    fn a_file_of_known_length_leaves_what_follows_it() {
        for piece in 1..20 {
            assert_eq!(receive(b"$5", b"REDIS*1\r\n", piece), Some((b"REDIS".to_vec(), 5)));
            assert_eq!(receive(b"$10", b"REDIS", piece), None);
        }
        assert_eq!(Payload::announced(b"$5").expect("good").total_bytes(), Some(5));
    }

    #[test]
    fn a_file_with_a_mark_ends_there() {
        let mark = [b'm'; MARK_BYTES];
        let line = [b"$EOF:".as_slice(), &mark].concat();
        for file in [&b""[..], b"R", b"REDIS0010 and much more than forty bytes, so that some are passed on"]
        {
            let sent = [file, &mark].concat();
            for piece in 1..sent.len() + 1 {
                assert_eq!(receive(&line, &sent, piece), Some((file.to_vec(), sent.len())), "by {piece}");
            }
            assert_eq!(receive(&line, &sent[..sent.len() - 1], 7), None);
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for (line, reason) in [
            (&b"-ERR no"[..], "MASTER aborted replication with an error: ERR no"),
            (b"*1", "Bad protocol from MASTER"),
            (b"$x", "Bad protocol"),
            (b"$EOF:short", "Bad mark"),
        ] {
            let refused = Payload::announced(line).expect_err("a bad line");
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
