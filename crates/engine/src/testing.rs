//! A whole server in one thread, for tests: commands in, replies out, time under control.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::clock::{Clock, ManualClock, Now};
use resp::{Batch, DecodeLimits, Decoder, Proto, Value};

use crate::clients::Peer;
use crate::cluster_face::Identity;
use crate::config::Config;
use crate::dispatch::{Progress, Stop, run_batch};
use crate::forwarding::{Door, Forward};
use crate::lane;
use crate::letter::Letter;
use crate::outgoing::Link;
use crate::output::Output;
use crate::propagation::LogReader;
use crate::pubsub::{leave_shard, left_shards};
use crate::replication::primary::Feed;
use crate::server::{NoHost, Process, Server};
use crate::session::Session;
use crate::worker::Worker;

/// The server's clock; it counts how often it is read.
struct SharedClock(Arc<ManualClock>, Arc<AtomicU64>);

impl Clock for SharedClock {
    fn now(&self) -> Now {
        self.1.fetch_add(1, Relaxed);
        self.0.now()
    }
}

/// A server, one worker, and connections of which one at a time sends commands.
pub struct Harness {
    /// The server.
    pub server: Arc<Server>,
    worker: Worker,
    /// The connection that sends.
    session: Session,
    /// The others, by number; the place of the one that sends is empty.
    others: Vec<Option<Session>>,
    at: usize,
    host: NoHost,
    clock: Arc<ManualClock>,
    /// Commands that left their work to the long lane, or to a thread for scripts.
    pub deferred: usize,
    /// What the last connection is sent that became a replica.
    pub feed: Option<Box<Feed>>,
    /// Requests that were to be forwarded.
    forwards: Vec<(Door, Forward)>,
    /// Runs before the next job of the long lane.
    before_job: Option<Box<dyn FnOnce() + Send>>,
}

impl Default for Harness {
    fn default() -> Harness {
        Harness::new()
    }
}

impl Harness {
    /// A server with default directives, in January 2024.
    pub fn new() -> Harness {
        Harness::with_config(&[])
    }

    /// A server with these directives set.
    pub fn with_config(pairs: &[(&str, &str)]) -> Harness {
        let config = Config::defaults();
        for (name, value) in pairs {
            config.override_value(name, value.as_bytes()).expect("a valid directive");
        }
        Harness::of(config)
    }

    /// As [`Harness::with_config`], a node of a cluster that has this id and tells of new owners plainly.
    pub fn of_node(pairs: &[(&str, &str)], node_id: &str) -> Harness {
        let config = Config::defaults();
        let node = [("cluster-enabled", "yes"), ("cluster-redirects", "plain")];
        for (name, value) in node.iter().chain(pairs) {
            config.override_value(name, value.as_bytes()).expect("a valid directive");
        }
        let identity = Some(Identity::of_node(node_id.to_owned()));
        Harness::in_process(config, Process { cluster_identity: identity, ..Process::default() })
    }

    /// A server started with this command line.
    pub fn with_options(options: &[&str]) -> Harness {
        let options: Vec<Vec<u8>> = options.iter().map(|word| word.as_bytes().to_vec()).collect();
        Harness::of(Config::load(&options).expect("a valid command line").0)
    }

    fn of(config: Config) -> Harness {
        Harness::in_process(config, Process::default())
    }

    fn in_process(config: Config, process: Process) -> Harness {
        let clock = Arc::new(ManualClock::new(1_704_067_200_000));
        let process = Process { workers: 1, run_id: "0".repeat(40), ..process };
        let host = NoHost::default();
        let server = Server::new(
            Arc::new(config),
            Box::new(SharedClock(clock.clone(), host.clock_readings.clone())),
            process,
            Box::new(host.clone()),
        );
        let server = Arc::new(server.expect("a valid configuration"));
        Harness::on_worker(server, clock, host, 1)
    }

    /// A worker of this server, with a connection; its chance follows from `seed`.
    fn on_worker(server: Arc<Server>, clock: Arc<ManualClock>, host: NoHost, seed: u64) -> Harness {
        let worker = Worker::new(0, server.stats[0].clone(), seed, clock.now());
        let session = connect(&server, &clock, 0);
        Harness {
            server,
            worker,
            session,
            others: vec![None],
            at: 0,
            host,
            clock,
            deferred: 0,
            feed: None,
            forwards: Vec::new(),
            before_job: None,
        }
    }

    /// How often the server has read its clock.
    pub fn clock_readings(&self) -> u64 {
        self.host.clock_readings.load(Relaxed)
    }

    /// Another worker of the same server, for what happens meanwhile.
    pub fn sharing(other: &Harness) -> Harness {
        Harness::on_worker(other.server.clone(), other.clock.clone(), other.host.clone(), 2)
    }

    /// Has another connection send from now on; it is made if there is none of this number. The first is 0.
    pub fn on(&mut self, number: usize) -> &mut Harness {
        while self.others.len() <= number {
            let session = connect(&self.server, &self.clock, self.others.len());
            self.others.push(Some(session));
        }
        if number != self.at {
            let next = self.others[number].take().expect("a connection that is open");
            let last = std::mem::replace(&mut self.session, next);
            self.others[self.at] = Some(last);
            self.at = number;
        }
        self
    }

    /// What the connection that sends now was sent unasked, or after a wait; shown as [`Harness::run`] does.
    pub fn received(&mut self) -> String {
        let token = self.at;
        let mine = |letter: &Letter| match letter {
            Letter::Push { token: to, .. } | Letter::Reply { token: to, .. } => *to == token,
            Letter::Publish(_) | Letter::CheckChannels { .. } | Letter::ShardsChanged => true,
            Letter::Replicas | Letter::Fetched { .. } => false,
            Letter::Gated { .. } => unreachable!("unwrapped below"),
        };
        self.spread_publications();
        let mut letters = self.host.letters.lock();
        let (mine, others) = letters.drain(..).partition(|(_, letter)| mine(letter));
        *letters = others;
        drop(letters);
        let mine: Vec<(usize, Letter)> = mine;
        let mut sent = Vec::new();
        for (_, letter) in mine {
            match letter {
                Letter::Push { bytes, .. } => sent.extend_from_slice(&bytes),
                Letter::Reply { output, .. } => drain(output, &mut sent),
                _ => unreachable!("spread or left above"),
            }
        }
        show_all(&sent)
    }

    /// Has the cluster do all that is asked of it from now on.
    pub fn answer_asks(&mut self) {
        self.host.asked.lock().get_or_insert_default();
    }

    /// What was asked of the cluster since this was last called.
    pub fn asked(&self) -> Vec<cluster::agent::Ask> {
        self.host.asked.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Ends the connection that sends, as its worker does when the socket closes.
    pub fn disconnect(&mut self) {
        self.server.disconnect(&mut self.worker, &mut self.session);
        self.session = connect(&self.server, &self.clock, self.at);
    }

    /// The next command that wants a connection to another server gets this one, before those that were given sooner.
    pub fn give_link(&mut self, link: Box<dyn Link>) {
        self.host.links.lock().push(link);
    }

    /// Makes a push for each subscriber of each message, and looks at what connections listen to, as the worker does.
    fn spread_publications(&mut self) {
        let mut letters = Vec::new();
        for (worker, letter) in self.host.letters.lock().drain(..) {
            let letter = match letter {
                Letter::Gated { letter, .. } => *letter,
                letter => letter,
            };
            if let Letter::CheckChannels { token, .. } = letter {
                let of_number = self.others.get(token).and_then(Option::as_ref);
                let session = of_number.unwrap_or(&self.session);
                session.client.kill.fetch_or(session.listens_unduly(), Relaxed);
                continue;
            }
            if let Letter::ShardsChanged = letter {
                for (token, name) in left_shards(&self.server, &self.worker) {
                    let of_number = self.others.get_mut(token).and_then(Option::as_mut);
                    let session = of_number.unwrap_or(&mut self.session);
                    let bytes = leave_shard(&self.server, &mut self.worker, session, &name);
                    letters.push((worker, Letter::Push { token, client_id: session.client.id, bytes }));
                }
                continue;
            }
            let Letter::Publish(publication) = letter else {
                letters.push((worker, letter));
                continue;
            };
            self.worker.subscribers.deliver(&publication, |token, bytes_for| {
                let of_number = self.others.get(token).and_then(Option::as_ref);
                let session = of_number.unwrap_or(&self.session);
                let (client_id, bytes) = (session.client.id, bytes_for(session.proto));
                letters.push((worker, Letter::Push { token, client_id, bytes }));
            });
        }
        *self.host.letters.lock() = letters;
    }

    /// Ends the waits whose time is over.
    pub fn end_waits(&mut self) {
        let now_us = self.clock.now().mono_us;
        let sessions = self.others.iter().flatten().chain([&self.session]);
        let waiters = sessions.filter_map(|session| self.server.waiters.of_client(session.client.id));
        for waiter in waiters.filter(|waiter| waiter.deadline_us.is_some_and(|at_us| at_us <= now_us)) {
            if let Some(output) = self.server.waiters.time_out(&waiter) {
                self.server.post(&waiter.client, |token, client_id| Letter::Reply {
                    token,
                    client_id,
                    output,
                });
            }
        }
    }

    /// Replies are RESP3 from now on.
    pub fn resp3(mut self) -> Harness {
        self.session.proto = Proto::V3;
        self
    }

    /// Has this happen between the next command that leaves its work to the long lane and that work.
    pub fn before_job(&mut self, work: impl FnOnce() + Send + 'static) {
        self.before_job = Some(Box::new(work));
    }

    /// Evicts the key that the policy names; false if there is none.
    pub fn evict_one(&mut self) -> bool {
        self.worker.set_now(self.clock.now());
        crate::eviction::evict_one(&self.server, &mut self.worker) == crate::eviction::Attempt::Evicted
    }

    /// What the host was told of changes of primaries, which is taken away: when writes were held, and if the next one has all.
    pub fn handed_over(&mut self) -> Vec<(cluster::agent::HoldId, bool)> {
        std::mem::take(&mut self.host.handed_over.lock())
    }

    /// Moves the clock.
    pub fn advance_ms(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    /// Runs a command given as words, with quotes as redis-cli has them; the reply is the bytes sent.
    pub fn run_raw(&mut self, line: &str) -> Vec<u8> {
        let words = crate::config::text::split_words(line.as_bytes()).expect("balanced quotes");
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.run_args(&words)
    }

    /// Runs a command given as arguments.
    pub fn run_args(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut input = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            input.extend_from_slice(arg);
            input.extend_from_slice(b"\r\n");
        }
        self.run_wire(&input)
    }

    /// Runs a command; what it left in the log: commands with their words as they are, a bar between two.
    pub fn effects(&mut self, line: &str) -> String {
        self.effects_of(|harness| drop(harness.run(line)))
    }

    /// As [`Harness::effects`], of anything.
    pub fn effects_of(&mut self, work: impl FnOnce(&mut Harness)) -> String {
        self.server.want_log(LogReader::Files, true);
        let start = self.server.log.end();
        let reader = self.server.log.consumer(start, true).expect("the log's end is in memory");
        work(self);
        let mut parts = Vec::new();
        reader.read(start, usize::MAX, &mut parts).expect("nothing is dropped before it was read");
        let written: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let (limits, mut batch, mut commands, mut rest) =
            (DecodeLimits::default(), Batch::new(), Vec::new(), &written[..]);
        while !rest.is_empty() {
            let consumed = Decoder::new().decode(rest, &limits, 1, &mut batch).expect("a command");
            let words = batch.command(0, rest);
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            commands.push(words.collect::<Vec<_>>().join(" "));
            rest = &rest[consumed..];
        }
        commands.join("|")
    }

    /// Presents a command once; true if it has to come again, since writers are held up, else it was run.
    pub fn is_held_up(&mut self, line: &str) -> bool {
        matches!(self.stops(line), Some(Stop::Busy | Stop::Full))
    }

    /// Runs bytes as they come from a socket.
    pub fn run_wire(&mut self, input: &[u8]) -> Vec<u8> {
        let limits = DecodeLimits {
            bulk_bytes_max: 512 << 20,
            query_buffer_bytes_max: 1 << 30,
            authenticated: self.session.authenticated,
        };
        let mut sent = Vec::new();
        let mut rest = input;
        while !rest.is_empty() {
            let mut batch = Batch::new();
            let mut decoder = Decoder::new();
            let consumed = decoder.decode(rest, &limits, base::limits::BATCH_COMMANDS, &mut batch);
            let consumed = consumed.expect("well-formed input");
            assert!(consumed > 0, "a whole command");
            self.run_decoded(&batch, rest, &mut sent);
            rest = &rest[consumed..];
        }
        sent
    }

    fn run_decoded(&mut self, batch: &Batch, input: &[u8], sent: &mut Vec<u8>) {
        drain(self.reply_to(batch, input), sent);
    }

    fn reply_to(&mut self, batch: &Batch, input: &[u8]) -> Output {
        let (progress, mut out) = self.attempt(batch, input);
        assert_eq!(progress.executed, batch.len(), "the harness runs one command at a time");
        if let Some(deferred) = self.worker.deferred.take() {
            self.deferred += 1;
            self.before_job.take().into_iter().for_each(|work| work());
            out.append(lane::run(&self.server, &mut self.worker, deferred));
        }
        self.host.letters.lock().extend(self.worker.outbox.drain(..).map(|letter| (0, letter)));
        self.forwards.extend(self.worker.forwarding.give_taken());
        // Who waits is answered by a letter.
        self.worker.blocked = None;
        self.feed = self.worker.attached.take().or(self.feed.take());
        out
    }

    fn attempt(&mut self, batch: &Batch, input: &[u8]) -> (Progress, Output) {
        let mut out = Output::new();
        self.worker.set_now(self.clock.now());
        let progress = run_batch(&self.server, &mut self.worker, &mut self.session, batch, input, &mut out);
        (progress, out)
    }

    /// Requests that were to be forwarded since this was last asked, each with its door.
    pub fn forwards(&mut self) -> Vec<(Door, Forward)> {
        std::mem::take(&mut self.forwards)
    }

    /// Presents commands as one batch: what was sent, and how many of them were run or taken to be forwarded.
    pub fn batch(&mut self, lines: &[&str]) -> (String, usize) {
        let input: Vec<u8> = lines.iter().flat_map(|line| decoded(line).1).collect();
        let mut batch = Batch::new();
        let decoded = Decoder::new().decode(&input, &DecodeLimits::default(), lines.len(), &mut batch);
        assert_eq!(decoded, Ok(input.len()), "whole commands");
        let (progress, out) = self.attempt(&batch, &input);
        self.forwards.extend(self.worker.forwarding.give_taken());
        let mut sent = Vec::new();
        drain(out, &mut sent);
        (show_all(&sent), progress.executed)
    }

    /// Runs a command; the reply as it is to be sent, with its gates.
    pub fn reply(&mut self, line: &str) -> Output {
        let (batch, input) = decoded(line);
        self.reply_to(&batch, &input)
    }

    /// Presents a command; why it was not run, if it was not.
    pub fn stops(&mut self, line: &str) -> Option<Stop> {
        let (batch, input) = decoded(line);
        let progress = self.attempt(&batch, &input).0;
        (progress.executed == 0).then_some(progress.stop)
    }

    /// The letters that were sent, which are taken away.
    pub fn take_letters(&mut self) -> Vec<Letter> {
        self.host.letters.lock().drain(..).map(|(_, letter)| letter).collect()
    }

    /// The worker, and the connection that sends.
    pub fn worker_and_session(&mut self) -> (&Worker, &Session) {
        (&self.worker, &self.session)
    }

    /// Runs a command and shows its reply in a line: `:1`, `+OK`, `-ERR ..`, `text` for a string, `(nil)`,
    /// `[a b]` for arrays, `~[..]` for sets, `%{k=v ..}` for maps, `,1.5` for doubles.
    pub fn run(&mut self, line: &str) -> String {
        show_all(&self.run_raw(line))
    }

    /// Runs each line and compares its reply.
    pub fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.run(line), expected, "{line}");
    }
}

/// A connection to a server of this process. What is sent to it is run when its answers are wanted.
pub struct DirectLink {
    to: Arc<Mutex<Harness>>,
    sent: Vec<u8>,
    reads: usize,
    meanwhile: Box<dyn FnMut(usize) -> io::Result<()> + Send>,
}

impl DirectLink {
    /// A link to this server. `meanwhile` is called before each reading, with its number: what happens then, or why the link
    /// is broken.
    pub fn new(
        to: &Arc<Mutex<Harness>>,
        meanwhile: impl FnMut(usize) -> io::Result<()> + Send + 'static,
    ) -> DirectLink {
        DirectLink { to: to.clone(), sent: Vec::new(), reads: 0, meanwhile: Box::new(meanwhile) }
    }
}

impl Link for DirectLink {
    fn set_patience(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent.extend_from_slice(bytes);
        Ok(())
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.reads += 1;
        (self.meanwhile)(self.reads)?;
        let (sent, mut at) = (std::mem::take(&mut self.sent), 0);
        assert!(!sent.is_empty(), "nobody waits for an answer to nothing");
        let mut to = self.to.lock().expect("a test that goes on");
        while at < sent.len() {
            let mut batch = Batch::new();
            let used = Decoder::new().decode(&sent[at..], &DecodeLimits::default(), 1, &mut batch);
            let end = at + used.expect("well-formed commands");
            bytes.extend_from_slice(&to.run_wire(&sent[at..end]));
            at = end;
        }
        Ok(())
    }
}

/// Runs a script with several connections. Each line is `connection> command => reply`, or `connection< what it was sent
/// since`, or `wait ms`. Nobody may be left waiting at its end.
pub fn play(script: &str) {
    let mut harness = Harness::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(ms) = line.strip_prefix("wait ") {
            harness.advance_ms(ms.parse().expect("milliseconds"));
            harness.end_waits();
        } else if let Some((number, rest)) = line.split_once("> ") {
            let (command, expected) = rest.split_once(" => ").unwrap_or((rest, ""));
            let reply = harness.on(number.parse().expect("a connection")).run(command);
            assert_eq!(reply, expected, "{line}");
        } else if let Some((number, expected)) = line.split_once('<') {
            let received = harness.on(number.parse().expect("a connection")).received();
            assert_eq!(received, expected.trim(), "{line}");
        } else {
            panic!("what is {line}?");
        }
    }
    assert_eq!(harness.server.waiters.key_count(), 0, "nobody is left waiting");
}

fn decoded(line: &str) -> (Batch, Vec<u8>) {
    let words = crate::config::text::split_words(line.as_bytes()).expect("balanced quotes");
    let mut input = Vec::new();
    resp::write_command(&mut input, words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut batch = Batch::new();
    let decoded = Decoder::new().decode(&input, &DecodeLimits::default(), 1, &mut batch);
    assert_eq!(decoded, Ok(input.len()), "one command");
    (batch, input)
}

fn connect(server: &Server, clock: &ManualClock, number: usize) -> Session {
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 6379));
    let client = server.clients.open(Peer::tcp(local, local), 0, clock.now().unix_ms);
    client.token.store(number as u32, Relaxed);
    Session::new(client, server.acl.default_user())
}

fn drain(mut out: Output, sent: &mut Vec<u8>) {
    out.open(u64::MAX);
    while !out.is_empty() {
        while out.refill() {}
        let mut slices = [std::io::IoSlice::new(&[]); 64];
        let count = out.slices(&mut slices);
        let before = sent.len();
        slices[..count].iter().for_each(|slice| sent.extend_from_slice(slice));
        out.advance(sent.len() - before);
    }
}

fn show_all(mut replies: &[u8]) -> String {
    let mut shown = Vec::new();
    while !replies.is_empty() {
        let (value, used) = resp::parse::parse(replies).expect("a valid reply").expect("a whole reply");
        shown.push(show(&value));
        replies = &replies[used..];
    }
    shown.join(" ")
}

fn show(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = |items: &[Value]| items.iter().map(show).collect::<Vec<_>>().join(" ");
    let pairs = |pairs: &[(Value, Value)]| {
        pairs.iter().map(|(k, v)| format!("{}={}", show(k), show(v))).collect::<Vec<_>>().join(" ")
    };
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) | Value::BulkError(bytes) => format!("-{}", text(bytes)),
        Value::Int(n) => format!(":{n}"),
        Value::Bulk(bytes) => text(bytes),
        Value::NullBulk | Value::Null => "(nil)".to_owned(),
        Value::NullArray => "(nil array)".to_owned(),
        Value::Array(items) => format!("[{}]", all(items)),
        Value::Set(items) => format!("~[{}]", all(items)),
        Value::Push(items) => format!(">[{}]", all(items)),
        Value::Map(items) => format!("%{{{}}}", pairs(items)),
        Value::Attribute(_, inner) => show(inner),
        Value::Bool(value) => format!("#{value}"),
        Value::Double(digits) => format!(",{}", text(digits)),
        Value::BigNumber(digits) => format!("({}", text(digits)),
        Value::Verbatim(_, bytes) => format!("={}", text(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_runs_in_order() {
        let mut harness = Harness::new();
        harness.check("PING", "+PONG");
        harness.check("ping hello", "hello");
        harness.check("PING a b", "-ERR wrong number of arguments for 'ping' command");
        harness.check("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ");
    }

    #[test]
    fn a_pipeline_stops_when_its_turn_is_over() {
        // What is over from the start is over after one command, so that every turn gets on.
        for (turn_ends_us, expected) in [(1, (3, Stop::Done)), (0, (1, Stop::Turn))] {
            let mut harness = Harness::new();
            harness.worker.turn_ends_us = turn_ends_us;
            let input = b"PING\r\nPING\r\nPING\r\n";
            let (mut batch, mut out) = (Batch::new(), Output::new());
            let consumed = Decoder::new().decode(input, &DecodeLimits::default(), 16, &mut batch);
            assert_eq!(consumed, Ok(input.len()));
            let progress = run_batch(
                &harness.server,
                &mut harness.worker,
                &mut harness.session,
                &batch,
                input,
                &mut out,
            );
            assert_eq!((progress.executed, progress.stop), expected);
            assert_eq!(out.pending_bytes(), progress.executed * b"+PONG\r\n".len());
        }
    }
}
