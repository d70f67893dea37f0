//! One client: where its requests go, and what it does when it is told to go elsewhere. It owns no socket and no clock: what
//! happened comes in, what to do comes out.
//!
//! A client has one connection to each node, as a pool of one: what finds it taken waits for it, in order. Every request that the
//! application has under way at once is a thread of its own, but for hiredis-vip, whose client has one request at a time.

use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;
use resp::parse::Value;

use super::kind::Kind;
use super::topology::{Map, Node, Reader, Redirect};

/// redis-py asks for the topology at so many redirects, and corrects single slots before.
const REINITIALIZE_STEPS: u8 = 5;

/// A request of the application.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of the key.
    pub key: u32,
    /// The slot of the key.
    pub slot: u16,
    /// A SET, not a GET.
    pub is_write: bool,
    /// When the application wanted it sent.
    pub due_ns: u64,
    /// Which phase of the run that was in.
    pub phase: u16,
    /// How often it was sent elsewhere or again.
    pub tries: u8,
}

/// One of a client's connections.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The one that it keeps to this node.
    Kept(Node),
    /// One that is made to ask for the topology, and closed then. A client has one of these at a time.
    Once(Node),
}

impl Line {
    /// Where it leads.
    pub fn node(self) -> Node {
        match self {
            Line::Kept(node) | Line::Once(node) => node,
        }
    }
}

/// What is sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The request; with ASKING before it, whose answer does not matter.
    Request { job: Job, is_asking: bool },
    /// CLUSTER SLOTS.
    Slots,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this, on a new connection if there is none; exactly one of [`Client::answered`] and [`Client::lost`] follows.
    Send(Line, Sent),
    /// Close this connection.
    Close(Line),
    /// Call [`Client::again`] with it at this time.
    Later { at_ns: u64, job: Job },
    /// The application has its answer, or this error.
    Done(Job, Result<(), String>),
    /// For the counts: it was told to go elsewhere.
    Redirected { is_ask: bool },
}

/// What a client is given to do something with.
pub struct Turn<'a> {
    /// Now.
    pub now_ns: u64,
    /// Names of nodes, and what they say.
    pub reader: &'a mut Reader,
    /// For go-redis, which asks nodes in random order.
    pub random: &'a mut Rng,
    /// Where actions go.
    pub actions: &'a mut Vec<Action>,
}

/// What a connection is there for.
#[derive(Copy, Clone, Debug)]
enum Errand {
    Request {
        job: Job,
        is_asking: bool,
    },
    /// CLUSTER SLOTS, and the request whose thread waits for it, with where it was told to go.
    Slots(Option<(Job, Node)>),
}

#[derive(Default)]
struct Pool {
    taken_by: Option<Errand>,
    waiting: VecDeque<Errand>,
}

/// A client. [`Turn::actions`] says what it wants done.
pub struct Client {
    kind: Kind,
    map: Rc<Map>,
    map_since_ns: u64,
    pools: Vec<Pool>,
    /// hiredis-vip: the node that it asks first, the request that waits meanwhile, and the nodes that are left to ask.
    seed: Node,
    once: Option<Job>,
    to_ask: Vec<Node>,
    /// Requests that may not be routed yet: for the lock of Jedis 2.9, or because hiredis-vip is at another one.
    held: VecDeque<Job>,
    is_held: bool,
    /// Jedis 2.9: connections whose threads wait for the lock, to ask on them.
    askers: VecDeque<Node>,
    is_asking: bool,
    asks_again_from_ns: u64,
    redirects: u8,
}

impl Client {
    /// A client that has just read this map. `seed` is the first node of its configuration.
    pub fn new(kind: Kind, map: Rc<Map>, seed: Node, now_ns: u64) -> Client {
        Client {
            kind,
            map,
            map_since_ns: now_ns,
            pools: Vec::new(),
            seed,
            once: None,
            to_ask: Vec::new(),
            held: VecDeque::new(),
            is_held: false,
            askers: VecDeque::new(),
            is_asking: false,
            asks_again_from_ns: 0,
            redirects: 0,
        }
    }

    /// The library whose rules it follows.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The application wants this.
    pub fn request(&mut self, job: Job, turn: &mut Turn<'_>) {
        if self.is_held {
            self.held.push_back(job);
            return;
        }
        self.is_held = self.kind == Kind::HiredisVip;
        self.route(job, turn);
    }

    /// The time has come that [`Action::Later`] named.
    pub fn again(&mut self, job: Job, turn: &mut Turn<'_>) {
        self.route(job, turn);
    }

    /// The connection has the answer to what was sent on it last: a value, and its bytes.
    pub fn answered(&mut self, line: Line, bytes: &[u8], value: &Value, turn: &mut Turn<'_>) {
        if let Line::Once(node) = line {
            turn.actions.push(Action::Close(line));
            match turn.reader.map(bytes, value, node) {
                Ok(map) => self.learned(map, turn.now_ns),
                Err(error) => return self.ask_next_seed(&error, turn),
            }
            self.to_ask.clear();
            let job = self.once.take().expect("once: somebody waits for the answer");
            return self.route(job, turn);
        }
        let node = line.node();
        match self.pool(node).taken_by.take() {
            None => {}
            Some(Errand::Slots(waits)) => {
                self.told_slots(node, turn.reader.map(bytes, value, node), waits, turn)
            }
            Some(Errand::Request { job, .. }) => match value {
                Value::Error(error) | Value::BulkError(error) => self.refused(job, node, error, turn),
                _ => self.finish(job, Ok(()), turn),
            },
        }
        self.give_back(node, turn);
    }

    /// The connection ended, or could not be made.
    pub fn lost(&mut self, line: Line, turn: &mut Turn<'_>) {
        const LOST: &str = "connection lost";
        if let Line::Once(_) = line {
            return self.ask_next_seed(LOST, turn);
        }
        let node = line.node();
        match self.pool(node).taken_by.take() {
            None => {}
            Some(Errand::Slots(waits)) => self.told_slots(node, Err(LOST.to_owned()), waits, turn),
            Some(Errand::Request { job, .. }) => self.finish(job, Err(LOST.to_owned()), turn),
        }
        self.give_back(node, turn);
    }

    fn pool(&mut self, node: Node) -> &mut Pool {
        let at = usize::from(node);
        if self.pools.len() <= at {
            self.pools.resize_with(at + 1, Pool::default);
        }
        &mut self.pools[at]
    }

    fn route(&mut self, job: Job, turn: &mut Turn<'_>) {
        let age_ns = turn.now_ns.saturating_sub(self.map_since_ns);
        if self.kind.facts().topology_age_max_ns.is_some_and(|age_max_ns| age_ns > age_max_ns) {
            self.ask_besides(turn);
        }
        match self.map.owner(job.slot) {
            Some(node) => self.take(node, Errand::Request { job, is_asking: false }, turn),
            None => self.finish(job, Err("the slot is nobody's".to_owned()), turn),
        }
    }

    /// Does this on the connection to that node, once it is free.
    fn take(&mut self, node: Node, errand: Errand, turn: &mut Turn<'_>) {
        let pool = self.pool(node);
        if pool.taken_by.is_some() {
            pool.waiting.push_back(errand);
            return;
        }
        pool.taken_by = Some(errand);
        turn.actions.push(Action::Send(Line::Kept(node), sent(&errand)));
    }

    /// The connection is free, unless its thread has kept it for something else.
    fn give_back(&mut self, node: Node, turn: &mut Turn<'_>) {
        let pool = self.pool(node);
        if pool.taken_by.is_none()
            && let Some(errand) = pool.waiting.pop_front()
        {
            self.take(node, errand, turn);
        }
    }

    fn finish(&mut self, job: Job, outcome: Result<(), String>, turn: &mut Turn<'_>) {
        turn.actions.push(Action::Done(job, outcome));
        if self.kind == Kind::HiredisVip {
            match self.held.pop_front() {
                Some(next) => self.route(next, turn),
                None => self.is_held = false,
            }
        }
    }

    /// An error: go elsewhere, try again, or tell the application.
    fn refused(&mut self, mut job: Job, node: Node, error: &[u8], turn: &mut Turn<'_>) {
        let redirect = turn.reader.redirect(error, node);
        if let Some(redirect) = redirect {
            turn.actions.push(Action::Redirected { is_ask: redirect.is_ask });
        }
        job.tries += 1;
        let may_try = job.tries <= self.kind.facts().tries_max;
        match redirect {
            Some(Redirect { is_ask: false, slot, to }) => {
                // Libraries look at what MOVED says before they count.
                self.moved(job, node, slot, to, may_try, turn);
            }
            Some(Redirect { to, .. }) if may_try => {
                if self.kind == Kind::GoRedis {
                    self.ask_besides(turn);
                }
                self.take(to, Errand::Request { job, is_asking: true }, turn);
            }
            Some(_) => self.give_up(job, turn),
            None => match self.kind.retries_after_ns(error, job.tries) {
                Some(0) if may_try => self.route(job, turn),
                Some(wait_ns) if may_try => {
                    turn.actions.push(Action::Later { at_ns: turn.now_ns + wait_ns, job });
                }
                _ => self.finish(job, Err(String::from_utf8_lossy(error).into_owned()), turn),
            },
        }
    }

    fn give_up(&mut self, job: Job, turn: &mut Turn<'_>) {
        self.finish(job, Err("too many redirects".to_owned()), turn);
    }

    /// `node` said that the slot is `to`'s: where the kinds differ.
    fn moved(&mut self, job: Job, node: Node, slot: u16, to: Node, may_try: bool, turn: &mut Turn<'_>) {
        if !may_try {
            return self.give_up(job, turn);
        }
        let goes_on = Errand::Request { job, is_asking: false };
        match self.kind {
            Kind::Jedis2 => {
                self.pool(node).taken_by = Some(Errand::Slots(Some((job, to))));
                if self.is_held {
                    return self.askers.push_back(node);
                }
                self.is_held = true;
                turn.actions.push(Action::Send(Line::Kept(node), Sent::Slots));
            }
            Kind::Jedis7 if self.is_asking => self.take(to, goes_on, turn),
            Kind::Jedis7 => {
                self.is_asking = true;
                self.pool(node).taken_by = Some(Errand::Slots(Some((job, to))));
                turn.actions.push(Action::Send(Line::Kept(node), Sent::Slots));
            }
            Kind::HiredisVip => {
                self.once = Some(job);
                let seed = self.seed;
                self.to_ask = self.map.order.iter().copied().filter(|other| *other != seed).rev().collect();
                turn.actions.push(Action::Send(Line::Once(seed), Sent::Slots));
            }
            Kind::RedisPy => {
                self.redirects = (self.redirects + 1) % REINITIALIZE_STEPS;
                if self.redirects != 0 {
                    Rc::make_mut(&mut self.map).set_owner(slot, to);
                    return self.route(job, turn);
                }
                // Its thread gives the connection back first, and a free one is taken.
                let first = self.map.order.first().copied().unwrap_or(node);
                self.take(first, Errand::Slots(Some((job, to))), turn);
            }
            Kind::GoRedis => {
                self.ask_besides(turn);
                self.take(to, goes_on, turn);
            }
        }
    }

    /// go-redis: asks a node for the topology while requests go on, unless that was done lately.
    fn ask_besides(&mut self, turn: &mut Turn<'_>) {
        if self.is_asking || turn.now_ns < self.asks_again_from_ns {
            return;
        }
        let Some(node) = turn.random.choice(self.map.order.iter().copied()) else { return };
        self.is_asking = true;
        self.take(node, Errand::Slots(None), turn);
    }

    /// hiredis-vip: the answer was none; it asks the other nodes that it knows.
    fn ask_next_seed(&mut self, error: &str, turn: &mut Turn<'_>) {
        if let Some(node) = self.to_ask.pop() {
            turn.actions.push(Action::Send(Line::Once(node), Sent::Slots));
        } else if let Some(job) = self.once.take() {
            self.finish(job, Err(format!("route update error: {error}")), turn);
        }
    }

    fn learned(&mut self, map: Rc<Map>, now_ns: u64) {
        self.map = map;
        self.map_since_ns = now_ns;
    }

    /// A kept connection brought an answer to CLUSTER SLOTS, or none.
    fn told_slots(
        &mut self,
        node: Node,
        map: Result<Rc<Map>, String>,
        waits: Option<(Job, Node)>,
        turn: &mut Turn<'_>,
    ) {
        let facts = self.kind.facts();
        self.is_asking = false;
        let error = map.map(|map| self.learned(map, turn.now_ns)).err();
        if error.is_none() {
            // After a failure there is no waiting.
            self.asks_again_from_ns = turn.now_ns + facts.cooldown_ns;
        }
        let Some((job, to)) = waits else { return };
        if self.kind == Kind::Jedis2 {
            // Its thread waits for the lock like all others, the first of them; it may have had it, or waited to ask.
            self.held.push_front(job);
            match self.askers.iter().position(|asker| *asker == node) {
                Some(at) => drop(self.askers.remove(at)),
                None => self.pass_lock_on(turn),
            }
            return;
        }
        match error {
            Some(error) => self.finish(job, Err(format!("no topology of node {node}: {error}")), turn),
            None if self.kind == Kind::Jedis7 => {
                self.take(to, Errand::Request { job, is_asking: false }, turn)
            }
            None => self.route(job, turn),
        }
    }

    /// Jedis 2.9: to the next thread that was told MOVED meanwhile, which asks once more; else all may go on.
    fn pass_lock_on(&mut self, turn: &mut Turn<'_>) {
        if let Some(node) = self.askers.pop_front() {
            turn.actions.push(Action::Send(Line::Kept(node), Sent::Slots));
            return;
        }
        self.is_held = false;
        for job in std::mem::take(&mut self.held) {
            self.route(job, turn);
        }
    }
}

fn sent(errand: &Errand) -> Sent {
    match *errand {
        Errand::Request { job, is_asking } => Sent::Request { job, is_asking },
        Errand::Slots(_) => Sent::Slots,
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
