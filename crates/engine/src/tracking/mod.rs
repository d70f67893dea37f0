//! Client-side caching: who is to be told that a key has changed.
//!
//! Two ways, as in Redis. By default the server remembers which connection has read which key ([`table::Table`], bounded by
//! `tracking-table-max-keys`), tells it once when the key is written, and forgets it. With BCAST it remembers nothing but
//! prefixes, and tells of every write under them. Reading a key, and telling of its writing, both happen under the key's
//! stripe, so no write falls between.

mod commands;
mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::{Mutex, RwLock};
use resp::{Encoder, Proto};

use crate::clients::Client;
use crate::ctx::Ctx;
use crate::letter::Letter;
use crate::server::Server;
use crate::worker::Worker;
pub(crate) use commands::Wanted;
use table::Table;

/// Which keys a connection asks to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those it has read.
    Default,
    /// Those it has read with the command after CLIENT CACHING YES.
    OptIn,
    /// Those it has read, but for the command after CLIENT CACHING NO.
    OptOut,
    /// All under its prefixes.
    Broadcast,
}

/// How a connection is tracked: CLIENT TRACKING.
pub struct Tracker {
    /// The connection.
    pub client: Arc<Client>,
    /// Who is told in its place.
    pub redirect: Option<u64>,
    /// Which keys.
    pub mode: Mode,
    /// Its own writes are not told.
    pub noloop: bool,
    /// With BCAST: the prefixes.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// The connection to be told in its place is gone.
    pub is_broken: AtomicBool,
}

/// A connection's own part.
pub struct TrackingState {
    tracker: Arc<Tracker>,
    /// CLIENT CACHING, for the next command or transaction.
    caching: Option<bool>,
}

impl TrackingState {
    /// True if what the command that runs reads is to be remembered.
    fn remembers(&self) -> bool {
        match self.tracker.mode {
            Mode::Default => true,
            Mode::OptIn => self.caching == Some(true),
            Mode::OptOut => self.caching != Some(false),
            Mode::Broadcast => false,
        }
    }

    /// A command or transaction is over.
    pub(crate) fn forget_caching(&mut self) {
        self.caching = None;
    }
}

/// Trackers by their connections' ids.
type ById = BTreeMap<u64, Arc<Tracker>>;

/// Everybody who is to be told.
#[derive(Default)]
pub struct Tracking {
    table: Table,
    trackers: Mutex<HashMap<u64, Arc<Tracker>>>,
    /// The trackers with a count of those alive, so that nobody looks further while there is none.
    count: AtomicUsize,
    /// BCAST: connections by prefix.
    prefixes: RwLock<BTreeMap<Box<[u8]>, ById>>,
    prefix_count: AtomicUsize,
}

impl Tracking {
    /// True if anybody is to be told of anything.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Connections that are tracked.
    pub fn clients(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.table.keys()
    }

    /// Pairs of a key and a connection that are remembered.
    pub fn items(&self) -> usize {
        self.table.items()
    }

    /// Prefixes that somebody asked for.
    pub fn prefixes(&self) -> usize {
        self.prefix_count.load(Relaxed)
    }

    fn start(&self, tracker: Arc<Tracker>) {
        let id = tracker.client.id;
        if !tracker.prefixes.is_empty() {
            let mut prefixes = self.prefixes.write();
            for prefix in &tracker.prefixes {
                prefixes.entry(prefix.clone()).or_default().insert(id, tracker.clone());
            }
            self.prefix_count.store(prefixes.len(), Relaxed);
        }
        tracker.client.tell_tracking(Some(&tracker));
        if self.trackers.lock().insert(id, tracker).is_none() {
            self.count.fetch_add(1, SeqCst);
        }
    }

    /// The connection is not tracked any more. What it has read is forgotten as it is written.
    pub fn stop(&self, client: &Client) {
        let Some(tracker) = self.trackers.lock().remove(&client.id) else { return };
        self.count.fetch_sub(1, SeqCst);
        client.tell_tracking(None);
        if tracker.prefixes.is_empty() {
            return;
        }
        let mut prefixes = self.prefixes.write();
        for prefix in &tracker.prefixes {
            if let Some(clients) = prefixes.get_mut(prefix) {
                clients.remove(&client.id);
                if clients.is_empty() {
                    prefixes.remove(prefix);
                }
            }
        }
        self.prefix_count.store(prefixes.len(), Relaxed);
    }

    fn tracker(&self, client_id: u64) -> Option<Arc<Tracker>> {
        self.trackers.lock().get(&client_id).cloned()
    }
}

/// Sends a connection a letter: from a worker, or from no worker's thread.
fn send(server: &Server, worker: Option<&mut Worker>, client: &Client, bytes: Arc<[u8]>) {
    let letter = |token, client_id| Letter::Push { token, client_id, bytes };
    match worker {
        Some(own) => own.send_to(server, client, letter),
        None => server.post(client, letter),
    }
}

/// What is told: these keys, or all (`None`).
fn encode(keys: Option<&[&[u8]]>, proto: Proto) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes, proto);
    if proto == Proto::V3 {
        out.push(2);
        out.bulk(b"invalidate");
    } else {
        out.array(3);
        out.bulk(b"message");
        out.bulk(b"__redis__:invalidate");
    }
    match keys {
        Some(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
        None if proto == Proto::V3 => out.null(),
        None => out.null_array(),
    }
    bytes.into()
}

/// Tells a connection, or who is told in its place. `encoded` gives the bytes for a protocol version.
fn tell(
    server: &Server,
    worker: Option<&mut Worker>,
    tracker: &Tracker,
    encoded: &mut dyn FnMut(Proto) -> Arc<[u8]>,
) {
    let target = match tracker.redirect {
        None => tracker.client.clone(),
        Some(id) => match server.clients.get(id) {
            Some(target) => target,
            None => return tell_broken(server, worker, tracker, id),
        },
    };
    if target.resp.load(Relaxed) > 2 {
        send(server, worker, &target, encoded(Proto::V3));
    } else if tracker.redirect.is_some() && target.is_subscribed() {
        send(server, worker, &target, encoded(Proto::V2));
    }
    // RESP2 has no messages but for who listens to a channel: the others are not told, as in Redis.
}

fn tell_broken(server: &Server, worker: Option<&mut Worker>, tracker: &Tracker, id: u64) {
    tracker.is_broken.store(true, Relaxed);
    tracker.client.tell_tracking(Some(tracker));
    if tracker.client.resp.load(Relaxed) > 2 {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes, Proto::V3);
        out.push(2);
        out.bulk(b"tracking-redir-broken");
        out.int(id as i64);
        send(server, worker, &tracker.client, bytes.into());
    }
}

/// A key was written by `writer`, or ended by itself: tells those who have read it. The caller holds its stripe.
pub fn invalidate(server: &Server, mut worker: Option<&mut Worker>, key: &[u8], writer: Option<u64>) {
    for id in server.tracking.table.take(key) {
        let Some(tracker) = server.tracking.tracker(id) else { continue };
        if tracker.mode == Mode::Broadcast || (tracker.noloop && writer == Some(id)) {
            continue;
        }
        tell(server, worker.as_deref_mut(), &tracker, &mut |proto| encode(Some(&[key]), proto));
    }
}

/// Keys were written by `writer`: tells those who asked for their prefixes. One message a prefix.
pub fn broadcast(server: &Server, mut worker: Option<&mut Worker>, keys: &[&[u8]], writer: Option<u64>) {
    if server.tracking.prefixes() == 0 {
        return;
    }
    let prefixes = server.tracking.prefixes.read();
    for (prefix, trackers) in prefixes.iter() {
        let under: Vec<&[u8]> = keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
        if under.is_empty() {
            continue;
        }
        let mut encoded: [Option<Arc<[u8]>>; 2] = [None, None];
        for (id, tracker) in trackers {
            if tracker.noloop && writer == Some(*id) {
                continue;
            }
            tell(server, worker.as_deref_mut(), tracker, &mut |proto| {
                let place = &mut encoded[usize::from(proto == Proto::V3)];
                place.get_or_insert_with(|| encode(Some(&under), proto)).clone()
            });
        }
    }
}

/// Databases were emptied: everybody is told to forget everything.
pub fn invalidate_all(server: &Server, mut worker: Option<&mut Worker>) {
    server.tracking.table.clear();
    let trackers: Vec<Arc<Tracker>> = server.tracking.trackers.lock().values().cloned().collect();
    for tracker in trackers {
        tell(server, worker.as_deref_mut(), &tracker, &mut |proto| encode(None, proto));
    }
}

impl Ctx<'_> {
    /// Remembers what a reading command of a tracked connection has read, under the stripes of its keys.
    pub(crate) fn remember_read<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let server = self.server();
        let Some(tracking) = &self.session_ref().tracking else { return };
        if !tracking.remembers() {
            return;
        }
        let id = self.session_ref().client.id;
        let keys_max = server.config.hot().tracking_table_max_keys() as usize;
        for key in keys {
            if let Some(forgotten) = server.tracking.table.remember(key, id, keys_max) {
                for id in forgotten.clients {
                    let Some(tracker) = server.tracking.tracker(id) else { continue };
                    let keys: &[&[u8]] = &[&forgotten.key];
                    // Not held back with what a script sets off: the key is forgotten, even if the script is given up.
                    tell(server, None, &tracker, &mut |proto| encode(Some(keys), proto));
                }
            }
        }
    }
}
