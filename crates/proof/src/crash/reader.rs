//! A connection that looks at others' counters, which only grow, and remembers what it was told.

use std::time::Instant;

use fastrand::Rng;

use super::model::number;
use crate::link::Link;
use crate::value::Reply;

const SCRIPT: &str = "return redis.call('get', ARGV[1])";

/// What was seen: a writer's number, the counter, and when the answer came.
pub type Sight = (usize, i64, Instant);

/// The counter of a writer.
pub fn counter(writer: usize) -> String {
    format!("c{writer}:count:0")
}

/// Reads, in one way or another, until the connection breaks.
pub fn run(link: &mut Link, writers: usize, seed: u64) -> Result<Vec<Sight>, String> {
    let mut rng = Rng::with_seed(seed);
    let (mut seen, mut highest) = (Vec::new(), vec![0; writers]);
    loop {
        let writer = rng.usize(..writers);
        let name = counter(writer);
        let reply = match rng.u8(..4) {
            0 => link.call(&["GET", &name]),
            1 => link.call(&["MGET", &name]),
            2 => link.call(&["EVAL", SCRIPT, "0", &name]),
            _ => link
                .call(&["MULTI"])
                .and_then(|_| link.call(&["GET", &name]))
                .and_then(|_| link.call(&["EXEC"])),
        };
        let Ok(reply) = reply else { return Ok(seen) };
        if reply.is_error() {
            return Err(format!("a reader of {name}: {}", reply.notation()));
        }
        let value = reply.leaves().first().map_or(0, |text| number(text));
        if value < highest[writer] {
            return Err(format!("{name} went from {} to {value}", highest[writer]));
        }
        if value > highest[writer] {
            highest[writer] = value;
            seen.push((writer, value, Instant::now()));
        }
    }
}
