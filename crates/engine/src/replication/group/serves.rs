//! Until when commands on keys may be run here.
//!
//! The instant is compared with a clock that was read after the command's bytes were: a process that was stopped in between
//! must not answer by what it knew before.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The instant (`Now::mono_us`).
#[derive(Debug)]
pub struct Serves {
    until_us: AtomicU64,
    /// Another primary has been heard of: nothing is served until this server has another role.
    is_fenced: AtomicBool,
}

impl Default for Serves {
    fn default() -> Serves {
        Serves { until_us: AtomicU64::new(u64::MAX), is_fenced: AtomicBool::new(false) }
    }
}

impl Serves {
    /// Serve until this instant.
    pub fn set(&self, until_us: u64) {
        self.until_us.store(until_us, SeqCst);
        // Whoever fences does it the other way round: one of the two sees the other.
        if self.is_fenced.load(SeqCst) {
            self.until_us.store(0, SeqCst);
        }
    }

    /// True if commands on keys may be run at this instant.
    #[inline]
    pub fn at(&self, now_us: u64) -> bool {
        now_us < self.until_us.load(Relaxed)
    }

    /// When it ends; `u64::MAX`: never.
    pub fn until_us(&self) -> u64 {
        self.until_us.load(Relaxed)
    }

    /// Serve nothing, whatever is said, until [`Serves::unfence`].
    pub(crate) fn fence(&self) {
        self.is_fenced.store(true, SeqCst);
        self.until_us.store(0, SeqCst);
    }

    pub(crate) fn unfence(&self) {
        self.is_fenced.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_outlasts_what_is_said() {
        let serves = Serves::default();
        assert!(serves.at(u64::MAX - 1));
        serves.set(10);
        assert!(serves.at(9) && !serves.at(10));
        serves.fence();
        serves.set(100);
        assert!(!serves.at(9) && !serves.at(50));
        serves.unfence();
        serves.set(100);
        assert!(serves.at(50));
    }
}
