//! Loading: keys into an empty keyspace, and how far it is.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use rdb::KeyFacts;
use store::{Instant, OwnedEntry, OwnedValue, Value, access};

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
        self.persistence.refuse(IS_LOADING, true);
    }

    /// Everything is served.
    pub fn end_loading(&self) {
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
        let loading = &self.persistence.loading;
        let by_frequency = self.config.hot().maxmemory_policy().judges_by_frequency();
        let (mut loaded, mut expired) = (0, 0);
        for LoadedKey { db, key, value, facts } in keys.drain(..) {
            // A replica leaves it to its primary to say when a key is gone.
            if facts.expire_at_ms.is_some_and(|at| at < now_ms) && !self.keyspace.keeps_expired() {
                expired += 1;
                continue;
            }
            // A stream may have lost all its entries and still be one.
            let has_elements = |value: &Value| matches!(value, Value::Stream(_)) || !value.is_empty();
            if matches!(&value, OwnedValue::Object(value) if !has_elements(value)) {
                continue;
            }
            let position = self.keyspace.position(&key);
            let mut locked = self.keyspace.lock(position);
            let entry = OwnedEntry { value, expire_at_ms: facts.expire_at_ms };
            locked.put_owned(db, position, &key, &entry, Instant { now_ms, touch: None });
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
            loaded += 1;
        }
        loading.keys_loaded.fetch_add(loaded, Relaxed);
        loading.keys_expired.fetch_add(expired, Relaxed);
    }
}
