//! Runs scripts on a pair of servers, command by command.

use std::io;
use std::thread;
use std::time::Duration;

use crate::dump;
use crate::duo::{Args, Disagreement, Duo};
use crate::rules;
use crate::script::{Action, Check, Script, Step};
use crate::server::Pair;
use crate::tally::Tally;
use resp::Value;

use crate::value::Reply;
use crate::words;

/// Runs one script in one protocol; the tally learns of every command.
pub fn run(pair: &Pair, script: &Script, protocol: u8, tally: &mut Tally) -> io::Result<()> {
    let mut runner =
        Runner { pair, protocol, section_protocol: protocol, duo: fresh(pair, protocol)?, tally };
    let mut steps = script.steps.iter().peekable();
    while let Some(step) = steps.next() {
        if let Err(error) = runner.step(step) {
            runner.report(
                script,
                step,
                Disagreement {
                    about: about(step),
                    oracle: "(an answer)".into(),
                    halcyon: format!("(connection: {error})"),
                },
            );
            // The rest of the section would run on a state of its own.
            while steps.next_if(|step| !matches!(step.action, Action::Section(_))).is_some() {}
            runner.duo = fresh(pair, protocol)?;
            continue;
        }
        if let Some(found) = runner.tally.pending.take() {
            runner.report(script, step, found);
        }
    }
    Ok(())
}

/// The only password a script may set.
const PASSWORD: &str = "secret";

struct Runner<'a> {
    pair: &'a Pair,
    protocol: u8,
    section_protocol: u8,
    duo: Duo,
    tally: &'a mut Tally,
}

impl Runner<'_> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match &step.action {
            Action::Section(_) => {
                self.section_protocol = self.protocol;
                self.duo = fresh(self.pair, self.protocol)?;
            }
            Action::Protocol(protocol) => {
                self.section_protocol = *protocol;
                self.duo.both(&["HELLO", &protocol.to_string()])?;
            }
            Action::Connect => self.duo = Duo::open(self.pair, self.section_protocol)?,
            Action::SleepMs(ms) => thread::sleep(Duration::from_millis(*ms)),
            Action::Raw(bytes) => self.raw(bytes)?,
            Action::Run { args, check } => self.command(args, check)?,
        }
        Ok(())
    }

    fn command(&mut self, args: &Args, check: &Check) -> io::Result<()> {
        let rule = match check {
            Check::Own => rules::rule_of(args),
            Check::As(rule) => *rule,
            // The oracle knows nothing of it, and neither does Halcyon's side when it is an oracle, too.
            _ if self.pair.halcyon.is_redis_7_0 => return Ok(()),
            Check::SkipOracle => {
                let reply = self.duo.halcyon.run(args)?;
                let found = reply.is_error().then(|| disagreement(args, "(no error)".into(), &reply));
                self.tally.count(found);
                return Ok(());
            }
            Check::Expect { resp2, resp3 } => {
                let reply = self.duo.halcyon.run(args)?;
                let expected = if self.section_protocol == 3 { resp3 } else { resp2 };
                let found = expected.as_ref().and_then(|expected| {
                    (rules::sorted(expected, 0) != rules::sorted(&reply, 0))
                        .then(|| disagreement(args, expected.notation(), &reply))
                });
                self.tally.count(found);
                return Ok(());
            }
        };
        let found = self.duo.compare(args, rule)?;
        self.tally.count(found);
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let oracle = self.pair.oracle.connect()?.exchange_raw(bytes)?;
        let halcyon = self.pair.halcyon.connect()?.exchange_raw(bytes)?;
        let found = (oracle != halcyon).then(|| Disagreement {
            about: format!("raw {}", words::quote(bytes)),
            oracle: words::quote(&oracle),
            halcyon: words::quote(&halcyon),
        });
        self.tally.count(found);
        Ok(())
    }

    fn report(&mut self, script: &Script, step: &Step, found: Disagreement) {
        let place = format!(
            "{}:{} (resp{}, {} thresholds)",
            script.path.display(),
            step.line,
            self.section_protocol,
            self.pair.setup.name
        );
        self.tally.fail(&place, &found);
    }
}

/// A new connection to empty databases, whatever an interrupted section left set.
fn fresh(pair: &Pair, protocol: u8) -> io::Result<Duo> {
    let mut cleaner = Duo::open(pair, 2)?;
    cleaner.both(&["AUTH", PASSWORD])?;
    cleaner.both(&["CONFIG", "SET", "requirepass", ""])?;
    cleaner.both(&["CONFIG", "SET", "maxmemory", "0"])?;
    let mut duo = Duo::open(pair, protocol)?;
    dump::clear(&mut duo)?;
    Ok(duo)
}

fn disagreement(args: &Args, expected: String, reply: &Value) -> Disagreement {
    Disagreement { about: words::join(args), oracle: expected, halcyon: reply.notation() }
}

fn about(step: &Step) -> String {
    match &step.action {
        Action::Run { args, .. } => words::join(args),
        other => format!("{other:?}"),
    }
}
