//! The threads that work off the workers: the long lane, those for scripts, and those that wait for other servers.

use std::sync::Arc;

use engine::letter::Letter;
use engine::worker::Worker;

use crate::shared::{LaneTask, Message, Shared};

/// Runs jobs in order of arrival until every worker is gone. `index` is the thread's place among the counters.
pub fn run(shared: &Arc<Shared>, index: usize, next: impl Fn() -> Option<LaneTask>, seed: u64) {
    let server = &shared.server;
    let mut engine = Worker::new(index as u16, server.stats[index].clone(), seed, server.clock.now());
    while let Some(LaneTask { deferred, worker, token }) = next() {
        let client_id = deferred.session.client.id;
        let output = engine::lane::run(server, &mut engine, deferred);
        shared.mailboxes[worker].send(Message::Letter(Letter::Reply { token, client_id, output }));
    }
}
