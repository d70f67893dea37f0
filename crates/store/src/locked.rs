//! Work under stripe locks: lookups, writes and times to live.
//!
//! A [`Locked`] holds some stripes. It may touch any key of those, in any database; a key of another
//! stripe is a bug of the caller and panics (*locked-set*).
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;

use crate::access::Touch;
use crate::encoding::Encoding;
use crate::entry::{Entry, Form, INLINE_BYTES_MAX, OwnedEntry, OwnedValue, Payload};
use crate::keyspace::{Database, Keyspace, Position, StripeState};
use crate::reaper::Garbage;
use crate::snapshot::{Change, Watched};
use crate::table::{self, TABLE_BYTES_PER_KEY};
use crate::value::{Kind, Value};
use crate::{LongString, keyspace::STRIPES};

/// The held locks, by ascending stripe.
pub(crate) enum Guards<'k> {
    One(usize, MutexGuard<'k, StripeState>),
    Many(Vec<(usize, MutexGuard<'k, StripeState>)>),
    All(Vec<MutexGuard<'k, StripeState>>),
}

/// Some stripes, held.
pub struct Locked<'k> {
    space: &'k Keyspace,
    guards: Guards<'k>,
    /// Keys found expired and removed, if [`Keyspace::report_expired`] asks for them.
    expired: Vec<Expired>,
    /// Keys that were made, if [`Keyspace::report_created`] asks for them.
    created: Vec<Created>,
    /// Keys past their end are found as if they were not.
    sees_expired: bool,
    /// The value that was lent for writing last, if a snapshot may have a clone of it.
    written: Option<Watched>,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.note_written();
    }
}

/// A key that ended by its time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Box<[u8]>,
}

/// A key that was not there before, or came in another's place by RENAME, COPY or RESTORE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Box<[u8]>,
}

/// What of a key has ended by its time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse<'a> {
    /// The key.
    Key,
    /// Fields of a hash.
    Fields {
        /// Which ones.
        fields: &'a [Box<[u8]>],
        /// They were the last ones: the key is gone too.
        emptied: bool,
    },
}

/// What happens to a key's time to live when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays as it is.
    Keep,
    /// It is removed.
    Clear,
    /// It becomes this unix time in milliseconds.
    At(i64),
}

/// The instant of an operation: what is expired, and what the access clock says.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// How the entry's access clock is marked, or `None` to leave it (CLIENT NO-TOUCH, OBJECT). What is stored
    /// without a touch is stamped by recency.
    pub touch: Option<Touch>,
}

impl Instant {
    /// Marks an entry that was looked up.
    #[inline]
    fn mark(self, entry: Entry) {
        if let Some(touch) = self.touch {
            entry.set_clock(touch.again(entry.clock(), self.now_ms));
        }
    }

    /// The clock of an entry that is stored, in place of one with the clock `old`.
    #[inline]
    fn stored(self, old: Option<u32>) -> u32 {
        let touch = self.touch.unwrap_or(Touch::Recency);
        old.map_or_else(|| touch.first(self.now_ms), |clock| touch.again(clock, self.now_ms))
    }
}

/// A live entry, seen under its lock.
#[derive(Clone, Copy)]
pub struct View<'a> {
    entry: Entry,
    _locked: PhantomData<&'a Value>,
}

/// The value of an entry.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// A string that lies in the entry.
    Inline(&'a [u8]),
    /// Any other value.
    Object(&'a Value),
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) fn new(entry: Entry) -> View<'a> {
        View { entry, _locked: PhantomData }
    }

    /// The value.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        // SAFETY: a View borrows the Locked mutably, or lives no longer than a scan's guard, for 'a: the
        // stripe stays locked, nothing frees or writes the entry, and `get_mut` cannot be called.
        unsafe {
            match self.entry.inline() {
                Some(bytes) => ValueRef::Inline(bytes),
                None => ValueRef::Object(self.entry.object().expect("entry-shape: inline or object")),
            }
        }
    }

    /// The key.
    pub fn key(self) -> &'a [u8] {
        // SAFETY: as in `value`.
        unsafe { self.entry.key() }
    }

    /// The type of the value.
    pub fn kind(self) -> Kind {
        self.entry.kind()
    }

    /// What `OBJECT ENCODING` reports.
    pub fn encoding(self) -> Encoding {
        self.entry.encoding()
    }

    /// Unix milliseconds of the key's end, if any.
    #[inline]
    pub fn expire_at_ms(self) -> Option<i64> {
        self.entry.expire_at_ms()
    }

    /// The 24-bit access clock.
    pub fn clock(self) -> u32 {
        self.entry.clock()
    }

    /// Bytes of the entry and its value.
    pub fn memory_bytes(self) -> usize {
        let object = match self.value() {
            ValueRef::Inline(_) => 0,
            ValueRef::Object(value) => value.memory_bytes(),
        };
        self.entry.footprint_bytes() + TABLE_BYTES_PER_KEY + object
    }

    /// A copy that outlives the lock; O(1) but for an inline string.
    pub fn to_owned(self) -> OwnedEntry {
        let value = match self.value() {
            ValueRef::Inline(bytes) => OwnedValue::Inline(bytes.into(), self.entry.form()),
            ValueRef::Object(value) => OwnedValue::Object(value.clone()),
        };
        OwnedEntry { value, expire_at_ms: self.expire_at_ms() }
    }
}

#[inline]
pub(crate) fn position_of(space: &Keyspace, entry: Entry) -> u64 {
    // SAFETY: called by the table under the stripe's lock; the key is only hashed.
    space.position(unsafe { entry.key() }).0
}

impl<'k> Locked<'k> {
    #[inline]
    pub(crate) fn new(space: &'k Keyspace, guards: Guards<'k>) -> Locked<'k> {
        Locked { space, guards, expired: Vec::new(), created: Vec::new(), sees_expired: false, written: None }
    }

    /// From now on a key past its end is found like any other: for who copies another server's changes, which says itself
    /// when a key is gone.
    pub fn see_expired(&mut self) {
        self.sees_expired = true;
    }

    /// The keyspace the stripes belong to.
    pub fn keyspace(&self) -> &'k Keyspace {
        self.space
    }

    /// True if a key at this position may be touched.
    #[inline]
    pub fn covers(&self, position: Position) -> bool {
        self.covers_stripe(position.stripe())
    }

    /// True if every key may be touched.
    pub fn covers_all(&self) -> bool {
        matches!(self.guards, Guards::All(_))
    }

    /// The stripes that are held, unless all are.
    pub fn stripes(&self) -> Vec<usize> {
        match &self.guards {
            Guards::One(stripe, _) => vec![*stripe],
            Guards::Many(held) => held.iter().map(|(stripe, _)| *stripe).collect(),
            Guards::All(_) => Vec::new(),
        }
    }

    /// Takes one more stripe if that can be had without waiting, in whatever order: true if it is held then.
    pub fn try_add(&mut self, stripe: usize) -> bool {
        if self.covers_stripe(stripe) {
            return true;
        }
        let Some(state) = self.space.try_lock_stripe(stripe) else { return false };
        let mut held = match std::mem::replace(&mut self.guards, Guards::Many(Vec::new())) {
            Guards::One(first, guard) => vec![(first, guard)],
            Guards::Many(held) => held,
            Guards::All(_) => unreachable!("all stripes cover every stripe"),
        };
        let at = held.partition_point(|(other, _)| *other < stripe);
        held.insert(at, (stripe, state));
        self.guards = Guards::Many(held);
        true
    }

    /// Keys that were found expired, and removed, since the last call.
    pub fn take_expired(&mut self) -> Vec<Expired> {
        std::mem::take(&mut self.expired)
    }

    /// True if [`Locked::take_expired`] has something to give.
    #[inline]
    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// Keys that were made since the last call.
    pub fn take_created(&mut self) -> Vec<Created> {
        std::mem::take(&mut self.created)
    }

    #[inline]
    pub(crate) fn covers_stripe(&self, stripe: usize) -> bool {
        match &self.guards {
            Guards::One(held, _) => *held == stripe,
            Guards::Many(held) => held.binary_search_by_key(&stripe, |(held, _)| *held).is_ok(),
            Guards::All(_) => true,
        }
    }

    #[inline]
    fn check(&self, position: Position) {
        assert!(self.covers(position), "locked-set: a key outside the held stripes was touched");
    }

    fn state(&mut self, position: Position) -> &mut StripeState {
        let stripe = position.stripe();
        match &mut self.guards {
            Guards::One(held, state) if *held == stripe => state,
            Guards::Many(held) => {
                let index = held.binary_search_by_key(&stripe, |(held, _)| *held);
                &mut held[index.expect("locked-set: a key outside the held stripes was touched")].1
            }
            Guards::All(held) => &mut held[stripe],
            Guards::One(..) => panic!("locked-set: a key outside the held stripes was touched"),
        }
    }

    #[inline]
    fn find(&mut self, db: usize, position: Position, key: &[u8], now_ms: i64) -> Option<Entry> {
        self.find_for(db, position, key, now_ms, false)
    }

    /// `keeps`: if the key is past its end, it is hidden, not removed.
    #[inline]
    fn find_for(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        now_ms: i64,
        keeps: bool,
    ) -> Option<Entry> {
        self.check(position);
        let (_, database) = self.space.database(db);
        // SAFETY: the stripe is held; the key is only compared.
        let entry = table::find(database.root(position), position.0, |entry| unsafe { entry.key() } == key)?;
        match entry.expire_at_ms() {
            // As Redis: a key lives through its last millisecond.
            Some(at) if now_ms > at && !self.sees_expired => {
                if !keeps {
                    self.unlink_expired(db, position, key, entry);
                }
                None
            }
            _ => Some(entry),
        }
    }

    /// The live entry of a key.
    #[inline]
    pub fn get(&mut self, db: usize, position: Position, key: &[u8], at: Instant) -> Option<View<'_>> {
        let keeps = self.space.keeps_expired.load(Relaxed);
        let entry = self.find_for(db, position, key, at.now_ms, keeps)?;
        at.mark(entry);
        Some(View::new(entry))
    }

    /// The object of a live key, for writing. `Some(None)` is an inline string. Who may have changed the soonest end of
    /// a field tells [`Locked::index_field_ends`].
    pub fn get_mut(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        at: Instant,
    ) -> Option<Option<&mut Value>> {
        self.note_written();
        let entry = self.find(db, position, key, at.now_ms)?;
        self.space.before_change(db, entry, Change::Part);
        self.written = self.space.watch_change(db, position);
        at.mark(entry);
        // SAFETY: the result borrows `self` mutably, and every View of a stripe's entries borrows the
        // one Locked (or scan) that holds the stripe: no other reference to the value exists.
        Some(unsafe { entry.object_mut() })
    }

    #[inline]
    fn note_written(&mut self) {
        if let Some(watched) = self.written.take() {
            self.space.note_change(watched);
        }
    }

    /// Stores a string, of which `form` says how it came to be.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of one store operation")]
    pub fn put_string(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        bytes: &[u8],
        form: Form,
        expiry: Expiry,
        at: Instant,
    ) {
        let old = self.find(db, position, key, at.now_ms);
        if let Some(entry) = old {
            let had = entry.expire_at_ms();
            let wanted = wanted_expiry(expiry, had);
            self.space.before_change(db, entry, Change::Whole);
            if had == wanted && entry.overwrite(bytes, form, wanted) {
                entry.set_clock(at.stored(Some(entry.clock())));
                return;
            }
        }
        let payload = if bytes.len() <= INLINE_BYTES_MAX {
            Payload::Inline { bytes, form }
        } else {
            Payload::Object(Value::Str(LongString::from_slice(bytes)))
        };
        self.store(db, position, key, payload, old, expiry, at);
    }

    /// Stores any value.
    pub fn put(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        payload: Payload<'_>,
        expiry: Expiry,
        at: Instant,
    ) {
        let old = self.find(db, position, key, at.now_ms);
        self.store(db, position, key, payload, old, expiry, at);
    }

    /// Stores a value with its time to live, as RENAME, MOVE and COPY carry it.
    pub fn put_owned(&mut self, db: usize, position: Position, key: &[u8], owned: &OwnedEntry, at: Instant) {
        let expiry = owned.expire_at_ms.map_or(Expiry::Clear, Expiry::At);
        self.put(db, position, key, owned.value.payload(), expiry, at);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one store operation")]
    fn store(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        payload: Payload<'_>,
        old: Option<Entry>,
        expiry: Expiry,
        at: Instant,
    ) {
        let (_, database) = self.space.database(db);
        let had = old.and_then(Entry::expire_at_ms);
        let expire_at_ms = wanted_expiry(expiry, had);
        let clock = at.stored(old.map(Entry::clock));
        debug_assert_eq!(position, self.space.position(key), "key-position: of another keyspace or key");
        let had_end = old.and_then(Entry::soonest_end_ms);
        let new = Entry::new(key, payload, expire_at_ms, clock);
        new.set_mark(self.space.marking.own());
        let end = new.soonest_end_ms();
        match old {
            Some(old) => {
                self.space.before_change(db, old, Change::Whole);
                table::replace(database.root(position), position.0, old, new);
                // SAFETY: replaced, so no table word points to it; `old` is not used again.
                self.space.discard(unsafe { old.dispose() });
            }
            None => {
                table::insert(database.root(position), position.0, new, &|entry| {
                    position_of(self.space, entry)
                });
                database.count_key(position, 1);
                self.note_created(db, key);
            }
        }
        if had != expire_at_ms {
            self.index_expiry(db, position, had, expire_at_ms);
        }
        self.index_field_ends(db, position, had_end, end);
    }

    /// Has a key reported as made: where it is stored in place of another one of its name, that is the caller's to say.
    #[inline]
    pub fn note_created(&mut self, db: usize, key: &[u8]) {
        if self.space.reports_created.load(Relaxed) {
            self.created.push(Created { db, key: key.into() });
        }
    }

    /// Sets the 24-bit access clock of a key (see [`crate::access`]); false if there is no key.
    pub fn set_clock(&mut self, db: usize, position: Position, key: &[u8], clock: u32, now_ms: i64) -> bool {
        let Some(entry) = self.find(db, position, key, now_ms) else { return false };
        entry.set_clock(clock);
        true
    }

    /// Deletes a key; a big value is freed by the reaper.
    pub fn remove(&mut self, db: usize, position: Position, key: &[u8], now_ms: i64) -> bool {
        let Some(entry) = self.find(db, position, key, now_ms) else { return false };
        self.unlink(db, position, entry);
        true
    }

    /// Takes a key out, with its value and time to live.
    pub fn take(&mut self, db: usize, position: Position, key: &[u8], now_ms: i64) -> Option<OwnedEntry> {
        let entry = self.find(db, position, key, now_ms)?;
        // SAFETY: the stripe is held; the bytes are copied at once.
        let inline = unsafe { entry.inline() }.map(|bytes| OwnedValue::Inline(bytes.into(), entry.form()));
        let expire_at_ms = entry.expire_at_ms();
        let object = self.detach(db, position, entry).map(OwnedValue::Object);
        let value = inline.or(object).expect("entry-shape: inline or object");
        Some(OwnedEntry { value, expire_at_ms })
    }

    #[cold]
    fn unlink_expired(&mut self, db: usize, position: Position, key: &[u8], entry: Entry) {
        self.unlink(db, position, entry);
        self.space.expired_keys.fetch_add(1, Relaxed);
        if self.space.reports_expired.load(Relaxed) {
            self.expired.push(Expired { db, key: key.into() });
        }
    }

    fn unlink(&mut self, db: usize, position: Position, entry: Entry) {
        let object = self.detach(db, position, entry);
        self.space.discard(object);
    }

    /// Takes the entry out and frees it; hands its object out.
    fn detach(&mut self, db: usize, position: Position, entry: Entry) -> Option<Value> {
        let (_, database) = self.space.database(db);
        if let Some(at) = entry.expire_at_ms() {
            self.index_expiry(db, position, Some(at), None);
        }
        self.index_field_ends(db, position, entry.soonest_end_ms(), None);
        self.space.before_change(db, entry, Change::Whole);
        detach_entry(self.space, database, position, entry)
    }

    /// Sets or removes the time to live of a key; false if there is no key.
    pub fn set_expire_at_ms(
        &mut self,
        db: usize,
        position: Position,
        key: &[u8],
        expire_at_ms: Option<i64>,
        now_ms: i64,
    ) -> bool {
        let Some(entry) = self.find(db, position, key, now_ms) else { return false };
        let had = entry.expire_at_ms();
        self.space.before_change(db, entry, Change::Part);
        match (had, expire_at_ms) {
            (Some(_), Some(new)) => entry.set_expire_at_ms(new),
            (None, None) => return true,
            _ => {
                let (_, database) = self.space.database(db);
                // The entry's layout changes, so it moves.
                // SAFETY: the stripe is held and no View of it lives, since this borrows `self` mutably;
                // `new` replaces the entry at once, and the entry is released once no word points to it.
                unsafe {
                    let new = entry.moved(expire_at_ms);
                    table::replace(database.root(position), position.0, entry, new);
                    entry.release();
                }
            }
        }
        self.index_expiry(db, position, had, expire_at_ms);
        true
    }

    fn index_expiry(&mut self, db: usize, position: Position, old: Option<i64>, new: Option<i64>) {
        let space = self.space;
        let (index, database) = space.database(db);
        let state = self.state(position);
        if state.expiries.len() <= index {
            state.expiries.resize_with(index + 1, BTreeSet::new);
        }
        if let Some(at) = old {
            state.expiries[index].remove(&(at, position.0));
            database.count_expiry(position, -1, space.birth_ms().wrapping_sub(at));
        }
        if let Some(at) = new {
            state.expiries[index].insert((at, position.0));
            database.count_expiry(position, 1, at.wrapping_sub(space.birth_ms()));
        }
        space.set_next_due(position.stripe(), state);
    }

    /// Takes in that the soonest end of a field of the hash at `position` has changed. Invariant *field-index*: a hash
    /// stands in its stripe's index with its soonest end, if it has one, and with nothing else.
    #[inline]
    pub fn index_field_ends(&mut self, db: usize, position: Position, old: Option<i64>, new: Option<i64>) {
        if old != new {
            self.reindex_field_ends(db, position, old, new);
        }
    }

    fn reindex_field_ends(&mut self, db: usize, position: Position, old: Option<i64>, new: Option<i64>) {
        let space = self.space;
        let (index, database) = space.database(db);
        let state = self.state(position);
        if state.field_ends.len() <= index {
            state.field_ends.resize_with(index + 1, BTreeSet::new);
        }
        if let Some(at) = old {
            state.field_ends[index].remove(&(at, position.0));
        }
        if let Some(at) = new {
            state.field_ends[index].insert((at, position.0));
        }
        database.count_timed_hash(position, i64::from(new.is_some()) - i64::from(old.is_some()));
        space.set_next_due(position.stripe(), state);
    }

    /// Empties one database, or all, in O(slots) pointer moves; the keys are freed by the reaper. Every stripe
    /// must be held. Returns the number of keys that were there.
    pub fn flush(&mut self, db: Option<usize>) -> usize {
        let space = self.space;
        let mut removed = 0;
        for db in db.map_or(0..space.databases(), |db| db..db + 1) {
            let Some((index, database)) = space.built(db) else { continue };
            if database.keys() == 0 {
                continue;
            }
            removed += database.keys();
            let bytes = space.share_bytes(database);
            let roots = database.take_tables();
            let roots = space.keep_tables(index, roots, bytes).unwrap_or_default();
            space.throw_away(Garbage::Database { roots, expiries: self.take_expiries(index), bytes });
        }
        removed
    }

    /// Exchanges two databases in O(1). Every stripe must be held.
    pub fn swap(&mut self, a: usize, b: usize) {
        assert!(self.covers_all(), "locked-set: a swap holds every stripe");
        let order = self.space.database_order();
        let first = order[a].load(Relaxed);
        order[a].store(order[b].load(Relaxed), Relaxed);
        order[b].store(first, Relaxed);
    }

    fn take_expiries(&mut self, index: usize) -> Vec<BTreeSet<(i64, u64)>> {
        let space = self.space;
        let Guards::All(guards) = &mut self.guards else { panic!("locked-set: a flush holds every stripe") };
        let mut taken = Vec::new();
        for (stripe, state) in guards.iter_mut().enumerate() {
            let StripeState { expiries, field_ends } = &mut **state;
            let both = [expiries.get_mut(index), field_ends.get_mut(index)];
            let taken_before = taken.len();
            taken.extend(both.into_iter().flatten().map(std::mem::take));
            if taken.len() > taken_before {
                space.set_next_due(stripe, state);
            }
        }
        taken
    }
}

#[inline]
fn wanted_expiry(expiry: Expiry, had: Option<i64>) -> Option<i64> {
    match expiry {
        Expiry::Keep => had,
        Expiry::Clear => None,
        Expiry::At(at) => Some(at),
    }
}

pub(crate) fn detach_entry(
    space: &Keyspace,
    database: &Database,
    position: Position,
    entry: Entry,
) -> Option<Value> {
    table::remove(database.root(position), position.0, entry, &|entry| position_of(space, entry));
    database.count_key(position, -1);
    // SAFETY: removed, so no table word points to it; no caller uses `entry` again.
    unsafe { entry.dispose() }
}

impl Keyspace {
    /// Removes up to `keys_max` keys, or fields of hashes, of one stripe whose time has come. Returns how many, and
    /// whether the stripe has more. Does not lock a stripe in which nothing is due. `expired` gets the keys concerned
    /// while their stripe is held, if [`Keyspace::report_expired`] asks for them.
    pub fn expire_slice(
        &self,
        stripe: usize,
        now_ms: i64,
        keys_max: usize,
        expired: &mut dyn FnMut(usize, &[u8], Lapse<'_>),
    ) -> (usize, bool) {
        assert!(stripe < STRIPES, "stripe-bounds");
        if self.next_due_ms(stripe) >= now_ms {
            return (0, false);
        }
        // A tick comes again: it does not wait for whoever holds the stripe for long.
        let Some(mut state) = self.try_lock_stripe(stripe) else { return (0, false) };
        let reports = self.reports_expired.load(Relaxed);
        let mut removed = 0;
        for db in 0..self.databases() {
            // A database that nobody has used has no index and must not be built by this.
            let Some((index, database)) = self.built(db) else { continue };
            let StripeState { expiries, field_ends } = &mut *state;
            let Some(expiries) = expiries.get_mut(index) else { continue };
            while removed < keys_max
                && let Some((at, position)) = expiries.first().copied()
                && at < now_ms
            {
                expiries.pop_first();
                let position = Position(position);
                database.count_expiry(position, -1, self.birth_ms().wrapping_sub(at));
                // Two keys of one position and one time are told apart by nothing, and need not be.
                let due =
                    |entry: Entry| entry.expire_at_ms() == Some(at) && position_of(self, entry) == position.0;
                if let Some(entry) = table::find(database.root(position), position.0, due) {
                    if reports {
                        // SAFETY: the stripe is held, and the entry is not yet removed.
                        expired(db, unsafe { entry.key() }, Lapse::Key);
                    }
                    if let Some(end) = entry.soonest_end_ms() {
                        field_ends[index].remove(&(end, position.0));
                        database.count_timed_hash(position, -1);
                    }
                    self.before_change(db, entry, Change::Whole);
                    self.discard(detach_entry(self, database, position, entry));
                    removed += 1;
                }
            }
        }
        self.expired_keys.fetch_add(removed as u64, Relaxed);
        removed += self.expire_fields(&mut state, now_ms, keys_max - removed, expired);
        self.set_next_due(stripe, &state);
        drop(state);
        (removed, self.next_due_ms(stripe) < now_ms)
    }
}

#[cfg(test)]
mod tests;
