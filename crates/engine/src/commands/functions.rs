//! FCALL and FUNCTION.

use base::glob;

use super::scripting::{end_running, flush_option_fits, key_count};
use crate::args::{self, Args};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::scripting::functions::{Library, Restore};
use crate::scripting::run::{Inputs, Program, run};
use crate::scripting::shebang;

fn call(ctx: &mut Ctx<'_>, args: Args<'_>, is_read_only: bool, reply: &mut Reply<'_>) -> CmdResult {
    let found = ctx.server().scripting.functions.current().function(&args[1]);
    let (library, index) = found.ok_or(Fault::Text("ERR Function not found"))?;
    let keys = key_count(args, Fault::Text("ERR Bad number of keys provided"))?;
    ctx.show_script(args);
    run(ctx, Program::Function(&library, index), Inputs { args, keys, is_read_only }, reply)
}

/// FCALL function numkeys [key ...] [arg ...]
pub(crate) fn fcall(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    call(ctx, args, false, reply)
}

/// FCALL_RO function numkeys [key ...] [arg ...]
pub(crate) fn fcall_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    call(ctx, args, true, reply)
}

/// FUNCTION LOAD [REPLACE] function-code
pub(crate) fn load(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mut replaces = false;
    for word in args.from(2).iter().take(args.len() - 3) {
        if !args::is(word, "replace") {
            return Err(Fault::quoting("ERR Unknown option given: ", word, ""));
        }
        replaces = true;
    }
    let server = ctx.server();
    let functions = &server.scripting.functions;
    let library = functions.read(server, &args[args.len() - 1], replaces)?;
    change(ctx, reply, |reply| {
        let name = functions.add(library, replaces)?;
        reply.bulk(&name);
        Ok(())
    })
}

/// Changes the libraries under every stripe, so that the log has it before or after whatever a snapshot has not.
fn change(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    change: impl FnOnce(&mut Reply<'_>) -> CmdResult,
) -> CmdResult {
    if ctx.held().is_none() && !ctx.hold(None) {
        ctx.come_again();
        return Ok(());
    }
    change(reply)?;
    ctx.stats().dirty.add(1);
    Ok(())
}

/// FUNCTION DELETE library-name
pub(crate) fn delete(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let functions = &ctx.server().scripting.functions;
    change(ctx, reply, |reply| {
        functions.delete(&args[2])?;
        reply.ok();
        Ok(())
    })
}

/// FUNCTION FLUSH [ASYNC | SYNC]
pub(crate) fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() > 3 {
        return Err(Fault::wrong_subcommand("FUNCTION", &args[1]));
    }
    if !flush_option_fits(args) {
        return Err(Fault::Text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    let functions = &ctx.server().scripting.functions;
    change(ctx, reply, |reply| {
        functions.flush();
        reply.ok();
        Ok(())
    })
}

/// FUNCTION KILL
pub(crate) fn kill(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    end_running(ctx, true, reply)
}

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
pub(crate) fn list(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = args.from(2).iter();
    while let Some(word) = words.next() {
        if !with_code && args::is(word, "withcode") {
            with_code = true;
        } else if pattern.is_none() && args::is(word, "libraryname") {
            let given = words.next().ok_or(Fault::Text("ERR library name argument was not given"))?;
            pattern = Some(given);
        } else {
            return Err(Fault::quoting("ERR Unknown argument ", word, ""));
        }
    }
    let set = ctx.server().scripting.functions.current();
    let is_wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, true));
    let wanted: Vec<&Library> =
        set.libraries.iter().filter(|(name, _)| is_wanted(name)).map(|(_, library)| &**library).collect();
    reply.array(wanted.len());
    wanted.into_iter().for_each(|library| describe(library, with_code, reply));
    Ok(())
}

fn describe(library: &Library, with_code: bool, reply: &mut Reply<'_>) {
    reply.map(if with_code { 4 } else { 3 });
    reply.text("library_name");
    reply.bulk(&library.name);
    reply.text("engine");
    reply.text("LUA");
    reply.text("functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.text("name");
        reply.bulk(&function.name);
        reply.text("description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.text("flags");
        let words = || shebang::FLAG_WORDS.iter().filter(|(flag, _)| function.flags.contains(*flag));
        reply.set(words().count());
        words().for_each(|(_, word)| reply.simple(word));
    }
    if with_code {
        reply.text("library_code");
        reply.bulk(&library.source);
    }
}

/// FUNCTION STATS
pub(crate) fn stats(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let now_us = server.clock.mono_us();
    reply.map(2);
    reply.text("running_script");
    match server.scripting.running.longest(now_us, 0) {
        Some(running) => {
            reply.map(3);
            reply.text("name");
            reply.bulk(&running.name);
            reply.text("command");
            reply.array(running.command.len());
            running.command.iter().for_each(|arg| reply.bulk(arg));
            reply.text("duration_ms");
            reply.int((now_us.saturating_sub(running.started_us) / 1000) as i64);
        }
        None => reply.null(),
    }
    let set = server.scripting.functions.current();
    reply.text("engines");
    reply.map(1);
    reply.text("LUA");
    reply.map(2);
    reply.text("libraries_count");
    reply.int(set.libraries.len() as i64);
    reply.text("functions_count");
    reply.int(set.function_count() as i64);
    Ok(())
}

/// FUNCTION DUMP
pub(crate) fn dump(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let set = ctx.server().scripting.functions.current();
    let sources: Vec<&[u8]> = set.libraries.values().map(|library| &*library.source).collect();
    reply.bulk(&rdb::functions::encode(&sources));
    Ok(())
}

/// FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]
pub(crate) fn restore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let policy = match args.get(3) {
        _ if args.len() > 4 => return Err(Fault::wrong_subcommand("FUNCTION", &args[1])),
        None => Restore::Append,
        Some(word) if args::is(word, "append") => Restore::Append,
        Some(word) if args::is(word, "flush") => Restore::Flush,
        Some(word) if args::is(word, "replace") => Restore::Replace,
        Some(_) => {
            let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(Fault::Text(text));
        }
    };
    let server = ctx.server();
    let functions = &server.scripting.functions;
    let libraries = functions.read_all(server, &rdb::functions::decode(&args[2]).map_err(Fault::Text)?)?;
    change(ctx, reply, |reply| {
        functions.add_all(libraries, policy)?;
        reply.ok();
        Ok(())
    })
}

/// FUNCTION HELP
pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(&[
        "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Create a new library with the given library name and code.",
        "DELETE <LIBRARY NAME>",
        "    Delete the given library.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Return general information on all the libraries:",
        "    * Library name",
        "    * The engine used to run the Library",
        "    * Library description",
        "    * Functions list",
        "    * Library code (if WITHCODE is given)",
        "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        "STATS",
        "    Return information about the current function running:",
        "    * Function name",
        "    * Command used to run the function",
        "    * Duration in MS that the function is running",
        "    If no function is running, return nil",
        "    In addition, returns a list of available engines.",
        "KILL",
        "    Kill the current running function.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all the libraries.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the libraries.",
        "    * SYNC: Synchronously flush the libraries.",
        "DUMP",
        "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE \
         command",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
        "    control how to handle existing libraries (default APPEND):",
        "    * FLUSH: delete all existing libraries.",
        "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
        "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
        "      libraries with the new libraries (notice that even on this option there is a chance of failure",
        "      in case of functions name collision with another library).",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
