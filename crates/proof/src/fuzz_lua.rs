//! Lua sources at one server: made from a grammar, taken from the scripts of the differential suite, and mutated. Each
//! must be answered, whatever it does; those that do not end are ended with SCRIPT KILL, which is why none may write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use resp::Value;

use crate::link::Link;
use crate::options::Options;
use crate::script::{self, Action};
use crate::server::{DEFAULT, Server};
use crate::tally::Tally;
use crate::value::Reply;

const PIPELINE: usize = 20;
/// Resident memory at any check: the Lua states of all threads, and what a leak would add.
const RESIDENT_BYTES_MAX: u64 = 6 << 30;
/// How often what runs is told to end.
const KILL_EVERY: Duration = Duration::from_millis(20);

/// Names and pieces that sources are made of.
static WORDS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2^53",
    "1e308",
    "0/0",
    "1/0",
    "\"\"",
    "\"a\"",
    "\"\\0\\255\"",
    "{}",
    "{1,2,3}",
    "{a=1}",
    "{[1]=nil,[3]=1}",
    "KEYS",
    "ARGV",
    "KEYS[1]",
    "#ARGV",
    "_G",
    "redis",
    "redis.call",
    "redis.pcall",
    "redis.error_reply",
    "redis.status_reply",
    "redis.sha1hex",
    "redis.setresp",
    "redis.log",
    "redis.acl_check_cmd",
    "cjson.encode",
    "cjson.decode",
    "cjson.null",
    "cjson.new()",
    "cjson.encode_max_depth",
    "cjson.encode_sparse_array",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_one",
    "cmsgpack.unpack_limit",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "string.rep",
    "string.format",
    "string.gsub",
    "string.find",
    "string.byte",
    "string.char",
    "string.dump",
    "table.concat",
    "table.insert",
    "table.remove",
    "table.sort",
    "math.random",
    "math.floor",
    "os.clock",
    "pcall",
    "xpcall",
    "error",
    "assert",
    "select",
    "unpack",
    "tostring",
    "tonumber",
    "type",
    "next",
    "pairs",
    "ipairs",
    "rawget",
    "rawset",
    "setmetatable",
    "getmetatable",
    "loadstring",
    "load",
    "collectgarbage",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.wrap",
    "coroutine.yield",
    "coroutine.status",
    "__redis__err__handler",
    "\"GET\"",
    "\"ECHO\"",
    "\"[[[1]]]\"",
    "\"!8bd\"",
    "\"%s%d%q\"",
    "function() end",
    "function(...) return ... end",
    "...",
];
static PUNCTUATION: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    "=",
    "==",
    "~=",
    "..",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "#",
    "<",
    ".",
    ":",
    " and ",
    " or ",
    " not ",
    " end ",
    " do ",
    " then ",
    " return ",
    " local ",
    " function ",
    " if ",
    " for ",
    " while ",
    " repeat ",
    " until ",
    " in ",
    "\n",
    "--",
    "[[",
    "]]",
    "\"",
    "'",
    "\\",
    "\u{1b}",
];

/// Runs as many sources as asked for.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let start = Instant::now();
    let mut server = Server::start(&options.binaries.halcyon, &DEFAULT, &[])?;
    let corpus = corpus(options)?;
    let mut fuzzer = Fuzzer { rng: fastrand::Rng::with_seed(options.seed), corpus, link: server.connect()? };
    let done = Arc::new(AtomicBool::new(false));
    let killer = thread::spawn({
        let (link, done) = (server.connect()?, done.clone());
        move || kill_until(link, &done)
    });
    let ran = fuzzer.run(&server, options.commands, &mut tally);
    done.store(true, Relaxed);
    killer.join().expect("fuzz-killer: it does not panic")?;
    if let Err(error) = ran {
        let state = if server.is_alive() { "up" } else { "gone" };
        return Err(io::Error::other(format!("{error}; the server is {state}\n{}", server.log_tail())));
    }
    println!("fuzz-lua: {} answered, {} ms", tally.passed, start.elapsed().as_millis());
    Ok(tally)
}

/// Ends whatever script runs, again and again.
fn kill_until(mut link: Link, done: &AtomicBool) -> io::Result<()> {
    while !done.load(Relaxed) {
        thread::sleep(KILL_EVERY);
        link.call(&["SCRIPT", "KILL"])?;
    }
    Ok(())
}

/// The scripts that the differential suite runs.
fn corpus(options: &Options) -> io::Result<Vec<Vec<u8>>> {
    let scripts = script::read_all(&options.scripts)?;
    let steps =
        scripts.into_iter().filter(|script| script.family == "scripting").flat_map(|script| script.steps);
    let sources = steps.filter_map(|step| match step.action {
        Action::Run { args, .. } if args.len() > 2 && args[0].eq_ignore_ascii_case(b"eval") => {
            Some(args[1].clone())
        }
        _ => None,
    });
    Ok(sources.collect())
}

struct Fuzzer {
    rng: fastrand::Rng,
    corpus: Vec<Vec<u8>>,
    link: Link,
}

impl Fuzzer {
    fn run(&mut self, server: &Server, cases: usize, tally: &mut Tally) -> io::Result<()> {
        for round in 0..cases.div_ceil(PIPELINE) {
            let batch: Vec<Vec<Vec<u8>>> = (0..PIPELINE).map(|_| self.command()).collect();
            self.link.send(&batch)?;
            for command in &batch {
                self.link.reply().map_err(|error| {
                    io::Error::other(format!("{error} for a script like {}", command[1].escape_ascii()))
                })?;
                tally.passed += 1;
            }
            match self.link.call(&["PING"])? {
                Value::Simple(pong) if pong == b"PONG" => {}
                other => return Err(io::Error::other(format!("PING is answered with {}", other.notation()))),
            }
            let resident = server.resident_bytes().unwrap_or(0);
            if resident > RESIDENT_BYTES_MAX {
                return Err(io::Error::other(format!("{resident} bytes are resident")));
            }
            if round % 100 == 99 {
                let protocol = if (round / 100).is_multiple_of(2) { "3" } else { "2" };
                self.link.call(&["HELLO", protocol])?;
                self.link.call(&["SCRIPT", "FLUSH"])?;
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Vec<Vec<u8>> {
        let source = match self.rng.usize(..4) {
            0 => self.chunk(),
            1 => self.soup(),
            _ => {
                let at = self.rng.usize(..self.corpus.len());
                let mut source = self.corpus[at].clone();
                for _ in 0..self.rng.usize(..4) {
                    self.mutate(&mut source);
                }
                source
            }
        };
        [&b"EVAL_RO"[..], &source, b"1", b"k", b"a", b"2"].iter().map(|word| word.to_vec()).collect()
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.rng.usize(..WORDS.len())]
    }

    /// Words and punctuation in no order.
    fn soup(&mut self) -> Vec<u8> {
        let mut source = String::new();
        for _ in 0..self.rng.usize(1..20) {
            source.push_str(if self.rng.bool() {
                self.word()
            } else {
                PUNCTUATION[self.rng.usize(..PUNCTUATION.len())]
            });
            source.push(' ');
        }
        source.into_bytes()
    }

    /// Statements that parse.
    fn chunk(&mut self) -> Vec<u8> {
        let mut source = String::from("local a, b, c = 1, {}, \"x\" ");
        for _ in 0..self.rng.usize(..5) {
            let (left, right) = (self.expression(2), self.expression(2));
            let statement = match self.rng.usize(..8) {
                0 => format!("a = {left} "),
                1 => format!("b[{left}] = {right} "),
                2 => format!("for i = 1, 20 do c = {left} end "),
                3 => format!("for k, v in pairs({left}) do a = {right} end "),
                4 => format!("if {left} then b = {right} end "),
                5 => format!("a, c = pcall({left}, {right}) "),
                6 => format!("local d = function(...) return {left} end a = d({right}) "),
                _ => format!("setmetatable(b, {{__index = {left}, __newindex = {right}}}) "),
            };
            source.push_str(&statement);
        }
        source.push_str(&format!("return {}", self.expression(3)));
        source.into_bytes()
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.rng.bool() { self.word().to_owned() } else { "abc"[..1].to_owned() };
        }
        let mut part = || self.expression(depth - 1);
        let (first, second, third) = (part(), part(), part());
        match self.rng.usize(..8) {
            0 | 1 => format!("({first})({second}, {third})"),
            2 => format!("{}({second}, {third})", self.word()),
            3 => format!("{{{first}, {second}, x = {third}}}"),
            4 => format!("({first})[{second}]"),
            5 => format!("({first}) .. ({second})"),
            6 => format!("({first}) == ({second})"),
            _ => format!("redis.pcall({first}, {second}, {third})"),
        }
    }

    fn mutate(&mut self, source: &mut Vec<u8>) {
        let at = self.rng.usize(..=source.len());
        match self.rng.usize(..5) {
            0 => drop(source.drain(at..source.len().min(at + self.rng.usize(1..8)))),
            1 => drop(source.splice(at..at, self.word().bytes())),
            2 => {
                let word = PUNCTUATION[self.rng.usize(..PUNCTUATION.len())];
                drop(source.splice(at..at, word.bytes()));
            }
            3 => source.insert(at, self.rng.u8(..)),
            _ => {
                let end = source.len().min(at + self.rng.usize(1..30));
                let piece = source[at..end].to_vec();
                let to = self.rng.usize(..=source.len());
                drop(source.splice(to..to, piece));
            }
        }
    }
}
