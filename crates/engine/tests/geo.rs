//! The geo commands, as clients see them. Every reply here was given by a redis-server 7.0.15 as well.

use engine::testing::Harness;

const ADD: &str = "geoadd Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania";

fn check(script: &[(&str, &str)]) {
    let mut harness = Harness::new();
    script.iter().for_each(|(line, expected)| harness.check(line, expected));
}

#[test]
fn members_have_places() {
    check(&[
        (ADD, ":2"),
        ("zrange Sicily 0 -1 withscores", "[Palermo 3479099956230698 Catania 3479447370796909]"),
        ("geopos Sicily Palermo none", "[[13.36138933897018433 38.11555639549629859] (nil array)]"),
        ("geohash Sicily Palermo Catania none", "[sqc8b49rny0 sqdtr74hyu0 (nil)]"),
        ("geodist Sicily Palermo Catania", "166274.1516"),
        ("geodist Sicily Palermo Catania km", "166.2742"),
        ("geodist Sicily Palermo none", "(nil)"),
        ("geodist Sicily Palermo Catania parsec", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
        ("geoadd Sicily 1 91 a", "-ERR invalid longitude,latitude pair 1.000000,91.000000"),
        ("geoadd Sicily nx xx 1 1 a", "-ERR syntax error"),
        ("geoadd Sicily 1 1", "-ERR wrong number of arguments for 'geoadd' command"),
        ("geoadd Sicily xx ch 1 1 Palermo 1 1 new", ":1"),
        ("geopos missing a", "[(nil array)]"),
    ]);
    let mut harness = Harness::new().resp3();
    harness.check(ADD, ":2");
    harness.check("geopos Sicily Palermo", "[[,13.36138933897018433 ,38.11555639549629859]]");
}

#[test]
fn shapes_are_searched() {
    check(&[
        (ADD, ":2"),
        ("georadius Sicily 15 37 200 km withdist asc", "[[Catania 56.4413] [Palermo 190.4424]]"),
        ("georadius Sicily 15 37 200 km withhash count 1", "[[Catania :3479447370796909]]"),
        ("georadiusbymember Sicily Palermo 1 km", "[Palermo]"),
        ("geosearch Sicily fromlonlat 15 37 bybox 400 400 km desc", "[Palermo Catania]"),
        ("geosearch Sicily fromlonlat 15 37 bybox 1 1 km", "[]"),
        ("geosearch Sicily frommember none byradius 1 km", "-ERR could not decode requested zset member"),
        (
            "geosearch Sicily byradius 1 km asc asc asc",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch",
        ),
        (
            "geosearch Sicily fromlonlat 1 1 byradius 1 km any",
            "-ERR the ANY argument requires COUNT argument",
        ),
        ("geosearchstore d Sicily fromlonlat 15 37 byradius 200 km storedist", ":2"),
        ("zrange d 0 -1 withscores", "[Catania 56.441257870158204 Palermo 190.44242984775784]"),
        ("georadius Sicily 15 37 200 km store d store e", ":2"),
        ("exists d e", ":2"),
        ("georadius Sicily 15 37 1 km store e", ":0"),
        ("exists e", ":0"),
        (
            "georadius Sicily 15 37 200 km store d withdist",
            "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        ("georadius_ro Sicily 15 37 200 km store d", "-ERR syntax error"),
        ("geosearch missing frommember a byradius 1 km", "[]"),
    ]);
}

#[test]
fn many_places_are_searched_on_the_long_lane() {
    let mut harness = Harness::new();
    for row in 0..100 {
        let places: Vec<String> = (0..100)
            .map(|column| format!("{} {} m:{row}:{column}", f64::from(column) / 10.0, f64::from(row) / 10.0))
            .collect();
        harness.check(&format!("geoadd grid {}", places.join(" ")), ":100");
    }
    let all = harness.run("geosearch grid fromlonlat 5 5 byradius 2000 km");
    assert_eq!(all.matches("m:").count(), 10_000);
    harness.check("geosearch grid fromlonlat 5 5 byradius 2000 km asc count 1", "[m:50:50]");
    harness.check("geosearch grid frommember m:0:0 byradius 12 km asc", "[m:0:0 m:0:1 m:1:0]");
    harness.check("geosearchstore d grid fromlonlat 5 5 byradius 2000 km", ":10000");
    harness.check("zcard d", ":10000");
    harness.check(
        "geosearchstore d grid frommember none byradius 2000 km",
        "-ERR could not decode requested zset member",
    );
}
