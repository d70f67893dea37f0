//! Saving: the snapshot, what stands in the file beside keys, and how it ended.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::clock::Now;
use journal::manifest::StreamEnd;
use rdb::{Accesses, Compression, RecordEncoder, SnapshotEncoder, VERSION_WITH_ENDS, VERSION_WRITTEN};
use store::{Locked, Snapshot};

use super::CANNOT_SAVE;
use crate::scripting::functions::LibrarySet;
use crate::server::{REDIS_VERSION, Server};

/// A snapshot to be written, with what goes into the file before its keys.
pub struct Save {
    /// The keys.
    pub snapshot: Snapshot,
    /// The file's beginning, up to the first key.
    pub head: Vec<u8>,
    compression: Compression,
    accesses: Accesses,
    /// The instant.
    now_ms: i64,
    /// As an offset of the log: what follows it changes what is saved here.
    pub log_offset: u64,
    pub(super) libraries: Arc<LibrarySet>,
    changes: u64,
}

/// A snapshot, with what else there was at its instant.
pub(crate) struct Instant {
    snapshot: Snapshot,
    now_ms: i64,
    log_offset: u64,
    place: Option<StreamPlace>,
    libraries: Arc<LibrarySet>,
    changes: u64,
    has_field_ends: bool,
}

/// Facts that say where in a stream the data are.
type StreamPlace = [(&'static str, String); 3];

/// What a snapshot is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SavePurpose {
    /// A file of its own.
    Snapshot = 1,
    /// The base of the append-only files, which go on in a new file.
    Rewrite,
    /// A replica, which is then sent the log.
    Sync,
}

impl SavePurpose {
    pub(super) const ALL: [SavePurpose; 3] = [SavePurpose::Snapshot, SavePurpose::Rewrite, SavePurpose::Sync];
}

/// Why there was no save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveError {
    /// One runs already.
    Busy,
    /// The disk's reason.
    Disk(String),
}

impl Save {
    /// What encodes the keys, or a part of them: each on a thread of its own.
    pub fn encoder<'a>(&'a self, server: &'a Server) -> SnapshotEncoder<'a> {
        SnapshotEncoder::new(&server.keyspace, &self.snapshot, self.compression, self.accesses, self.now_ms)
    }

    /// Notes how far the save is.
    pub fn note_progress(&self, server: &Server) {
        let state = &server.persistence;
        let total = state.keys_total.load(Relaxed);
        state.keys_written.store((total as f64 * self.snapshot.progress()) as u64, Relaxed);
        state.kept_peak_bytes.fetch_max(server.keyspace.kept_bytes() as u64, Relaxed);
    }
}

impl Server {
    /// Saves the data, on the calling thread and those of the host; returns once the file is safe.
    pub fn save(&self) -> Result<(), SaveError> {
        if !self.persistence.claim(SavePurpose::Snapshot, self.clock.now().unix_ms / 1000) {
            return Err(SaveError::Busy);
        }
        self.finish_save()
    }

    /// Has the host save the data on another thread: as they are now, for whoever holds every stripe, and else as they
    /// are when that thread comes to it.
    pub fn save_in_background(&self, held: Option<&Locked<'_>>) -> Result<(), SaveError> {
        if !self.persistence.claim(SavePurpose::Snapshot, self.clock.now().unix_ms / 1000) {
            return Err(SaveError::Busy);
        }
        // Whoever holds stripes does not wait for the gate (*gate-first*).
        if let (Some(held), Some(_gate)) = (held, self.replication.following.gate.try_lock()) {
            *self.persistence.begun.lock() = Some(self.take_instant(SavePurpose::Snapshot, held));
        }
        self.notice("Background saving started");
        self.host.save_in_background();
        Ok(())
    }

    /// Does what [`Server::save_in_background`] has announced.
    pub fn finish_save(&self) -> Result<(), SaveError> {
        let started = self.clock.now();
        let save = self.begin_save(SavePurpose::Snapshot);
        let result = self.host.save(self, &save);
        self.note_saved(&save, started, &result);
        self.persistence.let_go();
        result.map_err(SaveError::Disk)
    }

    /// Saves the data on the calling thread, which holds every stripe and has claimed the right to.
    pub(crate) fn save_held(&self, held: &mut Locked<'_>) -> Result<(), String> {
        let started = self.clock.now();
        let mut instant = self.take_instant(SavePurpose::Snapshot, held);
        if self.replication.following.is_replica() {
            // *gate-first*: the log may have a batch of the primary's stream that the data lack.
            instant.place = None;
        }
        let save = self.save_of(instant, SavePurpose::Snapshot);
        let result = self.host.save_held(self, &save, held);
        self.note_saved(&save, started, &result);
        result
    }

    fn note_saved(&self, save: &Save, started: Now, result: &Result<(), String>) {
        let (state, now_s) = (&self.persistence, started.unix_ms / 1000);
        let took_s = (self.clock.mono_us().saturating_sub(started.mono_us) / 1_000_000) as i64;
        state.last_took_s.store(took_s, Relaxed);
        state.refuse(CANNOT_SAVE, result.is_err());
        match result {
            Ok(()) => {
                state.changes_saved.store(save.changes, Relaxed);
                state.saved_at_s.store(now_s + took_s, Relaxed);
                state.saves.fetch_add(1, Relaxed);
                self.notice("DB saved on disk");
            }
            Err(reason) => {
                self.host.log(&format!(
                    "Saving failed: {reason}. It is tried again in 5 seconds, if save points ask for it."
                ));
            }
        }
    }

    /// Takes the snapshot, while every stripe is held for a moment, unless whoever asked for it has. The caller has
    /// claimed it.
    pub fn begin_save(&self, purpose: SavePurpose) -> Save {
        let begun = self.persistence.begun.lock().take();
        let instant = begun.unwrap_or_else(|| {
            let _gate = self.replication.following.gate.lock();
            let _long = self.keyspace.hold_long();
            let held = self.keyspace.lock_all();
            self.take_instant(purpose, &held)
        });
        self.save_of(instant, purpose)
    }

    /// The instant of a snapshot: now, with every stripe held.
    fn take_instant(&self, purpose: SavePurpose, held: &Locked<'_>) -> Instant {
        let now_ms = self.clock.now().unix_ms;
        let changes = self.total(|stats| &stats.dirty);
        let log_offset = match purpose {
            SavePurpose::Snapshot => self.log.end(),
            SavePurpose::Rewrite => self.log.begin_file(),
            SavePurpose::Sync => self.log.forget_db(),
        };
        let place = self.stream_facts(log_offset);
        let libraries = self.scripting.functions.current();
        let snapshot = self.keyspace.begin_snapshot(held).expect("one-save: whoever saves has claimed it");
        // Before anybody can change what is in the snapshot.
        let timed = |database: &store::SnapshotDb| self.keyspace.size(database.db, now_ms).timed_hashes > 0;
        let has_field_ends = snapshot.databases().iter().any(timed);
        Instant { snapshot, now_ms, log_offset, place, libraries, changes, has_field_ends }
    }

    fn save_of(&self, instant: Instant, purpose: SavePurpose) -> Save {
        let Instant { snapshot, now_ms, log_offset, place, libraries, changes, has_field_ends } = instant;
        let state = &self.persistence;
        state
            .keys_total
            .store(snapshot.databases().iter().map(|database| database.keys as u64).sum(), Relaxed);
        state.keys_written.store(0, Relaxed);
        state.kept_peak_bytes.store(0, Relaxed);
        let version = if has_field_ends { VERSION_WITH_ENDS } else { VERSION_WRITTEN };
        let compression = match self.config.bool("rdbcompression") {
            true => Compression::On,
            false => Compression::Off,
        };
        let mut head = Vec::new();
        RecordEncoder::begin(&mut head, version);
        let mut records = RecordEncoder::new(compression);
        let facts = [
            ("redis-ver", REDIS_VERSION.to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", (now_ms / 1000).to_string()),
            ("used-mem", store::alloc::used_bytes().to_string()),
            ("aof-base", u8::from(purpose == SavePurpose::Rewrite).to_string()),
        ];
        for (name, value) in facts.into_iter().chain(place.into_iter().flatten()) {
            records.aux(&mut head, name.as_bytes(), value.as_bytes());
        }
        for library in libraries.libraries.values() {
            records.function(&mut head, &library.source);
        }
        for database in snapshot.databases() {
            RecordEncoder::select(&mut head, database.db as u64);
            RecordEncoder::resize(&mut head, database.keys as u64, database.expires as u64);
        }
        Save {
            snapshot,
            head,
            compression,
            accesses: self.accesses(),
            now_ms,
            log_offset,
            libraries,
            changes,
        }
    }

    /// What a snapshot of this instant says of the stream.
    fn stream_facts(&self, log_offset: u64) -> Option<StreamPlace> {
        let StreamEnd { id, offset, db } = self.stream_end(log_offset)?;
        Some([("repl-stream-db", db.to_string()), ("repl-id", id), ("repl-offset", offset.to_string())])
    }

    /// Where in a stream the data of this instant are, so that who loads them may go on from there; nothing if no stream
    /// has all changes. The log ends at `log_offset`, and the caller holds the gate of [`crate::replication::replica`].
    pub fn stream_end(&self, log_offset: u64) -> Option<StreamEnd> {
        let following = &self.replication.following;
        let db = match following.is_replica() {
            true => following.stream_db() as u32,
            false => self.log.db().unwrap_or(0),
        };
        let id = self.replication.ids.lock().id.clone();
        let is_told = self.is_log_kept() && following.is_exact();
        is_told.then_some(StreamEnd { id, offset: log_offset, db })
    }

    /// What the eviction policy goes by is saved with each key.
    fn accesses(&self) -> Accesses {
        let policy = self.config.hot().maxmemory_policy();
        if policy.judges_by_frequency() {
            Accesses::Frequency { decay_min: self.config.hot().lfu_decay_time_min() }
        } else if policy.judges_by_recency() {
            Accesses::Idle
        } else {
            Accesses::Untold
        }
    }
}
