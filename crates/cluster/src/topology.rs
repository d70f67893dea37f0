//! The records as one immutable value. A change builds another; whoever answers from one holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::slot::SLOT_COUNT;

use crate::ids::{Life, Member, NodeId, ShardId};
use crate::records::{ClusterRecord, Key, MoveRecord, NodeRecord, OfferRecord, Record, ShardRecord};
use crate::slots::SlotMap;

/// All records as of one revision of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The revision of etcd.
    pub revision: u64,
    /// If there is a cluster yet.
    pub cluster: Option<ClusterRecord>,
    /// Nodes.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// Nodes that are there.
    pub live: BTreeMap<NodeId, Life>,
    /// Shards, each with the revision at which its record was written.
    pub shards: BTreeMap<ShardId, (ShardRecord, u64)>,
    /// Who owns which slots, and the revision at which that was written.
    pub slots: (SlotMap, u64),
    /// Who could become primary.
    pub offers: BTreeMap<(ShardId, NodeId), OfferRecord>,
    /// Slots that are to move, each with the revision at which its record was written.
    pub moves: BTreeMap<(ShardId, u64), (MoveRecord, u64)>,
    /// The revision at which each key that is there was written.
    pub written: BTreeMap<Key, u64>,
}

impl Records {
    /// The revision at which this key was written; 0: it is not there. What a transaction compares.
    pub fn written_at(&self, key: &Key) -> u64 {
        self.written.get(key).copied().unwrap_or(0)
    }

    /// True if this node is there, in this life.
    pub fn is_live(&self, member: &Member) -> bool {
        self.live.get(&member.node) == Some(&member.life)
    }

    /// The nodes of a shard, in the order of their names.
    pub fn nodes_of<'a>(&'a self, shard: &'a ShardId) -> impl Iterator<Item = &'a NodeId> {
        self.nodes.iter().filter(move |(_, record)| record.shard == *shard).map(|(node, _)| node)
    }

    /// The highest epoch of any shard.
    pub fn epoch_max(&self) -> u64 {
        self.shards.values().map(|(record, _)| record.epoch).max().unwrap_or(0)
    }

    /// Takes in what a revision has written.
    pub fn put(&mut self, key: Key, record: Record, revision: u64) {
        self.revision = self.revision.max(revision);
        self.written.insert(key.clone(), revision);
        match (key, record) {
            (Key::Cluster, Record::Cluster(record)) => self.cluster = Some(record),
            (Key::Node(node), Record::Node(record)) => {
                self.nodes.insert(node, record);
            }
            (Key::Live(node), Record::Live(record)) => {
                self.live.insert(node, record.life);
            }
            (Key::Shard(shard), Record::Shard(record)) => {
                self.shards.insert(shard, (record, revision));
            }
            (Key::Slots, Record::Slots(map)) => self.slots = (map, revision),
            (Key::Offer(shard, node), Record::Offer(record)) => {
                self.offers.insert((shard, node), record);
            }
            (Key::Move(shard, number), Record::Move(record)) => {
                self.moves.insert((shard, number), (record, revision));
            }
            (key, record) => unreachable!("records: {record:?} under {}", key.path()),
        }
    }

    /// Takes out what a revision has removed.
    pub fn remove(&mut self, key: &Key, revision: u64) {
        self.revision = self.revision.max(revision);
        self.written.remove(key);
        match key {
            Key::Cluster => self.cluster = None,
            Key::Node(node) => {
                self.nodes.remove(node);
            }
            Key::Live(node) => {
                self.live.remove(node);
            }
            Key::Shard(shard) => {
                self.shards.remove(shard);
            }
            Key::Slots => self.slots = (SlotMap::default(), revision),
            Key::Offer(shard, node) => {
                self.offers.remove(&(shard.clone(), node.clone()));
            }
            Key::Move(shard, number) => {
                self.moves.remove(&(shard.clone(), *number));
            }
        }
    }
}

/// A shard in a [`Topology`]. Its primary is the first of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its name.
    pub id: ShardId,
    /// Its epoch.
    pub epoch: u64,
    /// Its nodes by their place in [`Topology::nodes`], the primary first, then in the order of their names.
    pub nodes: Vec<usize>,
}

/// A node in a [`Topology`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// How it is reached.
    pub record: Arc<NodeRecord>,
    /// Its shard, by its place in [`Topology::shards`]; None: there is no record of it yet.
    pub shard: Option<usize>,
    /// It leads its shard.
    pub is_primary: bool,
    /// It is there.
    pub is_live: bool,
}

/// What clients are told, and what requests are routed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The revision of etcd that it stands for.
    pub revision: u64,
    /// In the order of their names.
    pub nodes: Vec<Node>,
    /// In the order of their names.
    pub shards: Vec<Shard>,
    /// The owner of each slot, by its place in [`Topology::shards`]; [`NO_OWNER`]: none.
    pub owners: Box<[u16]>,
    /// The highest epoch.
    pub epoch: u64,
}

/// The owner of slots that nobody owns.
pub const NO_OWNER: u16 = u16::MAX;

impl Topology {
    /// The topology of these records. An error says what is wrong with them: nothing may be served by it.
    pub fn of(records: &Records) -> Result<Topology, String> {
        let mut nodes: Vec<Node> = records
            .nodes
            .iter()
            .map(|(id, record)| Node {
                id: id.clone(),
                record: Arc::new(record.clone()),
                shard: None,
                is_primary: false,
                is_live: records.live.contains_key(id),
            })
            .collect();
        let place_of: BTreeMap<&ShardId, usize> =
            records.shards.keys().enumerate().map(|(at, id)| (id, at)).collect();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); place_of.len()];
        for (place, node) in nodes.iter_mut().enumerate() {
            node.shard = place_of.get(&node.record.shard).copied();
            if let Some(at) = node.shard {
                members[at].push(place);
            }
        }
        let mut shards: Vec<Shard> = Vec::with_capacity(members.len());
        for ((id, (record, _)), mut members) in records.shards.iter().zip(members) {
            for place in &members {
                nodes[*place].is_primary = nodes[*place].id == record.primary.node;
            }
            members.sort_by_key(|place| !nodes[*place].is_primary);
            shards.push(Shard { id: id.clone(), epoch: record.epoch, nodes: members });
        }
        let mut owners: Vec<u16> = vec![NO_OWNER; usize::from(SLOT_COUNT)];
        records.slots.0.check()?;
        for (shard, ranges) in records.slots.0.shards() {
            let Some(place) = place_of.get(shard) else { continue };
            for range in ranges.ranges() {
                owners[usize::from(*range.start())..=usize::from(*range.end())].fill(*place as u16);
            }
        }
        debug_assert_eq!(owners.len(), usize::from(SLOT_COUNT));
        let epoch = shards.iter().map(|shard| shard.epoch).max().unwrap_or(0);
        Ok(Topology { revision: records.revision, nodes, shards, owners: owners.into(), epoch })
    }

    /// True if only the revision differs: what changed in between is nothing that clients see.
    pub fn is_same_but_for_revision(&self, other: &Topology) -> bool {
        self.nodes == other.nodes && self.shards == other.shards && self.owners == other.owners
    }

    /// The place of this node.
    pub fn place_of(&self, node: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|known| known.id.cmp(node)).ok()
    }
}
