//! Syncing from another thread, so that a disk that takes seconds for it does not hold up what is written meanwhile.

use std::sync::Arc;

use crate::storage::{StorageError, StoredFile};

/// `appendfsync`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each step of the writer ends with a sync: one for everybody whose records it wrote.
    Always,
    /// A sync is begun each second, on another thread.
    EverySecond,
    /// The operating system decides.
    No,
}

/// A place in the log and in the file that it is written to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Offset in the log.
    pub(super) offset: u64,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// The database that is selected there.
    pub(super) db: Option<u32>,
}

/// A sync that is due. Run it on any thread and give the result to [`super::Writer::sync_done`].
pub struct SyncRequest {
    /// The file before, if it is not safe yet.
    pub(super) before: Option<Arc<dyn StoredFile>>,
    pub(super) file: Arc<dyn StoredFile>,
    pub(super) seq: i64,
    pub(super) mark: Mark,
}

impl SyncRequest {
    /// Syncs; blocks for as long as the disk takes.
    pub fn run(self) -> SyncDone {
        let before = self.before.as_ref().map_or(Ok(()), |file| file.sync_data());
        let result = before.and_then(|()| self.file.sync_data());
        SyncDone { seq: self.seq, mark: self.mark, result }
    }
}

/// How a sync ended.
pub struct SyncDone {
    pub(super) seq: i64,
    pub(super) mark: Mark,
    pub(super) result: Result<(), StorageError>,
}
