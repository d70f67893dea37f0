//! Users, what they may do, and what becomes of those who may not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::acl;
use engine::clients::{Client, Peer};
use engine::config::Config;
use engine::fault::Fault;
use engine::testing::Harness;
use resp::Args;

/// SHA-256 of `x`.
const HASH_OF_X: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

fn rules_of(harness: &mut Harness, user: &str) -> String {
    let listed = harness.server.acl.find(user.as_bytes()).map(|_| harness.run("ACL LIST"));
    let listed = listed.expect("the user is there");
    let start = format!("user {user} ");
    let at = listed.find(&start).expect("it is listed") + start.len();
    let rest = &listed[at..listed.len() - 1];
    rest.split(" user ").next().unwrap_or(rest).to_owned()
}

#[test]
fn the_default_user_may_do_everything() {
    let mut harness = Harness::new();
    for (line, expected) in [
        ("ACL WHOAMI", "default"),
        ("ACL USERS", "[default]"),
        ("ACL LIST", "[user default on nopass sanitize-payload ~* &* +@all]"),
        (
            "ACL GETUSER default",
            "[flags [on nopass sanitize-payload] passwords [] commands +@all keys ~* channels &* selectors []]",
        ),
        ("ACL GETUSER nobody", "(nil)"),
        ("ACL DELUSER default", "-ERR The 'default' user cannot be removed"),
        ("ACL DELUSER nobody", ":0"),
        ("AUTH default anything", "+OK"),
    ] {
        harness.check(line, expected);
    }
    assert!(harness.run("CLIENT INFO").contains(" user=default "));
    let mut harness = harness.resp3();
    harness.check(
        "ACL GETUSER default",
        "%{flags=~[on nopass sanitize-payload] passwords=[] commands=+@all keys=~* channels=&* selectors=[]}",
    );
}

#[test]
fn modifiers_become_rules() {
    for (modifiers, expected) in [
        ("", "off sanitize-payload resetchannels -@all"),
        ("on", "on sanitize-payload resetchannels -@all"),
        ("ON nopass >x", &format!("on sanitize-payload #{HASH_OF_X} resetchannels -@all")),
        (">x >x", &format!("off sanitize-payload #{HASH_OF_X} resetchannels -@all")),
        (">x nopass", "off nopass sanitize-payload resetchannels -@all"),
        (">x resetpass", "off sanitize-payload resetchannels -@all"),
        (">x <x", "off sanitize-payload resetchannels -@all"),
        (&format!("#{HASH_OF_X} !{HASH_OF_X}"), "off sanitize-payload resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        ("~a* %R~b %W~b %R~c %RW~d %wR~e", "off sanitize-payload ~a* ~b %R~c ~d ~e resetchannels -@all"),
        ("~a allkeys", "off sanitize-payload ~* resetchannels -@all"),
        ("allkeys resetkeys ~a ~a", "off sanitize-payload ~a resetchannels -@all"),
        ("&a &a &b*", "off sanitize-payload resetchannels &a &b* -@all"),
        ("&a allchannels", "off sanitize-payload &* -@all"),
        ("allcommands", "off sanitize-payload resetchannels +@all"),
        ("+@all -GET -config|set", "off sanitize-payload resetchannels +@all -get -config|set"),
        ("+@all -get nocommands", "off sanitize-payload resetchannels -@all"),
        ("+get +set -get", "off sanitize-payload resetchannels -@all +set -get"),
        ("+@hash +@SET -@hash", "off sanitize-payload resetchannels -@all +@set -@hash"),
        ("+config|get +config|set +config", "off sanitize-payload resetchannels -@all +config"),
        ("+config -config|get", "off sanitize-payload resetchannels -@all +config -config|get"),
        ("+select|0 +SELECT|1 +select|0", "off sanitize-payload resetchannels -@all +select|1 +select|0"),
        ("+select|0 +select", "off sanitize-payload resetchannels -@all +select"),
        ("(+get ~a) (%R~b &c +set)", {
            "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels &c -@all +set)"
        }),
        ("(+get ~a )", "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get)"),
        ("()", "off sanitize-payload resetchannels -@all (resetchannels -@all)"),
        ("(+get ~a) clearselectors", "off sanitize-payload resetchannels -@all"),
        ("on >x ~* &* +@all (+get) skip-sanitize-payload reset", "off sanitize-payload resetchannels -@all"),
    ] {
        let mut harness = Harness::new();
        harness.check(&format!("ACL SETUSER u {modifiers}"), "+OK");
        assert_eq!(rules_of(&mut harness, "u"), expected, "{modifiers}");
        // What is printed makes the same user again.
        harness.check(&format!("ACL SETUSER v {expected}"), "+OK");
        assert_eq!(rules_of(&mut harness, "v"), expected, "{modifiers}");
    }
}

#[test]
fn bad_modifiers_change_nothing() {
    let keys = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                effect. Try 'resetkeys' to start with an empty list of patterns";
    let channels = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have \
                    any effect. Try 'resetchannels' to start with an empty list of channels";
    let unknown = "Unknown command or category name in ACL";
    let hash =
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
    let upper = HASH_OF_X.to_uppercase();
    let mut harness = Harness::new();
    harness.check("ACL SETUSER u on ~* &*", "+OK");
    for (modifier, why) in [
        ("foo", "Syntax error"),
        ("+nosuch", unknown),
        ("-nosuch", unknown),
        ("+@nosuch", unknown),
        ("-get|a", unknown),
        ("+config|nosuch", unknown),
        ("+select|0|1", unknown),
        ("+config|get|a", "Allowing first-arg of a subcommand is not supported"),
        ("+get|", "Syntax error"),
        ("%~a", keys),
        ("~a", keys),
        ("&a", channels),
        ("<nope", "The password you are trying to remove from the user does not exist"),
        ("#abc", hash),
        ("!abc", hash),
        (&format!("#{upper}"), hash),
        ("(foo)", "Syntax error"),
        ("(+get))", unknown),
        ("(~* ~a)", keys),
    ] {
        harness.check(
            &format!("ACL SETUSER u off resetpass \"{modifier}\""),
            &format!("-ERR Error in ACL SETUSER modifier '{modifier}': {why}"),
        );
    }
    for modifier in ["~a b", "%X~a", "%RR~a", "%Ra", "%~a", "&a b"] {
        harness.check(
            &format!("ACL SETUSER v \"{modifier}\""),
            &format!("-ERR Error in ACL SETUSER modifier '{modifier}': Syntax error"),
        );
    }
    for (line, expected) in [
        ("ACL SETUSER u (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'."),
        ("ACL SETUSER u off (+get ~a", "-ERR Unmatched parenthesis in acl selector starting at '(+get'."),
        ("ACL SETUSER \"a b\"", "-ERR Usernames can't contain spaces or null characters"),
        ("ACL SETUSER \"a\\x00\"", "-ERR Usernames can't contain spaces or null characters"),
        ("ACL USERS", "[default u]"),
    ] {
        harness.check(line, expected);
    }
    assert_eq!(rules_of(&mut harness, "u"), "on sanitize-payload ~* &* -@all");
}

#[test]
fn a_connection_is_whom_it_says_it_is() {
    let mut harness = Harness::new();
    for (line, expected) in [
        ("ACL SETUSER bob on >x >y +@all ~*", "+OK"),
        ("ACL SETUSER eve >x", "+OK"),
        ("ACL SETUSER any on nopass +@all", "+OK"),
        ("AUTH bob z", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH eve x", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH nobody x", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("ACL WHOAMI", "default"),
        ("AUTH bob y", "+OK"),
        ("ACL WHOAMI", "bob"),
        ("ACL SETUSER bob <y", "+OK"),
        ("AUTH bob y", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("ACL WHOAMI", "bob"),
        // Off is for those who come, not for those who are there.
        ("ACL SETUSER bob off", "+OK"),
        ("ACL WHOAMI", "bob"),
        ("AUTH bob x", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH any whatever", "+OK"),
        ("ACL WHOAMI", "any"),
        ("HELLO 2 AUTH eve x", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("RESET", "+RESET"),
        ("ACL WHOAMI", "default"),
    ] {
        harness.check(line, expected);
    }
    assert!(harness.run("HELLO 2 AUTH any x").starts_with("[server "));
    assert!(harness.run("CLIENT LIST").contains(" user=any "));
    assert!(harness.run("INFO stats").contains("acl_access_denied_auth:6\r\n"));
}

#[test]
fn commands_are_refused() {
    let no = |command: &str| format!("-NOPERM User bob has no permissions to run the '{command}' command");
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on nopass ~* &*", "+OK");
    harness.check("ACL SETUSER bob +@all -@dangerous +info -get +config|get +select|1 -select", "+OK");
    harness.check("ACL SETUSER bob +select|1 +acl|setuser", "+OK");
    harness.check("AUTH bob x", "+OK");
    for (line, expected) in [
        ("SET k v", "+OK"),
        ("GET k", &no("get")),
        ("KEYS *", &no("keys")),
        ("CONFIG GET databases", "[databases 16]"),
        ("CONFIG SET timeout 1", &no("config|set")),
        ("SELECT 0", &no("select")),
        ("SELECT 1", "+OK"),
        // What is wrong with the words themselves comes first.
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("CONFIG NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP."),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        // A change counts from the next command on.
        ("ACL SETUSER bob -@all", "+OK"),
        ("SET k v", &no("set")),
        ("ACL WHOAMI", &no("acl|whoami")),
        ("PING", &no("ping")),
        ("AUTH default x", "+OK"),
        ("SELECT 0", "+OK"),
        ("GET k", "v"),
    ] {
        harness.check(line, expected);
    }
    let info = harness.run("INFO everything");
    assert!(info.contains("acl_access_denied_cmd:7\r\n"), "{info}");
    assert!(info.contains("cmdstat_get:calls=1,usec=0,usec_per_call=0.00,rejected_calls=2,failed_calls=0"));
    assert!(info.contains("errorstat_NOPERM:count=7"));
}

#[test]
fn keys_are_refused_by_what_is_done_to_them() {
    let no = "-NOPERM No permissions to access a key";
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on nopass +@all ~rw* %R~r* %W~w*", "+OK");
    harness.check("AUTH bob x", "+OK");
    for (line, expected) in [
        ("SET rw1 v", "+OK"),
        ("GET rw1", "v"),
        ("SET r1 v", no),
        ("GET r1", "(nil)"),
        ("SET w1 v", "+OK"),
        ("GET w1", no),
        // SET ... GET reads too.
        ("SET w1 v GET", no),
        ("GETSET rw1 v", "v"),
        ("MGET r1 r2", "[(nil) (nil)]"),
        ("MGET r1 x", no),
        ("MSET w1 a w2 b", "+OK"),
        ("MSET w1 a r2 b", no),
        ("COPY r1 w1", ":0"),
        ("COPY w1 r1", no),
        // Whether a key exists, and what it is, is nobody's data.
        ("EXISTS w1", ":1"),
        ("EXISTS x", no),
        ("SUNIONSTORE w3 r1 r2", ":0"),
        ("SUNIONSTORE w3 w1 r2", no),
        ("ZUNIONSTORE w3 1 r1", ":0"),
        ("ZUNIONSTORE w3 1 x", no),
        // The command tells what is wrong with its own numbers.
        ("ZUNIONSTORE w3 9 x", "-ERR syntax error"),
        ("PING", "+PONG"),
        ("SCAN 0 COUNT 1 MATCH nothing", "[0 []]"),
    ] {
        if line.starts_with("SCAN") {
            assert!(harness.run(line).ends_with(" []]"), "SCAN names no key");
        } else {
            harness.check(line, expected);
        }
    }
}

#[test]
fn each_selector_stands_alone() {
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on nopass -@all +get ~a* (+set ~b*) (+@all -get %R~c*)", "+OK");
    for (line, expected) in [
        ("GET a", "+OK"),
        ("GET b", "User bob has no permissions to access the 'b' key"),
        ("SET b v", "+OK"),
        ("SET a v", "User bob has no permissions to access the 'a' key"),
        ("STRLEN c", "+OK"),
        ("GET c", "User bob has no permissions to access the 'c' key"),
        ("APPEND c v", "User bob has no permissions to access the 'c' key"),
        // The key that came furthest is told.
        ("MGET c1 c2 x", "User bob has no permissions to access the 'x' key"),
    ] {
        harness.check(&format!("ACL DRYRUN bob {line}"), expected);
    }
    harness.check("ACL SETUSER tim +get", "+OK");
    for (line, expected) in [
        ("ACL DRYRUN tim SET a v", "User tim has no permissions to run the 'set' command"),
        ("ACL DRYRUN tim CONFIG GET a", "User tim has no permissions to run the 'config|get' command"),
        ("ACL DRYRUN nobody GET a", "-ERR User 'nobody' not found"),
        ("ACL DRYRUN tim NOSUCH a", "-ERR Command 'NOSUCH' not found"),
        ("ACL DRYRUN tim CONFIG NOSUCH", "-ERR Command 'CONFIG' not found"),
        ("ACL DRYRUN tim CONFIG", "-ERR wrong number of arguments for 'config' command"),
        ("ACL DRYRUN tim GET", "-ERR wrong number of arguments for 'get' command"),
        ("ACL LOG", "[]"),
    ] {
        harness.check(line, expected);
    }
}

#[test]
fn channels_are_matched() {
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on +@all &news:* (+@all &a?)", "+OK");
    let bob = harness.server.acl.find(b"bob").expect("bob");
    let refused =
        |names: &[&[u8]], are_patterns| acl::check_channels(&bob, names.iter().copied(), are_patterns, 1);
    assert_eq!(refused(&[b"news:1", b"ab"], false), Ok(()));
    assert_eq!(refused(&[b"news:*"], true), Ok(()));
    assert_eq!(refused(&[b"news:1"], true).map_err(|denied| denied.at), Err(1));
    let denied = refused(&[b"news:1", b"other"], false).expect_err("other is not allowed");
    assert_eq!((denied.at, denied.reason), (2, acl::Reason::Channel));
    let info = harness.server.registry.find(b"PING").expect("PING");
    assert_eq!(denied.fault(&bob, info).bytes(), b"NOPERM No permissions to access a channel");
    let default = harness.server.acl.default_user();
    assert_eq!(acl::check_channels(&default, [&b"x"[..]], true, 1), Ok(()));

    let no = "-NOPERM No permissions to access a channel";
    harness.check("ACL SETUSER bob nopass +@all &news:*", "+OK");
    harness.check("AUTH bob x", "+OK");
    for (line, expected) in [
        ("PUBLISH news:1 x", ":0"),
        ("PUBLISH other x", no),
        ("SPUBLISH ab x", ":0"),
        ("SPUBLISH abc x", no),
        ("SUBSCRIBE news:1 abc", no),
        ("PSUBSCRIBE a?b", no),
        ("SSUBSCRIBE abc", no),
        ("UNSUBSCRIBE abc", "[unsubscribe abc :0]"),
        ("PUBSUB NUMSUB abc", "[abc :0]"),
    ] {
        harness.check(line, expected);
    }

    for (default, expected) in [("allchannels", "&*"), ("resetchannels", "resetchannels")] {
        let mut harness = Harness::with_config(&[("acl-pubsub-default", default)]);
        harness.check("ACL SETUSER u (+get)", "+OK");
        let rules = format!("off sanitize-payload {expected} -@all ({expected} -@all +get)");
        assert_eq!(rules_of(&mut harness, "u"), rules);
    }
}

#[test]
fn who_may_listen_no_more_is_closed() {
    let mut harness = Harness::new();
    for (number, line) in [
        (0, "ACL SETUSER bob on nopass +@all &*"),
        (0, "ACL SETUSER tim on nopass +@all &a &b"),
        (1, "AUTH bob x"),
        (2, "AUTH bob x"),
        (3, "AUTH bob x"),
        (4, "AUTH tim x"),
        (5, "AUTH bob x"),
    ] {
        assert_eq!(harness.on(number).run(line), "+OK", "{number}: {line}");
    }
    for (number, line) in [(1, "SUBSCRIBE a1"), (2, "PSUBSCRIBE a*"), (3, "SSUBSCRIBE b"), (4, "SUBSCRIBE b")]
    {
        assert!(harness.on(number).run(line).contains(":1"), "{number}: {line}");
    }
    let closed = |harness: &mut Harness| {
        harness.on(0).received();
        let is_closed = |id| harness.server.clients.get(id).is_none_or(|client| client.kill.load(Relaxed));
        (1..=5_u64).filter(|number| is_closed(number + 1)).collect::<Vec<_>>()
    };
    for (line, expected) in [
        ("ACL SETUSER tim &c", &[][..]),
        ("ACL SETUSER bob resetchannels &b &a*", &[]),
        ("ACL SETUSER bob resetchannels &a?", &[2, 3]),
        ("ACL SETUSER bob resetchannels", &[1, 2, 3]),
        ("ACL SETUSER tim resetchannels &a &b", &[1, 2, 3]),
        ("ACL SETUSER tim resetchannels &a", &[1, 2, 3, 4]),
    ] {
        assert_eq!(harness.on(0).run(line), "+OK", "{line}");
        assert_eq!(closed(&mut harness), expected, "{line}");
    }
}

#[test]
fn refusals_are_logged() {
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on >x +@all -get ~a*", "+OK");
    harness.run("AUTH bob no");
    harness.check("AUTH bob x", "+OK");
    harness.run("GET k");
    harness.advance_ms(1500);
    harness.run("set k v");
    harness.run("SET k w");
    harness.advance_ms(500);
    harness.run("HELLO 3 AUTH eve pw");
    harness.check("AUTH default x", "+OK");
    let log = harness.run("ACL LOG");
    let client = |user: &str, command: &str| format!(" cmd={command} user={user} redir=-1 ");
    let entries: Vec<&str> = log.split("[count ").skip(1).collect();
    let at_ms = 1_704_067_200_000_i64;
    for (entry, (start, user, command, end)) in entries.iter().zip([
        (":1 reason auth context toplevel object HELLO username eve age-seconds 0 ", "bob", "hello", {
            format!("entry-id :3 timestamp-created :{0} timestamp-last-updated :{0}]", at_ms + 2000)
        }),
        (":2 reason key context toplevel object k username bob age-seconds 0.5 ", "bob", "set", {
            format!("entry-id :2 timestamp-created :{0} timestamp-last-updated :{0}]", at_ms + 1500)
        }),
        (":1 reason command context toplevel object get username bob age-seconds 2 ", "bob", "get", {
            format!("entry-id :1 timestamp-created :{at_ms} timestamp-last-updated :{at_ms}]")
        }),
        (":1 reason auth context toplevel object AUTH username bob age-seconds 2 ", "default", "auth", {
            format!("entry-id :0 timestamp-created :{at_ms} timestamp-last-updated :{at_ms}]")
        }),
    ]) {
        assert!(entry.starts_with(start), "{start} in {entry}");
        assert!(entry.contains("client-info id=1 addr=127.0.0.1:6379 "), "{entry}");
        assert!(entry.contains(&client(user, command)), "{entry}");
        assert!(
            entry.trim_end().trim_end_matches("]]").contains(end.trim_end_matches(']')),
            "{end} in {entry}"
        );
    }
    assert_eq!(entries.len(), 4, "{log}");
    assert_eq!(harness.run("ACL LOG 1").matches("[count ").count(), 1);
    for (line, expected) in [
        ("ACL LOG 0", "[]"),
        ("ACL LOG -5", "[]"),
        ("ACL LOG x", "-ERR value is not an integer or out of range"),
        ("ACL LOG RESET", "+OK"),
        ("ACL LOG", "[]"),
        ("CONFIG SET acllog-max-len 1", "+OK"),
    ] {
        harness.check(line, expected);
    }
    harness.run("AUTH a b");
    harness.run("AUTH c d");
    assert_eq!(harness.run("ACL LOG").matches("[count ").count(), 1);
    let stats = harness.run("INFO stats");
    assert!(stats.contains("acl_access_denied_auth:4\r\n"), "{stats}");
    assert!(stats.contains("acl_access_denied_key:2\r\n"), "{stats}");
    harness.run("CONFIG RESETSTAT");
    assert!(harness.run("INFO stats").contains("acl_access_denied_auth:0\r\n"));
    // Secrets stay out of other logs.
    harness.run("CONFIG SET slowlog-log-slower-than 0");
    harness.run("ACL SETUSER bob >secret");
    assert!(harness.run("SLOWLOG GET").contains("[ACL SETUSER (redacted) (redacted)]"));
}

fn connect(harness: &Harness, port: u16, user: &[u8]) -> Arc<Client> {
    let local = SocketAddr::from(([127, 0, 0, 1], 6379));
    let peer = SocketAddr::from(([10, 0, 0, 1], port));
    let client = harness.server.clients.open(Peer::tcp(peer, local), 0, 0);
    let user = harness.server.acl.find(user).expect("the user is there");
    engine::session::Session::new(client.clone(), user);
    client
}

#[test]
fn deleted_users_are_gone_at_once() {
    for many in [0, 1500] {
        let mut harness = Harness::new();
        harness.check("ACL SETUSER bob on nopass +@all ~*", "+OK");
        harness.check("ACL SETUSER tim on nopass +@all ~*", "+OK");
        let others: Vec<_> = (0..many).map(|at| connect(&harness, 1000 + at, b"default")).collect();
        let (bob, tim) = (connect(&harness, 1, b"bob"), connect(&harness, 2, b"tim"));
        assert!(harness.run("CLIENT LIST").contains(" user=tim "));
        harness.check("CLIENT KILL USER bob", ":1");
        harness.check("CLIENT KILL USER nobody", "-ERR No such user 'nobody'");
        assert!(bob.kill.load(Relaxed) && !tim.kill.load(Relaxed));
        harness.check("ACL DELUSER nobody tim tim", ":1");
        assert!(tim.kill.load(Relaxed));
        assert!(others.iter().all(|client| !client.kill.load(Relaxed)));
        harness.check("ACL USERS", "[bob default]");
        // Whoever comes back under the same name is somebody else.
        harness.check("AUTH bob x", "+OK");
        let held = harness.server.acl.find(b"bob").expect("bob");
        harness.check("ACL DELUSER bob", ":1");
        assert!(held.is_outdated() && held.renewed().is_none());
        harness.server.acl.default_user();
        let answer = harness.run("PING");
        assert_eq!(answer, if many == 0 { "+PONG" } else { "-NOAUTH Authentication required." });
    }
}

#[test]
fn a_change_reaches_users_that_are_held() {
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on nopass +@all ~* &*", "+OK");
    let held = harness.server.acl.find(b"bob").expect("bob");
    assert!(held.is_unrestricted());
    let may_get = |harness: &Harness| {
        let info = harness.server.registry.find(b"GET").expect("GET");
        let words: [&[u8]; 2] = [b"GET", b"k"];
        acl::check(&harness.server, &held, info, Args::from_slices(&words)).is_ok()
    };
    assert!(may_get(&harness));
    harness.check("ACL SETUSER bob -get", "+OK");
    assert!(!held.is_unrestricted() && held.is_outdated());
    assert!(!may_get(&harness));
    harness.check("ACL SETUSER bob +get", "+OK");
    assert!(may_get(&harness));
}

#[test]
fn a_transaction_is_asked_for_twice() {
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                   This command is no longer allowed for the following reason: no permission to touch the specified \
                   keys";
    let mut harness = Harness::new();
    for (number, line, expected) in [
        (0, "ACL SETUSER bob on nopass +@all ~a* ~b*", "+OK"),
        (1, "AUTH bob x", "+OK"),
        (1, "MULTI", "+OK"),
        (1, "SET c 1", "-NOPERM No permissions to access a key"),
        (1, "SET a 1", "+QUEUED"),
        (1, "EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        (1, "MULTI", "+OK"),
        (1, "SET a 1", "+QUEUED"),
        (1, "SET b 1", "+QUEUED"),
        (1, "MGET a b", "+QUEUED"),
        (0, "ACL SETUSER bob resetkeys ~a*", "+OK"),
    ] {
        assert_eq!(harness.on(number).run(line), expected, "{number}: {line}");
    }
    assert_eq!(harness.on(1).run("EXEC"), format!("[+OK {changed} {changed}]"));
    assert_eq!(harness.on(0).run("MGET a b"), "[1 (nil)]");
    let log = harness.on(0).run("ACL LOG");
    assert!(log.starts_with("[[count :2 reason key context multi object b username bob "), "{log}");
    assert!(log.contains(" [count :1 reason key context multi object c username bob "), "{log}");
}

#[test]
fn who_waits_is_asked_for_again() {
    let mut harness = Harness::new();
    for (number, line, expected) in [
        (0, "ACL SETUSER bob on nopass +@all ~*", "+OK"),
        (1, "AUTH bob x", "+OK"),
        (1, "BLPOP l 0", ""),
        (0, "ACL SETUSER bob resetkeys", "+OK"),
        (0, "RPUSH l a", ":1"),
        (0, "LLEN l", ":1"),
    ] {
        assert_eq!(harness.on(number).run(line), expected, "{number}: {line}");
    }
    assert_eq!(harness.on(1).received(), "-NOPERM No permissions to access a key");
    assert!(harness.on(0).run("INFO commandstats").contains(",rejected_calls=1,"));
}

#[test]
fn texts_for_transactions_and_scripts() {
    let mut harness = Harness::new();
    harness.check("ACL SETUSER bob on", "+OK");
    let bob = harness.server.acl.find(b"bob").expect("bob");
    let info = harness.server.registry.find(b"GET").expect("GET");
    let words: [&[u8]; 2] = [b"GET", b"k"];
    let denied = acl::check(&harness.server, &bob, info, Args::from_slices(&words)).expect_err("not allowed");
    let text = |fault: Fault| String::from_utf8_lossy(fault.bytes()).into_owned();
    assert_eq!(
        text(denied.fault_in_script(&bob, info)),
        "NOPERM ACL failure in script: User bob has no permissions to run the 'get' command"
    );
    let changed = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                   This command is no longer allowed for the following reason: ";
    for (reason, expected) in [
        (acl::Reason::Command, "no permission to execute the command or subcommand"),
        (acl::Reason::Key, "no permission to touch the specified keys"),
        (
            acl::Reason::Channel,
            "no permission to access one of the channels used as arguments to the command",
        ),
    ] {
        assert_eq!(text(acl::Denied { reason, ..denied }.fault_at_exec()), format!("{changed}{expected}"));
    }
}

#[test]
fn requirepass_is_the_default_users_password() {
    let mut harness = Harness::with_config(&[("requirepass", "x")]);
    for (line, expected) in [
        ("PING", "-NOAUTH Authentication required."),
        ("AUTH y", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH x", "+OK"),
        ("ACL LIST", &format!("[user default on sanitize-payload #{HASH_OF_X} ~* &* +@all]")),
        ("CONFIG SET requirepass \"\"", "+OK"),
        ("ACL LIST", "[user default on nopass sanitize-payload ~* &* +@all]"),
        ("CONFIG SET requirepass x", "+OK"),
        ("ACL SETUSER default >y", "+OK"),
        ("RESET", "+RESET"),
        ("PING", "-NOAUTH Authentication required."),
        ("AUTH y", "+OK"),
        // Set to what it is, it changes nothing.
        ("CONFIG SET requirepass x", "+OK"),
        ("AUTH y", "+OK"),
        ("ACL SETUSER default off", "+OK"),
        ("PING", "+PONG"),
        ("RESET", "+RESET"),
        ("PING", "-NOAUTH Authentication required."),
        ("AUTH x", "-WRONGPASS invalid username-password pair or user is disabled."),
    ] {
        harness.check(line, expected);
    }
}

#[test]
fn categories_and_passwords_are_told() {
    let mut harness = Harness::new();
    harness.check(
        "ACL CAT",
        "[keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow \
         blocking dangerous connection transaction scripting]",
    );
    assert!(harness.run("ACL CAT ADMIN").contains(" config|set "));
    for (line, expected) in [
        ("ACL CAT nosuch", "-ERR Unknown category 'nosuch'"),
        ("ACL CAT a b", "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP."),
        (
            "ACL GENPASS 1 2",
            "-ERR unknown subcommand or wrong number of arguments for 'GENPASS'. Try ACL HELP.",
        ),
        ("ACL LOG 1 2", "-ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP."),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range"),
        (
            "ACL GENPASS 0",
            "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up \
             to 4096",
        ),
        (
            "ACL GENPASS 4097",
            "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up \
             to 4096",
        ),
        ("ACL", "-ERR wrong number of arguments for 'acl' command"),
        ("ACL FOO", "-ERR unknown subcommand 'FOO'. Try ACL HELP."),
    ] {
        harness.check(line, expected);
    }
    for (bits, digits) in [("", 64), ("1", 1), ("4", 1), ("5", 2), ("9", 3), ("4096", 1024)] {
        assert_eq!(harness.run(&format!("ACL GENPASS {bits}")).len(), digits, "{bits}");
    }
}

/// A directory of this test's own, gone when it is dropped.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("halcyon-acl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory below the temporary one");
        Directory(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind there harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_acl_file_is_read_and_written() {
    let directory = Directory::new("file");
    let path = directory.file("users.acl", "user bob on >x ~a*  +get (+set ~b)\n\nuser eve\r\n");
    let mut harness = Harness::with_options(&["--aclfile", &path, "--requirepass", "secret"]);
    let bob = format!(
        "user bob on sanitize-payload #{HASH_OF_X} ~a* resetchannels -@all +get (~b resetchannels -@all +set)"
    );
    let eve = "user eve off sanitize-payload resetchannels -@all";
    // The file does not tell of the default user: it is as if nobody had said anything.
    let default = "user default on nopass sanitize-payload ~* &* +@all";
    harness.check("ACL LIST", &format!("[{bob} {default} {eve}]"));
    let client = connect(&harness, 1, b"eve");
    let kept = connect(&harness, 2, b"bob");
    harness.check("ACL DELUSER eve", ":1");
    harness.check("ACL SAVE", "+OK");
    let saved = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(saved, format!("{bob}\n{default}\n"));
    assert!(client.kill.load(Relaxed));

    harness.check("ACL SETUSER tim on nopass +@all", "+OK");
    let tim = connect(&harness, 3, b"tim");
    directory.file("users.acl", "user bob on nopass +@all\nuser default on >x ~* &* +@all");
    harness.check("ACL LOAD", "+OK");
    assert!(tim.kill.load(Relaxed) && !kept.kill.load(Relaxed));
    harness.check(
        "ACL LIST",
        &format!(
            "[user bob on nopass sanitize-payload resetchannels +@all user default on sanitize-payload #{HASH_OF_X} \
             ~* &* +@all]"
        ),
    );

    let before = harness.run("ACL LIST");
    let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    for (text, errors) in [
        ("foo", "P:1 should start with user keyword followed by the username. "),
        ("\nuser", "P:2 should start with user keyword followed by the username. "),
        ("user a +foo -bar", {
            "P:1: Error in applying operation '+foo': Unknown command or category name in ACL. \
             P:1: Error in applying operation '-bar': Unknown command or category name in ACL. "
        }),
        ("user a foo bar\nuser a", "P:1: Syntax error. WARNING: Duplicate user 'a' found on line 2. "),
        ("user a (+get", "P:1: Unmatched parenthesis in selector definition."),
    ] {
        directory.file("users.acl", text);
        harness.check("ACL LOAD", &format!("-ERR {}{end}", errors.replace('P', &path)));
        assert_eq!(harness.run("ACL LIST"), before);
    }
    std::fs::remove_file(&path).expect("the file");
    harness.check(
        "ACL LOAD",
        &format!("-ERR Error loading ACLs, opening file '{path}': No such file or directory"),
    );
    drop(directory);
    harness.check(
        "ACL SAVE",
        "-ERR There was an error trying to save the ACLs. Please check the server logs for more information",
    );
}

#[test]
fn users_stand_in_the_configuration() {
    let mut harness =
        Harness::with_options(&["--user", "bob", "on", ">x", "+get", "~a", "--user", "default", "off"]);
    harness.check("PING", "-NOAUTH Authentication required.");
    harness.check("AUTH bob x", "+OK");
    harness.check("GET a", "(nil)");
    let directory = Directory::new("config");
    let no_file = "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via \
                   the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration \
                   file set) in order to store users in the Redis configuration.";
    let path = directory.file("halcyon.conf", "port 1\nuser bob on >x (+get ~a)\nuser eve\n# end\n");
    let mut harness = Harness::with_options(&[&path]);
    harness.check("ACL LOAD", no_file);
    harness.check("ACL SAVE", no_file);
    harness.check("ACL DELUSER eve", ":1");
    harness.check("CONFIG REWRITE", "+OK");
    let bob = format!(
        "user bob on sanitize-payload #{HASH_OF_X} resetchannels -@all (~a resetchannels -@all +get)\n"
    );
    let default = "user default on nopass sanitize-payload ~* &* +@all\n";
    let written = format!("port 1\n{bob}{default}# end\n");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), written);
    let mut harness = Harness::with_options(&[&path]);
    harness.check("ACL LIST", &format!("[{bob}{default}]").replace('\n', " ").replace(" ]", "]"));
    harness.check("CONFIG REWRITE", "+OK");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), written);

    let path = directory.file("plain.conf", "port 1\nrequirepass x");
    let mut harness = Harness::with_options(&[&path]);
    harness.check("AUTH x", "+OK");
    harness.check("CONFIG REWRITE", "+OK");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "port 1\nrequirepass x");
}

#[test]
fn a_configuration_that_is_wrong_is_refused() {
    let directory = Directory::new("wrong");
    let good = directory.file("good.acl", "");
    let bad = directory.file("bad.acl", "user a foo");
    let in_file = format!(
        "Aborting Redis startup because of ACL errors: {bad}:1: Syntax error. WARNING: ACL errors detected, no \
         change to the previously active ACL rules was performed"
    );
    let refused = |options: &[&str]| {
        let options: Vec<Vec<u8>> = options.iter().map(|word| word.as_bytes().to_vec()).collect();
        let config = Arc::new(Config::load(&options).expect("a valid command line").0);
        let clock = Box::new(base::clock::ManualClock::new(0));
        let server = engine::server::Server::new(
            config,
            clock,
            Default::default(),
            Box::new(engine::server::NoHost::default()),
        );
        server.err().unwrap_or_default()
    };
    for (options, expected) in [
        (
            &["--user", "a", "--aclfile", &good][..],
            "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid. \
             This setup is very likely to lead to configuration errors and security holes, please define either an \
             ACL file or declare users directly in your redis.conf, but not both.",
        ),
        (&["--aclfile", &bad], &in_file),
        (&["--user", "a", "foo"], "Error in user declaration 'foo': Syntax error"),
        (&["--user", "a", "(foo"], "Unmatched parenthesis in acl selector starting at '(foo'."),
        (
            &["--user", "a", "--user", "a"],
            "Error in user declaration 'a': Duplicate user found. A user can only be defined once in config files",
        ),
        (
            &["--user", "a", "+foo"],
            "Error loading ACL rule '+foo' for the user named 'a': Unknown command or category name in ACL",
        ),
        (&["--user", "a\tb", "on"], "Spaces not allowed in ACL usernames"),
        (&["--aclfile", &good], ""),
    ] {
        assert_eq!(refused(options), expected, "{options:?}");
    }
}
