//! The connection over which slots are sent: commands in windows, of which two are on their way at a time.

use std::collections::VecDeque;
use std::time::Duration;

use base::limits::{SLOT_MOVE_WINDOW_BYTES, SLOT_MOVE_WINDOW_COMMANDS};
use resp::{Value, write_command};

use crate::outgoing::Link;
use crate::server::Server;

/// So few in tests that something can come between any two.
const WINDOW_COMMANDS: usize = if cfg!(test) { 2 } else { SLOT_MOVE_WINDOW_COMMANDS };
/// Windows whose answers are not read yet.
const WINDOWS_MAX: usize = 2;
/// A move that is slowed down sends so many windows a second, or more.
const WINDOWS_PER_S: u64 = 10;
/// A move that is slowed down looks so often whether it is to end.
const PAUSE_MAX: Duration = Duration::from_millis(100);

pub(super) struct Channel<'a> {
    server: &'a Server,
    link: Box<dyn Link>,
    /// The window that is being filled, and the commands in it.
    window: Vec<u8>,
    /// Bytes with which it is full.
    window_bytes: usize,
    commands: usize,
    /// The commands of each window that was sent and not answered.
    unanswered: VecDeque<usize>,
    input: Vec<u8>,
    /// Bytes sent.
    pub(super) sent_bytes: u64,
    started_us: u64,
    /// Bytes of what the pace is measured by, since `started_us`.
    paced_bytes: u64,
    /// All answers have to be there by then.
    until_us: Option<u64>,
}

impl<'a> Channel<'a> {
    pub(super) fn new(server: &'a Server, link: Box<dyn Link>) -> Channel<'a> {
        Channel {
            server,
            link,
            window: Vec::new(),
            window_bytes: SLOT_MOVE_WINDOW_BYTES,
            commands: 0,
            unanswered: VecDeque::new(),
            input: Vec::new(),
            sent_bytes: 0,
            started_us: server.clock.mono_us(),
            paced_bytes: 0,
            until_us: None,
        }
    }

    /// From now on all may take so long together.
    pub(super) fn set_deadline(&mut self, limit: Duration) {
        self.until_us = Some(self.server.clock.mono_us() + limit.as_micros() as u64);
    }

    /// Waits no longer than until the deadline.
    fn hurry(&mut self) -> Result<(), String> {
        let Some(until_us) = self.until_us else { return Ok(()) };
        match until_us.saturating_sub(self.server.clock.mono_us()) {
            0 => Err("the destination does not answer in time".to_owned()),
            left_us => {
                let left = Duration::from_micros(left_us);
                self.link.set_patience(left).map_err(|error| error.to_string())
            }
        }
    }

    /// Sends a command.
    pub(super) fn command(&mut self, words: &[&[u8]]) -> Result<(), String> {
        write_command(&mut self.window, words);
        self.commands += 1;
        self.send_if_full()
    }

    /// Sends commands that are encoded.
    pub(super) fn encoded(&mut self, bytes: &[u8], commands: usize) -> Result<(), String> {
        self.window.extend_from_slice(bytes);
        self.commands += commands;
        self.send_if_full()
    }

    fn send_if_full(&mut self) -> Result<(), String> {
        if self.window.len() < self.window_bytes && self.commands < WINDOW_COMMANDS {
            return Ok(());
        }
        self.send()?;
        while self.unanswered.len() >= WINDOWS_MAX {
            self.read_window()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), String> {
        if self.commands == 0 {
            return Ok(());
        }
        self.hurry()?;
        self.link.send(&self.window).map_err(|error| format!("cannot send to the destination: {error}"))?;
        self.sent_bytes += self.window.len() as u64;
        self.paced_bytes += self.window.len() as u64;
        self.window.clear();
        self.unanswered.push_back(std::mem::take(&mut self.commands));
        Ok(())
    }

    /// Sends what there is and waits until all of it is answered.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.send()?;
        while !self.unanswered.is_empty() {
            self.read_window()?;
        }
        Ok(())
    }

    /// Asks something, once all before is answered.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<(), String> {
        self.settle()?;
        self.command(words)?;
        self.settle()
    }

    fn read_window(&mut self) -> Result<(), String> {
        let Some(mut left) = self.unanswered.pop_front() else { return Ok(()) };
        while left > 0 {
            let mut at = 0;
            while left > 0
                && let Some((reply, used)) = resp::parse::parse(&self.input[at..])
                    .map_err(|_| "the destination answers what is no reply".to_owned())?
            {
                at += used;
                left -= 1;
                if let Value::Error(text) | Value::BulkError(text) = reply {
                    return Err(format!("the destination answers: {}", String::from_utf8_lossy(&text)));
                }
            }
            self.input.drain(..at);
            if left > 0 {
                self.hurry()?;
                let read = self.link.receive(&mut self.input);
                read.map_err(|error| format!("cannot read from the destination: {error}"))?;
            }
        }
        Ok(())
    }

    /// Waits for a moment if more was sent than `bytes_per_s` allows; true if it has to wait for longer.
    pub(super) fn pace(&mut self, bytes_per_s: u64) -> bool {
        let now_us = self.server.clock.mono_us();
        // Some go each moment: so it is seen soon if the other end is gone.
        let per_moment = usize::try_from(bytes_per_s / WINDOWS_PER_S).unwrap_or(usize::MAX);
        self.window_bytes = match bytes_per_s {
            0 => SLOT_MOVE_WINDOW_BYTES,
            _ => per_moment.clamp(1, SLOT_MOVE_WINDOW_BYTES),
        };
        if bytes_per_s == 0 {
            (self.started_us, self.paced_bytes) = (now_us, 0);
            return false;
        }
        let due_us = self.paced_bytes.saturating_mul(1_000_000) / bytes_per_s;
        let early_us = due_us.saturating_sub(now_us.saturating_sub(self.started_us));
        if early_us == 0 {
            // What was not used of the past is not made up for.
            (self.started_us, self.paced_bytes) = (now_us, 0);
            return false;
        }
        let early = Duration::from_micros(early_us);
        std::thread::sleep(early.min(PAUSE_MAX));
        early > PAUSE_MAX
    }
}
