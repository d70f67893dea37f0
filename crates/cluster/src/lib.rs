//! What a cluster is, and what its nodes decide: without sockets, without etcd's protocol, without keys.
//!
//! | module | is |
//! |---|---|
//! | [`ids`] | the names of nodes, shards and lives |
//! | [`records`] | what stands in etcd, and under which key |
//! | [`slots`] | who owns which slots |
//! | [`topology`] | the records as one immutable value |
//! | [`agent`] | one node's part: events in, actions out |
//! | [`edits`] | what administrators change |
//! | [`moves`] | what the ends of a slot move conclude from the records |

pub mod agent;
pub mod edits;
pub mod ids;
pub mod moves;
pub mod records;
pub mod slots;
pub mod topology;
