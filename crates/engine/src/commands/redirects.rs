//! CLUSTER REDIRECTS: whose requests come too late, and how a connection is told of owners.

use crate::args::{Args, is};
use crate::cluster_face::Redirected;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

use super::cluster::enabled;

/// CLUSTER REDIRECTS [PLAIN]
pub fn redirects(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    match args.get(2) {
        None => {
            list(ctx, reply);
            Ok(())
        }
        Some(word) if is(word, "PLAIN") && args.len() == 3 => {
            ctx.session().wants_plain_redirects = true;
            let revision = ctx.server().cluster.topology().map_or(0, |topology| topology.revision);
            reply.int(revision as i64);
            Ok(())
        }
        Some(_) => Err(Fault::SYNTAX),
    }
}

fn list(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>) {
    let all = ctx.server().cluster.redirects.list();
    let now_us = ctx.now().mono_us;
    reply.array(all.len());
    for Redirected { client, forwarded, told, seen_us, .. } in all {
        let (identity, address) = (client.identity(), client.peer.address());
        let texts: [(&str, &[u8]); 4] = [
            ("addr", address.as_bytes()),
            ("name", &identity.name),
            ("lib-name", &identity.lib_name),
            ("lib-ver", &identity.lib_ver),
        ];
        let numbers =
            [("forwarded", forwarded), ("told", told), ("idle-ms", now_us.saturating_sub(seen_us) / 1000)];
        reply.map(1 + texts.len() + numbers.len());
        reply.text("id");
        reply.int(client.id as i64);
        for (name, text) in texts {
            reply.text(name);
            reply.bulk(text);
        }
        for (name, number) in numbers {
            reply.text(name);
            reply.int(number as i64);
        }
    }
}
