//! WAIT and WAITAOF: a client waits until replicas, or disks, have what it wrote.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use store::Kind;

use crate::args::{self, Args};
use crate::blocking::{Block, TimeoutReply};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::replication::primary::{NO_FILES, Tally, Wanted};
use crate::reply::Reply;

/// WAIT numreplicas timeout
pub(crate) fn wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.server().replication.following.is_replica() {
        return Err(Fault::Text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let (replicas, timeout_us) = (args::int(&args[1])?, args::timeout_ms(&args[2])?);
    let replicas = usize::try_from(replicas).unwrap_or(0);
    wait_for(ctx, args, (replicas, None), timeout_us, reply);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout
pub(crate) fn waitaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.server().replication.following.is_replica() {
        return Err(Fault::Text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
        ));
    }
    let local = args::int(&args[1]).ok().filter(|local| (0..=1).contains(local));
    let local = local.ok_or(Fault::Text("ERR value is out of range, value must between 0 and 1"))?;
    let replicas = args::natural(&args[2], Fault::NOT_POSITIVE)?;
    let timeout_us = args::timeout_ms(&args[3])?;
    if local > 0 && ctx.server().synced_to().is_none() {
        return Err(Fault::Text(NO_FILES));
    }
    wait_for(ctx, args, (replicas, Some(local > 0)), timeout_us, reply);
    Ok(())
}

/// Waits for so many replicas, or for disks: those of replicas, and this server's own if that is so.
fn wait_for(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    (replicas, on_disks): (usize, Option<bool>),
    timeout_us: Option<u64>,
    reply: &mut Reply<'_>,
) {
    let offset = ctx.session_ref().client.write_offset.load(Relaxed);
    let (server, wanted, tally) =
        (ctx.server(), Wanted { offset, replicas, on_disks }, Arc::new(Tally::default()));
    if server.tally(wanted, &tally) || !ctx.may_block() {
        tally.write(&mut reply.encoder());
        return;
    }
    let (kind, class, args) = (Kind::String, &b""[..], args.to_owned());
    let on_timeout = TimeoutReply::Tally(tally.clone());
    ctx.block(Block { keys: Vec::new(), args, kind, even_if_gone: false, class, timeout_us, on_timeout });
    let waiter = ctx.worker().blocked.clone().expect("waiting-client: it has just begun to wait");
    server.replication.replicas.waits.add(server, wanted, tally, waiter);
    server.want_acks();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::files::FilesState;
    use crate::testing::Harness;

    #[test]
    fn who_waits_for_files_is_told_when_they_are_given_up() {
        let mut harness = Harness::new();
        let told = format!("-{NO_FILES}");
        harness.check("WAITAOF 1 0 0", &told);
        harness.check("WAITAOF 0 0 0", "[:0 :0]");
        let server = harness.server.clone();
        server.persistence.files.set_state(FilesState::Begun, None);
        server.want_files(true);
        harness.check("SET k v", "+OK");
        harness.run("WAITAOF 1 0 0");
        server.note_files_progress();
        assert_eq!(harness.received(), "", "it is written some day");
        server.persistence.files.set_state(FilesState::Off, None);
        server.want_files(false);
        server.note_files_progress();
        assert_eq!(harness.received(), told);
        assert!(!server.replication.replicas.waits.any());
    }
}
