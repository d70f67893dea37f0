//! A connection to each side that always receives the same commands, and the comparison of their replies.

use std::io;

use crate::differences::{self, Content};
use crate::link::{Link, Wrap};
use crate::rules::{self, Rule};
use crate::server::Pair;
use resp::Value;

use crate::value::Reply;
use crate::words;

/// A command: its arguments, name first.
pub type Args = Vec<Vec<u8>>;

/// Two replies that do not agree, or two states.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// What was compared: the command, or what the dump looked at.
    pub about: String,
    pub oracle: String,
    pub halcyon: String,
}

/// One connection to each side.
pub struct Duo {
    pub halcyon: Link,
    pub oracle: Link,
    small_thresholds: bool,
}

/// A step of a full scan; far more than any test's keyspace needs.
const SCAN_STEPS_MAX: usize = 1_000_000;

impl Duo {
    /// Connects to both sides, speaking RESP `protocol` (2 or 3).
    pub fn open(pair: &Pair, protocol: u8) -> io::Result<Duo> {
        let mut duo = Duo {
            halcyon: pair.halcyon.connect()?,
            oracle: pair.oracle.connect()?,
            small_thresholds: pair.setup.name == "small",
        };
        if protocol == 3 {
            duo.both(&["HELLO", "3"])?;
        }
        Ok(duo)
    }

    /// From now on commands are sent in this, on both sides.
    pub fn wrap(&mut self, wrap: Wrap) {
        self.oracle.wrap(wrap);
        self.halcyon.wrap(wrap);
    }

    /// Sends the same words to both and reads both replies, oracle's first.
    pub fn both(&mut self, words: &[&str]) -> io::Result<(Value, Value)> {
        let args = args(words);
        self.both_args(&args)
    }

    /// `both` for arguments.
    pub fn both_args(&mut self, args: &Args) -> io::Result<(Value, Value)> {
        self.oracle.send([args])?;
        self.halcyon.send([args])?;
        let oracle = self.oracle.reply().map_err(|error| side("oracle", args, error))?;
        let halcyon = self.halcyon.reply().map_err(|error| side("halcyon", args, error))?;
        Ok((oracle, halcyon))
    }

    /// Runs a command on both sides under its rule (or the one given); `Ok(None)` when they agree.
    pub fn compare(&mut self, args: &Args, rule: Rule) -> io::Result<Option<Disagreement>> {
        match rule {
            Rule::Pop => self.compare_pop(args),
            Rule::ScanAll => self.compare_scan(args),
            Rule::RandomMembers => self.compare_random(args),
            Rule::Encoding => self.compare_encoding(args),
            _ => {
                let (oracle, halcyon) = self.both_args(args)?;
                Ok(verdict(args, rules::agree(args, rule, &oracle, &halcyon), &oracle, &halcyon))
            }
        }
    }

    /// Runs commands whose replies can be compared on their own, all in one pipeline.
    /// Says the index of the first disagreement.
    pub fn compare_pipelined(&mut self, commands: &[Args]) -> io::Result<Option<(usize, Disagreement)>> {
        self.oracle.send(commands)?;
        // A side that closed early has said why in its replies: they are read below all the same.
        let _ = self.halcyon.send(commands);
        let mut first = None;
        for (index, args) in commands.iter().enumerate() {
            let oracle = self.oracle.reply().map_err(|error| side("oracle", args, error))?;
            let halcyon = match self.halcyon.reply() {
                Ok(reply) => reply,
                Err(error) => {
                    let broken = Disagreement {
                        about: words::join(args),
                        oracle: oracle.notation(),
                        halcyon: format!("(connection: {error})"),
                    };
                    return Ok(Some(first.unwrap_or((index, broken))));
                }
            };
            if first.is_none() {
                let agree = rules::agree(args, rules::rule_of(args), &oracle, &halcyon);
                first = verdict(args, agree, &oracle, &halcyon).map(|found| (index, found));
            }
        }
        Ok(first)
    }

    fn compare_pop(&mut self, args: &Args) -> io::Result<Option<Disagreement>> {
        let halcyon = self.halcyon.run(args).map_err(|error| side("halcyon", args, error))?;
        let popped = if halcyon.is_error() { Vec::new() } else { halcyon.leaves() };
        if popped.is_empty() {
            let oracle = self.oracle.run(args)?;
            let agree = rules::agree(args, Rule::Exact, &oracle, &halcyon);
            return Ok(verdict(args, agree, &oracle, &halcyon));
        }
        // The oracle would draw other members: what it holds says what may be drawn, and it then removes the
        // same ones.
        let before = self.oracle.run(&args_of(&[b"SMEMBERS", &args[1]]))?;
        let members = if before.is_error() { Vec::new() } else { before.leaves() };
        let count = args.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse::<usize>().ok());
        let shape_agrees = match (&halcyon, count) {
            (Value::Bulk(_), None) => args.len() == 2,
            (Value::Array(_) | Value::Set(_), Some(count)) => {
                halcyon.kind() == before.kind() && popped.len() == members.len().min(count)
            }
            _ => false,
        };
        let mut distinct = popped.clone();
        distinct.sort();
        distinct.dedup();
        let drawn_agrees =
            distinct.len() == popped.len() && popped.iter().all(|member| members.contains(member));
        let follow = [vec![b"SREM".to_vec(), args[1].clone()], popped].concat();
        let removed = self.oracle.run(&follow)?;
        let agree = shape_agrees && drawn_agrees && removed.int() == i64::try_from(distinct.len()).ok();
        Ok(verdict(args, agree, &before, &halcyon))
    }

    fn compare_scan(&mut self, args: &Args) -> io::Result<Option<Disagreement>> {
        let (oracle, halcyon) = self.both_args(args)?;
        if oracle.is_error() || halcyon.is_error() {
            let agree = rules::agree(args, Rule::Exact, &oracle, &halcyon);
            return Ok(verdict(args, agree, &oracle, &halcyon));
        }
        let cursor_at = if args[0].eq_ignore_ascii_case(b"SCAN") { 1 } else { 2 };
        if args[cursor_at] != b"0" {
            // A cursor means something to the server that gave it only.
            return Ok(verdict(args, oracle.kind() == halcyon.kind(), &oracle, &halcyon));
        }
        let without_values = args.iter().any(|arg| arg.eq_ignore_ascii_case(b"NOVALUES"));
        let pairs = cursor_at == 2 && !args[0].eq_ignore_ascii_case(b"SSCAN") && !without_values;
        let oracle = scan_rest(&mut self.oracle, args, cursor_at, oracle, pairs)?;
        let halcyon = scan_rest(&mut self.halcyon, args, cursor_at, halcyon, pairs)?;
        Ok(verdict(args, oracle == halcyon, &oracle, &halcyon))
    }

    fn compare_random(&mut self, args: &Args) -> io::Result<Option<Disagreement>> {
        let (oracle, halcyon) = self.both_args(args)?;
        if oracle.is_error() || halcyon.is_error() || !rules::same_shape(&oracle, &halcyon) {
            let agree = rules::agree(args, Rule::Exact, &oracle, &halcyon);
            return Ok(verdict(args, agree, &oracle, &halcyon));
        }
        let drawn = halcyon.leaves();
        if drawn.is_empty() {
            return Ok(None);
        }
        let name = args[0].to_ascii_uppercase();
        let (list, group): (Args, usize) = match name.as_slice() {
            b"RANDOMKEY" => (args_of(&[b"KEYS", b"*"]), 1),
            b"SRANDMEMBER" => (args_of(&[b"SMEMBERS", &args[1]]), 1),
            b"HRANDFIELD" if args.len() == 4 => (args_of(&[b"HGETALL", &args[1]]), 2),
            b"HRANDFIELD" => (args_of(&[b"HKEYS", &args[1]]), 1),
            _ if args.len() == 4 => (args_of(&[b"ZRANGE", &args[1], b"0", b"-1", b"WITHSCORES"]), 2),
            _ => (args_of(&[b"ZRANGE", &args[1], b"0", b"-1"]), 1),
        };
        let all = self.oracle.run(&list)?.leaves();
        let all: Vec<&[Vec<u8>]> = all.chunks(group).collect();
        let mut drawn: Vec<&[Vec<u8>]> = drawn.chunks(group).collect();
        let exist = drawn.iter().all(|element| all.contains(element));
        let count = drawn.len();
        drawn.sort();
        drawn.dedup();
        let repeats_allowed = args.get(2).is_some_and(|count| count.starts_with(b"-"));
        let agree = exist && (repeats_allowed || drawn.len() == count);
        Ok(verdict(args, agree, &oracle, &halcyon))
    }

    fn compare_encoding(&mut self, args: &Args) -> io::Result<Option<Disagreement>> {
        let (oracle, halcyon) = self.both_args(args)?;
        if oracle == halcyon {
            return Ok(None);
        }
        let (Value::Bulk(oracle_name), Value::Bulk(halcyon_name)) = (&oracle, &halcyon) else {
            let agree = rules::agree(args, Rule::Exact, &oracle, &halcyon);
            return Ok(verdict(args, agree, &oracle, &halcyon));
        };
        let content = self.content(&args[2])?;
        let agree = differences::encoding_agrees(
            &String::from_utf8_lossy(oracle_name),
            &String::from_utf8_lossy(halcyon_name),
            &content,
        );
        Ok(verdict(args, agree, &oracle, &halcyon))
    }

    /// What the oracle holds under a key, as far as encodings depend on it.
    pub fn content(&mut self, key: &[u8]) -> io::Result<Content> {
        let type_name = self.oracle.run(&args_of(&[b"TYPE", key]))?.text().unwrap_or_default();
        let elements = match type_name.as_slice() {
            b"set" => self.oracle.run(&args_of(&[b"SMEMBERS", key]))?.leaves(),
            b"list" => self.oracle.run(&args_of(&[b"LRANGE", key, b"0", b"-1"]))?.leaves(),
            _ => Vec::new(),
        };
        let type_name = String::from_utf8_lossy(&type_name).into_owned();
        Ok(Content { type_name, elements, small_thresholds: self.small_thresholds })
    }
}

/// Follows a scan to its end; all elements (or pairs), once each, in order of their bytes.
fn scan_rest(link: &mut Link, args: &Args, cursor_at: usize, first: Value, pairs: bool) -> io::Result<Value> {
    let mut elements = Vec::new();
    let mut reply = first;
    for _ in 0..SCAN_STEPS_MAX {
        let Some([cursor, batch]) = reply.children().and_then(|parts| <[&Value; 2]>::try_from(parts).ok())
        else {
            return Ok(reply);
        };
        let leaves: Vec<Value> = batch.leaves().into_iter().map(Value::Bulk).collect();
        elements.extend(leaves.chunks(if pairs { 2 } else { 1 }).map(<[Value]>::to_vec));
        let cursor = cursor.text().unwrap_or_default();
        if cursor == b"0" {
            elements.sort_by_cached_key(|element| element.iter().map(Reply::sort_key).collect::<Vec<_>>());
            elements.dedup();
            return Ok(Value::Array(elements.concat()));
        }
        let mut next = args.clone();
        next[cursor_at] = cursor;
        reply = link.run(&next)?;
    }
    Err(io::Error::other(format!("{} does not end", words::join(args))))
}

/// Literal words as arguments.
pub fn args(words: &[&str]) -> Args {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Byte strings as arguments.
pub fn args_of(words: &[&[u8]]) -> Args {
    words.iter().map(|word| word.to_vec()).collect()
}

fn verdict(args: &Args, agree: bool, oracle: &Value, halcyon: &Value) -> Option<Disagreement> {
    (!agree).then(|| Disagreement {
        about: words::join(args),
        oracle: oracle.notation(),
        halcyon: halcyon.notation(),
    })
}

fn side(name: &str, args: &Args, error: io::Error) -> io::Error {
    io::Error::other(format!("{name}: {error}, at: {}", words::join(args)))
}
