//! A snapshot as commands that make it anew: a base of the append-only files with `aof-use-rdb-preamble no`.
//!
//! A value of many elements is many commands, which are made piece by piece.

use resp::write_command;
use store::{SnapshotBatch, ValueRef, Walk};

use super::saving::Save;
use super::value_commands::ValueCommands;
use crate::server::Server;

/// Makes the commands.
pub struct CommandEncoder<'a> {
    server: &'a Server,
    save: &'a Save,
    walk: Walk,
    batch: SnapshotBatch,
    /// The next entry of the batch.
    at: usize,
    db: Option<usize>,
    /// Of a key that is not finished.
    value: Option<ValueCommands>,
}

impl<'a> CommandEncoder<'a> {
    /// For all of `save`.
    pub fn new(server: &'a Server, save: &'a Save) -> CommandEncoder<'a> {
        let (walk, batch) = (Walk::default(), SnapshotBatch::default());
        CommandEncoder { server, save, walk, batch, at: 0, db: None, value: None }
    }

    /// What comes first: the libraries of functions.
    pub fn head(&self, out: &mut Vec<u8>) {
        for library in self.save.libraries.libraries.values() {
            write_command(out, [&b"FUNCTION"[..], b"LOAD", &library.source]);
        }
    }

    /// Appends commands until `out` has about `bytes_max` bytes; false if these were the last.
    pub fn fill(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> bool {
        while out.len() < bytes_max {
            if let Some(value) = &mut self.value {
                if !value.fill(out, bytes_max).0 {
                    self.value = None;
                }
            } else if !self.next_key(out) {
                let has_more =
                    self.save.snapshot.next(&self.server.keyspace, &mut self.walk, &mut self.batch);
                self.at = 0;
                if !has_more {
                    return false;
                }
            }
        }
        true
    }

    fn next_key(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(entry) = self.batch.get(self.at) else { return false };
        self.at += 1;
        if self.db != Some(entry.db) {
            self.db = Some(entry.db);
            write_command(out, [&b"SELECT"[..], entry.db.to_string().as_bytes()]);
        }
        match entry.value {
            ValueRef::Inline(text) => {
                write_command(out, [b"SET", entry.key, text]);
                if let Some(at_ms) = entry.expire_at_ms {
                    write_command(out, [&b"PEXPIREAT"[..], entry.key, at_ms.to_string().as_bytes()]);
                }
            }
            ValueRef::Object(value) => {
                self.value = Some(ValueCommands::new(out, entry.key, value, entry.expire_at_ms));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::replaying::Replayer;
    use crate::persistence::saving::SavePurpose;
    use crate::testing::Harness;

    #[test]
    fn what_commands_make_is_what_was_saved() {
        let mut harness = Harness::with_config(&[("enable-debug-command", "yes")]);
        for number in 0..150 {
            harness.run(&format!("RPUSH list element:{number}"));
            harness.run(&format!("SADD set member:{number}"));
            harness.run(&format!("ZADD zset {} member:{number}", f64::from(number) / 3.0));
            harness.run(&format!("HSET hash field:{number} {number}"));
            harness.run(&format!("XADD stream {number}-1 field {number}"));
        }
        let long = "z".repeat(100_000);
        let commands = [
            "SET short v",
            &format!("SET long {long}"),
            "SET ends v PXAT 1800000000000",
            "HPEXPIREAT hash 1800000000000 FIELDS 1 field:7",
            "XDEL stream 3-1 149-1",
            "XGROUP CREATE stream group 0",
            "XGROUP CREATE stream other 5-1 ENTRIESREAD 4",
            "XGROUP CREATECONSUMER stream group idle",
            "XREADGROUP GROUP group reader COUNT 70 STREAMS stream >",
            "XGROUP CREATE empty group $ MKSTREAM",
            "SELECT 3",
            "SADD numbers 1 2 3",
        ];
        for command in commands {
            assert!(!harness.run(command).starts_with('-'), "{command}");
        }
        let save = harness.server.begin_save(SavePurpose::Rewrite);
        let (mut encoder, mut bytes) = (CommandEncoder::new(&harness.server, &save), Vec::new());
        encoder.head(&mut bytes);
        let mut piece = Vec::new();
        while encoder.fill(&mut piece, 1000) {
            bytes.append(&mut piece);
        }
        bytes.append(&mut piece);
        let mut copy = Harness::with_config(&[("enable-debug-command", "yes")]);
        let mut replayer = Replayer::new(&copy.server);
        replayer.run_all(&bytes);
        assert_eq!(replayer.failures, (0, None));
        let shown = |harness: &mut Harness| {
            let commands = [
                "DEBUG DIGEST",
                "PEXPIRETIME ends",
                "HPEXPIRETIME hash FIELDS 2 field:7 field:8",
                "XINFO STREAM empty",
                "XINFO GROUPS stream",
                "XPENDING stream group - + 100",
                "XINFO GROUPS empty",
                "OBJECT ENCODING set",
            ];
            harness.run("SELECT 0");
            commands.map(|command| harness.run(command))
        };
        assert_eq!(shown(&mut copy), shown(&mut harness));
    }
}
