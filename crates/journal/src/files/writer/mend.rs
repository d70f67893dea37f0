//! After the disk failed.
//!
//! | what failed | is mended by |
//! |---|---|
//! | a write | cutting off what it left after the last whole record, and writing again |
//! | that cut | a new file, which goes on from what is safe; the manifest says how much of the old one counts |
//! | a sync | the same: what the old file has since its last good sync is believed by nobody |
//! | a change of the manifest | doing it again, before anything is written |

use std::sync::Arc;

use base::limits::JOURNAL_BATCH_BYTES;

use super::append::Current;
use super::{Writer, name_of};
use crate::aof::{AofReader, Record};
use crate::error::JournalError;
use crate::files::backlog::Covered;
use crate::files::folder::NotPersisted;
use crate::files::sync::Mark;
use crate::log::write_select;
use crate::manifest::{Entry, close_incr};

impl Writer {
    /// Brings the files to where they can be written to, if they are not there.
    pub(super) fn mend(&mut self) -> Result<(), JournalError> {
        if self.is_distrusted || (self.is_torn && self.cut_tail().is_err()) {
            self.replace_file()?;
        }
        // Removing what is not needed changes the manifest, too; there is less of it each time.
        while self.directory.is_unsettled() {
            self.directory.settle()?;
            self.remove_history();
            self.recount();
        }
        self.leftovers.retain(|(file, bytes)| file.truncate(*bytes).is_err());
        Ok(())
    }

    /// Cuts off what a failed write left.
    pub(super) fn cut_tail(&mut self) -> Result<(), JournalError> {
        if self.in_flight {
            return Err(JournalError::SyncInFlight);
        }
        let Current { file, written, .. } = &self.current;
        if file.size()? != written.bytes {
            file.truncate(written.bytes)?;
            // Else a crash could bring the torn bytes back, mixed with what is written in their place.
            self.sync_now()?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Goes on in a new file from what is safe. If that lies in the file before the current one, both are replaced.
    fn replace_file(&mut self) -> Result<(), JournalError> {
        if self.in_flight || self.is_changing() {
            return Err(JournalError::SyncInFlight);
        }
        let safe = self.safe();
        let (mut entry, file) = self.directory.create_incr(safe.offset)?;
        let mut fresh = Current::at(entry.seq, file, Mark { bytes: 0, ..safe });
        let copied = self.copy_unsafe(&mut fresh, &mut entry);
        copied.and_then(|()| self.switch_to(fresh, entry, safe))
    }

    /// Writes what is not safe to `fresh`, and syncs that.
    fn copy_unsafe(&mut self, fresh: &mut Current, entry: &mut Entry) -> Result<(), JournalError> {
        let start = fresh.written;
        let mut select = Vec::new();
        if let Some(db) = start.db {
            write_select(&mut select, db);
            entry.prefix_bytes = select.len() as u64;
        }
        let has_sum = self.options.checksums;
        let mut copy = || {
            if !select.is_empty() {
                fresh.written.bytes += fresh.append(b"", &[&select], has_sum)?;
            }
            if self.consumer.held() > start.offset {
                self.copy_from_file(fresh)?;
            }
            loop {
                let from = fresh.written.offset;
                self.parts.clear();
                let begins_file = self.consumer.read(from, JOURNAL_BATCH_BYTES, &mut self.parts)?;
                // Where the current file began, the new one goes on.
                let is_begun =
                    from == start.offset || self.rotated.as_ref().is_some_and(|begun| begun.0 == from);
                let Some(last) = self.parts.last().filter(|_| !begins_file || is_begun) else {
                    break;
                };
                let (offset, db) = (last.end(), last.db_after());
                let pieces: Vec<&[u8]> = self.parts.iter().map(|part| &**part).collect();
                let bytes = fresh.written.bytes + fresh.append(b"", &pieces, has_sum)?;
                fresh.written = Mark { offset, bytes, db };
            }
            fresh.file.sync_data()?;
            fresh.synced = fresh.written;
            Ok(())
        };
        let copied = copy();
        self.parts.clear();
        // The new file has not told the time yet.
        self.timestamp_s = 0;
        if copied.is_err() {
            let _ = self.directory.remove(&entry.name);
        }
        copied
    }

    /// Copies what the log has let go of, as it does under `no`: the old file still reads as it was written, or not, which
    /// its checksums tell.
    fn copy_from_file(&self, fresh: &mut Current) -> Result<(), JournalError> {
        let Current { file, written, synced, .. } = self.closing.as_ref().unwrap_or(&self.current);
        let mut reader = AofReader::new(Arc::clone(file), synced.bytes, written.bytes, true);
        let mut batch = Vec::new();
        loop {
            let record = reader.next().map_err(|error| self.cannot_copy(&error.to_string()))?;
            let is_last = record.is_none();
            record.iter().flat_map(Record::pieces).for_each(|piece| batch.extend_from_slice(piece));
            if is_last && reader.is_foreign() {
                return Err(self.cannot_copy("it has no checksums"));
            }
            if batch.len() >= JOURNAL_BATCH_BYTES || (is_last && !batch.is_empty()) {
                fresh.written.bytes += fresh.append(b"", &[&batch], self.options.checksums)?;
                batch.clear();
            }
            if is_last {
                break;
            }
        }
        if synced.offset + reader.stream_bytes() != written.offset {
            return Err(self.cannot_copy("it is not as long as it was"));
        }
        (fresh.written.offset, fresh.written.db) = (written.offset, written.db);
        Ok(())
    }

    fn cannot_copy(&self, reason: &str) -> JournalError {
        let path = self.closing.as_ref().unwrap_or(&self.current).file.path().display();
        let advice = "Mend the disk, save a copy of the data elsewhere, and restart the server";
        JournalError::Refused(format!(
            "{path} could not be synced, and what it has cannot be relied on: {reason}. {advice}"
        ))
    }

    /// Has the manifest say that the current file ends at `safe` and `fresh` goes on from there, and makes that the
    /// current file.
    fn switch_to(&mut self, fresh: Current, entry: Entry, safe: Mark) -> Result<(), JournalError> {
        let (name, path) = (entry.name.clone(), self.directory.path(&entry));
        let start = safe.offset - entry.prefix_bytes.min(safe.offset);
        let listed = self.list(entry, safe);
        if let Err(NotPersisted::Kept(error)) = listed {
            let _ = self.directory.remove(&name);
            return Err(error.into());
        }
        let mut old = std::mem::replace(&mut self.current, fresh);
        let mut given_up = self.spare.take().map(|spare| spare.file);
        if let Some(closing) = self.closing.take() {
            let reason = format!("{} could not be synced", closing.file.path().display());
            self.rotated = Some((closing.written.offset, Some(reason)));
            given_up = Some(std::mem::replace(&mut old, closing).file);
        }
        if let (Some(file), Ok(())) = (given_up, &listed) {
            let _ = self.directory.remove(&name_of(&*file));
        }
        // Not before the manifest is: until then the old file is what a crash leaves.
        if old.file.truncate(safe.bytes).is_err() {
            self.leftovers.push((old.file, safe.bytes));
        }
        let Current { seq, written, .. } = self.current;
        self.backlog.update(|files| {
            files.retain(|covered| covered.seq <= old.seq);
            if let Some(covered) = files.last_mut().filter(|covered| covered.seq == old.seq) {
                covered.marks.retain(|mark| mark.1 <= safe.bytes);
                (covered.end, covered.bytes) = (safe.offset, safe.bytes);
            }
            let mut covered = Covered::new(seq, path, start, safe.offset);
            covered.extend(written.offset, written.bytes);
            files.push(covered);
        });
        self.recount();
        // All is in the new file. If the manifest is not settled, that counts once it is.
        (self.is_torn, self.is_distrusted) = (false, false);
        self.note_synced(written);
        listed.map_err(NotPersisted::into_error)
    }

    /// Closes the line of the file that ends at `end` and adds `entry`. What was to follow that file is listed no more.
    pub(super) fn list(&mut self, entry: Entry, end: Mark) -> Result<(), NotPersisted> {
        let seq = self.closing.as_ref().unwrap_or(&self.current).seq;
        let change = |incrs: &mut Vec<Entry>| {
            incrs.retain(|listed| listed.seq <= seq);
            close_incr(incrs, seq, end.offset, end.bytes);
            incrs.push(entry);
        };
        if let Some(pending) = &mut self.pending {
            change(pending);
            return Ok(());
        }
        let mut manifest = self.directory.manifest().clone();
        change(&mut manifest.incrs);
        self.directory.persist(manifest)
    }
}
