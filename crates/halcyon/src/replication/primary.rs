//! The threads that work for replicas: one makes the payloads of full synchronizations, one keeps the stream for those
//! who are not done with theirs, one reads from disks what workers must not wait for.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::letter::Letter;
use engine::persistence::saving::Save;
use engine::replication::primary::{Fetch, Fetched, FullSync};
use engine::server::Server;
use journal::storage::RealStorage;

use crate::persistence::save;
use crate::shared::{Message, Shared};

/// Between two looks whether a synchronization that somebody waits for may begin.
const SYNC_INTERVAL: Duration = Duration::from_millis(50);
/// Between two looks at how much of the stream is in memory for a synchronization.
const SPOOL_INTERVAL: Duration = Duration::from_millis(5);
/// Between two looks at what replicas lack, while no synchronization is under way.
const BACKLOG_INTERVAL: Duration = Duration::from_millis(50);

type Work = Box<dyn FnOnce() + Send>;

/// Starts them; `spawn` starts one.
pub fn start(shared: &Arc<Shared>, spawn: impl Fn(&str, Work) -> Result<(), String>) -> Result<(), String> {
    let for_syncs = shared.clone();
    spawn("sync", Box::new(move || make_syncs(&for_syncs.server)))?;
    let for_spools = shared.clone();
    spawn("sync-log", Box::new(move || keep_streams(&for_spools.server)))?;
    let for_fetches = shared.clone();
    spawn("sync-reader", Box::new(move || fetch(&for_fetches)))
}

fn make_syncs(server: &Server) {
    loop {
        server.replication.replicas.syncs.sleep(SYNC_INTERVAL);
        let Some(work) = server.begin_sync(&RealStorage) else { continue };
        let result = match &work.save {
            Some(save) => make_payload(server, save, &work.sync),
            None => Ok(()),
        };
        server.end_sync(work, result);
    }
}

/// Writes the payload. All of the snapshot is walked, whatever the disk says.
fn make_payload(server: &Server, snapshot: &Save, sync: &FullSync) -> Result<(), String> {
    let mut result = Ok(());
    save::produce(server, snapshot, &mut |bytes| {
        if result.is_ok() {
            result = sync.write(bytes);
        }
    });
    result.map_err(|error| error.to_string())
}

fn keep_streams(server: &Server) {
    store::courtesy::begin();
    let mut is_busy = false;
    loop {
        let replicas = &server.replication.replicas;
        if !is_busy {
            replicas.syncs.await_spools(replicas, BACKLOG_INTERVAL);
        }
        replicas.syncs.tend_spools();
        is_busy = server.tend_disk_backlog(&RealStorage);
        thread::sleep(SPOOL_INTERVAL);
    }
}

/// Reads what workers want for their replicas, in order of arrival.
fn fetch(shared: &Shared) {
    store::courtesy::begin();
    loop {
        let Fetch { mut source, worker, token, client_id } =
            shared.server.replication.replicas.fetches.next();
        let bytes = source.read();
        let fetched = Box::new(Fetched { source, bytes });
        shared.mailboxes[worker].send(Message::Letter(Letter::Fetched { token, client_id, fetched }));
    }
}
