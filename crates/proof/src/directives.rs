//! Every directive on both sides: that it is there, what it is at start, and what CONFIG SET makes of good and bad values.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use resp::Value;

use crate::duo::{Args, Disagreement, Duo, args};
use crate::server::Pair;
use crate::tally::Tally;
use crate::value::Reply;

/// Values that every directive is given: some good, some bad, some good in one type and bad in another.
static PROBES: &[&str] = &[
    "",
    "x",
    "-1",
    "0",
    "1",
    "2",
    "5",
    "007",
    "+5",
    " 5",
    "yes",
    "no",
    "YES",
    "maybe",
    "1.5",
    "1gb",
    "10mb",
    "1k",
    "-1mb",
    "50%",
    "101%",
    "-5%",
    "100",
    "777",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "a b",
    "a/b",
    "1 2",
    "1 2 3",
    "0 200 3000",
    "50 99",
    "101",
    "60 1",
    "0 1",
    "normal 1 2 3",
    "slave 0 0 x",
    "replica 1mb 2 3 pubsub 4 5 6",
    "master 1 2 3",
    "KEA",
    "A",
    "Kx",
    "always",
    "debug",
    "Warning",
    "allkeys-lru",
    "local0",
    "ip",
    "hostname",
    "optional",
    "save",
    "default",
    "nosave save",
    "now force",
    "relative",
    "absolute",
    "no one",
    "a_b",
    "a,b",
    "{title}",
    "{bad}",
    "x {port}",
    "{",
    "{{",
    "}",
    "{title",
    "1-2",
    "auto",
    "clients",
    "swapdb",
    "allchannels",
    "systemd",
    "disabled",
    "local",
];

/// Directives that a glob does not show.
static HIDDEN: &[&str] =
    &["use-exit-on-panic", "rdb-key-save-delay", "key-load-delay", "loading-process-events-interval-bytes"];

/// Directives that are not probed, and why.
static LEFT_ALONE: &[(&str, &str)] = &[
    ("port", "the connection would be lost; tests/server changes it"),
    ("bind", "likewise"),
    ("tls-port", "likewise"),
    ("dir", "each side has its own"),
    ("appendonly", "the oracle would start to write files"),
    ("maxclients", "the two processes are allowed different numbers of files"),
    ("oom-score-adj", "needs a right that the machine may not give"),
];

/// Directives whose values differ at start, and why.
static OTHER_DEFAULT: &[(&str, &str)] = &[
    ("io-threads", "the number of workers, of which 0 is one for each CPU"),
    ("port", "each side has its own"),
    ("dir", "each side has its own"),
];

/// What Halcyon answers otherwise: directive, value (empty for any), and why.
static OTHER_ANSWER: &[(&str, &str, &str)] = &[
    ("maxmemory-clients", "9223372036854775808", "7.0 takes it for a negative percentage"),
    ("maxmemory-clients", "18446744073709551615", "7.0 takes it for 1 percent"),
    ("maxmemory-clients", "18446744073709551616", "7.0 takes it for 1 percent"),
    ("loglevel", "", "7.2 has a level more, which the error lists"),
    ("tls-cluster", "yes", "the error says what is missing, where 7.0 points at its log"),
    ("tls-cluster", "YES", "likewise"),
    ("tls-replication", "yes", "likewise"),
    ("tls-replication", "YES", "likewise"),
];

/// The family's name for `--only`.
pub const NAME: &str = "directives";

/// Compares all that the oracle has.
pub fn run(pair: &Pair, tally: &mut Tally) -> io::Result<()> {
    let mut duo = Duo::open(pair, 2)?;
    let (oracle, halcyon) = duo.both(&["CONFIG", "GET", "*"])?;
    let (oracle, halcyon) = (pairs(&oracle), pairs(&halcyon));
    for (name, default) in &oracle {
        let found =
            (halcyon.get(name) != Some(default) && !is_listed(OTHER_DEFAULT, name)).then(|| Disagreement {
                about: format!("{name} at start"),
                oracle: default.clone(),
                halcyon: halcyon.get(name).cloned().unwrap_or("(not there)".into()),
            });
        count(tally, found);
    }
    let hidden = HIDDEN.iter().map(|name| (*name).to_owned());
    let names: BTreeSet<String> = oracle.keys().cloned().chain(hidden).collect();
    for name in names.iter().filter(|name| !is_listed(LEFT_ALONE, name)) {
        probe(&mut duo, name, tally)?;
    }
    Ok(())
}

/// Gives one directive every value, and then its first one.
fn probe(duo: &mut Duo, name: &str, tally: &mut Tally) -> io::Result<()> {
    let (start, _) = duo.both(&["CONFIG", "GET", name])?;
    let start = pairs(&start).remove(name).unwrap_or_default();
    for value in PROBES {
        let set = duo.both(&["CONFIG", "SET", name, value])?;
        if is_other(name, value, &set) {
            // Both sides go on from the same value.
            duo.both(&["CONFIG", "SET", name, &start])?;
            continue;
        }
        let about = args(&["CONFIG", "SET", name, value]);
        count(tally, differing(&about, &set));
        if is_listed(OTHER_DEFAULT, name) {
            continue;
        }
        let got = duo.both(&["CONFIG", "GET", name])?;
        // One difference is told once.
        if let Some(found) = differing(&about, &got) {
            count(tally, Some(found));
            duo.both(&["CONFIG", "SET", name, &start])?;
        }
    }
    duo.both(&["CONFIG", "SET", name, &start])?;
    Ok(())
}

fn is_other(name: &str, value: &str, (oracle, halcyon): &(Value, Value)) -> bool {
    oracle != halcyon
        && OTHER_ANSWER.iter().any(|(known, given, _)| {
            *known == name
                && (*given == value || (given.is_empty() && oracle.is_error() && halcyon.is_error()))
        })
}

fn is_listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(known, _)| *known == name)
}

fn differing(about: &Args, (oracle, halcyon): &(Value, Value)) -> Option<Disagreement> {
    (oracle != halcyon).then(|| Disagreement {
        about: crate::words::join(about),
        oracle: oracle.notation(),
        halcyon: halcyon.notation(),
    })
}

fn count(tally: &mut Tally, found: Option<Disagreement>) {
    match found {
        Some(found) => tally.fail(NAME, &found),
        None => tally.passed += 1,
    }
}

/// Names and values of a reply of CONFIG GET.
fn pairs(reply: &Value) -> BTreeMap<String, String> {
    let texts: Vec<String> =
        reply.leaves().iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let (pairs, _) = texts.as_chunks::<2>();
    pairs.iter().map(|[name, value]| (name.clone(), value.clone())).collect()
}
