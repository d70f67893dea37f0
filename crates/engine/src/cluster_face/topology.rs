//! One node's place in the cluster, and the replies that tell of it.

use base::slot::SLOT_COUNT;
use resp::{Encoder, Proto};

use crate::compat::Shape;

/// `cluster-preferred-endpoint-type`: what clients are to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The address.
    Ip,
    /// The name.
    Hostname,
    /// Whatever they are connected to.
    Unknown,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// 40 hex digits.
    pub id: String,
    /// Its address, never empty.
    pub ip: String,
    /// Its plain port; 0: none.
    pub port: u16,
    /// Its TLS port; 0: none.
    pub tls_port: u16,
    /// The client that is told of it speaks TLS.
    pub over_tls: bool,
    /// Where other nodes would reach it.
    pub bus_port: u32,
    /// Its name; empty: none.
    pub hostname: String,
    /// What clients are to connect to.
    pub endpoint: Endpoint,
}

impl Node {
    /// The port for the client that is told.
    fn client_port(&self) -> u16 {
        if self.over_tls { self.tls_port } else { self.port }
    }

    /// What clients are to connect to: Redis has `?` for a name that is not set, nothing for unknown.
    fn endpoint_text(&self) -> Option<&str> {
        match self.endpoint {
            Endpoint::Ip => Some(&self.ip),
            Endpoint::Hostname if self.hostname.is_empty() => Some("?"),
            Endpoint::Hostname => Some(&self.hostname),
            Endpoint::Unknown => None,
        }
    }

    /// What old clients are to connect to: always a host.
    fn legacy_endpoint(&self) -> &str {
        match self.endpoint {
            Endpoint::Hostname if !self.hostname.is_empty() => &self.hostname,
            _ => &self.ip,
        }
    }
}

/// The encoded replies about a topology.
#[derive(Debug, PartialEq, Eq)]
pub struct Replies {
    slots: [[Vec<u8>; 2]; 2],
    shards: [Vec<u8>; 2],
    nodes: [Vec<u8>; 2],
}

impl Replies {
    /// Encodes the replies about a cluster of this node, which owns every slot.
    pub fn encode(node: &Node) -> Replies {
        let slots = |shape| in_both(|out| slots(out, node, shape));
        Replies {
            slots: [slots(Shape::Modern), slots(Shape::Legacy)],
            shards: in_both(|out| shards(out, node)),
            nodes: in_both(|out| out.verbatim("txt", nodes(node).as_bytes())),
        }
    }

    /// CLUSTER SLOTS.
    pub fn slots(&self, shape: Shape, proto: Proto) -> &[u8] {
        &self.slots[usize::from(shape == Shape::Legacy)][version(proto)]
    }

    /// CLUSTER SHARDS.
    pub fn shards(&self, proto: Proto) -> &[u8] {
        &self.shards[version(proto)]
    }

    /// CLUSTER NODES.
    pub fn nodes(&self, proto: Proto) -> &[u8] {
        &self.nodes[version(proto)]
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

/// `[[0, 16383, [host, port, id, {other endpoints}]]]`; old shape: without the last element.
fn slots(out: &mut Encoder<'_>, node: &Node, shape: Shape) {
    out.array(1);
    out.array(3);
    out.int(0);
    out.int(i64::from(SLOT_COUNT) - 1);
    out.array(if shape == Shape::Modern { 4 } else { 3 });
    match shape {
        Shape::Modern => out.bulk_or_null(node.endpoint_text().map(str::as_bytes)),
        Shape::Legacy => text(out, node.legacy_endpoint()),
    }
    out.int(node.client_port().into());
    text(out, &node.id);
    if shape == Shape::Legacy {
        return;
    }
    let ip = (node.endpoint != Endpoint::Ip).then_some(("ip", &node.ip));
    let named = node.endpoint != Endpoint::Hostname && !node.hostname.is_empty();
    let others: Vec<_> = ip.into_iter().chain(named.then_some(("hostname", &node.hostname))).collect();
    out.map(others.len());
    for (name, value) in others {
        text(out, name);
        text(out, value);
    }
}

/// `[{slots: [0, 16383], nodes: [{id, port, tls-port, ip, endpoint, hostname, role, ...}]}]`
fn shards(out: &mut Encoder<'_>, node: &Node) {
    out.array(1);
    out.map(2);
    text(out, "slots");
    out.array(2);
    out.int(0);
    out.int(i64::from(SLOT_COUNT) - 1);
    text(out, "nodes");
    out.array(1);
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
    text(out, node.endpoint_text().unwrap_or(""));
    if !node.hostname.is_empty() {
        text(out, "hostname");
        text(out, &node.hostname);
    }
    text(out, "role");
    text(out, "master");
    text(out, "replication-offset");
    out.int(0);
    text(out, "health");
    text(out, "online");
}

/// `id ip:port@cport[,hostname] flags master ping-sent pong-recv epoch link-state slots`
fn nodes(node: &Node) -> String {
    let comma = if node.hostname.is_empty() { "" } else { "," };
    format!(
        "{} {}:{}@{}{comma}{} myself,master - 0 0 0 connected 0-{}\n",
        node.id,
        node.ip,
        node.client_port(),
        node.bus_port,
        node.hostname,
        SLOT_COUNT - 1
    )
}
