//! `ZSet` against a sorted vector.

mod model_support;

use std::collections::BTreeMap;
use std::ops::Bound;

use fastrand::Rng;
use model_support::{element, is_growing, thresholds, with_seeds};
use store::{Encoding, LexBound, Thresholds, ZInsert, ZSet};

type Model = BTreeMap<Vec<u8>, f64>;

fn ordered(model: &Model) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(member, &score)| (member.clone(), score)).collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
    all
}

fn score(rng: &mut Rng) -> f64 {
    match rng.u32(..12) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3 => rng.f64() * 1e6,
        _ => f64::from(rng.i32(-20..20)),
    }
}

fn assert_same(zset: &ZSet, model: &Model, rng: &mut Rng) {
    let all = ordered(model);
    assert_eq!(zset.len(), all.len());
    let mut iter = zset.iter();
    for (rank, (member, score)) in all.iter().enumerate() {
        assert_eq!(iter.rank(), Some(rank));
        assert_eq!(iter.next(), Some((&member[..], *score)));
        assert_eq!(zset.at(rank), Some((&member[..], *score)));
        assert_eq!(zset.rank(member, false), Some((rank, *score)));
        assert_eq!(zset.rank(member, true), Some((all.len() - 1 - rank, *score)));
    }
    assert_eq!(iter.next(), None);
    let start = rng.usize(..=all.len());
    let mut backward = zset.range(start, true);
    for (member, score) in all.iter().take(start + 1).rev() {
        assert_eq!(backward.next(), Some((&member[..], *score)));
    }
    assert_eq!(backward.next(), None);
    for _ in 0..8 {
        let limit = score(rng);
        let below = all.iter().filter(|(_, s)| *s < limit).count();
        let up_to = all.iter().filter(|(_, s)| *s <= limit).count();
        assert_eq!(zset.rank_of_score_bound(Bound::Included(limit)), below, ">= {limit}");
        assert_eq!(zset.rank_of_score_bound(Bound::Excluded(limit)), up_to, "> {limit}");
        assert_eq!(zset.ranks_by_score(Bound::Included(limit), Bound::Included(limit)), below..up_to);
        assert_eq!(zset.ranks_by_score(Bound::Unbounded, Bound::Excluded(limit)), 0..below);
    }
    let (mut cursor, mut visits, mut scanned) = (0, 0, Model::new());
    loop {
        cursor = zset.scan(cursor, rng.usize(1..50), &mut |member, score| {
            visits += 1;
            scanned.insert(member.to_vec(), score);
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((visits, &scanned), (model.len(), model));
}

#[test]
fn random_operations_match_a_sorted_vector() {
    with_seeds(2500, |rng, steps| {
        let t = thresholds(rng);
        let (mut zset, mut model) = (ZSet::new(), Model::new());
        let mut clones: Vec<(ZSet, Model)> = Vec::new();
        for step in 0..steps {
            let member = element(rng, 2500);
            let operation = if is_growing(step, steps) { rng.u32(..13) } else { rng.u32(6..22) };
            match operation {
                0..=9 => {
                    let score = score(rng);
                    let wanted = match model.get(&member) {
                        None => ZInsert::Added,
                        Some(&old) if old == score => ZInsert::Unchanged,
                        Some(_) => ZInsert::Updated,
                    };
                    assert_eq!(zset.insert(&member, score, &t), wanted);
                    model.insert(member, score);
                }
                10..=15 => assert_eq!(zset.remove(&member), model.remove(&member)),
                16..=17 => {
                    let popped = if rng.bool() { zset.pop_min() } else { zset.pop_max() };
                    assert_eq!(popped.is_none(), model.is_empty());
                    if let Some((member, score)) = popped {
                        assert_eq!(model.remove(&member), Some(score));
                        assert!(zset.score(&member).is_none());
                    }
                }
                18 if rng.u32(..4) == 0 => {
                    let start = rng.usize(..=model.len());
                    let width = if rng.u32(..10) == 0 { 2500 } else { 30 };
                    let end = start + rng.usize(..width);
                    let all = ordered(&model);
                    let doomed = all.get(start..all.len().min(end + 1)).unwrap_or(&[]);
                    doomed.iter().for_each(|(member, _)| assert!(model.remove(member).is_some()));
                    assert_eq!(zset.remove_range(start, end), doomed.len());
                    assert!(doomed.iter().all(|(member, _)| zset.score(member).is_none()));
                }
                19 => clones.push((zset.clone(), model.clone())),
                _ => assert_eq!(zset.score(&member), model.get(&member).copied()),
            }
            if step % 512 == 0 {
                assert_same(&zset, &model, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, rng);
            }
        }
        clones.push((zset, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, rng));
    });
}

#[test]
fn long_ranges_leave_no_trace() {
    with_seeds(800, |rng, steps| {
        let t = Thresholds::default();
        let (mut zset, mut model) = (ZSet::new(), Model::new());
        let name = |i: usize| format!("member:{i}").into_bytes();
        for round in 0..3 {
            for i in 0..5000 {
                let score = rng.i32(-50..50).into();
                zset.insert(&name(i), score, &t);
                model.insert(name(i), score);
            }
            let start = rng.usize(..2000);
            let doomed = ordered(&model)[start..start + 3001].to_vec();
            assert_eq!(zset.remove_range(start, start + 3000), 3001);
            doomed.iter().for_each(|(member, _)| assert!(model.remove(member).is_some()));
            assert_eq!(zset.len(), model.len());
            let before = zset.clone();
            for _ in 0..steps {
                let member = name(rng.usize(..5000));
                match rng.u32(..4) {
                    0 => assert_eq!(zset.remove(&member), model.remove(&member)),
                    1 => assert_eq!(zset.score(&member), model.get(&member).copied()),
                    2 => {
                        let score =
                            doomed.iter().find(|(m, _)| *m == member).map_or(7.0, |&(_, score)| score);
                        let is_new = !model.contains_key(&member);
                        assert_eq!(zset.insert(&member, score, &t) == ZInsert::Added, is_new);
                        model.insert(member, score);
                    }
                    _ => {
                        let popped = zset.pop_min().expect("thousands of members");
                        assert_eq!(model.remove(&popped.0), Some(popped.1));
                    }
                }
            }
            assert!(doomed.iter().all(|(member, _)| before.score(member).is_none()), "round {round}");
            assert_same(&zset, &model, rng);
        }
    });
}

#[test]
fn members_of_equal_score_are_ranked_by_their_bytes() {
    with_seeds(1200, |rng, steps| {
        let t = thresholds(rng);
        let (mut zset, mut model) = (ZSet::new(), Model::new());
        for _ in 0..steps {
            let member = element(rng, 9000);
            zset.insert(&member, 0.0, &t);
            model.insert(member, 0.0);
        }
        assert_same(&zset, &model, rng);
        let all: Vec<&[u8]> = model.keys().map(|member| &member[..]).collect();
        for _ in 0..200 {
            let (a, b) = (element(rng, 9000), element(rng, 9000));
            let at_least = all.partition_point(|member| *member < &a[..]);
            let up_to = all.partition_point(|member| *member <= &b[..]).max(at_least);
            let above = all.partition_point(|member| *member <= &a[..]);
            assert_eq!(zset.rank_of_lex_bound(LexBound::Incl(&a)), at_least);
            assert_eq!(zset.rank_of_lex_bound(LexBound::Excl(&a)), above);
            assert_eq!(zset.ranks_by_lex(LexBound::Incl(&a), LexBound::Incl(&b)), at_least..up_to);
            assert_eq!(zset.ranks_by_lex(LexBound::Min, LexBound::Excl(&a)), 0..at_least);
            assert_eq!(zset.ranks_by_lex(LexBound::Excl(&a), LexBound::Max), above..all.len());
        }
    });
}

#[test]
fn forms_change_at_the_thresholds() {
    let t = Thresholds::default();
    let mut zset = ZSet::new();
    (0..128).for_each(|i| assert_eq!(zset.insert(format!("m{i}").as_bytes(), 1.0, &t), ZInsert::Added));
    assert_eq!(zset.encoding(), Encoding::Listpack);
    assert_eq!(zset.insert(b"m5", 2.0, &t), ZInsert::Updated);
    assert_eq!(zset.encoding(), Encoding::Listpack);
    let mut by_count = zset.clone();
    assert_eq!(by_count.insert(b"m128", 1.0, &t), ZInsert::Added);
    assert_eq!(by_count.encoding(), Encoding::Skiplist);
    assert_eq!(zset.remove(b"m5"), Some(2.0));
    assert_eq!(zset.insert(&[b'm'; 64], 1.0, &t), ZInsert::Added);
    assert_eq!(zset.encoding(), Encoding::Listpack);
    assert_eq!(zset.remove(&[b'm'; 64]), Some(1.0));
    assert_eq!(zset.insert(&[b'm'; 65], 1.0, &t), ZInsert::Added);
    assert_eq!(zset.encoding(), Encoding::Skiplist);
}

#[test]
fn sets_built_at_once_equal_those_built_one_by_one() {
    with_seeds(40, |rng, steps| {
        for step in 0..steps {
            let t = thresholds(rng);
            let mut model = Model::new();
            for _ in 0..rng.usize(..=if step % 4 == 0 { 2_000 } else { 150 }) {
                model.insert(element(rng, 5_000), score(rng));
            }
            let mut entries: Vec<_> = model.clone().into_iter().collect();
            rng.shuffle(&mut entries);
            let mut zset = ZSet::from_entries(entries, &t);
            assert_same(&zset, &model, rng);
            assert_eq!(ZSet::from_sorted(ordered(&model), &t).encoding(), zset.encoding());
            let longest = model.keys().map(Vec::len).max().unwrap_or(0);
            let fits = model.len() <= t.zset_max_listpack_entries && longest <= t.zset_max_listpack_value;
            assert_eq!(zset.encoding(), if fits { Encoding::Listpack } else { Encoding::Skiplist });
            let signed = model.values().any(|score| *score == 0.0 && score.is_sign_negative());
            let is_signed = (0..zset.len()).filter_map(|rank| zset.at(rank));
            let is_signed = is_signed.into_iter().any(|(_, score)| score == 0.0 && score.is_sign_negative());
            assert_eq!(is_signed, signed && !fits, "the small form keeps no sign of zero");
            for _ in 0..50 {
                let (member, score) = (element(rng, 5_000), score(rng));
                zset.insert(&member, score, &t);
                model.insert(member, score);
            }
            assert_same(&zset, &model, rng);
        }
    });
}
