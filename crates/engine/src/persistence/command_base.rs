//! A snapshot as commands that make it anew: a base of the append-only files with `aof-use-rdb-preamble no`.
//!
//! A value of many elements is many commands, which are made piece by piece.

use base::num::write_f64;
use resp::write_command;
use store::stream::{Consumers, Groups, PendingIter, StreamIter};
use store::{
    Chunks, HashIter, ListIter, SetIter, SnapshotBatch, Stream, StreamId, Value, ValueRef, Walk, ZIter,
};

use super::saving::Save;
use crate::server::Server;

/// Elements of one command, as in Redis.
const ITEMS_MAX: usize = 64;

/// Makes the commands.
pub struct CommandEncoder<'a> {
    server: &'a Server,
    save: &'a Save,
    walk: Walk,
    batch: SnapshotBatch,
    /// The next entry of the batch.
    at: usize,
    db: Option<usize>,
    /// The key whose value is not finished.
    key: Vec<u8>,
    rest: Rest,
    expire_at_ms: Option<i64>,
}

/// What is left of a value.
enum Rest {
    Nothing,
    Chunks(Chunks),
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

impl<'a> CommandEncoder<'a> {
    /// For all of `save`.
    pub fn new(server: &'a Server, save: &'a Save) -> CommandEncoder<'a> {
        CommandEncoder {
            server,
            save,
            walk: Walk::default(),
            batch: SnapshotBatch::default(),
            at: 0,
            db: None,
            key: Vec::new(),
            rest: Rest::Nothing,
            expire_at_ms: None,
        }
    }

    /// What comes first: the libraries of functions.
    pub fn head(&self, out: &mut Vec<u8>) {
        for library in self.save.libraries.libraries.values() {
            write_command(out, [&b"FUNCTION"[..], b"LOAD", &library.source]);
        }
    }

    /// Appends commands until `out` has about `bytes_max` bytes; false if these were the last.
    pub fn fill(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> bool {
        while out.len() < bytes_max {
            if !matches!(self.rest, Rest::Nothing) {
                self.go_on(out);
            } else if let Some(at_ms) = self.expire_at_ms.take() {
                write_command(out, [&b"PEXPIREAT"[..], &self.key, at_ms.to_string().as_bytes()]);
            } else if !self.next_key(out) {
                let has_more =
                    self.save.snapshot.next(&self.server.keyspace, &mut self.walk, &mut self.batch);
                self.at = 0;
                if !has_more {
                    return false;
                }
            }
        }
        true
    }

    fn next_key(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(entry) = self.batch.get(self.at) else { return false };
        self.at += 1;
        if self.db != Some(entry.db) {
            self.db = Some(entry.db);
            write_command(out, [&b"SELECT"[..], entry.db.to_string().as_bytes()]);
        }
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.expire_at_ms = entry.expire_at_ms;
        self.rest = match entry.value {
            ValueRef::Inline(text) => {
                write_command(out, [b"SET", entry.key, text]);
                Rest::Nothing
            }
            ValueRef::Object(Value::Str(long)) => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                out.extend_from_slice(format!("${}\r\n", entry.key.len()).as_bytes());
                out.extend_from_slice(entry.key);
                out.extend_from_slice(format!("\r\n${}\r\n", long.len()).as_bytes());
                Rest::Chunks(long.chunks(0))
            }
            ValueRef::Object(Value::List(list)) => Rest::List(list.iter(0, false)),
            ValueRef::Object(Value::Set(set)) => Rest::Set(set.iter()),
            ValueRef::Object(Value::ZSet(zset)) => Rest::ZSet(zset.iter()),
            ValueRef::Object(Value::Hash(hash)) => {
                Rest::Hash(hash.iter(), hash.soonest_end_ms().map(|_| hash.iter()))
            }
            ValueRef::Object(Value::Stream(stream)) => Rest::Entries(stream.clone(), stream.iter()),
        };
        true
    }

    /// Appends the next command, or piece, of a value.
    fn go_on(&mut self, out: &mut Vec<u8>) {
        let key = &*self.key;
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
            Rest::List(mut list) => {
                let more = put_items(out, b"RPUSH", key, |words| {
                    list.next().map(|element| words.push(element.to_vec())).is_some()
                });
                if more { Rest::List(list) } else { Rest::Nothing }
            }
            Rest::Set(mut set) => {
                let more = put_items(out, b"SADD", key, |words| {
                    set.next().map(|member| words.push(member.to_vec())).is_some()
                });
                if more { Rest::Set(set) } else { Rest::Nothing }
            }
            Rest::ZSet(mut zset) => {
                let more = put_items(out, b"ZADD", key, |words| {
                    let Some((member, score)) = zset.next() else { return false };
                    let mut text = Vec::new();
                    write_f64(&mut text, score);
                    words.extend([text, member.to_vec()]);
                    true
                });
                if more { Rest::ZSet(zset) } else { Rest::Nothing }
            }
            Rest::Hash(mut hash, ends) => {
                let more = put_items(out, b"HSET", key, |words| {
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
                    Rest::Entries(stream, entries)
                } else {
                    put_stream_facts(out, key, &stream);
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
                    Rest::Pending(stream, groups, group, pending)
                }
            },
        };
    }
}

/// Appends a command with the next elements, if there are any; false if those were the last.
fn put_items(
    out: &mut Vec<u8>,
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
    }
    has_more
}

/// What a stream knows beside its entries. One without entries is made first.
fn put_stream_facts(out: &mut Vec<u8>, key: &[u8], stream: &Stream) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::replaying::Replayer;
    use crate::persistence::saving::SavePurpose;
    use crate::testing::Harness;

    #[test]
    fn what_commands_make_is_what_was_saved() {
        let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
        for number in 0..150 {
            harness.run(&format!("RPUSH list element:{number}"));
            harness.run(&format!("SADD set member:{number}"));
            harness.run(&format!("ZADD zset {} member:{number}", f64::from(number) / 3.0));
            harness.run(&format!("HSET hash field:{number} {number}"));
            harness.run(&format!("XADD stream {number}-1 field {number}"));
        }
        let long = "z".repeat(100_000);
        let commands = [
            "SET short v",
            &format!("SET long {long}"),
            "SET ends v PXAT 1800000000000",
            "HPEXPIREAT hash 1800000000000 FIELDS 1 field:7",
            "XDEL stream 3-1 149-1",
            "XGROUP CREATE stream group 0",
            "XGROUP CREATE stream other 5-1 ENTRIESREAD 4",
            "XGROUP CREATECONSUMER stream group idle",
            "XREADGROUP GROUP group reader COUNT 70 STREAMS stream >",
            "XGROUP CREATE empty group $ MKSTREAM",
            "SELECT 3",
            "SADD numbers 1 2 3",
        ];
        for command in commands {
            assert!(!harness.run(command).starts_with('-'), "{command}");
        }
        let save = harness.server.begin_save(SavePurpose::Rewrite);
        let (mut encoder, mut bytes) = (CommandEncoder::new(&harness.server, &save), Vec::new());
        encoder.head(&mut bytes);
        let mut piece = Vec::new();
        while encoder.fill(&mut piece, 1000) {
            bytes.append(&mut piece);
        }
        bytes.append(&mut piece);
        let mut copy = Harness::with_config(&[("enable-debug-command", "yes")]);
        let mut replayer = Replayer::new(&copy.server);
        replayer.run_all(&bytes);
        assert_eq!(replayer.failures, (0, None));
        let shown = |harness: &mut Harness| {
            let commands = [
                "DEBUG DIGEST",
                "PEXPIRETIME ends",
                "HPEXPIRETIME hash FIELDS 2 field:7 field:8",
                "XINFO STREAM empty",
                "XINFO GROUPS stream",
                "XPENDING stream group - + 100",
                "XINFO GROUPS empty",
                "OBJECT ENCODING set",
            ];
            harness.run("SELECT 0");
            commands.map(|command| harness.run(command))
        };
        assert_eq!(shown(&mut copy), shown(&mut harness));
    }
}
