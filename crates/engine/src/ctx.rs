//! What a running command may touch.
//!
//! The stripes of its keys are held while it runs; so whatever it does appears as one. Invariant
//! *declared-keys*: a command touches only keys that its row's key specs name.

use base::clock::Now;
use store::entry::{Form, Payload};
use store::{
    Expiry, Instant, Kind, Locked, LongString, OwnedEntry, Position, Thresholds, Typed, Value, ValueRef, View,
};

use crate::fault::{CmdResult, Fault};
use crate::lane::{Deferred, Lane};
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
}

/// What a running command may touch.
pub struct Ctx<'a> {
    server: &'a Server,
    worker: &'a mut Worker,
    session: &'a mut Session,
    locked: Option<Locked<'a>>,
    /// The first key with its position, which the dispatcher has computed already.
    hashed: Option<(&'a [u8], Position)>,
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
        Ctx { server, worker, session, locked, hashed }
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
    fn position(&self, key: &[u8]) -> Position {
        match self.hashed {
            Some((hashed, position)) if std::ptr::eq(hashed, key) => position,
            _ => self.server.keyspace.position(key),
        }
    }

    /// The instant for a lookup that counts as an access.
    #[inline]
    fn touching(&self) -> Instant {
        let touch = (!self.session.no_touch).then_some(self.worker.access_clock);
        Instant { now_ms: self.worker.now.unix_ms, touch }
    }

    fn peeking(&self) -> Instant {
        Instant { now_ms: self.worker.now.unix_ms, touch: None }
    }

    #[inline]
    fn locked(&mut self) -> &mut Locked<'a> {
        self.locked.as_mut().expect("declared-keys: the command's row names no key")
    }

    /// The live entry of a key, counted as a hit or miss.
    #[inline]
    pub fn read_any(&mut self, key: &[u8]) -> Option<View<'_>> {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let locked = self.locked.as_mut().expect("declared-keys: the command's row names no key");
        let found = locked.get(db, position, key, at);
        self.worker.stats.count_lookup(found.is_some());
        found
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
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let now_ms = at.now_ms;
        let locked = self.locked();
        let Some(value) = locked.get_mut(db, position, key, at) else { return Ok(None) };
        let value = value.and_then(T::of_mut).ok_or(Fault::WRONG_TYPE)?;
        let result = change(value);
        if !value.is_kept() {
            locked.remove(db, position, key, now_ms);
        }
        Ok(Some(result))
    }

    /// As [`Ctx::edit`], on an empty collection if there is no key.
    pub fn edit_or_create<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> CmdResult<R> {
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let now_ms = at.now_ms;
        let locked = self.locked();
        if let Some(value) = locked.get_mut(db, position, key, at) {
            let value = value.and_then(T::of_mut).ok_or(Fault::WRONG_TYPE)?;
            let result = change(value);
            if !value.is_kept() {
                locked.remove(db, position, key, now_ms);
            }
            return Ok(result);
        }
        let mut value = T::default();
        let result = change(&mut value);
        if value.is_kept() {
            locked.put(db, position, key, Payload::Object(value.into_value()), Expiry::Clear, at);
        }
        Ok(result)
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

    /// Tells that a key has changed: what keyspace events and the journal hang on.
    pub fn notify(&mut self, _class: Event, _name: &'static str, _key: &[u8]) {
        self.worker.stats.dirty.add(1);
    }

    /// Tells that `name` took elements out of the collection at a key, and that it is gone if that emptied it.
    pub fn notify_removed(&mut self, class: Event, name: &'static str, key: &[u8], emptied: bool) {
        self.notify(class, name, key);
        if emptied {
            self.notify(Event::Generic, "del", key);
        }
    }

    /// Leaves the rest to the long lane: for work over inputs that would stall the worker's other
    /// connections. This connection waits; the job writes the reply. The command returns `Ok(())`.
    pub fn defer(&mut self, job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static) {
        self.worker.deferred =
            Some(Deferred { job: Box::new(job), session: self.session.for_lane(), call: None });
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
