//! Walking a tree: its leaves in order, and owned places in a clone of it.

use crate::courtesy::{self, LEAF_UNITS};

use super::node::{ByRank, Node, Seek};
use super::{Leaf, Tree};

/// The leaves of a tree, in order.
pub struct Leaves<'a, L: Leaf> {
    pub(super) tree: &'a Tree<L>,
    pub(super) rank: usize,
    pub(super) done: bool,
}

impl<'a, L: Leaf> Iterator for Leaves<'a, L> {
    type Item = (usize, &'a L);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        courtesy::note_work(LEAF_UNITS);
        let (leaf, start) = self.tree.find(&mut ByRank::existing(self.rank));
        self.rank = start + leaf.len();
        self.done = self.rank >= self.tree.len();
        Some((start, leaf))
    }
}

/// A place in a clone of a tree: holds the clone, and the leaf it stands in.
pub struct Cursor<L: Leaf> {
    tree: Tree<L>,
    leaf: Option<L>,
    leaf_start: usize,
}

impl<L: Leaf> Cursor<L> {
    /// A cursor over what `tree` is now.
    pub fn new(tree: &Tree<L>) -> Self {
        Cursor { tree: tree.clone(), leaf: None, leaf_start: 0 }
    }

    /// Number of entries of the clone.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// The leaf that holds the entry of rank `rank`, and the entry's index in it. O(1) while within one leaf.
    pub fn at(&mut self, rank: usize) -> Option<(&L, usize)> {
        if self.here(rank).is_none() {
            if rank >= self.tree.len() {
                return None;
            }
            courtesy::note_work(LEAF_UNITS);
            let (mut node, mut seek) = (&self.tree.root, ByRank::existing(rank));
            while let Node::Inner(inner) = node {
                node = &inner.children[seek.child(inner)];
            }
            if let Node::Leaf(leaf) = node {
                self.leaf = Some(leaf.clone());
                self.leaf_start = rank - seek.rest;
            }
        }
        self.here(rank)
    }

    /// As [`Cursor::at`], of an entry of the leaf it stands in already.
    pub fn here(&self, rank: usize) -> Option<(&L, usize)> {
        let at = rank.checked_sub(self.leaf_start)?;
        self.leaf.as_ref().filter(|leaf| at < leaf.len()).map(|leaf| (leaf, at))
    }
}

/// Steps through ranks in one direction: the part that all owned iterators share.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    next: Option<usize>,
    reverse: bool,
}

impl Walk {
    /// From `start` on. Backwards, a start past the end means the last entry.
    pub(crate) fn new(start: usize, reverse: bool, len: usize) -> Self {
        let next = if reverse { len.checked_sub(1).map(|last| start.min(last)) } else { Some(start) };
        Walk { next, reverse }
    }

    /// The rank of the next entry; the caller finds out whether there is one.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let rank = self.next?;
        self.next = if self.reverse { rank.checked_sub(1) } else { rank.checked_add(1) };
        Some(rank)
    }

    /// The rank that [`Walk::step`] will return.
    pub(crate) fn peek(&self) -> Option<usize> {
        self.next
    }
}
