//! What can be wrong with append-only files, in words that say which file, what, and what to do.

use std::fmt;
use std::path::PathBuf;

use crate::aof::{Damage, Flaw};
use crate::log::Gone;
use crate::manifest::ManifestError;
use crate::storage::StorageError;

/// A failure of the append-only files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The disk failed.
    Storage(StorageError),
    /// The manifest cannot be read.
    Manifest {
        /// Its file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        error: ManifestError,
    },
    /// There are files with commands, but no manifest that tells their order.
    NoManifest {
        /// The manifest's file.
        path: PathBuf,
        /// One of the files.
        file: String,
    },
    /// A file that the manifest names is not there.
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that was complete is shorter than it was.
    MissingBytes {
        /// The file.
        path: PathBuf,
        /// How many bytes it has.
        bytes: u64,
        /// How many it had.
        expected: u64,
    },
    /// A file is not whole.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        damage: Damage,
        /// It is the last file, of which the end may be cut off.
        is_last: bool,
    },
    /// A sync is under way on another thread: try again when it is done.
    SyncInFlight,
    /// It cannot be done now, for a reason that was reported before.
    Refused(String),
    /// The log has no longer what was not written yet.
    Gone(Gone),
}

impl From<StorageError> for JournalError {
    fn from(error: StorageError) -> JournalError {
        JournalError::Storage(error)
    }
}

impl From<Gone> for JournalError {
    fn from(gone: Gone) -> JournalError {
        JournalError::Gone(gone)
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Storage(error) => error.fmt(f),
            JournalError::Manifest { path, error } => write!(
                f,
                "the append-only manifest {} cannot be read: {error}. Mend the line, or restore the file from a backup",
                path.display()
            ),
            JournalError::NoManifest { path, file } => write!(
                f,
                "{file} has commands, but the manifest {} is missing. Restore it from a backup, or move the append-only \
                 files away to start without their data",
                path.display()
            ),
            JournalError::MissingFile { path } => write!(
                f,
                "the append-only file {} is named by the manifest, but it is missing. Restore it from a backup",
                path.display()
            ),
            JournalError::MissingBytes { path, bytes, expected } => write!(
                f,
                "the append-only file {} has {bytes} bytes, but it had {expected} when it was completed. Restore it from \
                 a backup",
                path.display()
            ),
            JournalError::Damaged { path, damage, is_last } => {
                write!(f, "the append-only file {}: {damage}. ", path.display())?;
                let mend =
                    "back the directory up, then have the rest of the file cut off: halcyon check --fix";
                match (damage.flaw, is_last) {
                    (Flaw::Corrupt, _) | (_, false) => write!(f, "To go on without what follows, {mend}"),
                    _ => write!(f, "Set aof-load-truncated to yes to cut it there, or {mend}"),
                }
            }
            JournalError::SyncInFlight => f.write_str("a sync of the append-only file is under way"),
            JournalError::Refused(reason) => f.write_str(reason),
            JournalError::Gone(gone) => write!(f, "the log has lost what was to be written: {gone}"),
        }
    }
}

impl std::error::Error for JournalError {}
