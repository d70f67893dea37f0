//! Frees what is too big to be freed by a worker.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::Value;
use crate::keyspace::Detached;

static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Something to free.
pub(crate) enum Garbage {
    /// A value that was deleted or replaced.
    Value(Value),
    /// Whatever else may be the last to hold something big.
    Other(Box<dyn Send>),
    /// All tables and expiry indexes of a flushed database.
    Database { roots: Vec<Detached>, expiries: Vec<BTreeSet<(i64, u64)>> },
}

/// The sending side, counting what is on its way.
pub(crate) struct Bin(Sender<Garbage>);

impl Bin {
    pub(crate) fn send(&self, garbage: Garbage) {
        PENDING.fetch_add(1, Relaxed);
        // The error gives the garbage back: without a reaper it is freed here.
        if let Err(refused) = self.0.send(garbage) {
            free(refused.0);
        }
    }
}

/// The receiving side.
pub struct Reaper(Receiver<Garbage>);

impl Reaper {
    pub(crate) fn new() -> (Bin, Reaper) {
        let (sender, receiver) = channel();
        (Bin(sender), Reaper(receiver))
    }

    /// Frees garbage until the keyspace is dropped.
    pub fn run(self) {
        while let Ok(garbage) = self.0.recv() {
            free(garbage);
        }
    }

    pub(crate) fn pending() -> usize {
        PENDING.load(Relaxed)
    }
}

fn free(garbage: Garbage) {
    match garbage {
        Garbage::Value(value) => drop(value),
        Garbage::Other(other) => drop(other),
        Garbage::Database { roots, expiries } => {
            roots.into_iter().for_each(Detached::free);
            drop(expiries);
        }
    }
    PENDING.fetch_sub(1, Relaxed);
}
