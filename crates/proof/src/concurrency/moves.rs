//! Elements that wander by blocking commands: none is lost, none is there twice.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{CONNECTIONS, call, on_connections, report};
use crate::link::Link;
use crate::server::Server;
use crate::tally::Tally;
use crate::value::Reply;

const LISTS: usize = 6;

/// Pushes, moves and pops elements on many connections, then looks for every one of them.
pub fn run(server: &Server, seed: u64, time: Duration, tally: &mut Tally) -> io::Result<()> {
    let mut link = server.connect()?;
    call(&mut link, &["FLUSHALL"])?;
    let next = AtomicU64::new(0);
    let popped = on_connections(server, 2 * CONNECTIONS, time, |number, link, deadline| {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(37) + number as u64);
        let mut popped = Vec::new();
        while Instant::now() < deadline {
            match number % 4 {
                0 => push(link, &mut rng, &next)?,
                1 | 2 => wander(link, &mut rng)?,
                _ => popped.extend(pop(link, &mut rng)?),
            }
        }
        Ok(popped)
    })?;
    let mut seen: Vec<Vec<u8>> = popped.into_iter().flatten().collect();
    for number in 0..LISTS {
        seen.extend(call(&mut link, &["LRANGE", &list(number), "0", "-1"])?.leaves());
    }
    let distinct: BTreeSet<&Vec<u8>> = seen.iter().collect();
    let pushed = next.load(Relaxed) as usize;
    if distinct.len() == pushed && seen.len() == pushed {
        tally.passed += pushed;
    } else {
        let found = format!("{} of them, {} different ones", seen.len(), distinct.len());
        report(tally, "the elements that were pushed", format!("{pushed} of them, all different"), found);
    }
    println!("concurrency, moves: {pushed} elements; {} passed, {} failed", tally.passed, tally.failed);
    Ok(())
}

fn list(number: usize) -> String {
    format!("list:{number}")
}

fn push(link: &mut Link, rng: &mut fastrand::Rng, next: &AtomicU64) -> io::Result<()> {
    let element = next.fetch_add(1, Relaxed).to_string();
    let to = list(rng.usize(..LISTS));
    if rng.bool() {
        call(link, &["LPUSH", &to, &element])?;
    } else {
        call(link, &["MULTI"])?;
        call(link, &["RPUSH", &to, &element])?;
        call(link, &["LLEN", &to])?;
        call(link, &["EXEC"])?;
    }
    Ok(())
}

fn wander(link: &mut Link, rng: &mut fastrand::Rng) -> io::Result<()> {
    let (from, to) = (list(rng.usize(..LISTS)), list(rng.usize(..LISTS)));
    match rng.u8(..3) {
        0 => call(link, &["BLMOVE", &from, &to, "LEFT", "RIGHT", "0.01"])?,
        1 => call(link, &["BRPOPLPUSH", &from, &to, "0.01"])?,
        _ => call(link, &["LMOVE", &from, &to, "RIGHT", "LEFT"])?,
    };
    Ok(())
}

/// An element that was taken out.
fn pop(link: &mut Link, rng: &mut fastrand::Rng) -> io::Result<Vec<Vec<u8>>> {
    let (first, second) = (list(rng.usize(..LISTS)), list(rng.usize(..LISTS)));
    let reply = match rng.u8(..3) {
        0 => call(link, &["BLPOP", &first, &second, "0.01"])?,
        1 => call(link, &["BRPOP", &first, "0.01"])?,
        _ => call(link, &["BLMPOP", "0.01", "2", &first, &second, "LEFT"])?,
    };
    // The first is the list's name.
    Ok(reply.leaves().into_iter().skip(1).collect())
}
