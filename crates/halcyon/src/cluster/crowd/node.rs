//! One node of many: the loop and the agent of a server's node, and the face by which a server routes; no server behind
//! them. Or a listener, which has the same way to etcd and does nothing with what it hears.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cluster::agent::{Action, Agent, Event, HoldId, Identity, Place, RENEW_US};
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::records::{Key, LiveRecord, NodeRecord, Promise, Record, ShardRecord};
use cluster::topology::{Records, Topology};
use engine::cluster_face::{self, ClusterFace};
use engine::config::Config;
use engine::server::Process;

use super::sightings::Sightings;
use super::{ATTEMPT_PAUSE, ATTEMPTS_MAX, LOOK_INTERVAL};
use crate::cluster::etcd::{Etcd, Failure};
use crate::cluster::options::Options;
use crate::cluster::part::Part;
use crate::cluster::plane::Mind;

/// Listeners begin to listen one after the other, in so many steps.
const WATCH_STEP: Duration = Duration::from_millis(50);
const WATCH_STEPS: usize = 100;

/// Primaries of each zone.
const NODES_OF_ZONE: usize = 100;

/// Who a node is.
#[derive(Clone)]
pub struct Person {
    pub number: usize,
    pub member: Member,
    pub facts: NodeRecord,
}

impl Person {
    /// The node of this number, with ids that this draws.
    pub fn draw(number: usize, random: &mut fastrand::Rng) -> Person {
        let mut digits = || -> String { (0..40).map(|_| random.digit(16)).collect() };
        let (node, shard) = (NodeId::new(&digits()), ShardId::new(&digits()));
        let (node, shard) = node.zip(shard).expect("person: 40 hex digits each");
        let [_, high, middle, low] = (number as u32).to_be_bytes();
        let facts = NodeRecord {
            ip: format!("10.{high}.{middle}.{low}"),
            port: 6379,
            tls_port: 0,
            bus_port: 16_379,
            hostname: format!("node-{number}.example"),
            zone: format!("zone-{}", number / NODES_OF_ZONE),
            shard,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Person { number, member: Member { node, life: Life(random.u64(..)) }, facts }
    }

    fn identity(&self) -> Identity {
        Identity {
            node: self.member.node.clone(),
            life: self.member.life,
            kept: None,
            new_cluster: self.member.node.to_string(),
            place: Place::In(self.facts.shard.clone()),
            promise: Promise::Nothing,
            min_in_sync: 1,
            replicas_wanted: 0,
        }
    }

    /// The records of a node that leads a shard of its own.
    fn records(&self) -> Vec<(Key, Option<Record>)> {
        let shard = ShardRecord {
            epoch: self.number as u64 + 1,
            primary: self.member.clone(),
            in_sync: vec![self.member.clone()],
            promise: Promise::Nothing,
            began_at: 0,
        };
        let id = &self.member.node;
        let live = LiveRecord { life: self.member.life };
        vec![
            (Key::Node(id.clone()), Some(Record::Node(self.facts.clone()))),
            (Key::Live(id.clone()), Some(Record::Live(live))),
            (Key::Shard(self.facts.shard.clone()), Some(Record::Shard(shard))),
        ]
    }
}

/// The agent and the face of a node, as its loop sees them.
pub fn minded(person: &Person, config: &Config, sightings: &Arc<Sightings>) -> (Witness, Faced) {
    let decided_us = Arc::new(AtomicU64::new(0));
    let witness = Witness {
        agent: Agent::new(person.identity(), person.facts.clone()),
        number: person.number,
        sightings: sightings.clone(),
        taken_in_us: 0,
        decided_us: decided_us.clone(),
    };
    let (node_id, shard_id) = (person.member.node.to_string(), person.facts.shard.to_string());
    let process = Process {
        run_id: node_id.clone(),
        executable: String::new(),
        multiplexing_api: "",
        os: String::new(),
        pid: 0,
        workers: 1,
        system_memory_bytes: 0,
        cluster_identity: Some(cluster_face::Identity { node_id, shard_id }),
        is_fork_forbidden: false,
    };
    let faced = Faced {
        face: ClusterFace::new(config, &process),
        person: person.clone(),
        sightings: sightings.clone(),
        decided_us,
    };
    (witness, faced)
}

/// An agent, and when it was told what.
pub struct Witness {
    agent: Agent,
    number: usize,
    sightings: Arc<Sightings>,
    /// Since it last decided.
    taken_in_us: u64,
    /// What the last decision took, if it was about changes: for whom puts it in place.
    decided_us: Arc<AtomicU64>,
}

impl Mind for Witness {
    fn handle(&mut self, now_us: u64, event: Event, actions: &mut Vec<Action>) {
        let is_change = match &event {
            Event::Changed { revision, .. } => {
                self.sightings.arrived(self.number, *revision);
                true
            }
            Event::Records(records) => {
                self.sightings.arrived(self.number, records.revision);
                true
            }
            Event::LeaseGone => {
                self.sightings.lease_lost();
                false
            }
            _ => self.taken_in_us > 0,
        };
        let begun = Instant::now();
        self.agent.handle(now_us, event, actions);
        let took_us = begun.elapsed().as_micros() as u64 + std::mem::take(&mut self.taken_in_us);
        self.decided_us.store(if is_change { took_us } else { 0 }, Relaxed);
    }

    fn take_in(&mut self, now_us: u64, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        self.sightings.arrived(self.number, revision);
        let begun = Instant::now();
        self.agent.take_in(now_us, revision, changes);
        self.taken_in_us += begun.elapsed().as_micros() as u64;
    }

    fn records(&self) -> &Records {
        self.agent.records()
    }

    fn configure(&mut self, facts: NodeRecord, _: Promise) {
        self.agent.configure_facts(facts);
    }
}

/// The part of a server that routes, and nothing else of it.
pub struct Faced {
    face: ClusterFace,
    person: Person,
    sightings: Arc<Sightings>,
    decided_us: Arc<AtomicU64>,
}

impl Part for Faced {
    fn now_us(&self) -> u64 {
        self.sightings.now_us()
    }

    fn tick(&mut self) -> Event {
        Event::Tick { log_end: 0, followers: Vec::new(), promised_us: None, log_epoch: 0 }
    }

    fn facts(&self, _: &Options) -> (NodeRecord, Promise) {
        (self.person.facts.clone(), Promise::Nothing)
    }

    fn install(&mut self, topology: Arc<Topology>) {
        let begun = Instant::now();
        self.face.install(topology.clone());
        let work_us = begun.elapsed().as_micros() as u64 + self.decided_us.swap(0, Relaxed);
        let live = topology.nodes.iter().filter(|node| node.is_live).count();
        self.sightings.in_place(self.person.number, topology.revision, work_us, live);
        let own = topology.place_of(&self.person.member.node).map(|place| &topology.nodes[place]);
        if own.is_some_and(|own| own.is_live && own.is_primary) {
            self.sightings.is_in(self.person.number);
        }
    }

    fn refuse(&mut self, why: &str) {
        self.sightings.fail(format!("node {}: {why}", self.person.member.node));
    }

    fn serve_until(&mut self, mono_us: u64) {
        self.face.serve_until(mono_us);
    }

    fn lead(&mut self, _: u64, _: &[Member], _: bool) {}
    fn follow(&mut self, _: Option<&NodeRecord>, _: &Member, _: u64) {}
    fn stand(&mut self) {}
    fn hold(&mut self, _: HoldId, _: &Member) {}
    fn park(&mut self) {}
    fn release(&mut self) {}
    fn look_again(&mut self, _: &Records) {}
    fn keep(&mut self, _: &Records) {}
    fn save(&mut self, _: &Records) -> Result<(), String> {
        Ok(())
    }
}

/// Has a node join that only notes when etcd tells it something. Where that fails it joins again, as others do.
pub async fn listen(options: Options, person: Person, sightings: Arc<Sightings>) {
    for attempt in 0..ATTEMPTS_MAX {
        let endpoint = &options.endpoints[(person.number + attempt) % options.endpoints.len()];
        let Err(failure) = try_listen(&options, endpoint, &person, &sightings).await;
        if sightings.has_joined(person.number) {
            sightings.lease_lost();
        }
        if attempt + 1 == ATTEMPTS_MAX {
            sightings.fail(format!("node {}: etcd: {endpoint}: {}", person.member.node, failure.text));
        }
        tokio::time::sleep(ATTEMPT_PAUSE).await;
    }
}

async fn try_listen(
    options: &Options,
    endpoint: &str,
    person: &Person,
    sightings: &Sightings,
) -> Result<Infallible, Failure> {
    let (etcd, _) = Etcd::connect(options, endpoint).await?;
    let lease = etcd.grant().await?;
    let mut keeper = etcd.keep(lease).await?;
    etcd.commit(&[], &person.records(), Some(lease)).await?;
    sightings.is_in(person.number);
    let renewing = async {
        loop {
            tokio::time::sleep(Duration::from_micros(RENEW_US)).await;
            keeper.renew().await?;
        }
    };
    let watching = async {
        // While they join, only those who decide need to be told of each other.
        while !sightings.has_everybody() {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        tokio::time::sleep(WATCH_STEP * (person.number % WATCH_STEPS) as u32).await;
        let revision = etcd.revision().await?;
        sightings.arrived(person.number, revision);
        let mut watch = etcd.watch(revision + 1).await?;
        while let Some(message) = watch.message().await? {
            if let Some(pair) = message.events().last().and_then(|event| event.kv()) {
                sightings.arrived(person.number, pair.mod_revision() as u64);
            }
        }
        Err(Failure::of("the watch has ended"))
    };
    tokio::select! {
        ended = renewing => ended,
        ended = watching => ended,
    }
}
