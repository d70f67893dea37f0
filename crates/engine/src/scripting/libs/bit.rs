//! `bit`: operations on 32-bit integers.

use mlua::{Lua, MultiValue, Table, Value};

use super::number_argument;

/// Adding this to a number leaves its value modulo 2^32 in the low bits, as the C library rounds.
const ROUND: f64 = 6_755_399_441_055_744.0;

fn bits_of(number: f64) -> i32 {
    (number + ROUND).to_bits() as u32 as i32
}

fn bits_argument(lua: &Lua, args: &MultiValue, index: usize) -> mlua::Result<i32> {
    let args: Vec<Value> = args.iter().cloned().collect();
    Ok(bits_of(number_argument(lua, &args, index)?))
}

fn folded(lua: &Lua, args: &MultiValue, fold: fn(i32, i32) -> i32) -> mlua::Result<i32> {
    let mut bits = bits_argument(lua, args, 0)?;
    for index in 1..args.len() {
        bits = fold(bits, bits_argument(lua, args, index)?);
    }
    Ok(bits)
}

fn shifted(lua: &Lua, args: &MultiValue, shift: fn(i32, u32) -> i32) -> mlua::Result<i32> {
    let bits = bits_argument(lua, args, 0)?;
    let places = bits_argument(lua, args, 1)? as u32 & 31;
    Ok(shift(bits, places))
}

fn tohex(lua: &Lua, args: &MultiValue) -> mlua::Result<String> {
    let bits = bits_argument(lua, args, 0)?;
    let digits = if args.len() < 2 { 8 } else { bits_argument(lua, args, 1)? };
    let text = format!("{bits:08x}");
    let count = digits.unsigned_abs().min(8) as usize;
    let text = &text[8 - count..];
    Ok(if digits < 0 { text.to_uppercase() } else { text.to_owned() })
}

/// The library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let fold = |name: &str, fold: fn(i32, i32) -> i32| {
        table.raw_set(name, lua.create_function(move |lua, args: MultiValue| folded(lua, &args, fold))?)
    };
    fold("band", |a, b| a & b)?;
    fold("bor", |a, b| a | b)?;
    fold("bxor", |a, b| a ^ b)?;
    let shift = |name: &str, shift: fn(i32, u32) -> i32| {
        table.raw_set(name, lua.create_function(move |lua, args: MultiValue| shifted(lua, &args, shift))?)
    };
    shift("lshift", |bits, places| bits << places)?;
    shift("rshift", |bits, places| (bits as u32 >> places) as i32)?;
    shift("arshift", |bits, places| bits >> places)?;
    shift("rol", i32::rotate_left)?;
    shift("ror", i32::rotate_right)?;
    let single = |name: &str, change: fn(i32) -> i32| {
        let function = move |lua: &Lua, args: MultiValue| Ok(change(bits_argument(lua, &args, 0)?));
        table.raw_set(name, lua.create_function(function)?)
    };
    single("tobit", |bits| bits)?;
    single("bnot", |bits| !bits)?;
    single("bswap", i32::swap_bytes)?;
    table.raw_set("tohex", lua.create_function(|lua, args: MultiValue| tohex(lua, &args))?)?;
    Ok(table)
}
