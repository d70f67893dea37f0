//! What a running command may touch.
//!
//! The stripes of its keys are held while it runs; so whatever it does appears as one. Invariant
//! *declared-keys*: a command touches only keys that its row's key specs name.

use std::sync::atomic::Ordering::Relaxed;

use base::clock::Now;
use resp::Args;
use store::entry::{Form, Payload};
use store::{
    Expiry, Frequency, Instant, Kind, Locked, LongString, OwnedEntry, Position, Thresholds, Touch, Typed,
    Value, ValueRef, View,
};

use crate::acl;
use crate::blocking::{self, Block};
use crate::clients::Client;
use crate::fault::{CmdResult, Fault};
use crate::lane::{self, Deferred, Lane};
use crate::letter::Letter;
use crate::monitor;
use crate::pubsub::EventMask;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::stats::WorkerStats;
use crate::table::{CommandInfo, Flags};
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
    /// The first key with its position, which the dispatcher has computed already.
    hashed: Option<(&'a [u8], Position)>,
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
        let (db, position, at) = (self.db(), self.position(key), self.touching());
        let now_ms = at.now_ms;
        let locked = self.locked();
        let Some(value) = locked.get_mut(db, position, key, at) else { return Ok(None) };
        let value = value.and_then(T::of_mut).ok_or(Fault::WRONG_TYPE)?;
        let end_before = value.soonest_end_ms();
        let result = change(value);
        let (end, emptied) = (value.soonest_end_ms(), !value.is_kept());
        locked.index_field_ends(db, position, end_before, end);
        if emptied {
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
            let end_before = value.soonest_end_ms();
            let result = change(value);
            let (end, emptied) = (value.soonest_end_ms(), !value.is_kept());
            locked.index_field_ends(db, position, end_before, end);
            if emptied {
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

    /// Leaves the rest to the long lane: for work over inputs that would stall the worker's other
    /// connections. This connection waits; the job writes the reply. The command returns `Ok(())`. Inside a
    /// transaction or script the job runs at once.
    pub fn defer(&mut self, job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static) {
        self.worker.deferred = Some(Deferred {
            job: Box::new(job),
            session: self.session.snapshot(),
            call: None,
            is_script: false,
        });
    }
}

/// Stripes: what a command holds, and how it gets more of them.
impl<'a> Ctx<'a> {
    /// What is held, for walks over the whole keyspace, which lock what they visit otherwise.
    pub fn held(&self) -> Option<&Locked<'a>> {
        self.locked.as_ref()
    }

    pub(crate) fn held_mut(&mut self) -> Option<&mut Locked<'a>> {
        self.locked.as_mut()
    }

    pub(crate) fn worker(&mut self) -> &mut Worker {
        self.worker
    }

    /// Takes what the commands of a transaction or script are going to touch; false, with nothing held, if a
    /// stripe is held by somebody who may keep it for long. `None` is every stripe.
    pub(crate) fn hold(&mut self, stripes: Option<&mut Vec<usize>>) -> bool {
        debug_assert!(self.locked.is_none(), "lock-order: stripes are taken once");
        let keyspace = &self.server.keyspace;
        self.locked = match stripes {
            None => keyspace.lock_all_briefly(),
            Some(stripes) => keyspace.lock_stripes_briefly(stripes),
        };
        self.locked.is_some()
    }

    /// As [`Ctx::hold`], however long it takes: off the workers only.
    pub(crate) fn hold_patiently(&mut self, stripes: Option<&mut Vec<usize>>) {
        debug_assert!(self.locked.is_none(), "lock-order: stripes are taken once");
        let keyspace = &self.server.keyspace;
        self.locked = Some(match stripes {
            None => keyspace.lock_all(),
            Some(stripes) => keyspace.lock_stripes(stripes),
        });
    }

    /// Lets go of what [`Ctx::hold`] took.
    pub(crate) fn release(&mut self) {
        self.locked = None;
    }

    /// Has the command presented again later: a stripe that it needs is held for long. Nothing was done yet.
    pub(crate) fn come_again(&mut self) {
        self.worker.held_up = true;
    }

    /// As [`Ctx::defer`], on a thread for scripts.
    pub(crate) fn defer_script(&mut self, job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static) {
        self.defer(job);
        self.worker.deferred.iter_mut().for_each(|deferred| deferred.is_script = true);
    }

    /// Gives a key back what it held before a script that is given up wrote it.
    pub(crate) fn put_back(&mut self, db: usize, key: &[u8], before: Option<&OwnedEntry>) {
        match before {
            Some(entry) => self.put_entry(db, key, entry),
            None => {
                let (position, now_ms) = (self.position(key), self.now_ms());
                self.locked().remove(db, position, key, now_ms);
            }
        }
    }

    /// The stripes of a command's keys.
    pub(crate) fn stripes_of(&self, info: &CommandInfo, args: Args<'_>) -> Vec<usize> {
        let mut stripes = Vec::new();
        let keyspace = &self.server.keyspace;
        // Keys that cannot be told are the command's own error to report.
        let _ = info.each_key(args, &mut |index, _| stripes.push(keyspace.position(&args[index]).stripe()));
        stripes
    }

    /// Adds the stripes of a command's keys to those held, without waiting for any; false if one is not to be had, or if
    /// the command needs all.
    pub(crate) fn try_extend(&mut self, info: &CommandInfo, args: Args<'_>) -> bool {
        if self.locked.as_ref().is_some_and(Locked::covers_all) {
            return true;
        }
        if info.needs_all_stripes(args) || info.spec.flags.contains(Flags::WHOLE_KEYSPACE) {
            return false;
        }
        let stripes = self.stripes_of(info, args);
        match (&mut self.locked, stripes.is_empty()) {
            (_, true) => true,
            (Some(locked), false) => stripes.into_iter().all(|stripe| locked.try_add(stripe)),
            (None, false) => self.hold(Some(&mut stripes.clone())),
        }
    }
}

/// Commands within commands.
impl Ctx<'_> {
    /// True inside a transaction or a script: nothing may wait.
    pub fn is_nested(&self) -> bool {
        self.mode == Mode::Nested
    }

    /// True when the command runs on behalf of a client that waits.
    pub fn is_serving(&self) -> bool {
        self.mode == Mode::Serving
    }

    /// False if a command that finds nothing must answer at once, as if its time were over.
    pub fn may_block(&self) -> bool {
        self.mode != Mode::Nested
    }

    /// Has the connection wait for keys. The command replies nothing; it runs again when one may be ready. Not
    /// where [`Ctx::may_block`] says no.
    pub fn block(&mut self, block: Block<'_>) {
        match self.mode {
            Mode::Serving => self.worker.blocked_again = true,
            Mode::Single => self.worker.blocked = Some(blocking::enter(self, block)),
            Mode::Nested => unreachable!("nested-wait: a command inside a transaction cannot wait"),
        }
    }

    /// Has the connection wait, or answers as if its time were over where nothing may wait.
    pub fn block_or_time_out(&mut self, block: Block<'_>, reply: &mut Reply<'_>) {
        if self.may_block() {
            self.block(block);
        } else {
            block.on_timeout.write(&mut reply.encoder());
        }
    }

    /// Runs a command inside a transaction or script, under the stripes that are held. Its admission is the
    /// caller's to decide. A fault is not yet in the reply.
    pub(crate) fn call(&mut self, info: &CommandInfo, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        let started_us = self.server.clock.mono_us();
        let mode = std::mem::replace(&mut self.mode, Mode::Nested);
        let result = self.run_inline(info, args, reply);
        self.mode = mode;
        self.note_read(info, args);
        monitor::show(self.server, self.worker.now, self.session, info, args);
        let elapsed_us = self.server.clock.mono_us() - started_us;
        let stats = self.worker.stats.command(info.id);
        stats.record(elapsed_us * 1000, self.server.config.hot().latency_tracking());
        stats.failed.add(u64::from(result.is_err()));
        result
    }

    /// Remembers what a tracked connection has read.
    #[inline]
    pub(crate) fn note_read(&mut self, info: &CommandInfo, args: Args<'_>) {
        if self.session.tracking.is_some() && info.spec.flags.contains(Flags::READONLY) {
            let mut keys = Vec::new();
            let _ = info.each_key(args, &mut |index, _| keys.push(args.at(index)));
            self.remember_read(keys.into_iter());
        }
    }

    /// Runs a command, and what it wanted to leave to the long lane.
    fn run_inline(&mut self, info: &CommandInfo, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        (info.spec.run)(self, args, reply)?;
        match self.worker.deferred.take() {
            // A script that may still be given up is run again where a job may take its time.
            Some(_) if self.worker.gives_up_jobs => {
                self.worker.job_given_up = true;
                Ok(())
            }
            Some(deferred) => lane::run_inline(self, deferred.job, reply),
            None => Ok(()),
        }
    }

    /// Runs a command for a client that waits, as `session`; false if it would have to go on waiting. An error it
    /// meets is its reply.
    pub(crate) fn run_for(
        &mut self,
        session: &mut Session,
        info: &CommandInfo,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        std::mem::swap(self.session, session);
        let mode = std::mem::replace(&mut self.mode, Mode::Serving);
        let mark = reply.output().mark();
        // What the client was allowed when it began to wait, it may no longer be.
        let admitted = acl::admit(self.server, self.session, info, args, acl::Context::TopLevel);
        self.worker.stats.command(info.id).rejected.add(u64::from(admitted.is_err()));
        let result = admitted.and_then(|()| self.run_inline(info, args, reply));
        self.mode = mode;
        std::mem::swap(self.session, session);
        if let Err(fault) = result {
            self.count_error(&fault);
            reply.output().rewind(mark);
            reply.encoder().error_bytes(fault.bytes());
        }
        !std::mem::take(&mut self.worker.blocked_again)
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&mut self, fault: &Fault) {
        self.server.errors.count(fault.code());
        self.worker.stats.errors.add(1);
    }

    /// Elements of the collection at a key; neither counted nor touched.
    pub(crate) fn elements_in(&mut self, db: usize, key: &[u8]) -> usize {
        let (position, at) = (self.position(key), self.peeking());
        match self.locked().get(db, position, key, at).map(View::value) {
            Some(ValueRef::Object(Value::Str(_)) | ValueRef::Inline(_)) | None => 0,
            Some(ValueRef::Object(value)) => value.len(),
        }
    }

    /// Looks at a key that the command's row does not name, whether its stripe is held or not.
    pub(crate) fn visit<R>(&mut self, db: usize, key: &[u8], look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let (position, at) = (self.server.keyspace.position(key), self.peeking());
        match &mut self.locked {
            Some(locked) if locked.covers(position) => look(locked.get(db, position, key, at)),
            _ => look(self.server.keyspace.lock(position).get(db, position, key, at)),
        }
    }

    /// Sends a letter to a connection; one of this worker gets it after the turn.
    pub(crate) fn post(&mut self, client: &Client, letter: impl FnOnce(usize, u64) -> Letter) {
        if client.worker.load(Relaxed) == self.worker.index {
            self.worker.outbox.push(letter(client.token.load(Relaxed) as usize, client.id));
        } else {
            self.server.post(client, letter);
        }
    }

    /// The type of a key's value in a database; neither counted nor touched.
    pub(crate) fn kind_in(&mut self, db: usize, key: &[u8]) -> Option<Kind> {
        let (position, at) = (self.position(key), self.peeking());
        self.locked().get(db, position, key, at).map(View::kind)
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
