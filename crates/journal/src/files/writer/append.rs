//! Writing what the log has to the current file.

use std::io::IoSlice;
use std::sync::Arc;

use base::clock::Now;
use base::limits::JOURNAL_BATCH_BYTES;

use super::Writer;
use crate::aof::{put_at, put_timestamp, sum_of};
use crate::error::JournalError;
use crate::files::backlog::Covered;
use crate::files::directory::Directory;
use crate::files::sync::{Mark, Policy};
use crate::log::{Log, write_select};
use crate::manifest::Entry;
use crate::storage::{StorageError, StoredFile};

/// The file that is written to.
pub(super) struct Current {
    pub(super) seq: i64,
    pub(super) file: Arc<dyn StoredFile>,
    pub(super) written: Mark,
    pub(super) synced: Mark,
}

impl Current {
    /// A file that ends at `mark`, safely.
    pub(super) fn at(seq: i64, file: Arc<dyn StoredFile>, mark: Mark) -> Current {
        Current { seq, file, written: mark, synced: mark }
    }

    /// A file that begins at `offset` of the log, empty, or with a SELECT where nothing that follows selects a database.
    /// It is safe, and not listed yet.
    pub(super) fn begin(
        directory: &mut Directory,
        log: &Log,
        offset: u64,
        has_sum: bool,
    ) -> Result<(Entry, Current), StorageError> {
        let (mut entry, file) = directory.create_incr(offset)?;
        let db = log.file_db(offset);
        let mut current = Current::at(entry.seq, file, Mark { offset, bytes: 0, db });
        let mut select = Vec::new();
        db.iter().for_each(|db| write_select(&mut select, *db));
        // A stream of fewer bytes has not selected anything.
        if !select.is_empty() && offset >= select.len() as u64 {
            current.written.bytes = current.append(b"", &[&select], has_sum)?;
            current.file.sync_data()?;
            current.synced = current.written;
            entry.prefix_bytes = select.len() as u64;
        }
        Ok((entry, current))
    }

    /// The file as a part of the backlog: `entry` is its line.
    pub(super) fn covered(&self, directory: &Directory, entry: &Entry) -> Covered {
        let from = self.written.offset;
        let mut covered = Covered::new(entry.seq, directory.path(entry), from - entry.prefix_bytes, from);
        covered.extend(from, self.written.bytes);
        covered
    }

    /// Writes `pieces`, which end at a record's boundary, as one, after `lines`. The bytes that this takes. If it
    /// fails, some of them may be in the file.
    pub(super) fn append(&self, lines: &[u8], pieces: &[&[u8]], has_sum: bool) -> Result<u64, StorageError> {
        let mut slices = vec![IoSlice::new(b""), IoSlice::new(lines)];
        slices.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        let mut line = Vec::new();
        if has_sum {
            sum_of(&slices, self.synced.bytes).put(&mut line);
        }
        slices[0] = IoSlice::new(&line);
        let mut left = &mut slices[..];
        let mut bytes = 0;
        // Drops what is empty, too.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let written = self.file.append(left)?;
            bytes += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(bytes)
    }
}

impl Writer {
    /// Writes everything that the log had when this began; begins a new file where one was asked for.
    pub(super) fn write_all(&mut self, now: Now) -> Result<(), JournalError> {
        let target = self.consumer.log().end();
        loop {
            let from = self.current.written.offset;
            self.parts.clear();
            let begins_file = self.consumer.read(from, JOURNAL_BATCH_BYTES, &mut self.parts)?;
            if begins_file && self.rotated.as_ref().is_none_or(|rotated| rotated.0 != from) {
                match self.rotate(from) {
                    // Nothing is written beyond until the other thread is done and the next file can be had.
                    Err(JournalError::SyncInFlight) => return Ok(()),
                    rotated => rotated?,
                }
                continue;
            }
            if self.parts.is_empty() {
                return Ok(());
            }
            self.write_parts(now)?;
            if self.current.written.offset >= target {
                return Ok(());
            }
        }
    }

    /// Writes the parts that were read.
    fn write_parts(&mut self, now: Now) -> Result<(), JournalError> {
        let mut lines = self.timestamp(now);
        if self.current.written.bytes == 0 && self.directory.is_stale() {
            put_at(&mut lines, self.current.written.offset);
        }
        let pieces: Vec<&[u8]> = self.parts.iter().map(|part| &**part).collect();
        let written = self.current.append(&lines, &pieces, self.options.checksums);
        let last = self.parts.last().expect("there are parts");
        let (offset, db) = (last.end(), last.db_after());
        // What was written may be large, and is the log's to reuse.
        self.parts.clear();
        match written {
            Ok(bytes) => {
                let bytes = self.current.written.bytes + bytes;
                self.note_written(Mark { offset, bytes, db });
                Ok(())
            }
            Err(error) => {
                (self.is_torn, self.timestamp_s) = (true, 0);
                // At once: the file should not be left so while nobody knows how long the disk fails.
                let _ = self.cut_tail();
                Err(error.into())
            }
        }
    }

    fn note_written(&mut self, mark: Mark) {
        self.current.written = mark;
        let seq = self.current.seq;
        self.backlog.update(|files| {
            if let Some(covered) = files.last_mut().filter(|covered| covered.seq == seq) {
                covered.extend(mark.offset, mark.bytes);
            }
        });
        if self.options.policy == Policy::No {
            // What follows a file that is not safe would have to be written again.
            self.consumer
                .release(self.closing.as_ref().map_or(mark.offset, |closing| closing.written.offset));
        }
        self.publish();
    }

    /// The line that tells the time, if it is wanted and another second.
    pub(super) fn timestamp(&mut self, now: Now) -> Vec<u8> {
        let mut line = Vec::new();
        let unix_s = now.unix_ms.div_euclid(1000);
        if self.options.timestamps && unix_s != self.timestamp_s {
            self.timestamp_s = unix_s;
            put_timestamp(&mut line, unix_s);
        }
        line
    }
}
