//! `Keyspace` against maps of the standard library: values, times to live, counters, and memory given back.

mod model_support;

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use model_support::{is_growing, with_seeds};
use parking_lot::Mutex;
use store::alloc::{Counting, used_bytes};
use store::entry::{Form, Payload};
use store::{
    DbSize, Expiry, Hash, Instant, Keyspace, OwnedEntry, OwnedValue, Placement, STRIPES, Thresholds, Touch,
    Typed, Value, ValueRef,
};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes are counted for the whole process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());
/// What the process may hold more after a test than before: free lists, the test harness.
const SLACK_BYTES: usize = 256 * 1024;

const DATABASES: usize = 4;
/// What a database costs that holds nothing: a root for each slot.
const ONE_DATABASE_BYTES: usize = 16_384 * 8;
const BIRTH_MS: i64 = 1_700_000_000_000;

#[derive(Clone, Debug, PartialEq)]
enum Held {
    Text(Vec<u8>),
    Fields(BTreeMap<Vec<u8>, Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    held: Held,
    expire_at_ms: Option<i64>,
}

fn held(value: ValueRef<'_>) -> Held {
    match value {
        ValueRef::Inline(bytes) => Held::Text(bytes.to_vec()),
        ValueRef::Object(Value::Str(string)) => Held::Text(string.to_vec()),
        ValueRef::Object(Value::Hash(hash)) => {
            let (mut iter, mut fields) = (hash.iter(), BTreeMap::new());
            while let Some((field, value)) = iter.next() {
                fields.insert(field.to_vec(), value.to_vec());
            }
            Held::Fields(fields)
        }
        ValueRef::Object(other) => panic!("the test stores no {:?}", other.kind()),
    }
}

fn owned_item(owned: &OwnedEntry) -> Item {
    let held = match &owned.value {
        OwnedValue::Inline(bytes, _) => Held::Text(bytes.to_vec()),
        OwnedValue::Object(value) => held(ValueRef::Object(value)),
    };
    Item { held, expire_at_ms: owned.expire_at_ms }
}

/// A keyspace and what it should hold. An expired key stays in both until something meets it.
struct Pair {
    space: Keyspace,
    dbs: Vec<HashMap<Vec<u8>, Item>>,
    /// Copies that writers must not change.
    clones: Vec<(OwnedEntry, Item)>,
    now_ms: i64,
    expired: u64,
}

impl Pair {
    fn new(placement: Placement) -> Pair {
        Pair {
            space: Keyspace::new(DATABASES, placement, BIRTH_MS),
            dbs: vec![HashMap::new(); DATABASES],
            clones: Vec::new(),
            now_ms: BIRTH_MS,
            expired: 0,
        }
    }

    fn at(&self) -> Instant {
        Instant { now_ms: self.now_ms, touch: Some(Touch::Recency) }
    }

    /// What every lookup does first.
    fn meet(&mut self, db: usize, key: &[u8]) {
        let due = |item: &Item| item.expire_at_ms.is_some_and(|at| at < self.now_ms);
        if self.dbs[db].get(key).is_some_and(due) {
            self.dbs[db].remove(key);
            self.expired += 1;
        }
    }

    fn put(&mut self, rng: &mut Rng, db: usize, key: Vec<u8>) {
        self.meet(db, &key);
        let had = self.dbs[db].get(&key).and_then(|item| item.expire_at_ms);
        let (expiry, expire_at_ms) = match rng.u8(..4) {
            0 => (Expiry::Keep, had),
            1 => {
                let at = self.now_ms + rng.i64(0..5_000);
                (Expiry::At(at), Some(at))
            }
            _ => (Expiry::Clear, None),
        };
        let (at, position) = (self.at(), self.space.position(&key));
        let mut locked = self.space.lock(position);
        let held = if rng.u8(..8) == 0 {
            let (mut hash, mut fields) = (Hash::new(), BTreeMap::new());
            for _ in 0..if rng.u8(..16) == 0 { 400 } else { rng.usize(1..20) } {
                let (field, value) = (rng.u16(..600).to_string(), rng.u32(..).to_string());
                hash.set(field.as_bytes(), value.as_bytes(), &Thresholds::default());
                fields.insert(field.into_bytes(), value.into_bytes());
            }
            locked.put(db, position, &key, Payload::Object(hash.into_value()), expiry, at);
            Held::Fields(fields)
        } else {
            let len = if rng.u8(..32) == 0 { rng.usize(4_000..20_000) } else { rng.usize(..150) };
            let bytes = vec![rng.u8(..); len];
            locked.put_string(db, position, &key, &bytes, Form::Plain, expiry, at);
            Held::Text(bytes)
        };
        drop(locked);
        self.dbs[db].insert(key, Item { held, expire_at_ms });
    }

    fn get(&mut self, rng: &mut Rng, db: usize, key: &[u8]) {
        self.meet(db, key);
        let (at, position) = (self.at(), self.space.position(key));
        let mut locked = self.space.lock(position);
        let view = locked.get(db, position, key, at);
        let found = view.map(|view| Item { held: held(view.value()), expire_at_ms: view.expire_at_ms() });
        assert_eq!(found.as_ref(), self.dbs[db].get(key));
        if let (Some(view), Some(found)) = (view, found) {
            assert_eq!(view.key(), key);
            if self.clones.len() < 200 && rng.u8(..8) == 0 {
                self.clones.push((view.to_owned(), found));
            }
        }
    }

    /// Writes into an object, of which clones may live.
    fn edit(&mut self, rng: &mut Rng, db: usize, key: &[u8]) {
        self.meet(db, key);
        let (at, position) = (self.at(), self.space.position(key));
        let mut locked = self.space.lock(position);
        let model = self.dbs[db].get_mut(key);
        match (locked.get_mut(db, position, key, at), model) {
            (None, None) => {}
            (Some(None), Some(Item { held: Held::Text(_), .. })) => {}
            (Some(Some(Value::Str(string))), Some(Item { held: Held::Text(bytes), .. })) => {
                string.append(b"more");
                bytes.extend_from_slice(b"more");
            }
            (Some(Some(Value::Hash(hash))), Some(Item { held: Held::Fields(fields), .. })) => {
                let field = rng.u16(..600).to_string().into_bytes();
                if fields.len() > 1 && rng.bool() {
                    assert_eq!(hash.remove(&field), fields.remove(&field).is_some());
                    if fields.is_empty() {
                        hash.set(b"last", b"1", &Thresholds::default());
                        fields.insert(b"last".to_vec(), b"1".to_vec());
                    }
                } else {
                    hash.set(&field, b"edited", &Thresholds::default());
                    fields.insert(field, b"edited".to_vec());
                }
            }
            (found, model) => panic!("found {}, should be {model:?}", found.is_some()),
        }
    }

    fn remove(&mut self, rng: &mut Rng, db: usize, key: &[u8]) {
        self.meet(db, key);
        let position = self.space.position(key);
        let model = self.dbs[db].remove(key);
        let mut locked = self.space.lock(position);
        if rng.bool() {
            assert_eq!(locked.remove(db, position, key, self.now_ms), model.is_some());
            return;
        }
        let taken = locked.take(db, position, key, self.now_ms);
        assert_eq!(taken.as_ref().map(owned_item), model);
        self.clones.extend(taken.zip(model));
    }

    /// As RENAME and COPY do it.
    fn put_clone(&mut self, rng: &mut Rng, db: usize, key: Vec<u8>) {
        if self.clones.is_empty() {
            return;
        }
        let (owned, item) = self.clones.swap_remove(rng.usize(..self.clones.len()));
        self.meet(db, &key);
        let (at, position) = (self.at(), self.space.position(&key));
        self.space.lock(position).put_owned(db, position, &key, &owned, at);
        self.dbs[db].insert(key, item.clone());
        if rng.bool() {
            self.clones.push((owned, item));
        }
    }

    fn set_expire(&mut self, rng: &mut Rng, db: usize, key: &[u8]) {
        self.meet(db, key);
        let expire_at_ms = (rng.u8(..3) > 0).then(|| self.now_ms + rng.i64(-5..5_000));
        let position = self.space.position(key);
        let set = self.space.lock(position).set_expire_at_ms(db, position, key, expire_at_ms, self.now_ms);
        let model = self.dbs[db].get_mut(key);
        assert_eq!(set, model.is_some());
        if let Some(item) = model {
            item.expire_at_ms = expire_at_ms;
        }
    }

    /// Active expiry of all stripes, a few keys at a time.
    fn expire_all(&mut self, rng: &mut Rng) {
        let (mut removed, keys_max) = (0, rng.usize(1..20));
        for stripe in 0..STRIPES {
            loop {
                let (count, more) = self.space.expire_slice(stripe, self.now_ms, keys_max, &mut |_, _, _| {});
                assert!(count <= keys_max && (count == keys_max || !more));
                removed += count;
                if !more {
                    break;
                }
            }
        }
        let before: usize = self.dbs.iter().map(HashMap::len).sum();
        for db in &mut self.dbs {
            db.retain(|_, item| item.expire_at_ms.is_none_or(|at| at >= self.now_ms));
        }
        assert_eq!(removed, before - self.dbs.iter().map(HashMap::len).sum::<usize>());
        self.expired += removed as u64;
    }

    fn flush(&mut self, rng: &mut Rng, db: usize) {
        let all = rng.u8(..4) == 0;
        let chosen = if all { 0..DATABASES } else { db..db + 1 };
        let before: usize = self.dbs[chosen.clone()].iter().map(HashMap::len).sum();
        assert_eq!(self.space.lock_all().flush((!all).then_some(db)), before);
        self.dbs[chosen].iter_mut().for_each(HashMap::clear);
    }

    fn assert_scan(&self, rng: &mut Rng, db: usize) {
        let (mut cursor, mut visits, mut seen) = (0, 0, HashMap::new());
        loop {
            cursor = self.space.scan(None, db, cursor, rng.usize(1..60), self.now_ms, &mut |key, view| {
                visits += 1;
                let item = Item { held: held(view.value()), expire_at_ms: view.expire_at_ms() };
                seen.insert(key.to_vec(), item);
            });
            if cursor == 0 {
                break;
            }
        }
        let live = |item: &Item| item.expire_at_ms.is_none_or(|at| at >= self.now_ms);
        assert_eq!(visits, seen.len(), "nothing changed meanwhile: no key is visited twice");
        assert_eq!(seen.len(), self.dbs[db].values().filter(|item| live(item)).count());
        assert!(seen.iter().all(|(key, item)| self.dbs[db].get(key) == Some(item)));
    }

    fn assert_counters(&self, rng: &mut Rng) {
        for (db, model) in self.dbs.iter().enumerate() {
            let size = self.space.size(db, self.now_ms);
            let times: Vec<i64> = model.values().filter_map(|item| item.expire_at_ms).collect();
            assert_eq!(
                (self.space.len(db), size.keys, size.expires),
                (model.len(), model.len(), times.len())
            );
            let left_ms: i64 = times.iter().map(|at| at - self.now_ms).sum();
            let mean_ms = left_ms.checked_div(times.len() as i64).unwrap_or(0).max(0);
            assert!((size.avg_ttl_ms - mean_ms).abs() <= 1, "{} against {mean_ms}", size.avg_ttl_ms);
            let random = self.space.random_key(None, db, rng);
            assert_eq!(random.is_some(), !model.is_empty());
            assert!(random.is_none_or(|key| model.contains_key(&key)));
        }
        assert_eq!(self.space.expired_keys(), self.expired);
        assert_eq!(self.space.is_empty(), self.dbs.iter().all(HashMap::is_empty));
        assert!(self.clones.iter().all(|(owned, item)| owned_item(owned) == *item));
    }

    fn assert_same(&mut self, rng: &mut Rng) {
        self.assert_counters(rng);
        for db in 0..DATABASES {
            self.assert_scan(rng, db);
            for key in self.dbs[db].keys().cloned().collect::<Vec<_>>() {
                self.get(rng, db, &key);
            }
        }
    }

    fn step(&mut self, rng: &mut Rng, growing: bool) {
        let db = if rng.u8(..4) == 0 { rng.usize(..DATABASES) } else { 0 };
        let number = rng.u32(..3_000);
        // Some keys share a slot and so a table, others a stripe by chance.
        let key = if number.is_multiple_of(3) { format!("{{t}}{number}") } else { format!("key:{number}") };
        let key = key.into_bytes();
        self.now_ms += i64::from(rng.u8(..4) == 0);
        match if growing { rng.u16(..1000) } else { rng.u16(300..1000) } {
            0..500 => self.put(rng, db, key),
            500..600 => self.get(rng, db, &key),
            600..700 => self.edit(rng, db, &key),
            700..750 => self.set_expire(rng, db, &key),
            750..800 => self.put_clone(rng, db, key),
            800..990 => self.remove(rng, db, &key),
            990..993 => self.assert_scan(rng, db),
            993..995 => self.assert_counters(rng),
            995..997 => self.expire_all(rng),
            997..998 => self.now_ms += 500,
            998 => {
                let other = rng.usize(..DATABASES);
                self.space.lock_all().swap(db, other);
                self.dbs.swap(db, other);
            }
            _ if rng.u8(..4) == 0 => self.flush(rng, db),
            _ => self.clones.truncate(20),
        }
    }
}

/// Runs `work` with a new pair, and its reaper on a thread or on none; then all memory must be back.
fn in_bounded_memory(placement: Placement, with_reaper: bool, work: impl FnOnce(&mut Pair)) {
    let before_bytes = used_bytes();
    let mut pair = Pair::new(placement);
    let reaper = with_reaper.then(|| {
        let reaper = pair.space.take_reaper().expect("a new keyspace");
        std::thread::spawn(|| reaper.run())
    });
    work(&mut pair);
    drop(pair);
    if let Some(reaper) = reaper {
        reaper.join().expect("the reaper ends with its keyspace");
    }
    let after_bytes = used_bytes();
    assert!(after_bytes < before_bytes + SLACK_BYTES, "{before_bytes} bytes before, {after_bytes} after");
}

#[test]
fn random_operations_match_maps() {
    let _turn = TURN.lock();
    with_seeds(20_000, |rng, steps| {
        let placement = if rng.bool() { Placement::Slots } else { Placement::Hash };
        in_bounded_memory(placement, rng.bool(), |pair| {
            for step in 0..steps {
                pair.step(rng, is_growing(step, steps));
            }
            pair.assert_same(rng);
        });
    });
}

#[test]
fn one_slot_grows_to_many_leaves_and_shrinks_to_none() {
    let _turn = TURN.lock();
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    in_bounded_memory(Placement::Slots, true, |pair| {
        let (count, kept) = (120_000, 100);
        let key = |n: usize| format!("{{tag}}:{n}").into_bytes();
        let (at, slot) = (pair.at(), pair.space.position(&key(0)).slot());
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        let before_bytes = used_bytes();
        for n in 0..count {
            let (key, expiry) = (key(n), if n % 10 == 0 { Expiry::At(BIRTH_MS + 1) } else { Expiry::Clear });
            let position = pair.space.position(&key);
            pair.space.lock(position).put_string(0, position, &key, &key, Form::Plain, expiry, at);
        }
        assert_eq!((pair.space.len(0), pair.space.count_in_slot(0, slot)), (count, count));
        assert_eq!(pair.space.size(0, BIRTH_MS).expires, count / 10);
        assert!(used_bytes() > before_bytes + count * 16);
        let mut seen = 0;
        let mut cursor = 0;
        loop {
            cursor = pair.space.scan(None, 0, cursor, 1_000, BIRTH_MS, &mut |_, _| seen += 1);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, count);
        let (stay, go) = order.split_at(kept);
        for n in go {
            let (key, position) = (key(*n), pair.space.position(&key(*n)));
            let taken =
                pair.space.lock(position).take(0, position, &key, BIRTH_MS).map(|owned| owned_item(&owned));
            assert_eq!(taken.map(|item| item.held), Some(Held::Text(key)));
        }
        let mut keys = pair.space.keys_in_slot(None, 0, slot, count);
        let mut wanted: Vec<Vec<u8>> = stay.iter().map(|n| key(*n)).collect();
        keys.sort();
        wanted.sort();
        assert_eq!(keys, wanted);
        // The leaves were joined again: what is left costs little more than in a new keyspace.
        let bytes = used_bytes() - before_bytes;
        assert!(bytes < SLACK_BYTES, "{kept} keys take {bytes} bytes");
        assert_eq!(pair.space.lock_all().flush(Some(0)), kept);
        assert_eq!((pair.space.len(0), pair.space.count_in_slot(0, slot)), (0, 0));
        assert_eq!(pair.space.size(0, BIRTH_MS).expires, 0);
    });
}

#[test]
fn times_at_the_end_of_an_i64_are_counted_and_forgotten() {
    let _turn = TURN.lock();
    in_bounded_memory(Placement::Hash, true, |pair| {
        for n in 0..50i64 {
            let (key, at) = (n.to_string(), pair.at());
            let (key, position) = (key.as_bytes(), pair.space.position(key.as_bytes()));
            let mut locked = pair.space.lock(position);
            locked.put_string(0, position, key, b"v", Form::Plain, Expiry::At(i64::MAX - n), at);
            drop(locked);
            assert_eq!(pair.space.size(0, BIRTH_MS).expires, n as usize + 1);
        }
        assert_eq!(pair.space.lock_all().flush(None), 50);
        assert_eq!(pair.space.size(0, BIRTH_MS), DbSize::default());
    });
}

#[test]
fn a_database_that_nobody_used_costs_nothing() {
    let _turn = TURN.lock();
    in_bounded_memory(Placement::Hash, false, |pair| {
        let (at, position) = (pair.at(), pair.space.position(b"k"));
        let due = Expiry::At(BIRTH_MS + 1);
        pair.space.lock(position).put_string(0, position, b"k", b"v", Form::Plain, due, at);
        let before_bytes = used_bytes();
        assert_eq!(
            pair.space.expire_slice(position.stripe(), BIRTH_MS + 10, 10, &mut |_, _, _| {}),
            (1, false)
        );
        assert_eq!((pair.space.lock_all().flush(None), pair.space.len(1)), (0, 0));
        // A database is hundreds of KiB: the harness's own allocations, in other threads, are not.
        let built_bytes = used_bytes().saturating_sub(before_bytes);
        assert!(
            built_bytes < ONE_DATABASE_BYTES / 2,
            "expiry built the other databases: {built_bytes} bytes"
        );
    });
}

#[test]
fn every_key_is_drawn_about_as_often() {
    let _turn = TURN.lock();
    let space = Keyspace::new(1, Placement::Hash, BIRTH_MS);
    let at = Instant { now_ms: BIRTH_MS, touch: None };
    for number in 0..200 {
        let key = format!("key:{number}").into_bytes();
        let position = space.position(&key);
        space.lock(position).put_string(0, position, &key, b"", Form::Plain, Expiry::Clear, at);
    }
    let (mut rng, mut drawn) = (Rng::with_seed(1), HashMap::new());
    for _ in 0..20_000 {
        let key = space.random_key(None, 0, &mut rng).expect("a key");
        *drawn.entry(key).or_insert(0) += 1;
    }
    assert_eq!(drawn.len(), 200);
    // 100 times each, and 10 more or less by chance.
    assert!(drawn.values().all(|times| (30..300).contains(times)), "{drawn:?}");
}
