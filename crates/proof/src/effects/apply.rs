//! A server that a stream is applied to, and the comparison of what it then holds with where the stream came from.

use std::io;

use resp::Value;

use crate::dump::DATABASES;
use crate::duo::{Args, args_of};
use crate::link::Link;
use crate::rules;
use crate::value::Reply;
use crate::words;

const PIPELINE: usize = 64;
/// Pending entries that are compared of one group.
const PENDING_MAX: &[u8] = b"10000";
/// What XINFO tells that commands do not say, or that versions count in their own way.
const LEFT_OUT: &[&[u8]] = &[b"lag", b"radix-tree-keys", b"radix-tree-nodes", b"idle", b"inactive"];

/// Runs the commands of a stream on a server; the error names the first that it refuses.
pub fn apply(link: &mut Link, commands: &[Args]) -> io::Result<()> {
    for batch in commands.chunks(PIPELINE) {
        link.send(batch)?;
        for command in batch {
            let reply = link.reply()?;
            let refused = match &reply {
                Value::Array(replies) if command[0].eq_ignore_ascii_case(b"exec") => {
                    replies.iter().find(|reply| reply.is_error())
                }
                reply => Some(reply).filter(|reply| reply.is_error()),
            };
            if let Some(refused) = refused {
                let why = format!("{} is answered {}", words::join(command), refused.notation());
                return Err(io::Error::other(why));
            }
        }
    }
    Ok(())
}

/// What a server holds, a line for each key, and its digest last.
pub fn holdings(link: &mut Link, with_groups: bool) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for database in 0..DATABASES {
        link.call(&["SELECT", &database.to_string()])?;
        for key in rules::sorted(&link.call(&["KEYS", "*"])?, 1).leaves() {
            let kind = link.run(&args_of(&[b"TYPE", &key]))?;
            let end = link.run(&args_of(&[b"PEXPIRETIME", &key]))?;
            let digest = link.run(&args_of(&[b"DEBUG", b"DIGEST-VALUE", &key]))?;
            let mut line = format!(
                "{} of database {database}: {}, end {}, {}",
                words::quote(&key),
                kind.notation(),
                end.notation(),
                digest.notation()
            );
            if kind.text().is_some_and(|kind| kind == b"stream") {
                line += &stream_facts(link, &key, with_groups)?;
            }
            lines.push(line);
        }
    }
    let libraries = rules::sorted(&link.call(&["FUNCTION", "LIST", "WITHCODE"])?, 0).notation();
    lines.push(format!("libraries {libraries}"));
    lines.push(format!("DEBUG DIGEST {}", link.call(&["DEBUG", "DIGEST"])?.notation()));
    Ok(lines)
}

/// What a digest does not tell of a stream. How often an entry was delivered is not told to replicas where it is read again.
fn stream_facts(link: &mut Link, key: &[u8], with_groups: bool) -> io::Result<String> {
    let last_id = field_of(&link.run(&args_of(&[b"XINFO", b"STREAM", key]))?, b"last-generated-id");
    let mut facts = format!(", up to {}", last_id.unwrap_or(Value::Null).notation());
    if !with_groups {
        return Ok(facts);
    }
    let groups = link.run(&args_of(&[b"XINFO", b"GROUPS", key]))?;
    facts += &format!(", {}", without(&groups).notation());
    for group in groups.children().unwrap_or_default() {
        let Some(Value::Bulk(name)) = field_of(group, b"name") else { continue };
        let consumers = link.run(&args_of(&[b"XINFO", b"CONSUMERS", key, &name]))?;
        facts += &format!(", {}", without(&consumers).notation());
        let pending = link.run(&args_of(&[b"XPENDING", key, &name, b"-", b"+", PENDING_MAX]))?;
        for entry in pending.children().unwrap_or_default() {
            let parts = entry.children().unwrap_or_default();
            let parts: Vec<String> = parts.iter().take(2).map(|part| part.notation()).collect();
            facts += &format!(", pending {}", parts.join(" "));
        }
    }
    Ok(facts)
}

/// What follows a name in a list of names and values.
fn field_of(value: &Value, name: &[u8]) -> Option<Value> {
    let items = value.children()?;
    let at = items.iter().position(|item| matches!(item, Value::Bulk(label) if label == name))?;
    items.get(at + 1).map(|value| (*value).clone())
}

fn without(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let (mut kept, mut items) = (Vec::new(), items.iter());
    while let Some(item) = items.next() {
        match item {
            Value::Bulk(label) if LEFT_OUT.contains(&&label[..]) => drop(items.next()),
            item => kept.push(without(item)),
        }
    }
    Value::Array(kept)
}
