//! Damaged manifests and append-only files: whatever they hold, they are read or refused, and reading what is left after
//! a cut finds nothing wrong.
//!
//! `HALCYON_FUZZ_INPUTS=5000000 cargo test --release -p journal --test fuzz` tries that many.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use journal::aof::{AofError, AofReader, put_cut, put_timestamp};
use journal::manifest::Manifest;
use journal::storage::{SimulatedStorage, Storage, StoredFile};

fn inputs() -> u64 {
    std::env::var("HALCYON_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(60_000)
}

/// Changes some bytes of `text`: flips, cuts, copies, zeros, words of the format.
fn mutate(random: &mut Rng, text: &mut Vec<u8>, words: &[&str]) {
    for _ in 0..random.usize(0..4) {
        let len = text.len();
        let at = random.usize(0..=len);
        let to = random.usize(at..=len.min(at + 600));
        match random.u32(0..7) {
            0 if at < len => text[at] ^= 1 << random.u32(0..8),
            1 => text.truncate(at),
            2 => drop(text.drain(at..to)),
            3 => text[at..to].fill(0),
            4 => {
                let copy = text[at..to].to_vec();
                let into = random.usize(0..=len);
                drop(text.splice(into..into, copy));
            }
            5 => drop(text.splice(at..at, random.choice(words).unwrap_or(&"").bytes())),
            _ if at < len => text[at] = random.u8(..),
            _ => {}
        }
    }
}

#[test]
fn damaged_manifests_are_read_or_refused() {
    let mut random = Rng::with_seed(7);
    let words = [
        "file ",
        " seq ",
        " type ",
        "\"",
        "\\x",
        " startoffset ",
        "-1",
        "99999999999999999999",
        "\n",
        "#",
        "/",
    ];
    let text = "file a.1.base.rdb seq 1 type b\nfile \"a b.1.incr.aof\" seq 1 type i startoffset 0 endoffset 44\n\
                file a.2.incr.aof seq 2 type i startoffset 44 halcyon-bytes 0 halcyon-prefix 23\n";
    let mut read = 0;
    for _ in 0..inputs() / 4 {
        let mut damaged = text.as_bytes().to_vec();
        mutate(&mut random, &mut damaged, &words);
        if let Ok(manifest) = Manifest::parse(&damaged) {
            read += 1;
            assert!(manifest.loaded().all(|entry| !entry.name.contains('/')));
            let again = manifest.format();
            if !again.is_empty() {
                let parsed = Manifest::parse(again.as_bytes()).expect("what is written is read");
                // An end without a start is not written.
                assert_eq!(parsed.format(), again);
            }
        }
    }
    assert!(read > 0);
}

/// A file of a few batches, with all that may stand in one.
fn sample(random: &mut Rng) -> Vec<u8> {
    let disk = SimulatedStorage::new(random.u64(..));
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let names = journal::files::Names { data: "data".into(), directory: "d".into(), prefix: "a".into() };
    let directory =
        journal::files::Directory::create(&storage, &names, journal::manifest::BaseFormat::Aof, b"", 0);
    let recovered =
        journal::recover::Recovered::of_new(directory.expect("a directory")).expect("nothing to read");
    let limits = journal::log::LogLimits { segment_bytes: 4096, ring_bytes: 1 << 20, backlog_bytes: 0 };
    let log = Arc::new(journal::log::Log::new(limits, 0));
    let options = journal::files::WriterOptions {
        policy: journal::files::Policy::Always,
        timestamps: random.bool(),
        checksums: random.u32(0..4) > 0,
        kept_history_bytes: 0,
        needed_from: u64::MAX,
    };
    let now = base::clock::Now { unix_ms: 1_700_000_000_000, unix_us: 0, mono_us: 0 };
    let mut writer = journal::files::Writer::open(recovered, &log, options, now).expect("a writer");
    for number in 0..random.u32(1..8) {
        let mut record = Vec::new();
        let value = "v".repeat(random.usize(0..700));
        if number % 3 == 0 {
            resp::write_command(&mut record, ["MULTI"]);
        }
        resp::write_command(&mut record, ["SET", "key", &value]);
        if number % 3 == 0 {
            resp::write_command(&mut record, ["EXEC"]);
        }
        log.append(number % 2, &record);
        if random.bool() {
            let _ = writer.step(now);
        }
    }
    writer.close(now).expect("a good disk");
    disk.content(&names.file("a.1.incr.aof")).expect("the file")
}

fn read(file: &Arc<dyn StoredFile>, is_ours: bool) -> (AofReader, u64, Option<AofError>) {
    let size = file.size().expect("a good disk");
    let mut reader = AofReader::new(Arc::clone(file), 0, size, is_ours);
    let mut records = 0;
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                records += 1;
                let mut commands = 0;
                record.for_each(|args| commands += usize::from(!args.is_empty()));
                assert_eq!(commands, record.commands());
            }
            Ok(None) => return (reader, records, None),
            Err(error) => return (reader, records, Some(error)),
        }
    }
}

#[test]
fn damaged_files_are_read_up_to_the_damage() {
    let mut random = Rng::with_seed(11);
    let words = [
        "*1\r\n$4\r\nPING\r\n",
        "*",
        "$",
        "\r\n",
        "#",
        "#SUM:10:0:0123456789abcdef\r\n",
        "#CUT:0\r\n",
        "$9999999999\r\n",
        "*1\r\n$5\r\nMULTI\r\n",
        "*1\r\n$4\r\nEXEC\r\n",
    ];
    let samples: Vec<Vec<u8>> = (0..200).map(|_| sample(&mut random)).collect();
    let (mut whole, mut torn, mut corrupt) = (0, 0, 0);
    for number in 0..inputs() {
        // Each disk has room for many: they are made seldom, and stay small.
        let storage = SimulatedStorage::new(number);
        let mut content = samples[random.usize(0..samples.len())].clone();
        if random.u32(0..8) == 0 {
            put_timestamp(&mut content, 1);
            let sum_at = random.u64(0..content.len() as u64);
            put_cut(&mut content, sum_at);
        }
        mutate(&mut random, &mut content, &words);
        let path = Path::new("d/a");
        storage.put(path, &content);
        let file = storage.open(path).expect("it was put there");
        let is_ours = random.bool();
        let (reader, records, error) = read(&file, is_ours);
        let damage = match error {
            None => {
                whole += 1;
                continue;
            }
            Some(AofError::Damage(damage)) => damage,
            Some(AofError::Storage(error)) => panic!("{error}"),
        };
        if !damage.is_torn_tail() {
            corrupt += 1;
            continue;
        }
        torn += 1;
        // As recovery does it: what is left is whole.
        let cut = reader.cut_at(damage.position);
        content.truncate(cut.position as usize);
        if let Some(sum_at) = cut.sum_at {
            put_cut(&mut content, sum_at);
        }
        storage.put(path, &content);
        let (_, again, error) = read(&storage.open(path).expect("it was put there"), is_ours);
        assert_eq!((again, error), (records, None), "input {number}: {damage}");
    }
    println!("{whole} whole, {torn} torn, {corrupt} corrupt");
    assert!(whole > 0 && torn > 0 && corrupt > 0);
}
