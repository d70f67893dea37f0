//! Read-only tables: scripts hold stand-ins, and functions that read or change tables know what they stand for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;

use base::limits::LUA_PATTERN_BYTES_MAX;
use mlua::{Error, Function, Lua, MultiValue, Table, Value};

use super::errors::{foreign_text, raise, raise_at, raise_bare, raised, type_name};
use super::libs::number_of;

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// How those errors of Lua's own functions begin that say where they were called.
const PLACED: &[&str] = &[
    "bad argument",
    "wrong number",
    "cannot change",
    "malformed",
    "missing",
    "invalid capture",
    "invalid pattern",
    "invalid replacement",
    "unfinished capture",
    "too many captures",
];

/// What each stand-in stands for.
#[derive(Clone, Default)]
struct StandIns(Rc<RefCell<HashMap<*const c_void, Table>>>);

impl StandIns {
    fn real(&self, table: &Table) -> Option<Table> {
        self.0.borrow().get(&table.to_pointer()).cloned()
    }

    fn is_read_only(&self, table: &Table) -> bool {
        self.0.borrow().contains_key(&table.to_pointer())
    }
}

fn bad_argument(lua: &Lua, number: usize, name: &str, what: &str) -> Error {
    raise(lua, format!("bad argument #{number} to '{name}' ({what})"))
}

fn table_expected(lua: &Lua, name: &str, got: Option<&Value>) -> Error {
    bad_argument(lua, 1, name, &format!("table expected, got {}", type_name(got)))
}

/// What a function of Lua itself raised, as if the script had called it by `name`.
fn as_called(lua: &Lua, name: &str, error: Error) -> Error {
    if raised(&error).is_some() {
        return error;
    }
    let text = foreign_text(&error).replacen("to '?'", &format!("to '{name}'"), 1);
    let has_place = PLACED.iter().any(|start| text.starts_with(start));
    if has_place { raise(lua, text) } else { raise_bare(text) }
}

/// Adds the functions that know stand-ins.
pub fn add(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let known = StandIns::default();
    let names = known.clone();
    let stands_for = move |_: &Lua, (stand_in, real): (Table, Table)| {
        names.0.borrow_mut().insert(stand_in.to_pointer(), real);
        Ok(())
    };
    native.set("stands_for", lua.create_function(stands_for)?)?;
    native.set("expected", lua.create_function(expected)?)?;
    let names = known.clone();
    native.set("through", lua.create_function(move |lua, args| through(lua, &names, args))?)?;
    native.set("matching", lua.create_function(matching)?)?;
    let names = known.clone();
    native.set("pairs", lua.create_function(move |lua, args| pairs(lua, &names, args))?)?;
    let names = known.clone();
    native.set("insert", lua.create_function(move |lua, raw| insert(lua, &names, raw))?)?;
    let names = known.clone();
    let changeable = move |_: &Lua, table: Table| match names.is_read_only(&table) {
        true => Err(raise_bare(READ_ONLY)),
        false => Ok(table),
    };
    native.set("changeable", lua.create_function(changeable)?)?;
    let names = known;
    let readable = move |_: &Lua, value: Value| match &value {
        Value::Table(table) => Ok(names.real(table).map_or(value, Value::Table)),
        _ => Ok(value),
    };
    native.set("readable", lua.create_function(readable)?)?;
    native.set("getmetatable", lua.create_function(getmetatable)?)?;
    native.set("sort", lua.create_function(sort)?)?;
    native.set("load", lua.create_function(load)?)
}

/// Raises what is wrong with an argument of the function that calls this.
fn expected(lua: &Lua, (name, what, number): (String, String, Option<usize>)) -> mlua::Result<()> {
    let number = number.unwrap_or(1);
    Err(raise_at(lua, 2, format!("bad argument #{number} to '{name}' ({what})")))
}

/// A stand-in for `raw`, a function of Lua that changes its first argument, a table, or only reads it.
fn through(
    lua: &Lua,
    known: &StandIns,
    (name, raw, changes): (String, Function, bool),
) -> mlua::Result<Function> {
    let known = known.clone();
    lua.create_function(move |lua, mut args: MultiValue| {
        match args.front() {
            Some(Value::Table(table)) => {
                if let Some(real) = known.real(table) {
                    if changes {
                        return Err(raise_bare(READ_ONLY));
                    }
                    args.pop_front();
                    args.push_front(Value::Table(real));
                }
            }
            other => return Err(table_expected(lua, &name, other)),
        }
        raw.call::<MultiValue>(args).map_err(|error| as_called(lua, &name, error))
    })
}

/// `raw`, a function of Lua that matches its first argument against a pattern. Lua recurses for each item of the
/// pattern: a long one would overflow the thread's stack.
fn matching(lua: &Lua, (name, raw): (String, Function)) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: MultiValue| {
        if let Some(Value::String(pattern)) = args.get(1) {
            let pattern = pattern.as_bytes();
            let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte);
            if pattern.len() > LUA_PATTERN_BYTES_MAX && pattern.iter().any(is_special) {
                return Err(raise(lua, "pattern too complex"));
            }
        }
        raw.call::<MultiValue>(args).map_err(|error| as_called(lua, &name, error))
    })
}

/// `pairs`, which walks what a stand-in stands for with `next`, and other tables as `raw` has it.
fn pairs(lua: &Lua, known: &StandIns, (next, raw): (Function, Function)) -> mlua::Result<Function> {
    let (raw_next, _): (Function, Value) = raw.call(lua.create_table()?)?;
    let known = known.clone();
    lua.create_function(move |lua, args: MultiValue| match args.front() {
        Some(Value::Table(table)) => {
            let next = if known.is_read_only(table) { &next } else { &raw_next };
            Ok((next.clone(), table.clone(), Value::Nil))
        }
        other => Err(table_expected(lua, "pairs", other)),
    })
}

/// `table.insert`
fn insert(lua: &Lua, known: &StandIns, raw: Function) -> mlua::Result<Function> {
    let known = known.clone();
    lua.create_function(move |lua, args: MultiValue| {
        let table = match args.front() {
            Some(Value::Table(table)) if known.is_read_only(table) => return Err(raise_bare(READ_ONLY)),
            Some(Value::Table(table)) => table,
            other => return Err(table_expected(lua, "insert", other)),
        };
        match args.len() {
            2 => table.raw_set(table.raw_len() + 1, &args[1]),
            3 if number_of(&args[1]).is_none() => {
                let what = format!("number expected, got {}", type_name(args.get(1)));
                Err(bad_argument(lua, 2, "insert", &what))
            }
            3 => raw.call::<()>(args).map_err(|error| as_called(lua, "insert", error)),
            _ => Err(raise(lua, "wrong number of arguments to 'insert'")),
        }
    })
}

/// `getmetatable`; what hides its metatable with `false` has none.
fn getmetatable(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let meta = match args.front() {
        None => return Err(bad_argument(lua, 1, "getmetatable", "value expected")),
        Some(Value::Table(table)) => table.metatable(),
        Some(Value::String(_)) => lua.type_metatable::<mlua::String>(),
        Some(_) => None,
    };
    let Some(meta) = meta else { return Ok(Value::Nil) };
    Ok(match meta.raw_get::<Value>("__metatable")? {
        Value::Nil => Value::Table(meta),
        Value::Boolean(false) => Value::Nil,
        shown => shown,
    })
}

/// Raises what is wrong with the arguments of `table.sort`, which calls this.
fn sort(lua: &Lua, (table, comparator): (Value, Value)) -> mlua::Result<()> {
    let (number, what, got) =
        if table.is_table() { (2, "function", &comparator) } else { (1, "table", &table) };
    let what = format!("{what} expected, got {}", type_name(Some(got)));
    expected(lua, ("sort".to_owned(), what, Some(number)))
}

/// Raises what is wrong with the argument of `load`, which calls this.
fn load(lua: &Lua, reader: Value) -> mlua::Result<()> {
    let what = format!("function expected, got {}", type_name(Some(&reader)));
    expected(lua, ("load".to_owned(), what, None))
}
