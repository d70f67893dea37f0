//! DEBUG DIGEST and DIGEST-VALUE: signatures of the content, equal to those of a Redis that holds the same.
//!
//! A signature starts as 20 zero bytes. To *xor* something in is to xor its SHA-1 in: the order does not matter. To
//! *mix* it in is to xor it in and then replace the signature by its own SHA-1: the order does.

use base::num::write_f64;
use sha1::{Digest as _, Sha1};
use store::{Hash, List, OwnedEntry, OwnedValue, Set, Stream, Value, View, ZSet};

use crate::args::Args;
use crate::commands::keys::dump::is_big;
use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::lane::Lane;
use crate::reply::Reply;

/// Keys that are cloned together, under the lock of their stripe, before any of them is read.
const STEP_KEYS: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Signature([u8; 20]);

impl Signature {
    fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn xor(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(Sha1::digest(bytes)).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Of an element with two parts, whose order matters.
    fn of_pair(first: &[u8], second: &[u8]) -> Signature {
        let mut digest = Signature::default();
        digest.mix(first);
        digest.mix(second);
        digest
    }

    /// Mixes in a value and whether it has an end.
    fn mix_entry(&mut self, entry: &OwnedEntry) {
        let type_number: u32 = match &entry.value {
            OwnedValue::Inline(..) | OwnedValue::Object(Value::Str(_)) => 0,
            OwnedValue::Object(Value::List(_)) => 1,
            OwnedValue::Object(Value::Set(_)) => 2,
            OwnedValue::Object(Value::ZSet(_)) => 3,
            OwnedValue::Object(Value::Hash(_)) => 4,
            OwnedValue::Object(Value::Stream(_)) => 6,
        };
        self.mix(&type_number.to_be_bytes());
        match &entry.value {
            OwnedValue::Inline(bytes, _) => self.mix(bytes),
            OwnedValue::Object(Value::Str(long)) => self.mix(&long.to_vec()),
            OwnedValue::Object(Value::List(list)) => self.mix_list(list),
            OwnedValue::Object(Value::Set(set)) => self.xor_set(set),
            OwnedValue::Object(Value::ZSet(zset)) => self.xor_zset(zset),
            OwnedValue::Object(Value::Hash(hash)) => self.xor_hash(hash),
            OwnedValue::Object(Value::Stream(stream)) => self.mix_stream(stream),
        }
        if entry.expire_at_ms.is_some() {
            self.xor(b"!!expire!!");
        }
    }

    fn mix_list(&mut self, list: &List) {
        let mut elements = list.iter(0, false);
        while let Some(element) = elements.next() {
            self.mix(element);
        }
    }

    fn xor_set(&mut self, set: &Set) {
        let mut members = set.iter();
        while let Some(member) = members.next() {
            self.xor(member);
        }
    }

    fn xor_zset(&mut self, zset: &ZSet) {
        let (mut members, mut text) = (zset.iter(), Vec::new());
        while let Some((member, score)) = members.next() {
            text.clear();
            write_f64(&mut text, score);
            self.xor(&Signature::of_pair(member, &text).0);
        }
    }

    fn xor_hash(&mut self, hash: &Hash) {
        let mut fields = hash.iter();
        while let Some((field, value, end_ms)) = fields.next_with_end() {
            let mut of_field = Signature::of_pair(field, value);
            if end_ms.is_some() {
                of_field.xor(b"!!hexpire!!");
            }
            self.xor(&of_field.0);
        }
    }

    fn mix_stream(&mut self, stream: &Stream) {
        let mut entries = stream.iter();
        while let Some(entry) = entries.next() {
            self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields {
                self.mix(&name);
                self.mix(&value);
            }
        }
    }
}

/// DEBUG DIGEST
pub(super) fn all(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    let now_ms = ctx.now_ms();
    ctx.defer(move |lane| {
        let mut digest = Signature::default();
        for db in 0..lane.server().keyspace.databases() {
            mix_database(&mut digest, lane, db, now_ms);
        }
        lane.reply().simple(&digest.hex());
        Ok(())
    });
    Ok(())
}

fn mix_database(digest: &mut Signature, lane: &Lane<'_>, db: usize, now_ms: i64) {
    let (mut cursor, mut is_empty) = (0, true);
    loop {
        let mut found: Vec<(Vec<u8>, OwnedEntry)> = Vec::new();
        let keyspace = &lane.server().keyspace;
        cursor = keyspace.scan(lane.held(), db, cursor, STEP_KEYS, now_ms, &mut |key, view| {
            found.push((key.to_vec(), view.to_owned()));
        });
        if is_empty && !found.is_empty() {
            digest.mix(&(db as u32).to_be_bytes());
            is_empty = false;
        }
        for (key, entry) in &found {
            let mut of_key = Signature::default();
            of_key.mix(key);
            of_key.mix_entry(entry);
            digest.xor(&of_key.0);
        }
        if cursor == 0 {
            return;
        }
    }
}

/// DEBUG DIGEST-VALUE [key ...]
pub(super) fn of_keys(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let db = ctx.db();
    let entries: Vec<Option<OwnedEntry>> =
        args.from(2).iter().map(|key| ctx.visit(db, key, |view| view.map(View::to_owned))).collect();
    if entries.iter().flatten().any(|entry| is_big(&entry.value)) {
        ctx.defer(move |lane| {
            answer(&entries, &mut lane.reply());
            Ok(())
        });
    } else {
        answer(&entries, reply);
    }
    Ok(())
}

fn answer(entries: &[Option<OwnedEntry>], reply: &mut Reply<'_>) {
    reply.array(entries.len());
    for entry in entries {
        let mut digest = Signature::default();
        entry.iter().for_each(|entry| digest.mix_entry(entry));
        reply.simple(&digest.hex());
    }
}
