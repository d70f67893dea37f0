//! Garbage at the command layer of one server: it must answer everything, stay up, and keep its memory.

use std::io;
use std::time::Instant;

use resp::Value;

use crate::duo::{Args, Disagreement};
use crate::link::Link;
use crate::options::Options;
use crate::random::{FAMILIES, FAMILIES_APART, Generator, NEWER_FAMILIES};
use crate::server::{DEFAULT, SMALL, Server};
use crate::tally::Tally;
use crate::value::Reply;
use crate::words;

const PIPELINE: usize = 50;
/// Batches between two checks of memory, each on an emptied server.
const BATCHES_PER_ROUND: usize = 40;
/// Resident memory may stand this much above its start once the server is empty.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// Resident memory at any check. Values are small; only a leak or a believed length gets here.
const RESIDENT_BYTES_MAX: u64 = 2 << 30;

/// Commands that end the connection, silence it, are answered not once but often or never, or hold the server as they
/// should.
static NOT_SENT: &[&str] = &[
    "SHUTDOWN",
    "QUIT",
    "MONITOR",
    "SYNC",
    "PSYNC",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "DEBUG",
    "FAILOVER",
    "REPLICAOF",
    "SLAVEOF",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "REPLCONF",
    "MIGRATE",
];
/// Subcommands likewise.
static NOT_SENT_SUB: &[(&str, &str)] = &[
    ("CLIENT", "KILL"),
    ("CLIENT", "TRACKING"),
    ("ACL", "SETUSER"),
    ("ACL", "DELUSER"),
    ("CLIENT", "PAUSE"),
    ("CLIENT", "REPLY"),
    ("CONFIG", "SET"),
    ("CONFIG", "REWRITE"),
    ("CLUSTER", "RESET"),
    ("SCRIPT", "DEBUG"),
];
/// Commands that wait, and where they say for how long: counted from the name, or from the end.
static WAITING: &[(&str, isize)] = &[
    ("BLPOP", -1),
    ("BRPOP", -1),
    ("BLMOVE", -1),
    ("BRPOPLPUSH", -1),
    ("BZPOPMIN", -1),
    ("BZPOPMAX", -1),
    ("BLMPOP", 1),
    ("BZMPOP", 1),
    ("WAIT", -1),
    ("WAITAOF", -1),
];
/// Those that wait if an option says so, for the milliseconds after it.
static WAITING_BY_OPTION: &[&str] = &["XREAD", "XREADGROUP"];
/// Commands that grow a value as far as they are told.
static GROWING: &[&str] = &["SETBIT", "BITFIELD"];
/// The farthest bit that those are told.
const BIT_MAX: u64 = 1 << 20;
/// Scripts: of commands, of values that have no end in sight, of what fails.
static SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "redis.setresp(3); return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))",
    "return {KEYS, ARGV, #KEYS, #ARGV, {1, {2, {3.7, false, true}}}, {err = ARGV[1]}}",
    "return redis.call('SET', KEYS[1], ARGV[1], 'GET')",
    "return cjson.encode(cjson.decode(ARGV[1] or '[1,{\"a\":null}]'))",
    "return {cmsgpack.unpack(ARGV[1] or cmsgpack.pack({1, 'a', 2.5}))}",
    "return struct.unpack(ARGV[1] or '>I2', ARGV[2] or 'abcd')",
    "return string.format(ARGV[1] or '%s', ARGV[2])",
    "return string.rep(ARGV[1] or 'a', 100):find(ARGV[2] or 'b*$')",
    "return bit.lshift(tonumber(ARGV[1]) or 3, tonumber(ARGV[2]) or 70)",
    "redis.log(redis.LOG_DEBUG, ARGV[1]); return redis.sha1hex(ARGV[1] or '')",
    "error(ARGV[1])",
    "return",
    "x = 1",
    "return redis.status_reply(ARGV[1] or 'fine')",
];
/// Commands with subcommands; one of `SUBCOMMANDS` comes first among their arguments.
static CONTAINERS: &[&str] =
    &["CLIENT", "CONFIG", "COMMAND", "CLUSTER", "OBJECT", "MEMORY", "SLOWLOG", "LATENCY"];
static SUBCOMMANDS: &[&str] = &[
    "HELP",
    "GET",
    "LIST",
    "INFO",
    "USAGE",
    "STATS",
    "DOCTOR",
    "PURGE",
    "KEYSLOT",
    "SLOTS",
    "SHARDS",
    "NODES",
    "LINKS",
    "COUNTKEYSINSLOT",
    "GETKEYSINSLOT",
    "SLOT-STATS",
    "MYID",
    "ENCODING",
    "FREQ",
    "IDLETIME",
    "REFCOUNT",
    "SETNAME",
    "GETNAME",
    "SETINFO",
    "NO-EVICT",
    "NO-TOUCH",
    "UNBLOCK",
    "UNPAUSE",
    "ID",
    "LEN",
    "RESET",
    "HISTORY",
    "LATEST",
    "HISTOGRAM",
    "DOCS",
    "GETKEYS",
    "GETKEYSANDFLAGS",
    "COUNT",
    "RESETSTAT",
];
/// Commands whose negative count may be answered at any length.
static COUNTS_SMALL: &[&str] = &["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"];

/// Runs `options.commands` random commands; a failure is a hang, a closed connection, an answer that is
/// not RESP, or memory that stays.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    for (index, setup) in [&DEFAULT, &SMALL].into_iter().enumerate() {
        let extra: Vec<&str> = options.binaries.halcyon_args.iter().map(String::as_str).collect();
        let mut server = Server::start(&options.binaries.halcyon, setup, &extra)?;
        let start = Instant::now();
        let mut fuzzer = Fuzzer::new(&server, options.seed + index as u64)?;
        let commands = options.commands.div_ceil(2);
        let ran = fuzzer.run(&server, commands, &mut tally);
        if let Err(error) = ran {
            let about = fuzzer.batch.iter().map(|args| words::join(args)).collect::<Vec<_>>().join("\n    ");
            tally.fail(
                &format!("fuzz ({} thresholds)", setup.name),
                &Disagreement {
                    about: String::new(),
                    oracle: "(an answer)".into(),
                    halcyon: error.to_string(),
                },
            );
            println!("  the batch was:\n    {about}");
            if !server.is_alive() {
                println!("  the server died; its last lines:\n{}", server.log_tail());
            }
        }
        println!("fuzz ({}): {} answered, {} ms", setup.name, tally.passed, start.elapsed().as_millis());
    }
    Ok(tally)
}

struct Fuzzer {
    rng: fastrand::Rng,
    names: Vec<Vec<u8>>,
    generators: Vec<Generator>,
    link: Link,
    resident_start: Option<u64>,
    batch: Vec<Args>,
}

impl Fuzzer {
    fn new(server: &Server, seed: u64) -> io::Result<Fuzzer> {
        let mut link = server.connect()?;
        let names = link.call(&["COMMAND", "LIST"])?.leaves();
        if names.is_empty() {
            return Err(io::Error::other("COMMAND LIST names no command"));
        }
        let families = FAMILIES[..FAMILIES.len() - FAMILIES_APART].iter().chain(NEWER_FAMILIES);
        let generators = families.map(|family| Generator::new(seed, family, false)).collect();
        let rng = fastrand::Rng::with_seed(seed);
        Ok(Fuzzer {
            rng,
            names,
            generators,
            link,
            resident_start: server.resident_bytes(),
            batch: Vec::new(),
        })
    }

    fn run(&mut self, server: &Server, commands: usize, tally: &mut Tally) -> io::Result<()> {
        for round in 0..commands.div_ceil(PIPELINE) {
            self.batch = (0..PIPELINE).map(|_| self.command()).collect();
            self.link.send(&self.batch)?;
            for _ in 0..PIPELINE {
                self.link.reply()?;
                tally.passed += 1;
            }
            // A transaction may be open still.
            self.link.call(&["DISCARD"])?;
            match self.link.call(&["PING"])? {
                Value::Simple(pong) if pong == b"PONG" => {}
                other => return Err(io::Error::other(format!("PING is answered with {}", other.notation()))),
            }
            if round % BATCHES_PER_ROUND == BATCHES_PER_ROUND - 1 {
                self.check_memory(server)?;
                // Every other round speaks the other protocol.
                let protocol = if (round / BATCHES_PER_ROUND).is_multiple_of(2) { "3" } else { "2" };
                self.link.call(&["HELLO", protocol])?;
            }
        }
        self.check_memory(server)
    }

    fn check_memory(&mut self, server: &Server) -> io::Result<()> {
        let Some(full) = server.resident_bytes() else { return Ok(()) };
        self.link.call(&["FLUSHALL"])?;
        let (Some(start), Some(empty)) = (self.resident_start, server.resident_bytes()) else {
            return Ok(());
        };
        if full > RESIDENT_BYTES_MAX || empty > start + GROWTH_BYTES_MAX {
            let why = format!("resident memory: {start} B at start, {full} B full, {empty} B after FLUSHALL");
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    fn command(&mut self) -> Args {
        loop {
            let mut args = match self.rng.usize(..7) {
                0 => self.script(),
                1 | 2 => {
                    let family = self.rng.usize(..self.generators.len());
                    self.generators[family].command()
                }
                3 | 4 => {
                    let family = self.rng.usize(..self.generators.len());
                    let mut args = self.generators[family].command();
                    for _ in 0..self.rng.usize(1..4) {
                        let at = self.rng.usize(1..=args.len());
                        let garbage = self.garbage();
                        if at == args.len() || self.rng.bool() {
                            args.insert(at, garbage);
                        } else {
                            args[at] = garbage;
                        }
                    }
                    args
                }
                _ => {
                    let name = self.names[self.rng.usize(..self.names.len())].clone();
                    let mut args: Args = name.split(|&byte| byte == b'|').map(<[u8]>::to_vec).collect();
                    if CONTAINERS.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(&args[0])) {
                        args.push(SUBCOMMANDS[self.rng.usize(..SUBCOMMANDS.len())].into());
                    }
                    for _ in 0..self.rng.usize(..6) {
                        let garbage = self.garbage();
                        args.push(garbage);
                    }
                    args
                }
            };
            if self.is_sent(&mut args) {
                return args;
            }
        }
    }

    /// A script of the list, or none, that runs another random command, or some other one.
    fn script(&mut self) -> Args {
        let family = self.rng.usize(..self.generators.len());
        let mut inner = self.generators[family].command();
        if !self.is_sent(&mut inner) {
            inner = vec![b"PING".to_vec()];
        }
        let source = match self.rng.usize(..8) {
            0 => self.garbage(),
            1 | 2 => SCRIPTS[0].into(),
            _ => SCRIPTS[self.rng.usize(..SCRIPTS.len())].into(),
        };
        let name = if self.rng.usize(..8) == 0 { "EVAL_RO" } else { "EVAL" };
        let keys: Args = inner.iter().skip(1).take(self.rng.usize(..3)).cloned().collect();
        let head = vec![name.into(), source, keys.len().to_string().into_bytes()];
        [head, keys, inner].concat()
    }

    /// Lets a command wait for a moment only, and grow a value to a bound.
    fn bound(&mut self, name: &[u8], args: &mut Args) {
        let brief = if name.starts_with(b"WAIT") { "1" } else { "0.001" };
        let is = |other: &str| other.as_bytes() == name;
        if let Some((_, at)) = WAITING.iter().find(|(name, _)| is(name)) {
            let at = if *at < 0 { args.len() - 1 } else { *at as usize };
            // What is no number is refused, and may stay.
            let is_number =
                |arg: &Vec<u8>| std::str::from_utf8(arg).is_ok_and(|text| text.trim().parse::<f64>().is_ok());
            if at > 0 && args.get(at).is_some_and(is_number) {
                args[at] = brief.into();
            }
        }
        if WAITING_BY_OPTION.iter().any(|name| is(name)) {
            for at in 1..args.len() {
                if args[at - 1].eq_ignore_ascii_case(b"BLOCK") {
                    args[at] = b"1".to_vec();
                }
            }
        }
        if GROWING.iter().any(|name| is(name)) {
            for arg in &mut args[1..] {
                let text = String::from_utf8_lossy(arg).into_owned();
                let (mark, digits) = text.strip_prefix('#').map_or(("", &*text), |digits| ("#", digits));
                if digits.parse::<u64>().is_ok_and(|bit| bit > BIT_MAX) {
                    *arg = format!("{mark}{}", self.rng.u64(..BIT_MAX)).into_bytes();
                }
            }
        }
    }

    fn is_sent(&mut self, args: &mut Args) -> bool {
        let upper = |index: usize| args.get(index).map(|arg| arg.to_ascii_uppercase()).unwrap_or_default();
        let (name, sub) = (upper(0), upper(1));
        if COUNTS_SMALL.iter().any(|small| small.as_bytes() == name) && args.len() > 2 {
            args[2] = self.rng.i32(-100..100).to_string().into_bytes();
        }
        self.bound(&name, args);
        !NOT_SENT.iter().any(|not| not.as_bytes() == name)
            && !NOT_SENT_SUB.iter().any(|(not, not_sub)| not.as_bytes() == name && not_sub.as_bytes() == sub)
    }

    fn garbage(&mut self) -> Vec<u8> {
        static WORDS: &[&str] = &[
            "GET",
            "NX",
            "XX",
            "WITHSCORES",
            "LIMIT",
            "COUNT",
            "MATCH",
            "STORE",
            "BYLEX",
            "REV",
            "WEIGHTS",
            "k0",
            "k1",
            "k2",
            "k3",
            "k4",
            "0",
            "1",
            "2",
            "-1",
            "-2",
            "9223372036854775807",
            "-9223372036854775808",
            "4294967295",
            "2147483648",
            "1e308",
            "-inf",
            "inf",
            "nan",
            "(",
            "[",
            "(1",
            "[a",
            "+",
            "-",
            "*",
            "",
            "\0",
            "[^",
            "\\",
            "0.1",
            "-0",
            "16383",
            "16384",
            "99999999999999999999",
        ];
        match self.rng.usize(..12) {
            0 => (0..self.rng.usize(..40)).map(|_| self.rng.u8(..)).collect(),
            1 => vec![self.rng.u8(..); self.rng.usize(..3_000)],
            2 => self.rng.i64(..).to_string().into_bytes(),
            3 => self.rng.f64().to_string().into_bytes(),
            4 => format!("k{}", self.rng.u8(..8)).into_bytes(),
            _ => WORDS[self.rng.usize(..WORDS.len())].as_bytes().to_vec(),
        }
    }
}
