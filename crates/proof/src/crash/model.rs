//! What keys must hold after a sequence of commands: a few dozen commands, told again in the plainest way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use resp::Value;

use crate::duo::{Args, args_of};
use crate::link::Link;
use crate::value::Reply;
use crate::words;

/// A stream entry's id.
pub type Id = (u64, u64);

/// The one consumer group that a stream may have, and its one consumer.
pub const GROUP: &[u8] = b"group";
pub const CONSUMER: &[u8] = b"consumer";
/// What PEXPIRETIME says of a key that is not there.
const NO_SUCH_KEY: i64 = -2;

/// What a key holds. Collections are never empty, but streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    /// Scores are whole numbers.
    Sorted(BTreeMap<Vec<u8>, i64>),
    Stream(Stream),
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The value of each entry's one field.
    pub entries: BTreeMap<Id, Vec<u8>>,
    pub last: Id,
    /// If there is a group: the last id that it was given.
    pub delivered: Option<Id>,
    pub pending: BTreeSet<Id>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub content: Content,
    pub end_ms: Option<i64>,
}

/// What is known of a command's outcome, where its words alone do not say it.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    /// It was answered so.
    Answered(&'a Value),
    /// It was not answered; if it ran, this is what it left behind.
    Left(&'a Model),
}

/// Keys and what they hold. Keys whose end has come are still there: [`Model::difference`] knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub keys: BTreeMap<Vec<u8>, Key>,
}

/// True if the words alone do not say what the command does: chance, the clock, or what had ended has a part in it.
pub fn is_open(command: &Args) -> bool {
    matches!(&command[0][..], b"SPOP" | b"PERSIST" | b"XADD")
}

impl Model {
    /// Does what the command does. `outcome` is asked by open commands only.
    pub fn apply(&mut self, command: &Args, outcome: Outcome<'_>) {
        let key = &command[1];
        match &command[0][..] {
            b"SET" => {
                let end_ms = command.get(4).map(|at| number(at));
                self.put(key, Content::Text(command[2].clone()), end_ms);
            }
            b"PERSIST" => self.persist(key, outcome),
            b"DEL" => drop(self.keys.remove(key)),
            b"RENAME" => {
                if let Some(moved) = self.keys.remove(key) {
                    self.keys.insert(command[2].clone(), moved);
                }
            }
            b"COPY" => {
                if let Some(copy) = self.keys.get(key).cloned() {
                    self.keys.insert(command[2].clone(), copy);
                }
            }
            b"APPEND" | b"INCRBY" | b"SETRANGE" => self.change_text(command),
            b"RPUSH" | b"LPUSH" | b"LPOP" | b"RPOP" | b"LTRIM" | b"LMOVE" => self.change_list(command),
            b"HSET" | b"HDEL" | b"HINCRBY" => self.change_hash(command),
            b"SADD" | b"SREM" | b"SPOP" => self.change_set(command, outcome),
            b"ZADD" | b"ZINCRBY" | b"ZREM" | b"ZPOPMIN" => self.change_sorted(command),
            b"XADD" | b"XTRIM" | b"XGROUP" | b"XREADGROUP" | b"XACK" => self.change_stream(command, outcome),
            other => unreachable!("crash-commands: {}", words::quote(other)),
        }
    }

    fn put(&mut self, key: &[u8], content: Content, end_ms: Option<i64>) {
        self.keys.insert(key.to_vec(), Key { content, end_ms });
    }

    fn persist(&mut self, key: &[u8], outcome: Outcome<'_>) {
        let has_run = match outcome {
            Outcome::Answered(reply) => reply.int() == Some(1),
            Outcome::Left(model) => model.keys.get(key).is_some_and(|key| key.end_ms.is_none()),
        };
        match self.keys.get_mut(key) {
            Some(key) if has_run => key.end_ms = None,
            _ => {}
        }
    }

    fn change_text(&mut self, command: &Args) {
        let content = self.content(&command[1], || Content::Text(Vec::new()));
        let Content::Text(text) = content else { unreachable!("crash-types: each name has one") };
        match &command[0][..] {
            b"APPEND" => text.extend_from_slice(&command[2]),
            b"INCRBY" => {
                let before = if text.is_empty() { 0 } else { number(text) };
                *text = (before + number(&command[2])).to_string().into_bytes();
            }
            _ => {
                let (from, new) = (number(&command[2]) as usize, &command[3]);
                text.resize(text.len().max(from + new.len()), 0);
                text[from..from + new.len()].copy_from_slice(new);
            }
        }
    }

    fn change_list(&mut self, command: &Args) {
        if command[0] == b"LMOVE" {
            let moved = self.with_list(&command[1], VecDeque::pop_front);
            if let Some(moved) = moved {
                self.with_list(&command[2], |list| list.push_back(moved));
            }
            return;
        }
        self.with_list(&command[1], |list| match &command[0][..] {
            b"RPUSH" => list.extend(command[2..].iter().cloned()),
            b"LPUSH" => command[2..].iter().for_each(|element| list.push_front(element.clone())),
            b"LPOP" => drop(list.pop_front()),
            b"RPOP" => drop(list.pop_back()),
            // LTRIM key -count -1
            _ => drop(list.drain(..list.len().saturating_sub(-number(&command[2]) as usize))),
        });
    }

    fn with_list<R>(&mut self, key: &[u8], work: impl FnOnce(&mut VecDeque<Vec<u8>>) -> R) -> R {
        let content = self.content(key, || Content::List(VecDeque::new()));
        let Content::List(list) = content else { unreachable!("crash-types: each name has one") };
        let result = work(list);
        if list.is_empty() {
            self.keys.remove(key);
        }
        result
    }

    fn change_hash(&mut self, command: &Args) {
        let content = self.content(&command[1], || Content::Hash(BTreeMap::new()));
        let Content::Hash(hash) = content else { unreachable!("crash-types: each name has one") };
        match &command[0][..] {
            b"HSET" => hash.extend(command[2..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()))),
            b"HDEL" => drop(hash.remove(&command[2])),
            _ => {
                let before = hash.get(&command[2]).map_or(0, |text| number(text));
                hash.insert(command[2].clone(), (before + number(&command[3])).to_string().into_bytes());
            }
        }
        if hash.is_empty() {
            self.keys.remove(&command[1]);
        }
    }

    fn change_set(&mut self, command: &Args, outcome: Outcome<'_>) {
        let key = &command[1];
        let content = self.content(key, || Content::Set(BTreeSet::new()));
        let Content::Set(set) = content else { unreachable!("crash-types: each name has one") };
        match &command[0][..] {
            b"SADD" => set.extend(command[2..].iter().cloned()),
            b"SREM" => drop(set.remove(&command[2])),
            _ => {
                let popped = match outcome {
                    Outcome::Answered(reply) => reply.text(),
                    Outcome::Left(model) => match model.keys.get(key).map(|key| &key.content) {
                        Some(Content::Set(left)) => set.difference(left).next().cloned(),
                        _ => set.first().cloned(),
                    },
                };
                popped.map(|member| set.remove(&member));
            }
        }
        if set.is_empty() {
            self.keys.remove(key);
        }
    }

    fn change_sorted(&mut self, command: &Args) {
        let content = self.content(&command[1], || Content::Sorted(BTreeMap::new()));
        let Content::Sorted(sorted) = content else { unreachable!("crash-types: each name has one") };
        match &command[0][..] {
            b"ZADD" => drop(sorted.insert(command[3].clone(), number(&command[2]))),
            b"ZINCRBY" => *sorted.entry(command[3].clone()).or_default() += number(&command[2]),
            b"ZREM" => drop(sorted.remove(&command[2])),
            _ => {
                let lowest = sorted.iter().map(|(member, score)| (*score, member.clone())).min();
                lowest.map(|(_, member)| sorted.remove(&member));
            }
        }
        if sorted.is_empty() {
            self.keys.remove(&command[1]);
        }
    }

    fn change_stream(&mut self, command: &Args, outcome: Outcome<'_>) {
        let key = match &command[0][..] {
            b"XGROUP" => &command[2],
            // XREADGROUP GROUP group consumer COUNT count STREAMS key >
            b"XREADGROUP" => &command[7],
            _ => &command[1],
        };
        if command[0] != b"XADD" && !self.keys.contains_key(key) {
            return;
        }
        let content = self.content(key, || Content::Stream(Stream::default()));
        let Content::Stream(stream) = content else { unreachable!("crash-types: each name has one") };
        match &command[0][..] {
            b"XADD" => {
                let id = match outcome {
                    Outcome::Answered(reply) => id_of(&reply.text().unwrap_or_default()),
                    Outcome::Left(model) => match model.keys.get(key).map(|key| &key.content) {
                        Some(Content::Stream(left)) if left.last > stream.last => left.last,
                        // It has not run: any other id is found to be wrong.
                        _ => (u64::MAX, u64::MAX),
                    },
                };
                stream.entries.insert(id, command[4].clone());
                stream.last = id;
            }
            b"XTRIM" => {
                while stream.entries.len() > number(&command[3]) as usize {
                    stream.entries.pop_first();
                }
            }
            b"XGROUP" => stream.delivered = stream.delivered.or(Some((0, 0))),
            b"XREADGROUP" => {
                let (after, count) = (stream.delivered.unwrap_or_default(), number(&command[5]) as usize);
                let given: Vec<Id> =
                    stream.entries.keys().filter(|id| **id > after).take(count).copied().collect();
                stream.delivered = given.last().copied().or(stream.delivered);
                stream.pending.extend(given);
            }
            _ => drop(stream.pending.remove(&id_of(&command[3]))),
        }
    }

    fn content(&mut self, key: &[u8], empty: impl FnOnce() -> Content) -> &mut Content {
        &mut self.keys.entry(key.to_vec()).or_insert_with(|| Key { content: empty(), end_ms: None }).content
    }

    /// The keys that a server has of this pattern.
    pub fn read(link: &mut Link, pattern: &str) -> io::Result<Model> {
        let mut model = Model::default();
        for key in link.call(&["KEYS", pattern])?.leaves() {
            let kind = link.run(&args_of(&[b"TYPE", &key]))?;
            let end = link.run(&args_of(&[b"PEXPIRETIME", &key]))?.int().unwrap_or_default();
            // Where its end comes between two of these commands, it is gone.
            let content = match &kind.text().unwrap_or_default()[..] {
                b"none" => continue,
                _ if end == NO_SUCH_KEY => continue,
                b"string" => match link.run(&args_of(&[b"GET", &key]))?.text() {
                    Some(text) => Content::Text(text),
                    None => continue,
                },
                b"stream" => Content::Stream(read_stream(link, &key)?),
                _ => read_collection(&link.run(&crate::dump::reading(&key, &kind))?, &kind),
            };
            model.keys.insert(key, Key { content, end_ms: (end >= 0).then_some(end) });
        }
        Ok(model)
    }

    /// Where what was read from a server between these two times is otherwise: the key, what it should hold, what it does.
    pub fn difference(&self, found: &Model, read_ms: [i64; 2]) -> Option<[String; 3]> {
        let name = self.differing(found, read_ms).next()?;
        let about = format!("{} (read at {read_ms:?})", words::quote(name));
        Some([about, told(self.keys.get(name)), told(found.keys.get(name))])
    }

    /// The keys that are otherwise.
    pub fn differing<'a>(&'a self, found: &'a Model, read_ms: [i64; 2]) -> impl Iterator<Item = &'a Vec<u8>> {
        let only_there = found.keys.keys().filter(|name| !self.keys.contains_key(*name));
        self.keys.keys().chain(only_there).filter(move |name| {
            let (wanted, held) = (self.keys.get(*name), found.keys.get(*name));
            match wanted.and_then(|key| key.end_ms) {
                // A key is there for the whole millisecond that is its end.
                Some(end_ms) if end_ms < read_ms[0] => held.is_some(),
                Some(end_ms) if end_ms < read_ms[1] => held.is_some() && held != wanted,
                _ => held != wanted,
            }
        })
    }
}

/// What a key holds, to be read by people.
fn told(key: Option<&Key>) -> String {
    let Some(Key { content, end_ms }) = key else { return "no such key".to_owned() };
    let pairs = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| {
        words::join(
            &pairs.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect::<Vec<_>>(),
        )
    };
    let content = match content {
        Content::Text(text) => words::quote(text),
        Content::List(list) => words::join(&list.iter().cloned().collect::<Vec<_>>()),
        Content::Hash(hash) => pairs(hash),
        Content::Set(set) => words::join(&set.iter().cloned().collect::<Vec<_>>()),
        Content::Sorted(sorted) => format!("{sorted:?}"),
        Content::Stream(Stream { entries, last, delivered, pending }) => {
            let entry = |(id, value): (&Id, &Vec<u8>)| format!("{id:?} {}", words::quote(value));
            let entries = entries.iter().map(entry).collect::<Vec<_>>().join(", ");
            format!("last {last:?}, delivered {delivered:?}, pending {pending:?}: {entries}")
        }
    };
    format!("{content}, ends at {end_ms:?}")
}

fn read_collection(content: &Value, kind: &Value) -> Content {
    let leaves = content.leaves();
    match &kind.text().unwrap_or_default()[..] {
        b"list" => Content::List(leaves.into()),
        b"set" => Content::Set(leaves.into_iter().collect()),
        b"hash" => Content::Hash(leaves.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()),
        _ => Content::Sorted(leaves.chunks(2).map(|pair| (pair[0].clone(), number(&pair[1]))).collect()),
    }
}

fn read_stream(link: &mut Link, key: &[u8]) -> io::Result<Stream> {
    let mut stream = Stream::default();
    // Each entry is its id, the field's name and the value.
    for entry in link.run(&args_of(&[b"XRANGE", key, b"-", b"+"]))?.leaves().chunks(3) {
        stream.entries.insert(id_of(&entry[0]), entry[2].clone());
    }
    let after = |facts: &[Vec<u8>], label: &[u8]| {
        let at = facts.iter().position(|fact| fact == label);
        at.and_then(|at| facts.get(at + 1)).map(|text| id_of(text))
    };
    let facts = link.run(&args_of(&[b"XINFO", b"STREAM", key]))?.leaves();
    stream.last = after(&facts, b"last-generated-id").unwrap_or_default();
    let groups = link.run(&args_of(&[b"XINFO", b"GROUPS", key]))?.leaves();
    stream.delivered = after(&groups, b"last-delivered-id");
    if stream.delivered.is_some() {
        let pending = link.run(&args_of(&[b"XPENDING", key, GROUP, b"-", b"+", b"1000000"]))?.leaves();
        stream.pending = pending.chunks(4).map(|entry| id_of(&entry[0])).collect();
    }
    Ok(stream)
}

/// A whole number that was written by this program, or by the server it tests.
pub fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN / 1_000)
}

fn id_of(text: &[u8]) -> Id {
    let mut parts = text.split(|byte| *byte == b'-').map(|part| number(part) as u64);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// An id as commands take it.
pub fn id_text(id: Id) -> Vec<u8> {
    format!("{}-{}", id.0, id.1).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duo::args;

    fn after(commands: &[&str]) -> Model {
        let mut model = Model::default();
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            model.apply(&args(&words), Outcome::Answered(&Value::Null));
        }
        model
    }

    #[test]
    fn commands_change_what_they_name() {
        let text = |model: &Model, key: &str| model.keys.get(key.as_bytes()).map(|key| key.content.clone());
        let model =
            after(&["INCRBY n 5", "INCRBY n -7", "APPEND t ab", "SETRANGE t 3 c", "COPY t u REPLACE"]);
        assert_eq!(text(&model, "n"), Some(Content::Text(b"-2".to_vec())));
        assert_eq!(text(&model, "u"), Some(Content::Text(b"ab\0c".to_vec())));
        let model = after(&["RPUSH l a b c", "LPUSH l z", "LTRIM l -3 -1", "LMOVE l m LEFT RIGHT", "RPOP l"]);
        assert_eq!(text(&model, "l"), Some(Content::List([b"b".to_vec()].into())));
        assert_eq!(text(&model, "m"), Some(Content::List([b"a".to_vec()].into())));
        let model =
            after(&["ZADD z 3 a", "ZADD z 1 b", "ZINCRBY z 5 b", "ZPOPMIN z", "HSET h f 1", "HDEL h f"]);
        assert_eq!(text(&model, "z"), Some(Content::Sorted([(b"b".to_vec(), 6)].into())));
        assert_eq!(text(&model, "h"), None);
    }

    #[test]
    fn an_unanswered_command_is_judged_by_what_it_left() {
        let before = after(&["SADD s a b c"]);
        let left = after(&["SADD s a c"]);
        let mut model = before.clone();
        model.apply(&args(&["SPOP", "s"]), Outcome::Left(&left));
        assert_eq!(model.difference(&left, [0, 0]), None);
        assert!(before.difference(&left, [0, 0]).is_some());
    }

    #[test]
    fn what_has_ended_is_not_missed() {
        let model = after(&["SET k v PXAT 100"]);
        let gone = Model::default();
        assert_eq!(model.difference(&gone, [101, 102]), None);
        assert_eq!(model.difference(&gone, [100, 101]), None);
        assert_eq!(model.difference(&model, [100, 101]), None);
        assert!(model.difference(&model, [101, 102]).is_some(), "it is there too long");
        assert!(model.difference(&gone, [99, 100]).is_some(), "it went too early");
    }
}
