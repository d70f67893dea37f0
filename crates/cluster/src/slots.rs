//! Who owns which slots.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use base::slot::SLOT_COUNT;
use serde::{Deserialize, Serialize};

use crate::ids::ShardId;

/// Slots of one owner: ranges in ascending order that neither overlap nor touch. Written `0-5460,5462`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SlotRanges(Vec<RangeInclusive<u16>>);

impl SlotRanges {
    /// The ranges of these slots, which come in ascending order.
    pub fn of(slots: impl IntoIterator<Item = u16>) -> SlotRanges {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some(last) if u32::from(*last.end()) + 1 == u32::from(slot) => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        SlotRanges(ranges)
    }

    /// The ranges.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }

    /// Every slot, in ascending order.
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }

    /// True if a slot is one of them.
    pub fn has(&self, slot: u16) -> bool {
        let after = self.0.partition_point(|range| *range.start() <= slot);
        after > 0 && self.0[after - 1].contains(&slot)
    }

    /// How many slots there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|range| range.len()).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for SlotRanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(out, "{comma}{start}")?,
                (start, end) => write!(out, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl From<SlotRanges> for String {
    fn from(ranges: SlotRanges) -> String {
        ranges.to_string()
    }
}

impl TryFrom<String> for SlotRanges {
    type Error = String;

    fn try_from(text: String) -> Result<SlotRanges, String> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (start, end) = word.split_once('-').unwrap_or((word, word));
            let slot = |text: &str| text.parse::<u16>().ok().filter(|slot| *slot < SLOT_COUNT);
            let wrong = || format!("{word:?} is not a range of slots in ascending order");
            let (start, end) = slot(start).zip(slot(end)).ok_or_else(wrong)?;
            let follows = ranges.last().is_none_or(|last| *last.end() + 1 < start);
            if start > end || !follows {
                return Err(wrong());
            }
            ranges.push(start..=end);
        }
        Ok(SlotRanges(ranges))
    }
}

/// The owner of each slot, by shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotMap(BTreeMap<ShardId, SlotRanges>);

impl SlotMap {
    /// The shards that own slots, and which.
    pub fn shards(&self) -> impl Iterator<Item = (&ShardId, &SlotRanges)> {
        self.0.iter()
    }

    /// The slots of this shard.
    pub fn of(&self, shard: &ShardId) -> Option<&SlotRanges> {
        self.0.get(shard)
    }

    /// An error if a slot has two owners: nobody may serve from such a map.
    pub fn check(&self) -> Result<(), String> {
        let mut ranges: Vec<_> = self
            .0
            .iter()
            .flat_map(|(shard, slots)| {
                slots.ranges().iter().map(move |range| (*range.start(), *range.end(), shard))
            })
            .collect();
        ranges.sort();
        for pair in ranges.windows(2) {
            let ((_, end, one), (start, _, other)) = (pair[0], pair[1]);
            if start <= end {
                return Err(format!("slot {start} has two owners, {one} and {other}"));
            }
        }
        Ok(())
    }

    /// The owner of each slot. An error if a slot has two.
    pub fn owners(&self) -> Result<Vec<Option<&ShardId>>, String> {
        let mut owners = vec![None; usize::from(SLOT_COUNT)];
        for (shard, ranges) in &self.0 {
            for slot in ranges.slots() {
                if let Some(other) = owners[usize::from(slot)].replace(shard) {
                    return Err(format!("slot {slot} has two owners, {other} and {shard}"));
                }
            }
        }
        Ok(owners)
    }

    /// Gives slots to a shard, or with None to nobody; whoever had them has them no more.
    pub fn assign(
        &mut self,
        slots: impl IntoIterator<Item = u16>,
        to: Option<&ShardId>,
    ) -> Result<(), String> {
        let mut owners: Vec<Option<ShardId>> =
            self.owners()?.into_iter().map(Option::<&ShardId>::cloned).collect();
        for slot in slots {
            owners[usize::from(slot)] = to.cloned();
        }
        let mut by_shard: BTreeMap<ShardId, Vec<u16>> = BTreeMap::new();
        for (slot, owner) in owners.into_iter().enumerate() {
            if let Some(owner) = owner {
                by_shard.entry(owner).or_default().push(slot as u16);
            }
        }
        self.0 = by_shard.into_iter().map(|(shard, slots)| (shard, SlotRanges::of(slots))).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(digit: &str) -> ShardId {
        ShardId::new(&digit.repeat(40)).expect("40 digits")
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for text in ["", "0", "0-16383", "0-5,7,9-16383"] {
            let ranges = SlotRanges::try_from(text.to_owned()).expect(text);
            assert_eq!(ranges.to_string(), text);
            assert_eq!(SlotRanges::of(ranges.slots()), ranges);
            let found: Vec<u16> = (0..SLOT_COUNT).filter(|slot| ranges.has(*slot)).collect();
            assert_eq!(found, ranges.slots().collect::<Vec<_>>());
        }
        for wrong in ["16384", "5-4", "0-5,6", "3,2", "x", "1-", "0-5,5"] {
            assert!(SlotRanges::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_slot_has_one_owner() {
        let (one, two) = (shard("1"), shard("2"));
        let mut map = SlotMap::default();
        map.assign(0..100, Some(&one)).expect("one owner each");
        map.assign(50..60, Some(&two)).expect("one owner each");
        assert_eq!(map.of(&one).map(ToString::to_string).as_deref(), Some("0-49,60-99"));
        assert_eq!(map.of(&two).map(SlotRanges::count), Some(10));
        map.assign(0..16_384, None).expect("one owner each");
        assert_eq!(map, SlotMap::default());
        let doubled = format!(r#"{{"{one}":"0-9","{two}":"9"}}"#);
        let map: SlotMap = serde_json::from_str(&doubled).expect("a map");
        assert!(map.owners().is_err() && map.check().is_err());
    }
}
