//! A worker thread: its own poll, its own listeners, its own connections for their whole life, and any
//! command run to completion.

mod arrivals;
mod gated;
mod handshakes;
mod mail;
mod relay_socket;
mod relays;
mod replicas;
mod upkeep;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::limits::{
    BATCH_COMMANDS, INPUT_GROWTH_BYTES_MAX, OUTPUT_BUFFER_BYTES, READ_BUFFER_BYTES, RELAYS_MAX,
    TURN_COMMANDS_MAX, TURN_OUTPUT_BYTES, TURN_STREAM_US, TURN_US,
};
use engine::config::OutputBufferLimits;
use engine::dispatch::{Stop, run_batch};
use engine::lane::Line;
use engine::worker::Worker as Engine;
use mio::{Events, Poll, Token};
use resp::{Batch, DecodeLimits};
use slab::Slab;

use crate::connection::{Connection, Flush, Wait};
use crate::listeners::Listener;
use crate::shared::{LaneTask, Shared};
use gated::Gated;
use handshakes::Handshakes;
use relays::Relays;
use replicas::Feeds;

const WAKER: Token = Token(usize::MAX);
/// Listeners have the tokens just below the waker's, relays those below; connections count up from 0.
const LISTENERS: usize = usize::MAX - 64;
const RELAYS: usize = LISTENERS - RELAYS_MAX;
const EVENTS_MAX: usize = 1024;
/// Longest time until a worker notices that a pause has ended.
const PAUSE_CHECK_MS: i64 = 9;
/// Time between two tries to get a stripe that is held for long.
const HELD_UP_RETRY_US: u64 = 1_000;
/// Output buffers kept for reuse.
const SPARE_BUFFERS_MAX: usize = 64;
/// A lent buffer that grew beyond this is not kept.
const SPARE_BUFFER_BYTES_MAX: usize = 4 * OUTPUT_BUFFER_BYTES;

/// A worker and everything it owns.
pub struct Worker {
    shared: Arc<Shared>,
    index: usize,
    engine: Engine,
    poll: Poll,
    listeners: Slab<Arc<Listener>>,
    /// `None` only during the connection's own turn.
    connections: Slab<Option<Box<Connection>>>,
    /// Connections with more to do than their turn allowed.
    ready: Vec<usize>,
    /// Connections that a CLIENT PAUSE holds back.
    paused: Vec<usize>,
    /// Connections whose next command needs a stripe that is held for long.
    held_up: Vec<usize>,
    gated: Gated,
    /// When waiting connections give up: (`Now::mono_us`, token, client id).
    deadlines: BTreeSet<(u64, usize, u64)>,
    handshakes: Handshakes,
    /// What is forwarded to other nodes.
    relays: Relays,
    /// What replicas are sent.
    feeds: Feeds,
    batch: Batch,
    read_buffer: Vec<u8>,
    spare_buffers: Vec<Vec<u8>>,
    next_tick_us: u64,
    /// Stripes with more due keys than the last slice removed are visited without waiting for a tick.
    expiring: bool,
    expire_at_stripe: usize,
    /// Memory was above its limit after the last slice of eviction: the next does not wait for a tick.
    evicting: bool,
    timeout_at: usize,
    /// The limits of unsent replies, and the configuration's version that they are of.
    output_limits: (u64, OutputBufferLimits),
    balance_at: usize,
    /// Listeners that had more connections than one turn accepts.
    accept_again: Vec<usize>,
    /// Listeners whose last accept failed: for the next tick.
    accept_later: Vec<usize>,
}

/// What becomes of a connection after a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It waits for its socket or something else.
    Rest,
    /// It has more to do.
    Again,
    /// A step of its handshake is due.
    Handshake,
    /// It is closed.
    Close,
}

impl Worker {
    /// The worker of this number, which listens on its share of the sockets.
    pub fn new(shared: Arc<Shared>, index: usize, seed: u64) -> io::Result<Worker> {
        let poll = Poll::new()?;
        shared.mailboxes[index].open(mio::Waker::new(poll.registry(), WAKER)?);
        let now = shared.server.clock.now();
        let engine = Engine::new(index as u16, shared.server.stats[index].clone(), seed, now);
        let config = &shared.server.config;
        let output_limits = (config.version(), config.output_buffer_limits());
        let feeds = Feeds::new(&shared, index);
        let mut worker = Worker {
            shared,
            index,
            engine,
            poll,
            listeners: Slab::new(),
            connections: Slab::new(),
            ready: Vec::new(),
            paused: Vec::new(),
            held_up: Vec::new(),
            gated: Gated::default(),
            deadlines: BTreeSet::new(),
            handshakes: Handshakes::default(),
            relays: Relays::default(),
            feeds,
            batch: Batch::new(),
            read_buffer: vec![0; READ_BUFFER_BYTES],
            spare_buffers: Vec::new(),
            next_tick_us: now.mono_us,
            expiring: false,
            expire_at_stripe: 0,
            evicting: false,
            timeout_at: 0,
            output_limits,
            balance_at: 0,
            accept_again: Vec::new(),
            accept_later: Vec::new(),
        };
        worker.listen();
        Ok(worker)
    }

    /// Serves until the process is to end.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.is_stopping() {
            self.await_log();
            let timeout = self.poll_timeout();
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.engine.set_now(self.shared.server.clock.now());
            self.engine.stats.loop_turns.add(1);
            for event in &events {
                match event.token() {
                    WAKER => self.read_mail(),
                    Token(token) if token >= LISTENERS => self.accept(token - LISTENERS),
                    Token(token) if token >= RELAYS => self.relay_event(token - RELAYS, event),
                    Token(token) => self.socket_event(token, event),
                }
            }
            self.deliver_own();
            for token in std::mem::take(&mut self.ready) {
                if let Some(Some(connection)) = self.connections.get_mut(token)
                    && std::mem::take(&mut connection.queued)
                {
                    self.turn(token);
                }
            }
            for number in std::mem::take(&mut self.accept_again) {
                self.accept(number);
            }
            self.shake_hands();
            self.tick();
            self.tend_relays();
            self.deliver_own();
            self.feed_replicas();
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Duration {
        let has_more =
            !self.ready.is_empty() || !self.accept_again.is_empty() || !self.engine.outbox.is_empty();
        if has_more || self.expiring || self.evicting || self.handshakes.is_due() {
            return Duration::ZERO;
        }
        let mut wait_us = self.next_tick_us.saturating_sub(self.engine.now.mono_us);
        wait_us = wait_us.min(self.feeds.wait_us()).min(self.relays.wait_us());
        if !self.paused.is_empty() {
            let left_ms = self.shared.server.pause.until_ms() - self.engine.now.unix_ms;
            wait_us = wait_us.min(left_ms.clamp(0, PAUSE_CHECK_MS) as u64 * 1000 + 1000);
        }
        if !self.held_up.is_empty() {
            wait_us = wait_us.min(HELD_UP_RETRY_US);
        }
        if let Some((deadline_us, ..)) = self.deadlines.first() {
            wait_us = wait_us.min(deadline_us.saturating_sub(self.engine.now.mono_us));
        }
        Duration::from_micros(wait_us)
    }

    fn socket_event(&mut self, token: usize, event: &mio::event::Event) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        connection.hung_up |= event.is_read_closed() || event.is_error();
        connection.readable |= event.is_readable() || connection.hung_up;
        connection.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        // As Redis: a client that gives up during a pause leaves nothing behind, its command included.
        // Nor does one that gives up while it waits for a key.
        connection.aborted |= connection.hung_up && matches!(connection.wait, Wait::Pause | Wait::Key);
        // Its turn comes after the events: not two in a row.
        if !connection.queued {
            self.turn(token);
        }
    }

    /// Gives a connection its turn, and puts it where it belongs afterwards.
    fn turn(&mut self, token: usize) {
        let Some(mut connection) = self.connections.get_mut(token).and_then(Option::take) else { return };
        let mut turn = self.serve(token, &mut connection);
        if connection.aborted {
            turn = Turn::Close;
        } else if connection.out.is_empty() {
            self.keep_buffer(connection.out.reclaim());
            let finished = connection.at_eof && !connection.runnable && connection.wait == Wait::None;
            if connection.closing || finished {
                turn = Turn::Close;
            }
        }
        if turn != Turn::Close && !connection.out.is_empty() {
            if self.is_over_output_limit(&mut connection) {
                turn = Turn::Close;
            } else if connection.out.waits_for().is_some() {
                self.list_gated(token, &mut connection);
            }
        }
        if turn == Turn::Close {
            self.forget(token, connection);
            return;
        }
        if matches!(turn, Turn::Again | Turn::Handshake) && !std::mem::replace(&mut connection.queued, true) {
            match turn {
                Turn::Handshake => self.handshakes.push(token),
                _ => self.ready.push(token),
            }
        }
        let client = &connection.session.client;
        client.last_active_ms.store(self.engine.now.unix_ms, Relaxed);
        let (input_bytes, output_bytes) = (connection.input.len(), connection.out.memory_bytes());
        client.input_bytes.store(input_bytes as u32, Relaxed);
        client.output_bytes.store(output_bytes as u32, Relaxed);
        let clients = &self.shared.server.clients;
        clients.note_buffers(input_bytes as u64, output_bytes as u64);
        clients.set_memory(client, connection.memory_bytes() as u64);
        self.connections[token] = Some(connection);
        self.evict_clients();
    }

    /// Sends, runs and reads until there is nothing to do, or the connection's share is used up.
    fn serve(&mut self, token: usize, connection: &mut Connection) -> Turn {
        if connection.stream.is_shaking_hands() {
            return Turn::Handshake;
        }
        let mut commands_left = TURN_COMMANDS_MAX;
        self.engine.turn_ends_us = self.engine.now.mono_us + TURN_US;
        let mut may_read = true;
        if !connection.out.is_empty()
            && let Some(turn) = self.send(connection)
        {
            return turn;
        }
        while connection.may_run() {
            if connection.runnable {
                if commands_left == 0 {
                    return Turn::Again;
                }
                self.run_input(token, connection, &mut commands_left);
            } else if !connection.readable || connection.at_eof {
                return Turn::Rest;
            } else if !may_read {
                return Turn::Again;
            } else {
                may_read = false;
                if !self.read_and_run(token, connection, &mut commands_left) {
                    return Turn::Close;
                }
            }
            if connection.aborted {
                return Turn::Close;
            }
            if !connection.out.is_empty()
                && let Some(turn) = self.send(connection)
            {
                return turn;
            }
        }
        Turn::Rest
    }

    /// Sends replies; `None` if the connection can go on.
    #[inline]
    fn send(&mut self, connection: &mut Connection) -> Option<Turn> {
        if connection.out.has_gates() {
            self.engine.open_gates(&self.shared.server, &mut connection.out);
        }
        // Read for replies made piece by piece alone: most are not.
        let (clock, mut begun_us) = (&self.shared.server.clock, None);
        let (flush, sent_bytes) = connection.flush(TURN_OUTPUT_BYTES, || {
            let now_us = clock.mono_us();
            now_us - *begun_us.get_or_insert(now_us) >= TURN_STREAM_US
        });
        for stream in connection.out.take_finished() {
            self.shared.server.keyspace.discard_elsewhere(Box::new(stream));
        }
        self.engine.stats.output_bytes.add(sent_bytes as u64);
        if connection.is_replica {
            self.shared.server.replication.replicas.sent_bytes.fetch_add(sent_bytes as u64, Relaxed);
        }
        self.engine.stats.writes.add(u64::from(sent_bytes > 0));
        match flush {
            Flush::Empty | Flush::Blocked | Flush::Gated => None,
            Flush::Share => Some(Turn::Again),
            Flush::Gone => Some(Turn::Close),
        }
    }

    /// Reads once and runs what came; false if the connection is broken.
    fn read_and_run(&mut self, token: usize, connection: &mut Connection, commands_left: &mut usize) -> bool {
        let held = connection.input.len();
        // A client is lent no more memory than it has filled already, whatever length it announced.
        let room = connection.decoder.wanted_bytes().min(held).min(INPUT_GROWTH_BYTES_MAX);
        if room <= READ_BUFFER_BYTES {
            let mut buffer = std::mem::take(&mut self.read_buffer);
            let read = self.read(connection, &mut buffer);
            match read {
                Some(count) if held == 0 => {
                    let used = self.consume(token, connection, &buffer[..count], commands_left);
                    connection.input.extend_from_slice(&buffer[used..count]);
                }
                Some(count @ 1..) => {
                    connection.input.extend_from_slice(&buffer[..count]);
                    self.run_input(token, connection, commands_left);
                }
                _ => {}
            }
            self.read_buffer = buffer;
            return read.is_some();
        }
        // The rest of a long argument: it is read to where it has to lie anyway.
        let mut input = std::mem::take(&mut connection.input);
        input.resize(held + room, 0);
        let read = self.read(connection, &mut input[held..]);
        input.truncate(held + read.unwrap_or(0));
        connection.input = input;
        if read.is_some_and(|count| count > 0) {
            self.run_input(token, connection, commands_left);
        }
        read.is_some()
    }

    /// Reads once; `None` if the connection is broken.
    #[inline]
    fn read(&mut self, connection: &mut Connection, buffer: &mut [u8]) -> Option<usize> {
        match connection.stream.read(buffer) {
            Ok(0) => {
                connection.at_eof = true;
                connection.readable = false;
                Some(0)
            }
            Ok(count) => {
                // Less than asked for: the socket is empty, and the poll will report what comes next.
                // After a hang-up it reports nothing more, so the end has to be read.
                connection.readable = connection.stream.has_more(count == buffer.len()) || connection.hung_up;
                self.engine.stats.input_bytes.add(count as u64);
                self.engine.stats.reads.add(1);
                if connection.is_replica {
                    self.hear(connection);
                }
                Some(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable = false;
                Some(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(0),
            Err(_) => None,
        }
    }

    /// Runs commands that lie in the connection's own buffer.
    fn run_input(&mut self, token: usize, connection: &mut Connection, commands_left: &mut usize) {
        let mut input = std::mem::take(&mut connection.input);
        let used = self.consume(token, connection, &input, commands_left);
        if used == input.len() {
            return;
        }
        // What a long command needed is not kept for the little that follows it.
        if input.capacity() > INPUT_GROWTH_BYTES_MAX && used > input.len() / 2 {
            connection.input = input[used..].to_vec();
        } else {
            input.drain(..used);
            connection.input = input;
        }
    }

    /// Runs the commands in `input`; returns the bytes that are done with.
    fn consume(
        &mut self,
        token: usize,
        connection: &mut Connection,
        input: &[u8],
        commands_left: &mut usize,
    ) -> usize {
        let mut used = 0;
        connection.runnable = false;
        while used < input.len() {
            if *commands_left == 0 {
                connection.runnable = true;
                break;
            }
            let rest = &input[used..];
            let limits = self.decode_limits(connection);
            // The limits that hold after an AUTH are others than before it.
            let commands_max = if limits.authenticated { BATCH_COMMANDS } else { 1 };
            let decoded = connection.decoder.decode(rest, &limits, commands_max, &mut self.batch);
            let whole = self.batch.len();
            let mut stop = Stop::Done;
            if whole > 0 {
                let spare = &mut self.spare_buffers;
                connection
                    .out
                    .lend(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BUFFER_BYTES)));
                let (engine, session) = (&mut self.engine, &mut connection.session);
                let mark = connection.is_replica.then(|| connection.out.mark());
                let progress =
                    run_batch(&self.shared.server, engine, session, &self.batch, rest, &mut connection.out);
                if mark.is_some_and(|mark| mark != connection.out.mark()) {
                    replicas::refuse(connection);
                    return input.len();
                }
                *commands_left = commands_left.saturating_sub(progress.executed);
                stop = progress.stop;
                if stop == Stop::Turn || engine.now.mono_us >= engine.turn_ends_us {
                    *commands_left = 0;
                }
                if progress.executed < whole || (stop != Stop::Done && decoded.is_err()) {
                    // What did not run, or is malformed, is decoded again when its time has come.
                    connection.decoder = resp::Decoder::new();
                    used += progress.executed.checked_sub(1).map_or(0, |last| self.batch.end_of(last));
                    connection.runnable = true;
                    self.pause_or_defer(token, connection, stop);
                    return if connection.closing || connection.aborted { input.len() } else { used };
                }
            }
            match decoded {
                Ok(consumed) => used += consumed,
                Err(error) => {
                    error.write_reply(connection.out.tail());
                    let over_limit = error == resp::DecodeError::QueryBufferLimit;
                    self.engine.stats.limit_disconnections.add(over_limit.into());
                    connection.closing = true;
                    return input.len();
                }
            }
            if stop != Stop::Done {
                connection.runnable = used < input.len();
                self.pause_or_defer(token, connection, stop);
                return if connection.closing || connection.aborted { input.len() } else { used };
            }
            if whole < commands_max {
                break;
            }
        }
        used
    }

    fn pause_or_defer(&mut self, token: usize, connection: &mut Connection, stop: Stop) {
        match stop {
            Stop::Done | Stop::Turn => {}
            Stop::Output => self.engine.stats.output_pauses.add(u64::from(!connection.is_replica)),
            Stop::Close => connection.closing = true,
            Stop::Abort => {
                tracing::warn!(
                    "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands. \
                     This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise \
                     your instance. Connection from {} aborted.",
                    connection.session.client.peer.address()
                );
                connection.aborted = true;
            }
            Stop::Paused => {
                connection.wait = Wait::Pause;
                self.shared.server.clients.set_blocked(&connection.session.client, true);
                self.paused.push(token);
            }
            Stop::Replica => self.attach(token, connection),
            Stop::Forwarded => self.forward(token, connection),
            Stop::Busy => {
                connection.wait = Wait::Stripe;
                self.held_up.push(token);
            }
            Stop::Full => self.wait_for_room(token, connection),
            Stop::Blocked => {
                let waiter = self.engine.blocked.take().expect("waiting-client: the dispatcher reported one");
                connection.wait = Wait::Key;
                self.shared.server.clients.set_blocked(&connection.session.client, true);
                if let Some(deadline_us) = waiter.deadline_us {
                    self.deadlines.insert((deadline_us, token, connection.session.client.id));
                }
                connection.waiter = Some(waiter);
                // It left before it began to wait.
                connection.aborted |= connection.hung_up;
            }
            Stop::Deferred => {
                connection.wait = Wait::Lane;
                self.shared.server.clients.set_blocked(&connection.session.client, true);
                let deferred =
                    self.engine.deferred.take().expect("deferred-job: the dispatcher reported one");
                let task = LaneTask { deferred, worker: self.index, token };
                let lane = match task.deferred.line {
                    Line::Long => &self.shared.lane,
                    Line::Scripts => &self.shared.scripts,
                    Line::Outgoing => &self.shared.outgoing,
                };
                lane.send(task).expect("lane-alive: the long lane outlives the workers");
            }
        }
    }

    #[inline]
    fn decode_limits(&self, connection: &Connection) -> DecodeLimits {
        let hot = self.shared.server.config.hot();
        DecodeLimits {
            bulk_bytes_max: hot.proto_max_bulk_bytes(),
            query_buffer_bytes_max: hot.query_buffer_bytes_max(),
            authenticated: connection.session.authenticated,
        }
    }

    #[inline]
    fn keep_buffer(&mut self, buffer: Option<Vec<u8>>) {
        if let Some(buffer) = buffer
            && self.spare_buffers.len() < SPARE_BUFFERS_MAX
            && buffer.capacity() <= SPARE_BUFFER_BYTES_MAX
        {
            self.spare_buffers.push(buffer);
        }
    }
}
