//! Writing into strings in place, whatever form they are kept in.

use store::entry::{INLINE_BYTES_MAX, OwnedEntry, OwnedValue};
use store::{LongString, Value};

use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::value::Str;

/// A string that is being edited.
pub(super) enum Bytes<'a> {
    Short(&'a mut [u8]),
    Long(&'a mut LongString),
}

impl Bytes<'_> {
    pub(super) fn as_str(&self) -> Str<'_> {
        match self {
            Bytes::Short(bytes) => Str::Inline(bytes),
            Bytes::Long(long) => Str::Long(long),
        }
    }

    /// `N` bytes from `at` on; zeros beyond the end.
    pub(super) fn window<const N: usize>(&self, at: usize) -> [u8; N] {
        self.as_str().window(at)
    }

    /// Overwrites the bytes from `at` on; they must be there.
    pub(super) fn write(&mut self, at: usize, patch: &[u8]) {
        match self {
            Bytes::Short(bytes) => bytes[at..at + patch.len()].copy_from_slice(patch),
            Bytes::Long(long) => long.write_at(at, patch),
        }
    }
}

/// Changes a string in place, made at least `length_bytes_min` long with zero bytes first; no key is the empty string.
/// The time to live stays. `change` is told whether the string has grown.
pub(super) fn edit<R>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    length_bytes_min: usize,
    change: impl FnOnce(&mut Bytes<'_>, bool) -> R,
) -> CmdResult<R> {
    let mut short = match ctx.peek_str(key)? {
        None => Vec::new(),
        Some(Str::Inline(bytes)) => bytes.to_vec(),
        Some(Str::Long(_)) => {
            let result = ctx.edit_long(key, |long| change_long(long, length_bytes_min, change));
            return Ok(result.expect("locked-set: the string just seen is still there"));
        }
    };
    if length_bytes_min <= INLINE_BYTES_MAX {
        let grew = short.len() < length_bytes_min;
        short.resize(short.len().max(length_bytes_min), 0);
        let result = change(&mut Bytes::Short(&mut short), grew);
        ctx.put_raw_str(key, &short);
        return Ok(result);
    }
    let mut long = LongString::from_slice(&short);
    let result = change_long(&mut long, length_bytes_min, change);
    let expire_at_ms = ctx.expire_at_ms(key).flatten();
    let value = OwnedValue::Object(Value::Str(long));
    ctx.put_entry(ctx.db(), key, &OwnedEntry { value, expire_at_ms });
    Ok(result)
}

fn change_long<R>(
    long: &mut LongString,
    length_bytes_min: usize,
    change: impl FnOnce(&mut Bytes<'_>, bool) -> R,
) -> R {
    let missing = length_bytes_min.saturating_sub(long.len());
    long.append_zeros(missing);
    change(&mut Bytes::Long(long), missing > 0)
}
