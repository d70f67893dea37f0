//! Removing fields of hashes that are past their end, a bounded number at a time.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;

use crate::Value;
use crate::entry::Entry;
use crate::keyspace::{Database, Keyspace, Position, StripeState};
use crate::locked::{Lapse, detach_entry, position_of};
use crate::snapshot::Change;
use crate::table;

impl Keyspace {
    /// Removes up to `fields_max` fields that are past their end from the hashes of a locked stripe, and hashes that are
    /// left without fields. Returns how many fields. The caller holds the stripe of `state`.
    pub(crate) fn expire_fields(
        &self,
        state: &mut StripeState,
        now_ms: i64,
        fields_max: usize,
        expired: &mut dyn FnMut(usize, &[u8], Lapse<'_>),
    ) -> usize {
        let mut removed = 0;
        for db in 0..self.databases() {
            let Some((index, database)) = self.built(db) else { continue };
            while removed < fields_max
                && let Some((at, position)) =
                    state.field_ends.get(index).and_then(|ends| ends.first().copied())
                && at < now_ms
            {
                state.field_ends[index].pop_first();
                let position = Position(position);
                database.count_timed_hash(position, -1);
                let due = |entry: Entry| {
                    entry.soonest_end_ms() == Some(at) && position_of(self, entry) == position.0
                };
                if let Some(entry) = table::find(database.root(position), position.0, due) {
                    self.before_change(db, entry, Change::Part);
                    let watched = self.watch_change(db, position);
                    let fields = self.expire_fields_of(
                        (state, index, database),
                        (position, entry),
                        (now_ms, fields_max - removed),
                        &mut |key, lapse| expired(db, key, lapse),
                    );
                    watched.into_iter().for_each(|watched| self.note_change(watched));
                    removed += fields;
                }
            }
        }
        self.expired_fields.fetch_add(removed as u64, Relaxed);
        removed
    }

    /// One hash's part of the above; it stands in no index of field ends while this runs.
    fn expire_fields_of(
        &self,
        (state, index, database): (&mut StripeState, usize, &Database),
        (position, entry): (Position, Entry),
        (now_ms, fields_max): (i64, usize),
        expired: &mut dyn FnMut(&[u8], Lapse<'_>),
    ) -> usize {
        // SAFETY: the caller holds the stripe, and made no other reference to the value.
        let Some(Value::Hash(hash)) = (unsafe { entry.object_mut() }) else { return 0 };
        let fields = hash.remove_past(now_ms, fields_max);
        let emptied = hash.is_empty();
        if self.reports_expired.load(Relaxed) && !fields.is_empty() {
            // SAFETY: the stripe is held, and the entry is not removed yet.
            expired(unsafe { entry.key() }, Lapse::Fields { fields: &fields, emptied });
        }
        if emptied {
            if let Some(at) = entry.expire_at_ms() {
                state.expiries[index].remove(&(at, position.0));
                database.count_expiry(position, -1, self.birth_ms().wrapping_sub(at));
            }
            self.discard(detach_entry(self, database, position, entry));
        } else if let Some(soonest) = hash.soonest_end_ms() {
            state.field_ends[index].insert((soonest, position.0));
            database.count_timed_hash(position, 1);
        }
        fields.len()
    }
}
