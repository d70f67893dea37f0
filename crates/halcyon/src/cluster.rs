//! The node's part in a cluster on etcd: a thread with its own runtime, which tells the agent what etcd says and does what the
//! agent decides. No other thread knows of etcd; without `cluster-etcd` this one is not there.
//!
//! | module | is |
//! |---|---|
//! | [`options`] | what the directives say of etcd |
//! | [`facts`] | what they say of this node |
//! | [`etcd`] | etcd's calls, one member at a time |
//! | [`session`] | one connection: all records, then each change |
//! | [`plane`] | the loop: events in, actions out |
//! | [`part`] | what actions do to the server |
//! | [`moving`] | slots that move from or to this node |
//! | [`kept`] | what is remembered from one start to the next |
//! | [`crowd`] | many nodes in one process, to measure what their number costs |

pub mod crowd;
pub mod etcd;
mod facts;
mod kept;
mod moving;
pub mod options;
mod part;
mod plane;
mod session;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use cluster::agent::{Action, Agent, Ask, Event, HoldId};
use cluster::records::{Key, LiveRecord, NodeRecord, Promise, Record, ShardRecord};
use cluster::topology::{Records, Topology};
use engine::config::Config;
use engine::server::{Answer, Server};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::kept::{Kept, Memory};
use self::options::Options;
use self::part::ServerPart;
use self::plane::{Knock, Mind};
use crate::shared::Shared;

/// Between looks whether the data is loaded.
const LOADED_INTERVAL: Duration = Duration::from_millis(10);

/// How long an end in order waits for the shard to be handed over, and for etcd to be told.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Why commands on keys, and questions about the cluster, are refused until the records are known.
const NOT_YET: &str = "The cluster is down: this node has not heard from etcd yet";

/// The way to the thread, from all others.
#[derive(Clone, Default)]
pub struct Door {
    sender: Option<UnboundedSender<Knock>>,
    /// The data is loaded, and the node takes part.
    is_running: Arc<AtomicBool>,
}

/// What the thread begins with.
pub struct Prepared {
    options: Options,
    memory: Memory,
    knocks: UnboundedReceiver<Knock>,
    is_running: Arc<AtomicBool>,
}

/// What the directives and `cluster-config-file` say, and the way to the thread that is to run by it; no thread without
/// `cluster-etcd`. The error is a line for the user.
pub fn prepare(config: &Config) -> Result<(Door, Option<Prepared>), String> {
    let options = Options::of(config)?;
    if !config.bool("cluster-enabled") {
        return Ok((Door::default(), None));
    }
    let file = config.string("cluster-config-file");
    let memory = Kept::at(PathBuf::from(&file)).load()?;
    match (options, &memory.cluster) {
        (None, Some(cluster)) => Err(format!(
            "{file} says that this node is part of the cluster {cluster}: set cluster-etcd, or remove the file to \
             have a node that owns all slots by itself"
        )),
        (None, None) => Ok((Door::default(), None)),
        (Some(options), _) => {
            let (knock, knocks) = unbounded_channel();
            let door = Door { sender: Some(knock), is_running: Arc::default() };
            let is_running = door.is_running.clone();
            Ok((door, Some(Prepared { options, memory, knocks, is_running })))
        }
    }
}

impl Door {
    /// True if this node is part of a cluster on etcd.
    pub fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    /// What nobody takes comes back.
    fn knock(&self, knock: Knock) -> Result<(), Box<Knock>> {
        match &self.sender {
            Some(sender) => sender.send(knock).map_err(|refused| Box::new(refused.0)),
            None => Err(Box::new(knock)),
        }
    }

    /// As [`engine::server::Host::cluster_ask`].
    pub fn ask(&self, ask: Ask, answer: Answer) {
        if let Err(knock) = self.knock(Knock::Ask(ask, answer))
            && let Knock::Ask(_, answer) = *knock
        {
            answer(Err(match self.is_open() {
                true => "ERR The server is shutting down".to_owned(),
                false => "ERR This node has no etcd (cluster-etcd)".to_owned(),
            }));
        }
    }

    /// As [`engine::server::Host::cluster_handed_over`].
    pub fn handed_over(&self, hold: HoldId, has_all: bool, log_end: u64) {
        // A thread that has ended hands nothing over.
        let _ = self.knock(Knock::HandedOver { hold, has_all, log_end });
    }

    /// As [`engine::server::Host::save_cluster_config`].
    pub fn save(&self) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        let (sender, saved) = channel();
        let answer = move |result| sender.send(result).unwrap_or_default();
        // A thread that has ended has saved last of all.
        let _ = self.knock(Knock::Save(Box::new(answer)));
        saved.recv_timeout(END_TIMEOUT).unwrap_or(Ok(()))
    }

    /// Directives that the node's facts come from may have changed.
    pub fn reconfigure(&self) {
        let _ = self.knock(Knock::Reconfigure);
    }

    /// The process ends: hands the shard over, if there is somebody to have it.
    pub fn hand_over(&self) {
        let (sender, handed): (Sender<()>, _) = channel();
        let answer = move |_| sender.send(()).unwrap_or_default();
        if self.is_running.load(Relaxed) && self.knock(Knock::Ask(Ask::End, Box::new(answer))).is_ok() {
            let _ = handed.recv_timeout(END_TIMEOUT);
        }
    }

    /// Ends the thread. Nobody is served any more.
    pub fn stop(&self) {
        let (sender, stopped) = channel();
        if self.knock(Knock::Stop(sender)).is_ok() {
            let _ = stopped.recv_timeout(END_TIMEOUT);
        }
    }
}

/// Until etcd says what this node's part is, nothing is served, and whoever asks for the cluster is told that it is not known here.
/// Before the workers start.
pub fn begin(server: &Server, prepared: &Prepared) {
    let (facts, me) = (facts::of_node(server, &prepared.options), server.cluster_me());
    let shard = ShardRecord {
        epoch: 0,
        primary: me.clone(),
        in_sync: vec![me.clone()],
        promise: Promise::Nothing,
        began_at: 0,
    };
    let mut records = Records::default();
    records.put(Key::Shard(facts.shard.clone()), Record::Shard(shard), 0);
    records.put(Key::Node(me.node.clone()), Record::Node(facts), 0);
    records.put(Key::Live(me.node), Record::Live(LiveRecord { life: me.life }), 0);
    let topology = Topology::of(&records).expect("records: a node alone without slots is a topology");
    server.cluster.await_etcd(Arc::new(topology), NOT_YET.to_owned());
    server.cluster.serve_until(0);
    // What is loaded is of a stream of which this node learns only then who leads it.
    server.cluster_stand();
}

/// The thread: once the data is loaded, since what a node can offer is what it has. `new_id` is drawn for a cluster that has no
/// node yet; `chance` spreads the nodes over etcd's members.
pub fn run(shared: Arc<Shared>, prepared: Prepared, new_id: String, chance: u64) {
    let Prepared { options, memory, knocks, is_running } = prepared;
    while shared.server.persistence.is_loading() && !shared.is_stopping() {
        thread::sleep(LOADED_INTERVAL);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("cluster-runtime: a poll and a timer can be had");
    let facts = facts::of_node(&shared.server, &options);
    let identity = facts::identity(&shared.server, &memory, new_id);
    let agent = Agent::new(identity, facts);
    let part = ServerPart::new(shared, memory);
    is_running.store(true, Relaxed);
    runtime.block_on(plane::run(options, agent, part, chance as usize, knocks));
}

impl Mind for Agent {
    fn handle(&mut self, now_us: u64, event: Event, actions: &mut Vec<Action>) {
        Agent::handle(self, now_us, event, actions);
    }

    fn take_in(&mut self, now_us: u64, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        Agent::take_in(self, now_us, revision, changes);
    }

    fn records(&self) -> &Records {
        Agent::records(self)
    }

    fn configure(&mut self, facts: NodeRecord, promise: Promise) {
        self.configure_facts(facts);
        self.configure_promise(promise);
    }
}
