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
    sender: Sender<(Garbage, Freed)>,
    pending: Arc<Pending>,
}

/// What is on its way to be freed.
#[derive(Default)]
struct Pending {
    items: AtomicUsize,
    /// Bytes of the values among them.
    value_bytes: AtomicUsize,
    /// Flushed databases among them.
    databases: AtomicUsize,
}

impl Pending {
    fn add(&self, garbage: &Garbage) -> Freed {
        let freed = Freed::of(garbage);
        self.items.fetch_add(1, Relaxed);
        self.value_bytes.fetch_add(freed.value_bytes, Relaxed);
        self.databases.fetch_add(freed.databases, Relaxed);
        freed
    }

    fn done(&self, freed: Freed) {
        self.databases.fetch_sub(freed.databases, Relaxed);
        self.value_bytes.fetch_sub(freed.value_bytes, Relaxed);
        self.items.fetch_sub(1, Relaxed);
    }
}

/// What dropping a piece of garbage takes off [`Pending`].
#[derive(Clone, Copy)]
struct Freed {
    value_bytes: usize,
    databases: usize,
}

impl Freed {
    fn of(garbage: &Garbage) -> Freed {
        match garbage {
            Garbage::Value(value) => Freed { value_bytes: value.memory_bytes(), databases: 0 },
            Garbage::Database { .. } => Freed { value_bytes: 0, databases: 1 },
            Garbage::Other(_) => Freed { value_bytes: 0, databases: 0 },
        }
    }
}

impl Bin {
    pub(crate) fn send(&self, garbage: Garbage) {
        let freed = self.pending.add(&garbage);
        // The error gives the garbage back: without a reaper it is freed here.
        if let Err(refused) = self.sender.send((garbage, freed)) {
            drop(refused);
            self.pending.done(freed);
        }
    }

    /// What was sent and is not yet freed.
    pub(crate) fn pending(&self) -> usize {
        self.pending.items.load(Relaxed)
    }

    /// Bytes of values that were sent and are not yet freed, as far as nobody else holds them.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.value_bytes.load(Relaxed)
    }

    /// True if a flushed database was sent and is not yet freed.
    pub(crate) fn has_database(&self) -> bool {
        self.pending.databases.load(Relaxed) > 0
    }
}

/// The receiving side. Garbage that waits in it when it is dropped is freed then.
pub struct Reaper {
    receiver: Receiver<(Garbage, Freed)>,
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
        while let Ok((garbage, freed)) = self.receiver.recv() {
            drop(garbage);
            self.pending.done(freed);
        }
    }
}
