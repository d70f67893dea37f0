//! Who is told of a slot's new owner, and when: so many a second, the one who was told last is told last again.
//!
//! A client that is told asks for the topology, and all its connections know it from then on. If all were told at once, all
//! would ask at once. Until their turn comes, their requests are forwarded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use base::limits::{REDIRECT_AGAIN_US, REDIRECTED_IDLE_US, REDIRECTED_LISTED_MAX, REDIRECTED_MAX};
use parking_lot::Mutex;

use crate::clients::Client;

const SHARDS: usize = 64;
/// What may be told at once is a second's share, divided by this.
const BURSTS_PER_SECOND: u64 = 10;

/// What is known of a client whose requests come late.
#[derive(Clone)]
pub struct Redirected {
    /// The client.
    pub client: Arc<Client>,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Times that it was told.
    pub told: u64,
    /// When it sent a late request last (`mono_us`).
    pub seen_us: u64,
    /// When it was told last.
    told_us: Option<u64>,
}

/// What is to become of a late request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Forward,
    Tell,
}

/// Late requests and who sent them, over all workers.
pub struct Redirects {
    /// When the next may be told (`mono_us` in nanoseconds), if none was saved up.
    next_ns: AtomicU64,
    shards: [Mutex<HashMap<u64, Redirected>>; SHARDS],
    known: AtomicUsize,
    look_at: AtomicUsize,
    /// Requests that were forwarded.
    pub forwarded: AtomicU64,
    /// Redirects that were told since it was the client's turn.
    pub told: AtomicU64,
    /// Redirects that were told since the request could not be forwarded.
    pub told_at_once: AtomicU64,
    /// Requests whose answers were lost with a relay.
    pub lost: AtomicU64,
}

impl Default for Redirects {
    fn default() -> Redirects {
        Redirects {
            next_ns: AtomicU64::new(0),
            shards: std::array::from_fn(|_| Mutex::default()),
            known: AtomicUsize::new(0),
            look_at: AtomicUsize::new(0),
            forwarded: AtomicU64::new(0),
            told: AtomicU64::new(0),
            told_at_once: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

impl Redirects {
    /// What is to become of a late request that can be forwarded, where `per_s` are told a second.
    pub(crate) fn judge(&self, client: &Arc<Client>, now_us: u64, per_s: u64) -> Verdict {
        let known = self.known() as u64;
        self.of_client(client, now_us, |redirected| {
            let round_us = (known * 1_000_000).checked_div(per_s).unwrap_or(u64::MAX);
            let pause_us = round_us.max(REDIRECT_AGAIN_US);
            let may_be_told =
                redirected.told_us.is_none_or(|told_us| now_us.saturating_sub(told_us) >= pause_us);
            if per_s == 0 || !may_be_told || !self.take_turn(now_us, per_s) {
                return Verdict::Forward;
            }
            redirected.told += 1;
            redirected.told_us = Some(now_us);
            self.told.fetch_add(1, Relaxed);
            Verdict::Tell
        })
    }

    /// A late request could not be forwarded.
    pub(crate) fn note_told_at_once(&self, client: &Arc<Client>, now_us: u64) {
        self.told_at_once.fetch_add(1, Relaxed);
        self.of_client(client, now_us, |redirected| {
            redirected.told += 1;
            redirected.told_us = Some(now_us);
        });
    }

    /// A late request was forwarded.
    pub(crate) fn note_forwarded(&self, client: &Arc<Client>, now_us: u64) {
        self.forwarded.fetch_add(1, Relaxed);
        self.of_client(client, now_us, |redirected| redirected.forwarded += 1);
    }

    /// Counts anew. Of clients stays what is known.
    pub(crate) fn reset(&self) {
        for counter in [&self.forwarded, &self.told, &self.told_at_once, &self.lost] {
            counter.store(0, Relaxed);
        }
    }

    /// Clients that are known.
    pub fn known(&self) -> usize {
        self.known.load(Relaxed)
    }

    /// The clients for which most was forwarded, most first. O(clients): for those who ask for it.
    pub fn list(&self) -> Vec<Redirected> {
        let mut all: Vec<Redirected> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().values().cloned());
            if all.len() > 2 * REDIRECTED_LISTED_MAX {
                keep_most(&mut all);
            }
        }
        keep_most(&mut all);
        all
    }

    /// Forgets some of those who are late no more; call it about every 100 ms.
    pub(crate) fn forget_idle(&self, now_us: u64) {
        if self.known() == 0 {
            return;
        }
        let shard = &self.shards[self.look_at.fetch_add(1, Relaxed) % SHARDS];
        let mut shard = shard.lock();
        let before = shard.len();
        shard.retain(|_, redirected| now_us.saturating_sub(redirected.seen_us) < REDIRECTED_IDLE_US);
        self.known.fetch_sub(before - shard.len(), Relaxed);
    }

    /// Takes one of this second's share, if there is one.
    fn take_turn(&self, now_us: u64, per_s: u64) -> bool {
        let each_ns = (1_000_000_000 / per_s).max(1);
        let saved_ns = each_ns * (per_s / BURSTS_PER_SECOND).saturating_sub(1);
        let now_ns = now_us.saturating_mul(1_000);
        let take = |next_ns: u64| {
            (next_ns <= now_ns.saturating_add(saved_ns)).then(|| next_ns.max(now_ns).saturating_add(each_ns))
        };
        self.next_ns.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    fn of_client<R>(&self, client: &Arc<Client>, now_us: u64, note: impl FnOnce(&mut Redirected) -> R) -> R {
        let new = || Redirected { client: client.clone(), forwarded: 0, told: 0, seen_us: 0, told_us: None };
        let mut shard = self.shards[client.id as usize % SHARDS].lock();
        if let Some(redirected) = shard.get_mut(&client.id) {
            redirected.seen_us = now_us;
            return note(redirected);
        }
        let mut redirected = new();
        redirected.seen_us = now_us;
        let noted = note(&mut redirected);
        if self.known.fetch_add(1, Relaxed) < REDIRECTED_MAX {
            shard.insert(client.id, redirected);
        } else {
            self.known.fetch_sub(1, Relaxed);
        }
        noted
    }
}

fn keep_most(all: &mut Vec<Redirected>) {
    all.sort_unstable_by_key(|redirected| (std::cmp::Reverse(redirected.forwarded), redirected.client.id));
    all.truncate(REDIRECTED_LISTED_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Clients, Peer};

    fn clients(count: usize) -> Vec<Arc<Client>> {
        let all = Clients::default();
        (0..count).map(|_| all.open(Peer::Unix("".into()), 0, 0)).collect()
    }

    /// All ask once each millisecond for so long; how often each was told.
    fn tell(
        redirects: &Redirects,
        clients: &[Arc<Client>],
        ms: std::ops::Range<u64>,
        per_s: u64,
    ) -> Vec<u64> {
        let mut told = vec![0; clients.len()];
        for ms in ms {
            for (client, told) in clients.iter().zip(&mut told) {
                *told += u64::from(redirects.judge(client, ms * 1_000, per_s) == Verdict::Tell);
            }
        }
        told
    }

    #[test]
    fn no_more_are_told_than_the_rate_allows_and_nobody_twice_before_all() {
        let (redirects, clients) = (Redirects::default(), clients(100));
        // Two are saved up.
        let told = tell(&redirects, &clients, 0..100, 20);
        assert_eq!(told.iter().sum::<u64>(), 3);
        let told = tell(&redirects, &clients, 100..5_000, 20);
        assert_eq!(told.iter().sum::<u64>(), 97);
        let told_of_all = || redirects.list().iter().map(|redirected| redirected.told).collect::<Vec<_>>();
        assert_eq!(told_of_all(), [1; 100]);
        tell(&redirects, &clients, 5_000..10_000, 20);
        assert_eq!(told_of_all(), [2; 100]);
        assert_eq!(redirects.told.load(Relaxed), 200);
    }

    #[test]
    fn who_never_learns_is_told_once_in_a_while() {
        let (redirects, clients) = (Redirects::default(), clients(1));
        let told = tell(&redirects, &clients, 0..10_000, 1_000);
        assert_eq!(told, [10], "a second apart");
        assert_eq!(tell(&redirects, &clients, 10_000..20_000, 0), [0], "a rate of 0: nobody is");
    }

    #[test]
    fn who_is_late_no_more_is_forgotten() {
        let (redirects, clients) = (Redirects::default(), clients(3));
        for (client, count) in clients.iter().zip([1, 3, 2]) {
            (0..count).for_each(|_| redirects.note_forwarded(client, 0));
        }
        let listed = |redirects: &Redirects| {
            redirects
                .list()
                .iter()
                .map(|redirected| (redirected.client.id, redirected.forwarded))
                .collect::<Vec<_>>()
        };
        assert_eq!(listed(&redirects), [(2, 3), (3, 2), (1, 1)]);
        redirects.note_told_at_once(&clients[1], REDIRECTED_IDLE_US);
        (0..SHARDS).for_each(|_| redirects.forget_idle(REDIRECTED_IDLE_US));
        assert_eq!((listed(&redirects), redirects.known()), (vec![(2, 3)], 1));
        assert_eq!(redirects.told_at_once.load(Relaxed), 1);
    }
}
