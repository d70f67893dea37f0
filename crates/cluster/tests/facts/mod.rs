//! Who the nodes of these tests are.

use cluster::agent::{Identity, Place};
use cluster::ids::{Member, ShardId};
use cluster::records::{NodeRecord, Promise};

/// The id of the cluster that a node of these tests founds.
pub const CLUSTER: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// A node of this shard, in this zone.
pub fn record(shard: &ShardId, zone: &str) -> NodeRecord {
    NodeRecord {
        ip: "127.0.0.1".to_owned(),
        port: 7000,
        tls_port: 0,
        bus_port: 17_000,
        hostname: String::new(),
        zone: zone.to_owned(),
        shard: shard.clone(),
        version: String::new(),
    }
}

/// A process that goes to this shard, if the cluster does not know its node yet.
pub fn identity(me: Member, shard: &ShardId, promise: Promise, min_in_sync: usize) -> Identity {
    Identity {
        node: me.node,
        life: me.life,
        kept: None,
        new_cluster: CLUSTER.to_owned(),
        place: Place::In(shard.clone()),
        promise,
        min_in_sync,
        replicas_wanted: 2,
    }
}
