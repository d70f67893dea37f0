//! `List` against `Vec`.

mod model_support;

use fastrand::Rng;
use model_support::{element, is_growing, with_seeds};
use store::{Encoding, List, Thresholds};

type Model = Vec<Vec<u8>>;

fn assert_same(list: &List, model: &Model, rng: &mut Rng) {
    assert_eq!(list.len(), model.len());
    let start = rng.usize(..=model.len());
    let mut forward = list.iter(start, false);
    for (index, wanted) in model.iter().enumerate().skip(start) {
        assert_eq!(forward.index(), Some(index));
        assert_eq!(forward.next(), Some(&wanted[..]));
    }
    assert_eq!(forward.next(), None);
    let mut backward = list.iter(start, true);
    for wanted in model.iter().take(start + 1).rev() {
        assert_eq!(backward.next(), Some(&wanted[..]));
    }
    assert_eq!(backward.next(), None);
    for _ in 0..4 {
        let index = rng.usize(..model.len() + 2);
        assert_eq!(list.get(index).as_deref(), model.get(index).map(|e| &e[..]));
    }
}

#[test]
fn random_operations_match_a_vector() {
    with_seeds(4000, |rng, steps| {
        let t = Thresholds::default();
        let (mut list, mut model) = (List::new(), Model::new());
        let mut clones: Vec<(List, Model)> = Vec::new();
        for step in 0..steps {
            let e = element(rng, 500);
            let at = rng.usize(..=model.len());
            let operation = if is_growing(step, steps) { rng.u32(..14) } else { rng.u32(6..21) };
            match operation {
                0..=3 => {
                    list.push_back(&e, &t);
                    model.push(e);
                }
                4..=7 => {
                    list.push_front(&e, &t);
                    model.insert(0, e);
                }
                8..=10 => {
                    list.insert(at, &e);
                    model.insert(at, e);
                }
                11 => {
                    assert_eq!(list.set(at, &e), at < model.len());
                    if at < model.len() {
                        model[at] = e;
                    }
                }
                12..=14 => assert_eq!(list.pop_front(), (!model.is_empty()).then(|| model.remove(0))),
                15..=16 => assert_eq!(list.pop_back(), model.pop()),
                17..=18 => {
                    let end = (at + rng.usize(..40)).min(model.len());
                    list.remove_range(at, end);
                    model.drain(at..end);
                }
                _ => clones.push((list.clone(), model.clone())),
            }
            if step % 64 == 0 {
                assert_same(&list, &model, rng);
            }
            if clones.len() > 4 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen, rng);
            }
        }
        clones.push((list, model));
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen, rng));
    });
}

#[test]
fn encoding_follows_the_configured_size() {
    // Elements of `size` bytes, all pushed at once: (list-max-listpack-size, size, largest count that stays small).
    for (fill, size, small_max) in
        [(-2, 62, 127), (-2, 8185, 1), (-2, 8186, 0), (-1, 62, 63), (3, 1, 3), (0, 1, 1)]
    {
        let t = Thresholds { list_max_listpack_size: fill, ..Thresholds::default() };
        let mut list = List::new();
        let element = vec![b'e'; size];
        for count in 1..small_max + 3 {
            list.push_back(&element, &t);
            let wanted = if count <= small_max { Encoding::Listpack } else { Encoding::Quicklist };
            assert_eq!(list.encoding(), wanted, "fill {fill}, size {size}, count {count}");
        }
        while list.pop_front().is_some() {}
        assert_eq!(list.encoding(), Encoding::Listpack, "fill {fill}, emptied");
    }
}

#[test]
fn an_iterator_outlives_its_list() {
    let t = Thresholds::default();
    let mut list = List::new();
    (0..5000).for_each(|i| list.push_back(format!("{i}").as_bytes(), &t));
    let mut iter = list.iter(0, false);
    assert_eq!(iter.next(), Some(&b"0"[..]));
    list.remove_range(0, 4990);
    assert_eq!(list.len(), 10);
    drop(list);
    let rest = std::thread::spawn(move || {
        let mut count = 0;
        while iter.next().is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(rest.join().expect("the iterator moves between threads"), 4999);
}

#[test]
fn lists_built_at_once_equal_those_built_one_by_one() {
    with_seeds(60, |rng, steps| {
        for _ in 0..steps {
            let fill = [-5, -2, -1, 1, 100, 100_000][rng.usize(..6)];
            let t = Thresholds { list_max_listpack_size: fill, ..Thresholds::default() };
            let mut model: Model = (0..rng.usize(..3_000)).map(|_| element(rng, 500)).collect();
            let mut pushed = List::new();
            model.iter().for_each(|element| pushed.push_back(element, &t));
            let mut built = List::from_elements(&model, &t);
            assert_same(&built, &model, rng);
            assert_eq!(built.encoding(), pushed.encoding());
            assert!(built.memory_bytes() <= pushed.memory_bytes() + 2 * 1_600);
            for _ in 0..50 {
                let (index, new) = (rng.usize(..=model.len()), element(rng, 500));
                built.insert(index, &new);
                model.insert(index, new);
            }
            assert_same(&built, &model, rng);
        }
    });
}
