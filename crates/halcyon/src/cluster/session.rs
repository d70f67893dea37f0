//! One connection to etcd from its begin to its end: what it reads is told to the plane.
//!
//! A session reads all records, or, if nothing was missed that etcd has forgotten since, what has changed after the last one;
//! then it tells of each change as it comes. It ends with the first call that fails, and the plane begins another one,
//! with the next member.
//!
//! Who goes on after the last one reads all records some time later all the same: if etcd was restored from a backup
//! meanwhile, and others have written to it since, its revisions tell nothing, and what was seen may be in it no more. Until then
//! this node knows no less than it did while it was away.

use std::time::Duration;

use cluster::agent::Event;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::etcd::{BadRecord, Etcd, Failure};
use super::options::Options;

/// How long etcd's answer to a new watch may take.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);

/// What a session tells.
pub enum Told {
    /// There is a connection, and this is where etcd is.
    Connected(Box<Etcd>),
    /// Something for the agent, and what could not be read of it.
    Event(Box<Event>, Vec<BadRecord>),
    /// It has ended.
    Lost(Failure),
}

/// Where an earlier session has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    /// The last revision whose changes were told; None: nothing was.
    pub seen: Option<u64>,
    /// So long after this session's begin all records are read, where it goes on after that revision.
    pub reads_all_after: Duration,
}

/// Runs a session until it fails.
pub async fn run(options: Options, endpoint: String, before: Before, tell: UnboundedSender<Told>) {
    let reads_all_at = Instant::now() + before.reads_all_after;
    let mut following = Following { seen: before.seen, reads_all_at, tell };
    let failure = match following.connect(&options, &endpoint).await {
        Ok(etcd) => loop {
            if let Err(failure) = following.follow(&etcd).await {
                break failure;
            }
        },
        Err(failure) => failure,
    };
    // The plane may have ended.
    let _ = following.tell.send(Told::Lost(failure));
}

struct Following {
    /// The last revision whose changes were told; None: all is to be told.
    seen: Option<u64>,
    reads_all_at: Instant,
    tell: UnboundedSender<Told>,
}

impl Following {
    async fn connect(&mut self, options: &Options, endpoint: &str) -> Result<Etcd, Failure> {
        let (etcd, revision) = Etcd::connect(options, endpoint).await?;
        // An etcd that knows less than was seen before was made anew, or restored: the agent has to see all of it.
        if self.seen.is_some_and(|seen| revision < seen) {
            self.seen = None;
        }
        let _ = self.tell.send(Told::Connected(Box::new(etcd.clone())));
        Ok(etcd)
    }

    /// Tells of all records; what was told before is no newer than they are.
    async fn tell_all(&mut self, etcd: &Etcd) -> Result<u64, Failure> {
        let snapshot = etcd.records().await?;
        let revision = snapshot.records.revision;
        let _ = self.tell.send(Told::Event(Box::new(Event::Records(snapshot.records)), snapshot.errors));
        Ok(*self.seen.insert(revision))
    }

    /// Tells of all that there is to tell after `seen`, until the watch ends. Ok: another one is to begin with all records.
    async fn follow(&mut self, etcd: &Etcd) -> Result<(), Failure> {
        let mut has_read_all = self.seen.is_none();
        let from = match self.seen {
            Some(seen) => seen,
            None => self.tell_all(etcd).await?,
        };
        let mut watch = etcd.watch(from + 1).await?;
        let mut is_created = false;
        loop {
            let message = match is_created {
                true => tokio::select! {
                    message = watch.message() => message,
                    () = sleep_until(self.reads_all_at), if !has_read_all => {
                        has_read_all = true;
                        self.tell_all(etcd).await?;
                        continue;
                    }
                },
                false => match tokio::time::timeout(WATCH_TIMEOUT, watch.message()).await {
                    Ok(message) => message,
                    Err(_) => return Err(Failure::of("no answer to a watch")),
                },
            };
            let message = message?.ok_or_else(|| Failure::of("the watch has ended"))?;
            is_created = true;
            if message.canceled() {
                if message.compact_revision() > 0 {
                    // etcd has forgotten what was missed.
                    self.seen = None;
                    return Ok(());
                }
                return Err(Failure::of(match message.cancel_reason() {
                    "" => "the watch was cancelled",
                    reason => reason,
                }));
            }
            for change in etcd.changes(message.events()) {
                // What was on its way while all was read is among that.
                if self.seen.is_some_and(|seen| change.revision <= seen) {
                    continue;
                }
                self.seen = Some(change.revision);
                let event = Event::Changed { revision: change.revision, changes: change.changes };
                let _ = self.tell.send(Told::Event(Box::new(event), change.errors));
            }
        }
    }
}
