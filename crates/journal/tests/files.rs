//! The files as they stand on the disk: what is made, what is loaded, what is refused and in which words.

mod cutting;

use std::path::PathBuf;
use std::sync::Arc;

use base::clock::Now;
use base::limits::JOURNAL_UNSAFE_BYTES_MAX;
use journal::JournalError;
use journal::files::{Directory, Names, Policy, Progress, Writer, WriterOptions};
use journal::log::{Log, LogLimits};
use journal::manifest::{BaseFormat, StreamEnd};
use journal::recover::{FileFacts, Item, Recovered, Recovery, Summary};
use journal::storage::{Faults, SimulatedStorage, Storage, append_all};

const SELECT: &str = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";
const ONE: &str = "*2\r\n$4\r\nINCR\r\n$1\r\n1\r\n";
const TWO: &str = "*2\r\n$4\r\nINCR\r\n$1\r\n2\r\n";
const EMPTY_RDB: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";
const OPTIONS: WriterOptions = WriterOptions {
    policy: Policy::Always,
    timestamps: false,
    checksums: false,
    kept_history_bytes: 0,
    needed_from: u64::MAX,
};

/// What is loaded, and how many bytes are cut off; or why it is refused.
type Outcome<'a> = Result<(&'a str, usize), &'a str>;

/// Names and contents.
type Files<'a> = Vec<(&'a str, &'a [u8])>;

struct Bench {
    disk: SimulatedStorage,
    storage: Arc<dyn Storage>,
    names: Names,
    now: Now,
}

impl Bench {
    /// A disk with these files; those without a directory lie in the data directory.
    fn new(files: &[(&str, &[u8])]) -> Bench {
        let disk = SimulatedStorage::new(1);
        let names =
            Names { data: PathBuf::from("data"), directory: "d".to_owned(), prefix: "a.aof".to_owned() };
        files.iter().for_each(|(name, content)| disk.put(&names.data.join(name), content));
        let now = Now { unix_ms: 1_700_000_000_000, unix_us: 1_700_000_000_000_000, mono_us: 0 };
        Bench { storage: Arc::new(disk.clone()), disk, names, now }
    }

    fn text(&self, name: &str) -> String {
        let content = self.disk.content(&self.names.data.join(name));
        content.map_or("(missing)".to_owned(), |content| String::from_utf8_lossy(&content).into_owned())
    }

    fn created(&self, start_offset: u64) -> Recovered {
        let directory =
            Directory::create(&self.storage, &self.names, BaseFormat::Rdb, EMPTY_RDB, start_offset);
        Recovered::of_new(directory.expect("a new directory")).expect("nothing to read")
    }

    fn open(&self, recovered: Recovered, options: WriterOptions) -> (Arc<Log>, Writer) {
        let limits = LogLimits { segment_bytes: 4096, ring_bytes: 1 << 20, backlog_bytes: 0 };
        let log = Arc::new(Log::new(limits, recovered.summary.end_offset.unwrap_or(0)));
        let writer = Writer::open(recovered, &log, options, self.now).expect("a writer");
        (log, writer)
    }

    fn begun(&self, options: WriterOptions) -> (Arc<Log>, Writer) {
        self.open(self.created(0), options)
    }

    fn step(&mut self, writer: &mut Writer, ms: u64) -> Progress {
        self.now.unix_ms += ms as i64;
        self.now.mono_us += ms * 1000;
        writer.step(self.now)
    }

    /// Makes the next file before it is wanted.
    fn prepare(&self, writer: &mut Writer) {
        let change = writer.prepare_file().expect("nothing is under way").expect("none is made yet");
        writer.change_done(change.run(), self.now).expect("a good disk");
    }

    fn install(&self, writer: &mut Writer, format: BaseFormat, at: u64) -> Result<(), JournalError> {
        let change = writer.begin_install(format, at, self.now)?;
        writer.change_done(change.run(), self.now)
    }

    /// Reads everything: words of the records, with `|` where a file begins.
    fn read(&self, load_truncated: bool) -> Result<(String, Recovered), JournalError> {
        self.read_with(Recovery::new(self.directory()?, load_truncated)?)
    }

    fn directory(&self) -> Result<Directory, JournalError> {
        Ok(Directory::open(&self.storage, &self.names)?.expect("there are files"))
    }

    fn read_with(&self, mut recovery: Recovery) -> Result<(String, Recovered), JournalError> {
        let (mut told, mut rdb_bytes) = (String::new(), None);
        while let Some(item) = recovery.next()? {
            match item {
                Item::File(FileFacts { rdb, .. }) => {
                    told.push('|');
                    rdb_bytes = rdb.map(|_| EMPTY_RDB.len() as u64);
                }
                Item::Record(record) => record.for_each(|args| {
                    told.push_str(&String::from_utf8_lossy(args.at(args.len() - 1)));
                }),
            }
            if let Some(position) = rdb_bytes.take() {
                recovery.rdb_ended(position);
            }
        }
        Ok((told, recovery.finish()?))
    }

    fn error(&self, load_truncated: bool) -> String {
        self.read(load_truncated).map(|read| read.0).expect_err("something is wrong").to_string()
    }
}

#[test]
fn the_first_start_makes_a_base_and_an_incremental_file() {
    let bench = Bench::new(&[]);
    assert!(Directory::open(&bench.storage, &bench.names).expect("to look").is_none());
    let recovered = bench.created(70);
    assert_eq!(recovered.summary.end_offset, Some(70));
    let manifest = "file a.aof.1.base.rdb seq 1 type b\n\
                    file a.aof.1.incr.aof seq 1 type i startoffset 70 halcyon-bytes 0\n";
    assert_eq!(bench.text("d/a.aof.manifest"), manifest);
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), "");
    bench.disk.restart();
    assert_eq!(bench.text("d/a.aof.manifest"), manifest, "all of it is safe");
    assert_eq!(bench.read(false).expect("files").0, "||");
    let names = Names { directory: "../elsewhere".to_owned(), ..bench.names.clone() };
    let refused = Directory::create(&bench.storage, &names, BaseFormat::Aof, b"", 0);
    assert!(refused.err().expect("a path").to_string().contains("appenddirname can't be a path"));
}

#[test]
fn a_single_file_of_an_old_server_becomes_the_base() {
    let both = [EMPTY_RDB, ONE.as_bytes()].concat();
    let manifest: &[u8] = b"file a.aof seq 1 type b\n";
    let cases: [(&str, Files<'_>, &str); 3] = [
        ("commands", vec![("a.aof", ONE.as_bytes())], "|1"),
        ("an RDB part and commands", vec![("a.aof", &both)], "|1"),
        (
            "a move that was interrupted",
            vec![("a.aof", TWO.as_bytes()), ("d/a.aof.manifest", manifest)],
            "|2",
        ),
    ];
    for (case, files, expected) in cases {
        let bench = Bench::new(&files);
        let (told, recovered) = bench.read(true).expect(case);
        assert_eq!(told, expected, "{case}");
        assert!(!recovered.summary.is_exact, "{case}");
        assert_eq!(bench.text("a.aof"), "(missing)", "{case}");
        let (log, mut writer) = bench.open(recovered, OPTIONS);
        log.append(0, ONE.as_bytes());
        assert_eq!(writer.step(bench.now).synced_to, log.end());
        bench.disk.restart();
        assert_eq!(bench.read(true).expect(case).0, format!("{expected}|01"), "{case}");
    }
}

#[test]
fn what_other_servers_left_is_loaded_or_refused_in_plain_words() {
    let manifest: &[u8] =
        b"file b seq 1 type b\nfile i1 seq 1 type i startoffset 5\nfile i2 seq 2 type i startoffset 9\n";
    let torn = &[ONE.as_bytes(), &TWO.as_bytes()[..9]].concat()[..];
    let multi = format!("{ONE}*1\r\n$5\r\nMULTI\r\n{TWO}");
    let flipped = format!("{ONE}x{}", &TWO[1..]);
    let base = ("d/b", EMPTY_RDB);
    let (one, two) = (ONE.as_bytes(), TWO.as_bytes());
    let listed = ("d/a.aof.manifest", manifest);
    let good: [(&str, Files<'_>, &str, u64); 3] = [
        ("whole files", vec![listed, base, ("d/i1", one), ("d/i2", two)], "||1|2", 0),
        ("the last ends early", vec![listed, base, ("d/i1", one), ("d/i2", torn)], "||1|1", 9),
        (
            "it ends in a transaction",
            vec![listed, base, ("d/i1", one), ("d/i2", multi.as_bytes())],
            "||1|1",
            36,
        ),
    ];
    for (case, files, expected, cut) in good {
        let bench = Bench::new(&files);
        let (told, recovered) = bench.read(true).expect(case);
        assert_eq!(told, expected, "{case}");
        let Summary { truncated, is_exact, end_offset, .. } = recovered.summary;
        assert_eq!(truncated.map_or(0, |truncated| truncated.bytes), cut, "{case}");
        assert_eq!((is_exact, end_offset), (false, Some(9 + ONE.len() as u64)), "{case}");
        let kept = if cut > 0 { ONE } else { TWO };
        assert_eq!(bench.text("d/i2"), kept, "{case}");
    }
    let no_base: &[u8] = b"file i1 seq 1 type i\nfile i1 seq 1 type i\n";
    let halcyon: &[u8] = b"file i1 seq 1 type i startoffset 0 endoffset 44 halcyon-bytes 44\n";
    let fix = "back the directory up, then have the rest of the file cut off: halcyon check --fix";
    let bad: [(Files<'_>, bool, String); 8] = [
        (
            vec![listed, base, ("d/i1", one), ("d/i2", torn)],
            false,
            format!(
                "the append-only file data/d/i2: the file ends within a command (at byte 21, after 1 commands). Set \
                 aof-load-truncated to yes to cut it there, or {fix}"
            ),
        ),
        (
            vec![listed, base, ("d/i1", torn), ("d/i2", two)],
            true,
            format!(
                "the append-only file data/d/i1: the file ends within a command (at byte 21, after 1 commands). To go \
                 on without what follows, {fix}"
            ),
        ),
        (
            vec![listed, base, ("d/i1", one), ("d/i2", flipped.as_bytes())],
            true,
            format!(
                "the append-only file data/d/i2: a command does not start with '*' (at byte 21, after 1 commands). To \
                 go on without what follows, {fix}"
            ),
        ),
        (
            vec![listed, base, ("d/i2", two)],
            true,
            "the append-only file data/d/i1 is named by the manifest, but it is missing. Restore it from a backup"
                .to_owned(),
        ),
        (
            vec![("d/a.aof.manifest", no_base)],
            true,
            "the append-only manifest data/d/a.aof.manifest cannot be read: line 2: the sequence number does not \
             increase: 'file i1 seq 1 type i'. Mend the line, or restore the file from a backup"
                .to_owned(),
        ),
        (
            vec![("d/a.aof.manifest", b"")],
            true,
            "the append-only manifest data/d/a.aof.manifest cannot be read: the manifest is empty. Mend the line, or \
             restore the file from a backup"
                .to_owned(),
        ),
        (
            vec![("d/a.aof.manifest", halcyon), ("d/i1", one)],
            true,
            "the append-only file data/d/i1 has 21 bytes, but it had 44 when it was completed. Restore it from a backup"
                .to_owned(),
        ),
        (vec![("d/a.aof.3.incr.aof", one)], true, String::new()),
    ];
    for (files, load_truncated, expected) in bad {
        let bench = Bench::new(&files);
        bench.storage.create_directory(&bench.names.directory()).expect("a directory");
        if expected.is_empty() {
            let refused =
                Directory::open(&bench.storage, &bench.names).err().expect("no manifest").to_string();
            assert!(refused.starts_with("a.aof.3.incr.aof has commands, but the manifest"), "{refused}");
            continue;
        }
        assert_eq!(bench.error(load_truncated), expected);
        for (name, content) in files {
            assert_eq!(bench.text(name).as_bytes(), String::from_utf8_lossy(content).as_bytes(), "unchanged");
        }
    }
}

#[test]
fn always_syncs_once_for_all_that_a_step_wrote() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    let watermarks = writer.watermarks();
    for record in [ONE, TWO, ONE] {
        log.append(0, record.as_bytes());
    }
    assert_eq!((watermarks.written_to(), watermarks.synced_to()), (0, 0));
    let progress = bench.step(&mut writer, 0);
    assert_eq!((progress.written_to, progress.synced_to), (log.end(), log.end()));
    assert!(progress.sync.is_none() && progress.wake_at_us.is_none());
    assert_eq!(watermarks.synced_to(), log.end());
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), [SELECT, ONE, TWO, ONE].concat());
}

#[test]
fn every_second_a_sync_is_begun_that_holds_nothing_up() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { policy: Policy::EverySecond, ..OPTIONS });
    log.append(0, ONE.as_bytes());
    let first = log.end();
    let progress = bench.step(&mut writer, 0);
    assert_eq!((progress.written_to, progress.synced_to, progress.wake_at_us), (first, 0, Some(1_000_000)));
    assert!(progress.sync.is_none());
    let request = bench.step(&mut writer, 1_000).sync.expect("it is due");
    log.append(0, TWO.as_bytes());
    // The disk takes its time: writes go on, and no second sync is asked for.
    let progress = bench.step(&mut writer, 2_500);
    assert_eq!((progress.written_to, progress.synced_to), (log.end(), 0));
    assert!(progress.sync.is_none() && writer.status().sync_in_flight);
    assert_eq!(writer.status().syncs_delayed, 1);
    let at = log.begin_file();
    log.append(0, ONE.as_bytes());
    assert_eq!(bench.step(&mut writer, 0).written_to, at, "no file is closed before it is safe");
    assert_eq!(writer.close(bench.now), Err(JournalError::SyncInFlight));
    writer.sync_done(request.run(), bench.now);
    assert_eq!(writer.watermarks().synced_to(), first, "what came after it began is not safe");
    assert_eq!(bench.step(&mut writer, 0).written_to, log.end());
    assert_eq!(writer.watermarks().synced_to(), at);
    writer.close(bench.now).expect("a good disk");
    assert_eq!(writer.watermarks().synced_to(), log.end());
}

#[test]
fn much_that_is_not_safe_is_synced_before_a_second_is_over() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { policy: Policy::EverySecond, ..OPTIONS });
    let much = || vec![b'x'; JOURNAL_UNSAFE_BYTES_MAX as usize].into_boxed_slice();
    log.append_large(0, much());
    let request = bench.step(&mut writer, 0).sync.expect("so much is not safe");
    log.append_large(0, much());
    assert!(bench.step(&mut writer, 0).sync.is_none(), "one at a time");
    assert_eq!(writer.status().syncs_delayed, 0, "it is not late");
    writer.sync_done(request.run(), bench.now);
    let request = bench.step(&mut writer, 0).sync.expect("as much again is not safe");
    writer.sync_done(request.run(), bench.now);
    log.append(0, ONE.as_bytes());
    assert!(bench.step(&mut writer, 0).sync.is_none());
}

#[test]
fn a_file_that_was_made_before_is_written_to_while_the_one_before_is_synced() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { policy: Policy::EverySecond, ..OPTIONS });
    log.append(0, ONE.as_bytes());
    let early = bench.step(&mut writer, 1_000).sync.expect("it is due");
    let first = log.end();
    bench.prepare(&mut writer);
    let listed = "file a.aof.1.base.rdb seq 1 type b\n\
                  file a.aof.1.incr.aof seq 1 type i startoffset 0 halcyon-bytes 0\n\
                  file a.aof.2.incr.aof seq 2 type i halcyon-bytes 0\n";
    assert_eq!(bench.text("d/a.aof.manifest"), listed);
    log.append(0, TWO.as_bytes());
    let at = log.begin_file();
    log.append(0, ONE.as_bytes());
    let progress = bench.step(&mut writer, 0);
    assert_eq!((progress.written_to, progress.synced_to), (log.end(), 0), "nothing is waited for");
    assert!(progress.sync.is_none() && progress.change.is_none());
    assert_eq!(bench.text("d/a.aof.2.incr.aof"), format!("#AT:{at}\r\n{SELECT}{ONE}"));
    assert_eq!(bench.read(false).expect("files").0, "||012|01", "a process that is killed now loses nothing");
    writer.sync_done(early.run(), bench.now);
    assert_eq!(writer.watermarks().synced_to(), first, "it began before the rest was written");
    let request = bench.step(&mut writer, 0).sync.expect("a file that ended is not left unsafe");
    writer.sync_done(request.run(), bench.now);
    assert_eq!(writer.watermarks().synced_to(), log.end());
    let change = bench.step(&mut writer, 0).change.expect("it is known where files end");
    assert!(bench.step(&mut writer, 0).change.is_none(), "one at a time");
    assert_eq!(writer.close(bench.now), Err(JournalError::SyncInFlight));
    writer.change_done(change.run(), bench.now).expect("a good disk");
    let listed = format!(
        "file a.aof.1.base.rdb seq 1 type b\n\
         file a.aof.1.incr.aof seq 1 type i startoffset 0 endoffset {at} halcyon-bytes {at}\n\
         file a.aof.2.incr.aof seq 2 type i startoffset {at} halcyon-bytes 0\n"
    );
    assert_eq!(bench.text("d/a.aof.manifest"), listed);
    bench.disk.restart();
    let (told, recovered) = bench.read(false).expect("files");
    assert_eq!((told.as_str(), recovered.summary.end_offset), ("||012|01", Some(log.end())));
}

#[test]
fn a_base_is_installed_while_others_write() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { policy: Policy::EverySecond, ..OPTIONS });
    log.append(0, ONE.as_bytes());
    bench.prepare(&mut writer);
    let at = log.begin_file();
    log.append(0, TWO.as_bytes());
    put_base(&bench, ONE.as_bytes());
    let early = writer.begin_install(BaseFormat::Aof, at, bench.now).err();
    assert_eq!(early, Some(JournalError::SyncInFlight), "what the manifest will say has ended is not safe");
    let request = bench.step(&mut writer, 0).sync.expect("a file ended");
    writer.sync_done(request.run(), bench.now);
    let change = writer.begin_install(BaseFormat::Aof, at, bench.now).expect("a good disk");
    log.append(0, ONE.as_bytes());
    let progress = bench.step(&mut writer, 1_000);
    assert_eq!(progress.written_to, log.end());
    let request = progress.sync.expect("it is due");
    let done = change.run();
    assert_eq!(bench.read(false).expect("files").0, "|1|021");
    writer.sync_done(request.run(), bench.now);
    writer.change_done(done, bench.now).expect("a good disk");
    assert_eq!(writer.watermarks().synced_to(), log.end());
    assert_eq!(writer.sizes().base_bytes, writer.sizes().current_bytes);
    let listed = format!(
        "file a.aof.2.base.aof seq 2 type b\nfile a.aof.2.incr.aof seq 2 type i startoffset {at} halcyon-bytes 0\n"
    );
    assert_eq!(bench.text("d/a.aof.manifest"), listed);
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), "(missing)");
}

#[test]
fn a_file_that_was_made_in_vain_goes_with_the_rewrite() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    log.append(0, ONE.as_bytes());
    let _ = bench.step(&mut writer, 0);
    let at = log.begin_file();
    put_base(&bench, ONE.as_bytes());
    bench.install(&mut writer, BaseFormat::Aof, at).expect("a good disk");
    // Nothing is written between two rewrites.
    bench.prepare(&mut writer);
    assert_eq!((bench.text("d/a.aof.3.incr.aof"), log.begin_file()), (String::new(), at));
    put_base(&bench, ONE.as_bytes());
    bench.install(&mut writer, BaseFormat::Aof, at).expect("a good disk");
    assert_eq!(bench.text("d/a.aof.manifest").matches(" type i").count(), 1);
    assert_eq!(bench.text("d/a.aof.3.incr.aof"), "(missing)");
    log.append(0, TWO.as_bytes());
    assert_eq!(bench.step(&mut writer, 0).synced_to, log.end());
    bench.disk.restart();
    assert_eq!(bench.read(false).expect("files").0, "|1|02");
}

#[test]
fn when_the_file_before_cannot_be_synced_both_are_replaced() {
    for policy in [Policy::EverySecond, Policy::No] {
        let mut bench = Bench::new(&[]);
        let options = WriterOptions { policy, checksums: policy == Policy::No, ..OPTIONS };
        let (log, mut writer) = bench.begun(options);
        log.append(0, ONE.as_bytes());
        let _ = bench.step(&mut writer, 0);
        bench.prepare(&mut writer);
        let at = log.begin_file();
        log.append(0, TWO.as_bytes());
        let request = bench.step(&mut writer, 0).sync.expect("a file ended");
        bench.disk.set_faults(Faults { sync: 1000, ..Faults::default() });
        let done = request.run();
        bench.disk.set_faults(Faults::default());
        writer.sync_done(done, bench.now);
        let error = "cannot sync data/d/a.aof.1.incr.aof: Input/output error";
        assert_eq!(writer.status().error(), Some(error));
        log.append(0, ONE.as_bytes());
        let progress = bench.step(&mut writer, 0);
        assert_eq!((writer.status().error(), progress.written_to), (None, log.end()));
        assert_eq!(bench.text("d/a.aof.2.incr.aof"), "(missing)");
        writer.close(bench.now).expect("a good disk");
        bench.disk.restart();
        let (told, recovered) = bench.read(false).expect("files");
        assert_eq!((told.as_str(), recovered.summary.end_offset), ("|||01021", Some(log.end())));
        put_base(&bench, ONE.as_bytes());
        let refused = bench.install(&mut writer, BaseFormat::Aof, at).expect_err("its file is gone");
        let reason = "data/d/a.aof.1.incr.aof could not be synced";
        assert_eq!(refused.to_string(), format!("a base for offset {at} cannot be installed: {reason}"));
    }
}

#[test]
fn a_file_that_was_made_before_counts_only_after_all_of_the_one_before() {
    let manifest: &[u8] = b"file b seq 1 type b\nfile i1 seq 1 type i startoffset 0 halcyon-bytes 0\n\
                            file i2 seq 2 type i halcyon-bytes 0\n";
    // What is written together, after so many safe bytes of its file.
    let batch = |synced: usize, lines: &str| {
        let start = format!("{}:{synced}:", lines.len());
        let crc = rdb::crc64::update(rdb::crc64::update(0, start.as_bytes()), lines.as_bytes());
        format!("#SUM:{}:{synced}:{crc:016x}\r\n{lines}", lines.len()).into_bytes()
    };
    let one = batch(0, ONE);
    let both = [one.clone(), batch(0, TWO)].concat();
    let torn = &both[..both.len() - 4];
    let lost = [one.clone(), vec![0; batch(0, TWO).len()]].concat();
    let at = ONE.len();
    let next = |at: usize| batch(0, &format!("#AT:{at}\r\n{TWO}"));
    let next_synced = [next(2 * at), batch(next(2 * at).len(), ONE)].concat();
    let foreign = TWO.as_bytes().to_vec();
    let hole = "data/d/i2: the end of the file before it is missing (at byte 0, after 0 commands)";
    let short = "data/d/i1: the file ends within a command";
    let cases: [(&str, &[u8], Vec<u8>, Outcome<'_>); 10] = [
        ("nothing is lost", &both, next(2 * at), Ok(("||12|2", 0))),
        ("it has not begun", &both, Vec::new(), Ok(("||12|", 0))),
        ("it has not begun, and the end is lost", torn, Vec::new(), Ok(("||1|", at - 4))),
        ("the end is torn", torn, next(2 * at), Ok(("||1|", at - 4))),
        ("pages are lost", &lost, next(2 * at), Ok(("||1|", batch(0, TWO).len()))),
        ("the end is missing", &one, next(2 * at), Ok(("||1|", next(2 * at).len()))),
        (
            "its own end is torn",
            &both,
            next(2 * at)[..next(2 * at).len() - TWO.len() - 4].to_vec(),
            Ok(("||12|", 4)),
        ),
        ("what was safe is missing", &one, next_synced.clone(), Err(hole)),
        ("what was safe is torn", torn, next_synced, Err(short)),
        ("another server went on", torn, foreign, Err(short)),
    ];
    for (case, first, second, expected) in cases {
        let files = [("d/a.aof.manifest", manifest), ("d/b", EMPTY_RDB), ("d/i1", first), ("d/i2", &second)];
        let bench = Bench::new(&files);
        match expected {
            Ok((told, cut_bytes)) => {
                if cut_bytes > 0 {
                    assert!(bench.error(false).contains("Set aof-load-truncated to yes"), "{case}");
                }
                let (read, recovered) = bench.read(true).expect(case);
                assert_eq!(read, told, "{case}");
                let Summary { truncated, is_exact, end_offset, .. } = recovered.summary.clone();
                assert_eq!(truncated.map_or(0, |cut| cut.bytes), cut_bytes as u64, "{case}");
                assert!(is_exact && end_offset.is_some(), "{case}");
                let (log, mut writer) = bench.open(recovered, OPTIONS);
                log.append(0, ONE.as_bytes());
                assert_eq!(writer.step(bench.now).synced_to, log.end(), "{case}");
                bench.disk.restart();
                assert_eq!(bench.read(false).expect(case).0, format!("{told}01"), "{case}");
            }
            Err(reason) => {
                let error = bench.error(true);
                assert!(error.contains(reason), "{case}: {error}");
                assert_eq!(bench.text("d/i2").as_bytes(), &second[..], "{case}: unchanged");
            }
        }
    }
}

#[test]
fn timestamps_and_checksums_stand_between_records() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { timestamps: true, checksums: true, ..OPTIONS });
    for ms in [0, 400, 700] {
        log.append(0, ONE.as_bytes());
        let _ = bench.step(&mut writer, ms);
    }
    let text = bench.text("d/a.aof.1.incr.aof");
    let lines: Vec<&str> = text.split("\r\n").filter(|line| line.starts_with('#')).collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("#SUM:")).count(), 3, "{text}");
    assert_eq!((lines[1], lines[4]), ("#TS:1700000000", "#TS:1700000001"));
    let (told, recovered) = bench.read(false).expect("files");
    assert_eq!((told.as_str(), recovered.summary.timestamp), ("||0111", Some(1_700_000_001)));
    assert_eq!(recovered.summary.end_offset, Some(log.end()), "the lines do not count");
}

#[test]
fn a_full_disk_is_waited_for() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    log.append(0, ONE.as_bytes());
    let safe = bench.step(&mut writer, 0).synced_to;
    bench.disk.set_capacity(bench.disk.used_bytes() + 5);
    log.append(0, TWO.as_bytes());
    let progress = bench.step(&mut writer, 10);
    assert_eq!((progress.written_to, progress.synced_to), (safe, safe));
    assert_eq!(progress.wake_at_us, Some(bench.now.mono_us + 100_000));
    let error = "cannot write data/d/a.aof.1.incr.aof: No space left on device";
    assert_eq!((writer.status().error(), writer.status().sync_error), (Some(error), None));
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), [SELECT, ONE].concat(), "nothing torn is left");
    bench.disk.set_capacity(u64::MAX);
    assert_eq!(bench.step(&mut writer, 99).synced_to, safe, "too early");
    assert_eq!(bench.step(&mut writer, 1).synced_to, log.end());
    assert_eq!(writer.status().error(), None);
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), [SELECT, ONE, TWO].concat());
}

#[test]
fn a_file_that_could_not_be_synced_is_left_for_another() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    log.append(0, ONE.as_bytes());
    let safe = bench.step(&mut writer, 0).synced_to;
    bench.disk.set_faults(Faults { sync: 1000, ..Faults::default() });
    log.append(0, TWO.as_bytes());
    assert_eq!(bench.step(&mut writer, 0).synced_to, safe);
    let error = "cannot sync data/d/a.aof.1.incr.aof: Input/output error";
    assert_eq!(writer.status().error(), Some(error));
    bench.disk.set_faults(Faults::default());
    assert_eq!(bench.step(&mut writer, 100).synced_to, log.end());
    assert_eq!(writer.status().error(), None);
    let manifest = "file a.aof.1.base.rdb seq 1 type b\n\
                    file a.aof.1.incr.aof seq 1 type i startoffset 0 endoffset 44 halcyon-bytes 44\n\
                    file a.aof.2.incr.aof seq 2 type i startoffset 44 halcyon-bytes 0 halcyon-prefix 23\n";
    assert_eq!(bench.text("d/a.aof.manifest"), manifest);
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), [SELECT, ONE].concat());
    assert_eq!(bench.text("d/a.aof.2.incr.aof"), [SELECT, TWO].concat());
    bench.disk.restart();
    let (told, recovered) = bench.read(false).expect("files");
    assert_eq!((told.as_str(), recovered.summary.end_offset), ("||01|02", Some(log.end())));
}

/// Writes a base that stands for everything before.
fn put_base(bench: &Bench, content: &[u8]) {
    let file = bench.storage.create(&bench.names.temporary_base()).expect("a file");
    append_all(&*file, content).expect("to write");
    file.sync_data().expect("to sync");
}

#[test]
fn a_rewrite_replaces_the_files_before_it() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { kept_history_bytes: 1 << 20, ..OPTIONS });
    log.append(0, ONE.as_bytes());
    let given_up = log.begin_file();
    log.append(0, TWO.as_bytes());
    let at = log.begin_file();
    log.append(0, TWO.as_bytes());
    let _ = bench.step(&mut writer, 0);
    assert_eq!(writer.manifest().incrs.len(), 3, "a rewrite that was given up leaves a file more");
    assert_eq!(bench.read(false).expect("files").0, "||01|02|02");
    assert_eq!(writer.sizes().base_bytes, EMPTY_RDB.len() as u64);
    put_base(&bench, ONE.as_bytes());
    bench.install(&mut writer, BaseFormat::Aof, at).expect("a good disk");
    let manifest = bench.text("d/a.aof.manifest");
    assert!(manifest.starts_with("file a.aof.2.base.aof seq 2 type b\n"), "{manifest}");
    assert_eq!(manifest.matches("type h").count(), 2, "kept for replicas: {manifest}");
    assert_eq!(bench.text("d/a.aof.1.base.rdb"), "(missing)");
    assert_eq!(bench.read(false).expect("files").0, "|1|02");
    let sizes = writer.sizes();
    assert_eq!((sizes.base_bytes, sizes.current_bytes), (65, 65));
    let mut reader = writer.backlog().reader(given_up).expect("it was kept");
    let stream = reader.read(usize::MAX).expect("a good disk").expect("bytes");
    assert_eq!(String::from_utf8_lossy(&stream), [SELECT, TWO, SELECT, TWO].concat());
    assert_eq!(reader.read(1), Ok(None));
    let early = bench.install(&mut writer, BaseFormat::Rdb, at + 1).expect_err("no file begins there");
    let reason = format!("a base for offset {} cannot be installed: no file begins there", at + 1);
    assert_eq!(early.to_string(), reason);
}

#[test]
fn files_that_are_begun_anew_count_once_they_have_a_base() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    log.append(0, ONE.as_bytes());
    let _ = bench.step(&mut writer, 0);
    drop(writer);
    log.append(0, TWO.as_bytes());
    let at = log.begin_file();
    let mut writer =
        Writer::start_anew(&bench.storage, &bench.names, &log, at, OPTIONS, bench.now).expect("files");
    log.append(0, ONE.as_bytes());
    assert_eq!(bench.step(&mut writer, 0).synced_to, at, "nothing counts yet");
    assert_eq!(bench.read(false).expect("the old files").0, "||01");
    put_base(&bench, [ONE, TWO].concat().as_bytes());
    bench.install(&mut writer, BaseFormat::Aof, at).expect("a good disk");
    assert_eq!(writer.watermarks().synced_to(), log.end());
    bench.disk.restart();
    assert_eq!(bench.read(false).expect("the new files").0, "|12|01");
    assert_eq!(bench.text("d/a.aof.1.incr.aof"), "(missing)");
}

#[test]
fn what_somebody_reads_is_not_removed() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(WriterOptions { needed_from: 30, ..OPTIONS });
    for _ in 0..3 {
        log.append(0, ONE.as_bytes());
        let _ = bench.step(&mut writer, 0);
        let at = log.begin_file();
        let _ = bench.step(&mut writer, 0);
        put_base(&bench, EMPTY_RDB);
        bench.install(&mut writer, BaseFormat::Rdb, at).expect("a good disk");
    }
    let mut reader = writer.backlog().reader(30).expect("it was kept");
    let stream = reader.read(usize::MAX).expect("a good disk").expect("bytes");
    let whole = [SELECT, ONE].concat().repeat(3);
    assert_eq!(String::from_utf8_lossy(&stream), whole[30..]);
    for (needed_from, kept) in [(43, 3), (44, 2), (100, 1), (132, 0)] {
        writer.set_options(WriterOptions { needed_from, ..OPTIONS });
        let manifest = bench.text("d/a.aof.manifest");
        assert_eq!(manifest.matches("type h").count(), kept, "needed from {needed_from}: {manifest}");
    }
    assert_eq!(bench.storage.list(&bench.names.directory()).expect("a directory").len(), 3);
    assert!(writer.backlog().reader(30).is_err());
}

#[test]
fn a_file_of_another_servers_stream_selects_its_database() {
    let mut bench = Bench::new(&[]);
    let (log, mut writer) = bench.begun(OPTIONS);
    log.append(0, ONE.as_bytes());
    let _ = bench.step(&mut writer, 0);
    let select = SELECT.replace("$1\r\n0", "$1\r\n7");
    log.set_stream(Some(0));
    log.append_stream([&select, ONE].concat().as_bytes(), 7);
    let at = log.begin_file();
    log.append_stream(TWO.as_bytes(), 7);
    let _ = bench.step(&mut writer, 0);
    assert_eq!(bench.text("d/a.aof.2.incr.aof"), [&select, TWO].concat());
    let manifest = bench.text("d/a.aof.manifest");
    assert!(
        manifest.ends_with(&format!("startoffset {at} halcyon-bytes 0 halcyon-prefix 23\n")),
        "{manifest}"
    );
    let mut reader = writer.backlog().reader(44).expect("it is there");
    let stream = reader.read(usize::MAX).expect("a good disk").expect("bytes");
    assert_eq!(String::from_utf8_lossy(&stream), [&select, ONE, TWO].concat());
    // A crash at once, and another one before anything is written, change no offset.
    for _ in 0..2 {
        drop(writer);
        bench.disk.restart();
        let (told, recovered) = bench.read(false).expect("files");
        assert!(told.starts_with("||0171|72"), "{told}");
        assert_eq!(recovered.summary.end_offset, Some(log.end()));
        let again =
            Log::new(LogLimits { segment_bytes: 4096, ring_bytes: 1 << 20, backlog_bytes: 0 }, log.end());
        again.set_stream(Some(7));
        writer = Writer::open(recovered, &Arc::new(again), OPTIONS, bench.now).expect("a writer");
    }
    // What clients write here selects for itself.
    log.set_stream(None);
    log.begin_file();
    log.append(3, ONE.as_bytes());
    assert!(log.file_db(log.end()).is_none());
}

#[test]
fn the_end_of_a_stream_is_told_until_the_files_go_on() {
    let mut bench = Bench::new(&[]);
    let options = WriterOptions { checksums: true, ..OPTIONS };
    let (log, mut writer) = bench.begun(options);
    log.append(0, ONE.as_bytes());
    let stream = StreamEnd { id: "0123456789abcdef".repeat(3)[..40].to_owned(), offset: log.end(), db: 4 };
    assert!(writer.note_stream(stream.clone()).is_err(), "it is not written yet");
    writer.close(bench.now).expect("a good disk");
    writer.note_stream(stream.clone()).expect("a good disk");
    drop(writer);
    bench.disk.restart();
    let (_, recovered) = bench.read(false).expect("files");
    assert_eq!(recovered.stream(), Some(&stream));
    let (log, mut writer) = bench.open(recovered, options);
    assert_eq!(bench.read(false).expect("files").1.stream(), Some(&stream), "nothing has changed");
    log.append(0, TWO.as_bytes());
    let _ = bench.step(&mut writer, 0);
    assert_eq!(bench.read(false).expect("files").1.stream(), None, "they have gone on");
    log.begin_file();
    let _ = bench.step(&mut writer, 0);
    assert!(!bench.text("d/a.aof.manifest").contains("halcyon-stream"));
}
