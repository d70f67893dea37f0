//! What Rust functions raise in Lua, and what Lua code sees when it catches that.
//!
//! The binding carries an error of a Rust function through Lua as a userdata of its own. Scripts must see what Redis
//! shows them, a string or a table: so whatever catches errors in the sandbox passes them through [`caught`].

use std::fmt;

use mlua::{Error, Lua, Value};

/// Why a run ends before the script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// It touched a key that somebody else holds, or needs every stripe.
    Conflict,
    /// It took too long for a worker.
    Long,
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// A library's load took too long.
    LoadTimeout,
}

/// What a Rust function raises.
#[derive(Clone, Debug)]
pub enum Raised {
    /// A string, as `error` raises one.
    Text(Vec<u8>),
    /// A table whose field `err` is this, as `redis.call` raises one; `counted`: the statistics have it already.
    Table {
        /// The text of the reply, without `-`.
        err: Vec<u8>,
        /// It was counted as an error reply.
        counted: bool,
    },
    /// The run is over: nothing in Lua may catch it.
    Abort(Abort),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Table { err: text, .. } => {
                f.write_str(&String::from_utf8_lossy(text))
            }
            Raised::Abort(abort) => write!(f, "{abort:?}"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Error {
        Error::external(raised)
    }
}

/// `user_script:1: `: where the running function was called, as Lua's own functions begin their errors.
fn place(lua: &Lua, level: usize) -> String {
    let place = |debug: &mlua::Debug<'_>| {
        let source = debug.source();
        debug.current_line().map(|line| format!("{}:{line}: ", source.short_src.as_deref().unwrap_or("?")))
    };
    lua.inspect_stack(level, place).flatten().unwrap_or_default()
}

/// A string error that begins with where the running function was called.
pub fn raise(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    raise_at(lua, 1, text)
}

/// As [`raise`], for a function that is called `level` functions above the running one.
pub fn raise_at(lua: &Lua, level: usize, text: impl AsRef<[u8]>) -> Error {
    let mut bytes = place(lua, level).into_bytes();
    bytes.extend_from_slice(text.as_ref());
    Raised::Text(bytes).into()
}

/// A table error, as `redis.call` raises one.
pub fn raise_table(err: impl AsRef<[u8]>) -> Error {
    Raised::Table { err: err.as_ref().to_vec(), counted: false }.into()
}

/// `bad argument #1 to 'name' (what)`.
pub fn bad_argument(lua: &Lua, number: usize, what: &str) -> Error {
    let name = lua.inspect_stack(0, |debug| debug.names().name.map(|name| name.into_owned())).flatten();
    let name = name.unwrap_or_else(|| "?".to_owned());
    raise(lua, format!("bad argument #{number} to '{name}' ({what})"))
}

/// `bad argument #1 to 'name' (string expected, got nil)`.
pub fn wrong_type(lua: &Lua, number: usize, expected: &str, got: Option<&Value>) -> Error {
    bad_argument(lua, number, &format!("{expected} expected, got {}", type_name(got)))
}

/// The name of a value's type; of a missing argument, `no value`.
pub fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(Value::Error(_)) => "userdata",
        Some(value) => value.type_name(),
    }
}

/// What a Rust function raised, if the error is one of ours.
pub fn raised(error: &Error) -> Option<&Raised> {
    match error {
        Error::CallbackError { cause, .. } => raised(cause),
        Error::WithContext { cause, .. } => raised(cause),
        Error::ExternalError(error) => error.downcast_ref(),
        _ => None,
    }
}

/// The text of an error that is not ours: Lua's own, or the binding's.
pub fn foreign_text(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => foreign_text(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => {
            text.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    }
}

/// What Lua code that caught `value` gets to see. An error if nothing may catch it.
pub fn caught(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    match raised(error) {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Table { err, counted }) => Ok(Value::Table(error_table(lua, err, *counted)?)),
        Some(Raised::Abort(abort)) => Err(Raised::Abort(*abort).into()),
        None => Ok(Value::String(lua.create_string(foreign_text(error))?)),
    }
}

/// `{err = text}`, as scripts know errors; `counted`: the statistics have it already.
pub fn error_table(lua: &Lua, err: &[u8], counted: bool) -> mlua::Result<mlua::Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(err)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// A string error without a place.
pub fn raise_bare(text: impl AsRef<[u8]>) -> Error {
    Raised::Text(text.as_ref().to_vec()).into()
}
