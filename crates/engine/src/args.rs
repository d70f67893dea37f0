//! Reading arguments.

use std::ops::Range;

use crate::fault::{CmdResult, Fault};

pub use resp::Args;

/// An integer argument.
#[inline]
pub fn int(arg: &[u8]) -> CmdResult<i64> {
    base::num::parse_i64(arg).ok_or(Fault::NOT_INTEGER)
}

/// A whole number from 0 on; anything else is the `fault`.
pub fn natural(arg: &[u8], fault: Fault) -> CmdResult<usize> {
    base::num::parse_i64(arg).and_then(|number| usize::try_from(number).ok()).ok_or(fault)
}

/// A whole number from 1 on; anything else is the `fault`.
pub fn positive(arg: &[u8], fault: Fault) -> CmdResult<usize> {
    match natural(arg, Fault::NOT_POSITIVE) {
        Ok(number @ 1..) => Ok(number),
        _ => Err(fault),
    }
}

/// A float argument; NaN is none, infinities are.
#[inline]
pub fn float(arg: &[u8]) -> CmdResult<f64> {
    base::num::parse_f64(arg).ok_or(Fault::NOT_FLOAT)
}

/// True if the argument is this word, in any case.
#[inline]
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// An integer argument of 32 bits.
pub fn int32(arg: &[u8]) -> CmdResult<i32> {
    i32::try_from(int(arg)?).map_err(|_| Fault::NOT_INT32)
}

/// Seconds to wait, as BLPOP takes them, in microseconds; `None` (0 seconds) is for ever. Redis waits whole milliseconds.
pub fn timeout_s(arg: &[u8]) -> CmdResult<Option<u64>> {
    let seconds =
        base::num::parse_f64(arg).ok_or(Fault::Text("ERR timeout is not a float or out of range"))?;
    let ms = (seconds * 1000.0).ceil();
    if ms > i64::MAX as f64 {
        return Err(Fault::Text("ERR timeout is out of range"));
    }
    patience(ms as i64)
}

/// Milliseconds to wait, as XREAD takes them, in microseconds; `None` (0) is for ever.
pub fn timeout_ms(arg: &[u8]) -> CmdResult<Option<u64>> {
    let ms = base::num::parse_i64(arg).ok_or(Fault::Text("ERR timeout is not an integer or out of range"))?;
    patience(ms)
}

fn patience(ms: i64) -> CmdResult<Option<u64>> {
    match ms {
        ..0 => Err(Fault::Text("ERR timeout is negative")),
        0 => Ok(None),
        1.. => Ok(Some((ms as u64).saturating_mul(1000))),
    }
}

/// A database number.
pub fn db_index(arg: &[u8], databases: usize) -> CmdResult<usize> {
    match usize::try_from(int32(arg)?) {
        Ok(db) if db < databases => Ok(db),
        _ => Err(Fault::DB_OUT_OF_RANGE),
    }
}

/// Where an index that may count from the end points to; may lie outside of the `len` elements.
pub fn absolute_index(index: i64, len: usize) -> i64 {
    if index < 0 { index.saturating_add(len as i64) } else { index }
}

/// The part of `start..=stop` that lies within `len` elements; both may count from the end.
pub fn index_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = absolute_index(start, len).max(0);
    let stop = absolute_index(stop, len).min(len as i64 - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}
