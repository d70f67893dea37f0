//! FAILOVER: a primary waits until a replica has everything, and changes roles with it. Nobody writes meanwhile.
//!
//! | state | left when |
//! |---|---|
//! | waiting for sync | the replica has acknowledged all of the log, or (forced) the time is over |
//! | in progress | the replica has answered PSYNC .. FAILOVER: it is the primary then, or it refused |

use base::clock::Now;
use parking_lot::Mutex;

use super::{Primary, Refusal};
use crate::fault::{CmdResult, Fault};
use crate::replication::primary::Replica;
use crate::server::{PauseMode, Server};

/// How far a change of roles is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailoverState {
    /// There is none.
    #[default]
    None,
    /// A replica is to catch up.
    WaitsForSync,
    /// A replica is asked to take over.
    InProgress,
}

impl FailoverState {
    /// INFO's word for it.
    pub fn word(self) -> &'static str {
        match self {
            FailoverState::None => "no-failover",
            FailoverState::WaitsForSync => "waiting-for-sync",
            FailoverState::InProgress => "failover-in-progress",
        }
    }
}

/// What FAILOVER asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailoverWish {
    /// To this replica; none: to the first that has everything.
    pub(crate) to: Option<Primary>,
    /// When the time is over, though it does not have everything.
    pub(crate) is_forced: bool,
    /// Milliseconds to wait; 0: as long as it takes.
    pub(crate) timeout_ms: i64,
}

/// The change of roles that is going on.
#[derive(Default)]
pub(super) struct Failover(Mutex<Going>);

#[derive(Default)]
struct Going {
    state: FailoverState,
    wish: FailoverWish,
    /// Unix milliseconds; 0: no end.
    ends_at_ms: i64,
}

impl Server {
    /// How far a change of roles is.
    pub fn failover_state(&self) -> FailoverState {
        self.replication.following.failover.0.lock().state
    }

    /// Begins a change of roles, as FAILOVER asks for it.
    pub(crate) fn begin_failover(&self, wish: FailoverWish, now_ms: i64) -> CmdResult {
        let mut going = self.replication.following.failover.0.lock();
        if going.state != FailoverState::None {
            return Err(Fault::Text("ERR FAILOVER already in progress."));
        }
        if self.replication.following.is_replica() {
            return Err(Fault::Text("ERR FAILOVER is not valid when server is a replica."));
        }
        let replicas = self.replication.replicas.list();
        if replicas.is_empty() {
            return Err(Fault::Text("ERR FAILOVER requires connected replicas."));
        }
        if wish.is_forced && (wish.timeout_ms == 0 || wish.to.is_none()) {
            return Err(Fault::Text(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            ));
        }
        if let Some(to) = &wish.to {
            let target = replicas.iter().find(|replica| place_of(replica) == *to);
            let target = target.ok_or(Fault::Text("ERR FAILOVER target HOST and PORT is not a replica."))?;
            if !target.is_online() {
                return Err(Fault::Text("ERR FAILOVER target replica is not online."));
            }
        }
        let ends_at_ms = if wish.timeout_ms > 0 { now_ms.saturating_add(wish.timeout_ms) } else { 0 };
        let to = wish.to.as_ref().map_or("any replica".to_owned(), shown);
        *going = Going { state: FailoverState::WaitsForSync, wish, ends_at_ms };
        drop(going);
        self.pause.start(i64::MAX, PauseMode::Write, now_ms);
        self.settle_pause();
        self.notice(&format!("FAILOVER requested to {to}."));
        Ok(())
    }

    /// FAILOVER ABORT.
    pub(crate) fn abort_failover(&self) -> CmdResult {
        if self.failover_state() == FailoverState::None {
            return Err(Fault::Text("ERR No failover in progress."));
        }
        self.end_failover("Failover manually aborted");
        Ok(())
    }

    /// Looks whether a replica has caught up, or the time is over, and whether a pause is. To be called every now and
    /// then, off the workers.
    pub fn check_failover(&self, now: Now) {
        self.settle_pause();
        let going = self.replication.following.failover.0.lock();
        if going.state != FailoverState::WaitsForSync {
            return;
        }
        let is_over = going.ends_at_ms > 0 && going.ends_at_ms <= now.unix_ms;
        let wish = going.wish.clone();
        drop(going);
        if is_over {
            match wish.to.filter(|_| wish.is_forced) {
                Some(to) => {
                    self.notice(&format!("FAILOVER to {} time out exceeded, failing over.", shown(&to)));
                    self.hand_over(to);
                }
                None => self.end_failover("Replica never caught up before timeout"),
            }
            return;
        }
        let end = self.log.end();
        let has_all = |replica: &Replica| replica.is_online() && replica.acked_to() >= end;
        let is_wanted = |place: &Primary| wish.to.as_ref().is_none_or(|to| to == place);
        let replicas = self.replication.replicas.list();
        let caught_up = replicas.iter().filter(|replica| has_all(replica)).map(|replica| place_of(replica));
        if let Some(to) = { caught_up }.find(is_wanted) {
            self.notice(&format!("Failover target {} is synced, failing over.", shown(&to)));
            self.hand_over(to);
        }
    }

    fn hand_over(&self, to: Primary) {
        let mut going = self.replication.following.failover.0.lock();
        if going.state != FailoverState::WaitsForSync {
            return;
        }
        going.state = FailoverState::InProgress;
        drop(going);
        self.hand_over_to(to);
    }

    /// The other server has taken over: this one is its replica.
    pub fn complete_failover(&self) {
        let mut going = self.replication.following.failover.0.lock();
        if going.state != FailoverState::InProgress {
            return;
        }
        *going = Going::default();
        drop(going);
        self.pause.stop();
        self.settle_pause();
    }

    /// The other server has not taken over, and says why.
    pub fn refuse_failover(&self, refusal: &Refusal) {
        if self.failover_state() == FailoverState::InProgress {
            self.end_failover(&format!("Failover target rejected psync request: {}", refusal.text()));
        }
    }

    /// All stays, or becomes again, as it was.
    fn end_failover(&self, reason: &str) {
        let mut going = self.replication.following.failover.0.lock();
        let was = std::mem::take(&mut *going);
        drop(going);
        let to = was.wish.to.as_ref().map_or("any replica".to_owned(), shown);
        self.notice(&format!("FAILOVER to {to} aborted: {reason}"));
        if was.state == FailoverState::InProgress {
            self.stop_following();
        }
        self.pause.stop();
        self.settle_pause();
    }

    /// Has the data stay what they are as long as clients are paused: what ends meanwhile is hidden, as on a replica,
    /// and removed later. To be called where a pause begins and ends, and now and then, since most end with time.
    pub(crate) fn settle_pause(&self) {
        // Against a change of roles, which says the same.
        let state = self.replication.following.state.lock();
        self.keyspace.keep_expired(state.primary.is_some() || self.is_paused());
    }
}

/// Where a replica says that it can be reached.
fn place_of(replica: &Replica) -> Primary {
    let port = u16::try_from(replica.greeting.listening_port).unwrap_or(0);
    Primary { host: replica.address(), port }
}

fn shown(place: &Primary) -> String {
    format!("{}:{}", place.host, place.port)
}
