//! What one worker sends another: the only way in which a command reaches a connection that is not its own.

use std::sync::Arc;

use crate::output::Output;
use crate::pubsub::Publication;

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
    /// The reply that a waiting connection waits for.
    Reply {
        /// As above.
        token: usize,
        /// As above.
        client_id: u64,
        /// The reply.
        output: Output,
    },
}
