//! redis-rs doing a day's work against the server at 127.0.0.1:--port. Flushes the database it is given.

mod checks;

use checks::{Checks, text, texts};
use redis::cluster::{ClusterClient, cluster_pipe};
use redis::{Commands, ConnectionLike, RedisResult, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const HOST: &str = "127.0.0.1";
const THREADS: usize = 16;
const WRONG_TYPE: &str = "Operation against a key holding the wrong kind of value";

fn main() {
    let mut checks = Checks::from_arguments();
    let url = format!("redis://{HOST}:{}/", checks.port);
    let client = redis::Client::open(url.as_str()).expect("the URL is well-formed");
    let mut node = match client.get_connection() {
        Ok(node) => node,
        Err(error) => checks.give_up(&error),
    };
    if checks.cluster {
        let cluster = ClusterClient::new(vec![url]).expect("the URL is well-formed");
        let mut all = match cluster.get_connection() {
            Ok(all) => all,
            Err(error) => checks.give_up(&error),
        };
        daily_work(&mut checks, &mut all, &mut node);
        checks.group("pipelines", |c| pipelines(c, &mut node));
        checks.group("cluster_pipelines", |c| {
            let mut pipe = cluster_pipe();
            let mut want = Vec::new();
            for i in 0..500 {
                pipe.set(format!("cp:{i}"), i).ignore().get(format!("cp:{i}"));
                want.push(i);
            }
            c.is("replies of a cluster pipeline of 1,000", pipe.query(&mut all), want);
        });
        checks.group("concurrency", |c| {
            let pool =
                r2d2::Pool::builder().max_size(8).build(cluster.clone()).expect("a pool of cluster clients");
            concurrency(c, || pool.get().expect("a pooled connection"));
        });
        checks.group("topology", |c| topology(c, &mut all, &mut node));
    } else {
        daily_work(&mut checks, &mut client.get_connection().expect("a second connection"), &mut node);
        checks.group("pipelines", |c| pipelines(c, &mut node));
        checks.group("concurrency", |c| {
            let pool = r2d2::Pool::builder().max_size(8).build(client.clone()).expect("a pool of clients");
            concurrency(c, || pool.get().expect("a pooled connection"));
            c.equal("connections of the pool", pool.state().connections, 8);
        });
        checks.group("resp3", |c| resp3(c));
    }
    checks.group("server", |c| server(c, &client, &mut node));
    checks.finish();
}

fn daily_work<C: Commands + ConnectionLike>(checks: &mut Checks, r: &mut C, node: &mut redis::Connection) {
    checks.group("connect", |c| {
        c.is("PING", node.ping(), text("PONG"));
        c.is("ECHO", redis::cmd("ECHO").arg("hällo").query(node), text("hällo"));
        c.is("FLUSHDB", redis::cmd("FLUSHDB").query(node), text("OK"));
        c.is("DBSIZE when empty", redis::cmd("DBSIZE").query(node), 0);
    });
    checks.group("strings", |c| strings(c, r));
    checks.group("keys", |c| keys(c, r, node));
    checks.group("lists", |c| lists(c, r));
    checks.group("hashes", |c| hashes(c, r));
    checks.group("sets", |c| sets(c, r));
    checks.group("sorted_sets", |c| sorted_sets(c, r));
    checks.group("errors", |c| errors(c, r));
}

fn strings<C: Commands>(c: &mut Checks, r: &mut C) {
    c.is("GET of nothing", r.get("s:none"), None::<String>);
    c.is("SET", r.set("s:a", "one"), text("OK"));
    c.is("GET", r.get("s:a"), text("one"));
    c.is("SETNX on a key", r.set_nx("s:a", "two"), false);
    c.is("GETSET", r.getset("s:a", "four"), text("one"));
    c.is("APPEND", r.append("s:a", "+five"), 9);
    c.is("STRLEN", r.strlen("s:a"), 9);
    c.is("GETRANGE", r.getrange("s:a", -4, -1), text("five"));
    c.is("SETRANGE", r.setrange("s:a", 4, "-"), 9);
    c.is("GET after SETRANGE", r.get("s:a"), text("four-five"));
    c.is("MSET", r.mset(&[("{s}1", "v1"), ("{s}2", ""), ("{s}3", "v3")]), text("OK"));
    let want = vec![Some(text("v1")), Some(text("")), None, Some(text("v3"))];
    c.is("MGET", r.mget(&["{s}1", "{s}2", "{s}4", "{s}3"]), want);
    c.is("INCR", r.incr("s:n", 42), 42);
    c.is("DECR", r.decr("s:n", 50), -8);
    c.is("INCRBYFLOAT", r.incr("s:f", 10.5), 10.5);
    c.is("TTL without expiry", r.ttl("s:a"), -1);
    c.is("EXPIRE", r.expire("s:a", 1000), true);
    c.within("TTL", r.ttl("s:a"), 901..=1000);
    c.is("PERSIST", r.persist("s:a"), true);
    c.is("SETEX", r.set_ex("s:ex", "x", 500), text("OK"));
    c.within("PTTL after SETEX", r.pttl("s:ex"), 400_001..=500_000);
    c.is("GETEX PERSIST", r.get_ex("s:ex", redis::Expiry::PERSIST), text("x"));
    c.is("TTL after GETEX PERSIST", r.ttl("s:ex"), -1);
    c.is("EXPIREAT in the past", r.expire_at("s:ex", 1), true);
    c.is("GET after EXPIREAT in the past", r.get("s:ex"), None::<String>);
    c.is("GETDEL", r.get_del("s:a"), text("four-five"));
    let binary: Vec<u8> = (0..=255).chain(*b"\r\n$5\r\n\0").collect();
    c.is("SET binary", r.set(b"s:\x00\xff\r\n", &binary[..]), text("OK"));
    c.is("GET binary", r.get(b"s:\x00\xff\r\n"), binary);
    c.is("SET unicode", r.set("s:ключ", "値 🚀 ñ"), text("OK"));
    c.is("GET unicode", r.get("s:ключ"), text("値 🚀 ñ"));
    let megabyte: Vec<u8> = (0..1 << 20).map(|i: usize| (i * 31 + i / 256) as u8).collect();
    c.is("SET 1 MB", r.set("s:big", &megabyte[..]), text("OK"));
    c.holds("GET 1 MB", r.get::<_, Vec<u8>>("s:big").is_ok_and(|got| got == megabyte));
    c.is("STRLEN 1 MB", r.strlen("s:big"), 1 << 20);
}

fn keys<C: Commands>(c: &mut Checks, r: &mut C, node: &mut redis::Connection) {
    c.is("FLUSHDB", node.flushdb(), text("OK"));
    c.is("MSET for keys", r.mset(&[("{k}a", 1), ("{k}b", 2)]), text("OK"));
    c.is("EXISTS", r.exists(&["{k}a", "{k}b", "{k}a", "{k}c"]), 3);
    c.is("TYPE", r.key_type("{k}a"), text("string"));
    c.is("TYPE of nothing", r.key_type("{k}c"), text("none"));
    c.is("RENAME", r.rename("{k}a", "{k}c"), text("OK"));
    c.is("RENAMENX onto a key", r.rename_nx("{k}c", "{k}b"), false);
    c.fails("RENAME of nothing", r.rename("{k}a", "{k}d"), "ERR", "no such key");
    c.is("DEL", r.del(&["{k}b", "{k}c", "{k}nope"]), 2);
    c.is("UNLINK of nothing", r.unlink("{k}b"), 0);
    for (value, encoding) in [("12345", "int"), ("short", "embstr"), (&"x".repeat(100), "raw")] {
        c.is("SET for OBJECT", r.set("k:enc", value), text("OK"));
        c.is("OBJECT ENCODING", r.object_encoding("k:enc"), text(encoding));
    }
    c.is("FLUSHDB", node.flushdb(), text("OK"));
    let want: BTreeSet<String> = (0..1000).map(|i| format!("scan:{i}")).collect();
    for key in &want {
        c.is("SET to scan", r.set(key, "v"), text("OK"));
    }
    c.is("SADD", r.sadd("other", "x"), 1);
    let found = node.scan_match::<_, String>("scan:*").and_then(|found| found.collect());
    c.is("SCAN finds each key", found, want);
    c.is("KEYS", node.keys("scan:99*").map(|keys: Vec<String>| keys.len()), 11);
    c.is("DBSIZE", redis::cmd("DBSIZE").query(node), 1001);
}

fn lists<C: Commands>(c: &mut Checks, r: &mut C) {
    c.is("RPUSH", r.rpush("{l}a", &["a", "b", "c", "d"]), 4);
    c.is("LPUSH", r.lpush("{l}a", &["y", "z"]), 6);
    c.is("LRANGE", r.lrange("{l}a", 0, -1), texts("z y a b c d"));
    c.is("LLEN", r.llen("{l}a"), 6);
    c.is("LINDEX", r.lindex("{l}a", -2), text("c"));
    c.is("LSET", r.lset("{l}a", 1, "Y"), text("OK"));
    c.is("LINSERT", r.linsert_before("{l}a", "a", "new"), 7);
    c.is("LREM", r.lrem("{l}a", 1, "new"), 1);
    c.is("LPOP", r.lpop("{l}a", None), text("z"));
    c.is("RPOP 2", r.rpop("{l}a", std::num::NonZeroUsize::new(2)), texts("d c"));
    c.is("RPOPLPUSH", r.rpoplpush("{l}a", "{l}b"), text("b"));
    c.is("LMOVE", r.lmove("{l}a", "{l}b", redis::Direction::Left, redis::Direction::Right), text("Y"));
    c.is("LRANGE moved", r.lrange("{l}b", 0, -1), texts("b Y"));
    c.is("LPOP of nothing", r.lpop("l:none", None), None::<String>);
    let values: Vec<usize> = (0..1000).collect();
    c.is("RPUSH 1,000", r.rpush("l:long", &values), 1000);
    c.is("LTRIM", r.ltrim("l:long", 100, -101), text("OK"));
    c.is("LRANGE long", r.lrange("l:long", 0, -1), values[100..900].to_vec());
}

fn hashes<C: Commands>(c: &mut Checks, r: &mut C) {
    c.is("HMSET", r.hset_multiple("h", &[("a", "1"), ("b", "two"), ("c", "")]), text("OK"));
    c.is("HSET again", r.hset("h", "a", "2"), 0);
    c.is("HSETNX", r.hset_nx("h", "a", "9"), false);
    c.is("HGET", r.hget("h", "a"), text("2"));
    let want = [("a", "2"), ("b", "two"), ("c", "")].map(|(field, value)| (text(field), text(value)));
    c.is("HGETALL", r.hgetall("h"), HashMap::from(want));
    c.is("HGETALL of nothing", r.hgetall("h:none"), HashMap::<String, String>::new());
    c.is("HMGET", r.hmget("h", &["c", "x", "b"]), vec![Some(text("")), None, Some(text("two"))]);
    c.is("HINCRBY", r.hincr("h", "a", 40), 42);
    c.is("HINCRBYFLOAT", r.hincr("h", "f", 1.5), 1.5);
    c.is("HLEN", r.hlen("h"), 4);
    c.is("HEXISTS", r.hexists("h", "f"), true);
    c.is("HKEYS", r.hkeys("h"), texts("a b c f").into_iter().collect::<BTreeSet<_>>());
    c.is("HDEL", r.hdel("h", &["a", "f", "nope"]), 2);
    let big: BTreeMap<String, String> =
        (0..1000).map(|i| (format!("field:{i}"), format!("value {i}"))).collect();
    let pairs: Vec<_> = big.iter().collect();
    c.is("HMSET 1,000", r.hset_multiple("h:big", &pairs), text("OK"));
    c.is("HGETALL 1,000", r.hgetall("h:big"), big.clone());
    let found = r.hscan::<_, (String, String)>("h:big").and_then(|found| found.collect());
    c.is("HSCAN", found, big);
}

fn sets<C: Commands + ConnectionLike>(c: &mut Checks, r: &mut C) {
    let set = |members: &str| texts(members).into_iter().collect::<BTreeSet<_>>();
    c.is("SADD", r.sadd("{t}a", &["a", "b", "c", "d", "a"]), 4);
    c.is("SADD again", r.sadd("{t}b", &["c", "d", "e"]), 3);
    c.is("SMEMBERS", r.smembers("{t}a"), set("a b c d"));
    c.is("SCARD", r.scard("{t}a"), 4);
    c.is("SISMEMBER", r.sismember("{t}a", "z"), false);
    c.is("SMISMEMBER", r.smismember("{t}a", &["a", "z"]), vec![true, false]);
    c.is("SINTER", r.sinter(&["{t}a", "{t}b"]), set("c d"));
    c.is("SUNION", r.sunion(&["{t}a", "{t}b"]), set("a b c d e"));
    c.is("SDIFF", r.sdiff(&["{t}a", "{t}b"]), set("a b"));
    c.is("SINTERSTORE", r.sinterstore("{t}i", &["{t}a", "{t}b"]), 2);
    c.is("SUNIONSTORE", r.sunionstore("{t}u", &["{t}a", "{t}b"]), 5);
    c.is("SDIFFSTORE", r.sdiffstore("{t}d", &["{t}a", "{t}b"]), 2);
    c.is("SMOVE", r.smove("{t}a", "{t}b", "a"), true);
    c.is("SREM", r.srem("{t}b", &["a", "zzz"]), 1);
    let mut all: BTreeSet<String> = (0..1000).map(|i| format!("m{i}")).collect();
    c.is("SADD 1,000", r.sadd("t:big", &all), 1000);
    let found = r.sscan::<_, String>("t:big").and_then(|found| found.collect());
    c.is("SSCAN", found, all.clone());
    let some: RedisResult<BTreeSet<String>> = r.srandmember_multiple("t:big", 20);
    c.is("SRANDMEMBER 20", some.map(|some| some.len() == 20 && some.is_subset(&all)), true);
    let taken: BTreeSet<String> = redis::cmd("SPOP").arg("t:big").arg(300).query(r).unwrap_or_default();
    c.holds("SPOP 300", taken.len() == 300 && taken.is_subset(&all));
    all.retain(|member| !taken.contains(member));
    c.is("SPOP leaves the rest", r.smembers("t:big"), all.clone());
    c.is("SPOP", r.spop("t:big").map(|one: String| all.contains(&one)), true);
}

fn sorted_sets<C: Commands>(c: &mut Checks, r: &mut C) {
    let scored = |members: &[(&str, f64)]| members.iter().map(|(m, s)| (text(m), *s)).collect::<Vec<_>>();
    c.is("ZADD", r.zadd_multiple("{z}a", &[(1.0, "a"), (2.5, "b"), (3.0, "c"), (f64::INFINITY, "d")]), 4);
    let only_new = redis::SortedSetAddOptions::add_only();
    c.is("ZADD NX on a member", r.zadd_options("{z}a", "a", 9, &only_new), 0);
    c.is("ZADD NX", r.zadd_options("{z}a", "e", -1, &only_new), 1);
    c.is("ZSCORE", r.zscore("{z}a", "b"), Some(2.5));
    c.is("ZSCORE of inf", r.zscore("{z}a", "d"), f64::INFINITY);
    c.is("ZSCORE of nothing", r.zscore("{z}a", "nope"), None::<f64>);
    c.is("ZINCRBY", r.zincr("{z}a", "c", 1.25), 4.25);
    c.is("ZRANGE", r.zrange("{z}a", 0, -1), texts("e a b c d"));
    let want = scored(&[("e", -1.0), ("a", 1.0), ("b", 2.5)]);
    c.is("ZRANGE WITHSCORES", r.zrange_withscores("{z}a", 0, 2), want);
    c.is("ZREVRANGE", r.zrevrange("{z}a", 0, 1), texts("d c"));
    c.is("ZRANGEBYSCORE", r.zrangebyscore("{z}a", "(1", "+inf"), texts("b c d"));
    c.is("ZRANGEBYSCORE LIMIT", r.zrangebyscore_limit("{z}a", "-inf", 5, 1, 2), texts("a b"));
    c.is("ZCOUNT", r.zcount("{z}a", 1, "(4.25"), 2);
    c.is("ZRANK", r.zrank("{z}a", "a"), 1);
    c.is("ZREVRANK", r.zrevrank("{z}a", "a"), 3);
    c.is("ZRANK of nothing", r.zrank("{z}a", "nope"), None::<usize>);
    let same: Vec<(u8, String)> = texts("a b c d e f").into_iter().map(|member| (0, member)).collect();
    c.is("ZADD with one score", r.zadd_multiple("z:lex", &same), 6);
    c.is("ZRANGEBYLEX", r.zrangebylex("z:lex", "(b", "[e"), texts("c d e"));
    c.is("ZLEXCOUNT", r.zlexcount("z:lex", "-", "(c"), 2);
    c.is("ZREMRANGEBYLEX", r.zrembylex("z:lex", "[a", "[b"), 2);
    c.is("ZADD b", r.zadd_multiple("{z}b", &[(10, "b"), (20, "q")]), 2);
    c.is("ZUNIONSTORE", r.zunionstore_max_weights("{z}u", &[("{z}b", 2), ("{z}a", 1)]), 6);
    c.is(
        "ZUNIONSTORE scores",
        r.zscore_multiple("{z}u", &["b", "q", "x"]),
        vec![Some(20.0), Some(40.0), None],
    );
    c.is("ZINTERSTORE", r.zinterstore("{z}i", &["{z}a", "{z}b"]), 1);
    c.is("ZPOPMIN", r.zpopmin("{z}a", 1), scored(&[("e", -1.0)]));
    c.is("ZREM", r.zrem("{z}a", &["a", "nope"]), 1);
    c.is("ZREMRANGEBYSCORE", r.zrembyscore("{z}a", "-inf", "+inf"), 3);
    c.is("EXISTS once empty", r.exists("{z}a"), false);
    let big: Vec<(f64, String)> = (0..1000).map(|i| (f64::from(i) / 4.0, format!("m{i}"))).collect();
    c.is("ZADD 1,000", r.zadd_multiple("z:big", &big), 1000);
    let mut want: Vec<(String, f64)> = big.into_iter().map(|(score, member)| (member, score)).collect();
    c.is("ZRANGE 1,000", r.zrange_withscores("z:big", 0, -1), want.clone());
    let found: RedisResult<Vec<(String, f64)>> = r.zscan("z:big").and_then(|found| found.collect());
    want.sort_by(|a, b| a.0.cmp(&b.0));
    let in_order = found.map(|mut found| {
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    });
    c.is("ZSCAN", in_order, want);
    c.is("ZREMRANGEBYRANK", r.zremrangebyrank("z:big", 10, -1), 990);
}

fn errors<C: Commands>(c: &mut Checks, r: &mut C) {
    c.is("SET", r.set("e", "text"), text("OK"));
    c.fails("LPUSH on a string", r.lpush("e", "x"), "WRONGTYPE", WRONG_TYPE);
    c.fails("HGET on a string", r.hget("e", "f"), "WRONGTYPE", WRONG_TYPE);
    c.fails("INCR of text", r.incr("e", 1), "ERR", "value is not an integer or out of range");
    c.fails("SETEX 0", r.set_ex("e", "x", 0), "ERR", "invalid expire time in 'setex' command");
    c.fails("LSET of nothing", r.lset("e:none", 1, "x"), "ERR", "no such key");
    c.is("GET after the errors", r.get("e"), text("text"));
}

fn pipelines(c: &mut Checks, node: &mut redis::Connection) {
    let mut pipe = redis::pipe();
    let (mut sums, mut want) = ([0; 10], Vec::new());
    for i in 0..250 {
        pipe.set(format!("p:{i}"), format!("value {i}")).incr(format!("p:n:{}", i % 10), i);
        sums[i % 10] += i as i64;
        want.extend([Value::Okay, Value::Int(sums[i % 10])]);
    }
    c.is("replies of a pipeline of 500", pipe.query(node), want);
    let mut pipe = redis::pipe();
    for i in 0..500 {
        pipe.get(format!("p:{i}"));
    }
    let want: Vec<_> = (0..500).map(|i| (i < 250).then(|| format!("value {i}"))).collect();
    c.is("GET of a pipeline of 500", pipe.query(node), want);
    let mut pipe = redis::pipe();
    let failed = pipe.set("p:e", "x").lpush("p:e", "y").get("p:e").query::<Value>(node);
    c.is(
        "error in a pipeline",
        Ok(failed.map_err(|error| error.to_string().contains("WRONGTYPE"))),
        Err(true),
    );
    c.is("GET after the error", node.get("p:e"), text("x"));
}

fn concurrency<C: Commands>(c: &mut Checks, connection: impl Fn() -> C + Sync) {
    let good: Vec<usize> = std::thread::scope(|scope| {
        let work = |thread: usize, connection: &dyn Fn() -> C| {
            let mut good = 0;
            for i in 0..100 {
                let mut r = connection();
                let (key, value) = (format!("c:{thread}:{i}"), format!("{thread}/{i}"));
                let set = r.set::<_, _, ()>(&key, &value).is_ok();
                let counted = r.incr::<_, _, i64>("c:total", 1).is_ok();
                good += usize::from(set && counted && r.get::<_, String>(&key).is_ok_and(|got| got == value));
            }
            good
        };
        let connection = &connection;
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t, connection))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    });
    c.equal("replies seen by each thread", good, vec![100; THREADS]);
    c.is("INCR from all threads", connection().get("c:total"), THREADS * 100);
}

/// The same library with HELLO 3.
fn resp3(c: &mut Checks) {
    let client = redis::Client::open(format!("redis://{HOST}:{}/?protocol=resp3", c.port)).expect("a URL");
    let mut r = match client.get_connection() {
        Ok(r) => r,
        Err(error) => return c.holds(&format!("HELLO 3: {error}"), false),
    };
    c.is("HSET", r.hset("r3:h", "a", 1), 1);
    let map = Value::Map(vec![(Value::BulkString(b"a".into()), Value::BulkString(b"1".into()))]);
    c.is("HGETALL is a map", r.hgetall("r3:h"), map);
    c.is("ZADD", r.zadd("r3:z", "a", 1.5), 1);
    c.is("ZSCORE is a double", r.zscore("r3:z", "a"), Value::Double(1.5));
    c.is("SADD", r.sadd("r3:s", "a"), 1);
    c.is("SMEMBERS is a set", r.smembers("r3:s"), Value::Set(vec![Value::BulkString(b"a".into())]));
    c.is("GET of nothing is a null", r.get("r3:none"), Value::Nil);
}

fn topology<C: Commands + ConnectionLike>(c: &mut Checks, all: &mut C, node: &mut redis::Connection) {
    let slots: RedisResult<Vec<(u16, u16, Value)>> = redis::cmd("CLUSTER").arg("SLOTS").query(node);
    let ranges =
        slots.map(|slots| slots.into_iter().map(|(first, last, _)| (first, last)).collect::<Vec<_>>());
    c.is("CLUSTER SLOTS", ranges, vec![(0, 16383)]);
    c.is(
        "CLUSTER KEYSLOT",
        redis::cmd("CLUSTER").arg("KEYSLOT").arg("{user1000}.following").query(node),
        3443,
    );
    let info: RedisResult<String> = redis::cmd("CLUSTER").arg("INFO").query(node);
    c.is("CLUSTER INFO", info.map(|info| info.contains("cluster_state:ok\r\n")), true);
    let pairs: Vec<_> = (0..50).map(|i| (format!("x{i}"), i)).collect();
    let keys: Vec<_> = pairs.iter().map(|(key, _)| key.as_str()).collect();
    c.is("MSET over slots", all.mset(&pairs), Value::Okay);
    c.is("MGET over slots", all.mget(&keys), (0..50).collect::<Vec<i32>>());
    c.is("DEL over slots", all.del(&keys), 50);
    let crossing: RedisResult<Value> = node.mget(&["a", "b"]);
    c.fails(
        "MGET over slots on one node",
        crossing,
        "CROSSSLOT",
        "Keys in request don't hash to the same slot",
    );
    c.holds("connection is usable", all.check_connection());
}

fn server(c: &mut Checks, client: &redis::Client, node: &mut redis::Connection) {
    let info: RedisResult<redis::InfoDict> = redis::cmd("INFO").query(node);
    let mode = if c.cluster { "cluster" } else { "standalone" };
    c.is("INFO tcp_port", info.clone().map(|info| info.get("tcp_port")), Some(c.port));
    c.is("INFO redis_mode", info.map(|info| info.get("redis_mode")), Some(text(mode)));
    let received = |node: &mut redis::Connection| {
        let stats: RedisResult<redis::InfoDict> = redis::cmd("INFO").arg("stats").query(node);
        stats.ok().and_then(|stats| stats.get::<u64>("total_connections_received"))
    };
    let before = received(node);
    for i in 0..200 {
        c.is("SET on one connection", node.set("server", i), text("OK"));
    }
    c.holds("INFO total_connections_received", before.is_some() && received(node) == before);
    c.is("CLIENT SETNAME", node.client_setname("halcyon-test"), text("OK"));
    c.is("CLIENT GETNAME", node.client_getname(), text("halcyon-test"));
    let mut other = match client.get_connection() {
        Ok(other) => other,
        Err(error) => return c.holds(&format!("another connection: {error}"), false),
    };
    let ids: (RedisResult<i64>, RedisResult<i64>) = (node.client_id(), other.client_id());
    c.holds("CLIENT ID of two connections", ids.0.is_ok() && ids.1.is_ok() && ids.0 != ids.1);
    let port = HashMap::from([(text("port"), c.port.to_string())]);
    c.is("CONFIG GET", redis::cmd("CONFIG").arg("GET").arg("port").query(node), port);
    let commands: RedisResult<Vec<Value>> = redis::cmd("COMMAND").query(node);
    c.is(
        "COMMAND COUNT",
        redis::cmd("COMMAND").arg("COUNT").query(node),
        commands.map_or(0, |rows| rows.len()),
    );
    c.is("DBSIZE with data", redis::cmd("DBSIZE").query(node).map(|size: u64| size > 0), true);
    c.is("FLUSHDB", node.flushdb(), text("OK"));
    c.is("DBSIZE after FLUSHDB", redis::cmd("DBSIZE").query(node), 0);
}
