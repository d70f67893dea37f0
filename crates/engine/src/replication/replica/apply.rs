//! Applying the primary's stream: its commands run with every right, without a reply, and leave nothing in the log, where
//! the stream itself stands.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::limits::{APPLIED_UNITS, SCRIPT_THREADS};
use resp::Proto;
use store::{Locked, courtesy};

use super::stream::{Record, Step, StreamBatch};
use crate::acl::User;
use crate::clients::Client;
use crate::ctx::Ctx;
use crate::dispatch::serve_unserved;
use crate::lanes::Needs;
use crate::output::Output;
use crate::persistence::Asker;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::worker::Worker;

/// Between looks whether a snapshot that has too much to keep has caught up.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(1);

/// Between two lines of the log about a disk that fails.
const DISK_WARNING_INTERVAL_MS: i64 = 10_000;

/// What one thread applies a stream with.
pub struct Applier {
    worker: Worker,
    session: Session,
    out: Output,
}

impl Applier {
    /// For the thread of this lane; `client` is the link.
    pub fn new(server: &Server, lane: usize, client: Arc<Client>, seed: u64) -> Applier {
        let index = server.process.workers.max(1) + 1 + SCRIPT_THREADS + lane;
        let mut worker = Worker::new(index as u16, server.stats[index].clone(), seed, server.clock.now());
        worker.copies_primary = true;
        Applier { worker, session: Session::new(client, User::of_no_server()), out: Output::new() }
    }

    /// Applies what a round has for a lane.
    pub fn run(&mut self, server: &Server, batch: &StreamBatch, round: usize, lane: usize) {
        let Some(records) = batch.rounds[round].get(lane).filter(|records| !records.is_empty()) else {
            return;
        };
        self.worker.set_now(server.clock.now());
        let started_us = self.worker.now.mono_us;
        let mut commands = 0;
        for record in records {
            let record = &batch.records[*record];
            self.apply(server, batch, record);
            commands += record.commands.len() as u64;
            courtesy::note_work(APPLIED_UNITS);
        }
        self.worker.stats.commands.add(commands);
        let elapsed_ns = server.clock.mono_us().saturating_sub(started_us) * 1000;
        self.count(server, batch, records, elapsed_ns / commands.max(1));
        // Nobody is connected to this thread.
        self.worker.outbox.clear();
    }

    fn apply(&mut self, server: &Server, batch: &StreamBatch, record: &Record) {
        let keyspace = &server.keyspace;
        while keyspace.snapshot_is_behind(record.needs.only_stripe()) {
            std::thread::sleep(SNAPSHOT_INTERVAL);
        }
        let _long = matches!(record.needs, Needs::Everything).then(|| keyspace.hold_long());
        let mut locked = record.needs.lock(keyspace);
        locked.iter_mut().for_each(Locked::see_expired);
        self.session.db = record.db;
        self.worker.is_unseen = record.is_unseen;
        let mut ctx = Ctx::new(server, &mut self.worker, &mut self.session, locked, None);
        for at in record.commands.clone() {
            let args = batch.command(at);
            match batch.steps[at] {
                Step::Select(db) => ctx.session().db = db,
                Step::Pass => {}
                Step::Unknown => note_error(server, &args[0], b"it is not known here"),
                Step::Run(info, position) => {
                    ctx.observe_primary(info, args);
                    let mark = self.out.mark();
                    let mut reply = Reply::new(&mut self.out, Proto::V2);
                    let result = ctx.call_untimed(info, args, position, &mut reply);
                    self.out.rewind(mark);
                    if let Err(fault) = result {
                        note_error(server, &args[0], fault.bytes());
                    }
                }
            }
        }
        ctx.settle();
        drop(ctx);
        if !self.worker.unserved.is_empty() {
            serve_unserved(server, &mut self.worker, &mut self.session);
        }
    }

    fn count(&self, server: &Server, batch: &StreamBatch, records: &[usize], each_ns: u64) {
        let tracking = server.config.hot().latency_tracking();
        for at in records.iter().flat_map(|record| batch.records[*record].commands.clone()) {
            if let Step::Run(info, _) = batch.steps[at] {
                self.worker.stats.command(info.id).record(each_ns, tracking);
            }
        }
    }
}

/// A command of the primary that fails here leaves this server with other data than the primary's.
#[cold]
fn note_error(server: &Server, command: &[u8], reason: &[u8]) {
    let count = server.replication.following.errors.fetch_add(1, Relaxed) + 1;
    server.stats.last().expect("there is a thread for the stream").errors.add(1);
    // The first ones say what is wrong; of a million, few lines are enough.
    if count.is_power_of_two() {
        server.host.log(&format!(
            "== CRITICAL == This replica cannot do what its primary has done: command '{}': {} ({count} so far). Its data differ from the primary's; REPLICAOF NO ONE and REPLICAOF again load them anew.",
            command.escape_ascii(),
            reason.escape_ascii()
        ));
    }
    let behavior = server.config.string("propagation-error-behavior");
    assert!(
        behavior == "ignore" || !server.config.bool("replica-read-only"),
        "This replica panicked sending an error to its master after processing the command '{}', as \
         propagation-error-behavior {behavior} asks it to",
        command.escape_ascii()
    );
}

impl Server {
    /// Ends the process before it takes what it could not write to its disk, unless `replica-ignore-disk-write-errors` says
    /// that it is to go on.
    pub(super) fn check_disk(&self, batch: &StreamBatch) {
        if !self.persistence.is_refused() || !batch.writes() || self.admit_write(Asker::Command).is_ok() {
            return;
        }
        assert!(
            self.config.bool("replica-ignore-disk-write-errors"),
            "Replica was unable to write command to disk (replica-ignore-disk-write-errors is no)."
        );
        let (following, now_ms) = (&self.replication.following, self.clock.now().unix_ms);
        if now_ms > following.disk_warned_at_ms.load(Relaxed) + DISK_WARNING_INTERVAL_MS {
            following.disk_warned_at_ms.store(now_ms, Relaxed);
            self.host.log("Replica is applying a command even though it is unable to write to disk.");
        }
    }
}
