//! Handing over in order: writes wait, as under CLIENT PAUSE WRITE, until the next primary has all there is.
//!
//! The pause is polite: it stops commands before they run. What had passed it when it began is stopped under its stripes
//! ([`crate::replication::replica::Following::hold_writes`]), so the log's end under every stripe is its last: nothing is appended
//! after that.

use cluster::agent::HoldId;
use cluster::ids::Member;

use super::{Membership, State};
use crate::server::{PauseMode, Server};

/// Longest time until it is given up.
const HOLD_US_MAX: u64 = 1_000_000;

/// Clients that wait.
pub(super) struct Hold {
    /// What was paused before.
    before: (i64, bool),
    to: Option<NextPrimary>,
}

/// Whom the shard is handed to.
struct NextPrimary {
    hold: HoldId,
    member: Member,
    /// The log's end, which stays.
    offset: u64,
    until_us: u64,
    /// The agent was told.
    is_told: bool,
}

impl Server {
    /// Holds writes until [`Server::cluster_release`], whatever this server is by then. The host is told, of this time, when this
    /// member has acknowledged everything, or did not in time. Off the workers.
    pub fn cluster_hold(&self, id: HoldId, to: Member) {
        let group = &self.replication.group;
        let _changing = group.changing.lock();
        let now = self.clock.now();
        self.pause_for_group(PauseMode::Write);
        let following = &self.replication.following;
        let gate = following.gate.lock();
        let long = self.keyspace.hold_long();
        let held = self.keyspace.lock_all();
        following.hold_writes(true);
        let (offset, until_us) = (self.log.end(), now.mono_us + HOLD_US_MAX);
        if let Some(hold) = &mut group.state.lock().hold {
            hold.to = Some(NextPrimary { hold: id, member: to, offset, until_us, is_told: false });
        }
        drop((held, long, gate));
        self.check_hold();
    }

    /// Has every command wait that comes from now on, until [`Server::cluster_release`].
    pub fn cluster_park(&self) {
        let _changing = self.replication.group.changing.lock();
        self.pause_for_group(PauseMode::All);
    }

    fn pause_for_group(&self, mode: PauseMode) {
        let before = self.pause.hold(mode, self.clock.now().unix_ms);
        self.replication.group.state.lock().hold.get_or_insert(Hold { before, to: None });
        self.settle_pause();
    }

    /// Runs what waits.
    pub fn cluster_release(&self) {
        let _changing = self.replication.group.changing.lock();
        let Some(hold) = self.replication.group.state.lock().hold.take() else { return };
        self.replication.following.hold_writes(false);
        self.pause.restore(hold.before);
        self.settle_pause();
    }

    /// Looks whether the next primary has everything. To be called when something was acknowledged, and now and then.
    pub(super) fn check_hold(&self) {
        let mut state = self.replication.group.state.lock();
        let State { hold: Some(Hold { to: Some(to), .. }), epoch: Some(epoch), .. } = &mut *state else {
            return;
        };
        if to.is_told {
            return;
        }
        let is_it = |membership: &Membership| membership.member == to.member && membership.epoch == *epoch;
        let replicas = self.replication.replicas.list();
        let mut its = replicas.iter().filter(|replica| replica.membership().is_some_and(is_it));
        let has_all = its.any(|replica| replica.is_online() && replica.acked_to() >= to.offset);
        if has_all || self.clock.mono_us() >= to.until_us {
            to.is_told = true;
            let (hold, log_end) = (to.hold, to.offset);
            drop(state);
            self.host.cluster_handed_over(hold, has_all, log_end);
        }
    }
}
