//! Files and command lines in; values, errors and notices out.

use super::*;

#[test]
fn every_default_can_be_written_in_a_file() {
    let room = Room::new();
    let plain = Config::starting_in(room.0.clone());
    for row in DIRECTIVES {
        let value = text_of(&plain, row.name);
        let value = match (row.name, value.as_str()) {
            ("replicaof", _) => "no one".to_string(),
            (_, "") => "\"\"".to_string(),
            _ => value,
        };
        let value = if row.name == "proc-title-template" { format!("\"{value}\"") } else { value };
        let file = room.write("redis.conf", &format!("{} {value}\n", row.name.to_uppercase()));
        let (config, _) = load_in(&room, &[&file]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(text_of(&config, row.name), text_of(&plain, row.name), "{}", row.name);
    }
}

#[test]
fn files_are_read_line_by_line() {
    for (text, name, expected) in [
        ("", "port", "6379"),
        ("# port 1\n\n  \t\nport 7000", "port", "7000"),
        ("PORT 7000\r\n", "port", "7000"),
        ("port 1\nport 2\n", "port", "2"),
        ("requirepass \"a \\x41\\n\"\n", "requirepass", "a A\n"),
        ("requirepass 'a b'\n", "requirepass", "a b"),
        ("bind 127.0.0.1 ::1\n", "bind", "127.0.0.1 ::1"),
        ("bind a\nbind b c\n", "bind", "b c"),
        ("save 900 1\nsave 300 10\n", "save", "900 1 300 10"),
        ("save 900 1 300 10\n", "save", "900 1 300 10"),
        ("save \"900 1 300 10\"\n", "save", "900 1 300 10"),
        ("save \"\"\n", "save", ""),
        ("save 900 1\nsave \"\"\nsave 5 6\n", "save", "5 6"),
        (
            "client-output-buffer-limit normal 1 2 3\nclient-output-buffer-limit replica 4 5 6\n",
            "client-output-buffer-limit",
            "normal 1 2 3 slave 4 5 6 pubsub 33554432 8388608 60",
        ),
        ("slaveof 10.0.0.1 7000\n", "replicaof", "10.0.0.1 7000"),
        ("replicaof no one\n", "replicaof", ""),
        ("replicaof \"10.0.0.1 7000\"\n", "replicaof", "10.0.0.1 7000"),
        ("bind \"127.0.0.1 -::1\"\n", "bind", "127.0.0.1 -::1"),
        ("oom-score-adj-values '1 2 3'\n", "oom-score-adj-values", "1 2 3"),
        ("latency-tracking-info-percentiles '50 99'\n", "latency-tracking-info-percentiles", "50 99"),
        ("hash-max-ziplist-entries 100\n", "hash-max-listpack-entries", "100"),
        ("io-threads 4\n", "threads", "4"),
        // Of valkey.conf.
        ("commandlog-execution-slower-than 5\n", "slowlog-log-slower-than", "5"),
        ("rdb-version-check strict\ncommandlog-reply-larger-than 1\nhz 20\n", "hz", "20"),
        ("server_cpulist 0,2,4-6:2\n", "server-cpulist", "0,2,4-6:2"),
        // As Redis, which takes any text.
        ("server-cpulist 3-1\nbio_cpulist x\n", "server_cpulist", "3-1"),
        ("unixsocketperm 700\n", "unixsocketperm", "700"),
        ("hz 9999\n", "hz", "500"),
        ("enable-debug-command local\n", "enable-debug-command", "local"),
    ] {
        let room = Room::new();
        let file = room.write("redis.conf", text);
        let (config, _) = load_in(&room, &[&file]).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(text_of(&config, name), expected, "{text:?}");
        assert_eq!(config.config_file(), Some(&*room.0.join("redis.conf")));
    }
}

#[test]
fn errors_name_file_line_and_text() {
    for (text, expected) in [
        ("prot 6379", "redis.conf:1: 'prot 6379': unknown directive. Did you mean 'port'?"),
        ("\n#\n  qqqqqq 1 2", "redis.conf:3: 'qqqqqq 1 2': unknown directive"),
        ("port", "redis.conf:1: 'port': wrong number of arguments"),
        ("port 1 2", "redis.conf:1: 'port 1 2': wrong number of arguments"),
        ("port abc", "redis.conf:1: 'port abc': argument couldn't be parsed into an integer"),
        ("port \"1", "redis.conf:1: 'port \"1': unbalanced quotes"),
        ("requirepass \"secret", "redis.conf:1: 'requirepass ...': unbalanced quotes"),
        ("requirepass a b", "redis.conf:1: 'requirepass ...': wrong number of arguments"),
        ("save 1", "redis.conf:1: 'save 1': Invalid save parameters"),
        ("dir /missing", "redis.conf:1: 'dir /missing': No such file or directory"),
        ("replicaof a b", "redis.conf:1: 'replicaof a b': Invalid master port"),
        (
            "unixsocketperm 999",
            "redis.conf:1: 'unixsocketperm 999': argument couldn't be parsed as an octal number",
        ),
        (
            "unixsocketperm 1000",
            "redis.conf:1: 'unixsocketperm 1000': argument must be between 0 and 777 inclusive",
        ),
        ("threads 300", "redis.conf:1: 'threads 300': argument must be between 0 and 256 inclusive"),
        (
            "appendfilename a/b",
            "redis.conf:1: 'appendfilename a/b': appendfilename can't be a path, just a filename",
        ),
        ("appenddirname \"\"", "redis.conf:1: 'appenddirname \"\"': appenddirname can't be empty"),
        ("rename-command GET", "redis.conf:1: 'rename-command GET': wrong number of arguments"),
        ("include", "redis.conf:1: 'include': wrong number of arguments"),
        (
            "include missing.conf",
            "redis.conf:1: 'include missing.conf': can't open config file 'ROOM/missing.conf': No such file or directory",
        ),
        ("include redis.conf", "redis.conf:1: 'include redis.conf': files are included more than 16 deep"),
        ("include bad.inc", "bad.inc:2: 'timeout x': argument couldn't be parsed into an integer"),
        ("cluster-enabled yes\nreplicaof a 1", "replicaof is not allowed in cluster mode"),
        (
            "sentinel monitor a b 1 1",
            "redis.conf:1: 'sentinel monitor a b 1 1': sentinel mode is not available",
        ),
    ] {
        let room = Room::new();
        room.write("redis.conf", text);
        room.write("bad.inc", "# first\ntimeout x\n");
        let error = load_in(&room, &["redis.conf"]).err().unwrap_or_else(|| panic!("{text:?} was accepted"));
        let shown = error.to_string().replace(room.0.to_str().expect("the path is ASCII"), "ROOM");
        assert_eq!(shown, format!("*** FATAL CONFIG FILE ERROR *** {expected}"));
    }
}

#[test]
fn the_command_line_overrides_the_file() {
    let room = Room::new();
    room.write("redis.conf", "port 1\nsave 900 1\nmaxmemory 1gb\n");
    for (args, expected) in [
        (&["redis.conf"][..], "port=1 bind=* -::* save=900 1 maxmemory=1073741824"),
        (&["redis.conf", "--port", "7000"], "port=7000 bind=* -::* save=900 1 maxmemory=1073741824"),
        (&["--port", "7000", "--bind", "a", "b", "--save", ""], "port=7000 bind=a b save= maxmemory=0"),
        (&["redis.conf", "--save", "", "--port 5"], "port=5 bind=* -::* save= maxmemory=1073741824"),
        (&["redis.conf", "--save", "60 1"], "port=1 bind=* -::* save=900 1 60 1 maxmemory=1073741824"),
        (&["--save", "60", "1", "5", "6"], "port=6379 bind=* -::* save=60 1 5 6 maxmemory=0"),
        (&["--bind", "a b"], "port=6379 bind=a b save=3600 1 300 100 60 10000 maxmemory=0"),
        (&["--include", "redis.conf"], "port=1 bind=* -::* save=900 1 maxmemory=1073741824"),
    ] {
        let (config, _) = load_in(&room, args).unwrap_or_else(|error| panic!("{error}"));
        let names = ["port", "bind", "save", "maxmemory"];
        let shown = names.map(|name| format!("{name}={}", text_of(&config, name))).join(" ");
        assert_eq!(shown, expected, "{args:?}");
    }
    for (args, expected) in [
        (&["--prot", "1"][..], "command line: '--prot 1': unknown directive. Did you mean 'port'?"),
        (&["--requirepass", "a", "b"], "command line: '--requirepass ...': wrong number of arguments"),
        (&["missing.conf"], "can't open config file 'ROOM/missing.conf': No such file or directory"),
    ] {
        let error = load_in(&room, args).err().expect("it is wrong").to_string();
        let shown = error.replace(room.0.to_str().expect("the path is ASCII"), "ROOM");
        assert_eq!(shown, format!("*** FATAL CONFIG FILE ERROR *** {expected}"));
    }
}

#[test]
fn includes_follow_globs_and_dir() {
    let room = Room::new();
    room.write("conf.d/10.conf", "port 10\ntimeout 10\n");
    room.write("conf.d/20.conf", "port 20\n");
    room.write("conf.d/.hidden.conf", "port 99\n");
    room.write("conf.d/dir.conf/x", "");
    for (text, expected) in [
        ("port 1\ninclude conf.d/*.conf\n", "20 10"),
        ("include conf.d/*.conf\nport 1\n", "1 10"),
        ("include conf.d/none*.conf\nport 1\n", "1 0"),
        ("dir conf.d\ninclude 10.conf\n", "10 10"),
        ("dir conf.d\ninclude [1-2]0.c*f\n", "20 10"),
    ] {
        room.write("redis.conf", text);
        let (config, _) = load_in(&room, &["redis.conf"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            format!("{} {}", text_of(&config, "port"), text_of(&config, "timeout")),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn repeated_directives_are_kept_in_order() {
    let room = Room::new();
    room.write(
        "redis.conf",
        "rename-command FLUSHALL \"\"\nuser bob on nopass\nRename-Command CONFIG abc\nloadmodule /x.so a b\n",
    );
    let (config, notices) = load_in(&room, &["redis.conf"]).expect("it is valid");
    let renamed = config.repeated("rename-command");
    assert_eq!(renamed, [&[b"FLUSHALL".to_vec(), Vec::new()][..], &[b"CONFIG".to_vec(), b"abc".to_vec()]]);
    assert_eq!(config.repeated("user").len(), 1);
    let told: Vec<String> = notices.iter().map(Notice::to_string).collect();
    assert_eq!(told, ["redis.conf:4: 'loadmodule' is ignored: modules cannot be loaded"]);
}

#[test]
fn what_has_no_effect_is_told_once() {
    let room = Room::new();
    room.write(
        "redis.conf",
        "cluster-port 0\nport 1\ncluster-port 5\ncluster-migration-barrier 1\ndaemonize yes\ncluster-node-timeout 9\n\
         list-max-ziplist-entries 5\n",
    );
    let (_, notices) = load_in(&room, &["redis.conf"]).expect("it is valid");
    let told: Vec<String> = notices
        .iter()
        .map(|notice| format!("{}{notice}", if notice.at_default { "(" } else { "" }))
        .collect();
    assert_eq!(
        told,
        [
            "redis.conf:3: 'cluster-port 5' has no effect: nodes do not talk to each other: etcd tells who is there",
            "(redis.conf:4: 'cluster-migration-barrier 1' has no effect yet",
            "redis.conf:5: 'daemonize yes' is ignored: the process never forks and stays in the foreground, \
             where a service manager can watch it",
            "redis.conf:6: 'cluster-node-timeout 9' has no effect: nodes do not talk to each other: etcd tells who is there",
            "redis.conf:7: 'list-max-ziplist-entries' is ignored: it is obsolete",
        ]
    );
}
