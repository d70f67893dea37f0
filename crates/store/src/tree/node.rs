//! The nodes of a tree: their bounds and how these are restored, and how an operation finds its way down.

use std::sync::Arc;

use crate::courtesy::{self, LEAF_UNITS};

use super::{Bias, CHILDREN_MAX, LEAF_FILL_BYTES_MAX, LEAF_FILL_BYTES_MIN, Leaf};
use crate::sharing::{self, COUNTS_BYTES, is_shared, note_parted};

/// Two leaves are merged if together they do not weigh more than this.
const LEAF_MERGE_BYTES_MAX: usize = LEAF_FILL_BYTES_MAX * 3 / 4;
const CHILDREN_MIN: usize = CHILDREN_MAX / 4;
const CHILDREN_MERGE_MAX: usize = CHILDREN_MAX * 3 / 4;

/// Finds the way from the root to a leaf.
pub trait Seek<L: Leaf> {
    /// The child of `inner` to go down into.
    fn child(&mut self, inner: &Inner<L>) -> usize;
}

/// Goes to the leaf that holds the entry of a rank, or where it would be inserted.
pub struct ByRank {
    /// On arrival: the entry's index within the leaf.
    pub rest: usize,
    inserting: bool,
}

impl ByRank {
    /// To the entry of rank `rank`, which must exist.
    pub fn existing(rank: usize) -> Self {
        ByRank { rest: rank, inserting: false }
    }

    /// To where an entry can be inserted so that it gets rank `rank`.
    pub fn insertion(rank: usize) -> Self {
        ByRank { rest: rank, inserting: true }
    }
}

impl<L: Leaf> Seek<L> for ByRank {
    fn child(&mut self, inner: &Inner<L>) -> usize {
        let last = inner.counts.len() - 1;
        for (i, &count) in inner.counts[..last].iter().enumerate() {
            if self.rest < count || (self.inserting && self.rest == count) {
                return i;
            }
            self.rest -= count;
        }
        last
    }
}

/// Goes to the last leaf whose left separator satisfies a predicate (which must hold for a prefix of all keys).
pub struct ByKey<F>(pub F);

impl<L: Leaf, F: FnMut(&L::Key) -> bool> Seek<L> for ByKey<F> {
    fn child(&mut self, inner: &Inner<L>) -> usize {
        // From the front, not by halves: the keys lie side by side, so that their cache lines arrive together, where
        // each step of a binary search would wait for its own.
        inner.keys.iter().take_while(|key| (self.0)(key)).count()
    }
}

/// An inner node.
#[derive(Clone)]
pub struct Inner<L: Leaf> {
    pub(super) entries: usize,
    pub(super) bytes: usize,
    pub(super) nodes: usize,
    pub(super) leaves: usize,
    pub(super) keys: Vec<L::Key>,
    pub(super) counts: Vec<usize>,
    pub(super) children: Vec<Node<L>>,
}

impl<L: Leaf> Drop for Inner<L> {
    fn drop(&mut self) {
        // Its children are freed next.
        courtesy::note_work(LEAF_UNITS / 4 * self.children.len() as u32);
    }
}

pub(super) enum Node<L: Leaf> {
    Leaf(L),
    Inner(Arc<Inner<L>>),
}

impl<L: Leaf> Clone for Node<L> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Inner(inner) => Node::Inner(Arc::clone(inner)),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Totals {
    pub(super) entries: usize,
    pub(super) bytes: usize,
    pub(super) nodes: usize,
    pub(super) leaves: usize,
}

impl<L: Leaf> Node<L> {
    pub(super) fn entries(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.entries,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        match self {
            Node::Leaf(leaf) => {
                Totals { entries: leaf.len(), bytes: leaf.heap_bytes(), nodes: leaf.node_count(), leaves: 1 }
            }
            Node::Inner(inner) => Totals {
                entries: inner.entries,
                bytes: inner.bytes + inner.list_bytes() + size_of::<Inner<L>>() + COUNTS_BYTES,
                nodes: inner.nodes + 1,
                leaves: inner.leaves,
            },
        }
    }

    pub(super) fn is_full(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.fill_bytes() > LEAF_FILL_BYTES_MAX && leaf.len() > 1,
            Node::Inner(inner) => inner.children.len() > CHILDREN_MAX,
        }
    }

    pub(super) fn split_if_full(&mut self, bias: Bias) -> Option<(L::Key, Self)> {
        if !self.is_full() {
            return None;
        }
        match self {
            Node::Leaf(leaf) => {
                let (key, right) = leaf.split(bias)?;
                Some((key, Node::Leaf(right)))
            }
            Node::Inner(inner) => {
                let (key, right) = Inner::own(inner).split(bias);
                Some((key, Node::Inner(Arc::new(right))))
            }
        }
    }

    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.fill_bytes() < LEAF_FILL_BYTES_MIN,
            Node::Inner(inner) => inner.children.len() < CHILDREN_MIN,
        }
    }

    fn fits_with(&self, right: &Self) -> bool {
        match (self, right) {
            (Node::Leaf(a), Node::Leaf(b)) => a.fill_bytes() + b.fill_bytes() <= LEAF_MERGE_BYTES_MAX,
            (Node::Inner(a), Node::Inner(b)) => a.children.len() + b.children.len() <= CHILDREN_MERGE_MAX,
            _ => false,
        }
    }

    fn absorb(&mut self, key: L::Key, right: Self) {
        match (self, right) {
            (Node::Leaf(a), Node::Leaf(b)) => {
                a.append(&b);
                Node::Leaf(b).note_parted();
            }
            (Node::Inner(a), Node::Inner(mut b)) => {
                // What a clone shares stays its own.
                Inner::own(&mut b);
                Inner::own(a).append(key, Arc::unwrap_or_clone(b));
            }
            _ => unreachable!("tree: all leaves are equally deep"),
        }
    }

    /// It is let go of: what is shared of it is left to clones.
    pub(super) fn note_parted(&self) {
        match self {
            Node::Leaf(leaf) if leaf.is_shared() => note_parted(leaf.heap_bytes()),
            Node::Inner(inner) if is_shared(inner) => note_parted(self.totals().bytes),
            Node::Leaf(_) => {}
            Node::Inner(inner) => inner.children.iter().for_each(Node::note_parted),
        }
    }
}

impl<L: Leaf> Inner<L> {
    /// For writing.
    pub(super) fn own(inner: &mut Arc<Self>) -> &mut Self {
        sharing::own(inner, Self::list_bytes)
    }

    /// Bytes of what lists its children.
    fn list_bytes(&self) -> usize {
        self.children.capacity() * (size_of::<Node<L>>() + size_of::<usize>() + size_of::<L::Key>())
    }

    pub(super) fn from_children(keys: Vec<L::Key>, children: Vec<Node<L>>) -> Self {
        let mut inner =
            Inner { entries: 0, bytes: 0, nodes: 0, leaves: 0, keys, counts: Vec::new(), children };
        inner.counts = inner.children.iter().map(Node::entries).collect();
        for i in 0..inner.children.len() {
            inner.add(inner.children[i].totals());
        }
        inner
    }

    fn add(&mut self, totals: Totals) {
        self.entries += totals.entries;
        self.bytes += totals.bytes;
        self.nodes += totals.nodes;
        self.leaves += totals.leaves;
    }

    fn subtract(&mut self, totals: Totals) {
        self.entries -= totals.entries;
        self.bytes -= totals.bytes;
        self.nodes -= totals.nodes;
        self.leaves -= totals.leaves;
    }

    /// The sums over its children.
    fn sums(&self) -> Totals {
        Totals { entries: self.entries, bytes: self.bytes, nodes: self.nodes, leaves: self.leaves }
    }

    /// Adds a leaf below the last child, or as it.
    pub(super) fn push_leaf(&mut self, key: L::Key, leaf: Node<L>) {
        let last = self.children.len() - 1;
        let before = self.children[last].totals();
        match &mut self.children[last] {
            Node::Leaf(_) => self.insert_child(last + 1, key, leaf),
            Node::Inner(inner) => {
                Inner::own(inner).push_leaf(key, leaf);
                self.child_changed(last, before);
                self.repair(last, Bias::Back);
            }
        }
    }

    /// Takes in that child `index`, which had the totals `before`, has changed.
    pub(super) fn child_changed(&mut self, index: usize, before: Totals) {
        self.subtract(before);
        let after = self.children[index].totals();
        self.add(after);
        self.counts[index] = after.entries;
    }

    fn insert_child(&mut self, index: usize, key: L::Key, child: Node<L>) {
        let totals = child.totals();
        if self.children.len() == self.children.capacity() {
            // Doubling would leave half of the nodes' memory empty.
            let more = (self.children.len() / 4).clamp(2, CHILDREN_MAX / 4);
            self.keys.reserve_exact(more);
            self.counts.reserve_exact(more);
            self.children.reserve_exact(more);
        }
        self.keys.insert(index - 1, key);
        self.counts.insert(index, totals.entries);
        self.children.insert(index, child);
        self.add(totals);
    }

    /// Takes child `index` out with the separator on its left, or, for the first child, on its right.
    pub(super) fn remove_child(&mut self, index: usize) -> (Option<L::Key>, Node<L>) {
        let child = self.children.remove(index);
        self.counts.remove(index);
        let key_at = index.saturating_sub(1);
        let key = (key_at < self.keys.len()).then(|| self.keys.remove(key_at));
        self.subtract(child.totals());
        (key, child)
    }

    fn split(&mut self, bias: Bias) -> (L::Key, Self) {
        let at = bias.left_share(self.children.len()).clamp(1, self.children.len() - 1);
        let right_children = self.children.split_off(at);
        let right_keys = self.keys.split_off(at);
        let Some(key) = self.keys.pop() else { unreachable!("tree: a key between any two children") };
        let right = Inner::from_children(right_keys, right_children);
        self.counts.truncate(at);
        self.subtract(right.sums());
        (key, right)
    }

    fn append(&mut self, key: L::Key, mut right: Self) {
        self.add(right.sums());
        self.keys.push(key);
        self.keys.append(&mut right.keys);
        self.counts.append(&mut right.counts);
        self.children.append(&mut right.children);
    }

    /// Restores the bounds of child `index` after a change: splits it, drops it or merges it with a neighbour.
    pub(super) fn repair(&mut self, index: usize, bias: Bias) {
        let (mut at, mut end) = (index, index + 1);
        while at < end {
            let before = self.children[at].is_full().then(|| self.children[at].totals());
            match before.and_then(|before| Some((before, self.children[at].split_if_full(bias)?))) {
                Some((before, (key, right))) => {
                    self.child_changed(at, before);
                    self.insert_child(at + 1, key, right);
                    end += 1;
                }
                None => at += 1,
            }
        }
        if end == index + 1 {
            self.repair_sparse(index);
        }
    }

    pub(super) fn repair_sparse(&mut self, index: usize) {
        if self.children.len() < 2 || index >= self.children.len() || !self.children[index].is_sparse() {
            return;
        }
        if self.counts[index] == 0 {
            self.remove_child(index);
        } else if index + 1 < self.children.len() && self.children[index].fits_with(&self.children[index + 1])
        {
            self.merge(index);
        } else if index > 0 && self.children[index - 1].fits_with(&self.children[index]) {
            self.merge(index - 1);
        }
    }

    fn merge(&mut self, left: usize) {
        let before = self.children[left].totals();
        if let (Some(key), right) = self.remove_child(left + 1) {
            self.children[left].absorb(key, right);
            self.child_changed(left, before);
        }
    }
}
