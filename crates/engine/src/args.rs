//! Reading arguments.

use crate::fault::{CmdResult, Fault};

pub use resp::Args;

/// An integer argument.
#[inline]
pub fn int(arg: &[u8]) -> CmdResult<i64> {
    base::num::parse_i64(arg).ok_or(Fault::NOT_INTEGER)
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

/// A database number.
pub fn db_index(arg: &[u8], databases: usize) -> CmdResult<usize> {
    match usize::try_from(int32(arg)?) {
        Ok(db) if db < databases => Ok(db),
        _ => Err(Fault::DB_OUT_OF_RANGE),
    }
}
