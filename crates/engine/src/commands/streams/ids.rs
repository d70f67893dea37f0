//! Entry ids, as clients write them and as replies show them.

use base::num::{format_u64, parse_i64};
use store::StreamId;

use crate::fault::{CmdResult, Fault};

/// Longest text that may be an id, in bytes.
const ID_TEXT_BYTES_MAX: usize = 127;
/// Two numbers of 20 digits and what parts them.
const SHOWN_BYTES_MAX: usize = 41;

const INVALID: Fault = Fault::Text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Fault = Fault::Text("ERR invalid start ID for the interval");
const INVALID_END: Fault = Fault::Text("ERR invalid end ID for the interval");

/// The id that XADD is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: the time, or what follows the last id.
    Auto,
    /// `ms-*`: the next of this millisecond.
    AutoSeq(u64),
    /// A whole id.
    Exact(StreamId),
}

/// An id: `ms-seq`, or `ms`, which stands for `ms-missing_seq`.
pub(super) fn parse(arg: &[u8], missing_seq: u64) -> CmdResult<StreamId> {
    // As Redis, which copies the text as a C string: what follows a NUL is not seen.
    let text = match arg.iter().position(|byte| *byte == 0) {
        _ if arg.len() > ID_TEXT_BYTES_MAX => return Err(INVALID),
        Some(end) => &arg[..end],
        None => arg,
    };
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (number(&text[..at]), number(&text[at + 1..])),
        None => (number(text), Some(missing_seq)),
    };
    Ok(StreamId::new(ms.ok_or(INVALID)?, seq.ok_or(INVALID)?))
}

/// One part of an id: a whole number as Redis prints it, or whatever C's `strtoull` reads to the end.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let (is_negative, digits) = match &text[spaces..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

/// As [`parse`], or `-` and `+` for the least and the greatest.
pub(super) fn parse_or_edge(arg: &[u8], missing_seq: u64) -> CmdResult<StreamId> {
    match arg {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        arg => parse(arg, missing_seq),
    }
}

/// Several ids, all of which must be whole or stand for the first of their millisecond.
pub(super) fn parse_all<'a>(args: impl Iterator<Item = &'a [u8]>) -> CmdResult<Vec<StreamId>> {
    args.map(|arg| parse(arg, 0)).collect()
}

/// The id of a new entry.
pub(super) fn parse_new(arg: &[u8]) -> CmdResult<NewId> {
    if arg == b"*" {
        return Ok(NewId::Auto);
    }
    match arg.strip_suffix(b"-*") {
        Some(ms) if !ms.contains(&b'-') && arg.len() <= ID_TEXT_BYTES_MAX => {
            number(ms).map(NewId::AutoSeq).ok_or(INVALID)
        }
        _ => parse(arg, 0).map(NewId::Exact),
    }
}

/// The first id of an interval. After a `(` it is not in it.
pub(super) fn parse_start(arg: &[u8]) -> CmdResult<StreamId> {
    match arg {
        [b'(', id @ ..] if !id.is_empty() => parse(id, 0)?.next().ok_or(INVALID_START),
        _ => parse_or_edge(arg, 0),
    }
}

/// The last id of an interval. After a `(` it is not in it.
pub(super) fn parse_end(arg: &[u8]) -> CmdResult<StreamId> {
    match arg {
        [b'(', id @ ..] if !id.is_empty() => parse(id, u64::MAX)?.prev().ok_or(INVALID_END),
        _ => parse_or_edge(arg, u64::MAX),
    }
}

/// An id's text.
pub(super) struct Shown {
    text: [u8; SHOWN_BYTES_MAX],
    len: usize,
}

impl Shown {
    pub(super) fn new(id: StreamId) -> Shown {
        let mut shown = Shown { text: [b'-'; SHOWN_BYTES_MAX], len: 0 };
        let mut digits = [0; 20];
        for number in [id.ms, id.seq] {
            let digits = format_u64(number, &mut digits);
            shown.text[shown.len..shown.len + digits.len()].copy_from_slice(digits);
            shown.len += digits.len() + 1;
        }
        shown.len -= 1;
        shown
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> Option<StreamId> {
        Some(StreamId::new(ms, seq))
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (arg, expected) in [
            ("1-2", id(1, 2)),
            ("7", id(7, 9)),
            ("0-0", id(0, 0)),
            ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
            ("18446744073709551616-0", None),
            ("-", None),
            ("+", None),
            ("1-", None),
            ("-1", None),
            ("1-2-3", None),
            ("01-2", id(1, 2)),
            (" +1-\t02", id(1, 2)),
            ("1--01", id(1, u64::MAX)),
            ("1--1", None),
            ("1 -2", None),
            ("1-+", None),
            ("1-*", None),
            ("", None),
            ("1-2\0x", id(1, 2)),
        ] {
            assert_eq!(parse(arg.as_bytes(), 9).ok(), expected, "{arg:?}");
        }
        assert!(parse(&[b'1'; 128], 0).is_err());
    }

    #[test]
    fn intervals_may_be_open() {
        for (arg, start, end) in [
            ("-", Some(StreamId::MIN), Some(StreamId::MIN)),
            ("+", Some(StreamId::MAX), Some(StreamId::MAX)),
            ("5", id(5, 0), id(5, u64::MAX)),
            ("(5", id(5, 1), id(5, u64::MAX - 1)),
            ("(5-0", id(5, 1), id(4, u64::MAX)),
            ("(5-18446744073709551615", id(6, 0), id(5, u64::MAX - 1)),
            ("(0-0", id(0, 1), None),
            ("(18446744073709551615-18446744073709551615", None, id(u64::MAX, u64::MAX - 1)),
            ("(-", None, None),
            ("(+", None, None),
            ("(", None, None),
        ] {
            assert_eq!(parse_start(arg.as_bytes()).ok(), start, "{arg:?} as a start");
            assert_eq!(parse_end(arg.as_bytes()).ok(), end, "{arg:?} as an end");
        }
    }

    #[test]
    fn new_ids() {
        for (arg, expected) in [
            ("*", Some(NewId::Auto)),
            ("5-*", Some(NewId::AutoSeq(5))),
            ("5", Some(NewId::Exact(StreamId::new(5, 0)))),
            ("-*", None),
            ("5-5-*", None),
            ("-", None),
            ("+", None),
        ] {
            assert_eq!(parse_new(arg.as_bytes()).ok(), expected, "{arg:?}");
        }
    }

    #[test]
    fn shown_as_two_numbers() {
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_700_000_000_000, 3)] {
            assert_eq!(Shown::new(id).as_bytes(), id.to_string().as_bytes());
        }
    }
}
