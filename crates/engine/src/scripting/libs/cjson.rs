//! `cjson`: JSON to Lua values and back, with the options and limits of lua-cjson 2.1.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::limits::LUA_TEXT_BYTES_MAX;
use mlua::{Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use super::cjson_parse::{Parser, Step};
use super::{bytes_of, format_number, number_of};
use crate::scripting::errors::{bad_argument, raise, type_name, wrong_type};

/// Deepest nesting whatever the options say: where C's Lua runs out of stack.
const DEPTH_LIMIT: usize = 2_600;

/// What one copy of the library is set to.
#[derive(Clone, Debug)]
pub struct Options {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    decode_depth_max: i32,
    precision: i32,
    keep_buffer: bool,
    /// 0: refused, 1: printed, 2: printed as null.
    encode_invalid: usize,
    decode_invalid: usize,
    array_mt: bool,
    /// A script has set something since this was last looked at.
    pub is_changed: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: 0,
            decode_invalid: 1,
            array_mt: false,
            is_changed: false,
        }
    }
}

/// The options of one copy, shared by its functions.
pub type Shared = Rc<RefCell<Options>>;

/// How the scripts of all threads have set the library: one setting is EVAL's, one that of functions, as Redis has a Lua
/// for each. Kept by the server, because each thread has a Lua of its own; what one script sets, the next one finds,
/// wherever it runs. Scripts that run at once may set it over each other.
#[derive(Default)]
pub struct Settings([Setting; 2]);

#[derive(Default)]
struct Setting {
    /// 0: as it was at first.
    version: AtomicU64,
    options: Mutex<Options>,
}

/// Versions are the process's, so that a thread's Lua tells the settings of several servers from each other.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

impl Settings {
    /// The options of EVAL, or of functions, and their version, unless they are those that `from` names.
    pub fn newer_than(&self, from: (bool, u64), is_function: bool) -> Option<(u64, Options)> {
        let setting = &self.0[usize::from(is_function)];
        if from == (is_function, setting.version.load(Relaxed)) {
            return None;
        }
        let options = setting.options.lock();
        Some((setting.version.load(Relaxed), options.clone()))
    }

    /// SCRIPT FLUSH: Redis makes EVAL's Lua anew. The one of functions stays.
    pub fn reset_scripts(&self) {
        if self.0[0].version.load(Relaxed) != 0 {
            self.set(false, Options::default());
        }
    }

    /// Sets the options of EVAL, or of functions; returns their version.
    pub fn set(&self, is_function: bool, options: Options) -> u64 {
        let setting = &self.0[usize::from(is_function)];
        let mut current = setting.options.lock();
        let version = VERSIONS.fetch_add(1, Relaxed);
        *current = options;
        setting.version.store(version, Relaxed);
        version
    }
}

struct Encoder<'a> {
    lua: &'a Lua,
    options: Options,
    array_mt: &'a Table,
    out: Vec<u8>,
    stack: Vec<Frame>,
}

/// A table that is being written.
enum Frame {
    Array { table: Table, index: i64, len: i64 },
    Object(std::vec::IntoIter<(Value, Value)>, bool),
}

impl Encoder<'_> {
    fn run(mut self, value: &Value) -> mlua::Result<Vec<u8>> {
        self.value(value)?;
        while let Some(frame) = self.stack.last_mut() {
            let next = match frame {
                Frame::Array { index, len, .. } if index == len => {
                    self.out.push(b']');
                    None
                }
                Frame::Array { table, index, .. } => {
                    if *index > 0 {
                        self.out.push(b',');
                    }
                    *index += 1;
                    Some((None, table.raw_get(*index)?))
                }
                Frame::Object(pairs, written) => match pairs.next() {
                    None => {
                        self.out.push(b'}');
                        None
                    }
                    Some((key, value)) => {
                        if std::mem::replace(written, true) {
                            self.out.push(b',');
                        }
                        Some((Some(key), value))
                    }
                },
            };
            let Some((key, value)) = next else {
                self.stack.pop();
                continue;
            };
            if let Some(key) = key {
                self.key(&key)?;
            }
            self.value(&value)?;
            if self.out.len() > LUA_TEXT_BYTES_MAX {
                return Err(raise(self.lua, "not enough memory"));
            }
        }
        Ok(self.out)
    }

    fn key(&mut self, key: &Value) -> mlua::Result<()> {
        match key {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.number(number_of(key).unwrap_or_default())?;
                self.out.push(b'"');
            }
            other => {
                let name = type_name(Some(other));
                return Err(raise(
                    self.lua,
                    format!("Cannot serialise {name}: table key must be a number or string"),
                ));
            }
        }
        self.out.push(b':');
        Ok(())
    }

    fn value(&mut self, value: &Value) -> mlua::Result<()> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => self.table(table)?,
            other => {
                let name = type_name(Some(other));
                return Err(raise(self.lua, format!("Cannot serialise {name}: type not supported")));
            }
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            if self.options.encode_invalid == 0 {
                return Err(raise(self.lua, "Cannot serialise number: must not be NaN or Inf"));
            }
            if self.options.encode_invalid == 2 {
                self.out.extend_from_slice(b"null");
                return Ok(());
            }
        }
        self.out.extend_from_slice(format_number(number, self.options.precision as usize).as_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        for byte in text {
            let escaped: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                0x08 => b"\\b",
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                0x0c => b"\\f",
                b'\r' => b"\\r",
                0..0x20 | 0x7f => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => std::slice::from_ref(byte),
            };
            self.out.extend_from_slice(escaped);
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table) -> mlua::Result<()> {
        let depth = self.stack.len() + 1;
        if depth > self.options.encode_depth_max as usize || depth > DEPTH_LIMIT {
            return Err(raise(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        let pairs: Vec<(Value, Value)> = table.pairs::<Value, Value>().collect::<mlua::Result<_>>()?;
        let is_marked = pairs.is_empty() && table.metatable().is_some_and(|meta| meta == *self.array_mt);
        match self.array_len(&pairs)? {
            Some(len) if len > 0 || is_marked => {
                self.out.push(b'[');
                self.stack.push(Frame::Array { table: table.clone(), index: 0, len });
            }
            _ => {
                self.out.push(b'{');
                self.stack.push(Frame::Object(pairs.into_iter(), false));
            }
        }
        Ok(())
    }

    /// How long the array is; `None` for what is no array.
    fn array_len(&self, pairs: &[(Value, Value)]) -> mlua::Result<Option<i64>> {
        let mut len = 0;
        for (key, _) in pairs {
            match key {
                // As C's `int` has it, an index that is too large for one is no length.
                Value::Integer(index) if *index > i64::from(i32::MAX) => len = i64::from(i32::MIN),
                Value::Integer(index) if *index >= 1 => len = len.max(*index),
                _ => return Ok(None),
            }
        }
        let Options { sparse_ratio, sparse_safe, sparse_convert, .. } = self.options;
        let dense_len = pairs.len() as i64 * i64::from(sparse_ratio);
        if sparse_ratio > 0 && len > dense_len && len > i64::from(sparse_safe) {
            if !sparse_convert {
                return Err(raise(self.lua, "Cannot serialise table: excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(len))
    }
}

/// A table that is being read.
enum Partial {
    Array(Table, i64),
    Object(Table, Value),
}

fn decode(lua: &Lua, options: &Options, array_mt: &Table, text: &[u8]) -> mlua::Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(raise(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser::new(text, options.decode_invalid != 0);
    let mut stack: Vec<Partial> = Vec::new();
    let fail = |message: String| raise(lua, message);
    loop {
        // A value begins here.
        let mut value = match parser.value().map_err(fail)? {
            Step::Scalar(scalar) => scalar.into_lua_value(lua)?,
            begin @ (Step::ArrayBegin | Step::ObjectBegin) => {
                let depth = stack.len() + 1;
                if depth > options.decode_depth_max as usize || depth > DEPTH_LIMIT {
                    let at = parser.offset();
                    return Err(fail(format!(
                        "Found too many nested data structures ({depth}) at character {at}"
                    )));
                }
                let table = lua.create_table()?;
                if matches!(begin, Step::ArrayBegin) {
                    if options.array_mt {
                        table.set_metatable(Some(array_mt.clone()))?;
                    }
                    if !parser.is_array_end().map_err(fail)? {
                        stack.push(Partial::Array(table, 0));
                        continue;
                    }
                } else if let Some(key) = parser.first_key().map_err(fail)? {
                    let key = Value::String(lua.create_string(key)?);
                    stack.push(Partial::Object(table, key));
                    continue;
                }
                Value::Table(table)
            }
        };
        // A value has ended: put it where it belongs, and see whether that ends, too.
        loop {
            match stack.last_mut() {
                None => {
                    parser.end().map_err(fail)?;
                    return Ok(value);
                }
                Some(Partial::Array(table, len)) => {
                    *len += 1;
                    table.raw_set(*len, value)?;
                    if parser.next_element().map_err(fail)? {
                        break;
                    }
                }
                Some(Partial::Object(table, key)) => {
                    table.raw_set(key.clone(), value)?;
                    if let Some(next) = parser.next_key().map_err(fail)? {
                        *key = Value::String(lua.create_string(next)?);
                        break;
                    }
                }
            }
            value = match stack.pop() {
                Some(Partial::Array(table, _) | Partial::Object(table, _)) => Value::Table(table),
                None => unreachable!("json-stack: a table was on it"),
            };
        }
    }
}

/// At most `count` arguments.
fn limit_arguments(lua: &Lua, args: &MultiValue, count: usize) -> mlua::Result<()> {
    if args.len() > count { Err(bad_argument(lua, count + 1, "found too many arguments")) } else { Ok(()) }
}

fn set_integer(
    lua: &Lua,
    args: &MultiValue,
    index: usize,
    range: (i32, i32),
    to: &mut i32,
) -> mlua::Result<Value> {
    let arg = args.get(index).unwrap_or(&Value::Nil);
    if !arg.is_nil() {
        let number = number_of(arg).ok_or_else(|| wrong_type(lua, index + 1, "number", Some(arg)))?;
        let number = number as i64;
        if number < i64::from(range.0) || number > i64::from(range.1) {
            let text = format!("expected integer between {} and {}", range.0, range.1);
            return Err(bad_argument(lua, 1, &text));
        }
        *to = number as i32;
    }
    Ok(Value::Integer(i64::from(*to)))
}

fn set_switch(lua: &Lua, args: &MultiValue, index: usize, to: &mut bool) -> mlua::Result<Value> {
    let mut choice = usize::from(*to);
    let shown = set_choice(lua, args, index, &["off", "on"], &mut choice)?;
    *to = choice != 0;
    Ok(shown)
}

fn set_choice(
    lua: &Lua,
    args: &MultiValue,
    index: usize,
    words: &[&str],
    to: &mut usize,
) -> mlua::Result<Value> {
    match args.get(index).unwrap_or(&Value::Nil) {
        Value::Nil => {}
        Value::Boolean(on) => *to = usize::from(*on),
        other => {
            let word = bytes_of(other).ok_or_else(|| wrong_type(lua, index + 1, "string", Some(other)))?;
            let shown = String::from_utf8_lossy(&word);
            let invalid = || bad_argument(lua, index + 1, &format!("invalid option '{shown}'"));
            *to = words.iter().position(|known| word == known.as_bytes()).ok_or_else(invalid)?;
        }
    }
    Ok(match *to {
        0 => Value::Boolean(false),
        1 => Value::Boolean(true),
        chosen => Value::String(lua.create_string(words[chosen])?),
    })
}

type Setter = fn(&Lua, &MultiValue, &mut Options) -> mlua::Result<Vec<Value>>;

const SETTERS: &[(&str, usize, Setter)] = &[
    ("encode_sparse_array", 3, |lua, args, options| {
        Ok(vec![
            set_switch(lua, args, 0, &mut options.sparse_convert)?,
            set_integer(lua, args, 1, (0, i32::MAX), &mut options.sparse_ratio)?,
            set_integer(lua, args, 2, (0, i32::MAX), &mut options.sparse_safe)?,
        ])
    }),
    ("encode_max_depth", 1, |lua, args, options| {
        Ok(vec![set_integer(lua, args, 0, (1, i32::MAX), &mut options.encode_depth_max)?])
    }),
    ("decode_max_depth", 1, |lua, args, options| {
        Ok(vec![set_integer(lua, args, 0, (1, i32::MAX), &mut options.decode_depth_max)?])
    }),
    ("encode_number_precision", 1, |lua, args, options| {
        Ok(vec![set_integer(lua, args, 0, (1, 14), &mut options.precision)?])
    }),
    ("encode_keep_buffer", 1, |lua, args, options| {
        Ok(vec![set_switch(lua, args, 0, &mut options.keep_buffer)?])
    }),
    ("encode_invalid_numbers", 1, |lua, args, options| {
        Ok(vec![set_choice(lua, args, 0, &["off", "on", "null"], &mut options.encode_invalid)?])
    }),
    ("decode_invalid_numbers", 1, |lua, args, options| {
        Ok(vec![set_choice(lua, args, 0, &["off", "on"], &mut options.decode_invalid)?])
    }),
    ("decode_array_with_array_mt", 1, |lua, args, options| {
        Ok(vec![set_switch(lua, args, 0, &mut options.array_mt)?])
    }),
];

/// A copy of the library, set to `options`.
pub fn library(lua: &Lua, options: &Shared) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let array_mt = lua.create_table()?;
    let (shared, mark) = (options.clone(), array_mt.clone());
    let encode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(bad_argument(lua, 1, "expected 1 argument"));
        }
        let options = shared.borrow().clone();
        let encoder = Encoder { lua, options, array_mt: &mark, out: Vec::new(), stack: Vec::new() };
        lua.create_string(encoder.run(&args[0])?)
    };
    table.raw_set("encode", lua.create_function(encode)?)?;
    let (shared, mark) = (options.clone(), array_mt.clone());
    let decode_text = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(bad_argument(lua, 1, "expected 1 argument"));
        }
        let options = shared.borrow().clone();
        let args: Vec<Value> = args.into_iter().collect();
        match &args[0] {
            Value::String(text) => decode(lua, &options, &mark, &text.as_bytes()),
            _ => decode(lua, &options, &mark, &super::bytes_argument(lua, &args, 0)?),
        }
    };
    table.raw_set("decode", lua.create_function(decode_text)?)?;
    for (name, count, set) in SETTERS {
        let shared = options.clone();
        let function = move |lua: &Lua, args: MultiValue| {
            limit_arguments(lua, &args, *count)?;
            shared.borrow_mut().is_changed = true;
            set(lua, &args, &mut shared.borrow_mut()).map(MultiValue::from_vec)
        };
        table.raw_set(*name, lua.create_function(function)?)?;
    }
    let fresh = |lua: &Lua, _: ()| library(lua, &Shared::default());
    table.raw_set("new", lua.create_function(fresh)?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("array_mt", array_mt)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
