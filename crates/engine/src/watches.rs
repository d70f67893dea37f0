//! WATCH: which keys transactions depend on.
//!
//! A watched key has a counter that every write to it raises, under the key's stripe; a watcher remembers what it was. So a
//! write costs the same however many watch, and EXEC, which holds the stripes of all keys it watches, sees at once
//! whether one was written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::Mutex;
use store::key_hash;

const SHARDS: usize = 64;

/// A key that a connection watches.
pub struct Watch {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Box<[u8]>,
    counter: Arc<AtomicU64>,
    seen: u64,
}

impl Watch {
    /// True if the key was written since. Asked by who holds its stripe.
    pub fn is_touched(&self) -> bool {
        self.counter.load(Relaxed) != self.seen
    }
}

/// The keys that one connection watches: one word while there are none, as in nearly all connections.
#[derive(Default)]
#[expect(clippy::box_collection, reason = "an idle connection carries one word instead of three")]
pub struct Watching(Option<Box<Vec<Watch>>>);

impl Watching {
    /// Adds a key.
    pub fn push(&mut self, watch: Watch) {
        self.0.get_or_insert_default().push(watch);
    }

    /// Takes all out, for them to be unwatched.
    pub fn take(&mut self) -> Vec<Watch> {
        self.0.take().map_or_else(Vec::new, |watches| *watches)
    }
}

impl std::ops::Deref for Watching {
    type Target = [Watch];

    fn deref(&self) -> &[Watch] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// The counter of a key, and how many watch it.
struct Watched {
    counter: Arc<AtomicU64>,
    watchers: usize,
}

type Keys = Vec<HashMap<Box<[u8]>, Watched>>;

/// Every watched key, by hash, database and name.
pub struct Watches {
    shards: [Mutex<Keys>; SHARDS],
    keys: AtomicUsize,
}

impl Default for Watches {
    fn default() -> Watches {
        Watches { shards: [const { Mutex::new(Vec::new()) }; SHARDS], keys: AtomicUsize::new(0) }
    }
}

impl Watches {
    /// True if any key is watched.
    #[inline]
    pub fn any(&self) -> bool {
        self.keys.load(Relaxed) > 0
    }

    /// Keys that are watched.
    pub fn key_count(&self) -> usize {
        self.keys.load(Relaxed)
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Keys> {
        &self.shards[key_hash(key) as usize % SHARDS]
    }

    /// Begins to watch a key, whose stripe the caller holds.
    pub fn watch(&self, db: usize, key: &[u8]) -> Watch {
        let mut shard = self.shard(key).lock();
        if shard.len() <= db {
            shard.resize_with(db + 1, HashMap::new);
        }
        let watched = shard[db].entry(key.into()).or_insert_with(|| {
            self.keys.fetch_add(1, SeqCst);
            Watched { counter: Arc::default(), watchers: 0 }
        });
        watched.watchers += 1;
        let counter = watched.counter.clone();
        Watch { db, key: key.into(), seen: counter.load(Relaxed), counter }
    }

    /// Ends the watches of a connection.
    pub fn end(&self, watches: Vec<Watch>) {
        watches.into_iter().for_each(|watch| self.unwatch(watch));
    }

    fn unwatch(&self, watch: Watch) {
        let mut shard = self.shard(&watch.key).lock();
        let Some(watched) = shard[watch.db].get_mut(&watch.key) else { return };
        watched.watchers -= 1;
        if watched.watchers == 0 {
            shard[watch.db].remove(&watch.key);
            self.keys.fetch_sub(1, SeqCst);
        }
    }

    /// A key was written; the caller holds its stripe.
    pub fn touch(&self, db: usize, key: &[u8]) {
        if let Some(watched) = self.shard(key).lock().get(db).and_then(|keys| keys.get(key)) {
            watched.counter.fetch_add(1, Relaxed);
        }
    }

    /// The watched keys of a database. O(watched keys): for FLUSHALL and SWAPDB.
    pub fn watched_in(&self, db: usize) -> Vec<Box<[u8]>> {
        let in_shard = |shard: &Mutex<Keys>| {
            shard.lock().get(db).map(|keys| keys.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
        };
        self.shards.iter().flat_map(in_shard).collect()
    }
}
