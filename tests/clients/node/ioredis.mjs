// ioredis doing a day's work against the server at 127.0.0.1:--port, over TLS if CLIENT_TLS_CA names its
// authority. Flushes the database it is given.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { Checks, HOST, binary, megabyte, range, sorted } from "./check.mjs";

const require = createRequire(`${process.env.CLIENT_MODULES}/`);
const { Redis, Cluster, ReplyError } = require("ioredis");

const check = new Checks("ioredis", "ioredis");
const { port, cluster } = check;
const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
const authority = process.env.CLIENT_TLS_CA;
const security = authority ? { tls: { ca: readFileSync(authority) } } : {};
const r = cluster ? new Cluster([{ host: HOST, port }], { redisOptions: security }) : new Redis({ port, host: HOST, ...security });
const node = new Redis({ port, host: HOST, ...security, connectionName: "halcyon-test", maxRetriesPerRequest: 1 });
let lastError;
r.on("error", (error) => (lastError = error));
node.on("error", (error) => (lastError = error));

async function scanAll(scan) {
  const found = [];
  let cursor = "0";
  do {
    const [next, page] = await scan(cursor);
    found.push(...page);
    cursor = next;
  } while (cursor !== "0");
  return found;
}

const paired = (flat) => Object.fromEntries(range(flat.length / 2).map((i) => [flat[2 * i], flat[2 * i + 1]]));

await check.group("connect", async () => {
  await new Promise((resolve, reject) => {
    r.once("ready", resolve);
    setTimeout(() => reject(lastError ?? new Error("not ready after 10 s")), 10_000).unref();
  });
  check.equal("PING", await r.ping(), "PONG");
  check.equal("ECHO", await node.echo("hällo"), "hällo");
  check.equal("FLUSHDB", await r.flushdb(), "OK");
  check.equal("DBSIZE when empty", await r.dbsize(), 0);
});

await check.group("strings", async () => {
  check.equal("GET of nothing", await r.get("s:none"), null);
  check.equal("SET", await r.set("s:a", "one"), "OK");
  check.equal("GET", await r.get("s:a"), "one");
  check.equal("SET NX on a key", await r.set("s:a", "two", "NX"), null);
  check.equal("SET XX GET", await r.set("s:a", "three", "XX", "GET"), "one");
  check.equal("GETSET", await r.getset("s:a", "four"), "three");
  check.equal("APPEND", await r.append("s:a", "+five"), 9);
  check.equal("STRLEN", await r.strlen("s:a"), 9);
  check.equal("GETRANGE", await r.getrange("s:a", -4, -1), "five");
  check.equal("SETRANGE", await r.setrange("s:a", 4, "-"), 9);
  check.equal("GET after SETRANGE", await r.get("s:a"), "four-five");
  check.equal("MSET", await r.mset({ "{s}1": "v1", "{s}2": "", "{s}3": "v3" }), "OK");
  check.equal("MGET", await r.mget("{s}1", "{s}2", "{s}4", "{s}3"), ["v1", "", null, "v3"]);
  check.equal("INCR", await r.incr("s:n"), 1);
  check.equal("INCRBY", await r.incrby("s:n", 41), 42);
  check.equal("DECRBY", await r.decrby("s:n", 50), -8);
  check.equal("INCRBYFLOAT", await r.incrbyfloat("s:f", 10.5), "10.5");
  check.equal("TTL without expiry", await r.ttl("s:a"), -1);
  check.equal("EXPIRE", await r.expire("s:a", 1000), 1);
  const ttl = await r.ttl("s:a");
  check.true(`TTL ${ttl}`, ttl > 900 && ttl <= 1000);
  check.equal("PERSIST", await r.persist("s:a"), 1);
  check.equal("SETEX", await r.setex("s:ex", 500, "x"), "OK");
  check.true("PTTL after SETEX", (await r.pttl("s:ex")) > 400_000);
  check.equal("EXPIREAT in the past", await r.expireat("s:ex", 1), 1);
  check.equal("GET after EXPIREAT in the past", await r.get("s:ex"), null);
  check.equal("GETDEL", await r.getdel("s:a"), "four-five");
  const key = Buffer.from([115, 58, 0, 255, 13, 10]);
  check.equal("SET binary", await r.set(key, binary), "OK");
  check.equal("GET binary", await r.getBuffer(key), binary);
  check.equal("SET unicode", await r.set("s:ключ", "値 🚀 ñ"), "OK");
  check.equal("GET unicode", await r.get("s:ключ"), "値 🚀 ñ");
  check.equal("SET 1 MB", await r.set("s:big", megabyte()), "OK");
  check.true("GET 1 MB", (await r.getBuffer("s:big")).equals(megabyte()));
});

await check.group("keys", async () => {
  await r.flushdb();
  check.equal("MSET for keys", await r.mset("{k}a", 1, "{k}b", 2), "OK");
  check.equal("EXISTS", await r.exists("{k}a", "{k}b", "{k}a", "{k}c"), 3);
  check.equal("TYPE", [await r.type("{k}a"), await r.type("{k}c")], ["string", "none"]);
  check.equal("RENAME", await r.rename("{k}a", "{k}c"), "OK");
  await check.fails("RENAME of nothing", ReplyError, "no such key", r.rename("{k}a", "{k}d"));
  check.equal("DEL", await r.del("{k}b", "{k}c", "{k}nope"), 2);
  check.equal("UNLINK of nothing", await r.unlink("{k}b"), 0);
  for (const [value, encoding] of [["12345", "int"], ["short", "embstr"], ["x".repeat(100), "raw"]]) {
    await r.set("k:enc", value);
    check.equal(`OBJECT ENCODING ${encoding}`, await r.object("ENCODING", "k:enc"), encoding);
  }
  await r.flushdb();
  const want = range(1000).map((i) => `scan:${i}`);
  await Promise.all(want.map((key) => r.set(key, "v")));
  await r.sadd("other", "x");
  const found = new Set(await scanAll((cursor) => node.scan(cursor, "MATCH", "scan:*", "COUNT", 100)));
  check.equal("SCAN finds each key", sorted(found), sorted(want));
  const streamed = [];
  for await (const page of node.scanStream({ type: "set" })) streamed.push(...page);
  check.equal("SCAN TYPE as a stream", streamed, ["other"]);
  check.equal("KEYS", (await r.keys("scan:99*")).length, 11);
  check.equal("DBSIZE", await r.dbsize(), 1001);
});

await check.group("lists", async () => {
  check.equal("RPUSH", await r.rpush("{l}a", "a", "b", "c", "d"), 4);
  check.equal("LPUSH", await r.lpush("{l}a", "y", "z"), 6);
  check.equal("LRANGE", await r.lrange("{l}a", 0, -1), ["z", "y", "a", "b", "c", "d"]);
  check.equal("LLEN", await r.llen("{l}a"), 6);
  check.equal("LINDEX", await r.lindex("{l}a", -2), "c");
  check.equal("LSET", await r.lset("{l}a", 1, "Y"), "OK");
  check.equal("LINSERT", await r.linsert("{l}a", "BEFORE", "a", "new"), 7);
  check.equal("LREM", await r.lrem("{l}a", 1, "new"), 1);
  check.equal("LPOS", await r.lpos("{l}a", "c"), 4);
  check.equal("LPOP", await r.lpop("{l}a"), "z");
  check.equal("RPOP 2", await r.rpop("{l}a", 2), ["d", "c"]);
  check.equal("LMOVE", await r.lmove("{l}a", "{l}b", "LEFT", "RIGHT"), "Y");
  check.equal("LRANGE left", await r.lrange("{l}a", 0, -1), ["a", "b"]);
  check.equal("LPOP of nothing", await r.lpop("l:none"), null);
  check.equal("RPUSH 1,000", await r.rpush("l:long", ...range(1000)), 1000);
  check.equal("LTRIM", await r.ltrim("l:long", 100, -101), "OK");
  check.equal("LRANGE long", await r.lrange("l:long", 0, -1), range(800).map((i) => `${i + 100}`));
});

await check.group("hashes", async () => {
  check.equal("HSET many", await r.hset("h", { a: "1", b: "two", c: "" }), 3);
  check.equal("HSET again", await r.hset("h", "a", "2"), 0);
  check.equal("HGET", await r.hget("h", "a"), "2");
  check.equal("HGETALL", await r.hgetall("h"), { a: "2", b: "two", c: "" });
  check.equal("HGETALL of nothing", await r.hgetall("h:none"), {});
  check.equal("HMGET", await r.hmget("h", "c", "x", "b"), ["", null, "two"]);
  check.equal("HINCRBY", await r.hincrby("h", "a", 40), 42);
  check.equal("HINCRBYFLOAT", await r.hincrbyfloat("h", "f", 1.5), "1.5");
  check.equal("HKEYS", sorted(await r.hkeys("h")), ["a", "b", "c", "f"]);
  check.equal("HDEL", await r.hdel("h", "a", "f", "nope"), 2);
  const big = Object.fromEntries(range(1000).map((i) => [`field:${i}`, `value ${i}`]));
  check.equal("HSET 1,000", await r.hset("h:big", big), 1000);
  check.equal("HGETALL 1,000", await r.hgetall("h:big"), big);
  check.equal("HSCAN", paired(await scanAll((cursor) => r.hscan("h:big", cursor, "COUNT", 50))), big);
});

await check.group("sets", async () => {
  check.equal("SADD", await r.sadd("{t}a", "a", "b", "c", "d", "a"), 4);
  check.equal("SADD again", await r.sadd("{t}b", ["c", "d", "e"]), 3);
  check.equal("SMEMBERS", sorted(await r.smembers("{t}a")), ["a", "b", "c", "d"]);
  check.equal("SMISMEMBER", await r.smismember("{t}a", "a", "z"), [1, 0]);
  check.equal("SINTER", sorted(await r.sinter("{t}a", "{t}b")), ["c", "d"]);
  check.equal("SUNION", sorted(await r.sunion("{t}a", "{t}b")), ["a", "b", "c", "d", "e"]);
  check.equal("SDIFF", sorted(await r.sdiff("{t}a", "{t}b")), ["a", "b"]);
  check.equal("SINTERSTORE", await r.sinterstore("{t}i", "{t}a", "{t}b"), 2);
  check.equal("SINTERCARD", await r.sintercard(2, "{t}a", "{t}b", "LIMIT", 1), 1);
  check.equal("SMOVE", await r.smove("{t}a", "{t}b", "a"), 1);
  const members = range(1000).map((i) => `m${i}`);
  check.equal("SADD 1,000", await r.sadd("t:big", members), 1000);
  const scanned = new Set(await scanAll((cursor) => r.sscan("t:big", cursor, "COUNT", 50)));
  check.equal("SSCAN", sorted(scanned), sorted(members));
  const some = await r.srandmember("t:big", 20);
  check.true("SRANDMEMBER 20", new Set(some).size === 20 && some.every((member) => members.includes(member)));
  const taken = await r.spop("t:big", 300);
  check.true("SPOP 300", new Set(taken).size === 300 && taken.every((member) => members.includes(member)));
  const rest = members.filter((member) => !taken.includes(member));
  check.equal("SPOP leaves the rest", sorted(await r.smembers("t:big")), sorted(rest));
});

await check.group("sorted_sets", async () => {
  check.equal("ZADD", await r.zadd("{z}a", 1, "a", 2.5, "b", 3, "c", "inf", "d"), 4);
  check.equal("ZADD NX", await r.zadd("{z}a", "NX", 9, "a", -1, "e"), 1);
  check.equal("ZADD XX GT CH", await r.zadd("{z}a", "XX", "GT", "CH", 1.5, "a"), 1);
  check.equal("ZSCORE", [await r.zscore("{z}a", "b"), await r.zscore("{z}a", "d"), await r.zscore("{z}a", "x")], ["2.5", "inf", null]);
  check.equal("ZINCRBY", await r.zincrby("{z}a", 1.25, "c"), "4.25");
  check.equal("ZRANGE WITHSCORES", await r.zrange("{z}a", 0, 2, "WITHSCORES"), ["e", "-1", "a", "1.5", "b", "2.5"]);
  check.equal("ZRANGE BYSCORE REV", await r.zrange("{z}a", 5, 2, "BYSCORE", "REV"), ["c", "b"]);
  check.equal("ZRANGEBYSCORE", await r.zrangebyscore("{z}a", "(1.5", "+inf", "LIMIT", 0, 2), ["b", "c"]);
  check.equal("ZCOUNT", await r.zcount("{z}a", 1, "(4.25"), 2);
  check.equal("ZRANK", [await r.zrank("{z}a", "a"), await r.zrevrank("{z}a", "a"), await r.zrank("{z}a", "x")], [1, 3, null]);
  await r.zadd("z:lex", ..."abcdef".split("").flatMap((member) => [0, member]));
  check.equal("ZRANGEBYLEX", await r.zrangebylex("z:lex", "(b", "[e"), ["c", "d", "e"]);
  await r.zadd("{z}b", 10, "b", 20, "q");
  check.equal("ZUNIONSTORE", await r.zunionstore("{z}u", 2, "{z}b", "{z}a", "WEIGHTS", 2, 1, "AGGREGATE", "MAX"), 6);
  check.equal("ZUNIONSTORE scores", await r.zmscore("{z}u", "b", "q", "x"), ["20", "40", null]);
  check.equal("ZPOPMIN", await r.zpopmin("{z}a"), ["e", "-1"]);
  check.equal("ZREM", await r.zrem("{z}a", "a", "nope"), 1);
  const big = Object.fromEntries(range(1000).map((i) => [`m${i}`, `${i / 4}`]));
  check.equal("ZADD 1,000", await r.zadd("z:big", ...Object.entries(big).flatMap(([member, score]) => [score, member])), 1000);
  check.equal("ZSCAN", paired(await scanAll((cursor) => r.zscan("z:big", cursor, "COUNT", 50))), big);
  check.equal("ZREMRANGEBYRANK", await r.zremrangebyrank("z:big", 10, -1), 990);
});

await check.group("pipelines", async () => {
  // In a cluster, ioredis wants a pipeline's keys in one slot's node: here there is one node, but the tag keeps to its rule.
  let pipe = r.pipeline();
  const sums = Array(10).fill(0);
  const want = [];
  for (const i of range(250)) {
    pipe.set(`{p}:${i}`, `value ${i}`).incrby(`{p}:n:${i % 10}`, i);
    want.push([null, "OK"], [null, (sums[i % 10] += i)]);
  }
  check.equal("replies of a pipeline of 500", await pipe.exec(), want);
  pipe = r.pipeline();
  for (const i of range(500)) pipe.get(`{p}:${i}`);
  check.equal("GET of a pipeline of 500", await pipe.exec(), range(500).map((i) => [null, i < 250 ? `value ${i}` : null]));
  const [set, push, get] = await r.pipeline().set("{p}:e", "x").lpush("{p}:e", "y").get("{p}:e").exec();
  check.equal("pipeline around an error", [set, get], [[null, "OK"], [null, "x"]]);
  check.true("error in a pipeline", push[0] instanceof ReplyError && push[0].message === wrongType);
});

await check.group("errors", async () => {
  await r.set("e", "text");
  await check.fails("LPUSH on a string", ReplyError, wrongType, r.lpush("e", "x"));
  await check.fails("HGET on a string", ReplyError, wrongType, r.hget("e", "f"));
  await check.fails("INCR of text", ReplyError, "ERR value is not an integer or out of range", r.incr("e"));
  await check.fails("SET EX 0", ReplyError, "ERR invalid expire time in 'set' command", r.set("e", "x", "EX", 0));
  await check.fails("unknown command", ReplyError, "ERR unknown command 'NOSUCH'", node.call("NOSUCH"));
  await check.fails("wrong arity", ReplyError, "ERR wrong number of arguments for 'get' command", node.call("GET"));
  check.equal("GET after the errors", await r.get("e"), "text");
});

await check.group("concurrency", async () => {
  const received = async () => Number((await node.info("stats")).match(/total_connections_received:(\d+)/)[1]);
  const before = await received();
  const work = async (task) => {
    let good = 0;
    for (const i of range(100)) {
      await r.set(`c:${task}:${i}`, `${task}/${i}`);
      const [got] = await Promise.all([r.get(`c:${task}:${i}`), r.incr("c:total")]);
      if (got === `${task}/${i}`) good++;
    }
    return good;
  };
  check.equal("replies seen by each task", await Promise.all(range(20).map(work)), Array(20).fill(100));
  check.equal("INCR from all tasks", await r.get("c:total"), "2000");
  check.equal("connections opened meanwhile", (await received()) - before, 0);
});

if (cluster) {
  await check.group("topology", async () => {
    check.equal("nodes", r.nodes("master").map((one) => one.options.port), [port]);
    const [[first, last, [, slotPort]], ...more] = await r.cluster("SLOTS");
    check.equal("CLUSTER SLOTS", [first, last, slotPort, more], [0, 16383, port, []]);
    check.equal("CLUSTER KEYSLOT", await r.cluster("KEYSLOT", "{user1000}.following"), 3443);
    check.true("CLUSTER INFO", (await r.cluster("INFO")).includes("cluster_state:ok\r\n"));
    await check.fails("MGET over slots", ReplyError, "CROSSSLOT Keys in request don't hash to the same slot", node.mget("a", "b"));
    await new Promise((resolve, reject) => r.refreshSlotsCache((error) => (error ? reject(error) : resolve())));
    check.equal("GET after a reload of the topology", await r.get("c:total"), "2000");
  });
}

await check.group("server", async () => {
  const info = await r.info();
  if (!authority) check.true("INFO tcp_port", info.includes(`\r\ntcp_port:${port}\r\n`));
  check.true("INFO redis_mode", info.includes(`\r\nredis_mode:${cluster ? "cluster" : "standalone"}\r\n`));
  check.equal("CLIENT GETNAME of the option", await node.client("GETNAME"), "halcyon-test");
  check.equal("CLIENT SETNAME", await node.client("SETNAME", "renamed"), "OK");
  check.equal("CLIENT GETNAME", await node.client("GETNAME"), "renamed");
  check.true("CLIENT LIST", (await node.client("LIST")).includes(" name=renamed "));
  const portName = authority ? "tls-port" : "port";
  check.equal("CONFIG GET", await node.config("GET", portName), [portName, `${port}`]);
  check.equal("COMMAND COUNT", await node.command("COUNT"), (await node.command()).length);
  check.equal("SET before FLUSHDB", await r.set("server", 1), "OK");
  check.true("DBSIZE with data", (await r.dbsize()) > 0);
  check.equal("FLUSHDB", await r.flushdb(), "OK");
  check.equal("DBSIZE after FLUSHDB", await r.dbsize(), 0);
});

check.finish();
