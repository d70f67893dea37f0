//! The cluster as clients see it: one node that owns every slot, or the nodes of a topology.
//!
//! Replies are encoded once for each way of asking, and again when the topology or the configuration changes; answering is
//! a copy. A node that is alone tells a client the address that it connected to: it may know no other, and old clients cannot
//! read an absent or empty host.

mod identity;
mod late;
mod leaving;
mod picture;
mod redirects;
mod replies;
pub(crate) mod routing;
mod sample;
mod standing;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use cluster::ids::NodeId;
use cluster::topology::{NO_OWNER, Topology};
use parking_lot::RwLock;

use self::leaving::Looks;
use self::routing::SlotBits;
use self::standing::{Manner, Standing};
use crate::clients::Peer;
use crate::commands::sentinel::Told;
use crate::compat::Compat;
use crate::config::Config;
use crate::fault::CmdResult;
use crate::replication::group::Serves;
use crate::server::Process;
use crate::slot_moves::SlotSet;

pub use identity::Identity;
pub use picture::{Endpoint, Node, Picture, Shard};
pub use redirects::{Redirected, Redirects};
pub use replies::{Replies, line};
pub use sample::topology_of;

/// Ways of asking for which replies are kept: addresses of this node, of which a machine has few.
const WAYS_MAX: usize = 16;

/// What the CLUSTER commands answer from, and requests are routed by.
pub struct ClusterFace {
    /// `cluster-enabled`.
    pub enabled: bool,
    /// Who this node is.
    pub identity: Identity,
    served: SlotBits,
    readable: SlotBits,
    /// Until when commands on keys may be run here.
    pub serves: Serves,
    standing: RwLock<Arc<Standing>>,
    /// Counts the changes of `standing`.
    changes: AtomicU64,
    looks: Looks,
    pub(crate) told: Told,
    /// Late requests.
    pub redirects: Redirects,
    encoded: RwLock<Encoded>,
}

/// What replies depend on, besides the topology and the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The node is alone, and was asked at this address; None: over a unix socket.
    Alone(Option<SocketAddr>),
    /// The client speaks TLS.
    Tls(bool),
}

/// Replies by way of asking, as of one version of the configuration and one of the topology.
struct Encoded {
    as_of: (u64, u64),
    compat: Compat,
    by_way: Vec<(Way, Arc<Replies>)>,
}

impl ClusterFace {
    /// The face of this node.
    pub fn new(config: &Config, process: &Process) -> ClusterFace {
        let identity = process.cluster_identity.clone();
        ClusterFace {
            enabled: config.bool("cluster-enabled"),
            identity: identity.unwrap_or_else(|| Identity::of_node(process.run_id.clone())),
            served: SlotBits::all(true),
            readable: SlotBits::all(false),
            serves: Serves::default(),
            standing: RwLock::new(Arc::new(Standing::alone(config))),
            changes: AtomicU64::new(0),
            looks: Looks::default(),
            told: Told::default(),
            redirects: Redirects::default(),
            encoded: RwLock::new(Encoded {
                as_of: (config.version(), 0),
                compat: Compat::of(config),
                by_way: Vec::new(),
            }),
        }
    }

    /// Routes and answers by this topology from now on.
    pub fn install(&self, topology: Arc<Topology>) {
        self.change(|standing| {
            let (before, revision) = (standing.clone(), topology.revision);
            standing.install(topology, &self.identity.node_id);
            let mut left = std::mem::take(&mut standing.left);
            left.follow(&before, standing, revision);
            standing.left = left;
        });
    }

    /// What is known before etcd is heard: this node, without slots. That is no answer to who asks for the cluster: they are told
    /// why it is not known, as those are who name keys, and ask another node.
    pub fn await_etcd(&self, myself: Arc<Topology>, why: String) {
        self.change(|standing| {
            standing.install(myself, &self.identity.node_id);
            (standing.is_known, standing.has_data, standing.refusal) = (false, false, Some(why));
        });
    }

    /// Whether this node has the data of its shard: a replica that does not answers no reads.
    pub(crate) fn note_data(&self, has_data: bool) {
        if self.enabled && self.standing().has_data != has_data {
            self.change(|standing| standing.has_data = has_data);
        }
    }

    /// Requests that name keys are answered `-CLUSTERDOWN` and this, until the next topology is installed.
    pub fn refuse(&self, why: String) {
        self.change(|standing| standing.refusal = Some(why));
    }

    /// Commands on the keys of which this node is the primary may run until this instant of the server's monotonic clock. What
    /// a replica may serve, others decide.
    pub fn serve_until(&self, mono_us: u64) {
        self.serves.set(mono_us);
    }

    /// Requests on these slots are refused until it is said otherwise: nobody knows whose they are.
    pub fn withhold(&self, slots: Option<SlotSet>) {
        self.change(|standing| standing.withheld = slots);
    }

    /// CLUSTER SETSLOT slot MIGRATING node, or IMPORTING.
    pub fn open_slot(&self, slot: u16, is_migrating: bool, node: NodeId) {
        self.change(|standing| {
            let opened = &mut standing.opened;
            let slots = if is_migrating { &mut opened.migrating } else { &mut opened.importing };
            slots.insert(slot, node);
        });
    }

    /// CLUSTER SETSLOT slot STABLE.
    pub fn close_slot(&self, slot: u16) {
        self.change(|standing| {
            standing.opened.migrating.remove(&slot);
            standing.opened.importing.remove(&slot);
        });
    }

    /// Takes over what the configuration says now.
    pub(crate) fn follow(&self, config: &Config) {
        if self.enabled {
            self.change(|standing| standing.follow(config));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = self.standing.write();
        let mut changed = Standing::clone(&standing);
        change(&mut changed);
        // What is not served any more is not from here on; what is newly served finds its reasons already there.
        *standing = Arc::new(changed);
        self.served.set(standing.serves_all());
        self.readable.set(standing.serves_reads());
        self.changes.fetch_add(1, SeqCst);
    }

    /// The cluster as it is told to those who do not speak TLS.
    pub(crate) fn picture(&self, config: &Config) -> Picture {
        let (standing, endpoint) = (self.standing(), Manner::of(config).endpoint);
        match standing.topology() {
            Some(topology) => Picture::of(topology, &self.identity.node_id, endpoint, false),
            None => Picture::alone(self.myself(config, None, false), endpoint, false),
        }
    }

    fn standing(&self) -> Arc<Standing> {
        self.standing.read().clone()
    }

    /// The topology, if this node is not alone.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.standing().topology().cloned()
    }

    /// An error for a client that asks for the cluster, as long as etcd has not told of it.
    pub(crate) fn check_known(&self, peer: &Peer) -> CmdResult {
        self.standing().why_unknown().map_or(Ok(()), |why| Err(self.fault(why, peer)))
    }

    /// The replies for a client, and `client-compat`. The error says why the cluster is not known.
    pub fn replies(&self, config: &Config, peer: &Peer) -> CmdResult<(Arc<Replies>, Compat)> {
        let address = match peer {
            Peer::Tcp { local, .. } => Some(SocketAddr::from(*local)),
            Peer::Unix(_) => None,
        };
        let as_of = (config.version(), self.changes.load(SeqCst));
        self.check_known(peer)?;
        let standing = self.standing();
        let way = match standing.topology() {
            None => Way::Alone(address),
            Some(_) => Way::Tls(standing.manner.over_tls(address.map(|address| address.port()))),
        };
        let encoded = self.encoded.read();
        if encoded.as_of == as_of
            && let Some((_, replies)) = encoded.by_way.iter().find(|(known, _)| *known == way)
        {
            return Ok((replies.clone(), encoded.compat));
        }
        drop(encoded);
        Ok(self.encode(config, as_of, &standing, way))
    }

    #[cold]
    fn encode(
        &self,
        config: &Config,
        as_of: (u64, u64),
        standing: &Standing,
        way: Way,
    ) -> (Arc<Replies>, Compat) {
        let endpoint = Manner::of(config).endpoint;
        let picture = match (way, standing.topology()) {
            (Way::Tls(over_tls), Some(topology)) => {
                let mut picture = Picture::of(topology, &self.identity.node_id, endpoint, over_tls);
                picture.opened = standing.opened.to_string();
                picture
            }
            (Way::Tls(_), None) => unreachable!("way: it was chosen by the topology"),
            (Way::Alone(address), _) => {
                // A unix socket tells nothing; as Redis, it is answered like the other nodes.
                let port = address.map(|address| address.port());
                let over_tls = Manner::of(config).over_tls(port);
                Picture::alone(self.myself(config, address, over_tls), endpoint, over_tls)
            }
        };
        let replies = Arc::new(Replies::encode(picture));
        let mut encoded = self.encoded.write();
        if encoded.as_of != as_of {
            *encoded = Encoded { as_of, compat: Compat::of(config), by_way: Vec::new() };
        }
        encoded.by_way.truncate(WAYS_MAX - 1);
        encoded.by_way.insert(0, (way, replies.clone()));
        (replies, encoded.compat)
    }

    /// This node, as a client that connected to `address` is to reach it; `None`: over a unix socket.
    fn myself(&self, config: &Config, address: Option<SocketAddr>, over_tls: bool) -> Node {
        let port_of = |name: &str| config.int(name) as u16;
        let first_set = |ports: &[u16]| ports.iter().copied().find(|port| *port != 0).unwrap_or(0);
        let announced_ip = config.string("cluster-announce-ip");
        let ip = match address {
            _ if !announced_ip.is_empty() => announced_ip,
            Some(address) => address.ip().to_string(),
            None => bound_ip(config).to_string(),
        };
        let of_nodes = config.bool("tls-cluster");
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
            bus_port: if bus_port == 0 { u32::from(base_port) + 10_000 } else { bus_port.into() },
            hostname: config.string("cluster-announce-hostname"),
            ..Node::default()
        }
    }

    /// The text of CLUSTER INFO; `now_us` is the command's instant.
    pub fn info(&self, now_us: u64) -> String {
        let (standing, coverage) = (self.standing(), self.standing().coverage());
        let is_down = standing.refusal.is_some()
            || !standing.is_up()
            || (standing.is_primary() && !self.may_serve(now_us));
        let (nodes, shards, epoch, own_epoch) = match standing.topology() {
            None => (1, 1, 0, 0),
            Some(topology) => {
                let mut owning: Vec<u16> = topology.owners.to_vec();
                owning.sort_unstable();
                owning.dedup();
                owning.retain(|owner| *owner != NO_OWNER);
                let own = standing.shard().map(|at| (at, &topology.shards[at]));
                // What redis-cli takes for a node that is in no cluster yet, and so can be had.
                let is_spare =
                    own.is_some_and(|(at, own)| own.nodes.len() == 1 && !owning.contains(&(at as u16)));
                let nodes = if is_spare { 1 } else { topology.nodes.len() };
                (nodes, owning.len(), topology.epoch, own.map_or(0, |(_, own)| own.epoch))
            }
        };
        let fields = [
            ("cluster_state", if is_down { "fail" } else { "ok" }.to_owned()),
            ("cluster_slots_assigned", coverage.assigned.to_string()),
            ("cluster_slots_ok", (coverage.assigned - coverage.unled).to_string()),
            ("cluster_slots_pfail", "0".to_owned()),
            ("cluster_slots_fail", coverage.unled.to_string()),
            ("cluster_known_nodes", nodes.to_string()),
            ("cluster_size", shards.to_string()),
            ("cluster_current_epoch", epoch.to_string()),
            ("cluster_my_epoch", own_epoch.to_string()),
            ("cluster_stats_messages_sent", "0".to_owned()),
            ("cluster_stats_messages_received", "0".to_owned()),
            ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
        ];
        fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
    }

    /// The id of this node's shard.
    pub fn shard_id(&self) -> String {
        let standing = self.standing();
        let shard = standing.topology().zip(standing.shard());
        shard.map_or_else(
            || self.identity.shard_id.clone(),
            |(topology, shard)| topology.shards[shard].id.to_string(),
        )
    }

    /// True if the slot's keys come to this node one by one: CLUSTER SETSLOT slot IMPORTING.
    pub fn imports(&self, slot: u16) -> bool {
        self.standing().opened.importing.contains_key(&slot)
    }

    /// True if slots are given away key by key, and if some are taken so.
    pub(crate) fn opened_by_hand(&self) -> (bool, bool) {
        let standing = self.standing();
        (!standing.opened.migrating.is_empty(), !standing.opened.importing.is_empty())
    }

    /// The shard that owns a slot, by its place in the topology; a node that is alone owns all.
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        let standing = self.standing();
        match standing.topology() {
            None => Some(0),
            Some(_) => standing.owner(slot),
        }
    }

    /// True if the slot is this node's shard's.
    pub fn owns(&self, slot: u16) -> bool {
        self.standing().owns(slot)
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
