//! Eviction: which keys go when memory is full, and how much of it a command waits for.
//!
//! Memory is what the allocator counts, data and buffers alike, less what waits for the reaper. A command that may
//! grow it calls [`make_room`] before its stripes are locked; that evicts for one slice of time at most. If memory is
//! still above the limit then, the command runs all the same, and workers go on in their ticks: only where nothing can
//! be evicted is it refused.
//!
//! Keys are picked from samples, as nothing orders them by their use. The best of each sample are kept in a pool of
//! the worker's, so that a key that is a good choice is not forgotten because a better one was seen with it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use base::limits::{EVICTION_POOL_KEYS, EVICTION_SLICE_KEYS, EVICTION_STEP_US};
use store::{Among, Instant, Position, View, access};

use crate::ctx::Event;
use crate::server::Server;
use crate::worker::Worker;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the directive's words")]
pub enum Policy {
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
    AllkeysLru,
    AllkeysLfu,
    AllkeysRandom,
    NoEviction,
}

use Policy::*;

/// The policies and the words for them.
const POLICIES: [(Policy, &str); 8] = [
    (VolatileLru, "volatile-lru"),
    (VolatileLfu, "volatile-lfu"),
    (VolatileRandom, "volatile-random"),
    (VolatileTtl, "volatile-ttl"),
    (AllkeysLru, "allkeys-lru"),
    (AllkeysLfu, "allkeys-lfu"),
    (AllkeysRandom, "allkeys-random"),
    (NoEviction, "noeviction"),
];

impl Policy {
    /// The policy of a word.
    pub(crate) fn of(word: &str) -> Option<Policy> {
        POLICIES.iter().find(|(_, known)| *known == word).map(|(policy, _)| *policy)
    }

    /// True if access clocks count uses; else they tell the time of the last.
    #[inline]
    pub fn judges_by_frequency(self) -> bool {
        matches!(self, VolatileLfu | AllkeysLfu)
    }

    /// True if keys go by when they were last used.
    pub fn judges_by_recency(self) -> bool {
        matches!(self, VolatileLru | AllkeysLru)
    }

    /// True if keys go by their use.
    pub fn judges_by_use(self) -> bool {
        self.judges_by_frequency() || self.judges_by_recency()
    }

    fn among(self) -> Among {
        match self {
            AllkeysLru | AllkeysLfu | AllkeysRandom | NoEviction => Among::All,
            VolatileLru | VolatileLfu | VolatileRandom => Among::Volatile,
            VolatileTtl => Among::Soonest,
        }
    }
}

/// A [`Policy`] that threads share.
#[derive(Debug)]
pub(crate) struct AtomicPolicy(AtomicU8);

impl Default for AtomicPolicy {
    fn default() -> AtomicPolicy {
        AtomicPolicy(AtomicU8::new(NoEviction as u8))
    }
}

impl AtomicPolicy {
    #[inline]
    pub fn load(&self, order: std::sync::atomic::Ordering) -> Policy {
        POLICIES[usize::from(self.0.load(order)) % POLICIES.len()].0
    }

    pub fn store(&self, policy: Policy, order: std::sync::atomic::Ordering) {
        self.0.store(policy as u8, order);
    }
}

/// Whether there is memory for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Enough,
    /// Memory is above its limit, and eviction goes on.
    Soon,
    /// Memory is above its limit, and nothing can be evicted.
    None,
}

/// For how long memory has been above its limit.
#[derive(Debug, Default)]
pub struct Exceeded {
    /// `mono_us` of the moment it went above; 0: it is not.
    since_us: AtomicU64,
    total_us: AtomicU64,
}

/// Times for INFO.
pub(crate) struct ExceededTimes {
    pub current_ms: u64,
    pub total_ms: u64,
}

impl Exceeded {
    fn note(&self, is_above: bool, now_us: u64) {
        if is_above {
            let _ = self.since_us.compare_exchange(0, now_us.max(1), Relaxed, Relaxed);
        } else if self.since_us.load(Relaxed) != 0 {
            let since_us = self.since_us.swap(0, Relaxed);
            if since_us != 0 {
                self.total_us.fetch_add(now_us.saturating_sub(since_us), Relaxed);
            }
        }
    }

    pub(crate) fn times(&self, now_us: u64) -> ExceededTimes {
        let current_us = match self.since_us.load(Relaxed) {
            0 => 0,
            since_us => now_us.saturating_sub(since_us),
        };
        let total_us = self.total_us.load(Relaxed) + current_us;
        ExceededTimes { current_ms: current_us / 1000, total_ms: total_us / 1000 }
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        self.since_us.store(0, Relaxed);
        self.total_us.store(0, Relaxed);
    }
}

/// True if more memory is used than `maxmemory` allows. While clients are paused, there is no limit.
///
/// What waits for the reaper is as good as free; and evicting keys would only add to what slow replicas lack.
#[inline]
pub(crate) fn is_over_limit(server: &Server) -> bool {
    let limit = server.config.hot().maxmemory_bytes();
    limit > 0 && !server.ignores_maxmemory() && store::alloc::used_bytes() as u64 > limit && {
        let live_bytes = store::alloc::used_bytes().saturating_sub(server.keyspace.garbage_bytes()) as u64;
        live_bytes.saturating_sub(server.replication.replicas.kept_bytes()) > limit && !server.is_paused()
    }
}

/// Evicts keys if memory is above its limit, for one slice of time. The caller holds no stripe.
#[inline]
pub fn make_room(server: &Server, worker: &mut Worker) -> Room {
    if server.config.hot().maxmemory_bytes() == 0 || !is_over_limit(server) {
        server.exceeded.note(false, worker.now.mono_us);
        return Room::Enough;
    }
    evict_slice(server, worker)
}

/// A slice of eviction between commands; true if there is more to do.
pub fn tick(server: &Server, worker: &mut Worker) -> bool {
    make_room(server, worker) == Room::Soon && !server.keyspace.snapshot_is_behind(None)
}

#[cold]
fn evict_slice(server: &Server, worker: &mut Worker) -> Room {
    if server.keyspace.snapshot_is_behind(None) {
        // Whatever was evicted now would be kept for the snapshot. Commands that need memory wait for it, too.
        return Room::Soon;
    }
    let started_us = server.clock.mono_us();
    let slice_us = slice_us(server.config.hot().maxmemory_eviction_tenacity());
    let (mut room, mut attempt) = (Room::Soon, Attempt::Evicted);
    while room == Room::Soon {
        for _ in 0..EVICTION_SLICE_KEYS {
            attempt = evict_one(server, worker);
            if attempt != Attempt::Evicted || !is_over_limit(server) {
                break;
            }
        }
        match attempt {
            Attempt::Nothing => room = Room::None,
            _ if !is_over_limit(server) => room = Room::Enough,
            Attempt::Evicted if server.clock.mono_us() - started_us < slice_us => {}
            Attempt::Evicted | Attempt::HeldUp => break,
        }
    }
    let now = server.clock.now();
    server.latency.record_above(server, "eviction-cycle", now.mono_us - started_us, now.unix_ms / 1000);
    server.exceeded.note(room != Room::Enough, now.mono_us);
    room
}

/// How long a slice may take: Redis's scale, with which 100 means without end.
fn slice_us(tenacity: u64) -> u64 {
    match tenacity {
        0..=10 => tenacity * EVICTION_STEP_US,
        11..=99 => (10.0 * EVICTION_STEP_US as f64 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

/// What came of an attempt to evict a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// One is gone.
    Evicted,
    /// There are some, but those who hold their stripes may keep them for long.
    HeldUp,
    /// The policy allows none.
    Nothing,
}

/// Evicts the key that the policy and the samples name.
pub(crate) fn evict_one(server: &Server, worker: &mut Worker) -> Attempt {
    let judge = Judge::of(server, worker);
    if judge.policy == NoEviction {
        return Attempt::Nothing;
    }
    while let Some(victim) = worker.evictor.choose(server, &judge, &mut worker.rng) {
        let timed = server.config.hot().latency_monitor_threshold_ms() > 0;
        let started_us = if timed { server.clock.mono_us() } else { 0 };
        if !remove(server, &judge, &victim) {
            continue;
        }
        if timed {
            let elapsed_us = server.clock.mono_us() - started_us;
            server.latency.record_above(server, "eviction-del", elapsed_us, judge.now_ms / 1000);
        }
        worker.stats.evicted_keys.add(1);
        return Attempt::Evicted;
    }
    let may_go = |size: store::DbSize| match judge.policy.among() {
        Among::All => size.keys,
        Among::Volatile | Among::Soonest => size.expires,
    };
    let sizes = (0..server.keyspace.databases()).map(|db| server.keyspace.size(db, judge.now_ms));
    if sizes.map(may_go).sum::<usize>() > server.hidden_keys() { Attempt::HeldUp } else { Attempt::Nothing }
}

/// Removes a key that was chosen, unless it is gone or has become a worse choice since.
fn remove(server: &Server, judge: &Judge, victim: &Candidate) -> bool {
    let Candidate { db, position, ref key, .. } = *victim;
    let Some(mut locked) = server.keyspace.lock_briefly(position) else { return false };
    let at = Instant { now_ms: judge.now_ms, touch: None };
    let Some(view) = locked.get(db, position, key, at) else {
        for expired in locked.take_expired() {
            server.key_lost(db, &expired.key, &[(Event::Expired, "expired")]);
        }
        return false;
    };
    let is_allowed = judge.policy.among() == Among::All || view.expire_at_ms().is_some();
    if !is_allowed || judge.worth(view) < victim.worth || server.hides(position.slot()) {
        return false;
    }
    locked.remove(db, position, key, judge.now_ms);
    server.key_lost(db, key, &[(Event::Evicted, "evicted")]);
    true
}

/// What decides which key goes.
struct Judge {
    policy: Policy,
    samples: usize,
    decay_min: u64,
    now_ms: i64,
}

impl Judge {
    fn of(server: &Server, worker: &Worker) -> Judge {
        let hot = server.config.hot();
        Judge {
            policy: hot.maxmemory_policy(),
            samples: hot.maxmemory_samples() as usize,
            decay_min: hot.lfu_decay_time_min(),
            now_ms: worker.now.unix_ms,
        }
    }

    /// The greater, the sooner the key should go.
    fn worth(&self, view: View<'_>) -> u64 {
        match self.policy {
            VolatileLru | AllkeysLru => u64::from(access::idle_s(view.clock(), self.now_ms)),
            VolatileLfu | AllkeysLfu => {
                u64::from(u8::MAX - access::count(view.clock(), self.now_ms, self.decay_min))
            }
            VolatileTtl => u64::MAX - view.expire_at_ms().map_or(u64::MAX, |at| at.max(0) as u64),
            VolatileRandom | AllkeysRandom | NoEviction => 0,
        }
    }
}

/// A key that may go.
#[derive(Debug)]
struct Candidate {
    worth: u64,
    db: usize,
    position: Position,
    key: Box<[u8]>,
}

/// One worker's choice of keys.
#[derive(Debug, Default)]
pub(crate) struct Evictor {
    /// By ascending worth, at most [`EVICTION_POOL_KEYS`].
    pool: Vec<Candidate>,
    /// The policy that the pool was made by.
    policy: Option<Policy>,
    /// Where the random policies go on: databases take turns.
    next_db: usize,
}

impl Evictor {
    /// The best key to evict, taken out of the pool; it may be gone or used since it was seen.
    fn choose(&mut self, server: &Server, judge: &Judge, rng: &mut fastrand::Rng) -> Option<Candidate> {
        if self.policy != Some(judge.policy) {
            self.pool.clear();
            self.policy = Some(judge.policy);
        }
        let databases = server.keyspace.databases();
        if matches!(judge.policy, VolatileRandom | AllkeysRandom) {
            for _ in 0..databases {
                self.next_db = (self.next_db + 1) % databases;
                self.look_at(server, self.next_db, judge, 1, rng);
                if !self.pool.is_empty() {
                    break;
                }
            }
        } else {
            (0..databases).for_each(|db| self.look_at(server, db, judge, judge.samples, rng));
        }
        self.pool.pop()
    }

    /// Takes the best of a sample of a database into the pool.
    fn look_at(
        &mut self,
        server: &Server,
        db: usize,
        judge: &Judge,
        samples: usize,
        rng: &mut fastrand::Rng,
    ) {
        let keyspace = &server.keyspace;
        keyspace.sample(db, judge.policy.among(), samples, rng, &mut |view| {
            let worth = judge.worth(view);
            let is_full = self.pool.len() == EVICTION_POOL_KEYS;
            if is_full && self.pool.first().is_some_and(|worst| worst.worth >= worth) {
                return;
            }
            let position = keyspace.position(view.key());
            // Its source goes on sending what is done to it.
            if server.hides(position.slot()) {
                return;
            }
            if self.pool.iter().any(|known| known.position == position && known.db == db) {
                return;
            }
            if is_full {
                self.pool.remove(0);
            }
            let at = self.pool.partition_point(|known| known.worth <= worth);
            self.pool.insert(at, Candidate { worth, db, position, key: view.key().into() });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    /// How many of `keys` named `prefix`0.. are left.
    fn left(harness: &mut Harness, prefix: &str, keys: usize) -> usize {
        (0..keys).filter(|n| harness.run(&format!("EXISTS {prefix}{n}")) == ":1").count()
    }

    fn evict(harness: &mut Harness, keys: usize) -> usize {
        (0..keys).take_while(|_| harness.evict_one()).count()
    }

    #[test]
    fn the_least_recently_used_go_first() {
        for (policy, expiry) in [("allkeys-lru", ""), ("volatile-lru", " EX 100000")] {
            let mut harness = Harness::with_config(&[("maxmemory-policy", policy)]);
            // Ten generations of 300 keys, a minute apart.
            for generation in 0..10 {
                for n in 0..300 {
                    harness.run(&format!("SET {generation}:{n} v{expiry}"));
                }
                harness.advance_ms(60_000);
            }
            // The oldest of all come to use again.
            (0..300).for_each(|n| drop(harness.run(&format!("GET 0:{n}"))));
            assert_eq!(evict(&mut harness, 1_000), 1_000);
            let kept: Vec<usize> = (0..10).map(|g| left(&mut harness, &format!("{g}:"), 300)).collect();
            assert_eq!(kept.iter().sum::<usize>(), 2_000);
            let (used, oldest, newest) = (kept[0], &kept[1..4], &kept[6..]);
            assert!(used >= 295 && newest.iter().all(|kept| *kept >= 290), "{policy}: {kept:?}");
            assert!(oldest.iter().sum::<usize>() <= 180, "{policy}: {kept:?}");
        }
    }

    #[test]
    fn the_least_frequently_used_go_first() {
        for (policy, expiry) in [("allkeys-lfu", ""), ("volatile-lfu", " EX 100000")] {
            let mut harness = Harness::with_config(&[("maxmemory-policy", policy)]);
            for n in 0..500 {
                harness.run(&format!("SET hot:{n} v{expiry}"));
                (0..20).for_each(|_| drop(harness.run(&format!("GET hot:{n}"))));
            }
            (0..500).for_each(|n| drop(harness.run(&format!("SET cold:{n} v{expiry}"))));
            assert_eq!(evict(&mut harness, 400), 400);
            let (hot, cold) = (left(&mut harness, "hot:", 500), left(&mut harness, "cold:", 500));
            assert!(hot >= 490, "{policy}: {hot} hot ones and {cold} cold ones are left");
        }
    }

    #[test]
    fn the_soonest_to_end_go_first() {
        let mut harness = Harness::with_config(&[("maxmemory-policy", "volatile-ttl")]);
        (0..1_000).for_each(|n| drop(harness.run(&format!("SET {n} v EX {}", 1_000 + n))));
        harness.run("SET stays v");
        assert_eq!(evict(&mut harness, 300), 300);
        let of_oldest = (0..330).filter(|n| harness.run(&format!("EXISTS {n}")) == ":1").count();
        assert!(of_oldest <= 100, "{of_oldest} of the 330 that end first are left");
        assert_eq!(evict(&mut harness, 1_000), 700);
        harness.check("KEYS *", "[stays]");
    }

    #[test]
    fn each_policy_takes_what_it_may_from_every_database() {
        for (policy, _) in POLICIES {
            let word = POLICIES[policy as usize].1;
            let mut harness = Harness::with_config(&[("maxmemory-policy", word)]);
            for db in [0, 3] {
                harness.run(&format!("SELECT {db}"));
                (0..50).for_each(|n| drop(harness.run(&format!("SET volatile:{n} v EX 1000"))));
                (0..50).for_each(|n| drop(harness.run(&format!("SET lasting:{n} v"))));
            }
            let expected = match policy.among() {
                _ if policy == NoEviction => 0,
                Among::All => 200,
                _ => 100,
            };
            assert_eq!(evict(&mut harness, 1_000), expected, "{word}");
            let lasting = left(&mut harness, "lasting:", 50);
            assert_eq!(lasting, if expected == 200 { 0 } else { 50 }, "{word}");
            let info = harness.run("INFO stats");
            assert!(info.contains(&format!("\r\nevicted_keys:{expected}\r\n")), "{word}");
        }
    }

    #[test]
    fn keys_used_or_gone_since_they_were_seen_stay() {
        let mut harness = Harness::with_config(&[("maxmemory-policy", "allkeys-lru")]);
        (0..10).for_each(|n| drop(harness.run(&format!("SET {n} v"))));
        harness.advance_ms(5_000);
        // Fills the pool with all of them.
        assert_eq!(evict(&mut harness, 1), 1);
        (0..9).for_each(|n| drop(harness.run(&format!("GET {n}"))));
        harness.run("SET 9 v");
        harness.advance_ms(1_000);
        harness.run("SET idle v");
        assert_eq!(evict(&mut harness, 1), 1);
        harness.check("GET idle", "v");
        harness.check("FLUSHALL", "+OK");
        assert_eq!(evict(&mut harness, 1), 0);
    }

    #[test]
    fn slices_follow_the_tenacity() {
        for (tenacity, expected_us) in
            [(0, 0), (1, 50), (10, 500), (11, 575), (99, 126_000_000), (100, u64::MAX)]
        {
            let us = slice_us(tenacity);
            assert!(us.abs_diff(expected_us) <= expected_us / 50, "{tenacity}: {us}");
        }
    }

    #[test]
    fn time_above_the_limit_adds_up() {
        let exceeded = Exceeded::default();
        for (is_above, at_us, current_ms, total_ms) in [
            (false, 5_000, 0, 0),
            (true, 10_000, 0, 0),
            (true, 25_000, 15, 15),
            (false, 30_000, 0, 20),
            (true, 90_000, 0, 20),
            (true, 91_000, 1, 21),
        ] {
            exceeded.note(is_above, at_us);
            let times = exceeded.times(at_us);
            assert_eq!((times.current_ms, times.total_ms), (current_ms, total_ms), "{at_us}");
        }
        exceeded.reset();
        assert_eq!(exceeded.times(99_000).total_ms, 0);
    }
}
