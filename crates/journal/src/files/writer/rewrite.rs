//! Rewriting: a new file begins, a snapshot of what was there becomes the base, the old files go.

use std::sync::Arc;

use base::clock::Now;

use super::Writer;
use super::append::Current;
use crate::error::JournalError;
use crate::files::backlog::Covered;
use crate::files::directory::NotPersisted;
use crate::files::sync::Mark;
use crate::manifest::{BaseFormat, Entry, Kind};

impl Writer {
    /// Begins a new file at `at`, up to which the current one is written. If there is none to be had, the current one
    /// goes on, and the rewrite that asked for it is told so in the end.
    pub(super) fn rotate(&mut self, at: u64) -> Result<(), JournalError> {
        debug_assert_eq!(self.current.written.offset, at, "whole-records: a file ends where the next begins");
        // A file that follows would make its loss a hole.
        self.sync_now()?;
        let (entry, file) = match self.directory.create_incr(at) {
            Ok(made) => made,
            Err(error) => {
                self.rotated = Some((at, Some(error.to_string())));
                return Ok(());
            }
        };
        let (seq, name, path) = (entry.seq, entry.name.clone(), self.directory.path(&entry));
        let end = self.current.written;
        let listed = self.list(entry, end);
        if let Err(NotPersisted::Kept(error)) = listed {
            let _ = self.directory.remove(&name);
            self.rotated = Some((at, Some(error.to_string())));
            return Ok(());
        }
        self.closed_bytes += end.bytes;
        self.current = Current::at(seq, file, Mark { offset: at, bytes: 0, db: None });
        self.backlog.update(|files| files.push(Covered::new(seq, path, at, at)));
        (self.rotated, self.timestamp_s) = (Some((at, None)), 0);
        listed.map_err(NotPersisted::into_error)
    }

    /// Makes [`super::Names::temporary_base`], written and synced, the base for what follows `at`, where
    /// [`crate::log::Log::begin_file`] had a file begin. The files before it are removed.
    ///
    /// # Errors
    /// The files stay as they are. [`JournalError::SyncInFlight`]: the new file has not begun yet, try again.
    pub fn install_base(&mut self, format: BaseFormat, at: u64, now: Now) -> Result<(), JournalError> {
        self.reach(at, now)?;
        let incrs = self.pending.as_ref().unwrap_or(&self.directory.manifest().incrs);
        let first = incrs.iter().find(|entry| entry.start_offset == Some(at) && entry.is_exact());
        let Some(first) = first.map(|entry| entry.seq) else {
            let reason =
                self.rotated.as_ref().filter(|rotated| rotated.0 == at).and_then(|rotated| rotated.1.clone());
            let reason = reason.unwrap_or_else(|| "no file begins there".to_owned());
            return Err(JournalError::Refused(format!(
                "a base for offset {at} cannot be installed: {reason}"
            )));
        };
        let names = self.directory.names();
        let base = self.directory.manifest().next_base(&names.prefix, format);
        let (name, path) = (base.name.clone(), self.directory.path(&base));
        let storage = Arc::clone(self.directory.storage());
        storage.rename(&names.temporary_base(), &path)?;
        let mut manifest = self.directory.manifest().clone();
        if let Some(pending) = &self.pending {
            manifest.install_base(base, i64::MAX);
            manifest.incrs.extend(pending.iter().filter(|entry| entry.seq >= first).cloned());
        } else {
            manifest.install_base(base, first);
        }
        // The base's name has to be safe before it is listed.
        let safe = storage.sync_directory(&names.directory()).map_err(NotPersisted::Kept);
        match safe.and_then(|()| self.directory.persist(manifest)) {
            Ok(()) => {}
            Err(NotPersisted::Kept(error)) => {
                let _ = self.directory.remove(&name);
                return Err(error.into());
            }
            Err(NotPersisted::Unsettled(error)) => {
                // It is the base, once the manifest is settled.
                self.pending = None;
                self.latch(&error.clone().into(), now);
                return Err(error.into());
            }
        }
        self.pending = None;
        self.remove_history();
        self.recount();
        self.base_bytes = self.sizes().current_bytes;
        self.publish();
        Ok(())
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

    /// Removes the files that are not needed any more, as far as they are not kept for replicas. What cannot be removed
    /// stays in the manifest for the next time.
    pub(super) fn remove_history(&mut self) {
        let history = self.directory.manifest().history.clone();
        if history.is_empty() || self.directory.is_unsettled() {
            return;
        }
        let first = self.directory.manifest().incrs.first().and_then(|entry| entry.start_offset);
        let kept = self.kept_history(&history, first);
        let is_kept = |entry: &Entry| kept.contains(&entry.name);
        let (stay, go): (Vec<Entry>, Vec<Entry>) = history.into_iter().partition(is_kept);
        let removed: Vec<&Entry> =
            go.iter().filter(|entry| self.directory.remove(&entry.name).is_ok()).collect();
        self.backlog.update(|files| {
            files.retain(|file| !go.iter().any(|entry| file.path.ends_with(&entry.name)));
        });
        if removed.is_empty() {
            return;
        }
        let mut manifest = self.directory.manifest().clone();
        manifest.history = stay;
        manifest.history.extend(go.iter().filter(|entry| !removed.contains(entry)).cloned());
        // If that fails the lines stay, and say of files that are not there that they are not needed.
        let _ = self.directory.persist(manifest);
    }

    /// The names of the files to be kept: those from which the stream goes on to `first` without a gap.
    fn kept_history(&self, history: &[Entry], first: Option<u64>) -> Vec<String> {
        let (mut kept, mut bytes, mut next) = (Vec::new(), 0, first);
        while let Some(start) = next {
            let goes_on = |entry: &&Entry| entry.end_offset == Some(start) && entry.is_exact();
            let fresh = |entry: &&Entry| !kept.contains(&entry.name) && entry.kind == Kind::History;
            let Some(entry) = history.iter().filter(goes_on).find(fresh) else { break };
            bytes += entry.closed_bytes().unwrap_or(0);
            if bytes > self.options.kept_history_bytes {
                break;
            }
            kept.push(entry.name.clone());
            next = entry.start_offset;
        }
        kept
    }
}
