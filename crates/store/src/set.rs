//! Sets: sorted integers while all members are integers and few, packed members while small, else a tree in the
//! order of the member's hash. The rules of changing form are Redis 7.2's (`t_set.c`).

use std::sync::Arc;

use crate::encoding::{Encoding, Thresholds};
use crate::entries::{Entries, EntriesBuilder, EntriesIter};
use crate::packed::{Bytes, Decimal, canonical_integer};
use crate::sharing::own;

/// A set. `Clone` is O(1); a writer copies what it touches.
#[derive(Clone)]
pub struct Set {
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// Ascending. Bounded by `set_max_intset_entries`.
    Integers(Arc<Vec<i64>>),
    Members(Entries<1>),
}

/// For writing.
fn own_integers(values: &mut Arc<Vec<i64>>) -> &mut Vec<i64> {
    own(values, |values| values.capacity() * size_of::<i64>())
}

impl Default for Set {
    fn default() -> Self {
        Set { form: Form::Integers(Arc::default()) }
    }
}

impl Set {
    /// A set without members.
    pub fn new() -> Self {
        Set::default()
    }

    /// The set of `members`, which must be distinct, in any order. Takes the smallest form that the thresholds allow.
    /// Cheaper than inserting one by one.
    pub fn from_members<M: AsRef<[u8]>>(
        members: impl IntoIterator<Item = M>,
        thresholds: &Thresholds,
    ) -> Self {
        let mut members = members.into_iter();
        let mut set = Set::default();
        while !matches!(&set.form, Form::Members(entries) if entries.is_large()) {
            match members.next() {
                Some(member) => set.insert(member.as_ref(), thresholds),
                None => return set,
            };
        }
        let mut builder = EntriesBuilder::default();
        let mut small = set.iter();
        while let Some(member) = small.next() {
            builder.push([member]);
        }
        for member in members {
            builder.push([member.as_ref()]);
        }
        Set { form: Form::Members(builder.finish()) }
    }

    /// Announces that about `count` members in all may follow, as one SADD's arguments do: changes to the large
    /// form now if they cannot fit the present one. An empty set chooses its form by `first`.
    pub fn expect_members(&mut self, first: &[u8], count: usize, thresholds: &Thresholds) {
        if self.is_empty() {
            self.form = if canonical_integer(first).is_some() && count <= thresholds.set_max_intset_entries {
                Form::Integers(Arc::default())
            } else {
                Form::Members(Entries::default())
            };
        }
        let limit = match &self.form {
            Form::Integers(_) => thresholds.set_max_intset_entries,
            Form::Members(_) => thresholds.set_max_listpack_entries,
        };
        if count > limit {
            self.make_members().make_large();
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Integers(values) => values.len(),
            Form::Members(entries) => entries.len(),
        }
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if `member` is in the set.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Integers(values) => {
                canonical_integer(member).is_some_and(|value| values.binary_search(&value).is_ok())
            }
            Form::Members(entries) => entries.find(member).is_some(),
        }
    }

    /// Adds `member`; false if it was there.
    pub fn insert(&mut self, member: &[u8], thresholds: &Thresholds) -> bool {
        if let Form::Integers(values) = &mut self.form {
            if let Some(value) = canonical_integer(member)
                && (!values.is_empty() || thresholds.set_max_intset_entries > 0)
            {
                let Err(at) = values.binary_search(&value) else { return false };
                let values = own_integers(values);
                values.insert(at, value);
                if values.len() > thresholds.set_max_intset_entries {
                    self.make_members().make_large();
                }
                return true;
            }
            let longest = values.iter().map(|&v| Decimal::new(v).as_slice().len()).max().unwrap_or(0);
            let fits = values.len() < thresholds.set_max_listpack_entries
                && member.len().max(longest) <= thresholds.set_max_listpack_value;
            let entries = self.make_members();
            if !fits {
                entries.make_large();
            }
            return entries.put([member]);
        }
        let entries = self.make_members();
        if entries.is_large() {
            return entries.put([member]);
        }
        if entries.find(member).is_some() {
            return false;
        }
        if entries.len() >= thresholds.set_max_listpack_entries
            || member.len() > thresholds.set_max_listpack_value
        {
            entries.make_large();
        }
        entries.put([member])
    }

    /// Removes `member`; false if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Integers(values) => {
                let Some(Ok(at)) = canonical_integer(member).map(|value| values.binary_search(&value)) else {
                    return false;
                };
                own_integers(values).remove(at);
                true
            }
            Form::Members(entries) => entries.remove(member),
        }
    }

    /// The member of rank `rank` (in the set's present order): a uniform random rank gives a uniform random member.
    pub fn at(&self, rank: usize) -> Option<Bytes<'_>> {
        match &self.form {
            Form::Integers(values) => values.get(rank).map(|&value| Bytes::integer(value)),
            Form::Members(entries) => entries.at(rank).map(|(items, at)| Bytes::slice(items.get(at))),
        }
    }

    /// Removes and returns the member of rank `rank`. Panics when there is none.
    pub fn take_at(&mut self, rank: usize) -> Vec<u8> {
        let Some(member) = self.at(rank).map(|member| member.to_vec()) else {
            panic!("set: take {rank} of {}", self.len())
        };
        match &mut self.form {
            Form::Integers(values) => {
                own_integers(values).remove(rank);
            }
            Form::Members(entries) => entries.remove_at(rank),
        }
        member
    }

    /// Steps through what the set is now, whatever is written to it meanwhile. Integers come in numeric order.
    pub fn iter(&self) -> SetIter {
        SetIter {
            inner: match &self.form {
                Form::Integers(values) => {
                    Walking::Integers { values: Arc::clone(values), next: 0, text: Decimal::default() }
                }
                Form::Members(entries) => Walking::Members(EntriesIter::new(entries)),
            },
        }
    }

    /// Visits about `count` members from `cursor` on and returns the next cursor, 0 at the end (cursors are below
    /// 2^53). A member that is there throughout a scan is visited at least once. A small set is visited whole.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> u64 {
        match &self.form {
            Form::Integers(values) => {
                values.iter().for_each(|&value| visit(Decimal::new(value).as_slice()));
                0
            }
            Form::Members(entries) => entries.scan(cursor, count, &mut |items, at| visit(items.get(at))),
        }
    }

    /// `Intset`, `Listpack` or `Hashtable`.
    pub fn encoding(&self) -> Encoding {
        match &self.form {
            Form::Integers(_) => Encoding::Intset,
            Form::Members(entries) if entries.is_large() => Encoding::Hashtable,
            Form::Members(_) => Encoding::Listpack,
        }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Integers(values) => values.capacity() * size_of::<i64>() + 40,
            Form::Members(entries) => entries.memory_bytes(),
        }
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        match &self.form {
            Form::Integers(_) => 1,
            Form::Members(entries) => entries.node_count(),
        }
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.form, &other.form) {
            (Form::Integers(a), Form::Integers(b)) => Arc::ptr_eq(a, b),
            (Form::Members(a), Form::Members(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// The members as byte strings, from now on.
    fn make_members(&mut self) -> &mut Entries<1> {
        if let Form::Integers(values) = &self.form {
            let mut entries = Entries::default();
            if values.len() > 512 {
                let mut builder = EntriesBuilder::default();
                values.iter().for_each(|&value| builder.push([Decimal::new(value).as_slice()]));
                entries = builder.finish();
            } else {
                values.iter().for_each(|&value| {
                    entries.put([Decimal::new(value).as_slice()]);
                });
            }
            self.form = Form::Members(entries);
        }
        match &mut self.form {
            Form::Members(entries) => entries,
            Form::Integers(_) => unreachable!("set: just converted"),
        }
    }
}

/// Steps through a clone of a set, which it owns.
pub struct SetIter {
    inner: Walking,
}

enum Walking {
    Integers { values: Arc<Vec<i64>>, next: usize, text: Decimal },
    Members(EntriesIter<1>),
}

impl SetIter {
    /// The next member.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<&[u8]> {
        match &mut self.inner {
            Walking::Integers { values, next, text } => {
                *text = Decimal::new(*values.get(*next)?);
                *next += 1;
                Some(text.as_slice())
            }
            Walking::Members(iter) => iter.next().map(|(items, at)| items.get(at)),
        }
    }

    /// Members not yet returned.
    pub fn remaining(&self) -> usize {
        match &self.inner {
            Walking::Integers { values, next, .. } => values.len() - next,
            Walking::Members(iter) => iter.remaining(),
        }
    }
}
