//! Many connections at once, on four workers: what they see must be explained by some order of what they did.
//!
//! - *transfers*: money moves between accounts by transactions, WATCH loops and scripts; every sum anybody ever takes is the
//!   same ([`transfers`]);
//! - *order*: transactions and scripts over a few keys leave, on each key, the place they had there; there is one order that
//!   agrees with all of these, and a real redis-server that runs them in that order gives the same replies ([`order`]);
//! - *moves*: elements wander through lists by blocking moves and pops; none is lost, none is there twice ([`moves`]).

mod moves;
mod order;
mod transfers;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use resp::Value;

use crate::duo::{Disagreement, args};
use crate::link::Link;
use crate::options::Options;
use crate::server::{DEFAULT, Server};
use crate::tally::Tally;

/// Workers of the server: more than this machine may have CPUs, so that they are interrupted anywhere.
const WORKERS: &str = "4";
/// Connections of each kind.
const CONNECTIONS: usize = 8;

/// Runs all of them, each for its share of the time.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let server = Server::start(&options.binaries.halcyon, &DEFAULT, &["--io-threads", WORKERS])?;
    let share = Duration::from_secs(options.seconds) / 3;
    transfers::run(&server, options.seed, share, &mut tally)?;
    order::run(&server, &options.binaries.oracle, options.seed, share, &mut tally)?;
    moves::run(&server, options.seed, share, &mut tally)?;
    Ok(tally)
}

/// Runs `work` on many connections at once until the time is over; returns what each came back with.
fn on_connections<R: Send>(
    server: &Server,
    count: usize,
    time: Duration,
    work: impl Fn(usize, &mut Link, Instant) -> io::Result<R> + Sync,
) -> io::Result<Vec<R>> {
    let deadline = Instant::now() + time;
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || work(number, &mut server.connect()?, deadline)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client thread does not panic")).collect()
    })
}

/// `run` for words of text.
fn call(link: &mut Link, words: &[&str]) -> io::Result<Value> {
    link.run(&args(words))
}

fn report(tally: &mut Tally, about: &str, expected: String, found: String) {
    tally.fail("concurrency", &Disagreement { about: about.into(), oracle: expected, halcyon: found });
}
