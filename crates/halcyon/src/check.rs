//! `halcyon check`: looks through the data's files without loading them and says, a line each, whether they are whole.
//! Asked to, it cuts off what is not whole at the end of an append-only file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::JournalError;
use journal::check::{Report, check_directory, check_path};
use journal::files::Names;
use journal::storage::{RealStorage, Storage};

/// What is looked through.
enum Subject {
    /// The files that a manifest names.
    Manifest(PathBuf),
    /// One file: a snapshot, commands, or a snapshot and then commands.
    File(PathBuf),
}

/// Looks through what the arguments name, and has each verdict printed; true if all of it can be loaded now. The error is
/// a line for the user.
pub fn check(args: &[Vec<u8>], print: &mut dyn FnMut(&str)) -> Result<bool, String> {
    let is_fix = |arg: &&Vec<u8>| &***arg == b"--fix";
    let fix = args.iter().any(|arg| is_fix(&arg));
    let paths: Vec<PathBuf> = args.iter().filter(|arg| !is_fix(arg)).map(|arg| path_of(arg)).collect();
    if paths.is_empty() {
        return Err("Usage: halcyon check FILE|DIRECTORY ... [--fix]".to_owned());
    }
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let mut are_good = true;
    for path in paths {
        for subject in subjects(&path)? {
            are_good &= check_one(&storage, &subject, fix, print);
        }
    }
    Ok(are_good)
}

fn path_of(arg: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(OsStr::from_bytes(arg))
}

fn check_one(storage: &Arc<dyn Storage>, subject: &Subject, fix: bool, print: &mut dyn FnMut(&str)) -> bool {
    let checked = match subject {
        Subject::File(path) => check_path(storage, path, fix).map(|report| vec![report]),
        Subject::Manifest(path) => check_directory(storage, &names_of(path), fix),
    };
    match checked {
        Ok(reports) => {
            reports.iter().for_each(|report| print(&report.to_string()));
            let is_damaged = reports.iter().any(|report| !report.is_good());
            if is_damaged && !fix {
                print("To cut off what is not whole, if it is at the end: back the files up, then add --fix");
            }
            reports.iter().all(Report::is_good)
        }
        Err(error) => {
            print(&one_line(&error));
            false
        }
    }
}

fn one_line(error: &JournalError) -> String {
    error.to_string().replace('\n', " ")
}

/// What there is to be looked through at a path: a file, or all that a directory has, or those in it.
fn subjects(path: &Path) -> Result<Vec<Subject>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        let path = path.to_owned();
        return Ok(vec![if is_manifest(&path) { Subject::Manifest(path) } else { Subject::File(path) }]);
    }
    let mut manifests = Vec::new();
    let mut snapshots = Vec::new();
    for entry in entries(path).map_err(failed)? {
        if entry.is_dir() {
            manifests.extend(entries(&entry).map_err(failed)?.into_iter().filter(|entry| is_manifest(entry)));
        } else if is_manifest(&entry) {
            manifests.push(entry);
        } else if entry.extension() == Some(OsStr::new("rdb")) && !is_temporary(&entry) {
            snapshots.push(entry);
        }
    }
    // A base is one of the files that its manifest names.
    let is_own = |manifest: &PathBuf| manifest.parent() == Some(path);
    if manifests.iter().any(is_own) {
        snapshots.clear();
    }
    let all = manifests.into_iter().map(Subject::Manifest).chain(snapshots.into_iter().map(Subject::File));
    let all: Vec<Subject> = all.collect();
    if all.is_empty() {
        return Err(format!("{} has no append-only files and no snapshot", path.display()));
    }
    Ok(all)
}

fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("temp-"))
}

fn is_manifest(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("manifest")) && !is_temporary(path)
}

/// How the files of a manifest are called.
fn names_of(manifest: &Path) -> Names {
    let directory = manifest.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = manifest.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // The directory is looked for from where it is itself.
    Names { data: directory.to_owned(), directory: String::new(), prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

    fn run(args: &[&str]) -> Result<bool, String> {
        check(&args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>(), &mut |_| ())
    }

    #[test]
    fn files_directories_and_manifests_are_looked_through() {
        let data = std::env::temp_dir().join(format!("halcyon-check-{}", std::process::id()));
        let aof = data.join("appendonlydir");
        fs::create_dir_all(&aof).expect("a directory");
        let text = data.to_string_lossy().into_owned();
        assert!(run(&[&text]).is_err(), "nothing is there");
        let manifest = aof.join("appendonly.aof.manifest");
        fs::write(&manifest, "file i1 seq 1 type i\n").expect("to write");
        fs::write(aof.join("i1"), [SET, &SET[..9]].concat()).expect("to write");
        let inner = aof.to_string_lossy().into_owned();
        let manifest = manifest.to_string_lossy().into_owned();
        for path in [&text, &inner, &manifest] {
            assert_eq!(run(&[path]), Ok(false), "{path}");
        }
        assert_eq!(run(&[&inner, "--fix"]), Ok(true));
        assert_eq!(fs::read(aof.join("i1")).expect("a file"), SET);
        assert_eq!(run(&[&text]), Ok(true));
        fs::write(data.join("dump.rdb"), b"REDIS0009\xff\0\0\0").expect("to write");
        assert_eq!(run(&[&text]), Ok(false), "the snapshot is short");
        assert!(run(&[&data.join("none").to_string_lossy()]).is_err());
        assert!(run(&["--fix"]).is_err());
        fs::remove_dir_all(&data).expect("to remove");
    }
}
