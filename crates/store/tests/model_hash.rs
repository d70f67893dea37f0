//! `Hash` against `BTreeMap`, with the ends of fields and time going on.

mod model_support;

use std::collections::BTreeMap;

use fastrand::Rng;
use model_support::{element, is_growing, thresholds, with_seeds};
use store::{Encoding, Hash, Thresholds};

/// A field's value, and its end in ms.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn is_live(end_ms: Option<i64>, now_ms: i64) -> bool {
    end_ms.is_none_or(|end| end >= now_ms)
}

fn live(model: &Model, now_ms: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let live = model.iter().filter(|(_, (_, end))| is_live(*end, now_ms));
    live.map(|(field, (value, _))| (field.clone(), value.clone())).collect()
}

fn assert_same(hash: &Hash, model: &Model, now_ms: i64, rng: &mut Rng) {
    let alive = live(model, now_ms);
    assert_eq!((hash.len(), hash.live_len(now_ms)), (model.len(), alive.len()));
    assert_eq!(hash.soonest_end_ms(), model.values().filter_map(|(_, end)| *end).min());
    let (mut all, mut seen, mut rank) = (hash.iter(), Model::new(), 0);
    while let Some((field, value, end)) = all.next_with_end() {
        assert_eq!(hash.at(rank), Some((field, value)));
        assert_eq!(hash.end_ms(field), Some(end));
        assert_eq!(hash.get(field, now_ms), is_live(end, now_ms).then_some(value));
        seen.insert(field.to_vec(), (value.to_vec(), end));
        rank += 1;
    }
    assert_eq!((rank, all.remaining()), (model.len(), 0));
    assert_eq!(seen, *model);
    let (mut iter, mut seen) = (hash.live_iter(now_ms), BTreeMap::new());
    assert_eq!(iter.remaining(), alive.len());
    while let Some((field, value)) = iter.next() {
        seen.insert(field.to_vec(), value.to_vec());
    }
    assert_eq!((iter.remaining(), &seen), (0, &alive));
    let (mut cursor, mut visits, mut scanned) = (0, 0, BTreeMap::new());
    loop {
        cursor = hash.scan(cursor, rng.usize(1..50), now_ms, &mut |field, value| {
            visits += 1;
            scanned.insert(field.to_vec(), value.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((visits, &scanned), (alive.len(), &alive));
}

fn set_end(hash: &mut Hash, model: &mut Model, field: &[u8], end_ms: Option<i64>) {
    assert_eq!(hash.set_end_ms(field, end_ms), model.contains_key(field));
    if let Some((_, end)) = model.get_mut(field) {
        *end = end_ms;
    }
}

fn remove_past(hash: &mut Hash, model: &mut Model, now_ms: i64, fields_max: usize) {
    let past = hash.remove_past(now_ms, fields_max);
    let expected = model.values().filter(|(_, end)| !is_live(*end, now_ms)).count().min(fields_max);
    assert_eq!(past.len(), expected);
    let mut ends = Vec::new();
    for field in past {
        let (_, end) = model.remove(&field[..]).expect("it was there");
        ends.push(end.expect("it had an end"));
    }
    assert!(ends.is_sorted() && ends.last().is_none_or(|last| *last < now_ms));
    assert!(hash.soonest_end_ms().is_none_or(|soonest| ends.last().is_none_or(|last| soonest >= *last)));
}

/// `timed`: fields get ends, and time goes on.
fn random_operations_match(timed: bool) {
    with_seeds(4000, |rng, steps| {
        let t = thresholds(rng);
        let (mut hash, mut model) = (Hash::new(), Model::new());
        let mut clones: Vec<(Hash, Model)> = Vec::new();
        let mut now_ms = 1_000_000;
        for step in 0..steps {
            let (field, value) = (element(rng, 3000), element(rng, 3000));
            let operation = if is_growing(step, steps) { rng.u32(..12) } else { rng.u32(5..20) };
            match operation {
                0..=6 => {
                    assert_eq!(hash.set(&field, &value, &t), model.insert(field, (value, None)).is_none());
                }
                7..=8 => {
                    let end = model.get(&field).and_then(|(_, end)| *end);
                    let added = hash.set_value(&field, &value, &t);
                    assert_eq!(added, model.insert(field, (value, end)).is_none());
                }
                9..=11 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                12..=18 => {
                    if let Some(field) = hash.at(rng.usize(..=model.len())).map(|(field, _)| field.to_vec()) {
                        assert!(hash.remove(&field) && model.remove(&field).is_some());
                    }
                }
                _ => clones.push((hash.clone(), model.clone())),
            }
            if timed && step > steps / 8 {
                now_ms += rng.i64(0..20);
                let field = match hash.at(rng.usize(..=model.len())) {
                    Some((field, _)) => field.to_vec(),
                    None => element(rng, 3000),
                };
                let end = (rng.u32(..8) > 0).then(|| now_ms + rng.i64(-50..4000));
                set_end(&mut hash, &mut model, &field, end);
                if rng.u32(..16) == 0 {
                    remove_past(&mut hash, &mut model, now_ms, rng.usize(..100));
                }
            }
            let probe = element(rng, 3000);
            let expected =
                model.get(&probe).filter(|(_, end)| is_live(*end, now_ms)).map(|(value, _)| &value[..]);
            assert_eq!(hash.get(&probe, now_ms), expected);
            assert_eq!(hash.contains(&probe, now_ms), expected.is_some());
            assert_eq!(hash.is_past_end(&probe, now_ms), expected.is_none() && model.contains_key(&probe));
            assert_eq!(hash.value_len(&probe, now_ms), expected.map_or(0, <[u8]>::len));
            if step % 256 == 0 {
                assert_same(&hash, &model, now_ms, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, now_ms, rng);
            }
        }
        clones.push((hash, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, now_ms, rng));
    });
}

#[test]
fn random_operations_match_a_map() {
    random_operations_match(false);
}

#[test]
fn random_operations_with_ends_match_a_map() {
    random_operations_match(true);
}

#[test]
fn a_small_hash_keeps_insertion_order_until_a_threshold() {
    let t = Thresholds::default();
    for timed in [false, true] {
        let small = if timed { Encoding::ListpackEx } else { Encoding::Listpack };
        let mut hash = Hash::new();
        for i in (0..128).rev() {
            assert!(hash.set(format!("f{i}").as_bytes(), &[b'v'; 64], &t));
        }
        assert_eq!(hash.encoding(), Encoding::Listpack);
        if timed {
            assert!(!hash.set_end_ms(b"nofield", Some(5)), "asking is enough to change the encoding");
        }
        assert!(!hash.set(b"f5", b"again", &t));
        assert_eq!(hash.at(127 - 5), Some((&b"f5"[..], &b"again"[..])));
        assert_eq!(hash.encoding(), small);
        let mut large_value = hash.clone();
        assert!(!large_value.set(b"f5", &[b'v'; 65], &t));
        assert_eq!(large_value.encoding(), Encoding::Hashtable);
        assert!(hash.set(b"f128", b"", &t));
        assert_eq!(hash.encoding(), Encoding::Hashtable);
        assert!((0..129).all(|i| hash.remove(format!("f{i}").as_bytes())));
        assert_eq!((hash.len(), hash.encoding()), (0, Encoding::Hashtable));
    }
}

#[test]
fn the_first_end_of_a_large_hash_copies_nothing() {
    let mut hash = Hash::new();
    for i in 0..20_000 {
        hash.set(format!("f{i}").as_bytes(), b"value", &Thresholds::default());
    }
    let bytes = hash.memory_bytes();
    assert!(hash.set_end_ms(b"f7", Some(1)));
    assert!(hash.memory_bytes() < bytes + 1000, "{} after {bytes}", hash.memory_bytes());
    assert_eq!((hash.past_len(1), hash.past_len(2)), (0, 1));
}

#[test]
fn hashes_built_at_once_equal_those_built_one_by_one() {
    with_seeds(60, |rng, steps| {
        for _ in 0..steps {
            let t = thresholds(rng);
            let mut model = Model::new();
            let mut set = Hash::new();
            for _ in 0..rng.usize(..800) {
                model.insert(element(rng, 5_000), (element(rng, 500), None));
            }
            for (field, (value, _)) in &model {
                set.set(field, value, &t);
            }
            let fields = model.iter().map(|(field, (value, _))| (field, value));
            let built = Hash::from_fields(fields, &t);
            assert_same(&built, &model, 0, rng);
            assert_eq!(built.encoding(), set.encoding());
        }
    });
}
