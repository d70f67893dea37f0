//! How a node becomes known: the cluster's record, its own, that it is there, its shard's.

use std::sync::Arc;

use super::Place;
use super::commits::{Due, Purpose};
use super::machine::{Agent, Membership};
use crate::ids::ShardId;
use crate::records::{ClusterRecord, Key, NodeRecord, Record, ShardRecord};
use crate::topology::Records;

/// The version of the records that this code writes.
const FORMAT: u32 = 1;

impl Agent {
    /// What is lacking for this node to be known.
    pub(super) fn entering(&self) -> Option<Due> {
        self.founding().or_else(|| self.naming()).or_else(|| self.living()).or_else(|| self.own_sharding())
    }

    fn founding(&self) -> Option<Due> {
        if self.records.cluster.is_some() {
            return None;
        }
        let record = ClusterRecord { id: self.identity.new_cluster.clone(), format: FORMAT };
        let writes = vec![(Key::Cluster, Some(Record::Cluster(record)))];
        Some(Due { purpose: Purpose::Enter, compares: vec![(Key::Cluster, 0)], writes })
    }

    /// Writes the node's own record, or its facts where they are others than before. Its shard is what the record
    /// says. Who looks for a place writes the cluster's record anew, so that two who look at once do not find the
    /// same.
    fn naming(&self) -> Option<Due> {
        let key = Key::Node(self.me.node.clone());
        let mut compares = vec![(key.clone(), self.records.written_at(&key))];
        let mut writes = Vec::new();
        let record = match self.records.nodes.get(&self.me.node) {
            Some(known) => {
                let record = NodeRecord { shard: known.shard.clone(), ..self.facts.clone() };
                if record == **known {
                    return None;
                }
                record
            }
            None if self.membership == Membership::Out => return None,
            None => {
                if let (Place::Auto(_), Some(cluster)) = (&self.identity.place, &self.records.cluster) {
                    compares.push((Key::Cluster, self.records.written_at(&Key::Cluster)));
                    writes.push((Key::Cluster, Some(Record::Cluster(cluster.clone()))));
                }
                NodeRecord { shard: self.place(), ..self.facts.clone() }
            }
        };
        writes.push((key, Some(Record::Node(record))));
        Some(Due { purpose: Purpose::Enter, compares, writes })
    }

    fn place(&self) -> ShardId {
        match &self.identity.place {
            Place::In(shard) => shard.clone(),
            Place::Auto(own) => {
                let wanted = self.identity.replicas_wanted;
                shard_that_lacks(&self.records, &self.facts.zone, wanted).unwrap_or_else(|| own.clone())
            }
        }
    }

    /// A shard that nobody leads yet begins with its first node. One that owns slots was led: whoever leads it next
    /// is in its record, and if that was lost, nobody knows who has its data.
    fn own_sharding(&self) -> Option<Due> {
        let node = self.records.nodes.get(&self.me.node)?;
        let owns_slots = self.records.slots.0.of(&node.shard).is_some_and(|slots| !slots.is_empty());
        if self.records.shards.contains_key(&node.shard) || owns_slots || !self.records.is_live(&self.me) {
            return None;
        }
        let record = ShardRecord {
            epoch: self.records.epoch_max().max(self.server.log_epoch) + 1,
            primary: self.me.clone(),
            in_sync: vec![self.me.clone()],
            promise: self.identity.promise,
            began_at: self.server.log_end,
        };
        let (shard, own) = (Key::Shard(node.shard.clone()), Key::Node(self.me.node.clone()));
        let compares = vec![(shard.clone(), 0), (own.clone(), self.records.written_at(&own))];
        let writes = vec![(shard, Some(Record::Shard(record)))];
        Some(Due { purpose: Purpose::Enter, compares, writes })
    }
}

/// The shard that owns slots and has the fewest replicas, fewer than are wanted: of these one that does not stand in
/// this zone, then the first.
fn shard_that_lacks(records: &Records, zone: &str, replicas_wanted: usize) -> Option<ShardId> {
    let lacking = records.slots.0.shards().filter_map(|(shard, _)| {
        let copies: Vec<&Arc<NodeRecord>> =
            records.nodes_of(shard).filter_map(|node| records.nodes.get(node)).collect();
        let (lead, _) = records.shards.get(shard)?;
        let stands_in = |record: &&Arc<NodeRecord>| !zone.is_empty() && record.zone == zone;
        let has_primary_here = records.nodes.get(&lead.primary.node).is_some_and(|record| stands_in(&record));
        let here = copies.iter().filter(|record| stands_in(record)).count();
        (copies.len() <= replicas_wanted).then_some((copies.len(), has_primary_here, here, shard))
    });
    lacking.min().map(|(.., shard)| shard.clone())
}
