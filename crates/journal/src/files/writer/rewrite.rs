//! Rewriting: a new file begins, a snapshot of what was there becomes the base, the old files go.
//!
//! ```text
//!   prepare_file --Change--> spare, listed                         closing is safe --Change--> listed with offsets
//!                              |                                         ^
//!   the log says where: turn --+--> current; the one before: closing ----+--> begin_install --Change--> base
//! ```

use std::sync::Arc;

use base::clock::Now;
use base::limits::JOURNAL_RETRY_US;

use super::append::Current;
use super::{Writer, name_of};
use crate::error::JournalError;
use crate::files::backlog::Covered;
use crate::files::change::{Change, ChangeDone, Work};
use crate::files::folder::NotPersisted;
use crate::files::history::{Wanted, trim_history};
use crate::files::sync::Mark;
use crate::manifest::BaseFormat;
use crate::storage::StoredFile;

/// A file that was made and listed before it is known where it begins.
pub(super) struct Spare {
    pub(super) seq: i64,
    pub(super) file: Arc<dyn StoredFile>,
}

impl Writer {
    /// Has the next file made, so that nothing is held up where it begins: to be called before
    /// [`crate::log::Log::begin_file`]. None: there is nothing to do. Without this, a file is made where it begins.
    ///
    /// # Errors
    /// [`JournalError::SyncInFlight`]: the file before is not safe yet, try again.
    pub fn prepare_file(&mut self) -> Result<Option<Change>, JournalError> {
        if self.spare.is_some() || self.pending.is_some() || self.directory.is_unsettled() {
            return Ok(None);
        }
        // What a file of another server's stream begins with is not known before.
        if self.consumer.log().is_stream() {
            return Ok(None);
        }
        if self.closing.is_some() || self.is_changing() {
            return Err(JournalError::SyncInFlight);
        }
        Ok(Some(self.directory.begin_making(&self.backlog)))
    }

    /// Begins a new file at `at`, up to which the current one is written. If there is none to be had, the current one
    /// goes on, and the rewrite that asked for it is told so in the end.
    pub(super) fn rotate(&mut self, at: u64) -> Result<(), JournalError> {
        debug_assert_eq!(self.current.written.offset, at, "whole-records: a file ends where the next begins");
        if self.is_changing() {
            return Err(JournalError::SyncInFlight);
        }
        if self.closing.is_some() {
            self.sync_now()?;
        }
        if let Some(spare) = self.spare.take() {
            self.turn_to(spare, at);
            if self.consumer.log().file_db(at).is_none() {
                return Ok(());
            }
            // It stays empty: one that begins with a SELECT is listed so from the first.
        }
        self.make_file(at)
    }

    /// Goes on in a file that was made before. The one that ends is made safe by the next sync.
    fn turn_to(&mut self, spare: Spare, at: u64) {
        let end = self.current.written;
        self.directory.note_turn(self.current.seq, end);
        let covered = Covered::new(spare.seq, spare.file.path().to_owned(), at, at);
        let fresh = Current::at(spare.seq, spare.file, Mark { offset: at, bytes: 0, db: None });
        let old = self.begin(fresh, covered);
        self.closing = (old.synced.offset < end.offset).then_some(old);
    }

    /// Makes the next file here and now.
    fn make_file(&mut self, at: u64) -> Result<(), JournalError> {
        // A file that follows would make its loss a hole.
        self.sync_now()?;
        let has_sum = self.options.checksums;
        let begun = Current::begin(&mut self.directory, self.consumer.log(), at, has_sum);
        let (entry, fresh) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.rotated = Some((at, Some(error.to_string())));
                return Ok(());
            }
        };
        let (name, covered) = (entry.name.clone(), fresh.covered(&self.directory, &entry));
        let listed = self.list(entry, self.current.written);
        if let Err(NotPersisted::Kept(error)) = listed {
            let _ = self.directory.remove(&name);
            self.rotated = Some((at, Some(error.to_string())));
            return Ok(());
        }
        self.begin(fresh, covered);
        listed.map_err(NotPersisted::into_error)
    }

    /// Makes `fresh` the current one. The one before.
    fn begin(&mut self, fresh: Current, covered: Covered) -> Current {
        self.closed_bytes += self.current.written.bytes;
        self.backlog.update(|files| files.push(covered));
        (self.rotated, self.timestamp_s) = (Some((fresh.written.offset, None)), 0);
        std::mem::replace(&mut self.current, fresh)
    }

    /// The change that makes [`super::Names::temporary_base`], written and synced, the base for what follows `at`, where
    /// [`crate::log::Log::begin_file`] had a file begin. The files before it are removed.
    ///
    /// # Errors
    /// The files stay as they are. [`JournalError::SyncInFlight`]: the new file has not begun yet, or the one before is
    /// not safe, try again.
    pub fn begin_install(&mut self, format: BaseFormat, at: u64, now: Now) -> Result<Change, JournalError> {
        self.reach(at, now)?;
        if self.closing.is_some() || self.is_changing() {
            return Err(JournalError::SyncInFlight);
        }
        let listed = self.directory.manifest();
        let incrs = self.pending.as_ref().unwrap_or(&listed.incrs);
        let first = incrs.iter().find(|entry| entry.start_offset == Some(at) && entry.is_exact());
        let Some(first) = first.map(|entry| entry.seq) else {
            let reason =
                self.rotated.as_ref().filter(|rotated| rotated.0 == at).and_then(|rotated| rotated.1.clone());
            let reason = reason.unwrap_or_else(|| "no file begins there".to_owned());
            return Err(JournalError::Refused(format!(
                "a base for offset {at} cannot be installed: {reason}"
            )));
        };
        let base = listed.next_base(&self.directory.names().prefix, format);
        let mut manifest = listed.clone();
        if let Some(pending) = &self.pending {
            manifest.install_base(base.clone(), i64::MAX);
            manifest.incrs.extend(pending.iter().filter(|entry| entry.seq >= first).cloned());
        } else {
            manifest.install_base(base.clone(), first);
        }
        // Nothing was written since the current file began: the one that was made for this rewrite is not needed.
        let spare = self.spare.as_ref().map(|spare| spare.seq);
        manifest.incrs.retain(|entry| Some(entry.seq) != spare);
        let wanted = self.wanted_history();
        Ok(self.directory.begin_installing(base, manifest, &self.backlog, wanted))
    }

    /// Takes the result of a change that a step, [`Writer::prepare_file`] or [`Writer::begin_install`] began.
    ///
    /// # Errors
    /// It failed, and why. If the disk leaves open what counts, that is mended by a later step.
    pub fn change_done(&mut self, mut done: ChangeDone, now: Now) -> Result<(), JournalError> {
        self.retry_at_us = self.retry_at_us.map(|_| now.mono_us);
        self.directory.end_change(&mut done);
        let is_listed = !matches!(done.result, Err(NotPersisted::Kept(_)));
        match done.work {
            Work::List => self.listed_again_at_us = now.mono_us + JOURNAL_RETRY_US,
            Work::Make(entry) => {
                let made = done.file.filter(|_| is_listed);
                self.spare = made.map(|file| Spare { seq: entry.seq, file });
            }
            Work::Install(_) if is_listed => {
                self.pending = None;
                // As long as the manifest before may count, its file has to be there.
                if let Some(spare) = self.spare.take().filter(|_| done.result.is_ok()) {
                    let _ = self.directory.remove(&name_of(&*spare.file));
                }
                self.recount();
                self.base_bytes = self.sizes().current_bytes;
            }
            Work::Install(_) => {}
        }
        self.publish();
        done.result.map_err(|failed| {
            let is_unsettled = matches!(failed, NotPersisted::Unsettled(_));
            let error = failed.into_error();
            if is_unsettled {
                self.latch(&error, now);
            }
            error
        })
    }

    /// Writes up to `at` and begins the file there.
    fn reach(&mut self, at: u64, now: Now) -> Result<(), JournalError> {
        let reached = self.mend().and_then(|()| self.write_all(now));
        if let Err(error) = reached {
            self.latch(&error, now);
            return Err(error);
        }
        let has_begun =
            self.current.written.offset > at || self.rotated.as_ref().is_some_and(|file| file.0 >= at);
        if has_begun { Ok(()) } else { Err(JournalError::SyncInFlight) }
    }

    fn wanted_history(&self) -> Wanted {
        Wanted { bytes_max: self.options.kept_history_bytes, needed_from: self.options.needed_from }
    }

    /// Removes the files that are not needed any more, as far as they are not kept for replicas.
    pub(super) fn remove_history(&mut self) {
        let manifest = self.directory.manifest();
        if manifest.history.is_empty() || self.directory.is_unsettled() || self.is_changing() {
            return;
        }
        let wanted = self.wanted_history();
        if let Some(trimmed) = trim_history(self.directory.folder(), &self.backlog, manifest, wanted) {
            // If that fails the lines stay, and say of files that are not there that they are not needed.
            let _ = self.directory.persist(trimmed);
        }
    }
}
