//! What a snapshot is said to hold of a big value that is written to is what goes when it lets go of it.

use parking_lot::Mutex;
use store::entry::Payload;
use store::{
    Expiry, Hash, Instant, Keyspace, List, LongString, Placement, Set, SnapshotBatch, Stream, StreamId,
    Thresholds, Touch, Typed, Value, Walk, ZSet, alloc,
};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// What is allocated is counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

const AT: Instant = Instant { now_ms: 1_000, touch: Some(Touch::Recency) };
const KEY: &[u8] = b"big";
const ELEMENTS: usize = 20_000;

type Write = fn(&mut Value, &mut fastrand::Rng);

fn text(number: usize) -> Vec<u8> {
    format!("element:{number:08}").into_bytes()
}

fn any(rng: &mut fastrand::Rng) -> Vec<u8> {
    text(rng.usize(..ELEMENTS))
}

fn numbers<T>(each: impl FnMut(usize) -> T) -> Vec<T> {
    (0..ELEMENTS).map(each).collect()
}

fn of<T: Typed>(value: &mut Value) -> &mut T {
    T::of_mut(value).expect("of the type that was put")
}

fn plain() -> Thresholds {
    Thresholds::default()
}

fn stream() -> Stream {
    let mut stream = Stream::new();
    for number in 1..=ELEMENTS as u64 {
        let fields = [(&b"field"[..], &b"some value"[..])];
        stream.append(StreamId { ms: number, seq: 0 }, fields.into_iter(), &plain());
    }
    stream
}

fn timed() -> Hash {
    let mut hash = Hash::from_fields(numbers(|n| (text(n), text(n))), &plain());
    for n in (0..ELEMENTS).step_by(3) {
        hash.set_end_ms(&text(n), Some(5_000 + n as i64));
    }
    hash
}

/// What is written to, what writes to it once, and how often that is done.
fn cases() -> Vec<(&'static str, Value, Write, usize)> {
    let integers = numbers(|n| n.to_string());
    let wide = Thresholds { set_max_intset_entries: ELEMENTS, ..plain() };
    vec![
        (
            "hash",
            Hash::from_fields(numbers(|n| (text(n), text(n))), &plain()).into_value(),
            |value, rng| {
                of::<Hash>(value).set(&any(rng), &any(rng), &plain());
            },
            300,
        ),
        (
            "hash, all fields",
            Hash::from_fields(numbers(|n| (text(n), text(n))), &plain()).into_value(),
            |value, rng| {
                of::<Hash>(value).remove(&any(rng));
            },
            5 * ELEMENTS,
        ),
        (
            "hash with ends",
            timed().into_value(),
            |value, rng| {
                of::<Hash>(value).set(&any(rng), &any(rng), &plain());
            },
            300,
        ),
        (
            "list",
            List::from_elements(numbers(text), &plain()).into_value(),
            |value, rng| {
                of::<List>(value).set(rng.usize(..ELEMENTS), &any(rng));
            },
            300,
        ),
        (
            "list, cut",
            List::from_elements(numbers(text), &plain()).into_value(),
            |value, _| {
                let list = of::<List>(value);
                list.remove_range(100, list.len() * 2 / 3);
            },
            2,
        ),
        (
            "list of long elements",
            List::from_elements(vec![[b'x'; 20_000]; 30], &plain()).into_value(),
            |value, _| {
                of::<List>(value).pop_front();
            },
            10,
        ),
        (
            "set",
            Set::from_members(numbers(text), &plain()).into_value(),
            |value, rng| {
                of::<Set>(value).remove(&any(rng));
            },
            300,
        ),
        (
            "set of integers",
            Set::from_members(integers, &wide).into_value(),
            |value, rng| {
                of::<Set>(value).remove(rng.usize(..ELEMENTS).to_string().as_bytes());
            },
            3,
        ),
        (
            "sorted set",
            ZSet::from_entries(numbers(|n| (text(n), n as f64)), &plain()).into_value(),
            |value, rng| {
                of::<ZSet>(value).insert(&any(rng), rng.f64(), &plain());
            },
            300,
        ),
        (
            "sorted set, emptied",
            ZSet::from_entries(numbers(|n| (text(n), n as f64)), &plain()).into_value(),
            |value, _| {
                let zset = of::<ZSet>(value);
                zset.remove_range(0, zset.len().saturating_sub(10));
            },
            1,
        ),
        (
            "stream",
            stream().into_value(),
            |value, rng| {
                of::<Stream>(value).remove(StreamId { ms: rng.u64(1..=ELEMENTS as u64), seq: 0 });
            },
            300,
        ),
        (
            "stream, trimmed",
            stream().into_value(),
            |value, _| of::<Stream>(value).remove_first(ELEMENTS / 2),
            1,
        ),
        (
            "string",
            Value::Str(LongString::from_slice(&vec![b'x'; 3 << 20])),
            |value, rng| {
                let Value::Str(string) = value else { panic!("a long string") };
                string.write_at(rng.usize(..3 << 20), b"other");
            },
            20,
        ),
    ]
}

/// Changes the value once more, in place.
fn write_once(space: &Keyspace, write: Write, rng: &mut fastrand::Rng) {
    let position = space.position(KEY);
    let mut locked = space.lock(position);
    let value = locked.get_mut(0, position, KEY, AT).expect("the key is there").expect("no short string");
    write(value, rng);
}

#[test]
fn what_is_counted_is_what_is_held() {
    let _alone = ALONE.lock();
    for is_kept_by_a_writer in [false, true] {
        for (name, value, write, writes) in cases() {
            let space = Keyspace::new(1, Placement::Hash, 0);
            let (position, mut rng) = (space.position(KEY), fastrand::Rng::with_seed(1));
            let size = value.memory_bytes();
            space.lock(position).put(0, position, KEY, Payload::Object(value), Expiry::Clear, AT);
            let (mut walk, mut batch) = (Walk::default(), SnapshotBatch::default());
            let snapshot = space.begin_snapshot(&space.lock_all()).expect("none is running");
            if is_kept_by_a_writer {
                write_once(&space, write, &mut rng);
                assert!(space.kept_bytes() > 0, "{name}: a copy waits");
            }
            assert!(snapshot.next(&space, &mut walk, &mut batch), "{name}: the value");
            assert_eq!(batch.entries().count(), 1);
            let before_writes = space.kept_bytes();
            (0..writes).for_each(|_| write_once(&space, write, &mut rng));
            let (counted, used) = (space.kept_bytes(), alloc::used_bytes());
            assert!(counted >= before_writes && counted <= size + size / 2, "{name}: {counted} of {size}");
            assert!(!snapshot.next(&space, &mut walk, &mut batch), "{name}: nothing more");
            let held = used - alloc::used_bytes();
            assert!(
                counted.abs_diff(held) <= held / 20 + 600,
                "{name}, kept by a writer: {is_kept_by_a_writer}: {counted} are counted, {held} were held"
            );
            assert_eq!(space.kept_bytes(), 0, "{name}: all is let go of");
        }
    }
}

#[test]
fn writers_of_a_value_that_is_saved_wait_when_it_costs_too_much() {
    let _alone = ALONE.lock();
    let space = Keyspace::new(1, Placement::Hash, 0);
    let position = space.position(KEY);
    let value = Hash::from_fields(numbers(|n| (text(n), [b'x'; 200])), &plain()).into_value();
    space.lock(position).put(0, position, KEY, Payload::Object(value), Expiry::Clear, AT);
    let snapshot = space.begin_snapshot(&space.lock_all()).expect("none is running");
    let (mut walk, mut batch) = (Walk::default(), SnapshotBatch::default());
    assert!(snapshot.next(&space, &mut walk, &mut batch));
    let (bound, mut rng) = (space.kept_bytes_max(), fastrand::Rng::with_seed(1));
    let (own, other) = (position.stripe(), (position.stripe() + 1) % store::STRIPES);
    while !space.snapshot_is_behind(Some(own)) {
        let write: Write = |value, rng| {
            of::<Hash>(value).set(&any(rng), &[b'y'; 200], &plain());
        };
        write_once(&space, write, &mut rng);
        assert!(space.kept_bytes() <= bound + 100_000, "one write more than the bound allows");
    }
    assert!(
        space.snapshot_is_behind(None) && !space.snapshot_is_behind(Some(other)),
        "others keep nothing more"
    );
    // What is deleted meanwhile is not waited for: what comes next is another value.
    space.lock(position).remove(0, position, KEY, AT.now_ms);
    assert!(!snapshot.next(&space, &mut walk, &mut batch), "it is saved");
    assert!(!space.snapshot_is_behind(None) && space.kept_bytes() == 0);
}
