//! The loop: requests when they are due, answers when they come, and what clients want done. One thread, as in the server.
//!
//! Requests are due at random, at a rate, and of random clients and keys; that they are late is their servers' fault or, where no
//! request of the same client was in the way, this loop's, which is counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base::slot::slot_of;
use fastrand::Rng;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use slab::Slab;

use super::client::{Action, Client, Job, Line, Sent, Turn};
use super::kind::Kind;
use super::options::Options;
use super::phases::Mark;
use super::report::{Phase, Report, Span, Tally};
use super::servers::{Figures, key_name};
use super::topology::{Map, Node, Reader};
use super::wire::{Progress, Wire};

/// Tokens of events that are no connection's.
pub const WAKER: usize = 0;
const TIMER: usize = 1;
const WIRES_FROM: usize = 2;

const EVENTS_MAX: usize = 256;
const READ_BYTES: usize = 64 << 10;
/// Connections that are being made at once in the beginning: fewer than servers let wait.
const CONNECTING_MAX: usize = 200;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long answers are waited for in the end.
const LAST_ANSWERS_NS: u64 = 10 * SECOND_NS;
const PROGRESS_NS: u64 = 2 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// The loop's clock begins here, so that what clients know can be older than the run.
const BEGIN_NS: u64 = 3_600 * SECOND_NS;
/// The phase before the first one, which is not reported.
const WARM_UP: &str = "warm-up";

/// Everything that runs.
pub struct Load<'a> {
    options: &'a Options,
    poll: Poll,
    timer: TimerFd,
    armed_for_ns: u64,
    began: Instant,
    random: Rng,
    value: Vec<u8>,
    slots: Vec<u16>,
    reader: Reader,
    clients: Vec<Client>,
    wires: Slab<Wire>,
    /// The connection of each client to each node.
    kept: Vec<Vec<Option<usize>>>,
    once: Vec<Option<usize>>,
    /// Connections that could not even be begun.
    lost: Vec<(u32, Line)>,
    connecting: usize,
    next_due_ns: f64,
    /// What waits for its time, the soonest first, with its number in `later_jobs`.
    later: BinaryHeap<Reverse<(u64, usize)>>,
    later_jobs: Slab<(u32, Job)>,
    actions: Vec<Action>,
    buffer: Vec<u8>,
    tallies: Vec<Tally>,
    spans: Vec<Span>,
}

impl<'a> Load<'a> {
    /// Clients that each know one of these maps, and no connection yet.
    pub fn new(
        options: &'a Options,
        reader: Reader,
        maps: &[Rc<Map>],
        poll: Poll,
    ) -> Result<Load<'a>, String> {
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC);
        let timer = timer.map_err(|error| format!("timer: {error}"))?;
        let descriptor = timer.as_fd().as_raw_fd();
        let registered =
            poll.registry().register(&mut SourceFd(&descriptor), Token(TIMER), Interest::READABLE);
        registered.map_err(|error| format!("timer: {error}"))?;
        let mut random = Rng::with_seed(options.seed);
        let clients: Vec<Client> = (0..options.clients())
            .map(|at| {
                let kind = options.kind(at);
                // They did not begin at one instant: those who ask now and then do so at different times.
                let age_ns = random.u64(0..kind.facts().topology_age_max_ns.unwrap_or(1));
                Client::new(kind, maps[at % maps.len()].clone(), 0, BEGIN_NS - age_ns)
            })
            .collect();
        Ok(Load {
            options,
            poll,
            timer,
            armed_for_ns: 0,
            began: Instant::now(),
            random,
            value: vec![b'x'; options.value_bytes],
            slots: (0..options.keys).map(|key| slot_of(key_name(key).as_bytes())).collect(),
            reader,
            wires: Slab::new(),
            kept: vec![Vec::new(); clients.len()],
            once: vec![None; clients.len()],
            clients,
            lost: Vec::new(),
            connecting: 0,
            next_due_ns: f64::INFINITY,
            later: BinaryHeap::new(),
            later_jobs: Slab::new(),
            actions: Vec::new(),
            buffer: vec![0; READ_BYTES],
            tallies: vec![Tally::new(WARM_UP)],
            spans: vec![Span::default()],
        })
    }

    /// Makes every client's connection to each node. Calls `progress` with how many there are, now and then.
    pub fn connect(&mut self, progress: &mut dyn FnMut(usize)) -> Result<(), String> {
        let nodes = self.options.nodes.len();
        let wanted = self.clients.len() * nodes;
        let (mut begun, mut last) = (0, Instant::now());
        let mut events = Events::with_capacity(EVENTS_MAX);
        while begun < wanted || self.connecting > 0 {
            while begun < wanted && self.connecting < CONNECTING_MAX {
                // All clients' connections to one node, then to the next.
                let (client, node) = (begun % self.clients.len(), begun / self.clients.len());
                self.open(client as u32, Line::Kept(node as Node));
                begun += 1;
                if begun % 1_000 == 0 {
                    progress(begun);
                }
            }
            let waited = self.poll.poll(&mut events, Some(Duration::from_millis(100)));
            waited.or_else(interrupted)?;
            let before = self.connecting;
            for event in &events {
                self.event(
                    event.token().0,
                    event.is_readable() || event.is_read_closed() || event.is_error(),
                );
            }
            if let Some((_, line)) = self.lost.first() {
                let address = self.reader.address(line.node());
                return Err(format!("{address} does not take {wanted} connections: {begun} were begun"));
            }
            if self.connecting != before || begun < wanted {
                last = Instant::now();
            }
            if last.elapsed() > CONNECT_TIMEOUT {
                return Err(format!("{} connections were not made in time", self.connecting));
            }
        }
        Ok(())
    }

    /// Runs until the last mark. Calls `began` when the first phase begins, and `progress` with a line now and then.
    pub fn run(
        mut self,
        marks: &Receiver<Mark>,
        began: &mut dyn FnMut(),
        progress: &mut dyn FnMut(&str),
    ) -> Result<Report, String> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut since = (Instant::now(), Figures::default(), generator_cpu_s());
        let mut next_progress_ns = self.now_ns() + PROGRESS_NS;
        let mut ends_at_ns = None;
        self.next_due_ns = self.now_ns() as f64;
        loop {
            for Mark { name, figures, at } in marks.try_iter() {
                let name = name?;
                let cpu_s = generator_cpu_s();
                let seconds = at.duration_since(since.0).as_secs_f64();
                let span =
                    Span { seconds, servers: figures.since(&since.1), generator_cpu_s: cpu_s - since.2 };
                *self.spans.last_mut().expect("phases: there is always one") = span;
                since = (at, figures, cpu_s);
                match name {
                    Some(name) => {
                        self.tallies.push(Tally::new(&name));
                        self.spans.push(Span::default());
                        if self.tallies.len() == 2 {
                            began();
                        }
                    }
                    None => {
                        self.next_due_ns = f64::INFINITY;
                        ends_at_ns = Some(self.now_ns() + LAST_ANSWERS_NS);
                    }
                }
            }
            let now_ns = self.turn();
            if let Some(at_ns) = ends_at_ns
                && (now_ns > at_ns || self.tallies.iter().all(|tally| tally.open() == 0))
            {
                return Ok(self.report());
            }
            if now_ns > next_progress_ns {
                next_progress_ns = now_ns + PROGRESS_NS;
                progress(&self.standing());
            }
            self.arm(now_ns)?;
            self.poll.poll(&mut events, Some(Duration::from_millis(100))).or_else(interrupted)?;
            for event in &events {
                self.event(
                    event.token().0,
                    event.is_readable() || event.is_read_closed() || event.is_error(),
                );
                self.turn();
            }
        }
    }

    fn report(mut self) -> Report {
        for tally in &mut self.tallies {
            for _ in 0..tally.open() {
                tally.error("no answer until the end of the run");
            }
        }
        let phases = self.tallies.iter().zip(&self.spans).skip(1);
        Report {
            event: "report",
            connections: self.clients.len() * self.options.nodes.len(),
            clients: self.clients.len(),
            rate: self.options.rate,
            keys: self.options.keys,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            phases: phases.map(|(tally, span)| Phase::of(tally, span)).collect(),
        }
    }

    /// One line of what the phase has seen so far.
    fn standing(&self) -> String {
        let tally = self.tally();
        let errors: u64 = tally.errors.values().sum();
        format!(
            "{}: {} requests, {} open, p50 {:.2} ms, p99 {:.2} ms, {} MOVED, {} ASK, {} topology commands, {errors} errors",
            tally.name,
            tally.due,
            self.tallies.iter().map(Tally::open).sum::<u64>(),
            tally.share_ms(0.5),
            tally.share_ms(0.99),
            tally.moved,
            tally.asked,
            tally.topology.values().sum::<u64>(),
        )
    }

    fn tally(&self) -> &Tally {
        self.tallies.last().expect("phases: there is always one")
    }

    fn now_ns(&self) -> u64 {
        BEGIN_NS + self.began.elapsed().as_nanos() as u64
    }

    /// Does what the time has come for; returns the time.
    fn turn(&mut self) -> u64 {
        let now_ns = self.now_ns();
        while self.next_due_ns <= now_ns as f64 {
            self.request();
        }
        while let Some(Reverse((_, number))) = self.later.peek().copied().filter(|later| later.0.0 <= now_ns)
        {
            self.later.pop();
            let (client, job) = self.later_jobs.remove(number);
            self.act(client, |client, turn| client.again(job, turn));
        }
        while let Some((client, line)) = self.lost.pop() {
            self.act(client, |client, turn| client.lost(line, turn));
        }
        now_ns
    }

    /// The request that is due.
    fn request(&mut self) {
        let due_ns = self.next_due_ns as u64;
        // Times between random events are distributed like this; no logarithm of zero.
        self.next_due_ns -= (1.0 - self.random.f64()).ln() * SECOND_NS as f64 / self.options.rate as f64;
        let client = self.random.u32(0..self.clients.len() as u32);
        let key = self.random.u32(0..self.options.keys);
        let is_write = self.random.u8(0..100) < self.options.writes_percent;
        let phase = self.tallies.len() - 1;
        self.tallies[phase].due += 1;
        let slot = self.slots[key as usize];
        let job = Job { key, slot, is_write, due_ns, phase: phase as u16, tries: 0 };
        let is_sent = self.act(client, |client, turn| client.request(job, turn));
        if is_sent {
            let lag_us = (self.now_ns() - due_ns) / 1_000;
            self.tallies[phase].lag.record(lag_us);
        }
    }

    /// Has the timer wake up the loop for what comes next.
    fn arm(&mut self, now_ns: u64) -> Result<(), String> {
        let later_ns = self.later.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let next_ns = later_ns.min(self.next_due_ns as u64);
        if next_ns == u64::MAX || next_ns == self.armed_for_ns {
            return Ok(());
        }
        self.armed_for_ns = next_ns;
        let wait_ns = next_ns.saturating_sub(now_ns).max(1);
        let expiration = Expiration::OneShot(TimeSpec::nanoseconds(wait_ns as i64));
        self.timer.set(expiration, TimerSetTimeFlags::empty()).map_err(|error| format!("timer: {error}"))
    }

    /// Has the client do something, then does what it wants done. Returns whether anything was sent.
    fn act(&mut self, client: u32, act: impl FnOnce(&mut Client, &mut Turn<'_>)) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        let now_ns = self.now_ns();
        let mut turn =
            Turn { now_ns, reader: &mut self.reader, random: &mut self.random, actions: &mut actions };
        act(&mut self.clients[client as usize], &mut turn);
        let mut is_sent = false;
        for action in actions.drain(..) {
            is_sent |= matches!(action, Action::Send(..));
            self.perform(client, action, now_ns);
        }
        self.actions = actions;
        is_sent
    }

    fn perform(&mut self, client: u32, action: Action, now_ns: u64) {
        let phase = self.tallies.len() - 1;
        match action {
            Action::Send(line, sent) => {
                if sent == Sent::Slots {
                    let kind: Kind = self.clients[client as usize].kind();
                    *self.tallies[phase].topology.entry(kind).or_default() += 1;
                }
                self.send(client, line, &sent);
            }
            Action::Close(line) => self.close(client, line),
            Action::Later { at_ns, job } => {
                let number = self.later_jobs.insert((client, job));
                self.later.push(Reverse((at_ns, number)));
            }
            Action::Done(job, Ok(())) => {
                self.tallies[usize::from(job.phase)].answered(job.due_ns, now_ns);
            }
            Action::Done(job, Err(error)) => self.tallies[usize::from(job.phase)].error(&error),
            Action::Redirected { is_ask: true } => self.tallies[phase].asked += 1,
            Action::Redirected { is_ask: false } => self.tallies[phase].moved += 1,
        }
    }

    /// Where the number of the connection stands.
    fn place(&mut self, client: u32, line: Line) -> &mut Option<usize> {
        match line {
            Line::Once(_) => &mut self.once[client as usize],
            Line::Kept(node) => {
                let (nodes, at) = (&mut self.kept[client as usize], usize::from(node));
                if nodes.len() <= at {
                    nodes.resize(at + 1, None);
                }
                &mut nodes[at]
            }
        }
    }

    fn send(&mut self, client: u32, line: Line, sent: &Sent) {
        let known = *self.place(client, line);
        let Some(at) = known.or_else(|| self.open(client, line)) else { return };
        self.wires[at].push(sent, &self.value);
        self.flush(at);
    }

    /// Begins a connection; where that fails, the client is told after this.
    fn open(&mut self, client: u32, line: Line) -> Option<usize> {
        let kind = self.clients[client as usize].kind();
        let address = self.reader.address(line.node());
        let entry = self.wires.vacant_entry();
        let at = entry.key();
        let token = Token(at + WIRES_FROM);
        match Wire::connect(self.poll.registry(), token, address, client, line, kind) {
            Ok(wire) => {
                entry.insert(wire);
                *self.place(client, line) = Some(at);
                self.connecting += 1;
                Some(at)
            }
            Err(_) => {
                self.lost.push((client, line));
                None
            }
        }
    }

    fn flush(&mut self, at: usize) {
        match self.wires[at].flush() {
            Progress::Waits => {}
            Progress::Opened => self.connecting -= 1,
            Progress::Lost => self.lose(at),
        }
    }

    fn close(&mut self, client: u32, line: Line) {
        if let Some(at) = self.place(client, line).take() {
            let wire = self.wires.remove(at);
            self.connecting -= usize::from(!wire.is_open());
            wire.close(self.poll.registry());
        }
    }

    /// The connection has ended: its client is told after this.
    fn lose(&mut self, at: usize) {
        let (client, line) = (self.wires[at].client, self.wires[at].line);
        self.close(client, line);
        self.lost.push((client, line));
    }

    /// Something happened to this; events of what is closed may still come, and do no harm to who has its number now.
    fn event(&mut self, token: usize, is_readable: bool) {
        let Some(at) = token.checked_sub(WIRES_FROM).filter(|at| self.wires.contains(*at)) else { return };
        self.flush(at);
        if !is_readable || !self.wires.get(at).is_some_and(Wire::is_open) {
            return;
        }
        let is_there = self.wires[at].read(&mut self.buffer);
        let (client, line) = (self.wires[at].client, self.wires[at].line);
        // An answer may have the connection closed, and another one take its number.
        while *self.place(client, line) == Some(at) && self.wires[at].line == line {
            match self.wires[at].answer() {
                Ok(Some((value, bytes))) => {
                    self.act(client, |client, turn| client.answered(line, &bytes, &value, turn));
                }
                Ok(None) if is_there => return,
                Ok(None) | Err(_) => return self.lose(at),
            }
        }
    }
}

/// User and system time of this process.
fn generator_cpu_s() -> f64 {
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A signal came while waiting; all other failures end the run.
fn interrupted(error: std::io::Error) -> Result<(), String> {
    if error.kind() == std::io::ErrorKind::Interrupted { Ok(()) } else { Err(format!("epoll: {error}")) }
}
