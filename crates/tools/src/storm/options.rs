//! The command line of `halcyon lab storm`.

use std::net::{SocketAddr, ToSocketAddrs};

use super::kind::Kind;

pub const USAGE: &str = "\
Usage: halcyon lab storm --nodes HOST:PORT[,HOST:PORT ...] [options] < phases

Many clients of a cluster, each with the rules by which its library learns where slots are, on one thread. Requests come at a
fixed rate whether or not they are answered; a request's latency counts from the instant it was due, with all redirects and all waiting.

       --nodes LIST          primaries of the cluster, in the order of the clients' configurations
       --connections N       in all, one of each client to each node; 10000 by default
       --rate N              requests a second, in all; 30000 by default
       --clients LIST        kinds and their shares, as jedis-2.9=2,go-redis=1; by default as many of each:
                             jedis-2.9, jedis-7, hiredis-vip, redis-py, go-redis
       --keys N              string keys storm:0 ... that are set before, evenly asked for; 100000 by default
       --value-bytes N       of each of them; 100 by default
       --writes PERCENT      requests that are SET, the others are GET; 20 by default
       --warm-up SECONDS     before the first phase; 3 by default
       --seed N              of the random numbers; 1 by default
       --json                reports in JSON: a line {\"event\":\"ready\"} when the first phase begins, a line with the report in the end

The first phase is called 'quiet' and begins after the warm-up. Each line of standard input ends a phase and begins the next, which it
names; the end of the input ends the run. So this measures ten seconds at rest, a move of slots, and five seconds after it:

       { sleep 40; echo moving; halcyon cluster move-slots ... --yes >&2; echo after; sleep 5; } |
           halcyon lab storm --nodes 127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002

The servers' CPU, and what of it went into topology commands, are from their INFO. Topology commands are CLUSTER SLOTS, SHARDS, NODES and
INFO. Servers have to take clients without a password and without TLS.
";

/// More than ports of one address.
const CONNECTIONS_MAX: usize = 100_000;
const RATE_MAX: u64 = 1_000_000;

/// What the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub nodes: Vec<SocketAddr>,
    pub connections: usize,
    /// Requests a second.
    pub rate: u64,
    /// Kinds with their shares.
    pub shares: Vec<(Kind, usize)>,
    pub keys: u32,
    pub value_bytes: usize,
    pub writes_percent: u8,
    pub warm_up_s: u64,
    pub seed: u64,
    pub is_json: bool,
}

impl Options {
    /// None where help is asked for; an error is a line for the user.
    pub fn parse(words: &[String]) -> Result<Option<Options>, String> {
        let mut options = Options {
            nodes: Vec::new(),
            connections: 10_000,
            rate: 30_000,
            shares: Kind::ALL.map(|kind| (kind, 1)).to_vec(),
            keys: 100_000,
            value_bytes: 100,
            writes_percent: 20,
            warm_up_s: 3,
            seed: 1,
            is_json: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match &word[..] {
                "help" | "--help" | "-h" => return Ok(None),
                "--json" => options.is_json = true,
                option => {
                    let value = words.next().ok_or_else(|| format!("{option} takes a value\n\n{USAGE}"))?;
                    options.set(option, value)?;
                }
            }
        }
        if options.nodes.is_empty() {
            return Err(format!("Say which nodes: --nodes HOST:PORT,...\n\n{USAGE}"));
        }
        if options.clients() == 0 {
            return Err(format!("A client needs {} connections, one to each node", options.nodes.len()));
        }
        Ok(Some(options))
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--nodes" => self.nodes = nodes(value)?,
            "--connections" => self.connections = number(option, value, 1, CONNECTIONS_MAX as u64)? as usize,
            "--rate" => self.rate = number(option, value, 1, RATE_MAX)?,
            "--clients" => self.shares = shares(value)?,
            "--keys" => self.keys = number(option, value, 1, 100_000_000)? as u32,
            "--value-bytes" => self.value_bytes = number(option, value, 0, 16 << 20)? as usize,
            "--writes" => self.writes_percent = number(option, value, 0, 100)? as u8,
            "--warm-up" => self.warm_up_s = number(option, value, 0, 3_600)?,
            "--seed" => self.seed = number(option, value, 0, u64::MAX)?,
            other => return Err(format!("halcyon lab storm has no option '{other}'\n\n{USAGE}")),
        }
        Ok(())
    }

    /// How many clients there are: each has a connection to each node.
    pub fn clients(&self) -> usize {
        self.connections / self.nodes.len()
    }

    /// The kind of this client: by turns, as the shares say.
    pub fn kind(&self, client: usize) -> Kind {
        let total: usize = self.shares.iter().map(|(_, share)| share).sum();
        let mut at = client % total;
        for (kind, share) in &self.shares {
            if at < *share {
                return *kind;
            }
            at -= share;
        }
        unreachable!("kind: a remainder lies below the sum of the shares")
    }
}

fn nodes(list: &str) -> Result<Vec<SocketAddr>, String> {
    let address = |text: &str| {
        let found = text.to_socket_addrs().map_err(|error| format!("--nodes: '{text}': {error}"))?.next();
        found.ok_or_else(|| format!("--nodes: '{text}' has no address"))
    };
    list.split(',').map(address).collect()
}

fn shares(list: &str) -> Result<Vec<(Kind, usize)>, String> {
    let mut shares = Vec::new();
    for word in list.split(',') {
        let (name, share) = word.split_once('=').unwrap_or((word, "1"));
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            format!("--clients: there is no kind '{name}'; there are {known}")
        })?;
        shares.push((kind, number("--clients", share, 0, 1_000)? as usize));
    }
    if shares.iter().all(|(_, share)| *share == 0) {
        return Err("--clients: all shares are zero".to_owned());
    }
    Ok(shares)
}

fn number(option: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} takes a number from {least} to {most}, not '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_and_what_is_not() {
        let options =
            parse("--nodes 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 --rate 500 --json").unwrap().unwrap();
        assert_eq!((options.nodes.len(), options.rate, options.is_json), (3, 500, true));
        assert_eq!((options.connections, options.clients()), (10_000, 3_333));
        let kinds: Vec<Kind> = (0..6).map(|client| options.kind(client)).collect();
        assert_eq!(kinds[..5], Kind::ALL);
        assert_eq!(kinds[5], Kind::Jedis2);
        let options = parse("--nodes 127.0.0.1:1 --clients redis-py=2,jedis-7").unwrap().unwrap();
        let kinds: Vec<Kind> = (0..4).map(|client| options.kind(client)).collect();
        assert_eq!(kinds, [Kind::RedisPy, Kind::RedisPy, Kind::Jedis7, Kind::RedisPy]);
        assert_eq!(parse("--help"), Ok(None));
        assert_eq!(parse("--rate"), Err(format!("--rate takes a value\n\n{USAGE}")));
    }

    #[test]
    fn what_cannot_be() {
        for (line, error) in [
            ("", "Say which nodes"),
            ("--nodes 127.0.0.1", "--nodes: '127.0.0.1'"),
            ("--nodes 127.0.0.1:1 --rate 0", "--rate takes a number from 1"),
            ("--nodes 127.0.0.1:1 --writes 101", "--writes takes a number from 0 to 100"),
            ("--nodes 127.0.0.1:1 --clients jedis", "--clients: there is no kind 'jedis'"),
            ("--nodes 127.0.0.1:1 --clients jedis-7=0", "--clients: all shares are zero"),
            ("--nodes 127.0.0.1:1 --speed 1", "halcyon lab storm has no option '--speed'"),
            ("--nodes 127.0.0.1:1,127.0.0.1:2 --connections 1", "A client needs 2 connections"),
        ] {
            let found = parse(line).expect_err(line);
            assert!(found.starts_with(error), "{line}: {found}");
        }
    }
}
