//! The append-only directory and its manifest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backlog::{Backlog, Covered};
use super::change::{Change, ChangeDone, Work};
use super::folder::{Folder, NotPersisted};
use super::history::Wanted;
use super::sync::Mark;
use crate::error::JournalError;
use crate::manifest::{BaseFormat, Entry, Manifest, ManifestError, StreamEnd};
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

    pub(super) fn temporary_manifest(&self) -> PathBuf {
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
    folder: Folder,
    manifest: Manifest,
    /// What the manifest said of the stream when it was opened. It says so no more once it is written again.
    stream: Option<StreamEnd>,
    /// The highest number that an incremental file was given, listed or not.
    seq_used: i64,
    /// Nobody knows which manifest a crash would leave: this one, or the one before.
    is_unsettled: bool,
    /// The manifest on the disk does not have the offset at which a file ended and the next began.
    is_stale: bool,
    /// A [`Change`] is under way.
    is_changing: bool,
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
        self.folder
            .storage
            .rename(&self.folder.names.single_file(), &self.folder.names.file(&self.folder.names.prefix))?;
        self.folder.storage.sync_directory(&self.folder.names.directory())?;
        Ok(self.folder.storage.sync_directory(&self.folder.names.data)?)
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

    fn new(storage: &Arc<dyn Storage>, names: &Names, mut manifest: Manifest) -> Directory {
        let folder = Folder { storage: Arc::clone(storage), names: names.clone() };
        let stream = manifest.stream.take();
        let (is_unsettled, is_stale, is_changing) = (false, false, false);
        Directory { folder, manifest, stream, seq_used: 0, is_unsettled, is_stale, is_changing }
    }

    /// Which stream ended with the files, and where, if they were ended in order.
    pub fn stream(&self) -> Option<&StreamEnd> {
        self.stream.as_ref()
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How things are called.
    pub fn names(&self) -> &Names {
        &self.folder.names
    }

    /// The disk.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.folder.storage
    }

    /// Where a file of the manifest lies.
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.folder.path(entry)
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The line of the next incremental file. What could not be made once is given another name: nobody knows what is
    /// there.
    fn next_incr(&mut self, start_offset: Option<u64>) -> Entry {
        let entry = self.manifest.next_incr(&self.folder.names.prefix, start_offset, self.seq_used);
        self.seq_used = entry.seq;
        entry
    }

    /// Makes the next incremental file, empty and with a safe name; it is not listed yet.
    pub(super) fn create_incr(
        &mut self,
        start_offset: u64,
    ) -> Result<(Entry, Arc<dyn StoredFile>), StorageError> {
        let entry = self.next_incr(Some(start_offset));
        let file = self.folder.create(&entry)?;
        Ok((entry, file))
    }

    /// Puts `manifest` in the place of the one that is there.
    pub(super) fn persist(&mut self, manifest: Manifest) -> Result<(), NotPersisted> {
        debug_assert!(!self.is_changing, "one-change: two threads would replace the manifest");
        let result = self.folder.persist(&manifest);
        if !matches!(result, Err(NotPersisted::Kept(_))) {
            // What is written from here on is beyond the end that it may tell of.
            self.manifest = Manifest { stream: None, ..manifest };
            (self.is_unsettled, self.is_stale) = (result.is_err(), false);
        }
        result
    }

    /// Whether [`Directory::settle`] is to be called.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Makes this manifest the one that a crash leaves, if that is not known, or it is not.
    pub(super) fn settle(&mut self) -> Result<(), JournalError> {
        if self.is_unsettled || self.is_stale {
            self.persist(self.manifest.clone()).map_err(NotPersisted::into_error)?;
        }
        Ok(())
    }

    /// Whether the manifest on the disk does not have the offset at which the current file begins.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether a [`Change`] is under way, so that the manifest is not to be touched.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// A change that lists what is known by now.
    pub(super) fn begin_listing(&mut self, backlog: &Arc<Backlog>) -> Change {
        self.begin_change(Work::List, self.manifest.clone(), backlog, Wanted::NOTHING)
    }

    /// A change that makes the next incremental file before it is known where it will begin.
    pub(super) fn begin_making(&mut self, backlog: &Arc<Backlog>) -> Change {
        let entry = self.next_incr(None);
        let mut manifest = self.manifest.clone();
        manifest.incrs.push(entry.clone());
        self.begin_change(Work::Make(entry), manifest, backlog, Wanted::NOTHING)
    }

    /// A change that makes what a rewrite wrote the base of `manifest`.
    pub(super) fn begin_installing(
        &mut self,
        base: Entry,
        manifest: Manifest,
        backlog: &Arc<Backlog>,
        wanted: Wanted,
    ) -> Change {
        self.begin_change(Work::Install(base), manifest, backlog, wanted)
    }

    fn begin_change(
        &mut self,
        work: Work,
        manifest: Manifest,
        backlog: &Arc<Backlog>,
        wanted: Wanted,
    ) -> Change {
        assert!(!self.is_changing, "one-change: two threads would replace the manifest");
        self.is_changing = true;
        let (folder, backlog) = (self.folder.clone(), Arc::clone(backlog));
        Change { folder, work, manifest, backlog, wanted }
    }

    /// Goes on with what a change has come to.
    pub(super) fn end_change(&mut self, done: &mut ChangeDone) {
        self.is_changing = false;
        if !matches!(done.result, Err(NotPersisted::Kept(_))) {
            self.manifest = std::mem::take(&mut done.manifest);
            (self.is_unsettled, self.is_stale) = (done.is_unsettled, false);
        }
    }

    /// Says that the file of number `seq` ended at `end`, where the last one begins, which was made before. The disk is
    /// told later, once all of that file is safe; until then the new file tells itself.
    pub(super) fn note_turn(&mut self, seq: i64, end: Mark) {
        self.manifest.close_incr(seq, end.offset, end.bytes);
        let last = self.manifest.incrs.last_mut().expect("a file was made");
        last.start_offset = Some(end.offset);
        self.is_stale = true;
    }

    /// Notes what a start has found out about files that were made before it was known where they begin.
    pub(super) fn note_found(&mut self, covered: &[Covered]) {
        for at in 1..self.manifest.incrs.len() {
            let before = covered.iter().find(|covered| covered.seq == self.manifest.incrs[at - 1].seq);
            if let Some(before) = before.filter(|_| self.manifest.incrs[at].is_made_ahead()) {
                self.manifest.close_incr(before.seq, before.end, before.bytes);
                self.manifest.incrs[at].start_offset = Some(before.end);
                self.is_stale = true;
            }
        }
    }

    /// Removes a file by its name in the directory; fine if it is not there.
    pub(super) fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.folder.remove(name)
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
