//! Copies of the data on other servers: who follows this server ([`primary`]), and whom it follows ([`replica`]); and what
//! a cluster has it do ([`group`]).

pub mod group;
pub mod primary;
pub mod replica;

use parking_lot::Mutex;

/// Which stream this server's log is, so that a replica can tell whether it may go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The stream that goes on: 40 hex digits.
    pub id: String,
    /// The stream that it went on from when this server became a primary; 40 zeros: none.
    pub id2: String,
    /// The first offset that is not in that one; -1: none.
    pub second_offset: i64,
}

/// What the server knows of its copies, and of the server that it copies.
pub struct Replication {
    /// Names of the log.
    pub ids: Mutex<Ids>,
    /// Who follows this server.
    pub replicas: primary::Replicas,
    /// Whom this server follows.
    pub following: replica::Following,
    /// What this server is in a shard of a cluster.
    pub group: group::Group,
}

impl Replication {
    /// A primary without replicas, whose log is called `id`.
    pub fn new(id: &str) -> Replication {
        let ids = Ids { id: id.to_owned(), id2: "0".repeat(40), second_offset: -1 };
        Replication {
            ids: Mutex::new(ids),
            replicas: primary::Replicas::default(),
            following: replica::Following::default(),
            group: group::Group::default(),
        }
    }
}
