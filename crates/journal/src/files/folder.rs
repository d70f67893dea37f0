//! What is done in the append-only directory, by whoever's thread it is.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::Names;
use crate::error::JournalError;
use crate::manifest::{Entry, Manifest};
use crate::storage::{Storage, StorageError, StoredFile, append_all};

/// Where the files lie.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) names: Names,
}

impl Folder {
    pub(super) fn path(&self, entry: &Entry) -> PathBuf {
        self.names.file(&entry.name)
    }

    /// Makes a file, empty and with a safe name; it is not listed yet.
    pub(super) fn create(&self, entry: &Entry) -> Result<Arc<dyn StoredFile>, StorageError> {
        let file = self.storage.create(&self.path(entry))?;
        // A file of that name may have been left by a crash: nothing of it must come back.
        file.sync_data()?;
        self.storage.sync_directory(&self.names.directory())?;
        Ok(file)
    }

    /// Gives what a rewrite wrote a base's name, safely, before it is listed.
    pub(super) fn take_base(&self, base: &Entry) -> Result<(), StorageError> {
        self.storage.rename(&self.names.temporary_base(), &self.path(base))?;
        self.storage.sync_directory(&self.names.directory())
    }

    /// Puts `manifest` in the place of the one that is there.
    pub(super) fn persist(&self, manifest: &Manifest) -> Result<(), NotPersisted> {
        let temporary = self.names.temporary_manifest();
        let write = || {
            let file = self.storage.create(&temporary)?;
            append_all(&*file, manifest.format().as_bytes())?;
            file.sync_data()
        };
        write().map_err(NotPersisted::Kept)?;
        let replaced = self.storage.rename(&temporary, &self.names.manifest());
        let safe = replaced.and_then(|()| self.storage.sync_directory(&self.names.directory()));
        safe.map_err(NotPersisted::Unsettled)
    }

    /// Removes a file by its name in the directory; fine if it is not there.
    pub(super) fn remove(&self, name: &str) -> Result<(), StorageError> {
        match self.storage.remove(&self.names.file(name)) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Why a manifest is not the one that counts.
pub(super) enum NotPersisted {
    /// The old one counts, without doubt.
    Kept(StorageError),
    /// The new one may count, or the old one: the directory goes on with the new one, once it is settled.
    Unsettled(StorageError),
}

impl NotPersisted {
    pub(super) fn into_error(self) -> JournalError {
        match self {
            NotPersisted::Kept(error) | NotPersisted::Unsettled(error) => JournalError::Storage(error),
        }
    }
}
