//! A node as the agent sees it: its clock, its server's log and links, its connection to etcd.

use std::rc::Rc;
use std::sync::Arc;

use cluster::agent::{Action, Agent, Event, Follower, HoldId, Identity, TxnId};
use cluster::ids::{Life, Member, NodeId, ShardId};
use cluster::moves::MoveId;
use cluster::records::Promise;
use cluster::slots::SlotRanges;
use cluster::topology::Topology;

use crate::facts;
use crate::moving::{Receiving, Sending};

pub const SLOTS_SAMPLED: [u16; 8] = [0, 2048, 4096, 6144, 8192, 10_240, 12_288, 14_336];

/// What the server was told to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Stand,
    Lead { epoch: u64, awaited: Vec<Member>, refuses_writes: bool },
    Follow { primary: Member, epoch: u64 },
}

/// Where an epoch began in a log, and by which process: two shards may have epochs of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub epoch: u64,
    pub start: usize,
    pub node: usize,
    pub life: u64,
}

impl Stream {
    fn is_same(&self, other: &Stream) -> bool {
        (self.epoch, self.node, self.life) == (other.epoch, other.node, other.life)
    }
}

/// A log: who wrote what, by its number; and where each epoch began.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub entries: Vec<u64>,
    pub streams: Vec<Stream>,
}

impl Log {
    /// What it is the newest of.
    pub fn stream(&self) -> Option<Stream> {
        self.streams.iter().rev().find(|stream| stream.start <= self.entries.len()).copied()
    }

    pub fn epoch(&self) -> u64 {
        self.stream().map_or(0, |stream| stream.epoch)
    }

    pub fn begin_epoch(&mut self, epoch: u64, node: usize, life: u64) {
        let start = self.entries.len();
        self.streams.retain(|known| known.epoch < epoch && known.start <= start);
        self.streams.push(Stream { epoch, start, node, life });
    }

    pub fn cut_to(&mut self, end: usize) {
        self.entries.truncate(end);
        self.streams.retain(|stream| stream.start <= end);
    }

    /// Up to where a log that is of this stream and ends there is this one: what it has beyond that is void. None: unknown,
    /// only the stream that goes on in this one's is remembered.
    pub fn agrees_to(&self, stream: Option<Stream>, end: usize) -> Option<usize> {
        let stream = stream?;
        let (last, former) = (self.streams.last()?, self.streams.iter().nth_back(1));
        if last.is_same(&stream) {
            return (end <= self.entries.len()).then_some(end);
        }
        former.filter(|former| former.is_same(&stream)).map(|_| end.min(last.start))
    }
}

/// What is sent between primaries and replicas.
#[derive(Clone)]
pub enum Message {
    Hello {
        from: Member,
        epoch: u64,
        link: u64,
        stream: Option<Stream>,
        end: usize,
    },
    Sync {
        link: u64,
        log: Rc<Log>,
        stamp_us: u64,
    },
    /// The replica's log is the primary's up to here.
    Partial {
        link: u64,
        to: usize,
        streams: Vec<Stream>,
        stamp_us: u64,
    },
    Append {
        link: u64,
        start: usize,
        entries: Vec<u64>,
        stamp_us: u64,
        holds_all: bool,
    },
    /// What a move's slots hold, from this place on.
    Slots {
        id: MoveId,
        slots: SlotRanges,
        to: Member,
        start: usize,
        entries: Vec<u64>,
        is_all: bool,
    },
    /// So much of it has come, and is where the destination's replies wait for it to be.
    SlotsCame {
        id: MoveId,
        come: usize,
        is_safe: bool,
    },
    Ack {
        link: u64,
        offset: usize,
        stamp_us: u64,
        holds_all: bool,
    },
}

/// What is asked of etcd.
#[derive(Clone)]
pub enum Request {
    Snapshot,
    Grant {
        asked_us: u64,
    },
    Renew {
        lease: u64,
        asked_us: u64,
    },
    Revoke {
        lease: u64,
    },
    Commit {
        txn: TxnId,
        lease: Option<u64>,
        compares: Vec<(cluster::records::Key, u64)>,
        writes: crate::etcd::Writes,
    },
}

pub struct Replica {
    pub member: Member,
    pub link: u64,
    pub acked_to: usize,
    pub heard_us: u64,
    pub caught_up_us: u64,
}

pub struct Node {
    pub number: usize,
    pub id: NodeId,
    pub home: ShardId,
    pub zone: String,
    pub life: u64,
    pub is_up: bool,
    pub paused_until_us: u64,
    pub agent: Option<Agent>,
    /// Its clock: parts in a million that it is faster, and by how much it is ahead.
    pub drift_ppm: i64,
    pub ahead_us: u64,
    // The connection to etcd.
    pub lease: Option<u64>,
    pub wants_lease: bool,
    pub pending: Option<TxnId>,
    pub watch_at: usize,
    pub is_watching: bool,
    pub is_watch_due: bool,
    pub watch_delay_us: u64,
    pub delays_commits: bool,
    pub kept: Option<(String, u64)>,
    // The server.
    pub log: Log,
    pub role: Role,
    /// The shard that it leads.
    pub led: Option<ShardId>,
    pub serve_until_us: u64,
    pub topology: Option<Arc<Topology>>,
    pub held: Option<(HoldId, Member)>,
    pub held_since_us: u64,
    pub is_parked: bool,
    pub is_refused: bool,
    pub replicas: Vec<Replica>,
    pub promised_us: Option<u64>,
    /// The connection to its primary: what comes of an earlier one is lost.
    pub link: u64,
    pub is_linked: bool,
    pub heard_primary_us: u64,
    pub released_to: usize,
    pub promise: Promise,
    pub asks: Vec<u64>,
    /// Moves of slots from here, and to here.
    pub sending: Vec<Sending>,
    pub receiving: Vec<Receiving>,
}

impl Node {
    pub fn new(number: usize, home: ShardId, promise: Promise) -> Node {
        Node {
            number,
            id: node_id(number),
            home,
            zone: format!("z{}", number % 3),
            life: 0,
            is_up: false,
            paused_until_us: 0,
            agent: None,
            drift_ppm: 0,
            ahead_us: 0,
            lease: None,
            wants_lease: false,
            pending: None,
            watch_at: 0,
            is_watching: false,
            is_watch_due: false,
            watch_delay_us: 1_000,
            delays_commits: false,
            kept: None,
            log: Log::default(),
            role: Role::Stand,
            led: None,
            serve_until_us: 0,
            topology: None,
            held: None,
            held_since_us: 0,
            is_parked: false,
            is_refused: false,
            replicas: Vec::new(),
            promised_us: None,
            link: 0,
            is_linked: false,
            heard_primary_us: 0,
            released_to: 0,
            promise,
            asks: Vec::new(),
            sending: Vec::new(),
            receiving: Vec::new(),
        }
    }

    pub fn member(&self) -> Member {
        Member { node: self.id.clone(), life: Life(self.life) }
    }

    /// What its clock shows.
    pub fn clock_us(&self, now_us: u64) -> u64 {
        let drift = now_us as i64 / 1_000 * self.drift_ppm / 1_000;
        now_us.wrapping_add_signed(drift) + self.ahead_us
    }

    /// A new process: all that was in memory is gone.
    pub fn start(&mut self, min_in_sync: usize) {
        self.life += 1;
        let kept = self.kept.clone();
        let identity =
            Identity { kept, ..facts::identity(self.member(), &self.home, self.promise, min_in_sync) };
        let facts = facts::record(&self.home, &self.zone);
        self.agent = Some(Agent::new(identity, facts));
        self.is_up = true;
        self.paused_until_us = 0;
        self.forget_process();
    }

    pub fn forget_process(&mut self) {
        self.lease = None;
        self.wants_lease = false;
        self.pending = None;
        self.is_watching = false;
        self.is_watch_due = false;
        self.role = Role::Stand;
        self.serve_until_us = 0;
        self.topology = None;
        self.held = None;
        self.is_parked = false;
        self.is_refused = false;
        self.replicas.clear();
        self.promised_us = None;
        self.is_linked = false;
        self.released_to = 0;
        self.asks.clear();
        self.sending.clear();
        self.receiving.clear();
    }

    /// The shard that it answers for as its primary, if it answers at all.
    pub fn served_shard(&self, now_us: u64) -> Option<&ShardId> {
        let is_running = self.is_up && now_us >= self.paused_until_us && !self.is_refused && !self.is_parked;
        let leads = matches!(self.role, Role::Lead { .. });
        if !is_running || !leads || self.clock_us(now_us) >= self.serve_until_us {
            return None;
        }
        let topology = self.topology.as_ref()?;
        let own = &topology.nodes[topology.place_of(&self.id)?];
        own.is_primary.then(|| own.shard.map(|shard| &topology.shards[shard].id)).flatten()
    }

    /// True if it answers for this slot, where it answers for its shard.
    pub fn serves_slot(&self, slot: u16) -> bool {
        self.owns_slot(slot) && !self.is_slot_parked(slot)
    }

    /// True if it takes this slot for its own.
    pub fn owns_slot(&self, slot: u16) -> bool {
        let Some(topology) = &self.topology else { return false };
        let own = topology.place_of(&self.id).and_then(|place| topology.nodes[place].shard);
        own.is_some_and(|own| usize::from(topology.owners[usize::from(slot)]) == own)
    }

    pub fn tick(&self) -> Event {
        let follower = |replica: &Replica| Follower {
            member: replica.member.clone(),
            acked_to: replica.acked_to as u64,
            caught_up_us: replica.caught_up_us,
            heard_us: replica.heard_us,
        };
        Event::Tick {
            log_end: self.log.entries.len() as u64,
            followers: self.replicas.iter().map(follower).collect(),
            promised_us: self.promised_us,
            log_epoch: self.log.epoch(),
        }
    }

    /// What every awaited replica has acknowledged.
    pub fn acknowledged_to(&self) -> usize {
        let Role::Lead { awaited, .. } = &self.role else { return 0 };
        let acked_to = |member: &Member| {
            self.replicas
                .iter()
                .find(|replica| replica.member == *member)
                .map_or(0, |replica| replica.acked_to)
        };
        awaited.iter().map(acked_to).min().unwrap_or(self.log.entries.len())
    }

    /// How many are in sync as it knows; None: it promises nothing.
    pub fn copies_in_sync(&self) -> Option<usize> {
        let (record, _) = self.agent.as_ref()?.records().shards.get(self.led.as_ref()?)?;
        (record.promise == Promise::Quorum).then_some(record.in_sync.len())
    }

    /// The epoch that it leads.
    pub fn led_epoch(&self) -> Option<u64> {
        match &self.role {
            Role::Lead { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// Takes a role, as an action says.
    pub fn take_role(&mut self, action: &Action) {
        self.led = None;
        match action {
            Action::Lead { epoch, awaited, refuses_writes } => {
                let records = self.agent.as_ref().map(|agent| agent.records());
                let own = records.and_then(|records| records.nodes.get(&self.id));
                self.led = own.map(|own| own.shard.clone());
                let is_same_epoch = matches!(&self.role, Role::Lead { epoch: known, .. } if known == epoch);
                if !is_same_epoch {
                    self.log.begin_epoch(*epoch, self.number, self.life);
                    self.replicas.clear();
                    self.released_to = 0;
                }
                self.role =
                    Role::Lead { epoch: *epoch, awaited: awaited.clone(), refuses_writes: *refuses_writes };
            }
            Action::Follow { primary, epoch } => {
                self.role = Role::Follow { primary: primary.clone(), epoch: *epoch };
                self.is_linked = false;
                self.replicas.clear();
            }
            _ => {
                self.role = Role::Stand;
                self.is_linked = false;
                self.replicas.clear();
            }
        }
    }
}

pub fn node_id(number: usize) -> NodeId {
    NodeId::new(&format!("{number:040x}")).expect("40 digits")
}

pub fn shard_id(number: usize) -> ShardId {
    ShardId::new(&format!("{:040x}", number + 0xabc0)).expect("40 digits")
}
