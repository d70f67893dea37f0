//! Finds where replies end, without making anything of them: for who passes them on as they come.

/// What stands before a reply is longer than any number is.
const NUMBER_BYTES_MAX: usize = 20;

/// The bytes are no reply, or one that is never sent in answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReply;

/// How far the reply at the front is known. It takes bytes in any pieces, and keeps none.
#[derive(Debug)]
pub struct ReplyScanner {
    /// Values that are still to come, the one that is being read included.
    wanted: u64,
    at: At,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// A value begins.
    Type,
    /// In a line without meaning.
    Line,
    /// After the `\r` of one.
    LineEnd,
    /// In the number after the type `kind`.
    Number { kind: u8, value: u64, digits: usize, is_null: bool },
    /// After the `\r` of one.
    NumberEnd { kind: u8, value: u64, is_null: bool },
    /// In a string and the line end behind it, of which so many bytes are to come.
    Bytes(u64),
}

impl Default for ReplyScanner {
    fn default() -> ReplyScanner {
        ReplyScanner { wanted: 1, at: At::Type }
    }
}

impl ReplyScanner {
    /// Takes bytes up to the end of the reply at the front. Returns how many these are, and whether that end was reached; if
    /// it was, the next byte is the next reply's first.
    pub fn scan(&mut self, input: &[u8]) -> Result<(usize, bool), NoReply> {
        let mut used = 0;
        while used < input.len() {
            used += self.step(&input[used..])?;
            if self.wanted == 0 {
                *self = ReplyScanner::default();
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// Takes at least a byte.
    fn step(&mut self, input: &[u8]) -> Result<usize, NoReply> {
        let byte = input[0];
        match self.at {
            At::Type => self.at = begin(byte)?,
            At::Line => {
                let Some(end) = input.iter().position(|byte| *byte == b'\r') else { return Ok(input.len()) };
                self.at = At::LineEnd;
                return Ok(end + 1);
            }
            At::LineEnd if byte == b'\n' => self.end_value(),
            // A `\r` that ended nothing.
            At::LineEnd => self.at = if byte == b'\r' { At::LineEnd } else { At::Line },
            At::Number { kind, value, digits, is_null } => match byte {
                b'\r' if digits > 0 => self.at = At::NumberEnd { kind, value, is_null },
                b'-' if digits == 0 && !is_null => {
                    self.at = At::Number { kind, value, digits, is_null: true }
                }
                b'0'..=b'9' if digits < NUMBER_BYTES_MAX => {
                    let value =
                        value.checked_mul(10).and_then(|value| value.checked_add((byte - b'0').into()));
                    self.at = At::Number { kind, value: value.ok_or(NoReply)?, digits: digits + 1, is_null };
                }
                _ => return Err(NoReply),
            },
            At::NumberEnd { kind, value, is_null } if byte == b'\n' => self.open(kind, value, is_null)?,
            At::NumberEnd { .. } => return Err(NoReply),
            At::Bytes(left) => {
                let count = left.min(input.len() as u64);
                match left - count {
                    0 => self.end_value(),
                    left => self.at = At::Bytes(left),
                }
                return Ok(count as usize);
            }
        }
        Ok(1)
    }

    fn end_value(&mut self) {
        self.wanted -= 1;
        self.at = At::Type;
    }

    /// What the number after a type says of what follows.
    fn open(&mut self, kind: u8, value: u64, is_null: bool) -> Result<(), NoReply> {
        if is_null {
            self.end_value();
            return Ok(());
        }
        match kind {
            b'$' | b'=' | b'!' => {
                self.at = At::Bytes(value.checked_add(2).ok_or(NoReply)?);
                return Ok(());
            }
            b'*' | b'~' => self.wanted = self.wanted.checked_add(value).ok_or(NoReply)?,
            // Pairs.
            b'%' => {
                let values = value.checked_mul(2).and_then(|values| self.wanted.checked_add(values));
                self.wanted = values.ok_or(NoReply)?;
            }
            // Attributes: the value itself comes after them.
            _ => {
                let values = value.checked_mul(2).and_then(|values| self.wanted.checked_add(values));
                self.wanted = values.and_then(|values| values.checked_add(1)).ok_or(NoReply)?;
            }
        }
        self.end_value();
        Ok(())
    }
}

fn begin(kind: u8) -> Result<At, NoReply> {
    match kind {
        b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => Ok(At::Line),
        b'$' | b'=' | b'!' | b'*' | b'~' | b'%' | b'|' => {
            Ok(At::Number { kind, value: 0, digits: 0, is_null: false })
        }
        _ => Err(NoReply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "-ERR a b\r\n",
        ":-12\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*2\r\n:1\r\n$1\r\nx\r\n+a\r\n",
        "%2\r\n+a\r\n*0\r\n+b\r\n~1\r\n:1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123\r\n",
        "=6\r\ntxt:ab\r\n",
        "!3\r\nERR\r\n",
        "|1\r\n+k\r\n+v\r\n*1\r\n+x\r\n",
    ];

    #[test]
    fn each_reply_ends_where_it_ends_in_whatever_pieces_it_comes() {
        let all: String = REPLIES.concat();
        for piece in 1..=all.len() {
            let (mut scanner, mut ends, mut at) = (ReplyScanner::default(), Vec::new(), 0);
            for chunk in all.as_bytes().chunks(piece) {
                let mut rest = chunk;
                while !rest.is_empty() {
                    let (used, is_whole) = scanner.scan(rest).expect("replies");
                    assert!(used > 0);
                    at += used;
                    if is_whole {
                        ends.push(at);
                    }
                    rest = &rest[used..];
                }
            }
            let mut end = 0;
            let expected = REPLIES.iter().map(|reply| {
                end += reply.len();
                end
            });
            assert_eq!(ends, expected.collect::<Vec<_>>(), "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let huge = format!("%{}\r\n", u64::MAX);
        for bytes in ["hello\r\n", ">1\r\n+a\r\n", "$?\r\n", "$\r\n", "$1x\r\n", "$1\rx", "*--1\r\n", &huge] {
            assert_eq!(ReplyScanner::default().scan(bytes.as_bytes()), Err(NoReply), "{bytes}");
        }
    }
}
