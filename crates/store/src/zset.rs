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
use crate::tree::{Bias, ByKey, ByRank, Cursor, LEAF_FILL_BYTES_MAX, Leaf, Tree, TreeBuilder, Walk};

/// A range of more members than this is not removed from the index one by one.
const UNINDEXED_MEMBERS_MAX: usize = 64;
/// If no more members than this remain after removing such a range, the index is built anew.
const REBUILT_MEMBERS_MAX: usize = 1024;
/// How many members of the index a write checks while some are stale: enough to be done with them before the next as
/// long range has been inserted.
const SWEPT_MEMBERS: usize = 4;
/// How full a bulk build makes leaves.
const LEAF_FILL_BYTES_BUILT: usize = LEAF_FILL_BYTES_MAX * 7 / 8;

/// Entries in the order of (score, member). The scores are the members' tail: four bytes each while all are integers that
/// fit, else eight.
#[derive(Clone, Default)]
struct ScoreLeaf {
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

/// Bytes of a score that is a small integer, and of any.
const SHORT_SCORE_BYTES: usize = 4;
const SCORE_BYTES: usize = size_of::<f64>();

/// The score as an integer of four bytes, if that says all of it: -0.0 is none.
#[inline]
fn short_score(score: f64) -> Option<i32> {
    let short = score as i32;
    (f64::from(short).to_bits() == score.to_bits()).then_some(short)
}

fn short_from_bytes(bytes: &[u8]) -> f64 {
    bytes.try_into().map_or(0.0, |bytes| f64::from(i32::from_le_bytes(bytes)))
}

fn score_from_bytes(bytes: &[u8]) -> f64 {
    bytes.try_into().map_or(0.0, f64::from_le_bytes)
}

impl ScoreLeaf {
    /// Bytes of each score; `None` without entries.
    #[inline]
    fn score_bytes(&self) -> Option<usize> {
        self.members.tail().len().checked_div(self.members.len())
    }

    #[inline]
    fn score(&self, at: usize) -> f64 {
        let tail = self.members.tail();
        if tail.len() == SHORT_SCORE_BYTES * self.members.len() {
            short_from_bytes(&tail[SHORT_SCORE_BYTES * at..][..SHORT_SCORE_BYTES])
        } else {
            score_from_bytes(&tail[SCORE_BYTES * at..][..SCORE_BYTES])
        }
    }

    fn last_score(&self) -> Option<f64> {
        Some(self.score(self.members.len().checked_sub(1)?))
    }

    fn entry(&self, at: usize) -> (&[u8], f64) {
        (self.members.get(at), self.score(at))
    }

    /// How many scores satisfy `is_before`. Counts instead of halving: the scores' cache lines arrive together.
    #[inline]
    fn count_scores(&self, is_before: impl Fn(f64) -> bool) -> usize {
        let tail = self.members.tail();
        if self.score_bytes() == Some(SHORT_SCORE_BYTES) {
            tail.chunks_exact(SHORT_SCORE_BYTES).filter(|bytes| is_before(short_from_bytes(bytes))).count()
        } else {
            tail.chunks_exact(SCORE_BYTES).filter(|bytes| is_before(score_from_bytes(bytes))).count()
        }
    }

    /// The entries with this score, or where they would be.
    fn equal_scores(&self, score: f64) -> Range<usize> {
        let below = self.count_scores(|other| other < score);
        let up_to = self.count_scores(|other| other <= score);
        below..up_to
    }

    /// The index of an entry that is known to be here.
    fn position(&self, score: f64, member: &[u8]) -> Option<usize> {
        let equal = self.equal_scores(score);
        // Its member need not be fetched if no other entry has the score.
        if equal.len() == 1 { Some(equal.start) } else { self.search(score, member).ok() }
    }

    fn insert(&mut self, at: usize, score: f64, member: &[u8]) {
        let short = short_score(score);
        match (self.score_bytes(), short) {
            (None | Some(SHORT_SCORE_BYTES), Some(short)) => {
                return self.members.insert_all(at, [member], &short.to_le_bytes());
            }
            (Some(SHORT_SCORE_BYTES), None) => self.widen(),
            _ => {}
        }
        self.members.insert_all(at, [member], &score.to_le_bytes());
    }

    /// Gives every score its eight bytes.
    #[cold]
    fn widen(&mut self) {
        if self.score_bytes() == Some(SHORT_SCORE_BYTES) {
            let scores: Vec<u8> =
                (0..self.members.len()).flat_map(|at| self.score(at).to_le_bytes()).collect();
            self.members.set_tail(&scores);
        }
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
        self.members.len()
    }

    fn fill_bytes(&self) -> usize {
        self.members.fill_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.members.heap_bytes()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.members.is_same(&other.members)
    }

    fn is_shared(&self) -> bool {
        self.members.is_shared()
    }

    fn split(&mut self, bias: Bias) -> Option<(ScoreKey, Self)> {
        let at = balanced_split(&self.members, 1, bias)?;
        let score_bytes = self.score_bytes()?;
        let right = ScoreLeaf { members: self.members.split_off(at, at * score_bytes) };
        Some((right.key_after(self.last_score()?), right))
    }

    fn append(&mut self, right: &Self) {
        if self.score_bytes() == right.score_bytes() {
            return self.members.append(&right.members);
        }
        let mut right = right.clone();
        self.widen();
        right.widen();
        self.members.append(&right.members);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        let score_bytes = self.score_bytes().unwrap_or(0);
        self.members.remove(range.clone(), range.start * score_bytes..range.end * score_bytes);
    }
}

impl ScoreLeaf {
    /// What separates this leaf from the one before, whose last score is `before`.
    fn key_after(&self, before: f64) -> ScoreKey {
        let (member, score) = self.entry(0);
        ScoreKey { score, member: if before < score { Box::default() } else { Box::from(member) } }
    }
}

fn by_score<'a>(score: f64, member: &'a [u8]) -> ByKey<impl FnMut(&ScoreKey) -> bool + 'a> {
    ByKey(move |key: &ScoreKey| compare(key.score, &key.member, score, member) != Ordering::Greater)
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
    form: Form,
}

#[derive(Clone)]
enum Form {
    Small(Tree<ScoreLeaf>),
    /// Boxed: the many small ones cost the bytes of the largest form.
    Large(Box<Large>),
}

/// Each member with its score's bytes after it.
type Index = Entries<1, SCORE_BYTES>;

#[derive(Clone)]
struct Large {
    tree: Tree<ScoreLeaf>,
    index: Index,
    /// Members of the index that are no longer in `tree`: a long range is cut out of the tree at once, out of the index
    /// little by little.
    stale: usize,
    /// The rank in the index up to which stale members have been looked for.
    swept: usize,
}

impl Default for Form {
    fn default() -> Self {
        Form::Small(Tree::default())
    }
}

/// Calls `use_item` with the item of the index that says that `member` has `score`.
fn with_index_item<R>(member: &[u8], score: f64, use_item: impl FnOnce(&[u8]) -> R) -> R {
    let mut buffer = [0; 128];
    let len = member.len() + SCORE_BYTES;
    if len <= buffer.len() {
        buffer[..member.len()].copy_from_slice(member);
        buffer[member.len()..len].copy_from_slice(&score.to_le_bytes());
        use_item(&buffer[..len])
    } else {
        use_item(&[member, &score.to_le_bytes()].concat())
    }
}

/// The member and the score of an item of the index.
fn index_entry(item: &[u8]) -> (&[u8], f64) {
    let (member, score) = item.split_at(item.len() - SCORE_BYTES);
    (member, score_from_bytes(score))
}

impl ZSet {
    /// A sorted set without members.
    pub fn new() -> Self {
        ZSet::default()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.tree().len()
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.tree().is_empty()
    }

    /// The sorted set of distinct members, in any order, none of whose scores is NaN. Takes the smallest form that the
    /// thresholds allow. Much cheaper than inserting one by one, and cheapest if they come in the set's order.
    pub fn from_entries<M: AsRef<[u8]>>(mut entries: Vec<(M, f64)>, thresholds: &Thresholds) -> Self {
        let order = |(member, score): &(M, f64), (other_member, other_score): &(M, f64)| {
            compare(*score, member.as_ref(), *other_score, other_member.as_ref())
        };
        if !entries.is_sorted_by(|one, other| order(one, other) != Ordering::Greater) {
            entries.sort_unstable_by(order);
        }
        ZSet::from_sorted(entries, thresholds)
    }

    /// As [`ZSet::from_entries`], of members that come in the order of (score, member) already, as they do from another
    /// sorted set or from a file. Panics if they do not.
    pub fn from_sorted<M: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (M, f64)>,
        thresholds: &Thresholds,
    ) -> Self {
        let mut builder = TreeBuilder::default();
        let mut leaf = ScoreLeaf::default();
        let mut key = ScoreKey { score: 0.0, member: Box::default() };
        let mut last: Option<(M, f64)> = None;
        let (mut count, mut member_bytes_max) = (0, 0);
        for (member, score) in entries {
            assert!(!score.is_nan(), "zset: a score is a number");
            let bytes = member.as_ref();
            if let Some((before, before_score)) = &last {
                let order = compare(*before_score, before.as_ref(), score, bytes);
                assert!(order == Ordering::Less, "zset: built in order");
            }
            if leaf.fill_bytes() > LEAF_FILL_BYTES_BUILT {
                leaf.members.shrink();
                let before = leaf.last_score().unwrap_or(score);
                builder.push(key, std::mem::take(&mut leaf));
                leaf.members.reserve(LEAF_FILL_BYTES_BUILT * 9 / 8);
                key = ScoreKey {
                    score,
                    member: if before < score { Box::default() } else { Box::from(bytes) },
                };
            }
            leaf.insert(leaf.len(), score, bytes);
            (count, member_bytes_max) = (count + 1, member_bytes_max.max(bytes.len()));
            last = Some((member, score));
        }
        if leaf.len() > 0 {
            leaf.members.shrink();
            builder.push(key, leaf);
        }
        let mut zset = ZSet { form: Form::Small(builder.finish()) };
        if count > thresholds.zset_max_listpack_entries
            || member_bytes_max > thresholds.zset_max_listpack_value
        {
            zset.make_large();
        } else if zset.ranks_by_score(Bound::Included(0.0), Bound::Included(0.0)).any(|rank| {
            // The small form keeps no sign of zero.
            zset.at(rank).is_some_and(|(_, score)| score.is_sign_negative())
        }) {
            let (mut unsigned, mut all) = (ZSet::new(), zset.iter());
            while let Some((member, score)) = all.next() {
                unsigned.insert(member, score, thresholds);
            }
            return unsigned;
        }
        zset
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
        match &self.form {
            Form::Small(tree) => {
                tree.leaves().find_map(|(_, leaf)| Some(leaf.score(leaf.members.find(member, 0, 1)?)))
            }
            Form::Large(large) => {
                let (items, at) = large.index.find(member)?;
                let (_, score) = index_entry(items.get(at));
                large.is_current(member, score).then_some(score)
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
                let kept = self.kept(score);
                move_entry(self.tree_mut(), member, old, kept);
                if let Form::Large(large) = &mut self.form {
                    large.index_put(member, score);
                }
                ZInsert::Updated
            }
            None => {
                if !self.is_large()
                    && (self.len() >= thresholds.zset_max_listpack_entries
                        || member.len() > thresholds.zset_max_listpack_value)
                {
                    self.make_large();
                }
                let kept = self.kept(score);
                insert_entry(self.tree_mut(), member, kept);
                if let Form::Large(large) = &mut self.form
                    && !large.index_put(member, score)
                {
                    large.stale -= 1;
                }
                ZInsert::Added
            }
        }
    }

    /// Removes `member` and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        self.sweep();
        let score = self.score(member)?;
        remove_entry(self.tree_mut(), member, score);
        if let Form::Large(large) = &mut self.form {
            large.index.remove_known(member);
        }
        Some(score)
    }

    /// The rank of `member`, counted from the highest score with `reverse`, and its score.
    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        let (leaf, start) = self.tree().find(&mut by_score(score, member));
        let rank = start + leaf.position(score, member)?;
        Some((if reverse { self.len() - 1 - rank } else { rank }, score))
    }

    /// The member of rank `rank` and its score.
    pub fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.tree().leaf_at(rank).map(|(leaf, at)| leaf.entry(at))
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
        let (leaf, start) = self.tree().find(&mut ByKey(|key: &ScoreKey| is_before(key.score)));
        start + leaf.count_scores(is_before)
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
        let (leaf, start) = self.tree().find(&mut ByKey(|key: &ScoreKey| is_before(&key.member)));
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
        ZIter { cursor: Cursor::new(self.tree()), walk: Walk::new(start_rank, reverse, self.len()) }
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
        self.tree_mut().remove_range(start_rank..end);
        let Form::Large(large) = &mut self.form else { return removed };
        if removed <= UNINDEXED_MEMBERS_MAX {
            for _ in 0..removed {
                let Some((member, _)) = doomed.next() else { break };
                large.index.remove(member);
            }
        } else if large.tree.len() <= REBUILT_MEMBERS_MAX {
            large.rebuild_index();
        } else {
            large.stale += removed;
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
        if let Form::Large(large) = &self.form {
            return large.index.scan(cursor, count, &mut |items, at| {
                let (member, score) = index_entry(items.get(at));
                if large.is_current(member, score) {
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
        if self.is_large() { Encoding::Skiplist } else { Encoding::Listpack }
    }

    /// Bytes of memory, what is shared with clones included. O(1).
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Small(tree) => tree.memory_bytes(),
            Form::Large(large) => size_of::<Large>() + large.tree.memory_bytes() + large.index.memory_bytes(),
        }
    }

    /// Number of tree nodes that dropping the last clone frees: a reaper's measure. O(1).
    pub fn weight(&self) -> usize {
        match &self.form {
            Form::Small(tree) => tree.node_count(),
            Form::Large(large) => large.tree.node_count() + large.index.node_count(),
        }
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_large() == other.is_large() && self.tree().is_same(other.tree())
    }

    fn take(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        if rank >= self.len() {
            return None;
        }
        self.sweep();
        let taken = self.tree_mut().edit(&mut ByRank::existing(rank), |leaf, seek: &ByRank| {
            let (member, score) = leaf.entry(seek.rest);
            let taken = (member.to_vec(), score);
            leaf.remove_range(seek.rest..seek.rest + 1);
            taken
        });
        if let Form::Large(large) = &mut self.form {
            large.index.remove_known(&taken.0);
        }
        Some(taken)
    }

    #[inline]
    fn tree(&self) -> &Tree<ScoreLeaf> {
        match &self.form {
            Form::Small(tree) => tree,
            Form::Large(large) => &large.tree,
        }
    }

    #[inline]
    fn tree_mut(&mut self) -> &mut Tree<ScoreLeaf> {
        match &mut self.form {
            Form::Small(tree) => tree,
            Form::Large(large) => &mut large.tree,
        }
    }

    #[inline]
    fn is_large(&self) -> bool {
        matches!(self.form, Form::Large(_))
    }

    /// The score as it is kept: in the small form -0.0 is 0.0.
    fn kept(&self, score: f64) -> f64 {
        if !self.is_large() && score == 0.0 { 0.0 } else { score }
    }

    /// Drops a few stale members of the index, if there are any.
    #[inline]
    fn sweep(&mut self) {
        if let Form::Large(large) = &mut self.form
            && large.stale > 0
        {
            large.sweep();
        }
    }

    fn make_large(&mut self) {
        if let Form::Small(tree) = &mut self.form {
            self.form = Form::Large(Box::new(Large::new(std::mem::take(tree))));
        }
    }
}

impl Large {
    fn new(tree: Tree<ScoreLeaf>) -> Large {
        let mut large = Large { tree, index: Index::default(), stale: 0, swept: 0 };
        large.rebuild_index();
        large
    }

    /// True if the member was not in the index.
    fn index_put(&mut self, member: &[u8], score: f64) -> bool {
        with_index_item(member, score, |item| self.index.put([item]))
    }

    /// False if an entry of the index is stale.
    #[inline]
    fn is_current(&self, member: &[u8], score: f64) -> bool {
        self.stale == 0 || self.tree.leaf(&mut by_score(score, member)).search(score, member).is_ok()
    }

    #[cold]
    fn sweep(&mut self) {
        for _ in 0..SWEPT_MEMBERS {
            if self.stale == 0 {
                return;
            }
            let Some((items, at)) = self.index.at(self.swept) else {
                self.swept = 0;
                continue;
            };
            let (member, score) = index_entry(items.get(at));
            if self.is_current(member, score) {
                self.swept += 1;
            } else {
                self.index.remove_at(self.swept);
                self.stale -= 1;
            }
        }
    }

    fn rebuild_index(&mut self) {
        let mut builder = EntriesBuilder::default();
        for (_, leaf) in self.tree.leaves() {
            for at in 0..leaf.len() {
                let (member, score) = leaf.entry(at);
                with_index_item(member, score, |item| builder.push([item]));
            }
        }
        self.index.note_parted();
        self.index = builder.finish();
        (self.stale, self.swept) = (0, 0);
    }
}

fn insert_entry(tree: &mut Tree<ScoreLeaf>, member: &[u8], score: f64) {
    tree.edit(&mut by_score(score, member), |leaf, _| {
        if let Err(at) = leaf.search(score, member) {
            leaf.insert(at, score, member);
        }
    });
}

fn remove_entry(tree: &mut Tree<ScoreLeaf>, member: &[u8], score: f64) {
    tree.edit(&mut by_score(score, member), |leaf, _| {
        if let Some(at) = leaf.position(score, member) {
            leaf.remove_range(at..at + 1);
        }
    });
}

/// Gives an entry another score. One that stays within its leaf's scores, as under small increments, costs one descent.
fn move_entry(tree: &mut Tree<ScoreLeaf>, member: &[u8], old: f64, new: f64) {
    let has_moved = tree.edit(&mut by_score(old, member), |leaf, _| {
        if let Some(at) = leaf.position(old, member) {
            leaf.remove_range(at..at + 1);
        }
        let is_within =
            leaf.len() > 0 && leaf.score(0) < new && leaf.last_score().is_some_and(|last| new < last);
        if is_within && let Err(at) = leaf.search(new, member) {
            leaf.insert(at, new, member);
        }
        is_within
    });
    if !has_moved {
        insert_entry(tree, member, new);
    }
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
        self.cursor.at(rank).map(|(leaf, at)| leaf.entry(at))
    }

    /// The rank, counted from the lowest score, of the member that [`ZIter::next`] will return.
    pub fn rank(&self) -> Option<usize> {
        self.walk.peek().filter(|&rank| rank < self.cursor.len())
    }
}
