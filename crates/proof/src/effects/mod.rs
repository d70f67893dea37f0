//! What commands leave in the replication stream.
//!
//! The differential scripts and random commands run on Halcyon and on a real redis-server, and after each of them both
//! streams must have grown by the same. What Halcyon's stream then holds is applied to an empty Halcyon and to an empty
//! redis-server, which must have come to hold what Halcyon holds.

mod apply;
mod compare;
mod feed;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::dump;
use crate::duo::{Args, Disagreement, Duo};
use crate::link::Wrap;
use crate::options::Options;
use crate::random::{FAMILIES, FAMILIES_APART, Generator};
use crate::rules::{self, Rule};
use crate::script::{self, Action, Check, Script, Step};
use crate::script_run::{self, Observer};
use crate::server::{DEFAULT, Pair, SMALL, Server, Setup};
use crate::tally::Tally;
use crate::words;
use feed::Feed;

/// Scripts that are about connections, or that end the stream.
const OTHER_SCRIPTS: &[&str] =
    &["acl", "cluster", "connection", "eviction", "permissions", "protocol", "pubsub", "server"];
/// Families whose commands are about the server.
const OTHER_FAMILIES: &[&str] = &["server"];
/// Enough for what has ended to be removed by those who look for it.
const EXPIRY_PATIENCE: Duration = Duration::from_millis(250);
/// Where sequences are kept that failed.
const KEPT_DIRECTORY: &str = "target/differential";

/// Runs scripts and random commands, as the options ask.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let selected = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let scripts = script::read_all(&options.scripts)?;
    let scripts: Vec<&Script> = scripts
        .iter()
        .filter(|script| selected(&script.family) && !OTHER_SCRIPTS.contains(&script.family.as_str()))
        .collect();
    let families = &FAMILIES[..FAMILIES.len() - FAMILIES_APART];
    let families: Vec<usize> = (0..families.len())
        .filter(|at| selected(families[*at].name) && !OTHER_FAMILIES.contains(&families[*at].name))
        .collect();
    for setup in [&DEFAULT, &SMALL] {
        let mut bench = Bench::start(options, setup)?;
        let started = Instant::now();
        let before = tally.passed;
        if !options.random_only && setup.name == DEFAULT.name {
            for script in &scripts {
                if let Err(error) = bench.script(script, &mut tally) {
                    tally.fail(&format!("script {}", script.family), &broken(error));
                    bench = Bench::start(options, setup)?;
                }
            }
        }
        if !options.scripts_only {
            let commands = options.commands.div_ceil(2 * families.len().max(1));
            for family in &families {
                let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(*family as u64);
                let ran = bench.random(*family, seed, commands, &mut tally);
                if let Err(error) = ran {
                    let place = format!("random {} (run seed {seed})", FAMILIES[*family].name);
                    tally.fail(&place, &broken(error));
                    bench = Bench::start(options, setup)?;
                }
            }
        }
        println!(
            "effects, {} thresholds: {} compared in {} s",
            setup.name,
            tally.passed - before,
            started.elapsed().as_secs()
        );
    }
    Ok(tally)
}

fn broken(error: io::Error) -> Disagreement {
    Disagreement { about: error.to_string(), oracle: String::new(), halcyon: String::new() }
}

/// Two servers whose streams are compared, and two that Halcyon's stream is applied to.
struct Bench {
    pair: Pair,
    streams: Streams,
    copies: [Server; 2],
}

impl Bench {
    fn start(options: &Options, setup: &'static Setup) -> io::Result<Bench> {
        let pair = Pair::start(&options.binaries, setup)?;
        // Who ends first by the clock is nobody's merit.
        Duo::open(&pair, 2)?.both(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"])?;
        let streams = Streams { oracle: Feed::open(&pair.oracle)?, halcyon: Feed::open(&pair.halcyon)? };
        let copies = [&options.binaries.halcyon, &options.binaries.oracle];
        let copies = copies.map(|binary| Server::start(binary, setup, &[]));
        let [here, there] = copies;
        Ok(Bench { pair, streams, copies: [here?, there?] })
    }

    fn script(&mut self, script: &Script, tally: &mut Tally) -> io::Result<()> {
        let observer: &mut dyn Observer = &mut self.streams;
        script_run::run_observed(&self.pair, script, (2, Wrap::Plain), tally, Some(observer))?;
        let place = format!("script {}", script.family);
        let is_newer = |step: &Step| {
            matches!(&step.action, Action::Run { check: Check::SkipOracle | Check::Expect { .. }, .. })
        };
        self.check_copies(&place, &[], script.steps.iter().any(is_newer), tally)
    }

    fn random(&mut self, family: usize, seed: u64, commands: usize, tally: &mut Tally) -> io::Result<()> {
        let family = &FAMILIES[family];
        let place = format!("random {} ({} thresholds, run seed {seed})", family.name, self.pair.setup.name);
        let mut generator = Generator::new(seed, family, false);
        let mut duo = Duo::open(&self.pair, 2)?;
        dump::clear(&mut duo)?;
        self.streams.skip()?;
        let mut ran: Vec<Args> = Vec::new();
        for _ in 0..commands {
            let command = generator.command();
            ran.push(command.clone());
            // Whether the replies agree is for others to prove; what members are popped is decided by Halcyon.
            let rule = if rules::rule_of(&command) == Rule::Pop { Rule::Pop } else { Rule::Exact };
            duo.compare(&command, rule)?;
            let popped = rule == Rule::Pop;
            if let Some(found) = self.streams.compare_command(&command, popped)? {
                tally.fail(&format!("{place}, command {}{}", ran.len(), keep(&ran)), &found);
                break;
            }
            tally.passed += 1;
        }
        self.check_copies(&place, &ran, false, tally)
    }

    /// Applies Halcyon's stream to the copies, and compares what they hold. `is_newer`: the oracle does not know all of it.
    fn check_copies(
        &mut self,
        place: &str,
        ran: &[Args],
        is_newer: bool,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let mut source = self.pair.halcyon.connect()?;
        // Looked at only after what has ended was removed, so that the stream has it.
        source.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"])?;
        thread::sleep(EXPIRY_PATIENCE);
        self.streams.skip()?;
        source.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"])?;
        let stream = self.streams.halcyon.take();
        for (copy, name) in self.copies.iter().zip(["an empty halcyon", "an empty redis-server"]) {
            if is_newer && copy.is_redis_7_0 {
                continue;
            }
            let mut link = copy.connect()?;
            link.call(&["FLUSHALL"])?;
            link.call(&["FUNCTION", "FLUSH"])?;
            let about = format!("the stream, applied to {name}{}", keep(ran));
            if let Err(error) = apply::apply(&mut link, &stream) {
                tally.fail(place, &Disagreement { about, oracle: String::new(), halcyon: error.to_string() });
                continue;
            }
            let with_groups = !copy.is_redis_7_0;
            let here = apply::holdings(&mut source, with_groups)?;
            let there = apply::holdings(&mut link, with_groups)?;
            match here
                .iter()
                .find(|line| !there.contains(line))
                .or(there.iter().find(|line| !here.contains(line)))
            {
                None => tally.passed += 1,
                Some(line) => {
                    let name = line.split(' ').next().unwrap_or_default();
                    let of = |lines: &[String]| {
                        let line = lines.iter().find(|line| line.starts_with(&format!("{name} ")));
                        line.cloned().unwrap_or("(nothing)".to_owned())
                    };
                    let (copied, source) = (of(&there), of(&here));
                    tally.fail(place, &Disagreement { about, oracle: copied, halcyon: source });
                }
            }
        }
        let mut both = Duo::open(&self.pair, 2)?;
        dump::clear(&mut both)?;
        both.both(&["FUNCTION", "FLUSH"])?;
        self.streams.skip()?;
        self.streams.halcyon.take();
        self.streams.oracle.take();
        Ok(())
    }
}

/// Writes a failing sequence down; says where.
fn keep(ran: &[Args]) -> String {
    if ran.is_empty() {
        return String::new();
    }
    let written = || -> io::Result<PathBuf> {
        fs::create_dir_all(KEPT_DIRECTORY)?;
        let path = Path::new(KEPT_DIRECTORY).join(format!("effects-{}-{}", std::process::id(), ran.len()));
        let lines: Vec<String> = ran.iter().map(|args| words::join(args)).collect();
        fs::write(&path, lines.join("\n"))?;
        Ok(path)
    };
    match written() {
        Ok(path) => format!(" (commands in {})", path.display()),
        Err(error) => format!(" (commands not kept: {error})"),
    }
}

/// Both streams.
struct Streams {
    oracle: Feed,
    halcyon: Feed,
}

impl Streams {
    fn grown(&mut self) -> io::Result<(Vec<feed::Effect>, Vec<feed::Effect>)> {
        self.oracle.mark()?;
        self.halcyon.mark()?;
        Ok((self.oracle.until_mark()?, self.halcyon.until_mark()?))
    }

    /// What a command has left. `popped`: the oracle was told what Halcyon popped, and not to pop.
    fn compare_command(&mut self, command: &Args, popped: bool) -> io::Result<Option<Disagreement>> {
        let (mut oracle, halcyon) = self.grown()?;
        if popped
            && let ([_], [all]) = (&oracle[..], &halcyon[..])
            && all.words[0] == b"DEL"
        {
            // It has removed them one by one, and nothing is left either way.
            oracle = halcyon.clone();
        }
        Ok(compare::compare(&command[0], &words::join(command), oracle, halcyon))
    }
}

impl Observer for Streams {
    fn skip(&mut self) -> io::Result<()> {
        self.grown().map(drop)
    }

    /// They are compared elsewhere, and here nothing expires by itself.
    fn ignores_replies(&self) -> bool {
        true
    }

    fn compare_step(&mut self, step: &Step, about: &str) -> io::Result<Option<Disagreement>> {
        match &step.action {
            Action::Run { args, check } => {
                let rule = if let Check::As(rule) = check { *rule } else { rules::rule_of(args) };
                self.compare_command(args, rule == Rule::Pop)
            }
            _ => {
                let (oracle, halcyon) = self.grown()?;
                Ok(compare::compare(b"", about, oracle, halcyon))
            }
        }
    }
}
