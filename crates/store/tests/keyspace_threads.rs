//! Threads on one keyspace: money moves between keys and none is made or lost, whatever else goes on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant as Timer};

use fastrand::Rng;
use store::entry::{Form, Payload};
use store::{
    Expiry, Hash, Instant, Keyspace, Locked, Placement, Position, STRIPES, Thresholds, Touch, Typed, Value,
    ValueRef,
};

const ACCOUNTS: usize = 300;
const THREADS: usize = 4;
const OPENING: i64 = 1_000;
/// Bounds the run; nothing is asserted of it.
const RUN: Duration = Duration::from_millis(600);
const NOW_MS: i64 = 1_700_000_000_000;
const AT: Instant = Instant { now_ms: NOW_MS, touch: Some(Touch::Recency) };

/// The accounts' database. Its tables grow and shrink by the churn of every thread.
const MONEY: usize = 0;
/// Exchanged with each other and flushed all the time.
const SCRATCH: [usize; 2] = [1, 2];
/// Keys that expire.
const EXPIRING: usize = 3;

/// Half of the accounts share one table, with the churn.
fn account(n: usize) -> Vec<u8> {
    if n.is_multiple_of(2) {
        format!("{{bank}}{n}").into_bytes()
    } else {
        format!("account:{n}").into_bytes()
    }
}

/// Some accounts are objects: a hash with the balance in its only field, beside ballast.
fn is_object(n: usize) -> bool {
    n.is_multiple_of(5)
}

fn parsed(bytes: &[u8]) -> i64 {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a balance is a number")
}

fn balance(locked: &mut Locked<'_>, position: Position, key: &[u8]) -> i64 {
    let view = locked.get(MONEY, position, key, AT).expect("an account is never deleted");
    match view.value() {
        ValueRef::Inline(bytes) => parsed(bytes),
        ValueRef::Object(Value::Hash(hash)) => parsed(hash.get(b"balance", 0).expect("the field stays")),
        ValueRef::Object(_) => panic!("no other objects are stored"),
    }
}

fn set_balance(locked: &mut Locked<'_>, position: Position, key: &[u8], amount: i64) {
    // The text changes its length, so entries are overwritten and replaced.
    let text = amount.to_string();
    match locked.get_mut(MONEY, position, key, AT).expect("an account is never deleted") {
        Some(object) => {
            let hash = Hash::of_mut(object).expect("objects are hashes");
            hash.set(b"balance", text.as_bytes(), &Thresholds::default());
        }
        None => {
            locked.put_string(MONEY, position, key, text.as_bytes(), Form::Plain, Expiry::Keep, AT);
        }
    }
}

fn open_accounts(space: &Keyspace) {
    for n in 0..ACCOUNTS {
        let (key, text) = (account(n), OPENING.to_string());
        let position = space.position(&key);
        let mut locked = space.lock(position);
        if is_object(n) {
            let mut hash = Hash::new();
            hash.set(b"balance", text.as_bytes(), &Thresholds::default());
            // Of several nodes, which clones on other threads share.
            for ballast in 0..if n.is_multiple_of(50) { 500 } else { 3 } {
                hash.set(format!("ballast:{ballast}").as_bytes(), &[b'b'; 30], &Thresholds::default());
            }
            locked.put(MONEY, position, &key, Payload::Object(hash.into_value()), Expiry::Clear, AT);
        } else {
            locked.put_string(MONEY, position, &key, text.as_bytes(), Form::Plain, Expiry::Clear, AT);
        }
    }
}

/// One thread's part: its randomness, and the churn keys that only it writes.
struct Actor<'a> {
    space: &'a Keyspace,
    rng: Rng,
    name: usize,
    churn: BTreeSet<u32>,
    /// Each clone with what it said when it was taken.
    clones: Vec<(Value, i64)>,
    expiring: u64,
}

impl Actor<'_> {
    fn transfer(&mut self) {
        let from = self.rng.usize(..ACCOUNTS);
        let others: Vec<usize> = (0..self.rng.usize(1..6)).map(|_| self.rng.usize(..ACCOUNTS)).collect();
        let placed = |n: &usize| (self.space.position(&account(*n)), account(*n));
        let mut stripes: Vec<usize> = others.iter().chain([&from]).map(|n| placed(n).0.stripe()).collect();
        let mut locked = if self.rng.u8(..64) == 0 {
            self.space.lock_all()
        } else {
            self.space.lock_stripes(&mut stripes)
        };
        let (from_position, from_key) = placed(&from);
        for n in &others {
            let ((position, key), amount) = (placed(n), self.rng.i64(-300..300));
            let paid = balance(&mut locked, from_position, &from_key) - amount;
            set_balance(&mut locked, from_position, &from_key, paid);
            let received = balance(&mut locked, position, &key) + amount;
            set_balance(&mut locked, position, &key, received);
        }
    }

    fn audit(&mut self) {
        let mut locked = self.space.lock_all();
        let total: i64 =
            (0..ACCOUNTS).map(|n| balance(&mut locked, self.space.position(&account(n)), &account(n))).sum();
        assert_eq!(total, OPENING * ACCOUNTS as i64);
    }

    /// Clones an object under the lock and reads it again later without.
    fn clone_object(&mut self) {
        let key = account(self.rng.usize(..ACCOUNTS / 5) * 5);
        let position = self.space.position(&key);
        let mut locked = self.space.lock(position);
        let says = balance(&mut locked, position, &key);
        let view = locked.get(MONEY, position, &key, AT).expect("an account is never deleted");
        let ValueRef::Object(value) = view.value() else { panic!("every fifth account is an object") };
        self.clones.push((value.clone(), says));
        drop(locked);
        if self.clones.len() > 50 {
            let (value, says) = self.clones.swap_remove(self.rng.usize(..50));
            let hash = Hash::of(&value).expect("objects are hashes");
            assert_eq!(hash.get(b"balance", 0).map(parsed), Some(says));
        }
    }

    fn churn_key(&self, number: u32) -> Vec<u8> {
        format!("{{bank}}churn:{}:{number}", self.name).into_bytes()
    }

    fn churn(&mut self, growing: bool) {
        let number = self.rng.u32(..4_000);
        let key = self.churn_key(number);
        let position = self.space.position(&key);
        let mut locked = self.space.lock(position);
        if self.rng.u8(..4) < if growing { 3 } else { 1 } {
            let bytes = vec![b'c'; self.rng.usize(..200)];
            locked.put_string(MONEY, position, &key, &bytes, Form::Plain, Expiry::Clear, AT);
            self.churn.insert(number);
        } else {
            assert_eq!(locked.remove(MONEY, position, &key, NOW_MS), self.churn.remove(&number));
        }
    }

    fn scratch(&mut self) {
        let db = SCRATCH[self.rng.usize(..2)];
        match self.rng.u16(..2_000) {
            0 => drop(self.space.lock_all().flush(Some(db))),
            1..4 => self.space.lock_all().swap(SCRATCH[0], SCRATCH[1]),
            4..10 => {
                let mut cursor = 0;
                loop {
                    cursor = self.space.scan(None, db, cursor, 100, NOW_MS, &mut |key, view| {
                        assert!(matches!(view.value(), ValueRef::Inline(bytes) if bytes == key));
                    });
                    if cursor == 0 {
                        break;
                    }
                }
            }
            _ => {
                let key = format!("scratch:{}", self.rng.u32(..20_000)).into_bytes();
                let position = self.space.position(&key);
                let mut locked = self.space.lock(position);
                if let Some(view) = locked.get(db, position, &key, AT) {
                    assert!(matches!(view.value(), ValueRef::Inline(bytes) if *bytes == key));
                } else {
                    locked.put_string(db, position, &key, &key, Form::Plain, Expiry::Clear, AT);
                }
            }
        }
    }

    fn expire(&mut self) {
        let key = format!("due:{}:{}", self.name, self.expiring).into_bytes();
        self.expiring += 1;
        let position = self.space.position(&key);
        let due = Expiry::At(NOW_MS - 1);
        self.space.lock(position).put_string(EXPIRING, position, &key, b"v", Form::Plain, due, AT);
        let stripe = if self.rng.bool() { position.stripe() } else { self.rng.usize(..STRIPES) };
        self.space.expire_slice(stripe, NOW_MS, 3, &mut |_, _, _| {});
    }

    /// Every account is there throughout, so a scan meets it, whatever the churn does to its table.
    fn scan_accounts(&mut self) {
        let (mut cursor, mut seen) = (0, BTreeSet::new());
        loop {
            cursor = self.space.scan(None, MONEY, cursor, 50, NOW_MS, &mut |key, _| {
                seen.insert(key.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert!((0..ACCOUNTS).all(|n| seen.contains(&account(n))));
    }

    fn step(&mut self, step: u64) {
        match self.rng.u16(..1_000) {
            0..400 => self.transfer(),
            400..650 => self.churn((step / 5_000).is_multiple_of(2)),
            650..800 => self.scratch(),
            800..900 => self.expire(),
            900..990 => self.clone_object(),
            990..996 => self.audit(),
            _ => self.scan_accounts(),
        }
    }
}

/// What a worker does before it takes a lock, for keys that others are at.
fn prefetch_until(space: &Keyspace, done: &AtomicBool, mut rng: Rng) {
    while !done.load(Relaxed) {
        let key = match rng.u8(..3) {
            0 => account(rng.usize(..ACCOUNTS)),
            1 => format!("{{bank}}churn:{}:{}", rng.usize(..THREADS), rng.u32(..4_000)).into_bytes(),
            _ => format!("scratch:{}", rng.u32(..20_000)).into_bytes(),
        };
        let (db, position) = (rng.usize(..4), space.position(&key));
        let prefetcher = space.prefetcher(db);
        prefetcher.root(position);
        prefetcher.bucket(position);
        prefetcher.entry(position);
    }
}

#[test]
fn money_is_neither_made_nor_lost() {
    let seed = std::env::var("HALCYON_MODEL_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("HALCYON_MODEL_SEED={seed} (the schedule of the threads is not replayed)");
    for placement in [Placement::Slots, Placement::Hash] {
        let space = Keyspace::new(4, placement, NOW_MS);
        open_accounts(&space);
        let done = AtomicBool::new(false);
        let reaper = space.take_reaper().expect("a new keyspace");
        let reaper = std::thread::spawn(|| reaper.run());
        let actors: Vec<Actor<'_>> = std::thread::scope(|scope| {
            scope.spawn(|| prefetch_until(&space, &done, Rng::with_seed(seed)));
            let threads: Vec<_> = (0..THREADS)
                .map(|name| {
                    let rng = Rng::with_seed(seed.wrapping_add(name as u64 + 1));
                    let (churn, clones) = (BTreeSet::new(), Vec::new());
                    let mut actor = Actor { space: &space, rng, name, churn, clones, expiring: 0 };
                    scope.spawn(move || {
                        let (end, mut step) = (Timer::now() + RUN, 0);
                        while step < 1_000 || Timer::now() < end {
                            actor.step(step);
                            step += 1;
                        }
                        actor
                    })
                })
                .collect();
            // Joined all before any is judged: the reader must end even if an actor failed.
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            done.store(true, Relaxed);
            ended.into_iter().map(|actor| actor.expect("an actor found a contradiction")).collect()
        });

        let mut expired = space.expired_keys();
        for stripe in 0..STRIPES {
            let (removed, more) = space.expire_slice(stripe, NOW_MS, usize::MAX, &mut |_, _, _| {});
            assert!(!more);
            expired += removed as u64;
        }
        assert_eq!(expired, actors.iter().map(|actor| actor.expiring).sum::<u64>());
        assert_eq!((space.len(EXPIRING), space.size(EXPIRING, NOW_MS).expires), (0, 0));

        let churn: usize = actors.iter().map(|actor| actor.churn.len()).sum();
        assert_eq!(space.len(MONEY), ACCOUNTS + churn);
        for mut actor in actors {
            actor.audit();
            actor.scan_accounts();
            for number in &actor.churn {
                let key = actor.churn_key(*number);
                let position = space.position(&key);
                assert!(space.lock(position).get(MONEY, position, &key, AT).is_some());
            }
        }
        for db in SCRATCH {
            let mut keys = 0;
            let mut cursor = 0;
            loop {
                cursor = space.scan(None, db, cursor, 1_000, NOW_MS, &mut |_, _| keys += 1);
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(space.len(db), keys);
            assert_eq!(space.lock_all().flush(Some(db)), keys);
        }
        drop(space);
        reaper.join().expect("the reaper ends with its keyspace");
    }
}
