//! Tests of a slot's table: against a map, through splits and joins, under scans and readers without a lock.

use std::collections::HashMap;

use super::*;
use crate::entry::{Form, Payload};

fn position(key: &[u8]) -> u64 {
    // Few hash bits in use at the top, so that leaves split unevenly.
    (crate::keyhash::key_hash(key) >> 14) & ((1 << HASH_BITS) - 1)
}

fn key_of(entry: Entry) -> Vec<u8> {
    // SAFETY: single-threaded test, entry live.
    unsafe { entry.key() }.to_vec()
}

fn make(key: &[u8]) -> Entry {
    Entry::new(key, Payload::Inline { bytes: b"v", form: Form::Plain }, None, 0)
}

#[test]
fn behaves_as_a_map_through_growth_and_shrinking() {
    let seed = 11;
    let mut rng = fastrand::Rng::with_seed(seed);
    let root = Word::new(std::ptr::null_mut());
    let mut model: HashMap<Vec<u8>, Entry> = HashMap::new();
    let at = |entry: Entry| position(&key_of(entry));
    let (steps, space) = if cfg!(miri) { (1_500, 400) } else { (60_000, 6_000) };
    for step in 0..steps {
        // Phases of growth and of shrinking.
        let growing = step * 4 / steps % 2 == 0;
        let key = format!("key:{}", rng.usize(..space)).into_bytes();
        let found = find(&root, position(&key), |entry| key_of(entry) == key);
        assert_eq!(found.is_some(), model.contains_key(&key), "seed {seed} step {step}");
        match (found, rng.u8(..) < if growing { 200 } else { 50 }) {
            (None, true) => {
                let new = make(&key);
                insert(&root, position(&key), new, &at);
                model.insert(key, new);
            }
            (Some(old), true) => {
                let new = make(&key);
                replace(&root, position(&key), old, new);
                // SAFETY: replaced, so out of the table.
                unsafe { old.dispose() };
                model.insert(key, new);
            }
            (Some(old), false) => {
                remove(&root, position(&key), old, &at);
                // SAFETY: removed, so out of the table.
                unsafe { old.dispose() };
                model.remove(&key);
            }
            (None, false) => {}
        }
    }
    for (key, held) in &model {
        assert!(find(&root, position(key), |entry| key_of(entry) == *key) == Some(*held));
    }
    let mut drained = 0;
    drain(root.load(Relaxed), &mut |entry| {
        drained += 1;
        // SAFETY: handed out by the drain, once.
        unsafe { entry.dispose() };
    });
    assert_eq!(drained, model.len());
}

#[test]
fn leaves_are_split_and_joined_again() {
    let root = Word::new(std::ptr::null_mut());
    let at = |entry: Entry| position(&key_of(entry));
    let is_branch = || root.load(Relaxed).addr() & CODE_MASK == BRANCH;
    let mut entries: Vec<Entry> = Vec::new();
    for n in 0..LEAF_ENTRIES_MAX * 3 {
        let new = make(format!("key:{n}").as_bytes());
        insert(&root, at(new), new, &at);
        entries.push(new);
    }
    assert!(is_branch());
    for (left, old) in entries.into_iter().enumerate().rev() {
        remove(&root, at(old), old, &at);
        // SAFETY: removed, so out of the table.
        unsafe { old.dispose() };
        assert!(left > JOIN_ENTRIES / 4 || !is_branch(), "{left} entries lie in more than one leaf");
    }
    assert!(root.load(Relaxed).is_null());
}

/// Readers without a lock, as a worker's prefetches are, beside a writer whose blocks come and go.
/// Under Miri a read of an entry, or of a block not yet handed over, is a data race and fails.
#[test]
fn unlocked_readers_follow_blocks_and_never_an_entry() {
    let root = Word::new(std::ptr::null_mut());
    let done = std::sync::atomic::AtomicBool::new(false);
    let at = |entry: Entry| position(&key_of(entry));
    let (rounds, space) = if cfg!(miri) { (2, 160) } else { (8, 3_000) };
    let key = |n: usize| format!("key:{n}").into_bytes();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (root, done, key) = (&root, &done, &key);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                // Miri runs one thread at a time: readers must not take all of it.
                let mut looks = if cfg!(miri) { 1_500 } else { usize::MAX };
                while !done.load(Relaxed) && looks > 0 {
                    looks -= 1;
                    let position = position(&key(rng.usize(..space)));
                    prefetch_bucket(root, position);
                    prefetch_entry(root, position);
                }
            });
        }
        for round in 0..rounds {
            let mut entries: Vec<Entry> = Vec::new();
            for n in 0..space {
                let new = make(&key(n));
                insert(&root, position(&key(n)), new, &at);
                entries.push(new);
            }
            let found = |n: &usize| {
                glimpse_entry(&root, position(&key(*n))).is_some_and(|at| at == entries[*n].as_ptr())
            };
            // The rest lies beyond its home bucket.
            assert!((0..space).filter(found).count() * 2 > space);
            if round + 1 == rounds {
                // SAFETY: the drain takes the table out of use by this thread, and no reader reads entries.
                drain(root.swap(std::ptr::null_mut(), Relaxed), &mut |entry| {
                    drop(unsafe { entry.dispose() })
                });
                break;
            }
            for old in entries {
                remove(&root, at(old), old, &at);
                // SAFETY: removed, so out of the table.
                unsafe { old.dispose() };
            }
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_scan_meets_every_key_that_stays_whatever_happens_to_the_others() {
    let mut rng = fastrand::Rng::with_seed(3);
    let root = Word::new(std::ptr::null_mut());
    let at = |entry: Entry| position(&key_of(entry));
    let stay = if cfg!(miri) { 150 } else { 2_000 };
    let mut others: Vec<Entry> = Vec::new();
    for n in 0..stay {
        let key = format!("stay:{n}").into_bytes();
        insert(&root, position(&key), make(&key), &at);
    }
    let mut seen = std::collections::HashSet::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let count = std::cell::Cell::new(0);
        cursor = scan(
            &root,
            from,
            &mut |entry| {
                count.set(count.get() + 1);
                seen.insert(key_of(entry));
            },
            &mut || count.get() < 10,
        );
        for _ in 0..40 {
            if rng.bool() && !others.is_empty() {
                let old = others.swap_remove(rng.usize(..others.len()));
                remove(&root, at(old), old, &at);
                // SAFETY: removed, so out of the table.
                unsafe { old.dispose() };
            } else {
                let key = format!("other:{}", rng.u64(..)).into_bytes();
                let new = make(&key);
                insert(&root, position(&key), new, &at);
                others.push(new);
            }
        }
    }
    for n in 0..stay {
        assert!(seen.contains(format!("stay:{n}").as_bytes()), "stay:{n}");
    }
    // SAFETY: the table is dropped with its entries.
    drain(root.load(Relaxed), &mut |entry| drop(unsafe { entry.dispose() }));
}
