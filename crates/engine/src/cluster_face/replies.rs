//! The replies that tell of the cluster, encoded.

use resp::{Encoder, Proto};

use super::picture::{Endpoint, Node, Picture};
use crate::compat::Shape;

/// The encoded replies about a cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Replies {
    slots: [[Ranges; 2]; 2],
    shards: [Shards; 2],
    nodes: [Vec<u8>; 2],
    picture: Picture,
}

/// CLUSTER SLOTS: its head, and where its elements begin, so that it can be sent from any of them on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ranges {
    bytes: Vec<u8>,
    begin: Vec<u32>,
}

/// CLUSTER SHARDS but for how far the nodes of this node's shard are, which changes all the time: where that belongs, and of whom.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shards {
    bytes: Vec<u8>,
    offsets: Vec<(usize, String)>,
}

impl Replies {
    /// Encodes the replies.
    pub fn encode(picture: Picture) -> Replies {
        let slots = |shape| [Proto::V2, Proto::V3].map(|proto| slots(&picture, shape, proto));
        Replies {
            slots: [slots(Shape::Modern), slots(Shape::Legacy)],
            shards: [Proto::V2, Proto::V3].map(|proto| shards(&picture, proto)),
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

    /// CLUSTER SHARDS; `offset_of` tells how far a node of this node's shard is, by its name.
    pub fn shards(&self, proto: Proto, out: &mut Encoder<'_>, offset_of: impl Fn(&str) -> u64) {
        let Shards { bytes, offsets } = &self.shards[version(proto)];
        let mut from = 0;
        for (at, id) in offsets {
            out.raw(&bytes[from..*at]);
            out.int(offset_of(id) as i64);
            from = *at;
        }
        out.raw(&bytes[from..]);
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
fn shards(picture: &Picture, proto: Proto) -> Shards {
    let own = picture.nodes.iter().find(|node| node.is_myself).and_then(|node| node.shard);
    let alone = || picture.nodes.iter().filter(|node| node.shard.is_none());
    let peopled = || picture.shards.iter().enumerate().filter(|(_, shard)| !shard.nodes.is_empty());
    let mut shards = Shards::default();
    Encoder::new(&mut shards.bytes, proto).array(peopled().count() + alone().count());
    for (place, shard) in peopled() {
        let mut out = Encoder::new(&mut shards.bytes, proto);
        out.map(2);
        text(&mut out, "slots");
        let ranges = shard.slots.ranges();
        out.array(2 * ranges.len());
        for range in ranges {
            out.int((*range.start()).into());
            out.int((*range.end()).into());
        }
        text(&mut out, "nodes");
        out.array(shard.nodes.len());
        let nodes = shard.nodes.iter().map(|place| &picture.nodes[*place]);
        nodes.for_each(|node| shards.put(picture, node, proto, own == Some(place)));
    }
    for node in alone() {
        let mut out = Encoder::new(&mut shards.bytes, proto);
        out.map(2);
        text(&mut out, "slots");
        out.array(0);
        text(&mut out, "nodes");
        out.array(1);
        shards.put(picture, node, proto, node.is_myself);
    }
    shards
}

impl Shards {
    /// Adds a node. Nodes exchange no offsets: those of other shards are not known.
    fn put(&mut self, picture: &Picture, node: &Node, proto: Proto, is_offset_known: bool) {
        let mut out = Encoder::new(&mut self.bytes, proto);
        let ports = [("port", node.port), ("tls-port", node.tls_port)];
        let ports = ports.into_iter().filter(|(_, port)| *port != 0);
        out.map(6 + ports.clone().count() + usize::from(!node.hostname.is_empty()));
        text(&mut out, "id");
        text(&mut out, &node.id);
        for (name, port) in ports {
            text(&mut out, name);
            out.int(port.into());
        }
        text(&mut out, "ip");
        text(&mut out, &node.ip);
        text(&mut out, "endpoint");
        text(&mut out, node.endpoint(picture.endpoint).unwrap_or(""));
        if !node.hostname.is_empty() {
            text(&mut out, "hostname");
            text(&mut out, &node.hostname);
        }
        text(&mut out, "role");
        text(&mut out, if node.is_primary { "master" } else { "replica" });
        text(&mut out, "replication-offset");
        if is_offset_known {
            self.offsets.push((self.bytes.len(), node.id.clone()));
        } else {
            out.int(0);
        }
        let mut out = Encoder::new(&mut self.bytes, proto);
        text(&mut out, "health");
        text(&mut out, if node.is_live || node.is_myself { "online" } else { "fail" });
    }
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
