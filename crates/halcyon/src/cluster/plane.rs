//! The thread's loop: what etcd, time and clients tell goes to the agent; what the agent decides goes to etcd and the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::agent::{Action, Ask, AskId, Event, HoldId, Outcome, TxnId};
use cluster::records::{Key, NodeRecord, Promise, Record};
use cluster::topology::Records;
use engine::server::Answer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use super::etcd::{BadRecord, Etcd, Failure, Keeper};
use super::options::Options;
use super::part::Part;
use super::session::{self, Before, Told};

/// Between ticks of the agent.
const TICK: Duration = Duration::from_millis(100);

/// Between two rounds through etcd's members, where none answers.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Between two lines of the log that tell that etcd is away.
const REMINDER: Duration = Duration::from_secs(60);

/// Nodes that have lost etcd together read all records in turn, the next one so much later: of a thousand nodes that is half a
/// megabyte each.
const TURN: Duration = Duration::from_millis(20);

/// Until a transaction that could not be asked for is said to be unknown.
const UNASKED_PAUSE: Duration = Duration::from_millis(100);

/// Who decides: the agent.
pub trait Mind {
    /// Takes in an event, and says what is to be done.
    fn handle(&mut self, now_us: u64, event: Event, actions: &mut Vec<Action>);
    /// Takes in what a revision has changed. What is to be done is said with the next event.
    fn take_in(&mut self, now_us: u64, revision: u64, changes: Vec<(Key, Option<Record>)>);
    /// The records as it knows them.
    fn records(&self) -> &Records;
    /// What this node is by its directives has changed.
    fn configure(&mut self, facts: NodeRecord, promise: Promise);
}

/// What others want of the thread.
pub enum Knock {
    /// A client's command.
    Ask(Ask, Answer),
    /// [`Event::HandedOver`].
    HandedOver {
        /// Which time writes were held.
        hold: HoldId,
        /// It has all.
        has_all: bool,
        /// What that is.
        log_end: u64,
    },
    /// Write what is to be kept, now.
    Save(Box<dyn FnOnce(Result<(), String>) + Send>),
    /// Directives may have changed.
    Reconfigure,
    /// End: let go of the lease, so that others need not wait for it to end. Then say so.
    Stop(std::sync::mpsc::Sender<()>),
}

/// What a task of the loop has come to.
enum Done {
    Session(u64, Told),
    Lease { session: u64, asked_us: u64, outcome: Result<(i64, Option<Box<Keeper>>), Failure> },
    Commit { session: u64, txn: TxnId, lease: Option<i64>, outcome: Result<Outcome, Failure> },
    Reconnect(u64),
}

/// What the agent wants of the lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Grant,
    Renew,
}

/// The node's lease.
#[derive(Default)]
struct Lease {
    id: Option<i64>,
    /// The stream that renews it, of the present session.
    keeper: Option<Box<Keeper>>,
    wish: Option<Wish>,
    /// etcd has been asked, and has not answered.
    is_busy: bool,
}

/// The present way to etcd.
struct Way {
    /// Its number: what older ones tell is void.
    session: u64,
    task: Option<AbortHandle>,
    etcd: Option<Etcd>,
    /// The last revision whose changes the agent knows.
    seen: Option<u64>,
    /// Which of the members is next.
    endpoint: usize,
    /// What tells this node from others, by chance.
    chance: usize,
    /// How many failed one after the other.
    failures: usize,
    /// Since when etcd is away, and when that was last told.
    away_since: Option<(Instant, Instant)>,
}

/// The loop's state.
pub struct Plane<M, P> {
    options: Options,
    mind: M,
    part: P,
    way: Way,
    lease: Lease,
    done: UnboundedSender<Done>,
    answers: Vec<(AskId, Answer)>,
    next_ask: u64,
    /// Something was taken in, and not decided on yet.
    is_undecided: bool,
}

/// Runs until [`Knock::Stop`], or until nobody can knock any more. `chance` spreads the nodes: over etcd's members, and over time
/// what they ask these for.
pub async fn run<M: Mind, P: Part>(
    options: Options,
    mind: M,
    part: P,
    chance: usize,
    mut knocks: UnboundedReceiver<Knock>,
) {
    let (done, mut dones) = unbounded_channel();
    let mut plane = Plane::new(options, mind, part, chance, done);
    plane.connect();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stopped = loop {
        tokio::select! {
            // Time first: however much there is to do, the lease is renewed.
            biased;
            _ = ticks.tick() => plane.tick(),
            Some(done) = dones.recv() => plane.take(done, !dones.is_empty()),
            knock = knocks.recv() => match knock {
                Some(Knock::Stop(stopped)) => break Some(stopped),
                None => break None,
                Some(knock) => plane.answer(knock),
            },
        }
    };
    plane.end().await;
    // Who waits may have given up.
    let _ = stopped.map(|stopped| stopped.send(()));
}

impl<M: Mind, P: Part> Plane<M, P> {
    fn new(options: Options, mind: M, part: P, chance: usize, done: UnboundedSender<Done>) -> Plane<M, P> {
        let way = Way {
            session: 0,
            task: None,
            etcd: None,
            seen: None,
            endpoint: chance % options.endpoints.len(),
            chance,
            failures: 0,
            away_since: None,
        };
        Plane {
            options,
            mind,
            part,
            way,
            lease: Lease::default(),
            done,
            answers: Vec::new(),
            next_ask: 0,
            is_undecided: false,
        }
    }

    fn tick(&mut self) {
        let event = self.part.tick();
        self.tell(event);
        self.part.keep(self.mind.records());
    }

    /// Has the agent decide, and does what it says. Events that come of that are told as well.
    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.is_undecided = false;
        self.mind.handle(self.part.now_us(), event, &mut actions);
        for action in actions {
            self.act(action);
        }
        self.part.look_again(self.mind.records());
        self.tend_lease();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant => self.lease.wish = Some(Wish::Grant),
            Action::Renew => self.lease.wish = self.lease.wish.or(Some(Wish::Renew)),
            Action::Revoke => self.revoke(),
            Action::Commit { txn, compares, writes } => self.commit(txn, compares, writes),
            Action::Lead { epoch, awaited, refuses_writes } => {
                self.part.lead(epoch, &awaited, refuses_writes)
            }
            Action::Follow { primary, epoch } => {
                let record = self.mind.records().nodes.get(&primary.node).map(Arc::as_ref);
                self.part.follow(record, &primary, epoch);
            }
            Action::Stand => self.part.stand(),
            Action::ServeUntil(mono_us) => self.part.serve_until(mono_us),
            Action::Hold(hold, member) => self.part.hold(hold, &member),
            Action::Park => self.part.park(),
            Action::Release => self.part.release(),
            Action::Install(topology) => self.part.install(topology),
            Action::Answer(ask, result) => {
                if let Some(at) = self.answers.iter().position(|(waiting, _)| *waiting == ask) {
                    (self.answers.swap_remove(at).1)(result);
                }
            }
            Action::Tell(text) => tracing::info!("cluster: {text}"),
            Action::Refuse(text) => self.part.refuse(&text),
        }
    }

    /// `has_more`: more is waiting to be taken.
    fn take(&mut self, done: Done, has_more: bool) {
        match done {
            Done::Session(session, told) if session == self.way.session => self.take_told(told, has_more),
            Done::Lease { session, asked_us, outcome } if session == self.way.session => {
                self.take_lease(asked_us, outcome);
            }
            Done::Commit { session, txn, lease, outcome } => self.take_commit(session, txn, lease, outcome),
            Done::Reconnect(session) if session == self.way.session => self.connect(),
            Done::Session(..) | Done::Lease { .. } | Done::Reconnect(_) => {}
        }
        // What came last may have told the agent nothing.
        if self.is_undecided && !has_more {
            let event = self.part.tick();
            self.tell(event);
        }
    }

    fn take_told(&mut self, told: Told, has_more: bool) {
        match told {
            Told::Connected(etcd) => {
                if self.way.away_since.take().is_some() {
                    tracing::info!("etcd: connected to {}", self.endpoint());
                }
                self.way.failures = 0;
                self.way.etcd = Some(*etcd);
                if self.lease.id.is_some() && self.lease.wish.is_none() {
                    // The connection that renewed it is gone; nobody knows how old it is.
                    self.lease.wish = Some(Wish::Renew);
                }
                self.tend_lease();
            }
            Told::Event(event, errors) => {
                match &*event {
                    Event::Records(records) => self.way.seen = Some(records.revision),
                    Event::Changed { revision, .. } => self.way.seen = Some(*revision),
                    _ => {}
                }
                match *event {
                    // While etcd tells more than a topology could be built for, one is built for all of it.
                    Event::Changed { revision, changes } if has_more => {
                        self.mind.take_in(self.part.now_us(), revision, changes);
                        self.is_undecided = true;
                    }
                    event => self.tell(event),
                }
                self.report(&errors);
            }
            Told::Lost(failure) => self.lose(&failure),
        }
    }

    /// Records that nobody can read are passed over, if they are about a node or a move; without the others nothing can be
    /// served.
    fn report(&mut self, errors: &[BadRecord]) {
        for (key, error) in errors {
            match key {
                Key::Cluster | Key::Slots | Key::Shard(_) => {
                    self.part.refuse(&format!("a record of the cluster in etcd cannot be read: {error}"))
                }
                _ => tracing::warn!("a record of the cluster in etcd cannot be read: {error}"),
            }
        }
    }

    fn endpoint(&self) -> &str {
        &self.options.endpoints[self.way.endpoint]
    }

    /// Begins a session with the member whose turn it is.
    fn connect(&mut self) {
        self.way.session += 1;
        let (session, endpoint) = (self.way.session, self.endpoint().to_owned());
        let (tell, mut told) = unbounded_channel();
        let turns = self.way.chance % self.mind.records().nodes.len().max(1);
        let before = Before { seen: self.way.seen, reads_all_after: TURN * turns as u32 };
        let running = session::run(self.options.clone(), endpoint, before, tell);
        let done = self.done.clone();
        let task = tokio::spawn(async move {
            let pass_on = async {
                while let Some(told) = told.recv().await {
                    // The loop outlives its tasks.
                    let _ = done.send(Done::Session(session, told));
                }
            };
            tokio::join!(running, pass_on);
        });
        self.way.task = Some(task.abort_handle());
    }

    /// The session has failed: the next member's turn.
    fn lose(&mut self, failure: &Failure) {
        self.way.task.take().iter().for_each(AbortHandle::abort);
        self.way.etcd = None;
        self.way.session += 1;
        self.lease.keeper = None;
        if std::mem::take(&mut self.lease.is_busy) {
            let wish = if self.lease.id.is_some() { Wish::Renew } else { Wish::Grant };
            self.lease.wish = self.lease.wish.or(Some(wish));
        }
        self.complain(failure);
        self.way.failures += 1;
        self.way.endpoint = (self.way.endpoint + 1) % self.options.endpoints.len();
        let is_round_over = self.way.failures.is_multiple_of(self.options.endpoints.len());
        let (session, done) = (self.way.session, self.done.clone());
        tokio::spawn(async move {
            if is_round_over {
                tokio::time::sleep(ROUND_PAUSE).await;
            }
            let _ = done.send(Done::Reconnect(session));
        });
    }

    /// Tells people that etcd is away: once, and now and then again.
    fn complain(&mut self, failure: &Failure) {
        let now = Instant::now();
        let (since, told_at) = self.way.away_since.unwrap_or((now, now));
        let is_new = self.way.away_since.is_none();
        if !is_new && now - told_at < REMINDER {
            return;
        }
        self.way.away_since = Some((since, now));
        let away_s = (now - since).as_secs();
        let for_how_long = if is_new { String::new() } else { format!(", for {away_s} s") };
        tracing::warn!("etcd: {} cannot be used{for_how_long}: {}", self.endpoint(), failure.text);
    }

    /// Asks etcd for what is wanted of the lease, if it can be asked.
    fn tend_lease(&mut self) {
        let Some(etcd) = self.way.etcd.clone().filter(|_| !self.lease.is_busy) else { return };
        let Some(wish) = self.lease.wish.take() else { return };
        self.lease.is_busy = true;
        let (session, done, asked_us) = (self.way.session, self.done.clone(), self.part.now_us());
        let (id, keeper) = match wish {
            Wish::Grant => (None, None),
            Wish::Renew => (self.lease.id, self.lease.keeper.take()),
        };
        tokio::spawn(async move {
            let outcome = match (id, keeper) {
                (None, _) => etcd.grant().await.map(|id| (id, None)),
                (Some(id), None) => etcd.keep(id).await.map(|keeper| (id, Some(Box::new(keeper)))),
                (Some(id), Some(mut keeper)) => keeper.renew().await.map(|()| (id, Some(keeper))),
            };
            let _ = done.send(Done::Lease { session, asked_us, outcome });
        });
    }

    fn take_lease(&mut self, asked_us: u64, outcome: Result<(i64, Option<Box<Keeper>>), Failure>) {
        self.lease.is_busy = false;
        match outcome {
            Ok((id, keeper)) => {
                (self.lease.id, self.lease.keeper) = (Some(id), keeper);
                self.tell(Event::LeaseKept { asked_us });
            }
            Err(failure) if failure.lease_is_gone => self.lose_lease(),
            Err(failure) => {
                self.lease.is_busy = true;
                self.lose(&failure);
            }
        }
    }

    fn lose_lease(&mut self) {
        (self.lease.id, self.lease.keeper) = (None, None);
        self.tell(Event::LeaseGone);
    }

    fn revoke(&mut self) {
        let lease = (self.lease.id.take(), self.way.etcd.clone());
        self.lease.keeper = None;
        if let (Some(id), Some(etcd)) = lease {
            // It ends by itself if etcd does not hear of this.
            tokio::spawn(async move { drop(etcd.revoke(id).await) });
        }
    }

    fn commit(&mut self, txn: TxnId, compares: Vec<(Key, u64)>, writes: Vec<(Key, Option<Record>)>) {
        let (session, done, lease) = (self.way.session, self.done.clone(), self.lease.id);
        let needs_lease = writes.iter().any(|(key, record)| key.is_leased() && record.is_some());
        let etcd = self.way.etcd.clone().filter(|_| lease.is_some() || !needs_lease);
        tokio::spawn(async move {
            let outcome = match etcd {
                Some(etcd) => etcd.commit(&compares, &writes, lease).await,
                None => {
                    tokio::time::sleep(UNASKED_PAUSE).await;
                    Ok(Outcome::Unknown)
                }
            };
            let _ = done.send(Done::Commit { session, txn, lease, outcome });
        });
    }

    fn take_commit(
        &mut self,
        session: u64,
        txn: TxnId,
        lease: Option<i64>,
        outcome: Result<Outcome, Failure>,
    ) {
        let failure = match outcome {
            Ok(outcome) => return self.tell(Event::Ended(txn, outcome)),
            Err(failure) => failure,
        };
        if failure.lease_is_gone {
            // By now there may be another.
            if lease == self.lease.id {
                self.lose_lease();
            }
        } else if failure.is_refusal {
            tracing::warn!("etcd refuses a change of the cluster: {}", failure.text);
        } else if session == self.way.session {
            self.lose(&failure);
        }
        let outcome = if failure.is_refusal { Outcome::Refused } else { Outcome::Unknown };
        self.tell(Event::Ended(txn, outcome));
    }

    fn answer(&mut self, knock: Knock) {
        match knock {
            Knock::Ask(ask, answer) => {
                self.next_ask += 1;
                let id = AskId(self.next_ask);
                self.answers.push((id, answer));
                self.tell(Event::Asked(id, ask));
            }
            Knock::HandedOver { hold, has_all, log_end } => {
                self.tell(Event::HandedOver { hold, has_all, log_end });
            }
            Knock::Reconfigure => {
                let (facts, promise) = self.part.facts(&self.options);
                self.mind.configure(facts, promise);
            }
            Knock::Save(answer) => answer(self.part.save(self.mind.records())),
            Knock::Stop(_) => unreachable!("plane-end: the loop takes it"),
        }
    }

    /// Lets go of everything.
    async fn end(mut self) {
        if let Err(error) = self.part.save(self.mind.records()) {
            tracing::warn!("{error}");
        }
        if let (Some(id), Some(etcd)) = (self.lease.id.take(), self.way.etcd.take()) {
            // It ends by itself if etcd does not hear of this.
            drop(etcd.revoke(id).await);
        }
        for (_, answer) in self.answers {
            answer(Err("ERR The server is shutting down".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests;
