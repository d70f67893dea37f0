//! What commands do with subscriptions: the connection's, its worker's and everybody's books are kept together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use resp::Encoder;

use super::channels::Counts;
use super::{EventMask, Publication, Published, Space, Subscriptions};
use crate::args::Args;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::letter::Letter;
use crate::server::Server;
use crate::session::Session;
use crate::worker::Worker;

impl Ctx<'_> {
    /// Subscribes the connection to a name; returns the count that its answer tells.
    pub(crate) fn subscribe(&mut self, space: Space, name: &[u8]) -> usize {
        let (server, index) = (self.server(), self.worker().index);
        let session = self.session();
        let token = session.client.token.load(Relaxed) as usize;
        let subscriptions = session.subscriptions.get_or_insert_with(|| {
            server.channels.clients.fetch_add(1, Relaxed);
            Box::default()
        });
        let is_new = subscriptions.names_mut(space).insert(name.into());
        let count = subscriptions.count_told(space);
        session.tell_subscriptions();
        if is_new {
            self.worker().subscribers.add(space, name, token);
            server.channels.add(space, name, index);
        }
        count
    }

    /// Ends a subscription, if there is one; returns the count that its answer tells.
    pub(crate) fn unsubscribe(&mut self, space: Space, name: &[u8]) -> usize {
        let server = self.server();
        let (worker, session) = self.worker_and_session_mut();
        unsubscribe(server, worker, session, space, name)
    }

    /// Ends all subscriptions of the connection.
    pub(crate) fn unsubscribe_all(&mut self) {
        for space in Space::EVERY {
            for name in self.subscribed(space) {
                self.unsubscribe(space, &name);
            }
        }
    }

    /// The names that the connection has subscribed to.
    pub(crate) fn subscribed(&self, space: Space) -> Vec<Box<[u8]>> {
        let subscriptions = self.session_ref().subscriptions.as_ref();
        subscriptions.map(|all| all.names(space).iter().cloned().collect()).unwrap_or_default()
    }

    /// The count that an answer tells now.
    pub(crate) fn subscription_count(&self, space: Space) -> usize {
        self.session_ref().subscriptions.as_ref().map_or(0, |all| all.count_told(space))
    }

    /// In cluster mode, an error if shard channels are of several slots.
    pub(crate) fn check_one_slot(&self, names: Args<'_>) -> CmdResult {
        let mut slots = names.iter().map(base::slot::slot_of);
        let first = slots.next();
        let is_one = !self.server().cluster.enabled || slots.all(|slot| Some(slot) == first);
        if is_one { Ok(()) } else { Err(Fault::CROSS_SLOT) }
    }

    /// Sends a message to all subscribers; returns how many there are.
    pub(crate) fn publish(&mut self, space: Space, channel: &[u8], message: &[u8]) -> u64 {
        publish(self.server(), Some(self.worker()), space, channel, message)
    }

    /// As [`Ctx::publish`] to a channel, and to subscribers at other nodes of the cluster, who are not counted.
    pub(crate) fn publish_everywhere(&mut self, channel: &[u8], message: &[u8]) -> u64 {
        let server = self.server();
        if server.channels.any_node() {
            let mut to = Recipients::default();
            to.add(Space::NodeChannel, channel, server.channels.counts(Space::NodeChannel, channel));
            for (pattern, counts) in server.channels.patterns_of(Space::NodePattern, channel) {
                to.add(Space::NodePattern, &pattern, counts);
            }
            to.send(server, Some(self.worker()), channel, message);
        }
        self.publish(Space::Channel, channel, message)
    }

    /// Publishes an event of a key, if it is asked for. What comes from another node with its slots was told of there: so it is
    /// here, and on this node's replicas.
    pub(crate) fn publish_event(&mut self, db: usize, class: Event, name: &str, key: &[u8]) {
        if self.session_ref().importing || self.worker().is_unseen {
            return;
        }
        publish_event(self.server(), Some(self.worker()), db, class, name, key);
    }
}

/// Sends a message to all subscribers; returns how many there are. Those of `worker` get it after its turn.
pub fn publish(
    server: &Server,
    worker: Option<&mut Worker>,
    space: Space,
    channel: &[u8],
    message: &[u8],
) -> u64 {
    if !server.channels.any(space) {
        return 0;
    }
    let mut to = Recipients::default();
    to.add(space, channel, server.channels.counts(space, channel));
    if space == Space::Channel {
        for (pattern, counts) in server.channels.patterns_of(Space::Pattern, channel) {
            to.add(Space::Pattern, &pattern, counts);
        }
    }
    to.send(server, worker, channel, message)
}

/// Sends what another node's publisher has said to those here who have subscribed to `name`. Not on a worker.
pub fn deliver_from_node(server: &Server, space: Space, name: &[u8], channel: &[u8], message: &[u8]) {
    let mut to = Recipients::default();
    to.add(space, name, server.channels.counts(space, name));
    to.send(server, None, channel, message);
}

/// Who gets a message.
#[derive(Default)]
struct Recipients {
    workers: Vec<u16>,
    names: Vec<Published>,
    count: u64,
}

impl Recipients {
    fn add(&mut self, space: Space, name: &[u8], counts: Counts) {
        if counts.is_empty() {
            return;
        }
        self.names.push(Published::new(space, name));
        for (index, count) in counts {
            self.count += count;
            if !self.workers.contains(&index) {
                self.workers.push(index);
            }
        }
    }

    /// Sends it; how many connections get it.
    fn send(self, server: &Server, mut worker: Option<&mut Worker>, channel: &[u8], message: &[u8]) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let publication =
            Arc::new(Publication { channel: channel.into(), message: message.into(), to: self.names });
        for index in self.workers {
            let letter = Letter::Publish(publication.clone());
            match worker.as_deref_mut() {
                Some(own) => own.send(server, index, letter),
                None => server.post_to(usize::from(index), letter),
            }
        }
        self.count
    }
}

/// Publishes an event of a key, if `notify-keyspace-events` asks for it.
pub fn publish_event(
    server: &Server,
    mut worker: Option<&mut Worker>,
    db: usize,
    class: Event,
    name: &str,
    key: &[u8],
) {
    let mask = server.config.hot().event_mask();
    if !mask.contains(EventMask::of(class)) {
        return;
    }
    if mask.contains(EventMask::KEYSPACE) {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
        publish(server, worker.as_deref_mut(), Space::Channel, &channel, name.as_bytes());
    }
    if mask.contains(EventMask::KEYEVENT) {
        publish(server, worker, Space::Channel, format!("__keyevent@{db}__:{name}").as_bytes(), key);
    }
}

/// Ends a subscription of a connection of `worker`, if there is one; returns the count that its answer tells.
fn unsubscribe(
    server: &Server,
    worker: &mut Worker,
    session: &mut Session,
    space: Space,
    name: &[u8],
) -> usize {
    let token = session.client.token.load(Relaxed) as usize;
    let Some(subscriptions) = &mut session.subscriptions else { return 0 };
    let was_there = subscriptions.names_mut(space).remove(name);
    let (count, none_left) = (subscriptions.count_told(space), subscriptions.is_empty());
    if was_there {
        worker.subscribers.remove(space, name, token);
        server.channels.remove(space, name, worker.index);
    }
    if none_left {
        session.subscriptions = None;
        server.channels.clients.fetch_sub(1, Relaxed);
    }
    session.tell_subscriptions();
    count
}

/// The subscriptions of a worker's connections to shard channels of slots that have left: the connections' numbers, and the
/// channels.
pub fn left_shards(server: &Server, worker: &Worker) -> Vec<(usize, Box<[u8]>)> {
    let has_left = |name: &[u8]| !server.cluster.owns(base::slot::slot_of(name));
    worker.subscribers.all(Space::Shard).filter(|(_, name)| has_left(name)).collect()
}

/// Ends a connection's subscription to a shard channel; what it is told.
pub fn leave_shard(server: &Server, worker: &mut Worker, session: &mut Session, name: &[u8]) -> Arc<[u8]> {
    let count = unsubscribe(server, worker, session, Space::Shard, name);
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes, session.proto);
    out.push(3);
    out.bulk(Space::Shard.unsubscribed().as_bytes());
    out.bulk(name);
    out.int(count as i64);
    bytes.into()
}

/// Ends all subscriptions of a connection of `worker`.
pub fn unsubscribe_all(server: &Server, worker: &mut Worker, session: &mut Session) {
    let Some(subscriptions) = session.subscriptions.take() else { return };
    let token = session.client.token.load(Relaxed) as usize;
    for space in Space::EVERY {
        for name in Subscriptions::names(&subscriptions, space) {
            worker.subscribers.remove(space, name, token);
            server.channels.remove(space, name, worker.index);
        }
    }
    server.channels.clients.fetch_sub(1, Relaxed);
    session.tell_subscriptions();
}
