//! Configuration as a whole, driven by data: file text or command line in, values, errors and files out. The
//! texts of `CONFIG SET` errors and the printed values are those of redis-server 7.0.15.

mod files;
mod rewriting;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::directives::{DIRECTIVES, Effect, Flags, find};
use super::*;

/// A directory of one test, gone when it is over.
struct Room(PathBuf);

impl Room {
    fn new() -> Room {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("config-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Room(path.canonicalize().expect("it was just made"))
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it lies in the room")).expect("the room is writable");
        fs::write(&path, text).expect("the room is writable");
        path.to_str().expect("the path is ASCII").to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the file was written")
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Loads as if the process had been started in the room.
fn load_in(room: &Room, args: &[&str]) -> Result<(Config, Vec<Notice>), ConfigError> {
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    parse::load(&args, Config::starting_in(room.0.clone()))
}

fn text_of(config: &Config, name: &str) -> String {
    String::from_utf8(config.get_text(name).expect("the name is in the table")).expect("it prints as ASCII")
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<(), String> {
    let pairs: Vec<(&[u8], &[u8])> =
        pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    config.set_from(&pairs, false).map_err(|fault| String::from_utf8_lossy(fault.bytes()).into_owned())
}

#[test]
fn defaults_print_as_redis_prints_them() {
    let config = Config::defaults();
    for (name, expected) in [
        ("save", "3600 1 300 100 60 10000"),
        ("bind", "* -::*"),
        ("maxmemory", "0"),
        ("proto-max-bulk-len", "536870912"),
        ("client-query-buffer-limit", "1073741824"),
        ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        ("latency-tracking-info-percentiles", "50 99 99.9"),
        ("oom-score-adj-values", "0 200 800"),
        ("maxmemory-policy", "noeviction"),
        ("unixsocketperm", "0"),
        ("unixsocket", ""),
        ("replicaof", ""),
        ("slaveof", ""),
        ("notify-keyspace-events", ""),
        ("shutdown-on-sigterm", "default"),
        ("list-max-ziplist-size", "-2"),
        ("proc-title-template", "{title} {listen-addr} {server-mode}"),
        ("client-compat", "auto"),
        ("cluster-migration-max-bytes-per-second", "0"),
        ("durability", "auto"),
        ("io-threads", "0"),
    ] {
        assert_eq!(text_of(&config, name), expected, "{name}");
    }
    let here = std::env::current_dir().expect("the tests run somewhere");
    assert_eq!(config.string("dir"), here.to_str().expect("the path is UTF-8"));
}

#[test]
fn every_default_is_accepted_as_a_value_and_comes_back() {
    let config = Config::defaults();
    for row in DIRECTIVES {
        for name in directives::names(row) {
            let default = config.get_text(name).expect("the name is in the table");
            let outcome = config.set_from(&[(name.as_bytes(), &default)], true);
            let prefix = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - ");
            let refusal = |why| Err(Fault::owned(format!("{prefix}{why}")));
            if row.flags.contains(Flags::IMMUTABLE) {
                assert_eq!(outcome, refusal("can't set immutable config"));
            } else if row.flags.contains(Flags::PROTECTED) {
                assert_eq!(outcome, refusal("can't set protected config"));
            } else {
                assert_eq!(outcome, Ok(()), "{name}");
            }
            if default.is_empty() && row.name == "replicaof" {
                continue; // Its empty form is written `no one`.
            }
            assert_eq!(config.override_value(name, &default), Ok(()), "{name}");
            assert_eq!(config.get_text(name), Some(default), "{name}");
        }
    }
    assert_eq!(config.override_value("replicaof", b"no one"), Ok(()));
    assert_eq!(config.override_value("replicaof", b"10.0.0.1 6379"), Ok(()));
    assert_eq!(text_of(&config, "slaveof"), "10.0.0.1 6379");
}

#[test]
fn values_set_and_printed() {
    for (name, given, printed) in [
        ("maxmemory", "1gb", "1073741824"),
        ("maxmemory", "", "0"),
        ("maxmemory", "99999999999999999999", "18446744073709551615"),
        ("maxmemory", "010", "10"),
        ("maxmemory-clients", "5%", "5%"),
        ("maxmemory-clients", "2mb", "2097152"),
        ("appendonly", "YES", "yes"),
        ("loglevel", "WARNING", "warning"),
        ("hz", "1000", "500"),
        ("hz", "0", "1"),
        ("save", "", ""),
        ("save", "60 1000", "60 1000"),
        ("save", "+60 1", "60 1"),
        ("bind", "127.0.0.1 -::1", "127.0.0.1 -::1"),
        ("bind", "", ""),
        ("requirepass", "a b", "a b"),
        ("shutdown-on-sigterm", "now save", "save now"),
        ("shutdown-on-sigint", "default now", "now"),
        ("notify-keyspace-events", "AKE", "AKE"),
        ("notify-keyspace-events", "g$lshzxetKEnm", "g$lshzxetnKEm"),
        ("notify-keyspace-events", "KEmdnA", "AnKEm"),
        ("notify-keyspace-events", "g$lzhsxetdnmKE", "AnKEm"),
        ("latency-tracking-info-percentiles", "50.5000 99.12345678 100 0 1e1", "50.5 99.123457 100 0 10"),
        ("latency-tracking-info-percentiles", "", ""),
        (
            "client-output-buffer-limit",
            "replica 1mb 1k 5 normal 7 8 9",
            "normal 7 8 9 slave 1048576 1000 5 pubsub 33554432 8388608 60",
        ),
        (
            "client-output-buffer-limit",
            "",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("hash-max-ziplist-value", "1kb", "1024"),
        ("repl-backlog-size", "1", "16384"),
        ("oom-score-adj", "Relative", "yes"),
        ("cluster-announce-human-nodename", "a,b", "a,b"),
        ("locale-collate", "POSIX", "POSIX"),
        ("activedefrag", "no", "no"),
        ("cluster-announce-hostname", "node-1.example", "node-1.example"),
        ("proc-title-template", "{title} {{x", "{title} {{x"),
    ] {
        let config = Config::defaults();
        assert_eq!(set(&config, &[(name, given)]), Ok(()), "{name} {given}");
        assert_eq!(text_of(&config, name), printed, "{name} {given}");
    }
}

#[test]
fn refused_values_have_redis_texts() {
    let related = |name: &str, why: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    };
    let limits = "buffer limit configuration.";
    for (name, given, why) in [
        ("maxmemory", "1.5gb", "argument must be a memory value"),
        ("maxmemory", "-1", "argument must be a memory value"),
        ("maxmemory-clients", "101%", "percentage argument must be less or equal to 100"),
        ("maxmemory-clients", "-5", "argument must be a memory or percent value"),
        ("maxmemory-clients", "-1%", "argument must be a memory or percent value"),
        ("maxmemory-clients", "%", "argument must be a memory or percent value"),
        ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
        (
            "loglevel",
            "loud",
            "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
        ),
        ("locale-collate", "de_DE", "Invalid locale name"),
        ("activedefrag", "yes", NO_DEFRAGMENTATION),
        ("loading-process-events-interval-bytes", "2mb", "argument couldn't be parsed into an integer"),
        ("proc-title-template", " {title} ", "template format is invalid or contains unknown variables"),
        (
            "shutdown-on-sigterm",
            "",
            "argument(s) must be one of the following: default, save, nosave, now, force",
        ),
        (
            "shutdown-on-sigterm",
            "save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ),
        ("port", "70000", "argument must be between 0 and 65535 inclusive"),
        ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
        ("timeout", "007", "argument couldn't be parsed into an integer"),
        ("hz", "", "argument couldn't be parsed into an integer"),
        ("slave-priority", "x", "argument couldn't be parsed into an integer"),
        ("proto-max-bulk-len", "1", "argument must be between 1048576 and 9223372036854775807 inclusive"),
        (
            "list-max-listpack-size",
            "3000000000",
            "argument must be between -2147483648 and 2147483647 inclusive",
        ),
        ("save", "a b", "Invalid save parameters"),
        ("save", "5", "Invalid save parameters"),
        ("save", "0 1", "Invalid save parameters"),
        ("save", "+60  10", "Invalid save parameters"),
        ("client-output-buffer-limit", "normal 1 2", &format!("Wrong number of arguments in {limits}")),
        (
            "client-output-buffer-limit",
            "master 1 2 3",
            &format!("Invalid client class specified in {limits}"),
        ),
        (
            "client-output-buffer-limit",
            "slave 1 2 -1",
            &format!("Error in hard, soft or soft_seconds setting in {limits}"),
        ),
        ("notify-keyspace-events", "Q", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        ("oom-score-adj-values", "1 2", "wrong number of arguments"),
        (
            "oom-score-adj-values",
            "1 2 9999",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
        ),
        ("latency-tracking-info-percentiles", "50 a", "Invalid latency-tracking-info-percentiles parameters"),
        (
            "latency-tracking-info-percentiles",
            "101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
        ),
        ("bind", "a b c d e f g h i j k l m n o p q", "Too many bind addresses specified."),
        (
            "cluster-announce-hostname",
            "a_b",
            "Hostnames may only contain alphanumeric characters, hyphens or dots",
        ),
        ("cluster-announce-human-nodename", "a:b", "Announced human node name contained invalid character"),
        ("proc-title-template", "{foo}", "template format is invalid or contains unknown variables"),
        ("proc-title-template", "", "template format is invalid or contains unknown variables"),
        ("databases", "3", "can't set immutable config"),
        ("unixsocketperm", "5", "can't set immutable config"),
        ("dir", "/", "can't set protected config"),
        ("client-compat", "old", "argument(s) must be one of the following: auto, modern, legacy"),
    ] {
        let config = Config::defaults();
        let before = config.get(&[b"*"]);
        assert_eq!(set(&config, &[(name, given)]), Err(related(name, why)));
        assert_eq!(config.get(&[b"*"]), before, "{name}");
    }
}

#[test]
fn several_pairs_are_set_together_or_not_at_all() {
    let config = Config::defaults();
    for (pairs, error) in [
        (
            &[("maxmemory", "1"), ("foo", "2")][..],
            "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
        ),
        (
            &[("maxmemory", "1"), ("MAXMEMORY", "2")],
            "ERR CONFIG SET failed (possibly related to argument 'MAXMEMORY') - duplicate parameter",
        ),
        (
            &[("timeout", "5"), ("Maxmemory", "x")],
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
        ),
    ] {
        assert_eq!(set(&config, pairs), Err(error.to_string()));
        assert_eq!(text_of(&config, "maxmemory"), "0");
        assert_eq!(config.hot().timeout_s(), 0);
        assert_eq!(config.version(), 0);
    }
    assert_eq!(set(&config, &[("list-max-listpack-size", "5"), ("list-max-ziplist-size", "6")]), Ok(()));
    assert_eq!(text_of(&config, "list-max-listpack-size"), "6");
}

#[test]
fn protected_directives_open_with_enable_protected_configs() {
    for (guard, is_local, allowed) in [
        ("no", true, false),
        ("local", false, false),
        ("local", true, true),
        ("yes", false, true),
        ("yes", true, true),
    ] {
        let room = Room::new();
        let (config, _) = load_in(&room, &["--enable-protected-configs", guard]).expect("it is valid");
        let target = room.0.to_str().expect("the path is ASCII").as_bytes();
        let outcome = config.set_from(&[(b"dbfilename", b"x.rdb"), (b"dir", target)], is_local);
        assert_eq!(outcome.is_ok(), allowed, "{guard} {is_local}");
        assert_eq!(text_of(&config, "dbfilename"), if allowed { "x.rdb" } else { "dump.rdb" });
    }
    let room = Room::new();
    let (config, _) = load_in(&room, &["--enable-protected-configs", "yes"]).expect("it is valid");
    for (name, given, why) in [
        ("dbfilename", "a/b", "dbfilename can't be a path, just a filename"),
        ("dir", "missing", "No such file or directory"),
        ("dir", "", "No such file or directory"),
    ] {
        let error = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        assert_eq!(set(&config, &[(name, given)]), Err(error));
    }
    room.write("sub/file", "");
    assert_eq!(set(&config, &[("dir", "sub")]), Ok(()));
    assert_eq!(config.string("dir"), room.0.join("sub").to_str().expect("the path is ASCII"));
}

#[test]
fn get_takes_names_and_globs() {
    let config = Config::defaults();
    let get = |patterns: &[&str]| {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        config.get(&patterns).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    for (patterns, expected) in [
        (&["maxmemory"][..], "maxmemory"),
        (&["MAXmemory", "maxmemory"], "MAXmemory"),
        (&["maxmemory-s*", "maxmemory-samples", "MAXMEMORY-[s]*"], "maxmemory-samples"),
        (&["slaveof"], "slaveof"),
        (&["hash-max-z*"], "hash-max-ziplist-entries hash-max-ziplist-value"),
        (&["watchdog-period"], "watchdog-period"),
        (&["watchdog*"], ""),
        (&["nothing", "no*such*thing"], ""),
        (&["port", "timeout"], "port timeout"),
    ] {
        assert_eq!(get(patterns), expected, "{patterns:?}");
    }
    let shown: usize = DIRECTIVES
        .iter()
        .filter(|row| !row.flags.contains(Flags::HIDDEN))
        .map(|row| directives::names(row).count())
        .sum();
    assert_eq!(config.get(&[b"*", b"*", b"port"]).len(), shown);
}

#[test]
fn hot_values_follow_every_change() {
    let config = Config::defaults();
    for name in Hot::NAMES {
        assert_eq!(find(name.as_bytes()).map(|row| (row.name, row.effect)), Some((*name, Effect::Live)));
    }
    assert_eq!(config.hot().slowlog_log_slower_than_us(), 10000);
    assert_eq!(config.hot().maxclients(), 10000);
    assert_eq!(config.hot().thresholds().hash_max_listpack_entries, 512);
    let changes = [
        ("slowlog-log-slower-than", "-1"),
        ("maxmemory", "99999999999999999999"),
        ("latency-tracking", "no"),
        ("hash-max-ziplist-entries", "7"),
        ("list-max-listpack-size", "-5"),
    ];
    assert_eq!(set(&config, &changes), Ok(()));
    assert_eq!(config.hot().slowlog_log_slower_than_us(), -1);
    assert_eq!(config.hot().maxmemory_bytes(), u64::MAX);
    assert!(!config.hot().latency_tracking());
    assert_eq!(config.hot().thresholds().hash_max_listpack_entries, 7);
    assert_eq!(config.hot().thresholds().list_max_listpack_size, -5);
    assert_eq!(config.override_value("maxclients", b"42"), Ok(()));
    assert_eq!(config.hot().maxclients(), 42);
    let (loaded, _) = load_in(&Room::new(), &["--timeout", "9"]).expect("it is valid");
    assert_eq!(loaded.hot().timeout_s(), 9);
}

#[test]
fn changes_are_counted_and_named() {
    let config = Config::defaults();
    let (start, none) = config.changed_since(0);
    assert_eq!((start, none), (0, Vec::new()));
    assert_eq!(set(&config, &[("timeout", "5"), ("port", "1")]), Ok(()));
    assert_eq!(config.changed_since(0), (1, vec!["port", "timeout"]));
    assert_eq!(set(&config, &[("timeout", "5")]), Ok(()));
    assert_eq!(config.version(), 1);
    assert_eq!(set(&config, &[("timeout", "6")]), Ok(()));
    assert_eq!(config.changed_since(1), (2, vec!["timeout"]));
}

#[test]
fn a_refusing_applier_puts_everything_back() {
    let config = Config::defaults();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    config.set_applier(Box::new(move |config, names| {
        log.lock().push(format!("{names:?} {} {}", config.int("port"), config.hot().timeout_s()));
        if config.int("port") == 7 {
            return Err(("port", "Unable to listen on this port. Check server logs.".into()));
        }
        Ok(())
    }));
    let error = "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. \
                 Check server logs.";
    assert_eq!(set(&config, &[("timeout", "3"), ("port", "7")]), Err(error.to_string()));
    assert_eq!((config.int("port"), config.hot().timeout_s()), (6379, 0));
    assert_eq!(set(&config, &[("port", "8")]), Ok(()));
    assert_eq!(set(&config, &[("port", "8")]), Ok(()));
    assert_eq!(
        *seen.lock(),
        ["[\"port\", \"timeout\"] 7 3", "[\"port\", \"timeout\"] 6379 0", "[\"port\"] 8 0"]
    );
}

#[test]
fn typed_getters() {
    let config = Config::defaults();
    assert_eq!(config.list("bind"), [b"*".to_vec(), b"-::*".to_vec()]);
    assert_eq!(config.latency_percentiles(), [50.0, 99.0, 99.9]);
    let limits = config.output_buffer_limits();
    assert_eq!(limits.normal, OutputBufferLimit { hard_bytes: 0, soft_bytes: 0, soft_s: 0 });
    assert_eq!(limits.replica, OutputBufferLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_s: 60 });
    assert_eq!(limits.pubsub.soft_bytes, 8 << 20);
    assert!(config.bool("protected-mode"));
    assert_eq!(config.get_text("no-such-directive"), None);
}
