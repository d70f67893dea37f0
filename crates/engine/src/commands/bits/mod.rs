//! Strings as arrays of bits: SETBIT and GETBIT. Bit 0 is the highest bit of the first byte.
//!
//! Specified by Redis's `bitops.c`. A string may be half a gigabyte: a bit costs the chunk that it lies in, and work
//! on whole strings moves to the long lane.

mod combine;
mod count;
mod field;
mod string;

use base::num::parse_i64;

use crate::args::Args;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub(crate) use combine::bitop;
pub(crate) use count::{bitcount, bitpos};
pub(crate) use field::{bitfield, bitfield_ro};
use string::edit;

const BAD_OFFSET: Fault = Fault::Text("ERR bit offset is not an integer or out of range");
const BAD_BIT: Fault = Fault::Text("ERR bit is not an integer or out of range");

/// The place of a bit: at most `proto-max-bulk-len` bytes into the string.
fn bit_offset(ctx: &Ctx<'_>, arg: &[u8]) -> CmdResult<u64> {
    check_offset(ctx, parse_i64(arg))
}

fn check_offset(ctx: &Ctx<'_>, offset: Option<i64>) -> CmdResult<u64> {
    let bytes_max = ctx.server().config.hot().proto_max_bulk_bytes();
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset >> 3 < bytes_max).ok_or(BAD_OFFSET)
}

/// The byte that a bit lies in, and the mask of the bit there.
fn place(offset: u64) -> (usize, u8) {
    ((offset >> 3) as usize, 0x80 >> (offset & 7))
}

/// SETBIT key offset value
pub(crate) fn setbit(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let key = &args[1];
    let (at, mask) = place(bit_offset(ctx, &args[2])?);
    let is_set = match parse_i64(&args[3]) {
        Some(bit @ 0..=1) => bit == 1,
        _ => return Err(BAD_BIT),
    };
    let (was_set, changed) = edit(ctx, key, at + 1, |bytes, grew| {
        let [byte] = bytes.window(at);
        let was_set = byte & mask != 0;
        if was_set != is_set {
            bytes.write(at, &[byte ^ mask]);
        }
        (was_set, grew || was_set != is_set)
    })?;
    if changed {
        ctx.notify(Event::String, "setbit", key);
    }
    reply.int(i64::from(was_set));
    Ok(())
}

/// GETBIT key offset
pub(crate) fn getbit(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (at, mask) = place(bit_offset(ctx, &args[2])?);
    let [byte] = ctx.read_str(&args[1])?.map_or([0], |text| text.window(at));
    reply.int(i64::from(byte & mask != 0));
    Ok(())
}
