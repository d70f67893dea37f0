//! Reading the files back at a server's start.
//!
//! ```text
//! Directory::open -> Recovery::new -> next: Rdb, Record, Record ... -> finish -> Recovered -> Writer::open
//! ```
//!
//! The caller applies what it is given; nothing here knows what a command means. Each file starts in database 0. What
//! is not whole is refused, but for the end of the last file: under `aof-load-truncated` it is cut off there, up to the
//! last whole record, if a crash explains it. What was read is synced before the server may answer from it.
//!
//! A file that was made before it was known where it begins, and the one before it, end the log together: what the last
//! sync had of them was of the one before first. So if that lacks something, nothing of the one after it was safe, and
//! it is emptied.

use std::path::PathBuf;
use std::sync::Arc;

use crate::aof::{AofError, AofReader, Damage, Flaw, Record, put_cut};
use crate::error::JournalError;
use crate::files::{Covered, Directory};
use crate::manifest::{Entry, Kind, StreamEnd};
use crate::storage::{StoredFile, append_all};

/// What comes next.
pub enum Item<'a> {
    /// A file begins: what follows starts in database 0.
    File(FileFacts),
    /// To be applied as one.
    Record(Record<'a>),
}

/// A file that is about to be read.
#[derive(Clone)]
pub struct FileFacts {
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes of it that count.
    pub bytes: u64,
    /// Its number among those that are read, from 1.
    pub number: usize,
    /// How many are read.
    pub files: usize,
    /// The file begins as an RDB file: read it, and say where that ended ([`Recovery::rdb_ended`]), before asking for
    /// more.
    pub rdb: Option<RdbPart>,
}

/// A base that starts as an RDB file.
#[derive(Clone)]
pub struct RdbPart {
    /// The file, open.
    pub file: Arc<dyn StoredFile>,
    /// Bytes of it that count. A server before Redis 7 put commands after the RDB part.
    pub bytes: u64,
}

/// An end that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The file.
    pub path: PathBuf,
    /// What was wrong with it.
    pub damage: Damage,
    /// How many bytes were cut off.
    pub bytes: u64,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Commands of all files, those of an RDB part not counted.
    pub commands: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The offset after the last record, if the files tell: what the log goes on from.
    pub end_offset: Option<u64>,
    /// The offset is exact: it counts the very bytes that a replica got. If not, no replica can go on from it.
    pub is_exact: bool,
    /// The end of the last file that was cut off.
    pub truncated: Option<Truncated>,
    /// When the last records were written, in unix seconds, if the files tell.
    pub timestamp: Option<i64>,
}

/// The files, being read.
pub struct Recovery {
    directory: Directory,
    load_truncated: bool,
    /// Those that are to be read, with their bytes that count.
    entries: Vec<(Entry, u64)>,
    /// How many of them were begun.
    begun: usize,
    current: Option<Current>,
    summary: Summary,
    covered: Vec<Covered>,
    last: Option<LastFile>,
    bytes_done: u64,
    /// The files are to end at this offset.
    ends_at: Option<u64>,
}

struct Current {
    file: Arc<dyn StoredFile>,
    entry: Entry,
    /// It was made before it was known where it begins.
    is_made_ahead: bool,
    bytes: u64,
    /// None: it starts with an RDB part whose end was not told yet.
    reader: Option<AofReader>,
    covered: Option<Covered>,
}

/// The file that can be appended to.
pub(crate) struct LastFile {
    pub(crate) file: Arc<dyn StoredFile>,
    pub(crate) seq: i64,
    pub(crate) bytes: u64,
    pub(crate) end: u64,
}

/// What a [`crate::files::Writer`] goes on from.
pub struct Recovered {
    pub(crate) directory: Directory,
    /// What was read.
    pub summary: Summary,
    pub(crate) covered: Vec<Covered>,
    /// The last incremental file, if its offsets are exact.
    pub(crate) last: Option<LastFile>,
}

impl Recovered {
    /// The stream that ends with the files, if they are as they were when that was noted.
    pub fn stream(&self) -> Option<&StreamEnd> {
        let is_end =
            |stream: &&StreamEnd| self.summary.is_exact && self.summary.end_offset == Some(stream.offset);
        self.directory.stream().filter(is_end)
    }

    /// Of a directory that was just made, where there is nothing to read.
    pub fn of_new(directory: Directory) -> Result<Recovered, JournalError> {
        let mut recovery = Recovery::new(directory, false)?;
        // Its base was written by whoever made it, just now.
        while let Some(item) = recovery.next()? {
            if let Item::File(FileFacts { rdb: Some(part), .. }) = item {
                recovery.rdb_ended(part.bytes);
            }
        }
        recovery.finish()
    }
}

impl Recovery {
    /// Prepares to read the directory's files, which have to be there. `load_truncated` is `aof-load-truncated`.
    pub fn new(directory: Directory, load_truncated: bool) -> Result<Recovery, JournalError> {
        let mut entries = Vec::new();
        for entry in directory.manifest().loaded() {
            let path = directory.path(entry);
            let size = match directory.storage().open(&path) {
                Err(error) if error.is_missing() => return Err(JournalError::MissingFile { path }),
                file => file?.size()?,
            };
            let bytes = entry.closed_bytes().unwrap_or(size);
            if bytes > size {
                return Err(JournalError::MissingBytes { path, bytes: size, expected: bytes });
            }
            entries.push((entry.clone(), bytes));
        }
        let summary = Summary { bytes: entries.iter().map(|entry| entry.1).sum(), ..Summary::default() };
        Ok(Recovery {
            directory,
            load_truncated,
            entries,
            begun: 0,
            current: None,
            summary,
            covered: Vec::new(),
            last: None,
            bytes_done: 0,
            ends_at: None,
        })
    }

    /// Has the files end at this offset, which is a record's end: what follows is read no more, and cut off. Before the
    /// first file is read. False, and nothing is cut, if the offset does not lie in the last file that was begun.
    pub fn end_at(&mut self, offset: u64) -> bool {
        let last = self.entries.iter().rfind(|(entry, _)| !entry.is_made_ahead());
        let is_there = last.is_some_and(|(entry, _)| {
            let is_open = entry.kind == Kind::Incr && entry.end_offset.is_none() && entry.is_exact();
            is_open && entry.start_offset.is_some_and(|start| start <= offset)
        });
        self.ends_at = Some(offset).filter(|_| is_there);
        is_there
    }

    /// The directory that is read.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Bytes of all files, and how many of them were read (those of an RDB part once it ended).
    pub fn progress(&self) -> (u64, u64) {
        let current = self.current.as_ref().and_then(|current| current.reader.as_ref());
        (self.bytes_done + current.map_or(0, AofReader::position), self.summary.bytes)
    }

    /// What comes next; None after the last file. After an error there is nothing more to be done.
    #[expect(clippy::should_implement_trait, reason = "an item borrows the recovery")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, JournalError> {
        if self.current.is_none() || !self.has_more()? {
            return self.begin_file();
        }
        let current = self.current.as_ref().expect("it has more");
        Ok(current.reader.as_ref().and_then(AofReader::record).map(Item::Record))
    }

    /// Reads the next record of the current file; false, and the file is done with, if there is none.
    fn has_more(&mut self) -> Result<bool, JournalError> {
        let current = self.current.as_mut().expect("a file was begun");
        let reader = current.reader.as_mut().expect("the caller told where the RDB part ended");
        let at = current.covered.as_ref().map(|covered| covered.start + reader.stream_bytes());
        if at.is_some() && at == self.ends_at {
            current.bytes = reader.position();
            // Those that were made ahead.
            self.entries[self.begun..].iter_mut().for_each(|(_, bytes)| *bytes = 0);
            self.end_file(None)?;
            return Ok(false);
        }
        let has_more = reader.next().map(|record| record.is_some());
        let damage = match has_more {
            Ok(true) if follows_hole(current.covered.as_ref(), current.is_made_ahead, reader) => {
                let was_synced = reader.was_synced()?;
                // Nothing of it counts.
                *reader = AofReader::new(Arc::clone(&current.file), 0, 0, true);
                Some(hole(was_synced))
            }
            Ok(true) => {
                if let Some(covered) = &mut current.covered {
                    covered.extend(covered.start + reader.stream_bytes(), reader.position());
                }
                return Ok(true);
            }
            Ok(false) => None,
            Err(AofError::Storage(error)) => return Err(error.into()),
            Err(AofError::Damage(damage)) => Some(damage),
        };
        self.end_file(damage)?;
        Ok(false)
    }

    /// Says at which byte the RDB part of the current file ended.
    pub fn rdb_ended(&mut self, position: u64) {
        let current = self.current.as_mut().expect("an RDB part was given");
        current.reader = Some(AofReader::new(Arc::clone(&current.file), position, current.bytes, false));
    }

    fn begin_file(&mut self) -> Result<Option<Item<'_>>, JournalError> {
        let Some((mut entry, bytes)) = self.entries.get(self.begun).cloned() else { return Ok(None) };
        let is_made_ahead = entry.is_made_ahead();
        if is_made_ahead {
            entry.start_offset = self.summary.end_offset.filter(|_| self.summary.is_exact);
        }
        let path = self.directory.path(&entry);
        let file = self.directory.storage().open(&path)?;
        self.begun += 1;
        let covered = entry.start_offset.filter(|_| entry.is_exact());
        let covered =
            covered.map(|from| Covered::new(entry.seq, path.clone(), from - entry.prefix_bytes, from));
        let is_rdb = starts_as_rdb(&*file, bytes)?;
        let reader = (!is_rdb).then(|| AofReader::new(Arc::clone(&file), 0, bytes, entry.is_exact()));
        let rdb = is_rdb.then(|| RdbPart { file: Arc::clone(&file), bytes });
        self.current = Some(Current { file, entry, is_made_ahead, bytes, reader, covered });
        let (number, files) = (self.begun, self.entries.len());
        Ok(Some(Item::File(FileFacts { path, bytes, number, files, rdb })))
    }

    /// The current file was read up to its end, or to what is not whole.
    fn end_file(&mut self, damage: Option<Damage>) -> Result<(), JournalError> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let Some(reader) = current.reader.take() else { return Ok(()) };
        let path = self.directory.path(&current.entry);
        let is_last = self.begun == self.entries.len();
        // It was not closed: it ends the log together with the one that was made to follow it.
        let is_open = is_last || (current.entry.closed_bytes().is_none() && self.next_is_made_ahead());
        if let Some(damage) = damage {
            let ends_log = is_last || (is_open && self.next_is_unsafe()?);
            if !(ends_log && self.load_truncated && damage.is_torn_tail()) {
                return Err(JournalError::Damaged { path, damage, is_last: ends_log });
            }
            if let Some(next) = self.entries.get_mut(self.begun) {
                next.1 = 0;
            }
            let bytes = current.bytes - damage.position;
            current.bytes = damage.position;
            self.summary.truncated.get_or_insert(Truncated { path, damage, bytes });
        }
        if is_open {
            self.end_last_file(&mut current, &reader)?;
        } else if current.file.size()? > current.bytes {
            // Left by a failure of the disk. It is not read, here at least: a failure changes nothing.
            let _ = current.file.truncate(current.bytes);
        }
        self.bytes_done += current.bytes;
        self.summary.commands += reader.commands_read();
        self.summary.timestamp = reader.timestamp().or(self.summary.timestamp);
        self.note_offsets(current, &reader, is_last);
        Ok(())
    }

    fn next_is_made_ahead(&self) -> bool {
        self.entries.get(self.begun).is_some_and(|(entry, _)| entry.is_made_ahead())
    }

    /// Whether nothing of the next file, which was made ahead, was ever safe.
    fn next_is_unsafe(&self) -> Result<bool, JournalError> {
        let Some((entry, bytes)) = self.entries.get(self.begun) else { return Ok(false) };
        let file = self.directory.storage().open(&self.directory.path(entry))?;
        was_never_safe(file, *bytes)
    }

    /// Cuts off what is not whole, and makes safe what was read: it will be answered from.
    fn end_last_file(&mut self, current: &mut Current, reader: &AofReader) -> Result<(), JournalError> {
        let cut = reader.cut_at(current.bytes);
        if current.file.size()? > cut.position {
            current.file.truncate(cut.position)?;
        }
        current.bytes = cut.position;
        if let Some(sum_at) = cut.sum_at {
            let mut line = Vec::new();
            put_cut(&mut line, sum_at);
            // What is there has to be safe first, so that the line never stands after less.
            current.file.sync_data()?;
            append_all(&*current.file, &line)?;
            current.bytes += line.len() as u64;
        }
        Ok(current.file.sync_data()?)
    }

    fn note_offsets(&mut self, current: Current, reader: &AofReader, is_last: bool) {
        let Current { file, entry, bytes, covered, .. } = current;
        let counted = |start: u64| start + reader.stream_bytes();
        let ends_as_told = |covered: &Covered| {
            entry.end_offset.is_none_or(|end| end == counted(covered.start)) && !reader.is_foreign()
        };
        let Some(mut covered) = covered.filter(ends_as_told) else {
            // Another server's: what it says of offsets is taken for what it is.
            self.covered.clear();
            let start = entry.start_offset.map(|start| start.saturating_sub(entry.prefix_bytes));
            let end = entry.end_offset.or(start.map(counted));
            (self.summary.end_offset, self.summary.is_exact) = (end.or(self.summary.end_offset), false);
            return;
        };
        let end = counted(covered.start);
        covered.extend(end, bytes);
        self.covered.push(covered);
        (self.summary.end_offset, self.summary.is_exact) = (Some(end), true);
        if is_last && entry.end_offset.is_none() {
            self.last = Some(LastFile { file, seq: entry.seq, bytes, end });
        }
    }

    /// To be called after the last file.
    pub fn finish(self) -> Result<Recovered, JournalError> {
        assert!(
            self.current.is_none() && self.begun == self.entries.len(),
            "whole-records: files were not read"
        );
        let Recovery { directory, summary, covered, last, .. } = self;
        Ok(Recovered { directory, summary, covered, last })
    }
}

/// Whether a file that was made ahead begins behind the end of what was read before it.
fn follows_hole(covered: Option<&Covered>, is_made_ahead: bool, reader: &AofReader) -> bool {
    let told = reader.starts_at().filter(|_| is_made_ahead);
    matches!((covered, told), (Some(covered), Some(at)) if at != covered.start)
}

fn hole(was_synced: bool) -> Damage {
    let flaw = if was_synced { Flaw::Corrupt } else { Flaw::LostPages };
    let reason = "the end of the file before it is missing".to_owned();
    Damage { flaw, position: 0, commands: 0, reason }
}

/// Whether nothing of a file that was made ahead was ever safe, so that it may go with what is missing before it.
pub(crate) fn was_never_safe(file: Arc<dyn StoredFile>, bytes: u64) -> Result<bool, JournalError> {
    if bytes == 0 {
        return Ok(true);
    }
    let mut reader = AofReader::new(file, 0, bytes, true);
    let is_ours = match reader.next() {
        Err(AofError::Storage(error)) => return Err(error.into()),
        Err(AofError::Damage(_)) => true,
        // Another server has gone on with it.
        Ok(_) => reader.starts_at().is_some(),
    };
    Ok(is_ours && !reader.was_synced()?)
}

/// Whether the file begins as an RDB file does.
fn starts_as_rdb(file: &dyn StoredFile, bytes: u64) -> Result<bool, JournalError> {
    let mut start = [0; 6];
    let read = if bytes == 0 { 0 } else { file.read_at(0, &mut start)? };
    Ok(start[..read].starts_with(b"REDIS") || start[..read].starts_with(b"VALKEY"))
}
