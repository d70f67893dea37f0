//! One connection to etcd from its begin to its end: what it reads is told to the plane.
//!
//! A session reads all records, or, if nothing was missed that etcd has forgotten since, what has changed after the last one;
//! then it tells of each change as it comes. It ends with the first call that fails, and the plane begins another one,
//! with the next member.

use std::time::Duration;

use cluster::agent::Event;
use tokio::sync::mpsc::UnboundedSender;

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

/// Runs a session until it fails. `seen`: the last revision whose changes were told by an earlier one.
pub async fn run(options: Options, endpoint: String, mut seen: Option<u64>, tell: UnboundedSender<Told>) {
    let failure = match connect(&options, &endpoint, &mut seen, &tell).await {
        Ok(etcd) => loop {
            if let Err(failure) = follow(&etcd, &mut seen, &tell).await {
                break failure;
            }
        },
        Err(failure) => failure,
    };
    // The plane may have ended.
    let _ = tell.send(Told::Lost(failure));
}

async fn connect(
    options: &Options,
    endpoint: &str,
    seen: &mut Option<u64>,
    tell: &UnboundedSender<Told>,
) -> Result<Etcd, Failure> {
    let (etcd, revision) = Etcd::connect(options, endpoint).await?;
    // An etcd that knows less than was seen before was made anew, or restored: the agent has to see all of it.
    if seen.is_some_and(|seen| revision < seen) {
        *seen = None;
    }
    let _ = tell.send(Told::Connected(Box::new(etcd.clone())));
    Ok(etcd)
}

/// Tells of all that there is to tell after `seen`, until the watch ends. Ok: another one is to begin with all records.
async fn follow(etcd: &Etcd, seen: &mut Option<u64>, tell: &UnboundedSender<Told>) -> Result<(), Failure> {
    let from = match *seen {
        Some(seen) => seen,
        None => {
            let snapshot = etcd.records().await?;
            let revision = snapshot.records.revision;
            let _ = tell.send(Told::Event(Box::new(Event::Records(snapshot.records)), snapshot.errors));
            *seen.insert(revision)
        }
    };
    let mut watch = etcd.watch(from + 1).await?;
    let mut is_created = false;
    loop {
        let message = match is_created {
            true => watch.message().await,
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
                *seen = None;
                return Ok(());
            }
            return Err(Failure::of(match message.cancel_reason() {
                "" => "the watch was cancelled",
                reason => reason,
            }));
        }
        for change in etcd.changes(message.events()) {
            *seen = Some(change.revision);
            let event = Event::Changed { revision: change.revision, changes: change.changes };
            let _ = tell.send(Told::Event(Box::new(event), change.errors));
        }
    }
}
