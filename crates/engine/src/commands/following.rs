//! REPLICAOF and FAILOVER: whom this server follows.

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::replication::replica::{FailoverState, FailoverWish, Primary};
use crate::reply::Reply;

/// REPLICAOF host port | NO ONE
pub(crate) fn replicaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    if ctx.is_nested() {
        // The stripes that a transaction holds may be what the stream waits for.
        return Err(Fault::Text("ERR Command not allowed inside a transaction"));
    }
    if server.cluster.enabled {
        return Err(Fault::Text("ERR REPLICAOF not allowed in cluster mode."));
    }
    if server.failover_state() != FailoverState::None {
        return Err(Fault::Text("ERR REPLICAOF not allowed while failing over."));
    }
    if is(&args[1], "NO") && is(&args[2], "ONE") {
        // A batch of the primary's stream may have to end first.
        ctx.defer_script(|lane: &mut Lane<'_>| {
            if lane.server().stop_following() {
                lane.server().notice("MASTER MODE enabled (user request)");
            }
            lane.reply().ok();
            Ok(())
        });
        return Ok(());
    }
    if server.replication.replicas.of_client(ctx.session_ref().client.id).is_some() {
        return Err(Fault::Text("ERR Command is not valid when client is a replica."));
    }
    let port = int(&args[2]).ok().and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Fault::Text("ERR Invalid master port"))?;
    let primary = Primary { host: String::from_utf8_lossy(&args[1]).into_owned(), port };
    let is_same = |now: &Primary| now.host.eq_ignore_ascii_case(&primary.host) && now.port == port;
    if server.replication.following.primary().as_ref().is_some_and(is_same) {
        reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    ctx.defer_script(move |lane: &mut Lane<'_>| {
        let Primary { host, port } = &primary;
        lane.server().notice(&format!("REPLICAOF {host}:{port} enabled (user request)"));
        lane.server().follow(primary);
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

/// FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]
pub(crate) fn failover(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    if server.cluster.enabled {
        return Err(Fault::Text("ERR FAILOVER not allowed in cluster mode."));
    }
    if ctx.is_nested() {
        return Err(Fault::Text("ERR Command not allowed inside a transaction"));
    }
    if args.len() == 2 && is(&args[1], "ABORT") {
        if server.failover_state() == FailoverState::None {
            return Err(Fault::Text("ERR No failover in progress."));
        }
        ctx.defer_script(|lane: &mut Lane<'_>| {
            lane.server().abort_failover()?;
            lane.reply().ok();
            Ok(())
        });
        return Ok(());
    }
    let (mut wish, mut at) = (FailoverWish::default(), 1);
    while at < args.len() {
        if is(&args[at], "TIMEOUT") && at + 1 < args.len() && wish.timeout_ms == 0 {
            wish.timeout_ms = int(&args[at + 1])?;
            if wish.timeout_ms <= 0 {
                return Err(Fault::Text("ERR FAILOVER timeout must be greater than 0"));
            }
            at += 2;
        } else if is(&args[at], "TO") && at + 2 < args.len() && wish.to.is_none() {
            let port = u16::try_from(int(&args[at + 2])?).unwrap_or(0);
            wish.to = Some(Primary { host: String::from_utf8_lossy(&args[at + 1]).into_owned(), port });
            at += 3;
        } else if is(&args[at], "FORCE") && !wish.is_forced {
            wish.is_forced = true;
            at += 1;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    server.begin_failover(wish, ctx.now_ms())?;
    reply.ok();
    Ok(())
}
