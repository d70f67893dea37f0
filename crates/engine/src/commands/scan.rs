//! What SCAN, SSCAN, HSCAN and ZSCAN have in common: their arguments and the shape of their reply.

use base::glob;
use base::limits::BIG_INPUT_ELEMENTS;
use store::Kind;

use crate::args::{self, Args};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Elements that are visited unless another number is asked for.
const COUNT_DEFAULT: usize = 10;

/// What is scanned; decides on the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A database: knows TYPE.
    Keys,
    /// A hash: knows NOVALUES.
    Fields,
    /// A set or sorted set.
    Members,
}

/// What a scan is asked for, good beyond the command.
pub struct Options {
    /// Elements to visit, about. Bounded within one value, whatever the client asks for: it goes on with the cursor.
    pub count: usize,
    pattern: Option<Box<[u8]>>,
    kind: Option<Box<[u8]>>,
    /// Fields without their values.
    pub no_values: bool,
}

impl Options {
    /// MATCH pattern, COUNT count, TYPE type, NOVALUES, in any order.
    pub fn parse(args: Args<'_>, scanned: Scanned) -> CmdResult<Options> {
        let mut options = Options { count: COUNT_DEFAULT, pattern: None, kind: None, no_values: false };
        let mut at = 0;
        while let Some(word) = args.get(at) {
            if args::is(word, "NOVALUES") {
                if scanned != Scanned::Fields {
                    return Err(Fault::Text("ERR NOVALUES option can only be used in HSCAN"));
                }
                options.no_values = true;
                at += 1;
                continue;
            }
            let value = args.get(at + 1).ok_or(Fault::SYNTAX)?;
            if args::is(word, "COUNT") {
                let count = usize::try_from(args::int(value)?).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Fault::SYNTAX)?;
            } else if args::is(word, "MATCH") {
                options.pattern = (value != b"*").then(|| value.into());
            } else if args::is(word, "TYPE") && scanned == Scanned::Keys {
                options.kind = Some(value.to_ascii_lowercase().into());
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 2;
        }
        if scanned != Scanned::Keys {
            options.count = options.count.min(BIG_INPUT_ELEMENTS);
        }
        Ok(options)
    }

    /// True if the key, field or member is wanted.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name, false))
    }

    /// True if a key of this type is wanted.
    pub fn wants(&self, kind: Kind) -> bool {
        self.kind.as_ref().is_none_or(|wanted| **wanted == *kind.as_str().as_bytes())
    }
}

/// A cursor, read as C's `strtoul` does: leading zeros and a sign are taken, and a minus wraps around.
pub fn cursor(arg: &[u8]) -> CmdResult<u64> {
    let (negative, digits) = match arg {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() && !arg.is_empty() {
        return Err(Fault::INVALID_CURSOR);
    }
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        let next = value.checked_mul(10).and_then(|tens| tens.checked_add(digit.into()));
        value = next.filter(|_| digit <= 9).ok_or(Fault::INVALID_CURSOR)?;
    }
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// The next cursor and the `found` elements, already encoded.
pub fn reply(reply: &mut Reply<'_>, cursor: u64, found: usize, encoded: &[u8]) {
    reply.array(2);
    reply.text(&cursor.to_string());
    reply.array(found);
    reply.encoder().raw(encoded);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_strtoul_reads_them() {
        for (arg, expected) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("+1", Some(1)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" 1", None),
            ("1 ", None),
            ("0x10", None),
            ("x", None),
            ("-", None),
        ] {
            assert_eq!(cursor(arg.as_bytes()).ok(), expected, "{arg:?}");
        }
    }
}
