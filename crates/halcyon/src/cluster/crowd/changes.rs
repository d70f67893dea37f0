//! Changes of the records, one after the other, and how long each takes until all nodes know.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::slot::SLOT_COUNT;
use cluster::agent::Outcome;
use cluster::ids::ShardId;
use cluster::records::{Key, Record};
use cluster::slots::SlotMap;

use super::node::Person;
use super::sightings::{InPlace, Sightings};
use super::{ATTEMPTS_MAX, LOOK_INTERVAL, insist};
use crate::cluster::etcd::{Etcd, Failure};

/// Between a change that all know of and the next one.
const PAUSE: Duration = Duration::from_millis(200);

/// A node that has not seen a change by then never will.
const SEEN_TIMEOUT_US: u64 = 60_000_000;

/// Keys that are removed together: fewer than etcd takes in one transaction by default.
const REMOVED_TOGETHER: usize = 100;

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node's address: a small record.
    Address,
    /// The owner of a slot, as where one has moved: the record of all slots.
    Slot,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 2] = [Kind::Address, Kind::Slot];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Address => "address",
            Kind::Slot => "slot",
        }
    }
}

/// What changes of a kind have taken, in microseconds from the instant at which etcd was asked for them.
#[derive(Default)]
pub struct Waits {
    /// Until etcd said that it was done.
    pub committed_us: Vec<u64>,
    /// Until it came to a node: of all nodes and changes.
    pub arrived_us: Vec<u64>,
    /// Until a node routed by it: of all that decide, and all changes.
    pub in_place_us: Vec<u64>,
    /// Until the last node had it.
    pub all_us: Vec<u64>,
    /// Making a record of what etcd sends: once for each change.
    pub read_us: Vec<u64>,
    /// Deciding and routing by it, of the same nodes and changes. Others ran meanwhile where they share the CPU.
    pub work_us: Vec<u64>,
}

/// Who makes the changes.
pub struct Writer {
    etcd: Etcd,
    shards: Vec<ShardId>,
    /// How many of the nodes decide.
    agents: usize,
    sightings: Arc<Sightings>,
    slots: SlotMap,
    /// A node that is not there, so that nobody else writes what it is.
    absent: Person,
    made: usize,
}

impl Writer {
    pub fn new(etcd: Etcd, shards: Vec<ShardId>, agents: usize, sightings: Arc<Sightings>) -> Writer {
        let mut random = fastrand::Rng::with_seed(u64::MAX);
        let absent = Person::draw(shards.len(), &mut random);
        Writer { etcd, shards, agents, sightings, slots: SlotMap::default(), absent, made: 0 }
    }

    /// Gives each shard as many slots as the others, and waits until all know.
    pub async fn spread(&mut self) -> Result<(), String> {
        let count = usize::from(SLOT_COUNT);
        for (at, shard) in self.shards.iter().enumerate() {
            let bounds = [at, at + 1].map(|at| (at * count / self.shards.len()) as u16);
            self.slots.assign(bounds[0]..bounds[1], Some(shard))?;
        }
        self.change(vec![self.absent_record(), self.slots_record()], &mut Waits::default()).await
    }

    /// So many changes of a kind.
    pub async fn change_often(&mut self, kind: Kind, count: usize) -> Result<Waits, String> {
        let mut waits = Waits::default();
        for _ in 0..count {
            tokio::time::sleep(PAUSE).await;
            self.made += 1;
            let write = match kind {
                Kind::Address => {
                    self.absent.facts.port = 1 + (self.made % usize::from(u16::MAX - 1)) as u16;
                    self.absent_record()
                }
                Kind::Slot => {
                    let slot = (self.made * 7 % usize::from(SLOT_COUNT)) as u16;
                    let owner = &self.shards[self.made * 13 % self.shards.len()];
                    self.slots.assign([slot], Some(owner))?;
                    self.slots_record()
                }
            };
            waits.read_us.push(reading_us(&write));
            self.change(vec![write], &mut waits).await?;
        }
        Ok(waits)
    }

    fn absent_record(&self) -> (Key, Option<Record>) {
        let record = Record::Node(self.absent.facts.clone());
        (Key::Node(self.absent.member.node.clone()), Some(record))
    }

    fn slots_record(&self) -> (Key, Option<Record>) {
        (Key::Slots, Some(Record::Slots(self.slots.clone())))
    }

    /// Commits this, and waits until all nodes know.
    async fn change(&self, writes: Vec<(Key, Option<Record>)>, waits: &mut Waits) -> Result<(), String> {
        self.sightings.forget();
        let asked_us = self.sightings.now_us();
        let outcome = insist(|| self.etcd.commit(&[], &writes, None)).await;
        let committed_us = self.sightings.now_us();
        let revision = match outcome.map_err(|failure| format!("etcd: {}", failure.text))? {
            Outcome::Committed(revision) => revision,
            outcome => return Err(format!("a change that compares nothing was not made: {outcome:?}")),
        };
        let (arrivals_us, in_place) = self.seen_by_all(revision).await?;
        let since = |at_us: u64| at_us.saturating_sub(asked_us);
        waits.committed_us.push(since(committed_us));
        let all = arrivals_us.iter().copied().chain(in_place.iter().map(|in_place| in_place.at_us));
        waits.all_us.push(since(all.max().unwrap_or(0)));
        waits.arrived_us.extend(arrivals_us.into_iter().map(since));
        waits.in_place_us.extend(in_place.iter().map(|in_place| since(in_place.at_us)));
        waits.work_us.extend(in_place.iter().map(|in_place| in_place.work_us));
        Ok(())
    }

    async fn seen_by_all(&self, revision: u64) -> Result<(Vec<u64>, Vec<InPlace>), String> {
        let deadline_us = self.sightings.now_us() + SEEN_TIMEOUT_US;
        loop {
            self.sightings.check()?;
            let arrivals_us = self.sightings.arrivals_us(revision);
            let in_place = self.sightings.in_place_of(revision);
            if arrivals_us.len() == self.shards.len() && in_place.len() == self.agents {
                return Ok((arrivals_us, in_place));
            }
            if self.sightings.now_us() > deadline_us {
                let (nodes, agents) = (self.shards.len(), self.agents);
                let (told, placed) = (arrivals_us.len(), in_place.len());
                return Err(format!(
                    "a change came to {told} of {nodes} nodes, and {placed} of {agents} route by it"
                ));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Removes every record of the cluster, those too that a node was just about to write.
    pub async fn remove_all(&self) -> Result<(), String> {
        let words = |failure: Failure| format!("etcd: {}", failure.text);
        for _ in 0..ATTEMPTS_MAX {
            let snapshot = insist(|| self.etcd.records()).await.map_err(words)?;
            if snapshot.records.written.is_empty() {
                return Ok(());
            }
            let writes: Vec<(Key, Option<Record>)> =
                snapshot.records.written.into_keys().map(|key| (key, None)).collect();
            for some in writes.chunks(REMOVED_TOGETHER) {
                insist(|| self.etcd.commit(&[], some, None)).await.map_err(words)?;
            }
        }
        Err("Records were written while they were removed: some are left".to_owned())
    }
}

/// How long it takes to read what is written.
fn reading_us(write: &(Key, Option<Record>)) -> u64 {
    let (key, Some(record)) = write else { return 0 };
    let encoded = record.encode();
    let begun = Instant::now();
    let read = Record::parse(key, &encoded);
    let took_us = begun.elapsed().as_micros() as u64;
    assert_eq!(read.as_ref(), Ok(record), "records: they are read as they are written");
    took_us
}
