//! Big values of which a snapshot has a clone, while others go on writing to them: how much of each it has alone.
//!
//! A clone costs nothing until the value is written to; from then on the snapshot alone has the nodes that writers copy or
//! let go of ([`crate::sharing`]). Writers look here only if there is such a value, and in its stripe. The bytes are exact
//! where the snapshot's is the only clone, and too many where others share it: never more than the clone's own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::keyspace::{Position, STRIPES};

const STRIPES_PER_WORD: usize = u64::BITS as usize;

/// Where a held value stands: its position, and the index of its database.
pub(crate) type Place = (Position, usize);

/// What a snapshot has of one value.
struct Holding {
    bytes: usize,
    /// What the clone takes in all.
    bytes_max: usize,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Holdings {
    /// So that nobody looks further while there is none.
    count: AtomicUsize,
    /// Stripes with at least one. A bit is set under its stripe's lock: who holds that sees it.
    stripes: StripeBits,
    list: Mutex<BTreeMap<Place, Holding>>,
}

impl Holdings {
    /// True if there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// True if a value of this stripe may be held.
    pub(super) fn touch(&self, stripe: usize) -> bool {
        self.any() && self.stripes.has(stripe)
    }

    /// The snapshot has a clone of a value from now on, which takes so many bytes. The value's stripe is held.
    pub(super) fn begin(&self, place: Place, bytes_max: usize) {
        let mut list = self.list.lock();
        // Two keys of one position are told apart by nothing: the second one goes uncounted.
        list.entry(place).or_insert(Holding { bytes: 0, bytes_max });
        self.stripes.set(place.0.stripe());
        self.count.store(list.len(), Relaxed);
    }

    /// A writer has parted with `bytes` of a value, if that is held; `kept_bytes` counts all.
    pub(super) fn add(&self, place: Place, bytes: usize, kept_bytes: &AtomicUsize) {
        let mut list = self.list.lock();
        if let Some(holding) = list.get_mut(&place) {
            let bytes = bytes.min(holding.bytes_max - holding.bytes);
            holding.bytes += bytes;
            kept_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// A value was removed or replaced, if it is held: it counts for `bytes`, and what stands there next is another.
    pub(super) fn close(&self, place: Place, bytes: usize, kept_bytes: &AtomicUsize) {
        let mut list = self.list.lock();
        if let Some(holding) = list.get_mut(&place) {
            let more = bytes.min(holding.bytes_max).saturating_sub(holding.bytes);
            holding.bytes += more;
            holding.bytes_max = holding.bytes;
            kept_bytes.fetch_add(more, Relaxed);
        }
    }

    /// The snapshot has let go of its clone.
    pub(super) fn end(&self, place: Place, kept_bytes: &AtomicUsize) {
        let mut list = self.list.lock();
        let Some(holding) = list.remove(&place) else { return };
        kept_bytes.fetch_sub(holding.bytes, Relaxed);
        let stripe = place.0.stripe();
        let is_near =
            |near: Option<(&Place, &Holding)>| near.is_some_and(|(near, _)| near.0.stripe() == stripe);
        if !is_near(list.range(place..).next()) && !is_near(list.range(..place).next_back()) {
            self.stripes.unset(stripe);
        }
        self.count.store(list.len(), Relaxed);
    }
}

/// A write to a value that may be held.
pub(crate) struct Watched {
    pub(super) place: Place,
    /// What the thread had parted with before it.
    pub(super) parted_before: u64,
}

/// A bit for each stripe.
pub(super) struct StripeBits([AtomicU64; STRIPES / STRIPES_PER_WORD]);

impl Default for StripeBits {
    fn default() -> StripeBits {
        StripeBits([const { AtomicU64::new(0) }; STRIPES / STRIPES_PER_WORD])
    }
}

impl StripeBits {
    pub(super) fn set(&self, stripe: usize) {
        self.0[stripe / STRIPES_PER_WORD].fetch_or(1 << (stripe % STRIPES_PER_WORD), Relaxed);
    }

    fn unset(&self, stripe: usize) {
        self.0[stripe / STRIPES_PER_WORD].fetch_and(!(1 << (stripe % STRIPES_PER_WORD)), Relaxed);
    }

    pub(super) fn has(&self, stripe: usize) -> bool {
        self.0[stripe / STRIPES_PER_WORD].load(Relaxed) >> (stripe % STRIPES_PER_WORD) & 1 != 0
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}
