//! The log against a model, and under threads.

use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

fn limits(segment_bytes: usize, ring_bytes: u64, backlog_bytes: u64) -> LogLimits {
    LogLimits { segment_bytes, ring_bytes, backlog_bytes }
}

fn select(db: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_select(&mut out, db);
    out
}

fn read(consumer: &Consumer, from: u64) -> Result<Vec<u8>, Gone> {
    let mut parts = Vec::new();
    consumer.read(from, usize::MAX, &mut parts)?;
    let mut at = from;
    for part in &parts {
        assert_eq!(part.start(), at);
        at = part.end();
    }
    Ok(parts.iter().flat_map(|part| part.iter().copied()).collect())
}

#[test]
fn what_is_retained_stays_and_holds_nobody_up() {
    let log = Arc::new(Log::new(limits(64, 100, 50), 0));
    let mut retaining = log.retaining_consumer(0, u64::MAX).expect("the start");
    let loose = log.consumer(0, false).expect("the start");
    log.append(0, &[b'x'; 300]);
    log.append_aside(b"PING");
    let (end, mut expected) = (log.end(), select(0));
    expected.extend_from_slice(&[b'x'; 300]);
    expected.extend_from_slice(b"PING");
    assert_eq!((log.has_room(), log.kept_bytes()), (true, end));
    assert_eq!(read(&retaining, 0), Ok(expected));
    retaining.release(end);
    log.append(0, &[b'y'; 300]);
    drop(retaining);
    assert!(read(&loose, 0).is_err() && log.kept_bytes() <= 300);
}

#[test]
fn records_follow_each_other_with_a_select_where_the_database_changes() {
    let log = Arc::new(Log::new(limits(64, 1000, 1000), 100));
    let consumer = log.consumer(100, true).expect("the start");
    assert!(!log.is_active());
    log.set_active(true);
    assert!(log.is_active());
    let mut expected = select(0);
    expected.extend_from_slice(b"one");
    assert_eq!(log.append(0, b"one"), 100 + expected.len() as u64);
    assert_eq!(log.append(0, b"two"), 103 + expected.len() as u64);
    expected.extend_from_slice(b"two");
    log.append_large(12, vec![b'x'; 70].into());
    expected.extend_from_slice(&select(12));
    expected.extend_from_slice(&[b'x'; 70]);
    log.append(12, b"three");
    expected.extend_from_slice(b"three");
    let cut = log.forget_db();
    assert_eq!(cut, 100 + expected.len() as u64);
    log.append(12, b"four");
    expected.extend_from_slice(&select(12));
    expected.extend_from_slice(b"four");
    log.append_stream(b"stream", 3);
    log.append(3, b"five");
    expected.extend_from_slice(b"streamfive");
    assert_eq!(read(&consumer, 100), Ok(expected.clone()));
    assert_eq!(read(&consumer, cut - 2).map(|bytes| bytes[..2].to_vec()), Ok(b"ee".to_vec()));
    let mut parts = Vec::new();
    consumer.read(100, 1, &mut parts).expect("in memory");
    assert_eq!(parts.len(), 1, "one part is enough for one byte");
    parts.clear();
    consumer.read(cut, usize::MAX, &mut parts).expect("in memory");
    assert_eq!((parts[0].start(), parts[0].db_after()), (cut, Some(3)), "a piece starts at the cut");
    assert_eq!(log.end(), 100 + expected.len() as u64);
}

#[test]
fn a_file_begins_where_it_was_asked_to() {
    let log = Arc::new(Log::new(limits(64, 1000, 0), 0));
    let mut consumer = log.consumer(0, true).expect("the start");
    log.append(0, b"one");
    let start = log.begin_file();
    assert_eq!(log.begin_file(), start);
    log.append(0, b"two");
    let mut parts = Vec::new();
    assert_eq!(consumer.read(0, usize::MAX, &mut parts), Ok(false));
    assert_eq!(parts.last().map(Part::end), Some(start), "not beyond it");
    parts.clear();
    assert_eq!(consumer.read(start, usize::MAX, &mut parts), Ok(true));
    assert_eq!(*parts[0], *[select(0), b"two".to_vec()].concat());
    let next = log.begin_file();
    consumer.release(next);
    assert_eq!(consumer.read(next, usize::MAX, &mut parts), Ok(true), "before anything follows");
}

#[test]
fn writers_have_room_until_a_required_consumer_is_far_behind() {
    let log = Arc::new(Log::new(limits(64, 100, 30), 0));
    log.append_stream(&[b'a'; 200], 0);
    assert!(log.has_room(), "nobody needs it");
    let mut slow = log.consumer(200, true).expect("the end");
    let bystander = log.consumer(200, false).expect("the end");
    for _ in 0..9 {
        log.append_stream(&[b'b'; 11], 0);
    }
    assert!(log.has_room());
    log.append_stream(b"b", 0);
    assert!(!log.has_room(), "100 bytes are too many");
    slow.release(201);
    assert!(log.has_room());
    assert_eq!(read(&bystander, 200).map(|bytes| bytes.len()), Ok(100));
    slow.release(300);
    slow.release(250);
    assert_eq!(slow.held(), 300);
    assert!(log.kept_bytes() >= 30, "the backlog");
    assert!(read(&bystander, 270).is_ok());
    assert_eq!(read(&bystander, 200).expect_err("left behind").asked, 200);
    drop(slow);
    log.append_stream(&[b'c'; 150], 0);
    assert!(log.has_room());
}

#[test]
fn a_stream_that_begins_anew_leaves_its_consumers_behind() {
    let log = Arc::new(Log::new(limits(64, 10, 30), 0));
    let mut consumer = log.consumer(0, true).expect("the start");
    log.append_stream(&[b'a'; 20], 0);
    assert!(!log.has_room());
    log.restart_at(20);
    assert!(log.has_room() && log.end() == 20);
    assert!(read(&consumer, 20).is_err(), "although the offset is there");
    consumer.release(20);
    let fresh = log.consumer(20, false).expect("the start");
    log.append(0, b"x");
    assert_eq!(read(&fresh, 20), Ok([select(0), b"x".to_vec()].concat()));
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_sleeping_consumer_is_woken_once() {
    let log = Arc::new(Log::new(limits(64, 10, 30), 0));
    let consumer = log.consumer(0, false).expect("the start");
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let woken = || count.0.load(Ordering::SeqCst);
    log.append_stream(b"a", 0);
    assert!(consumer.is_ready(0, &waker));
    assert!(!consumer.is_ready(1, &waker));
    assert_eq!(woken(), 0);
    log.append_stream(b"b", 0);
    log.append_stream(b"c", 0);
    assert_eq!(woken(), 1);
    assert!(!consumer.is_ready(3, &waker));
    log.restart_at(7);
    assert_eq!(woken(), 2, "to learn that it is gone");
    assert!(consumer.is_ready(7, &waker));
}

/// A consumer of the model: where it reads, what it holds.
struct Reader {
    consumer: Consumer,
    at: u64,
    parts: Vec<Part>,
    is_required: bool,
}

#[test]
fn random_operations_agree_with_a_model() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let start = random.u64(0..1000);
        let (segment, backlog) = (random.usize(40..400), random.u64(0..600));
        let log = Arc::new(Log::new(limits(segment, 500, backlog), start));
        let (mut stream, mut db) = (Vec::new(), None);
        let mut readers: Vec<Reader> = Vec::new();
        for step in 0..400 {
            let end = start + stream.len() as u64;
            match random.u32(0..12) {
                0..5 => {
                    let record = vec![step as u8; random.usize(1..120)];
                    let to = random.u32(0..3);
                    if db.replace(to) != Some(to) {
                        stream.extend_from_slice(&select(to));
                    }
                    stream.extend_from_slice(&record);
                    let large = random.u32(0..6) == 0;
                    let after =
                        if large { log.append_large(to, record.into()) } else { log.append(to, &record) };
                    assert_eq!(after, start + stream.len() as u64);
                }
                5 => {
                    assert_eq!(log.forget_db(), end);
                    db = None;
                }
                6 if readers.len() < 4 => {
                    let from = random.u64(log.start()..=end);
                    let is_required = random.bool();
                    let consumer = log.consumer(from, is_required).expect("it is there");
                    readers.push(Reader { consumer, at: from, parts: Vec::new(), is_required });
                }
                7 if !readers.is_empty() => {
                    readers.swap_remove(random.usize(0..readers.len()));
                }
                _ => {
                    let Some(reader) = random.choice(readers.iter_mut()) else { continue };
                    let before = reader.parts.len();
                    let read = reader.consumer.read(reader.at, random.usize(1..300), &mut reader.parts);
                    if read.is_err() {
                        assert!(!reader.is_required && reader.at < log.start(), "seed {seed}");
                        reader.at = end;
                    }
                    for part in &reader.parts[before..] {
                        assert_eq!(part.start(), reader.at, "seed {seed}");
                        reader.at = part.end();
                    }
                    // Parts that are still held keep their bytes, whatever the log reuses meanwhile.
                    for part in &reader.parts {
                        let at = (part.start() - start) as usize;
                        assert_eq!(**part, stream[at..at + part.len()], "seed {seed}");
                    }
                    if random.bool() {
                        reader.parts.clear();
                        reader.consumer.release(reader.at);
                    }
                }
            }
            let end = start + stream.len() as u64;
            let held = readers.iter().filter(|reader| reader.is_required);
            let slowest = held.map(|reader| reader.consumer.held()).min();
            assert_eq!(log.has_room(), slowest.is_none_or(|from| end - from < 500), "seed {seed}");
            assert!(log.kept_bytes() >= backlog.min(end - log.start()), "seed {seed}");
        }
    }
}

#[test]
fn consumers_on_threads_see_whole_records_in_one_order() {
    let (threads, records) = if cfg!(miri) { (2, 40) } else { (3, 20_000) };
    let log = Arc::new(Log::new(limits(1 << 12, 1 << 16, 1 << 10), 0));
    let consumers: Vec<Consumer> = (0..2).map(|_| log.consumer(0, true).expect("the start")).collect();
    let writers = (0..threads).map(|thread: u32| {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for number in 0..records {
                while !log.has_room() {
                    std::thread::yield_now();
                }
                // A record says who wrote it, its number, and how long it is; and is filled with the number.
                let filling = (number * 7 % 300) as usize;
                let mut record = vec![thread as u8, (number >> 8) as u8, number as u8, (filling >> 8) as u8];
                record.push(filling as u8);
                record.resize(5 + filling, number as u8);
                log.append_stream(&record, 0);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let readers = consumers.into_iter().map(|mut consumer| {
        std::thread::spawn(move || {
            let (mut at, mut order, mut next) = (0, Vec::new(), vec![0; threads as usize]);
            while order.len() < (threads * records) as usize {
                let mut parts = Vec::new();
                consumer.read(at, 5000, &mut parts).expect("it is required");
                if parts.is_empty() {
                    let thread = Arc::new(Unpark(std::thread::current()));
                    if !consumer.is_ready(at, &Waker::from(thread)) {
                        std::thread::park();
                    }
                }
                for part in parts {
                    let mut rest = &part[..];
                    while let [thread, high, low, len_high, len_low, ..] = *rest {
                        let number = u32::from(high) << 8 | u32::from(low);
                        let len = usize::from(len_high) << 8 | usize::from(len_low);
                        assert_eq!(number, next[thread as usize], "a thread's records stay in order");
                        next[thread as usize] += 1;
                        assert!(rest[5..5 + len].iter().all(|byte| *byte == low));
                        order.push(thread);
                        rest = &rest[5 + len..];
                    }
                    assert!(rest.is_empty(), "parts end with a record");
                    at = part.end();
                }
                consumer.release(at);
            }
            order
        })
    });
    let readers: Vec<_> = readers.collect();
    writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
    let orders: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("a reader")).collect();
    assert_eq!(orders[0], orders[1]);
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
