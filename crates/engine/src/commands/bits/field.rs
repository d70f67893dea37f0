//! BITFIELD: integers of any width at any bit.

use base::num::parse_i64;

use super::string::{Bytes, edit};
use super::{BAD_OFFSET, check_offset};
use crate::args::{Args, int, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::{OwnedStr, Str};

const BAD_TYPE: Fault = Fault::Text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OVERFLOW: Fault = Fault::Text("ERR Invalid OVERFLOW type specified");
const READ_ONLY: Fault = Fault::Text("ERR BITFIELD_RO only supports the GET subcommand");

/// Bytes that a field of 64 bits may touch.
const WINDOW_BYTES: usize = 9;

/// An integer's type, as in `i16` or `u8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    signed: bool,
    bits: u32,
}

impl Width {
    fn parse(arg: &[u8]) -> CmdResult<Width> {
        // Redis reads a C string here, which ends at a NUL byte.
        let text = arg.split(|byte| *byte == 0).next().unwrap_or_default();
        let (signed, bits) = match text {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(BAD_TYPE),
        };
        let bits_max = if signed { 64 } else { 63 };
        match parse_i64(bits) {
            Some(bits) if (1..=bits_max).contains(&bits) => Ok(Width { signed, bits: bits as u32 }),
            _ => Err(BAD_TYPE),
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The number that the lowest bits of `raw` stand for.
    fn value(self, raw: u64) -> i128 {
        let raw = raw & self.mask();
        let is_negative = self.signed && raw >> (self.bits - 1) != 0;
        i128::from(raw) - if is_negative { 1 << self.bits } else { 0 }
    }

    fn min(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }
}

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> CmdResult<Overflow> {
        match word {
            _ if is(word, "WRAP") => Ok(Overflow::Wrap),
            _ if is(word, "SAT") => Ok(Overflow::Saturate),
            _ if is(word, "FAIL") => Ok(Overflow::Fail),
            _ => Err(BAD_OVERFLOW),
        }
    }

    /// The number to be stored for `wanted`, if any.
    fn fit(self, wanted: i128, width: Width) -> Option<i128> {
        if (width.min()..=width.max()).contains(&wanted) {
            return Some(wanted);
        }
        match self {
            Overflow::Wrap => Some(width.value(wanted as u64)),
            Overflow::Saturate => Some(wanted.clamp(width.min(), width.max())),
            Overflow::Fail => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    action: Action,
    width: Width,
    /// The first bit.
    offset: u64,
    overflow: Overflow,
}

impl Operation {
    fn last_byte(&self) -> usize {
        ((self.offset + u64::from(self.width.bits) - 1) >> 3) as usize
    }

    fn writes(&self) -> bool {
        self.action != Action::Get
    }

    fn first_byte(&self) -> usize {
        (self.offset >> 3) as usize
    }

    /// How far the field lies from the end of its window.
    fn shift(&self) -> u32 {
        WINDOW_BYTES as u32 * 8 - (self.offset & 7) as u32 - self.width.bits
    }

    /// The number in the field whose window is `window`.
    fn read(&self, window: [u8; WINDOW_BYTES]) -> i128 {
        self.width.value((wide(window) >> self.shift()) as u64)
    }

    /// The window with `value` in the field.
    fn written(&self, window: [u8; WINDOW_BYTES], value: i128) -> [u8; WINDOW_BYTES] {
        let mask = u128::from(self.width.mask()) << self.shift();
        let field = u128::from(value as u64 & self.width.mask()) << self.shift();
        let bytes = (wide(window) & !mask | field).to_be_bytes();
        let mut window = [0; WINDOW_BYTES];
        window.copy_from_slice(&bytes[size_of::<u128>() - WINDOW_BYTES..]);
        window
    }

    /// Redis compares in 64 bits. So a number that lies further below the greatest one than those can tell saturates
    /// to the greatest, not to the least.
    fn saturates_upwards(&self, value: i64) -> bool {
        let is_narrow = self.width.signed && self.width.bits < i64::BITS;
        is_narrow
            && self.overflow == Overflow::Saturate
            && self.width.max() - i128::from(value) > i128::from(i64::MAX)
    }

    /// Runs on a string that is long enough. Returns the reply and whether the field has changed.
    fn run(&self, bytes: &mut Bytes<'_>) -> (Option<i64>, bool) {
        let window = bytes.window(self.first_byte());
        let old = self.read(window);
        let (wanted, replies_old) = match self.action {
            Action::Get => return (Some(old as i64), false),
            Action::Set(value) if self.saturates_upwards(value) => (self.width.max(), true),
            // An unsigned field takes a negative number for a huge one.
            Action::Set(value) if !self.width.signed => (i128::from(value as u64), true),
            Action::Set(value) => (i128::from(value), true),
            Action::Increment(by) => (old + i128::from(by), false),
        };
        let Some(new) = self.overflow.fit(wanted, self.width) else { return (None, false) };
        let touched = self.last_byte() - self.first_byte() + 1;
        bytes.write(self.first_byte(), &self.written(window, new)[..touched]);
        (Some(if replies_old { old } else { new } as i64), old != new)
    }
}

fn wide(window: [u8; WINDOW_BYTES]) -> u128 {
    window.iter().fold(0, |wide, byte| wide << 8 | u128::from(*byte))
}

/// Reads the operations of a call.
fn parse(ctx: &Ctx<'_>, args: Args<'_>) -> CmdResult<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let left = args.len() - at - 1;
        if is(word, "OVERFLOW") && left >= 1 {
            overflow = Overflow::parse(&args[at + 1])?;
            at += 2;
            continue;
        }
        let has_value = match left {
            2.. if is(word, "GET") => false,
            3.. if is(word, "SET") || is(word, "INCRBY") => true,
            _ => return Err(Fault::SYNTAX),
        };
        let width = Width::parse(&args[at + 1])?;
        let offset = field_offset(ctx, &args[at + 2], width)?;
        let action = match has_value {
            false => Action::Get,
            true if is(word, "SET") => Action::Set(int(&args[at + 3])?),
            true => Action::Increment(int(&args[at + 3])?),
        };
        operations.push(Operation { action, width, offset, overflow });
        at += 3 + usize::from(has_value);
    }
    Ok(operations)
}

/// The first bit of a field: a number of bits or, after `#`, of fields.
fn field_offset(ctx: &Ctx<'_>, arg: &[u8], width: Width) -> CmdResult<u64> {
    let offset = match arg {
        [b'#', index @ ..] => parse_i64(index).ok_or(BAD_OFFSET)?.checked_mul(i64::from(width.bits)),
        offset => parse_i64(offset),
    };
    check_offset(ctx, offset)
}

/// BITFIELD key [GET type offset | [OVERFLOW how] SET type offset value | INCRBY type offset increment] ...
pub(crate) fn bitfield(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, operations) = (&args[1], parse(ctx, args)?);
    let last_written =
        operations.iter().filter(|operation| operation.writes()).map(Operation::last_byte).max();
    let Some(last_written) = last_written else { return read(ctx, key, &operations, reply) };
    let (mut changed, mut has_grown) = (false, false);
    let replies: Vec<Option<i64>> = edit(ctx, key, last_written + 1, |bytes, grew| {
        has_grown = grew;
        let run = |operation: &Operation| {
            let (reply, differs) = operation.run(bytes);
            changed |= operation.writes() && reply.is_some() && (grew || differs);
            reply
        };
        operations.iter().map(run).collect()
    })?;
    if changed {
        ctx.notify(Event::String, "setbit", key);
    } else if has_grown {
        // What overflows leaves the string longer all the same. Redis forgets to tell of that.
        ctx.stats().dirty.add(1);
    }
    reply.array(replies.len());
    for value in replies {
        match value {
            Some(value) => reply.int(value),
            None => reply.null(),
        }
    }
    Ok(())
}

/// BITFIELD_RO key [GET type offset] ...
pub(crate) fn bitfield_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let operations = parse(ctx, args)?;
    if operations.iter().any(Operation::writes) {
        return Err(READ_ONLY);
    }
    read(ctx, &args[1], &operations, reply)
}

fn read(ctx: &mut Ctx<'_>, key: &[u8], operations: &[Operation], reply: &mut Reply<'_>) -> CmdResult {
    let text = ctx.read_str(key)?.map(Str::to_owned);
    reply.array(operations.len());
    for operation in operations {
        let window = text
            .as_ref()
            .map_or([0; WINDOW_BYTES], |text: &OwnedStr| text.as_str().window(operation.first_byte()));
        reply.int(operation.read(window) as i64);
    }
    Ok(())
}
