//! A connection to another node over which requests are forwarded, without its socket: bytes to send out of it, bytes that
//! came into it, and the time as an argument.
//!
//! | state | left when |
//! |---|---|
//! | greeting | all that it says first is answered, none of it with an error |
//! | asking | the other node knows a topology that is new enough for the requests that wait |
//! | sending | a request comes that needs a newer one |
//!
//! Whatever fails ends the relay ([`Relay::fail`]); who wants one makes another.

use std::collections::VecDeque;

use base::limits::{
    READ_BUFFER_BYTES, RELAY_ANSWER_US_MAX, RELAY_ASK_US, RELAY_BYTES_MAX, RELAY_ERROR_BYTES_MAX,
    RELAY_IDLE_US_MAX, RELAY_REQUESTS_MAX, RELAY_SEND_US_MAX,
};
use resp::{ReplyScanner, write_command};

use super::{Answers, Forward, Origin};

/// A request that is not on its way yet.
struct Queued {
    origin: Origin,
    forward: Forward,
    at_us: u64,
}

/// What is to be answered.
enum Asked {
    /// Something said first.
    Greeting,
    /// Which topology the other node knows.
    Revision,
    /// A reply before the one that a client waits for.
    Before,
    /// A client's request, which ends at this position of all that was sent.
    Request { origin: Origin, end: u64 },
    /// Nothing: it waited for too long and was not sent. Its client is told after what comes before it.
    Refused(Origin),
}

struct Flying {
    asked: Asked,
    at_us: u64,
}

/// See the module.
pub struct Relay {
    /// Answers to the greeting that are missing.
    greetings: usize,
    /// The topology that the other node knows at least; `None`: it was not asked yet.
    revision: Option<u64>,
    /// It is asked for that.
    is_asking: bool,
    ask_at_us: u64,
    /// Bytes to send, of which the first `sent` were.
    out: Vec<u8>,
    sent: usize,
    /// Bytes that were sent before those in `out`.
    sent_before: u64,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    flying: VecDeque<Flying>,
    scanner: ReplyScanner,
    /// The reply at the front: its bytes as long as it may have to be looked at, `None` once they are passed on as they come.
    held: Option<Vec<u8>>,
    /// The first error among the replies before the one that a client waits for.
    error_before: Vec<u8>,
    used_us: u64,
}

impl Relay {
    /// A relay that says this first.
    pub(super) fn new(greeting: &[Vec<u8>], now_us: u64) -> Relay {
        let greet = |_| Flying { asked: Asked::Greeting, at_us: now_us };
        Relay {
            greetings: greeting.len(),
            revision: None,
            is_asking: false,
            ask_at_us: 0,
            out: greeting.concat(),
            sent: 0,
            sent_before: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            flying: (0..greeting.len()).map(greet).collect(),
            scanner: ReplyScanner::default(),
            held: Some(Vec::new()),
            error_before: Vec::new(),
            used_us: now_us,
        }
    }

    /// True if so many more requests of so many bytes may wait here.
    pub(super) fn has_room(&self, requests: usize, bytes: usize) -> bool {
        let (waiting, waiting_bytes) = self.waiting();
        waiting + requests <= RELAY_REQUESTS_MAX && waiting_bytes + bytes <= RELAY_BYTES_MAX
    }

    /// Requests that are not answered, and bytes that are not sent.
    pub fn waiting(&self) -> (usize, usize) {
        (self.queue.len() + self.flying.len(), self.queued_bytes + self.out.len() - self.sent)
    }

    /// Takes a request in.
    pub(super) fn push(&mut self, origin: Origin, forward: Forward, now_us: u64) {
        self.queued_bytes += forward.bytes.len();
        self.queue.push_back(Queued { origin, forward, at_us: now_us });
        self.used_us = now_us;
    }

    /// Puts what can be sent into [`Relay::unsent`].
    pub fn pump(&mut self, now_us: u64) {
        if self.greetings > 0 {
            return;
        }
        while let Some(queued) = self.queue.front() {
            if !self.knows(queued.forward.revision) {
                self.ask(now_us);
                return;
            }
            let Some(Queued { origin, forward, .. }) = self.queue.pop_front() else { return };
            self.queued_bytes -= forward.bytes.len();
            self.out.extend_from_slice(&forward.bytes);
            for _ in 0..forward.replies_before {
                self.flying.push_back(Flying { asked: Asked::Before, at_us: now_us });
            }
            let end = self.sent_before + self.out.len() as u64;
            let asked = Asked::Request { origin, end };
            self.flying.push_back(Flying { asked, at_us: now_us });
        }
    }

    fn knows(&self, revision: u64) -> bool {
        self.revision.is_some_and(|known| known >= revision)
    }

    /// Asks which topology the other node knows, which also keeps it from forwarding what it is sent.
    fn ask(&mut self, now_us: u64) {
        if self.is_asking || now_us < self.ask_at_us {
            return;
        }
        self.is_asking = true;
        write_command(&mut self.out, ["CLUSTER", "REDIRECTS", "PLAIN"]);
        self.flying.push_back(Flying { asked: Asked::Revision, at_us: now_us });
    }

    /// Bytes to send.
    pub fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// So many of them were sent.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        // What is sent while more comes goes now and then.
        if self.sent == self.out.len() || (self.sent >= READ_BUFFER_BYTES && self.sent >= self.out.len() / 2)
        {
            self.sent_before += self.sent as u64;
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whose reply comes next.
    pub fn front(&self) -> Option<Origin> {
        self.flying.iter().find_map(|flying| match flying.asked {
            Asked::Request { origin, .. } | Asked::Refused(origin) => Some(origin),
            _ => None,
        })
    }

    /// True if clients but this one were sent on since before that and wait for their answers.
    pub fn has_others_waiting_since(&self, client_id: u64, at_us: u64) -> bool {
        let is_other = |flying: &&Flying| match flying.asked {
            Asked::Request { origin, .. } | Asked::Refused(origin) => origin.client_id != client_id,
            _ => false,
        };
        self.flying.iter().find(is_other).is_some_and(|flying| flying.at_us <= at_us)
    }

    /// Takes in what came. The error says why the relay is of no use any more.
    pub fn receive(&mut self, mut input: &[u8], now_us: u64, answers: &mut Answers) -> Result<(), String> {
        while !input.is_empty() {
            let front = self.flying.front_mut().ok_or_else(|| "it says something unasked".to_owned())?;
            // A long reply is not late as long as more of it comes.
            front.at_us = now_us;
            let scanned = self.scanner.scan(input);
            let (used, is_whole) = scanned.map_err(|_| "what it answers is no reply".to_owned())?;
            self.take_bytes(&input[..used], is_whole, answers)?;
            input = &input[used..];
            if is_whole {
                self.end_reply(now_us, answers)?;
                self.tell_refused(answers);
            }
        }
        Ok(())
    }

    /// Bytes of the reply at the front: passed on as they come, but errors.
    fn take_bytes(&mut self, bytes: &[u8], is_whole: bool, answers: &mut Answers) -> Result<(), String> {
        let Some(Flying { asked, .. }) = self.flying.front() else { return Ok(()) };
        if let Asked::Request { origin, .. } = asked {
            let begins = self.held.as_ref().is_some_and(Vec::is_empty);
            if begins && bytes.first() != Some(&b'-') {
                self.held = None;
            }
            if self.held.is_none() {
                match (is_whole, origin.is_silent) {
                    (true, true) => answers.end(*origin, b""),
                    (true, false) => answers.end(*origin, bytes),
                    (false, true) => {}
                    (false, false) => answers.piece(*origin, bytes),
                }
            }
        }
        let Some(held) = &mut self.held else { return Ok(()) };
        held.extend_from_slice(bytes);
        if held.len() > RELAY_ERROR_BYTES_MAX { Err("it says too much".to_owned()) } else { Ok(()) }
    }

    /// The reply at the front is whole.
    fn end_reply(&mut self, now_us: u64, answers: &mut Answers) -> Result<(), String> {
        let Some(Flying { asked, .. }) = self.flying.pop_front() else { return Ok(()) };
        self.used_us = now_us;
        if let Some(next) = self.flying.front_mut() {
            next.at_us = now_us;
        }
        let held = self.held.replace(Vec::new());
        let error = held.as_deref().filter(|reply| reply.first() == Some(&b'-'));
        let text = || String::from_utf8_lossy(error.unwrap_or_default()).trim_end().to_owned();
        match asked {
            Asked::Greeting if error.is_some() => return Err(format!("it answers {}", text())),
            Asked::Greeting => self.greetings -= 1,
            Asked::Revision => {
                self.is_asking = false;
                self.ask_at_us = now_us + RELAY_ASK_US;
                let number = held.as_deref().and_then(|reply| reply.strip_prefix(b":"));
                let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
                let revision = number.and_then(|digits| digits.trim_end().parse::<u64>().ok());
                self.revision = Some(revision.ok_or_else(|| format!("it answers {}", text()))?);
            }
            Asked::Before => {
                if let Some(error) = error.filter(|_| self.error_before.is_empty()) {
                    self.error_before = error.to_vec();
                }
            }
            Asked::Request { origin, .. } => {
                let before = std::mem::take(&mut self.error_before);
                let Some(reply) = held else { return Ok(()) };
                // That a transaction is not run says less than why.
                let reply =
                    if reply.starts_with(b"-EXECABORT") && !before.is_empty() { before } else { reply };
                match () {
                    // Who may run it was asked here; that the relay may not is no answer to the client.
                    () if reply.starts_with(b"-NOPERM") => answers.not_run(origin),
                    () if origin.is_silent => answers.end(origin, b""),
                    () => answers.end(origin, &reply),
                }
            }
            Asked::Refused(_) => unreachable!("refused-told: it is no front for longer than a moment"),
        }
        Ok(())
    }

    /// Tells those who are refused and whose turn it is.
    fn tell_refused(&mut self, answers: &mut Answers) {
        while let Some(Flying { asked: Asked::Refused(origin), .. }) = self.flying.front() {
            answers.not_run(*origin);
            self.flying.pop_front();
        }
    }

    /// Gives up what has waited for too long to be sent.
    pub fn give_up(&mut self, now_us: u64, answers: &mut Answers) {
        let is_late = |queued: &mut Queued| queued.at_us + RELAY_SEND_US_MAX <= now_us;
        while let Some(Queued { origin, forward, .. }) = self.queue.pop_front_if(is_late) {
            self.queued_bytes -= forward.bytes.len();
            self.flying.push_back(Flying { asked: Asked::Refused(origin), at_us: now_us });
        }
        self.tell_refused(answers);
    }

    /// When the relay has to be looked at again, whatever comes.
    pub fn due_us(&self) -> u64 {
        let is_waiting_to_ask = self.greetings == 0
            && !self.is_asking
            && self.queue.front().is_some_and(|queued| !self.knows(queued.forward.revision));
        let ask_us = if is_waiting_to_ask { self.ask_at_us } else { u64::MAX };
        ask_us.min(self.send_by_us()).min(self.answer_by_us())
    }

    fn send_by_us(&self) -> u64 {
        self.queue.front().map_or(u64::MAX, |queued| queued.at_us + RELAY_SEND_US_MAX)
    }

    fn answer_by_us(&self) -> u64 {
        self.flying.front().map_or(u64::MAX, |flying| flying.at_us + RELAY_ANSWER_US_MAX)
    }

    /// Why the relay is to end by now, if it is.
    pub fn is_late(&self, now_us: u64) -> Option<&'static str> {
        match () {
            () if now_us >= self.answer_by_us() => Some("it does not answer in time"),
            () if self.revision.is_none() && now_us >= self.send_by_us() => Some("it is not reached in time"),
            () => None,
        }
    }

    /// True if nothing waits, and nothing has for a while.
    pub fn is_idle(&self, now_us: u64) -> bool {
        self.is_empty() && now_us.saturating_sub(self.used_us) >= RELAY_IDLE_US_MAX
    }

    /// True if nobody waits for it.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.front().is_none()
    }

    /// The connection is gone: what was sent whole may have been run, the rest was not.
    pub fn fail(self, answers: &mut Answers) {
        let sent = self.sent_before + self.sent as u64;
        for Flying { asked, .. } in self.flying {
            match asked {
                Asked::Request { origin, end, .. } if end <= sent => answers.lost(origin),
                Asked::Request { origin, .. } | Asked::Refused(origin) => answers.not_run(origin),
                _ => {}
            }
        }
        self.queue.into_iter().for_each(|queued| answers.not_run(queued.origin));
    }
}
