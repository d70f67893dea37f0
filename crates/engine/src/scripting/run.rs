//! How a script runs.
//!
//! It begins on its connection's worker, under the stripes of the keys that it declares. A command on another key adds that
//! key's stripe, if it is free. Where it is not, or where the script takes longer than a worker may, the run is given up:
//! what it wrote is put back, and it runs again from its start on a thread for scripts, which may wait. The script's
//! habits are remembered, so that the next run starts there.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use mlua::{Function, Lua};
use resp::OwnedArgs;

use super::api::Question;
use super::cache::{Habits, Script};
use super::convert::ReplyWriter;
use super::errors::Abort;
use super::functions::Library;
use super::runner::{Run, Undo};
use super::running::Running;
use super::shebang::ScriptFlags;
use super::vm::{self, Ended, Failure, Vm};
use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::persistence::Asker;
use crate::reply::Reply;

/// What is to be run.
#[derive(Clone, Copy)]
pub enum Program<'a> {
    /// A script of EVAL.
    Script(&'a Arc<Script>),
    /// A function of a library, by its place in it.
    Function(&'a Arc<Library>, usize),
}

/// What is to be run later.
enum Kept {
    Script(Arc<Script>),
    Function(Arc<Library>, usize),
}

impl Kept {
    fn program(&self) -> Program<'_> {
        match self {
            Kept::Script(script) => Program::Script(script),
            Kept::Function(library, index) => Program::Function(library, *index),
        }
    }
}

impl<'a> Program<'a> {
    fn keep(self) -> Kept {
        match self {
            Program::Script(script) => Kept::Script(script.clone()),
            Program::Function(library, index) => Kept::Function(library.clone(), index),
        }
    }

    fn flags(self) -> ScriptFlags {
        match self {
            Program::Script(script) => script.flags,
            Program::Function(library, index) => library.functions[index].flags,
        }
    }

    fn habits(self) -> &'a Habits {
        match self {
            Program::Script(script) => &script.habits,
            Program::Function(library, index) => &library.functions[index].habits,
        }
    }

    /// What errors call it.
    fn name(self) -> &'a [u8] {
        match self {
            Program::Script(script) => &script.sha,
            Program::Function(library, index) => &library.functions[index].name,
        }
    }

    fn is_function(self) -> bool {
        matches!(self, Program::Function(..))
    }

    fn compiled(self, vm: &mut Vm) -> CmdResult<Function> {
        match self {
            Program::Script(script) => vm.script_function(script),
            Program::Function(library, index) => vm.library_function(library, &library.functions[index].name),
        }
    }
}

/// EVAL's keys and arguments.
pub struct Inputs<'a> {
    /// The whole command.
    pub args: Args<'a>,
    /// How many keys it declares; they begin at the third argument.
    pub keys: usize,
    /// It is one of the commands that do not write.
    pub is_read_only: bool,
}

/// What may be known of a run before it starts.
enum Place {
    /// On the worker, to be given up where it would have to wait.
    Worker,
    /// Inside a transaction, or off the workers with every stripe: it goes on to its end.
    Final,
    /// Off the workers, with some stripes only.
    Thread,
}

/// Checks what can be checked before a script runs.
fn admit(ctx: &Ctx<'_>, program: Program<'_>, inputs: &Inputs<'_>) -> CmdResult {
    let (server, flags) = (ctx.server(), program.flags());
    if server.cluster.enabled && flags.contains(ScriptFlags::NO_CLUSTER) {
        return Err(Fault::Text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    if server.is_stale() && !flags.intersects(ScriptFlags::ALLOW_STALE | ScriptFlags::COMPAT) {
        return Err(Fault::Text(
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        ));
    }
    if inputs.is_read_only && !flags.intersects(ScriptFlags::NO_WRITES | ScriptFlags::COMPAT) {
        return Err(Fault::Text("ERR Can not execute a script with write flag using *_ro command."));
    }
    if !flags.intersects(ScriptFlags::NO_WRITES | ScriptFlags::COMPAT) && server.is_read_only() {
        return Err(Fault::Text("READONLY Can not run script with write flag on readonly replica."));
    }
    if !flags.intersects(ScriptFlags::NO_WRITES | ScriptFlags::COMPAT) {
        server.admit_write(Asker::Script)?;
    }
    let needs_memory =
        !flags.intersects(ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_OOM | ScriptFlags::COMPAT);
    if needs_memory && server.out_of_memory() {
        return Err(Fault::Text(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
        ));
    }
    Ok(())
}

/// Runs a script for a client.
pub fn run(ctx: &mut Ctx<'_>, program: Program<'_>, inputs: Inputs<'_>, reply: &mut Reply<'_>) -> CmdResult {
    admit(ctx, program, &inputs)?;
    if ctx.is_nested() || ctx.held().is_some_and(store::Locked::covers_all) {
        return match attempt(ctx, program, &inputs, Place::Final, reply)? {
            None => Ok(()),
            Some(_) => unreachable!("script-final: with every stripe, nothing is given up"),
        };
    }
    let habits = program.habits();
    if habits.conflicts.load(Relaxed) {
        return elsewhere(ctx, program, inputs, None);
    }
    if habits.is_long.load(Relaxed) {
        let stripes = declared_stripes(ctx, &inputs);
        return elsewhere(ctx, program, inputs, Some(stripes));
    }
    match attempt(ctx, program, &inputs, Place::Worker, reply)? {
        None => Ok(()),
        Some(Abort::Long) => {
            habits.is_long.store(true, Relaxed);
            // Those of its keys, and those that it turned out to need.
            let stripes = ctx.held().map_or_else(Vec::new, store::Locked::stripes);
            elsewhere(ctx, program, inputs, Some(stripes))
        }
        Some(_) => {
            habits.conflicts.store(true, Relaxed);
            elsewhere(ctx, program, inputs, None)
        }
    }
}

fn declared_stripes(ctx: &Ctx<'_>, inputs: &Inputs<'_>) -> Vec<usize> {
    let keyspace = &ctx.server().keyspace;
    inputs.args.from(3).iter().take(inputs.keys).map(|key| keyspace.position(key).stripe()).collect()
}

/// Leaves the run to a thread for scripts, under these stripes, or all.
fn elsewhere(
    ctx: &mut Ctx<'_>,
    program: Program<'_>,
    inputs: Inputs<'_>,
    stripes: Option<Vec<usize>>,
) -> CmdResult {
    let (args, keys, is_read_only) = (inputs.args.to_owned(), inputs.keys, inputs.is_read_only);
    let kept = program.keep();
    ctx.defer_script(move |lane: &mut Lane<'_>| {
        let program = kept.program();
        let running = enter(lane, program, &args);
        let result = run_apart(lane, program, &args, (keys, is_read_only), stripes, &running);
        lane.server().scripting.running.leave(&running);
        result
    });
    Ok(())
}

fn enter(lane: &Lane<'_>, program: Program<'_>, args: &OwnedArgs) -> Arc<Running> {
    let server = lane.server();
    let running = Arc::new(Running {
        is_function: program.is_function(),
        name: program.name().to_vec(),
        command: args.as_args().iter().map(<[u8]>::to_vec).collect(),
        started_us: server.clock.mono_us(),
        has_written: false.into(),
        killed: false.into(),
    });
    server.scripting.running.enter(running.clone());
    running
}

/// Runs a script on a thread where it may take its time; if the stripes do not suffice, once more under all.
fn run_apart(
    lane: &mut Lane<'_>,
    program: Program<'_>,
    args: &OwnedArgs,
    (keys, is_read_only): (usize, bool),
    stripes: Option<Vec<usize>>,
    running: &Arc<Running>,
) -> CmdResult {
    let place = if stripes.is_some() { Place::Thread } else { Place::Final };
    let given_up = lane.with_stripes(stripes, |ctx, reply| {
        let inputs = Inputs { args: args.as_args(), keys, is_read_only };
        attempt_apart(ctx, program, &inputs, place, running, reply)
    })?;
    if given_up.is_none() {
        return Ok(());
    }
    program.habits().conflicts.store(true, Relaxed);
    running.has_written.store(false, Relaxed);
    lane.with_stripes(None, |ctx, reply| {
        let inputs = Inputs { args: args.as_args(), keys, is_read_only };
        attempt_apart(ctx, program, &inputs, Place::Final, running, reply).map(|_| ())
    })
}

/// Runs a script once: to its end, which is replied, or until it is given up, with nothing done.
fn attempt(
    ctx: &mut Ctx<'_>,
    program: Program<'_>,
    inputs: &Inputs<'_>,
    place: Place,
    reply: &mut Reply<'_>,
) -> CmdResult<Option<Abort>> {
    let undo = matches!(place, Place::Worker | Place::Thread).then(Undo::default);
    attempt_with(ctx, program, inputs, undo, None, reply)
}

/// As [`attempt`], off the workers.
fn attempt_apart(
    ctx: &mut Ctx<'_>,
    program: Program<'_>,
    inputs: &Inputs<'_>,
    place: Place,
    running: &Arc<Running>,
    reply: &mut Reply<'_>,
) -> CmdResult<Option<Abort>> {
    let undo = matches!(place, Place::Thread).then(Undo::default);
    attempt_with(ctx, program, inputs, undo, Some(running.clone()), reply)
}

fn attempt_with(
    ctx: &mut Ctx<'_>,
    program: Program<'_>,
    inputs: &Inputs<'_>,
    undo: Option<Undo>,
    running: Option<Arc<Running>>,
    reply: &mut Reply<'_>,
) -> CmdResult<Option<Abort>> {
    vm::with(|vm| {
        let function = program.compiled(vm)?;
        let (keys, argv) = (inputs.args.from(3).first(inputs.keys), inputs.args.from(3 + inputs.keys));
        let (server, flags) = (ctx.server(), program.flags());
        let slot =
            keys.get(0).filter(|_| server.cluster.enabled).map(|key| server.keyspace.position(key).slot());
        let (db, dirty_before) = (ctx.db(), ctx.stats().dirty.get());
        let mut run = Run {
            shared: vm.shared.clone(),
            flags,
            is_read_only: inputs.is_read_only || flags.contains(ScriptFlags::NO_WRITES),
            may_exceed_memory: flags.contains(ScriptFlags::ALLOW_OOM),
            has_written: false,
            undo,
            started_us: None,
            has_called: false,
            running,
            slot,
            dirty_before,
            ctx,
        };
        if run.undo.is_some() {
            run.ctx.worker().effects.hold_back();
        }
        let mut runner = |lua: &Lua, question: Question| run.answer(lua, question);
        let json = &server.scripting.json;
        let ended = vm.run(&function, keys, argv, program.is_function(), json, &mut runner);
        // Of `redis.set_repl`: the next run tells again.
        run.ctx.worker().effects.record.is_muted = false;
        run.ctx.session().db = db;
        let ended = ended.unwrap_or_else(|error| {
            Ended::Failed(Failure {
                err: format!("ERR {}", super::errors::foreign_text(&error)).into_bytes(),
                place: None,
                is_counted: false,
            })
        });
        if !matches!(ended, Ended::Aborted(abort) if abort != Abort::Killed) {
            run.release();
        }
        match ended {
            Ended::Returned(value) => {
                let (names, script_proto) = (&vm.shared.names, vm.shared.proto.get());
                // Looking at tables makes names of fields, at most.
                let written =
                    vm::quickly(vm.lua(), 0, || ReplyWriter { reply, names, script_proto }.value(&value, 0));
                written.map_err(|error| Fault::owned(format!("ERR {error}")))?;
                Ok(None)
            }
            Ended::Failed(failure) => fail(program, failure, reply).map(|()| None),
            Ended::Aborted(Abort::Killed) => {
                // Only a script that has written nothing is killed.
                let kind = if program.is_function() { "FUNCTION" } else { "SCRIPT" };
                let err = format!("ERR Script killed by user with {kind} KILL...").into_bytes();
                let place = vm.shared.place.take();
                fail(program, Failure { err, place, is_counted: false }, reply)?;
                Ok(None)
            }
            Ended::Aborted(abort) => {
                run.undo();
                Ok(Some(abort))
            }
        }
    })
}

/// Replies what went wrong in a script, and where.
fn fail(program: Program<'_>, failure: Failure, reply: &mut Reply<'_>) -> CmdResult {
    let mut text = failure.err;
    text.extend_from_slice(b" script: ");
    text.extend_from_slice(program.name());
    // A tail call leaves no trace of who made it: then the first line is as good as any.
    let chunk: &[u8] = if program.is_function() { b"@user_function" } else { b"@user_script" };
    let (source, line) = failure.place.unwrap_or_else(|| (chunk.to_vec(), 1));
    text.extend_from_slice(b", on ");
    text.extend_from_slice(&source);
    text.extend_from_slice(format!(":{line}.").as_bytes());
    if failure.is_counted {
        reply.encoder().error_bytes(&text);
        return Ok(());
    }
    Err(Fault::Quoting(text))
}
