//! etcd's calls as this server uses them: one member at a time, each call with an end.
//!
//! A connection goes to one member. Where that does not answer, another connection goes to the next one: so nothing waits for
//! a member that is gone, and what was asked of it is known to be unknown.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use cluster::agent::{LEASE_S, Outcome};
use cluster::records::{Key, Record};
use cluster::topology::Records;
use etcd_client::{
    Client, Compare, CompareOp, Error, Event, EventType, GetOptions, LeaseKeepAliveStream, LeaseKeeper,
    PutOptions, Txn, TxnOp, WatchOptions, WatchStream,
};

use super::options::Options;

/// How long etcd has for an answer. Shorter than what is left of a lease when it is renewed, so that there is time for
/// another member.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// How long it has for all records, which are many.
const RECORDS_TIMEOUT: Duration = Duration::from_secs(10);

/// Records of the largest cluster.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// Why a call came to nothing, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub text: String,
    /// etcd has said that it does not know the lease.
    pub lease_is_gone: bool,
    /// etcd has said no: it has changed nothing.
    pub is_refusal: bool,
}

impl Failure {
    /// A failure that leaves open what etcd has done.
    pub fn of(text: &str) -> Failure {
        Failure { text: text.to_owned(), lease_is_gone: false, is_refusal: false }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let Error::GRpcStatus(status) = &error else {
            let lease_is_gone =
                matches!(&error, Error::LeaseKeepAliveError(text) if text.contains("lease not found"));
            return Failure { text: with_causes(&error), lease_is_gone, is_refusal: lease_is_gone };
        };
        let text = match status.message() {
            "" => with_causes(&error),
            message => message.to_owned(),
        };
        let lease_is_gone = text.contains("requested lease not found");
        // etcd's own words for what it has looked at and turned down.
        let is_refusal = lease_is_gone
            || ["permission denied", "invalid auth token"].iter().any(|word| text.contains(word));
        match status.source() {
            Some(cause) => {
                Failure { text: format!("{text}: {}", with_causes(cause)), lease_is_gone, is_refusal }
            }
            None => Failure { text, lease_is_gone, is_refusal },
        }
    }
}

/// An error with what it comes of: only the last of them says what is wrong.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    tokio::time::timeout(limit, call).await.map_err(|_| Failure::of("no answer"))?.map_err(Failure::from)
}

/// A connection to one of etcd's members.
#[derive(Clone)]
pub struct Etcd {
    client: Client,
    prefix: String,
}

/// All records, and what could not be read of them.
pub struct Snapshot {
    /// The records.
    pub records: Records,
    /// What is wrong with the others.
    pub errors: Vec<BadRecord>,
}

/// What one revision has changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision.
    pub revision: u64,
    /// Keys, and what they hold now.
    pub changes: Vec<(Key, Option<Record>)>,
    /// What is wrong with others.
    pub errors: Vec<BadRecord>,
}

impl Etcd {
    /// Connects to a member, and sees that it answers. It says so by the revision that etcd is at.
    pub async fn connect(options: &Options, endpoint: &str) -> Result<(Etcd, u64), Failure> {
        let connected = Client::connect([endpoint], Some(options.connect.clone()));
        let client = within(2 * ANSWER_TIMEOUT, connected).await?;
        let etcd = Etcd { client, prefix: options.prefix.clone() };
        let revision = etcd.revision().await?;
        Ok((etcd, revision))
    }

    /// etcd's revision, as its majority knows it.
    pub async fn revision(&self) -> Result<u64, Failure> {
        let mut kv = self.client.kv_client();
        let key = format!("{}cluster", self.prefix);
        let answer = within(ANSWER_TIMEOUT, kv.get(key, Some(GetOptions::new().with_count_only()))).await?;
        Ok(answer.header().map_or(0, |header| header.revision() as u64))
    }

    /// All records.
    pub async fn records(&self) -> Result<Snapshot, Failure> {
        let mut kv = self.client.kv_client().max_decoding_message_size(RECORDS_BYTES_MAX);
        let options = GetOptions::new().with_prefix();
        let answer = within(RECORDS_TIMEOUT, kv.get(self.prefix.as_str(), Some(options))).await?;
        let mut snapshot = Snapshot { records: Records::default(), errors: Vec::new() };
        for pair in answer.kvs() {
            match parse(&self.prefix, pair.key(), Some(pair.value())) {
                Some(Ok((key, Some(record)))) => {
                    snapshot.records.put(key, record, pair.mod_revision() as u64)
                }
                Some(Ok((_, None))) | None => {}
                Some(Err(error)) => snapshot.errors.push(error),
            }
        }
        snapshot.records.revision = answer.header().map_or(0, |header| header.revision() as u64);
        Ok(snapshot)
    }

    /// Watches what is changed from this revision on.
    pub async fn watch(&self, from_revision: u64) -> Result<WatchStream, Failure> {
        let mut watch = self.client.watch_client().max_decoding_message_size(RECORDS_BYTES_MAX);
        let options = WatchOptions::new().with_prefix().with_start_revision(from_revision as i64);
        within(ANSWER_TIMEOUT, watch.watch(self.prefix.as_str(), Some(options))).await
    }

    /// What a message of a watch has to tell, revision by revision.
    pub fn changes(&self, events: &[Event]) -> Vec<Change> {
        let mut all: Vec<Change> = Vec::new();
        for event in events {
            let Some(pair) = event.kv() else { continue };
            let value = (event.event_type() == EventType::Put).then(|| pair.value());
            let Some(read) = parse(&self.prefix, pair.key(), value) else { continue };
            let revision = pair.mod_revision() as u64;
            if all.last().is_none_or(|last| last.revision != revision) {
                all.push(Change { revision, changes: Vec::new(), errors: Vec::new() });
            }
            let last = all.last_mut().expect("changes: one was pushed");
            match read {
                Ok(change) => last.changes.push(change),
                Err(error) => last.errors.push(error),
            }
        }
        all
    }

    /// Writes, if every key was last written in the revision that is named with it; 0: if it is not there.
    pub async fn commit(
        &self,
        compares: &[(Key, u64)],
        writes: &[(Key, Option<Record>)],
        lease: Option<i64>,
    ) -> Result<Outcome, Failure> {
        let path = |key: &Key| format!("{}{}", self.prefix, key.path());
        let when: Vec<Compare> = compares
            .iter()
            .map(|(key, revision)| Compare::mod_revision(path(key), CompareOp::Equal, *revision as i64))
            .collect();
        let then: Vec<TxnOp> = writes
            .iter()
            .map(|(key, record)| match record {
                Some(record) => {
                    let lease =
                        lease.filter(|_| key.is_leased()).map(|lease| PutOptions::new().with_lease(lease));
                    TxnOp::put(path(key), record.encode(), lease)
                }
                None => TxnOp::delete(path(key), None),
            })
            .collect();
        let mut kv = self.client.kv_client();
        let answer = within(ANSWER_TIMEOUT, kv.txn(Txn::new().when(when).and_then(then))).await?;
        let revision = answer.header().map_or(0, |header| header.revision() as u64);
        Ok(if answer.succeeded() { Outcome::Committed(revision) } else { Outcome::Refused })
    }

    /// A new lease.
    pub async fn grant(&self) -> Result<i64, Failure> {
        let mut leases = self.client.lease_client();
        Ok(within(ANSWER_TIMEOUT, leases.grant(LEASE_S as i64, None)).await?.id())
    }

    /// Renews a lease, and opens the way to renew it again.
    pub async fn keep(&self, lease: i64) -> Result<Keeper, Failure> {
        let mut leases = self.client.lease_client();
        let (keeper, answers) = within(ANSWER_TIMEOUT, leases.keep_alive(lease)).await?;
        Ok(Keeper { keeper, answers })
    }

    /// Ends a lease, and what was written under it.
    pub async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        let mut leases = self.client.lease_client();
        within(ANSWER_TIMEOUT, leases.revoke(lease)).await.map(drop)
    }
}

/// A stream that renews one lease.
pub struct Keeper {
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

impl Keeper {
    /// Renews it.
    pub async fn renew(&mut self) -> Result<(), Failure> {
        let Keeper { keeper, answers } = self;
        let renewed = within(ANSWER_TIMEOUT, async {
            keeper.keep_alive().await?;
            answers.message().await
        });
        match renewed.await? {
            Some(answer) if answer.ttl() > 0 => Ok(()),
            Some(_) => {
                Err(Failure { text: "lease not found".to_owned(), lease_is_gone: true, is_refusal: true })
            }
            None => Err(Failure::of("no answer")),
        }
    }
}

/// A record that cannot be read: which, and what is wrong with it.
pub type BadRecord = (Key, String);

/// A key and what it holds, None if it is not there; None for keys that are none of ours.
type Parsed = Option<Result<(Key, Option<Record>), BadRecord>>;

fn parse(prefix: &str, key: &[u8], value: Option<&[u8]>) -> Parsed {
    let path = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let key = Key::parse(path)?;
    Some(match value.map(|value| Record::parse(&key, value)).transpose() {
        Ok(record) => Ok((key, record)),
        Err(error) => Err((key, error)),
    })
}
