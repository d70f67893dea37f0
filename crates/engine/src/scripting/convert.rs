//! Replies to Lua values, and Lua values to replies.

use mlua::{Either, Lua, Table, Value};
use resp::Proto;

use super::errors::error_table;
use super::vm::{Names, lua_text};
use crate::reply::Reply;

/// Tables nested deeper are an error, as where C's Lua runs out of stack.
const DEPTH_MAX: usize = 1_000;

/// A reply that a command has written, read into Lua values.
pub struct ReplyReader<'a> {
    lua: &'a Lua,
    names: &'a Names,
    rest: &'a [u8],
}

impl<'a> ReplyReader<'a> {
    /// Reads `bytes`, a whole reply of our own.
    pub fn new(lua: &'a Lua, names: &'a Names, bytes: &'a [u8]) -> ReplyReader<'a> {
        ReplyReader { lua, names, rest: bytes }
    }

    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\r').expect("own-reply: a line ends");
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 2..];
        line
    }

    fn number(&mut self) -> i64 {
        base::num::parse_i64(self.line()).expect("own-reply: a number")
    }

    fn bulk(&mut self, len: usize) -> &'a [u8] {
        let bytes = &self.rest[..len];
        self.rest = &self.rest[len + 2..];
        bytes
    }

    /// The next value, by the shortest way to where it is put.
    fn item(&mut self) -> mlua::Result<Either<&'a str, Value>> {
        if self.rest.starts_with(b"$") && !self.rest.starts_with(b"$-") {
            self.rest = &self.rest[1..];
            let len = self.number() as usize;
            let text = lua_text(self.lua, self.bulk(len))?;
            return Ok(text.map_right(Value::String));
        }
        self.value().map(Either::Right)
    }

    fn array(&mut self, len: usize) -> mlua::Result<Table> {
        let (lua, mut failed) = (self.lua, None);
        let items = (0..len).map(|_| match failed {
            Some(_) => Either::Left(""),
            None => self.item().unwrap_or_else(|error| {
                failed = Some(error);
                Either::Left("")
            }),
        });
        let table = lua.create_sequence_from(items)?;
        failed.map_or(Ok(table), Err)
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    /// A table of one field.
    fn wrapped(&self, name: &mlua::String, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    /// The next value.
    pub fn value(&mut self) -> mlua::Result<Value> {
        let (kind, rest) = self.rest.split_first().expect("own-reply: a value");
        self.rest = rest;
        Ok(match kind {
            b'$' => match self.number() {
                -1 => Value::Boolean(false),
                len => {
                    let bytes = self.bulk(len as usize);
                    self.string(bytes)?
                }
            },
            b':' => Value::Integer(self.number()),
            b'+' => {
                let table = self.lua.create_table_with_capacity(0, 1)?;
                match self.line() {
                    b"OK" => table.raw_set(&self.names.ok, &self.names.status_ok)?,
                    text => table.raw_set(&self.names.ok, lua_text(self.lua, text)?)?,
                }
                Value::Table(table)
            }
            b'-' => {
                let text = self.line();
                Value::Table(error_table(self.lua, text, true)?)
            }
            b'*' | b'>' => match self.number() {
                -1 => Value::Boolean(false),
                len => Value::Table(self.array(len as usize)?),
            },
            b'%' => {
                let pairs = self.number();
                let table = self.lua.create_table_with_capacity(0, pairs as usize)?;
                for _ in 0..pairs {
                    let key = self.value()?;
                    table.raw_set(key, self.value()?)?;
                }
                self.wrapped(&self.names.map, Value::Table(table))?
            }
            b'~' => {
                let len = self.number();
                let table = self.lua.create_table_with_capacity(0, len as usize)?;
                for _ in 0..len {
                    table.raw_set(self.value()?, true)?;
                }
                self.wrapped(&self.names.set, Value::Table(table))?
            }
            b'_' => {
                self.line();
                Value::Nil
            }
            b'#' => Value::Boolean(self.line() == b"t"),
            b',' => {
                let number = base::num::parse_f64(self.line()).unwrap_or(f64::NAN);
                self.wrapped(&self.names.double, Value::Number(number))?
            }
            b'(' => {
                let digits = self.string(self.line_of())?;
                self.line();
                self.wrapped(&self.names.big_number, digits)?
            }
            b'=' => {
                let len = self.number() as usize;
                let bytes = self.bulk(len);
                let table = self.lua.create_table_with_capacity(0, 2)?;
                table.raw_set("format", self.string(&bytes[..3])?)?;
                table.raw_set("string", self.string(&bytes[4..])?)?;
                self.wrapped(&self.names.verbatim_string, Value::Table(table))?
            }
            other => unreachable!("own-reply: no value begins with {other}"),
        })
    }

    /// The line that comes next, which stays.
    fn line_of(&self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\r').expect("own-reply: a line ends");
        &self.rest[..end]
    }
}

/// Writes what a script returned.
pub struct ReplyWriter<'a, 'r> {
    /// Where it goes.
    pub reply: &'a mut Reply<'r>,
    /// The fields that say what a table is.
    pub names: &'a Names,
    /// What the script asked for with `redis.setresp`.
    pub script_proto: Proto,
}

impl ReplyWriter<'_, '_> {
    /// Writes a value.
    pub fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.int(*number),
            Value::Number(number) => self.reply.int(truncated(*number)),
            Value::Boolean(value) if self.script_proto == Proto::V3 => self.reply.bool(*value),
            Value::Boolean(true) => self.reply.int(1),
            Value::Table(_) if depth > DEPTH_MAX => self.reply.error("ERR reached lua stack limit"),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let names = self.names;
        if let Value::String(text) = table.raw_get::<Value>(&names.err)? {
            let text = text.as_bytes();
            self.reply.encoder().error_bytes(&text);
            return Ok(());
        }
        if let Value::String(text) = table.raw_get::<Value>(&names.ok)? {
            status(self.reply, &text.as_bytes());
            return Ok(());
        }
        match table.raw_get::<Value>(&names.double)? {
            Value::Number(number) => {
                self.reply.double(number);
                return Ok(());
            }
            Value::Integer(number) => {
                self.reply.double(number as f64);
                return Ok(());
            }
            _ => {}
        }
        if let Value::Table(map) = table.raw_get::<Value>(&names.map)? {
            return self.map(&map, depth);
        }
        if let Value::Table(set) = table.raw_get::<Value>(&names.set)? {
            return self.set(&set, depth);
        }
        if let Value::String(digits) = table.raw_get::<Value>(&names.big_number)? {
            let digits: String = digits.to_string_lossy().replace(['\r', '\n'], " ");
            self.reply.big_number(&digits);
            return Ok(());
        }
        if let Value::Table(text) = table.raw_get::<Value>(&names.verbatim_string)?
            && let (Value::String(format), Value::String(bytes)) =
                (text.raw_get::<Value>("format")?, text.raw_get::<Value>("string")?)
        {
            let format = verbatim_format(&format.as_bytes());
            self.reply.verbatim(&format, &bytes.as_bytes());
            return Ok(());
        }
        self.array(table, depth)
    }

    fn map(&mut self, map: &Table, depth: usize) -> mlua::Result<()> {
        let pairs: Vec<(Value, Value)> = map.pairs::<Value, Value>().collect::<mlua::Result<_>>()?;
        self.reply.map(pairs.len());
        for (key, value) in &pairs {
            self.value(key, depth + 1)?;
            self.value(value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, set: &Table, depth: usize) -> mlua::Result<()> {
        let members: Vec<(Value, Value)> = set.pairs::<Value, Value>().collect::<mlua::Result<_>>()?;
        self.reply.set(members.len());
        members.iter().try_for_each(|(member, _)| self.value(member, depth + 1))
    }

    /// The elements from 1 up to the first nil.
    fn array(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let mut values = Vec::new();
        loop {
            match table.raw_get::<Value>(values.len() + 1)? {
                Value::Nil => break,
                value => values.push(value),
            }
        }
        self.reply.array(values.len());
        values.iter().try_for_each(|value| self.value(value, depth + 1))
    }
}

/// A status from bytes of a script: its line breaks become spaces.
fn status(reply: &mut Reply<'_>, text: &[u8]) {
    let out = reply.encoder().out;
    out.push(b'+');
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// Three letters, whatever the script gave.
fn verbatim_format(given: &[u8]) -> String {
    let mut format: String = given.iter().take(3).map(|byte| char::from(byte & 0x7f)).collect();
    while format.len() < 3 {
        format.push(' ');
    }
    format
}

/// A float as C's conversion to a 64-bit integer gives it.
fn truncated(number: f64) -> i64 {
    if number.is_nan() || number >= 9_223_372_036_854_775_808.0 { i64::MIN } else { number as i64 }
}
