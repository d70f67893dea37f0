//! Reading MessagePack into Lua values, without recursion.

use mlua::{Lua, Table, Value};

/// Deepest nesting: about where C's Lua runs out of stack.
const DEPTH_MAX: usize = 3_900;

/// Why a text cannot be read.
pub enum Failure {
    /// It ends within a value.
    Ended,
    /// It has a byte that begins nothing.
    Malformed,
    /// It is nested too deeply.
    TooDeep,
    /// Lua refused a value, such as a nil key.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Failure {
        Failure::Lua(error)
    }
}

/// A text that is read from its start.
pub struct Reader<'a>(&'a [u8]);

/// What a value's first bytes say.
enum Head {
    Whole(Value),
    Array(usize),
    Map(usize),
}

/// A table that is being read.
struct Partial {
    table: Table,
    left: usize,
    /// Keys are read, not counted.
    is_map: bool,
    index: i64,
    key: Option<Value>,
}

impl<'a> Reader<'a> {
    /// Reads `text`.
    pub fn new(text: &'a [u8]) -> Reader<'a> {
        Reader(text)
    }

    /// Bytes that were not read yet.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// The next value.
    pub fn value(&mut self, lua: &Lua) -> Result<Value, Failure> {
        let mut stack: Vec<Partial> = Vec::new();
        loop {
            let (is_map, len) = match self.head(lua)? {
                Head::Whole(value) => {
                    if let Some(value) = settle(&mut stack, value)? {
                        return Ok(value);
                    }
                    continue;
                }
                Head::Array(len) => (false, len),
                Head::Map(len) => (true, len),
            };
            if stack.len() == DEPTH_MAX {
                return Err(Failure::TooDeep);
            }
            let table = lua.create_table()?;
            if len == 0 {
                if let Some(value) = settle(&mut stack, Value::Table(table))? {
                    return Ok(value);
                }
                continue;
            }
            stack.push(Partial { table, left: len, is_map, index: 0, key: None });
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Failure::Ended)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        Ok(self.take(N)?.try_into().expect("taken-length: as many bytes as asked for"))
    }

    fn len(&mut self, bytes: usize) -> Result<usize, Failure> {
        Ok(self.take(bytes)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    fn text(&mut self, lua: &Lua, len: usize) -> Result<Head, Failure> {
        Ok(Head::Whole(Value::String(lua.create_string(self.take(len)?)?)))
    }

    fn head(&mut self, lua: &Lua) -> Result<Head, Failure> {
        let code = self.take(1)?[0];
        let integer = |number: i64| Head::Whole(Value::Integer(number));
        Ok(match code {
            0..=0x7f => integer(i64::from(code)),
            0x80..=0x8f => Head::Map(usize::from(code & 0xf)),
            0x90..=0x9f => Head::Array(usize::from(code & 0xf)),
            0xa0..=0xbf => self.text(lua, usize::from(code & 0x1f))?,
            0xc0 => Head::Whole(Value::Nil),
            0xc2 | 0xc3 => Head::Whole(Value::Boolean(code == 0xc3)),
            0xca => Head::Whole(Value::Number(f64::from(f32::from_be_bytes(self.array()?)))),
            0xcb => Head::Whole(Value::Number(f64::from_be_bytes(self.array()?))),
            0xcc => integer(i64::from(u8::from_be_bytes(self.array()?))),
            0xcd => integer(i64::from(u16::from_be_bytes(self.array()?))),
            0xce => integer(i64::from(u32::from_be_bytes(self.array()?))),
            0xcf => Head::Whole(Value::Number(u64::from_be_bytes(self.array()?) as f64)),
            0xd0 => integer(i64::from(i8::from_be_bytes(self.array()?))),
            0xd1 => integer(i64::from(i16::from_be_bytes(self.array()?))),
            0xd2 => integer(i64::from(i32::from_be_bytes(self.array()?))),
            0xd3 => integer(i64::from_be_bytes(self.array()?)),
            0xd9..=0xdb => {
                let len = self.len(1 << (code - 0xd9))?;
                self.text(lua, len)?
            }
            0xdc | 0xdd => Head::Array(self.len(2 << (code - 0xdc))?),
            0xde | 0xdf => Head::Map(self.len(2 << (code - 0xde))?),
            0xe0..=0xff => integer(i64::from(code as i8)),
            _ => return Err(Failure::Malformed),
        })
    }
}

/// Puts a value into the innermost table; what that completes, into the next one. The outermost value, once whole.
fn settle(stack: &mut Vec<Partial>, mut value: Value) -> Result<Option<Value>, Failure> {
    loop {
        let Some(partial) = stack.last_mut() else { return Ok(Some(value)) };
        if partial.is_map {
            let Some(key) = partial.key.take() else {
                partial.key = Some(value);
                return Ok(None);
            };
            partial.table.set(key, value)?;
        } else {
            partial.index += 1;
            partial.table.raw_set(partial.index, value)?;
        }
        partial.left -= 1;
        if partial.left > 0 {
            return Ok(None);
        }
        value = Value::Table(stack.pop().expect("unpack-stack: the table was on it").table);
    }
}
