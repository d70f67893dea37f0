//! Looking through append-only files without loading them, and, asked to, cutting off what is not whole at the end.
//!
//! Nothing is changed unless `fix` says so, and then only the last file: what is not whole in one before it cannot be cut
//! off without leaving a hole in the data. A file that was made to follow it, of which nothing was safe yet, goes with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits::JOURNAL_READ_BYTES;
use rdb::{Cursor, Event, FileDecoder, ReadError, Thresholds};

use crate::aof::{AofError, AofReader, Damage, put_cut};
use crate::error::JournalError;
use crate::files::{Directory, Names};
use crate::manifest::{Entry, Kind};
use crate::recover::was_never_safe;
use crate::storage::{Storage, StorageError, StoredFile, append_all};

/// What was found in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Its bytes that count.
    pub bytes: u64,
    /// Keys of its RDB part.
    pub keys: u64,
    /// Its commands.
    pub commands: u64,
    /// What is wrong with it.
    pub finding: Finding,
}

/// How a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nothing is wrong.
    Whole,
    /// It could be cut off at [`Damage::position`].
    Damaged(Damage),
    /// It was cut off there: so many bytes.
    Fixed(Damage, u64),
    /// Its RDB part is not whole: nothing can be cut off of it.
    BadRdb {
        /// Where.
        position: u64,
        /// What is wrong.
        reason: String,
    },
}

impl Report {
    /// Whether the file can be loaded now.
    pub fn is_good(&self) -> bool {
        matches!(self.finding, Finding::Whole | Finding::Fixed(..))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes, ", self.path.display(), self.bytes)?;
        if self.keys > 0 {
            write!(f, "{} keys, ", self.keys)?;
        }
        write!(f, "{} commands: ", self.commands)?;
        match &self.finding {
            Finding::Whole => f.write_str("whole"),
            Finding::Damaged(damage) => write!(f, "{damage}"),
            Finding::Fixed(damage, bytes) => {
                write!(f, "{damage}; the {bytes} bytes from there on were cut off")
            }
            Finding::BadRdb { position, reason } => {
                write!(f, "{reason} (in the RDB part, at byte {position})")
            }
        }
    }
}

/// Checks all files that the manifest names, in the order in which they are loaded, up to the first that is not whole.
/// With `fix`, cuts the end of the last one off if that is it.
pub fn check_directory(
    storage: &Arc<dyn Storage>,
    names: &Names,
    fix: bool,
) -> Result<Vec<Report>, JournalError> {
    let manifest = Directory::read_manifest(storage, names)?;
    let entries: Vec<&Entry> = manifest.loaded().collect();
    let mut reports = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let path = names.file(&entry.name);
        let file = match storage.open(&path) {
            Err(error) if error.is_missing() => return Err(JournalError::MissingFile { path }),
            file => file?,
        };
        let size = file.size()?;
        let bytes = entry.closed_bytes().unwrap_or(size);
        if bytes > size {
            return Err(JournalError::MissingBytes { path, bytes: size, expected: bytes });
        }
        let is_ours = entry.exact_bytes.is_some() && entry.kind == Kind::Incr;
        let next = entries.get(at + 1).filter(|next| entry.end_offset.is_none() && next.is_made_ahead());
        let next = next.map(|next| storage.open(&names.file(&next.name))).transpose()?;
        let ends_log = match &next {
            Some(next) => was_never_safe(Arc::clone(next), next.size()?)?,
            None => at + 1 == entries.len(),
        };
        let report = check_file(&file, bytes, is_ours, fix && ends_log)?;
        let is_good = report.is_good();
        if let (Finding::Fixed(..), Some(next)) = (&report.finding, next) {
            next.truncate(0)?;
            next.sync_data()?;
        }
        reports.push(report);
        if !is_good {
            break;
        }
    }
    Ok(reports)
}

/// Checks one file: commands, or an RDB file that commands may follow. With `fix`, cuts off what is not whole.
pub fn check_path(storage: &Arc<dyn Storage>, path: &Path, fix: bool) -> Result<Report, JournalError> {
    let file = storage.open(path)?;
    let size = file.size()?;
    check_file(&file, size, false, fix)
}

fn check_file(
    file: &Arc<dyn StoredFile>,
    bytes: u64,
    is_ours: bool,
    fix: bool,
) -> Result<Report, JournalError> {
    let mut report =
        Report { path: file.path().to_owned(), bytes, keys: 0, commands: 0, finding: Finding::Whole };
    let start = match rdb_part(&**file, bytes, &mut report.keys)? {
        RdbPart::Ended(position) => position,
        RdbPart::Bad { position, reason } => {
            report.finding = Finding::BadRdb { position, reason };
            return Ok(report);
        }
    };
    let mut reader = AofReader::new(Arc::clone(file), start, bytes, is_ours);
    let damage = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(AofError::Damage(damage)) => break Some(damage),
            Err(AofError::Storage(error)) => return Err(error.into()),
        }
    };
    report.commands = reader.commands_read();
    let Some(damage) = damage else { return Ok(report) };
    report.finding = match fix {
        false => Finding::Damaged(damage),
        true => {
            let cut = reader.cut_at(damage.position);
            file.truncate(cut.position)?;
            file.sync_data()?;
            if let Some(sum_at) = cut.sum_at {
                let mut line = Vec::new();
                put_cut(&mut line, sum_at);
                append_all(&**file, &line)?;
                file.sync_data()?;
            }
            Finding::Fixed(damage, bytes - cut.position)
        }
    };
    Ok(report)
}

enum RdbPart {
    /// At the start, if there is none.
    Ended(u64),
    Bad {
        position: u64,
        reason: String,
    },
}

/// Reads the RDB part that a file may begin with.
fn rdb_part(file: &dyn StoredFile, bytes: u64, keys: &mut u64) -> Result<RdbPart, StorageError> {
    let mut decoder = FileDecoder::new(Thresholds::default());
    // What the decoder has not taken yet, which starts at `position`.
    let (mut buffer, mut position): (Vec<u8>, u64) = (Vec::new(), 0);
    loop {
        let filled = buffer.len();
        let left = bytes - position - filled as u64;
        // A large value is read with ever more room, not again and again by small pieces.
        let more = left.min(JOURNAL_READ_BYTES.max(filled) as u64);
        buffer.resize(filled + more as usize, 0);
        let read = file.read_at(position + filled as u64, &mut buffer[filled..])?;
        buffer.truncate(filled + read);
        if position == 0 && !buffer.starts_with(b"REDIS") && !buffer.starts_with(b"VALKEY") {
            return Ok(RdbPart::Ended(0));
        }
        let mut input = Cursor::new(&buffer);
        let ended = loop {
            match decoder.read(&mut input) {
                Ok(Event::End) => break Some(Ok(())),
                Ok(Event::Key(..)) => *keys += 1,
                Ok(_) => {}
                Err(ReadError::Short) => break None,
                Err(reason) => break Some(Err(reason)),
            }
        };
        let taken = input.position();
        position += taken as u64;
        match ended {
            Some(Ok(())) => return Ok(RdbPart::Ended(position)),
            Some(Err(reason)) => return Ok(RdbPart::Bad { position, reason: reason.to_string() }),
            None if read == 0 => {
                return Ok(RdbPart::Bad { position, reason: "the file ends within it".to_owned() });
            }
            None => drop(buffer.drain(..taken)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::Flaw;
    use crate::storage::SimulatedStorage;

    fn names() -> Names {
        let (directory, prefix) = ("a".to_owned(), "aof".to_owned());
        Names { data: PathBuf::from("data"), directory, prefix }
    }

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const EMPTY_RDB: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

    fn disk(files: &[(&str, &[u8])]) -> (SimulatedStorage, Arc<dyn Storage>) {
        let disk = SimulatedStorage::new(1);
        files.iter().for_each(|(name, content)| disk.put(&names().file(name), content));
        (disk.clone(), Arc::new(disk))
    }

    #[test]
    fn a_directory_is_checked_file_by_file() {
        let manifest = b"file b.rdb seq 1 type b\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n";
        let torn = [SET, SET, &SET[..9]].concat();
        let files: [(&str, &[u8]); 4] =
            [("aof.manifest", manifest), ("b.rdb", EMPTY_RDB), ("i1", SET), ("i2", &torn)];
        let (disk, storage) = disk(&files);
        let texts = |fix: bool| -> Vec<String> {
            let reports = check_directory(&storage, &names(), fix).expect("files");
            reports.iter().map(Report::to_string).collect()
        };
        let found =
            "data/a/i2: 63 bytes, 2 commands: the file ends within a command (at byte 54, after 2 commands)";
        let whole = ["data/a/b.rdb: 18 bytes, 0 commands: whole", "data/a/i1: 27 bytes, 1 commands: whole"];
        assert_eq!(texts(false), [whole[0], whole[1], found]);
        let fixed = format!("{found}; the 9 bytes from there on were cut off");
        assert_eq!(texts(true), [whole[0], whole[1], &fixed]);
        assert_eq!(disk.content(&names().file("i2")), Some([SET, SET].concat()));
        assert_eq!(texts(false).last().map(|text| text.ends_with("whole")), Some(true));
        disk.put(&names().file("i1"), &torn);
        assert_eq!(texts(true).len(), 2, "not the last: nothing is cut off");
        assert_eq!(disk.content(&names().file("i1")), Some(torn));
        storage.remove(&names().file("i1")).expect("to remove");
        let missing = check_directory(&storage, &names(), false).expect_err("a file is missing");
        assert_eq!(missing, JournalError::MissingFile { path: names().file("i1") });
    }

    #[test]
    fn what_nothing_was_safe_of_goes_with_the_end_of_the_file_before() {
        let manifest =
            b"file i1 seq 1 type i startoffset 0 halcyon-bytes 0\nfile i2 seq 2 type i halcyon-bytes 0\n";
        let torn = [SET, &SET[..9]].concat();
        let ahead = [b"#AT:54\r\n", SET].concat();
        for (second, is_fixed) in [(&b""[..], true), (&ahead, true), (SET, false)] {
            let (disk, storage) = disk(&[("aof.manifest", manifest), ("i1", &torn), ("i2", second)]);
            let reports = check_directory(&storage, &names(), true).expect("files");
            assert_eq!(reports.iter().all(Report::is_good), is_fixed, "{reports:?}");
            let kept = if is_fixed { (SET, &b""[..]) } else { (&torn[..], second) };
            let content = |name: &str| disk.content(&names().file(name)).expect("a file");
            assert_eq!((&content("i1")[..], &content("i2")[..]), kept);
        }
    }

    #[test]
    fn single_files_are_checked_and_their_rdb_part_is_not_cut() {
        let mut changed = EMPTY_RDB.to_vec();
        changed[17] = 1;
        let mixed = [EMPTY_RDB, SET, b"garbage"].concat();
        let files: [(&str, &[u8]); 4] =
            [("changed", &changed), ("short", &EMPTY_RDB[..12]), ("mixed", &mixed), ("empty", b"")];
        let (disk, storage) = disk(&files);
        let check = |name: &str, fix| check_path(&storage, &names().file(name), fix).expect("a file");
        for (name, reason) in
            [("changed", "a checksum that is not the file's"), ("short", "the file ends within it")]
        {
            let report = check(name, true);
            assert!(
                matches!(&report.finding, Finding::BadRdb { reason: found, .. } if found == reason),
                "{report}"
            );
            assert!(!report.is_good());
        }
        let report = check("mixed", false);
        assert!(
            matches!(&report.finding, Finding::Damaged(damage) if damage.flaw == Flaw::Corrupt),
            "{report}"
        );
        let report = check("mixed", true);
        assert!(matches!(report.finding, Finding::Fixed(_, 7)) && report.is_good(), "{report}");
        assert_eq!(disk.content(&names().file("mixed")), Some([EMPTY_RDB, SET].concat()));
        assert_eq!(check("empty", true).finding, Finding::Whole);
    }
}
