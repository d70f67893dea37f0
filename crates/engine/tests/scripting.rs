//! Scripts and functions, as a client sees them. Replies were asked of redis-server 7.0.15; what runs differently here
//! (stripes, threads for scripts, what is undone) is tested with one harness.

use engine::testing::Harness;

fn run(mut harness: Harness, script: &[(&str, &str)]) {
    for (line, expected) in script {
        harness.check(line, expected);
    }
}

#[test]
fn values_become_replies() {
    run(
        Harness::new(),
        &[
            ("EVAL 'return 1.9' 0", ":1"),
            ("EVAL 'return {1, \"a\", {2}, nil, 3}' 0", "[:1 a [:2]]"),
            ("EVAL 'return true' 0", ":1"),
            ("EVAL 'return false' 0", "(nil)"),
            ("EVAL 'return {ok=\"fine\"}' 0", "+fine"),
            ("EVAL 'return {err=\"MY error\"}' 0", "-MY error"),
            ("EVAL 'return {KEYS[1], ARGV[1], #KEYS, #ARGV}' 1 k a b", "[k a :1 :2]"),
            ("EVAL 'return {double=1.5}' 0", "1.5"),
            ("EVAL 'return 1' 2 k", "-ERR Number of keys can't be greater than number of args"),
            ("EVAL 'return 1' -1", "-ERR Number of keys can't be negative"),
        ],
    );
    run(
        Harness::new().resp3(),
        &[
            ("EVAL 'return true' 0", ":1"),
            ("EVAL 'redis.setresp(3) return true' 0", "#true"),
            ("EVAL 'redis.setresp(3) return {map={a=1}}' 0", "%{a=:1}"),
            ("EVAL 'return {set={a=true}}' 0", "~[a]"),
            ("EVAL 'return {double=1.5}' 0", ",1.5"),
            ("EVAL 'return {big_number=\"123\"}' 0", "(123"),
            ("EVAL 'return {verbatim_string={format=\"txt\", string=\"hi\"}}' 0", "=hi"),
        ],
    );
}

#[test]
fn replies_become_values() {
    run(
        Harness::new(),
        &[
            ("EVAL 'return redis.call(\"SET\", KEYS[1], 1).ok' 1 k", "OK"),
            ("EVAL 'return redis.call(\"INCR\", KEYS[1]) + 1' 1 k", ":3"),
            ("EVAL 'return redis.call(\"GET\", KEYS[1]) == false' 1 nokey", ":1"),
            ("EVAL 'return redis.pcall(\"LPUSH\", KEYS[1], 1).err' 1 k", {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }),
            ("HSET h f v", ":1"),
            ("EVAL 'redis.setresp(3) return redis.call(\"HGETALL\", KEYS[1]).map.f' 1 h", "v"),
        ],
    );
}

#[test]
fn errors_say_where_they_were() {
    let mut harness = Harness::new();
    let place = |reply: &str| reply.split(" script: ").nth(1).map(|rest| rest[40..].to_owned());
    let reply = harness.run("EVAL \"\\nreturn redis.call('nosuch')\" 0");
    assert!(reply.starts_with("-ERR Unknown Redis command called from script script: "), "{reply}");
    assert_eq!(place(&reply).as_deref(), Some(", on @user_script:2."));
    let reply = harness.run("EVAL 'local function f() error(\"x\") end return f()' 0");
    assert!(reply.starts_with("-ERR user_script:1: x script: "), "{reply}");
    harness.check("EVAL 'x x' 0", {
        "-ERR Error compiling script (new function): user_script:1: '=' expected near 'x'"
    });
}

#[test]
fn the_sandbox_holds() {
    let mut harness = Harness::new();
    for (script, text) in [
        ("x = 1", "user_script:1: Attempt to modify a readonly table"),
        ("return x", "user_script:1: Script attempted to access nonexistent global variable 'x'"),
        ("return print", "user_script:1: Script attempted to access nonexistent global variable 'print'"),
        ("return io", "user_script:1: Script attempted to access nonexistent global variable 'io'"),
        ("rawset(_G, 'x', 1)", "Attempt to modify a readonly table"),
        ("setmetatable(_G, {})", "Attempt to modify a readonly table"),
        ("redis.call = nil", "user_script:1: Attempt to modify a readonly table"),
        ("table.insert(redis, 1)", "Attempt to modify a readonly table"),
        ("string.rep = nil", "user_script:1: Attempt to modify a readonly table"),
        ("getmetatable('').__index = nil", "user_script:1: Attempt to modify a readonly table"),
        ("getmetatable(_G).__index = nil", "user_script:1: Attempt to modify a readonly table"),
    ] {
        let reply = harness.run_args(&[b"EVAL", script.as_bytes(), b"0"]);
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with(&format!("-ERR {text} script: ")), "{script}: {reply}");
    }
    harness.check("EVAL 'return getmetatable(redis)' 0", "(nil)");
    harness.check("EVAL 'local n = 0 for _ in pairs(redis) do n = n + 1 end return n > 10' 0", ":1");
    harness.check("EVAL 'return loadstring(\"\\27Lua\")' 0", "(nil)");
}

#[test]
fn scripts_are_known_by_their_digest() {
    let mut harness = Harness::new();
    harness.check("SCRIPT LOAD 'return 1'", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    harness.check("EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1");
    harness.check("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x", "[:1 :0]");
    for number in 0..base::limits::EVAL_SCRIPTS_MAX + 10 {
        harness.check(&format!("EVAL 'return {number}' 0"), &format!(":{number}"));
    }
    // What SCRIPT LOAD brought stays; of the others, the oldest are forgotten.
    harness.check("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1");
    assert_eq!(harness.server.scripting.scripts.evicted(), 9, "EVAL 'return 1' was the loaded one");
    let oldest = engine::scripting::cache::sha_hex(b"return 0");
    let oldest = String::from_utf8_lossy(&oldest).into_owned();
    harness.check(&format!("EVALSHA {oldest} 0"), "-NOSCRIPT No matching script. Please use EVAL.");
    harness.check("SCRIPT FLUSH", "+OK");
    harness.check("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", {
        "-NOSCRIPT No matching script. Please use EVAL."
    });
}

/// Runs `work` while another thread holds the stripe of `key` for a while; before that lets go, it does `then`.
fn while_held(
    harness: &mut Harness,
    key: &[u8],
    then: impl FnOnce() + Send + 'static,
    work: impl FnOnce(&mut Harness),
) {
    let server = harness.server.clone();
    let key = key.to_vec();
    let (held, is_held) = std::sync::mpsc::channel();
    let holder = std::thread::spawn(move || {
        let long = server.keyspace.hold_long();
        let locked = server.keyspace.lock(server.keyspace.position(&key));
        held.send(()).expect("the test waits");
        std::thread::sleep(std::time::Duration::from_millis(50));
        then();
        drop(locked);
        drop(long);
    });
    is_held.recv().expect("the holder holds");
    work(harness);
    holder.join().expect("the holder ends");
}

#[test]
fn a_run_that_is_given_up_leaves_nothing() {
    let mut harness = Harness::new();
    harness.check("RPUSH l a b", ":2");
    harness.check("SET s old EX 100", "+OK");
    let script = "EVAL 'redis.call(\"INCR\", KEYS[1]) redis.call(\"RPUSH\", KEYS[2], 1) redis.call(\"SET\", KEYS[3], 2) \
                  pcall(redis.call, \"INCR\", \"other\") return redis.call(\"GET\", KEYS[1])' 3 n l s";
    // Nor can the script catch that it is given up: else `other` would not be there.
    while_held(&mut harness, b"other", || (), |harness| harness.check(script, "1"));
    harness.check("MGET n other s", "[1 1 2]");
    harness.check("LRANGE l 0 -1", "[a b 1]");
    // It is known now that it needs every stripe.
    harness.check(script, "2");
    harness.check("MGET n other", "[2 2]");
}

/// A first run writes, meets a key that is held, and is given up. The second sees another world, and does not write: of the
/// first, nobody may hear anything, but that a key which it came upon had expired.
#[test]
fn nobody_hears_of_a_run_that_is_given_up() {
    let mut harness = Harness::with_config(&[("notify-keyspace-events", "KAn")]);
    let server = harness.server.clone();
    let stripe = |key: &str| server.keyspace.position(key.as_bytes()).stripe();
    // All stripes are taken upwards, so that the second run waits for `held` before it has `flag`.
    let names = (0..).map(|n| format!("flag{n}"));
    let flag = names.take(1000).find(|name| stripe(name) > stripe("held")).expect("one in so many");
    harness.on(0).run("SET old 1 PX 5");
    harness.on(0).run("HSET h f v");
    for line in ["HELLO 3", "CLIENT TRACKING ON", "GET n", "GET old"] {
        harness.on(1).run(line);
    }
    harness.on(2).run("PSUBSCRIBE __keyspace*");
    harness.on(3).run("MONITOR");
    for other in 1..=3 {
        harness.on(other).received();
    }
    harness.advance_ms(10);
    let script = format!(
        "EVAL 'redis.call(\"GET\", \"old\") if not redis.call(\"GET\", \"{flag}\") then          redis.call(\"SET\", \"n\", 1) redis.call(\"PUBLISH\", \"__keyspace\", 1) redis.call(\"DEL\", \"h\") end          return redis.call(\"EXISTS\", \"n\", \"held\")' 0"
    );
    let then = {
        let (server, flag) = (server.clone(), flag.clone());
        move || {
            let position = server.keyspace.position(flag.as_bytes());
            let at = store::Instant { now_ms: 0, touch: None };
            let (form, expiry) = (store::entry::Form::Plain, store::Expiry::Clear);
            server.keyspace.lock(position).put_string(0, position, flag.as_bytes(), b"1", form, expiry, at);
        }
    };
    while_held(&mut harness, b"held", then, |harness| harness.on(0).check(&script, ":0"));
    assert_eq!(harness.on(1).received(), ">[invalidate [old]]");
    assert_eq!(harness.on(2).received(), "[pmessage __keyspace* __keyspace@0__:old expired]");
    let shown = harness.on(3).received();
    let count = |text: &str| shown.matches(text).count();
    assert_eq!((count("\"EVAL\""), count("\"old\""), count("\"n\"")), (1, 1, 1), "{shown}");
    assert!(!shown.contains("\"PUBLISH\" \"__keyspace\""), "{shown}");
    harness.on(0).check("HGET h f", "v");
}

#[test]
fn a_run_that_is_given_up_counts_once() {
    let mut harness = Harness::new();
    let changes = |harness: &mut Harness| {
        let info = harness.run("INFO persistence");
        let line = info.lines().find(|line| line.contains("rdb_changes_since_last_save")).expect("a count");
        line.rsplit(':').next().expect("its value").trim().to_owned()
    };
    // More keys than are looked through one by one.
    let script = "EVAL 'for i = 1, 40 do redis.call(\"SET\", \"k\" .. i, i) redis.call(\"INCR\", \"k\" .. i) end \
                  return redis.call(\"SET\", \"other\", 1)' 0";
    harness.check("SET k7 old", "+OK");
    while_held(
        &mut harness,
        b"other",
        || (),
        |harness| {
            harness.check("SET k40 old", "+OK");
            harness.check(script, "+OK");
        },
    );
    harness.check("MGET k1 k7 k40 other", "[2 8 41 1]");
    assert_eq!(changes(&mut harness), "83");
}

#[test]
fn undeclared_keys_just_work() {
    run(
        Harness::new(),
        &[
            (
                "EVAL 'for i = 1, 300 do redis.call(\"SET\", \"k\" .. i, i) end return redis.call(\"DBSIZE\")' 0",
                ":300",
            ),
            (
                "EVAL 'local s = 0 for i = 1, 300 do s = s + redis.call(\"GET\", \"k\" .. i) end return s' 0",
                ":45150",
            ),
            ("MULTI", "+OK"),
            ("EVAL 'return redis.call(\"INCR\", \"k1\")' 0", "+QUEUED"),
            ("EVAL 'error(\"x\", 0)' 0", "+QUEUED"),
            ("DISCARD", "+OK"),
            ("EVAL 'redis.call(\"FLUSHALL\") return redis.call(\"DBSIZE\")' 0", ":0"),
            ("EVAL 'redis.call(\"SELECT\", 1) return redis.call(\"SET\", KEYS[1], 1)' 1 k", "+OK"),
            ("EXISTS k", ":0"),
        ],
    );
}

#[test]
fn functions_are_kept_in_libraries() {
    let mut harness = Harness::new();
    let library = |body: &str| format!("FUNCTION LOAD REPLACE \"#!lua name=lib\\n{body}\"");
    harness
        .check(&library("redis.register_function('f', function(keys, args) return {keys, args} end)"), "lib");
    harness.check("FCALL f 1 k a", "[[k] [a]]");
    harness.check("FCALL F 0", "[[] []]");
    harness.check("FCALL_RO f 0", "-ERR Can not execute a script with write flag using *_ro command.");
    harness.check(&library("redis.register_function('f', function() return 2 end)"), "lib");
    harness.check("FCALL f 0", ":2");
    harness.check(
        "FUNCTION LIST",
        "[[library_name lib engine LUA functions [[name f description (nil) flags []]]]]",
    );
    harness.check(&library("x = 1"), {
        "-ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table"
    });
    harness.check("FCALL f 0", ":2");
    harness.check("FUNCTION DELETE lib", "+OK");
    harness.check("FCALL f 0", "-ERR Function not found");
}

#[test]
fn the_settings_of_cjson_stay() {
    let sparse = "cjson.encode_sparse_array(true)";
    let precise = "cjson.encode_number_precision(3)";
    let mut harness = Harness::new();
    let both = "return cjson.encode({[100] = 1 / 3})";
    let library = format!(
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('set', function() {precise} end) \
         redis.register_function('get', function() {sparse} {both} end)\""
    );
    harness.check(&library, "l");
    harness.check(&format!("EVAL '{both}' 0"), {
        "-ERR user_script:1: Cannot serialise table: excessively sparse array script: \
         baeb49ddc53f45dacb74ca66df9e7abd9ed795ac, on @user_script:1."
    });
    harness.check(&format!("EVAL '{sparse}' 0"), "(nil)");
    harness.check(&format!("EVAL '{both}' 0"), "{\"100\":0.33333333333333}");
    // Functions have settings of their own.
    harness.check("FCALL set 0", "(nil)");
    harness.check("FCALL get 0", "{\"100\":0.333}");
    harness.check(&format!("EVAL '{both}' 0"), "{\"100\":0.33333333333333}");
    harness.check("FCALL get 0", "{\"100\":0.333}");
    // Another server, in the same thread, has others.
    Harness::new().check("EVAL 'return cjson.encode_number_precision()' 0", ":14");
    harness.check("FCALL get 0", "{\"100\":0.333}");
    harness.check("SCRIPT FLUSH", "+OK");
    harness.check("EVAL 'return cjson.encode_sparse_array()' 0", "(nil)");
    harness.check("FCALL get 0", "{\"100\":0.333}");
}

#[test]
fn a_replica_without_its_primary_runs_what_says_so() {
    let mut harness =
        Harness::with_config(&[("replica-serve-stale-data", "no"), ("replica-read-only", "no")]);
    harness.check("SET k v", "+OK");
    harness.check("REPLICAOF primary 7000", "+OK");
    harness.check("EVAL \"#!lua\\nreturn 1\" 0", {
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
    });
    harness.check("EVAL \"#!lua flags=allow-stale\\nreturn 1\" 0", ":1");
    harness.check("EVAL 'return 1' 0", ":1");
    harness.check("EVAL \"#!lua flags=allow-stale\\nreturn redis.pcall('GET', 'k').err\" 0", {
        "ERR Can not execute the command on a stale replica"
    });
    harness.check("EVAL 'return #redis.call(\"TIME\")' 0", ":2");
}

#[test]
fn a_script_cannot_stop_the_collector_for_good() {
    let mut harness = Harness::new();
    harness.check("EVAL 'collectgarbage(\"stop\") collectgarbage(\"setstepmul\", 1) return 1' 0", ":1");
    for number in 100..300 {
        harness.check(&format!("EVAL 'return #string.rep(ARGV[1], 300000)' 0 {number}"), ":900000");
    }
    let bytes = engine::scripting::vm::states_bytes();
    assert!(bytes < 64 << 20, "{bytes}");
}
