//! The configuration of a server: files and command line in, values out, changed and written back at run time.
//!
//! [`directives::DIRECTIVES`] is the one table. A [`Config`] holds a value for each row and is shared between all
//! threads: hot values are atomics ([`Config::hot`]), everything else is read by name under a lock that is never
//! held across anything slow. Behaviour and error texts are those of Redis 7's `redis.conf` and `CONFIG`.

pub mod directives;
mod hot;
mod lookup;
mod parse;
mod rewrite;
pub mod text;
mod value;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use base::glob;
use base::num::{parse_f64, parse_u64};
use directives::{DIRECTIVES, Directive, Flags, index_of};
pub use hot::Hot;
pub use parse::{ConfigError, Notice};
pub(crate) use rewrite::replace_file;
pub use text::{memory_bytes, quoted, split_words};
use value::{Value, words_of};

use crate::fault::{CmdResult, Fault};

/// Bytes that a replication backlog has at least.
const REPL_BACKLOG_BYTES_MIN: i128 = 16 * 1024;
/// Why `activedefrag` stays off, in the words that clients and test suites know.
const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a Redis server compiled with a \
                                  modified Jemalloc like the one shipped by default with the Redis source distribution";

/// What the server does when values change at run time: it gets the configuration, already holding the new
/// values, and the names that changed. An error names the directive at fault and says why; everything is then
/// put back, and the hook is called again with the old values. It must not change the configuration itself.
pub type Applier =
    dyn Fn(&Config, &[&'static str]) -> Result<(), (&'static str, String)> + Send + Sync + 'static;

/// All settings of one server.
pub struct Config {
    /// One value for each row of the table, in its order.
    values: RwLock<Vec<Value>>,
    hot: Hot,
    /// Number of changes so far; the one that last touched each row.
    version: AtomicU64,
    changed_at: Vec<AtomicU64>,
    /// Held for the whole of a change, so that changes are atomic towards each other.
    changing: Mutex<()>,
    applier: RwLock<Option<Box<Applier>>>,
    /// Absolute path of the file read at start.
    file: Option<PathBuf>,
    /// Directory the process stood in at start: where relative paths of the file begin.
    start_dir: PathBuf,
    /// Lines of repeated, file-only directives: name and arguments.
    repeated: Vec<(&'static str, Vec<Vec<u8>>)>,
}

/// How far a class of clients may fall behind in reading replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// Bytes at which the client is closed at once; 0: no limit.
    pub hard_bytes: u64,
    /// Bytes at which it is closed after `soft_s`; 0: no limit.
    pub soft_bytes: u64,
    /// Seconds that it may stay above `soft_bytes`.
    pub soft_s: u64,
}

/// Limits of the three classes of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Ordinary clients, monitors included.
    pub normal: OutputBufferLimit,
    /// Replicas.
    pub replica: OutputBufferLimit,
    /// Clients with at least one subscription.
    pub pubsub: OutputBufferLimit,
}

impl Config {
    /// Every directive at its default; `dir` is where the process stands.
    pub fn defaults() -> Config {
        let start_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Config::starting_in(start_dir)
    }

    fn starting_in(start_dir: PathBuf) -> Config {
        let mut values: Vec<Value> = DIRECTIVES.iter().map(Value::default_of).collect();
        values[position("dir")] = Value::Text(start_dir.as_os_str().as_encoded_bytes().to_vec());
        let hot = Hot::default();
        hot.refresh(&values);
        Config {
            values: RwLock::new(values),
            hot,
            version: AtomicU64::new(0),
            changed_at: DIRECTIVES.iter().map(|_| AtomicU64::new(0)).collect(),
            changing: Mutex::new(()),
            applier: RwLock::new(None),
            file: None,
            start_dir,
            repeated: Vec::new(),
        }
    }

    /// Reads a command line as redis-server takes it, without the program's name: an optional file, `-` for
    /// standard input, `--name value...` options, which come after the file. Notices are for the log.
    pub fn load(args: &[Vec<u8>]) -> Result<(Config, Vec<Notice>), ConfigError> {
        parse::load(args, Config::defaults())
    }

    /// Values for hot paths, readable without a lock.
    #[inline]
    pub fn hot(&self) -> &Hot {
        &self.hot
    }

    /// Absolute path of the file read at start, if any.
    pub fn config_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The lines of a repeated directive that stands in files only (`rename-command`, `user`, `loadmodule`):
    /// each line's arguments, in order.
    pub fn repeated(&self, name: &str) -> Vec<&[Vec<u8>]> {
        self.repeated.iter().filter(|line| line.0 == name).map(|line| &line.1[..]).collect()
    }

    /// `CONFIG GET`: names and printed values for names and globs, each once. A name without `*`, `?` or `[` is
    /// answered as it was spelt; aliases answer under their own name.
    pub fn get(&self, pattern_list: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, usize)> = Vec::new();
        let push = |found: &mut Vec<(String, usize)>, name: &str, at: usize| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_string(), at));
            }
        };
        for pattern in pattern_list {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let (Some(at), Ok(name)) = (index_of(pattern), std::str::from_utf8(pattern)) {
                    push(&mut found, name, at);
                }
                continue;
            }
            for (at, row) in DIRECTIVES.iter().enumerate() {
                if row.flags.contains(Flags::HIDDEN) {
                    continue;
                }
                for name in directives::names(row) {
                    if glob::matches(pattern, name.as_bytes(), true) {
                        push(&mut found, name, at);
                    }
                }
            }
        }
        let values = self.values.read();
        found.into_iter().map(|(name, at)| (name, values[at].print(&DIRECTIVES[at]))).collect()
    }

    /// The printed value of one directive; `None` if there is none of that name.
    pub fn get_text(&self, name: &str) -> Option<Vec<u8>> {
        let at = index_of(name.as_bytes())?;
        Some(self.values.read()[at].print(&DIRECTIVES[at]))
    }

    /// The printed value as a string. As in all typed getters, a name that is not in the table is our bug.
    pub fn string(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.bytes(name)).into_owned()
    }

    /// The printed value as bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let at = position(name);
        self.values.read()[at].print(&DIRECTIVES[at])
    }

    /// A number: an integer, bytes (those above `i64::MAX` answer that), an octal mode, or a negative percentage.
    pub fn int(&self, name: &str) -> i64 {
        let number = self.values.read()[position(name)].number();
        number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// A `yes`/`no` value.
    pub fn bool(&self, name: &str) -> bool {
        self.values.read()[position(name)] == Value::Bool(true)
    }

    /// The words of a list value; a text value is cut at blanks.
    pub fn list(&self, name: &str) -> Vec<Vec<u8>> {
        match &self.values.read()[position(name)] {
            Value::List(words) => words.clone(),
            Value::Text(bytes) => bytes
                .split(|byte| byte.is_ascii_whitespace())
                .filter(|word| !word.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
            other => unreachable!("{name} is not a list: {other:?}"),
        }
    }

    /// `client-output-buffer-limit`, in numbers.
    pub fn output_buffer_limits(&self) -> OutputBufferLimits {
        let words = self.list("client-output-buffer-limit");
        let number = |at: usize| {
            let number = words.get(at).and_then(|word| parse_u64(word));
            number.expect("stored buffer limits are canonical numbers")
        };
        let limit = |at: usize| OutputBufferLimit {
            hard_bytes: number(at + 1),
            soft_bytes: number(at + 2),
            soft_s: number(at + 3),
        };
        OutputBufferLimits { normal: limit(0), replica: limit(4), pubsub: limit(8) }
    }

    /// `latency-tracking-info-percentiles`, in numbers.
    pub fn latency_percentiles(&self) -> Vec<f64> {
        let words = self.list("latency-tracking-info-percentiles");
        words.iter().filter_map(|word| parse_f64(word)).collect()
    }

    /// Installs what is to happen when `CONFIG SET` changes values.
    pub fn set_applier(&self, applier: Box<Applier>) {
        *self.applier.write() = Some(applier);
    }

    /// Number of changes made so far. Cheap: one atomic load.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The directives changed after `version`, and the version that this answer reflects. A poller keeps that
    /// number and asks again when [`Config::version`] has moved.
    pub fn changed_since(&self, version: u64) -> (u64, Vec<&'static str>) {
        let now = self.version();
        let rows = DIRECTIVES.iter().zip(&self.changed_at);
        let changed = rows.filter(|(_, at)| at.load(Ordering::Acquire) > version).map(|(row, _)| row.name);
        (now, changed.collect())
    }

    /// `CONFIG SET`: all pairs of name and value, or none. `enable-protected-configs local` asks whether the client is
    /// on this machine.
    pub fn set_from(&self, pairs: &[(&[u8], &[u8])], client_is_local: bool) -> CmdResult {
        let _changing = self.changing.lock();
        let old = self.values.read().clone();
        let mut new = old.clone();
        let mut rows: Vec<(usize, String, &[u8])> = Vec::with_capacity(pairs.len());
        for (name, given) in pairs {
            let Some(at) = index_of(name) else {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err(Fault::quoting(before, name, "'"));
            };
            let row = &DIRECTIVES[at];
            let spelt = String::from_utf8_lossy(name).into_owned();
            let lower = spelt.to_ascii_lowercase();
            if row.flags.contains(Flags::IMMUTABLE) {
                return Err(failed(&spelt, "can't set immutable config"));
            }
            if row.flags.contains(Flags::PROTECTED) && !self.allows_protected(client_is_local) {
                return Err(failed(&spelt, "can't set protected config"));
            }
            if rows.iter().any(|known| known.1 == lower) {
                return Err(failed(&spelt, "duplicate parameter"));
            }
            rows.push((at, lower, given));
        }
        for (at, name, given) in &rows {
            let row = &DIRECTIVES[*at];
            let words = words_of(row, given);
            let value = Value::parse(row, &words, &new[*at], &directory_in(&new))
                .map_err(|reason| failed(name, &reason))?;
            if row.flags.contains(Flags::UNAVAILABLE) && value == Value::Bool(true) {
                return Err(failed(name, NO_DEFRAGMENTATION));
            }
            new[*at] = settled(row, value);
        }
        let concerned = rows.iter().find(|row| matches!(row.1.as_str(), "appendonly" | "durability"));
        if let (Some((_, name, _)), Some(reason)) = (concerned, contradiction(&new)) {
            return Err(failed(name, &reason));
        }
        let is_changed = |at: &usize| old[*at] != new[*at] || DIRECTIVES[*at].flags.contains(Flags::VOLATILE);
        let mut changed: Vec<usize> = rows.iter().map(|row| row.0).filter(is_changed).collect();
        changed.sort_unstable();
        changed.dedup();
        self.change(new, &changed);
        if let Err((name, reason)) = self.apply(&changed) {
            self.change(old, &changed);
            // The old values were in force a moment ago: there is nobody left to tell if they no longer apply.
            let _ = self.apply(&changed);
            return Err(failed(name, &reason));
        }
        Ok(())
    }

    /// Sets one directive, mutable or not, without telling the applier: for what the server finds out about itself,
    /// such as the number of clients that the system allows. The error is the reason alone.
    pub fn override_value(&self, name: &str, given: &[u8]) -> Result<(), String> {
        let _changing = self.changing.lock();
        let at = position(name);
        let row = &DIRECTIVES[at];
        let mut new = self.values.read().clone();
        let value = Value::parse(row, &words_of(row, given), &new[at], &directory_in(&new))?;
        new[at] = settled(row, value);
        self.change(new, &[at]);
        Ok(())
    }

    /// `CONFIG REWRITE`: brings the file read at start up to date. Comments, order, includes and lines that still
    /// hold stay as they are; its `user` lines become `users`. The error is the whole reply without its `-`.
    pub fn rewrite(&self, users: &[Vec<u8>]) -> Result<(), String> {
        rewrite::rewrite(self, users)
    }

    /// Takes over new values, hot copies included, and counts the change.
    fn change(&self, new: Vec<Value>, changed: &[usize]) {
        if changed.is_empty() {
            return;
        }
        let mut values = self.values.write();
        *values = new;
        self.hot.refresh(&values);
        let version = self.version.load(Ordering::Relaxed) + 1;
        for at in changed {
            self.changed_at[*at].store(version, Ordering::Release);
        }
        self.version.store(version, Ordering::Release);
    }

    fn apply(&self, changed: &[usize]) -> Result<(), (&'static str, String)> {
        let names: Vec<&'static str> = changed.iter().map(|at| DIRECTIVES[*at].name).collect();
        match &*self.applier.read() {
            Some(applier) if !names.is_empty() => applier(self, &names),
            _ => Ok(()),
        }
    }

    fn allows_protected(&self, client_is_local: bool) -> bool {
        match &self.bytes("enable-protected-configs")[..] {
            b"yes" => true,
            b"local" => client_is_local,
            _ => false,
        }
    }
}

/// Position of a name that is known to stand in the table.
fn position(name: &str) -> usize {
    index_of(name.as_bytes()).unwrap_or_else(|| panic!("no configuration directive is called {name}"))
}

/// The directory that relative paths start from under these values.
fn directory_in(values: &[Value]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    match &values[position("dir")] {
        Value::Text(path) => Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf(),
        other => unreachable!("dir is not text: {other:?}"),
    }
}

/// Why these values cannot stand together, if they cannot.
fn contradiction(values: &[Value]) -> Option<String> {
    let Value::Word(durability) = values[position("durability")] else { return None };
    if matches!(durability, "quorum") && values[position("cluster-enabled")] == Value::Bool(false) {
        return Some("durability quorum needs a cluster: cluster-enabled yes".to_owned());
    }
    let needs_files = matches!(durability, "everysec" | "always");
    (needs_files && values[position("appendonly")] == Value::Bool(false))
        .then(|| format!("durability {durability} needs append-only files: appendonly yes"))
}

/// A value as it is kept: some are hints, brought within what makes sense.
fn settled(row: &Directive, value: Value) -> Value {
    match (row.name, value) {
        ("hz", Value::Number(hz)) => Value::Number(hz.clamp(1, 500)),
        ("repl-backlog-size", Value::Number(bytes)) => Value::Number(bytes.max(REPL_BACKLOG_BYTES_MIN)),
        (_, other) => other,
    }
}

fn failed(name: &str, reason: &str) -> Fault {
    Fault::owned(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
}

#[cfg(test)]
mod tests;
