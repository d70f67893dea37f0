//! The ends of fields in a keyspace, against maps: which hashes are counted as having some, and what slices of expiry
//! remove and report, whatever happened to the keys before.

mod model_support;

use std::collections::BTreeMap;

use fastrand::Rng;
use model_support::with_seeds;
use store::entry::Payload;
use store::{Expiry, Hash, Instant, Keyspace, Lapse, Placement, STRIPES, Thresholds, Typed, Value, View};

const DATABASES: usize = 2;
const BIRTH_MS: i64 = 1_700_000_000_000;

/// The end of each field, in ms.
type Fields = BTreeMap<Vec<u8>, Option<i64>>;
type Key = (usize, Vec<u8>);
/// A key, the fields of it that ended unless it did itself, and whether it is gone.
type Report = (Key, Option<Vec<Box<[u8]>>>, bool);

struct Pair {
    space: Keyspace,
    keys: BTreeMap<Key, (Fields, Option<i64>)>,
    now_ms: i64,
}

impl Pair {
    fn at(&self) -> Instant {
        Instant { now_ms: self.now_ms, touch: None }
    }

    fn edit(&mut self, (db, key): &Key, change: impl FnOnce(&mut Hash, &mut Fields)) {
        let (position, at) = (self.space.position(key), self.at());
        let mut locked = self.space.lock(position);
        if locked.get(*db, position, key, at).is_none() {
            self.keys.remove(&(*db, key.clone()));
            let new = Payload::Object(Hash::new().into_value());
            locked.put(*db, position, key, new, Expiry::Clear, at);
        }
        let Some(Some(Value::Hash(hash))) = locked.get_mut(*db, position, key, at) else { panic!("a hash") };
        let before = hash.soonest_end_ms();
        let (fields, _) = self.keys.entry((*db, key.clone())).or_default();
        change(hash, fields);
        let (after, emptied) = (hash.soonest_end_ms(), hash.is_empty());
        locked.index_field_ends(*db, position, before, after);
        if emptied {
            assert!(locked.remove(*db, position, key, self.now_ms) && fields.is_empty());
            self.keys.remove(&(*db, key.clone()));
        }
    }

    /// COPY, or RENAME within one database or to another.
    fn carry(&mut self, (from_db, from): &Key, (to_db, to): &Key, keep: bool) {
        let at = self.at();
        let positions = [self.space.position(from), self.space.position(to)];
        let mut locked = self.space.lock_stripes(&mut positions.iter().map(|at| at.stripe()).collect());
        let owned = locked.get(*from_db, positions[0], from, at).map(View::to_owned);
        let model = self.keys.get(&(*from_db, from.clone())).cloned();
        let (Some(owned), Some(model)) = (owned, model) else { return };
        if !keep {
            locked.remove(*from_db, positions[0], from, self.now_ms);
            self.keys.remove(&(*from_db, from.clone()));
        }
        locked.put_owned(*to_db, positions[1], to, &owned, at);
        self.keys.insert((*to_db, to.clone()), model);
    }

    fn expire(&mut self, slice: usize) {
        for stripe in 0..STRIPES {
            loop {
                let mut reports: Vec<Report> = Vec::new();
                let (count, more) =
                    self.space.expire_slice(stripe, self.now_ms, slice, &mut |db, key, lapse| {
                        let (fields, emptied) = match lapse {
                            Lapse::Key => (None, true),
                            Lapse::Fields { fields, emptied } => (Some(fields.to_vec()), emptied),
                        };
                        reports.push(((db, key.to_vec()), fields, emptied));
                    });
                assert!(count <= slice, "a slice is bounded");
                let reported = reports.iter().map(|(_, fields, _)| fields.as_ref().map_or(1, Vec::len));
                assert_eq!(reported.sum::<usize>(), count);
                for (key, gone, emptied) in reports {
                    let (fields, expire_at_ms) = self.keys.get_mut(&key).expect("only what was there ends");
                    match gone {
                        Some(gone) => gone.iter().for_each(|field| {
                            let end = fields.remove(&field[..]).flatten().expect("only fields with ends end");
                            assert!(end < self.now_ms);
                        }),
                        None => assert!(expire_at_ms.is_some_and(|at| at < self.now_ms)),
                    }
                    assert!(emptied || !fields.is_empty());
                    if emptied {
                        self.keys.remove(&key);
                    }
                }
                if !more {
                    break;
                }
            }
        }
        let is_past = |end: &i64| *end < self.now_ms;
        let ends = self.keys.values().flat_map(|(fields, at)| fields.values().chain([at]));
        assert_eq!(ends.flatten().filter(|end| is_past(end)).count(), 0, "nothing due is left");
    }

    fn assert_counted(&self) {
        for db in 0..DATABASES {
            let held = || self.keys.iter().filter(|((of, _), _)| *of == db).map(|(_, held)| held);
            let timed = held().filter(|(fields, _)| fields.values().any(Option::is_some)).count();
            let expires = held().filter(|(_, at)| at.is_some()).count();
            let size = self.space.size(db, self.now_ms);
            assert_eq!((size.keys, size.expires, size.timed_hashes), (held().count(), expires, timed));
        }
    }
}

fn random_step(pair: &mut Pair, rng: &mut Rng) {
    let key = |rng: &mut Rng| (rng.usize(..DATABASES), format!("key:{}", rng.u32(..12)).into_bytes());
    let (one, other) = (key(rng), key(rng));
    let field = format!("f{}", rng.u32(..40)).into_bytes();
    let end = pair.now_ms + rng.i64(1..300);
    match rng.u32(..24) {
        0..=7 => pair.edit(&one, |hash, fields| {
            hash.set(&field, b"value", &Thresholds::default());
            fields.insert(field, None);
        }),
        8..=15 => pair.edit(&one, |hash, fields| {
            hash.set(&field, b"value", &Thresholds::default());
            assert!(hash.set_end_ms(&field, Some(end)));
            fields.insert(field, Some(end));
        }),
        16..=17 => pair.edit(&one, |hash, fields| {
            assert_eq!(hash.remove(&field), fields.remove(&field).is_some());
        }),
        18 => pair.carry(&one, &other, rng.bool()),
        19 => {
            let position = pair.space.position(&one.1);
            let at = rng.bool().then_some(end);
            if pair.space.lock(position).set_expire_at_ms(one.0, position, &one.1, at, pair.now_ms) {
                pair.keys.get_mut(&one).expect("the same keys").1 = at;
            }
        }
        20 => {
            let position = pair.space.position(&one.1);
            let was_there = pair.space.lock(position).remove(one.0, position, &one.1, pair.now_ms);
            assert_eq!(pair.keys.remove(&one).is_some(), was_there);
        }
        21 if rng.u32(..20) == 0 => {
            pair.space.lock_all().flush(Some(one.0));
            pair.keys.retain(|(db, _), _| *db != one.0);
        }
        22 if rng.u32(..20) == 0 => {
            pair.space.lock_all().swap(0, 1);
            let keys = std::mem::take(&mut pair.keys);
            pair.keys = keys.into_iter().map(|((db, key), held)| ((1 - db, key), held)).collect();
        }
        _ => {
            pair.now_ms += rng.i64(0..120);
            pair.expire(rng.usize(1..40));
        }
    }
}

#[test]
fn fields_end_wherever_their_hash_went() {
    with_seeds(3000, |rng, steps| {
        let space = Keyspace::new(DATABASES, Placement::Hash, BIRTH_MS);
        space.report_expired(true);
        let mut pair = Pair { space, keys: BTreeMap::new(), now_ms: BIRTH_MS };
        for _ in 0..steps {
            random_step(&mut pair, rng);
            pair.assert_counted();
        }
        pair.now_ms += 1000;
        pair.expire(7);
        pair.assert_counted();
    });
}
