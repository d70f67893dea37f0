//! A full synchronization: a snapshot of the data in a spool file, and the stream from its instant on.
//!
//! Replicas read the payload from the spool at their own speed, while it is written if they can. The stream since the
//! snapshot's instant stays in memory up to [`SYNC_LOG_BYTES_MAX`]; what is older goes to a second one ([`LogSpool`]),
//! which holds writers up only where the disk is slower than they are. So a synchronization takes a bounded amount of
//! memory whatever is written meanwhile, and it ends. Spools have no name: they go with the last who reads them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Release,
};

use base::limits::{REPLICA_FETCH_BYTES, SYNC_LOG_BYTES_MAX};
use journal::log::Consumer;
use journal::storage::{Result as StorageResult, Storage, StoredFile, append_all};
use store::courtesy;

const IS_MADE: u8 = 1;
const HAS_FAILED: u8 = 2;

/// What writing or reading amounts to, as [`courtesy`] counts work: it copies more than 2 GB/s.
fn units_of(bytes: &[u8]) -> u32 {
    (bytes.len() / 256) as u32
}

/// A file that one thread writes and others read up to what is written.
#[derive(Default)]
pub(super) struct Spool {
    /// None: it could not be made.
    file: Option<Arc<dyn StoredFile>>,
    written: AtomicU64,
}

impl Spool {
    /// Makes the file, which has a name for a moment only.
    pub(super) fn open(storage: &dyn Storage, name: &str) -> StorageResult<Spool> {
        let path = Path::new(name);
        let file = storage.create(path)?;
        storage.remove(path)?;
        Ok(Spool { file: Some(file), written: AtomicU64::new(0) })
    }

    fn file(&self) -> &dyn StoredFile {
        self.file.as_deref().expect("spool-open: of a synchronization that failed nothing is used")
    }

    pub(super) fn append(&self, bytes: &[u8]) -> StorageResult<()> {
        append_all(self.file(), bytes)?;
        courtesy::note_work(units_of(bytes));
        self.written.fetch_add(bytes.len() as u64, Release);
        Ok(())
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// What is written from `at` on, but no more than a fetch takes.
    pub(super) fn read(&self, at: u64) -> StorageResult<Vec<u8>> {
        let wanted = (self.written() - at).min(REPLICA_FETCH_BYTES as u64) as usize;
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            match self.file().read_at(at + filled as u64, &mut bytes[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        courtesy::note_work(units_of(&bytes));
        Ok(bytes)
    }
}

/// The files of a synchronization.
#[derive(Default)]
pub(super) struct Spools {
    payload: Spool,
    stream: Spool,
}

impl Spools {
    /// Makes them. `name` is a file's, and tells it from all others.
    pub(super) fn open(storage: &dyn Storage, name: &str) -> StorageResult<Spools> {
        Ok(Spools { payload: Spool::open(storage, name)?, stream: Spool::open(storage, name)? })
    }
}

/// A full synchronization that replicas take part in.
pub struct FullSync {
    /// The stream's id.
    pub id: String,
    /// Where in the stream the payload stands.
    pub offset: u64,
    /// What ends a payload whose size is not told: 40 characters.
    pub mark: String,
    payload: Spool,
    stream: Spool,
    state: AtomicU8,
    /// Replicas that need it.
    takers: AtomicUsize,
}

impl FullSync {
    pub(super) fn new(id: String, offset: u64, mark: String, spools: Spools) -> FullSync {
        let Spools { payload, stream } = spools;
        let (state, takers) = (AtomicU8::new(0), AtomicUsize::new(0));
        FullSync { id, offset, mark, payload, stream, state, takers }
    }

    /// One that could not begin.
    pub(super) fn failed() -> FullSync {
        let sync = FullSync::new(String::new(), 0, String::new(), Spools::default());
        sync.finish(false);
        sync
    }

    /// Appends to the payload. Once nobody needs it nothing is written, and nobody can take part in it any more.
    pub fn write(&self, bytes: &[u8]) -> StorageResult<()> {
        if self.takers.load(Acquire) == 0 {
            self.finish(false);
        }
        if self.has_failed() {
            return Ok(());
        }
        self.payload.append(bytes)
    }

    /// Tells how the payload ended.
    pub fn finish(&self, is_whole: bool) {
        self.state.fetch_or(if is_whole { IS_MADE } else { HAS_FAILED }, AcqRel);
    }

    /// True once the payload is whole.
    pub(super) fn is_made(&self) -> bool {
        self.state.load(Acquire) & IS_MADE != 0
    }

    /// True once something went wrong: it has to be begun anew.
    pub(super) fn has_failed(&self) -> bool {
        self.state.load(Acquire) & HAS_FAILED != 0
    }

    /// Bytes of the payload that can be read.
    pub(super) fn payload_written(&self) -> u64 {
        self.payload.written()
    }

    /// The offset up to which the stream is in the spool.
    pub(super) fn spooled_to(&self) -> u64 {
        self.offset + self.stream.written()
    }

    pub(super) fn read_payload(&self, at: u64) -> StorageResult<Vec<u8>> {
        self.payload.read(at)
    }

    /// The stream from the offset `at` on, which is in the spool.
    pub(super) fn read_stream(&self, at: u64) -> StorageResult<Vec<u8>> {
        self.stream.read(at - self.offset)
    }

    pub(super) fn join(&self) {
        self.takers.fetch_add(1, AcqRel);
    }

    pub(super) fn leave(&self) {
        self.takers.fetch_sub(1, AcqRel);
    }
}

/// Keeps the stream since a synchronization's instant, in memory or in its spool, and is the last to let go of both
/// spools: to give back the room of a large file takes longer than a worker may.
pub struct LogSpool {
    sync: Arc<FullSync>,
    /// None: it has failed.
    consumer: Option<Consumer>,
    /// The offset up to which the stream is in the spool.
    at: u64,
}

impl LogSpool {
    pub(super) fn new(sync: &Arc<FullSync>, mut consumer: Consumer) -> LogSpool {
        consumer.release(sync.offset);
        LogSpool { sync: sync.clone(), consumer: Some(consumer), at: sync.offset }
    }

    /// Moves to the spool what memory should not hold. False: nobody needs it any more.
    pub(super) fn step(&mut self) -> bool {
        if Arc::strong_count(&self.sync) == 1 {
            return false;
        }
        if self.sync.has_failed() {
            self.consumer = None;
        }
        let Some(consumer) = &mut self.consumer else { return true };
        let log = consumer.log().clone();
        if log.end().saturating_sub(self.at) <= SYNC_LOG_BYTES_MAX {
            return true;
        }
        let mut parts = Vec::new();
        while log.end().saturating_sub(self.at) > SYNC_LOG_BYTES_MAX / 2 {
            let read = consumer.read(self.at, REPLICA_FETCH_BYTES, &mut parts);
            let written = parts.drain(..).try_for_each(|part| self.sync.stream.append(&part));
            if read.is_err() || written.is_err() {
                self.sync.finish(false);
                return true;
            }
            // What is released is in the spool already: who finds it gone from memory finds it there.
            self.at = self.sync.spooled_to();
            consumer.release(self.at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use journal::log::{Log, LogLimits};
    use journal::storage::SimulatedStorage;

    use super::*;

    #[test]
    fn who_keeps_the_stream_is_the_last_to_let_go_of_the_spools() {
        let spools = Spools::open(&SimulatedStorage::new(1), "spool").expect("a disk that does not fail");
        let sync = Arc::new(FullSync::new("id".to_owned(), 0, "mark".to_owned(), spools));
        let limits = LogLimits { segment_bytes: 64, ring_bytes: 100, backlog_bytes: 50 };
        let log = Arc::new(Log::new(limits, 0));
        let mut stream = LogSpool::new(&sync, log.consumer(0, true).expect("an empty log"));
        let left = Arc::downgrade(&sync);
        assert!(stream.step(), "a worker sends it");
        sync.finish(false);
        assert!(stream.step(), "a worker has not noticed yet that it failed");
        assert!(stream.consumer.is_none(), "writers are not held up for what failed");
        drop(sync);
        assert!(left.upgrade().is_some(), "a worker never closes a large file");
        assert!(!stream.step());
    }
}
