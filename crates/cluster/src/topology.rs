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
    pub nodes: BTreeMap<NodeId, Arc<NodeRecord>>,
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
                self.nodes.insert(node, Arc::new(record));
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
        Topology::after(records, None)
    }

    /// The same, where this was the topology `before`: who has not changed since is not looked up again.
    pub fn after(records: &Records, before: Option<&Topology>) -> Result<Topology, String> {
        let ids: Vec<&ShardId> = records.shards.keys().collect();
        // Places are worth something where the shards are the same ones.
        let before =
            before.filter(|before| before.shards.iter().map(|shard| &shard.id).eq(ids.iter().copied()));
        let mut known = before.map_or(&[][..], |before| &before.nodes).iter().peekable();
        let mut live = records.live.keys().peekable();
        let mut nodes: Vec<Node> = Vec::with_capacity(records.nodes.len());
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
        // All are in the order of their names.
        for (place, (id, record)) in records.nodes.iter().enumerate() {
            while known.next_if(|node| node.id < *id).is_some() {}
            while live.next_if(|live| *live < id).is_some() {}
            let same = known.peek().filter(|node| node.id == *id && Arc::ptr_eq(&node.record, record));
            let shard = match same {
                Some(node) => node.shard,
                None => ids.binary_search(&&record.shard).ok(),
            };
            if let Some(shard) = shard {
                members[shard].push(place);
            }
            let is_live = live.peek() == Some(&id);
            nodes.push(Node { id: id.clone(), record: record.clone(), shard, is_primary: false, is_live });
        }
        let mut shards: Vec<Shard> = Vec::with_capacity(ids.len());
        for ((id, (record, _)), mut members) in records.shards.iter().zip(members) {
            for place in &members {
                nodes[*place].is_primary = nodes[*place].id == record.primary.node;
            }
            members.sort_by_key(|place| !nodes[*place].is_primary);
            shards.push(Shard { id: id.clone(), epoch: record.epoch, nodes: members });
        }
        let mut owners: Vec<u16> = vec![NO_OWNER; usize::from(SLOT_COUNT)];
        records.slots.0.check()?;
        let mut places = ids.iter().enumerate().peekable();
        for (shard, ranges) in records.slots.0.shards() {
            while places.next_if(|(_, id)| **id < shard).is_some() {}
            let Some((place, _)) = places.peek().filter(|(_, id)| **id == shard) else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{LiveRecord, Promise};

    /// Ids that begin with each of sixteen digits.
    fn digits(number: u64) -> String {
        format!("{number:x}").repeat(40)
    }

    fn node(number: u64) -> NodeId {
        NodeId::new(&digits(number)).expect("40 digits")
    }

    fn shard(number: u64) -> ShardId {
        ShardId::new(&digits(number)).expect("40 digits")
    }

    fn key_and_record(what: u64, number: u64, other: u64) -> (Key, Record) {
        let member = Member { node: node(other), life: Life(1) };
        match what {
            0 => {
                let record = NodeRecord {
                    ip: "10.0.0.1".to_owned(),
                    port: 1 + other as u16,
                    tls_port: 0,
                    bus_port: 0,
                    hostname: String::new(),
                    zone: String::new(),
                    shard: shard(other),
                    version: String::new(),
                };
                (Key::Node(node(number)), Record::Node(record))
            }
            1 => (Key::Live(node(number)), Record::Live(LiveRecord { life: Life(other) })),
            2 => {
                let (primary, in_sync) = (member.clone(), vec![member]);
                let record =
                    ShardRecord { epoch: number, primary, in_sync, promise: Promise::Nothing, began_at: 0 };
                (Key::Shard(shard(number)), Record::Shard(record))
            }
            _ => {
                let mut map = SlotMap::default();
                let first = (number * 1_000) as u16;
                map.assign(first..first + 500, Some(&shard(number))).expect("one owner");
                map.assign(first + 500..first + 600, Some(&shard(other))).expect("one owner");
                (Key::Slots, Record::Slots(map))
            }
        }
    }

    #[test]
    fn what_is_made_from_the_topology_before_is_what_is_made_from_nothing() {
        let (mut records, mut before, mut random) = (Records::default(), None::<Topology>, 1_u64);
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut kinds = [0; 4];
        for revision in 1..20_000 {
            // Not every change is seen by itself.
            for _ in 0..=draw(2) {
                let (what, number, other) = (draw(4), draw(16), draw(16));
                let (key, record) = key_and_record(what, number, other);
                match draw(3) {
                    0 => records.remove(&key, revision),
                    _ => records.put(key, record, revision),
                }
                kinds[what as usize] += 1;
            }
            let topology = Topology::after(&records, before.as_ref()).expect("no slot has two owners");
            assert_eq!(Ok(&topology), Topology::of(&records).as_ref(), "revision {revision}");
            let led = topology.nodes.iter().filter(|node| node.is_primary);
            for node in led {
                let shard = &topology.shards[node.shard.expect("it leads one")];
                assert_eq!(topology.place_of(&node.id), shard.nodes.first().copied());
            }
            before = Some(topology);
        }
        assert!(kinds.iter().all(|count| *count > 1_000));
    }
}
