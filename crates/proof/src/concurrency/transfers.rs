//! Money that moves: the sum over all accounts never changes, whoever looks at it, however.

use std::io;
use std::time::{Duration, Instant};

use resp::Value;

use super::{CONNECTIONS, call, on_connections, report};
use crate::link::Link;
use crate::server::Server;
use crate::tally::Tally;
use crate::value::Reply;

const ACCOUNTS: usize = 24;
const MONEY_EACH: i64 = 1_000;

/// Moves ARGV[1] from KEYS[1] to KEYS[2].
const DECLARED: &str =
    "redis.call('decrby', KEYS[1], ARGV[1]); return redis.call('incrby', KEYS[2], ARGV[1])";
/// As above, with keys that the script does not declare.
const UNDECLARED: &str =
    "redis.call('decrby', ARGV[2], ARGV[1]); return redis.call('incrby', ARGV[3], ARGV[1])";
/// The sum over ARGV[1] accounts, none of them declared.
const SUM: &str =
    "local sum = 0; for n = 0, ARGV[1] - 1 do sum = sum + redis.call('get', 'account:' .. n) end; return sum";

/// Moves money and adds it up on many connections.
pub fn run(server: &Server, seed: u64, time: Duration, tally: &mut Tally) -> io::Result<()> {
    let mut link = server.connect()?;
    call(&mut link, &["FLUSHALL"])?;
    for number in 0..ACCOUNTS {
        call(&mut link, &["SET", &account(number), &MONEY_EACH.to_string()])?;
    }
    let counts = on_connections(server, 2 * CONNECTIONS, time, |number, link, deadline| {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(31) + number as u64);
        let (mut done, mut wrong) = (0, None);
        while Instant::now() < deadline && wrong.is_none() {
            if number < CONNECTIONS {
                done += usize::from(transfer(link, &mut rng)?);
            } else {
                let (how, sum) = add_up(link, &mut rng)?;
                wrong = (sum != ACCOUNTS as i64 * MONEY_EACH).then(|| format!("{how}: {sum}"));
                done += 1;
            }
        }
        Ok((done, wrong))
    })?;
    for (done, wrong) in counts {
        tally.passed += done;
        if let Some(wrong) = wrong {
            report(tally, "the sum over all accounts", (ACCOUNTS as i64 * MONEY_EACH).to_string(), wrong);
        }
    }
    println!("concurrency, transfers: {} passed, {} failed", tally.passed, tally.failed);
    Ok(())
}

fn account(number: usize) -> String {
    format!("account:{number}")
}

/// Moves some money; false if somebody else was quicker.
fn transfer(link: &mut Link, rng: &mut fastrand::Rng) -> io::Result<bool> {
    let (from, to) = (account(rng.usize(..ACCOUNTS)), account(rng.usize(..ACCOUNTS)));
    let amount = rng.i64(1..10).to_string();
    let reply = match rng.u8(..4) {
        0 => {
            call(link, &["MULTI"])?;
            call(link, &["DECRBY", &from, &amount])?;
            call(link, &["INCRBY", &to, &amount])?;
            call(link, &["EXEC"])?
        }
        1 => return transfer_optimistically(link, &from, &to, rng.i64(1..10)),
        2 => call(link, &["EVAL", DECLARED, "2", &from, &to, &amount])?,
        _ => call(link, &["EVAL", UNDECLARED, "0", &amount, &from, &to])?,
    };
    if reply.is_error() {
        Err(io::Error::other(format!("a transfer: {}", reply.notation())))
    } else {
        Ok(true)
    }
}

fn transfer_optimistically(link: &mut Link, from: &str, to: &str, amount: i64) -> io::Result<bool> {
    if from == to {
        return Ok(false);
    }
    call(link, &["WATCH", from, to])?;
    let mut balance = |name: &str| -> io::Result<i64> {
        let text = call(link, &["GET", name])?.text().unwrap_or_default();
        String::from_utf8_lossy(&text).parse().map_err(io::Error::other)
    };
    let (left, right) = (balance(from)? - amount, balance(to)? + amount);
    call(link, &["MULTI"])?;
    call(link, &["SET", from, &left.to_string()])?;
    call(link, &["SET", to, &right.to_string()])?;
    Ok(matches!(call(link, &["EXEC"])?, Value::Array(_)))
}

/// The sum over all accounts, and how it was taken.
fn add_up(link: &mut Link, rng: &mut fastrand::Rng) -> io::Result<(&'static str, i64)> {
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let many: Vec<&str> = ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let sum = |reply: &Value| -> i64 {
        let numbers = reply.leaves().into_iter().map(|text| String::from_utf8_lossy(&text).parse::<i64>());
        numbers.map(|number| number.unwrap_or(i64::MIN / 1_000)).sum()
    };
    Ok(match rng.u8(..3) {
        0 => ("MGET", sum(&call(link, &many)?)),
        1 => {
            call(link, &["MULTI"])?;
            for name in &names {
                call(link, &["GET", name])?;
            }
            ("MULTI", sum(&call(link, &["EXEC"])?))
        }
        _ => {
            let reply = call(link, &["EVAL", SUM, "0", &ACCOUNTS.to_string()])?;
            ("EVAL", reply.int().unwrap_or(i64::MIN))
        }
    })
}
