//! What the server tells of its part in replication: ROLE, and INFO's section.

use std::sync::atomic::Ordering::Relaxed;

use crate::args::Args;
use crate::commands::info::{Fields, Source};
use crate::commands::sentinel;
use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::replication::replica::{add_following, answer_role};
use crate::reply::Reply;

/// ROLE
pub(crate) fn role(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    if sentinel::came_to_port(server, ctx.session_ref()) {
        sentinel::role(server, reply);
        return Ok(());
    }
    if answer_role(server, reply) {
        return Ok(());
    }
    let mut replicas = server.replication.replicas.list();
    replicas.retain(|replica| replica.is_online());
    reply.array(3);
    reply.text("master");
    reply.int(server.log.end() as i64);
    reply.array(replicas.len());
    for replica in replicas {
        reply.array(3);
        reply.text(&replica.address());
        reply.text(&replica.greeting.listening_port.to_string());
        reply.text(&replica.acked_to().to_string());
    }
    Ok(())
}

/// INFO replication
pub(crate) fn section(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let replicas = &server.replication.replicas;
    let is_replica = server.replication.following.is_replica();
    fields.add("role", if is_replica { "slave" } else { "master" });
    add_following(server, source.now.unix_ms, fields);
    let attached = replicas.list();
    fields.add("connected_slaves", attached.len());
    let config = &server.config;
    if config.int("min-replicas-to-write") > 0 && config.int("min-replicas-max-lag") > 0 {
        fields.add("min_slaves_good_slaves", replicas.good());
    }
    for (number, replica) in attached.iter().enumerate() {
        let Some(state) = replica.stage().word() else { continue };
        let lag_s = if replica.is_online() { replica.lag_s(source.now.unix_ms) } else { 0 };
        let line = format!(
            "ip={},port={},state={state},offset={},lag={lag_s}",
            replica.address(),
            replica.greeting.listening_port,
            replica.acked_to()
        );
        fields.add(&format!("slave{number}"), line);
    }
    fields.add("master_failover_state", server.failover_state().word());
    shard(source, fields);
    let ids = server.replication.ids.lock().clone();
    fields.add("master_replid", ids.id);
    fields.add("master_replid2", ids.id2);
    fields.add("master_repl_offset", server.log.end());
    fields.add("second_repl_offset", ids.second_offset);
    backlog(source, fields);
}

/// Halcyon's own: what a cluster has this server do.
fn shard(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let (copies, following) = (&server.gates.copies, &server.replication.following);
    if let Some(epoch) = server.cluster_epoch() {
        fields.add("shard_epoch", epoch);
        fields.add("shard_copies_awaited", copies.list().len());
        fields.add("shard_offset_in_copies", copies.to().min(server.log.end()));
        fields.add("shard_writes_refused", u8::from(following.refuses_writes()));
    } else if server.config.hot().replica_staleness_ms_max() > 0 && server.cluster.enabled {
        let now_us = source.now.mono_us;
        fields.add("replica_staleness_ms", now_us.saturating_sub(following.fresh_us()) / 1000);
    }
}

fn backlog(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let kept = server.log_range();
    fields.add("repl_backlog_active", u8::from(kept.is_some()));
    fields.add("repl_backlog_size", server.backlog_bytes());
    // Redis counts the bytes of the stream from 1.
    let (first, len) = kept.map_or((0, 0), |kept| (kept.start() + 1, kept.end() - kept.start()));
    fields.add("repl_backlog_first_byte_offset", first);
    fields.add("repl_backlog_histlen", len);
    fields.add("repl_backlog_disk_bytes", server.replication.replicas.on_disk.bytes());
}

/// The counters of INFO stats.
pub(crate) fn stats(source: &Source<'_>, fields: &mut Fields) {
    let replicas = &source.server.replication.replicas;
    fields.add("sync_full", replicas.full_syncs.load(Relaxed));
    fields.add("sync_partial_ok", replicas.partial_syncs.load(Relaxed));
    fields.add("sync_partial_err", replicas.partial_refusals.load(Relaxed));
}
