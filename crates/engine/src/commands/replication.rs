//! WAIT and WAITAOF. No replica follows this server and it keeps no append-only file: there is nothing to wait for but the
//! end of the client's patience.

use store::Kind;

use crate::args::{self, Args};
use crate::blocking::{Block, TimeoutReply};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// WAIT numreplicas timeout
pub(crate) fn wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (replicas, timeout_us) = (args::int(&args[1])?, args::timeout_ms(&args[2])?);
    wait_out(ctx, args, replicas <= 0, timeout_us, TimeoutReply::Int(0), reply);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout
pub(crate) fn waitaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let local = args::int(&args[1]).ok().filter(|local| (0..=1).contains(local));
    let local = local.ok_or(Fault::Text("ERR value is out of range, value must between 0 and 1"))?;
    let replicas = args::natural(&args[2], Fault::NOT_POSITIVE)?;
    let timeout_us = args::timeout_ms(&args[3])?;
    if local > 0 {
        return Err(Fault::Text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    wait_out(ctx, args, replicas == 0, timeout_us, TimeoutReply::Ints(0, 0), reply);
    Ok(())
}

fn wait_out(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    is_reached: bool,
    timeout_us: Option<u64>,
    on_timeout: TimeoutReply,
    reply: &mut Reply<'_>,
) {
    if is_reached || !ctx.may_block() {
        on_timeout.write(&mut reply.encoder());
        return;
    }
    let (kind, class) = (Kind::String, &b""[..]);
    let args = args.to_owned();
    ctx.block(Block { keys: Vec::new(), args, kind, even_if_gone: false, class, timeout_us, on_timeout });
}
