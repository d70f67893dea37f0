//! SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE.

use std::time::Duration;

use crate::args::{Args, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::persistence::rewriting::RewriteAnswer;
use crate::persistence::saving::SaveError;
use crate::reply::Reply;

const BUSY: Fault = Fault::Text("ERR Background save already in progress");
const REWRITING: Fault = Fault::Text(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. \
     Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.",
);
const BUSY_REWRITING: Fault = Fault::Text("ERR Background append only file rewriting already in progress");

/// Between looks whether a rewrite that runs is over.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// SAVE: its client waits for the disk; nobody else does.
pub(crate) fn save(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    if ctx.server().persistence.is_saving() {
        return Err(BUSY);
    }
    ctx.defer_script(|lane| {
        let server = lane.server();
        let mut result = server.save();
        while result == Err(SaveError::Busy) && server.persistence.is_rewriting() {
            std::thread::sleep(BUSY_INTERVAL);
            result = server.save();
        }
        match result {
            Ok(()) => {
                lane.reply().ok();
                Ok(())
            }
            Err(SaveError::Busy) => Err(BUSY),
            Err(SaveError::Disk(reason)) => Err(Fault::owned(format!("ERR {reason}"))),
        }
    });
    Ok(())
}

/// BGSAVE [SCHEDULE]
pub(crate) fn bgsave(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() > 2 || (args.len() == 2 && !is(&args[1], "SCHEDULE")) {
        return Err(Fault::SYNTAX);
    }
    let state = &ctx.server().persistence;
    if state.is_saving() {
        return Err(BUSY);
    }
    // What a transaction writes is still to come.
    if !ctx.is_nested() && ctx.server().save_in_background(ctx.held()).is_ok() {
        reply.simple("Background saving started");
        return Ok(());
    }
    if !ctx.is_nested() && args.len() == 1 {
        return Err(REWRITING);
    }
    state.schedule_save();
    reply.simple("Background saving scheduled");
    Ok(())
}

/// BGREWRITEAOF
pub(crate) fn bgrewriteaof(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match ctx.server().rewrite_when_possible(!ctx.is_nested()) {
        RewriteAnswer::Started => reply.simple("Background append only file rewriting started"),
        RewriteAnswer::Scheduled => reply.simple("Background append only file rewriting scheduled"),
        RewriteAnswer::Busy => return Err(BUSY_REWRITING),
    }
    Ok(())
}

/// LASTSAVE
pub(crate) fn lastsave(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().persistence.saved_at_s());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, OnceLock, Weak};

    use journal::files::{Sizes, Status};

    use crate::clients::Client;
    use crate::letter::Letter;
    use crate::persistence::files::FilesState;
    use crate::persistence::rewriting::RewriteAnswer;
    use crate::persistence::saving::Save;
    use crate::replication::replica::Primary;
    use crate::server::{CpuSeconds, Host, LogLevel, Server};
    use crate::testing::Harness;

    #[test]
    fn saves_are_answered_as_by_redis() {
        let mut harness = Harness::new();
        for (command, reply) in [
            ("SET k v", "+OK"),
            ("BGSAVE WHENEVER", "-ERR syntax error"),
            ("SAVE", "+OK"),
            ("BGSAVE SCHEDULE", "+Background saving started"),
            ("SAVE", "-ERR Background save already in progress"),
            ("BGSAVE", "-ERR Background save already in progress"),
            ("BGREWRITEAOF", "+Background append only file rewriting scheduled"),
        ] {
            harness.check(command, reply);
        }
        assert!(harness.run("INFO persistence").contains("aof_rewrite_scheduled:1\r\n"));
        harness.server.finish_save().expect("a disk that never fails");
        harness.server.check_save_points(1_704_067_200);
        for (command, reply) in [
            ("BGREWRITEAOF", "-ERR Background append only file rewriting already in progress"),
            (
                "BGSAVE",
                "-ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.",
            ),
            ("BGSAVE SCHEDULE", "+Background saving scheduled"),
        ] {
            harness.check(command, reply);
        }
        let info = harness.run("INFO persistence");
        assert!(
            info.contains("aof_rewrite_in_progress:1\r\n") && info.contains("rdb_bgsave_in_progress:0\r\n")
        );
        // There is nobody to write files, but what was scheduled comes after it.
        harness.server.finish_rewrite();
        harness.server.check_save_points(1_704_067_200);
        let info = harness.run("INFO persistence");
        assert!(info.contains("aof_last_bgrewrite_status:err\r\n"), "{info}");
        assert!(info.contains("rdb_bgsave_in_progress:1\r\n"), "{info}");
        harness.server.finish_save().expect("a disk that never fails");
        for (command, reply) in [
            ("MULTI", "+OK"),
            ("BGSAVE", "+QUEUED"),
            ("BGREWRITEAOF", "+QUEUED"),
            ("EXEC", "[+Background saving scheduled +Background append only file rewriting scheduled]"),
        ] {
            harness.check(command, reply);
        }
    }

    #[test]
    fn bgsave_saves_what_there_is_when_it_is_answered() {
        use crate::persistence::saving::SavePurpose;
        let mut harness = Harness::new();
        harness.check("SET before v", "+OK");
        harness.check("BGSAVE", "+Background saving started");
        harness.check("MSET after 1 later 2", "+OK");
        // The thread that saves comes to it only now.
        let save = harness.server.begin_save(SavePurpose::Snapshot);
        assert_eq!(save.snapshot.databases().iter().map(|database| database.keys).sum::<usize>(), 1);
        let (mut walk, mut batch) = (store::Walk::default(), store::SnapshotBatch::default());
        while save.snapshot.next(&harness.server.keyspace, &mut walk, &mut batch) {}
        drop(save);
        let save = harness.server.begin_save(SavePurpose::Snapshot);
        assert_eq!(save.snapshot.databases().iter().map(|database| database.keys).sum::<usize>(), 3);
    }

    const NO_ROOM: &str = "cannot write x: No space left on device (os error 28)";
    const REFUSED: &str = "MISCONF Errors writing to the AOF file: No space left on device";

    fn fill_disk(server: &Server) {
        let status = Status { write_error: Some(NO_ROOM.to_owned()), ..Status::default() };
        server.note_files(&status, Sizes::default());
    }

    #[test]
    fn files_that_cannot_be_written_refuse_writes() {
        let mut harness = Harness::new();
        harness.check("MULTI", "+OK");
        harness.check("SET k v", "+QUEUED");
        fill_disk(&harness.server);
        let refused = REFUSED;
        harness.check("EXEC", &format!("-EXECABORT Transaction discarded because of: {refused}"));
        for command in ["SET k v", "PING"] {
            harness.check(command, &format!("-{refused}"));
        }
        let blocked = "-MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: No space left on device";
        for (command, reply) in [
            ("GET k", "(nil)"),
            ("PUBLISH c m", ":0"),
            ("EVAL \"return 1\" 0", ":1"),
            ("EVAL \"return redis.pcall('SET', 'k', 'v').err\" 0", refused),
            ("EVAL \"#!lua flags=no-writes\\nreturn 1\" 0", ":1"),
            ("EVAL \"#!lua\\nreturn 1\" 0", blocked),
        ] {
            harness.check(command, reply);
        }
        assert!(harness.run("INFO persistence").contains("aof_last_write_status:err\r\n"));
        harness.server.note_files(&Status::default(), Sizes::default());
        harness.check("SET k v", "+OK");
        harness.check("PING", "+PONG");
    }

    /// A host whose disk is full, or becomes so when a script writes a warning to the log.
    #[derive(Clone, Default)]
    struct Disk {
        server: Arc<OnceLock<Weak<Server>>>,
        has_room: Arc<AtomicBool>,
        /// How often the files were to be begun.
        asked: Arc<AtomicUsize>,
    }

    impl Disk {
        fn of(harness: &mut Harness) -> Disk {
            let disk = Disk::default();
            let server = Arc::get_mut(&mut harness.server).expect("nobody else has the server yet");
            server.host = Box::new(disk.clone());
            let _ = disk.server.set(Arc::downgrade(&harness.server));
            disk
        }
    }

    impl Host for Disk {
        fn log_at(&self, level: LogLevel, _: &str) {
            if level == LogLevel::Warning {
                fill_disk(&self.server.get().and_then(Weak::upgrade).expect("the server"));
            }
        }
        fn begin_files(&self, server: &Server) -> Result<(), String> {
            if !self.has_room.load(Relaxed) {
                return Err(NO_ROOM.to_owned());
            }
            server.persistence.files.set_state(FilesState::Begun, None);
            Ok(())
        }
        fn end_files(&self, server: &Server) {
            server.persistence.files.set_state(FilesState::Off, None);
        }
        fn follow_appendonly(&self) {
            self.asked.fetch_add(1, Relaxed);
        }
        fn fill_random(&self, _: &mut [u8]) {}
        fn kill(&self, _: &Client) {}
        fn post(&self, _: usize, _: Letter) {}
        fn shutdown(&self) {}
        fn save(&self, _: &Server, _: &Save) -> Result<(), String> {
            Err(NO_ROOM.to_owned())
        }
        fn save_in_background(&self) {}
        fn cpu_seconds(&self) -> CpuSeconds {
            CpuSeconds::default()
        }
        fn resident_bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_script_that_has_begun_to_write_does_so_to_its_end() {
        let mut harness = Harness::new();
        let _disk = Disk::of(&mut harness);
        let fails = "redis.log(redis.LOG_WARNING, 'now')";
        let line = format!("EVAL \"redis.call('SET', 'a', 1) {fails} return redis.call('INCR', 'b')\" 2 a b");
        harness.check(&line, ":1");
        harness.check("SET a 2", &format!("-{REFUSED}"));
        harness.server.note_files(&Status::default(), Sizes::default());
        let line = format!("EVAL \"{fails} return redis.pcall('INCR', 'b').err\" 1 b");
        harness.check(&line, REFUSED);
        harness.check("GET b", "1");
    }

    #[test]
    fn files_that_could_not_be_begun_are_once_there_is_room() {
        let mut harness = Harness::with_config(&[("appendonly", "yes")]);
        let disk = Disk::of(&mut harness);
        let (server, now_s) = (harness.server.clone(), harness.server.clock.now().unix_ms / 1000);
        let files = &server.persistence.files;
        files.set_state(FilesState::Begun, None);
        server.follow(Primary { host: "primary".to_owned(), port: 7000 });
        let term = server.replication.following.term();
        let synchronize = |offset| {
            assert!(
                server.begin_sync_load(term, 0) && server.end_sync_load(term, &"a".repeat(40), offset, 0)
            );
        };
        // Of data that were thrown away nothing is kept.
        assert!(server.begin_sync_load(term, 0));
        server.abandon_sync_load();
        assert_eq!(server.rewrite_when_possible(true), RewriteAnswer::Scheduled);
        server.check_save_points(now_s);
        assert!(!server.persistence.is_rewriting());
        synchronize(100);
        assert_eq!((files.state(), files.are_missing()), (FilesState::Off, true));
        assert_eq!(server.files_at_risk().as_deref(), Some(NO_ROOM));
        harness.check("PING", &format!("-{REFUSED}"));
        let asked = |after_s| {
            server.check_save_points(now_s + after_s);
            disk.asked.load(Relaxed)
        };
        assert_eq!([asked(0), asked(1), asked(1), asked(2)], [0, 1, 1, 2]);
        assert!(server.follow_appendonly().is_err() && files.are_missing());
        disk.has_room.store(true, Relaxed);
        assert_eq!(server.follow_appendonly(), Ok(()));
        assert_eq!((files.state(), files.are_missing(), asked(9)), (FilesState::Begun, false, 2));
        // Who writes them says so.
        server.note_files(&Status::default(), Sizes::default());
        harness.check("PING", "+PONG");
        // What is synchronized later begins them as well.
        disk.has_room.store(false, Relaxed);
        synchronize(200);
        assert!(files.are_missing());
        disk.has_room.store(true, Relaxed);
        synchronize(300);
        assert_eq!((files.state(), files.are_missing()), (FilesState::Begun, false));
    }

    #[test]
    fn the_first_base_waits_for_room() {
        let harness = Harness::with_config(&[("appendonly", "yes")]);
        let (server, now_s) = (&harness.server, harness.server.clock.now().unix_ms / 1000);
        server.persistence.files.set_state(FilesState::Begun, None);
        server.rewrite_when_possible(false);
        fill_disk(server);
        server.check_save_points(now_s);
        assert!(!server.persistence.is_rewriting());
        server.note_files(&Status::default(), Sizes::default());
        server.check_save_points(now_s);
        assert!(server.persistence.is_rewriting());
    }

    #[test]
    fn files_that_are_missing_are_not_once_they_are_not_wanted() {
        let mut harness = Harness::with_config(&[("appendonly", "yes")]);
        let _disk = Disk::of(&mut harness);
        harness.server.miss_files(NO_ROOM);
        harness.check("SET k v", &format!("-{REFUSED}"));
        harness.server.config.override_value("appendonly", b"no").expect("a directive");
        assert_eq!(harness.server.follow_appendonly(), Ok(()));
        assert!(!harness.server.persistence.files.are_missing());
        harness.check("SET k v", "+OK");
    }
}
