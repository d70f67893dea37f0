//! CLIENT on the connection itself: its name, its library, how it is answered and treated.

use std::sync::atomic::Ordering::Relaxed;

use base::num::parse_i64;

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::gates::Durability;
use crate::letter::Letter;
use crate::reply::Reply;
use crate::server::PauseMode;
use crate::session::ReplyMode;
use crate::tracking::Wanted;

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DURABILITY (NONE|EVERYSEC|ALWAYS|QUORUM|DEFAULT)",
    "    Say what this connection's replies wait for, whatever those of others do:",
    "    * NONE and EVERYSEC",
    "      Nothing. What they tell may be lost with the process, or with the machine in a second.",
    "    * ALWAYS",
    "      That what they tell is on the disk.",
    "    * QUORUM",
    "      That every copy which a cluster awaits has what they tell.",
    "    * DEFAULT",
    "      What the directive durability says.",
    "GETNAME",
    "    Tell the name of this connection.",
    "ID",
    "    Tell the number of this connection.",
    "INFO",
    "    Describe this connection in one line.",
    "KILL <ip:port>",
    "    Close the connection that comes from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Close the connections that all options apply to:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Those that come from this address.",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Those that were made to this address of the server.",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Those of this type.",
    "    * USER <username>",
    "      Those that are authenticated as <username>.",
    "    * ID <client-id>",
    "      The one of this number.",
    "    * MAXAGE <seconds>",
    "      Those that have been there for at least <seconds>.",
    "    * SKIPME (YES|NO)",
    "      Whether to leave this connection alone (default: yes).",
    "LIST [options ...]",
    "    Describe the connections, a line each. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Only those of this type.",
    "    * ID <client-id> [<client-id> [...]]",
    "      Only those of these numbers.",
    "NO-EVICT (ON|OFF)",
    "    Keep this connection when connections are closed for want of memory.",
    "NO-TOUCH (ON|OFF)",
    "    Let this connection's reads leave the access times of keys alone.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Hold back all commands, or those that write, for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Say whether this connection is sent replies.",
    "SETINFO <option> <value>",
    "    Name the library that this connection is made with. Options:",
    "    * LIB-NAME <name>",
    "    * LIB-VER <version>",
    "SETNAME <name>",
    "    Name this connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    End the waiting of a connection whose command blocks.",
    "UNPAUSE",
    "    End the pause that PAUSE began.",
    "CACHING (YES|NO)",
    "    Say whether the keys of the next command are tracked (with OPTIN or OPTOUT).",
    "GETREDIR",
    "    Show the number of the connection that is told in this one's place.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Say whether this connection is told when keys change that it may have cached.",
    "TRACKINGINFO",
    "    Show how this connection is tracked.",
    "HELP",
    "    Print this text.",
];

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// ON or OFF.
fn switch(word: &[u8]) -> CmdResult<bool> {
    if is(word, "ON") {
        Ok(true)
    } else if is(word, "OFF") {
        Ok(false)
    } else {
        Err(Fault::SYNTAX)
    }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// The name, if a connection may be called that; it must not break a line of CLIENT LIST.
pub(crate) fn valid_name(name: &[u8]) -> CmdResult<&[u8]> {
    if is_printable(name) {
        return Ok(name);
    }
    Err(Fault::Text("ERR Client names cannot contain spaces, newlines or special characters."))
}

pub(crate) fn id(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.session().client.id as i64);
    Ok(())
}

pub(crate) fn getname(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let name = ctx.session().client.identity().name;
    if name.is_empty() {
        reply.null()
    } else {
        reply.bulk(&name)
    }
    Ok(())
}

pub(crate) fn setname(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let name = valid_name(&args[2])?.to_vec();
    ctx.session().client.identify(|identity| identity.name = name);
    reply.ok();
    Ok(())
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version
pub(crate) fn setinfo(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (option, value) = (&args[2], &args[3]);
    let of_name = is(option, "LIB-NAME");
    if !of_name && !is(option, "LIB-VER") {
        return Err(Fault::quoting("ERR Unrecognized option '", option, "'"));
    }
    if !is_printable(value) {
        let option = if of_name { "lib-name" } else { "lib-ver" };
        return Err(Fault::Owned(format!(
            "ERR {option} cannot contain spaces, newlines or special characters."
        )));
    }
    let session = ctx.session();
    session.introduced = true;
    session.client.identify(|identity| {
        *(if of_name { &mut identity.lib_name } else { &mut identity.lib_ver }) = value.to_vec();
    });
    reply.ok();
    Ok(())
}

pub(crate) fn reply(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let session = ctx.session();
    if is(&args[2], "ON") {
        session.reply_mode = ReplyMode::On;
        reply.ok();
    } else if is(&args[2], "OFF") {
        session.reply_mode = ReplyMode::Off;
    } else if is(&args[2], "SKIP") {
        if session.reply_mode != ReplyMode::Off {
            session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(Fault::SYNTAX);
    }
    Ok(())
}

pub(crate) fn no_evict(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let on = switch(&args[2])?;
    ctx.session().client.no_evict.store(on, Relaxed);
    reply.ok();
    Ok(())
}

pub(crate) fn no_touch(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let on = switch(&args[2])?;
    let session = ctx.session();
    session.no_touch = on;
    session.client.no_touch.store(on, Relaxed);
    reply.ok();
    Ok(())
}

/// CLIENT DURABILITY NONE | EVERYSEC | ALWAYS | QUORUM | DEFAULT: Halcyon's own.
pub(crate) fn durability(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mode = match Durability::of(&args[2]) {
        None if is(&args[2], "DEFAULT") => None,
        None => return Err(Fault::SYNTAX),
        Some(mode) => Some(mode),
    };
    let server = ctx.server();
    if let Some(mode) = mode
        && mode.needs_files()
        && !server.config.bool("appendonly")
    {
        return Err(Fault::Owned(format!(
            "ERR durability {} needs append-only files: appendonly yes",
            mode.name()
        )));
    }
    if mode == Some(Durability::Quorum) && !server.cluster.enabled {
        return Err(Fault::Text("ERR durability quorum needs a cluster: cluster-enabled yes"));
    }
    server.set_durability(ctx.session(), mode);
    reply.ok();
    Ok(())
}

/// CLIENT PAUSE timeout [WRITE | ALL]
pub(crate) fn pause(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mode = match args.get(3) {
        None => PauseMode::All,
        Some(_) if args.len() > 4 => return Err(Fault::wrong_subcommand("CLIENT", &args[1])),
        Some(word) if is(word, "WRITE") => PauseMode::Write,
        Some(word) if is(word, "ALL") => PauseMode::All,
        Some(_) => return Err(Fault::Text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms =
        parse_i64(&args[2]).ok_or(Fault::Text("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(Fault::Text("ERR timeout is negative"));
    }
    let now_ms = ctx.now_ms();
    let until_ms = now_ms.checked_add(timeout_ms).ok_or(Fault::Text("ERR timeout is out of range"))?;
    ctx.server().pause.start(until_ms, mode, now_ms);
    ctx.server().settle_pause();
    reply.ok();
    Ok(())
}

pub(crate) fn unpause(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().pause.stop();
    ctx.server().settle_pause();
    reply.ok();
    Ok(())
}

/// CLIENT TRACKING ON | OFF [REDIRECT client-id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
pub(crate) fn tracking(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let wanted = Wanted::parse(ctx, args.from(3))?;
    if switch(&args[2])? {
        ctx.start_tracking(wanted)?;
    } else {
        ctx.stop_tracking();
    }
    reply.ok();
    Ok(())
}

/// CLIENT CACHING YES | NO
pub(crate) fn caching(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let wanted = if is(&args[2], "YES") {
        Some(true)
    } else if is(&args[2], "NO") {
        Some(false)
    } else {
        None
    };
    if wanted.is_none() && ctx.session_ref().tracking.is_some() {
        return Err(Fault::SYNTAX);
    }
    ctx.set_caching(wanted.unwrap_or(true))?;
    reply.ok();
    Ok(())
}

/// CLIENT GETREDIR
pub(crate) fn getredir(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.redirection());
    Ok(())
}

/// CLIENT TRACKINGINFO
pub(crate) fn trackinginfo(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.describe_tracking(reply);
    Ok(())
}

/// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]. Waiting for the long lane or for the end of a pause cannot be cut short.
pub(crate) fn unblock(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let with_error = match args.get(3) {
        _ if args.len() > 4 => return Err(Fault::wrong_subcommand("CLIENT", &args[1])),
        None => false,
        Some(word) if is(word, "TIMEOUT") => false,
        Some(word) if is(word, "ERROR") => true,
        Some(_) => return Err(Fault::Text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let client_id = int(&args[2])?;
    let waiters = &ctx.server().waiters;
    let waiter = u64::try_from(client_id).ok().and_then(|client_id| waiters.of_client(client_id));
    let ended = waiter.as_ref().and_then(|waiter| match with_error {
        true => waiters.fail(waiter, "UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        false => waiters.time_out(waiter),
    });
    reply.int(i64::from(ended.is_some()));
    if let (Some(waiter), Some(output)) = (waiter, ended) {
        ctx.server().post(&waiter.client, |token, client_id| Letter::Reply { token, client_id, output });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn settings_of_the_connection() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("CLIENT ID", ":1"),
            ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
            ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
            ),
            ("CLIENT GETNAME", "(nil)"),
            ("CLIENT SETNAME me", "+OK"),
            (
                "CLIENT SETNAME \"a\\nb\"",
                "-ERR Client names cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT GETNAME", "me"),
            ("CLIENT SETNAME \"\"", "+OK"),
            ("CLIENT GETNAME", "(nil)"),
            ("CLIENT SETINFO lib-name go", "+OK"),
            (
                "CLIENT SETINFO LIB-VER \"1 2\"",
                "-ERR lib-ver cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT SETINFO foo bar", "-ERR Unrecognized option 'foo'"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
            ("CLIENT NO-TOUCH ON", "+OK"),
            ("CLIENT NO-TOUCH maybe", "-ERR syntax error"),
            ("CLIENT REPLY maybe", "-ERR syntax error"),
            ("CLIENT UNBLOCK 7", ":0"),
            ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"),
            ("CLIENT UNBLOCK 7 FOO", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        ] {
            harness.check(line, expected);
        }
        let info = harness.run("CLIENT INFO");
        assert!(info.contains(" flags=eT ") && info.contains(" lib-name=go lib-ver="), "{info}");
    }

    #[test]
    fn replies_can_be_turned_off() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("CLIENT REPLY SKIP", ""),
            ("PING", ""),
            ("PING", "+PONG"),
            // The long lane answers CONFIG REWRITE.
            ("CLIENT REPLY SKIP", ""),
            ("CONFIG REWRITE", ""),
            ("PING", "+PONG"),
            ("CLIENT REPLY OFF", ""),
            ("PING", ""),
            ("CONFIG REWRITE", ""),
            ("NOSUCH", ""),
            ("CLIENT REPLY SKIP", ""),
            ("PING", ""),
            ("CLIENT REPLY ON", "+OK"),
            ("PING", "+PONG"),
        ] {
            harness.check(line, expected);
        }
    }

    #[test]
    fn a_pause_is_bounded() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
            ("CLIENT PAUSE -1", "-ERR timeout is negative"),
            ("CLIENT PAUSE 9223372036854775807", "-ERR timeout is out of range"),
            ("CLIENT PAUSE 1 FOO", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
            (
                "CLIENT PAUSE 1 ALL x",
                "-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
            ),
            ("CLIENT PAUSE 1000 write", "+OK"),
            ("GET k", "(nil)"),
        ] {
            harness.check(line, expected);
        }
        let now_ms = harness.server.clock.now().unix_ms;
        assert_eq!(harness.server.pause.until_ms(), now_ms + 1000);
        harness.check("CLIENT UNPAUSE", "+OK");
        assert_eq!(harness.server.pause.mode(now_ms), None);
    }
}
