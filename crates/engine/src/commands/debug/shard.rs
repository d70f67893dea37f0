//! DEBUG SHARD: what a cluster's agent decides, by hand: for tests of servers without etcd.

use cluster::agent::HoldId;
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::records::NodeRecord;

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::server::Server;

/// DEBUG SHARD what [...]
pub(super) fn shard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if !ctx.server().cluster.enabled {
        return Err(Fault::Text("ERR This instance has cluster support disabled"));
    }
    match &args[2] {
        what if is(what, "ME") => {
            let me = ctx.server().cluster_me();
            reply.text(&format!("{} {}", me.node, me.life));
            Ok(())
        }
        what if is(what, "FOLLOWERS") => {
            followers(ctx.server(), reply);
            Ok(())
        }
        what if is(what, "SERVE") => {
            let ms = int(args.get(3).ok_or(Fault::SYNTAX)?)?;
            let now_us = ctx.server().clock.mono_us();
            ctx.server().cluster.serve_until(now_us.saturating_add_signed(ms.saturating_mul(1000)));
            reply.ok();
            Ok(())
        }
        _ => change(ctx, args),
    }
}

fn followers(server: &Server, reply: &mut Reply<'_>) {
    let (followers, now_us) = (server.cluster_followers(), server.clock.mono_us());
    reply.array(followers.len());
    for follower in followers {
        let ms_since = |us: u64| now_us.saturating_sub(us) / 1000;
        let text = format!(
            "{} {} acked={} caught_up_ms={} heard_ms={}",
            follower.member.node,
            follower.member.life,
            follower.acked_to,
            ms_since(follower.caught_up_us),
            ms_since(follower.heard_us)
        );
        reply.text(&text);
    }
}

type Change = Box<dyn FnOnce(&Server) + Send>;

fn change(ctx: &mut Ctx<'_>, args: Args<'_>) -> CmdResult {
    let change: Change = match (&args[2], args.len()) {
        (what, len @ 5..) if is(what, "LEAD") && len % 2 == 1 => {
            let (epoch, refuses) = (int(&args[3])?.unsigned_abs(), int(&args[4])? != 0);
            let awaited =
                (5..len).step_by(2).map(|at| member(args, at)).collect::<CmdResult<Vec<Member>>>()?;
            Box::new(move |server| server.cluster_lead(epoch, &awaited, refuses))
        }
        (what, 9) if is(what, "FOLLOW") => {
            let record = record(args)?;
            let (epoch, primary) = (int(&args[6])?.unsigned_abs(), member(args, 7)?);
            Box::new(move |server| server.cluster_follow(&record, primary, epoch))
        }
        (what, 5) if is(what, "HOLD") => {
            let to = member(args, 3)?;
            Box::new(move |server| server.cluster_hold(HoldId::default(), to))
        }
        (what, 3) if is(what, "PARK") => Box::new(Server::cluster_park),
        (what, 3) if is(what, "STAND") => Box::new(Server::cluster_stand),
        (what, 3) if is(what, "RELEASE") => Box::new(Server::cluster_release),
        _ => return Err(Fault::SYNTAX),
    };
    // A batch of the primary's stream may have to end first.
    ctx.defer_script(|lane: &mut Lane<'_>| {
        change(lane.server());
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

fn member(args: Args<'_>, at: usize) -> CmdResult<Member> {
    let text = |at: usize| std::str::from_utf8(args.at(at)).ok();
    let node = text(at).and_then(NodeId::new);
    let life = text(at + 1).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let (node, life) = node.zip(life).ok_or(Fault::SYNTAX)?;
    Ok(Member { node, life: Life(life) })
}

fn record(args: Args<'_>) -> CmdResult<NodeRecord> {
    let text = |at: usize| std::str::from_utf8(args.at(at)).map_err(|_| Fault::SYNTAX);
    let port = int(&args[4]).ok().and_then(|port| u16::try_from(port).ok()).ok_or(Fault::SYNTAX)?;
    Ok(NodeRecord {
        ip: text(3)?.to_owned(),
        port,
        tls_port: 0,
        bus_port: 0,
        hostname: String::new(),
        zone: String::new(),
        shard: ShardId::new(text(5)?).ok_or(Fault::SYNTAX)?,
        version: String::new(),
    })
}
