//! What is counted in each phase of a run, and what is said of it in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::kind::Kind;
use super::servers::Figures;
use crate::histogram::Histogram;

/// Errors of so many different texts are told apart.
const ERROR_TEXTS_MAX: usize = 50;
const SECOND_NS: u64 = 1_000_000_000;

/// What is counted while a phase lasts. What was due in it counts here, whenever it is answered.
#[derive(Clone)]
pub struct Tally {
    pub name: String,
    pub due: u64,
    took: Histogram,
    /// The same, by the second in which requests were due.
    took_by_second: BTreeMap<u64, Histogram>,
    /// How late requests were sent that nothing of their client's held up: the generator's own lag.
    pub lag: Histogram,
    pub errors: BTreeMap<String, u64>,
    pub moved: u64,
    pub asked: u64,
    /// Topology commands that clients sent, by kind.
    pub topology: BTreeMap<Kind, u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(name: &str) -> Tally {
        Tally {
            name: name.to_owned(),
            due: 0,
            took: Histogram::new(),
            took_by_second: BTreeMap::new(),
            lag: Histogram::new(),
            errors: BTreeMap::new(),
            moved: 0,
            asked: 0,
            topology: BTreeMap::new(),
        }
    }

    /// Counts a request that is answered: when it was due by any clock that is the same for all, and when it was answered.
    pub fn answered(&mut self, due_ns: u64, now_ns: u64) {
        let took_us = (now_ns - due_ns) / 1_000;
        self.took.record(took_us);
        self.took_by_second.entry(due_ns / SECOND_NS).or_insert_with(Histogram::new).record(took_us);
    }

    /// What this share of the answered requests took at most.
    pub fn share_ms(&self, share: f64) -> f64 {
        self.took.share_us(share) as f64 / 1e3
    }

    /// The same, of the second that is the median of all: what holds a machine up once in a few seconds does not change it.
    fn share_of_median_second_ms(&self, share: f64) -> f64 {
        let mut shares_us: Vec<u64> =
            self.took_by_second.values().map(|second| second.share_us(share)).collect();
        shares_us.sort_unstable();
        shares_us.get(shares_us.len() / 2).map_or(0.0, |share_us| *share_us as f64 / 1e3)
    }

    /// Counts an error by its text, without what differs from one to the next.
    pub fn error(&mut self, text: &str) {
        let text = without_numbers(text);
        let is_known = self.errors.contains_key(&text) || self.errors.len() < ERROR_TEXTS_MAX;
        *self.errors.entry(if is_known { text } else { "others".to_owned() }).or_default() += 1;
    }

    /// How many of its requests have no answer and no error.
    pub fn open(&self) -> u64 {
        self.due - self.took.total() - self.errors.values().sum::<u64>()
    }
}

/// The text with one mark for each number in it.
fn without_numbers(text: &str) -> String {
    let mut marked = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if marked.ends_with('#') => {}
            '0'..='9' => marked.push('#'),
            other => marked.push(other),
        }
    }
    marked
}

/// What was measured about a phase from outside.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub seconds: f64,
    /// Of all servers, in this time.
    pub servers: Figures,
    pub generator_cpu_s: f64,
}

/// A phase as it is reported.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    pub name: String,
    pub seconds: f64,
    pub requests: u64,
    pub requests_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub longest_ms: f64,
    /// Of each of its seconds the 99th percentile, and of those the median.
    pub p99_of_median_second_ms: f64,
    pub errors: BTreeMap<String, u64>,
    pub moved: u64,
    pub ask: u64,
    /// Topology commands by kind of client.
    pub topology_commands: BTreeMap<Kind, u64>,
    pub topology_commands_per_s: f64,
    /// CPU of all servers, in percent of one CPU.
    pub servers_cpu_percent: f64,
    /// What share of that was spent inside topology commands.
    pub topology_cpu_percent: f64,
    /// What share of all commands that servers ran were topology commands.
    pub topology_calls_percent: f64,
    pub generator_cpu_percent: f64,
    pub generator_lag_p99_ms: f64,
    /// What the servers' INFO says of redirects besides: how much each field has grown.
    pub servers_redirects: BTreeMap<String, f64>,
}

/// All of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Always "report": it is a line among others.
    pub event: &'static str,
    pub connections: usize,
    pub clients: usize,
    pub rate: u64,
    pub keys: u32,
    pub cpus: usize,
    pub phases: Vec<Phase>,
}

impl Phase {
    /// What the counts and the figures say together.
    pub fn of(tally: &Tally, span: &Span) -> Phase {
        let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        let per_s = |count: u64| if span.seconds > 0.0 { count as f64 / span.seconds } else { 0.0 };
        let servers = &span.servers;
        Phase {
            name: tally.name.clone(),
            seconds: span.seconds,
            requests: tally.due,
            requests_per_s: per_s(tally.due),
            p50_ms: tally.share_ms(0.5),
            p99_ms: tally.share_ms(0.99),
            p999_ms: tally.share_ms(0.999),
            longest_ms: tally.took.longest_us() as f64 / 1e3,
            p99_of_median_second_ms: tally.share_of_median_second_ms(0.99),
            errors: tally.errors.clone(),
            moved: tally.moved,
            ask: tally.asked,
            topology_commands: tally.topology.clone(),
            topology_commands_per_s: per_s(tally.topology.values().sum()),
            servers_cpu_percent: percent(servers.cpu_s, span.seconds),
            topology_cpu_percent: percent(servers.topology_s, servers.cpu_s),
            topology_calls_percent: percent(servers.topology_commands, servers.commands),
            generator_cpu_percent: percent(span.generator_cpu_s, span.seconds),
            generator_lag_p99_ms: tally.lag.share_us(0.99) as f64 / 1e3,
            servers_redirects: servers.redirects.clone(),
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let errors: u64 = self.errors.values().sum();
        writeln!(
            text,
            "{}: {:.1} s, {} requests ({:.0}/s), errors {errors}",
            self.name, self.seconds, self.requests, self.requests_per_s
        )?;
        writeln!(
            text,
            "  latency       p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms; p99 of the median second {:.2} ms",
            self.p50_ms, self.p99_ms, self.p999_ms, self.longest_ms, self.p99_of_median_second_ms
        )?;
        let by_kind: Vec<String> =
            self.topology_commands.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let by_kind = if by_kind.is_empty() { String::new() } else { format!(": {}", by_kind.join(", ")) };
        writeln!(text, "  redirects     MOVED {}, ASK {}", self.moved, self.ask)?;
        writeln!(text, "  topology      {:.1} commands/s sent{by_kind}", self.topology_commands_per_s)?;
        writeln!(
            text,
            "  servers' CPU  {:.1} % of a CPU; of it inside topology commands {:.2} %, which were {:.2} % of all commands",
            self.servers_cpu_percent, self.topology_cpu_percent, self.topology_calls_percent
        )?;
        writeln!(
            text,
            "  generator     {:.1} % of a CPU, p99 of its own lag {:.2} ms",
            self.generator_cpu_percent, self.generator_lag_p99_ms
        )?;
        for (name, grown) in self.servers_redirects.iter().filter(|(_, grown)| **grown != 0.0) {
            writeln!(text, "  INFO          {name}: {grown:+}")?;
        }
        for (error, count) in &self.errors {
            writeln!(text, "  error         {count} x {error}")?;
        }
        Ok(())
    }
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} connections of {} clients, {} requests/s due, {} keys; {} CPUs hold the servers and the generator\n",
            self.connections, self.clients, self.rate, self.keys, self.cpus
        );
        for phase in &self.phases {
            phase.write(&mut text).expect("report: a string takes every line");
        }
        if let Some((quiet, others)) = self.phases.split_first() {
            for phase in others.iter().filter(|_| quiet.p99_ms > 0.0 && quiet.p999_ms > 0.0) {
                let (p99, p999) = (phase.p99_ms / quiet.p99_ms, phase.p999_ms / quiet.p999_ms);
                let line = format!("{} / {}: p99 {p99:.2}, p99.9 {p999:.2}\n", phase.name, quiet.name);
                text.push_str(&line);
            }
        }
        text
    }

    /// For programs: one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("report: names and numbers are JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut quiet = Tally::new("quiet");
        quiet.due = 10;
        // One of three seconds is slow.
        (1..=3).for_each(|second| {
            (0..3).for_each(|at| {
                quiet
                    .answered(second * SECOND_NS, second * SECOND_NS + (at + 1) * second * second * 1_000_000)
            });
        });
        let mut moving = Tally::new("moving");
        moving.due = 4;
        (1..=2).for_each(|second| moving.answered(second * SECOND_NS, second * SECOND_NS + 20_000_000));
        moving.error("ERR no slot 17");
        moving.error("ERR no slot 4");
        moving.moved = 3;
        moving.topology.insert(Kind::RedisPy, 8);
        let servers = Figures {
            cpu_s: 1.0,
            commands: 200.0,
            topology_commands: 8.0,
            topology_s: 0.01,
            redirects: BTreeMap::from([("a".to_owned(), 5.0)]),
        };
        let span = Span { seconds: 2.0, servers, generator_cpu_s: 0.5 };
        let phases = vec![Phase::of(&quiet, &Span::default()), Phase::of(&moving, &span)];
        assert_eq!((quiet.open(), moving.open()), (1, 0));
        Report { event: "report", connections: 30, clients: 10, rate: 5, keys: 7, cpus: 2, phases }
    }

    #[test]
    fn for_people() {
        let text = report().text();
        for line in [
            "30 connections of 10 clients, 5 requests/s due, 7 keys; 2 CPUs hold the servers and the generator",
            "quiet: 0.0 s, 10 requests (0/s), errors 0",
            "moving: 2.0 s, 4 requests (2/s), errors 2",
            "  latency       p50 8.06 ms, p99 27.00 ms, p99.9 27.00 ms, longest 27.00 ms; p99 of the median second 12.00 ms",
            "  redirects     MOVED 3, ASK 0",
            "  topology      4.0 commands/s sent: redis-py 8",
            "  servers' CPU  50.0 % of a CPU; of it inside topology commands 1.00 %, which were 4.00 % of all commands",
            "  generator     25.0 % of a CPU, p99 of its own lag 0.00 ms",
            "  INFO          a: +5",
            "  error         2 x ERR no slot #",
            "moving / quiet: p99 0.74, p99.9 0.74",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn for_programs() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(value["event"], "report");
        assert_eq!(value["phases"][1]["topology_commands"]["redis-py"], 8);
        assert_eq!(value["phases"][1]["p99_ms"], 20.0);
        assert_eq!(value["phases"][0]["longest_ms"], 27.0);
    }
}
