//! The disk as the append-only files use it: a removed file's room is given back by another thread, since that takes
//! long for a large one, and who removes it has replies to let go.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use journal::storage::{RealStorage, Result, Storage, StoredFile};

/// The machine's disk.
pub struct Disk;

/// The machine's disk, for whoever keeps it.
pub fn disk() -> Arc<dyn Storage> {
    Arc::new(Disk)
}

impl Storage for Disk {
    fn create_directory(&self, path: &Path) -> Result<()> {
        RealStorage.create_directory(path)
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        RealStorage.create(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn StoredFile>> {
        RealStorage.open(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        RealStorage.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        RealStorage.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        // While it is open, removing it is removing a name.
        let file = RealStorage.open(path);
        RealStorage.remove(path)?;
        if let Ok(file) = file {
            // Without another thread, it is given back here.
            let _ = thread::Builder::new().name("unlink".to_owned()).spawn(move || drop(file));
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        RealStorage.list(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        RealStorage.sync_directory(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_removed_file_is_gone_at_once() {
        let directory = std::env::temp_dir().join(format!("halcyon-disk-{}", std::process::id()));
        Disk.create_directory(&directory).expect("a directory");
        let path = directory.join("file");
        fs::write(&path, b"content").expect("to write");
        Disk.remove(&path).expect("to remove");
        assert_eq!(Disk.exists(&path), Ok(false));
        assert!(Disk.remove(&path).is_err_and(|error| error.is_missing()));
        fs::remove_dir(&directory).expect("an empty directory");
    }
}
