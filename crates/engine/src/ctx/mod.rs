//! What a running command may touch.
//!
//! The stripes of its keys are held while it runs; so whatever it does appears as one. Invariant
//! *declared-keys*: a command touches only keys that its row's key specs name.

mod nested;
mod stripes;

use base::clock::Now;
use base::limits::BYTES_PER_ELEMENT_OF_WORK;
use store::entry::{Form, Payload};
use store::{
    Expiry, Frequency, Instant, Kind, Locked, LongString, OwnedEntry, Position, Thresholds, Touch, Typed,
    Value, ValueRef, View,
};

use crate::fault::{CmdResult, Fault};
use crate::lane::{Deferred, Lane, Line};
use crate::pubsub::EventMask;
use crate::server::Server;
use crate::session::Session;
use crate::stats::WorkerStats;
use crate::value::Str;
use crate::worker::Worker;

/// A class of keyspace events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Event {
    Generic,
    String,
    List,
    Set,
    Hash,
    ZSet,
    Stream,
    Expired,
    Evicted,
    KeyMiss,
    New,
}

/// What a running command may touch.
pub struct Ctx<'a> {
    server: &'a Server,
    worker: &'a mut Worker,
    session: &'a mut Session,
    locked: Option<Locked<'a>>,
    /// The key whose position is known already: the argument itself, which outlives this, and no other with its text.
    hashed: Option<(*const [u8], Position)>,
    mode: Mode,
}

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Its connection's, by itself.
    Single,
    /// Its connection's, as a part of a transaction or a script.
    Nested,
    /// A client's that waits: the stripes are those of the command that brought it on.
    Serving,
}

impl<'a> Ctx<'a> {
    /// A context that holds `locked`. `hashed`: a key whose position is known.
    #[inline]
    pub(crate) fn new(
        server: &'a Server,
        worker: &'a mut Worker,
        session: &'a mut Session,
        locked: Option<Locked<'a>>,
        hashed: Option<(&'a [u8], Position)>,
    ) -> Ctx<'a> {
        let hashed = hashed.map(|(key, position)| (std::ptr::from_ref(key), position));
        Ctx { server, worker, session, locked, hashed, mode: Mode::Single }
    }

    /// What all workers share.
    #[inline]
    pub fn server(&self) -> &'a Server {
        self.server
    }

    /// The connection.
    #[inline]
    pub fn session(&mut self) -> &mut Session {
        self.session
    }

    /// The connection, to look at.
    #[inline]
    pub fn session_ref(&self) -> &Session {
        self.session
    }

    pub(crate) fn worker(&mut self) -> &mut Worker {
        self.worker
    }

    pub(crate) fn worker_and_session_mut(&mut self) -> (&mut Worker, &mut Session) {
        (self.worker, self.session)
    }

    pub(crate) fn worker_and_session(&mut self) -> (&mut Worker, &Session) {
        (self.worker, self.session)
    }

    /// The worker's counters.
    #[inline]
    pub fn stats(&self) -> &WorkerStats {
        &self.worker.stats
    }

    /// The instant of the command.
    #[inline]
    pub fn now(&self) -> Now {
        self.worker.now
    }

    /// The instant of the command in unix milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.worker.now.unix_ms
    }

    /// The instant, in unix milliseconds, that decides what has ended. Of the commands of a primary's stream nothing has:
    /// the primary itself says what is gone.
    #[inline]
    pub fn ends_now_ms(&self) -> i64 {
        if self.worker.copies_primary { i64::MIN } else { self.worker.now.unix_ms }
    }

    /// True if what runs is a primary's stream, or an append-only file, which says what has happened.
    #[inline]
    pub fn repeats_effects(&self) -> bool {
        self.worker.copies_primary || self.worker.wall_ms_ahead > 0
    }

    /// True if reads leave what has ended in its place, since this server's primary will say that it is gone.
    #[inline]
    pub fn keeps_expired(&self) -> bool {
        self.server.keyspace.keeps_expired()
    }

    /// What clocks show in unix milliseconds: the instant of the command, unless that is taken to be long ago
    /// ([`crate::persistence::replaying`]). For what is shown and never ends anything.
    #[inline]
    pub fn wall_ms(&self) -> i64 {
        self.worker.now.unix_ms + self.worker.wall_ms_ahead
    }

    /// The worker's randomness.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.worker.rng
    }

    /// The connection's database.
    #[inline]
    pub fn db(&self) -> usize {
        self.session.db
    }

    /// Encoding thresholds.
    #[inline]
    pub fn thresholds(&self) -> Thresholds {
        self.server.thresholds()
    }

    #[inline]
    pub(crate) fn position(&self, key: &[u8]) -> Position {
        match self.hashed {
            Some((hashed, position)) if std::ptr::eq(hashed, key) => position,
            _ => self.server.keyspace.position(key),
        }
    }

    /// The instant for a lookup that counts as an access.
    #[inline]
    fn touching(&mut self) -> Instant {
        let (hot, spare) = (self.server.config.hot(), self.session.no_touch);
        let touch = if hot.maxmemory_policy().judges_by_frequency() {
            let chance = (!spare).then(|| self.worker.rng.u32(..));
            let (log_factor, decay_min) = (hot.lfu_log_factor(), hot.lfu_decay_time_min());
            Some(Touch::Frequency(Frequency { chance, log_factor, decay_min }))
        } else {
            (!spare).then_some(Touch::Recency)
        };
        Instant { now_ms: self.worker.now.unix_ms, touch }
    }

    fn peeking(&self) -> Instant {
        Instant { now_ms: self.worker.now.unix_ms, touch: None }
    }

    #[inline]
    fn locked(&mut self) -> &mut Locked<'a> {
        self.locked.as_mut().expect("declared-keys: the command's row names no key")
    }

    /// What is held, by a command that holds every stripe.
    pub(crate) fn locked_all(&mut self) -> &mut Locked<'a> {
        let locked = self.locked();
        assert!(locked.covers_all(), "declared-keys: the command's row does not ask for all stripes");
        locked
    }

    /// The live entry of a key, counted as a hit or miss.
    #[inline]
    pub fn read_any(&mut self, key: &[u8]) -> Option<View<'_>> {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let locked = self.locked.as_mut().expect("declared-keys: the command's row names no key");
        let found = locked.get(db, position, key, at);
        self.worker.stats.count_lookup(found.is_some());
        if found.is_none() && self.server.config.hot().event_mask().contains(EventMask::KEY_MISS) {
            self.worker.effects.missed(db, key);
        }
        found
    }

    /// Counts a lookup that was made by [`Ctx::peek`] as a hit or miss, and tells of a miss.
    pub fn count_peek(&mut self, key: &[u8], is_found: bool) {
        self.worker.stats.count_lookup(is_found);
        if !is_found && self.server.config.hot().event_mask().contains(EventMask::KEY_MISS) {
            self.worker.effects.missed(self.session.db, key);
        }
    }

    /// The live entry of a key, not counted and not touched (OBJECT, TYPE of a write).
    pub fn peek(&mut self, key: &[u8]) -> Option<View<'_>> {
        let (db, position, at) = (self.db(), self.position(key), self.peeking());
        self.locked().get(db, position, key, at)
    }

    /// The type of a key's value.
    pub fn peek_kind(&mut self, key: &[u8]) -> Option<Kind> {
        self.peek(key).map(View::kind)
    }

    /// A collection, for reading. An error if the key holds another type.
    pub fn read<T: Typed>(&mut self, key: &[u8]) -> CmdResult<Option<&T>> {
        let Some(view) = self.read_any(key) else { return Ok(None) };
        match view.value() {
            ValueRef::Object(value) => T::of(value).map(Some).ok_or(Fault::WRONG_TYPE),
            ValueRef::Inline(_) => Err(Fault::WRONG_TYPE),
        }
    }

    /// A string, for reading. An error if the key holds another type.
    #[inline]
    pub fn read_str(&mut self, key: &[u8]) -> CmdResult<Option<Str<'_>>> {
        self.read_any(key).map(as_str).transpose()
    }

    /// As [`Ctx::read_str`], not counted as a hit or miss: for commands that write.
    pub fn peek_str(&mut self, key: &[u8]) -> CmdResult<Option<Str<'_>>> {
        self.peek(key).map(as_str).transpose()
    }

    /// Changes a collection that exists; it is deleted if it is left empty. An error if the key holds
    /// another type.
    pub fn edit<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> CmdResult<Option<R>> {
        let place = (self.db(), self.position(key), self.touching());
        self.edit_at(place, key, change).map(Result::ok)
    }

    /// As [`Ctx::edit`], on an empty collection if there is no key.
    pub fn edit_or_create<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> CmdResult<R> {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let change = match self.edit_at((db, position, at), key, change)? {
            Ok(result) => return Ok(result),
            Err(change) => change,
        };
        let mut value = T::default();
        let result = change(&mut value);
        if value.is_kept() {
            self.locked().put(db, position, key, Payload::Object(value.into_value()), Expiry::Clear, at);
        }
        Ok(result)
    }

    /// Changes a collection that exists; gives `change` back if there is none.
    #[inline]
    fn edit_at<T: Typed, R, F: FnOnce(&mut T) -> R>(
        &mut self,
        (db, position, at): (usize, Position, Instant),
        key: &[u8],
        change: F,
    ) -> CmdResult<Result<R, F>> {
        let locked = self.locked();
        let Some(value) = locked.get_mut(db, position, key, at) else { return Ok(Err(change)) };
        let value = value.and_then(T::of_mut).ok_or(Fault::WRONG_TYPE)?;
        let end_before = value.soonest_end_ms();
        let result = change(value);
        let (end, emptied) = (value.soonest_end_ms(), !value.is_kept());
        locked.index_field_ends(db, position, end_before, end);
        if emptied {
            locked.remove(db, position, key, at.now_ms);
        }
        Ok(Ok(result))
    }

    /// Changes a long string in place; `None` if the key holds none (an inline string is none).
    pub fn edit_long<R>(&mut self, key: &[u8], change: impl FnOnce(&mut LongString) -> R) -> Option<R> {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        match self.locked().get_mut(db, position, key, at) {
            Some(Some(Value::Str(long))) => Some(change(long)),
            _ => None,
        }
    }

    /// Replaces whatever the key holds; its time to live is removed. An empty collection deletes it.
    pub fn put<T: Typed>(&mut self, key: &[u8], value: T) {
        if !value.is_kept() {
            self.delete(key);
            return;
        }
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        self.locked().put(db, position, key, Payload::Object(value.into_value()), Expiry::Clear, at);
    }

    /// Stores a string, replacing whatever the key holds.
    #[inline]
    pub fn put_str(&mut self, key: &[u8], value: &[u8], expiry: Expiry) {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        self.locked().put_string(db, position, key, value, Form::Plain, expiry, at);
    }

    /// Stores a string that was edited in place: its encoding is `raw`, its time to live stays.
    pub fn put_raw_str(&mut self, key: &[u8], value: &[u8]) {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        self.locked().put_string(db, position, key, value, Form::Raw, Expiry::Keep, at);
    }

    /// Stores the text of a float: its encoding is never `int`, its time to live stays.
    pub fn put_float_str(&mut self, key: &[u8], value: &[u8]) {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        self.locked().put_string(db, position, key, value, Form::Text, Expiry::Keep, at);
    }

    /// Deletes a key; a big value is freed elsewhere.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let (db, position, now_ms) = (self.db(), self.position(key), self.now_ms());
        self.locked().remove(db, position, key, now_ms)
    }

    /// True if the key exists; counted as a hit or miss, and touched.
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.read_any(key).is_some()
    }

    /// The key's end in unix milliseconds: `None` for no key, `Some(None)` for no end.
    pub fn expire_at_ms(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.peek(key).map(View::expire_at_ms)
    }

    /// Sets or removes the key's end; false if there is no key.
    pub fn set_expire_at_ms(&mut self, key: &[u8], expire_at_ms: Option<i64>) -> bool {
        let (db, position, now_ms) = (self.db(), self.position(key), self.now_ms());
        self.locked().set_expire_at_ms(db, position, key, expire_at_ms, now_ms)
    }

    /// Takes a key of this database out, with its time to live.
    pub fn take(&mut self, key: &[u8]) -> Option<OwnedEntry> {
        let (db, position, now_ms) = (self.db(), self.position(key), self.now_ms());
        self.locked().take(db, position, key, now_ms)
    }

    /// Sets when or how often a key was used (see [`store::access`]), where a command is told; false if there is no
    /// key.
    pub fn set_access_clock(&mut self, key: &[u8], clock: u32) -> bool {
        let (db, position, now_ms) = (self.db(), self.position(key), self.now_ms());
        self.locked().set_clock(db, position, key, clock, now_ms)
    }

    /// A copy of a key's value and time to live, in any database; O(1).
    pub fn read_entry(&mut self, db: usize, key: &[u8]) -> Option<OwnedEntry> {
        let (position, at) = (self.position(key), self.peeking());
        self.locked().get(db, position, key, at).map(View::to_owned)
    }

    /// True if the key exists in a database; neither counted nor touched.
    pub fn exists_in(&mut self, db: usize, key: &[u8]) -> bool {
        let (position, at) = (self.position(key), self.peeking());
        self.locked().get(db, position, key, at).is_some()
    }

    /// Stores a value with its time to live, in any database.
    pub fn put_entry(&mut self, db: usize, key: &[u8], entry: &OwnedEntry) {
        let (position, at) = (self.position(key), self.touching());
        self.locked().put_owned(db, position, key, entry, at);
    }

    /// As [`Ctx::put_entry`], of a value that takes the place of whatever the key holds: the key counts as made anew.
    pub fn put_in_place(&mut self, db: usize, key: &[u8], entry: &OwnedEntry) {
        if self.server.config.hot().event_mask().contains(EventMask::NEW) && self.exists_in(db, key) {
            self.locked().note_created(db, key);
        }
        self.put_entry(db, key, entry);
    }

    /// What it takes to visit all of the value at a key, in elements of a collection; neither counted nor touched.
    pub(crate) fn work_in(&mut self, db: usize, key: &[u8]) -> usize {
        let (position, at) = (self.position(key), self.peeking());
        match self.locked().get(db, position, key, at).map(View::value) {
            Some(ValueRef::Object(Value::Str(long))) => long.len() / BYTES_PER_ELEMENT_OF_WORK,
            Some(ValueRef::Object(value)) => value.len(),
            Some(ValueRef::Inline(_)) | None => 0,
        }
    }

    /// Looks at a key that the command's row does not name, whether its stripe is held or not.
    pub(crate) fn visit<R>(&mut self, db: usize, key: &[u8], look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let (position, at) = (self.server.keyspace.position(key), self.peeking());
        match &mut self.locked {
            Some(locked) if locked.covers(position) => look(locked.get(db, position, key, at)),
            _ => {
                let mut locked = self.server.keyspace.lock(position);
                let result = look(locked.get(db, position, key, at));
                for expired in locked.take_expired() {
                    self.server.key_lost(db, &expired.key, &[(Event::Expired, "expired")]);
                }
                result
            }
        }
    }

    /// The type of a key's value in a database; neither counted nor touched.
    pub(crate) fn kind_in(&mut self, db: usize, key: &[u8]) -> Option<Kind> {
        let (position, at) = (self.position(key), self.peeking());
        self.locked().get(db, position, key, at).map(View::kind)
    }

    /// Leaves the rest to the long lane: for work over inputs that would stall the worker's other
    /// connections. This connection waits; the job writes the reply. The command returns `Ok(())`. Inside a
    /// transaction or script the job runs at once.
    pub fn defer(&mut self, job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static) {
        self.worker.deferred = Some(Deferred {
            job: Box::new(job),
            session: self.session.snapshot(),
            call: None,
            words: None,
            observed: 0,
            slot: None,
            line: Line::Long,
        });
    }
}

#[inline]
fn as_str(view: View<'_>) -> CmdResult<Str<'_>> {
    match view.value() {
        ValueRef::Inline(bytes) => Ok(Str::Inline(bytes)),
        ValueRef::Object(Value::Str(long)) => Ok(Str::Long(long)),
        ValueRef::Object(_) => Err(Fault::WRONG_TYPE),
    }
}
