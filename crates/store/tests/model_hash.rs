//! `Hash` against `BTreeMap`.

mod model_support;

use std::collections::BTreeMap;

use fastrand::Rng;
use model_support::{element, is_growing, thresholds, with_seeds};
use store::{Encoding, Hash, Thresholds};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn assert_same(hash: &Hash, model: &Model, rng: &mut Rng) {
    assert_eq!(hash.len(), model.len());
    let mut iter = hash.iter();
    let mut seen = Model::new();
    let mut rank = 0;
    while let Some((field, value)) = iter.next() {
        assert_eq!(hash.at(rank), Some((field, value)));
        assert_eq!(hash.get(field), Some(value));
        seen.insert(field.to_vec(), value.to_vec());
        rank += 1;
    }
    assert_eq!((rank, iter.remaining()), (model.len(), 0));
    assert_eq!(seen, *model);
    let (mut cursor, mut visits, mut scanned) = (0, 0, Model::new());
    loop {
        cursor = hash.scan(cursor, rng.usize(1..50), &mut |field, value| {
            visits += 1;
            scanned.insert(field.to_vec(), value.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((visits, &scanned), (model.len(), model));
}

#[test]
fn random_operations_match_a_map() {
    with_seeds(4000, |rng, steps| {
        let t = thresholds(rng);
        let (mut hash, mut model) = (Hash::new(), Model::new());
        let mut clones: Vec<(Hash, Model)> = Vec::new();
        for step in 0..steps {
            let (field, value) = (element(rng, 3000), element(rng, 3000));
            let operation = if is_growing(step, steps) { rng.u32(..12) } else { rng.u32(5..20) };
            match operation {
                0..=8 => {
                    assert_eq!(hash.set(&field, &value, &t), model.insert(field, value).is_none());
                }
                9..=11 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                12..=18 => {
                    if let Some(field) = hash.at(rng.usize(..=model.len())).map(|(field, _)| field.to_vec()) {
                        assert!(hash.remove(&field) && model.remove(&field).is_some());
                    }
                }
                _ => clones.push((hash.clone(), model.clone())),
            }
            let probe = element(rng, 3000);
            assert_eq!(hash.get(&probe), model.get(&probe).map(|value| &value[..]));
            assert_eq!(hash.value_len(&probe), model.get(&probe).map_or(0, Vec::len));
            if step % 256 == 0 {
                assert_same(&hash, &model, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, rng);
            }
        }
        clones.push((hash, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, rng));
    });
}

#[test]
fn a_small_hash_keeps_insertion_order_until_a_threshold() {
    let t = Thresholds::default();
    let mut hash = Hash::new();
    for i in (0..128).rev() {
        assert!(hash.set(format!("f{i}").as_bytes(), &[b'v'; 64], &t));
    }
    assert!(!hash.set(b"f5", b"again", &t));
    assert_eq!(hash.at(127 - 5), Some((&b"f5"[..], &b"again"[..])));
    assert_eq!(hash.encoding(), Encoding::Listpack);
    let mut large_value = hash.clone();
    assert!(!large_value.set(b"f5", &[b'v'; 65], &t));
    assert_eq!(large_value.encoding(), Encoding::Hashtable);
    assert!(hash.set(b"f128", b"", &t));
    assert_eq!(hash.encoding(), Encoding::Hashtable);
    assert!((0..129).all(|i| hash.remove(format!("f{i}").as_bytes())));
    assert_eq!((hash.len(), hash.encoding()), (0, Encoding::Hashtable));
}
