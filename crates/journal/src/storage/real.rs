//! The machine's disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Operation, Result, Storage, StorageError, StoredFile};

/// The machine's disk.
#[derive(Copy, Clone, Debug, Default)]
pub struct RealStorage;

struct RealFile {
    file: File,
    path: PathBuf,
}

/// Calls `call` until no signal interrupts it.
fn uninterrupted<T>(operation: Operation, path: &Path, mut call: impl FnMut() -> io::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map_err(|error| StorageError::new(operation, path, error)),
        }
    }
}

impl Storage for RealStorage {
    fn create_directory(&self, path: &Path) -> Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result.map_err(|error| StorageError::new(Operation::CreateDirectory, path, error)),
        }
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        // Appending and truncating exclude each other for the standard library.
        let create = || {
            let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            file.set_len(0)?;
            Ok(file)
        };
        let file = uninterrupted(Operation::Create, path, create)?;
        Ok(Arc::new(RealFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        let open = || OpenOptions::new().read(true).append(true).open(path);
        let file = uninterrupted(Operation::Open, path, open)?;
        Ok(Arc::new(RealFile { file, path: path.to_owned() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|error| StorageError::new(Operation::Open, path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        uninterrupted(Operation::Rename, from, || fs::rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        uninterrupted(Operation::Remove, path, || fs::remove_file(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        let list = || {
            let names =
                fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<io::Result<Vec<String>>>()?;
            names.sort();
            Ok(names)
        };
        uninterrupted(Operation::List, path, list)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        // A name without a directory lies in the current one.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match uninterrupted(Operation::SyncDirectory, path, || File::open(path)?.sync_all()) {
            // Some file systems cannot sync a directory, and need not.
            Err(error) if error.kind == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

impl StoredFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        let written = uninterrupted(Operation::Write, &self.path, || (&self.file).write_vectored(pieces))?;
        if written == 0 && pieces.iter().any(|piece| !piece.is_empty()) {
            let error = io::Error::from(io::ErrorKind::WriteZero);
            return Err(StorageError::new(Operation::Write, &self.path, error));
        }
        Ok(written)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        uninterrupted(Operation::Read, &self.path, || self.file.read_at(buffer, position))
    }

    fn truncate(&self, size: u64) -> Result<()> {
        uninterrupted(Operation::Truncate, &self.path, || self.file.set_len(size))
    }

    fn sync_data(&self) -> Result<()> {
        uninterrupted(Operation::Sync, &self.path, || self.file.sync_data())
    }

    fn size(&self) -> Result<u64> {
        Ok(uninterrupted(Operation::Size, &self.path, || self.file.metadata())?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{append_all, read_all};

    #[test]
    fn files_are_written_read_cut_and_renamed() {
        let directory = std::env::temp_dir().join(format!("journal-storage-{}", std::process::id()));
        let storage = RealStorage;
        storage.create_directory(&directory).expect("a directory");
        storage.create_directory(&directory).expect("it is there");
        let (one, two) = (directory.join("one"), directory.join("two"));
        assert!(storage.open(&one).err().expect("missing").is_missing());
        append_all(&*storage.create(&one).expect("a file"), b"forgotten").expect("to write");
        let file = storage.create(&one).expect("the file");
        append_all(&*file, b"hello world").expect("to write");
        file.truncate(5).expect("to cut");
        append_all(&*file, b"!").expect("to write at the new end");
        file.sync_data().expect("to sync");
        storage.sync_directory(&directory).expect("to sync");
        assert_eq!((file.size(), file.path()), (Ok(6), &*one));
        let mut buffer = [0; 3];
        assert_eq!((file.read_at(4, &mut buffer), &buffer[..2]), (Ok(2), &b"o!"[..]));
        storage.rename(&one, &two).expect("to rename");
        assert_eq!(storage.list(&directory), Ok(vec!["two".to_owned()]));
        assert_eq!(storage.exists(&one), Ok(false));
        assert_eq!(read_all(&storage, &two, 6), Ok(b"hello!".to_vec()));
        let error = read_all(&storage, &two, 5).expect_err("too large");
        assert_eq!(error.to_string(), format!("cannot read {}: it is too large", two.display()));
        storage.remove(&two).expect("to remove");
        fs::remove_dir(&directory).expect("an empty directory");
    }
}
