//! `LongString` against `Vec<u8>`.

mod model_support;

use model_support::with_seeds;
use store::LongString;

const LEN_MAX: usize = 5 << 20;

fn assert_same(string: &LongString, model: &[u8]) {
    assert_eq!(string.len(), model.len());
    let mut at = 0;
    for chunk in string.chunks(0) {
        let bytes = chunk.as_ref();
        assert!(!bytes.is_empty() && bytes == &model[at..at + bytes.len()], "chunk at {at}");
        at += bytes.len();
    }
    assert_eq!(at, model.len());
}

#[test]
fn random_operations_match_a_vector() {
    with_seeds(400, |rng, steps| {
        let mut model: Vec<u8> = (0..rng.usize(..100_000)).map(|i| i as u8).collect();
        let mut string = LongString::from_slice(&model);
        let mut clones: Vec<(LongString, Vec<u8>)> = Vec::new();
        for _ in 0..steps {
            let size = [1, 10, 5000, 16_384, 40_000][rng.usize(..5)];
            let bytes = vec![rng.u8(..); rng.usize(..=size)];
            let at = rng.usize(..=model.len());
            match rng.u32(..10) {
                0..=2 => {
                    string.append(&bytes);
                    model.extend_from_slice(&bytes);
                }
                3..=5 => {
                    let gap = if rng.u32(..8) == 0 { rng.usize(..3 << 20) } else { 0 };
                    let offset = (at + gap).min(LEN_MAX);
                    string.write_at(offset, &bytes);
                    if !bytes.is_empty() {
                        model.resize(model.len().max(offset + bytes.len()), 0);
                        model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                6..=8 => {
                    let end = at + rng.usize(..50_000);
                    assert!(string.read(at..end) == model[at..end.min(model.len())]);
                }
                _ => clones.push((string.clone(), model.clone())),
            }
            assert_eq!(string.len(), model.len());
            if clones.len() > 3 {
                let (clone, frozen) = clones.swap_remove(rng.usize(..clones.len()));
                assert_same(&clone, &frozen);
            }
        }
        assert_same(&string, &model);
        clones.iter().for_each(|(clone, frozen)| assert_same(clone, frozen));
    });
}

#[test]
fn strings_end_at_every_boundary() {
    let chunk = store::rope::CHUNK_BYTES;
    let model: Vec<u8> = (0..chunk * 130 + 5).map(|i| (i % 251) as u8).collect();
    for len in [0, 1, chunk - 1, chunk, chunk + 1, 128 * chunk - 1, 128 * chunk, 128 * chunk + 1, model.len()]
    {
        let mut string = LongString::from_slice(&model[..len]);
        assert_same(&string, &model[..len]);
        string.append(b"tail");
        assert_eq!(string.read(len..len + 10), b"tail");
    }
}

#[test]
fn values_and_their_iterators_move_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<(store::List, store::Hash, store::Set, store::ZSet, LongString)>();
    check::<(store::ListIter, store::HashIter, store::SetIter, store::ZIter, store::Chunks, store::Chunk)>();
}

#[test]
fn a_clone_shares_what_is_not_written() {
    let mut string = LongString::from_slice(&vec![1; 10 << 20]);
    let clone = string.clone();
    assert!(string.is_same(&clone));
    string.write_at(5 << 20, b"x");
    assert!(!string.is_same(&clone));
    let address = |s: &LongString, at| s.chunks(at).next().map(|chunk| chunk.as_ref().as_ptr());
    assert_eq!(address(&string, 0), address(&clone, 0));
    assert_ne!(address(&string, 5 << 20), address(&clone, 5 << 20));
}
