//! The stream of the log by offset, read from the files.

use std::path::PathBuf;
use std::sync::Arc;

use base::limits::JOURNAL_MARK_BYTES;
use parking_lot::Mutex;

use crate::aof::{AofError, AofReader};
use crate::error::JournalError;
use crate::log::Gone;
use crate::storage::Storage;

/// The files whose offsets are known, in order. Shared by the writer, who says how far they go, and those who read.
pub struct Backlog {
    storage: Arc<dyn Storage>,
    files: Mutex<Vec<Covered>>,
}

/// The part of the stream that a file has.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    pub(crate) seq: i64,
    pub(crate) path: PathBuf,
    /// Offset of the file's first command.
    pub(crate) start: u64,
    /// What is before belongs to the file before: the file repeats a SELECT.
    pub(crate) from: u64,
    /// Offset after its last command, and its bytes.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    /// Offsets with the position of the file where reading can start for them.
    pub(crate) marks: Vec<(u64, u64)>,
}

impl Covered {
    /// A file that is empty as yet.
    pub(crate) fn new(seq: i64, path: PathBuf, start: u64, from: u64) -> Covered {
        Covered { seq, path, start, from, end: start, bytes: 0, marks: vec![(start, 0)] }
    }

    /// Notes that the file goes on to `end`, which is at byte `bytes`, where a record or a line starts.
    pub(crate) fn extend(&mut self, end: u64, bytes: u64) {
        let last = self.marks.last().map_or(0, |mark| mark.1);
        if self.bytes > last && bytes - last >= JOURNAL_MARK_BYTES {
            self.marks.push((self.end, self.bytes));
        }
        (self.end, self.bytes) = (end, bytes);
    }
}

impl Backlog {
    pub(crate) fn new(storage: Arc<dyn Storage>, files: Vec<Covered>) -> Backlog {
        Backlog { storage, files: Mutex::new(files) }
    }

    /// Changes the list.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Vec<Covered>) -> T) -> T {
        change(&mut self.files.lock())
    }

    /// The first offset from which on the files have everything up to what is written now, and the offset after that.
    /// None: no file's offsets are known.
    pub fn range(&self) -> Option<(u64, u64)> {
        let files = self.files.lock();
        let last = files.last()?;
        let mut from = last.from;
        for file in files.iter().rev().skip(1) {
            if file.end != from {
                break;
            }
            from = file.from;
        }
        Some((from, last.end))
    }

    /// A reader of the stream from `offset` on. It keeps what it reads from open, so a file may be removed meanwhile.
    pub fn reader(self: &Arc<Backlog>, offset: u64) -> Result<BacklogReader, Gone> {
        let (start, end) = self.range().unwrap_or((0, 0));
        if !(start..=end).contains(&offset) {
            return Err(Gone { asked: offset, start, end });
        }
        Ok(BacklogReader { backlog: Arc::clone(self), offset, open: None })
    }
}

/// Reads the stream from files, up to what is written. Then the log in memory has the rest.
pub struct BacklogReader {
    backlog: Arc<Backlog>,
    offset: u64,
    open: Option<Open>,
}

struct Open {
    seq: i64,
    reader: AofReader,
    /// Offset of what the reader reads next.
    at: u64,
}

impl BacklogReader {
    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes of the stream: about `bytes_max`, but whole records. None when all that is written was read.
    ///
    /// # Errors
    /// The disk failed, a file is damaged, or the files are gone: then only a full synchronization helps.
    pub fn read(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, JournalError> {
        let mut out = Vec::new();
        while out.len() < bytes_max {
            let files = self.backlog.files.lock();
            let found = files.iter().find(|file| file.from <= self.offset && self.offset < file.end);
            let Some(file) = found else {
                let end = files.last().map_or(0, |file| file.end);
                if self.offset == end || !out.is_empty() {
                    break;
                }
                let start = files.first().map_or(0, |file| file.from);
                return Err(Gone { asked: self.offset, start, end }.into());
            };
            let (seq, path, end, bytes) = (file.seq, file.path.clone(), file.end, file.bytes);
            let mark = file.marks.iter().rev().find(|mark| mark.0 <= self.offset).copied();
            drop(files);
            if self.open.as_ref().is_none_or(|open| open.seq != seq) {
                let (at, position) = mark.unwrap_or_default();
                let reader = AofReader::new(self.backlog.storage.open(&path)?, position, bytes, true);
                self.open = Some(Open { seq, reader, at });
            }
            let open = self.open.as_mut().expect("it was just opened");
            open.reader.extend(bytes);
            let damaged = |damage| JournalError::Damaged { path: path.clone(), damage, is_last: false };
            while out.len() < bytes_max && open.at < end {
                let record = open.reader.next().map_err(|error| match error {
                    AofError::Storage(error) => JournalError::Storage(error),
                    AofError::Damage(damage) => damaged(damage),
                })?;
                let Some(record) = record else {
                    return Err(JournalError::MissingBytes {
                        path,
                        bytes: open.reader.position(),
                        expected: bytes,
                    });
                };
                for piece in record.pieces() {
                    let piece_end = open.at + piece.len() as u64;
                    if piece_end > self.offset {
                        out.extend_from_slice(&piece[(self.offset - open.at.min(self.offset)) as usize..]);
                        self.offset = piece_end;
                    }
                    open.at = piece_end;
                }
            }
        }
        Ok((!out.is_empty()).then_some(out))
    }
}
