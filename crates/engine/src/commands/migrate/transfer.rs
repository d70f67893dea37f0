//! One exchange with the other server: RESTORE for each key, and what it answers.

use std::io::{self, ErrorKind};

use base::limits::{BIG_PAYLOAD_BYTES, MIGRATE_LINE_BYTES_MAX, MIGRATE_SEND_BYTES, MIGRATE_WINDOW_KEYS};
use rdb::payload::{self, PayloadEncoder};
use resp::write_command;
use store::{OwnedEntry, OwnedValue};

use super::Order;
use crate::commands::keys::dump::{compression, is_big};
use crate::fault::Fault;
use crate::outgoing::Kept;
use crate::server::Server;

const NOT_CONNECTED: Fault = Fault::Text("IOERR error or timeout connecting to the client");
const NOT_WRITTEN: Fault = Fault::Text("IOERR error or timeout writing to target instance");
const NOT_READ: Fault = Fault::Text("IOERR error or timeout reading to target instance");

/// What the other server is to do with a key.
#[derive(Clone)]
pub(super) enum Item {
    /// Give it this value.
    Restore { key: Vec<u8>, entry: OwnedEntry, replaces: bool },
    /// Delete it: it was sent before, and is no longer here.
    Delete { key: Vec<u8> },
}

impl Item {
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Item::Restore { key, .. } | Item::Delete { key } => key,
        }
    }
}

/// What came of an exchange.
pub(super) struct Outcome {
    /// For each item, whether it was done.
    pub(super) acknowledged: Vec<bool>,
    /// What the client is told, if it was not all done.
    pub(super) fault: Option<Fault>,
    /// What is not acknowledged may be done all the same.
    pub(super) is_link_lost: bool,
}

/// Sends the items to the order's server. A connection that turns out to be dead before anything was answered is replaced
/// once.
pub(super) fn transfer(server: &Server, order: &Order, items: &[Item]) -> Outcome {
    let nothing = || vec![false; items.len()];
    let mut may_retry = true;
    loop {
        let kept = match server.links.take(&order.target) {
            Some(kept) => Ok(kept),
            None => {
                server.host.connect(server, &order.target, order.patience).map(|link| Kept { link, db: None })
            }
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => {
                return Outcome {
                    acknowledged: nothing(),
                    fault: Some(unconnected(&error)),
                    is_link_lost: true,
                };
            }
        };
        let mut exchange = Exchange::new(server, order, kept, items.len());
        let result = exchange.run(items);
        let Exchange { mut kept, acknowledged, refusal, answers, .. } = exchange;
        let refusal = refusal
            .map(|text| Fault::Quoting([b"ERR Target instance replied with error: ", &text[..]].concat()));
        match result {
            Ok(()) => {
                kept.db = refusal.is_none().then_some(order.db);
                server.links.keep(order.target.clone(), kept, server.clock.now().mono_us);
                return Outcome { acknowledged, fault: refusal, is_link_lost: false };
            }
            Err((_, error)) if may_retry && answers == 0 && error.kind() != ErrorKind::TimedOut => {
                may_retry = false;
            }
            Err((fault, _)) => {
                return Outcome { acknowledged, fault: refusal.or(Some(fault)), is_link_lost: true };
            }
        }
    }
}

/// Redis connects without waiting, and finds out that nobody listens when it writes.
fn unconnected(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::HostUnreachable => NOT_WRITTEN,
        _ => NOT_CONNECTED,
    }
}

struct Exchange<'a> {
    server: &'a Server,
    order: &'a Order,
    kept: Kept,
    /// What is still to be sent.
    output: Vec<u8>,
    /// What was read, and up to where it was looked at.
    input: Vec<u8>,
    at: usize,
    acknowledged: Vec<bool>,
    /// The first error that the other server answered with.
    refusal: Option<Vec<u8>>,
    /// It answered to AUTH or SELECT: then nothing counts as done.
    is_refused_whole: bool,
    /// Items that it has answered to.
    answers: usize,
}

type Broken = (Fault, io::Error);

impl<'a> Exchange<'a> {
    fn new(server: &'a Server, order: &'a Order, kept: Kept, items: usize) -> Exchange<'a> {
        Exchange {
            server,
            order,
            kept,
            output: Vec::new(),
            input: Vec::new(),
            at: 0,
            acknowledged: vec![false; items],
            refusal: None,
            is_refused_whole: false,
            answers: 0,
        }
    }

    fn run(&mut self, items: &[Item]) -> Result<(), Broken> {
        self.kept.link.set_patience(self.order.patience).map_err(|error| (NOT_WRITTEN, error))?;
        let mut greetings = 0;
        if !self.order.credentials.is_empty() {
            let words = self.order.credentials.iter().map(Vec::as_slice);
            write_command(&mut self.output, std::iter::once(&b"AUTH"[..]).chain(words).collect::<Vec<_>>());
            greetings += 1;
        }
        if self.kept.db != Some(self.order.db) {
            let db = self.order.db.to_string();
            write_command(&mut self.output, [&b"SELECT"[..], db.as_bytes()]);
            greetings += 1;
        }
        for (number, window) in items.chunks(MIGRATE_WINDOW_KEYS).enumerate() {
            let first = number * MIGRATE_WINDOW_KEYS;
            let sent = self.send(window).map_err(|error| (NOT_WRITTEN, error))?;
            let read = self.read(window, &sent, first, std::mem::take(&mut greetings));
            read.map_err(|error| (NOT_READ, error))?;
        }
        Ok(())
    }

    /// Sends items; which of them, as what has ended is not sent.
    fn send(&mut self, items: &[Item]) -> io::Result<Vec<bool>> {
        let mut sent = Vec::with_capacity(items.len());
        for item in items {
            sent.push(match item {
                Item::Restore { key, entry, replaces } => self.put_restore(key, entry, *replaces)?,
                Item::Delete { key } => {
                    if self.order.is_asking {
                        write_command(&mut self.output, [&b"ASKING"[..]]);
                    }
                    write_command(&mut self.output, [&b"DEL"[..], key]);
                    true
                }
            });
            self.flush(MIGRATE_SEND_BYTES)?;
        }
        self.flush(0)?;
        Ok(sent)
    }

    fn put_restore(&mut self, key: &[u8], entry: &OwnedEntry, replaces: bool) -> io::Result<bool> {
        let mut ttl_ms = 0;
        if let Some(at_ms) = entry.expire_at_ms {
            ttl_ms = at_ms.saturating_sub(self.server.clock.now().unix_ms);
            if ttl_ms < 0 {
                return Ok(false);
            }
            ttl_ms = ttl_ms.max(1);
        }
        let word: &[u8] = if self.order.is_asking { b"RESTORE-ASKING" } else { b"RESTORE" };
        self.output.extend_from_slice(format!("*{}\r\n", 4 + usize::from(replaces)).as_bytes());
        [word, key, ttl_ms.to_string().as_bytes()].iter().for_each(|text| self.put_bulk(text));
        self.put_payload(&entry.value)?;
        if replaces {
            self.put_bulk(b"REPLACE");
        }
        Ok(true)
    }

    /// A value as DUMP gives it: a big one is never whole in memory.
    fn put_payload(&mut self, value: &OwnedValue) -> io::Result<()> {
        let compression = compression(self.server);
        if !is_big(value) {
            self.put_bulk(&payload::encode(value, compression));
            return Ok(());
        }
        self.output.extend_from_slice(format!("${}\r\n", payload::len(value, compression)).as_bytes());
        let mut encoder = PayloadEncoder::new(value, compression);
        while encoder.fill(&mut self.output) {
            self.flush(BIG_PAYLOAD_BYTES)?;
        }
        self.output.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn put_bulk(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
        self.output.extend_from_slice(bytes);
        self.output.extend_from_slice(b"\r\n");
    }

    /// Sends what has been collected, if that is more than so many bytes.
    fn flush(&mut self, bytes_max: usize) -> io::Result<()> {
        if self.output.len() > bytes_max {
            self.kept.link.send(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// Reads what the other server answers to items, after so many answers to what came first.
    fn read(&mut self, items: &[Item], sent: &[bool], first: usize, greetings: usize) -> io::Result<()> {
        for _ in 0..greetings {
            self.is_refused_whole |= !self.answer()?;
        }
        for (at, item) in items.iter().enumerate().filter(|(at, _)| sent[*at]) {
            if matches!(item, Item::Delete { .. }) && self.order.is_asking {
                self.answer()?;
            }
            let is_done = self.answer()?;
            self.answers += 1;
            self.acknowledged[first + at] = is_done && !self.is_refused_whole;
        }
        Ok(())
    }

    /// Reads a line; false if it is an error, of which the first is remembered.
    fn answer(&mut self) -> io::Result<bool> {
        let line = self.line()?;
        let Some(text) = line.strip_prefix(b"-") else { return Ok(true) };
        let text = text.to_vec();
        self.refusal.get_or_insert(text);
        Ok(false)
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut looked_at = self.at;
        loop {
            if let Some(end) = self.input[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line = self.input[self.at..looked_at + end].trim_ascii_end().to_vec();
                self.at = looked_at + end + 1;
                return Ok(line);
            }
            if self.input.len() - self.at > MIGRATE_LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            self.input.drain(..std::mem::take(&mut self.at));
            looked_at = self.input.len();
            self.kept.link.receive(&mut self.input)?;
        }
    }
}
