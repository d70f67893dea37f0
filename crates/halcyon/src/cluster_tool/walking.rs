//! Moving slots key by key, as `redis-cli --cluster reshard` does: each slot's new owner is told to take its keys, they are sent by
//! MIGRATE, and the slot is given away when none is left. Whoever is interrupted begins with the same slot again.

use cluster::ids::{NodeId, ShardId};
use cluster::records::NodeRecord;
use cluster::topology::Records;
use engine::config::Config;

use super::asking::{Answer, Connection};
use super::plan::SlotMove;

/// Keys that are sent at once.
const KEYS: &str = "100";

/// How long sending them may take.
const MIGRATE_TIMEOUT_MS: &str = "60000";

/// A slot is given away only when it is empty: how often that is tried.
const TRIES: usize = 10;

/// The primaries of a move.
pub struct Walk<'a> {
    config: &'a Config,
    from: NodeId,
    to: NodeId,
    target: NodeRecord,
    source: Connection,
    destination: Connection,
}

impl Walk<'_> {
    /// Connects to both.
    pub fn begin<'a>(config: &'a Config, records: &Records, wanted: &SlotMove) -> Result<Walk<'a>, String> {
        let primary = |shard: &ShardId| {
            let node = records.shards.get(shard).map(|(record, _)| record.primary.node.clone());
            let found = node.and_then(|node| Some((records.nodes.get(&node)?.clone(), node)));
            found.ok_or_else(|| format!("There is no primary of shard {shard}"))
        };
        let ((source, from), (target, to)) = (primary(&wanted.from)?, primary(&wanted.to)?);
        let destination = Connection::open(config, &target)?;
        Ok(Walk { config, from, to, source: Connection::open(config, &source)?, destination, target })
    }

    /// Moves a slot.
    pub fn take(&mut self, slot: u16) -> Result<(), String> {
        let slot = slot.to_string();
        let (from, to) = (self.from.to_string(), self.to.to_string());
        self.destination.call(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from])?;
        self.source.call(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to])?;
        let mut given = Ok(Answer::Line(String::new()));
        for _ in 0..TRIES {
            self.send_keys(&slot)?;
            given = self.source.call(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]);
            if !given.as_ref().is_err_and(|error| error.contains("while I still hold keys")) {
                break;
            }
        }
        given.map(drop)
    }

    fn send_keys(&mut self, slot: &str) -> Result<(), String> {
        loop {
            let keys = match self.source.call(&["CLUSTER", "GETKEYSINSLOT", slot, KEYS])? {
                Answer::Texts(keys) if keys.is_empty() => return Ok(()),
                Answer::Texts(keys) => keys,
                Answer::Line(line) => return Err(format!("slot {slot}: an odd answer: {line}")),
            };
            let port = if self.config.bool("tls-cluster") { self.target.tls_port } else { self.target.port };
            let (user, password) = (self.config.string("masteruser"), self.config.string("masterauth"));
            // Where a key is on both sides already, this side has the newer one: clients are sent on only once it is gone here.
            let mut words: Vec<Vec<u8>> =
                ["MIGRATE", &self.target.ip, &port.to_string(), "", "0", MIGRATE_TIMEOUT_MS, "REPLACE"]
                    .map(|word| word.as_bytes().to_vec())
                    .into();
            let auth = match (user.is_empty(), password.is_empty()) {
                (_, true) => Vec::new(),
                (true, false) => vec!["AUTH".to_owned(), password],
                (false, false) => vec!["AUTH2".to_owned(), user, password],
            };
            words.extend(auth.into_iter().map(String::into_bytes));
            words.push(b"KEYS".to_vec());
            words.extend(keys);
            self.source.call(&words)?;
        }
    }
}
