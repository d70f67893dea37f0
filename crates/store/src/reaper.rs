//! Frees what is too big to be freed by a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::Value;
use crate::keyspace::Detached;

/// Something to free: dropping it does.
#[expect(dead_code, reason = "held to be dropped")]
pub(crate) enum Garbage {
    /// A value that was deleted or replaced.
    Value(Value),
    /// Whatever else may be the last to hold something big.
    Other(Box<dyn Send>),
    /// All tables and expiry indexes of a flushed database.
    Database { roots: Vec<Detached>, expiries: Vec<BTreeSet<(i64, u64)>> },
}

/// The sending side, counting what is on its way.
pub(crate) struct Bin {
    sender: Sender<Garbage>,
    pending: Arc<AtomicUsize>,
}

impl Bin {
    pub(crate) fn send(&self, garbage: Garbage) {
        self.pending.fetch_add(1, Relaxed);
        // The error gives the garbage back: without a reaper it is freed here.
        if let Err(refused) = self.sender.send(garbage) {
            drop(refused);
            self.pending.fetch_sub(1, Relaxed);
        }
    }

    /// What was sent and is not yet freed.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Relaxed)
    }
}

/// The receiving side. Garbage that waits in it when it is dropped is freed then.
pub struct Reaper {
    receiver: Receiver<Garbage>,
    pending: Arc<AtomicUsize>,
}

impl Reaper {
    pub(crate) fn new() -> (Bin, Reaper) {
        let (sender, receiver) = channel();
        let pending = Arc::new(AtomicUsize::new(0));
        (Bin { sender, pending: pending.clone() }, Reaper { receiver, pending })
    }

    /// Frees garbage until the keyspace is dropped.
    pub fn run(self) {
        while let Ok(garbage) = self.receiver.recv() {
            drop(garbage);
            self.pending.fetch_sub(1, Relaxed);
        }
    }
}
