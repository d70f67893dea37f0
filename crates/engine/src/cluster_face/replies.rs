//! The replies that tell of the cluster, encoded.

use resp::{Encoder, Proto};

use super::picture::{Endpoint, Node, Picture};
use crate::compat::Shape;

/// The encoded replies about a cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Replies {
    slots: [[Ranges; 2]; 2],
    shards: [Vec<u8>; 2],
    nodes: [Vec<u8>; 2],
    picture: Picture,
}

/// CLUSTER SLOTS: its head, and where its elements begin, so that it can be sent from any of them on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ranges {
    bytes: Vec<u8>,
    begin: Vec<u32>,
}

impl Replies {
    /// Encodes the replies.
    pub fn encode(picture: Picture) -> Replies {
        let slots = |shape| [Proto::V2, Proto::V3].map(|proto| slots(&picture, shape, proto));
        Replies {
            slots: [slots(Shape::Modern), slots(Shape::Legacy)],
            shards: in_both(|out| shards(out, &picture)),
            nodes: in_both(|out| {
                let lines: String = picture.nodes.iter().map(|node| line(&picture, node) + "\n").collect();
                out.verbatim("txt", lines.as_bytes());
            }),
            picture,
        }
    }

    /// CLUSTER SLOTS in three parts to be sent one after the other. `turn` says which range comes first: clients that walk
    /// the nodes in the order of this reply do not walk together if each has another.
    pub fn slots(&self, shape: Shape, proto: Proto, turn: u64) -> [&[u8]; 3] {
        let Ranges { bytes, begin } = &self.slots[usize::from(shape == Shape::Legacy)][version(proto)];
        let Some(first) = begin.first() else { return [bytes, &[], &[]] };
        let from = begin[(turn % begin.len() as u64) as usize] as usize;
        [&bytes[..*first as usize], &bytes[from..], &bytes[*first as usize..from]]
    }

    /// CLUSTER SHARDS.
    pub fn shards(&self, proto: Proto) -> &[u8] {
        &self.shards[version(proto)]
    }

    /// CLUSTER NODES.
    pub fn nodes(&self, proto: Proto) -> &[u8] {
        &self.nodes[version(proto)]
    }

    /// What they tell of.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }
}

fn version(proto: Proto) -> usize {
    usize::from(proto == Proto::V3)
}

fn in_both(encode: impl Fn(&mut Encoder<'_>)) -> [Vec<u8>; 2] {
    [Proto::V2, Proto::V3].map(|proto| {
        let mut bytes = Vec::new();
        encode(&mut Encoder::new(&mut bytes, proto));
        bytes
    })
}

fn text(out: &mut Encoder<'_>, text: &str) {
    out.bulk(text.as_bytes());
}

/// `[[first, last, primary, replica, ...], ...]`; replicas that are not there are left out.
fn slots(picture: &Picture, shape: Shape, proto: Proto) -> Ranges {
    let mut ranges = Ranges::default();
    let led = || picture.ranges.iter().filter_map(|range| Some((range, picture.primary_of(range.2)?)));
    Encoder::new(&mut ranges.bytes, proto).array(led().count());
    for ((first, last, shard), primary) in led() {
        ranges.begin.push(ranges.bytes.len() as u32);
        let mut out = Encoder::new(&mut ranges.bytes, proto);
        let replicas = picture.replicas_of(*shard).filter(|node| node.is_live);
        let nodes: Vec<&Node> = std::iter::once(primary).chain(replicas).collect();
        out.array(2 + nodes.len());
        out.int((*first).into());
        out.int((*last).into());
        nodes.into_iter().for_each(|node| slots_node(&mut out, picture, node, shape));
    }
    ranges
}

/// `[host, port, id, {other endpoints}]`; old shape: without the last element.
fn slots_node(out: &mut Encoder<'_>, picture: &Picture, node: &Node, shape: Shape) {
    let preferred = picture.endpoint;
    out.array(if shape == Shape::Modern { 4 } else { 3 });
    match shape {
        Shape::Modern => out.bulk_or_null(node.endpoint(preferred).map(str::as_bytes)),
        Shape::Legacy => text(out, node.legacy_endpoint(preferred)),
    }
    out.int(node.client_port(picture.over_tls).into());
    text(out, &node.id);
    if shape == Shape::Legacy {
        return;
    }
    let ip = (preferred != Endpoint::Ip).then_some(("ip", &node.ip));
    let named = preferred != Endpoint::Hostname && !node.hostname.is_empty();
    let others: Vec<_> = ip.into_iter().chain(named.then_some(("hostname", &node.hostname))).collect();
    out.map(others.len());
    for (name, value) in others {
        text(out, name);
        text(out, value);
    }
}

/// `[{slots: [first, last, ...], nodes: [{id, port, ...}, ...]}, ...]`
fn shards(out: &mut Encoder<'_>, picture: &Picture) {
    let alone = || picture.nodes.iter().filter(|node| node.shard.is_none());
    let peopled = || picture.shards.iter().filter(|shard| !shard.nodes.is_empty());
    out.array(peopled().count() + alone().count());
    for shard in peopled() {
        out.map(2);
        text(out, "slots");
        let ranges = shard.slots.ranges();
        out.array(2 * ranges.len());
        for range in ranges {
            out.int((*range.start()).into());
            out.int((*range.end()).into());
        }
        text(out, "nodes");
        out.array(shard.nodes.len());
        shard.nodes.iter().for_each(|place| shards_node(out, picture, &picture.nodes[*place]));
    }
    for node in alone() {
        out.map(2);
        text(out, "slots");
        out.array(0);
        text(out, "nodes");
        out.array(1);
        shards_node(out, picture, node);
    }
}

fn shards_node(out: &mut Encoder<'_>, picture: &Picture, node: &Node) {
    let ports = [("port", node.port), ("tls-port", node.tls_port)];
    let ports = ports.into_iter().filter(|(_, port)| *port != 0);
    out.map(6 + ports.clone().count() + usize::from(!node.hostname.is_empty()));
    text(out, "id");
    text(out, &node.id);
    for (name, port) in ports {
        text(out, name);
        out.int(port.into());
    }
    text(out, "ip");
    text(out, &node.ip);
    text(out, "endpoint");
    text(out, node.endpoint(picture.endpoint).unwrap_or(""));
    if !node.hostname.is_empty() {
        text(out, "hostname");
        text(out, &node.hostname);
    }
    text(out, "role");
    text(out, if node.is_primary { "master" } else { "replica" });
    text(out, "replication-offset");
    out.int(0);
    text(out, "health");
    text(out, if node.is_live || node.is_myself { "online" } else { "fail" });
}

/// `id ip:port@cport[,hostname] flags primary ping-sent pong-received epoch link-state slots`: what CLUSTER NODES and CLUSTER
/// REPLICAS have of a node. Nodes exchange no pings.
pub fn line(picture: &Picture, node: &Node) -> String {
    let Node { id, ip, bus_port, hostname, .. } = node;
    let (port, comma) = (node.client_port(picture.over_tls), if hostname.is_empty() { "" } else { "," });
    let is_there = node.is_live || node.is_myself;
    let flags = [
        if node.is_myself { "myself," } else { "" },
        if node.is_primary { "master" } else { "slave" },
        if is_there { "" } else { ",fail" },
    ];
    let shard = node.shard.and_then(|shard| picture.shards.get(shard));
    let leader = node.shard.filter(|_| !node.is_primary).and_then(|shard| picture.primary_of(shard));
    let leader = leader.map_or("-", |leader| leader.id.as_str());
    let epoch = shard.map_or(0, |shard| shard.epoch);
    let state = if is_there { "connected" } else { "disconnected" };
    let mut line = format!(
        "{id} {ip}:{port}@{bus_port}{comma}{hostname} {} {leader} 0 0 {epoch} {state}",
        flags.concat()
    );
    let owned = shard.filter(|_| node.is_primary).map(|shard| shard.slots.to_string()).unwrap_or_default();
    for range in owned.split(',').filter(|range| !range.is_empty()) {
        line.push(' ');
        line.push_str(range);
    }
    if node.is_myself {
        line.push_str(&picture.opened);
    }
    line
}
