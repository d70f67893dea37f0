//! What is seen and changed under a lock.

use super::*;
use crate::{Frequency, Hash, Placement, Thresholds, Typed};

const AT: Instant = Instant {
    now_ms: 100,
    touch: Some(Touch::Frequency(Frequency { chance: None, log_factor: 10, decay_min: 1 })),
};

fn hash(fields: usize) -> Value {
    let mut hash = Hash::new();
    for n in 0..fields {
        hash.set(&n.to_le_bytes(), b"value", &Thresholds::default());
    }
    hash.into_value()
}

fn space_with(key: &[u8], value: &Value) -> (Keyspace, Position) {
    let space = Keyspace::new(2, Placement::Hash, 0);
    let position = space.position(key);
    space.lock(position).put(0, position, key, Payload::Object(value.clone()), Expiry::Clear, AT);
    (space, position)
}

/// Mostly for Miri: no accessor may make a reference that ends the life of another one.
#[test]
fn references_from_views_live_side_by_side() {
    let value = hash(3);
    let (space, position) = space_with(b"k", &value);
    let mut locked = space.lock(position);
    let view = locked.get(0, position, b"k", AT).expect("was put");
    let (first, second, key) = (view.value(), view.value(), view.key());
    assert_eq!((view.kind(), view.clock(), view.encoding()), (Kind::Hash, 5, value.encoding()));
    assert!(view.memory_bytes() > value.memory_bytes());
    let owned = view.to_owned();
    for value in [first, second] {
        assert!(matches!(value, ValueRef::Object(value) if value.len() == 3));
    }
    assert_eq!(key, b"k");

    let Some(Some(Value::Hash(written))) = locked.get_mut(0, position, b"k", AT) else { panic!("a hash") };
    written.set(b"more", b"value", &Thresholds::default());
    let len = |value: &OwnedValue| match value {
        OwnedValue::Object(value) => value.len(),
        OwnedValue::Inline(bytes, _) => bytes.len(),
    };
    assert_eq!(len(&owned.value), 3, "a copy keeps what it was");
    let taken = locked.take(0, position, b"k", 100).expect("was put");
    assert_eq!(len(&taken.value), 4);
    assert!(locked.get(0, position, b"k", AT).is_none());
}

#[test]
fn a_time_to_live_comes_and_goes_without_a_change_of_the_value() {
    let value = hash(if cfg!(miri) { 150 } else { 2_000 });
    let (space, position) = space_with(b"k", &value);
    let mut locked = space.lock(position);
    for expire_at_ms in [Some(500), Some(600), None, None, Some(700)] {
        assert!(locked.set_expire_at_ms(0, position, b"k", expire_at_ms, 100));
        let view = locked.get(0, position, b"k", AT).expect("alive");
        assert_eq!(view.expire_at_ms(), expire_at_ms);
        let ValueRef::Object(held) = view.value() else { panic!("a hash") };
        assert!(Hash::of(held).zip(Hash::of(&value)).is_some_and(|(held, value)| held.is_same(value)));
    }
    drop(locked);
    assert_eq!(space.size(0, 100).expires, 1);
    assert_eq!(space.expire_slice(position.stripe(), 701, 10, &mut |_, _, _| {}), (1, false));
    assert_eq!((space.len(0), space.size(0, 701).expires), (0, 0));
}

#[test]
fn garbage_is_freed_by_the_reaper_or_with_it() {
    for reaped in [true, false] {
        let (space, position) = space_with(b"k", &hash(if cfg!(miri) { 150 } else { 20_000 }));
        let reaper = space.take_reaper().expect("a new keyspace");
        space.lock(position).put_string(1, position, b"k", b"v", Form::Plain, Expiry::At(900), AT);
        assert!(space.lock(position).remove(0, position, b"k", 100));
        assert_eq!(space.lock_all().flush(None), 1);
        assert!(space.garbage_pending() >= 1, "at least the flushed database waits");
        if reaped {
            let thread = std::thread::spawn(|| reaper.run());
            drop(space);
            thread.join().expect("the reaper ends with its keyspace");
        } else {
            drop(reaper);
            assert!(space.lock(position).get(1, position, b"k", AT).is_none());
        }
    }
}

#[test]
#[should_panic(expected = "locked-set")]
fn a_key_of_another_stripe_is_out_of_reach() {
    let (space, position) = space_with(b"k", &hash(1));
    let other = (0..u64::MAX).map(|n| space.position(&n.to_le_bytes()));
    let other = { other }.find(|other| other.stripe() != position.stripe()).expect("most keys");
    space.lock(other).remove(0, position, b"k", 100);
}
