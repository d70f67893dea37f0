//! The whole keyspace of both sides, compared: keys, types, encodings, expiry, contents.

mod payloads;

use std::io;

use crate::differences;
use crate::duo::{Args, Disagreement, Duo, args, args_of};
use crate::rules::{self, Rule};
use resp::Value;

use crate::value::Reply;
use crate::words;

/// Databases the random commands use.
pub const DATABASES: u8 = 3;

/// What a disagreement of states is about starts with this.
pub const STATE: &str = "(state) ";

/// Compares everything in the databases in use, over a connection of its own.
/// Returns how many keys were looked at and the first disagreement.
pub fn compare(duo: &mut Duo, cluster: bool) -> io::Result<(usize, Option<Disagreement>)> {
    let mut keys_seen = 0;
    for database in 0..if cluster { 1 } else { DATABASES } {
        if !cluster {
            duo.both(&["SELECT", &database.to_string()])?;
        }
        let (oracle, halcyon) = duo.both(&["KEYS", "*"])?;
        let (oracle, halcyon) = (rules::sorted(&oracle, 1), rules::sorted(&halcyon, 1));
        if oracle != halcyon {
            return Ok((keys_seen, found(format!("KEYS * in database {database}"), &oracle, &halcyon)));
        }
        let keys = oracle.leaves();
        keys_seen += keys.len();
        let (size_oracle, size_halcyon) = duo.both(&["DBSIZE"])?;
        if size_oracle != size_halcyon {
            return Ok((
                keys_seen,
                found(format!("DBSIZE in database {database}"), &size_oracle, &size_halcyon),
            ));
        }
        if let Some(disagreement) = compare_keys(duo, &keys)? {
            return Ok((keys_seen, Some(disagreement)));
        }
        if let Some(disagreement) = payloads::compare(duo, &keys)? {
            return Ok((keys_seen, Some(disagreement)));
        }
    }
    Ok((keys_seen, None))
}

fn compare_keys(duo: &mut Duo, keys: &[Vec<u8>]) -> io::Result<Option<Disagreement>> {
    let heads: Vec<Args> = keys
        .iter()
        .flat_map(|key| {
            [args_of(&[b"TYPE", key]), args_of(&[b"PTTL", key]), args_of(&[b"OBJECT", b"ENCODING", key])]
        })
        .collect();
    let (oracle_heads, halcyon_heads) = exchange(duo, &heads)?;
    let mut contents = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let (oracle, halcyon) = (&oracle_heads[index * 3..][..3], &halcyon_heads[index * 3..][..3]);
        for (about, rule) in [(0, Rule::Exact), (1, Rule::Near(5_000))] {
            let command = &heads[index * 3 + about];
            if !rules::agree(command, rule, &oracle[about], &halcyon[about]) {
                return Ok(found(words::join(command), &oracle[about], &halcyon[about]));
            }
        }
        if oracle[2] != halcyon[2] {
            let content = duo.content(key)?;
            let name =
                |value: &Value| String::from_utf8_lossy(&value.text().unwrap_or_default()).into_owned();
            if !differences::encoding_agrees(&name(&oracle[2]), &name(&halcyon[2]), &content) {
                return Ok(found(words::join(&heads[index * 3 + 2]), &oracle[2], &halcyon[2]));
            }
        }
        contents.push(reading(key, &oracle[0]));
    }
    let (oracle, halcyon) = exchange(duo, &contents)?;
    for ((command, oracle), halcyon) in contents.iter().zip(&oracle).zip(&halcyon) {
        if !rules::agree(command, rules::rule_of(command), oracle, halcyon) {
            return Ok(found(words::join(command), oracle, halcyon));
        }
    }
    Ok(None)
}

/// The command that reads all of a key, of which `kind` is the reply to TYPE.
pub fn reading(key: &[u8], kind: &Value) -> Args {
    match &kind.text().unwrap_or_default()[..] {
        b"list" => args_of(&[b"LRANGE", key, b"0", b"-1"]),
        b"hash" => args_of(&[b"HGETALL", key]),
        b"set" => args_of(&[b"SMEMBERS", key]),
        b"stream" => args_of(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]),
        b"zset" => args_of(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        _ => args_of(&[b"GET", key]),
    }
}

fn exchange(duo: &mut Duo, commands: &[Args]) -> io::Result<(Vec<Value>, Vec<Value>)> {
    const BATCH: usize = 64;
    let (mut oracle, mut halcyon) = (Vec::new(), Vec::new());
    for batch in commands.chunks(BATCH) {
        duo.oracle.send(batch)?;
        duo.halcyon.send(batch)?;
        for _ in batch {
            oracle.push(duo.oracle.reply()?);
            halcyon.push(duo.halcyon.reply()?);
        }
    }
    Ok((oracle, halcyon))
}

fn found(about: String, oracle: &Value, halcyon: &Value) -> Option<Disagreement> {
    Some(Disagreement {
        about: format!("{STATE}{about}"),
        oracle: oracle.notation(),
        halcyon: halcyon.notation(),
    })
}

/// Empties both sides.
pub fn clear(duo: &mut Duo) -> io::Result<()> {
    let command = args(&["FLUSHALL"]);
    duo.both_args(&command).map(|_| ())
}
