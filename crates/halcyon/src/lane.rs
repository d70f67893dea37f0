//! The long lane's thread.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use engine::letter::Letter;
use engine::worker::Worker;

use crate::shared::{LaneTask, Message, Shared};

/// Runs jobs in order of arrival until every worker is gone.
pub fn run(shared: &Arc<Shared>, tasks: &Receiver<LaneTask>, seed: u64) {
    let server = &shared.server;
    let index = shared.mailboxes.len();
    let mut engine = Worker::new(index as u16, server.stats[index].clone(), seed, server.clock.now());
    while let Ok(LaneTask { deferred, worker, token }) = tasks.recv() {
        let client_id = deferred.session.client.id;
        let output = engine::lane::run(server, &mut engine, deferred);
        shared.mailboxes[worker].send(Message::Letter(Letter::Reply { token, client_id, output }));
    }
}
