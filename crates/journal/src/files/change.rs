//! Changes of the directory, to be made on another thread: each syncs several times, and what is written meanwhile should
//! not wait for that.

use std::sync::Arc;

use super::backlog::Backlog;
use super::folder::{Folder, NotPersisted};
use super::history::{Wanted, trim_history};
use crate::manifest::{Entry, Manifest};
use crate::storage::StoredFile;

/// A change that is due. Run it on any thread and give the result to [`super::Writer::change_done`]; until then the
/// writer makes no other.
#[must_use = "the writer waits for it"]
pub struct Change {
    pub(super) folder: Folder,
    pub(super) work: Work,
    /// What is to be listed.
    pub(super) manifest: Manifest,
    pub(super) backlog: Arc<Backlog>,
    pub(super) wanted: Wanted,
}

/// What is done before the manifest is replaced.
pub(super) enum Work {
    /// Nothing: the manifest on the disk lacks what is known by now.
    List,
    /// The next incremental file is made.
    Make(Entry),
    /// What a rewrite wrote becomes the base; afterwards the files that it replaces are removed.
    Install(Entry),
}

/// How a change ended.
pub struct ChangeDone {
    pub(super) work: Work,
    /// What the directory goes on with, unless it keeps what it had.
    pub(super) manifest: Manifest,
    /// The file that was made.
    pub(super) file: Option<Arc<dyn StoredFile>>,
    pub(super) result: Result<(), NotPersisted>,
    /// Nobody knows which manifest a crash would leave.
    pub(super) is_unsettled: bool,
}

impl Change {
    /// Makes the change; blocks for as long as the disk takes.
    pub fn run(self) -> ChangeDone {
        let Change { folder, work, mut manifest, backlog, wanted } = self;
        let mut file = None;
        let prepared = match &work {
            Work::List => Ok(()),
            Work::Make(entry) => folder.create(entry).map(|made| file = Some(made)),
            Work::Install(base) => folder.take_base(base),
        };
        let result = prepared.map_err(NotPersisted::Kept).and_then(|()| folder.persist(&manifest));
        let mut is_unsettled = matches!(result, Err(NotPersisted::Unsettled(_)));
        match (&work, &result) {
            (Work::Make(entry) | Work::Install(entry), Err(NotPersisted::Kept(_))) => {
                let _ = folder.remove(&entry.name);
            }
            (Work::Install(_), Ok(())) => {
                if let Some(trimmed) = trim_history(&folder, &backlog, &manifest, wanted) {
                    // If that fails the lines stay, and say of files that are not there that they are not needed.
                    match folder.persist(&trimmed) {
                        Ok(()) => manifest = trimmed,
                        Err(NotPersisted::Kept(_)) => {}
                        Err(NotPersisted::Unsettled(_)) => (manifest, is_unsettled) = (trimmed, true),
                    }
                }
            }
            _ => {}
        }
        ChangeDone { work, manifest, file, result, is_unsettled }
    }
}
