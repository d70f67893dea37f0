//! One life of the server: the load, the kill, and the look at what is there afterwards.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::model::{Content, Model, number};
use super::queues::{self, Ledger};
use super::reader::{self, Sight, counter};
use super::writer::{ACCOUNTS, SHARED, Writer};
use super::{Mode, now_ms};
use crate::link::Link;
use crate::server::Server;
use crate::value::Reply;

const WRITERS: usize = 6;
const READERS: usize = 2;
const PRODUCERS: usize = 2;
const CONSUMERS: usize = 3;
/// What `everysec` may lose.
const LOSS: Duration = Duration::from_secs(1);

/// What should not be.
pub struct Wrong {
    pub about: String,
    pub expected: String,
    pub found: String,
}

impl Wrong {
    /// What was looked at, what should be there, and what was found.
    pub fn new(about: impl ToString, expected: impl ToString, found: impl ToString) -> Wrong {
        Wrong { about: about.to_string(), expected: expected.to_string(), found: found.to_string() }
    }
}

/// The connections, and what they know.
pub struct Round {
    mode: Mode,
    seed: u64,
    number: usize,
    writers: Vec<Writer>,
    accounts: Vec<i64>,
    ledgers: Vec<Ledger>,
    sights: Vec<Sight>,
    /// What was answered up to here must be there.
    cutoff: Option<Instant>,
}

impl Round {
    /// Before the first round.
    pub fn new(mode: Mode, seed: u64) -> Round {
        Round {
            mode,
            seed,
            number: 0,
            writers: (0..WRITERS).map(|number| Writer::new(number, seed)).collect(),
            accounts: vec![0; usize::from(ACCOUNTS)],
            ledgers: Vec::new(),
            sights: Vec::new(),
            cutoff: None,
        }
    }

    /// Loads the server for a while and kills it in the midst of that.
    pub fn load(&mut self, server: &mut Server, time: Duration) -> io::Result<Result<(), Wrong>> {
        self.number += 1;
        let (round, mode) = (self.number, self.mode);
        let seed = |number: usize| self.seed.wrapping_mul(31).wrapping_add((round * 1_000 + number) as u64);
        let port = server.port;
        let open = || Link::open(port);
        let is_killed = AtomicBool::new(false);
        let is_killed = &is_killed;
        let mut troubles = Vec::new();
        thread::scope(|scope| -> io::Result<()> {
            let writers: Vec<_> = self
                .writers
                .iter_mut()
                .map(|writer| {
                    let mut link = open()?;
                    Ok(scope.spawn(move || ended(writer.run(&mut link), is_killed)))
                })
                .collect::<io::Result<_>>()?;
            let readers: Vec<_> = (0..READERS)
                .map(|number| {
                    let (mut link, seed) = (open()?, seed(100 + number));
                    Ok(scope.spawn(move || ended(reader::run(&mut link, WRITERS, seed), is_killed)))
                })
                .collect::<io::Result<_>>()?;
            let traders: Vec<_> = (0..PRODUCERS + CONSUMERS)
                .map(|number| {
                    let (mut link, seed) = (open()?, seed(200 + number));
                    Ok(scope.spawn(move || {
                        ended(
                            match number.checked_sub(PRODUCERS) {
                                None => queues::produce(&mut link, round, number, seed),
                                Some(number) => queues::consume(&mut link, round, number, seed),
                            },
                            is_killed,
                        )
                    }))
                })
                .collect::<io::Result<_>>()?;
            let (mut link, seed) = (open()?, seed(300));
            let saver = scope.spawn(move || save_now_and_then(&mut link, mode, seed));
            thread::sleep(time);
            is_killed.store(true, SeqCst);
            let killed_at = Instant::now();
            server.kill()?;
            let saved_at = saver.join().expect("the saving thread does not panic");
            self.cutoff = match mode {
                Mode::Always => Some(killed_at + LOSS),
                Mode::Everysec => killed_at.checked_sub(LOSS),
                Mode::No => None,
                Mode::Save => saved_at,
            };
            for writer in writers {
                troubles.extend(writer.join().expect("a writing thread does not panic").err());
            }
            self.sights.clear();
            for reader in readers {
                match reader.join().expect("a reading thread does not panic") {
                    Ok(sights) => self.sights.extend(sights),
                    Err(trouble) => troubles.push(trouble),
                }
            }
            self.ledgers.clear();
            for trader in traders {
                match trader.join().expect("a trading thread does not panic") {
                    Ok(ledger) => self.ledgers.push(ledger),
                    Err(trouble) => troubles.push(trouble),
                }
            }
            Ok(())
        })?;
        Ok(match troubles.pop() {
            Some(trouble) => Err(Wrong::new("a reply before the kill", "no error", trouble)),
            None => Ok(()),
        })
    }

    /// Compares what the server holds with what was answered. Returns how many answers were checked.
    pub fn check(&mut self, server: &Server) -> io::Result<Result<usize, Wrong>> {
        let mut link = server.connect()?;
        let mut checks = 0;
        let mut moved = vec![0; self.accounts.len()];
        for at in 0..self.writers.len() {
            match check_writer(&mut link, &mut self.writers[at], self.cutoff, &mut moved)? {
                Ok(steps) => checks += steps,
                Err(wrong) => return Ok(Err(wrong)),
            }
        }
        for (at, account) in self.accounts.iter_mut().enumerate() {
            let name = [SHARED, at.to_string().as_bytes()].concat();
            let found = link.run(&[b"GET".to_vec(), name])?.text().map_or(0, |text| number(&text));
            if found != *account + moved[at] {
                let about = format!("shared account {at}: what the steps that are there have moved");
                return Ok(Err(Wrong::new(about, *account + moved[at], found)));
            }
            *account = found;
            checks += 1;
        }
        for (writer, value, at) in &self.sights {
            let key = self.writers[*writer].base.keys.get(counter(*writer).as_bytes());
            let held = match key.map(|key| &key.content) {
                Some(Content::Text(text)) => number(text),
                _ => 0,
            };
            if self.cutoff.is_some_and(|cutoff| *at <= cutoff) && held < *value {
                let about = format!("{}, which somebody has read", counter(*writer));
                return Ok(Err(Wrong::new(about, format!("{value} or more"), held)));
            }
            checks += 1;
        }
        match queues::check(&mut link, self.number, &self.ledgers, self.cutoff)? {
            Ok(elements) => Ok(Ok(checks + elements)),
            Err(wrong) => Ok(Err(Wrong::new("the queues", "every element, once", wrong))),
        }
    }
}

/// Finds how many of a writer's steps are there. Adds up what they moved between the accounts, and makes what is there the
/// beginning of the next round. Returns how many steps were answered.
fn check_writer(
    link: &mut Link,
    writer: &mut Writer,
    cutoff: Option<Instant>,
    moved: &mut [i64],
) -> io::Result<Result<usize, Wrong>> {
    let from_ms = now_ms();
    let found = Model::read(link, &writer.pattern())?;
    let read_ms = [from_ms, now_ms()];
    let is_due = |at: Instant| cutoff.is_some_and(|cutoff| at <= cutoff);
    let due = writer
        .steps
        .iter()
        .rposition(|step| step.answer.as_ref().is_some_and(|(_, at)| is_due(*at)))
        .map_or(0, |last| last + 1);
    let mut model = writer.base.clone();
    writer.steps[..due].iter().for_each(|step| step.apply(&mut model, None));
    let is_there = |model: &Model| model.differing(&found, read_ms).next().is_none();
    let mut there = is_there(&model).then_some(due);
    for (at, step) in writer.steps.iter().enumerate().skip(due) {
        if there.is_some() {
            break;
        }
        step.apply(&mut model, Some(&found));
        there = is_there(&model).then_some(at + 1);
    }
    let Some(there) = there else { return Ok(Err(not_there(writer, due, &found, read_ms))) };
    let commands = writer.steps[..there].iter().flat_map(|step| &step.commands);
    for command in commands.filter(|command| command[1].starts_with(SHARED)) {
        moved[number(&command[1][SHARED.len()..]) as usize] += number(&command[2]);
    }
    let answered = writer.steps.iter().filter(|step| step.answer.is_some()).count();
    writer.begin(model);
    Ok(Ok(answered))
}

/// Says what is wrong where what is there is no outcome of the first `due` steps or more: what comes closest to it.
fn not_there(writer: &Writer, due: usize, found: &Model, read_ms: [i64; 2]) -> Wrong {
    let (mut model, mut closest) = (writer.base.clone(), (usize::MAX, 0, None));
    for at in 0..=writer.steps.len() {
        let differing = model.differing(found, read_ms).count();
        if differing < closest.0 {
            closest = (differing, at, model.difference(found, read_ms));
        }
        if let Some(step) = writer.steps.get(at) {
            step.apply(&mut model, Some(found));
        }
    }
    let (differing, at, difference) = closest;
    let expected = format!("the outcome of the first {due} to {} steps", writer.steps.len());
    let closest = format!("that of the first {at} but for {differing} keys");
    match difference {
        None => Wrong::new(format!("the keys {}", writer.pattern()), expected, closest),
        Some([about, wanted, held]) => {
            let expected = format!("{expected}; closest is {closest}. After these it is {wanted}");
            Wrong::new(about, expected, held)
        }
    }
}

/// Saves, or has the log rewritten, again and again. Returns when the last SAVE began that succeeded.
fn save_now_and_then(link: &mut Link, mode: Mode, seed: u64) -> Option<Instant> {
    let (mut rng, mut saved_at) = (Rng::with_seed(seed), None);
    loop {
        thread::sleep(Duration::from_millis(rng.u64(5..300)));
        let command = match mode {
            Mode::Save => "SAVE",
            _ if rng.u8(..3) == 0 => "BGSAVE",
            _ => "BGREWRITEAOF",
        };
        let began = Instant::now();
        match link.call(&[command]) {
            Ok(reply) if command == "SAVE" && !reply.is_error() => saved_at = Some(began),
            // One of these may run already.
            Ok(_) => {}
            Err(_) => return saved_at,
        }
    }
}

/// What a connection's thread came back with: nothing else than the kill may have ended it.
fn ended<R>(result: Result<R, String>, is_killed: &AtomicBool) -> Result<R, String> {
    match is_killed.load(SeqCst) {
        true => result,
        false => result.and_then(|_| Err("the connection broke before the kill".to_owned())),
    }
}
