//! Snapshots: every key as it was at one instant, handed out while others go on writing.
//!
//! Each entry has a mark, and the keyspace says what it means: an entry with the keyspace's own mark is in the running
//! snapshot already, or was made after its start; one with the other mark is not. A start turns the keyspace's mark
//! around while every stripe is held, and touches no entry. Then walkers visit stripe after stripe, and a writer that is about
//! to change an entry with the other mark first keeps a copy of it for them, O(1) as any clone. Once every stripe is
//! walked, all entries have the keyspace's mark (*one-mark*), and the next snapshot may start.
//!
//! A flushed database is handed to the walkers as a whole. Databases are called by the numbers they had at the start.
//!
//! What writers keep is bounded: beyond a share of the data, those that would keep more have to wait for the walkers
//! ([`Keyspace::snapshot_is_behind`]), and look at that before they lock anything.

mod holdings;

use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

pub(crate) use holdings::Watched;

use base::limits::{SNAPSHOT_KEPT_BYTES_MIN, SNAPSHOT_KEPT_PERCENT};
use parking_lot::Mutex;

use crate::blocks::Word;
use crate::entry::{Entry, MARK, OwnedEntry, OwnedValue};
use crate::keyspace::{Detached, Keyspace, Position, STRIPE_SLOTS, STRIPES};
use crate::locked::{Locked, ValueRef, View, position_of};
use crate::reaper::Garbage;
use crate::sharing::parted_bytes;
use crate::table::{self, HASH_BITS};
use crate::value::Value;
use holdings::{Holdings, Place, StripeBits};

/// Entries that are copied before a stripe is let go (a bucket's more at most): a few microseconds.
const ENTRIES_PER_LOCK: usize = 32;
/// Entries of a batch, likewise.
const BATCH_ENTRIES: usize = 512;
/// Entries that are kept in one piece of memory.
const KEPT_PART_ENTRIES: usize = BATCH_ENTRIES;
/// An object up to this size counts as a whole if a part of it is changed; of a larger one, what its writers part with.
const WHOLE_OBJECT_BYTES_MAX: usize = 64 * 1024;
/// No object that goes as a whole counts for more than this share of what may be kept: a few huge ones hold nobody up.
const REMOVED_OBJECT_SHARE: usize = 16;

/// What the keyspace knows of the running snapshot.
#[derive(Default)]
pub(crate) struct Marking {
    /// The mark of entries that the running snapshot has, or need not have.
    own: AtomicU8,
    /// Entries with the other mark may exist.
    is_running: AtomicBool,
    /// In parts of bounded size, so that no writer ever copies all of it to make it longer. None is empty.
    kept: Mutex<Vec<Vec<Kept>>>,
    kept_bytes: AtomicUsize,
    /// With more than this kept, writers wait.
    kept_bytes_max: AtomicUsize,
    /// Big values of which a walker has, or will have, a clone.
    holdings: Holdings,
    /// Stripes that the running snapshot has all of.
    walked: StripeBits,
    flushed: Mutex<Vec<Flushed>>,
}

/// What a writer is about to do to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Change a part of its value, or what stands beside it.
    Part,
    /// Put another in its place, or none.
    Whole,
}

/// An entry as it was before the first write since the start.
struct Kept {
    index: usize,
    key: Box<[u8]>,
    entry: OwnedEntry,
    clock: u32,
    bytes: usize,
    holding: Option<Place>,
}

/// The tables of a database that was flushed.
struct Flushed {
    index: usize,
    roots: Vec<Detached>,
    bytes: usize,
}

impl Marking {
    /// The mark for an entry that is made now.
    #[inline]
    pub(crate) fn own(&self) -> u8 {
        self.own.load(Relaxed)
    }

    fn push(&self, kept: Kept) {
        self.kept_bytes.fetch_add(kept.bytes, Relaxed);
        let mut parts = self.kept.lock();
        match parts.last_mut() {
            Some(part) if part.len() < KEPT_PART_ENTRIES => part.push(kept),
            _ => {
                let mut part = Vec::with_capacity(KEPT_PART_ENTRIES);
                part.push(kept);
                parts.push(part);
            }
        }
    }

    /// What a value that goes as a whole counts for at most.
    fn removed_bytes_max(&self) -> usize {
        self.kept_bytes_max.load(Relaxed) / REMOVED_OBJECT_SHARE
    }
}

impl Keyspace {
    /// To be called before an entry of a database is changed or removed; its stripe is held.
    #[inline]
    pub(crate) fn before_change(&self, db: usize, entry: Entry, change: Change) {
        if entry.mark() != self.marking.own() {
            self.keep(db, entry, change);
        } else if change == Change::Whole && self.marking.holdings.any() {
            self.close_holding(db, entry);
        }
    }

    #[cold]
    fn close_holding(&self, db: usize, entry: Entry) {
        let Marking { holdings, kept_bytes, .. } = &self.marking;
        let position = Position(position_of(self, entry));
        if holdings.touch(position.stripe()) {
            let (index, _) = self.database(db);
            holdings.close((position, index), self.marking.removed_bytes_max(), kept_bytes);
        }
    }

    /// To be called where a part of a value is about to be changed, after [`Keyspace::before_change`]; what is returned
    /// goes to [`Keyspace::note_change`] once it is done. Its stripe is held all the time.
    #[inline]
    pub(crate) fn watch_change(&self, db: usize, position: Position) -> Option<Watched> {
        if !self.marking.holdings.any() {
            return None;
        }
        self.watch_held(db, position)
    }

    #[cold]
    fn watch_held(&self, db: usize, position: Position) -> Option<Watched> {
        let is_near = self.marking.holdings.touch(position.stripe());
        is_near.then(|| Watched { place: (position, self.database(db).0), parted_before: parted_bytes() })
    }

    /// See [`Keyspace::watch_change`].
    #[cold]
    pub(crate) fn note_change(&self, watched: Watched) {
        let bytes = (parted_bytes() - watched.parted_before) as usize;
        if bytes > 0 {
            self.marking.holdings.add(watched.place, bytes, &self.marking.kept_bytes);
        }
    }

    #[cold]
    fn keep(&self, db: usize, entry: Entry, change: Change) {
        let (index, _) = self.database(db);
        let view = View::new(entry);
        let (object_bytes, holding) = match (view.value(), change) {
            (ValueRef::Inline(_), _) => (0, None),
            (ValueRef::Object(value), Change::Whole) => {
                (value.memory_bytes().min(self.marking.removed_bytes_max()), None)
            }
            (ValueRef::Object(value), Change::Part) => match self.hold(index, entry, value) {
                Some(place) => (0, Some(place)),
                None => (value.memory_bytes(), None),
            },
        };
        let bytes = size_of::<Kept>() + entry.footprint_bytes() + object_bytes;
        let (key, clock) = (view.key().into(), view.clock());
        let kept = Kept { index, key, entry: view.to_owned(), clock, bytes, holding };
        entry.set_mark(self.marking.own());
        self.marking.push(kept);
    }

    /// From now on the snapshot has a clone of a value of a database: if that is big, what its writers part with is
    /// counted. Its stripe is held.
    fn hold(&self, index: usize, entry: Entry, value: &Value) -> Option<Place> {
        let bytes = value.memory_bytes();
        (bytes > WHOLE_OBJECT_BYTES_MAX).then(|| {
            let place = (Position(position_of(self, entry)), index);
            self.marking.holdings.begin(place, bytes);
            place
        })
    }

    /// Takes over the tables of a flushed database, if the running snapshot may still want them; else gives them back.
    pub(crate) fn keep_tables(
        &self,
        index: usize,
        roots: Vec<Detached>,
        bytes: usize,
    ) -> Option<Vec<Detached>> {
        let mut flushed = self.marking.flushed.lock();
        // Looked at under the lock under which the last walker ends the snapshot.
        if !self.marking.is_running.load(Relaxed) {
            return Some(roots);
        }
        flushed.push(Flushed { index, roots, bytes });
        None
    }

    /// Bytes of entries that were written since the running snapshot's start and wait for its walkers; of big values that
    /// were changed in part, what nobody else has any more, until they are saved.
    pub fn kept_bytes(&self) -> usize {
        self.marking.kept_bytes.load(Relaxed)
    }

    /// The bound of [`Keyspace::kept_bytes`], above which writers wait. It is exceeded by what the commands that run at
    /// that moment keep.
    pub fn kept_bytes_max(&self) -> usize {
        self.marking.kept_bytes_max.load(Relaxed)
    }

    /// True if a command that writes has to wait for the running snapshot's walkers. One that writes to one stripe only
    /// need not if that is walked, and no big value of it is still being saved: nothing of it will be kept.
    #[inline]
    pub fn snapshot_is_behind(&self, only_stripe: Option<usize>) -> bool {
        let marking = &self.marking;
        marking.kept_bytes.load(Relaxed) > marking.kept_bytes_max.load(Relaxed)
            && !only_stripe
                .is_some_and(|stripe| marking.walked.has(stripe) && !marking.holdings.touch(stripe))
    }

    /// Starts a snapshot of this instant, for which the caller holds every stripe. `None` if one is being walked.
    pub fn begin_snapshot(&self, held: &Locked<'_>) -> Option<Snapshot> {
        assert!(held.covers_all(), "locked-set: a snapshot starts under every stripe");
        if self.marking.is_running.swap(true, AcqRel) {
            return None;
        }
        let data_bytes = crate::alloc::used_bytes().saturating_sub(self.birth_bytes());
        let kept_bytes_max = (data_bytes / 100 * SNAPSHOT_KEPT_PERCENT).max(SNAPSHOT_KEPT_BYTES_MIN);
        self.marking.kept_bytes_max.store(kept_bytes_max, Relaxed);
        self.marking.walked.clear();
        self.marking.own.fetch_xor(MARK, Relaxed);
        let built = (0..self.databases()).filter_map(|db| Some((db, self.built(db)?)));
        let databases = built
            .map(|(db, (index, database))| SnapshotDb {
                db,
                index,
                keys: database.keys(),
                expires: database.expires(),
            })
            .filter(|database| database.keys > 0)
            .collect();
        Some(Snapshot { databases, next_stripe: AtomicUsize::new(0), walked_stripes: AtomicUsize::new(0) })
    }
}

/// A database of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotDb {
    /// Its number at the start.
    pub db: usize,
    /// Keys it had then.
    pub keys: usize,
    /// Keys with a time to live it had then.
    pub expires: usize,
    index: usize,
}

/// A snapshot that is being walked, by any number of threads with a [`Walk`] each. All of it must be walked, even if
/// nobody wants it any more.
pub struct Snapshot {
    databases: Vec<SnapshotDb>,
    next_stripe: AtomicUsize,
    walked_stripes: AtomicUsize,
}

/// Where a walker stands.
#[derive(Default)]
pub struct Walk {
    /// The stripe, the place among the databases, and the position in that database to go on from.
    place: Option<(usize, usize, u64)>,
    /// A flushed database, its root that is being walked, and the position in that.
    flushed: Option<(Flushed, usize, u64)>,
}

impl Walk {
    fn is_idle(&self) -> bool {
        self.place.is_none() && self.flushed.is_none()
    }
}

impl Snapshot {
    /// The databases that had keys.
    pub fn databases(&self) -> &[SnapshotDb] {
        &self.databases
    }

    /// Share of the stripes that are walked, 0 to 1.
    pub fn progress(&self) -> f64 {
        self.walked_stripes.load(Relaxed) as f64 / STRIPES as f64
    }

    /// Fills `batch` with the next entries, those that writers wait for first; false, with an empty batch, if none is
    /// left for this walker. Holds one stripe at a time, for some microseconds.
    pub fn next(&self, space: &Keyspace, walk: &mut Walk, batch: &mut SnapshotBatch) -> bool {
        self.next_of(space, None, walk, batch)
    }

    /// As [`Snapshot::next`], for a caller that holds every stripe meanwhile.
    pub fn next_held(
        &self,
        space: &Keyspace,
        held: &mut Locked<'_>,
        walk: &mut Walk,
        batch: &mut SnapshotBatch,
    ) -> bool {
        assert!(held.covers_all(), "locked-set: who walks without locking holds every stripe");
        self.next_of(space, Some(held), walk, batch)
    }

    fn next_of(
        &self,
        space: &Keyspace,
        held: Option<&Locked<'_>>,
        walk: &mut Walk,
        batch: &mut SnapshotBatch,
    ) -> bool {
        batch.clear(space);
        loop {
            self.take_kept(space, batch);
            while batch.items.len() < BATCH_ENTRIES && self.step(space, held, walk, batch) {}
            if !batch.items.is_empty() {
                return true;
            }
            if walk.is_idle() && self.end(space) {
                return false;
            }
        }
    }

    /// True if nothing is left for an idle walker. The last one ends the snapshot: every stripe is walked, so writers
    /// keep nothing any more.
    fn end(&self, space: &Keyspace) -> bool {
        let is_claimed = self.next_stripe.load(Relaxed) >= STRIPES;
        let is_walked = self.walked_stripes.load(Acquire) == STRIPES;
        let flushed = space.marking.flushed.lock();
        if !is_claimed || !flushed.is_empty() || !space.marking.kept.lock().is_empty() {
            return false;
        }
        if is_walked {
            space.marking.is_running.store(false, Release);
        }
        true
    }

    fn db_of(&self, index: usize) -> Option<usize> {
        self.databases.iter().find(|database| database.index == index).map(|database| database.db)
    }

    /// Moves what writers have kept into the batch.
    fn take_kept(&self, space: &Keyspace, batch: &mut SnapshotBatch) {
        if space.marking.kept_bytes.load(Relaxed) == 0 {
            return;
        }
        let Some(kept) = space.marking.kept.lock().pop() else { return };
        for kept in kept {
            // A database that was empty at the start has no entry with the other mark.
            let db = self.db_of(kept.index).expect("one-mark: an old entry is of a database of the snapshot");
            batch.push(db, &kept.key, kept.entry, kept.clock, kept.holding);
            space.marking.kept_bytes.fetch_sub(kept.bytes, Relaxed);
        }
    }

    /// Copies a few entries; false if there is nothing left to walk.
    fn step(
        &self,
        space: &Keyspace,
        held: Option<&Locked<'_>>,
        walk: &mut Walk,
        batch: &mut SnapshotBatch,
    ) -> bool {
        if walk.flushed.is_none() {
            walk.flushed = space.marking.flushed.lock().pop().map(|flushed| (flushed, 0, 0));
        }
        if let Some(flushed) = walk.flushed.take() {
            walk.flushed = self.step_flushed(space, flushed, batch);
            return true;
        }
        if walk.place.is_none() {
            let stripe = self.next_stripe.fetch_add(1, Relaxed);
            if stripe >= STRIPES {
                return false;
            }
            walk.place = Some((stripe, 0, first_position(stripe)));
        }
        let Some((stripe, at, position)) = walk.place else { unreachable!("walk-place: was just set") };
        let _guard = space.guard(held, stripe);
        walk.place = self.step_stripe(space, stripe, at, position, batch);
        if walk.place.is_none() {
            space.marking.walked.set(stripe);
            self.walked_stripes.fetch_add(1, AcqRel);
        }
        true
    }

    /// Copies entries of a stripe, which is held, from `position` of its `at`-th database on; returns where to go on.
    fn step_stripe(
        &self,
        space: &Keyspace,
        stripe: usize,
        at: usize,
        position: u64,
        batch: &mut SnapshotBatch,
    ) -> Option<(usize, usize, u64)> {
        let database = self.databases.get(at)?;
        let tables = space.database_at(database.index);
        let own = space.marking.own();
        let looked_at = std::cell::Cell::new(0);
        let mut from = position;
        loop {
            let slot = (from >> HASH_BITS) as usize;
            let mut each = |entry: Entry| {
                looked_at.set(looked_at.get() + 1);
                let hold = |value: &Value| space.hold(database.index, entry, value);
                batch.take(database.db, entry, own, hold);
            };
            let next = table::scan(tables.root_of(slot), from, &mut each, &mut || {
                looked_at.get() < ENTRIES_PER_LOCK
            });
            if let Some(next) = next {
                return Some((stripe, at, next));
            }
            if slot + 1 == (stripe + 1) * STRIPE_SLOTS {
                return (at + 1 < self.databases.len()).then_some((stripe, at + 1, first_position(stripe)));
            }
            from = ((slot + 1) as u64) << HASH_BITS;
            if looked_at.get() >= ENTRIES_PER_LOCK {
                return Some((stripe, at, from));
            }
        }
    }

    fn step_flushed(
        &self,
        space: &Keyspace,
        (flushed, at, position): (Flushed, usize, u64),
        batch: &mut SnapshotBatch,
    ) -> Option<(Flushed, usize, u64)> {
        let (own, db) = (space.marking.own(), self.db_of(flushed.index));
        let looked_at = std::cell::Cell::new(0);
        if let (Some(root), Some(db)) = (flushed.roots.get(at), db) {
            let word: Word = AtomicPtr::new(root.word());
            let mut each = |entry: Entry| {
                looked_at.set(looked_at.get() + 1);
                // Nobody writes to what is flushed.
                batch.take(db, entry, own, |_| None);
            };
            // The slot's bits of a position name no part of one slot's table.
            let next = table::scan(&word, position, &mut each, &mut || looked_at.get() < ENTRIES_PER_LOCK);
            return Some(match next {
                Some(next) => (flushed, at, next),
                None => (flushed, at + 1, 0),
            });
        }
        let Flushed { roots, bytes, .. } = flushed;
        space.throw_away(Garbage::Database { roots, expiries: Vec::new(), bytes });
        None
    }
}

fn first_position(stripe: usize) -> u64 {
    ((stripe * STRIPE_SLOTS) as u64) << HASH_BITS
}

/// Entries of a snapshot, copied: strings into one buffer, other values as O(1) clones.
#[derive(Default)]
pub struct SnapshotBatch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    db: usize,
    key: Range<usize>,
    value: ItemValue,
    expire_at_ms: Option<i64>,
    clock: u32,
    holding: Option<Place>,
}

enum ItemValue {
    Inline(Range<usize>),
    Object(Value),
}

/// An entry of a [`SnapshotBatch`].
#[derive(Clone, Copy)]
pub struct SnapshotEntry<'a> {
    /// Its database, by its number at the start.
    pub db: usize,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: ValueRef<'a>,
    /// Unix milliseconds of its end.
    pub expire_at_ms: Option<i64>,
    /// Its 24-bit access clock (see [`crate::access`]).
    pub clock: u32,
}

impl SnapshotBatch {
    /// The entry at a place, counted from 0.
    pub fn get(&self, at: usize) -> Option<SnapshotEntry<'_>> {
        let item = self.items.get(at)?;
        Some(SnapshotEntry {
            db: item.db,
            key: &self.bytes[item.key.clone()],
            value: match &item.value {
                ItemValue::Inline(range) => ValueRef::Inline(&self.bytes[range.clone()]),
                ItemValue::Object(value) => ValueRef::Object(value),
            },
            expire_at_ms: item.expire_at_ms,
            clock: item.clock,
        })
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = SnapshotEntry<'_>> {
        (0..).map_while(|at| self.get(at))
    }

    /// Lets go of all entries.
    fn clear(&mut self, space: &Keyspace) {
        self.bytes.clear();
        for Item { value, holding, .. } in self.items.drain(..) {
            drop(value);
            if let Some(place) = holding {
                space.marking.holdings.end(place, &space.marking.kept_bytes);
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    fn push(&mut self, db: usize, key: &[u8], entry: OwnedEntry, clock: u32, holding: Option<Place>) {
        let key = self.copy(key);
        let value = match entry.value {
            OwnedValue::Inline(bytes, _) => ItemValue::Inline(self.copy(&bytes)),
            OwnedValue::Object(value) => ItemValue::Object(value),
        };
        self.items.push(Item { db, key, value, expire_at_ms: entry.expire_at_ms, clock, holding });
    }

    /// Copies an entry that the snapshot does not have yet, and marks it. The caller holds its stripe, or owns it.
    fn take(&mut self, db: usize, entry: Entry, own: u8, hold: impl FnOnce(&Value) -> Option<Place>) {
        if entry.mark() == own {
            return;
        }
        entry.set_mark(own);
        let view = View::new(entry);
        let key = self.copy(view.key());
        let (value, holding) = match view.value() {
            ValueRef::Inline(bytes) => (ItemValue::Inline(self.copy(bytes)), None),
            ValueRef::Object(value) => (ItemValue::Object(value.clone()), hold(value)),
        };
        let (expire_at_ms, clock) = (view.expire_at_ms(), view.clock());
        self.items.push(Item { db, key, value, expire_at_ms, clock, holding });
    }
}
