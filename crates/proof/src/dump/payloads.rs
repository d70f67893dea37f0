//! Every key's payload carried to the other side: what DUMP gives there, RESTORE must take here, and the signatures of
//! all four values must be one.

use std::io;

use resp::Value;

use super::{exchange, found};
use crate::duo::{Args, Disagreement, Duo, args_of};
use crate::link::Link;
use crate::value::Reply;
use crate::words;

/// Where payloads are restored; no test uses it.
const PLACE: &[u8] = b"(a payload)";
/// A time to live for what has one: signatures tell of it, not of its end.
const TTL_MS: &[u8] = b"100000000";

/// Carries the values at `keys` both ways; the first that does not arrive.
pub fn compare(duo: &mut Duo, keys: &[Vec<u8>]) -> io::Result<Option<Disagreement>> {
    let asked: Vec<Args> = keys
        .iter()
        .flat_map(|key| {
            [
                args_of(&[b"DUMP", key]),
                args_of(&[b"DEBUG", b"DIGEST-VALUE", key]),
                args_of(&[b"PEXPIRETIME", key]),
            ]
        })
        .collect();
    let (oracle, halcyon) = exchange(duo, &asked)?;
    for (index, key) in keys.iter().enumerate() {
        let (oracle, halcyon) = (&oracle[index * 3..][..3], &halcyon[index * 3..][..3]);
        // A key that lapsed since the keys were listed has nothing to carry.
        let (Value::Bulk(from_oracle), Value::Bulk(from_halcyon)) = (&oracle[0], &halcyon[0]) else {
            continue;
        };
        let has_end = oracle[2].int().is_some_and(|at_ms| at_ms >= 0);
        let ttl_ms: &[u8] = if has_end { TTL_MS } else { b"0" };
        let at_halcyon = carry(&mut duo.halcyon, from_oracle, ttl_ms)?;
        let at_oracle = carry(&mut duo.oracle, from_halcyon, ttl_ms)?;
        for (way, arrived) in [("to halcyon", &at_halcyon), ("to the oracle", &at_oracle)] {
            if *arrived != oracle[1] {
                return Ok(found(format!("DUMP {} {way}", words::quote(key)), &oracle[1], arrived));
            }
        }
        if halcyon[1] != oracle[1] {
            return Ok(found(words::join(&asked[index * 3 + 1]), &oracle[1], &halcyon[1]));
        }
    }
    Ok(None)
}

/// Restores a payload; the signature of what it became, or the error.
fn carry(link: &mut Link, payload: &[u8], ttl_ms: &[u8]) -> io::Result<Value> {
    link.send([
        &args_of(&[b"RESTORE", PLACE, ttl_ms, payload]),
        &args_of(&[b"DEBUG", b"DIGEST-VALUE", PLACE]),
        &args_of(&[b"DEL", PLACE]),
    ])?;
    let restored = link.reply()?;
    let (signature, _) = (link.reply()?, link.reply()?);
    Ok(if restored.is_error() { restored } else { signature })
}
