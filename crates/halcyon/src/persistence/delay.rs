//! What saving and loading are slowed down by, for those who test what goes on meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use engine::server::Server;

/// The directive for each key that is saved.
pub const SAVED: &str = "rdb-key-save-delay";
/// The directive for each key of a snapshot, or command of the append-only files, that is loaded.
pub const LOADED: &str = "key-load-delay";

/// Between looks whether a delay that was asked for still is.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// True if there is a delay.
pub fn is_wanted(server: &Server, directive: &str) -> bool {
    delay_us(server, directive) > 0
}

/// Waits for a key's delay, until the directive says otherwise. True if there is one.
pub fn after_key(server: &Server, directive: &str) -> bool {
    let started = Instant::now();
    loop {
        let delay_us = delay_us(server, directive);
        match delay_us.saturating_sub(started.elapsed().as_micros() as u64) {
            0 => return delay_us > 0,
            left_us => thread::sleep(Duration::from_micros(left_us).min(CHECK_INTERVAL)),
        }
    }
}

/// A negative delay is a microsecond for every so many keys: none that could be seen.
fn delay_us(server: &Server, directive: &str) -> u64 {
    u64::try_from(server.config.int(directive)).unwrap_or(0)
}
