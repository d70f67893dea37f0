//! Time as an argument. Code above the sockets never asks the operating system what time it is: the loop reads a
//! [`Clock`] once a batch and hands [`Now`] down, so that a test can drive a whole server through days in a moment.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One reading of the clock.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970: what expiry times are compared with. Can jump when the machine's clock is set.
    pub unix_ms: i64,
    /// Microseconds since 1970, of the same instant.
    pub unix_us: i64,
    /// Microseconds since an arbitrary start. Never goes back: for durations and time-outs.
    pub mono_us: u64,
}

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Reads the clock.
    fn now(&self) -> Now;

    /// Reads only [`Now::mono_us`], which is half the work.
    fn mono_us(&self) -> u64 {
        self.now().mono_us
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic part starts at zero now.
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        // A machine set to before 1970 reads as 1970: no command can do better with it.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_us = unix.as_micros() as i64;
        Now { unix_ms: unix_us / 1000, unix_us, mono_us: self.mono_us() }
    }

    fn mono_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    unix_us: AtomicI64,
    mono_us: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `unix_ms`, its monotonic part at zero.
    pub fn new(unix_ms: i64) -> ManualClock {
        ManualClock { unix_us: AtomicI64::new(unix_ms * 1000), mono_us: AtomicU64::new(0) }
    }

    /// Lets `us` microseconds pass.
    pub fn advance_us(&self, us: u64) {
        self.unix_us.fetch_add(us as i64, Ordering::SeqCst);
        self.mono_us.fetch_add(us, Ordering::SeqCst);
    }

    /// Lets `ms` milliseconds pass.
    pub fn advance_ms(&self, ms: u64) {
        self.advance_us(ms * 1000);
    }

    /// Sets the wall clock, as an operator would: the monotonic part does not notice.
    pub fn set_unix_ms(&self, unix_ms: i64) {
        self.unix_us.store(unix_ms * 1000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let unix_us = self.unix_us.load(Ordering::SeqCst);
        let unix_ms = unix_us.div_euclid(1000);
        Now { unix_ms, unix_us, mono_us: self.mono_us.load(Ordering::SeqCst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(5_000);
        assert_eq!(clock.now(), Now { unix_ms: 5_000, unix_us: 5_000_000, mono_us: 0 });
        clock.advance_ms(2);
        clock.advance_us(7);
        assert_eq!(clock.now(), Now { unix_ms: 5_002, unix_us: 5_002_007, mono_us: 2_007 });
        clock.set_unix_ms(-1);
        assert_eq!(clock.now(), Now { unix_ms: -1, unix_us: -1_000, mono_us: 2_007 });
    }

    #[test]
    fn system_clock_agrees_with_itself() {
        let clock = SystemClock::new();
        let (first, second) = (clock.now(), clock.now());
        assert_eq!(first.unix_ms, first.unix_us / 1000);
        assert!(first.unix_ms > 1_600_000_000_000);
        assert!(second.mono_us >= first.mono_us);
    }
}
