//! Handing over in order: writes wait, as under CLIENT PAUSE WRITE, until the next primary has all there is.
//!
//! The pause is polite: it stops commands before they run. What had passed it when it began is stopped under its stripes
//! ([`crate::replication::replica::Following::hold_writes`]), so the log's end under every stripe is its last: nothing is appended
//! after that.

use cluster::ids::Member;

use super::State;
use crate::server::{PauseMode, Server};

/// Longest time until it is given up.
const HOLD_US_MAX: u64 = 1_000_000;

/// A change of primaries under way.
pub(super) struct Hold {
    to: Member,
    /// The log's end, which stays.
    offset: u64,
    until_us: u64,
    /// What was paused before.
    before: (i64, bool),
    /// The agent was told.
    is_told: bool,
}

impl Server {
    /// Holds writes until [`Server::cluster_release`], or until this server has another role. The host is told when this
    /// member has acknowledged everything, or did not in time.
    pub fn cluster_hold(&self, to: Member) {
        let group = &self.replication.group;
        let _changing = group.changing.lock();
        if group.state.lock().hold.is_some() {
            return;
        }
        let now = self.clock.now();
        let before = self.pause.hold(PauseMode::Write, now.unix_ms);
        self.settle_pause();
        let following = &self.replication.following;
        let gate = following.gate.lock();
        let long = self.keyspace.hold_long();
        let held = self.keyspace.lock_all();
        following.hold_writes(true);
        let (offset, until_us) = (self.log.end(), now.mono_us + HOLD_US_MAX);
        group.state.lock().hold = Some(Hold { to, offset, until_us, before, is_told: false });
        drop((held, long, gate));
        self.check_hold();
    }

    /// Runs writes again.
    pub fn cluster_release(&self) {
        let _changing = self.replication.group.changing.lock();
        self.end_hold();
    }

    /// Whatever this server is from now on, writes do not wait for it.
    pub(super) fn end_hold(&self) {
        let Some(hold) = self.replication.group.state.lock().hold.take() else { return };
        self.replication.following.hold_writes(false);
        self.pause.restore(hold.before);
        self.settle_pause();
    }

    /// Looks whether the next primary has everything. To be called when something was acknowledged, and now and then.
    pub(super) fn check_hold(&self) {
        let mut state = self.replication.group.state.lock();
        let State { hold: Some(hold), epoch: Some(epoch), .. } = &mut *state else { return };
        if hold.is_told {
            return;
        }
        let has_all = {
            let replicas = self.replication.replicas.list();
            let is_it =
                |membership: &super::Membership| membership.member == hold.to && membership.epoch == *epoch;
            let mut followers = replicas.iter().filter(|replica| replica.membership().is_some_and(is_it));
            followers.any(|replica| replica.is_online() && replica.acked_to() >= hold.offset)
        };
        if has_all || self.clock.mono_us() >= hold.until_us {
            hold.is_told = true;
            drop(state);
            self.host.cluster_handed_over(has_all);
        }
    }
}
