//! Sets of slots.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use base::slot::SLOT_COUNT;

const WORDS: usize = SLOT_COUNT as usize / 64;
/// Slots that share a lock.
const STRIPE_SLOTS: u16 = SLOT_COUNT / 1024;

const _: () = assert!(64 % STRIPE_SLOTS == 0, "a stripe's slots are in one word");

/// Some of the slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }
}

impl SlotSet {
    /// The slots of these ranges. Panics for a slot that there is none of.
    pub fn of(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in ranges.into_iter().flatten() {
            assert!(slot < SLOT_COUNT, "slot-bounds: {slot}");
            set.0[usize::from(slot) / 64] |= 1 << (slot % 64);
        }
        set
    }

    /// True if a slot is one of them.
    #[inline]
    pub fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot) / 64] & (1 << (slot % 64)) != 0
    }

    /// The slots, in ascending order.
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        (0..SLOT_COUNT).filter(|slot| self.has(*slot))
    }

    /// The first slot from `from` on.
    pub fn next(&self, from: u16) -> Option<u16> {
        (from..SLOT_COUNT).find(|slot| self.has(*slot))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// True if a slot is in both.
    pub fn meets(&self, other: &SlotSet) -> bool {
        self.0.iter().zip(&*other.0).any(|(a, b)| a & b != 0)
    }

    /// The stripes that they are in, in ascending order.
    pub fn stripes(&self) -> Vec<usize> {
        let mut stripes: Vec<usize> = self.slots().map(|slot| usize::from(slot / STRIPE_SLOTS)).collect();
        stripes.dedup();
        stripes
    }

    /// The ranges, in ascending order; no two touch.
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in self.slots() {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }
}

/// As CLUSTER NODES shows slots.
impl fmt::Display for SlotSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges().iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(out, "{space}{start}")?,
                (start, end) => write!(out, "{space}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SlotSet({self})")
    }
}

/// Slots that are marked, for all threads to see. No slot is marked twice at a time.
pub struct SlotMarks {
    /// How many sets are marked: so that nobody looks further while there is none.
    sets: AtomicUsize,
    words: [AtomicU64; WORDS],
}

impl Default for SlotMarks {
    fn default() -> SlotMarks {
        SlotMarks { sets: AtomicUsize::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }
}

impl SlotMarks {
    /// True if some slot is marked.
    #[inline]
    pub fn any(&self) -> bool {
        self.sets.load(SeqCst) > 0
    }

    /// True if a slot is marked.
    #[inline]
    pub fn has(&self, slot: u16) -> bool {
        self.words[usize::from(slot) / 64].load(SeqCst) & (1 << (slot % 64)) != 0
    }

    /// True if one of a stripe's slots is marked.
    pub fn has_in_stripe(&self, stripe: usize) -> bool {
        let first = stripe * usize::from(STRIPE_SLOTS);
        let mask = ((1_u64 << STRIPE_SLOTS) - 1) << (first % 64);
        self.words[first / 64].load(SeqCst) & mask != 0
    }

    /// True if one of these slots is marked.
    pub fn meets(&self, slots: &SlotSet) -> bool {
        self.words.iter().zip(&*slots.0).any(|(word, slots)| word.load(SeqCst) & slots != 0)
    }

    /// Marks slots.
    pub(super) fn mark(&self, slots: &SlotSet) {
        for (word, slots) in self.words.iter().zip(&*slots.0) {
            word.fetch_or(*slots, SeqCst);
        }
        self.sets.fetch_add(1, SeqCst);
    }

    /// Takes the marks of slots off that were marked together.
    pub(super) fn unmark(&self, slots: &SlotSet) {
        for (word, slots) in self.words.iter().zip(&*slots.0) {
            word.fetch_and(!slots, SeqCst);
        }
        self.sets.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_marks_have_what_was_put_in() {
        let set = SlotSet::of([0..=0, 14..=17, 63..=64, 16_383..=16_383]);
        assert_eq!(set.to_string(), "0 14-17 63-64 16383");
        assert_eq!((set.len(), set.stripes()), (8, vec![0, 1, 3, 4, 1023]));
        assert_eq!((set.next(1), set.next(65), set.next(18)), (Some(14), Some(16_383), Some(63)));
        assert!(set.meets(&SlotSet::of([60..=63])) && !set.meets(&SlotSet::of([1..=13])));
        let marks = SlotMarks::default();
        assert!(!marks.any() && !marks.meets(&set));
        marks.mark(&set);
        assert!(marks.any() && marks.has(15) && !marks.has(13) && marks.meets(&SlotSet::of([17..=20])));
        let stripes: Vec<usize> = (0..1024).filter(|stripe| marks.has_in_stripe(*stripe)).collect();
        assert_eq!(stripes, set.stripes());
        marks.unmark(&set);
        assert!(!marks.any() && !marks.has(15));
        assert!(SlotSet::default().is_empty());
    }
}
