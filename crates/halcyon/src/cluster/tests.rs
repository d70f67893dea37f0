//! The loop against a real etcd, with an agent that only writes down what it is told.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cluster::agent::{Action, Event, HoldId, Outcome, TxnId};
use cluster::ids::{Life, Member, NodeId};
use cluster::records::{ClusterRecord, Key, LiveRecord, NodeRecord, Promise, Record};
use cluster::topology::{Records, Topology};
use engine::config::Config;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::options::Options;
use super::part::Part;
use super::plane::{self, Knock, Mind};
use super::session::{self, Before, Told};

/// Anything that should happen is waited for this long: only a defect gets here.
const PATIENCE: Duration = Duration::from_secs(20);

/// An etcd of one member in a directory of its own.
struct Server {
    process: Child,
    directory: PathBuf,
    address: String,
}

impl Server {
    /// None: this machine has no etcd.
    fn start(name: &str) -> Option<Server> {
        let directory = std::env::temp_dir().join(format!("halcyon-etcd-{}-{name}", std::process::id()));
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let (clients, peers) = (free().expect("a port"), free().expect("a port"));
        let (address, peers) = (format!("http://{clients}"), format!("http://{peers}"));
        let process = Command::new("etcd")
            .args(["--name", "one", "--unsafe-no-fsync", "--log-level", "error", "--data-dir"])
            .arg(&directory)
            .args(["--listen-client-urls", &address, "--advertise-client-urls", &address])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Some(Server { process: process.ok()?, directory, address })
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let done = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }

    fn ctl(&self, words: &[&str]) -> String {
        let done = Command::new("etcdctl")
            .args(["--endpoints", &self.address])
            .args(words)
            .env("ETCDCTL_API", "3")
            .output()
            .expect("etcdctl comes with etcd");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What was told, and what is to be done with the next event.
#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    orders: Vec<Action>,
}

#[derive(Clone, Default)]
struct Recorder {
    notes: Arc<Mutex<Notes>>,
    records: Records,
}

impl Mind for Recorder {
    fn handle(&mut self, _: u64, event: Event, actions: &mut Vec<Action>) {
        let mut notes = self.notes.lock();
        if !matches!(event, Event::Tick { .. }) {
            notes.events.push(event);
        }
        actions.append(&mut notes.orders);
    }

    fn take_in(&mut self, _: u64, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        self.notes.lock().events.push(Event::Changed { revision, changes });
    }

    fn records(&self) -> &Records {
        &self.records
    }

    fn configure(&mut self, _: NodeRecord, _: Promise) {}
}

pub(super) struct Bystander(pub(super) Instant);

impl Part for Bystander {
    fn now_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
    fn tick(&mut self) -> Event {
        Event::Tick { log_end: 0, followers: Vec::new(), promised_us: None, log_epoch: 0 }
    }
    fn facts(&self, _: &Options) -> (NodeRecord, Promise) {
        unreachable!("facts: nothing changes them")
    }
    fn install(&mut self, _: Arc<Topology>) {}
    fn refuse(&mut self, _: &str) {}
    fn serve_until(&mut self, _: u64) {}
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

/// A loop on its thread.
struct Node {
    notes: Arc<Mutex<Notes>>,
    knock: UnboundedSender<Knock>,
    thread: JoinHandle<()>,
}

impl Node {
    fn start(endpoints: &[&str]) -> Node {
        let options = options(endpoints);
        let recorder = Recorder::default();
        let notes = recorder.notes.clone();
        let (knock, knocks) = unbounded_channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(plane::run(options, recorder, Bystander(Instant::now()), 0, knocks));
        });
        Node { notes, knock, thread }
    }

    fn order(&self, action: Action) {
        self.notes.lock().orders.push(action);
    }

    fn commit(&self, number: u64, compares: Vec<(Key, u64)>, writes: Vec<(Key, Option<Record>)>) -> Outcome {
        self.order(Action::Commit { txn: TxnId(number), compares, writes });
        let is_it = |event: &Event| match event {
            Event::Ended(TxnId(ended), outcome) if *ended == number => Some(*outcome),
            _ => None,
        };
        self.await_event(is_it)
    }

    /// The first event that this takes something from; it is forgotten. What a commit changes may be told before its outcome.
    fn await_event<T>(&self, take: impl Fn(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut notes = self.notes.lock();
            if let Some(found) = notes.events.iter().find_map(&take) {
                let at = notes.events.iter().position(|event| take(event).is_some()).unwrap_or(0);
                notes.events.remove(at);
                return found;
            }
            drop(notes);
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it did not come; there are {:?}", self.notes.lock().events);
    }

    fn await_records(&self) -> Records {
        self.await_event(|event| match event {
            Event::Records(records) => Some(records.clone()),
            _ => None,
        })
    }

    fn await_change(&self, wanted: &Key) -> Option<Record> {
        self.await_event(|event| match event {
            Event::Changed { changes, .. } => {
                changes.iter().find(|(key, _)| key == wanted).map(|(_, record)| record.clone())
            }
            _ => None,
        })
    }

    fn await_lease(&self) -> u64 {
        self.await_event(|event| match event {
            Event::LeaseKept { asked_us } => Some(*asked_us),
            _ => None,
        })
    }

    fn stop(self) {
        let (stopped, _) = std::sync::mpsc::channel();
        assert!(self.knock.send(Knock::Stop(stopped)).is_ok(), "the loop takes it");
        self.thread.join().expect("it ends in order");
    }
}

pub(super) fn options(endpoints: &[&str]) -> Options {
    let config = Config::defaults();
    config.override_value("cluster-enabled", b"yes").expect("a directive");
    config.override_value("cluster-etcd", endpoints.join(",").as_bytes()).expect("a directive");
    Options::of(&config).expect("addresses").expect("some")
}

fn cluster_record(digit: &str) -> Record {
    Record::Cluster(ClusterRecord { id: digit.repeat(40), format: 1 })
}

fn live(node: &NodeId) -> (Key, Option<Record>) {
    (Key::Live(node.clone()), Some(Record::Live(LiveRecord { life: Life(1) })))
}

#[test]
fn records_are_written_read_and_watched() {
    let Some(etcd) = Server::start("records") else { return };
    // The first of the members is nobody.
    let node = Node::start(&["http://127.0.0.1:1", &etcd.address]);
    let empty = node.await_records();
    assert_eq!(empty.cluster, None);
    let other = Node::start(&[&etcd.address]);
    other.await_records();

    let write = |digit| vec![(Key::Cluster, Some(cluster_record(digit)))];
    let Outcome::Committed(revision) = node.commit(1, vec![(Key::Cluster, 0)], write("a")) else {
        panic!("nobody else writes");
    };
    for seen_by in [&node, &other] {
        assert_eq!(seen_by.await_change(&Key::Cluster), Some(cluster_record("a")));
    }
    assert_eq!(other.commit(1, vec![(Key::Cluster, 0)], write("b")), Outcome::Refused);
    let replaced = other.commit(2, vec![(Key::Cluster, revision)], write("b"));
    assert!(matches!(replaced, Outcome::Committed(at) if at > revision));
    assert_eq!(node.await_change(&Key::Cluster), Some(cluster_record("b")));

    // What is written under a lease goes with it.
    let id = NodeId::new(&"d".repeat(40)).expect("40 digits");
    assert_eq!(node.commit(2, Vec::new(), vec![live(&id)]), Outcome::Unknown, "there is no lease yet");
    node.order(Action::Grant);
    let granted = node.await_lease();
    assert!(matches!(node.commit(3, Vec::new(), vec![live(&id)]), Outcome::Committed(_)));
    assert!(other.await_change(&Key::Live(id.clone())).is_some());
    node.order(Action::Renew);
    let renewed = node.await_lease();
    node.order(Action::Renew);
    assert!(granted < renewed && renewed < node.await_lease());
    node.stop();
    assert_eq!(other.await_change(&Key::Live(id)), None, "its lease is gone");
    other.stop();
}

#[test]
fn an_outage_of_etcd_is_noticed_and_ends() {
    let Some(etcd) = Server::start("outage") else { return };
    let node = Node::start(&[&etcd.address]);
    let empty = node.await_records();
    node.order(Action::Grant);
    node.await_lease();
    etcd.signal("STOP");
    let write = vec![(Key::Cluster, Some(cluster_record("a")))];
    assert_eq!(node.commit(1, Vec::new(), write), Outcome::Unknown);
    etcd.signal("CONT");
    // Whether it was written or not, the lease is renewed and the watch goes on, without being asked to.
    node.await_lease();
    // It may be another etcd's history by now.
    assert!(node.await_records().revision >= empty.revision);
    let key = format!("/halcyon/default/nodes/{}", "e".repeat(40));
    let value = r#"{"ip":"::1","port":1,"tls_port":0,"bus_port":2,"shard":"SHARD"}"#
        .replace("SHARD", &"f".repeat(40));
    etcd.ctl(&["put", &key, &value]);
    let id = NodeId::new(&"e".repeat(40)).expect("40 digits");
    assert!(node.await_change(&Key::Node(id)).is_some());
    node.stop();
}

/// The first that a session, which goes on after this revision, tells and this takes something from.
fn first_of_session<T>(
    etcd: &Server,
    seen: u64,
    reads_all_after: Duration,
    take: impl Fn(Event, usize) -> Option<T>,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let before = Before { seen: Some(seen), reads_all_after };
    let found = async {
        loop {
            let (tell, mut told) = unbounded_channel();
            let session = session::run(options(&[&etcd.address]), etcd.address.clone(), before, tell);
            let first = async {
                while let Some(told) = told.recv().await {
                    let taken = match told {
                        Told::Event(event, errors) => take(*event, errors.len()),
                        Told::Connected(_) | Told::Lost(_) => None,
                    };
                    if taken.is_some() {
                        return taken;
                    }
                }
                None
            };
            // One that etcd was too slow for says nothing: another one begins where it did.
            let first = tokio::select! {
                biased;
                first = first => first,
                () = session => None,
            };
            if let Some(first) = first {
                return first;
            }
        }
    };
    let found = async { tokio::time::timeout(PATIENCE, found).await };
    runtime.block_on(found).expect("something is told")
}

/// The revisions that were seen may have been others' than those of which an etcd tells that was restored.
#[test]
fn who_goes_on_where_it_was_reads_all_records_as_well() {
    let Some(etcd) = Server::start("again") else { return };
    let node = Node::start(&[&etcd.address]);
    let empty = node.await_records();
    let write = vec![(Key::Cluster, Some(cluster_record("a")))];
    let Outcome::Committed(written) = node.commit(1, Vec::new(), write) else { panic!("etcd answers") };
    for seen in [empty.revision, written] {
        let records = first_of_session(&etcd, seen, Duration::ZERO, |event, _| match event {
            Event::Records(records) => Some(records),
            Event::Changed { revision, .. } => {
                assert_eq!(revision, written);
                None
            }
            _ => None,
        });
        assert_eq!((records.revision, records.written_at(&Key::Cluster)), (written, written));
    }
    node.stop();
}

#[test]
fn what_etcd_has_forgotten_is_made_up_for_by_reading_all() {
    let Some(etcd) = Server::start("forgotten") else { return };
    let node = Node::start(&[&etcd.address]);
    let empty = node.await_records();
    for number in 0..3 {
        let write = vec![(Key::Cluster, Some(cluster_record("a")))];
        assert!(matches!(node.commit(number, Vec::new(), write), Outcome::Committed(_)));
    }
    let last = empty.revision + 3;
    etcd.ctl(&["compact", &last.to_string()]);
    let told = |seen| {
        first_of_session(&etcd, seen, Duration::from_secs(3600), |event, errors| Some((event, errors)))
    };
    let (event, errors) = told(empty.revision);
    assert!(matches!(event, Event::Records(records) if records.cluster.is_some()) && errors == 0);
    let (event, _) = told(last + 100);
    assert!(matches!(event, Event::Records(_)), "etcd knows less than was seen: it was restored");
    let (event, _) = told(last - 1);
    assert!(matches!(event, Event::Changed { revision, .. } if revision == last));
    etcd.ctl(&["put", "/halcyon/default/slots", "nonsense"]);
    let (_, errors) = told(last);
    assert_eq!(errors, 1);
    node.stop();
}
