//! Hashes: fields with values, in insertion order while small, in the order of the field's hash when large.
//!
//! A field may have an end, a time at which it lapses. A hash in which no field ever had one keeps nothing for ends. In
//! one that has, the ends stand beside the entries in a sorted set, field by time: it finds the end of a field, the
//! soonest end, and the number of fields past theirs without a walk. The first end of a hash of millions of fields
//! therefore costs what any other does.
//!
//! A field past its end stays until something removes it; readers are told the time and do not see it.

use std::ops::Bound;
use std::sync::Arc;

use crate::ZSet;
use crate::encoding::{Encoding, Thresholds};
use crate::entries::{Entries, EntriesBuilder, EntriesIter};
use crate::packed::Packed;
use crate::sharing::own_flat;

/// Sizes at which the ends leave their small form; nothing shows it.
const ENDS_SMALL_MAX: usize = 64;

/// A hash. `Clone` is O(1); a writer copies what it touches.
#[derive(Clone)]
pub struct Hash {
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// No field has an end, or ever had.
    Plain(Entries<2>),
    /// Fields may have ends.
    Timed(Arc<Timed>),
}

// Hashes without ends pay nothing for those that have some.
const _: () = assert!(size_of::<Hash>() == size_of::<Entries<2>>());

#[derive(Clone, Default)]
struct Timed {
    entries: Entries<2>,
    /// The end of every field that has one, in unix milliseconds: below 2^53, and so exact as a score.
    ends: ZSet,
}

impl Timed {
    fn end_ms(&self, field: &[u8]) -> Option<i64> {
        self.ends.score(field).map(|score| score as i64)
    }

    /// True if the field has an end that has passed. As keys, it lives through its last millisecond.
    fn is_past_end(&self, field: &[u8], now_ms: i64) -> bool {
        // Mostly nothing is, since what is past its end gets removed soon: then the field need not be looked up.
        soonest_ms(&self.ends).is_some_and(|soonest| soonest < now_ms)
            && self.end_ms(field).is_some_and(|end| end < now_ms)
    }
}

fn soonest_ms(ends: &ZSet) -> Option<i64> {
    ends.at(0).map(|(_, score)| score as i64)
}

impl Default for Hash {
    fn default() -> Self {
        Hash { form: Form::Plain(Entries::default()) }
    }
}

impl Hash {
    /// A hash without fields.
    pub fn new() -> Self {
        Hash::default()
    }

    /// The hash of distinct fields with values, in any order. Takes the smallest form that the thresholds allow. Cheaper
    /// than setting one by one.
    pub fn from_fields<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        fields: impl IntoIterator<Item = (F, V)>,
        thresholds: &Thresholds,
    ) -> Self {
        let mut fields = fields.into_iter();
        let mut entries = Entries::default();
        while !entries.is_large() {
            match fields.next() {
                Some((field, value)) => put(&mut entries, field.as_ref(), value.as_ref(), thresholds),
                None => return Hash { form: Form::Plain(entries) },
            };
        }
        let mut builder = EntriesBuilder::default();
        let mut small = EntriesIter::new(&entries);
        while let Some((items, at)) = small.next() {
            builder.push([items.get(at), items.get(at + 1)]);
        }
        for (field, value) in fields {
            builder.push([field.as_ref(), value.as_ref()]);
        }
        Hash { form: Form::Plain(builder.finish()) }
    }

    /// Number of fields, those past their end included.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of fields that are not past their end.
    pub fn live_len(&self, now_ms: i64) -> usize {
        self.len() - self.past_len(now_ms)
    }

    /// Number of fields that are past their end and wait to be removed. O(log n).
    pub fn past_len(&self, now_ms: i64) -> usize {
        match &self.form {
            Form::Plain(_) => 0,
            Form::Timed(timed) => timed.ends.rank_of_score_bound(Bound::Included(now_ms as f64)),
        }
    }

    /// The value of `field`, unless it is past its end.
    #[inline]
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<&[u8]> {
        let (items, at) = self.entries().find(field)?;
        (!self.is_past_end(field, now_ms)).then(|| items.get(at + 1))
    }

    /// True if `field` exists and is not past its end.
    #[inline]
    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        self.entries().find(field).is_some() && !self.is_past_end(field, now_ms)
    }

    /// True if `field` is there, but past its end.
    #[inline]
    pub fn is_past_end(&self, field: &[u8], now_ms: i64) -> bool {
        match &self.form {
            Form::Plain(_) => false,
            Form::Timed(timed) => timed.is_past_end(field, now_ms),
        }
    }

    /// Bytes of the value of `field`, 0 if there is none.
    pub fn value_len(&self, field: &[u8], now_ms: i64) -> usize {
        self.get(field, now_ms).map_or(0, <[u8]>::len)
    }

    /// Sets `field` to `value` and takes its end away. True if the field is new. Changes to the large form when a
    /// threshold is passed.
    pub fn set(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        match &mut self.form {
            Form::Plain(entries) => put(entries, field, value, thresholds),
            Form::Timed(timed) => {
                let timed = own_flat(timed);
                let added = put(&mut timed.entries, field, value, thresholds);
                if !added {
                    timed.ends.remove(field);
                }
                added
            }
        }
    }

    /// As [`Hash::set`], but an end stays.
    pub fn set_value(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        put(self.entries_mut(), field, value, thresholds)
    }

    /// Removes `field`, past its end or not; false if there is none.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.form {
            Form::Plain(entries) => entries.remove(field),
            Form::Timed(timed) => {
                let timed = own_flat(timed);
                let removed = timed.entries.remove(field);
                if removed {
                    timed.ends.remove(field);
                }
                removed
            }
        }
    }

    /// The end of `field` in unix milliseconds: `None` for no field, `Some(None)` for one without an end.
    pub fn end_ms(&self, field: &[u8]) -> Option<Option<i64>> {
        self.entries().find(field)?;
        match &self.form {
            Form::Plain(_) => Some(None),
            Form::Timed(timed) => Some(timed.end_ms(field)),
        }
    }

    /// Gives `field` an end, or takes it away; false if there is no such field. The encoding is that of a hash with ends
    /// from now on.
    pub fn set_end_ms(&mut self, field: &[u8], end_ms: Option<i64>) -> bool {
        let timed = self.make_timed();
        if timed.entries.find(field).is_none() {
            return false;
        }
        match end_ms {
            Some(end_ms) => {
                let thresholds = Thresholds {
                    zset_max_listpack_entries: ENDS_SMALL_MAX,
                    zset_max_listpack_value: ENDS_SMALL_MAX,
                    ..Thresholds::default()
                };
                timed.ends.insert(field, end_ms as f64, &thresholds);
            }
            None => {
                timed.ends.remove(field);
            }
        }
        true
    }

    /// Says that fields are about to get ends: the encoding changes, whether one does or not.
    pub fn expect_ends(&mut self) {
        self.make_timed();
    }

    /// The soonest end of any field, in unix milliseconds. O(log n).
    #[inline]
    pub fn soonest_end_ms(&self) -> Option<i64> {
        match &self.form {
            Form::Plain(_) => None,
            Form::Timed(timed) => soonest_ms(&timed.ends),
        }
    }

    /// Removes up to `fields_max` fields that are past their end, soonest first, and returns them.
    pub fn remove_past(&mut self, now_ms: i64, fields_max: usize) -> Vec<Box<[u8]>> {
        let count = self.past_len(now_ms).min(fields_max);
        let (Form::Timed(timed), 1..) = (&mut self.form, count) else { return Vec::new() };
        let timed = own_flat(timed);
        let mut past = Vec::with_capacity(count);
        let mut soonest = timed.ends.iter();
        while past.len() < count
            && let Some((field, _)) = soonest.next()
        {
            past.push(Box::from(field));
        }
        // Or else the removal would copy what the iterator holds.
        drop(soonest);
        timed.ends.remove_range(0, count - 1);
        for field in &past {
            timed.entries.remove(field);
        }
        past
    }

    /// The field of rank `rank` (in this hash's present order) and its value: a uniform random rank gives a uniform
    /// random field, which may be past its end.
    pub fn at(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        self.entries().at(rank).map(|(items, at)| (items.get(at), items.get(at + 1)))
    }

    /// Steps through what the hash is now, fields past their end included, whatever is written to it meanwhile.
    pub fn iter(&self) -> HashIter {
        self.live_iter(i64::MIN)
    }

    /// Steps through the fields that are not past their end now.
    pub fn live_iter(&self, now_ms: i64) -> HashIter {
        let ends = match &self.form {
            Form::Plain(_) => None,
            Form::Timed(timed) => Some(timed.ends.clone()),
        };
        let has_past = self.past_len(now_ms) > 0;
        HashIter {
            inner: EntriesIter::new(self.entries()),
            ends,
            remaining: self.live_len(now_ms),
            hidden_before_ms: has_past.then_some(now_ms),
        }
    }

    /// Visits about `count` fields from `cursor` on, but for those past their end, and returns the next cursor, 0 at
    /// the end (cursors are below 2^53). A field that is there throughout a scan is visited at least once. A small hash
    /// is visited whole.
    pub fn scan(&self, cursor: u64, count: usize, now_ms: i64, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        self.entries().scan(cursor, count, &mut |items: &Packed, at| {
            let field = items.get(at);
            if !self.is_past_end(field, now_ms) {
                visit(field, items.get(at + 1));
            }
        })
    }

    /// `Listpack`, `ListpackEx` for a small hash with ends, or `Hashtable`.
    pub fn encoding(&self) -> Encoding {
        match &self.form {
            _ if self.entries().is_large() => Encoding::Hashtable,
            Form::Plain(_) => Encoding::Listpack,
            Form::Timed(_) => Encoding::ListpackEx,
        }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        let ends_bytes = match &self.form {
            Form::Plain(_) => 0,
            Form::Timed(timed) => timed.ends.memory_bytes() + size_of::<Timed>() + 2 * size_of::<usize>(),
        };
        self.entries().memory_bytes() + ends_bytes
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        let ends_weight = match &self.form {
            Form::Plain(_) => 0,
            Form::Timed(timed) => timed.ends.weight(),
        };
        self.entries().node_count() + ends_weight
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.form, &other.form) {
            (Form::Plain(one), Form::Plain(other)) => one.is_same(other),
            (Form::Timed(one), Form::Timed(other)) => {
                one.entries.is_same(&other.entries) && one.ends.is_same(&other.ends)
            }
            _ => false,
        }
    }

    #[inline]
    fn entries(&self) -> &Entries<2> {
        match &self.form {
            Form::Plain(entries) => entries,
            Form::Timed(timed) => &timed.entries,
        }
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut Entries<2> {
        match &mut self.form {
            Form::Plain(entries) => entries,
            Form::Timed(timed) => &mut own_flat(timed).entries,
        }
    }

    fn make_timed(&mut self) -> &mut Timed {
        if let Form::Plain(entries) = &mut self.form {
            let timed = Timed { entries: std::mem::take(entries), ends: ZSet::new() };
            self.form = Form::Timed(Arc::new(timed));
        }
        match &mut self.form {
            Form::Timed(timed) => own_flat(timed),
            Form::Plain(_) => unreachable!("hash-form: it was just made one with ends"),
        }
    }
}

fn put(entries: &mut Entries<2>, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
    if field.len().max(value.len()) > thresholds.hash_max_listpack_value {
        entries.make_large();
    }
    let added = entries.put([field, value]);
    if added && !entries.is_large() && entries.len() > thresholds.hash_max_listpack_entries {
        entries.make_large();
    }
    added
}

/// Steps through a clone of a hash, which it owns.
pub struct HashIter {
    inner: EntriesIter<2>,
    ends: Option<ZSet>,
    remaining: usize,
    /// Fields with an end before this are passed over.
    hidden_before_ms: Option<i64>,
}

impl HashIter {
    /// The next field and its value.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(&[u8], &[u8])> {
        loop {
            if !self.inner.advance() {
                return None;
            }
            if !self.is_hidden() {
                break;
            }
        }
        self.remaining -= 1;
        self.inner.current().map(|(items, at)| (items.get(at), items.get(at + 1)))
    }

    /// The next field, its value, and its end in unix milliseconds if it has one.
    pub fn next_with_end(&mut self) -> Option<(&[u8], &[u8], Option<i64>)> {
        self.next()?;
        let (items, at) = self.inner.current()?;
        let end_ms = self.ends.as_ref().and_then(|ends| ends.score(items.get(at))).map(|score| score as i64);
        Some((items.get(at), items.get(at + 1), end_ms))
    }

    fn is_hidden(&self) -> bool {
        let Some((now_ms, ends)) = self.hidden_before_ms.zip(self.ends.as_ref()) else { return false };
        let end = self.inner.current().and_then(|(items, at)| ends.score(items.get(at)));
        end.is_some_and(|end| (end as i64) < now_ms)
    }

    /// Fields not yet returned.
    pub fn remaining(&self) -> usize {
        self.remaining
    }
}
