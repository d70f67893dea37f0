//! What the loop does to the server around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::agent::{Event, HoldId};
use cluster::ids::Member;
use cluster::records::{NodeRecord, Promise};
use cluster::topology::{Records, Topology};

use super::facts;
use super::kept::{Kept, Memory};
use super::moving::Mover;
use super::options::Options;
use crate::shared::Shared;

/// Between two writes of `cluster-config-file`, where only the revision has changed.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The server, as the loop sees it. What an action means stands with [`cluster::agent::Action`].
pub trait Part {
    /// The clock that the agent is told by.
    fn now_us(&self) -> u64;
    /// [`Event::Tick`], as things are.
    fn tick(&mut self) -> Event;
    /// What the directives say of this node now.
    fn facts(&self, options: &Options) -> (NodeRecord, Promise);
    /// Route and answer by this.
    fn install(&mut self, topology: Arc<Topology>);
    /// Serve nothing, and say why.
    fn refuse(&mut self, why: &str);
    /// Serve until then.
    fn serve_until(&mut self, mono_us: u64);
    /// Lead.
    fn lead(&mut self, epoch: u64, awaited: &[Member], refuses_writes: bool);
    /// Follow. Without a record of the primary: once there is one.
    fn follow(&mut self, record: Option<&NodeRecord>, primary: &Member, epoch: u64);
    /// Neither.
    fn stand(&mut self);
    /// Hold writes, which is this time.
    fn hold(&mut self, id: HoldId, until: &Member);
    /// Hold everything.
    fn park(&mut self);
    /// Run what was held again.
    fn release(&mut self);
    /// The records may have changed: who is followed may be somewhere else, and slots may have to move.
    fn look_again(&mut self, records: &Records);
    /// Remember what is to be remembered, if it is time to.
    fn keep(&mut self, records: &Records);
    /// Remember it now.
    fn save(&mut self, records: &Records) -> Result<(), String>;
}

/// The server of this process.
pub struct ServerPart {
    shared: Arc<Shared>,
    kept: Kept,
    /// What the file says, and when it was last written.
    memory: Memory,
    written_at: Instant,
    /// The newest epoch whose primary wrote, or has seen to be equal, what the log holds.
    log_epoch: u64,
    followed: Option<Followed>,
    refused: Option<String>,
    mover: Mover,
}

/// Who is followed, and where it was when that began.
struct Followed {
    primary: Member,
    epoch: u64,
    record: Option<NodeRecord>,
}

impl ServerPart {
    /// The part of this server, which remembers this.
    pub fn new(shared: Arc<Shared>, memory: Memory) -> ServerPart {
        let path = PathBuf::from(shared.server.config.string("cluster-config-file"));
        // A log that begins anew is nobody's.
        let log_epoch = if shared.server.log.end() > 0 { memory.log_epoch } else { 0 };
        ServerPart {
            mover: Mover::new(shared.clone()),
            shared,
            kept: Kept::at(path),
            memory,
            written_at: Instant::now(),
            log_epoch,
            followed: None,
            refused: None,
        }
    }

    /// What is to be remembered.
    fn memory_of(&self, records: &Records) -> Memory {
        let epoch = records.shards.values().map(|(shard, _)| shard.epoch).max().unwrap_or(0);
        Memory {
            cluster: self.memory.cluster.clone().or_else(|| records.cluster.as_ref().map(|it| it.id.clone())),
            revision: self.memory.revision.max(records.revision),
            epoch: self.memory.epoch.max(epoch),
            log_epoch: self.log_epoch,
        }
    }
}

impl Part for ServerPart {
    fn now_us(&self) -> u64 {
        self.shared.server.clock.mono_us()
    }

    fn tick(&mut self) -> Event {
        let server = &self.shared.server;
        self.log_epoch = self.log_epoch.max(server.cluster_log_epoch());
        Event::Tick {
            log_end: server.log.end(),
            followers: server.cluster_followers(),
            promised_us: server.cluster_promised_us(),
            log_epoch: self.log_epoch,
        }
    }

    fn facts(&self, options: &Options) -> (NodeRecord, Promise) {
        let server = &self.shared.server;
        (facts::of_node(server, options), facts::promise(&server.config))
    }

    fn install(&mut self, topology: Arc<Topology>) {
        self.refused = None;
        self.shared.server.cluster.install(topology);
    }

    fn refuse(&mut self, why: &str) {
        if self.refused.as_deref() != Some(why) {
            tracing::error!("cluster: nothing is served: {why}");
            self.refused = Some(why.to_owned());
            self.shared.server.cluster.refuse(why.to_owned());
        }
    }

    fn serve_until(&mut self, mono_us: u64) {
        self.shared.server.cluster.serve_until(mono_us);
    }

    fn lead(&mut self, epoch: u64, awaited: &[Member], refuses_writes: bool) {
        self.followed = None;
        self.shared.server.cluster_lead(epoch, awaited, refuses_writes);
    }

    fn follow(&mut self, record: Option<&NodeRecord>, primary: &Member, epoch: u64) {
        self.followed = Some(Followed { primary: primary.clone(), epoch, record: record.cloned() });
        match record {
            Some(record) => self.shared.server.cluster_follow(record, primary.clone(), epoch),
            None => self.shared.server.cluster_stand(),
        }
    }

    fn stand(&mut self) {
        self.followed = None;
        self.shared.server.cluster_stand();
    }

    fn hold(&mut self, id: HoldId, until: &Member) {
        self.shared.server.cluster_hold(id, until.clone());
    }

    fn park(&mut self) {
        self.shared.server.cluster_park();
    }

    fn release(&mut self) {
        self.shared.server.cluster_release();
    }

    fn look_again(&mut self, records: &Records) {
        self.mover.look(records, &self.shared.server.cluster_me());
        let Some(followed) = &self.followed else { return };
        let record = records.nodes.get(&followed.primary.node);
        let has_moved = |known: &NodeRecord| {
            let before = followed.record.as_ref();
            before.is_none_or(|before| {
                (&before.ip, before.port, before.tls_port) != (&known.ip, known.port, known.tls_port)
            })
        };
        if let Some(record) = record.filter(|record| has_moved(record)) {
            let (primary, epoch) = (followed.primary.clone(), followed.epoch);
            self.follow(Some(record), &primary, epoch);
        }
    }

    fn keep(&mut self, records: &Records) {
        let memory = self.memory_of(records);
        let is_urgent = (&memory.cluster, memory.log_epoch) != (&self.memory.cluster, self.memory.log_epoch);
        let is_due = is_urgent || self.written_at.elapsed() > KEEP_INTERVAL;
        // On a disk that is full the file stays what it was until it can be written.
        let is_new = memory != self.memory || self.kept.has_failed();
        if !is_due || !is_new || records.cluster.is_none() {
            return;
        }
        (self.memory, self.written_at) = (memory.clone(), Instant::now());
        let kept = self.kept.clone();
        // A slow disk must not hold up the lease.
        tokio::task::spawn_blocking(move || {
            let is_known = kept.has_failed();
            if let Err(error) = kept.save(&memory)
                && !is_known
            {
                tracing::warn!("{error}");
            }
        });
    }

    fn save(&mut self, records: &Records) -> Result<(), String> {
        self.memory = self.memory_of(records);
        self.kept.save(&self.memory)
    }
}
