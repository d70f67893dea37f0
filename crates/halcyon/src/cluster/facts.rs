//! What the directives say of this node: where others reach it, and what it is to be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

use cluster::agent::{Identity, Place};
use cluster::ids::ShardId;
use cluster::records::{NodeRecord, Promise};
use engine::config::Config;
use engine::server::Server;

use super::kept::Memory;
use super::options::Options;

/// How this node is reached.
pub fn of_node(server: &Server, options: &Options) -> NodeRecord {
    let config = &server.config;
    let port_of = |name: &str| config.int(name) as u16;
    let either = |first: &str, second: &str| match port_of(first) {
        0 => port_of(second),
        port => port,
    };
    let announced = config.string("cluster-announce-ip");
    let ip = if announced.is_empty() { own_ip(config, options).to_string() } else { announced };
    let (plain, over_tls) = (port_of("port"), port_of("tls-port"));
    let of_nodes = if config.bool("tls-cluster") { [over_tls, plain] } else { [plain, over_tls] };
    let base_port = of_nodes.into_iter().find(|port| *port != 0).unwrap_or(0);
    let bus_port = either("cluster-announce-bus-port", "cluster-port");
    NodeRecord {
        ip,
        port: either("cluster-announce-port", "port"),
        tls_port: either("cluster-announce-tls-port", "tls-port"),
        bus_port: if bus_port == 0 { u32::from(base_port) + 10_000 } else { bus_port.into() },
        hostname: config.string("cluster-announce-hostname"),
        zone: config.string("zone"),
        shard: own_shard(server),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Who this node is, and what it is told to be. `new_cluster` is the cluster's id, should this node be its first.
pub fn identity(server: &Server, memory: &Memory, new_cluster: String) -> Identity {
    let member = server.cluster_me();
    let config = &server.config;
    Identity {
        node: member.node,
        life: member.life,
        kept: memory.cluster.clone().map(|cluster| (cluster, memory.revision)),
        new_cluster,
        place: place(server),
        promise: promise(config),
        min_in_sync: config.int("cluster-min-in-sync") as usize,
        replicas_wanted: config.int("cluster-replicas-wanted") as usize,
    }
}

/// What replies promise when this node leads.
pub fn promise(config: &Config) -> Promise {
    match &config.bytes("durability")[..] {
        b"quorum" => Promise::Quorum,
        _ => Promise::Nothing,
    }
}

fn place(server: &Server) -> Place {
    match &server.config.string("cluster-shard")[..] {
        "" => Place::In(own_shard(server)),
        "auto" => Place::Auto(own_shard(server)),
        id => Place::In(ShardId::new(id).expect("cluster-shard: the directive's rule")),
    }
}

/// The shard that this node has for itself.
fn own_shard(server: &Server) -> ShardId {
    ShardId::new(&server.cluster.identity.shard_id).expect("shard-id: 40 hex digits")
}

/// The address by which others reach this machine: one that is listened on, if it is not every one there is, else the one from
/// which etcd is reached.
fn own_ip(config: &Config, options: &Options) -> IpAddr {
    let bound = config.list("bind");
    let texts = bound.iter().filter_map(|word| std::str::from_utf8(word).ok());
    let addresses = texts.filter_map(|text| text.trim_start_matches('-').parse::<IpAddr>().ok());
    let named: Vec<IpAddr> = addresses.filter(|ip| !ip.is_unspecified()).collect();
    let reachable = named.iter().find(|ip| !ip.is_loopback()).or(named.first()).copied();
    let towards_etcd = || options.endpoints.iter().find_map(|endpoint| source_towards(endpoint));
    reachable.or_else(towards_etcd).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The address that packets to there come from. None is sent.
fn source_towards(endpoint: &str) -> Option<IpAddr> {
    let place = endpoint.split_once("://").map_or(endpoint, |(_, place)| place);
    let target = place.to_socket_addrs().ok()?.next()?;
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_etcd_tells_the_own_address() {
        assert_eq!(source_towards("http://127.0.0.1:2379"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(source_towards("http://:1"), None);
    }
}
