//! How old a replica's data are, at most.
//!
//! A replica reads its clock and asks its primary to put that into the stream: `REPLCONF halcyon-stamp "NODE LIFE MICROSECONDS"`
//! comes back as the text of a PING. When that is applied, all is applied that the primary had when the clock was read. So no
//! two clocks are compared, and a process that was stopped is never younger than it thinks.

use cluster::ids::Member;

use crate::args::Args;
use crate::server::Server;

/// What the text of a PING begins with that is a stamp.
const STAMP: &str = "halcyon-stamp ";
/// Longest stamp that is put into the stream.
const STAMP_BYTES_MAX: usize = 100;

impl Server {
    /// This process's stamp of now.
    pub fn cluster_stamp(&self) -> String {
        let Member { node, life } = self.cluster_me();
        format!("{node} {life} {}", self.clock.mono_us())
    }

    /// Puts a replica's stamp into the stream.
    pub(crate) fn put_stamp(&self, stamp: &[u8]) {
        if stamp.len() > STAMP_BYTES_MAX {
            return;
        }
        let mut record = Vec::new();
        resp::write_command(&mut record, [b"PING".as_slice(), &[STAMP.as_bytes(), stamp].concat()]);
        self.try_append_aside(&record);
    }

    /// When this process made the stamp that this command of the stream is, if it is one.
    pub(crate) fn own_stamp(&self, args: Args<'_>) -> Option<u64> {
        let text = std::str::from_utf8(args.get(1)?).ok()?.strip_prefix(STAMP)?;
        let (who, made_us) = text.rsplit_once(' ')?;
        let Member { node, life } = self.cluster_me();
        (who == format!("{node} {life}")).then(|| made_us.parse().ok())?
    }

    /// True if what a client reads here may be older than `replica-max-staleness-ms` allows.
    pub(crate) fn is_too_old(&self) -> bool {
        let bound_ms = self.config.hot().replica_staleness_ms_max();
        if bound_ms == 0 || !self.cluster.enabled {
            return false;
        }
        // Read here: the batch's clock may be older than the command.
        let now_us = self.clock.mono_us();
        self.replication.following.fresh_us() + bound_ms * 1000 < now_us
    }
}
