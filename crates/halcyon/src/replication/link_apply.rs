//! The threads that apply the stream: the link's own, and some that help it with what has no key in common.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use base::limits::{APPLY_THREADS_MAX, THREAD_STACK_BYTES};
use engine::clients::Client;
use engine::replication::replica::{Applier, StreamBatch};
use engine::server::Server;

use crate::helpers::{Helpers, Work};
use crate::shared::Shared;

/// A round of a batch.
type Task = (Arc<StreamBatch>, usize);

/// What applies a stream. The link's own thread is the first lane.
pub(super) struct Appliers {
    own: Applier,
    /// Taken when the threads are to end.
    helpers: Option<Helpers<Task>>,
    threads: Vec<JoinHandle<()>>,
}

impl Appliers {
    /// One for each worker, but no more than there are counters for.
    pub(super) fn start(shared: &Arc<Shared>, client: Arc<Client>, seed: u64) -> Result<Appliers, String> {
        let lanes = shared.mailboxes.len().clamp(1, APPLY_THREADS_MAX);
        let applier = |lane| Applier::new(&shared.server, lane, client.clone(), seed ^ lane as u64);
        let mut appliers = Appliers { own: applier(0), helpers: None, threads: Vec::new() };
        let helpers = Helpers::start(lanes - 1, 1, |index, work| {
            let lane = index + 1;
            appliers.threads.push(start(shared.clone(), lane, applier(lane), work)?);
            Ok::<(), String>(())
        });
        appliers.helpers = Some(helpers?);
        Ok(appliers)
    }

    /// How many threads there are.
    pub(super) fn lanes(&self) -> usize {
        1 + self.threads.len()
    }

    /// Applies a batch; returns when all of it is applied.
    pub(super) fn apply(&mut self, server: &Server, batch: &Arc<StreamBatch>) {
        let helpers = self.helpers.as_ref().expect("apply-helpers: they end with the link");
        for round in 0..batch.rounds() {
            let busy = || (0..helpers.count()).filter(|index| batch.has_work(round, index + 1));
            busy().for_each(|index| helpers.hand(index, (batch.clone(), round)));
            self.own.run(server, batch, round, 0);
            helpers.reach(busy());
        }
    }
}

fn start(
    shared: Arc<Shared>,
    lane: usize,
    mut applier: Applier,
    work: Work<Task>,
) -> Result<JoinHandle<()>, String> {
    let apply = move || {
        store::courtesy::begin();
        work.run(|(batch, round)| applier.run(&shared.server, &batch, round, lane));
    };
    let name = format!("apply-{lane}");
    let thread = thread::Builder::new().name(name.clone()).stack_size(THREAD_STACK_BYTES).spawn(apply);
    thread.map_err(|error| format!("Can't start thread {name}: {error}"))
}

impl Drop for Appliers {
    fn drop(&mut self) {
        self.helpers = None;
        for thread in self.threads.drain(..) {
            // A panic of it was noticed where its answer did not come.
            let _ = thread.join();
        }
    }
}
