//! Leading, following, standing.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use cluster::agent::Follower;
use cluster::ids::{Member, NodeId};
use cluster::records::NodeRecord;

use super::Membership;
use crate::propagation::LogReader;
use crate::replication::primary::Replica;
use crate::replication::replica::Primary;
use crate::server::Server;

/// Between two marks of the log.
const MARK_INTERVAL_US: u64 = 200_000;
/// Between two marks that say which stream the log is: so long after its beginning a new append-only file is worth nothing after a
/// crash.
const NAME_INTERVAL_US: u64 = 2_000_000;

impl Server {
    /// Is the primary of this epoch from now on; replies under `durability quorum` wait for `awaited`. Again when that changes.
    /// Off the workers.
    pub fn cluster_lead(&self, epoch: u64, awaited: &[Member], refuses_writes: bool) {
        let group = &self.replication.group;
        let _changing = group.changing.lock();
        let is_new = group.state.lock().epoch != Some(epoch);
        let lead = || {
            let acked = |member: &Member| self.acked_by(member, epoch);
            self.gates.change_copies(&self.log, |copies| copies.lead(awaited, is_new, acked));
        };
        self.replication.following.refuse_writes(refuses_writes);
        if !is_new {
            lead();
            return self.note_safer();
        }
        let begin = || {
            lead();
            self.want_log(LogReader::Replicas, true);
            let mut state = group.state.lock();
            (state.epoch, state.log_epoch) = (Some(epoch), epoch);
            state.marks.clear();
            state.named_us = self.clock.mono_us();
            drop(state);
            // Before anything else of this epoch: whoever has that has this.
            self.log.append_aside(&self.stream_mark(epoch).record());
        };
        if !self.stop_following_with(begin) {
            let _gate = self.replication.following.gate.lock();
            let _long = self.keyspace.hold_long();
            let _held = self.keyspace.lock_all();
            begin();
            // They come again, and say that they know of this epoch.
            self.replication.replicas.disconnect_all(self);
        }
        self.cluster.note_data(true);
        self.cluster.serves.unfence();
        self.notice(&format!("This node is the primary of its shard in epoch {epoch}"));
        self.mark_log();
    }

    /// Follows the primary of an epoch, which is reached by this record. Off the workers.
    pub fn cluster_follow(&self, record: &NodeRecord, primary: Member, epoch: u64) {
        let _changing = self.replication.group.changing.lock();
        let port = match self.config.bool("tls-replication") && record.tls_port != 0 {
            true => record.tls_port,
            false => record.port,
        };
        let to = Primary { host: record.ip.clone(), port };
        let member = self.cluster_me();
        let membership = Membership { shard: record.shard.clone(), epoch, member, primary };
        self.leave_lead();
        if self.follow_member(Some((to, membership))) {
            self.notice(&format!("This node follows the primary of its shard in epoch {epoch}"));
        }
        self.cluster.serves.unfence();
    }

    /// Follows nobody and leads nobody: its log stays as it is. Off the workers. Whatever was acknowledged before it returns
    /// is told by [`Server::cluster_promised_us`]; nothing is acknowledged after it.
    pub fn cluster_stand(&self) {
        let _changing = self.replication.group.changing.lock();
        self.leave_lead();
        self.follow_member(None);
        self.cluster.serves.unfence();
    }

    fn leave_lead(&self) {
        let mut state = self.replication.group.state.lock();
        state.epoch = None;
        state.marks.clear();
        drop(state);
        self.replication.following.refuse_writes(false);
    }

    /// What a member has acknowledged in this epoch, by those that are connected.
    fn acked_by(&self, member: &Member, epoch: u64) -> u64 {
        let replicas = self.replication.replicas.list();
        let is_it = |membership: &Membership| membership.member == *member && membership.epoch == epoch;
        let its = replicas.iter().filter(|replica| replica.membership().is_some_and(is_it));
        its.map(|replica| self.acked_by_replica(replica)).max().unwrap_or(0)
    }

    /// What a replica has that counts: where this server's replies wait for its own disk, what is on the replica's.
    fn acked_by_replica(&self, replica: &Replica) -> u64 {
        if self.gates.copies_sync() { replica.synced_to() } else { replica.acked_to() }
    }

    /// A replica has acknowledged something.
    pub(crate) fn note_acked(&self, replica: &Replica) {
        let Some(membership) = replica.membership() else { return };
        if !self.gates.copies.leads() || self.cluster_epoch() != Some(membership.epoch) {
            return;
        }
        if self.gates.copies.note(&membership.member, self.acked_by_replica(replica)) {
            self.note_safer();
        }
        self.check_hold();
    }

    /// Closes the connections that a node has come by before: what it says on a new one is newer.
    pub(crate) fn end_former(&self, node: &NodeId) {
        for replica in self.replication.replicas.list() {
            if replica.membership().is_some_and(|membership| membership.member.node == *node) {
                self.host.kill(&replica.client);
            }
        }
    }

    /// Wakes those whose replies may leave by now.
    fn note_safer(&self) {
        self.persistence.files.tell_progress();
    }

    /// The members of the shard that follow this server in its epoch.
    pub fn cluster_followers(&self) -> Vec<Follower> {
        let group = &self.replication.group;
        let replicas: Vec<Arc<Replica>> = self.replication.replicas.list();
        let (now_us, end) = (self.clock.mono_us(), self.log.end());
        let state = group.state.lock();
        let Some(epoch) = state.epoch else { return Vec::new() };
        let follower = |replica: &Arc<Replica>| {
            let membership = replica.membership().filter(|membership| membership.epoch == epoch)?;
            let acked_to = self.acked_by_replica(replica);
            let caught_up_us = if acked_to >= end { now_us } else { state.marks.caught_up_us(acked_to) };
            let heard_us = state.marks.heard_us(replica.acked_to());
            Some(Follower { member: membership.member.clone(), acked_to, caught_up_us, heard_us })
        };
        // Of one that is here twice, the newer connection counts.
        let is_newest = |at: usize, replica: &Replica| {
            let member = |replica: &Replica| replica.membership().map(|membership| membership.member.clone());
            !replicas[at + 1..].iter().any(|later| later.is_online() && member(later) == member(replica))
        };
        let online = replicas.iter().enumerate().filter(|(_, replica)| replica.is_online());
        online.filter(|(at, replica)| is_newest(*at, replica)).filter_map(|(_, it)| follower(it)).collect()
    }

    /// How far a node of this server's shard is, as far as this server knows: itself, who follows it, whom it follows. Of others 0.
    pub(crate) fn offset_of_node(&self, node: &str) -> u64 {
        let following = &self.replication.following;
        if node == self.cluster.identity.node_id {
            return if following.is_replica() { following.applied() } else { self.log.end() };
        }
        if following.follows_node(node) {
            return following.received();
        }
        let is_it = |membership: &Membership| membership.member.node.as_str() == node;
        let replicas = self.replication.replicas.list();
        let its = replicas.iter().filter(|replica| replica.membership().is_some_and(is_it));
        its.map(|replica| replica.acked_to()).max().unwrap_or(0)
    }

    /// Marks the log, and looks how a change of primaries is getting on. To be called about every 100 ms.
    pub(crate) fn tend_lead(&self) {
        if !self.gates.copies.leads() {
            return;
        }
        self.check_hold();
        let is_due = |marked_us| self.clock.mono_us() >= marked_us + MARK_INTERVAL_US;
        if is_due(self.replication.group.state.lock().marks.newest_us()) {
            self.mark_log();
        }
    }

    /// Remembers where the log ends now, and appends something, which proves when it was acknowledged.
    fn mark_log(&self) {
        let at_us = self.clock.mono_us();
        let end = self.log.end();
        let mut state = self.replication.group.state.lock();
        state.marks.add(end, at_us);
        let is_named = at_us < state.named_us + NAME_INTERVAL_US;
        let Some(epoch) = state.epoch.filter(|_| !is_named) else {
            drop(state);
            return self.append_ping();
        };
        state.named_us = at_us;
        drop(state);
        self.append_if_first(&self.stream_mark(epoch).record());
    }

    /// The link of this term has agreed with the primary: what this server's log holds is what the primary's does.
    pub(crate) fn note_agreed(&self, term: u64) {
        if let Some(epoch) = self.replication.following.epoch_of(term) {
            self.replication.group.state.lock().log_epoch = epoch;
            self.cluster.note_data(true);
        }
    }

    /// What this server is about to acknowledge to its primary, if the link is the present one: from when this is called
    /// it is a promise.
    pub fn cluster_promise(&self, term: u64) -> Option<u64> {
        let group = &self.replication.group;
        let is_given = self.replication.following.promise(term, || {
            group.promised_us.fetch_max(self.clock.mono_us() + 1, SeqCst);
        });
        is_given.then(|| self.log.end())
    }
}
