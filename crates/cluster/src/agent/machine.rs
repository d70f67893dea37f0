//! The agent itself: what it knows, and in which order it decides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::asking::Asked;
use super::commits::{Commits, Purpose};
use super::handing::{HandOver, Parked};
use super::leading::Leading;
use super::lease::Lease;
use super::standing::Standing;
use super::{Action, AskId, Event, Follower, HoldId, Identity, TxnId};
use crate::ids::{Member, NodeId, ShardId};
use crate::records::{Key, NodeRecord, Promise, Record, ShardRecord};
use crate::topology::{Records, Topology};

/// One node's decisions.
pub struct Agent {
    pub(super) me: Member,
    pub(super) identity: Identity,
    pub(super) facts: NodeRecord,
    pub(super) records: Records,
    pub(super) is_loaded: bool,
    topology: Option<Arc<Topology>>,
    pub(super) server: Server,
    pub(super) now_us: u64,
    pub(super) lease: Lease,
    pub(super) commits: Commits,
    pub(super) role: Role,
    until_us: Option<u64>,
    pub(super) leading: Leading,
    pub(super) standing: Option<Standing>,
    pub(super) hand_over: Option<HandOver>,
    /// The last time that writes were held.
    pub(super) last_hold: HoldId,
    pub(super) parked: Option<Parked>,
    /// What was held or parked runs again, once its owner is known.
    pub(super) releases: bool,
    /// The offer by which a replica has asked for the shard last.
    pub(super) asking_offer: u64,
    pub(super) asked: VecDeque<Asked>,
    pub(super) failover: Option<super::standing::Failover>,
    pub(super) forgotten_us: BTreeMap<NodeId, u64>,
    pub(super) membership: Membership,
    refusal: Option<Refusal>,
    /// Who waits for the end of the server, and since when.
    pub(super) ending: Option<(AskId, u64)>,
}

/// What the server said last.
#[derive(Default)]
pub(super) struct Server {
    pub log_end: u64,
    pub log_epoch: u64,
    pub followers: Vec<Follower>,
    pub promised_us: Option<u64>,
}

/// What the server was told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    None,
    Lead { epoch: u64, awaited: Vec<Member>, refuses_writes: bool },
    Follow { primary: Member, epoch: u64 },
    Stand,
}

/// Whether the cluster knows this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// Not yet, in this life.
    Coming,
    /// It does.
    In,
    /// It was forgotten while this node ran, which does not come back by itself.
    Out,
}

/// Why nothing is served.
struct Refusal {
    cause: Cause,
    why: String,
}

/// What keeps a node from serving, the weightiest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Another process has this node's name.
    Twin,
    /// The records are wrong as they are now.
    Records,
    /// The node was forgotten.
    Forgotten,
    /// What was seen cannot be unseen by this process.
    History,
}

impl Agent {
    /// A node that has seen nothing yet. The shard in `facts` is of no account where the cluster knows the node.
    pub fn new(identity: Identity, facts: NodeRecord) -> Agent {
        Agent {
            me: Member { node: identity.node.clone(), life: identity.life },
            identity,
            facts,
            records: Records::default(),
            is_loaded: false,
            topology: None,
            server: Server::default(),
            now_us: 0,
            lease: Lease::default(),
            commits: Commits::default(),
            role: Role::None,
            until_us: None,
            leading: Leading::default(),
            standing: None,
            hand_over: None,
            last_hold: HoldId::default(),
            parked: None,
            releases: false,
            asking_offer: 0,
            asked: VecDeque::new(),
            failover: None,
            forgotten_us: BTreeMap::new(),
            membership: Membership::Coming,
            refusal: None,
            ending: None,
        }
    }

    /// Takes in an event, and says what is to be done, in this order. Each action has its effect before the next event
    /// is made, save that what is asked of etcd is answered later.
    pub fn handle(&mut self, now_us: u64, event: Event, out: &mut Vec<Action>) {
        self.now_us = now_us;
        match event {
            Event::Records(records) => self.take_all(records),
            Event::Changed { revision, changes } => self.take_changes(revision, changes),
            Event::LeaseKept { asked_us } => self.lease.kept(asked_us),
            Event::LeaseGone => self.lease.gone(),
            Event::Ended(txn, outcome) => self.ended(txn, outcome, out),
            Event::Tick { log_end, followers, promised_us, log_epoch } => {
                self.server = Server { log_end, log_epoch, followers, promised_us };
                self.leading.ticked(log_end);
                if let Some(standing) = &mut self.standing {
                    standing.ticked();
                }
            }
            Event::Asked(ask, wanted) => self.ask(ask, wanted, out),
            Event::HandedOver { hold, has_all, log_end } => self.held(hold, has_all, log_end, out),
        }
        self.decide(out);
    }

    /// Takes in what a revision has changed, and decides nothing yet: more has come since, and what there is to decide is
    /// decided with the next event that [`Agent::handle`] is given. As where all records are read anew, what lies between is not
    /// seen: who is far behind builds one topology, not one for each change.
    pub fn take_in(&mut self, now_us: u64, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        self.now_us = now_us;
        self.take_changes(revision, changes);
    }

    /// What is known of etcd's records.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// What was installed last.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref()
    }

    /// Who this node is.
    pub fn member(&self) -> &Member {
        &self.me
    }

    /// The cluster's id and the highest revision seen, which the node keeps beside its data.
    pub fn to_keep(&self) -> Option<(&str, u64)> {
        let cluster = self.records.cluster.as_ref()?;
        Some((&cluster.id, self.records.revision))
    }

    /// The node's facts, which a change of its configuration changed; the cluster is told.
    pub fn configure_facts(&mut self, facts: NodeRecord) {
        self.facts = facts;
    }

    /// What replies promise from now on, where this node leads.
    pub fn configure_promise(&mut self, promise: Promise) {
        self.identity.promise = promise;
    }

    /// `cluster-min-in-sync`
    pub fn configure_min_in_sync(&mut self, min_in_sync: usize) {
        self.identity.min_in_sync = min_in_sync;
    }

    /// The shard that this node is of, its record and when that was written.
    pub(super) fn own_shard(&self) -> Option<(&ShardId, &ShardRecord, u64)> {
        let shard = &self.records.nodes.get(&self.me.node)?.shard;
        let (id, (record, revision)) = self.records.shards.get_key_value(shard)?;
        Some((id, record, *revision))
    }

    /// The shard that this node leads by the records.
    pub(super) fn led_shard(&self) -> Option<(&ShardId, &ShardRecord, u64)> {
        self.own_shard().filter(|(_, record, _)| record.primary == self.me)
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    pub(super) fn why_refused(&self) -> &str {
        self.refusal.as_ref().map_or("", |refusal| &refusal.why)
    }

    /// Serves nothing from now on, for this reason.
    pub(super) fn refuse(&mut self, cause: Cause, why: String) {
        if self.refusal.as_ref().is_none_or(|refusal| cause > refusal.cause) {
            self.refusal = Some(Refusal { cause, why });
            self.role = Role::None;
        }
    }

    fn take_all(&mut self, records: Records) {
        if let Err(why) = self.can_follow_from(&records) {
            return self.refuse(Cause::History, why);
        }
        let is_first = !self.is_loaded;
        self.records = records;
        self.is_loaded = true;
        if is_first {
            self.check_kept();
        }
        self.look_at_self();
    }

    fn take_changes(&mut self, revision: u64, changes: Vec<(Key, Option<Record>)>) {
        if !self.is_loaded || revision <= self.records.revision {
            return;
        }
        for (key, record) in changes {
            match record {
                Some(record) => self.records.put(key, record, revision),
                None => {
                    if let Key::Node(node) = &key {
                        self.forgotten_us.insert(node.clone(), self.now_us);
                    }
                    self.records.remove(&key, revision);
                }
            }
        }
        self.records.revision = revision;
        self.look_at_self();
    }

    /// All records as they are now have to be what those seen before have become: what was not written since is as it
    /// was.
    fn can_follow_from(&self, records: &Records) -> Result<(), String> {
        if !self.is_loaded {
            return Ok(());
        }
        let seen = self.records.revision;
        if records.revision < seen {
            return Err(restored(records.revision, seen));
        }
        if let Some(known) = &self.records.cluster {
            check_cluster(records, &known.id)?;
        }
        for (key, written) in &records.written {
            if *written <= seen && self.records.written_at(key) != *written {
                return Err(format!(
                    "etcd's history is another than before, at {}: was it restored from a backup?",
                    key.path()
                ));
            }
        }
        Ok(())
    }

    /// What was kept from earlier lives has to fit the first records seen.
    fn check_kept(&mut self) {
        let Some((cluster, seen)) = &self.identity.kept else { return };
        let revision = self.records.revision;
        let age = if revision < *seen { Err(restored(revision, *seen)) } else { Ok(()) };
        if let Err(why) = check_cluster(&self.records, cluster).and(age) {
            self.refuse(Cause::History, why);
        }
    }

    /// What the records say of this node itself.
    fn look_at_self(&mut self) {
        self.relent(Cause::Records);
        let has_record = self.records.nodes.contains_key(&self.me.node);
        match (self.membership, has_record) {
            (Membership::Coming, true) => self.membership = Membership::In,
            (Membership::In, false) => {
                self.membership = Membership::Out;
                let why =
                    "This node was forgotten by its cluster: CLUSTER MEET or a restart lets it in again";
                self.refuse(Cause::Forgotten, why.to_owned());
            }
            (Membership::Out, true) => {
                self.membership = Membership::In;
                self.relent(Cause::Forgotten);
            }
            _ => {}
        }
        self.lease.look(&self.records, &self.me);
    }

    /// Serves again, if what kept it from that has passed.
    pub(super) fn relent(&mut self, cause: Cause) {
        if self.refusal.as_ref().is_some_and(|refusal| refusal.cause == cause) {
            self.refusal = None;
            self.topology = None;
            self.role = Role::None;
        }
    }

    pub(super) fn enter(&mut self, ask: AskId, out: &mut Vec<Action>) {
        if self.membership == Membership::Out {
            self.membership = Membership::Coming;
            self.relent(Cause::Forgotten);
        }
        out.push(Action::Answer(ask, Ok(())));
    }

    fn decide(&mut self, out: &mut Vec<Action>) {
        self.watch_for_twin();
        if self.is_refused() {
            return self.stay_refused(out);
        }
        self.lease.keep(self.now_us, out);
        if !self.is_loaded {
            return;
        }
        let topology = self.newer_topology();
        if self.is_refused() {
            return self.stay_refused(out);
        }
        self.unpark(out);
        self.take_role(topology, out);
        self.watch_hand_over(out);
        self.watch_failover(out);
        self.watch_end(out);
        if self.is_refused() {
            return;
        }
        self.commit_next(out);
        self.answer_asked(out);
    }

    fn stay_refused(&mut self, out: &mut Vec<Action>) {
        let Some(refusal) = &self.refusal else { return };
        if self.role != Role::Stand {
            out.push(Action::ServeUntil(0));
            out.push(Action::Stand);
            out.push(Action::Refuse(refusal.why.clone()));
            if self.hand_over.take().is_some() | self.parked.take().is_some() {
                out.push(Action::Release);
            }
            self.role = Role::Stand;
            self.until_us = Some(0);
            self.standing = None;
            self.leading = Leading::default();
        }
        let why = refusal.why.clone();
        if let Some((ask, _)) = self.ending.take() {
            out.push(Action::Answer(ask, Ok(())));
        }
        for asked in self.asked.drain(..) {
            out.push(Action::Answer(asked.id, Err(format!("ERR {why}"))));
        }
        if self.lease.is_granted() && !self.waits_for_twin() {
            self.lease.gone();
            out.push(Action::Revoke);
        }
        if self.waits_for_twin() {
            self.lease.keep(self.now_us, out);
        }
    }

    /// Lets go of all: the server ends.
    pub(super) fn end_in_order(&mut self, ask: AskId, out: &mut Vec<Action>) {
        self.refuse(Cause::History, "The server ends".to_owned());
        self.stay_refused(out);
        out.push(Action::Answer(ask, Ok(())));
    }

    /// The topology, if it is another one than was installed.
    fn newer_topology(&mut self) -> Option<Arc<Topology>> {
        if self.topology.as_ref().is_some_and(|known| known.revision == self.records.revision) {
            return None;
        }
        match Topology::after(&self.records, self.topology.as_deref()) {
            Ok(topology) => {
                let is_same =
                    self.topology.as_ref().is_some_and(|known| known.is_same_but_for_revision(&topology));
                let topology = Arc::new(topology);
                self.topology = Some(topology.clone());
                (!is_same).then_some(topology)
            }
            Err(why) => {
                self.refuse(Cause::Records, format!("etcd's records are wrong: {why}"));
                None
            }
        }
    }

    /// Leads, follows or stands, as the records say, and serves for as long as that is safe. Who becomes primary
    /// knows how long it may serve before it has the slots; who is no longer primary has no slots before it serves as
    /// a replica.
    fn take_role(&mut self, topology: Option<Arc<Topology>>, out: &mut Vec<Action>) {
        let role = self.role_now();
        let was_lead = matches!(self.role, Role::Lead { .. });
        if !matches!(role, Role::Lead { .. }) && was_lead {
            self.leave_lead(out);
        }
        let until_us = match &role {
            Role::Lead { .. } => self.primary_until_us(),
            Role::Follow { .. } => u64::MAX,
            Role::Stand | Role::None => 0,
        };
        let is_known_late = matches!(role, Role::Follow { .. });
        if !is_known_late {
            self.serve_until(until_us, out);
        }
        if role != self.role {
            match &role {
                Role::Lead { epoch, awaited, refuses_writes } => out.push(Action::Lead {
                    epoch: *epoch,
                    awaited: awaited.clone(),
                    refuses_writes: *refuses_writes,
                }),
                Role::Follow { primary, epoch } => {
                    out.push(Action::Follow { primary: primary.clone(), epoch: *epoch })
                }
                Role::Stand | Role::None => out.push(Action::Stand),
            }
            self.role = role;
        }
        if let Some(topology) = topology {
            out.push(Action::Install(topology));
        }
        if is_known_late {
            self.serve_until(until_us, out);
        }
        if std::mem::take(&mut self.releases) {
            out.push(Action::Release);
        }
    }

    fn role_now(&mut self) -> Role {
        if self.led_shard().is_some() {
            self.standing = None;
            return self.lead();
        }
        self.follow_or_stand()
    }

    pub(super) fn serve_until(&mut self, until_us: u64, out: &mut Vec<Action>) {
        if self.until_us != Some(until_us) {
            self.until_us = Some(until_us);
            out.push(Action::ServeUntil(until_us));
        }
    }

    /// One transaction at a time: the first that is due.
    fn commit_next(&mut self, out: &mut Vec<Action>) {
        if !self.commits.is_free(self.now_us, self.records.revision) {
            return;
        }
        let due = self
            .settling()
            .or_else(|| self.entering())
            .or_else(|| self.handing())
            .or_else(|| self.changing_set())
            .or_else(|| self.claiming())
            .or_else(|| self.editing(out));
        if let Some(due) = due {
            self.parks_for(&due, out);
            // Who may join by it could be primary soon: this node serves no longer than they promise.
            if due.purpose == Purpose::Set {
                let until_us = self.primary_until_us();
                self.serve_until(until_us, out);
            }
            self.commits.begin(due, self.records.revision, out);
        }
    }

    fn ended(&mut self, txn: TxnId, outcome: super::Outcome, out: &mut Vec<Action>) {
        let Some(purpose) = self.commits.end(self.now_us, txn, outcome) else { return };
        self.lease.ended(&purpose, outcome);
        self.hand_over_ended(&purpose, outcome);
        self.edit_ended(&purpose, outcome, out);
    }
}

/// These are the records of the cluster of this id.
fn check_cluster(records: &Records, id: &str) -> Result<(), String> {
    let whose = match &records.cluster {
        Some(record) if record.id == id => return Ok(()),
        Some(record) => format!("another one under this name, {}", record.id),
        None => "none under this name".to_owned(),
    };
    Err(format!("This node is of cluster {id}, but etcd holds {whose}"))
}

fn restored(revision: u64, seen: u64) -> String {
    format!("etcd is at revision {revision}, but was at {seen} before: it was restored from a backup")
}
