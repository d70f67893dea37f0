//! Client-side caching: who is told of which write, and of no other.

use engine::testing::Harness;

/// Connection 1 is tracked so, in RESP3.
fn tracked(options: &str) -> Harness {
    let mut harness = Harness::new();
    harness.on(1).run("HELLO 3");
    harness.on(1).check(&format!("CLIENT TRACKING ON {options}"), "+OK");
    harness
}

fn told(harness: &mut Harness, number: usize, expected: &str) {
    assert_eq!(harness.on(number).received(), expected);
}

#[test]
fn a_key_that_was_read_is_told_once() {
    let mut harness = tracked("");
    harness.on(1).check("MGET a b", "[(nil) (nil)]");
    harness.on(0).check("SET a 1", "+OK");
    harness.on(0).check("SET a 2", "+OK");
    harness.on(0).check("SET c 2", "+OK");
    told(&mut harness, 1, ">[invalidate [a]]");
    harness.on(1).check("GET a", "2");
    harness.on(1).check("SET a 3", "+OK");
    told(&mut harness, 1, ">[invalidate [a]]");
    harness.on(1).check("GET b", "(nil)");
    harness.on(0).check("FLUSHALL", "+OK");
    told(&mut harness, 1, ">[invalidate (nil)]");
    harness.on(1).check("CLIENT TRACKING OFF", "+OK");
    harness.on(1).check("GET b", "(nil)");
    harness.on(0).check("SET b 1", "+OK");
    told(&mut harness, 1, "");
    assert_eq!((harness.server.tracking.keys(), harness.server.tracking.clients()), (0, 0));
}

#[test]
fn reads_inside_a_transaction_count_and_expiry_is_a_write() {
    let mut harness = tracked("");
    harness.on(0).check("SET t x PX 10", "+OK");
    harness.on(1).check("MULTI", "+OK");
    harness.on(1).check("GET t", "+QUEUED");
    harness.on(1).check("EXEC", "[x]");
    harness.advance_ms(20);
    harness.on(0).check("EXISTS t", ":0");
    told(&mut harness, 1, ">[invalidate [t]]");
}

#[test]
fn one_may_opt_in_or_out_and_leave_out_ones_own_writes() {
    let mut harness = tracked("OPTIN NOLOOP");
    harness.on(1).check("GET a", "(nil)");
    harness.on(1).check("CLIENT CACHING YES", "+OK");
    harness.on(1).check("GET b", "(nil)");
    harness.on(1).check("GET c", "(nil)");
    harness.on(0).check("MSET a 1 b 1 c 1", "+OK");
    told(&mut harness, 1, ">[invalidate [b]]");
    harness.on(1).check("CLIENT CACHING YES", "+OK");
    harness.on(1).check("GET b", "1");
    harness.on(1).check("SET b 2", "+OK");
    told(&mut harness, 1, "");
    let mut harness = tracked("OPTOUT");
    harness.on(1).check("CLIENT CACHING NO", "+OK");
    harness.on(1).check("GET a", "(nil)");
    harness.on(1).check("GET b", "(nil)");
    harness.on(0).check("MSET a 1 b 1", "+OK");
    told(&mut harness, 1, ">[invalidate [b]]");
}

#[test]
fn prefixes_are_told_without_a_read_one_message_for_a_transaction() {
    let mut harness = tracked("BCAST PREFIX a PREFIX b");
    harness.on(0).check("SET q 1", "+OK");
    told(&mut harness, 1, "");
    harness.on(0).check("MULTI", "+OK");
    for line in ["SET ab 1", "SET bc 1", "SET ac 1", "SET ab 2", "SET q 2"] {
        harness.on(0).check(line, "+QUEUED");
    }
    harness.on(0).check("EXEC", "[+OK +OK +OK +OK +OK]");
    told(&mut harness, 1, ">[invalidate [ab ac]] >[invalidate [bc]]");
    harness.on(1).check(
        "CLIENT TRACKING ON BCAST PREFIX aa",
        "-ERR Prefix 'aa' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
    );
    harness.on(1).check("CLIENT TRACKINGINFO", "%{flags=~[on bcast] redirect=:0 prefixes=[a b]}");
}

#[test]
fn another_connection_may_be_told() {
    let mut harness = Harness::new();
    harness.on(2).check("SUBSCRIBE __redis__:invalidate", "[subscribe __redis__:invalidate :1]");
    harness.on(1).check("CLIENT TRACKING ON REDIRECT 3", "+OK");
    harness.on(1).check("CLIENT GETREDIR", ":3");
    harness.on(1).check("GET a", "(nil)");
    harness.on(0).check("SET a 1", "+OK");
    told(&mut harness, 2, "[message __redis__:invalidate [a]]");
    told(&mut harness, 1, "");
}

#[test]
fn the_table_is_bounded_and_tells_of_what_made_room() {
    let mut harness = tracked("");
    harness.on(0).check("CONFIG SET tracking-table-max-keys 3", "+OK");
    let keys: Vec<String> = (0..500).map(|n| format!("key:{n}")).collect();
    harness.on(1).run(&format!("MGET {}", keys.join(" ")));
    assert!(harness.server.tracking.keys() <= 64 + 3, "{} keys", harness.server.tracking.keys());
    let told = harness.on(1).received().matches("invalidate").count();
    assert_eq!(told + harness.server.tracking.keys(), 500, "each key is remembered or was told of");
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut harness = Harness::new();
    for (line, expected) in [
        ("CLIENT TRACKING ON REDIRECT 99999", "-ERR The client ID you want redirect to does not exist"),
        ("CLIENT TRACKING ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
        ("CLIENT TRACKING ON OPTIN BCAST", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("CLIENT TRACKING MAYBE", "-ERR syntax error"),
        ("CLIENT TRACKING ON FOO", "-ERR syntax error"),
        (
            "CLIENT CACHING YES",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ),
        ("CLIENT GETREDIR", ":-1"),
        ("CLIENT TRACKINGINFO", "[flags [off] redirect :-1 prefixes []]"),
        ("CLIENT TRACKING ON OPTIN", "+OK"),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        ("CLIENT CACHING FOO", "-ERR syntax error"),
        ("CLIENT CACHING YES", "+OK"),
        ("CLIENT TRACKINGINFO", "[flags [on optin caching-yes] redirect :0 prefixes []]"),
        (
            "CLIENT TRACKING ON OPTOUT",
            "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ),
        (
            "CLIENT TRACKING ON BCAST",
            "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ),
    ] {
        harness.check(line, expected);
    }
}
