//! EVAL and its like, and SCRIPT.

use std::rc::Rc;

use crate::args::{self, Args};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::scripting::cache::{Sha, sha_hex};
use crate::scripting::run::{Inputs, Program, run};
use crate::scripting::running::Kill;
use crate::scripting::{shebang, vm};

const NO_SCRIPT: Fault = Fault::Text("NOSCRIPT No matching script. Please use EVAL.");

/// The number of keys that EVAL or FCALL declares.
pub(crate) fn key_count(args: Args<'_>, invalid: Fault) -> CmdResult<usize> {
    let count = base::num::parse_i64(&args[2]).ok_or(invalid)?;
    if count > args.len() as i64 - 3 {
        return Err(Fault::Text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Fault::Text("ERR Number of keys can't be negative"))
}

fn evaluate(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    find: impl FnOnce(&mut Ctx<'_>) -> CmdResult<vm::Found>,
    is_read_only: bool,
    reply: &mut Reply<'_>,
) -> CmdResult {
    let keys = key_count(args, Fault::NOT_INTEGER)?;
    let script = find(ctx)?;
    ctx.server().scripting.scripts.touch(&script);
    ctx.show_script(args);
    run(ctx, Program::Script(&script), Inputs { args, keys, is_read_only }, reply)
}

/// The script of a source, which is compiled and kept if it is new.
fn script_of(ctx: &mut Ctx<'_>, source: &[u8], is_kept: bool) -> CmdResult<vm::Found> {
    let scripts = &ctx.server().scripting.scripts;
    vm::with(|vm| {
        if !is_kept && let Some(script) = vm.recent_script(|script| *script.source == *source) {
            return Ok(script);
        }
        let sha = sha_hex(source);
        let known = vm.script(&sha).or_else(|| scripts.get(&sha));
        if let Some(script) = known {
            if is_kept {
                scripts.keep(&script);
            }
            return Ok(Rc::new(script));
        }
        let (flags, code_at) = shebang::of_script(source)?;
        let function = vm.compile_script(&source[code_at..])?;
        let script = scripts.add(sha, source, flags, code_at, is_kept);
        vm.keep_script(&script, &function);
        Ok(Rc::new(script))
    })
}

fn script_of_sha(ctx: &mut Ctx<'_>, given: &[u8]) -> CmdResult<vm::Found> {
    let sha: Sha = given.to_ascii_lowercase().try_into().map_err(|_| NO_SCRIPT)?;
    let known =
        vm::with(|vm| vm.recent_script(|script| script.sha == sha).or_else(|| vm.script(&sha).map(Rc::new)));
    known.or_else(|| ctx.server().scripting.scripts.get(&sha).map(Rc::new)).ok_or(NO_SCRIPT)
}

/// EVAL script numkeys [key ...] [arg ...]
pub(crate) fn eval(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    evaluate(ctx, args, |ctx| script_of(ctx, &args[1], false), false, reply)
}

/// EVAL_RO script numkeys [key ...] [arg ...]
pub(crate) fn eval_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    evaluate(ctx, args, |ctx| script_of(ctx, &args[1], false), true, reply)
}

/// EVALSHA sha1 numkeys [key ...] [arg ...]
pub(crate) fn evalsha(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    evaluate(ctx, args, |ctx| script_of_sha(ctx, &args[1]), false, reply)
}

/// EVALSHA_RO sha1 numkeys [key ...] [arg ...]
pub(crate) fn evalsha_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    evaluate(ctx, args, |ctx| script_of_sha(ctx, &args[1]), true, reply)
}

/// SCRIPT LOAD script
pub(crate) fn load(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let script = script_of(ctx, &args[2], true)?;
    reply.bulk(&script.sha);
    Ok(())
}

/// SCRIPT EXISTS sha1 [sha1 ...]
pub(crate) fn exists(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.array(args.len() - 2);
    for given in args.from(2) {
        let sha = Sha::try_from(given.to_ascii_lowercase());
        let known = sha.is_ok_and(|sha| ctx.server().scripting.scripts.get(&sha).is_some());
        reply.int(i64::from(known));
    }
    Ok(())
}

/// True if the only option a flush takes is none, ASYNC or SYNC.
pub(crate) fn flush_option_fits(args: Args<'_>) -> bool {
    match args.len() {
        2 => true,
        3 => args::is(&args[2], "sync") || args::is(&args[2], "async"),
        _ => false,
    }
}

/// SCRIPT FLUSH [ASYNC | SYNC]
pub(crate) fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if !flush_option_fits(args) {
        return Err(Fault::Text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    let scripting = &ctx.server().scripting;
    scripting.scripts.flush();
    scripting.json.reset_scripts();
    reply.ok();
    Ok(())
}

/// SCRIPT KILL
pub(crate) fn kill(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    end_running(ctx, false, reply)
}

/// Ends the scripts of a kind that run.
pub(crate) fn end_running(ctx: &mut Ctx<'_>, functions: bool, reply: &mut Reply<'_>) -> CmdResult {
    match ctx.server().scripting.running.kill(functions) {
        Kill::Done => {
            reply.ok();
            Ok(())
        }
        Kill::NotBusy => Err(Fault::Text("NOTBUSY No scripts in execution right now.")),
        Kill::OtherKind => {
            let server = ctx.server();
            let busy = server.scripting.running.busy(server.clock.mono_us(), 0);
            Err(busy.unwrap_or(Fault::Text("NOTBUSY No scripts in execution right now.")))
        }
        Kill::HasWritten => Err(Fault::Text(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait \
             the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        )),
    }
}

/// SCRIPT DEBUG YES | SYNC | NO
pub(crate) fn debug(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.is_nested() {
        return Err(Fault::Text("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    if args::is(&args[2], "no") {
        reply.ok();
        return Ok(());
    }
    if args::is(&args[2], "yes") || args::is(&args[2], "sync") {
        return Err(Fault::Text("ERR The Lua debugger is not part of this server"));
    }
    Err(Fault::Text("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}

/// SCRIPT HELP
pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(&[
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DEBUG (YES|SYNC|NO)",
        "    Set the debug mode for subsequent scripts executed.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return information about the existence of the scripts in the script cache.",
        "FLUSH [ASYNC|SYNC]",
        "    Flush the Lua scripts cache. Very dangerous on replicas.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the scripts cache.",
        "    * SYNC: Synchronously flush the scripts cache.",
        "KILL",
        "    Kill the currently executing Lua script.",
        "LOAD <script>",
        "    Load a script into the scripts cache without executing it.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
