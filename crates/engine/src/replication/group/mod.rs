//! This server's part in a shard of a cluster: what the agent has decided is carried out here, on the machinery that
//! REPLICAOF has. Roles change under every stripe, so that each command runs wholly in one of them.
//!
//! | decision | here |
//! |---|---|
//! | be the primary of an epoch | [`Server::cluster_lead`] |
//! | follow a primary | [`Server::cluster_follow`] |
//! | follow nobody, serve nothing | [`Server::cluster_stand`] |
//! | hand over | [`Server::cluster_hold`], [`Server::cluster_park`], [`Server::cluster_release`] |
//! | what the agent has to know | [`Server::cluster_followers`], [`Server::cluster_promised_us`], [`Server::cluster_log_epoch`] |

mod hold;
mod lead;
mod marks;
mod membership;
mod serves;
mod stamps;
mod stream_marks;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;

use cluster::ids::{Life, Member, NodeId};
use parking_lot::Mutex;

use crate::server::Server;

use hold::Hold;
use marks::Marks;
pub use membership::Membership;
pub use serves::Serves;
use stream_marks::StreamMark;

/// What this server is in its shard.
#[derive(Default)]
pub struct Group {
    /// Held by who changes the role.
    changing: Mutex<()>,
    state: Mutex<State>,
    /// `Now::mono_us` when this server last acknowledged something to its primary, and one more; 0: never.
    promised_us: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The epoch that it leads.
    epoch: Option<u64>,
    /// The newest epoch whose primary wrote what the log holds, or agreed with it.
    log_epoch: u64,
    marks: Marks,
    /// When the log last said which stream it is (`Now::mono_us`).
    named_us: u64,
    /// What the files say that are being loaded.
    replayed: Option<StreamMark>,
    hold: Option<Hold>,
}

impl Group {
    /// What was loaded says nothing new.
    pub(super) fn forget_replayed(&self) {
        self.state.lock().replayed = None;
    }
}

impl Server {
    /// Who this process is in the cluster: its node, and a life that no other process of it has.
    pub fn cluster_me(&self) -> Member {
        let node = NodeId::new(&self.cluster.identity.node_id);
        let life = self.process.run_id.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let (node, life) = node.zip(life).expect("node-id: 40 hex digits each");
        Member { node, life: Life(life) }
    }

    /// The epoch that this server leads, if it does.
    pub fn cluster_epoch(&self) -> Option<u64> {
        self.replication.group.state.lock().epoch
    }

    /// The newest epoch whose primary wrote what this server's log holds, or has seen that it is the same as its own.
    pub fn cluster_log_epoch(&self) -> u64 {
        self.replication.group.state.lock().log_epoch
    }

    /// When this server last acknowledged something to a primary (`Now::mono_us`). What it acknowledges later is never
    /// dated before this. Who has thrown its data away for others is nobody to become primary: it promises all the time.
    pub fn cluster_promised_us(&self) -> Option<u64> {
        if self.replication.following.is_torn() {
            return Some(self.clock.mono_us());
        }
        let promised_us = self.replication.group.promised_us.load(std::sync::atomic::Ordering::SeqCst);
        promised_us.checked_sub(1)
    }
}
