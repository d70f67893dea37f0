//! `halcyon lab storm`: many clients of a cluster on one thread, each with the rules by which its library learns where slots are, under
//! a fixed rate of requests, while somebody moves slots.

mod client;
mod kind;
mod load;
mod options;
mod phases;
mod report;
mod servers;
mod topology;
mod wire;

use std::io::{BufReader, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mio::{Poll, Token, Waker};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::lab::Outcome;
use kind::Kind;
use load::{Load, WAKER};
use options::{Options, USAGE};
use phases::Marks;
use servers::{Waiting, set_keys};
use topology::Reader;

/// Files that are no connection of a client.
const OTHER_FILES: usize = 50;
/// Clients begin with one of so many answers to CLUSTER SLOTS: a server may tell each connection nodes in another order.
const MAPS: usize = 32;

/// Does what the arguments say; the report is returned.
pub fn run(words: &[String]) -> Outcome {
    let Some(options) = Options::parse(words)? else { return Ok(USAGE.to_owned()) };
    allow_files(&options)?;
    let mut reader = Reader::default();
    for address in &options.nodes {
        reader.node(*address)?;
    }
    let maps: Result<Vec<_>, String> =
        (0..MAPS).map(|_| Waiting::connect(options.nodes[0])?.map(&mut reader, 0)).collect();
    let maps = maps?;
    let value = vec![b'x'; options.value_bytes];
    set_keys(&reader, &maps[0], options.keys, &value, &mut |key| {
        if key % 10_000 < 1_000 {
            tell(&format!("keys are set: {key} of {}", options.keys));
        }
    })?;
    let poll = Poll::new().map_err(|error| format!("epoll: {error}"))?;
    let waker = Waker::new(poll.registry(), Token(WAKER)).map_err(|error| format!("epoll: {error}"))?;
    let mut load = Load::new(&options, reader, &maps, poll)?;
    load.connect(&mut |made| tell(&format!("connections are made: {made}")))?;
    tell(&format!("{} clients, warming up for {} s", options.clients(), options.warm_up_s));
    let (sender, marks) = mpsc::channel();
    let nodes = options.nodes.clone();
    let watch = Marks { nodes, warm_up: Duration::from_secs(options.warm_up_s), marks: sender, waker };
    // It waits for input that may never come: the process ends without it.
    thread::spawn(move || watch.send_all(BufReader::new(std::io::stdin())));
    let is_json = options.is_json;
    let mut began = || {
        if is_json {
            let mut output = std::io::stdout().lock();
            // Nobody to read it is no reason not to measure.
            let _ = writeln!(output, "{{\"event\":\"ready\"}}").and_then(|()| output.flush());
        }
    };
    let report = load.run(&marks, &mut began, &mut |line| tell(line))?;
    Ok(if options.is_json { report.json() } else { report.text() })
}

/// Progress, for whoever looks.
fn tell(line: &str) {
    // Nobody to read it is no reason not to measure.
    let _ = writeln!(std::io::stderr(), "storm: {line}");
}

/// Raises the limit of open files as far as needed, or says that it is too low.
fn allow_files(options: &Options) -> Result<(), String> {
    // A client of this kind may have one connection more, to ask for the topology.
    let asks_anew = (0..options.clients()).filter(|client| options.kind(*client) == Kind::HiredisVip).count();
    let needed = (options.connections + asks_anew + OTHER_FILES) as u64;
    let limit = || getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("open files: {error}"));
    let (soft, hard) = limit()?;
    if soft < needed {
        let raised = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
        raised.map_err(|error| format!("open files: {error}"))?;
    }
    let (soft, _) = limit()?;
    if soft < needed {
        return Err(format!("This needs {needed} open files, and {soft} are allowed: ulimit -n"));
    }
    Ok(())
}
