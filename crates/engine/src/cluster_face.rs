//! The cluster as clients see it. So far: one node that owns every slot.
//!
//! Replies about the topology are encoded once for each of this node's addresses, and again when the
//! configuration changes; answering is a copy. A client is told the address that it connected to: it may
//! know no other, and old clients cannot read an absent or empty host.

mod identity;
mod topology;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use base::slot::SLOT_COUNT;
use parking_lot::RwLock;

use crate::clients::Peer;
use crate::compat::Compat;
use crate::config::Config;
use crate::server::Process;

pub use identity::Identity;
pub use topology::{Endpoint, Node, Replies};

/// Addresses of this node for which replies are kept; a machine has few.
const ADDRESSES_MAX: usize = 16;

/// What the CLUSTER commands answer from.
pub struct ClusterFace {
    /// `cluster-enabled`.
    pub enabled: bool,
    /// Who this node is.
    pub identity: Identity,
    encoded: RwLock<Encoded>,
}

/// Replies by address, as of one version of the configuration.
struct Encoded {
    version: u64,
    compat: Compat,
    by_address: Vec<(Option<SocketAddr>, Arc<Replies>)>,
}

impl ClusterFace {
    /// The face of this node.
    pub fn new(config: &Config, process: &Process) -> ClusterFace {
        let identity = process.cluster_identity.clone();
        ClusterFace {
            enabled: config.bool("cluster-enabled"),
            identity: identity.unwrap_or_else(|| Identity::of_node(process.run_id.clone())),
            encoded: RwLock::new(Encoded {
                version: config.version(),
                compat: Compat::of(config),
                by_address: Vec::new(),
            }),
        }
    }

    /// The replies for a client, and `client-compat`.
    pub fn replies(&self, config: &Config, peer: &Peer) -> (Arc<Replies>, Compat) {
        let address = match peer {
            Peer::Tcp { local, .. } => Some(SocketAddr::from(*local)),
            Peer::Unix(_) => None,
        };
        let version = config.version();
        let encoded = self.encoded.read();
        if encoded.version == version
            && let Some((_, replies)) = encoded.by_address.iter().find(|(known, _)| *known == address)
        {
            return (replies.clone(), encoded.compat);
        }
        drop(encoded);
        self.encode(config, version, address)
    }

    #[cold]
    fn encode(&self, config: &Config, version: u64, address: Option<SocketAddr>) -> (Arc<Replies>, Compat) {
        let replies = Arc::new(Replies::encode(&self.myself(config, address)));
        let mut encoded = self.encoded.write();
        if encoded.version != version {
            *encoded = Encoded { version, compat: Compat::of(config), by_address: Vec::new() };
        }
        encoded.by_address.truncate(ADDRESSES_MAX - 1);
        encoded.by_address.insert(0, (address, replies.clone()));
        (replies, encoded.compat)
    }

    /// This node, as a client that connected to `address` is to reach it; `None`: over a unix socket.
    fn myself(&self, config: &Config, address: Option<SocketAddr>) -> Node {
        let port_of = |name: &str| config.int(name) as u16;
        let first_set = |ports: &[u16]| ports.iter().copied().find(|port| *port != 0).unwrap_or(0);
        let announced_ip = config.string("cluster-announce-ip");
        let ip = match address {
            _ if !announced_ip.is_empty() => announced_ip,
            Some(address) => address.ip().to_string(),
            None => bound_ip(config).to_string(),
        };
        // A unix socket tells nothing; as Redis, it is answered like the other nodes.
        let of_nodes = config.bool("tls-cluster");
        let over_tls = address.map_or(of_nodes, |address| address.port() == port_of("tls-port"));
        let connected_to = address.filter(|_| !over_tls).map_or(0, |address| address.port());
        let port = first_set(&[port_of("cluster-announce-port"), port_of("port"), connected_to]);
        let tls_port = first_set(&[port_of("cluster-announce-tls-port"), port_of("tls-port")]);
        let bus_port = first_set(&[port_of("cluster-announce-bus-port"), port_of("cluster-port")]);
        let by_default = if of_nodes { ["tls-port", "port"] } else { ["port", "tls-port"] }.map(port_of);
        let base_port = first_set(&[by_default[0], by_default[1], port]);
        Node {
            id: self.identity.node_id.clone(),
            ip,
            port,
            tls_port,
            over_tls,
            bus_port: if bus_port == 0 { u32::from(base_port) + 10_000 } else { bus_port.into() },
            hostname: config.string("cluster-announce-hostname"),
            endpoint: match &config.bytes("cluster-preferred-endpoint-type")[..] {
                b"hostname" => Endpoint::Hostname,
                b"unknown-endpoint" => Endpoint::Unknown,
                _ => Endpoint::Ip,
            },
        }
    }

    /// The text of CLUSTER INFO.
    pub fn info(&self) -> String {
        let slots = SLOT_COUNT;
        let fields = [
            ("cluster_state", "ok".to_owned()),
            ("cluster_slots_assigned", slots.to_string()),
            ("cluster_slots_ok", slots.to_string()),
            ("cluster_slots_pfail", "0".to_owned()),
            ("cluster_slots_fail", "0".to_owned()),
            ("cluster_known_nodes", "1".to_owned()),
            ("cluster_size", "1".to_owned()),
            ("cluster_current_epoch", "0".to_owned()),
            ("cluster_my_epoch", "0".to_owned()),
            ("cluster_stats_messages_sent", "0".to_owned()),
            ("cluster_stats_messages_received", "0".to_owned()),
            ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
        ];
        fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
    }
}

/// The first address of `bind` that a client could connect to; this machine's own if there is none.
fn bound_ip(config: &Config) -> IpAddr {
    let bound = config.list("bind");
    let texts = bound.iter().filter_map(|word| std::str::from_utf8(word).ok());
    let addresses = texts.filter_map(|text| text.trim_start_matches('-').parse::<IpAddr>().ok());
    addresses.into_iter().find(|ip| !ip.is_unspecified()).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests;
