//! What a write sets off besides its reply: transactions that watch the key, clients that wait for it, and whoever else
//! wants to know.
//!
//! [`Ctx::notify`] is called for every write, while the key's stripe is held; what it sets off is done before the stripes
//! are let go ([`Ctx::settle`]), so that everybody sees it in the order of the writes.

use store::{Expired, Locked};

use crate::blocking;
use crate::ctx::{Ctx, Event};
use crate::letter::Letter;
use crate::propagation::Record;
use crate::tracking;

/// What the commands that run under one set of stripes have set off, and what is not done yet.
#[derive(Default)]
pub struct Effects {
    /// Keys that clients wait for and that were written: database and name.
    ready: Vec<(usize, Box<[u8]>)>,
    /// Keys that were written, for those who asked for their prefixes.
    written: Vec<Box<[u8]>>,
    /// Keys that were looked for and not found, if somebody wants to know.
    missed: Vec<(usize, Box<[u8]>)>,
    /// What waits for the end of a script that may still be given up, in order.
    held_back: Option<Vec<HeldBack>>,
    /// What the log is to be told.
    pub(crate) record: Record,
}

/// What a script has set off that may still be given up.
enum HeldBack {
    /// A letter to a worker.
    Letter(u16, Letter),
    /// A key was written by a client, by its id: whoever has read it is to be told.
    Written(Box<[u8]>, u64),
    /// A key of a database had expired. That it is gone stays true, whatever becomes of the script.
    Expired(usize, Box<[u8]>),
    /// Fields of a hash were past their end. They are gone, or will be found to be.
    Fields(usize, Box<[u8]>, Vec<Box<[u8]>>),
}

impl Effects {
    #[inline]
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.written.is_empty() && self.missed.is_empty()
    }

    /// Somebody waits for a key that was written.
    fn ready(&mut self, db: usize, key: &[u8]) {
        if self.ready.last().is_none_or(|(last_db, last)| *last_db != db || **last != *key) {
            self.ready.push((db, key.into()));
        }
    }

    /// Forgets what is not done: what set it off was undone.
    pub fn clear(&mut self) {
        self.ready.clear();
        self.written.clear();
        self.missed.clear();
    }

    /// A key was looked for and not found.
    pub(crate) fn missed(&mut self, db: usize, key: &[u8]) {
        self.missed.push((db, key.into()));
    }

    /// From now on nobody hears of anything, until [`Ctx::confirm`] or [`Ctx::take_back`].
    pub(crate) fn hold_back(&mut self) {
        self.held_back = Some(Vec::new());
    }

    /// Remembers which fields of a hash were past their end, for the case that the script that met them is given up.
    pub(crate) fn hold_back_fields(&mut self, db: usize, key: &[u8], fields: &[&[u8]]) {
        if let Some(held_back) = &mut self.held_back {
            let fields = fields.iter().map(|field| Box::from(*field)).collect();
            held_back.push(HeldBack::Fields(db, key.into(), fields));
        }
    }

    /// Keeps a letter, or gives it back to be sent now.
    pub(crate) fn held_back(&mut self, worker: u16, letter: Letter) -> Option<Letter> {
        match &mut self.held_back {
            Some(held_back) => {
                held_back.push(HeldBack::Letter(worker, letter));
                None
            }
            None => Some(letter),
        }
    }
}

/// Scripts that may be given up.
impl Ctx<'_> {
    /// What was held back is sent: what set it off stays.
    pub(crate) fn confirm(&mut self) {
        let server = self.server();
        for held in self.worker().effects.held_back.take().unwrap_or_default() {
            match held {
                HeldBack::Letter(worker, letter) => self.worker().dispatch(server, worker, letter),
                HeldBack::Written(key, writer) => {
                    tracking::invalidate(server, Some(self.worker()), &key, Some(writer));
                }
                HeldBack::Expired(db, key) => self.observe(db, Event::Expired, Some("expired"), &key),
                HeldBack::Fields(..) => {}
            }
        }
    }

    /// What was held back is forgotten: what set it off was undone. But what had expired is gone all the same.
    pub(crate) fn take_back(&mut self) {
        self.report_expired();
        if let Some(held) = self.held_mut() {
            held.take_created();
        }
        self.worker().effects.clear();
        self.forget_record();
        for held in self.worker().effects.held_back.take().unwrap_or_default() {
            match held {
                HeldBack::Expired(db, key) => {
                    self.record_removal(db, &key);
                    self.observe(db, Event::Expired, Some("expired"), &key);
                }
                HeldBack::Fields(db, key, fields) => {
                    let fields: Vec<&[u8]> = fields.iter().map(|field| &**field).collect();
                    self.record_fields_removal_in(db, &key, &fields);
                }
                HeldBack::Letter(..) | HeldBack::Written(..) => {}
            }
        }
    }
}

impl Ctx<'_> {
    /// Tells that a key of this database was written: `name` is Redis's name of the event.
    #[inline]
    pub fn notify(&mut self, class: Event, name: &'static str, key: &[u8]) {
        self.notify_in(self.db(), class, name, key);
    }

    /// As [`Ctx::notify`], for a key of any database.
    #[inline]
    pub fn notify_in(&mut self, db: usize, class: Event, name: &'static str, key: &[u8]) {
        self.stats().dirty.add(1);
        if self.server().has_observers() {
            self.report_lookups();
            self.observe(db, class, Some(name), key);
        }
    }

    /// Tells of an event that leaves a key's value as it was for those who watch or track it, as Redis has it: of a
    /// stream's groups and consumers.
    pub fn notify_event(&mut self, class: Event, name: &'static str, key: &[u8]) {
        self.stats().dirty.add(1);
        let server = self.server();
        if server.has_observers() {
            self.report_lookups();
            let db = self.db();
            if server.waiters.any() && server.waiters.is_awaited(db, key) {
                self.worker().effects.ready(db, key);
            }
            self.publish_event(db, class, name, key);
        }
    }

    /// Tells that the bytes of a key have changed, where Redis has no event for it: the cardinality that PFCOUNT keeps.
    pub fn touch(&mut self, key: &[u8]) {
        self.stats().dirty.add(1);
        if self.server().has_observers() {
            self.report_lookups();
            self.observe(self.db(), Event::String, None, key);
        }
    }

    /// Tells that `name` took elements out of the collection at a key, and that it is gone if that emptied it.
    pub fn notify_removed(&mut self, class: Event, name: &'static str, key: &[u8], emptied: bool) {
        self.notify(class, name, key);
        if emptied {
            self.notify(Event::Generic, "del", key);
        }
    }

    #[cold]
    fn observe(&mut self, db: usize, class: Event, name: Option<&'static str>, key: &[u8]) {
        let server = self.server();
        if server.watches.any() {
            server.watches.touch(db, key);
        }
        if server.waiters.any() && server.waiters.is_awaited(db, key) {
            self.worker().effects.ready(db, key);
        }
        if let Some(name) = name {
            self.publish_event(db, class, name, key);
        }
        if server.tracking.any() {
            // What ended by itself was written by nobody.
            let writer = (class != Event::Expired).then_some(self.session_ref().client.id);
            match (writer, &mut self.worker().effects.held_back) {
                (Some(writer), Some(held_back)) => held_back.push(HeldBack::Written(key.into(), writer)),
                (writer, _) => tracking::invalidate(server, Some(self.worker()), key, writer),
            }
            let is_new = server.tracking.prefixes() > 0
                && !self.worker().effects.written.iter().any(|seen| **seen == *key);
            if is_new {
                self.worker().effects.written.push(key.into());
            }
        }
    }

    /// Tells of the keys that were found expired since the last call.
    #[inline]
    pub(crate) fn report_expired(&mut self) {
        if self.held().is_some_and(Locked::has_expired) {
            self.report_those_expired();
        }
    }

    #[cold]
    fn report_those_expired(&mut self) {
        let expired = self.held_mut().map(Locked::take_expired).unwrap_or_default();
        for Expired { db, key } in expired {
            self.record_removal(db, &key);
            match &mut self.worker().effects.held_back {
                Some(held_back) => held_back.push(HeldBack::Expired(db, key)),
                None => self.observe(db, Event::Expired, Some("expired"), &key),
            }
        }
    }

    /// Tells of what looking for keys, and storing them, has come upon since the last call: keys that had expired, that
    /// were missing, that were made. They come before the event of the write itself.
    fn report_lookups(&mut self) {
        self.report_expired();
        for (db, key) in std::mem::take(&mut self.worker().effects.missed) {
            self.publish_event(db, Event::KeyMiss, "keymiss", &key);
        }
        let created = self.held_mut().map(Locked::take_created).unwrap_or_default();
        for key in created {
            self.publish_event(key.db, Event::New, "new", &key.key);
        }
    }

    /// Does what the commands have set off, while their stripes are held. Called once they all ran.
    #[inline]
    pub(crate) fn settle(&mut self) {
        // What was set off for a client that has left meanwhile must not stay for the next command to find.
        if self.server().has_observers() || !self.worker().effects.is_empty() {
            self.settle_slow();
        }
        if self.is_journaled() {
            self.report_expired();
            self.append_record();
            self.release_letters();
        } else {
            // Somebody wanted the log when the command began, under no stripe, and nobody does now.
            self.forget_record();
        }
    }

    #[cold]
    fn settle_slow(&mut self) {
        self.report_lookups();
        // What brought them on is a record of its own, and what each of them does, as in Redis.
        self.append_record();
        // Serving a client may make another key ready: BLMOVE.
        let mut at = 0;
        while let Some((db, key)) = self.worker().effects.ready.get(at).cloned() {
            blocking::serve(self, db, &key);
            self.report_lookups();
            at += 1;
        }
        let written = std::mem::take(&mut self.worker().effects.written);
        if !written.is_empty() {
            let keys: Vec<&[u8]> = written.iter().map(|key| &**key).collect();
            let (server, writer) = (self.server(), Some(self.session_ref().client.id));
            tracking::broadcast(server, Some(self.worker()), &keys, writer);
        }
        self.worker().effects.clear();
    }

    /// Tells that whole databases were emptied or exchanged. Every stripe is held.
    pub(crate) fn notify_databases(&mut self, dbs: &[usize]) {
        let server = self.server();
        if server.waiters.any() {
            for db in dbs {
                let keys = server.waiters.awaited_in(*db);
                self.worker().effects.ready.extend(keys.into_iter().map(|key| (*db, key)));
            }
        }
    }

    /// The watched keys of databases that exist in one of them now: what FLUSHALL and SWAPDB touch.
    pub(crate) fn touch_watched(&mut self, dbs: &[usize], exist_in: &[usize]) {
        let server = self.server();
        if !server.watches.any() {
            return;
        }
        for db in dbs {
            for key in server.watches.watched_in(*db) {
                if exist_in.iter().any(|other| self.exists_in(*other, &key)) {
                    server.watches.touch(*db, &key);
                }
            }
        }
    }
}
