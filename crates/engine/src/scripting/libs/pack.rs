//! `struct`: values to bytes and back by a format.

use mlua::{Lua, MultiValue, Table, Value};

use super::{bytes_argument, number_argument, number_of};
use crate::scripting::errors::{bad_argument, raise};

/// Widest integer, in bytes.
const INTEGER_BYTES_MAX: usize = 32;
/// What `!` aligns to without a number.
const NATIVE_ALIGN: usize = 8;

/// A format that is read from its start.
struct Format<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, text: &'a [u8]) -> Format<'a> {
        // As in C, a format ends at a NUL byte.
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { lua, rest: &text[..end], big_endian: false, align: 1 }
    }

    /// The next option and the size of its value.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(raise(self.lua, text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((*option, size)))
    }

    fn number(&mut self, missing: usize) -> mlua::Result<usize> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(missing);
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let number = digits
            .iter()
            .try_fold(0_i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
        number.map(|number| number as usize).ok_or_else(|| raise(self.lua, "integral size overflow"))
    }

    /// Bytes that bring `position` to where a value of this size may lie.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    /// An option that is no value.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(NATIVE_ALIGN)?;
                if !align.is_power_of_two() {
                    return Err(raise(self.lua, format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(bad_argument(self.lua, 1, &text));
            }
        }
        Ok(())
    }
}

fn put_integer(out: &mut Vec<u8>, number: f64, big_endian: bool, size: usize) {
    let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
    let byte = |index: usize| if index < 8 { (value >> (8 * index)) as u8 } else { 0 };
    if big_endian {
        out.extend((0..size).rev().map(byte));
    } else {
        out.extend((0..size).map(byte));
    }
}

fn get_integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let mut value = if big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) };
    if !signed {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl((8 * bytes.len() as u32).wrapping_sub(1));
    if value & mask != 0 {
        value |= mask;
    }
    value as i64 as f64
}

fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::String> {
    let args: Vec<Value> = args.into_iter().collect();
    let text = bytes_argument(lua, &args, 0)?;
    // What is missing is nil, as the C library has it.
    let args: Vec<Value> = args.into_iter().chain([Value::Nil]).collect();
    let mut format = Format::new(lua, &text);
    let mut out = Vec::new();
    let mut arg = 1;
    while let Some((option, size)) = format.next()? {
        out.resize(out.len() + format.padding(out.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                put_integer(&mut out, number_argument(lua, &args, arg)?, format.big_endian, size);
                arg += 1;
            }
            b'x' => out.push(0),
            b'f' | b'd' => {
                let number = number_argument(lua, &args, arg)?;
                arg += 1;
                match (option, format.big_endian) {
                    (b'f', true) => out.extend_from_slice(&(number as f32).to_be_bytes()),
                    (b'f', false) => out.extend_from_slice(&(number as f32).to_le_bytes()),
                    (_, true) => out.extend_from_slice(&number.to_be_bytes()),
                    (_, false) => out.extend_from_slice(&number.to_le_bytes()),
                }
            }
            b'c' | b's' => {
                let bytes = bytes_argument(lua, &args, arg)?;
                arg += 1;
                let size = if size == 0 { bytes.len() } else { size };
                let part = bytes.get(..size).ok_or_else(|| bad_argument(lua, arg + 1, "string too short"))?;
                out.extend_from_slice(part);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other)?,
        }
    }
    lua.create_string(out)
}

fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let args: Vec<Value> = args.into_iter().collect();
    let (text, data) = (bytes_argument(lua, &args, 0)?, bytes_argument(lua, &args, 1)?);
    let position = match args.get(2) {
        None | Some(Value::Nil) => 1,
        Some(_) => number_argument(lua, &args, 2)? as i64,
    };
    if position == 0 {
        return Err(bad_argument(lua, 3, "offset must be 1 or greater"));
    }
    // A negative one counts as a huge one, as C's unsigned type has it.
    let mut position = usize::try_from(position).unwrap_or(usize::MAX / 2) - 1;
    let mut format = Format::new(lua, &text);
    let mut values = Vec::new();
    while let Some((option, size)) = format.next()? {
        position += format.padding(position, option, size);
        let part = |position: usize, size: usize| {
            let end = position.saturating_add(size);
            data.get(position..end).ok_or_else(|| bad_argument(lua, 2, "data string too short"))
        };
        let bytes = part(position, size)?;
        let mut used = size;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = get_integer(bytes, format.big_endian, option.is_ascii_lowercase());
                values.push(Value::Number(number));
            }
            b'x' => {}
            b'f' | b'd' => values.push(Value::Number(get_float(bytes, format.big_endian))),
            b'c' if size == 0 => {
                let size = values.pop().as_ref().and_then(number_of);
                let size = size.ok_or_else(|| raise(lua, "format 'c0' needs a previous size"))?;
                used = if size < 0.0 { usize::MAX } else { size as usize };
                values.push(Value::String(lua.create_string(part(position, used)?)?));
            }
            b'c' => values.push(Value::String(lua.create_string(bytes)?)),
            b's' => {
                let len = data[position..].iter().position(|byte| *byte == 0);
                let len = len.ok_or_else(|| raise(lua, "unfinished string in data"))?;
                values.push(Value::String(lua.create_string(&data[position..position + len])?));
                used = len + 1;
            }
            other => format.control(other)?,
        }
        if values.len() >= super::RESULTS_MAX {
            return Err(raise(lua, "stack overflow (too many results)"));
        }
        position += used;
    }
    values.push(Value::Integer(position as i64 + 1));
    Ok(MultiValue::from_vec(values))
}

fn get_float(bytes: &[u8], big_endian: bool) -> f64 {
    let mut bytes = bytes.to_vec();
    if big_endian {
        bytes.reverse();
    }
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(short) => f64::from(f32::from_le_bytes(short)),
        Err(_) => f64::from_le_bytes(bytes.try_into().expect("float-size: 4 or 8 bytes")),
    }
}

fn size(lua: &Lua, args: MultiValue) -> mlua::Result<i64> {
    let args: Vec<Value> = args.into_iter().collect();
    let text = bytes_argument(lua, &args, 0)?;
    let mut format = Format::new(lua, &text);
    let mut position = 0;
    while let Some((option, size)) = format.next()? {
        position += format.padding(position, option, size);
        match option {
            b's' => return Err(bad_argument(lua, 1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(bad_argument(lua, 1, "option 'c0' has no fixed size")),
            other if !other.is_ascii_alphanumeric() => format.control(other)?,
            _ => {}
        }
        position += size;
    }
    Ok(position as i64)
}

/// The library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}
