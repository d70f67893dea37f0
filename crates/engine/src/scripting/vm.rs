//! One thread's Lua: its state, the functions it has compiled, and how one of them is called.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::limits::{LUA_BYTES_MAX, LUA_COMPILED_MAX, LUA_HOOK_INSTRUCTIONS};
use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use resp::Proto;

use super::api;
use super::cache::{Script, Sha};
use super::errors::{self, Abort, Raised, caught, raised};
use super::functions::{Library, Registration};
use super::libs::{bit, cjson, cmsgpack, pack};
use super::random::Lrand48;
use crate::fault::Fault;

/// Bytes that all states of the process take.
static STATES_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that all states of the process took after their last run.
pub fn states_bytes() -> u64 {
    STATES_BYTES.load(Relaxed)
}

/// What the functions that scripts call share with whoever runs the script.
#[derive(Default)]
pub struct Shared {
    /// What `redis.setresp` chose.
    pub proto: Cell<Proto>,
    /// Where the run was when it was ended: the chunk and the line.
    pub place: RefCell<Option<(Vec<u8>, i64)>>,
    /// Why the run is to end: nothing in Lua gets past it.
    pub abort: Cell<Option<Abort>>,
    /// The numbers of `math.random`.
    pub random: RefCell<Lrand48>,
    /// `redis.call` of the run.
    pub call: RefCell<Option<Function>>,
    /// `redis.pcall` of the run.
    pub pcall: RefCell<Option<Function>>,
    /// What needs the server: see [`api::Request`].
    pub ask: RefCell<Option<Function>>,
    /// What the library that is being loaded has registered.
    pub registered: RefCell<Option<Vec<Registration>>>,
    /// How `cjson` is set.
    json: cjson::Shared,
}

/// The functions of a library, by name.
type LoadedFunctions = HashMap<Vec<u8>, Function>;

/// A thread's Lua.
pub struct Vm {
    lua: Lua,
    /// What scripts share with those who run them.
    pub shared: Rc<Shared>,
    eval_globals: Table,
    /// What KEYS and ARGV are put in.
    eval_real: Table,
    eval_redis: Table,
    function_globals: Table,
    function_real: Table,
    load_real: Table,
    xpcall: Function,
    handler: Function,
    scripts: HashMap<Sha, (Arc<Script>, Function)>,
    libraries: HashMap<Vec<u8>, (Arc<Library>, LoadedFunctions)>,
    counted_bytes: u64,
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

thread_local! {
    static VM: RefCell<Option<Box<Vm>>> = const { RefCell::new(None) };
}

/// Runs `work` with this thread's Lua, which is made when first asked for.
pub fn with<R>(work: impl FnOnce(&mut Vm) -> R) -> R {
    // Out of its place meanwhile: after a panic, the next script gets a new one.
    let mut vm = VM.take().unwrap_or_else(|| Box::new(Vm::new().expect("lua-state: the sandbox loads")));
    let result = work(&mut vm);
    vm.count_bytes();
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
        let shared = Rc::new(Shared::default());
        let native = api::natives(&lua, &shared)?;
        let (eval_redis, handler): (Table, Function) = (native.get("eval_api")?, native.get("handler")?);
        let tables = lua.create_table()?;
        tables.set("cjson", cjson::library(&lua, &shared.json)?)?;
        tables.set("cmsgpack", cmsgpack::library(&lua)?)?;
        tables.set("bit", bit::library(&lua)?)?;
        tables.set("struct", pack::library(&lua)?)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(format!("={}", api::SANDBOX));
        let parts: (Table, Table, Table, Table, Table, Function) = sandbox.call((native, tables))?;
        let (eval_globals, eval_real, function_globals, function_real, load_real, xpcall) = parts;
        watch_instructions(&lua, &shared)?;
        lua.set_globals(eval_globals.clone())?;
        lua.set_memory_limit(LUA_BYTES_MAX)?;
        Ok(Vm {
            lua,
            shared,
            eval_globals,
            eval_real,
            eval_redis,
            function_globals,
            function_real,
            load_real,
            xpcall,
            handler,
            scripts: HashMap::new(),
            libraries: HashMap::new(),
            counted_bytes: 0,
        })
    }

    /// The state itself.
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    fn count_bytes(&mut self) {
        let bytes = self.lua.used_memory() as u64;
        STATES_BYTES.fetch_add(bytes.wrapping_sub(self.counted_bytes), Relaxed);
        self.counted_bytes = bytes;
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

    /// The compiled script of a digest, if this thread has it and the server still knows it.
    pub fn script(&mut self, sha: &Sha) -> Option<(Arc<Script>, Function)> {
        let (script, function) = self.scripts.get(sha)?;
        if script.is_known() {
            return Some((script.clone(), function.clone()));
        }
        self.scripts.remove(sha);
        None
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
        let late = RefCell::new(is_late);
        let ended = self.lua.scope(|scope| {
            let ask = scope.create_function(|_, _: MultiValue| match (late.borrow_mut())() {
                true => Err(Raised::Abort(Abort::LoadTimeout).into()),
                false => Ok(Value::Nil),
            })?;
            self.begin(None, None, Some(ask));
            let ended = self.call(&function, None);
            self.finish();
            Ok(ended)
        });
        set_index(&self.function_real);
        let registered = self.shared.registered.take().unwrap_or_default();
        let failed = |text: &str| Fault::quoting("ERR Error registering functions: ", text.as_bytes(), "");
        match ended.expect("lua-scope: nothing in it fails") {
            Ended::Returned(_) => Ok(registered),
            Ended::Failed(failure) => {
                Err(Fault::quoting("ERR Error registering functions: ", &failure.err, ""))
            }
            Ended::Aborted(_) => Err(failed("ERR FUNCTION LOAD timeout")),
        }
    }

    /// Readies what scripts share for a run.
    fn begin(&self, call: Option<Function>, pcall: Option<Function>, ask: Option<Function>) {
        self.shared.proto.set(Proto::V2);
        self.shared.abort.set(None);
        *self.shared.json.borrow_mut() = cjson::Options::default();
        self.shared.call.replace(call);
        self.shared.pcall.replace(pcall);
        self.shared.ask.replace(ask);
    }

    /// Forgets the run's functions.
    fn finish(&self) {
        self.shared.call.take();
        self.shared.pcall.take();
        self.shared.ask.take();
    }

    /// Runs a script of EVAL, or with `is_function` a function of a library, with `runner` to answer what it asks.
    pub fn run(
        &self,
        function: &Function,
        keys: &[&[u8]],
        argv: &[&[u8]],
        is_function: bool,
        runner: &RefCell<&mut dyn Runner>,
    ) -> mlua::Result<Ended> {
        let lua = &self.lua;
        let (keys, argv) = (self.strings(keys)?, self.strings(argv)?);
        lua.scope(|scope| {
            let call =
                scope.create_function(|lua, args: MultiValue| runner.borrow_mut().call(lua, args, true))?;
            let pcall =
                scope.create_function(|lua, args: MultiValue| runner.borrow_mut().call(lua, args, false))?;
            let ask = scope.create_function(|lua, args: MultiValue| runner.borrow_mut().ask(lua, args))?;
            let args = if is_function {
                Some((keys, argv))
            } else {
                self.eval_redis.raw_set("call", &call)?;
                self.eval_redis.raw_set("pcall", &pcall)?;
                self.eval_real.raw_set("KEYS", keys)?;
                self.eval_real.raw_set("ARGV", argv)?;
                None
            };
            self.begin(Some(call), Some(pcall), Some(ask));
            let ended = self.call(function, args);
            self.finish();
            Ok(ended)
        })
    }

    fn strings(&self, bytes: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(bytes.len(), 0)?;
        for (index, bytes) in bytes.iter().enumerate() {
            table.raw_set(index + 1, self.lua.create_string(bytes)?)?;
        }
        Ok(table)
    }

    fn call(&self, function: &Function, args: Option<(Table, Table)>) -> Ended {
        let function = match args {
            None => Ok(function.clone()),
            Some(args) => function.bind(args),
        };
        let result =
            function.and_then(|function| self.xpcall.call::<(bool, Value)>((function, &self.handler)));
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

/// What answers a running script.
pub trait Runner {
    /// `redis.call`, or with `raises` false `redis.pcall`.
    fn call(&mut self, lua: &Lua, args: MultiValue, raises: bool) -> mlua::Result<Value>;
    /// Everything else that needs the server: see [`api::Request`].
    fn ask(&mut self, lua: &Lua, args: MultiValue) -> mlua::Result<Value>;
}

/// Has the run asked every so many instructions whether it may go on.
fn watch_instructions(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<()> {
    let shared = shared.clone();
    let triggers =
        HookTriggers { every_nth_instruction: Some(LUA_HOOK_INSTRUCTIONS), ..HookTriggers::default() };
    lua.set_global_hook(triggers, move |_, _| {
        if let Some(abort) = shared.abort.get() {
            return Err(Raised::Abort(abort).into());
        }
        let ask = shared.ask.borrow().clone();
        let Some(ask) = ask else { return Ok(VmState::Continue) };
        if let Err(error) = ask.call::<Value>((api::Request::MayGoOn as u8,)) {
            if let Some(Raised::Abort(abort)) = raised(&error) {
                shared.abort.set(Some(*abort));
            }
            return Err(error);
        }
        Ok(VmState::Continue)
    })
}
