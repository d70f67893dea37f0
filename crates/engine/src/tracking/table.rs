//! Which connection has read which key.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use store::key_hash;

const SHARDS: usize = 64;

type Readers = HashMap<Box<[u8]>, BTreeSet<u64>>;

/// Keys with the ids of the connections that have read them.
pub(super) struct Table {
    shards: [Mutex<Readers>; SHARDS],
    keys: AtomicUsize,
    items: AtomicUsize,
}

/// A key that had to make room, and who has to be told of it.
pub(super) struct Forgotten {
    pub(super) key: Box<[u8]>,
    pub(super) clients: BTreeSet<u64>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }
}

impl Table {
    pub(super) fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    pub(super) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Readers> {
        &self.shards[key_hash(key) as usize % SHARDS]
    }

    /// A connection has read a key. With more than `keys_max` keys (0: no limit), another makes room.
    pub(super) fn remember(&self, key: &[u8], client_id: u64, keys_max: usize) -> Option<Forgotten> {
        let mut readers = self.shard(key).lock();
        if let Some(clients) = readers.get_mut(key) {
            self.items.fetch_add(usize::from(clients.insert(client_id)), Relaxed);
            return None;
        }
        readers.insert(key.into(), BTreeSet::from([client_id]));
        self.items.fetch_add(1, Relaxed);
        if self.keys.fetch_add(1, Relaxed) < keys_max || keys_max == 0 {
            return None;
        }
        // Whichever key the map gives first is as good as one picked by chance.
        let victim = readers.keys().find(|other| ***other != *key).cloned();
        let victim = victim.unwrap_or_else(|| key.into());
        let clients = self.remove(&mut readers, &victim)?;
        Some(Forgotten { key: victim, clients })
    }

    fn remove(&self, readers: &mut Readers, key: &[u8]) -> Option<BTreeSet<u64>> {
        let clients = readers.remove(key)?;
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(clients.len(), Relaxed);
        Some(clients)
    }

    /// Forgets a key and returns who has read it.
    pub(super) fn take(&self, key: &[u8]) -> BTreeSet<u64> {
        if self.keys() == 0 {
            return BTreeSet::new();
        }
        self.remove(&mut self.shard(key).lock(), key).unwrap_or_default()
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let readers = std::mem::take(&mut *shard.lock());
            self.keys.fetch_sub(readers.len(), Relaxed);
            self.items.fetch_sub(readers.values().map(BTreeSet::len).sum(), Relaxed);
        }
    }
}
