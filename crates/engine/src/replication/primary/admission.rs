//! `min-replicas-to-write`: writes are refused while too few replicas follow.

use super::Server;
use crate::fault::{CmdResult, Fault};
use crate::session::Session;
use crate::table::{CommandInfo, Flags};

const TOO_FEW: Fault = Fault::Text("NOREPLICAS Not enough good replicas to write.");

impl Server {
    /// What a command is told that writes while too few replicas follow.
    #[inline]
    pub(crate) fn admit_by_replicas(&self, info: &CommandInfo, session: &Session) -> CmdResult {
        match self.config.hot().replicas_to_write_min() {
            0 => Ok(()),
            needed => self.admit_with(needed, info, session),
        }
    }

    #[cold]
    fn admit_with(&self, needed: u64, info: &CommandInfo, session: &Session) -> CmdResult {
        let flags = match &session.multi {
            Some(multi) if info.spec.name == "exec" => multi.flags(),
            _ => info.spec.flags,
        };
        if flags.contains(Flags::WRITE) && self.lacks_replicas(needed) {
            return Err(TOO_FEW);
        }
        Ok(())
    }

    /// As [`Server::admit_by_replicas`], of a command that a script runs.
    #[inline]
    pub(crate) fn admit_script_by_replicas(&self, flags: Flags) -> CmdResult {
        if flags.contains(Flags::WRITE) && self.replication.following.refuses_writes() {
            return Err(TOO_FEW);
        }
        let needed = self.config.hot().replicas_to_write_min();
        match needed > 0 && flags.contains(Flags::WRITE) && self.lacks_replicas(needed) {
            true => Err(TOO_FEW),
            false => Ok(()),
        }
    }

    fn lacks_replicas(&self, needed: u64) -> bool {
        // What a replica has written to it is nobody's affair but its own.
        !self.replication.following.is_replica()
            && self.config.int("min-replicas-max-lag") > 0
            && (self.replication.replicas.good() as u64) < needed
    }
}
