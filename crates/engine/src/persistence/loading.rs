//! Loading: keys into an empty keyspace, and how far it is.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rdb::KeyFacts;
use store::{Instant, Locked, OwnedEntry, OwnedValue, Value, access};

use super::IS_LOADING;
use crate::server::Server;

/// What is loaded, and how far it is. All of it is 0 when nothing is.
#[derive(Default)]
pub struct Loading {
    /// Unix seconds of the beginning.
    pub started_at_s: AtomicI64,
    /// Bytes of the file, and those that were read.
    pub total_bytes: AtomicU64,
    /// As above.
    pub loaded_bytes: AtomicU64,
    /// Keys of the last load.
    pub keys_loaded: AtomicU64,
    /// Keys of the last load that had ended before it.
    pub keys_expired: AtomicU64,
    /// The file is an instant of a stream, which replicas go on with: they still have what ended since.
    pub is_of_stream: AtomicBool,
    /// What had ended, by database and name, if it is.
    pub(crate) expired_keys: Mutex<Vec<(usize, Vec<u8>)>>,
}

/// What became of some keys of a file.
#[derive(Default)]
struct Counts {
    loaded: u64,
    expired: u64,
}

impl Loading {
    fn add(&self, counts: Counts) {
        self.keys_loaded.fetch_add(counts.loaded, Relaxed);
        self.keys_expired.fetch_add(counts.expired, Relaxed);
    }
}

/// A key of a file.
pub struct LoadedKey {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Vec<u8>,
    /// Its value; an empty collection stands for no key, unless it is a stream.
    pub value: OwnedValue,
    /// Its end and its use.
    pub facts: KeyFacts,
}

impl Server {
    /// From now on commands on the data are refused, until [`Server::end_loading`].
    pub fn begin_loading(&self, total_bytes: u64) {
        let loading = &self.persistence.loading;
        loading.started_at_s.store(self.clock.now().unix_ms / 1000, Relaxed);
        loading.total_bytes.store(total_bytes, Relaxed);
        for counter in [&loading.loaded_bytes, &loading.keys_loaded, &loading.keys_expired] {
            counter.store(0, Relaxed);
        }
        loading.is_of_stream.store(false, Relaxed);
        self.persistence.refuse(IS_LOADING, true);
    }

    /// Everything is served.
    pub fn end_loading(&self) {
        self.persistence.loading.expired_keys.lock().clear();
        self.persistence.changes_saved.store(self.total(|stats| &stats.dirty), Relaxed);
        self.persistence.refuse(IS_LOADING, false);
    }

    /// Empties the server, functions included, without telling anybody: other data takes the place of what it has.
    pub fn forget_data(&self) {
        let _long = self.keyspace.hold_long();
        self.keyspace.lock_all().flush(None);
        self.scripting.functions.flush();
    }

    /// Stores keys of a file; any number of threads may. Those that have ended are left out.
    pub fn load_keys(&self, keys: &mut Vec<LoadedKey>, now_ms: i64) {
        let mut counts = Counts::default();
        for key in keys.drain(..) {
            let mut locked = self.keyspace.lock(self.keyspace.position(&key.key));
            self.load_key(&mut locked, key, now_ms, &mut counts);
        }
        self.persistence.loading.add(counts);
    }

    /// As [`Server::load_keys`], for a caller that holds every stripe. A key that is there already is replaced, or is an
    /// error.
    pub fn load_keys_held(
        &self,
        held: &mut Locked<'_>,
        keys: &mut Vec<LoadedKey>,
        now_ms: i64,
        replaces: bool,
    ) -> Result<(), String> {
        let mut counts = Counts::default();
        for key in keys.drain(..) {
            let position = self.keyspace.position(&key.key);
            let at = Instant { now_ms, touch: None };
            if !replaces && held.get(key.db, position, &key.key, at).is_some() {
                return Err(format!(
                    "key {} of database {} is there already",
                    key.key.escape_ascii(),
                    key.db
                ));
            }
            self.load_key(held, key, now_ms, &mut counts);
        }
        self.persistence.loading.add(counts);
        Ok(())
    }

    /// Stores a key, whose stripe is held.
    fn load_key(&self, locked: &mut Locked<'_>, key: LoadedKey, now_ms: i64, counts: &mut Counts) {
        let LoadedKey { db, key, value, facts } = key;
        // A replica leaves it to its primary to say when a key is gone.
        if facts.expire_at_ms.is_some_and(|at| at < now_ms) && !self.keyspace.keeps_expired() {
            counts.expired += 1;
            let loading = &self.persistence.loading;
            if self.persistence.is_loading() && loading.is_of_stream.load(Relaxed) {
                loading.expired_keys.lock().push((db, key));
            }
            return;
        }
        // A stream may have lost all its entries and still be one.
        let has_elements = |value: &Value| matches!(value, Value::Stream(_)) || !value.is_empty();
        if matches!(&value, OwnedValue::Object(value) if !has_elements(value)) {
            return;
        }
        let position = self.keyspace.position(&key);
        let entry = OwnedEntry { value, expire_at_ms: facts.expire_at_ms };
        locked.put_owned(db, position, &key, &entry, Instant { now_ms, touch: None });
        let by_frequency = self.config.hot().maxmemory_policy().judges_by_frequency();
        let clock = match (facts.frequency, facts.idle_s) {
            (Some(count), _) if by_frequency => Some(access::frequency(count, now_ms)),
            (_, Some(idle_s)) if !by_frequency => {
                Some(access::idle_for(u32::try_from(idle_s).unwrap_or(u32::MAX), now_ms))
            }
            _ => None,
        };
        if let Some(clock) = clock {
            locked.set_clock(db, position, &key, clock, now_ms);
        }
        counts.loaded += 1;
    }
}
