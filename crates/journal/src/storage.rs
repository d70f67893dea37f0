//! Files as the journal needs them: a trait, so that a test can break the disk where it likes.
//!
//! [`RealStorage`] is the machine's; [`SimulatedStorage`] a seeded disk that fails, fills up and forgets what was not
//! synced. No promise is made that a disk does not make: a write may be short, a failed sync leaves open what is on the
//! disk, and a name is safe only after its directory was synced.

mod real;
mod simulated;

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use real::RealStorage;
pub use simulated::{Faults, SimulatedStorage};

/// What was done when a disk failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operation {
    CreateDirectory,
    Create,
    Open,
    Write,
    Read,
    Truncate,
    Sync,
    Rename,
    Remove,
    List,
    SyncDirectory,
    Size,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::CreateDirectory => "create directory",
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Truncate => "truncate",
            Operation::Sync => "sync",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::List => "list directory",
            Operation::SyncDirectory => "sync directory",
            Operation::Size => "get the size of",
        })
    }
}

/// A call to the disk that failed. Shown as `cannot write /data/x: No space left on device (os error 28)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// What was done.
    pub operation: Operation,
    /// With what.
    pub path: PathBuf,
    /// The kind of failure.
    pub kind: io::ErrorKind,
    /// The system's words.
    pub reason: String,
}

impl StorageError {
    fn new(operation: Operation, path: &Path, error: io::Error) -> StorageError {
        StorageError { operation, path: path.to_owned(), kind: error.kind(), reason: error.to_string() }
    }

    /// Whether there was no room: worth waiting for, unlike a broken disk.
    pub fn is_full(&self) -> bool {
        matches!(self.kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether there was no such file.
    pub fn is_missing(&self) -> bool {
        self.kind == io::ErrorKind::NotFound
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.reason)
    }
}

impl std::error::Error for StorageError {}

/// What a call to the disk gives.
pub type Result<T> = std::result::Result<T, StorageError>;

/// A disk.
pub trait Storage: Send + Sync {
    /// Makes a directory; fine if it is there.
    fn create_directory(&self, path: &Path) -> Result<()>;
    /// Makes an empty file; one of that name is emptied.
    fn create(&self, path: &Path) -> Result<Arc<dyn StoredFile>>;
    /// Opens a file that is there.
    fn open(&self, path: &Path) -> Result<Arc<dyn StoredFile>>;
    /// Whether there is a file or directory of that name.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Gives a file another name, in place of one that had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> Result<()>;
    /// The names in a directory, in order.
    fn list(&self, path: &Path) -> Result<Vec<String>>;
    /// Makes the names in a directory safe.
    fn sync_directory(&self, path: &Path) -> Result<()>;
}

/// An open file. Any thread may use it; only one appends.
pub trait StoredFile: Send + Sync {
    /// The name it was opened by.
    fn path(&self) -> &Path;
    /// Writes at the end. How many bytes: perhaps not all, but at least one.
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<usize>;
    /// Reads from `position` on. How many bytes: 0 only at the end.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Cuts the file after `size` bytes.
    fn truncate(&self, size: u64) -> Result<()>;
    /// Makes the content and its size safe. If it fails, nobody knows what of it is, and a second call that succeeds
    /// says nothing about what came before the first.
    fn sync_data(&self) -> Result<()>;
    /// How many bytes there are.
    fn size(&self) -> Result<u64>;
}

/// Writes all bytes at the end of `file`.
pub fn append_all(file: &dyn StoredFile, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let written = file.append(&[IoSlice::new(bytes)])?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Reads a file's whole content, if it has no more than `bytes_max`.
pub fn read_all(storage: &dyn Storage, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let file = storage.open(path)?;
    let size = file.size()?;
    if size > bytes_max {
        return Err(StorageError::new(Operation::Read, path, io::Error::other("it is too large")));
    }
    let mut content = vec![0; size as usize];
    let mut filled = 0;
    while filled < content.len() {
        match file.read_at(filled as u64, &mut content[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    content.truncate(filled);
    Ok(content)
}
