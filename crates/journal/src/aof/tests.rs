//! Files as they should be, and with everything that can be wrong with them, as data.

use std::io::IoSlice;
use std::path::Path;

use super::*;
use crate::storage::{SimulatedStorage, Storage};

fn command(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    resp::write_command(&mut out, words);
    out
}

/// A batch as the writer has it, after `synced` safe bytes.
fn batch(synced: u64, commands: &[Vec<u8>]) -> Vec<u8> {
    let bytes = commands.concat();
    let mut out = Vec::new();
    sum_of(&[IoSlice::new(&bytes)], synced).put(&mut out);
    [out, bytes].concat()
}

/// What a file says: its records, and then how it ends.
fn read_as(content: &[u8], is_ours: bool) -> (Vec<String>, Option<Damage>, Cut) {
    let storage = SimulatedStorage::new(1);
    storage.put(Path::new("d/a"), content);
    let file = storage.open(Path::new("d/a")).expect("it was put there");
    let mut reader = AofReader::new(file, 0, content.len() as u64, is_ours);
    let mut records = Vec::new();
    loop {
        let damage = match reader.next() {
            Ok(Some(record)) => {
                let mut words = Vec::new();
                record.for_each(|args| words.extend(args.iter().map(|arg| arg.escape_ascii().to_string())));
                let bytes: usize = record.pieces().map(<[u8]>::len).sum();
                assert_eq!(bytes as u64, record.stream_bytes());
                assert_eq!(record.is_transaction(), record.commands() > 1);
                records.push(words.join(" "));
                continue;
            }
            Ok(None) => None,
            Err(AofError::Damage(damage)) => Some(damage),
            Err(AofError::Storage(error)) => panic!("{error}"),
        };
        let end = damage.as_ref().map_or(content.len() as u64, |damage| damage.position);
        return (records, damage, reader.cut_at(end));
    }
}

fn read(content: &[u8]) -> (Vec<String>, Option<(Flaw, u64)>) {
    let (records, damage, _) = read_as(content, false);
    (records, damage.map(|damage| (damage.flaw, damage.position)))
}

#[test]
fn records_are_commands_and_transactions() {
    let content = [
        command(&["SELECT", "0"]),
        b"#TS:1700000000\r\n".to_vec(),
        command(&["SET", "k", "line\r\nend"]),
        command(&["multi"]),
        command(&["INCR", "a"]),
        b"# anything\r\n".to_vec(),
        command(&["INCR", "b"]),
        command(&["EXEC"]),
        command(&["DEL", "k"]),
    ];
    let expected = ["SELECT 0", "SET k line\\r\\nend", "multi INCR a INCR b EXEC", "DEL k"];
    let content = content.concat();
    assert_eq!(read(&content), (expected.map(str::to_owned).to_vec(), None));
    assert_eq!(read(b""), (vec![], None));
    // Every prefix ends at a record's boundary or is cut there.
    let mut ends = Vec::new();
    for end in 0..content.len() {
        let (records, flaw) = read(&content[..end]);
        assert_eq!(records, expected[..records.len()]);
        match flaw {
            None => ends.push(end),
            Some((flaw, at)) => {
                assert!(matches!(flaw, Flaw::Short | Flaw::Unfinished), "at {end}: {flaw:?}");
                assert!(ends.contains(&(at as usize)), "cut at {at} of {end}");
            }
        }
    }
}

#[test]
fn what_is_no_command_is_corrupt() {
    let first = command(&["SET", "k", "v"]);
    let cases: [&[u8]; 9] = [
        b"SET k v\r\n",
        b"\r\n*1\r\n$4\r\nPING\r\n",
        b"*0\r\n*1\r\n$4\r\nPING\r\n",
        b"*-1\r\n",
        b"*x\r\n",
        b"*1\r\nPING\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
        b"#SUM:what\r\n*1\r\n$4\r\nPING\r\n",
    ];
    for case in cases {
        let (records, flaw) = read(&[&first, case].concat());
        assert_eq!(records.len(), 1, "{}", case.escape_ascii());
        assert_eq!(flaw, Some((Flaw::Corrupt, first.len() as u64)), "{}", case.escape_ascii());
    }
}

#[test]
fn zeros_at_the_end_are_what_a_crash_lost() {
    let first = command(&["SET", "k", "v"]);
    for kept in 0..first.len() {
        let content = [&first, &first[..kept], &[0; 700]].concat();
        let (_, damage, _) = read_as(&content, false);
        let damage = damage.expect("zeros");
        assert_eq!((damage.is_torn_tail(), damage.position), (true, first.len() as u64), "{kept} bytes kept");
    }
    let followed = [&first, &[0; 700][..], &first].concat();
    assert_eq!(read(&followed).1, Some((Flaw::Corrupt, first.len() as u64)));
}

fn values(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| command(&["SET", &n.to_string(), &"v".repeat(bytes)])).collect()
}

#[test]
fn checksums_tell_what_a_crash_lost() {
    let one = batch(0, &values(2, 700));
    let two = batch(0, &values(2, 700));
    let content = [&one[..], &two].concat();
    assert_eq!(read(&content).0.len(), 4);
    for page in 0..content.len() / 512 {
        let mut lost = content.clone();
        lost[page * 512..(page + 1) * 512].fill(0);
        let (records, damage, cut) = read_as(&lost, true);
        let damage = damage.expect("a page is lost");
        assert_eq!(damage.flaw, Flaw::LostPages, "page {page}: {damage}");
        let expected = if page * 512 < one.len() { 0 } else { one.len() };
        assert_eq!((damage.position as usize, records.len()), (expected, expected.min(2)), "page {page}");
        assert_eq!(cut, Cut { position: expected as u64, sum_at: None });
    }
    // The same where a later line knows that it was safe.
    let told = [&content[..], &batch(content.len() as u64, &values(1, 5))].concat();
    let mut lost = told.clone();
    lost[1024..1536].fill(0);
    assert_eq!(read(&lost).1, Some((Flaw::Corrupt, 0)));
}

#[test]
fn checksums_tell_of_every_flipped_bit() {
    let content = [batch(0, &values(1, 40)), batch(0, &values(2, 40))].concat();
    let expected = read(&content).0;
    for bit in 0..content.len() * 8 {
        let mut flipped = content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (records, damage, _) = read_as(&flipped, true);
        // What changes nothing but the line itself is passed over like a remark: the commands are what they were.
        assert!(damage.is_some() || records == expected, "bit {bit}: {records:?}");
        assert!(expected.starts_with(&records), "bit {bit}: {records:?}");
    }
}

#[test]
fn a_write_that_was_cut_short_keeps_its_whole_commands() {
    let one = batch(0, &values(1, 10));
    let commands = values(3, 10);
    let two = batch(0, &commands);
    let line = two.len() - commands.concat().len();
    let content = [&one[..], &two].concat();
    for end in one.len() + 1..content.len() {
        let (records, damage, cut) = read_as(&content[..end], true);
        let whole = (end - one.len()).saturating_sub(line) / commands[0].len();
        assert_eq!(records.len(), 1 + whole, "cut at {end}");
        let kept = one.len() + line + whole * commands[0].len();
        let expected = match whole {
            0 => Cut { position: one.len() as u64, sum_at: None },
            _ => Cut { position: kept as u64, sum_at: Some(one.len() as u64) },
        };
        assert_eq!(cut, expected, "cut at {end}: {damage:?}");
        // Cut so, and gone on with by this software or by another, it is read again.
        let mut mended = content[..cut.position as usize].to_vec();
        let foreign = [&mended[..], &values(4, 10).concat()].concat();
        if let Some(sum_at) = cut.sum_at {
            put_cut(&mut mended, sum_at);
        }
        for more in [0, 1, 4] {
            let mended = [&mended[..], &batch(3, &values(more, 10))].concat();
            let (records, flaw) = read(&mended);
            assert_eq!((records.len(), flaw), (1 + whole + more, None), "cut at {end}, {more} more");
        }
        let (records, damage, _) = read_as(&foreign, true);
        assert!(records.len() == 5 + whole || damage.is_some(), "cut at {end}");
    }
}

#[test]
fn records_larger_than_the_buffer_are_read() {
    let large = command(&["SET", "k", &"x".repeat(3 << 20)]);
    let content = [batch(0, &[command(&["PING"]), large.clone()]), large, command(&["PING"])].concat();
    let (records, flaw) = read(&content);
    assert_eq!((records.len(), flaw), (4, None));
    assert_eq!(records[1].len(), 6 + (3 << 20));
    let (records, flaw) = read(&content[..content.len() - 20]);
    assert_eq!((records.len(), flaw.map(|flaw| flaw.0)), (2, Some(Flaw::Short)));
}
