//! What a replica says of itself: INFO, ROLE, CLIENT LIST.

use std::sync::atomic::Ordering::Relaxed;

use super::LinkState;
use crate::commands::info::Fields;
use crate::reply::Reply;
use crate::server::Server;

impl LinkState {
    /// ROLE's word for it.
    fn word(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// Adds INFO's fields about the primary, which follow `role`; nothing if this server is one itself.
pub(crate) fn add_following(server: &Server, now_ms: i64, fields: &mut Fields) {
    let following = &server.replication.following;
    let Some(primary) = following.primary() else { return };
    let (link, down_since_ms) = following.link();
    let seconds_since = |ms: i64| ((now_ms - ms) / 1000).max(0);
    let heard_s = seconds_since(following.heard_at_ms.load(Relaxed));
    let (is_up, is_syncing) = (link == LinkState::Connected, link == LinkState::Sync);
    fields.add("master_host", &primary.host);
    fields.add("master_port", primary.port);
    fields.add("master_link_status", if is_up { "up" } else { "down" });
    fields.add("master_last_io_seconds_ago", if is_up { heard_s } else { -1 });
    fields.add("master_sync_in_progress", u8::from(is_syncing));
    let applied = following.applied();
    fields.add("slave_read_repl_offset", following.received());
    fields.add("slave_repl_offset", applied);
    if is_syncing {
        let (total, read) =
            (following.sync_total_bytes.load(Relaxed), following.sync_read_bytes.load(Relaxed) as i64);
        let percent = if total > 0 { read as f64 * 100.0 / total as f64 } else { 0.0 };
        fields.add("master_sync_total_bytes", total.max(0));
        fields.add("master_sync_read_bytes", read);
        fields.add("master_sync_left_bytes", if total < 0 { -read } else { total - read });
        fields.add_fixed("master_sync_perc", percent);
        fields.add("master_sync_last_io_seconds_ago", heard_s);
    }
    if !is_up {
        let down_s = if down_since_ms == 0 { -1 } else { seconds_since(down_since_ms) };
        fields.add("master_link_down_since_seconds", down_s);
    }
    fields.add("slave_priority", server.config.int("replica-priority"));
    fields.add("slave_read_only", u8::from(server.config.bool("replica-read-only")));
    fields.add("replica_announced", u8::from(server.config.bool("replica-announced")));
}

/// Answers ROLE for a replica; false if this server is none.
pub(crate) fn answer_role(server: &Server, reply: &mut Reply<'_>) -> bool {
    let following = &server.replication.following;
    let Some(primary) = following.primary() else { return false };
    let (link, _) = following.link();
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(primary.host.as_bytes());
    reply.int(i64::from(primary.port));
    reply.bulk(link.word().as_bytes());
    reply.int(if link == LinkState::Connected { following.applied() as i64 } else { -1 });
    true
}
