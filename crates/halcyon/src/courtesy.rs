//! When saving and loading let others have the CPU first: after each 100 to 200 us of work, for the reason that
//! [`store::courtesy`] gives.

use std::thread;

use engine::server::Server;

/// To whoever serves clients, while a snapshot is taken; not where writers would soon have to wait for the snapshot.
pub fn while_saving(server: &Server) {
    let keyspace = &server.keyspace;
    if keyspace.kept_bytes() <= keyspace.kept_bytes_max() / 2 {
        thread::yield_now();
    }
}

/// On this thread, within what it loads or applies, too: one value may take seconds.
pub fn begin_if_following(server: &Server) {
    if server.replication.following.is_replica() {
        store::courtesy::begin();
    }
}

/// To whoever else is on this machine, the primary perhaps, while a replica loads or applies: nobody waits for it as
/// one waits for a server that starts alone.
pub fn while_following(server: &Server) {
    if server.replication.following.is_replica() {
        thread::yield_now();
    }
}
