//! The scripts that run apart from the workers: what SCRIPT KILL ends and FUNCTION STATS shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::fault::Fault;

/// A script that runs.
pub struct Running {
    /// A function of a library, not a script of EVAL.
    pub is_function: bool,
    /// The function's name, or the script's digest.
    pub name: Vec<u8>,
    /// The command that started it.
    pub command: Vec<Vec<u8>>,
    /// When, in microseconds of the server's clock.
    pub started_us: u64,
    /// It has written something: it can no longer be ended.
    pub has_written: AtomicBool,
    /// It was told to end.
    pub killed: AtomicBool,
}

/// The scripts that run apart from the workers.
#[derive(Default)]
pub struct RunningScripts {
    all: Mutex<Vec<Arc<Running>>>,
}

/// What became of an attempt to end a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// It will end.
    Done,
    /// None runs.
    NotBusy,
    /// One runs, but is of the other kind.
    OtherKind,
    /// It has written.
    HasWritten,
}

impl RunningScripts {
    /// Adds one.
    pub fn enter(&self, running: Arc<Running>) {
        self.all.lock().push(running);
    }

    /// Removes one.
    pub fn leave(&self, running: &Arc<Running>) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, running));
    }

    /// The one that runs longest of those that have run for `threshold_us`.
    pub fn longest(&self, now_us: u64, threshold_us: u64) -> Option<Arc<Running>> {
        let all = self.all.lock();
        let long = all.iter().filter(|running| now_us.saturating_sub(running.started_us) >= threshold_us);
        long.min_by_key(|running| running.started_us).cloned()
    }

    /// What a client is told whose command waits for a script that has run for `threshold_us`; `None`: none has.
    pub fn busy(&self, now_us: u64, threshold_us: u64) -> Option<Fault> {
        Some(match self.longest(now_us, threshold_us)? {
            running if running.is_function => Fault::Text(
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
            ),
            _ => Fault::Text(
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            ),
        })
    }

    /// Ends every script of the kind that has not written.
    pub fn kill(&self, functions: bool) -> Kill {
        let all = self.all.lock();
        let mut outcome = if all.is_empty() { Kill::NotBusy } else { Kill::OtherKind };
        for running in all.iter().filter(|running| running.is_function == functions) {
            if running.has_written.load(Relaxed) {
                outcome = if outcome == Kill::Done { Kill::Done } else { Kill::HasWritten };
            } else {
                running.killed.store(true, Relaxed);
                outcome = Kill::Done;
            }
        }
        outcome
    }
}
