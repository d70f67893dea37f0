//! Topologies for tests, from what real nodes tell.

use std::sync::Arc;

use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::records::{NodeRecord, Promise, ShardRecord};
use cluster::slots::SlotRanges;
use cluster::topology::{Records, Topology};

/// The topology that CLUSTER NODES tells of.
pub fn topology_of(nodes: &str) -> Arc<Topology> {
    let id = |text: &str| NodeId::new(text).expect("an id");
    let (mut records, mut owned) = (Records::default(), Vec::new());
    for line in nodes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [node, address, flags, primary, _, _, epoch, _, slots @ ..] = &words[..] else {
            panic!("{line} has too few words")
        };
        let (address, hostname) = address.split_once(',').unwrap_or((address, ""));
        let (address, bus_port) = address.split_once('@').expect("a bus port");
        let (ip, port) = address.rsplit_once(':').expect("a port");
        let is_primary = flags.split(',').any(|flag| flag == "master");
        let shard = ShardId::new(if is_primary { node } else { primary }).expect("an id");
        let record = NodeRecord {
            ip: ip.to_owned(),
            port: port.parse().expect("a port"),
            tls_port: 0,
            bus_port: bus_port.parse().expect("a port"),
            hostname: hostname.split(',').next().unwrap_or_default().to_owned(),
            zone: String::new(),
            shard: shard.clone(),
            version: String::new(),
        };
        records.nodes.insert(id(node), Arc::new(record));
        if !flags.split(',').any(|flag| flag == "fail") {
            records.live.insert(id(node), Life(1));
        }
        if is_primary {
            let primary = Member { node: id(node), life: Life(1) };
            let in_sync = vec![primary.clone()];
            let epoch = epoch.parse().expect("an epoch");
            let record = ShardRecord { epoch, primary, in_sync, promise: Promise::Nothing, began_at: 0 };
            records.shards.insert(shard.clone(), (record, 1));
            let slots = slots.iter().filter(|word| !word.starts_with('[')).copied().collect::<Vec<_>>();
            owned.push((shard, SlotRanges::try_from(slots.join(",")).expect("slots")));
        }
    }
    for (shard, slots) in owned {
        records.slots.0.assign(slots.slots(), Some(&shard)).expect("slots with one owner");
    }
    Arc::new(Topology::of(&records).expect("records that fit"))
}
