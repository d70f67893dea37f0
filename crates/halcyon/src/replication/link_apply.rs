//! The threads that apply the stream: the link's own, and some that help it with what has no key in common.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use base::limits::{APPLY_THREADS_MAX, THREAD_STACK_BYTES};
use engine::clients::Client;
use engine::replication::replica::{Applier, StreamBatch};
use engine::server::Server;

use crate::shared::Shared;

/// A round of a batch.
type Task = (Arc<StreamBatch>, usize);

/// What applies a stream.
pub(super) struct Appliers {
    own: Applier,
    helpers: Vec<Helper>,
}

/// One more thread.
struct Helper {
    /// Taken when the thread is to end.
    tasks: Option<Sender<Task>>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Appliers {
    /// One for each worker, but no more than there are counters for.
    pub(super) fn start(shared: &Arc<Shared>, client: Arc<Client>, seed: u64) -> Result<Appliers, String> {
        let lanes = shared.mailboxes.len().clamp(1, APPLY_THREADS_MAX);
        let applier = |lane| Applier::new(&shared.server, lane, client.clone(), seed ^ lane as u64);
        let own = applier(0);
        let helpers = (1..lanes).map(|lane| Helper::start(shared.clone(), lane, applier(lane)));
        Ok(Appliers { own, helpers: helpers.collect::<Result<_, _>>()? })
    }

    /// How many threads there are.
    pub(super) fn lanes(&self) -> usize {
        1 + self.helpers.len()
    }

    /// Applies a batch; returns when all of it is applied.
    pub(super) fn apply(&mut self, server: &Server, batch: &Arc<StreamBatch>) {
        for round in 0..batch.rounds() {
            let busy = self.helpers.iter().enumerate().filter(|(at, _)| batch.has_work(round, at + 1));
            let busy: Vec<&Helper> = busy.map(|(_, helper)| helper).collect();
            for helper in &busy {
                let tasks = helper.tasks.as_ref().expect("apply-helpers: they end with the link");
                tasks.send((batch.clone(), round)).expect("apply-helpers: they take every round");
            }
            self.own.run(server, batch, round, 0);
            for helper in busy {
                helper.done.recv().expect("apply-helpers: they say when a round is done");
            }
        }
    }
}

impl Helper {
    fn start(shared: Arc<Shared>, lane: usize, mut applier: Applier) -> Result<Helper, String> {
        let ((tasks, receiver), (sender, done)) = (channel::<Task>(), channel());
        let work = move || {
            for (batch, round) in receiver {
                applier.run(&shared.server, &batch, round, lane);
                // Nobody waits for it once the link has broken.
                let _ = sender.send(());
            }
        };
        let name = format!("apply-{lane}");
        let thread = thread::Builder::new().name(name.clone()).stack_size(THREAD_STACK_BYTES).spawn(work);
        let thread = thread.map_err(|error| format!("Can't start thread {name}: {error}"))?;
        Ok(Helper { tasks: Some(tasks), done, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it was noticed where its answer did not come.
            let _ = thread.join();
        }
    }
}
