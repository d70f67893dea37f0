//! The differential suite: scripts, then random sequences, under every setup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::directives;
use crate::dump;
use crate::duo::Args;
use crate::link::Wrap;
use crate::options::Options;
use crate::random::{self, FAMILIES, Outcome, Plan};
use crate::script;
use crate::script_run;
use crate::server::{Binaries, CLUSTER, DEFAULT, Pair, SMALL, Setup};
use crate::tally::{Tally, cut};
use crate::words;

/// Commands shown before a disagreement.
const HISTORY: usize = 20;
/// Protocols every setup is run in.
const PROTOCOLS: [u8; 2] = [2, 3];

/// Runs what the options ask for; the tally says how it went.
pub fn run(options: &Options) -> io::Result<Tally> {
    let mut tally = Tally::default();
    if let Some(file) = &options.replay {
        replay(options, file, &mut tally)?;
        return Ok(tally);
    }
    let scripts = script::read_all(&options.scripts)?;
    let selected = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let known = selected(directives::NAME)
        || scripts.iter().any(|script| selected(&script.family))
        || FAMILIES.iter().any(|family| selected(family.name));
    if !known {
        return Err(io::Error::other("--only names no family"));
    }
    for setup in [&DEFAULT, &SMALL, &CLUSTER] {
        let mut pair = Pair::start(&options.binaries, setup)?;
        if !options.random_only && setup.name == DEFAULT.name && selected(directives::NAME) {
            let (before, start) = ((tally.passed, tally.failed), Instant::now());
            let ran = directives::run(&pair, &mut tally);
            survive(&mut pair, &options.binaries, ran, directives::NAME, &mut tally)?;
            progress(directives::NAME, before, &tally, start);
        }
        if !options.random_only {
            for script in scripts.iter().filter(|script| selected(&script.family)) {
                if !script.setups.iter().any(|name| name == setup.name) {
                    continue;
                }
                for (protocol, wrap) in ways(setup, script) {
                    let (before, start) = ((tally.passed, tally.failed), Instant::now());
                    let ran = script_run::run(&pair, script, protocol, wrap, &mut tally);
                    let place =
                        format!("script {} (resp{protocol}, {wrap:?}, {})", script.family, setup.name);
                    survive(&mut pair, &options.binaries, ran, &place, &mut tally)?;
                    progress(&place, before, &tally, start);
                }
            }
        }
        if !options.scripts_only {
            random_runs(options, &mut pair, setup, &selected, &mut tally)?;
        }
    }
    Ok(tally)
}

/// The protocols that a script is run in, and what its commands are sent in.
fn ways(setup: &Setup, script: &script::Script) -> Vec<(u8, Wrap)> {
    let mut ways: Vec<(u8, Wrap)> = PROTOCOLS.map(|protocol| (protocol, Wrap::Plain)).to_vec();
    if setup.name == DEFAULT.name && !script.plain_only {
        ways.push((2, Wrap::Transaction));
        ways.extend(PROTOCOLS.map(|protocol| (protocol, Wrap::Script(protocol))));
    }
    ways
}

fn random_runs(
    options: &Options,
    pair: &mut Pair,
    setup: &'static Setup,
    selected: &dyn Fn(&str) -> bool,
    tally: &mut Tally,
) -> io::Result<()> {
    let families: Vec<_> = FAMILIES.iter().filter(|family| selected(family.name)).collect();
    let runs = families.len() * PROTOCOLS.len() * 3;
    let commands = options.commands.div_ceil(runs.max(1));
    for family in families {
        // The same whatever `--only` leaves out, so that one family repeats what it did among all.
        let number = FAMILIES.iter().position(|other| other.name == family.name).unwrap_or(0);
        for protocol in PROTOCOLS {
            let place_seed = (number as u64) * 16 + u64::from(protocol) + (setup.name.len() as u64) * 1_000;
            let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(place_seed);
            let plan = Plan { family, seed, commands, protocol };
            let (before, start) = ((tally.passed, tally.failed), Instant::now());
            let place = format!("random {} (resp{protocol}, {}, run seed {seed})", family.name, setup.name);
            let ran = random::run(pair, &plan).map(|(commands, outcome)| {
                judge(pair, &commands, outcome, protocol, &place, tally);
            });
            survive(pair, &options.binaries, ran, &place, tally)?;
            progress(&place, before, tally, start);
        }
    }
    Ok(())
}

/// Reports a failing sequence with its history, and writes it down, as it was and shrunk.
fn judge(pair: &Pair, commands: &[Args], outcome: Outcome, protocol: u8, place: &str, tally: &mut Tally) {
    tally.passed += outcome.compared;
    let Some((index, found)) = outcome.failure else { return };
    tally.fail(&format!("{place}, command {index}"), &found);
    // A state that differs names its own key; it is not the last command's.
    let state = found.about.strip_prefix(dump::STATE).and_then(|about| words::split(about.as_bytes()));
    let failing = state.as_ref().unwrap_or(&commands[index]);
    let related: Vec<&Args> =
        commands[..=index].iter().filter(|args| random::touches(args, failing)).collect();
    println!("  the last commands that touch its keys:");
    for args in &related[related.len().saturating_sub(HISTORY)..] {
        println!("    {}", cut(&words::join(args)));
    }
    let sequence = &commands[..=index];
    let file = write_replay(pair.setup, protocol, sequence, "");
    let shrunk = random::shrink(pair, sequence, protocol);
    let shrunk_file = write_replay(pair.setup, protocol, &shrunk, "-shrunk");
    println!("  shrunk to {} commands:", shrunk.len());
    for args in shrunk.iter().take(HISTORY * 2) {
        println!("    {}", cut(&words::join(args)));
    }
    if let Ok(Outcome { failure: Some((_, found)), .. }) = random::check_sequence(pair, &shrunk, protocol) {
        println!("  where {}", cut(&found.about));
        println!("    oracle  {}", cut(&found.oracle));
        println!("    halcyon {}", cut(&found.halcyon));
    }
    for path in [file, shrunk_file] {
        match path {
            Ok(path) => println!("  --replay {}", path.display()),
            Err(error) => println!("  no replay file: {error}"),
        }
    }
}

fn write_replay(setup: &Setup, protocol: u8, commands: &[Args], suffix: &str) -> io::Result<PathBuf> {
    let directory = Path::new("target").join("differential");
    fs::create_dir_all(&directory)?;
    let taken = fs::read_dir(&directory)?.count();
    let path = directory.join(format!("{}-{taken}{suffix}.replay", std::process::id()));
    let lines: Vec<String> = commands.iter().map(|args| words::join(args)).collect();
    fs::write(&path, format!("@setup {} {protocol}\n{}\n", setup.name, lines.join("\n")))?;
    Ok(path)
}

fn replay(options: &Options, file: &Path, tally: &mut Tally) -> io::Result<()> {
    let text = fs::read(file)?;
    let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let head = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (setup, protocol) = match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["@setup", name, protocol] => {
            let setup = [&DEFAULT, &SMALL, &CLUSTER].into_iter().find(|setup| setup.name == *name);
            (setup, if *protocol == "3" { 3 } else { 2 })
        }
        _ => (None, 2),
    };
    let setup = setup.ok_or_else(|| io::Error::other("the first line is no `@setup NAME PROTOCOL`"))?;
    let commands = lines
        .map(words::split)
        .collect::<Option<Vec<Args>>>()
        .ok_or_else(|| io::Error::other("quotes are not balanced"))?;
    let pair = Pair::start(&options.binaries, setup)?;
    let outcome = random::check_sequence(&pair, &commands, protocol)?;
    judge(&pair, &commands, outcome, protocol, "replay", tally);
    Ok(())
}

/// A server that died is a failure, and is started anew for what comes next.
fn survive(
    pair: &mut Pair,
    binaries: &Binaries,
    ran: io::Result<()>,
    place: &str,
    tally: &mut Tally,
) -> io::Result<()> {
    let broken = ran.err();
    if pair.halcyon.is_alive() && pair.oracle.is_alive() && broken.is_none() {
        return Ok(());
    }
    tally.failed += 1;
    println!("FAILED {place}: {}", broken.map_or("a server died".to_owned(), |error| error.to_string()));
    if !pair.halcyon.is_alive() {
        println!("  halcyon's last lines:\n{}", pair.halcyon.log_tail());
    }
    if !pair.oracle.is_alive() {
        println!("  the oracle's last lines:\n{}", pair.oracle.log_tail());
    }
    *pair = Pair::start(binaries, pair.setup)?;
    Ok(())
}

fn progress(place: &str, before: (usize, usize), tally: &Tally, start: Instant) {
    let (passed, failed) = (tally.passed - before.0, tally.failed - before.1);
    println!("{place}: {passed} agree, {failed} differ, {} ms", start.elapsed().as_millis());
}
