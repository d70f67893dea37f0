//! Which replicas wait for a full synchronization, when it begins, and how it is made.
//!
//! One thread of the host makes them, one after the other ([`Server::begin_sync`]), and one keeps the stream for them
//! ([`Syncs::tend_spools`]). Replicas that come while one is made take part in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use journal::storage::Storage;
use parking_lot::{Condvar, Mutex};
use rdb::{Compression, RecordEncoder, VERSION_WRITTEN, crc64};

use super::Replicas;
use super::full_sync::{FullSync, LogSpool, Spools};
use super::replica::{Filter, Replica};
use crate::letter::Letter;
use crate::persistence::saving::{Save, SavePurpose};
use crate::propagation::LogReader;
use crate::server::{REDIS_VERSION, Server};

/// Replicas that wait, and synchronizations that are under way.
#[derive(Default)]
pub struct Syncs {
    queue: Mutex<Queue>,
    changed: Condvar,
    spools: Mutex<Vec<LogSpool>>,
    spools_changed: Condvar,
    /// Synchronizations begun.
    count: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// With unix milliseconds of their arrival.
    waiting: Vec<(Arc<Replica>, i64)>,
    /// What is being made, of all data.
    making: Option<Arc<FullSync>>,
}

/// A synchronization that is to be made.
pub struct SyncWork {
    /// What is made.
    pub sync: Arc<FullSync>,
    /// What goes into the payload; None: it is whole already.
    pub save: Option<Save>,
}

impl Syncs {
    /// Has a replica synchronized: with what is being made, or with the next.
    pub(crate) fn add(&self, replica: &Arc<Replica>, now_ms: i64) {
        let mut queue = self.queue.lock();
        match &queue.making {
            Some(sync) if replica.greeting.filter.is_none() && !sync.has_failed() => replica.join(sync),
            _ => {
                queue.waiting.push((replica.clone(), now_ms));
                self.changed.notify_one();
            }
        }
    }

    /// True if a replica waits for a synchronization to begin.
    pub(super) fn is_awaited(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Sleeps until a replica waits, and then for `interval`.
    pub fn sleep(&self, interval: Duration) {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() {
            self.changed.wait(&mut queue);
        } else {
            drop(queue);
            std::thread::sleep(interval);
        }
    }

    /// Sleeps while there are no synchronizations; for `interval` at most, if replicas are there or may come back.
    pub fn await_spools(&self, replicas: &Replicas, interval: Duration) {
        let mut spools = self.spools.lock();
        if !spools.is_empty() {
            return;
        }
        match replicas.are_expected() {
            true => drop(self.spools_changed.wait_for(&mut spools, interval)),
            false => self.spools_changed.wait(&mut spools),
        }
    }

    /// Wakes who sleeps in [`Syncs::await_spools`]: there is a replica.
    pub(super) fn wake_keeper(&self) {
        let _spools = self.spools.lock();
        self.spools_changed.notify_one();
    }

    /// Moves to the disk what memory should not hold of the streams of synchronizations.
    pub fn tend_spools(&self) {
        let mut tended = std::mem::take(&mut *self.spools.lock());
        tended.retain_mut(LogSpool::step);
        self.spools.lock().append(&mut tended);
    }

    fn keep_stream(&self, spool: LogSpool) {
        self.spools.lock().push(spool);
        self.spools_changed.notify_one();
    }

    /// The replicas for whom a synchronization is to begin now: all that want the same parts of the data.
    fn due(&self, server: &Server, now_ms: i64) -> Vec<Arc<Replica>> {
        let mut queue = self.queue.lock();
        queue.waiting.retain(|(replica, _)| !replica.is_gone());
        let config = &server.config;
        // A member of the shard is not made to wait for others: writes may wait for it.
        let is_at_once = |(replica, _): &(Arc<Replica>, i64)| {
            !replica.greeting.takes_marked_end || replica.membership().is_some()
        };
        let longest_ms = queue.waiting.iter().map(|(_, since_ms)| now_ms - since_ms).max();
        let Some(longest_ms) = longest_ms else { return Vec::new() };
        let enough = config.int("repl-diskless-sync-max-replicas");
        let is_due = !config.bool("repl-diskless-sync")
            || longest_ms / 1000 >= config.int("repl-diskless-sync-delay")
            || (enough > 0 && queue.waiting.len() as i64 >= enough)
            || queue.waiting.iter().any(is_at_once);
        if !is_due {
            return Vec::new();
        }
        let filter = queue.waiting[0].0.greeting.filter;
        let (due, rest) = queue.waiting.drain(..).partition(|(replica, _)| replica.greeting.filter == filter);
        queue.waiting = rest;
        let due: Vec<(Arc<Replica>, i64)> = due;
        due.into_iter().map(|(replica, _)| replica).collect()
    }

    /// Puts replicas back whose synchronization could not begin.
    fn put_back(&self, replicas: Vec<Arc<Replica>>, now_ms: i64) {
        let since_ms = now_ms - 24 * 3_600_000;
        let back = replicas.into_iter().map(|replica| (replica, since_ms));
        self.queue.lock().waiting.extend(back);
    }
}

impl Server {
    /// Begins a synchronization, if one is due and no snapshot is being written. The caller makes its payload and tells
    /// [`Server::end_sync`].
    pub fn begin_sync(&self, storage: &dyn Storage) -> Option<SyncWork> {
        let (replicas, now_ms) = (&self.replication.replicas, self.clock.now().unix_ms);
        let due = replicas.syncs.due(self, now_ms);
        let first = due.first()?;
        let filter = first.greeting.filter;
        if filter.is_none() && !self.persistence.claim(SavePurpose::Sync, now_ms / 1000) {
            replicas.syncs.put_back(due, now_ms);
            return None;
        }
        let number = replicas.syncs.count.fetch_add(1, Relaxed);
        let spools = Spools::open(storage, &format!("temp-sync-{}-{number}.rdb", self.process.pid));
        let spools = match spools {
            Ok(spools) => spools,
            Err(error) => {
                self.host.log(&format!("A full synchronization cannot begin: {error}"));
                if filter.is_none() {
                    self.persistence.let_go();
                }
                let failed = Arc::new(FullSync::failed());
                due.iter().for_each(|replica| replica.join(&failed));
                self.nudge(&due);
                return None;
            }
        };
        self.keep_backlog();
        // Nothing that follows the snapshot's instant gets lost before the spool takes care of it.
        let consumer = loop {
            // So much may be written in between that this end is no more in memory.
            if let Ok(consumer) = self.log.consumer(self.log.end(), true) {
                break consumer;
            }
        };
        let save = filter.is_none().then(|| self.begin_save(SavePurpose::Sync));
        let offset = save.as_ref().map_or_else(|| self.log.forget_db(), |save| save.log_offset);
        let id = self.replication.ids.lock().id.clone();
        let sync = Arc::new(FullSync::new(id, offset, self.random_mark(), spools));
        for replica in &due {
            replica.join(&sync);
        }
        if let Some(filter) = filter {
            sync.finish(sync.write(&self.filtered_payload(filter)).is_ok());
        } else {
            self.notice(&format!("Starting BGSAVE for SYNC: {} replicas, at offset {offset}", due.len()));
            replicas.syncs.queue.lock().making = Some(sync.clone());
        }
        replicas.syncs.keep_stream(LogSpool::new(&sync, consumer));
        self.nudge(&due);
        Some(SyncWork { sync, save })
    }

    /// Tells how making a payload has ended: with what the disk said.
    pub fn end_sync(&self, work: SyncWork, result: Result<(), String>) {
        let syncs = &self.replication.replicas.syncs;
        work.sync.finish(result.is_ok());
        match &result {
            Ok(()) => self.notice("The snapshot for a full synchronization is whole"),
            Err(reason) => self.host.log(&format!("A full synchronization failed: {reason}")),
        }
        if work.save.is_some() {
            syncs.queue.lock().making = None;
            self.persistence.let_go();
        }
        self.nudge(&self.replication.replicas.list());
    }

    /// Has the workers of replicas look at them.
    fn nudge(&self, replicas: &[Arc<Replica>]) {
        for replica in replicas {
            self.post(&replica.client, |_, _| Letter::Replicas);
        }
    }

    /// Sees to it that the stream is kept for replicas from now on. One that was not kept until now is another stream.
    fn keep_backlog(&self) {
        if self.is_log_wanted(LogReader::Replicas) {
            return;
        }
        let _long = self.keyspace.hold_long();
        let _held = self.keyspace.lock_all();
        if !self.is_log_kept() {
            self.change_stream_id();
        }
        self.want_log(LogReader::Replicas, true);
    }

    /// Gives the stream an id of its own, and forgets what it went on from.
    pub(crate) fn change_stream_id(&self) {
        let id = self.random_mark();
        let mut ids = self.replication.ids.lock();
        (ids.id, ids.id2, ids.second_offset) = (id, "0".repeat(40), -1);
        drop(ids);
        self.replication.replicas.on_disk.forget_all();
    }

    /// 40 hex digits that nobody can guess.
    pub(crate) fn random_mark(&self) -> String {
        let mut bytes = [0; 20];
        self.host.fill_random(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A file without keys, for those who asked for other parts of the data.
    fn filtered_payload(&self, filter: Filter) -> Vec<u8> {
        let mut payload = Vec::new();
        RecordEncoder::begin(&mut payload, VERSION_WRITTEN);
        let mut records = RecordEncoder::new(Compression::Off);
        records.aux(&mut payload, b"redis-ver", REDIS_VERSION.as_bytes());
        records.aux(&mut payload, b"redis-bits", usize::BITS.to_string().as_bytes());
        if filter.functions {
            for library in self.scripting.functions.current().libraries.values() {
                records.function(&mut payload, &library.source);
            }
        }
        rdb::end(&mut payload);
        let crc = crc64::update(0, &payload);
        payload.extend_from_slice(&crc.to_le_bytes());
        payload
    }
}
