//! `Set` against `BTreeSet`.

mod model_support;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use model_support::{element, is_growing, thresholds, with_seeds};
use store::{Encoding, Set, Thresholds, canonical_integer};

type Model = BTreeSet<Vec<u8>>;

fn assert_same(set: &Set, model: &Model, rng: &mut Rng) {
    assert_eq!(set.len(), model.len());
    let mut iter = set.iter();
    let mut seen = Vec::new();
    while let Some(member) = iter.next() {
        let rank = seen.len();
        assert_eq!(set.at(rank).as_deref(), Some(member), "iteration goes by rank");
        assert!(set.contains(member));
        seen.push(member.to_vec());
    }
    assert_eq!(iter.remaining(), 0);
    assert!(set.at(seen.len()).is_none());
    if set.encoding() == Encoding::Intset {
        let numbers: Vec<_> = seen.iter().map(|m| canonical_integer(m).expect("integers only")).collect();
        assert!(numbers.is_sorted());
    }
    assert_eq!(seen.into_iter().collect::<Model>(), *model);
    let mut visits: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut cursor = 0;
    loop {
        cursor = set
            .scan(cursor, rng.usize(1..50), &mut |member| *visits.entry(member.to_vec()).or_default() += 1);
        assert!(cursor < 1 << 53);
        if cursor == 0 {
            break;
        }
    }
    assert!(visits.keys().eq(model.iter()), "a scan visits every member");
    assert!(visits.values().all(|&count| count == 1), "a scan of a set at rest visits members once");
}

#[test]
fn random_operations_match_a_tree_set() {
    with_seeds(4000, |rng, steps| {
        let t = thresholds(rng);
        let integers_only = rng.bool();
        let (mut set, mut model) = (Set::new(), Model::new());
        let mut clones: Vec<(Set, Model)> = Vec::new();
        for step in 0..steps {
            let member = if integers_only && step < steps / 2 {
                rng.i64(-600..600).to_string().into_bytes()
            } else {
                element(rng, 5000)
            };
            let operation = if is_growing(step, steps) { rng.u32(..12) } else { rng.u32(5..20) };
            match operation {
                0..=8 => {
                    assert_eq!(set.insert(&member, &t), model.insert(member));
                }
                9..=11 => assert_eq!(set.remove(&member), model.remove(&member)),
                12..=18 if !model.is_empty() => {
                    let taken = set.take_at(rng.usize(..model.len()));
                    assert!(model.remove(&taken));
                }
                _ => clones.push((set.clone(), model.clone())),
            }
            let probe = element(rng, 5000);
            assert_eq!(set.contains(&probe), model.contains(&probe));
            if step % 256 == 0 {
                assert_same(&set, &model, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, rng);
            }
        }
        clones.push((set, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, rng));
    });
}

#[test]
fn a_scan_visits_what_stays_while_the_set_changes() {
    with_seeds(1200, |rng, steps| {
        let t = thresholds(rng);
        let mut set = Set::new();
        let stable: Vec<Vec<u8>> = (0..steps / 2).map(|i| format!("stable:{i}").into_bytes()).collect();
        stable.iter().for_each(|member| assert!(set.insert(member, &t)));
        for growing in [true, false] {
            let (mut cursor, mut seen, mut calls) = (0, Model::new(), 0);
            loop {
                cursor = set.scan(cursor, 10, &mut |member| {
                    seen.insert(member.to_vec());
                });
                calls += 1;
                if cursor == 0 {
                    break;
                }
                for _ in 0..30 {
                    let member = format!("passing:{}", rng.u32(..20_000));
                    if growing {
                        set.insert(member.as_bytes(), &t)
                    } else {
                        set.remove(member.as_bytes())
                    };
                }
            }
            assert!(
                stable.iter().all(|member| seen.contains(member)),
                "missed a member that was there throughout"
            );
            assert!(set.encoding() != Encoding::Hashtable || calls > steps / 2 / 200, "{calls} calls");
        }
    });
}

#[test]
fn forms_change_at_the_thresholds() {
    let t = Thresholds::default();
    let member = |kind: &str, i: usize| match kind {
        "integer" => i.to_string(),
        "short" => format!("m{i}"),
        _ => format!("m{i:064}"),
    };
    // (kind of the first members, their number, kind of one more, encoding before, encoding after)
    for (kind, count, more, before, after) in [
        ("integer", 512, "integer", Encoding::Intset, Encoding::Hashtable),
        ("integer", 511, "integer", Encoding::Intset, Encoding::Intset),
        ("integer", 127, "short", Encoding::Intset, Encoding::Listpack),
        ("integer", 128, "short", Encoding::Intset, Encoding::Hashtable),
        ("integer", 5, "long", Encoding::Intset, Encoding::Hashtable),
        ("short", 127, "integer", Encoding::Listpack, Encoding::Listpack),
        ("short", 128, "integer", Encoding::Listpack, Encoding::Hashtable),
        ("short", 3, "long", Encoding::Listpack, Encoding::Hashtable),
    ] {
        let mut set = Set::new();
        (0..count).for_each(|i| assert!(set.insert(member(kind, i).as_bytes(), &t)));
        assert_eq!(set.encoding(), before, "{count} {kind}");
        assert!(set.insert(member(more, count).as_bytes(), &t));
        assert_eq!(set.encoding(), after, "{count} {kind} and one {more}");
        assert_eq!(set.len(), count + 1);
    }
}

#[test]
fn a_bulk_build_equals_single_inserts() {
    let t = Thresholds::default();
    for count in [0usize, 1, 128, 129, 513, 5_000] {
        for prefix in ["", "m:"] {
            let members: Vec<String> = (0..count).map(|i| format!("{prefix}{i}")).collect();
            let built = Set::from_members(&members, &t);
            let mut single = Set::new();
            members.iter().for_each(|member| assert!(single.insert(member.as_bytes(), &t)));
            assert_eq!(built.encoding(), single.encoding(), "{count} of '{prefix}'");
            let model = members.into_iter().map(String::into_bytes).collect();
            assert_same(&built, &model, &mut Rng::with_seed(count as u64));
        }
    }
}
