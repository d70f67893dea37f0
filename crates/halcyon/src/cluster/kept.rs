//! What a node remembers of its cluster from one start to the next, in `cluster-config-file`: which cluster it is, and the
//! highest revision that it has seen, so that another cluster under the same name, and an etcd that was restored from an old
//! backup, are noticed; and which epoch's primary wrote the log, so that a log that is longer, but void, is known.
//!
//! The file stays one that Redis reads: this is three more words, with their values, in the line of its variables.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

/// Words of the line of variables.
const CLUSTER: &str = "halcyon-cluster";
const REVISION: &str = "halcyon-revision";
const LOG_EPOCH: &str = "halcyon-log-epoch";
const EPOCH: &str = "currentEpoch";

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// [`cluster::records::ClusterRecord::id`]; None: it has been in none.
    pub cluster: Option<String>,
    /// The highest revision of etcd.
    pub revision: u64,
    /// The highest epoch.
    pub epoch: u64,
    /// The newest epoch whose primary wrote, or has seen to be equal, what the log holds.
    pub log_epoch: u64,
}

/// The file.
#[derive(Clone, Debug)]
pub struct Kept {
    path: PathBuf,
    /// Held by who writes it.
    writing: Arc<Mutex<()>>,
    /// What was to be remembered last is not.
    has_failed: Arc<AtomicBool>,
}

impl Kept {
    /// The file of this path.
    pub fn at(path: PathBuf) -> Kept {
        Kept { path, writing: Arc::default(), has_failed: Arc::default() }
    }

    /// True if what was to be remembered last could not be written.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// What it remembers; nothing if it is not there.
    pub fn load(&self) -> Result<Memory, String> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Memory::default()),
            Err(error) => Err(format!("Can't read {}: {error}", self.path.display())),
        }
    }

    /// Writes this in place of what it remembers. The rest stays.
    pub fn save(&self, memory: &Memory) -> Result<(), String> {
        let _writing = self.writing.lock();
        let written = || -> io::Result<()> {
            let text = match std::fs::read_to_string(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                text => text.unwrap_or_default(),
            };
            // Renamed into place, so that a crash leaves no half of it.
            let part = self.path.with_added_extension("part");
            let mut file = std::fs::File::create(&part)?;
            file.write_all(replaced(&text, memory).as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, &self.path)
        };
        let saved = written();
        self.has_failed.store(saved.is_err(), Relaxed);
        saved.map_err(|error| format!("Can't write {}: {error}", self.path.display()))
    }
}

fn parse(text: &str) -> Memory {
    let mut memory = Memory::default();
    let Some(line) = text.lines().find(|line| line.starts_with("vars ")) else { return memory };
    let mut words = line.split_ascii_whitespace().skip(1);
    while let Some((name, value)) = words.next().zip(words.next()) {
        match name {
            CLUSTER => memory.cluster = Some(value.to_owned()),
            REVISION => memory.revision = value.parse().unwrap_or(0),
            LOG_EPOCH => memory.log_epoch = value.parse().unwrap_or(0),
            EPOCH => memory.epoch = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    memory
}

/// The text with other variables.
fn replaced(text: &str, memory: &Memory) -> String {
    let nodes: String = text
        .lines()
        .filter(|line| !line.starts_with("vars ") && !line.trim().is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    let cluster = memory.cluster.as_ref().map(|id| format!(" {CLUSTER} {id}")).unwrap_or_default();
    let Memory { revision, epoch, log_epoch, .. } = memory;
    format!(
        "{nodes}vars {EPOCH} {epoch} lastVoteEpoch 0{cluster} {REVISION} {revision} {LOG_EPOCH} {log_epoch}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_known() {
        let directory = std::env::temp_dir().join(format!("halcyon-kept-{}", std::process::id()));
        let kept = Kept::at(directory.join("nodes.conf"));
        let memory = Memory { cluster: Some("c".repeat(40)), revision: 7, epoch: 3, log_epoch: 2 };
        assert!(!kept.has_failed());
        assert!(kept.save(&memory).is_err_and(|error| error.contains("nodes.conf")));
        assert!(kept.clone().has_failed(), "whoever asks");
        std::fs::create_dir(&directory).expect("a directory");
        assert_eq!((kept.save(&memory), kept.has_failed()), (Ok(()), false));
        assert_eq!(kept.load(), Ok(memory));
        std::fs::remove_dir_all(&directory).expect("the test's own directory");
    }

    #[test]
    fn what_is_remembered_is_read_as_it_is_written() {
        let node = format!("{} :0@0 myself,master - 0 0 0 connected 0-16383\n", "a".repeat(40));
        let before = format!("{node}vars currentEpoch 0 lastVoteEpoch 0\n");
        assert_eq!(parse(&before), Memory::default());
        let memory = Memory { cluster: Some("c".repeat(40)), revision: 77, epoch: 3, log_epoch: 2 };
        let after = replaced(&before, &memory);
        assert_eq!(parse(&after), memory);
        assert!(after.starts_with(&node), "the node's line stays: {after}");
        assert_eq!(after.lines().count(), 2);
        assert_eq!(parse(&replaced(&after, &Memory::default())), Memory::default());
    }
}
