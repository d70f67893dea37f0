//! Libraries of functions: shared by all threads as source; each thread's Lua loads what it is asked to run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::limits::LIBRARY_LOAD_US;
use mlua::{Function, Value};
use parking_lot::RwLock;

use super::cache::Habits;
use super::libs::bytes_of;
use super::shebang::{self, ScriptFlags};
use super::vm;
use crate::fault::{CmdResult, Fault};
use crate::server::Server;

/// A function as `redis.register_function` got it.
pub struct Registration {
    /// What FCALL calls it.
    pub name: Vec<u8>,
    /// What it does.
    pub callback: Function,
    /// What it says of itself.
    pub flags: ScriptFlags,
    /// What FUNCTION LIST says of it.
    pub description: Option<Vec<u8>>,
}

/// A function of a library.
pub struct FunctionInfo {
    /// What FCALL calls it.
    pub name: Vec<u8>,
    /// What it says of itself.
    pub flags: ScriptFlags,
    /// What FUNCTION LIST says of it.
    pub description: Option<Vec<u8>>,
    /// What its runs have shown.
    pub habits: Habits,
}

/// A library.
pub struct Library {
    /// Its name.
    pub name: Vec<u8>,
    /// All of it.
    pub source: Box<[u8]>,
    /// Where its code begins in `source`.
    code_at: usize,
    /// What it registered, by name.
    pub functions: Vec<FunctionInfo>,
}

impl Library {
    /// What Lua is given.
    pub fn code(&self) -> &[u8] {
        &self.source[self.code_at..]
    }
}

/// The libraries of one moment.
#[derive(Clone, Default)]
pub struct LibrarySet {
    /// By name.
    pub libraries: BTreeMap<Vec<u8>, Arc<Library>>,
    /// Each function's library and its place in it, by name in lower case: which is how functions are found.
    functions: HashMap<Vec<u8>, (Arc<Library>, usize)>,
}

impl LibrarySet {
    /// The function of a name, with its library.
    pub fn function(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        match self.functions.get(name) {
            Some(found) => Some(found.clone()),
            None => self.functions.get(&name.to_ascii_lowercase()).cloned(),
        }
    }

    /// How many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    fn add(&mut self, library: Arc<Library>) -> CmdResult {
        for function in &library.functions {
            if self.functions.contains_key(&function.name.to_ascii_lowercase()) {
                return Err(Fault::quoting("ERR Function ", &function.name, " already exists"));
            }
        }
        for (index, function) in library.functions.iter().enumerate() {
            self.functions.insert(function.name.to_ascii_lowercase(), (library.clone(), index));
        }
        self.libraries.insert(library.name.clone(), library);
        Ok(())
    }

    /// Bytes of all sources and names.
    fn bytes(&self) -> u64 {
        let of_library = |library: &Arc<Library>| {
            let names: usize = library
                .functions
                .iter()
                .map(|function| function.name.len() + size_of::<FunctionInfo>())
                .sum();
            (size_of::<Library>() + library.name.len() + library.source.len() + names) as u64
        };
        self.libraries.values().map(of_library).sum()
    }
}

/// The libraries that the server has.
#[derive(Default)]
pub struct Functions {
    set: RwLock<Arc<LibrarySet>>,
    bytes: AtomicU64,
}

/// What FUNCTION RESTORE does with the libraries that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// They stay; a clash is an error.
    Append,
    /// They go.
    Flush,
    /// A library of the same name is replaced.
    Replace,
}

impl Functions {
    /// The libraries as they are now.
    pub fn current(&self) -> Arc<LibrarySet> {
        self.set.read().clone()
    }

    /// Bytes that the libraries take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Makes a library from its source; it may already be clear that it cannot be added.
    pub fn read(&self, server: &Server, source: &[u8], replaces: bool) -> CmdResult<Arc<Library>> {
        let known = |name: &[u8]| self.current().libraries.contains_key(name);
        read_library(server, source, &|name| !replaces && known(name)).map(Arc::new)
    }

    /// Adds a library; returns its name.
    pub fn add(&self, library: Arc<Library>, replaces: bool) -> CmdResult<Vec<u8>> {
        let name = library.name.clone();
        self.change(|set| {
            if set.remove(&name) && !replaces {
                return Err(Fault::quoting("ERR Library '", &name, "' already exists"));
            }
            set.add(library)
        })?;
        Ok(name)
    }

    /// Makes libraries from their sources.
    pub fn read_all(&self, server: &Server, sources: &[Vec<u8>]) -> CmdResult<Vec<Arc<Library>>> {
        sources.iter().map(|source| read_library(server, source, &|_| false).map(Arc::new)).collect()
    }

    /// Adds libraries from their sources, all or none.
    pub fn restore(&self, server: &Server, sources: &[Vec<u8>], policy: Restore) -> CmdResult {
        self.add_all(self.read_all(server, sources)?, policy)
    }

    /// Adds libraries, all or none.
    pub fn add_all(&self, libraries: Vec<Arc<Library>>, policy: Restore) -> CmdResult {
        self.change(|set| {
            if policy == Restore::Flush {
                *set = LibrarySet::default();
            }
            for library in libraries {
                let exists = set.libraries.contains_key(&library.name);
                if exists && policy == Restore::Append {
                    return Err(Fault::quoting("ERR Library ", &library.name, " already exists"));
                }
                set.remove(&library.name);
                set.add(library)?;
            }
            Ok(())
        })
    }

    /// Removes a library.
    pub fn delete(&self, name: &[u8]) -> CmdResult {
        self.change(|set| set.remove(name).then_some(()).ok_or(Fault::Text("ERR Library not found")))
    }

    /// Removes all.
    pub fn flush(&self) {
        let _ = self.change(|set| {
            *set = LibrarySet::default();
            Ok(())
        });
    }

    /// Changes a copy of the set, which takes its place unless there is a fault.
    fn change(&self, change: impl FnOnce(&mut LibrarySet) -> CmdResult) -> CmdResult {
        let mut current = self.set.write();
        let mut changed = LibrarySet::clone(&current);
        change(&mut changed)?;
        self.bytes.store(changed.bytes(), Relaxed);
        *current = Arc::new(changed);
        Ok(())
    }
}

/// Loads a library into this thread's Lua to learn its functions.
fn read_library(server: &Server, source: &[u8], is_taken: &dyn Fn(&[u8]) -> bool) -> CmdResult<Library> {
    let (engine, name, code_at) = shebang::of_library(source)?;
    if !shebang::is_valid_name(&name) {
        return Err(Fault::Text(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
             character long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Fault::quoting("ERR Engine '", &engine, "' not found"));
    }
    if is_taken(&name) {
        return Err(Fault::quoting("ERR Library '", &name, "' already exists"));
    }
    let started_us = server.clock.mono_us();
    let mut is_late = || server.clock.mono_us() - started_us > LIBRARY_LOAD_US;
    let registered = vm::with(|vm| {
        let registered = vm.load_library(&source[code_at..], &mut is_late)?;
        let info = |one: Registration| FunctionInfo {
            name: one.name,
            flags: one.flags,
            description: one.description,
            habits: Habits::default(),
        };
        Ok::<_, Fault>(registered.into_iter().map(info).collect::<Vec<_>>())
    })?;
    if registered.is_empty() {
        return Err(Fault::Text("ERR No functions registered"));
    }
    Ok(Library { name, source: source.into(), code_at, functions: registered })
}

/// The arguments of `redis.register_function`: a name and a function, or a table that names them.
pub fn registration(args: &[Value]) -> Result<Registration, &'static str> {
    let new = match args {
        [Value::Table(table)] => named_registration(table)?,
        [_] => {
            return Err(
                "ERR calling redis.register_function with a single argument is only applicable to Lua \
                        table (representing named arguments).",
            );
        }
        [name, callback] => {
            let name =
                bytes_of(name).ok_or("ERR first argument to redis.register_function must be a string")?;
            let Value::Function(callback) = callback else {
                return Err("ERR second argument to redis.register_function must be a function");
            };
            Registration { name, callback: callback.clone(), flags: ScriptFlags::empty(), description: None }
        }
        _ => return Err("ERR wrong number of arguments to redis.register_function"),
    };
    if !shebang::is_valid_name(&new.name) {
        return Err(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least \
                    one character long",
        );
    }
    Ok(new)
}

fn named_registration(table: &mlua::Table) -> Result<Registration, &'static str> {
    const UNKNOWN: &str = "ERR unknown argument given to redis.register_function";
    let (mut name, mut callback, mut description) = (None, None, None);
    let mut flags = ScriptFlags::empty();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|_| UNKNOWN)?;
        let text = "ERR named argument key given to redis.register_function is not a string";
        match bytes_of(&key).ok_or(text)?.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                let text = "ERR function_name argument given to redis.register_function must be a string";
                name = Some(bytes_of(&value).ok_or(text)?);
            }
            b"description" => {
                let text = "ERR description argument given to redis.register_function must be a string";
                description = Some(bytes_of(&value).ok_or(text)?);
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => return Err("ERR callback argument given to redis.register_function must be a function"),
            },
            b"flags" => match value {
                Value::Table(words) => flags = flags_of(&words)?,
                _ => {
                    return Err(
                        "ERR flags argument to redis.register_function must be a table representing \
                                function flags",
                    );
                }
            },
            _ => return Err(UNKNOWN),
        }
    }
    let name = name.ok_or("ERR redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("ERR redis.register_function must get a callback argument")?;
    Ok(Registration { name, callback, flags, description })
}

fn flags_of(words: &mlua::Table) -> Result<ScriptFlags, &'static str> {
    const UNKNOWN: &str = "ERR unknown flag given";
    let mut flags = ScriptFlags::empty();
    for index in 1.. {
        match words.raw_get::<Value>(index).map_err(|_| UNKNOWN)? {
            Value::Nil => break,
            Value::String(word) => flags |= shebang::flag(&word.as_bytes()).ok_or(UNKNOWN)?,
            _ => return Err(UNKNOWN),
        }
    }
    Ok(flags)
}
