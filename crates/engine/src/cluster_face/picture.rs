//! The cluster as it is told to clients: its nodes and shards with the texts that replies have of them.

use cluster::slots::SlotRanges;
use cluster::topology::{NO_OWNER, Topology};

/// `cluster-preferred-endpoint-type`: what clients are to connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// The address.
    #[default]
    Ip,
    /// The name.
    Hostname,
    /// Whatever they are connected to.
    Unknown,
}

impl Endpoint {
    /// Of a node's address and its name, what clients are to connect to: Redis has `?` for a name that is not set, nothing
    /// for unknown.
    pub(super) fn of<'a>(self, ip: &'a str, hostname: &'a str) -> Option<&'a str> {
        match self {
            Endpoint::Ip => Some(ip),
            Endpoint::Hostname if hostname.is_empty() => Some("?"),
            Endpoint::Hostname => Some(hostname),
            Endpoint::Unknown => None,
        }
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// 40 hex digits.
    pub id: String,
    /// Its address, never empty.
    pub ip: String,
    /// Its plain port; 0: none.
    pub port: u16,
    /// Its TLS port; 0: none.
    pub tls_port: u16,
    /// Where other nodes would reach it.
    pub bus_port: u32,
    /// Its name; empty: none.
    pub hostname: String,
    /// It is the node that answers.
    pub is_myself: bool,
    /// It leads its shard.
    pub is_primary: bool,
    /// It is there.
    pub is_live: bool,
    /// Its shard, by its place in [`Picture::shards`]; None: it has none yet.
    pub shard: Option<usize>,
}

impl Node {
    /// The port for clients that speak TLS, or do not.
    pub fn client_port(&self, over_tls: bool) -> u16 {
        if over_tls { self.tls_port } else { self.port }
    }

    /// What clients are to connect to.
    pub fn endpoint(&self, preferred: Endpoint) -> Option<&str> {
        preferred.of(&self.ip, &self.hostname)
    }

    /// What old clients are to connect to: always a host.
    pub fn legacy_endpoint(&self, preferred: Endpoint) -> &str {
        match preferred {
            Endpoint::Hostname if !self.hostname.is_empty() => &self.hostname,
            _ => &self.ip,
        }
    }
}

/// A primary and its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// 40 hex digits.
    pub id: String,
    /// Redis's config epoch.
    pub epoch: u64,
    /// Its nodes by their place in [`Picture::nodes`], the primary first, if it is known.
    pub nodes: Vec<usize>,
    /// What it owns.
    pub slots: SlotRanges,
}

/// The cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// In the order of their names.
    pub nodes: Vec<Node>,
    /// In the order of their names.
    pub shards: Vec<Shard>,
    /// Slots in a row that have one owner, by its place in `shards`.
    pub ranges: Vec<(u16, u16, usize)>,
    /// What clients are to connect to.
    pub endpoint: Endpoint,
    /// The client that is told speaks TLS.
    pub over_tls: bool,
    /// The slots that this node is giving or taking, as CLUSTER NODES has them.
    pub opened: String,
}

impl Picture {
    /// The cluster of this node alone, which owns every slot.
    pub fn alone(node: Node, endpoint: Endpoint, over_tls: bool) -> Picture {
        let last = base::slot::SLOT_COUNT - 1;
        let node = Node { is_myself: true, is_primary: true, is_live: true, shard: Some(0), ..node };
        let id = node.id.clone();
        let shard = Shard { id, epoch: 0, nodes: vec![0], slots: SlotRanges::of(0..=last) };
        Picture {
            nodes: vec![node],
            shards: vec![shard],
            ranges: vec![(0, last, 0)],
            endpoint,
            over_tls,
            opened: String::new(),
        }
    }

    /// The cluster of a topology, as the node of this name tells of it.
    pub fn of(topology: &Topology, myself: &str, endpoint: Endpoint, over_tls: bool) -> Picture {
        let nodes = topology.nodes.iter().map(|node| Node {
            id: node.id.to_string(),
            ip: node.record.ip.clone(),
            port: node.record.port,
            tls_port: node.record.tls_port,
            bus_port: node.record.bus_port,
            hostname: node.record.hostname.clone(),
            is_myself: node.id.as_str() == myself,
            // A node without a shard of others leads one of its own.
            is_primary: node.is_primary || node.shard.is_none(),
            is_live: node.is_live,
            shard: node.shard,
        });
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for (slot, owner) in topology.owners.iter().enumerate().filter(|(_, owner)| **owner != NO_OWNER) {
            match ranges.last_mut() {
                Some((_, end, shard)) if usize::from(*end) + 1 == slot && *shard == usize::from(*owner) => {
                    *end = slot as u16;
                }
                _ => ranges.push((slot as u16, slot as u16, usize::from(*owner))),
            }
        }
        let mut slots: Vec<Vec<u16>> = vec![Vec::new(); topology.shards.len()];
        for (start, end, shard) in &ranges {
            slots[*shard].extend(*start..=*end);
        }
        let shards = topology.shards.iter().zip(slots).map(|(shard, slots)| Shard {
            id: shard.id.to_string(),
            epoch: shard.epoch,
            nodes: shard.nodes.clone(),
            slots: SlotRanges::of(slots),
        });
        Picture {
            nodes: nodes.collect(),
            shards: shards.collect(),
            ranges,
            endpoint,
            over_tls,
            opened: String::new(),
        }
    }

    /// The node that leads a shard, if it is known.
    pub fn primary_of(&self, shard: usize) -> Option<&Node> {
        let first = self.shards.get(shard)?.nodes.first()?;
        Some(&self.nodes[*first]).filter(|node| node.is_primary)
    }

    /// The replicas of a shard.
    pub fn replicas_of(&self, shard: usize) -> impl Iterator<Item = &Node> {
        let nodes = self.shards.get(shard).map(|shard| shard.nodes.as_slice()).unwrap_or_default();
        nodes.iter().map(|place| &self.nodes[*place]).filter(|node| !node.is_primary)
    }
}
