//! Commands about the connection itself.

use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// PING [message]
pub fn ping(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(Fault::wrong_arity("ping")),
    }
    Ok(())
}
