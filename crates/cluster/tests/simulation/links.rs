//! What nodes tell each other: the log, and how far it was received.

use std::rc::Rc;

use cluster::agent::Event;
use cluster::ids::{Member, NodeId};

use crate::moving;
use crate::node::{Message, Node, Replica, Role, SLOTS_SAMPLED, shard_id};
use crate::world::{Happening, World};

/// What the server says of a hand-over reaches the agent so late at most.
const HEARD_LATE_US_MAX: u64 = 4_000_000;

impl World {
    pub fn place_of(&self, node: &NodeId) -> Option<usize> {
        self.nodes.iter().position(|known| known.id == *node)
    }

    pub fn send(&mut self, from: usize, to: usize, message: Message) {
        if self.is_cut(from, to) || self.random.one_in(100) {
            return;
        }
        let delay_us = if self.random.one_in(50) {
            self.random.between(5_000, 300_000)
        } else {
            self.random.between(100, 2_000)
        };
        self.after(delay_us, Happening::Message(from, to, message));
    }

    pub fn hello(&mut self, at: usize) {
        let life = self.nodes[at].life;
        let delay_us = self.random.between(150_000, 250_000);
        self.after(delay_us, Happening::Hello(at, life));
        let node = &mut self.nodes[at];
        if node.is_linked && self.now_us > node.heard_primary_us + 1_000_000 {
            node.is_linked = false;
        }
        if !node.is_linked {
            self.hello_now(at);
        }
    }

    pub fn hello_now(&mut self, at: usize) {
        let link = self.next_link;
        self.next_link += 1;
        let node = &mut self.nodes[at];
        (node.link, node.is_linked) = (link, false);
        let Role::Follow { primary, epoch } = &node.role else { return };
        let (from, epoch, primary) = (node.member(), *epoch, primary.node.clone());
        let (stream, end) = (node.log.stream(), node.log.entries.len());
        if let Some(to) = self.place_of(&primary) {
            self.send(at, to, Message::Hello { from, epoch, link, stream, end });
        }
    }

    /// A primary sends what its replicas lack, or that time has passed.
    pub fn feed(&mut self, at: usize) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        if !matches!(self.nodes[at].role, Role::Lead { .. }) {
            return;
        }
        for index in 0..self.nodes[at].replicas.len() {
            let is_slow = self.random.one_in(30);
            let node = &self.nodes[at];
            let replica = &node.replicas[index];
            let start = replica.acked_to.min(node.log.entries.len());
            let end = if is_slow { start } else { node.log.entries.len() };
            let entries = node.log.entries[start..end].to_vec();
            let holds_all = end == node.log.entries.len();
            let link = replica.link;
            let message = Message::Append { link, start, entries, stamp_us: clock_us, holds_all };
            if let Some(to) = self.place_of(&replica.member.node) {
                self.send(at, to, message);
            }
        }
    }

    pub fn receive(&mut self, from: usize, at: usize, message: Message) {
        match message {
            Message::Hello { from: member, epoch, link, stream, end } => {
                let to = self.nodes[at].log.agrees_to(stream, end);
                self.greet(at, member, epoch, link, to);
            }
            Message::Partial { link, to, streams, stamp_us } => {
                let node = &mut self.nodes[at];
                if !matches!(node.role, Role::Follow { .. }) || node.link != link || node.is_linked {
                    return;
                }
                node.log.cut_to(to);
                node.log.streams = streams;
                node.is_linked = true;
                self.acknowledge(at, from, link, stamp_us, false);
            }
            Message::Sync { link, log, stamp_us } => {
                let node = &mut self.nodes[at];
                if !matches!(node.role, Role::Follow { .. }) || node.link != link || node.is_linked {
                    return;
                }
                node.log = (*log).clone();
                node.is_linked = true;
                self.acknowledge(at, from, link, stamp_us, false);
            }
            Message::Append { link, start, entries, stamp_us, holds_all } => {
                let node = &mut self.nodes[at];
                let follows = matches!(node.role, Role::Follow { .. }) && node.link == link;
                if !follows || !node.is_linked || start > node.log.entries.len() {
                    return;
                }
                let known = node.log.entries.len() - start;
                node.log.entries.extend(entries.iter().skip(known));
                self.acknowledge(at, from, link, stamp_us, holds_all && entries.len() >= known);
            }
            Message::Slots { .. } => self.take_slots(from, at, message),
            Message::SlotsCame { id, come, is_safe } => self.slots_came(at, &id, come, is_safe),
            Message::Ack { link, offset, stamp_us, holds_all } => {
                let node = &mut self.nodes[at];
                let Some(replica) = node.replicas.iter_mut().find(|replica| replica.link == link) else {
                    return;
                };
                replica.acked_to = replica.acked_to.max(offset);
                replica.heard_us = replica.heard_us.max(stamp_us);
                if holds_all {
                    replica.caught_up_us = replica.caught_up_us.max(stamp_us);
                }
                self.release_replies(at);
                self.hold_check(at);
            }
        }
    }

    fn acknowledge(&mut self, at: usize, to: usize, link: u64, stamp_us: u64, holds_all: bool) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        let node = &mut self.nodes[at];
        node.promised_us = Some(clock_us);
        node.heard_primary_us = self.now_us;
        let offset = node.log.entries.len();
        if let Err(why) = self.checks.same_log(&self.nodes[at], &self.nodes[to]) {
            self.fail(&why);
        }
        self.send(at, to, Message::Ack { link, offset, stamp_us, holds_all });
    }

    /// Tells a replica what it lacks: what follows on this offset, or all.
    fn greet(&mut self, at: usize, member: Member, epoch: u64, link: u64, agreed_to: Option<usize>) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        let node = &mut self.nodes[at];
        if !matches!(&node.role, Role::Lead { epoch: own, .. } if *own == epoch) {
            return;
        }
        let to = member.node.clone();
        node.replicas.retain(|replica| replica.member.node != to);
        node.replicas.push(Replica { member, link, acked_to: 0, heard_us: 0, caught_up_us: 0 });
        let stamp_us = clock_us;
        let message = match agreed_to {
            Some(to) => Message::Partial { link, to, streams: node.log.streams.clone(), stamp_us },
            None => Message::Sync { link, log: Rc::new(node.log.clone()), stamp_us },
        };
        if let Some(to) = self.place_of(&to) {
            self.send(at, to, message);
        }
    }

    /// A client writes to whoever serves the shard, and reads there.
    pub fn write(&mut self, shard: usize) {
        let delay_us = self.random.between(20_000, 120_000);
        self.after(delay_us, Happening::Write(shard));
        let shard = shard_id(shard);
        let serves = |node: &Node| node.served_shard(self.now_us) == Some(&shard);
        let Some(at) = self.nodes.iter().position(serves) else { return };
        if let Err(why) = self.checks.read(at, &shard, &self.nodes[at]) {
            self.fail(&why);
        }
        let served: Vec<usize> = (0..SLOTS_SAMPLED.len())
            .filter(|slot| self.nodes[at].serves_slot(SLOTS_SAMPLED[*slot]))
            .collect();
        let slot = served.get(self.random.below(8) as usize % served.len().max(1)).copied();
        if let Some(slot) = slot
            && let Err(why) = self.checks.read_slot(at, &shard, slot, &self.nodes[at])
        {
            self.fail(&why);
        }
        let node = &mut self.nodes[at];
        let Role::Lead { refuses_writes, epoch, .. } = &node.role else { return };
        if node.held.is_some() || *refuses_writes || self.is_over {
            return;
        }
        let entry = moving::entry_of(slot, *epoch, self.next_entry);
        let copies = node.copies_in_sync();
        if copies.is_some_and(|copies| copies < self.min_in_sync) {
            self.fail(&format!("ENOUGH COPIES: n{at} takes a write that {copies:?} have"));
        }
        self.nodes[at].log.entries.push(entry);
        self.next_entry += 1;
        self.release_replies(at);
        self.feed(at);
    }

    /// Replies leave when all awaited replicas have what they tell of, while this node may serve: past that, whoever
    /// leads by now may be without it.
    pub fn release_replies(&mut self, at: usize) {
        let node = &self.nodes[at];
        let (acked_to, may_serve) =
            (node.acknowledged_to(), node.clock_us(self.now_us) < node.serve_until_us);
        if acked_to <= node.released_to || !may_serve {
            return;
        }
        let from = self.nodes[at].released_to;
        self.nodes[at].released_to = acked_to;
        self.checks.acknowledged_slots(&self.nodes[at], from, acked_to, &self.etcd.records);
        if let Err(why) = self.checks.acknowledged(at, &self.nodes, acked_to, &self.etcd.records) {
            self.fail(&why);
        }
    }

    pub fn hold_check(&mut self, at: usize) {
        let clock_us = self.nodes[at].clock_us(self.now_us);
        let node = &self.nodes[at];
        let Some((hold, member)) = &node.held else { return };
        let hold = *hold;
        let log_end = node.log.entries.len();
        let has_all =
            node.replicas.iter().any(|replica| replica.member == *member && replica.acked_to >= log_end);
        let is_late = clock_us > node.held_since_us + 1_500_000;
        if has_all || is_late {
            let event = Event::HandedOver { hold, has_all, log_end: log_end as u64 };
            // It stands in a queue that is read last, and is said more than once.
            if self.random.one_in(4) {
                let (life, delay_us) = (self.nodes[at].life, self.random.below(HEARD_LATE_US_MAX));
                return self.after(delay_us, Happening::FromServer(at, life, event));
            }
            self.handle(at, event);
        }
    }
}
