//! What the sandbox is made of on Rust's side: the `redis` table and what stands in for functions of Lua.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};
use resp::Proto;

use super::cache::sha_hex;
use super::errors::{Raised, caught, error_table, raise_table, type_name};
use super::functions::{Registration, registration};
use super::libs::{bytes_of, number_argument, number_of};
use super::stand_ins;
use super::vm::Shared;

/// The name of the sandbox's own chunk.
pub const SANDBOX: &str = "sandbox";

/// The version of Redis that scripts see.
const VERSION: &str = crate::server::REDIS_VERSION;

/// Modes of `redis.set_repl`. There is one log for the files and for replicas, so that whoever names one of them names both.
const REPL_MODES: &[(&str, i64)] =
    &[("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// What functions of a script ask of whoever runs it.
pub enum Question {
    /// `redis.call`, or without `raises` `redis.pcall`.
    Call {
        /// The command.
        args: MultiValue,
        /// An error reply is raised.
        raises: bool,
    },
    /// May the run go on?
    MayGoOn,
    /// `redis.log`.
    Log {
        /// From 0, the least important.
        level: i64,
        /// What is to be logged.
        text: String,
    },
    /// `redis.acl_check_cmd`: the command.
    AclCheck(MultiValue),
    /// `os.clock`.
    CpuSeconds,
    /// `redis.set_repl`: whether the log is told what the script does from here on.
    Tells(bool),
}

/// What a call outside a run is told.
pub const NO_RUN: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// Everything that the sandbox needs.
pub fn natives(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set("caught", lua.create_function(|lua, value: Value| caught(lua, value))?)?;
    let state = shared.clone();
    let guard = move |_: &Lua, _: MultiValue| match state.abort.get() {
        Some(abort) => Err(Raised::Abort(abort).into()),
        None => Ok(()),
    };
    native.set("guard", lua.create_function(guard)?)?;
    let state = shared.clone();
    native.set("handler", lua.create_function(move |lua, value: Value| handler(lua, &state, value))?)?;
    stand_ins::add(lua, &native)?;
    let state = shared.clone();
    let random = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        state.random.borrow_mut().random(lua, &args)
    };
    native.set("random", lua.create_function(random)?)?;
    let state = shared.clone();
    let seed = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let seed = number_argument(lua, &args, 0)?;
        state.random.borrow_mut().seed(seed as i64 as i32);
        Ok(())
    };
    native.set("randomseed", lua.create_function(seed)?)?;
    let state = shared.clone();
    let clock = move |lua: &Lua, _: MultiValue| ask(lua, &state, Question::CpuSeconds);
    native.set("clock", lua.create_function(clock)?)?;
    native.set("eval_api", eval_api(lua, shared)?)?;
    native.set("function_api", calling_api(lua, shared)?)?;
    native.set("load_api", load_api(lua, shared)?)?;
    Ok(native)
}

/// Asks whoever runs the script; nil if nobody does.
fn ask(lua: &Lua, shared: &Shared, question: Question) -> mlua::Result<Value> {
    shared.runner.ask(lua, question).unwrap_or(Ok(Value::Nil))
}

/// Makes a table of an error, with the place where it was raised: what EVAL's reply is made of.
fn handler(lua: &Lua, shared: &Shared, value: Value) -> mlua::Result<Value> {
    let place = place_of_error(lua);
    let Ok(value) = caught(lua, value.clone()) else {
        shared.place.replace(place.map(|(source, line)| (source.into_bytes(), line)));
        return Ok(value);
    };
    let table = match value {
        Value::Table(table) => table,
        other => {
            let shown = bytes_of(&other).unwrap_or_else(|| match &other {
                Value::Boolean(value) => value.to_string().into_bytes(),
                other => type_name(Some(other)).as_bytes().to_vec(),
            });
            error_table(lua, &[b"ERR ", shown.as_slice()].concat(), false)?
        }
    };
    if let Some((source, line)) = place {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(Value::Table(table))
}

/// The chunk and line where the error was raised that the calling function handles.
fn place_of_error(lua: &Lua) -> Option<(String, i64)> {
    // Level 0 is the handler. A function of ours is not where the script failed; who called it is.
    for level in 1.. {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_ours = matches!(source.what, "C" | "tail");
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            (is_ours || name == format!("={SANDBOX}"), name, debug.current_line())
        });
        match place? {
            (true, ..) => {}
            (false, name, line) => return Some((name, line.map_or(-1, |line| line as i64))),
        }
    }
    None
}

/// What every kind of script finds in `redis`.
fn common_api(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    version_and_log(lua, shared, &api)?;
    let state = shared.clone();
    let setresp = move |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(raise_table("ERR redis.setresp() requires one argument."));
        }
        match number_of(&args[0]) {
            Some(2.0) => state.proto.set(Proto::V2),
            Some(3.0) => state.proto.set(Proto::V3),
            _ => return Err(raise_table("ERR RESP version must be 2 or 3.")),
        }
        Ok(())
    };
    api.set("setresp", lua.create_function(setresp)?)?;
    api.set("error_reply", lua.create_function(error_reply)?)?;
    api.set("status_reply", lua.create_function(status_reply)?)?;
    api.set("sha1hex", lua.create_function(sha1hex)?)?;
    let state = shared.clone();
    let set_repl = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(raise_table("ERR redis.set_repl() requires two arguments."));
        }
        match number_of(&args[0]).map(|mode| mode as i64) {
            Some(mode @ 0..=3) => ask(lua, &state, Question::Tells(mode != 0)).map(|_| ()),
            _ => Err(raise_table(
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            )),
        }
    };
    api.set("set_repl", lua.create_function(set_repl)?)?;
    REPL_MODES.iter().try_for_each(|(name, mode)| api.set(*name, *mode))?;
    let state = shared.clone();
    let acl_check = move |lua: &Lua, args: MultiValue| ask(lua, &state, Question::AclCheck(args));
    api.set("acl_check_cmd", lua.create_function(acl_check)?)?;
    Ok(api)
}

fn version_and_log(lua: &Lua, shared: &Rc<Shared>, api: &Table) -> mlua::Result<()> {
    api.set("REDIS_VERSION", VERSION)?;
    let number = VERSION.split('.').fold(0, |number, part| number << 8 | part.parse::<i64>().unwrap_or(0));
    api.set("REDIS_VERSION_NUM", number)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].iter().enumerate() {
        api.set(*name, level)?;
    }
    let state = shared.clone();
    let log = move |lua: &Lua, args: MultiValue| {
        if args.len() < 2 {
            return Err(raise_table("ERR redis.log() requires two arguments or more."));
        }
        let Some(level) = number_of(&args[0]) else {
            return Err(raise_table("ERR First argument must be a number (log level)."));
        };
        if !(0.0..=3.0).contains(&level) {
            return Err(raise_table("ERR Invalid debug level."));
        }
        let words: Vec<Vec<u8>> = args.iter().skip(1).filter_map(bytes_of).collect();
        let text = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        ask(lua, &state, Question::Log { level: level as i64, text }).map(|_| ())
    };
    api.set("log", lua.create_function(log)?)
}

/// `redis` for EVAL.
fn eval_api(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let api = calling_api(lua, shared)?;
    api.set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    api.set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    api.set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    Ok(api)
}

/// What whoever runs a script adds to that. Functions may keep it from one run to the next.
fn calling_api(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let api = common_api(lua, shared)?;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let state = shared.clone();
        let call = move |lua: &Lua, args: MultiValue| {
            let answer = state.runner.ask(lua, Question::Call { args, raises });
            answer.unwrap_or_else(|| Err(raise_table(NO_RUN)))
        };
        api.set(name, lua.create_function(call)?)?;
    }
    Ok(api)
}

/// `redis` while a library is loaded.
fn load_api(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    version_and_log(lua, shared, &api)?;
    let state = shared.clone();
    let register = move |_: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let new: Registration = registration(&args).map_err(raise_table)?;
        let mut registered = state.registered.borrow_mut();
        let Some(registered) = registered.as_mut() else {
            return Err(raise_table(
                "ERR redis.register_function can only be called on FUNCTION LOAD command",
            ));
        };
        if registered.iter().any(|known| known.name.eq_ignore_ascii_case(&new.name)) {
            return Err(raise_table("ERR Function already exists in the library"));
        }
        registered.push(new);
        Ok(())
    };
    api.set("register_function", lua.create_function(register)?)?;
    Ok(api)
}

fn one_field(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(table)
}

fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    let text = match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => text.as_bytes().to_vec(),
        _ => return error_table(lua, b"ERR wrong number or type of arguments", false),
    };
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
    match text.contains(&b' ') {
        true => one_field(lua, "err", text),
        false => one_field(lua, "err", &[b"ERR ", text].concat()),
    }
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => one_field(lua, "ok", &text.as_bytes()),
        _ => error_table(lua, b"ERR wrong number or type of arguments", false),
    }
}

fn sha1hex(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::String> {
    if args.len() != 1 {
        return Err(raise_table("ERR wrong number of arguments"));
    }
    lua.create_string(sha_hex(&args.front().and_then(bytes_of).unwrap_or_default()))
}
