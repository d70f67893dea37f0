//! The log of slow commands.

use std::collections::VecDeque;

use parking_lot::Mutex;
use resp::Args;

use crate::args::is;
use crate::clients::Client;
use crate::config::directives::{self, Flags};

/// Arguments kept of a command, and bytes kept of each (Redis: SLOWLOG_ENTRY_MAX_*).
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;
/// What is kept of a password.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// One slow command.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// Ascending number.
    pub id: u64,
    /// Unix seconds of its end.
    pub at_s: i64,
    /// Its run time.
    pub duration_us: u64,
    /// Its arguments, clipped.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    newest_first: VecDeque<SlowCommand>,
}

/// The log, newest first.
#[derive(Default)]
pub struct Slowlog(Mutex<Entries>);

impl Slowlog {
    /// Adds a command, by its [`clipped`] arguments; the log keeps `len_max`.
    pub fn push(&self, args: Vec<Vec<u8>>, duration_us: u64, at_s: i64, client: &Client, len_max: usize) {
        let mut entries = self.0.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.newest_first.push_front(SlowCommand {
            id,
            at_s,
            duration_us,
            args,
            address: client.peer.address(),
            name: client.identity().name,
        });
        entries.newest_first.truncate(len_max);
    }

    /// The newest `count` entries; all for `None`.
    pub fn newest(&self, count: Option<usize>) -> Vec<SlowCommand> {
        self.0.lock().newest_first.iter().take(count.unwrap_or(usize::MAX)).cloned().collect()
    }

    /// Entries in the log.
    pub fn len(&self) -> usize {
        self.0.lock().newest_first.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.0.lock().newest_first.clear();
    }
}

/// What may be shown of a command's arguments, given its full name in the table: without secrets, at most
/// [`ARGS_MAX`] of them, and of each at most [`ARG_BYTES_MAX`] bytes.
pub fn clipped(command: &str, args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let secrets = secrets(command, args);
    let mut clipped: Vec<Vec<u8>> = args
        .iter()
        .take(kept)
        .enumerate()
        .map(|(at, arg)| match arg.len().checked_sub(ARG_BYTES_MAX) {
            _ if secrets.contains(&at) => REDACTED.to_vec(),
            Some(rest @ 1..) => {
                [&arg[..ARG_BYTES_MAX], format!("... ({rest} more bytes)").as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if args.len() > kept {
        clipped.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    clipped
}

/// Which arguments must never be shown to anybody: passwords and the names they belong to.
pub(crate) fn secrets(command: &str, args: Args<'_>) -> Vec<usize> {
    let mut secrets = Vec::new();
    match command {
        "acl|setuser" | "acl|deluser" | "acl|getuser" => secrets.extend(2..args.len()),
        "auth" => secrets.extend(1..args.len()),
        "hello" => {
            let mut at = 2;
            while at < args.len() {
                if is(args.at(at), "AUTH") {
                    secrets.extend([at + 1, at + 2]);
                    at += 3;
                } else {
                    // SETNAME and its name, which may be called AUTH.
                    at += 1 + usize::from(is(args.at(at), "SETNAME"));
                }
            }
        }
        "config|set" => {
            let is_secret =
                |name: &[u8]| directives::find(name).is_some_and(|row| row.flags.contains(Flags::SENSITIVE));
            secrets.extend((2..args.len()).step_by(2).filter(|at| is_secret(args.at(*at))).map(|at| at + 1));
        }
        "migrate" => secrets = crate::commands::migrate::secrets(args),
        _ => {}
    }
    secrets
}
