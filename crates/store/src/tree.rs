//! A counted, copy-on-write B+tree whose leaves are packed buffers: the large form of every collection.
//!
//! One tree serves lists (by position), sets and hashes (by hash of the member), sorted sets (by score and member) and
//! streams (by id); what differs is the [`Leaf`], and the [`Seek`] with which an operation finds its way down.
//!
//! Invariants:
//! - all leaves are equally deep; no node but the root is empty;
//! - an inner node with `n` children has `n` counts and `n - 1` keys; every entry below child `i` sorts before
//!   `keys[i]`, every entry below child `i + 1` at or after it;
//! - `entries`, `bytes`, `nodes` and `leaves` of an inner node are the sums over its children.
//!
//! A clone shares the root. A writer makes its own copy of the nodes on its path that are shared, and of no other.

mod cursor;
mod node;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use cursor::{Cursor, Walk};
pub(crate) use node::{ByKey, ByRank, Seek};

use cursor::Leaves;
use node::{Inner, Node};

/// A leaf is split when it weighs more than this, in bytes.
pub const LEAF_FILL_BYTES_MAX: usize = 1536;
/// A leaf that weighs less than this is merged with a neighbour, if both fit.
const LEAF_FILL_BYTES_MIN: usize = LEAF_FILL_BYTES_MAX / 4;
/// Most children of an inner node. Copying a node touches every child's reference count, so that it stays modest.
const CHILDREN_MAX: usize = 32;
/// Children that a node is built with: some room is left.
const CHILDREN_BUILT: usize = CHILDREN_MAX * 7 / 8;

/// Where a full node splits: in the middle, or near the end that keeps growing, so that the rest stays full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// Both halves equal.
    Middle,
    /// The left part keeps nearly everything: entries arrive at the back.
    Back,
    /// The right part keeps nearly everything: entries arrive at the front.
    Front,
}

impl Bias {
    /// How much of a total of `total` stays in the left part.
    pub fn left_share(self, total: usize) -> usize {
        match self {
            Bias::Middle => total / 2,
            Bias::Back => total - total / 16,
            Bias::Front => total / 16,
        }
    }
}

/// A bounded run of neighbouring entries. `Clone` is O(1): a leaf is behind a reference count, and a writer copies what is
/// shared.
pub trait Leaf: Clone + Default {
    /// Separates a leaf from its right neighbour.
    type Key: Clone;

    /// Number of entries.
    fn len(&self) -> usize;
    /// Weight that decides on splitting and merging, in bytes.
    fn fill_bytes(&self) -> usize;
    /// Memory behind the leaf, in bytes.
    fn heap_bytes(&self) -> usize;
    /// True if both are clones between which nothing was written.
    fn is_same(&self, other: &Self) -> bool;
    /// True if somebody else has a clone of it.
    fn is_shared(&self) -> bool;
    /// Tree nodes that go with the leaf: itself, and those of trees that its entries hold.
    fn node_count(&self) -> usize {
        1
    }
    /// Keeps the lower part, returns the upper one and the key between them; `None` if that cannot be done.
    fn split(&mut self, bias: Bias) -> Option<(Self::Key, Self)>;
    /// Appends the right neighbour's entries.
    fn append(&mut self, right: &Self);
    /// Removes the entries of `range`.
    fn remove_range(&mut self, range: Range<usize>);
}

/// A counted, copy-on-write B+tree.
pub struct Tree<L: Leaf> {
    root: Node<L>,
}

impl<L: Leaf> Clone for Tree<L> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone() }
    }
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Self {
        Tree { root: Node::Leaf(L::default()) }
    }
}

impl<L: Leaf> Tree<L> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.root.entries()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, nodes shared with clones included.
    pub fn memory_bytes(&self) -> usize {
        self.root.totals().bytes
    }

    /// Number of nodes: what dropping the last clone has to free.
    pub fn node_count(&self) -> usize {
        self.root.totals().nodes
    }

    /// Number of leaves; an empty tree has one.
    pub fn leaf_count(&self) -> usize {
        self.root.totals().leaves
    }

    /// True if both are clones between which nothing was written.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Node::Leaf(a), Node::Leaf(b)) => a.is_same(b),
            (Node::Inner(a), Node::Inner(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// It is let go of: what is shared of it is left to clones.
    pub fn note_parted(&self) {
        self.root.note_parted();
    }

    /// The leaf that `seek` leads to, and the rank of its first entry.
    pub fn find<S: Seek<L>>(&self, seek: &mut S) -> (&L, usize) {
        let (mut node, mut start) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, start),
                Node::Inner(inner) => {
                    let child = seek.child(inner);
                    start += inner.counts[..child].iter().sum::<usize>();
                    node = &inner.children[child];
                }
            }
        }
    }

    /// The leaf that `seek` leads to.
    pub fn leaf<S: Seek<L>>(&self, seek: &mut S) -> &L {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Inner(inner) => node = &inner.children[seek.child(inner)],
            }
        }
    }

    /// The leaf that holds the entry of rank `rank`, and the entry's index in it.
    pub fn leaf_at(&self, rank: usize) -> Option<(&L, usize)> {
        if rank >= self.len() {
            return None;
        }
        let mut seek = ByRank::existing(rank);
        let leaf = self.leaf(&mut seek);
        Some((leaf, seek.rest))
    }

    /// All leaves with the rank of their first entry, in order. An empty tree has one empty leaf.
    pub fn leaves(&self) -> Leaves<'_, L> {
        Leaves { tree: self, rank: 0, done: false }
    }

    /// Changes the leaf that `seek` leads to and restores the tree's bounds around it.
    pub fn edit<S: Seek<L>, R>(&mut self, seek: &mut S, change: impl FnOnce(&mut L, &S) -> R) -> R {
        let result = edit_node(&mut self.root, seek, change, true, true);
        self.repair_root();
        result
    }

    /// Adds a leaf that is not empty after all others; `key` separates it from them.
    pub fn push_leaf(&mut self, key: L::Key, leaf: L) {
        let leaf = Node::Leaf(leaf);
        match &mut self.root {
            Node::Leaf(only) if only.len() == 0 => self.root = leaf,
            Node::Leaf(_) => {
                let only = self.root.clone();
                self.root = Node::Inner(Arc::new(Inner::from_children(vec![key], vec![only, leaf])));
            }
            Node::Inner(inner) => {
                Inner::own(inner).push_leaf(key, leaf);
                self.repair_root();
            }
        }
    }

    /// Removes the entries with ranks in `range`, subtrees that lie wholly within it at once.
    pub fn remove_range(&mut self, range: Range<usize>) {
        assert!(range.end <= self.len(), "tree: remove {range:?} of {}", self.len());
        if range.is_empty() {
            return;
        }
        if range.len() == self.len() {
            self.note_parted();
            *self = Tree::default();
            return;
        }
        remove_below(&mut self.root, range);
        self.repair_root();
    }

    fn repair_root(&mut self) {
        while let Some((key, right)) = self.root.split_if_full(Bias::Middle) {
            let left = self.root.clone();
            self.root = Node::Inner(Arc::new(Inner::from_children(vec![key], vec![left, right])));
            if let Node::Inner(inner) = &mut self.root
                && let Some(inner) = Arc::get_mut(inner)
            {
                inner.repair(1, Bias::Middle);
                inner.repair(0, Bias::Middle);
            }
        }
        while let Node::Inner(inner) = &self.root {
            if inner.entries == 0 {
                *self = Tree::default();
            } else if inner.children.len() == 1 {
                self.root = inner.children[0].clone();
            } else {
                break;
            }
        }
    }
}

fn edit_node<L: Leaf, S: Seek<L>, R>(
    node: &mut Node<L>,
    seek: &mut S,
    change: impl FnOnce(&mut L, &S) -> R,
    is_first: bool,
    is_last: bool,
) -> R {
    match node {
        Node::Leaf(leaf) => change(leaf, seek),
        Node::Inner(inner) => {
            let inner = Inner::own(inner);
            let index = seek.child(inner);
            let before = inner.children[index].totals();
            let is_first = is_first && index == 0;
            let is_last = is_last && index + 1 == inner.children.len();
            let result = edit_node(&mut inner.children[index], seek, change, is_first, is_last);
            inner.child_changed(index, before);
            let bias = match (is_first, is_last) {
                (false, true) => Bias::Back,
                (true, false) => Bias::Front,
                _ => Bias::Middle,
            };
            inner.repair(index, bias);
            result
        }
    }
}

/// Removes `range` from below `node`; the caller repairs `node` itself.
fn remove_below<L: Leaf>(node: &mut Node<L>, range: Range<usize>) {
    match node {
        Node::Leaf(leaf) => leaf.remove_range(range),
        Node::Inner(inner) => {
            let inner = Inner::own(inner);
            let mut start = 0;
            let mut index = 0;
            let mut cut_at = None;
            while index < inner.children.len() && start < range.end {
                let count = inner.counts[index];
                let low = range.start.max(start) - start;
                let high = range.end.min(start + count).saturating_sub(start);
                start += count;
                if low >= high {
                    index += 1;
                    continue;
                }
                cut_at.get_or_insert(index);
                if high - low == count && inner.children.len() > 1 {
                    inner.remove_child(index).1.note_parted();
                } else {
                    let before = inner.children[index].totals();
                    remove_below(&mut inner.children[index], low..high);
                    inner.child_changed(index, before);
                    index += 1;
                }
            }
            if let Some(first) = cut_at {
                for index in [first + 1, first, first.saturating_sub(1)] {
                    inner.repair_sparse(index);
                }
            }
        }
    }
}

/// Builds a tree from leaves that come in order, without descending for each.
pub struct TreeBuilder<L: Leaf> {
    keys: Vec<L::Key>,
    leaves: Vec<Node<L>>,
}

impl<L: Leaf> Default for TreeBuilder<L> {
    fn default() -> Self {
        TreeBuilder { keys: Vec::new(), leaves: Vec::new() }
    }
}

impl<L: Leaf> TreeBuilder<L> {
    /// Appends a leaf that is not empty; `key` separates it from the one before (the first one's is ignored).
    pub fn push(&mut self, key: L::Key, leaf: L) {
        if !self.leaves.is_empty() {
            self.keys.push(key);
        }
        self.leaves.push(Node::Leaf(leaf));
    }

    /// The tree of all leaves.
    pub fn finish(self) -> Tree<L> {
        let (mut keys, mut level) = (self.keys, self.leaves);
        while level.len() > 1 {
            let groups = level.len().div_ceil(CHILDREN_BUILT);
            let share = level.len().div_ceil(groups);
            let (mut upper_keys, mut upper) = (Vec::new(), Vec::new());
            let (mut key_source, mut node_source) = (keys.into_iter(), level.into_iter());
            loop {
                let children: Vec<_> = node_source.by_ref().take(share).collect();
                if children.is_empty() {
                    break;
                }
                let inner_keys: Vec<_> = key_source.by_ref().take(children.len() - 1).collect();
                upper.push(Node::Inner(Arc::new(Inner::from_children(inner_keys, children))));
                upper_keys.extend(key_source.next());
            }
            (keys, level) = (upper_keys, upper);
        }
        level.pop().map_or_else(Tree::default, |root| Tree { root })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::{Entries, SequenceLeaf, TaggedLeaf};
    use crate::keyhash::member_hash;

    /// Checks the module's invariants below `node` and returns the depth of its leaves.
    fn verify<L: Leaf>(node: &Node<L>, is_root: bool) -> usize {
        let Node::Inner(inner) = node else {
            assert!(is_root || node.entries() > 0, "no node but the root is empty");
            return 0;
        };
        assert!((1..=CHILDREN_MAX).contains(&inner.children.len()));
        assert!(!is_root || inner.children.len() > 1, "a root with one child is that child");
        assert_eq!(inner.keys.len(), inner.children.len() - 1);
        assert_eq!(inner.counts, inner.children.iter().map(Node::entries).collect::<Vec<_>>());
        assert_eq!(inner.entries, inner.counts.iter().sum::<usize>());
        assert_eq!(inner.bytes, inner.children.iter().map(|child| child.totals().bytes).sum::<usize>());
        assert_eq!(inner.nodes, inner.children.iter().map(|child| child.totals().nodes).sum::<usize>());
        assert_eq!(inner.leaves, inner.children.iter().map(|child| child.totals().leaves).sum::<usize>());
        let depths: Vec<usize> = inner.children.iter().map(|child| verify(child, false)).collect();
        assert!(depths.iter().all(|&depth| depth == depths[0]), "all leaves are equally deep");
        depths[0] + 1
    }

    #[test]
    fn leaves_can_be_added_at_the_back() {
        let mut tree = Tree::<SequenceLeaf<1>>::default();
        for count in 1..2_000 {
            let mut leaf = SequenceLeaf::default();
            leaf.items.push(&[b'x'; 400]);
            tree.push_leaf((), leaf);
            assert_eq!((tree.len(), tree.leaf_count()), (count, count));
            if count % 50 == 0 {
                verify(&tree.root, true);
            }
        }
        let first = tree.clone();
        tree.remove_range(0..1_500);
        verify(&tree.root, true);
        assert_eq!((tree.len(), first.leaf_count()), (499, 1_999));
    }

    /// Checks that hashes lie between their separators: `places` are the bounds from above.
    fn verify_places(node: &Node<TaggedLeaf<1>>, places: Range<u64>) {
        match node {
            Node::Leaf(leaf) => {
                assert!(leaf.items.iter().all(|member| places.contains(&(member_hash(member) >> 11))));
                assert!(leaf.fill_bytes() <= LEAF_FILL_BYTES_MAX);
            }
            Node::Inner(inner) => {
                let bounds: Vec<u64> = [places.start]
                    .into_iter()
                    .chain(inner.keys.iter().copied())
                    .chain([places.end])
                    .collect();
                assert!(bounds.is_sorted());
                for (child, bound) in inner.children.iter().zip(bounds.windows(2)) {
                    verify_places(child, bound[0]..bound[1]);
                }
            }
        }
    }

    #[test]
    fn invariants_hold_under_random_edits() {
        for seed in 0..6 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut tree = Tree::<SequenceLeaf<1>>::default();
            let mut clones = Vec::new();
            for step in 0..6000 {
                let len = tree.len();
                // Seeds differ in where entries arrive: at the back, at the front, anywhere.
                let at = match seed % 3 {
                    0 => len,
                    1 => 0,
                    _ => rng.usize(..=len),
                };
                let item = vec![b'i'; rng.usize(..300)];
                tree.edit(&mut ByRank::insertion(at), |leaf, seek| leaf.items.insert(seek.rest, &item));
                if step % 1000 > 900 {
                    let start = rng.usize(..tree.len());
                    let end = (start + rng.usize(1..120)).min(tree.len());
                    tree.remove_range(start..end);
                }
                if step % 100 == 0 {
                    verify(&tree.root, true);
                    clones.push((tree.clone(), tree.len(), tree.memory_bytes()));
                }
            }
            while !tree.is_empty() {
                let start = rng.usize(..tree.len());
                tree.remove_range(start..(start + rng.usize(1..400)).min(tree.len()));
                verify(&tree.root, true);
            }
            for (clone, len, bytes) in clones {
                verify(&clone.root, true);
                assert_eq!((clone.len(), clone.memory_bytes()), (len, bytes));
            }
        }
    }

    #[test]
    fn hashes_stay_between_their_separators() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut entries = Entries::<1>::default();
        entries.make_large();
        for step in 0..20_000 {
            let member = rng.u32(..8000).to_string();
            if rng.usize(..20_000) > step {
                entries.put([member.as_bytes()])
            } else {
                entries.remove(member.as_bytes())
            };
            if step % 1000 == 0 {
                let Entries::Large(tree) = &entries else { panic!("made large") };
                verify(&tree.root, true);
                verify_places(&tree.root, 0..1 << 53);
            }
        }
    }

    #[test]
    fn entries_that_arrive_in_order_fill_their_leaves() {
        for back in [true, false] {
            let mut tree = Tree::<SequenceLeaf<1>>::default();
            for _ in 0..20_000 {
                let at = if back { tree.len() } else { 0 };
                tree.edit(&mut ByRank::insertion(at), |leaf, seek| {
                    leaf.items.insert(seek.rest, b"sixteen bytes...")
                });
            }
            let full = tree.len() * 18 / LEAF_FILL_BYTES_MAX;
            assert!(tree.node_count() < full * 5 / 4, "{} nodes for {full} full leaves", tree.node_count());
        }
    }

    #[test]
    fn a_writer_copies_only_its_path() {
        let mut tree = Tree::<SequenceLeaf<1>>::default();
        for _ in 0..50_000 {
            tree.edit(&mut ByRank::insertion(tree.len()), |leaf, _| leaf.items.push(b"item"));
        }
        let clone = tree.clone();
        assert!(tree.is_same(&clone));
        tree.edit(&mut ByRank::existing(25_000), |leaf, seek| leaf.items.set(seek.rest, b"ITEM"));
        assert!(!tree.is_same(&clone));
        let changed = tree.leaves().zip(clone.leaves()).filter(|(a, b)| !a.1.is_same(b.1)).count();
        assert_eq!(changed, 1);
    }
}
