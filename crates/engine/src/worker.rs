//! The engine's side of a worker thread.

use std::sync::Arc;

use base::clock::Now;

use crate::blocking::{Unserved, Waiter};
use crate::effects::Effects;
use crate::eviction::Evictor;
use crate::forwarding::Forwarding;
use crate::gates::{Observed, Safe};
use crate::lane::Deferred;
use crate::letter::Letter;
use crate::pubsub::Subscribers;
use crate::reach::Reach;
use crate::replication::primary::Feed;
use crate::stats::WorkerStats;
use crate::transaction::Transaction;

/// What one thread needs to run commands.
pub struct Worker {
    /// Its number.
    pub index: u16,
    /// Its counters.
    pub stats: Arc<WorkerStats>,
    /// Its randomness.
    pub rng: fastrand::Rng,
    /// The instant of the batch that runs.
    pub now: Now,
    /// By how much the machine's clock is ahead of `now`.
    pub(crate) wall_ms_ahead: i64,
    /// When the turn of the connection that runs is over (`now.mono_us`): it goes on in its next.
    pub turn_ends_us: u64,
    /// What the command that just ran left to the long lane.
    pub deferred: Option<Deferred>,
    /// What the client of the command that just ran waits for.
    pub blocked: Option<Arc<Waiter>>,
    /// What the connection is sent that the command that just ran has made a replica.
    pub attached: Option<Box<Feed>>,
    /// The command of a waiting client, run again, found nothing again.
    pub(crate) blocked_again: bool,
    /// The script that runs may be given up: a command's job for the long lane is a reason to.
    pub(crate) gives_up_jobs: bool,
    /// That happened.
    pub(crate) job_given_up: bool,
    /// The offset after what the command that just ran has left in the log; 0: it has left nothing.
    pub appended_to: u64,
    /// How far the log was safe when the worker looked ([`crate::server::Server::safe`]), while it lets go of what is safe by that:
    /// so the clock is read once for all of it.
    pub looked: Option<Safe>,
    /// What the command that runs, or just ran, has seen and written.
    pub(crate) observed: Observed,
    /// The command could not run: a stripe that it needs is held for long, or the log has no room.
    pub held_up: bool,
    /// This node may not run commands as a primary of its cluster, at the instant of the batch.
    pub(crate) is_cut_off: bool,
    /// It runs the commands of a primary's stream, or those of a slot's former one.
    pub(crate) copies_primary: bool,
    /// What it runs of a primary's stream came to that with its slot, or goes with it: it makes no event.
    pub(crate) is_unseen: bool,
    /// What the running commands have set off.
    pub(crate) effects: Effects,
    /// Its connections that have subscribed.
    pub subscribers: Subscribers,
    /// Letters to its own connections, delivered after the turn.
    pub outbox: Vec<Letter>,
    /// Waiting clients whose turn has come, but who need stripes that were not to be had.
    pub(crate) unserved: Vec<Unserved>,
    /// What is run by other nodes for its connections.
    pub forwarding: Forwarding,
    /// Which keys are to go next where memory is bounded.
    pub(crate) evictor: Evictor,
    /// Scratch for what a command's keys reach.
    pub(crate) reach: Reach,
    /// The queue of a transaction that is over: the next one uses its memory.
    pub(crate) spare_transaction: Option<Box<Transaction>>,
}

impl Worker {
    /// A worker; `seed` decides its randomness.
    pub fn new(index: u16, stats: Arc<WorkerStats>, seed: u64, now: Now) -> Worker {
        Worker {
            index,
            stats,
            rng: fastrand::Rng::with_seed(seed),
            now,
            wall_ms_ahead: 0,
            turn_ends_us: u64::MAX,
            deferred: None,
            blocked: None,
            attached: None,
            blocked_again: false,
            gives_up_jobs: false,
            job_given_up: false,
            appended_to: 0,
            looked: None,
            observed: Observed::default(),
            held_up: false,
            is_cut_off: false,
            copies_primary: false,
            is_unseen: false,
            effects: Effects::default(),
            subscribers: Subscribers::default(),
            outbox: Vec::new(),
            unserved: Vec::new(),
            forwarding: Forwarding::default(),
            evictor: Evictor::default(),
            reach: Reach::default(),
            spare_transaction: None,
        }
    }

    /// Takes over a clock reading.
    #[inline]
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }
}
