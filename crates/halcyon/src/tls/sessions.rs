//! Sessions that clients may resume, which saves both sides the costly half of a handshake.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;

/// At most `capacity` sessions, each for at most `timeout`. Every operation is O(1), amortised.
pub(super) struct SessionCache {
    capacity: usize,
    timeout: Duration,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    sessions: HashMap<Vec<u8>, (Instant, Vec<u8>)>,
    /// Keys by age. One whose session was taken, or put again, is passed over.
    by_age: VecDeque<(Instant, Vec<u8>)>,
}

impl SessionCache {
    /// As in OpenSSL, a capacity of 0 is no bound, and the timeout alone holds.
    pub(super) fn new(capacity: usize, timeout: Duration) -> SessionCache {
        let capacity = if capacity == 0 { usize::MAX } else { capacity };
        SessionCache { capacity, timeout, held: Mutex::default() }
    }

    fn put_at(&self, key: Vec<u8>, value: Vec<u8>, now: Instant) {
        let mut held = self.held.lock();
        held.by_age.push_back((now, key.clone()));
        held.sessions.insert(key, (now, value));
        // Keys without a session count: they take memory, too.
        while held.by_age.len() > self.capacity
            || held.by_age.front().is_some_and(|(put, _)| self.is_over(*put, now))
        {
            let Some((put, key)) = held.by_age.pop_front() else { break };
            if held.sessions.get(&key).is_some_and(|session| session.0 == put) {
                held.sessions.remove(&key);
            }
        }
    }

    fn get_at(&self, key: &[u8], now: Instant, is_last: bool) -> Option<Vec<u8>> {
        let mut held = self.held.lock();
        let value = if is_last { held.sessions.remove(key) } else { held.sessions.get(key).cloned() };
        value.filter(|(put, _)| !self.is_over(*put, now)).map(|(_, value)| value)
    }

    fn is_over(&self, put: Instant, now: Instant) -> bool {
        now.duration_since(put) >= self.timeout
    }
}

impl std::fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCache").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put_at(key, value, Instant::now());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(key, Instant::now(), false)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(key, Instant::now(), true)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Vec<u8> {
        vec![number]
    }

    #[test]
    fn the_oldest_make_room() {
        let (cache, now) = (SessionCache::new(3, Duration::from_secs(300)), Instant::now());
        (0..5).for_each(|number| cache.put_at(key(number), vec![number; 2], now));
        for number in 0..5 {
            let expected = (number >= 2).then(|| vec![number; 2]);
            assert_eq!(cache.get_at(&key(number), now, false), expected, "{number}");
        }
    }

    #[test]
    fn what_is_taken_is_gone() {
        let (cache, now) = (SessionCache::new(3, Duration::from_secs(300)), Instant::now());
        cache.put_at(key(1), vec![1], now);
        assert_eq!(cache.get_at(&key(1), now, true), Some(vec![1]));
        assert_eq!(cache.get_at(&key(1), now, true), None);
    }

    #[test]
    fn sessions_end_with_their_time_and_are_not_kept_longer() {
        let (cache, start) = (SessionCache::new(0, Duration::from_secs(300)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        cache.put_at(key(1), vec![1], at(0));
        cache.put_at(key(2), vec![2], at(200));
        cache.put_at(key(1), vec![3], at(250));
        assert_eq!(cache.get_at(&key(2), at(499), false), Some(vec![2]));
        assert_eq!(cache.get_at(&key(2), at(500), false), None);
        // Putting it again began its time anew.
        assert_eq!(cache.get_at(&key(1), at(549), false), Some(vec![3]));
        cache.put_at(key(4), vec![4], at(549));
        let held = cache.held.lock();
        assert_eq!((held.sessions.len(), held.by_age.len()), (2, 2));
    }
}
