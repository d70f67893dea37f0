//! Runs scripts on a pair of servers, command by command.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

use crate::dump;
use crate::duo::{Args, Disagreement, Duo};
use crate::events::Events;
use crate::link::Wrap;
use crate::rules::{self, Rule};
use crate::script::{Action, Check, Script, Step};
use crate::server::{DEFAULT, Pair};
use crate::tally::Tally;
use resp::Value;

use crate::value::Reply;
use crate::words;

/// Who looks at both sides after each step.
pub trait Observer {
    /// Forgets what has happened since the last step: only one side was asked, or nothing is to be compared.
    fn skip(&mut self) -> io::Result<()>;
    /// Compares what a step has set off.
    fn compare_step(&mut self, step: &Step, about: &str) -> io::Result<Option<Disagreement>>;
    /// True if the replies are of no interest to it.
    fn ignores_replies(&self) -> bool {
        false
    }
}

impl Observer for Events {
    fn skip(&mut self) -> io::Result<()> {
        Events::skip(self)
    }

    fn compare_step(&mut self, _: &Step, about: &str) -> io::Result<Option<Disagreement>> {
        self.compare(about)
    }
}

/// Runs one script in one protocol, with commands sent in `wrap`; the tally learns of every command.
pub fn run(pair: &Pair, script: &Script, protocol: u8, wrap: Wrap, tally: &mut Tally) -> io::Result<()> {
    let compares_events = pair.setup.name == DEFAULT.name && !script.own_events;
    let mut events = compares_events.then(|| Events::open(pair)).transpose()?;
    let observer = events.as_mut().map(|events| events as &mut dyn Observer);
    run_observed(pair, script, (protocol, wrap), tally, observer)?;
    events.map_or(Ok(()), Events::close)
}

/// As [`run`], with any observer.
pub fn run_observed<'a>(
    pair: &'a Pair,
    script: &Script,
    (protocol, wrap): (u8, Wrap),
    tally: &'a mut Tally,
    observer: Option<&'a mut dyn Observer>,
) -> io::Result<()> {
    let duo = fresh(pair, protocol, wrap)?;
    let (section_protocol, others, at) = (protocol, BTreeMap::new(), 0);
    let mut runner = Runner { pair, protocol, section_protocol, wrap, duo, others, at, observer, tally };
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
            runner.start_section()?;
            continue;
        }
        let ignores_replies = runner.observer.as_ref().is_some_and(|observer| observer.ignores_replies());
        if let Some(found) = runner.tally.pending.take().filter(|_| !ignores_replies) {
            runner.report(script, step, found);
        }
        if let Some(found) = runner.observe(step)? {
            runner.report(script, step, found);
        }
    }
    Ok(())
}

/// Long enough for a server on this machine to have done what it was sent.
const SETTLE: Duration = Duration::from_millis(30);
/// The only password a script may set.
const PASSWORD: &str = "secret";

struct Runner<'a> {
    pair: &'a Pair,
    protocol: u8,
    section_protocol: u8,
    wrap: Wrap,
    /// The connection that the script goes on with, and the others by number.
    duo: Duo,
    others: BTreeMap<u64, Duo>,
    at: u64,
    /// Whoever looks, unless the script has its own way with keyspace events.
    observer: Option<&'a mut dyn Observer>,
    tally: &'a mut Tally,
}

impl Runner<'_> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match &step.action {
            Action::Section(_) => self.start_section()?,
            Action::Protocol(protocol) => {
                self.section_protocol = *protocol;
                self.duo.both(&["HELLO", &protocol.to_string()])?;
            }
            Action::Connect => self.duo = self.open()?,
            Action::On(number) => self.go_on_with(*number)?,
            Action::Send(args) => {
                self.duo.oracle.send([args])?;
                self.duo.halcyon.send([args])?;
                // The next command comes from elsewhere: what was sent here must have come first.
                thread::sleep(SETTLE);
            }
            Action::Receive => {
                let (oracle, halcyon) = (self.duo.oracle.next()?, self.duo.halcyon.next()?);
                let found = (rules::sorted(&oracle, 0) != rules::sorted(&halcyon, 0)).then(|| Disagreement {
                    about: "what comes next".into(),
                    oracle: oracle.notation(),
                    halcyon: halcyon.notation(),
                });
                self.tally.count(found);
            }
            Action::Nothing => {
                let came = (self.duo.oracle.next_within(SETTLE)?, self.duo.halcyon.next_within(SETTLE)?);
                let shown =
                    |came: Option<Value>| came.map_or("(nothing)".to_owned(), |value| value.notation());
                let found = (came != (None, None)).then(|| Disagreement {
                    about: "nothing should come".into(),
                    oracle: shown(came.0),
                    halcyon: shown(came.1),
                });
                self.tally.count(found);
            }
            Action::SleepMs(ms) => thread::sleep(Duration::from_millis(*ms)),
            Action::Raw(bytes) => self.raw(bytes)?,
            Action::Run { args, check } => self.command(args, check)?,
        }
        Ok(())
    }

    fn open(&self) -> io::Result<Duo> {
        let mut duo = Duo::open(self.pair, self.section_protocol)?;
        duo.wrap(self.wrap);
        Ok(duo)
    }

    fn start_section(&mut self) -> io::Result<()> {
        self.section_protocol = self.protocol;
        self.others.clear();
        self.at = 0;
        self.duo = fresh(self.pair, self.protocol, self.wrap)?;
        Ok(())
    }

    fn go_on_with(&mut self, number: u64) -> io::Result<()> {
        if number == self.at {
            return Ok(());
        }
        let next = match self.others.remove(&number) {
            Some(duo) => duo,
            None => self.open()?,
        };
        let last = std::mem::replace(&mut self.duo, next);
        self.others.insert(self.at, last);
        self.at = number;
        Ok(())
    }

    fn command(&mut self, args: &Args, check: &Check) -> io::Result<()> {
        let rule = match check {
            // Where the rules about commands differ the script says so itself.
            Check::Own if rules::rule_of(args) == Rule::UserFacts => Rule::Exact,
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
                    let agrees = self.agrees_in_script(expected, &reply);
                    (!agrees && rules::sorted(expected, 0) != rules::sorted(&reply, 0))
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

    /// Whether a reply is what a script makes of the expected one: errors read otherwise, and a null ends a table.
    fn agrees_in_script(&self, expected: &Value, reply: &Value) -> bool {
        let is_null = |word: &str| ["_", "$-1", "*-1"].contains(&word);
        matches!(self.wrap, Wrap::Script(_))
            && expected.is_error() == reply.is_error()
            && (expected.is_error() || expected.notation().split_whitespace().any(is_null))
    }

    /// What a step has set off. What only one side was asked is let pass.
    fn observe(&mut self, step: &Step) -> io::Result<Option<Disagreement>> {
        let Some(observer) = &mut self.observer else { return Ok(None) };
        let is_one_sided = matches!(
            &step.action,
            Action::Run { check: Check::SkipOracle | Check::Expect { .. }, .. }
                | Action::Section(_)
                | Action::SleepMs(_)
        );
        if is_one_sided {
            observer.skip()?;
            return Ok(None);
        }
        observer.compare_step(step, &about(step))
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
            "{}:{} (resp{}, {:?}, {} thresholds)",
            script.path.display(),
            step.line,
            self.section_protocol,
            self.wrap,
            self.pair.setup.name
        );
        self.tally.fail(&place, &found);
    }
}

/// A new connection to empty databases, whatever an interrupted section left set.
fn fresh(pair: &Pair, protocol: u8, wrap: Wrap) -> io::Result<Duo> {
    let mut cleaner = Duo::open(pair, 2)?;
    cleaner.both(&["AUTH", PASSWORD])?;
    cleaner.both(&["CONFIG", "SET", "requirepass", ""])?;
    cleaner.both(&["CONFIG", "SET", "maxmemory", "0"])?;
    let mut duo = Duo::open(pair, protocol)?;
    dump::clear(&mut duo)?;
    duo.wrap(wrap);
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
