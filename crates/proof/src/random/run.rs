//! Runs a sequence of commands on both sides and finds the first disagreement.

use std::io;

use super::grammar::Generator;
use super::templates::{Family, USERS};
use crate::dump;
use crate::duo::{Args, Disagreement, Duo};
use crate::events::Events;
use crate::rules::{self, Rule};
use crate::server::{DEFAULT, Pair};
use crate::words;

/// One random run, repeatable from these values.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub family: &'static Family,
    pub seed: u64,
    pub commands: usize,
    pub protocol: u8,
}

/// How a sequence went.
pub struct Outcome {
    /// Replies and dumped keys that agreed.
    pub compared: usize,
    /// Where it went wrong: the index of the command (the last one run, for a state) and what differs.
    pub failure: Option<(usize, Disagreement)>,
}

const PIPELINE: usize = 64;
/// Commands between two comparisons of the whole keyspace.
const DUMP_EVERY: usize = 250;

/// The commands of a plan, and how they went.
pub fn run(pair: &Pair, plan: &Plan) -> io::Result<(Vec<Args>, Outcome)> {
    let mut generator = Generator::new(plan.seed, plan.family, pair.setup.cluster);
    let commands: Vec<Args> = (0..plan.commands).map(|_| generator.command()).collect();
    let outcome = check_sequence(pair, &commands, plan.protocol)?;
    Ok((commands, outcome))
}

/// Runs commands on empty databases until the first disagreement. A connection that breaks on Halcyon's
/// side is one, too; an error is the harness's or the oracle's.
pub fn check_sequence(pair: &Pair, commands: &[Args], protocol: u8) -> io::Result<Outcome> {
    let mut duo = Duo::open(pair, protocol)?;
    let mut dumper = Duo::open(pair, protocol)?;
    dump::clear(&mut duo)?;
    duo.both(&[&["ACL", "DELUSER"], USERS].concat())?;
    duo.both(&["ACL", "LOG", "RESET"])?;
    let mut events = (pair.setup.name == DEFAULT.name).then(|| Events::open(pair)).transpose()?;
    let mut outcome = Outcome { compared: 0, failure: None };
    let mut at = 0;
    let mut next_dump = DUMP_EVERY;
    while at < commands.len() {
        let alone = |args: &Args| {
            matches!(rules::rule_of(args), Rule::Pop | Rule::ScanAll | Rule::RandomMembers | Rule::Encoding)
        };
        let batch = commands[at..].iter().take(PIPELINE).take_while(|args| !alone(args)).count();
        let found = if batch == 0 {
            compare_one(&mut duo, &commands[at]).map(|found| (0, found))
        } else {
            duo.compare_pipelined(&commands[at..at + batch])?
        };
        let ran = batch.max(1);
        let found = match (found, &mut events) {
            (None, Some(events)) => {
                compare_events(events, &commands[at..at + ran])?.map(|found| (ran - 1, found))
            }
            (found, _) => found,
        };
        if let Some((offset, disagreement)) = found {
            outcome.failure = Some((at + offset, disagreement));
            return Ok(outcome);
        }
        at += ran;
        outcome.compared += ran;
        if at >= next_dump || at == commands.len() {
            next_dump = at + DUMP_EVERY;
            let (keys, found) = dump::compare(&mut dumper, pair.setup.cluster)?;
            outcome.compared += keys;
            if let Some(disagreement) = found {
                outcome.failure = Some((at - 1, disagreement));
                return Ok(outcome);
            }
            if let Some(events) = &mut events {
                events.skip()?;
            }
        }
    }
    events.map_or(Ok(()), Events::close)?;
    Ok(outcome)
}

/// What the commands of a pipeline have set off.
fn compare_events(events: &mut Events, commands: &[Args]) -> io::Result<Option<Disagreement>> {
    let about: Vec<String> = commands.iter().map(|args| words::join(args)).collect();
    match events.compare(&about.join("; ")) {
        Err(error) => Err(io::Error::other(format!("events: {error}"))),
        compared => compared,
    }
}

fn compare_one(duo: &mut Duo, args: &Args) -> Option<Disagreement> {
    match duo.compare(args, rules::rule_of(args)) {
        Ok(found) => found,
        Err(error) => Some(Disagreement {
            about: words::join(args),
            oracle: "(an answer)".into(),
            halcyon: format!("(connection: {error})"),
        }),
    }
}
