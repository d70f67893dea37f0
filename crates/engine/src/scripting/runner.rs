//! What a running script asks for: `redis.call` and its like, on the stripes that the run holds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::{SCRIPT_SCRATCH_BYTES_MAX, SCRIPT_UNDO_SCAN_MAX, SCRIPT_WORKER_US};
use base::num::write_i64;
use mlua::{Lua, MultiValue, Value};
use resp::{Args, ArgsBuffer};
use store::OwnedEntry;

use super::api::Question;
use super::convert::ReplyReader;
use super::errors::{Abort, Raised, error_table, raise_table};
use super::libs::{bytes_of, format_number, number_of};
use super::running::Running;
use super::shebang::ScriptFlags;
use super::vm::{Shared, quickly};
use crate::acl;
use crate::cluster_face::routing;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::output::Output;
use crate::persistence::Asker;
use crate::reply::Reply;
use crate::server::LogLevel;
use crate::table::{CommandInfo, Flags, KeyAccess};

/// Numbers up to this are passed to commands as integers.
const INTEGER_MAX: i64 = 1 << 52;

/// What a script's writes have replaced, to be put back if the run is given up.
#[derive(Default)]
pub struct Undo {
    before: Vec<(usize, Box<[u8]>, Option<OwnedEntry>)>,
    /// The keys in `before`, once they are many.
    seen: HashSet<(usize, Box<[u8]>)>,
}

impl Undo {
    fn has_seen(&self, db: usize, key: &[u8]) -> bool {
        if self.seen.is_empty() {
            return self.before.iter().any(|(seen_db, seen, _)| *seen_db == db && **seen == *key);
        }
        self.seen.contains(&(db, key.into()))
    }

    fn add(&mut self, db: usize, key: &[u8], before: Option<OwnedEntry>) {
        self.before.push((db, key.into(), before));
        if !self.seen.is_empty() {
            self.seen.insert((db, key.into()));
        } else if self.before.len() > SCRIPT_UNDO_SCAN_MAX {
            self.seen = self.before.iter().map(|(db, key, _)| (*db, key.clone())).collect();
        }
    }
}

/// A script's run, as the functions that it calls see it.
pub struct Run<'r, 'c> {
    pub ctx: &'r mut Ctx<'c>,
    pub shared: std::rc::Rc<Shared>,
    pub flags: ScriptFlags,
    /// Commands that may write are refused.
    pub is_read_only: bool,
    /// It started when memory was full.
    pub may_exceed_memory: bool,
    pub has_written: bool,
    /// While the run may still be given up.
    pub undo: Option<Undo>,
    /// Since when it runs, as seen by its second command or after [`base::limits::LUA_HOOK_INSTRUCTIONS`]: most scripts
    /// do not get that far, and need no clock.
    pub started_us: Option<u64>,
    /// It has run a command.
    pub has_called: bool,
    /// How others see it, off the workers.
    pub running: Option<Arc<Running>>,
    /// The slot of its keys, in cluster mode.
    pub slot: Option<u16>,
    /// The worker's count of changes before it.
    pub dirty_before: u64,
}

/// How a call of `redis.call` ended that gave no reply.
enum Refusal {
    /// The script is told.
    Error(Vec<u8>),
    /// The run is over.
    Abort(Abort),
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Refusal {
        Refusal::Error(text.as_bytes().to_vec())
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Error(fault.bytes().to_vec())
    }
}

impl Run<'_, '_> {
    fn abort(&self, abort: Abort) -> mlua::Error {
        self.shared.abort.set(Some(abort));
        Raised::Abort(abort).into()
    }

    /// Puts back what the script's writes have replaced.
    pub fn undo(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        for (db, key, before) in undo.before.into_iter().rev() {
            self.ctx.put_back(db, &key, before.as_ref());
        }
        // The next run counts its changes again.
        self.ctx.stats().dirty.set(self.dirty_before);
        self.ctx.take_back();
    }

    /// The run is over, and what it did stays: whoever is to hear of it does.
    pub fn release(&mut self) {
        if self.undo.take().is_some() {
            self.ctx.confirm();
        }
    }

    /// Runs a command; its reply is left in `bytes`.
    fn run_command(&mut self, args: Args<'_>, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
        let info = self.admit(args)?;
        if !self.ctx.try_extend(info, args) {
            return Err(Refusal::Abort(Abort::Conflict));
        }
        let writes = info.spec.flags.contains(Flags::WRITE);
        if writes {
            self.remember(info, args);
            self.has_written = true;
            if let Some(running) = &self.running {
                running.has_written.store(true, Relaxed);
            }
        }
        let mut out = Output::new();
        bytes.clear();
        out.lend(|| std::mem::take(bytes));
        let mut reply = Reply::new(&mut out, self.shared.proto.get());
        let mark = reply.output().mark();
        // The command sees the protocol that the script chose, not the client's.
        let client_proto = std::mem::replace(&mut self.ctx.session().proto, self.shared.proto.get());
        let in_script = std::mem::replace(&mut self.ctx.session().in_script, true);
        self.ctx.worker().gives_up_jobs = self.undo.is_some();
        let result = self.ctx.call(info, args, &mut reply);
        self.ctx.worker().gives_up_jobs = false;
        self.ctx.session().in_script = in_script;
        self.ctx.session().proto = client_proto;
        if std::mem::take(&mut self.ctx.worker().job_given_up) {
            return Err(Refusal::Abort(Abort::Long));
        }
        if let Err(fault) = result {
            reply.output().rewind(mark);
            self.ctx.count_error(&fault);
            reply.encoder().error_bytes(fault.bytes());
        }
        *bytes = out.into_bytes();
        Ok(())
    }

    /// The row that a script may run.
    fn admit(&mut self, args: Args<'_>) -> Result<&'static CommandInfo, Refusal> {
        let server = self.ctx.server();
        let registry = server.registry;
        let unknown = "ERR Unknown Redis command called from script";
        let info = registry.find(&args[0]).ok_or(unknown)?;
        let info = match (info.subcommands.is_empty(), args.get(1)) {
            (false, Some(word)) => registry.find_sub(info, word).ok_or(unknown)?,
            _ => info,
        };
        if !info.arity_fits(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        let flags = info.spec.flags;
        if flags.contains(Flags::NOSCRIPT) && !server.debug.allows_all_in_scripts.load(Relaxed) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if server.is_stale() && !flags.contains(Flags::STALE) {
            return Err("ERR Can not execute the command on a stale replica".into());
        }
        if self.is_read_only && flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if flags.contains(Flags::WRITE) && server.is_read_only() {
            return Err("READONLY You can't write against a read only replica.".into());
        }
        // The disk may fail at any instant: a script that has begun to write does so to its end.
        if flags.contains(Flags::WRITE) && !self.has_written {
            server.admit_write(Asker::Command)?;
        }
        if !self.has_written {
            server.admit_script_by_replicas(flags)?;
        }
        if flags.contains(Flags::DENYOOM)
            && !self.has_written
            && !self.may_exceed_memory
            && server.out_of_memory()
        {
            return Err(Fault::OOM.into());
        }
        if let Err(denied) = acl::check(server, &self.ctx.session_ref().user, info, args) {
            let user = self.ctx.session_ref().user.clone();
            let client = &self.ctx.session_ref().client;
            acl::log_denied(server, client, &user, info, args, denied, acl::Context::Script);
            return Err(denied.fault_in_script(&user, info).into());
        }
        self.check_slots(info, args)?;
        Ok(info)
    }

    /// In cluster mode: the keys of all commands lie in one slot.
    fn check_slots(&mut self, info: &CommandInfo, args: Args<'_>) -> Result<(), Refusal> {
        let server = self.ctx.server();
        if !server.cluster.enabled {
            return Ok(());
        }
        let (mut slot, mut within, mut across) = (None, true, true);
        let _ = info.each_key(args, &mut |index, _| {
            let of_key = server.keyspace.position(&args[index]).slot();
            within &= *slot.get_or_insert(of_key) == of_key;
            across &= self.slot.is_none_or(|known| known == of_key);
        });
        routing::check_in_script(self.ctx, info, args)?;
        if !within {
            return Err("ERR Script attempted to access keys that do not hash to the same slot".into());
        }
        if !across && !self.flags.intersects(ScriptFlags::ALLOW_CROSS_SLOT | ScriptFlags::COMPAT) {
            return Err("ERR Script attempted to access keys that do not hash to the same slot".into());
        }
        self.slot = self.slot.or(slot);
        Ok(())
    }

    /// Keeps what a command's keys hold before it writes them for the first time.
    fn remember(&mut self, info: &CommandInfo, args: Args<'_>) {
        let Some(undo) = &mut self.undo else { return };
        let db = self.ctx.db();
        let ctx = &mut *self.ctx;
        // MOVE and COPY name another database.
        let mut others = Vec::new();
        if matches!(info.spec.name, "move" | "copy") {
            let named = args.iter().skip(2).filter_map(base::num::parse_i64);
            let databases = ctx.server().keyspace.databases() as i64;
            others.extend(named.filter(|db| (0..databases).contains(db)).map(|db| db as usize));
        }
        let _ = info.each_key(args, &mut |index, access| {
            if access.contains(KeyAccess::NOT_KEY) {
                return;
            }
            let key = &args[index];
            for db in std::iter::once(db).chain(others.iter().copied()) {
                if !undo.has_seen(db, key) {
                    undo.add(db, key, ctx.read_entry(db, key));
                }
            }
        });
    }
}

/// Puts a command's words together; false if one of them is neither a text nor a number.
fn put_words(args: &MultiValue, words: &mut ArgsBuffer) -> bool {
    args.iter().all(|value| {
        match value {
            Value::String(text) => words.push_with(|bytes| bytes.extend_from_slice(&text.as_bytes())),
            Value::Integer(number) if number.abs() < INTEGER_MAX => {
                words.push_with(|bytes| write_i64(bytes, *number));
            }
            Value::Integer(_) | Value::Number(_) => {
                let number = number_of(value).expect("script-args: a number is one");
                words.push_with(|bytes| bytes.extend_from_slice(format_number(number, 17).as_bytes()));
            }
            _ => return false,
        }
        true
    })
}

impl Run<'_, '_> {
    /// Answers what the script asks.
    pub fn answer(&mut self, lua: &Lua, question: Question) -> mlua::Result<Value> {
        match question {
            Question::Call { args, raises } => self.call(lua, &args, raises),
            Question::MayGoOn => self.may_go_on().map(|()| Value::Nil),
            Question::Log { level, text } => {
                self.ctx.server().host.log_at(LogLevel::of_script(level), &text);
                Ok(Value::Nil)
            }
            Question::AclCheck(args) => self.acl_check(&args).map(Value::Boolean),
            Question::CpuSeconds => {
                let seconds = self.ctx.server().host.cpu_seconds();
                Ok(Value::Number(seconds.user + seconds.system))
            }
            Question::Tells(is_told) => {
                self.ctx.worker().effects.record.is_muted = !is_told;
                Ok(Value::Nil)
            }
        }
    }

    /// `redis.call`, or with `raises` false `redis.pcall`.
    fn call(&mut self, lua: &Lua, args: &MultiValue, raises: bool) -> mlua::Result<Value> {
        if let Some(abort) = self.shared.abort.get() {
            return Err(self.abort(abort));
        }
        if self.has_called && self.started_us.is_none() {
            self.started_us = Some(self.ctx.server().clock.mono_us());
        }
        self.has_called = true;
        let mut scratch = self.shared.scratch.take();
        scratch.args.clear(SCRIPT_SCRATCH_BYTES_MAX);
        scratch.reply.shrink_to(SCRIPT_SCRATCH_BYTES_MAX);
        let result = if args.is_empty() {
            Err("ERR Please specify at least one argument for this redis lib call".into())
        } else if put_words(args, &mut scratch.args) {
            self.run_command(scratch.args.as_args(), &mut scratch.reply)
        } else {
            Err("ERR Lua redis lib command arguments must be strings or integers".into())
        };
        let value = match result {
            Ok(()) => {
                let reply = &scratch.reply;
                if raises && reply.first() == Some(&b'-') {
                    let err = reply[1..].strip_suffix(b"\r\n").expect("own-reply: an error ends").to_vec();
                    self.shared.scratch.replace(scratch);
                    return Err(Raised::Table { err, counted: true }.into());
                }
                quickly(lua, reply.len() * size_of::<Value>(), || {
                    ReplyReader::new(lua, &self.shared.names, reply).value()
                })
            }
            Err(Refusal::Abort(abort)) => Err(self.abort(abort)),
            Err(Refusal::Error(err)) if raises => Err(Raised::Table { err, counted: true }.into()),
            Err(Refusal::Error(err)) => error_table(lua, &err, true).map(Value::Table),
        };
        self.shared.scratch.replace(scratch);
        value
    }

    fn may_go_on(&mut self) -> mlua::Result<()> {
        if self.running.as_ref().is_some_and(|running| running.killed.load(Relaxed)) {
            return Err(self.abort(Abort::Killed));
        }
        let now_us = self.ctx.server().clock.mono_us();
        let elapsed_us = now_us.saturating_sub(*self.started_us.get_or_insert(now_us));
        if self.undo.is_some() && self.running.is_none() && elapsed_us > SCRIPT_WORKER_US {
            return Err(self.abort(Abort::Long));
        }
        Ok(())
    }

    /// `redis.acl_check_cmd`
    fn acl_check(&mut self, args: &MultiValue) -> mlua::Result<bool> {
        if args.is_empty() {
            return Err(raise_table("ERR Please specify at least one argument for this redis lib call"));
        }
        let words: Option<Vec<Vec<u8>>> = args.iter().map(bytes_of).collect();
        let Some(words) = words else {
            return Err(raise_table("ERR Lua redis lib command arguments must be strings or integers"));
        };
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let args = Args::from_slices(&slices);
        let registry = self.ctx.server().registry;
        let info =
            registry.find(&args[0]).and_then(|info| match (info.subcommands.is_empty(), args.get(1)) {
                (false, Some(word)) => registry.find_sub(info, word),
                _ => Some(info),
            });
        let info = info.ok_or_else(|| raise_table("ERR Invalid command passed to redis.acl_check_cmd()"))?;
        Ok(acl::check(self.ctx.server(), &self.ctx.session_ref().user, info, args).is_ok())
    }
}
