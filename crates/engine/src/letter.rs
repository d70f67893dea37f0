//! What one worker sends another: the only way in which a command reaches a connection that is not its own.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::clients::Client;
use crate::output::Output;
use crate::pubsub::Publication;
use crate::replication::primary::Fetched;
use crate::server::Server;
use crate::worker::Worker;

/// Something for a connection of another worker (or of the same: it is delivered after the turn).
pub enum Letter {
    /// Encoded bytes that the client did not ask for now: a message, an invalidation.
    Push {
        /// The connection's number on its worker.
        token: usize,
        /// Its client, in case the number has been given to another since.
        client_id: u64,
        /// What to send; shared between all connections that get it.
        bytes: Arc<[u8]>,
    },
    /// A message for those of the worker's connections that have subscribed.
    Publish(Arc<Publication>),
    /// The connection's user may use fewer channels than before: if it listens to one of the others, close it.
    CheckChannels {
        /// As above.
        token: usize,
        /// As above.
        client_id: u64,
    },
    /// Slots have changed hands: subscriptions to shard channels of those that are not here have ended.
    ShardsChanged,
    /// A letter that may tell of what is safe only when the log is so up to an offset: for connections that wait for that.
    Gated {
        /// The offset.
        offset: u64,
        /// The letter.
        letter: Box<Letter>,
    },
    /// The reply that a waiting connection waits for.
    Reply {
        /// As above.
        token: usize,
        /// As above.
        client_id: u64,
        /// The reply.
        output: Output,
    },
    /// There is something new for replicas of this worker.
    Replicas,
    /// What was read from a disk for a replica.
    Fetched {
        /// As above.
        token: usize,
        /// As above.
        client_id: u64,
        /// The bytes.
        fetched: Box<Fetched>,
    },
}

impl Letter {
    /// The letter, to be read where it matters only when the log is safe up to `offset`, if that is not 0.
    pub(crate) fn gated(self, offset: u64) -> Letter {
        if offset == 0 { self } else { Letter::Gated { offset, letter: Box::new(self) } }
    }
}

impl Worker {
    /// Sends a letter to a worker, now or when the script that runs can no longer be given up.
    pub(crate) fn send(&mut self, server: &Server, worker: u16, letter: Letter) {
        if let Some(letter) = self.effects.held_back(worker, letter) {
            self.dispatch(server, worker, letter);
        }
    }

    /// As [`Worker::send`], to a connection, wherever it lives.
    pub(crate) fn send_to(
        &mut self,
        server: &Server,
        client: &Client,
        letter: impl FnOnce(usize, u64) -> Letter,
    ) {
        let token = client.token.load(Relaxed) as usize;
        self.send(server, client.worker.load(Relaxed), letter(token, client.id));
    }

    /// Sends a letter to a worker, once what the running command has done is in the log.
    pub(crate) fn dispatch(&mut self, server: &Server, worker: u16, letter: Letter) {
        if let Some(letter) = self.observed.keep(worker, letter) {
            self.post(server, worker, letter.gated(server.offset_told()));
        }
    }

    /// Sends a letter to a worker; to this one, after its turn.
    pub(crate) fn post(&mut self, server: &Server, worker: u16, letter: Letter) {
        if worker == self.index {
            self.outbox.push(letter);
        } else {
            server.host.post(usize::from(worker), letter);
        }
    }
}
