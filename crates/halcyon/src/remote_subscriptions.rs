//! PUBLISH reaches those who have subscribed at another node of the cluster.
//!
//! A node with subscribers connects to every other node, and has itself sent what they have subscribed to: a node that publishes sends
//! a message only to those that want it, and where nobody has subscribed, there is no connection. Each has a thread here, which
//! sleeps nearly all the time.
//!
//! ```text
//! subscriber -> its node --- REPLCONF halcyon-listen ---> every other node
//!                  ^-------- message, pmessage -----------'  <- publisher
//! ```

mod frames;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use base::limits::THREAD_STACK_BYTES;
use cluster::topology::Topology;
use engine::outgoing::Target;
use engine::pubsub::{Space, deliver_from_node};
use engine::server::Server;
use parking_lot::{Condvar, Mutex};
use resp::write_command;

use self::frames::take_frame;
use crate::outgoing::{Socket, Unconnected, Wanted};
use crate::shared::Shared;

/// Between two looks at who is there, where nothing else tells.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The connections outlast the last subscription by so long: the next is often near.
const LINGER: Duration = Duration::from_secs(10);
/// Between two attempts to reach a node.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long connecting and writing may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// A node from which nothing comes is asked for a sign after this time, and given up after twice as long.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes of one reading.
const READ_BYTES: usize = 64 * 1024;

/// What all threads of this file share.
#[derive(Default)]
pub struct RemoteSubscriptions {
    ways: Mutex<HashMap<String, Way>>,
    /// Somebody has subscribed.
    wanted: Condvar,
}

/// The way to a node.
struct Way {
    target: Target,
    line: Arc<Line>,
}

/// What the thread of a way is told.
#[derive(Default)]
struct Line {
    /// Rung when there is something; None: there is no connection, which would begin with all there is.
    bell: Mutex<Option<UnixStream>>,
    changes: Mutex<Vec<Change>>,
    is_over: AtomicBool,
}

/// Somebody here is the first to subscribe to this name, or nobody does any more.
struct Change {
    space: Space,
    name: Box<[u8]>,
    is_wanted: bool,
}

impl Line {
    fn tell(&self, space: Space, name: &[u8], is_wanted: bool) {
        let mut bell = self.bell.lock();
        let Some(bell) = &mut *bell else { return };
        self.changes.lock().push(Change { space, name: name.into(), is_wanted });
        // One that is full of rings is heard as well.
        let _ = bell.write(&[1]);
    }

    fn end(&self) {
        self.is_over.store(true, SeqCst);
        if let Some(bell) = &mut *self.bell.lock() {
            let _ = bell.write(&[1]);
        }
    }
}

/// From now on this server's publishers reach other nodes so, and the thread has to run.
pub fn begin(server: &Server, remote: &Arc<RemoteSubscriptions>) {
    let remote = remote.clone();
    server.channels.span_nodes(Box::new(move |space, name, is_wanted| {
        let ways = remote.ways.lock();
        ways.values().for_each(|way| way.line.tell(space, name, is_wanted));
        remote.wanted.notify_one();
    }));
}

/// The thread that sees to it that there are ways where they are wanted.
pub fn run(shared: &Arc<Shared>, remote: &RemoteSubscriptions) {
    let server = &shared.server;
    let (mut known, mut wanted_at): (Option<Arc<Topology>>, Option<Instant>) = (None, None);
    while !shared.is_stopping() {
        if is_wanted(server) {
            wanted_at = Some(Instant::now());
        }
        let lingers = wanted_at.is_some_and(|at| at.elapsed() < LINGER);
        let topology = server.cluster.topology().filter(|_| lingers);
        let is_same = match (&topology, &known) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            let peers = topology.as_ref().map(|topology| peers(server, topology)).unwrap_or_default();
            follow(shared, remote, peers);
            known = topology;
        }
        let mut ways = remote.ways.lock();
        remote.wanted.wait_for(&mut ways, LOOK_INTERVAL);
    }
    follow(shared, remote, HashMap::new());
}

fn is_wanted(server: &Server) -> bool {
    server.channels.used(Space::Channel) + server.channels.used(Space::Pattern) > 0
}

/// The other nodes that are there, and how they are reached.
fn peers(server: &Server, topology: &Topology) -> HashMap<String, Target> {
    let over_tls = server.config.bool("tls-cluster");
    let others = topology.nodes.iter().filter(|node| node.is_live);
    let others = others.filter(|node| node.id.as_str() != server.cluster.identity.node_id);
    let target = |node: &cluster::topology::Node| {
        let port = if over_tls { node.record.tls_port } else { node.record.port };
        (node.id.to_string(), Target { host: node.record.ip.clone(), port })
    };
    others.map(target).collect()
}

/// Ends the ways that lead nowhere, and begins those that are lacking.
fn follow(shared: &Arc<Shared>, remote: &RemoteSubscriptions, mut peers: HashMap<String, Target>) {
    let mut ways = remote.ways.lock();
    ways.retain(|node, way| {
        let stays = peers.get(node).is_some_and(|target| *target == way.target);
        match stays {
            true => drop(peers.remove(node)),
            false => way.line.end(),
        }
        stays
    });
    for (node, target) in peers {
        let line = Arc::<Line>::default();
        let (shared, for_thread, to) = (shared.clone(), line.clone(), target.clone());
        let body = move || keep_up(&shared, &for_thread, &to);
        let thread = thread::Builder::new().name("subscription".to_owned()).stack_size(THREAD_STACK_BYTES);
        match thread.spawn(body) {
            Ok(_) => drop(ways.insert(node, Way { target, line })),
            Err(error) => tracing::warn!("Can't start a thread to hear node {node}: {error}"),
        }
    }
}

/// A way's thread: connects, and again, until the way is over.
fn keep_up(shared: &Shared, line: &Line, target: &Target) {
    let mut told = None;
    while !line.is_over.load(SeqCst) && !shared.is_stopping() {
        let Err(reason) = talk(shared, line, target);
        *line.bell.lock() = None;
        if line.is_over.load(SeqCst) {
            return;
        }
        if told.as_ref() != Some(&reason) {
            tracing::info!("Subscribers here do not hear of node {}:{}: {reason}", target.host, target.port);
            told = Some(reason);
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Connects, says what is wanted here, and delivers what comes; why it has ended.
fn talk(shared: &Shared, line: &Line, target: &Target) -> Result<std::convert::Infallible, String> {
    let server = &shared.server;
    let wanted = Wanted {
        patience: PATIENCE,
        read_wait: PATIENCE,
        is_undelayed: true,
        is_over_tls: server.config.bool("tls-cluster"),
    };
    let (socket, _) = Socket::connect(&server.config, &shared.tls, target, &wanted).map_err(in_words)?;
    let (rung, bell) = hang_bell().map_err(|error| error.to_string())?;
    // From here on changes are told; what there was before that is in the lists.
    line.changes.lock().clear();
    *line.bell.lock() = Some(rung);
    let mut way = Talk { socket, bell, input: Vec::new(), heard: Instant::now(), is_asked: false };
    way.send(&greeting(server))?;
    let mut all = Vec::new();
    for space in [Space::Channel, Space::Pattern] {
        server.channels.list(space, None).iter().for_each(|name| put(&mut all, space, name, true));
    }
    way.send(&all)?;
    while !line.is_over.load(SeqCst) && !shared.is_stopping() {
        let changes = std::mem::take(&mut *line.changes.lock());
        let mut out = Vec::new();
        changes.iter().for_each(|change| put(&mut out, change.space, &change.name, change.is_wanted));
        way.send(&out)?;
        way.hear(server)?;
    }
    Err("it is not wanted any more".to_owned())
}

fn greeting(server: &Server) -> Vec<u8> {
    let (user, password) = (server.config.bytes("masteruser"), server.config.bytes("masterauth"));
    let user = if user.is_empty() { b"default".to_vec() } else { user };
    let mut words: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if !password.is_empty() {
        words.extend([b"AUTH".as_slice(), &user, &password]);
    }
    words.extend([b"SETNAME".as_slice(), b"halcyon-subscriber"]);
    let mut out = Vec::new();
    write_command(&mut out, words);
    out
}

fn put(out: &mut Vec<u8>, space: Space, name: &[u8], is_wanted: bool) {
    let option: &[u8] = if is_wanted { b"halcyon-listen" } else { b"halcyon-unlisten" };
    let kind: &[u8] = if space == Space::Pattern { b"p" } else { b"c" };
    write_command(out, [b"REPLCONF".as_slice(), option, &[kind, name].concat()]);
}

fn in_words(reason: Unconnected) -> String {
    match reason {
        Unconnected::Name(reason) | Unconnected::Other(reason) => reason,
        Unconnected::Address(error) | Unconnected::Handshake(error) => error.to_string(),
    }
}

/// A bell, and where it is heard. Nobody waits at either end.
fn hang_bell() -> io::Result<(UnixStream, UnixStream)> {
    let (rung, heard) = UnixStream::pair()?;
    rung.set_nonblocking(true)?;
    heard.set_nonblocking(true)?;
    Ok((rung, heard))
}

/// A connection to a node.
struct Talk {
    socket: Socket,
    bell: UnixStream,
    input: Vec<u8>,
    heard: Instant,
    is_asked: bool,
}

impl Talk {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| error.to_string())
    }

    /// Delivers what has come, or waits a moment for something.
    fn hear(&mut self, server: &Server) -> Result<(), String> {
        let is_readable =
            self.socket.is_readable_within(SILENCE, &self.bell).map_err(|error| error.to_string())?;
        let mut rings = [0; 64];
        while (&self.bell).read(&mut rings).is_ok_and(|read| read == rings.len()) {}
        if !is_readable {
            return self.ask_for_sign();
        }
        let filled = self.input.len();
        self.input.resize(filled + READ_BYTES, 0);
        let read = self.socket.read(&mut self.input[filled..]);
        self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err("it has closed the connection".to_owned()),
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(error.to_string());
            }
            _ => {}
        }
        (self.heard, self.is_asked) = (Instant::now(), false);
        self.deliver(server)
    }

    fn ask_for_sign(&mut self) -> Result<(), String> {
        let silent = self.heard.elapsed();
        if silent > 2 * SILENCE {
            return Err("it does not answer".to_owned());
        }
        if silent > SILENCE && !std::mem::replace(&mut self.is_asked, true) {
            let mut out = Vec::new();
            write_command(&mut out, [b"PING".as_slice()]);
            self.send(&out)?;
        }
        Ok(())
    }

    fn deliver(&mut self, server: &Server) -> Result<(), String> {
        let mut used = 0;
        while let Some((words, bytes)) = take_frame(&self.input[used..])? {
            match words[..] {
                [b"message", channel, message] => {
                    deliver_from_node(server, Space::Channel, channel, channel, message);
                }
                [b"pmessage", pattern, channel, message] => {
                    deliver_from_node(server, Space::Pattern, pattern, channel, message);
                }
                [error] if error.starts_with(b"-") => {
                    return Err(String::from_utf8_lossy(&error[1..]).into_owned());
                }
                _ => {}
            }
            used += bytes;
        }
        self.input.drain(..used);
        Ok(())
    }
}
