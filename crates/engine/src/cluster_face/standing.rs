//! Where this node stands in the cluster, and what it says to a request by that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::slot::{SLOT_COUNT, slot_of};
use cluster::ids::NodeId;
use cluster::topology::{NO_OWNER, Node, Topology};

use super::late::Left;
use super::picture::Endpoint;
use crate::config::Config;
use crate::slot_moves::SlotSet;

/// Why slots are withheld.
const UNDECIDED: &str = "The slot is moving, and etcd has not said whose it is";

/// What the configuration says of how a node answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub(super) endpoint: Endpoint,
    /// 0: there is none.
    tls_port: u16,
    /// Nodes speak TLS with each other.
    pub(super) of_nodes: bool,
    /// Late requests are forwarded.
    pub(super) is_damped: bool,
    /// So many clients are told of new owners a second.
    pub(super) redirects_per_s: u64,
    needs_full_coverage: bool,
    reads_when_down: bool,
    channels_when_down: bool,
}

impl Manner {
    pub(super) fn of(config: &Config) -> Manner {
        Manner {
            endpoint: match &config.bytes("cluster-preferred-endpoint-type")[..] {
                b"hostname" => Endpoint::Hostname,
                b"unknown-endpoint" => Endpoint::Unknown,
                _ => Endpoint::Ip,
            },
            tls_port: config.int("tls-port") as u16,
            of_nodes: config.bool("tls-cluster"),
            is_damped: &config.bytes("cluster-redirects")[..] == b"damped",
            redirects_per_s: config.int("cluster-redirect-rate") as u64,
            needs_full_coverage: config.bool("cluster-require-full-coverage"),
            reads_when_down: config.bool("cluster-allow-reads-when-down"),
            channels_when_down: config.bool("cluster-allow-pubsubshard-when-down"),
        }
    }

    /// Whether a client speaks TLS that connected to this port; None: over a unix socket, which tells nothing, so that it is
    /// answered like the other nodes, as Redis does.
    pub(super) fn over_tls(&self, port: Option<u16>) -> bool {
        port.map_or(self.of_nodes, |port| port != 0 && port == self.tls_port)
    }
}

/// Slots that this node gives away or takes key by key, as CLUSTER SETSLOT says; and to whom, or from whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Opened {
    pub(super) migrating: BTreeMap<u16, NodeId>,
    pub(super) importing: BTreeMap<u16, NodeId>,
}

impl fmt::Display for Opened {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let migrating = self.migrating.iter().map(|(slot, node)| (slot, "->-", node));
        let importing = self.importing.iter().map(|(slot, node)| (slot, "-<-", node));
        let mut all: Vec<_> = migrating.chain(importing).collect();
        all.sort_unstable();
        all.into_iter().try_for_each(|(slot, arrow, node)| write!(out, " [{slot}{arrow}{node}]"))
    }
}

/// A request that names keys or shard channels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// It is a write, or a transaction with one.
    pub(crate) writes: bool,
    /// What it names are shard channels.
    pub(crate) names_channels: bool,
    /// MIGRATE concerns the slots that this node has opened.
    pub(crate) is_migrate: bool,
    /// The connection has sent READONLY.
    pub(crate) readonly: bool,
    /// The connection has sent ASKING, or the command implies it.
    pub(crate) asking: bool,
    /// This node may not run commands as a primary now.
    pub(crate) is_cut_off: bool,
}

/// Why a request is not run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// Its keys are of several slots.
    CrossSlot,
    /// Nobody owns its slot.
    Unbound,
    /// The cluster is down.
    Down,
    /// It is down for writes.
    DownForWrites,
    /// Nothing is served, for this reason.
    Refused(String),
    /// Some of its keys are here, others not, while their slot is given away key by key.
    Unstable,
    /// This shard's primary runs it.
    Moved(u16, usize),
    /// This node, by its place in the topology, may have its keys.
    Ask(u16, usize),
}

/// Where this node stands.
#[derive(Clone)]
pub(super) struct Standing {
    topology: Option<Arc<Topology>>,
    /// This node's place in the topology.
    myself: Option<usize>,
    /// Why nothing is served.
    pub(super) refusal: Option<String>,
    /// The topology is what etcd has told.
    pub(super) is_known: bool,
    /// What this node has is what its shard's primary had at some instant.
    pub(super) has_data: bool,
    pub(super) opened: Opened,
    /// Slots that may have been given away.
    pub(super) withheld: Option<SlotSet>,
    pub(super) manner: Manner,
    /// The ends of redirections by node, without TLS and with it.
    pub(super) doors: Vec<Arc<[String; 2]>>,
    coverage: Coverage,
    /// Slots that have left since this node has known others.
    pub(super) left: Left,
}

impl Standing {
    /// A node that is alone.
    pub(super) fn alone(config: &Config) -> Standing {
        Standing {
            topology: None,
            myself: None,
            refusal: None,
            is_known: true,
            has_data: true,
            opened: Opened::default(),
            withheld: None,
            manner: Manner::of(config),
            doors: Vec::new(),
            coverage: Coverage { assigned: SLOT_COUNT.into(), ..Coverage::default() },
            left: Left::default(),
        }
    }

    /// Takes in a topology.
    pub(super) fn install(&mut self, topology: Arc<Topology>, myself: &str) {
        self.myself = NodeId::new(myself).and_then(|id| topology.place_of(&id));
        let before = self.topology.replace(topology.clone());
        self.coverage = self.cover(&topology);
        self.refusal = None;
        self.is_known = true;
        let (migrating, importing) =
            (std::mem::take(&mut self.opened.migrating), std::mem::take(&mut self.opened.importing));
        let known = |id: &NodeId| self.topology().is_some_and(|topology| topology.place_of(id).is_some());
        let is_left = |slot: &u16, id: &NodeId| self.leads(*slot) && known(id);
        let is_awaited = |slot: &u16, id: &NodeId| !self.leads(*slot) && known(id);
        self.opened = Opened {
            migrating: migrating.into_iter().filter(|(slot, id)| is_left(slot, id)).collect(),
            importing: importing.into_iter().filter(|(slot, id)| is_awaited(slot, id)).collect(),
        };
        self.make_doors(before.as_deref());
    }

    pub(super) fn follow(&mut self, config: &Config) {
        self.manner = Manner::of(config);
        self.make_doors(None);
    }

    /// `before`: the topology of the doors that there are, of which those stay as they are whose nodes have.
    fn make_doors(&mut self, before: Option<&Topology>) {
        let Some(topology) = &self.topology else { return };
        let endpoint = self.manner.endpoint;
        let old = std::mem::take(&mut self.doors);
        // Both are in the order of their names.
        let mut known = before.map_or(&[][..], |before| &before.nodes).iter().zip(&old).peekable();
        let door = |node: &Node| {
            while known.next_if(|(known, _)| known.id < node.id).is_some() {}
            match known.peek() {
                Some((known, door)) if known.id == node.id && Arc::ptr_eq(&known.record, &node.record) => {
                    Arc::clone(door)
                }
                _ => {
                    let record = &node.record;
                    let host = endpoint.of(&record.ip, &record.hostname).unwrap_or("");
                    Arc::new([record.port, record.tls_port].map(|port| format!("{host}:{port}")))
                }
            }
        };
        self.doors = topology.nodes.iter().map(door).collect();
    }

    /// The topology, if this node is not alone.
    pub(super) fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref()
    }

    /// What is told to who asks for a topology that etcd has not told yet.
    pub(super) fn why_unknown(&self) -> Option<Elsewhere> {
        self.refusal.clone().filter(|_| !self.is_known).map(Elsewhere::Refused)
    }

    /// This node's shard, by its place in the topology.
    pub(super) fn shard(&self) -> Option<usize> {
        self.topology.as_ref()?.nodes[self.myself?].shard
    }

    /// This node leads its shard.
    pub(super) fn is_primary(&self) -> bool {
        match &self.topology {
            None => true,
            Some(topology) => self.myself.is_some_and(|place| {
                let node = &topology.nodes[place];
                node.is_primary || node.shard.is_none()
            }),
        }
    }

    /// True if the slot is this node's shard's.
    pub(super) fn owns(&self, slot: u16) -> bool {
        match &self.topology {
            None => true,
            Some(_) => self.owner(slot).is_some_and(|owner| self.shard() == Some(owner)),
        }
    }

    /// The same for each slot, for those who ask for all.
    pub(super) fn owned(&self) -> impl Fn(u16) -> bool + '_ {
        let owners = self.topology.as_ref().map(|topology| (&topology.owners, self.shard()));
        move |slot| {
            owners.is_none_or(|(owners, own)| {
                own.is_some_and(|own| usize::from(owners[usize::from(slot)]) == own)
            })
        }
    }

    fn withholds(&self, slot: u16) -> bool {
        self.withheld.as_ref().is_some_and(|slots| slots.has(slot))
    }

    /// True if this node is the primary of the slot's shard.
    pub(super) fn leads(&self, slot: u16) -> bool {
        self.owns(slot) && self.is_primary()
    }

    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.topology.as_ref()?.owners[usize::from(slot)];
        (owner != NO_OWNER).then_some(usize::from(owner))
    }

    fn is_bound(&self, slot: u16) -> bool {
        self.topology.is_none() || self.owner(slot).is_some_and(|owner| self.leader_of(owner).is_some())
    }

    /// The primary of a shard, by its place in the topology, if it is known.
    pub(super) fn leader_of(&self, shard: usize) -> Option<usize> {
        let topology = self.topology.as_ref()?;
        topology.shards[shard].nodes.first().copied().filter(|place| topology.nodes[*place].is_primary)
    }

    /// False if the cluster is down: a slot is nobody's, or nobody of its shard is there, while all have to be covered. A
    /// shard that is about to have another primary takes nobody else with it.
    pub(super) fn is_up(&self) -> bool {
        !self.manner.needs_full_coverage || self.topology.is_none() || self.coverage().uncovered == 0
    }

    /// How the slots are covered.
    pub(super) fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn cover(&self, topology: &Topology) -> Coverage {
        let is_there = |place: usize| topology.nodes[place].is_live || Some(place) == self.myself;
        let mut coverage = Coverage::default();
        let mut slots_of = vec![0_usize; topology.shards.len()];
        for owner in &topology.owners {
            match slots_of.get_mut(usize::from(*owner)) {
                Some(slots) => *slots += 1,
                None => coverage.uncovered += 1,
            }
        }
        for (shard, slots) in slots_of.into_iter().enumerate() {
            let is_led = self.leader_of(shard).is_some_and(is_there);
            let has_any = topology.shards[shard].nodes.iter().copied().any(is_there);
            coverage.assigned += slots;
            coverage.unled += if is_led { 0 } else { slots };
            coverage.uncovered += if has_any { 0 } else { slots };
        }
        coverage
    }

    /// For each slot, whether requests on its keys are run here whoever sends them.
    pub(super) fn serves_all(&self) -> impl Fn(u16) -> bool + '_ {
        let is_up = self.refusal.is_none() && self.is_up() && self.is_primary();
        let owned = self.owned();
        move |slot| {
            is_up && owned(slot) && !self.opened.migrating.contains_key(&slot) && !self.withholds(slot)
        }
    }

    /// For each slot, whether connections that have sent READONLY may read its keys here.
    pub(super) fn serves_reads(&self) -> impl Fn(u16) -> bool + '_ {
        let is_up = self.refusal.is_none() && self.is_up() && !self.is_primary() && self.has_data;
        let owned = self.owned();
        move |slot| is_up && owned(slot)
    }

    /// Whether a request on `names` is run here, in the order in which Redis asks. `is_there` looks a key up; None: it cannot
    /// be known now, and will be asked again.
    pub(super) fn decide<'k>(
        &self,
        request: Request,
        names: impl Iterator<Item = &'k [u8]>,
        mut is_there: impl FnMut(&[u8]) -> Option<bool>,
    ) -> Result<(), Elsewhere> {
        let (mut first, mut several) = (None, false);
        let (mut here, mut missing) = (0, 0);
        let (mut giving, mut taking) = (None, false);
        for name in names {
            match first {
                None => {
                    let slot = slot_of(name);
                    if let Some(why) = &self.refusal {
                        return Err(Elsewhere::Refused(why.clone()));
                    }
                    if self.withholds(slot) && self.leads(slot) {
                        return Err(Elsewhere::Refused(UNDECIDED.to_owned()));
                    }
                    if !self.is_bound(slot) {
                        return Err(Elsewhere::Unbound);
                    }
                    first = Some((name, slot));
                    giving = self.opened.migrating.get(&slot).filter(|_| self.leads(slot));
                    taking = !self.leads(slot) && self.opened.importing.contains_key(&slot);
                }
                Some((known, _)) if known == name => {}
                Some((_, slot)) if slot_of(name) != slot => return Err(Elsewhere::CrossSlot),
                Some(_) => several = true,
            }
            if (giving.is_some() || taking) && !request.names_channels {
                match is_there(name) {
                    Some(true) => here += 1,
                    Some(false) => missing += 1,
                    None => {}
                }
            }
        }
        let Some((_, slot)) = first else { return Ok(()) };
        self.admit_when_down(request)?;
        if request.is_migrate && (giving.is_some() || taking) {
            return Ok(());
        }
        if let Some(to) = giving
            && missing > 0
        {
            let to = self.topology.as_ref().and_then(|topology| topology.place_of(to));
            return Err(match to {
                Some(to) if here == 0 => Elsewhere::Ask(slot, to),
                _ => Elsewhere::Unstable,
            });
        }
        if taking && request.asking {
            return match () {
                () if request.is_cut_off => Err(Elsewhere::Down),
                () if several && missing > 0 => Err(Elsewhere::Unstable),
                () => Ok(()),
            };
        }
        let reads = request.names_channels || (request.readonly && !request.writes && self.has_data);
        match (self.owns(slot), self.is_primary()) {
            (true, true) if request.is_cut_off => Err(Elsewhere::Down),
            (true, true) => Ok(()),
            (true, false) if reads => Ok(()),
            _ => Err(Elsewhere::Moved(slot, self.owner(slot).expect("bound-slot: it has an owner"))),
        }
    }

    fn admit_when_down(&self, request: Request) -> Result<(), Elsewhere> {
        match request {
            _ if self.is_up() => Ok(()),
            Request { names_channels: true, .. } if self.manner.channels_when_down => Ok(()),
            Request { names_channels: true, .. } => Err(Elsewhere::Down),
            _ if !self.manner.reads_when_down => Err(Elsewhere::Down),
            Request { writes: true, .. } => Err(Elsewhere::DownForWrites),
            _ => Ok(()),
        }
    }

    /// Where requests on a slot go that this node does not serve any more; None: it does.
    pub(super) fn redirection(&self, slot: u16) -> Option<Elsewhere> {
        match self.owner(slot) {
            _ if self.refusal.is_some() => self.refusal.clone().map(Elsewhere::Refused),
            _ if self.leads(slot) && self.withholds(slot) => Some(Elsewhere::Refused(UNDECIDED.to_owned())),
            _ if self.leads(slot) => None,
            Some(owner) if self.leader_of(owner).is_some() => Some(Elsewhere::Moved(slot, owner)),
            _ => Some(Elsewhere::Unbound),
        }
    }

    /// What a client is told who is sent elsewhere.
    pub(super) fn text(&self, elsewhere: Elsewhere, port: Option<u16>) -> String {
        let door = |place: usize| self.doors[place][usize::from(self.manner.over_tls(port))].as_str();
        match elsewhere {
            Elsewhere::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            Elsewhere::Unbound => "CLUSTERDOWN Hash slot not served".to_owned(),
            Elsewhere::Down => "CLUSTERDOWN The cluster is down".to_owned(),
            Elsewhere::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands".to_owned()
            }
            Elsewhere::Refused(why) => format!("CLUSTERDOWN {why}"),
            Elsewhere::Unstable => "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
            Elsewhere::Moved(slot, shard) => {
                let leader = self.leader_of(shard).expect("bound-slot: its shard has a primary");
                format!("MOVED {slot} {}", door(leader))
            }
            Elsewhere::Ask(slot, place) => format!("ASK {slot} {}", door(place)),
        }
    }
}

/// How the slots are covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// They have an owner.
    pub(super) assigned: usize,
    /// Their owner is not there.
    pub(super) unled: usize,
    /// Nobody of their owner's shard is there, or they have none.
    pub(super) uncovered: usize,
}
