//! What administrators ask a node for.

use super::commits::{Due, Purpose};
use super::machine::Agent;
use super::{Action, Ask, AskId, Outcome};
use crate::edits::{Change, Edit};
use crate::ids::{Member, ShardId};

/// An edit is tried anew so often, where others were faster.
const TRIES: u32 = 50;

/// An edit waits so long for etcd at most.
const WAIT_US: u64 = 5_000_000;

/// A server that ends waits so long at most until somebody has its shard.
const END_US: u64 = 3_000_000;

/// A node that was forgotten so lately is forgotten with success: tools ask every node for it.
const FORGOTTEN_US: u64 = 60_000_000;

/// An edit that somebody waits for.
pub(super) struct Asked {
    pub id: AskId,
    edit: Edit,
    since_us: u64,
    tries: u32,
    is_in_flight: bool,
    /// It is answered when this revision is seen here.
    done_at: Option<u64>,
}

impl Asked {
    /// Who asks for it holds the slots back until it is answered: not before this node takes them for another's.
    fn is_flip(&self) -> bool {
        matches!(self.edit, Edit::Flip(..))
    }
}

impl Agent {
    /// Somebody asks.
    pub(super) fn ask(&mut self, id: AskId, ask: Ask, out: &mut Vec<Action>) {
        match ask {
            Ask::Enter => self.enter(id, out),
            Ask::End if self.is_refused() => self.end_in_order(id, out),
            _ if self.is_refused() => {
                out.push(Action::Answer(id, Err(format!("ERR {}", self.why_refused()))))
            }
            Ask::Edit(edit) => {
                let since_us = self.now_us;
                self.asked.push_back(Asked {
                    id,
                    edit,
                    since_us,
                    tries: 0,
                    is_in_flight: false,
                    done_at: None,
                });
            }
            Ask::Failover(kind) => self.fail_over(id, kind, out),
            Ask::HandTo(node) => {
                let life = self.records.live.get(&node).copied();
                let to =
                    life.map(|life| Member { node, life }).ok_or("ERR That replica is not there".to_owned());
                if let Err(why) = to.and_then(|to| self.hand_to(to, Some(id), out)) {
                    out.push(Action::Answer(id, Err(why)));
                }
            }
            Ask::End if self.ending.is_some() => {
                out.push(Action::Answer(id, Err("ERR The server ends already".to_owned())));
            }
            Ask::End => {
                self.ending = Some((id, self.now_us));
                let to = self.best_successor();
                if let Some(to) = to {
                    self.hand_to(to, None, out).unwrap_or_default();
                }
            }
        }
    }

    fn best_successor(&self) -> Option<Member> {
        let (_, record, _) = self.led_shard()?;
        let is_able = |member: &&&Member| {
            record.in_sync.contains(member) && self.records.is_live(member) && **member != &self.me
        };
        let followers = self.server.followers.iter();
        let ranked = followers.map(|follower| (follower.acked_to, &follower.member));
        ranked.filter(|(_, member)| is_able(&member)).max().map(|(_, member)| member.clone())
    }

    /// The server ends once somebody has its shard, or nobody can, or it took too long. Who is in the set, and there, but does
    /// not follow yet is waited for: what was acknowledged since may be nowhere else.
    pub(super) fn watch_end(&mut self, out: &mut Vec<Action>) {
        let Some((ask, since_us)) = self.ending else { return };
        let is_handing = self.hand_over.is_some() || self.parked.is_some();
        if is_handing && self.now_us < since_us + END_US {
            return;
        }
        if !is_handing && self.has_successors() && self.now_us < since_us + END_US / 2 {
            let to = self.best_successor();
            if let Some(to) = to {
                self.hand_to(to, None, out).unwrap_or_default();
            }
            return;
        }
        self.ending = None;
        self.end_in_order(ask, out);
    }

    fn has_successors(&self) -> bool {
        self.led_shard().is_some_and(|(_, record, _)| {
            record.in_sync.iter().any(|member| *member != self.me && self.records.is_live(member))
        })
    }

    /// The edit that is due. Those that can be answered without one are.
    pub(super) fn editing(&mut self, out: &mut Vec<Action>) -> Option<Due> {
        while let Some(at) = self.asked.iter().position(|asked| self.is_due(asked)) {
            let change = self.change(&self.asked[at].edit);
            let asked = &mut self.asked[at];
            match change {
                Ok(change) if !change.writes.is_empty() => {
                    asked.is_in_flight = true;
                    asked.tries += 1;
                    let purpose = Purpose::Edit(asked.id);
                    return Some(Due { purpose, compares: change.compares, writes: change.writes });
                }
                answer => {
                    out.push(Action::Answer(asked.id, answer.map(|_| ())));
                    self.asked.remove(at);
                }
            }
        }
        None
    }

    /// What is held for a hand-over would run once slots have been given away, and would be missing where the shard goes.
    fn is_due(&self, asked: &Asked) -> bool {
        let waits = self.hand_over.is_some() && self.takes_from_here(asked.id);
        asked.done_at.is_none() && !asked.is_in_flight && !waits
    }

    /// What the edit changes. Slots are given away by who serves them, who else may not know that it has to stop;
    /// only of a shard of which nobody is there can they be taken.
    fn change(&self, edit: &Edit) -> Result<Change, String> {
        if let Edit::Forget(node) = edit
            && !self.records.nodes.contains_key(node)
            && self.forgotten_us.get(node).is_some_and(|at_us| self.now_us < at_us + FORGOTTEN_US)
        {
            return Ok(Change::default());
        }
        let change = edit.change(&self.records, &self.me)?;
        for shard in &change.takes_from {
            if !self.leads(shard)
                && self.records.nodes_of(shard).any(|node| self.records.live.contains_key(node))
            {
                return Err(format!(
                    "ERR Shard {shard} serves these slots: ask its primary to give them away"
                ));
            }
        }
        Ok(change)
    }

    fn leads(&self, shard: &ShardId) -> bool {
        self.led_shard().is_some_and(|(led, ..)| led == shard)
    }

    /// True if this edit takes slots from the shard that this node leads, which serves them still: who asks for a move's flip
    /// has seen to that.
    pub(super) fn takes_from_here(&self, ask: AskId) -> bool {
        let asked = self.asked.iter().find(|asked| asked.id == ask);
        let asked = asked.filter(|asked| !asked.is_flip());
        let change = asked.map(|asked| self.change(&asked.edit));
        change.is_some_and(|change| {
            change.is_ok_and(|change| change.takes_from.iter().any(|from| self.leads(from)))
        })
    }

    pub(super) fn edit_ended(&mut self, purpose: &Purpose, outcome: Outcome, out: &mut Vec<Action>) {
        let Purpose::Edit(id) = purpose else { return };
        let Some(at) = self.asked.iter().position(|asked| asked.id == *id) else { return };
        let asked = &mut self.asked[at];
        asked.is_in_flight = false;
        match outcome {
            Outcome::Committed(revision) => asked.done_at = Some(revision),
            Outcome::Refused if asked.tries < TRIES => {}
            Outcome::Refused => {
                out.push(Action::Answer(*id, Err("ERR Others change the cluster all the time".to_owned())));
                self.asked.remove(at);
            }
            Outcome::Unknown => {
                let why = "ERR etcd did not answer in time: the change may have been made, or not";
                out.push(Action::Answer(*id, Err(why.to_owned())));
                self.asked.remove(at);
            }
        }
    }

    /// Answers whose change is seen here, and those that waited too long.
    pub(super) fn answer_asked(&mut self, out: &mut Vec<Action>) {
        let (revision, now_us) = (self.records.revision, self.now_us);
        self.asked.retain(|asked| {
            let is_late = now_us >= asked.since_us + WAIT_US && !asked.is_in_flight;
            match asked.done_at {
                Some(done_at) if revision >= done_at || (is_late && !asked.is_flip()) => {
                    out.push(Action::Answer(asked.id, Ok(())));
                }
                None if is_late => {
                    out.push(Action::Answer(asked.id, Err("ERR etcd did not answer in time".to_owned())));
                }
                _ => return true,
            }
            false
        });
    }
}
