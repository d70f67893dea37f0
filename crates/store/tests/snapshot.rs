//! A snapshot is the keyspace as it was at its start, whatever is written while it is walked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use store::entry::{Form, Payload};
use store::{
    Expiry, Hash, Instant, Keyspace, Placement, Snapshot, SnapshotBatch, Thresholds, Touch, Typed, Value,
    ValueRef, Walk,
};

const AT: Instant = Instant { now_ms: 1_000, touch: Some(Touch::Recency) };
const DBS: usize = 3;

/// What a key holds: its text, or the fields of its hash, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    Text(Vec<u8>, Option<i64>),
    Fields(BTreeMap<Vec<u8>, Vec<u8>>, Option<i64>),
}

type Model = BTreeMap<(usize, Vec<u8>), Held>;

fn held(value: ValueRef<'_>, expire_at_ms: Option<i64>) -> Held {
    match value {
        ValueRef::Inline(bytes) => Held::Text(bytes.to_vec(), expire_at_ms),
        ValueRef::Object(Value::Str(long)) => Held::Text(long.to_vec(), expire_at_ms),
        ValueRef::Object(value) => {
            let mut iter = Hash::of(value).expect("strings and hashes").iter();
            let mut fields = BTreeMap::new();
            while let Some((field, value)) = iter.next() {
                fields.insert(field.to_vec(), value.to_vec());
            }
            Held::Fields(fields, expire_at_ms)
        }
    }
}

/// Writes at random, in the keyspace and in its model.
struct Writer<'k> {
    space: &'k Keyspace,
    model: Model,
    rng: fastrand::Rng,
    keys: u32,
}

impl Writer<'_> {
    fn key(&mut self) -> Vec<u8> {
        format!("key:{}", self.rng.u32(..self.keys)).into_bytes()
    }

    fn write(&mut self) {
        let (db, key) = (self.rng.usize(..DBS), self.key());
        let position = self.space.position(&key);
        let place = (db, key.clone());
        match self.rng.u32(..100) {
            0..35 => {
                let longest = if self.rng.u32(..10) == 0 { 10_000 } else { 60 };
                let text = vec![self.rng.alphanumeric() as u8; self.rng.usize(..longest)];
                let end = (self.rng.u32(..4) == 0).then(|| self.rng.i64(2_000..9_000));
                let expiry = end.map_or(Expiry::Clear, Expiry::At);
                self.space.lock(position).put_string(db, position, &key, &text, Form::Plain, expiry, AT);
                self.model.insert(place, Held::Text(text, end));
            }
            35..60 => self.set_field(place),
            60..75 => {
                let found = self.space.lock(position).remove(db, position, &key, AT.now_ms);
                assert_eq!(found, self.model.remove(&place).is_some());
            }
            75..85 => {
                let end = self.rng.bool().then(|| self.rng.i64(2_000..9_000));
                self.space.lock(position).set_expire_at_ms(db, position, &key, end, AT.now_ms);
                if let Some(Held::Text(_, had) | Held::Fields(_, had)) = self.model.get_mut(&place) {
                    *had = end;
                }
            }
            85..99 => {
                let to = self.key();
                let mut stripes = vec![position.stripe(), self.space.position(&to).stripe()];
                let mut locked = self.space.lock_stripes(&mut stripes);
                if let Some(entry) = locked.take(db, position, &key, AT.now_ms) {
                    locked.put_owned(db, self.space.position(&to), &to, &entry, AT);
                    let value = self.model.remove(&place).expect("as in the keyspace");
                    self.model.insert((db, to), value);
                }
            }
            _ => self.flush_or_swap(db),
        }
    }

    fn set_field(&mut self, place: (usize, Vec<u8>)) {
        let (db, key) = &place;
        let position = self.space.position(key);
        let (field, value) = (self.rng.u32(..500).to_string(), self.rng.u64(..).to_string());
        let mut locked = self.space.lock(position);
        let set = |hash: &mut Hash| hash.set(field.as_bytes(), value.as_bytes(), &Thresholds::default());
        match locked.get_mut(*db, position, key, AT) {
            Some(Some(Value::Hash(hash))) => drop(set(hash)),
            Some(_) => return,
            None => {
                let mut hash = Hash::new();
                set(&mut hash);
                let payload = Payload::Object(hash.into_value());
                locked.put(*db, position, key, payload, Expiry::Clear, AT);
            }
        }
        let fresh = Held::Fields(BTreeMap::new(), None);
        if let Held::Fields(fields, _) = self.model.entry(place).or_insert(fresh) {
            fields.insert(field.into_bytes(), value.into_bytes());
        }
    }

    fn flush_or_swap(&mut self, db: usize) {
        let mut all = self.space.lock_all();
        if self.rng.u32(..4) == 0 {
            all.flush(Some(db));
            self.model.retain(|(other, _), _| *other != db);
        } else {
            let other = self.rng.usize(..DBS);
            all.swap(db, other);
            let swapped = |at: usize| {
                if at == db {
                    other
                } else if at == other {
                    db
                } else {
                    at
                }
            };
            let model = std::mem::take(&mut self.model);
            self.model = model.into_iter().map(|((at, key), value)| ((swapped(at), key), value)).collect();
        }
    }
}

fn begin(space: &Keyspace) -> Snapshot {
    space.begin_snapshot(&space.lock_all()).expect("none is running")
}

/// Adds a batch to what a snapshot has told; nothing is told twice.
fn gather(batch: &SnapshotBatch, told: &mut Model) {
    for entry in batch.entries() {
        let before = told.insert((entry.db, entry.key.to_vec()), held(entry.value, entry.expire_at_ms));
        assert_eq!(before, None, "{} of database {} is told twice", entry.key.escape_ascii(), entry.db);
    }
}

#[test]
fn it_is_what_was_there_at_its_start() {
    let (rounds, snapshots) = if cfg!(miri) { (1, 1) } else { (120, 4) };
    for seed in 0..rounds {
        let space = Keyspace::new(DBS, Placement::Hash, 0);
        let keys = if cfg!(miri) { 30 } else { 2_000 };
        let rng = fastrand::Rng::with_seed(seed);
        let mut writer = Writer { space: &space, model: Model::new(), rng, keys };
        for _ in 0..snapshots {
            (0..keys).for_each(|_| writer.write());
            let (snapshot, expected) = (begin(&space), writer.model.clone());
            assert!(space.begin_snapshot(&space.lock_all()).is_none(), "one at a time");
            let mut walks = [Walk::default(), Walk::default()];
            let (mut told, mut batch) = (Model::new(), SnapshotBatch::default());
            let mut is_over = [false; 2];
            while is_over.contains(&false) {
                (0..writer.rng.u32(..300)).for_each(|_| writer.write());
                let at = writer.rng.usize(..2);
                is_over[at] = !snapshot.next(&space, &mut walks[at], &mut batch);
                gather(&batch, &mut told);
            }
            assert_eq!(space.kept_bytes(), 0);
            assert!((snapshot.progress() - 1.0).abs() < f64::EPSILON);
            let missing = expected.iter().find(|(key, value)| told.get(*key) != Some(*value));
            assert_eq!(missing.map(|(key, value)| (key, value, told.get(key))), None, "seed {seed}");
            assert_eq!(told.len(), expected.len(), "seed {seed}: what was made later is told");
        }
    }
}

#[test]
fn two_walkers_and_two_writers_at_once() {
    let keys: u64 = if cfg!(miri) { 64 } else { 40_000 };
    let space = Keyspace::new(1, Placement::Hash, 0);
    let put = |number: u64, text: &[u8]| {
        let key = number.to_le_bytes();
        let position = space.position(&key);
        space.lock(position).put_string(0, position, &key, text, Form::Plain, Expiry::Clear, AT);
    };
    (0..keys).for_each(|number| put(number, b"before"));
    let snapshot = begin(&space);
    let is_over = AtomicBool::new(false);
    let walk = || {
        let (mut told, mut walk, mut batch) = (Model::new(), Walk::default(), SnapshotBatch::default());
        while snapshot.next(&space, &mut walk, &mut batch) {
            gather(&batch, &mut told);
        }
        told
    };
    let write = |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !is_over.load(Relaxed) {
            let number = rng.u64(..keys * 2);
            if rng.bool() {
                put(number, b"after");
            } else {
                let key = number.to_le_bytes();
                let position = space.position(&key);
                space.lock(position).remove(0, position, &key, AT.now_ms);
            }
        }
    };
    std::thread::scope(|scope| {
        let walkers = [scope.spawn(walk), scope.spawn(walk)];
        let writers = [scope.spawn(|| write(1)), scope.spawn(|| write(2))];
        let mut told = Model::new();
        for walker in walkers {
            let part = walker.join().expect("a walker ends");
            let (before, added) = (told.len(), part.len());
            told.extend(part);
            assert_eq!(told.len(), before + added, "a key is told by one walker");
        }
        is_over.store(true, Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
        assert_eq!(told.len() as u64, keys);
        assert!(told.values().all(|held| *held == Held::Text(b"before".to_vec(), None)));
    });
    assert!(space.begin_snapshot(&space.lock_all()).is_some(), "the next one may start");
}

#[test]
fn writers_wait_for_a_walker_that_is_slow() {
    let keys: u64 = if cfg!(miri) { return } else { 100_000 };
    let space = Keyspace::new(1, Placement::Hash, 0);
    let position = |number: u64| space.position(&number.to_le_bytes());
    let put = |number: u64, text: &[u8]| {
        let at = position(number);
        space.lock(at).put_string(0, at, &number.to_le_bytes(), text, Form::Plain, Expiry::Clear, AT);
    };
    (0..keys).for_each(|number| put(number, &[b'a'; 100]));
    let snapshot = begin(&space);
    let (mut walk, mut batch, mut told) = (Walk::default(), SnapshotBatch::default(), Model::new());
    let bound = space.kept_bytes_max();
    assert!(!space.snapshot_is_behind(None), "nothing is kept");
    let mut waits = 0;
    for number in 0..keys {
        while space.snapshot_is_behind(Some(position(number).stripe())) {
            waits += 1;
            assert!(snapshot.next(&space, &mut walk, &mut batch), "what is kept is handed out");
            gather(&batch, &mut told);
        }
        put(number, &[b'b'; 100]);
        assert!(space.kept_bytes() <= bound + 1_000, "one more write than the bound allows");
    }
    assert!(waits > 0, "{bound} bytes are little");
    while snapshot.next(&space, &mut walk, &mut batch) {
        gather(&batch, &mut told);
    }
    assert!(!space.snapshot_is_behind(None));
    assert_eq!(told.len() as u64, keys);
    assert!(told.values().all(|held| *held == Held::Text(vec![b'a'; 100], None)));
}
