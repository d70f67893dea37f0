//! What SSCAN, HSCAN and ZSCAN have in common: their arguments and the shape of their reply.

use base::glob;
use base::limits::BIG_INPUT_ELEMENTS;

use crate::args::{self, Args};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What a scan of one collection is asked for.
pub struct Options<'a> {
    /// Elements to visit, about. Bounded, whatever the client asks for: it goes on with the cursor.
    pub count: usize,
    pattern: Option<&'a [u8]>,
    /// Fields without their values.
    pub no_values: bool,
}

impl Options<'_> {
    /// True if the element is wanted.
    pub fn matches(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element, false))
    }
}

/// A cursor: as `strtoul` reads it, so that a sign is allowed and a minus wraps around.
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

/// MATCH pattern, COUNT count, NOVALUES, in any order.
pub fn options(args: Args<'_>) -> CmdResult<Options<'_>> {
    let mut options = Options { count: 10, pattern: None, no_values: false };
    let mut at = 0;
    while at < args.len() {
        let value = args.get(at + 1);
        match value {
            Some(value) if args::is(args.at(at), "COUNT") => {
                let count = args::int(value)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Fault::SYNTAX)?;
                options.count = count.min(BIG_INPUT_ELEMENTS);
                at += 2;
            }
            Some(pattern) if args::is(args.at(at), "MATCH") => {
                options.pattern = (pattern != b"*").then_some(pattern);
                at += 2;
            }
            _ if args::is(args.at(at), "NOVALUES") => {
                options.no_values = true;
                at += 1;
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    Ok(options)
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
