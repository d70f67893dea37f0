//! Serialisability: every transaction raises a counter beside each key it touches, so its reply says which place it had
//! there. The places give a partial order; where it has no circle, a redis-server that runs the transactions in that order
//! must give the same replies.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use resp::Value;

use super::{CONNECTIONS, call, on_connections, report};
use crate::duo::{Args, args};
use crate::link::Link;
use crate::server::{DEFAULT, Server};
use crate::tally::Tally;
use crate::value::Reply;
use crate::words;

const KEYS: usize = 8;
/// A transaction touches at most so many keys.
const TOUCHED_MAX: usize = 4;
/// Kept small enough for the order to be looked for in memory.
const TRANSACTIONS_MAX: usize = 4_000;

/// Runs the commands that ARGV[1] has as JSON; the keys are declared or not.
const SCRIPT: &str = "local out = {}; for i, c in ipairs(cjson.decode(ARGV[1])) do out[i] = redis.call(unpack(c)) end; return out";

/// One transaction as it was run.
struct Ran {
    commands: Vec<Args>,
    reply: Value,
    /// The keys it touched, with its place on each.
    places: BTreeMap<usize, i64>,
    as_script: bool,
}

/// Runs transactions on many connections and looks for the order that explains them.
pub fn run(server: &Server, oracle: &Path, seed: u64, time: Duration, tally: &mut Tally) -> io::Result<()> {
    call(&mut server.connect()?, &["FLUSHALL"])?;
    let ran = on_connections(server, CONNECTIONS, time, |number, link, deadline| {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(41) + number as u64);
        let mut ran = Vec::new();
        while Instant::now() < deadline && ran.len() < TRANSACTIONS_MAX {
            ran.push(transact(link, &mut rng)?);
        }
        Ok(ran)
    })?;
    let ran: Vec<Ran> = ran.into_iter().flatten().collect();
    let Some(order) = find_order(&ran) else {
        report(tally, "the order of transactions", "one without a circle".into(), "a circle".into());
        return Ok(());
    };
    let oracle = Server::start(oracle, &DEFAULT, &[])?;
    let mut link = oracle.connect()?;
    for at in &order {
        let expected = replay(&mut link, &ran[*at])?;
        if expected.notation() == ran[*at].reply.notation() {
            tally.passed += 1;
        } else {
            let shown: Vec<String> = ran[*at].commands.iter().map(|args| words::join(args)).collect();
            report(tally, &shown.join("; "), expected.notation(), ran[*at].reply.notation());
            break;
        }
    }
    println!(
        "concurrency, order: {} transactions; {} passed, {} failed",
        order.len(),
        tally.passed,
        tally.failed
    );
    Ok(())
}

/// Runs one random transaction, as MULTI or as a script.
fn transact(link: &mut Link, rng: &mut fastrand::Rng) -> io::Result<Ran> {
    let mut touched = BTreeSet::new();
    for _ in 0..rng.usize(1..=TOUCHED_MAX) {
        touched.insert(rng.usize(..KEYS));
    }
    let mut commands: Vec<Args> =
        touched.iter().map(|key| args(&["INCR", &format!("place:{key}")])).collect();
    let touched: Vec<usize> = touched.into_iter().collect();
    for _ in 0..rng.usize(1..6) {
        commands.push(command(rng, &touched));
    }
    let as_script = rng.bool();
    let reply =
        if as_script { as_a_script(link, rng, &commands, &touched)? } else { as_a_queue(link, &commands)? };
    let Value::Array(replies) = &reply else {
        return Err(io::Error::other(format!("a transaction: {}", reply.notation())));
    };
    let places = touched.iter().zip(replies).map(|(key, place)| (*key, place.int().unwrap_or(-1))).collect();
    Ok(Ran { commands, reply, places, as_script })
}

fn as_a_queue(link: &mut Link, commands: &[Args]) -> io::Result<Value> {
    call(link, &["MULTI"])?;
    for command in commands {
        link.run(command)?;
    }
    call(link, &["EXEC"])
}

fn as_a_script(
    link: &mut Link,
    rng: &mut fastrand::Rng,
    commands: &[Args],
    touched: &[usize],
) -> io::Result<Value> {
    let quoted = |arg: &Vec<u8>| format!("\"{}\"", String::from_utf8_lossy(arg));
    let list: Vec<String> = commands
        .iter()
        .map(|args| format!("[{}]", args.iter().map(quoted).collect::<Vec<_>>().join(",")))
        .collect();
    let mut call = vec!["EVAL".to_owned(), SCRIPT.to_owned()];
    if rng.bool() {
        call.push((2 * touched.len()).to_string());
        call.extend(touched.iter().flat_map(|key| [format!("place:{key}"), format!("key:{key}")]));
    } else {
        call.push("0".to_owned());
    }
    call.push(format!("[{}]", list.join(",")));
    link.run(&call.into_iter().map(String::into_bytes).collect::<Args>())
}

/// A command on the touched keys whose reply does not depend on chance. Even keys are strings, odd ones lists.
fn command(rng: &mut fastrand::Rng, touched: &[usize]) -> Args {
    let pick = |rng: &mut fastrand::Rng| touched[rng.usize(..touched.len())];
    let (key, other) = (pick(rng), pick(rng));
    let (name, other_name) = (format!("key:{key}"), format!("key:{other}"));
    let number = rng.u32(..50).to_string();
    let both_lists = key % 2 == 1 && other % 2 == 1;
    args(&match (key % 2, rng.u8(..8)) {
        (0, 0) => vec!["SET", &name, &number],
        (0, 1) => vec!["INCRBY", &name, &number],
        (0, 2) => vec!["GET", &name],
        (0, 3) => vec!["DEL", &name],
        (0, 4) => vec!["STRLEN", &name],
        (0, _) => vec!["EXISTS", &name, &other_name],
        (_, 0 | 1) => vec!["RPUSH", &name, &number],
        (_, 2) => vec!["LPOP", &name],
        (_, 3) if both_lists => vec!["LMOVE", &name, &other_name, "LEFT", "RIGHT"],
        (_, 4) => vec!["LRANGE", &name, "0", "3"],
        (_, 5) => vec!["LLEN", &name],
        (_, 6) => vec!["LTRIM", &name, "0", "5"],
        _ => vec!["TYPE", &name],
    })
}

/// The transactions in an order that agrees with the place of each on each key; `None` if there is none.
fn find_order(ran: &[Ran]) -> Option<Vec<usize>> {
    let mut on_key: Vec<Vec<(i64, usize)>> = vec![Vec::new(); KEYS];
    for (at, transaction) in ran.iter().enumerate() {
        for (key, place) in &transaction.places {
            on_key[*key].push((*place, at));
        }
    }
    let mut before = vec![0; ran.len()];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); ran.len()];
    for places in &mut on_key {
        places.sort_unstable();
        let in_turn = places.iter().zip(1..).all(|((place, _), expected)| *place == expected);
        if !in_turn {
            return None;
        }
        for pair in places.windows(2) {
            after[pair[0].1].push(pair[1].1);
            before[pair[1].1] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..ran.len()).filter(|at| before[*at] == 0).collect();
    let mut order = Vec::new();
    while let Some(at) = ready.pop() {
        order.push(at);
        for next in &after[at] {
            before[*next] -= 1;
            if before[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    (order.len() == ran.len()).then_some(order)
}

fn replay(link: &mut Link, ran: &Ran) -> io::Result<Value> {
    if !ran.as_script {
        return as_a_queue(link, &ran.commands);
    }
    // Declared or not is all the same to one thread.
    as_a_script(link, &mut fastrand::Rng::with_seed(0), &ran.commands, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(places: &[(usize, i64)]) -> Ran {
        Ran {
            commands: Vec::new(),
            reply: Value::Null,
            places: places.iter().copied().collect(),
            as_script: false,
        }
    }

    #[test]
    fn an_order_is_found_where_there_is_one() {
        let all = [ran(&[(0, 2), (1, 1)]), ran(&[(0, 1)]), ran(&[(1, 2), (0, 3)])];
        assert_eq!(find_order(&all), Some(vec![1, 0, 2]));
    }

    #[test]
    fn a_circle_and_a_gap_are_found() {
        assert_eq!(find_order(&[ran(&[(0, 1), (1, 2)]), ran(&[(0, 2), (1, 1)])]), None);
        assert_eq!(find_order(&[ran(&[(0, 1)]), ran(&[(0, 3)])]), None);
        assert_eq!(find_order(&[ran(&[(0, 1)]), ran(&[(0, 1)])]), None);
    }
}
