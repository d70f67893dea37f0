//! Sorted sets: a tree in the order of (score, member).
//!
//! A large sorted set also has an index from member to score, a tree in the order of the member's hash. It repeats the
//! members: for the usual few bytes that costs no more than storing their hashes, a score is found by one descent,
//! and a scan can go by hash even when all scores are equal.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use crate::encoding::{Encoding, Thresholds};
use crate::entries::{Entries, EntriesBuilder, balanced_split};
use crate::packed::Packed;
use crate::tree::{Bias, ByKey, ByRank, Cursor, Leaf, Tree, Walk};

/// A range of more members than this is not removed from the index one by one.
const UNINDEXED_MEMBERS_MAX: usize = 64;
/// If no more members than this remain after removing such a range, the index is built anew.
const REBUILT_MEMBERS_MAX: usize = 1024;
/// How many members of the index a write checks while some are stale: enough to be done with them before the next as
/// long range has been inserted.
const SWEPT_MEMBERS: usize = 4;

/// Entries in the order of (score, member).
#[derive(Clone, Default)]
struct ScoreLeaf {
    scores: Vec<f64>,
    members: Packed,
}

/// At or before the first entry of the leaf on its right. The member is empty where scores alone separate.
#[derive(Clone)]
struct ScoreKey {
    score: f64,
    member: Box<[u8]>,
}

/// Scores are never NaN.
fn compare(score: f64, member: &[u8], other_score: f64, other_member: &[u8]) -> Ordering {
    score.partial_cmp(&other_score).unwrap_or(Ordering::Equal).then_with(|| member.cmp(other_member))
}

impl ScoreLeaf {
    /// The entries with this score, or where they would be. Counts instead of halving: the scores' cache lines arrive
    /// together.
    fn equal_scores(&self, score: f64) -> Range<usize> {
        let below = self.scores.iter().filter(|&&s| s < score).count();
        let up_to = self.scores.iter().filter(|&&s| s <= score).count();
        below..up_to
    }

    /// The index of an entry that is known to be here.
    fn position(&self, score: f64, member: &[u8]) -> Option<usize> {
        let equal = self.equal_scores(score);
        // Its member need not be fetched if no other entry has the score.
        if equal.len() == 1 { Some(equal.start) } else { self.search(score, member).ok() }
    }

    fn insert(&mut self, at: usize, score: f64, member: &[u8]) {
        insert_exact(&mut self.scores, at, score);
        self.members.insert(at, member);
    }

    fn search(&self, score: f64, member: &[u8]) -> Result<usize, usize> {
        let Range { start: mut low, end: mut high } = self.equal_scores(score);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.members.get(middle).cmp(member) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

impl Leaf for ScoreLeaf {
    type Key = ScoreKey;

    fn len(&self) -> usize {
        self.scores.len()
    }

    fn fill_bytes(&self) -> usize {
        self.members.fill_bytes() + self.scores.len() * size_of::<f64>()
    }

    fn heap_bytes(&self) -> usize {
        self.members.heap_bytes() + self.scores.capacity() * size_of::<f64>()
    }

    fn split(&mut self, bias: Bias) -> Option<(ScoreKey, Self)> {
        let at = balanced_split(&self.members, 1, bias)?;
        let right = ScoreLeaf { scores: self.scores.split_off(at), members: self.members.split_off(at) };
        self.scores.shrink_to_fit();
        let score = right.scores[0];
        let member =
            if self.scores[at - 1] < score { Box::default() } else { Box::from(right.members.get(0)) };
        Some((ScoreKey { score, member }, right))
    }

    fn append(&mut self, right: &Self) {
        self.scores.extend_from_slice(&right.scores);
        self.members.append(&right.members);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.scores.drain(range.clone());
        self.members.remove(range);
    }
}

fn by_score<'a>(score: f64, member: &'a [u8]) -> ByKey<impl FnMut(&ScoreKey) -> bool + 'a> {
    ByKey(move |key: &ScoreKey| compare(key.score, &key.member, score, member) != Ordering::Greater)
}

/// Steps of a quarter keep leaves' buffers nearly full.
fn insert_exact<T>(values: &mut Vec<T>, at: usize, value: T) {
    if values.len() == values.capacity() {
        values.reserve_exact(4 + values.len() / 4);
    }
    values.insert(at, value);
}

/// What [`ZSet::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZInsert {
    /// The member is new.
    Added,
    /// The member had another score.
    Updated,
    /// The member had this score.
    Unchanged,
}

/// An end of a range of members that all have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member.
    Min,
    /// After every member.
    Max,
    /// At this member, which belongs to the range.
    Incl(&'a [u8]),
    /// At this member, which does not belong to the range.
    Excl(&'a [u8]),
}

/// A sorted set. Ranks count from 0 at the lowest score unless said otherwise; members of equal score are ordered by
/// their bytes. Scores are never NaN; -0.0 and 0.0 are the same score. `Clone` is O(1); a writer copies what it
/// touches.
#[derive(Clone, Default)]
pub struct ZSet {
    tree: Tree<ScoreLeaf>,
    /// Members with their scores' bytes. `None` in the small form.
    index: Option<Entries<2>>,
    /// Members of the index that are no longer in `tree`: a long range is cut out of the tree at once, out of the index
    /// little by little.
    stale: usize,
    /// The rank in the index up to which stale members have been looked for.
    swept: usize,
}

impl ZSet {
    /// A sorted set without members.
    pub fn new() -> Self {
        ZSet::default()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Announces that about `count` members, the longest of `member_bytes_max` bytes, follow: an empty set that
    /// cannot stay small with them takes its large form now, as does any with more members than fit.
    pub fn expect_members(&mut self, count: usize, member_bytes_max: usize, thresholds: &Thresholds) {
        if count > thresholds.zset_max_listpack_entries
            || (self.is_empty() && member_bytes_max > thresholds.zset_max_listpack_value)
        {
            self.make_large();
        }
    }

    /// The score of `member`.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.index {
            None => {
                self.tree.leaves().find_map(|(_, leaf)| Some(leaf.scores[leaf.members.find(member, 0, 1)?]))
            }
            Some(index) => {
                let (items, at) = index.find(member)?;
                let score = score_from_bytes(items.get(at + 1));
                self.is_current(member, score).then_some(score)
            }
        }
    }

    /// Gives `member` the score `score`, which must not be NaN. The small form does not keep the sign of zero, as in
    /// Redis.
    pub fn insert(&mut self, member: &[u8], score: f64, thresholds: &Thresholds) -> ZInsert {
        assert!(!score.is_nan(), "zset: a score is a number");
        self.sweep();
        match self.score(member) {
            Some(old) if old == score => ZInsert::Unchanged,
            Some(old) => {
                self.move_entry(member, old, self.kept(score));
                if let Some(index) = &mut self.index {
                    index.put([member, &score.to_le_bytes()]);
                }
                ZInsert::Updated
            }
            None => {
                if self.index.is_none()
                    && (self.len() >= thresholds.zset_max_listpack_entries
                        || member.len() > thresholds.zset_max_listpack_value)
                {
                    self.make_large();
                }
                self.insert_entry(member, self.kept(score));
                if let Some(index) = &mut self.index
                    && !index.put([member, &score.to_le_bytes()])
                {
                    self.stale -= 1;
                }
                ZInsert::Added
            }
        }
    }

    /// Removes `member` and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        self.sweep();
        let score = self.score(member)?;
        self.remove_entry(member, score);
        if let Some(index) = &mut self.index {
            index.remove(member);
        }
        Some(score)
    }

    /// The rank of `member`, counted from the highest score with `reverse`, and its score.
    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        let (leaf, start) = self.tree.find(&mut by_score(score, member));
        let rank = start + leaf.position(score, member)?;
        Some((if reverse { self.len() - 1 - rank } else { rank }, score))
    }

    /// The member of rank `rank` and its score.
    pub fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.tree.leaf_at(rank).map(|(leaf, at)| (leaf.members.get(at), leaf.scores[at]))
    }

    /// The first rank whose score is at least (`Included`) or above (`Excluded`) the bound, [`ZSet::len`] if there is
    /// none; 0 if `Unbounded`.
    pub fn rank_of_score_bound(&self, bound: Bound<f64>) -> usize {
        let (limit, is_equal_before) = match bound {
            Bound::Unbounded => return 0,
            Bound::Included(limit) => (limit, false),
            Bound::Excluded(limit) => (limit, true),
        };
        let is_before = |score: f64| score < limit || (is_equal_before && score == limit);
        let (leaf, start) = self.tree.find(&mut ByKey(|key: &ScoreKey| is_before(key.score)));
        start + leaf.scores.partition_point(|&score| is_before(score))
    }

    /// The ranks of the scores between two bounds; empty if there are none.
    pub fn ranks_by_score(&self, min: Bound<f64>, max: Bound<f64>) -> Range<usize> {
        let start = self.rank_of_score_bound(min);
        let end = match max {
            Bound::Unbounded => self.len(),
            Bound::Included(limit) => self.rank_of_score_bound(Bound::Excluded(limit)),
            Bound::Excluded(limit) => self.rank_of_score_bound(Bound::Included(limit)),
        };
        start..end.max(start)
    }

    /// The first rank whose member is at (`Incl`) or after (`Excl`) the bound, [`ZSet::len`] if there is none. Means
    /// something only if all scores are equal, as ZRANGEBYLEX demands.
    pub fn rank_of_lex_bound(&self, bound: LexBound<'_>) -> usize {
        let (limit, is_equal_before) = match bound {
            LexBound::Min => return 0,
            LexBound::Max => return self.len(),
            LexBound::Incl(limit) => (limit, false),
            LexBound::Excl(limit) => (limit, true),
        };
        let is_before = |member: &[u8]| member < limit || (is_equal_before && member == limit);
        let (leaf, start) = self.tree.find(&mut ByKey(|key: &ScoreKey| is_before(&key.member)));
        let (mut low, mut high) = (0, leaf.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(leaf.members.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        start + low
    }

    /// The ranks of the members between two bounds, if all scores are equal; empty if there are none.
    pub fn ranks_by_lex(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let start = self.rank_of_lex_bound(min);
        let end = match max {
            LexBound::Incl(member) => self.rank_of_lex_bound(LexBound::Excl(member)),
            LexBound::Excl(member) => self.rank_of_lex_bound(LexBound::Incl(member)),
            end => self.rank_of_lex_bound(end),
        };
        start..end.max(start)
    }

    /// Steps through what the set is now, from the member of rank `start_rank` (counted from the lowest score in
    /// either direction) up or, with `reverse`, down, whatever is written to it meanwhile. Down from past the end
    /// starts at the highest score.
    pub fn range(&self, start_rank: usize, reverse: bool) -> ZIter {
        ZIter { cursor: Cursor::new(&self.tree), walk: Walk::new(start_rank, reverse, self.len()) }
    }

    /// All members, from the lowest score up.
    pub fn iter(&self) -> ZIter {
        self.range(0, false)
    }

    /// Removes the members of ranks `start_rank` to `end_rank`, inclusive, and returns how many there were.
    pub fn remove_range(&mut self, start_rank: usize, end_rank: usize) -> usize {
        let len = self.len();
        let end = end_rank.saturating_add(1).min(len);
        if start_rank >= end {
            return 0;
        }
        let removed = end - start_rank;
        let mut doomed = self.range(start_rank, false);
        self.tree.remove_range(start_rank..end);
        let Some(index) = &mut self.index else { return removed };
        if removed <= UNINDEXED_MEMBERS_MAX {
            for _ in 0..removed {
                let Some((member, _)) = doomed.next() else { break };
                index.remove(member);
            }
        } else if self.tree.len() <= REBUILT_MEMBERS_MAX {
            self.rebuild_index();
        } else {
            self.stale += removed;
        }
        removed
    }

    /// Removes and returns the member with the lowest score.
    pub fn pop_min(&mut self) -> Option<(Vec<u8>, f64)> {
        self.take(0)
    }

    /// Removes and returns the member with the highest score.
    pub fn pop_max(&mut self) -> Option<(Vec<u8>, f64)> {
        self.take(self.len().checked_sub(1)?)
    }

    /// Visits about `count` members from `cursor` on and returns the next cursor, 0 at the end (cursors are below
    /// 2^53). A member that is there throughout a scan is visited at least once. A small set is visited whole.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        if let Some(index) = &self.index {
            return index.scan(cursor, count, &mut |items, at| {
                let (member, score) = (items.get(at), score_from_bytes(items.get(at + 1)));
                if self.is_current(member, score) {
                    visit(member, score);
                }
            });
        }
        let mut all = self.iter();
        while let Some((member, score)) = all.next() {
            visit(member, score);
        }
        0
    }

    /// `Listpack` or `Skiplist`.
    pub fn encoding(&self) -> Encoding {
        if self.index.is_some() { Encoding::Skiplist } else { Encoding::Listpack }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.index.as_ref().map_or(0, Entries::memory_bytes)
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        self.tree.node_count() + self.index.as_ref().map_or(0, Entries::node_count)
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        self.tree.is_same(&other.tree)
    }

    fn take(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        if rank >= self.len() {
            return None;
        }
        self.sweep();
        let taken = self.tree.edit(&mut ByRank::existing(rank), |leaf, seek: &ByRank| {
            let taken = (leaf.members.get(seek.rest).to_vec(), leaf.scores[seek.rest]);
            leaf.remove_range(seek.rest..seek.rest + 1);
            taken
        });
        if let Some(index) = &mut self.index {
            index.remove(&taken.0);
        }
        Some(taken)
    }

    /// The score as it is kept: in the small form -0.0 is 0.0.
    fn kept(&self, score: f64) -> f64 {
        if self.index.is_none() && score == 0.0 { 0.0 } else { score }
    }

    fn insert_entry(&mut self, member: &[u8], score: f64) {
        self.tree.edit(&mut by_score(score, member), |leaf, _| {
            if let Err(at) = leaf.search(score, member) {
                leaf.insert(at, score, member);
            }
        });
    }

    fn remove_entry(&mut self, member: &[u8], score: f64) {
        self.tree.edit(&mut by_score(score, member), |leaf, _| {
            if let Some(at) = leaf.position(score, member) {
                leaf.remove_range(at..at + 1);
            }
        });
    }

    /// Gives an entry another score. One that stays within its leaf's scores, as under small increments, costs one
    /// descent.
    fn move_entry(&mut self, member: &[u8], old: f64, new: f64) {
        let has_moved = self.tree.edit(&mut by_score(old, member), |leaf, _| {
            if let Some(at) = leaf.position(old, member) {
                leaf.remove_range(at..at + 1);
            }
            let is_within = leaf.scores.first().is_some_and(|&first| first < new)
                && leaf.scores.last().is_some_and(|&last| new < last);
            if is_within && let Err(at) = leaf.search(new, member) {
                leaf.insert(at, new, member);
            }
            is_within
        });
        if !has_moved {
            self.insert_entry(member, new);
        }
    }

    /// False if an entry of the index is stale.
    fn is_current(&self, member: &[u8], score: f64) -> bool {
        self.stale == 0 || self.tree.leaf(&mut by_score(score, member)).search(score, member).is_ok()
    }

    /// Drops a few stale members of the index, if there are any.
    fn sweep(&mut self) {
        for _ in 0..SWEPT_MEMBERS {
            let Some(index) = self.index.as_ref().filter(|_| self.stale > 0) else { return };
            let Some((items, at)) = index.at(self.swept) else {
                self.swept = 0;
                continue;
            };
            if self.is_current(items.get(at), score_from_bytes(items.get(at + 1))) {
                self.swept += 1;
            } else if let Some(index) = &mut self.index {
                index.remove_at(self.swept);
                self.stale -= 1;
            }
        }
    }

    fn make_large(&mut self) {
        if self.index.is_none() {
            self.rebuild_index();
        }
    }

    fn rebuild_index(&mut self) {
        let mut builder = EntriesBuilder::default();
        for (_, leaf) in self.tree.leaves() {
            for (member, score) in leaf.members.iter().zip(&leaf.scores) {
                builder.push([member, &score.to_le_bytes()]);
            }
        }
        self.index = Some(builder.finish());
        (self.stale, self.swept) = (0, 0);
    }
}

fn score_from_bytes(bytes: &[u8]) -> f64 {
    bytes.try_into().map_or(0.0, f64::from_le_bytes)
}

/// Steps through a clone of a sorted set, which it owns.
pub struct ZIter {
    cursor: Cursor<ScoreLeaf>,
    walk: Walk,
}

impl ZIter {
    /// The next member and its score.
    #[expect(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<(&[u8], f64)> {
        let rank = self.walk.step()?;
        self.cursor.at(rank).map(|(leaf, at)| (leaf.members.get(at), leaf.scores[at]))
    }

    /// The rank, counted from the lowest score, of the member that [`ZIter::next`] will return.
    pub fn rank(&self) -> Option<usize> {
        self.walk.peek().filter(|&rank| rank < self.cursor.len())
    }
}
