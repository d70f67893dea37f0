//! Frees what is too big to be freed by a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::Value;
use crate::courtesy;
use crate::keyspace::Detached;

/// Something to free: dropping it does.
#[expect(dead_code, reason = "held to be dropped")]
pub(crate) enum Garbage {
    /// A value that was deleted or replaced.
    Value(Value),
    /// Whatever else may be the last to hold something big.
    Other(Box<dyn Send>),
    /// All tables and expiry indexes of a flushed database, of about so many bytes.
    Database { roots: Vec<Detached>, expiries: Vec<BTreeSet<(i64, u64)>>, bytes: usize },
}

/// The sending side, counting what is on its way.
pub(crate) struct Bin {
    sender: Sender<(Garbage, usize)>,
    pending: Arc<Pending>,
}

/// What is on its way to be freed.
#[derive(Default)]
struct Pending {
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Pending {
    fn add(&self, bytes: usize) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.items.fetch_sub(1, Relaxed);
    }
}

impl Garbage {
    /// Bytes that dropping it frees, estimated; 0 where nobody knows.
    fn bytes(&self) -> usize {
        match self {
            Garbage::Value(value) => value.memory_bytes(),
            Garbage::Database { bytes, .. } => *bytes,
            Garbage::Other(_) => 0,
        }
    }
}

impl Bin {
    pub(crate) fn send(&self, garbage: Garbage) {
        let bytes = garbage.bytes();
        self.pending.add(bytes);
        // The error gives the garbage back: without a reaper it is freed here.
        if let Err(refused) = self.sender.send((garbage, bytes)) {
            drop(refused);
            self.pending.done(bytes);
        }
    }

    /// What was sent and is not yet freed.
    pub(crate) fn pending(&self) -> usize {
        self.pending.items.load(Relaxed)
    }

    /// Bytes that were sent and are not yet freed, estimated; somebody else may hold some of them.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.bytes.load(Relaxed)
    }
}

/// The receiving side. Garbage that waits in it when it is dropped is freed then.
pub struct Reaper {
    receiver: Receiver<(Garbage, usize)>,
    pending: Arc<Pending>,
}

impl Reaper {
    pub(crate) fn new() -> (Bin, Reaper) {
        let (sender, receiver) = channel();
        let pending = Arc::new(Pending::default());
        (Bin { sender, pending: pending.clone() }, Reaper { receiver, pending })
    }

    /// Frees garbage until the keyspace is dropped.
    pub fn run(self) {
        courtesy::begin();
        while let Ok((garbage, bytes)) = self.receiver.recv() {
            drop(garbage);
            self.pending.done(bytes);
        }
    }
}
