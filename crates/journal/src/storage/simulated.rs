//! A disk that is driven by a seed: it fails, fills up, and at a crash forgets what nobody synced.
//!
//! What is worse than any one real disk, and better than none:
//! - A write may be short, or fail; a disk may be full.
//! - At a crash, of what was not synced in a file, some steps from the first on have changed its size, and each page of
//!   their data is as it was at some moment since, whatever the order of pages: what is not there reads as zeros, or as what was cut off.
//! - A sync that fails has written some pages; the others will never be, although they still read as written.
//! - Names that were made, changed or removed since the directory was synced are each safe or not, whatever the order.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Operation, Result, Storage, StorageError, StoredFile};

/// What a page loses or keeps as one.
pub(crate) const PAGE_BYTES: usize = 512;

/// How often what fails, in thousandths of the calls.
#[derive(Copy, Clone, Debug, Default)]
pub struct Faults {
    /// Writes that write less than they were given.
    pub short_write: u32,
    /// Writes that fail, some after part of the bytes.
    pub write: u32,
    /// Syncs of files that fail.
    pub sync: u32,
    /// Everything else.
    pub other: u32,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedStorage {
    disk: Arc<Mutex<Disk>>,
}

struct Disk {
    random: fastrand::Rng,
    faults: Faults,
    calls: u64,
    crash_at_call: Option<u64>,
    has_crashed: bool,
    capacity_bytes: u64,
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    name_steps: Vec<NameStep>,
    directories: Vec<PathBuf>,
}

/// What one file holds.
#[derive(Default)]
struct Content {
    /// As it reads.
    seen: Vec<u8>,
    /// As it is after a crash that nothing of `steps` survives.
    safe: Vec<u8>,
    /// Since the last sync.
    steps: Vec<Step>,
}

enum Step {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

enum NameStep {
    Make(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameStep {
    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameStep::Make(path, file) => drop(names.insert(path, file)),
            NameStep::Rename(from, to, file) => {
                names.remove(&from);
                names.insert(to, file);
            }
            NameStep::Remove(path) => drop(names.remove(&path)),
        }
    }
}

impl Content {
    /// Applies the first `steps` steps to the safe content: what changes the size in order, but of each page's data only
    /// what came before some step that `random` draws, as if the page had been written to the disk then. So what was cut
    /// off can be there again when the file has grown.
    fn settle(&mut self, steps: usize, kept_percent: u32, random: &mut fastrand::Rng) {
        let mut drawn = BTreeMap::new();
        let mut lost_from = |page: usize| {
            *drawn.entry(page).or_insert_with(|| {
                let keeps_all = random.u32(0..100) < kept_percent;
                if keeps_all { usize::MAX } else { random.usize(0..=steps) }
            })
        };
        // On the disk behind the file's end: the rest of a page that was cut.
        let mut behind = Vec::new();
        for (number, step) in self.steps.drain(..).take(steps).enumerate() {
            let (at, bytes) = match step {
                Step::Truncate(size) => {
                    let page_end = size.next_multiple_of(PAGE_BYTES).min(self.safe.len());
                    let is_cut = size < page_end && number >= lost_from(size / PAGE_BYTES);
                    behind = if is_cut { self.safe[size..page_end].to_vec() } else { Vec::new() };
                    self.safe.truncate(size);
                    continue;
                }
                Step::Write { at, bytes } => (at, bytes),
            };
            let (old_end, end) = (self.safe.len(), self.safe.len().max(at + bytes.len()));
            self.safe.resize(end, 0);
            for byte in &mut self.safe[old_end..end] {
                *byte = if behind.is_empty() { 0 } else { behind.remove(0) };
            }
            for (page, range) in pages(at, bytes.len()) {
                if number < lost_from(page) {
                    self.safe[range.clone()].copy_from_slice(&bytes[range.start - at..range.end - at]);
                }
            }
        }
    }
}

/// The pages that `len` bytes at `at` touch, each with the range of the file that it has of them.
fn pages(at: usize, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = at + len;
    (at / PAGE_BYTES..end.div_ceil(PAGE_BYTES))
        .map(move |page| (page, at.max(page * PAGE_BYTES)..end.min((page + 1) * PAGE_BYTES)))
}

impl Disk {
    /// Counts a call that changes something; fails if the machine has crashed, or crashes at this very call.
    fn enter(&mut self, operation: Operation, path: &Path) -> Result<()> {
        self.calls += 1;
        if self.crash_at_call == Some(self.calls) {
            self.has_crashed = true;
        }
        if self.has_crashed {
            return Err(fail(operation, path, io::ErrorKind::Other, "the machine crashed"));
        }
        Ok(())
    }

    fn fails(&mut self, thousandths: u32) -> bool {
        self.random.u32(0..1000) < thousandths
    }

    fn file(&self, operation: Operation, path: &Path) -> Result<usize> {
        let found = self.names.get(path).copied();
        found.ok_or_else(|| fail(operation, path, io::ErrorKind::NotFound, "no such file"))
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].seen.len() as u64).sum()
    }

    fn step_name(&mut self, step: NameStep, again: NameStep) {
        step.apply(&mut self.names);
        self.name_steps.push(again);
    }
}

fn fail(operation: Operation, path: &Path, kind: io::ErrorKind, reason: &str) -> StorageError {
    StorageError { operation, path: path.to_owned(), kind, reason: reason.to_owned() }
}

fn input_output_error(operation: Operation, path: &Path) -> StorageError {
    fail(operation, path, io::ErrorKind::Other, "Input/output error")
}

impl SimulatedStorage {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> SimulatedStorage {
        let disk = Disk {
            random: fastrand::Rng::with_seed(seed),
            faults: Faults::default(),
            calls: 0,
            crash_at_call: None,
            has_crashed: false,
            capacity_bytes: u64::MAX,
            files: Vec::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            name_steps: Vec::new(),
            directories: Vec::new(),
        };
        SimulatedStorage { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Says how often what fails from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.disk.lock().faults = faults;
    }

    /// Says how many bytes there is room for.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk.lock().capacity_bytes = bytes;
    }

    /// How many bytes the files take.
    pub fn used_bytes(&self) -> u64 {
        self.disk.lock().used_bytes()
    }

    /// Has the machine crash at the `calls`-th call from now.
    pub fn crash_after(&self, calls: u64) {
        let mut disk = self.disk.lock();
        disk.crash_at_call = Some(disk.calls + calls);
    }

    /// Whether it has crashed: every call fails until [`SimulatedStorage::restart`].
    pub fn has_crashed(&self) -> bool {
        self.disk.lock().has_crashed
    }

    /// Starts the machine again after a crash, which comes now if it did not before. What was not synced is there or
    /// not, as the seed has it. Files that are open are not to be used any more.
    pub fn restart(&self) {
        let mut disk = self.disk.lock();
        let mut random = disk.random.fork();
        // From crashes that lose nothing to ones that lose all.
        let kept_percent = random.choice([0, 50, 90, 100]).unwrap_or(50);
        for step in std::mem::take(&mut disk.name_steps) {
            if random.u32(0..100) < kept_percent {
                step.apply(&mut disk.safe_names);
            }
        }
        for file in &mut disk.files {
            let steps = if random.bool() { file.steps.len() } else { random.usize(0..=file.steps.len()) };
            file.settle(steps, kept_percent, &mut random);
            file.seen.clone_from(&file.safe);
        }
        disk.names = disk.safe_names.clone();
        (disk.has_crashed, disk.crash_at_call) = (false, None);
    }

    /// The content of a file, as it reads.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk.lock();
        disk.names.get(path).map(|file| disk.files[*file].seen.clone())
    }

    /// Puts a file there, safely: a test's beginning.
    pub fn put(&self, path: &Path, content: &[u8]) {
        let mut disk = self.disk.lock();
        let file = Content { seen: content.to_vec(), safe: content.to_vec(), steps: Vec::new() };
        disk.files.push(file);
        let file = disk.files.len() - 1;
        disk.names.insert(path.to_owned(), file);
        disk.safe_names.insert(path.to_owned(), file);
    }

    fn opened(&self, path: &Path, file: usize) -> Arc<dyn StoredFile> {
        Arc::new(SimulatedFile { disk: Arc::clone(&self.disk), path: path.to_owned(), file })
    }
}

impl Storage for SimulatedStorage {
    // Directories are safe at once: who makes one does so once, and before anything depends on it.
    fn create_directory(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::CreateDirectory, path)?;
        disk.directories.push(path.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Create, path)?;
        let faults = disk.faults;
        if disk.fails(faults.other) {
            return Err(input_output_error(Operation::Create, path));
        }
        if let Some(&file) = disk.names.get(path) {
            disk.files[file].seen.clear();
            disk.files[file].steps.push(Step::Truncate(0));
            return Ok(self.opened(path, file));
        }
        disk.files.push(Content::default());
        let file = disk.files.len() - 1;
        disk.step_name(NameStep::Make(path.to_owned(), file), NameStep::Make(path.to_owned(), file));
        Ok(self.opened(path, file))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Open, path)?;
        let file = disk.file(Operation::Open, path)?;
        Ok(self.opened(path, file))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Open, path)?;
        Ok(disk.names.contains_key(path) || disk.directories.iter().any(|directory| directory == path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Rename, from)?;
        let faults = disk.faults;
        if disk.fails(faults.other) {
            return Err(input_output_error(Operation::Rename, from));
        }
        let file = disk.file(Operation::Rename, from)?;
        let step = || NameStep::Rename(from.to_owned(), to.to_owned(), file);
        disk.step_name(step(), step());
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Remove, path)?;
        let faults = disk.faults;
        if disk.fails(faults.other) {
            return Err(input_output_error(Operation::Remove, path));
        }
        disk.file(Operation::Remove, path)?;
        disk.step_name(NameStep::Remove(path.to_owned()), NameStep::Remove(path.to_owned()));
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::List, path)?;
        let inside = disk.names.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::SyncDirectory, path)?;
        let faults = disk.faults;
        if disk.fails(faults.other) {
            return Err(input_output_error(Operation::SyncDirectory, path));
        }
        let lies_in = |name: &Path| name.parent() == Some(path);
        for step in std::mem::take(&mut disk.name_steps) {
            let is_inside = match &step {
                NameStep::Make(name, _) | NameStep::Remove(name) => lies_in(name),
                NameStep::Rename(from, to, _) => lies_in(from) || lies_in(to),
            };
            if is_inside {
                step.apply(&mut disk.safe_names);
            } else {
                disk.name_steps.push(step);
            }
        }
        Ok(())
    }
}

struct SimulatedFile {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    file: usize,
}

impl StoredFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        let mut disk = self.disk.lock();
        let mut bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let entered = disk.enter(Operation::Write, &self.path);
        let faults = disk.faults;
        let fails = entered.is_err() || disk.fails(faults.write);
        if entered.is_err() || fails || disk.fails(faults.short_write) {
            // At least one byte of a write that is short, and perhaps none of one that fails.
            let fewest = usize::from(!fails).min(bytes.len());
            let written = disk.random.usize(fewest..=bytes.len());
            bytes.truncate(written);
        }
        let room = disk.capacity_bytes.saturating_sub(disk.used_bytes());
        let is_full = bytes.len() as u64 > room;
        if is_full {
            bytes.truncate(room as usize);
        }
        let written = bytes.len();
        let file = &mut disk.files[self.file];
        let at = file.seen.len();
        file.seen.extend_from_slice(&bytes);
        if written > 0 {
            file.steps.push(Step::Write { at, bytes });
        }
        entered?;
        if is_full && written == 0 {
            return Err(fail(
                Operation::Write,
                &self.path,
                io::ErrorKind::StorageFull,
                "No space left on device",
            ));
        }
        if fails {
            return Err(input_output_error(Operation::Write, &self.path));
        }
        Ok(written)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Read, &self.path)?;
        let seen = &disk.files[self.file].seen;
        let rest = seen.get(position as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Truncate, &self.path)?;
        let faults = disk.faults;
        if disk.fails(faults.other) {
            return Err(input_output_error(Operation::Truncate, &self.path));
        }
        let file = &mut disk.files[self.file];
        file.seen.truncate(size as usize);
        file.steps.push(Step::Truncate(size as usize));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Sync, &self.path)?;
        let faults = disk.faults;
        let fails = disk.fails(faults.sync);
        let mut random = disk.random.fork();
        let file = &mut disk.files[self.file];
        let steps = file.steps.len();
        if fails {
            file.settle(steps, 50, &mut random);
            return Err(input_output_error(Operation::Sync, &self.path));
        }
        file.settle(steps, 100, &mut random);
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let mut disk = self.disk.lock();
        disk.enter(Operation::Size, &self.path)?;
        Ok(disk.files[self.file].seen.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::append_all;

    /// What can be there after a crash, over many seeds.
    fn outcomes(run: impl Fn(&SimulatedStorage)) -> Vec<Vec<(String, Vec<u8>)>> {
        let mut seen = Vec::new();
        for seed in 0..300 {
            let storage = SimulatedStorage::new(seed);
            run(&storage);
            storage.restart();
            let names = storage.list(Path::new("d")).expect("a directory");
            let content = |name: &String| storage.content(&Path::new("d").join(name)).expect("it was listed");
            let there: Vec<_> = names.iter().map(|name| (name.clone(), content(name))).collect();
            if !seen.contains(&there) {
                seen.push(there);
            }
        }
        seen
    }

    fn create(storage: &SimulatedStorage, name: &str) -> Arc<dyn StoredFile> {
        storage.create(&Path::new("d").join(name)).expect("a file")
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_perhaps() {
        let safe = outcomes(|storage| {
            let file = create(storage, "a");
            append_all(&*file, b"safe").expect("to write");
            file.sync_data().expect("to sync");
            storage.sync_directory(Path::new("d")).expect("to sync");
        });
        assert_eq!(safe, [[("a".to_owned(), b"safe".to_vec())]]);
        let unsafe_name = outcomes(|storage| {
            let file = create(storage, "a");
            append_all(&*file, b"safe").expect("to write");
            file.sync_data().expect("to sync");
        });
        assert_eq!(unsafe_name.len(), 2, "{unsafe_name:?}");
        let pages = outcomes(|storage| {
            let file = create(storage, "a");
            storage.sync_directory(Path::new("d")).expect("to sync");
            append_all(&*file, &[b'x'; 2 * PAGE_BYTES]).expect("to write");
        });
        let second_only = [vec![0; PAGE_BYTES], vec![b'x'; PAGE_BYTES]].concat();
        assert!(pages.iter().any(|there| there[0].1 == second_only), "pages come in any order");
        assert!(pages.iter().any(|there| there[0].1.is_empty()), "or not at all");
    }

    #[test]
    fn a_sync_that_failed_is_not_made_good_by_the_next() {
        let lost = outcomes(|storage| {
            let file = create(storage, "a");
            storage.sync_directory(Path::new("d")).expect("to sync");
            append_all(&*file, b"x").expect("to write");
            storage.set_faults(Faults { sync: 1000, ..Faults::default() });
            assert!(file.sync_data().is_err());
            storage.set_faults(Faults::default());
            file.sync_data().expect("to sync");
            let mut byte = [0];
            assert_eq!((file.read_at(0, &mut byte), byte), (Ok(1), *b"x"), "as if nothing had happened");
        });
        assert!(lost.iter().any(|there| there[0].1 == b"\0"), "{lost:?}");
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let storage = SimulatedStorage::new(1);
        storage.set_capacity(3);
        let file = create(&storage, "a");
        assert_eq!(file.append(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]), Ok(3));
        assert!(file.append(&[IoSlice::new(b"d")]).expect_err("full").is_full());
        storage.set_capacity(4);
        assert_eq!(file.append(&[IoSlice::new(b"d")]), Ok(1));
        storage.crash_after(2);
        assert!(file.sync_data().is_ok() && file.sync_data().is_err() && storage.has_crashed());
    }
}
