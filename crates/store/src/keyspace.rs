//! The keyspace: every database's slots, cut into stripes, each behind one small lock.
//!
//! A stripe is a run of whole slots. Whoever touches a key holds its stripe's lock ([`Locked`]); whoever
//! needs several takes them in ascending order (*lock-order*), so there is no deadlock and a command
//! over many keys is atomic. Databases share the stripes: a command that moves a key between databases
//! holds what it needs already.
//!
//! What is synchronised by hand, and how it is proved: the locks are parking_lot's, and everything an
//! entry holds is read and written under them, so there is no protocol of ours to model; the guards and
//! `View`s borrow each other, which the compiler checks. Counters are sums of relaxed additions made
//! under the locks, and promise no more than that. `order` changes under all locks; read without one it
//! may be stale, which names another database and never a wrong one. The one unlocked read of shared
//! structure is the prefetch (see `blocks` and `table::glimpse`), which Miri runs against writers.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::time::Duration;

use base::slot::{SLOT_COUNT, slot_of};
use parking_lot::{Mutex, MutexGuard};

use crate::blocks::Word;
use crate::courtesy::{self, TABLE_UNITS};
use crate::entry::Entry;
use crate::keyhash::key_hash;
use crate::locked::{Guards, Locked};
use crate::reaper::{Bin, Garbage, Reaper};
use crate::snapshot::Marking;
use crate::table::{self, HASH_BITS};

const SLOTS: usize = SLOT_COUNT as usize;
/// Locks that the keyspace is cut into.
pub const STRIPES: usize = 1024;
pub(crate) const STRIPE_SLOTS: usize = SLOTS / STRIPES;
const COUNT_SHARDS: usize = 16;
/// How long a worker waits for a stripe before it looks whether somebody holds it for long.
const LOCK_PATIENCE: Duration = Duration::from_micros(100);
/// A value with more allocations than this is dropped by the reaper, not by a worker.
const HEAVY_WEIGHT: usize = 64;
/// Bits of a position that a scan cursor keeps: 53, so that a cursor is exact in a double.
const CURSOR_SHIFT: u32 = 11;

const _: () = assert!(STRIPES * STRIPE_SLOTS == SLOTS);

/// What the upper 14 bits of a key's position are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The key's cluster slot, so that a slot is a range of positions.
    Slots,
    /// More of its keyed hash, where nobody asks for slots: keys with one hash tag spread over all
    /// stripes, and a CRC a lookup is saved (about 150 of 1,550 instructions of a pipelined GET).
    Hash,
}

/// Where a key stands in the order of the keyspace: its slot, then its keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub(crate) u64);

impl Position {
    #[inline]
    fn of(key: &[u8], placement: Placement) -> Position {
        let hash = key_hash(key);
        match placement {
            Placement::Hash => Position(hash),
            Placement::Slots => Position(u64::from(slot_of(key)) << HASH_BITS | hash >> (64 - HASH_BITS)),
        }
    }

    /// Below every key of a slot, and above those of the slots before.
    pub fn first_of_slot(slot: u16) -> Position {
        Position(u64::from(slot) << HASH_BITS)
    }

    /// The key's slot of the keyspace; its cluster slot under [`Placement::Slots`].
    #[inline]
    pub fn slot(self) -> u16 {
        (self.0 >> HASH_BITS) as u16
    }

    /// The stripe of the key's slot.
    #[inline]
    pub fn stripe(self) -> usize {
        (self.0 >> HASH_BITS) as usize / STRIPE_SLOTS
    }
}

/// What one stripe's lock guards besides the slots' tables.
#[derive(Default)]
pub(crate) struct StripeState {
    /// By database: (unix ms, position) of every key with a time to live, soonest first.
    pub(crate) expiries: Vec<BTreeSet<(i64, u64)>>,
    /// By database: (unix ms, position) of the soonest end of a field of every hash that has one, soonest first
    /// (*field-index*).
    pub(crate) field_ends: Vec<BTreeSet<(i64, u64)>>,
}

/// One lock, alone on its cache line.
#[repr(align(64))]
struct Stripe {
    state: Mutex<StripeState>,
    /// The soonest expiry of a key or field in the stripe, readable without the lock; `i64::MAX` for none.
    next_due_ms: AtomicI64,
}

#[derive(Default)]
#[repr(align(64))]
struct Counts {
    keys: AtomicI64,
    expires: AtomicI64,
    /// Sum over keys with a time to live of (expiry - the keyspace's birth), for the average.
    expire_sum_ms: AtomicI64,
    /// Hashes of which a field has an end.
    timed_hashes: AtomicI64,
}

/// One database.
pub(crate) struct Database {
    roots: Box<[Word]>,
    slot_keys: Box<[AtomicU32]>,
    counts: [Counts; COUNT_SHARDS],
}

impl Database {
    fn new() -> Database {
        Database {
            roots: (0..SLOTS).map(|_| AtomicPtr::default()).collect(),
            slot_keys: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            counts: Default::default(),
        }
    }

    #[inline]
    pub(crate) fn root(&self, position: Position) -> &Word {
        &self.roots[usize::from(position.slot()) % SLOTS]
    }

    pub(crate) fn count_key(&self, position: Position, by: i32) {
        self.slot_keys[usize::from(position.slot())].fetch_add(by as u32, Relaxed);
        self.counts[position.stripe() % COUNT_SHARDS].keys.fetch_add(i64::from(by), Relaxed);
    }

    pub(crate) fn count_expiry(&self, position: Position, by: i64, sum_ms: i64) {
        let counts = &self.counts[position.stripe() % COUNT_SHARDS];
        counts.expires.fetch_add(by, Relaxed);
        counts.expire_sum_ms.fetch_add(sum_ms, Relaxed);
    }

    pub(crate) fn count_timed_hash(&self, position: Position, by: i64) {
        self.counts[position.stripe() % COUNT_SHARDS].timed_hashes.fetch_add(by, Relaxed);
    }

    /// The root of a slot's table.
    pub(crate) fn root_of(&self, slot: usize) -> &Word {
        &self.roots[slot]
    }

    /// Keys with a time to live.
    pub(crate) fn expires(&self) -> usize {
        self.total(|counts| &counts.expires).max(0) as usize
    }

    fn total(&self, field: impl Fn(&Counts) -> &AtomicI64) -> i64 {
        // A sum of times wraps, as its parts do, where a client sets times near the end of i64.
        self.counts.iter().fold(0, |sum, counts| sum.wrapping_add(field(counts).load(Relaxed)))
    }

    /// The slot of the `nth` key, counted from one slot to the next. Looks at one shard's slots only.
    pub(crate) fn slot_of_nth(&self, mut nth: usize) -> Option<usize> {
        let mut is_among = |keys: usize| {
            let found = nth < keys;
            if !found {
                nth -= keys;
            }
            found
        };
        let shard =
            self.counts.iter().position(|counts| is_among(counts.keys.load(Relaxed).max(0) as usize))?;
        (shard..STRIPES)
            .step_by(COUNT_SHARDS)
            .flat_map(|stripe| stripe * STRIPE_SLOTS..(stripe + 1) * STRIPE_SLOTS)
            .find(|slot| is_among(self.slot_keys[*slot].load(Relaxed) as usize))
    }

    pub(crate) fn keys(&self) -> usize {
        self.total(|counts| &counts.keys).max(0) as usize
    }

    /// Takes all tables out. The caller holds every stripe.
    pub(crate) fn take_tables(&self) -> Vec<Detached> {
        let roots = self.roots.iter().filter_map(Detached::from_root).collect();
        self.slot_keys.iter().for_each(|keys| keys.store(0, Relaxed));
        for counts in &self.counts {
            counts.keys.store(0, Relaxed);
            counts.expires.store(0, Relaxed);
            counts.expire_sum_ms.store(0, Relaxed);
            counts.timed_hashes.store(0, Relaxed);
        }
        roots
    }
}

/// Size of a database, as INFO's keyspace section prints it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbSize {
    /// Keys, expired ones that nobody met included.
    pub keys: usize,
    /// Keys with a time to live.
    pub expires: usize,
    /// Mean time to live of those, in milliseconds.
    pub avg_ttl_ms: i64,
    /// Hashes of which a field has an end.
    pub timed_hashes: usize,
}

/// All databases.
pub struct Keyspace {
    stripes: Box<[Stripe]>,
    /// Made on first use. Indexed by what `order` says, so that SWAPDB swaps two numbers.
    databases: Box<[OnceLock<Database>]>,
    order: Box<[AtomicU32]>,
    placement: Placement,
    birth_ms: i64,
    /// What the process had allocated then.
    birth_bytes: usize,
    garbage: Bin,
    reaper: Mutex<Option<Reaper>>,
    pub(crate) expired_keys: AtomicU64,
    pub(crate) expired_fields: AtomicU64,
    expired_time_cap_reached: AtomicU64,
    /// Somebody wants to be told which keys expired.
    pub(crate) reports_expired: AtomicBool,
    /// Looking for a key past its end hides it and leaves it in its place.
    pub(crate) keeps_expired: AtomicBool,
    /// Somebody wants to be told which keys were made.
    pub(crate) reports_created: AtomicBool,
    /// Threads that hold stripes, or are about to, for longer than a worker may wait.
    long_holders: AtomicUsize,
    pub(crate) marking: Marking,
}

impl Keyspace {
    /// An empty keyspace of `databases` databases. `now_ms` is any time near the present.
    pub fn new(databases: usize, placement: Placement, now_ms: i64) -> Keyspace {
        let (garbage, reaper) = Reaper::new();
        Keyspace {
            stripes: (0..STRIPES)
                .map(|_| Stripe { state: Mutex::default(), next_due_ms: AtomicI64::new(i64::MAX) })
                .collect(),
            databases: (0..databases).map(|_| OnceLock::new()).collect(),
            order: (0..databases).map(|index| AtomicU32::new(index as u32)).collect(),
            placement,
            birth_ms: now_ms,
            birth_bytes: crate::alloc::used_bytes(),
            garbage,
            reaper: Mutex::new(Some(reaper)),
            expired_keys: AtomicU64::new(0),
            expired_fields: AtomicU64::new(0),
            expired_time_cap_reached: AtomicU64::new(0),
            reports_expired: AtomicBool::new(false),
            keeps_expired: AtomicBool::new(false),
            reports_created: AtomicBool::new(false),
            long_holders: AtomicUsize::new(0),
            marking: Marking::default(),
        }
    }

    /// The loop that frees big values, for a thread of its own; `None` if it was taken before.
    pub fn take_reaper(&self) -> Option<Reaper> {
        self.reaper.lock().take()
    }

    /// The position of a key.
    #[inline]
    pub fn position(&self, key: &[u8]) -> Position {
        Position::of(key, self.placement)
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases.len()
    }

    /// Locks the stripe of one key.
    #[inline]
    pub fn lock(&self, position: Position) -> Locked<'_> {
        let stripe = position.stripe();
        Locked::new(self, Guards::One(stripe, self.stripes[stripe].state.lock()))
    }

    /// Locks the stripes of several keys, in ascending order (*lock-order*). `stripes` is scratch: it
    /// comes in any order and is left sorted and without duplicates.
    pub fn lock_stripes(&self, stripes: &mut Vec<usize>) -> Locked<'_> {
        stripes.sort_unstable();
        stripes.dedup();
        let guards = match stripes.as_slice() {
            [stripe] => Guards::One(*stripe, self.stripes[*stripe].state.lock()),
            many => Guards::Many(
                many.iter().map(|stripe| (*stripe, self.stripes[*stripe].state.lock())).collect(),
            ),
        };
        Locked::new(self, guards)
    }

    /// Locks the whole keyspace at one instant.
    pub fn lock_all(&self) -> Locked<'_> {
        Locked::new(self, Guards::All(self.stripes.iter().map(|stripe| stripe.state.lock()).collect()))
    }

    /// As [`Keyspace::lock`]; `None` if whoever has the stripe may keep it for long ([`Keyspace::hold_long`]).
    #[inline]
    pub fn lock_briefly(&self, position: Position) -> Option<Locked<'_>> {
        let stripe = position.stripe();
        Some(Locked::new(self, Guards::One(stripe, self.patient_lock(stripe)?)))
    }

    /// As [`Keyspace::lock_stripes`]; `None` if whoever has one of them may keep it for long.
    pub fn lock_stripes_briefly(&self, stripes: &mut Vec<usize>) -> Option<Locked<'_>> {
        stripes.sort_unstable();
        stripes.dedup();
        let guards = match stripes.as_slice() {
            [stripe] => Guards::One(*stripe, self.patient_lock(*stripe)?),
            many => {
                // Not collected: collecting what may fail begins with no room.
                let mut held = Vec::with_capacity(many.len());
                for stripe in many {
                    held.push((*stripe, self.patient_lock(*stripe)?));
                }
                Guards::Many(held)
            }
        };
        Some(Locked::new(self, guards))
    }

    /// As [`Keyspace::lock_all`]; `None` if whoever has a stripe may keep it for long.
    pub fn lock_all_briefly(&self) -> Option<Locked<'_>> {
        let each = (0..STRIPES).map(|stripe| self.patient_lock(stripe));
        Some(Locked::new(self, Guards::All(each.collect::<Option<_>>()?)))
    }

    #[inline]
    pub(crate) fn patient_lock(&self, stripe: usize) -> Option<MutexGuard<'_, StripeState>> {
        match self.stripes[stripe].state.try_lock() {
            Some(state) => Some(state),
            None => self.patient_lock_slow(stripe),
        }
    }

    #[cold]
    fn patient_lock_slow(&self, stripe: usize) -> Option<MutexGuard<'_, StripeState>> {
        loop {
            if let Some(state) = self.stripes[stripe].state.try_lock_for(LOCK_PATIENCE) {
                return Some(state);
            }
            if self.long_holders.load(SeqCst) > 0 {
                return None;
            }
        }
    }

    pub(crate) fn try_lock_stripe(&self, stripe: usize) -> Option<MutexGuard<'_, StripeState>> {
        self.stripes[stripe].state.try_lock()
    }

    /// Announces that the caller is going to hold stripes for longer than workers may wait, until the result
    /// is dropped. To be called before they are locked.
    pub fn hold_long(&self) -> LongHold<'_> {
        self.long_holders.fetch_add(1, SeqCst);
        LongHold { space: self }
    }

    /// From now on keys that expire are reported: see [`Locked::take_expired`].
    pub fn report_expired(&self, wanted: bool) {
        self.reports_expired.store(wanted, Relaxed);
    }

    /// Whether reads leave keys in place that are past their end, hidden from those who look: the server that this one
    /// copies says when they are gone. What writes to such a key removes it all the same.
    pub fn keep_expired(&self, wanted: bool) {
        self.keeps_expired.store(wanted, Relaxed);
    }

    /// As [`Keyspace::keep_expired`] has said.
    #[inline]
    pub fn keeps_expired(&self) -> bool {
        self.keeps_expired.load(Relaxed)
    }

    /// From now on keys that are made are reported, or no more: see [`Locked::take_created`].
    pub fn report_created(&self, wanted: bool) {
        self.reports_created.store(wanted, Relaxed);
    }

    /// What asks memory for the keys of a database.
    #[inline]
    pub fn prefetcher(&self, db: usize) -> Prefetcher<'_> {
        Prefetcher { stripes: &self.stripes, database: self.database(db).1 }
    }

    /// The database behind number `db`, and its index in every stripe's state.
    #[inline]
    pub(crate) fn database(&self, db: usize) -> (usize, &Database) {
        let index = self.order[db].load(Relaxed) as usize;
        (index, self.databases[index].get_or_init(Database::new))
    }

    /// The database at an index, as stripes' states count them; it was used before.
    pub(crate) fn database_at(&self, index: usize) -> &Database {
        self.databases[index].get().expect("database-built: an index is of a database that was used")
    }

    pub(crate) fn birth_ms(&self) -> i64 {
        self.birth_ms
    }

    pub(crate) fn set_next_due(&self, stripe: usize, state: &StripeState) {
        let both = state.expiries.iter().chain(&state.field_ends);
        let soonest = both.filter_map(BTreeSet::first).map(|(at, _)| *at).min();
        self.stripes[stripe].next_due_ms.store(soonest.unwrap_or(i64::MAX), Relaxed);
    }

    pub(crate) fn next_due_ms(&self, stripe: usize) -> i64 {
        self.stripes[stripe].next_due_ms.load(Relaxed)
    }

    /// Drops a value: here if that is cheap, else on the reaper's thread.
    #[inline]
    pub(crate) fn discard(&self, value: Option<crate::Value>) {
        if let Some(value) = value
            && value.weight() > HEAVY_WEIGHT
        {
            self.garbage.send(Garbage::Value(value));
        }
    }

    /// Drops something that may be the last to hold a big value, on the reaper's thread.
    pub fn discard_elsewhere(&self, other: Box<dyn Send>) {
        self.garbage.send(Garbage::Other(other));
    }

    /// Keys in a database, expired ones that nobody met included.
    pub fn len(&self, db: usize) -> usize {
        self.built(db).map_or(0, |(_, database)| database.keys())
    }

    /// True if no database has a key.
    pub fn is_empty(&self) -> bool {
        (0..self.databases()).all(|db| self.len(db) == 0)
    }

    /// As `database`, if it was ever used.
    pub(crate) fn built(&self, db: usize) -> Option<(usize, &Database)> {
        let index = self.order[db].load(Relaxed) as usize;
        Some((index, self.databases[index].get()?))
    }

    /// Keys, expiries and mean time to live of a database.
    pub fn size(&self, db: usize, now_ms: i64) -> DbSize {
        let Some((_, database)) = self.built(db) else { return DbSize::default() };
        let expires = database.expires() as i64;
        let sum_ms = database.total(|counts| &counts.expire_sum_ms);
        let avg_ttl_ms = match expires {
            0 => 0,
            _ => (sum_ms / expires).saturating_add(self.birth_ms).saturating_sub(now_ms).max(0),
        };
        let timed_hashes = database.total(|counts| &counts.timed_hashes).max(0) as usize;
        DbSize { keys: database.keys(), expires: expires as usize, avg_ttl_ms, timed_hashes }
    }

    /// Keys that ended by their time to live since start or [`Keyspace::reset_stats`].
    pub fn expired_keys(&self) -> u64 {
        self.expired_keys.load(Relaxed)
    }

    /// Fields of hashes that ended by their time to live since start or [`Keyspace::reset_stats`].
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Relaxed)
    }

    /// Counts fields that ended by their time to live and were removed by who met them.
    pub fn note_expired_fields(&self, fields: usize) {
        self.expired_fields.fetch_add(fields as u64, Relaxed);
    }

    /// Times that active expiry stopped at its time limit with work left.
    pub fn expired_time_cap_reached(&self) -> u64 {
        self.expired_time_cap_reached.load(Relaxed)
    }

    /// Notes that an expiry slice ended at its time limit.
    pub fn note_time_cap(&self) {
        self.expired_time_cap_reached.fetch_add(1, Relaxed);
    }

    /// Forgets the counters of expiry (`CONFIG RESETSTAT`).
    pub fn reset_stats(&self) {
        self.expired_keys.store(0, Relaxed);
        self.expired_fields.store(0, Relaxed);
        self.expired_time_cap_reached.store(0, Relaxed);
    }

    pub(crate) fn birth_bytes(&self) -> usize {
        self.birth_bytes
    }

    pub(crate) fn garbage(&self) -> &Bin {
        &self.garbage
    }

    /// Values and tables waiting for the reaper.
    pub fn garbage_pending(&self) -> usize {
        self.garbage.pending()
    }

    /// Keys in a slot of database `db`; asked for under [`Placement::Slots`] only.
    pub fn count_in_slot(&self, db: usize, slot: u16) -> usize {
        self.built(db).map_or(0, |(_, database)| database.slot_keys[usize::from(slot)].load(Relaxed) as usize)
    }

    /// The stripe's lock, unless the caller holds it already.
    pub(crate) fn guard(
        &self,
        held: Option<&Locked<'_>>,
        stripe: usize,
    ) -> Option<MutexGuard<'_, StripeState>> {
        let is_held = held.is_some_and(|held| held.covers_stripe(stripe));
        (!is_held).then(|| self.stripes[stripe].state.lock())
    }

    /// Up to `count` keys of a slot. `held`: what the caller has locked already.
    pub fn keys_in_slot(
        &self,
        held: Option<&Locked<'_>>,
        db: usize,
        slot: u16,
        count: usize,
    ) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let position = Position(u64::from(slot) << HASH_BITS);
        let guard = self.guard(held, position.stripe());
        let (_, database) = self.database(db);
        let collected = std::cell::Cell::new(0);
        table::scan(
            database.root(position),
            position.0,
            &mut |entry| {
                if keys.len() < count {
                    // SAFETY: the stripe is locked; the key is copied at once.
                    keys.push(unsafe { entry.key() }.to_vec());
                    collected.set(keys.len());
                }
            },
            &mut || collected.get() < count,
        );
        drop(guard);
        keys
    }

    /// Visits about `count` entries of a slot, from a position in it on, those past their end too. The slot's stripe is held.
    /// All of the slot's keys below the position that is returned were visited by then, and no others; `None`: all were.
    pub fn visit_slot(
        &self,
        held: &Locked<'_>,
        db: usize,
        from: Position,
        count: usize,
        visit: &mut dyn FnMut(&[u8], crate::locked::View<'_>),
    ) -> Option<Position> {
        assert!(held.covers(from), "locked-set: a slot outside the held stripes was visited");
        let (_, database) = self.built(db)?;
        let visited = std::cell::Cell::new(0);
        let mut each = |entry: Entry| {
            // A bucket that the position lies in is visited whole.
            if crate::locked::position_of(self, entry) >= from.0 {
                visited.set(visited.get() + 1);
                // SAFETY: the stripe is held while `visit` runs.
                visit(unsafe { entry.key() }, crate::locked::View::new(entry));
            }
        };
        let next = table::scan(database.root(from), from.0, &mut each, &mut || visited.get() < count);
        next.map(Position)
    }

    /// Visits about `count` keys from `cursor` on (0 starts), one locked stripe at a time; returns the
    /// cursor to go on with, 0 at the end. Redis's guarantee: a key that is there from the first call
    /// to the last is visited at least once. Expired keys are not visited. `held`: what the caller has
    /// locked already.
    pub fn scan(
        &self,
        held: Option<&Locked<'_>>,
        db: usize,
        cursor: u64,
        count: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], crate::locked::View<'_>),
    ) -> u64 {
        let Some((_, database)) = self.built(db) else { return 0 };
        let mut position = match cursor.checked_shl(CURSOR_SHIFT) {
            Some(position) if position >> CURSOR_SHIFT == cursor => position,
            _ => return 0,
        };
        let visited = std::cell::Cell::new(0);
        loop {
            let slot = (position >> HASH_BITS) as usize;
            if database.slot_keys[slot].load(Relaxed) > 0 {
                let _guard = self.guard(held, slot / STRIPE_SLOTS);
                let mut each = |entry: Entry| {
                    visited.set(visited.get() + 1);
                    if entry.expire_at_ms().is_none_or(|at| at >= now_ms) {
                        // SAFETY: the stripe is locked while `visit` runs.
                        visit(unsafe { entry.key() }, crate::locked::View::new(entry));
                    }
                };
                let next =
                    table::scan(&database.roots[slot], position, &mut each, &mut || visited.get() < count);
                if let Some(next) = next {
                    // A bucket boundary has at most 39 hash bits: nothing is cut off.
                    return next >> CURSOR_SHIFT;
                }
            }
            if slot + 1 == SLOTS {
                return 0;
            }
            position = ((slot + 1) as u64) << HASH_BITS;
            if visited.get() >= count {
                return position >> CURSOR_SHIFT;
            }
        }
    }

    /// A key picked by chance, with slots weighted by their keys. May pick an expired key. `held`: what the
    /// caller has locked already.
    pub fn random_key(
        &self,
        held: Option<&Locked<'_>>,
        db: usize,
        rng: &mut fastrand::Rng,
    ) -> Option<Vec<u8>> {
        let (_, database) = self.built(db)?;
        // A slot may be emptied between the weighing and the lock: a few tries, then any key.
        for _ in 0..16 {
            let total = database.keys();
            if total == 0 {
                return None;
            }
            let Some(slot) = database.slot_of_nth(rng.usize(..total)) else { continue };
            let _guard = self.guard(held, slot / STRIPE_SLOTS);
            if let Some(entry) = table::random(&database.roots[slot], rng) {
                // SAFETY: the stripe is locked; the key is copied at once.
                return Some(unsafe { entry.key() }.to_vec());
            }
        }
        None
    }

    pub(crate) fn database_order(&self) -> &[AtomicU32] {
        &self.order
    }

    pub(crate) fn throw_away(&self, garbage: Garbage) {
        self.garbage.send(garbage);
    }
}

/// While it lives, workers that need a stripe do not wait for it.
pub struct LongHold<'k> {
    space: &'k Keyspace,
}

impl Drop for LongHold<'_> {
    fn drop(&mut self) {
        self.space.long_holders.fetch_sub(1, SeqCst);
    }
}

/// Asks the CPU for what the commands on a key will touch, from the outside in. Takes no lock.
#[derive(Clone, Copy)]
pub struct Prefetcher<'k> {
    stripes: &'k [Stripe],
    database: &'k Database,
}

impl Prefetcher<'_> {
    /// The key's lock and root word.
    #[inline]
    pub fn root(self, position: Position) {
        table::prefetch((self.database.root(position) as *const Word).cast());
        table::prefetch((&raw const self.stripes[position.stripe()]).cast());
    }

    /// Its bucket, once the root has arrived.
    #[inline]
    pub fn bucket(self, position: Position) {
        table::prefetch_bucket(self.database.root(position), position.0);
    }

    /// Its entry, once the bucket has arrived.
    #[inline]
    pub fn entry(self, position: Position) {
        table::prefetch_entry(self.database.root(position), position.0);
    }
}

/// A slot's table, out of the keyspace. Dropping it frees the table and its entries, wherever that
/// happens: on the reaper's thread, or with a reaper that nobody ran.
pub(crate) struct Detached(*mut u8);

// SAFETY: a detached root is owned by whoever holds it, and `entry` asserts that values may cross threads.
unsafe impl Send for Detached {}

impl Detached {
    /// The root's word, to look at while this lives.
    pub(crate) fn word(&self) -> *mut u8 {
        self.0
    }

    /// Takes a root word's table out. The caller holds the slot's stripe, or the only reference.
    fn from_root(root: &Word) -> Option<Detached> {
        let word = root.swap(std::ptr::null_mut(), Relaxed);
        (!word.is_null()).then_some(Detached(word))
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        // SAFETY: the word left its root in `from_root`: nothing but stale prefetches, which read blocks
        // and no entries, points into the table. The drain hands out each entry once.
        table::drain(self.0, &mut |entry| drop(unsafe { entry.dispose() }));
        courtesy::note_work(TABLE_UNITS);
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        for database in self.databases.iter_mut().filter_map(|database| database.get_mut()) {
            database.roots.iter().filter_map(Detached::from_root).for_each(drop);
        }
    }
}
