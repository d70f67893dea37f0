//! A connection that writes to keys of its own, of every type, and to the accounts that all share.

use std::io;
use std::time::Instant;

use fastrand::Rng;
use resp::Value;

use super::model::{CONSUMER, Content, GROUP, Model, Outcome, id_text, is_open};
use super::now_ms;
use crate::duo::{Args, args};
use crate::link::Link;
use crate::value::Reply;

/// Accounts that money moves between; keys of this beginning are no writer's own.
pub const SHARED: &[u8] = b"shared:";
pub const ACCOUNTS: u8 = 8;
/// Steps that are sent together.
const PIPELINE_MAX: usize = 16;
/// Keys of each type.
const KEYS_EACH: u8 = 2;
/// Elements above which a collection is cut.
const ELEMENTS_MAX: usize = 40;
const TEXT_BYTES_MAX: usize = 8_000;
const ENDS_AFTER_MS_MAX: i64 = 1_500;
/// Runs commands: for each, how many words it has, and the words.
const SCRIPT: &str = "local at = 1; while at <= #ARGV do local words = tonumber(ARGV[at]); \
                      redis.call(unpack(ARGV, at + 1, at + words)); at = at + words + 1 end; return 1";

/// How the commands of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Plain,
    Transaction,
    Script,
}

/// Commands that happen together or not at all.
#[derive(Clone, Debug)]
pub struct Step {
    pub how: How,
    pub commands: Vec<Args>,
    /// The reply to it, and when it came.
    pub answer: Option<(Value, Instant)>,
}

impl Step {
    /// True if only its outcome tells what it did.
    pub fn is_open(&self) -> bool {
        self.commands.iter().any(is_open)
    }

    /// Does it to a model; money that it moves is left out. `left` is what a step without an answer may have left behind.
    pub fn apply(&self, model: &mut Model, left: Option<&Model>) {
        for command in self.commands.iter().filter(|command| !command[1].starts_with(SHARED)) {
            let outcome = match (&self.answer, left) {
                (Some((reply, _)), _) => Outcome::Answered(reply),
                (None, Some(left)) => Outcome::Left(left),
                (None, None) => Outcome::Answered(&Value::Null),
            };
            model.apply(command, outcome);
        }
    }

    fn wire(&self, rng: &mut Rng) -> Vec<Args> {
        match self.how {
            How::Plain => self.commands.clone(),
            How::Transaction => {
                let (first, last) = ([args(&["MULTI"])], [args(&["EXEC"])]);
                [&first[..], &self.commands[..], &last[..]].concat()
            }
            How::Script => {
                let keys: Vec<Vec<u8>> = match rng.bool() {
                    true => self.commands.iter().map(|command| command[1].clone()).collect(),
                    false => Vec::new(),
                };
                let words = self.commands.iter().flat_map(|command| {
                    [vec![command.len().to_string().into_bytes()], command.clone()].concat()
                });
                let head = args(&["EVAL", SCRIPT, &keys.len().to_string()]);
                vec![head.into_iter().chain(keys).chain(words).collect()]
            }
        }
    }
}

/// A connection, its keys, and what it did to them.
pub struct Writer {
    number: usize,
    rng: Rng,
    /// What its keys held when the server was started, and what they hold after all steps.
    pub base: Model,
    live: Model,
    pub steps: Vec<Step>,
    written: u64,
}

impl Writer {
    /// The writer of this number, with nothing written.
    pub fn new(number: usize, seed: u64) -> Writer {
        let rng = Rng::with_seed(seed.wrapping_mul(1_000_003) + number as u64);
        Writer { number, rng, base: Model::default(), live: Model::default(), steps: Vec::new(), written: 0 }
    }

    /// The pattern of its keys' names.
    pub fn pattern(&self) -> String {
        format!("c{}:*", self.number)
    }

    /// Begins a round in which its keys hold this.
    pub fn begin(&mut self, base: Model) {
        self.live = base.clone();
        self.base = base;
        self.steps.clear();
    }

    /// Writes until the connection breaks; a reply that should not be is an error of another kind.
    pub fn run(&mut self, link: &mut Link) -> Result<(), String> {
        loop {
            let first = self.steps.len();
            self.plan();
            let requests: Vec<Vec<Args>> =
                self.steps[first..].iter().map(|step| step.wire(&mut self.rng)).collect();
            if link.send(requests.iter().flatten()).is_err() {
                return Ok(());
            }
            for (at, request) in requests.iter().enumerate() {
                let Ok(reply) = last_reply(link, request.len()) else { return Ok(()) };
                let step = &mut self.steps[first + at];
                if has_error(&reply) {
                    return Err(format!("{:?}: {}", step.commands, reply.notation()));
                }
                step.answer = Some((reply, Instant::now()));
                if step.is_open() {
                    step.apply(&mut self.live, None);
                }
            }
        }
    }

    /// Thinks of steps to send together: what the words do not tell is sent alone.
    fn plan(&mut self) {
        for _ in 0..self.rng.usize(1..=PIPELINE_MAX) {
            let step = self.step();
            if step.is_open() {
                if self.steps.last().is_none_or(|last| last.answer.is_some()) {
                    self.steps.push(step);
                }
                return;
            }
            step.apply(&mut self.live, None);
            self.steps.push(step);
        }
    }

    fn step(&mut self) -> Step {
        let how = match self.rng.u8(..10) {
            0..=6 => How::Plain,
            7 | 8 => How::Transaction,
            _ => How::Script,
        };
        let commands = match how {
            How::Plain => vec![self.command()],
            _ if self.rng.bool() => self.transfer(),
            _ => {
                // Each is thought of before the others are done: none depends on what they leave.
                let mut commands: Vec<Args> = (0..4).map(|_| self.blind_command()).collect();
                commands.truncate(self.rng.usize(2..=4));
                commands
            }
        };
        Step { how, commands, answer: None }
    }

    /// Moves money between shared accounts, and counts that.
    fn transfer(&mut self) -> Vec<Args> {
        let amount = self.rng.i64(1..1_000);
        let mut account = || [SHARED, self.rng.u8(..ACCOUNTS).to_string().as_bytes()].concat();
        let (from, to) = (account(), account());
        let own = self.name("transfers", 0);
        let change = |key: Vec<u8>, by: i64| vec![b"INCRBY".to_vec(), key, by.to_string().into_bytes()];
        vec![change(from, -amount), change(own, 1), change(to, amount)]
    }

    fn name(&self, kind: &str, number: u8) -> Vec<u8> {
        format!("c{}:{kind}:{number}", self.number).into_bytes()
    }

    fn key(&mut self, kind: &str) -> Vec<u8> {
        let number = self.rng.u8(..KEYS_EACH);
        self.name(kind, number)
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let bytes = match self.rng.u16(..1_000) {
            0 => self.rng.usize(..300_000),
            1..=20 => self.rng.usize(..6_000),
            _ => self.rng.usize(..60),
        };
        let mut value = format!("{}.", self.written).into_bytes();
        value.resize(value.len() + bytes, b'a' + (self.written % 26) as u8);
        value
    }

    fn member(&mut self) -> Vec<u8> {
        format!("m{}", self.rng.u8(..60)).into_bytes()
    }

    /// A command that may be sent without a look at what there is.
    fn blind_command(&mut self) -> Args {
        let number = |rng: &mut Rng| rng.i64(-500..500).to_string().into_bytes();
        let word = |text: &str| text.as_bytes().to_vec();
        match self.rng.u8(..24) {
            0 => vec![word("SET"), self.key("text"), self.value()],
            1 => vec![word("APPEND"), self.key("text"), self.value()],
            2 => {
                let at = self.rng.u16(..2_000).to_string().into_bytes();
                vec![word("SETRANGE"), self.key("text"), at, self.value()]
            }
            3..=6 => vec![word("INCRBY"), self.name("count", 0), word("1")],
            7 => vec![word("INCRBY"), self.key("number"), number(&mut self.rng)],
            8 => vec![word("RPUSH"), self.key("list"), self.value(), self.value()],
            9 => vec![word("LPUSH"), self.key("list"), self.value()],
            10 => vec![word("LPOP"), self.key("list")],
            11 => vec![word("RPOP"), self.key("list")],
            12 => {
                vec![word("LMOVE"), self.name("list", 0), self.name("list", 1), word("LEFT"), word("RIGHT")]
            }
            13 | 14 => vec![word("HSET"), self.key("hash"), self.member(), self.value()],
            15 => vec![word("HDEL"), self.key("hash"), self.member()],
            16 => vec![word("HINCRBY"), self.key("counts"), self.member(), number(&mut self.rng)],
            17 => vec![word("SADD"), self.key("set"), self.member(), self.member()],
            18 => vec![word("SREM"), self.key("set"), self.member()],
            19 => vec![word("ZADD"), self.key("sorted"), number(&mut self.rng), self.member()],
            20 => vec![word("ZINCRBY"), self.key("sorted"), number(&mut self.rng), self.member()],
            21 => vec![word("ZPOPMIN"), self.key("sorted")],
            22 => vec![word("COPY"), self.name("text", 0), self.name("text", 1), word("REPLACE")],
            _ => {
                let kind = self.rng.choice(["text", "list", "hash", "set", "sorted"]).unwrap_or("text");
                vec![word("DEL"), self.key(kind)]
            }
        }
    }

    fn command(&mut self) -> Args {
        let word = |text: &str| text.as_bytes().to_vec();
        match self.rng.u8(..20) {
            0 => vec![word("SPOP"), self.key("set")],
            1 => {
                let end_ms = now_ms() + self.rng.i64(1..ENDS_AFTER_MS_MAX);
                vec![
                    word("SET"),
                    self.key("ends"),
                    self.value(),
                    word("PXAT"),
                    end_ms.to_string().into_bytes(),
                ]
            }
            2 => vec![word("PERSIST"), self.key("ends")],
            3 => vec![word("DEL"), self.key("ends")],
            4 => vec![word("XADD"), self.key("stream"), word("*"), word("f"), self.value()],
            5 | 6 => self.stream_command(),
            7 => {
                let from = self.key("list");
                match self.live.keys.contains_key(&from) {
                    true => vec![word("RENAME"), from, self.name("list", 9)],
                    false => vec![word("COPY"), self.name("list", 9), from, word("REPLACE")],
                }
            }
            8 => self.cut().unwrap_or_else(|| self.blind_command()),
            _ => self.blind_command(),
        }
    }

    /// A command on a stream that its groups allow.
    fn stream_command(&mut self) -> Args {
        let (key, word) = (self.key("stream"), |text: &str| text.as_bytes().to_vec());
        let stream = match self.live.keys.get(&key).map(|key| &key.content) {
            Some(Content::Stream(stream)) => stream,
            _ => return vec![word("XTRIM"), key, word("MAXLEN"), word("20")],
        };
        if stream.delivered.is_none() {
            return vec![word("XGROUP"), word("CREATE"), key, GROUP.to_vec(), word("0")];
        }
        if stream.entries.len() > ELEMENTS_MAX {
            return vec![word("XTRIM"), key, word("MAXLEN"), word("20")];
        }
        match stream.pending.first() {
            Some(id) if self.rng.bool() => vec![word("XACK"), key, GROUP.to_vec(), id_text(*id)],
            _ => {
                let head: [&[u8]; 7] = [b"XREADGROUP", b"GROUP", GROUP, CONSUMER, b"COUNT", b"3", b"STREAMS"];
                head.into_iter().map(<[u8]>::to_vec).chain([key, word(">")]).collect()
            }
        }
    }

    /// Makes something smaller that has grown too large.
    fn cut(&self) -> Option<Args> {
        let word = |text: &str| text.as_bytes().to_vec();
        let large = |content: &Content| match content {
            Content::Text(text) => text.len() > TEXT_BYTES_MAX,
            Content::List(list) => list.len() > ELEMENTS_MAX,
            Content::Hash(hash) => hash.values().map(Vec::len).sum::<usize>() > TEXT_BYTES_MAX,
            _ => false,
        };
        let (key, found) = self.live.keys.iter().find(|(_, key)| large(&key.content))?;
        Some(match found.content {
            Content::List(_) => vec![word("LTRIM"), key.clone(), word("-10"), word("-1")],
            _ => vec![word("DEL"), key.clone()],
        })
    }
}

/// The last of so many replies; an error among the ones before it comes first.
fn last_reply(link: &mut Link, count: usize) -> io::Result<Value> {
    let (mut last, mut error) = (Value::Null, None);
    for _ in 0..count {
        last = link.reply()?;
        if last.is_error() {
            error.get_or_insert(last.clone());
        }
    }
    Ok(error.unwrap_or(last))
}

fn has_error(reply: &Value) -> bool {
    reply.is_error() || reply.children().is_some_and(|children| children.into_iter().any(has_error))
}
