//! Kinds of clients, by the library whose rules they follow. What is written here and in `client.rs` was read in the libraries'
//! sources; a version stands for those around it that do the same.

use std::fmt;

use serde::Serialize;

const MS: u64 = 1_000_000;

/// A library.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// Asks for the topology at every MOVED, on the connection that said so, holding a lock that all its threads need.
    #[serde(rename = "jedis-2.9")]
    Jedis2,
    /// Asks at every MOVED, same connection, if it does not ask already; goes on where MOVED points.
    #[serde(rename = "jedis-7")]
    Jedis7,
    /// One request at a time; at every MOVED a new connection, to the same seed each time, and no request before the answer.
    #[serde(rename = "hiredis-vip")]
    HiredisVip,
    /// Corrects the one slot; asks at every fifth MOVED, the first node of the last answer.
    #[serde(rename = "redis-py")]
    RedisPy,
    /// Goes on where MOVED points; asks besides, any node, at most every 200 ms, and when what it knows is 10 s old.
    #[serde(rename = "go-redis")]
    GoRedis,
}

/// What can be said about a kind in numbers.
pub struct Facts {
    /// How often a request may be told to go elsewhere, or be tried again, before it fails.
    pub tries_max: u8,
    /// After so long what is known of the topology is asked for again, when the next request comes.
    pub topology_age_max_ns: Option<u64>,
    /// No other topology is asked for so long after one has come.
    pub cooldown_ns: u64,
    /// What is sent on each new connection, and not waited for.
    pub greeting: &'static [&'static [&'static str]],
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Kind; 5] = [Kind::Jedis2, Kind::Jedis7, Kind::HiredisVip, Kind::RedisPy, Kind::GoRedis];

    /// As options and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Jedis2 => "jedis-2.9",
            Kind::Jedis7 => "jedis-7",
            Kind::HiredisVip => "hiredis-vip",
            Kind::RedisPy => "redis-py",
            Kind::GoRedis => "go-redis",
        }
    }

    /// Its numbers.
    pub fn facts(self) -> Facts {
        let plain = Facts { tries_max: 5, topology_age_max_ns: None, cooldown_ns: 0, greeting: &[] };
        match self {
            Kind::Jedis2 | Kind::HiredisVip => plain,
            Kind::Jedis7 => Facts {
                greeting: &[
                    &["CLIENT", "SETINFO", "LIB-NAME", "jedis"],
                    &["CLIENT", "SETINFO", "LIB-VER", "7.5.3"],
                ],
                ..plain
            },
            Kind::RedisPy => Facts {
                tries_max: 16,
                greeting: &[
                    &["CLIENT", "SETINFO", "LIB-NAME", "redis-py"],
                    &["CLIENT", "SETINFO", "LIB-VER", "7.1.0"],
                ],
                ..plain
            },
            Kind::GoRedis => Facts {
                tries_max: 3,
                topology_age_max_ns: Some(10_000 * MS),
                cooldown_ns: 200 * MS,
                greeting: &[
                    &["HELLO", "3"],
                    &["CLIENT", "SETINFO", "LIB-NAME", "go-redis"],
                    &["CLIENT", "SETINFO", "LIB-VER", "9.7.3"],
                ],
            },
        }
    }

    /// How long it waits before it tries again what was answered with this error, for the `tries`-th time; None where the
    /// application is told.
    pub fn retries_after_ns(self, error: &[u8], tries: u8) -> Option<u64> {
        let code = error.split(|byte| *byte == b' ').next().unwrap_or(b"");
        match (self, code) {
            (Kind::HiredisVip, b"TRYAGAIN" | b"CLUSTERDOWN") => Some(0),
            (Kind::RedisPy, b"TRYAGAIN") => Some(if tries > 8 { 50 * MS } else { 0 }),
            (Kind::RedisPy, b"CLUSTERDOWN") => Some(250 * MS),
            (Kind::GoRedis, b"LOADING" | b"READONLY" | b"CLUSTERDOWN" | b"TRYAGAIN" | b"MASTERDOWN") => {
                Some((8 << tries.min(6)) * MS)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
