//! Who follows this server.
//!
//! A connection becomes a [`Replica`] by PSYNC or SYNC. Its worker sends it what its [`Feed`] says, and reads what it
//! acknowledges; all else it shares with the other replicas: the log, and full synchronizations ([`Syncs`]).

mod admission;
mod disk_backlog;
mod feed;
mod full_sync;
pub(crate) mod psync;
mod replica;
mod syncs;
mod tending;
mod waits;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

pub use disk_backlog::DiskBacklog;
pub use feed::{Feed, Next, Source};
pub use full_sync::FullSync;
pub use replica::{Filter, Greeting, Replica, Stage};
pub use syncs::{SyncWork, Syncs};
pub(crate) use waits::{NO_FILES, Wanted};
pub use waits::{Tally, Waits};

use crate::clients::Client;
use crate::server::Server;

/// The replicas.
#[derive(Default)]
pub struct Replicas {
    /// In order of arrival.
    attached: Mutex<Vec<Arc<Replica>>>,
    count: AtomicUsize,
    /// Those that are online and were heard of lately.
    good: AtomicUsize,
    /// Full synchronizations.
    pub syncs: Syncs,
    /// What they lack of the stream, if memory does not hold it.
    pub on_disk: Arc<DiskBacklog>,
    /// Clients that wait for acknowledgements.
    pub waits: Waits,
    /// What is to be read from disks.
    pub fetches: Fetches,
    /// Full synchronizations that were asked for, streams that went on, and that did not although that was asked for.
    pub full_syncs: AtomicU64,
    /// As above.
    pub partial_syncs: AtomicU64,
    /// As above.
    pub partial_refusals: AtomicU64,
    /// Bytes that replicas were sent.
    pub sent_bytes: AtomicU64,
    /// Bytes of the log that are kept for slow replicas alone, when last looked.
    kept_bytes: AtomicU64,
    /// Replicas are to be asked how far they are.
    acks_wanted: AtomicBool,
    /// Unix milliseconds: of the last PING, and since when there has been no replica.
    pinged_at_ms: AtomicI64,
    alone_since_ms: AtomicI64,
    /// The version of the configuration that the log's limits are of.
    limits_version: AtomicU64,
}

impl Replicas {
    /// All, in order of arrival.
    pub fn list(&self) -> Vec<Arc<Replica>> {
        self.attached.lock().clone()
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// How many are online and were heard of within `min-replicas-max-lag`.
    #[inline]
    pub fn good(&self) -> usize {
        self.good.load(Relaxed)
    }

    /// The replica on this connection.
    pub fn of_client(&self, client_id: u64) -> Option<Arc<Replica>> {
        self.attached.lock().iter().find(|replica| replica.client.id == client_id).cloned()
    }

    pub(crate) fn attach(&self, replica: &Arc<Replica>) {
        replica.client.is_replica.store(true, Relaxed);
        self.attached.lock().push(replica.clone());
        self.count.fetch_add(1, Relaxed);
        self.on_disk.forget(replica);
        self.syncs.wake_keeper();
    }

    /// Forgets a connection that has ended.
    pub fn detach(&self, server: &Server, client: &Client) {
        if !client.is_replica.load(Relaxed) {
            return;
        }
        let now_ms = server.clock.now().unix_ms;
        let mut attached = self.attached.lock();
        let Some(at) = attached.iter().position(|replica| replica.client.id == client.id) else { return };
        let replica = attached.remove(at);
        if attached.is_empty() {
            self.alone_since_ms.store(now_ms, Relaxed);
        }
        drop(attached);
        self.count.fetch_sub(1, Relaxed);
        self.on_disk.remember(&replica, now_ms);
        replica.end();
        server.notice(&format!("Connection with replica {} lost.", replica.name()));
        self.count_good(server, now_ms);
    }

    /// None is there; those that were are awaited from now on.
    pub(crate) fn await_return(&self, now_ms: i64) {
        self.alone_since_ms.store(now_ms, Relaxed);
    }

    /// Closes the connections of all replicas: the stream that they follow is no more.
    pub fn disconnect_all(&self, server: &Server) {
        for replica in self.list() {
            server.host.kill(&replica.client);
        }
    }

    /// Counts anew the replicas that `min-replicas-to-write` counts.
    pub(crate) fn count_good(&self, server: &Server, now_ms: i64) {
        let lag_max_s = server.config.int("min-replicas-max-lag");
        let is_good = |replica: &&Arc<Replica>| replica.is_online() && replica.lag_s(now_ms) <= lag_max_s;
        let good = self.attached.lock().iter().filter(is_good).count();
        self.good.store(good, Relaxed);
    }

    /// The offset from which on the append-only files are needed, since a replica reads them; `u64::MAX`: none does.
    pub fn needed_from(&self) -> u64 {
        match self.count() {
            0 => u64::MAX,
            _ => self
                .attached
                .lock()
                .iter()
                .filter_map(|replica| replica.needs_from())
                .min()
                .unwrap_or(u64::MAX),
        }
    }

    /// True if there are replicas, or some that may come back.
    pub(super) fn are_expected(&self) -> bool {
        self.count() > 0 || self.on_disk.is_awaited()
    }

    /// How many have acknowledged everything up to `offset`; and how many have it on their disks.
    pub(crate) fn count_acked(&self, offset: u64) -> (usize, usize) {
        let attached = self.attached.lock();
        let online = || attached.iter().filter(|replica| replica.is_online());
        let acked = online().filter(|replica| replica.acked_to() >= offset).count();
        (acked, online().filter(|replica| replica.synced_to() >= offset).count())
    }

    /// What all replicas have acknowledged; 0 without any.
    pub(crate) fn acked_to(&self) -> u64 {
        let attached = self.attached.lock();
        let online = attached.iter().filter(|replica| replica.is_online());
        online.map(|replica| replica.acked_to()).min().unwrap_or(0)
    }

    /// Memory that the connections of replicas hold.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let attached = self.attached.lock();
        attached.iter().map(|replica| replica.client.memory_bytes.load(Relaxed)).sum()
    }

    /// Bytes of the log that are kept for slow replicas alone: no reason to evict keys, which would only add to them.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Relaxed)
    }
}

impl Server {
    /// The stream as the append-only files have it, if they are written.
    pub(crate) fn files_backlog(&self) -> Option<Arc<journal::files::Backlog>> {
        self.persistence.files.backlog()
    }

    /// The part of the stream that is in memory, if the stream is kept.
    pub(crate) fn log_range(&self) -> Option<std::ops::RangeInclusive<u64>> {
        self.is_log_kept().then(|| self.log.start()..=self.log.end())
    }
}

/// Something to be read from a disk for a replica, and whose worker and connection it is for.
pub struct Fetch {
    /// What is to be read.
    pub source: Source,
    /// The connection's worker.
    pub worker: usize,
    /// Its number there.
    pub token: usize,
    /// Its client.
    pub client_id: u64,
}

/// What was read.
pub struct Fetched {
    /// Where.
    pub source: Source,
    /// The bytes, or why there are none.
    pub bytes: Result<Vec<u8>, String>,
}

/// What is to be read from disks, in order of arrival.
#[derive(Default)]
pub struct Fetches {
    queue: Mutex<VecDeque<Fetch>>,
    filled: Condvar,
}

impl Fetches {
    /// Leaves something to be read.
    pub fn push(&self, fetch: Fetch) {
        self.queue.lock().push_back(fetch);
        self.filled.notify_one();
    }

    /// Waits for the next.
    pub fn next(&self) -> Fetch {
        let mut queue = self.queue.lock();
        loop {
            match queue.pop_front() {
                Some(fetch) => return fetch,
                None => self.filled.wait(&mut queue),
            }
        }
    }
}
