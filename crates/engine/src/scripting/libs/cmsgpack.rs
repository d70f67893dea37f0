//! `cmsgpack`: MessagePack, with the choices and error texts of lua-cmsgpack 0.4.

use base::limits::LUA_TEXT_BYTES_MAX;
use mlua::{Lua, MultiValue, Table, Value};

use super::cmsgpack_read::{Failure, Reader};
use super::{bytes_argument, number_argument};
use crate::scripting::errors::{bad_argument, raise, wrong_type};

/// Tables nested deeper are written as nil.
const NESTING_MAX: usize = 16;

fn put_len(out: &mut Vec<u8>, len: usize, fixed: Option<(u8, usize)>, codes: [Option<u8>; 3]) {
    match (fixed, codes) {
        (Some((code, max)), _) if len <= max => out.push(code | len as u8),
        (_, [Some(code), ..]) if len <= 0xff => out.extend_from_slice(&[code, len as u8]),
        (_, [_, Some(code), _]) if len <= 0xffff => {
            out.push(code);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        (_, [.., code]) => {
            out.extend(code);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -32..=-1 => out.push(number as i8 as u8),
        -0x80..=-33 => out.extend_from_slice(&[0xd0, number as i8 as u8]),
        -0x8000..=-0x81 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn put_float(out: &mut Vec<u8>, number: f64) {
    let short = number as f32;
    if f64::from(short) == number {
        out.push(0xca);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn put(lua: &Lua, out: &mut Vec<u8>, value: &Value, level: usize) -> mlua::Result<()> {
    if out.len() > LUA_TEXT_BYTES_MAX {
        return Err(raise(lua, "not enough memory"));
    }
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            put_len(out, text.len(), Some((0xa0, 31)), [Some(0xd9), Some(0xda), Some(0xdb)]);
            out.extend_from_slice(&text);
        }
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => put_integer(out, *number),
        Value::Number(number) => put_float(out, *number),
        Value::Table(table) if level < NESTING_MAX => put_table(lua, out, table, level)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn put_table(lua: &Lua, out: &mut Vec<u8>, table: &Table, level: usize) -> mlua::Result<()> {
    let pairs: Vec<(Value, Value)> = table.pairs::<Value, Value>().collect::<mlua::Result<_>>()?;
    let index = |key: &Value| match key {
        Value::Integer(index) if *index > 0 => Some(*index as f64),
        _ => None,
    };
    let last = pairs.iter().try_fold(0.0_f64, |last, (key, _)| Some(index(key)?.max(last)));
    if last == Some(pairs.len() as f64) {
        let len = table.raw_len();
        put_len(out, len, Some((0x90, 15)), [None, Some(0xdc), Some(0xdd)]);
        for index in 1..=len {
            put(lua, out, &table.get::<Value>(index)?, level + 1)?;
        }
        return Ok(());
    }
    put_len(out, pairs.len(), Some((0x80, 15)), [None, Some(0xde), Some(0xdf)]);
    for (key, value) in &pairs {
        put(lua, out, key, level + 1)?;
        put(lua, out, value, level + 1)?;
    }
    Ok(())
}

fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::String> {
    if args.is_empty() {
        return Err(bad_argument(lua, 0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    args.iter().try_for_each(|value| put(lua, &mut out, value, 0))?;
    lua.create_string(out)
}

/// Reads values from `offset` on, at most `limit` of them. With `offset` and `limit` zero all of them; otherwise the
/// first result is where the next value begins, or -1.
fn unpack(lua: &Lua, text: &[u8], limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let (limit, offset) = (limit as i32, offset as i32);
    let reads_all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let len = text.len();
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(raise(lua, text));
    }
    if offset as usize > text.len() {
        let text = format!("Start offset {offset} greater than input length {}.", text.len());
        return Err(raise(lua, text));
    }
    let count_max = if reads_all { usize::MAX } else { limit as usize };
    let mut reader = Reader::new(&text[offset as usize..]);
    let mut values = Vec::new();
    while reader.left() > 0 && values.len() < count_max {
        let value = reader.value(lua).map_err(|failure| match failure {
            Failure::Ended => raise(lua, "Missing bytes in input."),
            Failure::Malformed => raise(lua, "Bad data format in input."),
            Failure::TooDeep => raise(lua, "stack overflow (in function mp_decode_to_lua_array)"),
            Failure::Lua(error) => error,
        })?;
        if values.len() >= super::RESULTS_MAX {
            return Err(raise(lua, "stack overflow (in function mp_unpack_full)"));
        }
        values.push(value);
    }
    if !reads_all {
        let next = if reader.left() == 0 { -1 } else { (text.len() - reader.left()) as i64 };
        values.insert(0, Value::Integer(next));
    }
    Ok(MultiValue::from_vec(values))
}

/// Argument `index` as an integer; `missing` if there is none.
fn integer_argument(lua: &Lua, args: &[Value], index: usize, missing: Option<i64>) -> mlua::Result<i64> {
    match (args.get(index).unwrap_or(&Value::Nil), missing) {
        (Value::Nil, Some(missing)) => Ok(missing),
        (Value::Nil, None) => Err(wrong_type(lua, index + 1, "number", args.get(index))),
        _ => number_argument(lua, args, index).map(|number| number as i64),
    }
}

/// The library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    let unpack_all = |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        unpack(lua, &bytes_argument(lua, &args, 0)?, 0, 0)
    };
    table.raw_set("unpack", lua.create_function(unpack_all)?)?;
    let unpack_one = |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let offset = integer_argument(lua, &args, 1, Some(0))?;
        unpack(lua, &bytes_argument(lua, &args, 0)?, 1, offset)
    };
    table.raw_set("unpack_one", lua.create_function(unpack_one)?)?;
    let unpack_limit = |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let limit = integer_argument(lua, &args, 1, None)?;
        let offset = integer_argument(lua, &args, 2, Some(0))?;
        unpack(lua, &bytes_argument(lua, &args, 0)?, limit, offset)
    };
    table.raw_set("unpack_limit", lua.create_function(unpack_limit)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}
