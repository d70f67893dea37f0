//! The append-only directory and its manifest.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::JournalError;
use crate::manifest::{BaseFormat, Entry, Manifest, ManifestError};
use crate::storage::{Storage, StorageError, StoredFile, append_all, read_all};

/// A manifest has a line for each file: more than this is none.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// How things are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `dir`: where a single file of a server before Redis 7 lies.
    pub data: PathBuf,
    /// `appenddirname`, in `data`.
    pub directory: String,
    /// `appendfilename`: what the files' names start with.
    pub prefix: String,
}

impl Names {
    /// The directory.
    pub fn directory(&self) -> PathBuf {
        self.data.join(&self.directory)
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.data.join(&self.directory).join(name)
    }

    /// The manifest.
    pub fn manifest(&self) -> PathBuf {
        self.file(&format!("{}.manifest", self.prefix))
    }

    fn temporary_manifest(&self) -> PathBuf {
        self.file(&format!("temp-{}.manifest", self.prefix))
    }

    /// Where a rewrite is to put the new base until it is complete.
    pub fn temporary_base(&self) -> PathBuf {
        self.file(&format!("temp-rewrite-{}.base", self.prefix))
    }

    fn single_file(&self) -> PathBuf {
        self.data.join(&self.prefix)
    }
}

/// The directory, as its manifest has it.
pub struct Directory {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) names: Names,
    pub(super) manifest: Manifest,
    /// The highest number that an incremental file was given, listed or not.
    seq_used: i64,
    /// Nobody knows which manifest a crash would leave: this one, or the one before.
    is_unsettled: bool,
}

impl Directory {
    /// Reads the manifest. A single file of a server before Redis 7 is moved into the directory as its base, and a move
    /// that was interrupted is finished. None: there are no files, and [`Directory::create`] makes the first.
    pub fn open(storage: &Arc<dyn Storage>, names: &Names) -> Result<Option<Directory>, JournalError> {
        let manifest = match Directory::read_manifest(storage, names) {
            Err(JournalError::Storage(error)) if error.is_missing() => {
                return Directory::open_without_manifest(storage, names);
            }
            manifest => manifest?,
        };
        let directory = Directory::new(storage, names, manifest);
        let moves = directory.manifest.base.as_ref().is_some_and(|base| base.name == names.prefix)
            && directory.manifest.incrs.is_empty();
        if moves && !storage.exists(&names.file(&names.prefix))? && storage.exists(&names.single_file())? {
            directory.move_single_file()?;
        }
        Ok(Some(directory))
    }

    /// What the manifest on the disk says; nothing is changed.
    pub(crate) fn read_manifest(storage: &Arc<dyn Storage>, names: &Names) -> Result<Manifest, JournalError> {
        let path = names.manifest();
        let text = read_all(&**storage, &path, MANIFEST_BYTES_MAX)?;
        Manifest::parse(&text).map_err(|error| JournalError::Manifest { path, error })
    }

    fn open_without_manifest(
        storage: &Arc<dyn Storage>,
        names: &Names,
    ) -> Result<Option<Directory>, JournalError> {
        let has_directory = storage.exists(&names.directory())?;
        if has_directory {
            Directory::refuse_commands(&**storage, names)?;
        }
        if !storage.exists(&names.single_file())? {
            return Ok(None);
        }
        make_directory(&**storage, names)?;
        let mut directory = Directory::new(storage, names, Manifest::default());
        directory.persist(Manifest::of_single_file(&names.prefix)).map_err(NotPersisted::into_error)?;
        directory.move_single_file()?;
        Ok(Some(directory))
    }

    /// Fails if there are incremental files with something in them: a new manifest would have them overwritten. When
    /// files are first made the manifest comes before any command.
    fn refuse_commands(storage: &dyn Storage, names: &Names) -> Result<(), JournalError> {
        for name in storage.list(&names.directory())? {
            let is_incr = name.starts_with(&format!("{}.", names.prefix)) && name.ends_with(".incr.aof");
            if is_incr && storage.open(&names.file(&name))?.size()? > 0 {
                return Err(JournalError::NoManifest { path: names.manifest(), file: name });
            }
        }
        Ok(())
    }

    fn move_single_file(&self) -> Result<(), JournalError> {
        self.storage.rename(&self.names.single_file(), &self.names.file(&self.names.prefix))?;
        self.storage.sync_directory(&self.names.directory())?;
        Ok(self.storage.sync_directory(&self.names.data)?)
    }

    /// Makes the directory, with `base` (an empty RDB file, say) as its base and an empty incremental file from
    /// `start_offset` on, as Redis does at its first start with `appendonly yes`.
    pub fn create(
        storage: &Arc<dyn Storage>,
        names: &Names,
        format: BaseFormat,
        base: &[u8],
        start_offset: u64,
    ) -> Result<Directory, JournalError> {
        make_directory(&**storage, names)?;
        let mut directory = Directory::new(storage, names, Manifest::default());
        let mut manifest = Manifest::default();
        let entry = manifest.next_base(&names.prefix, format);
        let file = storage.create(&names.file(&entry.name))?;
        append_all(&*file, base)?;
        file.sync_data()?;
        manifest.base = Some(entry);
        let (entry, _) = directory.create_incr(start_offset)?;
        manifest.incrs.push(entry);
        directory.persist(manifest).map_err(NotPersisted::into_error)?;
        Ok(directory)
    }

    /// The directory for files that are begun without regard to what is there, which stays listed until they are.
    pub(super) fn for_new_files(
        storage: &Arc<dyn Storage>,
        names: &Names,
    ) -> Result<Directory, JournalError> {
        make_directory(&**storage, names)?;
        let found = Directory::open(storage, names)?;
        Ok(found.unwrap_or_else(|| Directory::new(storage, names, Manifest::default())))
    }

    fn new(storage: &Arc<dyn Storage>, names: &Names, manifest: Manifest) -> Directory {
        let (storage, names) = (Arc::clone(storage), names.clone());
        Directory { storage, names, manifest, seq_used: 0, is_unsettled: false }
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How things are called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The disk.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where a file of the manifest lies.
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.names.file(&entry.name)
    }

    /// Makes the next incremental file, empty and with a safe name; it is not listed yet.
    pub(super) fn create_incr(
        &mut self,
        start_offset: u64,
    ) -> Result<(Entry, Arc<dyn StoredFile>), StorageError> {
        let entry = self.manifest.next_incr(&self.names.prefix, start_offset, self.seq_used);
        // What could not be made once is given another name: nobody knows what is there.
        self.seq_used = entry.seq;
        let file = self.storage.create(&self.names.file(&entry.name))?;
        // A file of that name may have been left by a crash: nothing of it must come back.
        file.sync_data()?;
        self.storage.sync_directory(&self.names.directory())?;
        Ok((entry, file))
    }

    /// Puts `manifest` in the place of the one that is there.
    pub(super) fn persist(&mut self, manifest: Manifest) -> Result<(), NotPersisted> {
        let temporary = self.names.temporary_manifest();
        let write = || {
            let file = self.storage.create(&temporary)?;
            append_all(&*file, manifest.format().as_bytes())?;
            file.sync_data()
        };
        write().map_err(NotPersisted::Kept)?;
        let replaced = self.storage.rename(&temporary, &self.names.manifest());
        let safe = replaced.and_then(|()| self.storage.sync_directory(&self.names.directory()));
        self.manifest = manifest;
        self.is_unsettled = safe.is_err();
        safe.map_err(NotPersisted::Unsettled)
    }

    /// Whether [`Directory::settle`] is to be called.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Makes this manifest the one that a crash leaves, if that is not known.
    pub(super) fn settle(&mut self) -> Result<(), JournalError> {
        if self.is_unsettled {
            self.persist(self.manifest.clone()).map_err(NotPersisted::into_error)?;
        }
        Ok(())
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

fn make_directory(storage: &dyn Storage, names: &Names) -> Result<(), JournalError> {
    // A name that leads elsewhere is refused where it is configured; here it would lead to the wrong place silently.
    if Path::new(&names.directory).components().count() != 1 {
        let reason = ManifestError { line: 0, text: String::new(), reason: "appenddirname can't be a path" };
        return Err(JournalError::Manifest { path: names.directory(), error: reason });
    }
    storage.create_directory(&names.directory())?;
    Ok(storage.sync_directory(&names.data)?)
}
