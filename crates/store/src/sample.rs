//! Entries picked by chance, for eviction. None of it costs more with more keys.
#![allow(unsafe_code)]

use std::collections::BTreeSet;

use crate::alloc::used_bytes;
use crate::entry::Entry;
use crate::keyspace::{Database, Keyspace, Position, STRIPE_SLOTS, STRIPES, StripeState};
use crate::locked::View;
use crate::table;

/// Entries that are looked at for each one with a time to live, before the index is asked instead: so one in
/// eight of the keys suffices, which leaves the index to databases where such keys are rare.
const LOOKS_PER_VOLATILE: usize = 8;

/// Which keys may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Any.
    All,
    /// Those with a time to live.
    Volatile,
    /// Those with a time to live, and of each part of the keyspace that is looked at the one that ends soonest.
    Soonest,
}

impl Keyspace {
    /// Shows up to `count` entries picked by chance, one locked stripe at a time; fewer if there are fewer or they
    /// are hard to find, but at least one if there is any whose stripe is not held for long. May show expired ones, and
    /// one twice.
    pub fn sample(
        &self,
        db: usize,
        among: Among,
        count: usize,
        rng: &mut fastrand::Rng,
        visit: &mut dyn FnMut(View<'_>),
    ) {
        let Some((index, database)) = self.built(db) else { return };
        let mut left = count;
        if among != Among::Soonest {
            left -= sample_tables(self, database, among, count, rng, visit);
        }
        if among != Among::All && left > 0 {
            self.sample_index(index, database, among, left, rng, visit);
        }
    }

    /// As [`Keyspace::sample`], from the stripes' indexes of times to live.
    fn sample_index(
        &self,
        index: usize,
        database: &Database,
        among: Among,
        mut left: usize,
        rng: &mut fastrand::Rng,
        visit: &mut dyn FnMut(View<'_>),
    ) {
        let first = rng.usize(..STRIPES);
        for stripe in (first..STRIPES).chain(0..first) {
            if left == 0 || database.expires() == 0 {
                return;
            }
            if self.next_due_ms(stripe) == i64::MAX {
                continue;
            }
            let Some(state) = self.patient_lock(stripe) else { continue };
            let Some((at, position)) = pick(&state, index, among, rng) else { continue };
            let position = Position(position);
            let found = table::find(database.root(position), position.0, |entry| {
                // SAFETY: the stripe is locked; the key is only hashed.
                entry.expire_at_ms() == Some(at) && self.position(unsafe { entry.key() }) == position
            });
            if let Some(entry) = found {
                left -= 1;
                visit(View::new(entry));
            }
        }
    }
}

/// Shows entries from the tables of slots picked by chance, weighted by their keys; returns how many.
fn sample_tables(
    space: &Keyspace,
    database: &Database,
    among: Among,
    count: usize,
    rng: &mut fastrand::Rng,
    visit: &mut dyn FnMut(View<'_>),
) -> usize {
    let all = among == Among::All;
    if !all && database.expires() == 0 {
        return 0;
    }
    let looks_max = if all { count } else { count * LOOKS_PER_VOLATILE };
    let (mut shown, mut looks) = (0, 0);
    // A slot may have been emptied between the weighing and the lock, so that few looks take many slots.
    for _ in 0..2 * looks_max {
        let total = database.keys();
        if total == 0 || shown == count || looks == looks_max {
            break;
        }
        let Some(slot) = database.slot_of_nth(rng.usize(..total)) else { continue };
        let Some(_guard) = space.patient_lock(slot / STRIPE_SLOTS) else { continue };
        table::sample(database.root_of(slot), rng, &mut |entry: Entry| {
            looks += 1;
            if all || entry.expire_at_ms().is_some() {
                shown += 1;
                // The stripe is locked while `visit` runs.
                visit(View::new(entry));
            }
            shown < count && looks < looks_max
        });
    }
    shown
}

/// A (time, position) of a stripe's index: the soonest, or one near a time picked by chance. The latter prefers keys
/// after long gaps; every other pick is the soonest, so that no such key is picked for ever.
fn pick(state: &StripeState, index: usize, among: Among, rng: &mut fastrand::Rng) -> Option<(i64, u64)> {
    let expiries: &BTreeSet<(i64, u64)> = state.expiries.get(index)?;
    let (first, last) = (*expiries.first()?, *expiries.last()?);
    if among == Among::Soonest || rng.bool() {
        return Some(first);
    }
    let at = rng.i64(first.0..=last.0);
    Some(expiries.range((at, rng.u64(..))..).next().copied().unwrap_or(last))
}

impl Keyspace {
    /// Bytes that wait for the reaper, estimated: they are allocated, and about to be free.
    pub fn garbage_bytes(&self) -> usize {
        self.garbage().pending_bytes().min(used_bytes().saturating_sub(self.birth_bytes()))
    }

    /// Bytes of a database, estimated: its share of what was allocated since the keyspace was made, by keys.
    pub(crate) fn share_bytes(&self, database: &Database) -> usize {
        let keys: usize = (0..self.databases()).map(|db| self.len(db)).sum();
        let live_bytes = used_bytes().saturating_sub(self.birth_bytes()).saturating_sub(self.garbage_bytes());
        (live_bytes as u128 * database.keys() as u128 / keys.max(1) as u128) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Touch;
    use crate::entry::Form;
    use crate::{Expiry, Instant, Placement};

    const AT: Instant = Instant { now_ms: 1_000, touch: Some(Touch::Recency) };

    /// Keys 0.. of which every `volatile_each`-th has a time to live (0: none).
    fn space_of(keys: u64, volatile_each: u64, placement: Placement) -> Keyspace {
        let space = Keyspace::new(2, placement, 0);
        for n in 0..keys {
            let key = n.to_string();
            let position = space.position(key.as_bytes());
            let is_volatile = volatile_each > 0 && n.is_multiple_of(volatile_each);
            let expiry = if is_volatile { Expiry::At(10_000 + n as i64) } else { Expiry::Clear };
            space.lock(position).put_string(1, position, key.as_bytes(), b"v", Form::Plain, expiry, AT);
        }
        space
    }

    /// How often each key was picked.
    fn picks(space: &Keyspace, keys: usize, among: Among, rounds: usize) -> Vec<usize> {
        let mut picked = vec![0; keys];
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..rounds {
            let mut seen = 0;
            space.sample(1, among, 5, &mut rng, &mut |view| {
                let key = std::str::from_utf8(view.key()).expect("a number");
                picked[key.parse::<usize>().expect("a number")] += 1;
                seen += 1;
            });
            assert!((1..=5).contains(&seen), "{seen} of 5");
        }
        picked
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million samples")]
    fn any_key_is_as_likely_as_another() {
        for placement in [Placement::Hash, Placement::Slots] {
            let keys = 20_000;
            let picked = picks(&space_of(keys as u64, 0, placement), keys, Among::All, 100_000);
            let never = picked.iter().filter(|count| **count == 0).count();
            let most = picked.iter().max().copied().unwrap_or(0);
            assert!(never < keys / 200 && most < 150, "{never} never, one {most} times, of 25 each");
        }
    }

    #[test]
    fn few_keys_are_found_too() {
        for keys in [1, 2, 7] {
            let space = space_of(keys as u64, 1, Placement::Hash);
            for among in [Among::All, Among::Volatile, Among::Soonest] {
                let picked = picks(&space, keys, among, 300);
                assert!(picked.iter().all(|count| *count > 0), "{among:?} {picked:?}");
            }
        }
    }

    #[test]
    fn volatile_keys_are_found_among_any_number_of_others() {
        let keys = if cfg!(miri) { 200 } else { 20_000 };
        for each in [2, 10, keys as u64 / 4] {
            let space = space_of(keys as u64, each, Placement::Hash);
            for among in [Among::Volatile, Among::Soonest] {
                let picked = picks(&space, keys, among, if cfg!(miri) { 20 } else { 2_000 });
                let right = picked
                    .iter()
                    .enumerate()
                    .all(|(n, count)| *count == 0 || (n as u64).is_multiple_of(each));
                assert!(right, "{among:?} picked a key without a time to live");
                let found = picked.iter().filter(|count| **count > 0).count();
                assert!(found > 2, "{among:?} picked {found} keys of one in {each}");
            }
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let space = space_of(50, 0, Placement::Hash);
        let mut rng = fastrand::Rng::with_seed(1);
        for (db, among) in [(0, Among::All), (1, Among::Volatile), (1, Among::Soonest)] {
            space.sample(db, among, 5, &mut rng, &mut |_| panic!("{among:?} of {db}"));
        }
    }
}
