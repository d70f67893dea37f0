//! Every key's payload carried to the other side: what DUMP gives there, RESTORE must take here, and the signatures of
//! all four values must be one.

use std::io;

use resp::Value;

use super::{exchange, found};
use crate::duo::{Args, Disagreement, Duo, args_of};
use crate::link::Link;
use crate::rules;
use crate::value::Reply;
use crate::words;

/// Where payloads are restored; no test uses it.
const PLACE: &[u8] = b"(a payload)";
/// A time to live for what has one: signatures tell of it, not of its end.
const TTL_MS: &[u8] = b"100000000";

/// Answers of a server about a key.
const QUESTIONS: usize = 4;

/// What is asked about a key: its payload, its signature, its end, and what signatures leave out of a stream.
fn questions(key: &[u8]) -> [Args; QUESTIONS] {
    [
        args_of(&[b"DUMP", key]),
        args_of(&[b"DEBUG", b"DIGEST-VALUE", key]),
        args_of(&[b"PEXPIRETIME", key]),
        args_of(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]),
    ]
}

/// Carries the values at `keys` both ways; the first that does not arrive.
pub fn compare(duo: &mut Duo, keys: &[Vec<u8>]) -> io::Result<Option<Disagreement>> {
    let asked: Vec<Args> = keys.iter().flat_map(|key| questions(key)).collect();
    let (oracle, halcyon) = exchange(duo, &asked)?;
    for (index, key) in keys.iter().enumerate() {
        let place = index * QUESTIONS..(index + 1) * QUESTIONS;
        let (oracle, halcyon) = (&oracle[place.clone()], &halcyon[place]);
        // A key that lapsed since the keys were listed has nothing to carry.
        let (Value::Bulk(from_oracle), Value::Bulk(from_halcyon)) = (&oracle[0], &halcyon[0]) else {
            continue;
        };
        let has_end = oracle[2].int().is_some_and(|at_ms| at_ms >= 0);
        let ttl_ms: &[u8] = if has_end { TTL_MS } else { b"0" };
        let at_halcyon = carry(&mut duo.halcyon, from_oracle, ttl_ms)?;
        let at_oracle = carry(&mut duo.oracle, from_halcyon, ttl_ms)?;
        for (way, arrived) in [("to halcyon", &at_halcyon), ("to the oracle", &at_oracle)] {
            if arrived[1] != oracle[1] {
                // Redis may make another value of its own payload: a sorted set that becomes small loses the sign of a zero.
                let expected = &carry(&mut duo.oracle, from_oracle, ttl_ms)?[1];
                if arrived[1] != *expected {
                    return Ok(found(format!("DUMP {} {way}", words::quote(key)), expected, &arrived[1]));
                }
            }
            let command = &asked[index * QUESTIONS + 3];
            if !rules::agree(command, rules::rule_of(command), &oracle[3], &arrived[3]) {
                return Ok(found(format!("DUMP {} {way}", words::quote(key)), &oracle[3], &arrived[3]));
            }
        }
        if halcyon[1] != oracle[1] {
            return Ok(found(words::join(&asked[index * QUESTIONS + 1]), &oracle[1], &halcyon[1]));
        }
    }
    Ok(None)
}

/// Restores a payload; the answers about what it became.
fn carry(link: &mut Link, payload: &[u8], ttl_ms: &[u8]) -> io::Result<Vec<Value>> {
    link.send([&args_of(&[b"RESTORE", PLACE, ttl_ms, payload])])?;
    link.send(&questions(PLACE))?;
    link.send([&args_of(&[b"DEL", PLACE])])?;
    let restored = link.reply()?;
    let mut answers = (0..QUESTIONS).map(|_| link.reply()).collect::<io::Result<Vec<Value>>>()?;
    link.reply()?;
    if restored.is_error() {
        answers[1] = restored;
    }
    Ok(answers)
}
