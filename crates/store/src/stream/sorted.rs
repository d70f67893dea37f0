//! A copy-on-write map in the order of its keys.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use crate::sharing::{is_shared, own};
use crate::tree::{Bias, ByKey, Cursor, Leaf, Tree, Walk};

/// A value of a [`Sorted`], which may hold trees of its own.
pub(super) trait Item: Clone {
    /// Memory behind it, in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Tree nodes behind it.
    fn node_count(&self) -> usize {
        0
    }
}

impl Item for () {}

/// A map in the order of its keys. `Clone` is O(1); a writer copies what it touches.
pub(super) struct Sorted<K: Ord + Clone, V: Item> {
    tree: Tree<Arc<SortedLeaf<K, V>>>,
}

impl<K: Ord + Clone, V: Item> Clone for Sorted<K, V> {
    fn clone(&self) -> Self {
        Sorted { tree: self.tree.clone() }
    }
}

impl<K: Ord + Clone, V: Item> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted { tree: Tree::default() }
    }
}

#[derive(Clone)]
pub(super) struct SortedLeaf<K, V> {
    items: Vec<(K, V)>,
}

impl<K, V> Default for SortedLeaf<K, V> {
    fn default() -> Self {
        SortedLeaf { items: Vec::new() }
    }
}

impl<K: Ord, V> SortedLeaf<K, V> {
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.items.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }
}

impl<K: Ord + Clone, V: Item> Leaf for Arc<SortedLeaf<K, V>> {
    type Key = K;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn fill_bytes(&self) -> usize {
        self.items.len() * size_of::<(K, V)>()
    }

    fn heap_bytes(&self) -> usize {
        let behind: usize = self.items.iter().map(|(_, value)| value.heap_bytes()).sum();
        let own = size_of::<SortedLeaf<K, V>>() + 2 * size_of::<usize>();
        self.items.capacity() * size_of::<(K, V)>() + behind + own
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn is_shared(&self) -> bool {
        is_shared(self)
    }

    fn node_count(&self) -> usize {
        1 + self.items.iter().map(|(_, value)| value.node_count()).sum::<usize>()
    }

    fn split(&mut self, bias: Bias) -> Option<(K, Self)> {
        let len = self.items.len();
        let at = bias.left_share(len).clamp(1, len - 1);
        let items = &mut own_leaf(self).items;
        let right = SortedLeaf { items: items.split_off(at) };
        items.shrink_to_fit();
        Some((right.items[0].0.clone(), Arc::new(right)))
    }

    fn append(&mut self, right: &Self) {
        own_leaf(self).items.extend_from_slice(&right.items);
    }

    fn remove_range(&mut self, range: Range<usize>) {
        own_leaf(self).items.drain(range);
    }
}

/// For writing.
fn own_leaf<K: Clone, V: Clone>(leaf: &mut Arc<SortedLeaf<K, V>>) -> &mut SortedLeaf<K, V> {
    own(leaf, |leaf| leaf.items.capacity() * size_of::<(K, V)>())
}

fn by_key<K: Borrow<Q>, Q: Ord + ?Sized>(key: &Q) -> ByKey<impl FnMut(&K) -> bool + '_> {
    ByKey(move |separator: &K| separator.borrow() <= key)
}

impl<K: Ord + Clone, V: Item> Sorted<K, V> {
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes()
    }

    pub(super) fn node_count(&self) -> usize {
        self.tree.node_count()
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.item(key).map(|(_, value)| value)
    }

    /// The key as it is kept, and its value.
    pub(super) fn item<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&(K, V)>
    where
        K: Borrow<Q>,
    {
        let leaf = self.tree.leaf(&mut by_key(key));
        leaf.search(key).ok().map(|at| &leaf.items[at])
    }

    /// Sets the value of a key and returns the one it had.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let copy = key.clone();
        self.tree.edit(&mut by_key(&copy), |leaf, _| match leaf.search(&key) {
            Ok(at) => Some(std::mem::replace(&mut own_leaf(leaf).items[at].1, value)),
            Err(at) => {
                let leaf = own_leaf(leaf);
                if leaf.items.len() == leaf.items.capacity() {
                    // Doubling would leave leaves a third empty.
                    leaf.items.reserve_exact(1 + leaf.items.len() / 4);
                }
                leaf.items.insert(at, (key, value));
                None
            }
        })
    }

    /// Changes the value of a key, if there is one.
    pub(super) fn edit<Q: Ord + ?Sized, R>(&mut self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
    {
        self.item(key)?;
        self.tree.edit(&mut by_key(key), |leaf, _| {
            let at = leaf.search(key).ok()?;
            Some(change(&mut own_leaf(leaf).items[at].1))
        })
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.item(key)?;
        self.tree.edit(&mut by_key(key), |leaf, _| {
            let at = leaf.search(key).ok()?;
            Some(own_leaf(leaf).items.remove(at).1)
        })
    }

    /// The number of keys before `key`.
    pub(super) fn rank<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let (leaf, start) = self.tree.find(&mut by_key(key));
        start + leaf.search(key).unwrap_or_else(|at| at)
    }

    /// The key of rank `rank` and its value.
    pub(super) fn at(&self, rank: usize) -> Option<&(K, V)> {
        self.tree.leaf_at(rank).map(|(leaf, at)| &leaf.items[at])
    }

    /// Steps through what the map is now, from rank `rank` on.
    pub(super) fn iter(&self, rank: usize) -> SortedIter<K, V> {
        SortedIter { cursor: Cursor::new(&self.tree), walk: Walk::new(rank, false, self.len()) }
    }
}

/// Steps through a clone of a map, which it owns.
pub(super) struct SortedIter<K: Ord + Clone, V: Item> {
    cursor: Cursor<Arc<SortedLeaf<K, V>>>,
    walk: Walk,
}

impl<K: Ord + Clone, V: Item> SortedIter<K, V> {
    pub(super) fn next(&mut self) -> Option<&(K, V)> {
        let rank = self.walk.step()?;
        self.cursor.at(rank).map(|(leaf, at)| &leaf.items[at])
    }
}
