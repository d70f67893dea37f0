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
    bytes_max: u64,
) -> Option<Manifest> {
    let first = manifest.incrs.first().and_then(|entry| entry.start_offset);
    let kept = kept_history(&manifest.history, first, bytes_max);
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

/// The names of the files to be kept: those from which the stream goes on to `first` without a gap, up to `bytes_max`.
fn kept_history(history: &[Entry], first: Option<u64>, bytes_max: u64) -> Vec<String> {
    let (mut kept, mut bytes, mut next) = (Vec::new(), 0, first);
    while let Some(start) = next {
        let goes_on = |entry: &&Entry| entry.end_offset == Some(start) && entry.is_exact();
        let fresh = |entry: &&Entry| !kept.contains(&entry.name) && entry.kind == Kind::History;
        let Some(entry) = history.iter().filter(goes_on).find(fresh) else { break };
        bytes += entry.closed_bytes().unwrap_or(0);
        if bytes > bytes_max {
            break;
        }
        kept.push(entry.name.clone());
        next = entry.start_offset;
    }
    kept
}
