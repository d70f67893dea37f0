//! Files that a rewrite made superfluous.

use super::backlog::Backlog;
use super::folder::Folder;
use crate::manifest::{Entry, Kind, Manifest};

/// Removes the files that are not needed any more, as far as they are not kept for replicas. The manifest without them;
/// what could not be removed stays in it for the next time. None: nothing was removed.
pub(super) fn trim_history(
    folder: &Folder,
    backlog: &Backlog,
    manifest: &Manifest,
    wanted: Wanted,
) -> Option<Manifest> {
    let first = manifest.incrs.first().and_then(|entry| entry.start_offset);
    let kept = kept_history(&manifest.history, first, wanted);
    let is_kept = |entry: &Entry| kept.contains(&entry.name);
    let (stay, go): (Vec<Entry>, Vec<Entry>) = manifest.history.iter().cloned().partition(is_kept);
    backlog.update(|files| {
        files.retain(|file| !go.iter().any(|entry| file.path.ends_with(&entry.name)));
    });
    let (removed, left): (Vec<Entry>, Vec<Entry>) =
        go.into_iter().partition(|entry| folder.remove(&entry.name).is_ok());
    if removed.is_empty() {
        return None;
    }
    let mut manifest = manifest.clone();
    manifest.history = stay;
    manifest.history.extend(left);
    Some(manifest)
}

/// What is kept for replicas all the same, of the files from which the stream goes on to those that are listed.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Up to so many bytes.
    pub(super) bytes_max: u64,
    /// And however many those are that have the stream from this offset on: somebody reads them.
    pub(super) needed_from: u64,
}

impl Wanted {
    /// Nothing.
    pub(super) const NOTHING: Wanted = Wanted { bytes_max: 0, needed_from: u64::MAX };
}

/// The names of the files to be kept: those from which the stream goes on to `first` without a gap, as far as they are
/// wanted.
fn kept_history(history: &[Entry], first: Option<u64>, wanted: Wanted) -> Vec<String> {
    let (mut kept, mut bytes, mut next) = (Vec::new(), 0, first);
    while let Some(start) = next {
        let goes_on = |entry: &&Entry| entry.end_offset == Some(start) && entry.is_exact();
        let fresh = |entry: &&Entry| !kept.contains(&entry.name) && entry.kind == Kind::History;
        let Some(entry) = history.iter().filter(goes_on).find(fresh) else { break };
        bytes += entry.closed_bytes().unwrap_or(0);
        if bytes > wanted.bytes_max && start <= wanted.needed_from {
            break;
        }
        kept.push(entry.name.clone());
        next = entry.start_offset;
    }
    kept
}
