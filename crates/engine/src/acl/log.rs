//! What was refused to whom: ACL LOG.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Reason;

/// Refusals of the same kind within this time are one entry.
const MERGED_WITHIN_MS: i64 = 60_000;
/// Entries that are looked through for one of the same kind.
const MERGE_CANDIDATES: usize = 10;

/// Where a refused command came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A client sent it.
    TopLevel,
    /// It stands in a transaction.
    Multi,
    /// A script called it.
    Script,
}

impl Context {
    /// The word in ACL LOG.
    pub fn word(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// A refusal, or several that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// How often it happened.
    pub count: u64,
    /// What was missing.
    pub reason: Reason,
    /// Where the command came from.
    pub context: Context,
    /// The command, key or channel that was refused.
    pub object: Vec<u8>,
    /// Who asked.
    pub user: Arc<[u8]>,
    /// The connection of the last time, as CLIENT INFO describes it.
    pub client: String,
    /// The first time, in unix milliseconds.
    pub created_ms: i64,
    /// The last time, likewise.
    pub updated_ms: i64,
}

impl Entry {
    fn is_like(&self, other: &Entry) -> bool {
        (self.reason, self.context) == (other.reason, other.context)
            && (self.updated_ms - other.updated_ms).abs() <= MERGED_WITHIN_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The log.
#[derive(Default)]
pub(super) struct Log(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    newest_first: VecDeque<Entry>,
    next_id: u64,
}

impl Log {
    /// Adds an entry, or counts it with one that is like it; keeps `len_max` entries.
    pub(super) fn push(&self, entry: Entry, len_max: usize) {
        let mut log = self.0.lock();
        let likely = log.newest_first.iter().take(MERGE_CANDIDATES);
        let known = likely.enumerate().find(|(_, known)| known.is_like(&entry)).map(|(at, _)| at);
        let merged = match known.filter(|_| len_max > 0).and_then(|at| log.newest_first.remove(at)) {
            Some(known) => {
                Entry { count: known.count + 1, client: entry.client, updated_ms: entry.updated_ms, ..known }
            }
            None => {
                let id = log.next_id;
                log.next_id += u64::from(len_max > 0);
                Entry { id, ..entry }
            }
        };
        log.newest_first.push_front(merged);
        log.newest_first.truncate(len_max);
    }

    /// The newest `count` entries.
    pub(super) fn newest(&self, count: usize) -> Vec<Entry> {
        self.0.lock().newest_first.iter().take(count).cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.0.lock().newest_first.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: i64) -> Entry {
        Entry {
            id: 0,
            count: 1,
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            user: b"bob"[..].into(),
            client: format!("at {at_ms}"),
            created_ms: at_ms,
            updated_ms: at_ms,
        }
    }

    #[test]
    fn alike_entries_are_counted_together() {
        let log = Log::default();
        log.push(entry("a", 0), 3);
        log.push(entry("b", 10), 3);
        log.push(entry("a", 60_000), 3);
        // Counted from the last time.
        log.push(entry("a", 120_001), 3);
        log.push(Entry { context: Context::Script, ..entry("a", 120_001) }, 3);
        let shown: Vec<_> =
            log.newest(10).into_iter().map(|e| (e.id, e.count, e.client, e.created_ms, e.context)).collect();
        assert_eq!(
            shown,
            [
                (3, 1, "at 120001".to_owned(), 120_001, Context::Script),
                (2, 1, "at 120001".to_owned(), 120_001, Context::TopLevel),
                (0, 2, "at 60000".to_owned(), 0, Context::TopLevel),
            ]
        );
        log.clear();
        log.push(entry("a", 120_001), 3);
        assert_eq!(log.newest(1)[0].id, 4, "numbers are not used twice");
        log.push(entry("a", 120_001), 0);
        assert_eq!(log.newest(1), []);
    }

    #[test]
    fn only_the_newest_few_are_looked_through() {
        let log = Log::default();
        for at in 0..=MERGE_CANDIDATES {
            log.push(entry(&at.to_string(), 0), 100);
        }
        log.push(entry("1", 1), 100);
        log.push(entry("0", 1), 100);
        let counts: Vec<u64> = log.newest(3).into_iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [1, 2, 1]);
    }
}
