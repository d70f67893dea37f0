//! Files that are made to end at an offset: what follows is void.

use journal::manifest::BaseFormat;
use journal::recover::{Recovered, Recovery};

use super::{Bench, EMPTY_RDB, ONE, OPTIONS, SELECT, TWO, WriterOptions, put_base};

impl Bench {
    /// As [`Bench::read`], up to this offset, where the files end from then on; None: they cannot.
    fn read_to(&self, offset: u64) -> Option<(String, Recovered)> {
        let mut recovery = Recovery::new(self.directory().expect("files"), false).expect("files");
        recovery.end_at(offset).then(|| self.read_with(recovery).expect("sound files"))
    }
}

#[test]
fn files_can_be_made_to_end_at_a_records_end() {
    let select = SELECT.len() as u64;
    let one = ONE.len() as u64;
    let options = WriterOptions { checksums: true, ..OPTIONS };
    // What is written together, by number of records; where it is cut, in records; what is left.
    for (written, kept, left) in [
        (&[3][..], 1, "||01"),
        (&[3], 2, "||012"),
        (&[3], 3, "||0123"),
        (&[1, 2], 1, "||01"),
        (&[1, 2], 2, "||012"),
        (&[2, 3], 4, "||01234"),
        (&[1, 1, 1], 0, "||0"),
    ] {
        let mut bench = Bench::new(&[]);
        let (log, mut writer) = bench.begun(options);
        let mut number = 0;
        for count in written {
            for _ in 0..*count {
                number += 1;
                log.append(0, ONE.replace("\r\n1\r\n", &format!("\r\n{number}\r\n")).as_bytes());
            }
            let _ = bench.step(&mut writer, 0);
        }
        drop(writer);
        let (at, end) = (select + kept * one, log.end());
        let (told, recovered) = bench.read_to(at).expect("in the last file");
        assert_eq!((told.as_str(), recovered.summary.end_offset), (left, Some(at)), "{written:?} to {kept}");
        assert!(recovered.summary.is_exact);
        bench.disk.restart();
        let (again, recovered) = bench.read(false).expect("whole files");
        assert_eq!((again.as_str(), recovered.summary.end_offset), (left, Some(at)), "{written:?} to {kept}");
        let (log, mut writer) = bench.open(recovered, options);
        log.append(0, ONE.replace("\r\n1\r\n", "\r\n7\r\n").as_bytes());
        let _ = bench.step(&mut writer, 0);
        let (told, recovered) = bench.read(false).expect("whole files");
        assert_eq!(told, format!("{left}07"), "{written:?} to {kept}, gone on with");
        assert!(recovered.summary.is_exact && recovered.summary.end_offset <= Some(end + select + one));
    }
}

#[test]
fn files_end_where_the_last_file_has_the_offset_or_not_at_all() {
    let mut bench = Bench::new(&[]);
    let options = WriterOptions { checksums: true, ..OPTIONS };
    let (log, mut writer) = bench.begun(options);
    log.append(0, ONE.as_bytes());
    let _ = bench.step(&mut writer, 0);
    let first = log.end();
    log.append(0, TWO.as_bytes());
    let _ = bench.step(&mut writer, 0);
    // The next file is made, and nothing is written to it.
    bench.prepare(&mut writer);
    assert!(
        bench
            .read_to(first + 1)
            .is_some_and(|(_, recovered)| recovered.summary.end_offset != Some(first + 1))
    );
    let (told, recovered) = bench.read_to(first).expect("in the file that is open");
    assert_eq!((told.as_str(), recovered.summary.end_offset), ("||01|", Some(first)));
    drop(writer);
    let (log, mut writer) = bench.open(recovered, options);
    put_base(&bench, EMPTY_RDB);
    log.append(0, TWO.as_bytes());
    let _ = bench.step(&mut writer, 0);
    bench.install(&mut writer, BaseFormat::Rdb, log.begin_file()).expect("a good disk");
    log.append(0, ONE.as_bytes());
    let _ = bench.step(&mut writer, 0);
    drop(writer);
    assert!(bench.read_to(first).is_none(), "the base has more");
    assert_eq!(bench.read(false).expect("whole files").1.summary.end_offset, Some(log.end()));
}
