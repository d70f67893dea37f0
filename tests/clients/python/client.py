"""redis-py doing a day's work against the server at 127.0.0.1:--port, over TLS if CLIENT_TLS_CA names its authority.

Runs unchanged on redis-py 4.6 (RESP2) and 8.1 (RESP3, HELLO at connect). Flushes the database it is given.
"""

import argparse
import os
import socket
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.cluster import RedisCluster
from redis.sentinel import MasterNotFoundError, Sentinel

HOST = "127.0.0.1"
AUTHORITY = os.environ.get("CLIENT_TLS_CA")
SECURITY = {"ssl": True, "ssl_ca_certs": AUTHORITY} if AUTHORITY else {}
THREADS = 16


class Checks:
    """Counts checks and keeps what failed; a group that raises is a failure too."""

    def __init__(self):
        self.passed = 0
        self.failures = []

    def equal(self, what, got, want):
        """Holds when `got` has the type and value of `want`."""
        self.true(f"{what}: got {got!r:.300}, want {want!r:.300}", type(got) is type(want) and got == want)

    def true(self, what, holds):
        if holds:
            self.passed += 1
        else:
            self.failures.append(what)

    def raises(self, what, kind, text, call):
        """Holds when `call` raises `kind` and its message contains `text`."""
        try:
            got = call()
        except redis.RedisError as error:
            self.true(f"{what}: got {type(error).__name__}: {error}", isinstance(error, kind) and text in str(error))
        else:
            self.failures.append(f"{what}: no error but {got!r}")


def pairs(scored):
    """Scored members as tuples: RESP3 hands out lists."""
    return [(member, score) for member, score in scored]


def to_a_node(r, cluster):
    """Arguments that a cluster client needs for a command without a key."""
    return {"target_nodes": r.get_primaries()[0]} if cluster else {}


def connect(check, r, port, cluster):
    check.equal("PING", r.ping(), True)
    check.equal("ECHO", r.execute_command("ECHO", "hällo", **to_a_node(r, cluster)), "hällo".encode())
    check.equal("FLUSHDB", r.flushdb(), True)
    check.equal("DBSIZE when empty", r.dbsize(), 0)


def strings(check, r, port, cluster):
    check.equal("GET of nothing", r.get("s:none"), None)
    check.equal("SET", r.set("s:a", "one"), True)
    check.equal("GET", r.get("s:a"), b"one")
    check.equal("SET NX on a key", r.set("s:a", "two", nx=True), None)
    check.equal("SET XX GET", r.set("s:a", "three", xx=True, get=True), b"one")
    check.equal("SETNX", r.setnx("s:nx", "1"), True)
    check.equal("GETSET", r.getset("s:a", "four"), b"three")
    check.equal("APPEND", r.append("s:a", "+five"), 9)
    check.equal("STRLEN", r.strlen("s:a"), 9)
    check.equal("GETRANGE", r.getrange("s:a", -4, -1), b"five")
    check.equal("SETRANGE", r.setrange("s:a", 4, "-"), 9)
    check.equal("GET after SETRANGE", r.get("s:a"), b"four-five")
    check.equal("GETDEL", r.getdel("s:nx"), b"1")
    check.equal("MSET", r.mset({"{s}1": "v1", "{s}2": "", "{s}3": "v3"}), True)
    check.equal("MGET", r.mget("{s}1", "{s}2", "{s}nope", "{s}3"), [b"v1", b"", None, b"v3"])
    check.equal("INCR", r.incr("s:n"), 1)
    check.equal("INCRBY", r.incrby("s:n", 41), 42)
    check.equal("DECRBY", r.decrby("s:n", 50), -8)
    check.equal("INCRBYFLOAT", r.incrbyfloat("s:f", 10.5), 10.5)
    check.equal("INCRBYFLOAT down", r.incrbyfloat("s:f", -0.25), 10.25)
    check.equal("TTL without expiry", r.ttl("s:a"), -1)
    check.equal("TTL of nothing", r.ttl("s:none"), -2)
    check.equal("EXPIRE", r.expire("s:a", 1000), True)
    check.true("TTL", 900 < r.ttl("s:a") <= 1000)
    check.true("PTTL", 900_000 < r.pttl("s:a") <= 1_000_000)
    check.equal("PERSIST", r.persist("s:a"), True)
    check.equal("TTL after PERSIST", r.ttl("s:a"), -1)
    check.equal("SETEX", r.setex("s:ex", 500, "x"), True)
    check.true("TTL after SETEX", 400 < r.ttl("s:ex") <= 500)
    check.equal("GETEX PERSIST", r.getex("s:ex", persist=True), b"x")
    check.equal("TTL after GETEX PERSIST", r.ttl("s:ex"), -1)
    check.equal("EXPIREAT in the past", r.expireat("s:ex", 1), True)
    check.equal("GET after EXPIREAT in the past", r.get("s:ex"), None)
    binary = bytes(range(256)) + b"\r\n$5\r\n\x00"
    check.equal("SET binary", r.set(b"s:\x00\xff\r\n", binary), True)
    check.equal("GET binary", r.get(b"s:\x00\xff\r\n"), binary)
    check.equal("SET unicode", r.set("s:ключ", "値 🚀 ñ"), True)
    check.equal("GET unicode", r.get("s:ключ").decode(), "値 🚀 ñ")
    megabyte = bytes((i * 31 + i // 256) % 256 for i in range(1 << 20))
    check.equal("SET 1 MB", r.set("s:big", megabyte), True)
    check.true("GET 1 MB", r.get("s:big") == megabyte)
    check.equal("STRLEN 1 MB", r.strlen("s:big"), 1 << 20)


def keys(check, r, port, cluster):
    r.flushdb()
    check.equal("MSET for keys", r.mset({"{k}a": "1", "{k}b": "2"}), True)
    check.equal("EXISTS", r.exists("{k}a", "{k}b", "{k}a", "{k}c"), 3)
    check.equal("TYPE string", r.type("{k}a"), b"string")
    check.equal("TYPE of nothing", r.type("{k}c"), b"none")
    check.equal("RENAME", r.rename("{k}a", "{k}c"), True)
    check.equal("GET renamed", r.get("{k}c"), b"1")
    check.raises("RENAME of nothing", redis.ResponseError, "no such key", lambda: r.rename("{k}a", "{k}d"))
    check.equal("DEL", r.delete("{k}b", "{k}c", "{k}nope"), 2)
    check.equal("UNLINK of nothing", r.unlink("{k}b"), 0)
    check.equal("TOUCH", r.touch("{k}a"), 0)
    for value, encoding in (("12345", b"int"), ("short", b"embstr"), ("x" * 100, b"raw")):
        r.set("k:enc", value)
        check.equal(f"OBJECT ENCODING {encoding}", r.object("encoding", "k:enc"), encoding)
    r.flushdb()
    want = {f"scan:{i}".encode() for i in range(1000)}
    for key in want:
        r.set(key, "v")
    r.sadd("other", "x")
    found = list(r.scan_iter(match="scan:*", count=100))
    check.true("SCAN finds each key", set(found) == want)
    check.equal("SCAN TYPE", [k for k in r.scan_iter(_type="set")], [b"other"])
    check.equal("KEYS", sorted(r.keys("scan:99*")), sorted(k for k in want if k.startswith(b"scan:99")))
    check.equal("DBSIZE", r.dbsize(), 1001)


def lists(check, r, port, cluster):
    check.equal("RPUSH", r.rpush("{l}a", "a", "b", "c", "d"), 4)
    check.equal("LPUSH", r.lpush("{l}a", "y", "z"), 6)
    check.equal("LRANGE", r.lrange("{l}a", 0, -1), [b"z", b"y", b"a", b"b", b"c", b"d"])
    check.equal("LLEN", r.llen("{l}a"), 6)
    check.equal("LINDEX", r.lindex("{l}a", -2), b"c")
    check.equal("LSET", r.lset("{l}a", 1, "Y"), True)
    check.equal("LINSERT", r.linsert("{l}a", "BEFORE", "a", "new"), 7)
    check.equal("LREM", r.lrem("{l}a", 1, "new"), 1)
    check.equal("LPOS", r.lpos("{l}a", "c"), 4)
    check.equal("LPOP", r.lpop("{l}a"), b"z")
    check.equal("RPOP 2", r.rpop("{l}a", 2), [b"d", b"c"])
    check.equal("RPOPLPUSH", r.rpoplpush("{l}a", "{l}b"), b"b")
    check.equal("LMOVE", r.lmove("{l}a", "{l}b", "LEFT", "RIGHT"), b"Y")
    check.equal("LRANGE moved", r.lrange("{l}b", 0, -1), [b"b", b"Y"])
    check.equal("LMPOP", r.execute_command("LMPOP", 2, "{l}a", "{l}b", "LEFT"), [b"{l}a", [b"a"]])
    check.equal("LPOP of nothing", r.lpop("{l}a"), None)
    check.equal("RPUSH 1,000", r.rpush("l:long", *range(1000)), 1000)
    check.equal("LTRIM", r.ltrim("l:long", 100, -101), True)
    check.equal("LRANGE long", r.lrange("l:long", 0, -1), [str(i).encode() for i in range(100, 900)])


def hashes(check, r, port, cluster):
    check.equal("HSET many", r.hset("h", mapping={"a": "1", "b": "two", "c": ""}), 3)
    check.equal("HSET again", r.hset("h", "a", "2"), 0)
    check.equal("HSETNX", int(r.hsetnx("h", "a", "9")), 0)
    check.equal("HGET", r.hget("h", "a"), b"2")
    check.equal("HGETALL", r.hgetall("h"), {b"a": b"2", b"b": b"two", b"c": b""})
    check.equal("HGETALL of nothing", r.hgetall("h:none"), {})
    check.equal("HMGET", r.hmget("h", "c", "x", "b"), [b"", None, b"two"])
    check.equal("HINCRBY", r.hincrby("h", "a", 40), 42)
    check.equal("HINCRBYFLOAT", r.hincrbyfloat("h", "f", 1.5), 1.5)
    check.equal("HLEN", r.hlen("h"), 4)
    check.equal("HEXISTS", (r.hexists("h", "f"), r.hexists("h", "g")), (True, False))
    check.equal("HSTRLEN", r.hstrlen("h", "b"), 3)
    check.equal("HKEYS", sorted(r.hkeys("h")), [b"a", b"b", b"c", b"f"])
    check.equal("HVALS", sorted(r.hvals("h")), [b"", b"1.5", b"42", b"two"])
    check.equal("HRANDFIELD", sorted(r.hrandfield("h", 10)), [b"a", b"b", b"c", b"f"])
    check.equal("HDEL", r.hdel("h", "a", "f", "nope"), 2)
    big = {f"field:{i}".encode(): f"value {i}".encode() for i in range(1000)}
    check.equal("HSET 1,000", r.hset("h:big", mapping=big), 1000)
    check.true("HGETALL 1,000", r.hgetall("h:big") == big)
    check.true("HSCAN", dict(r.hscan_iter("h:big", count=50)) == big)
    check.equal("HSCAN MATCH", dict(r.hscan_iter("h:big", match="field:999")), {b"field:999": b"value 999"})
    check.equal("OBJECT ENCODING hash", r.object("encoding", "h"), b"listpack")
    check.equal("OBJECT ENCODING big hash", r.object("encoding", "h:big"), b"hashtable")


def sets(check, r, port, cluster):
    check.equal("SADD", r.sadd("{t}a", "a", "b", "c", "d", "a"), 4)
    check.equal("SADD again", r.sadd("{t}b", "c", "d", "e"), 3)
    check.equal("SMEMBERS", set(r.smembers("{t}a")), {b"a", b"b", b"c", b"d"})
    check.equal("SCARD", r.scard("{t}a"), 4)
    check.equal("SISMEMBER", [bool(r.sismember("{t}a", m)) for m in "az"], [True, False])
    check.equal("SMISMEMBER", r.smismember("{t}a", ["a", "z"]), [1, 0])
    check.equal("SINTER", set(r.sinter("{t}a", "{t}b")), {b"c", b"d"})
    check.equal("SUNION", set(r.sunion("{t}a", "{t}b")), {b"a", b"b", b"c", b"d", b"e"})
    check.equal("SDIFF", set(r.sdiff("{t}a", "{t}b")), {b"a", b"b"})
    check.equal("SINTERSTORE", r.sinterstore("{t}i", "{t}a", "{t}b"), 2)
    check.equal("SUNIONSTORE", r.sunionstore("{t}u", "{t}a", "{t}b"), 5)
    check.equal("SDIFFSTORE", r.sdiffstore("{t}d", "{t}a", "{t}b"), 2)
    check.equal("SMEMBERS stored", set(r.smembers("{t}d")), {b"a", b"b"})
    check.equal("SINTERCARD", r.sintercard(2, ["{t}a", "{t}b"], limit=1), 1)
    check.equal("SMOVE", bool(r.smove("{t}a", "{t}b", "a")), True)
    check.equal("SREM", r.srem("{t}b", "a", "zzz"), 1)
    members = {f"m{i}".encode() for i in range(1000)}
    check.equal("SADD 1,000", r.sadd("t:big", *members), 1000)
    check.true("SSCAN", set(r.sscan_iter("t:big", count=50)) == members)
    some = r.srandmember("t:big", 20)
    check.true("SRANDMEMBER 20", len(some) == len(set(some)) == 20 and set(some) <= members)
    check.equal("SRANDMEMBER -20", len(r.srandmember("t:big", -20)), 20)
    taken = r.spop("t:big", 300)
    check.true("SPOP 300", len(set(taken)) == 300 and set(taken) <= members)
    check.true("SPOP leaves the rest", set(r.smembers("t:big")) == members - set(taken))
    check.true("SPOP", r.spop("t:big") in members - set(taken))
    check.equal("SADD integers", r.sadd("t:int", *range(10)), 10)
    check.equal("OBJECT ENCODING intset", r.object("encoding", "t:int"), b"intset")


def sorted_sets(check, r, port, cluster):
    check.equal("ZADD", r.zadd("{z}a", {"a": 1, "b": 2.5, "c": 3, "d": float("inf")}), 4)
    check.equal("ZADD NX", r.zadd("{z}a", {"a": 9, "e": -1}, nx=True), 1)
    check.equal("ZADD XX CH", r.zadd("{z}a", {"a": 1.5, "x": 1}, xx=True, ch=True), 1)
    check.equal("ZADD GT", r.zadd("{z}a", {"a": 1}, gt=True, ch=True), 0)
    check.equal("ZADD INCR", r.zadd("{z}a", {"a": 0.5}, incr=True), 2.0)
    check.equal("ZSCORE", r.zscore("{z}a", "b"), 2.5)
    check.equal("ZSCORE of inf", r.zscore("{z}a", "d"), float("inf"))
    check.equal("ZSCORE of nothing", r.zscore("{z}a", "nope"), None)
    check.equal("ZMSCORE", r.zmscore("{z}a", ["a", "nope"]), [2.0, None])
    check.equal("ZINCRBY", r.zincrby("{z}a", 1.25, "c"), 4.25)
    check.equal("ZRANGE", r.zrange("{z}a", 0, -1), [b"e", b"a", b"b", b"c", b"d"])
    check.equal("ZRANGE WITHSCORES", pairs(r.zrange("{z}a", 0, 2, withscores=True)), [(b"e", -1.0), (b"a", 2.0), (b"b", 2.5)])
    check.equal("ZREVRANGE", r.zrevrange("{z}a", 0, 1), [b"d", b"c"])
    check.equal("ZRANGEBYSCORE", r.zrangebyscore("{z}a", "(2", "+inf"), [b"b", b"c", b"d"])
    check.equal(
        "ZRANGEBYSCORE LIMIT WITHSCORES",
        pairs(r.zrangebyscore("{z}a", "-inf", 5, start=1, num=2, withscores=True)),
        [(b"a", 2.0), (b"b", 2.5)],
    )
    check.equal("ZRANGE BYSCORE REV", r.zrange("{z}a", 5, 2, byscore=True, desc=True), [b"c", b"b", b"a"])
    check.equal("ZCOUNT", r.zcount("{z}a", 2, "(4.25"), 2)
    check.equal("ZRANK", (r.zrank("{z}a", "a"), r.zrevrank("{z}a", "a"), r.zrank("{z}a", "nope")), (1, 3, None))
    check.equal("ZCARD", r.zcard("{z}a"), 5)
    r.zadd("z:lex", dict.fromkeys("abcdef", 0))
    check.equal("ZRANGEBYLEX", r.zrangebylex("z:lex", "(b", "[e"), [b"c", b"d", b"e"])
    check.equal("ZREVRANGEBYLEX", r.zrevrangebylex("z:lex", "+", "[e"), [b"f", b"e"])
    check.equal("ZLEXCOUNT", r.zlexcount("z:lex", "-", "(c"), 2)
    check.equal("ZREMRANGEBYLEX", r.zremrangebylex("z:lex", "[a", "[b"), 2)
    r.zadd("{z}b", {"b": 10, "q": 20})
    check.equal("ZUNIONSTORE", r.zunionstore("{z}u", {"{z}b": 2, "{z}a": 1}, aggregate="MAX"), 6)
    check.equal("ZUNIONSTORE scores", (r.zscore("{z}u", "b"), r.zscore("{z}u", "q")), (20.0, 40.0))
    check.equal("ZINTERSTORE", r.zinterstore("{z}i", ["{z}a", "{z}b"]), 1)
    check.equal("ZINTERSTORE scores", pairs(r.zrange("{z}i", 0, -1, withscores=True)), [(b"b", 12.5)])
    check.equal("ZDIFF", r.zdiff(["{z}b", "{z}a"]), [b"q"])
    check.equal("ZPOPMIN", pairs(r.zpopmin("{z}a")), [(b"e", -1.0)])
    check.equal("ZPOPMAX 2", pairs(r.zpopmax("{z}a", 2)), [(b"d", float("inf")), (b"c", 4.25)])
    check.equal("ZREM", r.zrem("{z}a", "a", "nope"), 1)
    check.equal("ZREMRANGEBYSCORE", r.zremrangebyscore("{z}a", "-inf", "+inf"), 1)
    check.equal("EXISTS once empty", r.exists("{z}a"), 0)
    big = {f"m{i}".encode(): i / 4 for i in range(1000)}
    check.equal("ZADD 1,000", r.zadd("z:big", big), 1000)
    check.true("ZSCAN", dict(pairs(r.zscan_iter("z:big", count=50))) == big)
    check.true("ZRANGE 1,000", dict(pairs(r.zrange("z:big", 0, -1, withscores=True))) == big)
    check.equal("ZREMRANGEBYRANK", r.zremrangebyrank("z:big", 10, -1), 990)
    check.equal("OBJECT ENCODING zset", r.object("encoding", "z:lex"), b"listpack")


def pipelines(check, r, port, cluster):
    pipe = r.pipeline() if cluster else r.pipeline(transaction=False)
    for i in range(250):
        pipe.set(f"p:{i}", f"value {i}")
        pipe.incrby(f"p:n:{i % 10}", i)
    replies = pipe.execute()
    check.equal("SET of a pipeline of 500", replies[0::2], [True] * 250)
    sums, want = [0] * 10, []
    for i in range(250):
        sums[i % 10] += i
        want.append(sums[i % 10])
    check.equal("INCRBY of a pipeline of 500", replies[1::2], want)
    pipe = r.pipeline() if cluster else r.pipeline(transaction=False)
    for i in range(500):
        pipe.get(f"p:{i}")
    check.equal("GET of a pipeline of 500", pipe.execute(), [f"value {i}".encode() for i in range(250)] + [None] * 250)
    pipe = r.pipeline() if cluster else r.pipeline(transaction=False)
    pipe.set("p:e", "x").lpush("p:e", "y").get("p:e")
    replies = pipe.execute(raise_on_error=False)
    check.equal("pipeline around an error", (replies[0], replies[2]), (True, b"x"))
    check.true("error in a pipeline", isinstance(replies[1], redis.ResponseError) and "WRONGTYPE" in str(replies[1]))


def errors(check, r, port, cluster):
    wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value"
    r.set("e", "text")
    check.raises("LPUSH on a string", redis.ResponseError, wrong_type, lambda: r.lpush("e", "x"))
    check.raises("HGET on a string", redis.ResponseError, wrong_type, lambda: r.hget("e", "f"))
    check.raises("INCR of text", redis.ResponseError, "value is not an integer or out of range", lambda: r.incr("e"))
    check.raises("SET EX 0", redis.ResponseError, "invalid expire time in 'set' command", lambda: r.set("e", "x", ex=0))
    check.raises("LSET out of range", redis.ResponseError, "no such key", lambda: r.lset("e:none", 1, "x"))
    check.raises("ZADD of text", redis.ResponseError, "value is not a valid float", lambda: r.zadd("e:z", {"a": "abc"}))
    where = to_a_node(r, cluster)
    check.raises("unknown command", redis.ResponseError, "unknown command", lambda: r.execute_command("NOSUCH", **where))
    check.raises("wrong arity", redis.ResponseError, "wrong number of arguments for 'get' command", lambda: r.execute_command("GET", **where))
    check.equal("GET after the errors", r.get("e"), b"text")


def pool(check, r, port, cluster):
    def connections():
        return r.info("stats", **to_a_node(r, cluster))["total_connections_received"]

    before = connections()
    for i in range(200):
        r.set("pool", i)
    check.equal("connections opened by 200 commands in a row", connections() - before, 0)
    check.equal("GET after 200 commands", r.get("pool"), b"199")
    if not cluster:
        first = redis.Redis(connection_pool=r.connection_pool)
        second = redis.Redis(connection_pool=r.connection_pool)
        check.equal("CLIENT ID of one pooled connection", first.client_id(), second.client_id())
        other = redis.Redis(host=HOST, port=port, decode_responses=True, db=3, **SECURITY)
        check.equal("database by option", (other.set("d", "é"), other.get("d"), r.get("d")), (True, "é", None))
        check.equal("DEL in database 3", other.delete("d"), 1)
        other.close()


def concurrency(check, r, port, cluster):
    def work(thread):
        good = 0
        for i in range(100):
            r.set(f"c:{thread}:{i}", f"{thread}/{i}")
            good += r.get(f"c:{thread}:{i}") == f"{thread}/{i}".encode()
            r.incr("c:total")
            good += r.hset(f"c:h:{thread}", f"f{i}", i) == 1
        return good

    with ThreadPoolExecutor(THREADS) as threads:
        check.equal("replies seen by each thread", list(threads.map(work, range(THREADS))), [200] * THREADS)
    check.equal("INCR from all threads", r.get("c:total"), str(THREADS * 100).encode())
    check.equal("HLEN from all threads", [r.hlen(f"c:h:{t}") for t in range(THREADS)], [100] * THREADS)


def server(check, r, port, cluster):
    info = r.info(**to_a_node(r, cluster))
    name = "tls-port" if SECURITY else "port"
    check.true("INFO tcp_port", SECURITY or info["tcp_port"] == port)
    check.equal("INFO redis_mode", info["redis_mode"], "cluster" if cluster else "standalone")
    node = redis.Redis(host=HOST, port=port, client_name="halcyon-test", **SECURITY)
    check.equal("CLIENT GETNAME of the option", node.client_getname(), "halcyon-test")
    check.equal("CLIENT SETNAME", node.client_setname("renamed"), True)
    check.equal("CLIENT GETNAME", node.client_getname(), "renamed")
    listed = [c for c in node.client_list() if c["name"] == "renamed"]
    check.equal("CLIENT LIST", [c["id"] for c in listed], [str(node.client_id())])
    check.equal("CONFIG GET", node.config_get(name), {name: str(port)})
    check.true("CONFIG GET *", len(node.config_get("*")) > 50)
    check.equal("COMMAND COUNT", node.command_count(), len(node.command()))
    check.equal("COMMAND get", node.command()["get"]["arity"], 2)
    check.true("TIME", node.time()[0] > 1_600_000_000)
    check.equal("MEMORY USAGE of nothing", node.memory_usage("server:none"), None)
    node.close()
    check.equal("SET before FLUSHDB", r.set("server", 1), True)
    check.true("DBSIZE with data", r.dbsize() > 0)
    check.equal("FLUSHDB", r.flushdb(), True)
    check.equal("DBSIZE after FLUSHDB", r.dbsize(), 0)


def sentinels(check, r, port, cluster):
    node = redis.Redis(host=HOST, port=port, decode_responses=True, **SECURITY)
    if AUTHORITY or not node.config_get("sentinel-port"):
        return  # Only Halcyon's nodes answer as Sentinels do, and plainly.
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        sentinel_port = probe.getsockname()[1]
    check.equal("CONFIG SET sentinel-port", node.config_set("sentinel-port", sentinel_port), True)
    sentinel = Sentinel([(HOST, sentinel_port)])
    check.equal("the primary", sentinel.discover_master("mymaster"), (HOST, port))
    check.equal("its replicas", sentinel.discover_slaves("mymaster"), [])
    check.raises("no such primary", MasterNotFoundError, "No master found for 'other'", lambda: sentinel.discover_master("other"))
    primary = sentinel.master_for("mymaster", decode_responses=True)
    check.equal("SET by way of a Sentinel", primary.set("by-sentinel", "x"), True)
    check.equal("GET by way of a Sentinel", primary.get("by-sentinel"), "x")
    asked = sentinel.sentinels[0]
    check.equal("SENTINEL MASTERS", list(asked.sentinel_masters()), ["mymaster"])
    check.equal("SENTINEL SENTINELS", asked.sentinel_sentinels("mymaster"), [])
    for client in (primary, asked):
        client.close()
    check.equal("CONFIG SET sentinel-port 0", node.config_set("sentinel-port", 0), True)
    node.close()


def topology(check, r, port, cluster):
    nodes = r.get_nodes()
    check.equal("nodes", [(n.host, n.port, n.server_type) for n in nodes], [(HOST, port, "primary")])
    check.equal("slots known", len(r.nodes_manager.slots_cache), 16384)
    check.equal("CLUSTER KEYSLOT", r.cluster_keyslot("{user1000}.following"), 3443)
    check.equal("CLUSTER INFO", r.cluster_info(target_nodes=r.get_primaries()[0])["cluster_state"], "ok")
    # A node that was never told its address may leave the host empty.
    check.equal("CLUSTER NODES", [address.split(":")[-1] for address in r.cluster_nodes()], [str(port)])
    check.equal("CLUSTER COUNTKEYSINSLOT", (r.set("{user1000}.x", 1), r.cluster_countkeysinslot(3443)), (True, 1))
    check.equal("MSET over slots", set(r.mset_nonatomic({f"x{i}": i for i in range(50)})), {True})
    check.equal("MGET over slots", r.mget_nonatomic([f"x{i}" for i in range(50)]), [str(i).encode() for i in range(50)])
    check.equal("DEL over slots", r.delete(*(f"x{i}" for i in range(50))), 50)
    node = redis.Redis(host=HOST, port=port, **SECURITY)
    text = "Keys in request don't hash to the same slot"
    check.raises("MGET over slots on one node", redis.ResponseError, text, lambda: node.mget("a", "b"))
    node.close()
    r.nodes_manager.initialize()
    check.equal("GET after a reload of the topology", r.get("{user1000}.x"), b"1")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--cluster", action="store_true")
    options = arguments.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # SETEX and others are checked because people use them.
    mode = "cluster" if options.cluster else "alone"
    name = f"client redis-py {redis.__version__} {mode}"
    check = Checks()
    kind = RedisCluster if options.cluster else redis.Redis
    r = kind(host=HOST, port=options.port, **SECURITY)
    groups = [connect, strings, keys, lists, hashes, sets, sorted_sets, pipelines, errors, pool, concurrency]
    for group in groups + ([topology, sentinels] if options.cluster else []) + [server]:
        before = check.passed, len(check.failures)
        try:
            group(check, r, options.port, options.cluster)
        except Exception:
            check.failures.append(traceback.format_exc())
        wrong = check.failures[before[1]:]
        print(f"{group.__name__}: {check.passed - before[0]} passed, {len(wrong)} failed", flush=True)
        for failure in wrong:
            print(f"  FAIL {failure}", flush=True)
        if not check.passed:
            break  # Nothing answers.
    if check.failures or not check.passed:
        print(f"{name}: {len(check.failures)} checks FAILED")
        sys.exit(1)
    print(f"{name}: {check.passed} checks passed")


if __name__ == "__main__":
    main()
