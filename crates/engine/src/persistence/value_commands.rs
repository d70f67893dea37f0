//! A value as commands that make it anew.
//!
//! A value of many elements is many commands, which are made piece by piece.

use base::num::write_f64;
use resp::write_command;
use store::stream::{Consumers, Groups, PendingIter, StreamIter};
use store::{Chunks, HashIter, ListIter, SetIter, Stream, StreamId, Value, ZIter};

/// Elements of one command, as in Redis.
const ITEMS_MAX: usize = 64;

/// Makes the commands of one key.
pub(crate) struct ValueCommands {
    key: Vec<u8>,
    rest: Rest,
    expire_at_ms: Option<i64>,
    /// Commands that were begun.
    commands: usize,
}

/// What is left of a value.
enum Rest {
    Nothing,
    Chunks(Chunks),
    /// Chunks that are appended one by one.
    Appends(Chunks),
    List(ListIter),
    Set(SetIter),
    ZSet(ZIter),
    /// Fields, and once more those that have ends, if there are any.
    Hash(HashIter, Option<HashIter>),
    Ends(HashIter),
    Entries(Stream, StreamIter),
    Groups(Stream, Groups),
    /// Of the group of this name.
    Consumers(Stream, Groups, Vec<u8>, Consumers),
    Pending(Stream, Groups, Vec<u8>, PendingIter),
}

impl ValueCommands {
    /// For a value that does not lie in its entry; its end, if it has one, is told last. A long string is one command.
    pub(crate) fn new(
        out: &mut Vec<u8>,
        key: &[u8],
        value: &Value,
        expire_at_ms: Option<i64>,
    ) -> ValueCommands {
        let mut commands = ValueCommands::in_pieces(key, value, expire_at_ms);
        if let Value::Str(long) = value {
            out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
            out.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(format!("\r\n${}\r\n", long.len()).as_bytes());
            commands.rest = Rest::Chunks(long.chunks(0));
            commands.commands = 1;
        }
        commands
    }

    /// As [`ValueCommands::new`], where no command is to be long: a long string is appended bit by bit to a key that is not
    /// there.
    pub(crate) fn in_pieces(key: &[u8], value: &Value, expire_at_ms: Option<i64>) -> ValueCommands {
        let rest = match value {
            Value::Str(long) => Rest::Appends(long.chunks(0)),
            Value::List(list) => Rest::List(list.iter(0, false)),
            Value::Set(set) => Rest::Set(set.iter()),
            Value::ZSet(zset) => Rest::ZSet(zset.iter()),
            Value::Hash(hash) => Rest::Hash(hash.iter(), hash.soonest_end_ms().map(|_| hash.iter())),
            Value::Stream(stream) => Rest::Entries(stream.clone(), stream.iter()),
        };
        ValueCommands { key: key.to_vec(), rest, expire_at_ms, commands: 0 }
    }

    /// Appends commands until `out` has about `bytes_max` bytes; false if these were the last. How many, with one that goes on
    /// counted where it begins.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> (bool, usize) {
        while out.len() < bytes_max && !matches!(self.rest, Rest::Nothing) {
            self.go_on(out);
        }
        let mut has_more = !matches!(self.rest, Rest::Nothing);
        if !has_more && let Some(at_ms) = self.expire_at_ms.take() {
            write_command(out, [&b"PEXPIREAT"[..], &self.key, at_ms.to_string().as_bytes()]);
            self.commands += 1;
            has_more = false;
        }
        (has_more, std::mem::take(&mut self.commands))
    }

    /// Appends the next command, or piece, of a value.
    fn go_on(&mut self, out: &mut Vec<u8>) {
        let (key, commands) = (&*self.key, &mut self.commands);
        self.rest = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Nothing => Rest::Nothing,
            Rest::Chunks(mut chunks) => match chunks.next() {
                Some(chunk) => {
                    out.extend_from_slice(chunk.as_ref());
                    Rest::Chunks(chunks)
                }
                None => {
                    out.extend_from_slice(b"\r\n");
                    Rest::Nothing
                }
            },
            Rest::Appends(mut chunks) => match chunks.next() {
                Some(chunk) => {
                    write_command(out, [&b"APPEND"[..], key, chunk.as_ref()]);
                    *commands += 1;
                    Rest::Appends(chunks)
                }
                None => Rest::Nothing,
            },
            Rest::List(mut list) => {
                let more = put_items(out, commands, b"RPUSH", key, |words| {
                    list.next().map(|element| words.push(element.to_vec())).is_some()
                });
                if more { Rest::List(list) } else { Rest::Nothing }
            }
            Rest::Set(mut set) => {
                let more = put_items(out, commands, b"SADD", key, |words| {
                    set.next().map(|member| words.push(member.to_vec())).is_some()
                });
                if more { Rest::Set(set) } else { Rest::Nothing }
            }
            Rest::ZSet(mut zset) => {
                let more = put_items(out, commands, b"ZADD", key, |words| {
                    let Some((member, score)) = zset.next() else { return false };
                    let mut text = Vec::new();
                    write_f64(&mut text, score);
                    words.extend([text, member.to_vec()]);
                    true
                });
                if more { Rest::ZSet(zset) } else { Rest::Nothing }
            }
            Rest::Hash(mut hash, ends) => {
                let more = put_items(out, commands, b"HSET", key, |words| {
                    let Some((field, value)) = hash.next() else { return false };
                    words.extend([field.to_vec(), value.to_vec()]);
                    true
                });
                if more { Rest::Hash(hash, ends) } else { ends.map_or(Rest::Nothing, Rest::Ends) }
            }
            Rest::Ends(mut hash) => match hash.next_with_end() {
                None => Rest::Nothing,
                Some((_, _, None)) => Rest::Ends(hash),
                Some((field, _, Some(end_ms))) => {
                    let end_ms = end_ms.to_string();
                    write_command(out, [b"HPEXPIREAT", key, end_ms.as_bytes(), b"FIELDS", b"1", field]);
                    *commands += 1;
                    Rest::Ends(hash)
                }
            },
            Rest::Entries(stream, mut entries) => {
                if let Some(entry) = entries.next() {
                    let mut words = vec![b"XADD".to_vec(), key.to_vec(), entry.id.to_string().into_bytes()];
                    for (name, value) in entry.fields {
                        words.extend([name.to_vec(), value.to_vec()]);
                    }
                    write_command(out, &words);
                    *commands += 1;
                    Rest::Entries(stream, entries)
                } else {
                    *commands += put_stream_facts(out, key, &stream);
                    let groups = stream.groups();
                    Rest::Groups(stream, groups)
                }
            }
            Rest::Groups(stream, mut groups) => match groups.next() {
                None => Rest::Nothing,
                Some((name, group)) => {
                    let (last_id, read) = (group.last_id().to_string(), group.entries_read());
                    let read = read.map_or("-1".to_owned(), |read| read.to_string());
                    let words: [&[u8]; 7] = [
                        b"XGROUP",
                        b"CREATE",
                        key,
                        name,
                        last_id.as_bytes(),
                        b"ENTRIESREAD",
                        read.as_bytes(),
                    ];
                    write_command(out, words);
                    *commands += 1;
                    let (name, consumers) = (name.to_vec(), group.consumers());
                    Rest::Consumers(stream, groups, name, consumers)
                }
            },
            Rest::Consumers(stream, groups, group, mut consumers) => match consumers.next() {
                None => {
                    let pending = stream.group(&group).map(|group| group.pending_from(StreamId::MIN));
                    let pending = pending.expect("encoded-group: it is of this stream");
                    Rest::Pending(stream, groups, group, pending)
                }
                Some((name, _)) => {
                    write_command(out, [&b"XGROUP"[..], b"CREATECONSUMER", key, &group, name]);
                    *commands += 1;
                    Rest::Consumers(stream, groups, group, consumers)
                }
            },
            Rest::Pending(stream, groups, group, mut pending) => match pending.next() {
                None => Rest::Groups(stream, groups),
                Some((id, facts)) => {
                    let (id, time) = (id.to_string(), facts.delivered_ms.to_string());
                    let deliveries = facts.deliveries.to_string();
                    let words: [&[u8]; 12] = [
                        b"XCLAIM",
                        key,
                        &group,
                        &facts.consumer,
                        b"0",
                        id.as_bytes(),
                        b"TIME",
                        time.as_bytes(),
                        b"RETRYCOUNT",
                        deliveries.as_bytes(),
                        b"JUSTID",
                        b"FORCE",
                    ];
                    write_command(out, words);
                    *commands += 1;
                    Rest::Pending(stream, groups, group, pending)
                }
            },
        };
    }
}

/// Appends a command with the next elements, if there are any; false if those were the last.
fn put_items(
    out: &mut Vec<u8>,
    commands: &mut usize,
    name: &[u8],
    key: &[u8],
    mut next: impl FnMut(&mut Vec<Vec<u8>>) -> bool,
) -> bool {
    let mut words = vec![name.to_vec(), key.to_vec()];
    let mut has_more = true;
    for _ in 0..ITEMS_MAX {
        has_more = next(&mut words);
        if !has_more {
            break;
        }
    }
    if words.len() > 2 {
        write_command(out, &words);
        *commands += 1;
    }
    has_more
}

/// What a stream knows beside its entries. One without entries is made first. How many commands that takes.
fn put_stream_facts(out: &mut Vec<u8>, key: &[u8], stream: &Stream) -> usize {
    let last_id = stream.last_id().to_string();
    if stream.is_empty() {
        // No entry may have the least id.
        let id = if stream.last_id() == StreamId::MIN { "0-1" } else { &last_id };
        write_command(out, [&b"XADD"[..], key, b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"]);
    }
    let (added, deleted) = (stream.entries_added().to_string(), stream.max_deleted_id().to_string());
    let words: [&[u8]; 7] = [
        b"XSETID",
        key,
        last_id.as_bytes(),
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        deleted.as_bytes(),
    ];
    write_command(out, words);
    1 + usize::from(stream.is_empty())
}
