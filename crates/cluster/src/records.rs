//! What stands in etcd, and under which key. Values are JSON, so that people can read them with etcd's own tools;
//! fields that are not known are passed over, so that nodes of two versions can share a cluster.
//!
//! | key, after `/halcyon/NAME/` | value | written by |
//! |---|---|---|
//! | `cluster` | [`ClusterRecord`] | the first node, once |
//! | `nodes/NODE` | [`NodeRecord`] | the node, when its facts change; who forgets it removes it |
//! | `live/NODE` | [`LiveRecord`], under the node's lease | the node |
//! | `shards/SHARD` | [`ShardRecord`] | the primary, or who becomes it |
//! | `slots` | [`SlotMap`] | who assigns slots, or flips them |
//! | `offers/SHARD/NODE` | [`OfferRecord`], under the node's lease | who could become primary |
//! | `moves/SHARD/N` | [`MoveRecord`] | who asks for it; the primary of the slots, which the shard is |
//!
//! A node without a shard of others is the primary of a shard of its own: Redis's primary without slots.

use serde::{Deserialize, Serialize};

use crate::ids::{Life, Member, NodeId, ShardId};
use crate::slots::{SlotMap, SlotRanges};

/// The cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// 40 hex digits, drawn when the cluster was made. Nodes keep it beside their data: another cluster under the same
    /// name is refused.
    pub id: String,
    /// The version of these records.
    pub format: u32,
}

/// A node, as others and clients are to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its address.
    pub ip: String,
    /// Its plain port; 0: none.
    pub port: u16,
    /// Its TLS port; 0: none.
    pub tls_port: u16,
    /// What CLUSTER NODES shows behind `@`.
    pub bus_port: u32,
    /// Its name; empty: none.
    #[serde(default)]
    pub hostname: String,
    /// Where it stands; empty: unknown.
    #[serde(default)]
    pub zone: String,
    /// Its shard.
    pub shard: ShardId,
    /// The server's version.
    #[serde(default)]
    pub version: String,
}

/// A node that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRecord {
    /// Its process.
    pub life: Life,
}

/// What the replies of a shard's primary promise of other copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Nothing: if no member of the set lives, the most advanced replica may become primary.
    Nothing,
    /// What was acknowledged is in every member of the in-sync set: none else may become primary.
    Quorum,
}

/// Who leads a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Raised by each change of primary. Redis's config epoch.
    pub epoch: u64,
    /// The primary.
    pub primary: Member,
    /// Who has all that was acknowledged, the primary among them. Only they can become primary where `promise` is
    /// quorum.
    pub in_sync: Vec<Member>,
    /// What replies promise.
    pub promise: Promise,
    /// The log's offset at which this epoch began: a primary of an earlier one may have more, which is void.
    #[serde(default)]
    pub began_at: u64,
}

/// Who could become a shard's primary, and how much it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferRecord {
    /// Its process.
    pub life: Life,
    /// The epoch that it has followed last.
    pub epoch: u64,
    /// The end of its log.
    pub offset: u64,
    /// It follows still, and asks the primary to hand the shard to it: CLUSTER FAILOVER.
    #[serde(default)]
    pub asks: bool,
}

/// Slots that are to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRecord {
    /// Which.
    pub slots: SlotRanges,
    /// Where to.
    pub to: ShardId,
    /// How far it is.
    pub state: MoveState,
    /// Why it failed; empty: it did not.
    #[serde(default)]
    pub error: String,
    /// What clients call it: 40 hex digits, drawn.
    #[serde(default)]
    pub name: String,
    /// When it was asked for, by the clock of who was asked.
    #[serde(default)]
    pub begun_ms: u64,
    /// When its state changed last.
    #[serde(default)]
    pub changed_ms: u64,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoveState {
    /// The primary of the slots has not begun.
    Asked,
    /// Keys are copied, and what is written to them follows.
    Copying,
    /// The slots have their new owner.
    Done,
    /// They have their old one.
    Failed,
    /// They have it too, since somebody wanted that.
    Cancelled,
}

impl MoveState {
    /// False if it has ended: nothing becomes of it any more.
    pub fn is_open(self) -> bool {
        matches!(self, MoveState::Asked | MoveState::Copying)
    }
}

/// A key of a cluster's records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `cluster`
    Cluster,
    /// `nodes/NODE`
    Node(NodeId),
    /// `live/NODE`
    Live(NodeId),
    /// `shards/SHARD`
    Shard(ShardId),
    /// `slots`
    Slots,
    /// `offers/SHARD/NODE`
    Offer(ShardId, NodeId),
    /// `moves/SHARD/N`
    Move(ShardId, u64),
}

impl Key {
    /// The key as it is written, without `/halcyon/NAME/`.
    pub fn path(&self) -> String {
        match self {
            Key::Cluster => "cluster".to_owned(),
            Key::Node(node) => format!("nodes/{node}"),
            Key::Live(node) => format!("live/{node}"),
            Key::Shard(shard) => format!("shards/{shard}"),
            Key::Slots => "slots".to_owned(),
            Key::Offer(shard, node) => format!("offers/{shard}/{node}"),
            Key::Move(shard, number) => format!("moves/{shard}/{number}"),
        }
    }

    /// The key that is written so; None: it is none of these.
    pub fn parse(path: &str) -> Option<Key> {
        let mut words = path.split('/');
        let (kind, first, second) = (words.next()?, words.next(), words.next());
        if words.next().is_some() {
            return None;
        }
        match (kind, first, second) {
            ("cluster", None, None) => Some(Key::Cluster),
            ("slots", None, None) => Some(Key::Slots),
            ("nodes", Some(node), None) => NodeId::new(node).map(Key::Node),
            ("live", Some(node), None) => NodeId::new(node).map(Key::Live),
            ("shards", Some(shard), None) => ShardId::new(shard).map(Key::Shard),
            ("offers", Some(shard), Some(node)) => Some(Key::Offer(ShardId::new(shard)?, NodeId::new(node)?)),
            ("moves", Some(shard), Some(number)) => {
                Some(Key::Move(ShardId::new(shard)?, number.parse().ok()?))
            }
            _ => None,
        }
    }

    /// True if the value goes with the lease of who wrote it.
    pub fn is_leased(&self) -> bool {
        matches!(self, Key::Live(_) | Key::Offer(..))
    }
}

/// A value of a cluster's records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what it is called")]
pub enum Record {
    Cluster(ClusterRecord),
    Node(NodeRecord),
    Live(LiveRecord),
    Shard(ShardRecord),
    Slots(SlotMap),
    Offer(OfferRecord),
    Move(MoveRecord),
}

impl Record {
    /// The value of this key as it is written. An error says what is wrong with it.
    pub fn parse(key: &Key, value: &[u8]) -> Result<Record, String> {
        let record = match key {
            Key::Cluster => serde_json::from_slice(value).map(Record::Cluster),
            Key::Node(_) => serde_json::from_slice(value).map(Record::Node),
            Key::Live(_) => serde_json::from_slice(value).map(Record::Live),
            Key::Shard(_) => serde_json::from_slice(value).map(Record::Shard),
            Key::Slots => serde_json::from_slice(value).map(Record::Slots),
            Key::Offer(..) => serde_json::from_slice(value).map(Record::Offer),
            Key::Move(..) => serde_json::from_slice(value).map(Record::Move),
        };
        record.map_err(|error| format!("{}: {error}", key.path()))
    }

    /// The value as it is written.
    pub fn encode(&self) -> Vec<u8> {
        let encoded = match self {
            Record::Cluster(record) => serde_json::to_vec(record),
            Record::Node(record) => serde_json::to_vec(record),
            Record::Live(record) => serde_json::to_vec(record),
            Record::Shard(record) => serde_json::to_vec(record),
            Record::Slots(record) => serde_json::to_vec(record),
            Record::Offer(record) => serde_json::to_vec(record),
            Record::Move(record) => serde_json::to_vec(record),
        };
        encoded.expect("records: maps of texts and numbers are JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (node, shard) = (NodeId::new(&"a".repeat(40)), ShardId::new(&"b".repeat(40)));
        let (node, shard) = node.zip(shard).expect("40 digits each");
        for key in [
            Key::Cluster,
            Key::Node(node.clone()),
            Key::Live(node.clone()),
            Key::Shard(shard.clone()),
            Key::Slots,
            Key::Offer(shard.clone(), node),
            Key::Move(shard, 7),
        ] {
            assert_eq!(Key::parse(&key.path()), Some(key));
        }
        for wrong in ["", "cluster/x", "nodes", "nodes/xyz", "other", "moves/1/2", "slots/1/2/3"] {
            assert_eq!(Key::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        let (node, shard) = (NodeId::new(&"a".repeat(40)), ShardId::new(&"b".repeat(40)));
        let (node, shard) = node.zip(shard).expect("40 digits each");
        let primary = Member { node: node.clone(), life: Life(7) };
        let in_sync = vec![primary.clone()];
        let record = ShardRecord { epoch: 3, primary, in_sync, promise: Promise::Quorum, began_at: 9 };
        let (key, record) = (Key::Shard(shard), Record::Shard(record));
        assert_eq!(Record::parse(&key, &record.encode()), Ok(record.clone()));
        let newer = String::from_utf8(record.encode()).expect("text").replacen('{', r#"{"later":1,"#, 1);
        assert_eq!(Record::parse(&key, newer.as_bytes()), Ok(record), "what is not known is passed over");
        assert!(Record::parse(&key, b"{}").is_err_and(|error| error.starts_with("shards/")));
    }
}
