//! A worker thread: its own poll, its own listeners, its own connections for their whole life, and any
//! command run to completion.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use base::clock::Now;
use base::limits::{
    ACCEPTS_PER_TURN, BATCH_COMMANDS, EXPIRE_SLICE_KEYS, EXPIRE_SLICE_US, INPUT_GROWTH_BYTES_MAX,
    OUTPUT_BUFFER_BYTES, READ_BUFFER_BYTES, TURN_COMMANDS_MAX, TURN_OUTPUT_BYTES, TURN_STREAM_US, TURN_US,
};
use engine::clients::Peer;
use engine::dispatch::{Stop, run_batch};
use engine::letter::Letter;
use engine::output::Output;
use engine::session::Session;
use engine::worker::Worker as Engine;
use mio::{Events, Poll, Token};
use resp::{Batch, DecodeLimits};
use slab::Slab;

use crate::connection::{Connection, Flush, Stream, Wait};
use crate::listeners::Listener;
use crate::shared::{LaneTask, Message, Shared};

const WAKER: Token = Token(usize::MAX);
/// Listeners have the tokens just below the waker's; connections count up from 0.
const LISTENERS: usize = usize::MAX - 64;
const EVENTS_MAX: usize = 1024;
/// Time between rounds of background work.
const TICK_US: u64 = 100_000;
/// Longest time until a worker notices that a pause has ended.
const PAUSE_CHECK_MS: i64 = 9;
/// Time between two tries to get a stripe that is held for long.
const HELD_UP_RETRY_US: u64 = 1_000;
/// Output buffers kept for reuse.
const SPARE_BUFFERS_MAX: usize = 64;
/// A lent buffer that grew beyond this is not kept.
const SPARE_BUFFER_BYTES_MAX: usize = 4 * OUTPUT_BUFFER_BYTES;
/// Connections that one tick hands to another worker.
const MOVES_PER_TICK: usize = 64;
/// Connections that are looked at for that.
const MOVE_CHECKS_PER_TICK: usize = 1024;
/// Connections whose idle time is looked at in one tick.
const TIMEOUT_CHECKS_PER_TICK: usize = 256;

/// What a client from elsewhere is told while the server is open to this machine only.
const PROTECTED_MODE: &str = "-DENIED Halcyon is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. To \
connect from other computers, set a password (CONFIG SET requirepass ...), or turn protected mode off (CONFIG SET \
protected-mode no from this machine) if the network is trusted.\r\n";

/// A worker and everything it owns.
pub struct Worker {
    shared: Arc<Shared>,
    index: usize,
    engine: Engine,
    poll: Poll,
    listeners: Vec<Listener>,
    /// `None` only during the connection's own turn.
    connections: Slab<Option<Box<Connection>>>,
    /// Connections with more to do than their turn allowed.
    ready: Vec<usize>,
    /// Connections that a CLIENT PAUSE holds back.
    paused: Vec<usize>,
    /// Connections whose next command needs a stripe that is held for long.
    held_up: Vec<usize>,
    /// When waiting connections give up: (`Now::mono_us`, token, client id).
    deadlines: BTreeSet<(u64, usize, u64)>,
    batch: Batch,
    read_buffer: Vec<u8>,
    spare_buffers: Vec<Vec<u8>>,
    next_tick_us: u64,
    /// Stripes with more due keys than the last slice removed are visited without waiting for a tick.
    expiring: bool,
    expire_at_stripe: usize,
    timeout_at: usize,
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
    /// It is closed.
    Close,
}

impl Worker {
    /// A worker that listens on `listeners`.
    pub fn new(
        shared: Arc<Shared>,
        index: usize,
        mut listeners: Vec<Listener>,
        seed: u64,
    ) -> io::Result<Worker> {
        let poll = Poll::new()?;
        shared.mailboxes[index].open(mio::Waker::new(poll.registry(), WAKER)?);
        for (number, listener) in listeners.iter_mut().enumerate() {
            let token = Token(LISTENERS + number);
            match listener {
                Listener::Tcp(listener) => {
                    poll.registry().register(listener, token, mio::Interest::READABLE)?
                }
                Listener::Unix(listener, _) => {
                    poll.registry().register(listener, token, mio::Interest::READABLE)?
                }
            }
        }
        let now = shared.server.clock.now();
        let engine = Engine::new(index as u16, shared.server.stats[index].clone(), seed, now);
        Ok(Worker {
            shared,
            index,
            engine,
            poll,
            listeners,
            connections: Slab::new(),
            ready: Vec::new(),
            paused: Vec::new(),
            held_up: Vec::new(),
            deadlines: BTreeSet::new(),
            batch: Batch::new(),
            read_buffer: vec![0; READ_BUFFER_BYTES],
            spare_buffers: Vec::new(),
            next_tick_us: now.mono_us,
            expiring: false,
            expire_at_stripe: 0,
            timeout_at: 0,
            balance_at: 0,
            accept_again: Vec::new(),
            accept_later: Vec::new(),
        })
    }

    /// Serves until the process is to end.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.is_stopping() {
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
            self.tick();
            self.deliver_own();
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Duration {
        if !self.ready.is_empty() || !self.accept_again.is_empty() || self.expiring {
            return Duration::ZERO;
        }
        let mut wait_us = self.next_tick_us.saturating_sub(self.engine.now.mono_us);
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
        if turn == Turn::Close {
            self.forget(token, connection);
            return;
        }
        if turn == Turn::Again && !connection.queued {
            connection.queued = true;
            self.ready.push(token);
        }
        let client = &connection.session.client;
        client.last_active_ms.store(self.engine.now.unix_ms, Relaxed);
        client.input_bytes.store(connection.input.len() as u32, Relaxed);
        client.output_bytes.store(connection.out.memory_bytes() as u32, Relaxed);
        self.connections[token] = Some(connection);
    }

    /// Sends, runs and reads until there is nothing to do, or the connection's share is used up.
    fn serve(&mut self, token: usize, connection: &mut Connection) -> Turn {
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
        self.engine.stats.writes.add(u64::from(sent_bytes > 0));
        match flush {
            Flush::Empty | Flush::Blocked => None,
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
                connection.readable = count == buffer.len() || connection.hung_up;
                self.engine.stats.input_bytes.add(count as u64);
                self.engine.stats.reads.add(1);
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
                let progress =
                    run_batch(&self.shared.server, engine, session, &self.batch, rest, &mut connection.out);
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
            Stop::Output => self.engine.stats.output_pauses.add(1),
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
            Stop::Busy => {
                connection.wait = Wait::Stripe;
                self.held_up.push(token);
            }
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
                self.shared.lane.send(task).expect("lane-alive: the long lane outlives the workers");
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

    fn read_mail(&mut self) {
        let shared = self.shared.clone();
        for message in shared.mailboxes[self.index].take() {
            match message {
                Message::Adopt(connection) => self.adopt(connection),
                Message::Letter(letter) => self.deliver(letter),
                Message::Kill { token, client_id } => {
                    if self.is_client(token, client_id)
                        && let Some(connection) = self.connections[token].take()
                    {
                        self.forget(token, connection);
                    }
                }
            }
        }
    }

    fn is_client(&self, token: usize, client_id: u64) -> bool {
        let connection = self.connections.get(token).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.session.client.id == client_id)
    }

    fn deliver(&mut self, letter: Letter) {
        match letter {
            Letter::Push { token, client_id, bytes } => {
                if self.is_client(token, client_id) {
                    self.push(token, bytes);
                }
            }
            Letter::Publish(publication) => {
                let mut receivers = Vec::new();
                self.engine.subscribers.deliver(&publication, |token, of| {
                    if let Some(Some(connection)) = self.connections.get(token) {
                        receivers.push((token, of(connection.session.proto)));
                    }
                });
                receivers.into_iter().for_each(|(token, bytes)| self.push(token, bytes));
            }
            Letter::Reply { token, client_id, output } => {
                if self.is_client(token, client_id) {
                    self.end_wait(token, output);
                }
            }
        }
    }

    /// Adds bytes that a client did not ask for now to what it is sent, in its next turn.
    fn push(&mut self, token: usize, bytes: Arc<[u8]>) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        let spare = &mut self.spare_buffers;
        connection.out.lend(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BUFFER_BYTES)));
        connection.out.push_shared(bytes);
        if !connection.queued {
            connection.queued = true;
            self.ready.push(token);
        }
    }

    /// Delivers what this worker's connections have sent each other.
    fn deliver_own(&mut self) {
        for letter in std::mem::take(&mut self.engine.outbox) {
            self.deliver(letter);
        }
    }

    /// Gives a waiting connection what it waited for.
    fn end_wait(&mut self, token: usize, output: Output) {
        if let Some(connection) = &mut self.connections[token] {
            connection.out.append(output);
            connection.wait = Wait::None;
            let client = &connection.session.client;
            self.shared.server.clients.set_blocked(client, false);
            if let Some(deadline_us) = connection.waiter.take().and_then(|waiter| waiter.deadline_us) {
                self.deadlines.remove(&(deadline_us, token, client.id));
            }
        }
        self.turn(token);
    }

    /// Answers the connections whose time to wait is over.
    fn end_waits(&mut self) {
        while let Some((deadline_us, token, client_id)) = self.deadlines.first().copied()
            && deadline_us <= self.engine.now.mono_us
        {
            self.deadlines.pop_first();
            if !self.is_client(token, client_id) {
                continue;
            }
            let waiter = self.connections[token].as_ref().and_then(|connection| connection.waiter.clone());
            // Where it was answered just now, the letter is on its way.
            if let Some(output) = waiter.and_then(|waiter| self.shared.server.waiters.time_out(&waiter)) {
                self.end_wait(token, output);
            }
        }
    }

    /// Lets the connections try again whose command needs a stripe that was held for long.
    fn retry_held_up(&mut self) {
        for token in std::mem::take(&mut self.held_up) {
            if let Some(Some(connection)) = self.connections.get_mut(token)
                && connection.wait == Wait::Stripe
            {
                connection.wait = Wait::None;
                self.turn(token);
            }
        }
    }

    fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let accepted = match &self.listeners[number] {
                Listener::Tcp(listener) => listener.accept().map(|(stream, peer)| {
                    let local = stream.local_addr().unwrap_or(peer);
                    (Stream::Tcp(stream), Peer::Tcp { peer, local })
                }),
                Listener::Unix(listener, path) => {
                    listener.accept().map(|(stream, _)| (Stream::Unix(stream), Peer::Unix(path.clone())))
                }
            };
            match accepted {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client gave up before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("Accepting a client connection failed: {error}");
                    // Out of descriptors, most likely: those that wait are looked at again in a while.
                    self.accept_later.push(number);
                    return;
                }
            }
        }
        // The poll reports a listener once: what is left is for the next turn.
        self.accept_again.push(number);
    }

    fn welcome(&mut self, mut stream: Stream, peer: Peer) {
        let server = &self.shared.server;
        let refusal = if server.clients.connected() >= server.config.hot().maxclients() {
            Some("-ERR max number of clients reached\r\n")
        } else if !peer.is_local() && server.config.hot().protected_mode() && !server.requires_auth() {
            Some(PROTECTED_MODE)
        } else {
            None
        };
        if let Some(text) = refusal {
            // Whether the client gets to read it is its own business.
            let _ = stream.refuse(text.as_bytes());
            self.engine.stats.rejected_connections.add(1);
            return;
        }
        self.engine.stats.connections.add(1);
        let client = server.clients.open(peer, self.index as u16, self.engine.now.unix_ms);
        let session = Session::new(client, !server.requires_auth());
        self.adopt(Box::new(Connection::new(stream, session)));
    }

    /// Takes a connection in, new or from another worker.
    fn adopt(&mut self, mut connection: Box<Connection>) {
        let token = self.connections.vacant_key();
        if let Err(error) = connection.stream.register(self.poll.registry(), Token(token)) {
            tracing::warn!("Registering a client connection failed: {error}");
            self.shared.server.disconnect(&mut self.engine, &mut connection.session);
            return;
        }
        let client = &connection.session.client;
        client.fd.store(connection.stream.fd(), Relaxed);
        client.token.store(token as u32, SeqCst);
        client.worker.store(self.index as u16, SeqCst);
        // Whoever kills it sets the flag first and reads the worker after: one of the two sees the other.
        if client.kill.load(SeqCst) {
            connection.closing = true;
        }
        self.connections.insert(Some(connection));
        self.shared.loads[self.index].fetch_add(1, Relaxed);
        self.turn(token);
    }

    /// Closes a connection that is out of its place.
    fn forget(&mut self, token: usize, mut connection: Box<Connection>) {
        self.connections.remove(token);
        self.shared.loads[self.index].fetch_sub(1, Relaxed);
        self.shared.server.disconnect(&mut self.engine, &mut connection.session);
        if let Some(deadline_us) = connection.waiter.take().and_then(|waiter| waiter.deadline_us) {
            self.deadlines.remove(&(deadline_us, token, connection.session.client.id));
        }
        self.keep_buffer(connection.out.reclaim());
        if connection.out.is_streaming() {
            self.shared.server.keyspace.discard_elsewhere(Box::new(std::mem::take(&mut connection.out)));
        }
        // Closing the socket takes it out of the poll.
    }

    fn tick(&mut self) {
        if self.expiring {
            self.expire();
        }
        self.end_pauses();
        self.end_waits();
        self.retry_held_up();
        if self.engine.now.mono_us < self.next_tick_us {
            return;
        }
        self.next_tick_us = self.engine.now.mono_us + TICK_US;
        self.accept_again.append(&mut self.accept_later);
        self.expire();
        self.close_idle();
        self.balance();
    }

    /// A slice of active expiry over this worker's share of the stripes.
    fn expire(&mut self) {
        let shared = self.shared.clone();
        let server = &shared.server;
        if !server.active_expire.load(Relaxed) {
            self.expiring = false;
            return;
        }
        let workers = shared.mailboxes.len();
        let started: Now = server.clock.now();
        let mut idle_stripes = 0;
        let own_stripes = (store::STRIPES - self.index).div_ceil(workers);
        while idle_stripes < own_stripes {
            let stripe = self.index + self.expire_at_stripe * workers;
            let (removed, more) = server.expire_slice(stripe, started.unix_ms, EXPIRE_SLICE_KEYS);
            if !more {
                self.expire_at_stripe = (self.expire_at_stripe + 1) % own_stripes;
                idle_stripes += 1;
            }
            if removed > 0 && server.clock.now().mono_us - started.mono_us > EXPIRE_SLICE_US {
                server.keyspace.note_time_cap();
                self.expiring = true;
                return;
            }
        }
        self.expiring = false;
    }

    fn end_pauses(&mut self) {
        if self.paused.is_empty() || self.shared.server.pause.mode(self.engine.now.unix_ms).is_some() {
            return;
        }
        for token in std::mem::take(&mut self.paused) {
            if let Some(Some(connection)) = self.connections.get_mut(token)
                && connection.wait == Wait::Pause
            {
                connection.wait = Wait::None;
                self.shared.server.clients.set_blocked(&connection.session.client, false);
                self.turn(token);
            }
        }
    }

    /// Closes clients that were silent for `timeout`; looks at a bounded number of them a tick.
    fn close_idle(&mut self) {
        let timeout_ms = self.shared.server.config.hot().timeout_s() as i64 * 1000;
        if timeout_ms == 0 || self.connections.is_empty() {
            return;
        }
        for _ in 0..TIMEOUT_CHECKS_PER_TICK.min(self.connections.capacity()) {
            self.timeout_at = (self.timeout_at + 1) % self.connections.capacity();
            let Some(place) = self.connections.get_mut(self.timeout_at) else { continue };
            let is_silent = |connection: &Connection| {
                let silent_ms =
                    self.engine.now.unix_ms - connection.session.client.last_active_ms.load(Relaxed);
                connection.wait == Wait::None && silent_ms > timeout_ms
            };
            if place.as_deref().is_some_and(is_silent)
                && let Some(connection) = place.take()
            {
                tracing::debug!("Closing idle client {}", connection.session.client.id);
                self.forget(self.timeout_at, connection);
            }
        }
    }

    /// Gives long-lived idle connections to the least loaded worker when this one has many more.
    fn balance(&mut self) {
        let loads: Vec<usize> = self.shared.loads.iter().map(|load| load.load(Relaxed)).collect();
        let mine = loads[self.index];
        let Some((target, least)) = loads.into_iter().enumerate().min_by_key(|(_, load)| *load) else {
            return;
        };
        if mine <= least + least / 8 + 1 {
            return;
        }
        let surplus = (mine - least) / 2;
        let old_enough_s = self.engine.now.unix_ms / 1000 - 1;
        let movable = |connection: &Connection| {
            connection.is_idle()
                && !connection.queued
                && !connection.session.is_bound()
                && connection.session.client.created_s < old_enough_s
        };
        let mut tokens = Vec::new();
        for _ in 0..MOVE_CHECKS_PER_TICK.min(self.connections.capacity()) {
            if tokens.len() == surplus.min(MOVES_PER_TICK) {
                break;
            }
            self.balance_at = (self.balance_at + 1) % self.connections.capacity();
            let connection = self.connections.get(self.balance_at).and_then(Option::as_deref);
            if connection.is_some_and(movable) {
                tokens.push(self.balance_at);
            }
        }
        for token in tokens {
            let Some(mut connection) = self.connections.remove(token) else { continue };
            self.shared.loads[self.index].fetch_sub(1, Relaxed);
            if connection.stream.deregister(self.poll.registry()).is_ok() {
                connection.readable = true;
                connection.writable = true;
                self.shared.mailboxes[target].send(Message::Adopt(connection));
            } else {
                self.shared.server.disconnect(&mut self.engine, &mut connection.session);
            }
        }
    }
}
