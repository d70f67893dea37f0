//! One thread's Lua: its state, the functions it has compiled, and how one of them is called.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::limits::{
    LUA_BYTES_MAX, LUA_COMPILED_MAX, LUA_COUNT_STEP_BYTES, LUA_HOOK_INSTRUCTIONS, LUA_QUICK_BYTES_MAX,
    LUA_RECENT_MAX, LUA_SMALL_BYTES,
};
use mlua::{ChunkMode, Either, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use resp::{Args, ArgsBuffer, Proto};
use store::Lent;

use super::api::{self, Question};
use super::cache::{Script, Sha};
use super::errors::{self, Abort, Raised, caught, raise_table, raised};
use super::functions::{Library, Registration};
use super::libs::cjson::{self, Settings};
use super::libs::{bit, cmsgpack, pack};
use super::random::Lrand48;
use crate::fault::Fault;

/// Bytes that all states of the process take.
static STATES_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that all states of the process took after their last run.
pub fn states_bytes() -> u64 {
    STATES_BYTES.load(Relaxed)
}

/// What answers a running script.
pub type Runner<'a> = dyn FnMut(&Lua, Question) -> mlua::Result<Value> + 'a;

/// Words that replies are made of and looked through for, in Lua's hands already.
#[expect(missing_docs, reason = "each is its name")]
pub struct Names {
    pub ok: mlua::String,
    pub err: mlua::String,
    pub double: mlua::String,
    pub map: mlua::String,
    pub set: mlua::String,
    pub big_number: mlua::String,
    pub verbatim_string: mlua::String,
    /// `OK`, as a status.
    pub status_ok: mlua::String,
}

impl Names {
    fn new(lua: &Lua) -> mlua::Result<Names> {
        Ok(Names {
            ok: lua.create_string("ok")?,
            err: lua.create_string("err")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            status_ok: lua.create_string("OK")?,
        })
    }
}

/// What the functions that scripts call share with whoever runs the script.
pub struct Shared {
    /// Words of replies.
    pub names: Names,
    /// Whoever runs the script.
    pub runner: Lent<Lua, Question, mlua::Result<Value>>,
    /// What `redis.setresp` chose.
    pub proto: Cell<Proto>,
    /// Where the run was when it was ended: the chunk and the line.
    pub place: RefCell<Option<(Vec<u8>, i64)>>,
    /// Why the run is to end: nothing in Lua gets past it.
    pub abort: Cell<Option<Abort>>,
    /// The numbers of `math.random`.
    pub random: RefCell<Lrand48>,
    /// Memory that each command of a script uses anew.
    pub scratch: RefCell<Scratch>,
    /// What the library that is being loaded has registered.
    pub registered: RefCell<Option<Vec<Registration>>>,
    /// How `cjson` is set.
    pub json: cjson::Shared,
}

impl Shared {
    fn new(lua: &Lua) -> mlua::Result<Shared> {
        Ok(Shared {
            names: Names::new(lua)?,
            runner: Lent::default(),
            proto: Cell::default(),
            place: RefCell::default(),
            abort: Cell::default(),
            random: RefCell::default(),
            scratch: RefCell::default(),
            registered: RefCell::default(),
            json: cjson::Shared::default(),
        })
    }
}

/// Memory that each command of a script uses anew.
#[derive(Default)]
pub struct Scratch {
    /// Its arguments.
    pub args: ArgsBuffer,
    /// Its reply.
    pub reply: Vec<u8>,
}

/// A script as a thread knows it, counted within the thread: a count that all threads change goes back and forth between
/// them, which costs more than counting.
pub type Found = Rc<Arc<Script>>;

/// The functions of a library, by name.
type LoadedFunctions = HashMap<Vec<u8>, Function>;

/// A thread's Lua.
pub struct Vm {
    lua: Lua,
    /// What scripts share with those who run them.
    pub shared: Rc<Shared>,
    eval_globals: Table,
    function_globals: Table,
    function_real: Table,
    load_real: Table,
    run_code: Function,
    run_script: Function,
    run_function: Function,
    scripts: HashMap<Sha, (Arc<Script>, Function)>,
    /// Those of them that ran last, the latest one first: found without a digest.
    recent: Vec<(Found, Function)>,
    libraries: HashMap<Vec<u8>, (Arc<Library>, LoadedFunctions)>,
    counted_bytes: u64,
    /// With more bytes than this, the collector is started anew.
    restart_at_bytes: u64,
    /// Which of the settings of `cjson` are in force: whose, and their version.
    json_from: (bool, u64),
}

/// How a run ended.
pub enum Ended {
    /// It returned this.
    Returned(Value),
    /// It failed.
    Failed(Failure),
    /// It did not get to its end.
    Aborted(Abort),
}

/// Why a script failed.
pub struct Failure {
    /// The error's text.
    pub err: Vec<u8>,
    /// Where it was: the chunk and the line.
    pub place: Option<(Vec<u8>, i64)>,
    /// The statistics have it already.
    pub is_counted: bool,
}

const GC_PAUSE: i32 = 200;
const GC_PAUSE_SMALL: i32 = 600;
const GC_STEP_MULTIPLIER: i32 = 200;

thread_local! {
    static VM: RefCell<Option<Box<Vm>>> = const { RefCell::new(None) };
}

/// Runs `work` with this thread's Lua, which is made when first asked for.
pub fn with<R>(work: impl FnOnce(&mut Vm) -> R) -> R {
    // Out of its place meanwhile: after a panic, the next script gets a new one.
    let mut vm = VM.take().unwrap_or_else(|| Box::new(Vm::new().expect("lua-state: the sandbox loads")));
    let result = work(&mut vm);
    VM.set(Some(vm));
    result
}

impl Drop for Vm {
    fn drop(&mut self) {
        STATES_BYTES.fetch_sub(self.counted_bytes, Relaxed);
    }
}

impl Vm {
    fn new() -> mlua::Result<Vm> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let shared = Rc::new(Shared::new(&lua)?);
        let native = api::natives(&lua, &shared)?;
        let tables = lua.create_table()?;
        tables.set("cjson", cjson::library(&lua, &shared.json)?)?;
        tables.set("cmsgpack", cmsgpack::library(&lua)?)?;
        tables.set("bit", bit::library(&lua)?)?;
        tables.set("struct", pack::library(&lua)?)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(format!("={}", api::SANDBOX));
        type Parts = (Table, Table, Table, Table, Function, Function, Function);
        let parts: Parts = sandbox.call((native, tables))?;
        let (eval_globals, function_globals, function_real, load_real, run_code, run_script, run_function) =
            parts;
        watch_instructions(&lua, &shared)?;
        lua.set_globals(eval_globals.clone())?;
        lua.set_memory_limit(LUA_BYTES_MAX)?;
        lua.gc_set_pause(GC_PAUSE_SMALL);
        Ok(Vm {
            lua,
            shared,
            eval_globals,
            function_globals,
            function_real,
            load_real,
            run_code,
            run_script,
            run_function,
            scripts: HashMap::new(),
            recent: Vec::with_capacity(LUA_RECENT_MAX),
            libraries: HashMap::new(),
            counted_bytes: 0,
            restart_at_bytes: 8 * LUA_SMALL_BYTES,
            json_from: (false, 0),
        })
    }

    /// The state itself.
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Tells others how much memory the state takes, once that has changed noticeably.
    fn count_bytes(&mut self) {
        let bytes = self.lua.used_memory() as u64;
        if bytes.abs_diff(self.counted_bytes) >= LUA_COUNT_STEP_BYTES {
            STATES_BYTES.fetch_add(bytes.wrapping_sub(self.counted_bytes), Relaxed);
            self.counted_bytes = bytes;
            self.tend_collector(bytes);
        }
    }

    /// Sets the collector to rights, which a script may have slowed or stopped.
    fn tend_collector(&mut self, bytes: u64) {
        self.lua.gc_set_pause(gc_pause(bytes));
        self.lua.gc_set_step_multiplier(GC_STEP_MULTIPLIER);
        if bytes > self.restart_at_bytes {
            self.lua.gc_restart();
        }
        if bytes > self.restart_at_bytes || bytes < self.restart_at_bytes / 8 {
            self.restart_at_bytes = (2 * bytes).max(8 * LUA_SMALL_BYTES);
        }
    }

    fn compile(&self, code: &[u8], name: &str, globals: &Table) -> Result<Function, String> {
        let chunk =
            self.lua.load(code).set_name(name).set_mode(ChunkMode::Text).set_environment(globals.clone());
        chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// Compiles a script of EVAL; the error is what the client is told.
    pub fn compile_script(&self, code: &[u8]) -> Result<Function, Fault> {
        self.compile(code, "@user_script", &self.eval_globals)
            .map_err(|text| Fault::owned(format!("ERR Error compiling script (new function): {text}")))
    }

    /// One of the scripts that ran last, and that the server still knows.
    pub fn recent_script(&mut self, is_it: impl Fn(&Script) -> bool) -> Option<Found> {
        let at = self.recent.iter().position(|(script, _)| is_it(script))?;
        if !self.recent[at].0.is_known() {
            self.recent.remove(at);
            return None;
        }
        self.recent.swap(0, at);
        Some(self.recent[0].0.clone())
    }

    /// The script of a digest, if this thread has compiled it and the server still knows it.
    pub fn script(&mut self, sha: &Sha) -> Option<Arc<Script>> {
        let (script, _) = self.scripts.get(sha)?;
        if script.is_known() {
            return Some(script.clone());
        }
        self.scripts.remove(sha);
        None
    }

    /// A script's function.
    pub fn script_function(&mut self, script: &Arc<Script>) -> Result<Function, Fault> {
        if let Some((recent, function)) = self.recent.first()
            && Arc::ptr_eq(recent, script)
        {
            return Ok(function.clone());
        }
        let known = self.scripts.get(&script.sha).filter(|(known, _)| Arc::ptr_eq(known, script));
        let function = match known {
            Some((_, function)) => function.clone(),
            None => {
                let function = self.compile_script(&script.source[script.code_at..])?;
                self.keep_script(script, &function);
                function
            }
        };
        self.recent.retain(|(recent, _)| !Arc::ptr_eq(recent, script));
        self.recent.truncate(LUA_RECENT_MAX - 1);
        self.recent.insert(0, (Rc::new(script.clone()), function.clone()));
        Ok(function)
    }

    /// Keeps a compiled script for the next time.
    pub fn keep_script(&mut self, script: &Arc<Script>, function: &Function) {
        if self.scripts.len() >= LUA_COMPILED_MAX {
            self.scripts.retain(|_, (script, _)| script.is_known());
        }
        if self.scripts.len() >= LUA_COMPILED_MAX {
            self.scripts.clear();
        }
        self.scripts.insert(script.sha, (script.clone(), function.clone()));
    }

    /// A function of a library, which is loaded if this thread has not loaded it yet.
    pub fn library_function(&mut self, library: &Arc<Library>, name: &[u8]) -> Result<Function, Fault> {
        if let Some((loaded, functions)) = self.libraries.get(&library.name)
            && Arc::ptr_eq(loaded, library)
        {
            return Ok(functions[name].clone());
        }
        if self.libraries.len() >= LUA_COMPILED_MAX {
            self.libraries.clear();
        }
        let functions: HashMap<Vec<u8>, Function> = self
            .load_library(library.code(), &mut || false)?
            .into_iter()
            .map(|one| (one.name, one.callback))
            .collect();
        let function = functions[name].clone();
        self.libraries.insert(library.name.clone(), (library.clone(), functions));
        Ok(function)
    }

    /// Runs a library's code and returns what it registered. `is_late` says when that takes too long.
    pub fn load_library(
        &self,
        code: &[u8],
        is_late: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Registration>, Fault> {
        let compiled = self.compile(code, "@user_function", &self.function_globals);
        let function =
            compiled.map_err(|text| Fault::owned(format!("ERR Error compiling function: {text}")))?;
        let meta = self.function_globals.metatable().expect("read-only-table: it has a metatable");
        let set_index =
            |index: &Table| meta.raw_set("__index", index).expect("read-only-table: it can be set up");
        set_index(&self.load_real);
        self.shared.registered.replace(Some(Vec::new()));
        let mut runner = |_: &Lua, question: Question| match question {
            Question::Call { .. } => Err(raise_table(api::NO_RUN)),
            _ if is_late() => Err(Raised::Abort(Abort::LoadTimeout).into()),
            _ => Ok(Value::Nil),
        };
        self.begin();
        let ended = self.shared.runner.during(&mut runner, || self.ended(self.run_code.call(&function)));
        set_index(&self.function_real);
        let registered = self.shared.registered.take().unwrap_or_default();
        let failed = |text: &str| Fault::quoting("ERR Error registering functions: ", text.as_bytes(), "");
        match ended {
            Ended::Returned(_) => Ok(registered),
            Ended::Failed(failure) => {
                Err(Fault::quoting("ERR Error registering functions: ", &failure.err, ""))
            }
            Ended::Aborted(_) => Err(failed("ERR FUNCTION LOAD timeout")),
        }
    }

    /// Readies what scripts share for a run.
    fn begin(&self) {
        self.shared.proto.set(Proto::V2);
        self.shared.abort.set(None);
    }

    /// Runs a script of EVAL, or with `is_function` a function of a library, with `runner` to answer what it asks.
    pub fn run(
        &mut self,
        function: &Function,
        keys: Args<'_>,
        argv: Args<'_>,
        is_function: bool,
        settings: &Settings,
        runner: &mut Runner<'_>,
    ) -> mlua::Result<Ended> {
        self.take_settings(is_function, settings);
        let bytes: usize = keys.iter().chain(argv.iter()).map(|arg| arg.len() + size_of::<Value>()).sum();
        let strings = || mlua::Result::Ok((self.strings(keys)?, self.strings(argv)?));
        let (keys, argv) = quickly(&self.lua, bytes, strings)?;
        let run = if is_function { &self.run_function } else { &self.run_script };
        self.begin();
        let ended = self.shared.runner.during(runner, || self.ended(run.call((function, keys, argv))));
        self.count_bytes();
        self.give_settings(settings, &ended);
        Ok(ended)
    }

    /// Sets `cjson` as the scripts of all threads have left it.
    fn take_settings(&mut self, is_function: bool, settings: &Settings) {
        if let Some((version, options)) = settings.newer_than(self.json_from, is_function) {
            *self.shared.json.borrow_mut() = options;
            self.json_from = (is_function, version);
        }
    }

    /// Leaves `cjson` as the script has set it, for those of all threads. What is given up has set nothing.
    fn give_settings(&mut self, settings: &Settings, ended: &Ended) {
        let mut options = self.shared.json.borrow_mut();
        if !std::mem::take(&mut options.is_changed) {
            return;
        }
        let is_function = self.json_from.0;
        self.json_from.1 = match ended {
            Ended::Aborted(_) => u64::MAX,
            _ => settings.set(is_function, options.clone()),
        };
    }

    fn strings(&self, args: Args<'_>) -> mlua::Result<Table> {
        let mut failed = None;
        let strings = args.iter().map(|arg| {
            lua_text(&self.lua, arg).unwrap_or_else(|error| {
                failed = Some(error);
                Either::Left("")
            })
        });
        let table = self.lua.create_sequence_from(strings)?;
        failed.map_or(Ok(table), Err)
    }

    /// What came of a call of one of the sandbox's functions that run code.
    fn ended(&self, result: mlua::Result<(bool, Value)>) -> Ended {
        if let Some(abort) = self.shared.abort.take() {
            return Ended::Aborted(abort);
        }
        match result {
            Ok((true, value)) => Ended::Returned(value),
            Ok((false, value)) => self.failure(value),
            Err(error) => match raised(&error) {
                Some(Raised::Abort(abort)) => Ended::Aborted(*abort),
                _ => Ended::Failed(Failure {
                    err: format!("ERR {}", errors::foreign_text(&error)).into_bytes(),
                    place: None,
                    is_counted: false,
                }),
            },
        }
    }

    /// What the handler made of an error.
    fn failure(&self, value: Value) -> Ended {
        let value = match caught(&self.lua, value) {
            Ok(value) => value,
            Err(error) => match raised(&error) {
                Some(Raised::Abort(abort)) => return Ended::Aborted(*abort),
                _ => Value::Nil,
            },
        };
        let text = |value: Value| match value {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        Ended::Failed(match value {
            Value::Table(table) => {
                let field = |name: &str| table.raw_get::<Value>(name).unwrap_or_default();
                let err = text(field("err")).unwrap_or_else(|| b"ERR unknown error".to_vec());
                let place = text(field("source")).zip(field("line").as_i64());
                let is_counted = matches!(field("ignore_error_stats_update"), Value::Boolean(true));
                Failure { err, place, is_counted }
            }
            other => {
                let err = [&b"ERR "[..], &text(other).unwrap_or_default()].concat();
                Failure { err, place: None, is_counted: false }
            }
        })
    }
}

/// A text on its way to Lua, by the shortest way that the binding has.
pub fn lua_text<'a>(lua: &Lua, bytes: &'a [u8]) -> mlua::Result<Either<&'a str, mlua::String>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Either::Left(text)),
        Err(_) => lua.create_string(bytes).map(Either::Right),
    }
}

/// By how many percent memory grows until it is collected again. Most states are small, and scripts short: collecting then
/// costs more than what the script does.
fn gc_pause(bytes: u64) -> i32 {
    if bytes < LUA_SMALL_BYTES { GC_PAUSE_SMALL } else { GC_PAUSE }
}

/// Runs `work`, which makes values of Lua of about so many bytes. If they are few, the bound on the state's memory is
/// lifted meanwhile: under a bound, the binding makes each value in a protected call, which costs several times the value.
pub fn quickly<R>(lua: &Lua, bytes: usize, work: impl FnOnce() -> R) -> R {
    if bytes > LUA_QUICK_BYTES_MAX {
        return work();
    }
    let bound = |bytes: usize| lua.set_memory_limit(bytes).expect("lua-state: its memory is bounded");
    bound(0);
    let result = work();
    bound(LUA_BYTES_MAX);
    result
}

/// Has the run asked every so many instructions whether it may go on.
fn watch_instructions(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<()> {
    let shared = shared.clone();
    let triggers =
        HookTriggers { every_nth_instruction: Some(LUA_HOOK_INSTRUCTIONS), ..HookTriggers::default() };
    lua.set_global_hook(triggers, move |lua, _| {
        lua.gc_set_pause(gc_pause(lua.used_memory() as u64));
        if let Some(abort) = shared.abort.get() {
            return Err(Raised::Abort(abort).into());
        }
        if let Some(Err(error)) = shared.runner.ask(lua, Question::MayGoOn) {
            if let Some(Raised::Abort(abort)) = raised(&error) {
                shared.abort.set(Some(*abort));
            }
            return Err(error);
        }
        Ok(VmState::Continue)
    })
}
