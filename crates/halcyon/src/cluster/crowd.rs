//! `halcyon lab nodes`: many nodes of a cluster in one process, and how long it takes until all of them know of a
//! change.
//!
//! | module | is |
//! |---|---|
//! | [`wanted`] | the command line |
//! | [`node`] | one of the nodes |
//! | [`sightings`] | what they have seen, and when |
//! | [`changes`] | what is changed, and until when all know |
//! | [`report`] | what came of it |

mod changes;
mod node;
mod report;
mod sightings;
mod wanted;

use std::io::Write;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::ids::ShardId;
use engine::config::Config;
use tokio::sync::{Semaphore, oneshot};
use tools::lab::{Outcome, Tool};

use self::changes::{Kind, Writer};
use self::node::Person;
use self::report::Report;
use self::sightings::Sightings;
use self::wanted::{USAGE, Wanted};
use super::etcd::{Etcd, Failure};
use super::options::Options;
use super::plane;
use crate::machine;

/// The tool, for `halcyon lab`.
pub const TOOL: Tool = Tool {
    name: "nodes",
    summary: "many nodes of a cluster in one process: how long until all know of a change",
    run,
};

/// Files that are no node's connection.
const OTHER_FILES: u64 = 64;

/// How often something is asked of etcd before it counts as failed, and how long is waited in between.
const ATTEMPTS_MAX: usize = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

/// Between looks at what the nodes have seen.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Between lines about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Where ids come from: the nodes' order in the records is theirs.
const SEED: u64 = 1;

/// Does what the words say; the report is returned.
fn run(words: &[String]) -> Outcome {
    let Some(wanted) = Wanted::parse(words)? else { return Ok(USAGE.to_owned()) };
    let options =
        Options::of(&wanted.config)?.ok_or("Set --cluster-etcd to the addresses of etcd's members")?;
    machine::raise_open_files(wanted.nodes as u64 + OTHER_FILES)
        .map_err(|usable| format!("Open files are allowed for {usable} nodes only: ulimit -n"))?;
    runtime()?.block_on(measure(&wanted, &options))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("Can't begin: {error}"))
}

/// Joins, waits, changes; whatever comes of it, nothing is left in etcd.
async fn measure(wanted: &Wanted, options: &Options) -> Outcome {
    let connected = insist(|| Etcd::connect(options, &options.endpoints[0])).await;
    let (etcd, _) =
        connected.map_err(|failure| format!("etcd: {}: {}", options.endpoints[0], failure.text))?;
    let found = insist(|| etcd.records()).await.map_err(|failure| failure.text)?;
    if !found.records.written.is_empty() {
        let name = wanted.config.string("cluster-name");
        return Err(format!(
            "There is a cluster called '{name}' in this etcd: choose another --cluster-name"
        ));
    }
    let sightings = Arc::new(Sightings::new(wanted.nodes));
    let people = {
        let mut random = fastrand::Rng::with_seed(SEED);
        (0..wanted.nodes).map(|number| Person::draw(number, &mut random)).collect::<Vec<_>>()
    };
    let shards: Vec<ShardId> = people.iter().map(|person| person.facts.shard.clone()).collect();
    let crowd = Crowd::start(wanted, options, people, &sightings)?;
    let mut writer = Writer::new(etcd, shards, wanted.agents, sightings.clone());
    let outcome = follow(wanted, &mut writer, &sightings).await;
    drop(crowd);
    let cleaned = writer.remove_all().await;
    let report = outcome?;
    cleaned?;
    Ok(if wanted.is_json { report.json() } else { report.text() })
}

async fn follow(wanted: &Wanted, writer: &mut Writer, sightings: &Sightings) -> Result<Report, String> {
    let mut told_us = 0;
    while sightings.joined() < wanted.nodes || sightings.known_by_all(wanted.agents) < wanted.nodes {
        sightings.check()?;
        if sightings.now_us() >= told_us + PROGRESS_INTERVAL.as_micros() as u64 {
            told_us = sightings.now_us();
            tell(&format!("{} of {} nodes have joined", sightings.joined(), wanted.nodes));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let joined_us = sightings.now_us();
    tell(&format!("all {} have joined, after {:.1} s", wanted.nodes, joined_us as f64 / 1e6));
    event(wanted, "joined");
    writer.spread().await?;
    event(wanted, "idle");
    tokio::time::sleep(Duration::from_secs(wanted.idle_s)).await;
    event(wanted, "changing");
    let mut waits = Vec::new();
    for kind in Kind::ALL {
        tell(&format!("{} changes of {}", wanted.changes, kind.name()));
        waits.push((kind.name(), writer.change_often(kind, wanted.changes).await?));
    }
    Ok(Report {
        nodes: wanted.nodes,
        agents: wanted.agents,
        joined_us,
        leases_lost: sightings.leases_lost(),
        waits,
    })
}

/// Asks etcd again where it has not answered: the nodes may leave it little of the CPU. What is asked for may come
/// twice.
async fn insist<T, F: Future<Output = Result<T, Failure>>>(mut ask: impl FnMut() -> F) -> Result<T, Failure> {
    for _ in 1..ATTEMPTS_MAX {
        if let Ok(answer) = ask().await {
            return Ok(answer);
        }
        tokio::time::sleep(ATTEMPT_PAUSE).await;
    }
    ask().await
}

/// Progress, for whoever looks.
fn tell(line: &str) {
    // Nobody to read it is no reason not to measure.
    let _ = writeln!(std::io::stderr(), "nodes: {line}");
}

/// For programs that wait for it.
fn event(wanted: &Wanted, name: &str) {
    if wanted.is_json {
        let mut output = std::io::stdout().lock();
        // Nobody to read it is no reason not to measure.
        let _ = writeln!(output, "{{\"event\":\"{name}\"}}").and_then(|()| output.flush());
    }
}

/// The nodes on their threads, which end when this does.
struct Crowd {
    threads: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Crowd {
    fn start(
        wanted: &Wanted,
        options: &Options,
        people: Vec<Person>,
        sightings: &Arc<Sightings>,
    ) -> Result<Crowd, String> {
        let mut of_threads: Vec<Vec<Person>> = vec![Vec::new(); wanted.threads];
        for person in people {
            of_threads[person.number % wanted.threads].push(person);
        }
        let config = Arc::new(Config::defaults());
        let places = Arc::new(Semaphore::new(wanted.starting));
        let mut crowd = Crowd { threads: Vec::new() };
        for people in of_threads {
            let runtime = runtime()?;
            let starting = Starting {
                agents: wanted.agents,
                options: options.clone(),
                config: config.clone(),
                places: places.clone(),
                sightings: sightings.clone(),
            };
            let (stop, stopped) = oneshot::channel();
            let thread = thread::spawn(move || {
                runtime.block_on(async move {
                    for person in people {
                        tokio::spawn(starting.clone().start(person));
                    }
                    // It ends when the sender does.
                    let _ = stopped.await;
                });
            });
            crowd.threads.push((stop, thread));
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (stop, thread) in self.threads.drain(..) {
            drop(stop);
            // A node that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What a node is started with.
#[derive(Clone)]
struct Starting {
    agents: usize,
    options: Options,
    config: Arc<Config>,
    /// As many join at once.
    places: Arc<Semaphore>,
    sightings: Arc<Sightings>,
}

impl Starting {
    async fn start(self, person: Person) {
        let Ok(place) = self.places.clone().acquire_owned().await else { return };
        let (number, sightings) = (person.number, self.sightings.clone());
        let entering = async move {
            while !sightings.has_joined(number) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            drop(place);
        };
        tokio::join!(entering, self.live(person));
    }

    async fn live(self, person: Person) {
        let Starting { agents, options, config, sightings, .. } = self;
        if person.number >= agents {
            return node::listen(options, person, sightings).await;
        }
        let (knock, knocks) = tokio::sync::mpsc::unbounded_channel();
        let (witness, faced) = node::minded(&person, &config, &sightings);
        plane::run(options, witness, faced, person.number, knocks).await;
        drop(knock);
    }
}
