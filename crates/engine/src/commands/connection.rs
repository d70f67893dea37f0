//! Commands about the connection itself: who it is, what it speaks, which database it works on.

use std::sync::atomic::Ordering::Relaxed;

use base::num::parse_i64;
use resp::Proto;

use crate::acl::{Context, DEFAULT_USER, Reason};
use crate::args::{Args, db_index, int32, is};
use crate::commands::client::valid_name;
use crate::commands::pubsub;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::REDIS_VERSION;
use crate::session::{ReplyMode, Session};

const WRONG_PASSWORD: Fault = Fault::Text("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD_SET: Fault = Fault::Text(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
     configuration is correct?",
);
const HELLO_NEEDS_AUTH: Fault = Fault::Text(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
);

/// PING [message]
pub(crate) fn ping(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() <= 2 && pubsub::pong(ctx, args, reply) {
        return Ok(());
    }
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(Fault::wrong_arity("ping")),
    }
    Ok(())
}

pub(crate) fn echo(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.bulk(&args[1]);
    Ok(())
}

pub(crate) fn select(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    if server.cluster.enabled && int32(&args[1])? != 0 {
        return Err(Fault::Text("ERR SELECT is not allowed in cluster mode"));
    }
    let db = db_index(&args[1], server.keyspace.databases())?;
    use_db(ctx.session(), db);
    reply.ok();
    Ok(())
}

fn use_db(session: &mut Session, db: usize) {
    session.db = db;
    session.client.db.store(db as u32, Relaxed);
}

pub(crate) fn quit(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.session().close_after_reply = true;
    reply.ok();
    Ok(())
}

/// RESET: the connection as if it were new, but for what it said of its library.
pub(crate) fn reset(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    ctx.session().end_transaction(server);
    ctx.unsubscribe_all();
    ctx.stop_tracking();
    ctx.server().monitors.remove(&ctx.session_ref().client);
    server.set_durability(ctx.session(), None);
    let user = ctx.server().acl.default_user();
    let session = ctx.session();
    use_db(session, 0);
    speak(session, reply, Proto::V2);
    let authenticated = user.is_open();
    session.become_user(user, authenticated);
    session.reply_mode = ReplyMode::On;
    session.no_touch = false;
    session.readonly = false;
    session.asking = false;
    session.client.no_touch.store(false, Relaxed);
    session.client.no_evict.store(false, Relaxed);
    session.client.identify(|identity| identity.name.clear());
    reply.simple("RESET");
    Ok(())
}

fn speak(session: &mut Session, reply: &mut Reply<'_>, proto: Proto) {
    session.proto = proto;
    session.client.resp.store(if proto == Proto::V3 { 3 } else { 2 }, Relaxed);
    reply.set_proto(proto);
}

/// AUTH [username] password
pub(crate) fn auth(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let (user, password) = match args.len() {
        2 if server.acl.default_user().needs_no_password() => return Err(NO_PASSWORD_SET),
        2 => (DEFAULT_USER, &args[1]),
        3 => (&args[1], &args[2]),
        _ => return Err(Fault::SYNTAX),
    };
    log_in(ctx, user, password, &args[0])?;
    reply.ok();
    Ok(())
}

/// Makes the connection this user; a refusal is logged as one of `command`.
fn log_in(ctx: &mut Ctx<'_>, name: &[u8], password: &[u8], command: &[u8]) -> CmdResult {
    let context = if ctx.is_nested() { Context::Multi } else { Context::TopLevel };
    let (server, session) = (ctx.server(), ctx.session());
    match server.acl.authenticate(name, password) {
        Some(user) => {
            session.become_user(user, true);
            Ok(())
        }
        None => {
            server.acl.log(server, &session.client, Reason::Auth, context, name, command);
            Err(WRONG_PASSWORD)
        }
    }
}

/// What HELLO was asked for.
#[derive(Default)]
struct Hello<'a> {
    proto: Option<Proto>,
    auth: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    fn parse(args: Args<'a>) -> CmdResult<Hello<'a>> {
        let mut hello = Hello::default();
        let Some(version) = args.get(1) else { return Ok(hello) };
        hello.proto = Some(match parse_i64(version) {
            Some(2) => Proto::V2,
            Some(3) => Proto::V3,
            Some(_) => return Err(Fault::Text("NOPROTO unsupported protocol version")),
            None => return Err(Fault::Text("ERR Protocol version is not an integer or out of range")),
        });
        let mut at = 2;
        while at < args.len() {
            let option = args.at(at);
            if is(option, "AUTH") && at + 2 < args.len() {
                hello.auth = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if is(option, "SETNAME") && at + 1 < args.len() {
                hello.name = Some(valid_name(args.at(at + 1))?);
                at += 2;
            } else {
                return Err(Fault::quoting("ERR Syntax error in HELLO option '", option, "'"));
            }
        }
        Ok(hello)
    }
}

/// HELLO [protover [AUTH username password] [SETNAME clientname]]
pub(crate) fn hello(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let hello = Hello::parse(args)?;
    let server = ctx.server();
    if let Some((user, password)) = hello.auth {
        log_in(ctx, user, password, &args[0])?;
    }
    if !ctx.session().authenticated {
        return Err(HELLO_NEEDS_AUTH);
    }
    let session = ctx.session();
    if let Some(name) = hello.name {
        session.client.identify(|identity| identity.name = name.to_vec());
    }
    if let Some(proto) = hello.proto {
        speak(session, reply, proto);
    }
    session.introduced = true;
    reply.map(7);
    reply.text("server");
    reply.text("redis");
    reply.text("version");
    reply.text(REDIS_VERSION);
    reply.text("proto");
    reply.int(if session.proto == Proto::V3 { 3 } else { 2 });
    reply.text("id");
    reply.int(session.client.id as i64);
    reply.text("mode");
    reply.text(if server.cluster.enabled { "cluster" } else { "standalone" });
    reply.text("role");
    reply.text("master");
    reply.text("modules");
    reply.empty_array();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    const NEEDS_AUTH: &str = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                              HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                              select the RESP protocol version at the same time";
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

    #[test]
    fn small_talk() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("PING", "+PONG"),
            ("PING hi", "hi"),
            ("ECHO hi", "hi"),
            ("SELECT 15", "+OK"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT -1", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            (
                "SELECT 4294967296",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
        ] {
            harness.check(line, expected);
        }
        assert!(harness.run("CLIENT INFO").contains(" db=15 "));
        harness.check("SET k v", "+OK");
        harness.check("RESET", "+RESET");
        harness.check("GET k", "(nil)");
    }

    #[test]
    fn hello_answers_and_refuses() {
        let mut harness = Harness::new();
        let greeting = |proto| format!("[server redis version {} proto :{proto} id :1", super::REDIS_VERSION);
        assert!(harness.run("HELLO").starts_with(&greeting(2)));
        for (line, expected) in [
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'"),
            ("HELLO 3 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'"),
            ("HELLO 3 AUTH nobody x", WRONG),
            (
                "HELLO 3 SETNAME \"a b\"",
                "-ERR Client names cannot contain spaces, newlines or special characters.",
            ),
        ] {
            harness.check(line, expected);
        }
        assert!(harness.run("HELLO 3 AUTH default any SETNAME me").starts_with("%{server=redis version="));
        harness.check("CLIENT GETNAME", "me");
        harness.check("RESET", "+RESET");
        harness.check("CLIENT GETNAME", "(nil)");
    }

    #[test]
    fn nothing_without_the_password() {
        let mut harness = Harness::with_config(&[("requirepass", "secret")]);
        for (line, expected) in [
            ("PING", "-NOAUTH Authentication required."),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
            ("HELLO 3", NEEDS_AUTH),
            ("HELLO 2 AUTH default bad", WRONG),
            ("AUTH secre", WRONG),
            ("AUTH secretsecret", WRONG),
            ("AUTH \"\"", WRONG),
            ("AUTH nobody secret", WRONG),
            ("AUTH default secret", "+OK"),
            ("PING", "+PONG"),
            ("RESET", "+RESET"),
            ("PING", "-NOAUTH Authentication required."),
            ("AUTH secret", "+OK"),
            ("CONFIG SET requirepass \"\"", "+OK"),
            (
                "AUTH secret",
                "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            ),
            ("AUTH a b c", "-ERR syntax error"),
        ] {
            harness.check(line, expected);
        }
    }
}
