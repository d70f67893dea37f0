//! Memory of connections, and which of them go when it is too much (`maxmemory-clients`).
//!
//! Each connection's worker says what it holds when that changes; sums are kept, so that nobody walks the connections.
//! Those that hold much are listed by size, one list for each power of two, and the largest go first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use base::limits::CLIENTS_BYTES_MIN;
use parking_lot::Mutex;

use crate::clients::{Client, Clients};
use crate::config::Config;

/// A connection is listed from this power of two on: 32 KiB.
const LISTED_LOG_MIN: u32 = 15;
/// The last list holds all above: 8 GiB.
const LISTED_LOG_MAX: u32 = 33;
const LISTS: usize = (LISTED_LOG_MAX - LISTED_LOG_MIN + 1) as usize;
/// Connections that are looked at for one to go where none is listed.
const SMALL_LOOKS_MAX: usize = 256;
/// Seconds that the figures of [`RecentMax`] reach back.
const RECENT_S: usize = 8;

/// Memory of all connections.
#[derive(Default)]
pub(crate) struct ClientMemory {
    total_bytes: AtomicI64,
    /// Ids of those that hold much and may go, by size: list `n` holds those from 2^(n + 15) bytes on.
    lists: [Mutex<HashSet<u64>>; LISTS],
    /// The longest unread input and unsent output lately.
    pub recent_input: RecentMax,
    pub recent_output: RecentMax,
}

/// The list of a size, counted from 1; 0: it is not listed.
fn list_of(bytes: u64) -> u8 {
    let log = bytes.max(1).ilog2();
    if log < LISTED_LOG_MIN { 0 } else { (log.min(LISTED_LOG_MAX) - LISTED_LOG_MIN + 1) as u8 }
}

impl ClientMemory {
    /// Bytes that all connections hold.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Relaxed).max(0) as u64
    }

    fn set(&self, client: &Client, bytes: u64) {
        // What was chosen to go counts as gone already.
        if bytes > 0 && client.kill.load(Relaxed) {
            return;
        }
        if client.memory_bytes.load(Relaxed) != bytes {
            let before = client.memory_bytes.swap(bytes, Relaxed);
            self.total_bytes.fetch_add(bytes as i64 - before as i64, Relaxed);
        }
        let stays = client.no_evict.load(Relaxed) || client.is_replica.load(Relaxed);
        let list = if stays { 0 } else { list_of(bytes) };
        if client.memory_list.load(Relaxed) != list {
            self.move_to(client, list);
        }
    }

    #[cold]
    fn move_to(&self, client: &Client, list: u8) {
        let before = client.memory_list.swap(list, Relaxed);
        if before > 0 {
            self.lists[usize::from(before) - 1].lock().remove(&client.id);
        }
        if list > 0 {
            self.lists[usize::from(list) - 1].lock().insert(client.id);
        }
    }
}

impl Clients {
    /// Takes note of what a connection holds, in bytes. Its worker calls this after each of its turns.
    #[inline]
    pub fn set_memory(&self, client: &Client, bytes: u64) {
        self.memory.set(client, bytes);
    }

    /// Takes note of what a connection has not yet run and not yet sent.
    #[inline]
    pub fn note_buffers(&self, input_bytes: u64, output_bytes: u64) {
        self.memory.recent_input.note(input_bytes);
        self.memory.recent_output.note(output_bytes);
    }

    /// Lets the figures of long ago be forgotten; call it every second.
    pub(crate) fn advance_recent(&self, now_s: u64) {
        self.memory.recent_input.advance(now_s);
        self.memory.recent_output.advance(now_s);
    }

    /// Bytes that all connections hold.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.total_bytes()
    }

    /// A connection to close because together they hold more than `limit` bytes: of the largest, any. It counts as
    /// gone from now on. `None` if they do not, or nobody may go.
    pub fn choose_victim(&self, limit: u64) -> Option<Arc<Client>> {
        if self.memory.total_bytes() <= limit {
            return None;
        }
        let victim = self.largest().or_else(|| self.any_small())?;
        victim.kill.store(true, Relaxed);
        self.memory.set(&victim, 0);
        Some(victim)
    }

    fn largest(&self) -> Option<Arc<Client>> {
        for list in self.memory.lists.iter().rev() {
            loop {
                let Some(id) = list.lock().iter().next().copied() else { break };
                match self.get(id) {
                    Some(client) if may_go(&client) => return Some(client),
                    // It is being closed, or was just told to stay.
                    _ => drop(list.lock().remove(&id)),
                }
            }
        }
        None
    }

    fn any_small(&self) -> Option<Arc<Client>> {
        let mut looks = 0;
        self.find(|client| {
            looks += 1;
            (may_go(client), looks < SMALL_LOOKS_MAX)
        })
    }
}

fn may_go(client: &Client) -> bool {
    let stays = client.no_evict.load(Relaxed) || client.is_replica.load(Relaxed);
    !stays && !client.kill.load(Relaxed)
}

/// `maxmemory-clients` in bytes; 0: no limit.
pub fn clients_bytes_max(config: &Config) -> u64 {
    let hot = config.hot();
    match hot.maxmemory_clients() {
        0 => 0,
        bytes @ 1.. => (bytes as u64).max(CLIENTS_BYTES_MIN),
        percent if hot.maxmemory_bytes() > 0 => {
            let bytes = hot.maxmemory_bytes() as f64 * -percent as f64 / 100.0;
            (bytes as u64).max(CLIENTS_BYTES_MIN)
        }
        _ => 0,
    }
}

/// The greatest of a figure in the last seconds.
#[derive(Default)]
pub(crate) struct RecentMax {
    seconds: [AtomicU64; RECENT_S],
    at: AtomicU64,
}

impl RecentMax {
    #[inline]
    pub fn note(&self, figure: u64) {
        if figure == 0 {
            return;
        }
        let second = &self.seconds[self.at.load(Relaxed) as usize % RECENT_S];
        if figure > second.load(Relaxed) {
            second.fetch_max(figure, Relaxed);
        }
    }

    /// Moves on to this second; seconds that were skipped are empty.
    pub fn advance(&self, now_s: u64) {
        let at = self.at.swap(now_s, Relaxed);
        for second in (at + 1..=now_s).rev().take(RECENT_S) {
            self.seconds[second as usize % RECENT_S].store(0, Relaxed);
        }
    }

    pub fn max(&self) -> u64 {
        self.seconds.iter().map(|second| second.load(Relaxed)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Peer;

    const MIB: u64 = 1024 * 1024;

    fn clients(sizes: &[u64]) -> (Clients, Vec<Arc<Client>>) {
        let clients = Clients::default();
        let open = sizes.iter().map(|bytes| {
            let client = clients.open(Peer::Unix("".into()), 0, 0);
            clients.set_memory(&client, *bytes);
            client
        });
        let open = open.collect();
        (clients, open)
    }

    #[test]
    fn the_largest_go_until_the_rest_fits() {
        let (clients, open) = clients(&[MIB, 40_000, 100, 9 * MIB, 3 * MIB]);
        assert_eq!(clients.memory_bytes(), 13 * MIB + 40_100);
        let mut gone = Vec::new();
        while let Some(victim) = clients.choose_victim(MIB) {
            gone.push(victim.id);
        }
        assert_eq!(gone, [4, 5, 1]);
        assert_eq!(clients.memory_bytes(), 40_100);
        // Closing those that went changes nothing more; closing others does.
        clients.close(&open[3]);
        clients.close(&open[1]);
        assert_eq!(clients.memory_bytes(), 100);
        // Where none is large, any goes.
        assert_eq!(clients.choose_victim(50).map(|victim| victim.id), Some(3));
        assert!(clients.choose_victim(0).is_none());
    }

    #[test]
    fn who_is_to_stay_stays() {
        let (clients, open) = clients(&[2 * MIB, 5 * MIB, 100]);
        open[1].no_evict.store(true, Relaxed);
        assert_eq!(clients.choose_victim(MIB).map(|victim| victim.id), Some(1));
        assert_eq!(clients.choose_victim(MIB).map(|victim| victim.id), Some(3));
        assert!(clients.choose_victim(MIB).is_none());
        // It is listed again once it may go.
        open[1].no_evict.store(false, Relaxed);
        clients.set_memory(&open[1], 5 * MIB);
        assert_eq!(clients.choose_victim(MIB).map(|victim| victim.id), Some(2));
    }

    #[test]
    fn lists_are_powers_of_two() {
        for (bytes, expected) in
            [(0, 0), (32_767, 0), (32_768, 1), (65_535, 1), (65_536, 2), (1 << 33, 19), (u64::MAX, 19)]
        {
            assert_eq!(list_of(bytes), expected, "{bytes}");
        }
        assert_eq!(usize::from(list_of(u64::MAX)), LISTS);
    }

    #[test]
    fn limits_are_bytes_or_percent() {
        for (clients, maxmemory, expected) in [
            ("0", "1gb", 0),
            ("1mb", "0", 1024 * 1024),
            ("1", "0", CLIENTS_BYTES_MIN),
            ("10%", "0", 0),
            ("10%", "100000000", 10_000_000),
            ("1%", "1000", CLIENTS_BYTES_MIN),
        ] {
            let config = Config::defaults();
            for (name, value) in [("maxmemory-clients", clients), ("maxmemory", maxmemory)] {
                config.override_value(name, value.as_bytes()).expect("a valid value");
            }
            assert_eq!(clients_bytes_max(&config), expected, "{clients} of {maxmemory}");
        }
    }

    #[test]
    fn the_recent_maximum_is_forgotten_in_time() {
        let recent = RecentMax::default();
        recent.advance(1_000);
        recent.note(7);
        recent.advance(1_003);
        recent.note(5);
        assert_eq!(recent.max(), 7);
        recent.advance(1_007);
        assert_eq!(recent.max(), 7);
        recent.advance(1_008);
        assert_eq!(recent.max(), 5);
        recent.advance(9_000);
        assert_eq!(recent.max(), 0);
    }
}
