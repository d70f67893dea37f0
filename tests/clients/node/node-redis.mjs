// node-redis (5 or 6, by CLIENT_LIBRARY) doing a day's work against the server at 127.0.0.1:--port.
// Flushes the database it is given.
import { createRequire } from "node:module";
import { Checks, HOST, binary, megabyte, range, sorted } from "./check.mjs";

const library = process.env.CLIENT_LIBRARY;
const require = createRequire(`${process.env.CLIENT_MODULES}/`);
const { createClient, createClientPool, createCluster, RESP_TYPES, ErrorReply } = require(library);

const check = new Checks("node-redis", library);
const { port, cluster } = check;
const url = `redis://${HOST}:${port}`;
const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
// The default retries for ever; here a server that is not there has to be an error.
const socket = { reconnectStrategy: (retries) => (retries > 2 ? new Error("gave up") : 100) };
const r = cluster ? createCluster({ rootNodes: [{ url }], defaults: { socket } }) : createClient({ url, socket });
const node = createClient({ url, socket, name: "halcyon-test" });
r.on("error", () => {});
node.on("error", () => {});

/** Version 6 speaks RESP3 and may hand out objects without a prototype. */
const plain = (object) => ({ ...object });
const scored = (members) => members.map(({ value, score }) => [value, score]);

async function scanAll(scan, part) {
  const found = [];
  let cursor = "0";
  do {
    const page = await scan(cursor);
    found.push(...page[part]);
    cursor = page.cursor;
  } while (cursor !== "0");
  return found;
}

await check.group("connect", async () => {
  await node.connect();
  await r.connect();
  check.equal("PING", await node.ping(), "PONG");
  check.equal("ECHO", await node.echo("hällo"), "hällo");
  check.equal("FLUSHDB", await node.flushDb(), "OK");
  check.equal("DBSIZE when empty", await node.dbSize(), 0);
});

await check.group("strings", async () => {
  check.equal("GET of nothing", await r.get("s:none"), null);
  check.equal("SET", await r.set("s:a", "one"), "OK");
  check.equal("GET", await r.get("s:a"), "one");
  check.equal("SET NX on a key", await r.set("s:a", "two", { NX: true }), null);
  check.equal("SET XX GET", await r.set("s:a", "three", { XX: true, GET: true }), "one");
  check.equal("SETNX", await r.setNX("s:nx", "1"), 1);
  check.equal("GETSET", await r.getSet("s:a", "four"), "three");
  check.equal("APPEND", await r.append("s:a", "+five"), 9);
  check.equal("STRLEN", await r.strLen("s:a"), 9);
  check.equal("GETRANGE", await r.getRange("s:a", -4, -1), "five");
  check.equal("SETRANGE", await r.setRange("s:a", 4, "-"), 9);
  check.equal("GET after SETRANGE", await r.get("s:a"), "four-five");
  check.equal("MSET", await r.mSet({ "{s}1": "v1", "{s}2": "", "{s}3": "v3" }), "OK");
  check.equal("MGET", await r.mGet(["{s}1", "{s}2", "{s}4", "{s}3"]), ["v1", "", null, "v3"]);
  check.equal("INCR", await r.incr("s:n"), 1);
  check.equal("INCRBY", await r.incrBy("s:n", 41), 42);
  check.equal("DECRBY", await r.decrBy("s:n", 50), -8);
  check.equal("INCRBYFLOAT", await r.incrByFloat("s:f", 10.5), "10.5");
  check.equal("TTL without expiry", await r.ttl("s:a"), -1);
  check.equal("EXPIRE", await r.expire("s:a", 1000), 1);
  const ttl = await r.ttl("s:a");
  check.true(`TTL ${ttl}`, ttl > 900 && ttl <= 1000);
  check.equal("PERSIST", await r.persist("s:a"), 1);
  check.equal("SETEX", await r.setEx("s:ex", 500, "x"), "OK");
  check.true("PTTL after SETEX", (await r.pTTL("s:ex")) > 400_000);
  check.equal("GETEX", await r.getEx("s:ex", { type: "EX", value: 2000 }), "x");
  check.true("TTL after GETEX", (await r.ttl("s:ex")) > 1900);
  check.equal("EXPIREAT in the past", await r.expireAt("s:ex", 1), 1);
  check.equal("GET after EXPIREAT in the past", await r.get("s:ex"), null);
  check.equal("GETDEL", await r.getDel("s:a"), "four-five");
  const buffers = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const key = Buffer.from([115, 58, 0, 255, 13, 10]);
  check.equal("SET binary", await r.set(key, binary), "OK");
  check.equal("GET binary", await buffers.get(key), binary);
  check.equal("SET unicode", await r.set("s:ключ", "値 🚀 ñ"), "OK");
  check.equal("GET unicode", await r.get("s:ключ"), "値 🚀 ñ");
  check.equal("SET 1 MB", await r.set("s:big", megabyte()), "OK");
  check.true("GET 1 MB", (await buffers.get("s:big")).equals(megabyte()));
});

await check.group("keys", async () => {
  await node.flushDb();
  check.equal("MSET for keys", await r.mSet({ "{k}a": "1", "{k}b": "2" }), "OK");
  check.equal("EXISTS", await r.exists(["{k}a", "{k}b", "{k}a", "{k}c"]), 3);
  check.equal("TYPE", [await r.type("{k}a"), await r.type("{k}c")], ["string", "none"]);
  check.equal("RENAME", await r.rename("{k}a", "{k}c"), "OK");
  await check.fails("RENAME of nothing", ErrorReply, "no such key", r.rename("{k}a", "{k}d"));
  check.equal("DEL", await r.del(["{k}b", "{k}c", "{k}nope"]), 2);
  check.equal("UNLINK of nothing", await r.unlink("{k}b"), 0);
  for (const [value, encoding] of [["12345", "int"], ["short", "embstr"], ["x".repeat(100), "raw"]]) {
    await r.set("k:enc", value);
    check.equal(`OBJECT ENCODING ${encoding}`, await r.objectEncoding("k:enc"), encoding);
  }
  await node.flushDb();
  const want = range(1000).map((i) => `scan:${i}`);
  await Promise.all(want.map((key) => r.set(key, "v")));
  await r.sAdd("other", "x");
  const found = new Set(await scanAll((cursor) => node.scan(cursor, { MATCH: "scan:*", COUNT: 100 }), "keys"));
  check.equal("SCAN finds each key", sorted(found), sorted(want));
  const typed = [];
  for await (const page of node.scanIterator({ TYPE: "set" })) typed.push(...page);
  check.equal("SCAN TYPE as an iterator", typed, ["other"]);
  check.equal("KEYS", (await node.keys("scan:99*")).length, 11);
  check.equal("DBSIZE", await node.dbSize(), 1001);
});

await check.group("lists", async () => {
  check.equal("RPUSH", await r.rPush("{l}a", ["a", "b", "c", "d"]), 4);
  check.equal("LPUSH", await r.lPush("{l}a", ["y", "z"]), 6);
  check.equal("LRANGE", await r.lRange("{l}a", 0, -1), ["z", "y", "a", "b", "c", "d"]);
  check.equal("LLEN", await r.lLen("{l}a"), 6);
  check.equal("LINDEX", await r.lIndex("{l}a", -2), "c");
  check.equal("LSET", await r.lSet("{l}a", 1, "Y"), "OK");
  check.equal("LINSERT", await r.lInsert("{l}a", "BEFORE", "a", "new"), 7);
  check.equal("LREM", await r.lRem("{l}a", 1, "new"), 1);
  check.equal("LPOS", await r.lPos("{l}a", "c"), 4);
  check.equal("LPOP", await r.lPop("{l}a"), "z");
  check.equal("RPOP 2", await r.rPopCount("{l}a", 2), ["d", "c"]);
  check.equal("LMOVE", await r.lMove("{l}a", "{l}b", "LEFT", "RIGHT"), "Y");
  check.equal("LRANGE left", await r.lRange("{l}a", 0, -1), ["a", "b"]);
  check.equal("LPOP of nothing", await r.lPop("l:none"), null);
  check.equal("RPUSH 1,000", await r.rPush("l:long", range(1000).map(String)), 1000);
  check.equal("LTRIM", await r.lTrim("l:long", 100, -101), "OK");
  check.equal("LRANGE long", await r.lRange("l:long", 0, -1), range(800).map((i) => `${i + 100}`));
});

await check.group("hashes", async () => {
  check.equal("HSET many", await r.hSet("h", { a: "1", b: "two", c: "" }), 3);
  check.equal("HSET again", await r.hSet("h", "a", "2"), 0);
  check.equal("HGET", await r.hGet("h", "a"), "2");
  check.equal("HGET of nothing", (await r.hGet("h", "x")) ?? null, null);
  check.equal("HGETALL", plain(await r.hGetAll("h")), { a: "2", b: "two", c: "" });
  check.equal("HGETALL of nothing", plain(await r.hGetAll("h:none")), {});
  check.equal("HMGET", await r.hmGet("h", ["c", "x", "b"]), ["", null, "two"]);
  check.equal("HINCRBY", await r.hIncrBy("h", "a", 40), 42);
  check.equal("HINCRBYFLOAT", await r.hIncrByFloat("h", "f", 1.5), "1.5");
  check.equal("HEXISTS", [await r.hExists("h", "f"), await r.hExists("h", "g")], [1, 0]);
  check.equal("HKEYS", sorted(await r.hKeys("h")), ["a", "b", "c", "f"]);
  check.equal("HDEL", await r.hDel("h", ["a", "f", "nope"]), 2);
  const big = Object.fromEntries(range(1000).map((i) => [`field:${i}`, `value ${i}`]));
  check.equal("HSET 1,000", await r.hSet("h:big", big), 1000);
  check.equal("HGETALL 1,000", plain(await r.hGetAll("h:big")), big);
  const scanned = await scanAll((cursor) => r.hScan("h:big", cursor, { COUNT: 50 }), "entries");
  check.equal("HSCAN", Object.fromEntries(scanned.map(({ field, value }) => [field, value])), big);
});

await check.group("sets", async () => {
  check.equal("SADD", await r.sAdd("{t}a", ["a", "b", "c", "d", "a"]), 4);
  check.equal("SADD again", await r.sAdd("{t}b", ["c", "d", "e"]), 3);
  check.equal("SMEMBERS", sorted(await r.sMembers("{t}a")), ["a", "b", "c", "d"]);
  check.equal("SMISMEMBER", await r.smIsMember("{t}a", ["a", "z"]), [1, 0]);
  check.equal("SINTER", sorted(await r.sInter(["{t}a", "{t}b"])), ["c", "d"]);
  check.equal("SUNION", sorted(await r.sUnion(["{t}a", "{t}b"])), ["a", "b", "c", "d", "e"]);
  check.equal("SDIFF", sorted(await r.sDiff(["{t}a", "{t}b"])), ["a", "b"]);
  check.equal("SINTERSTORE", await r.sInterStore("{t}i", ["{t}a", "{t}b"]), 2);
  check.equal("SINTERCARD", await r.sInterCard(["{t}a", "{t}b"], { LIMIT: 1 }), 1);
  check.equal("SMOVE", await r.sMove("{t}a", "{t}b", "a"), 1);
  const members = range(1000).map((i) => `m${i}`);
  check.equal("SADD 1,000", await r.sAdd("t:big", members), 1000);
  const scanned = new Set(await scanAll((cursor) => r.sScan("t:big", cursor, { COUNT: 50 }), "members"));
  check.equal("SSCAN", sorted(scanned), sorted(members));
  const some = await r.sRandMemberCount("t:big", 20);
  check.true("SRANDMEMBER 20", new Set(some).size === 20 && some.every((member) => members.includes(member)));
  const taken = await r.sPopCount("t:big", 300);
  check.true("SPOP 300", new Set(taken).size === 300 && [...taken].every((member) => members.includes(member)));
  const rest = members.filter((member) => ![...taken].includes(member));
  check.equal("SPOP leaves the rest", sorted(await r.sMembers("t:big")), sorted(rest));
});

await check.group("sorted_sets", async () => {
  const first = [["a", 1], ["b", 2.5], ["c", 3], ["d", Infinity]].map(([value, score]) => ({ value, score }));
  check.equal("ZADD", await r.zAdd("{z}a", first), 4);
  check.equal("ZADD NX", await r.zAdd("{z}a", [{ value: "a", score: 9 }, { value: "e", score: -1 }], { condition: "NX" }), 1);
  check.equal("ZADD GT CH", await r.zAdd("{z}a", { value: "a", score: 1.5 }, { comparison: "GT", CH: true }), 1);
  check.equal("ZSCORE", [await r.zScore("{z}a", "b"), await r.zScore("{z}a", "d"), await r.zScore("{z}a", "x")], [2.5, Infinity, null]);
  check.equal("ZINCRBY", await r.zIncrBy("{z}a", 1.25, "c"), 4.25);
  check.equal("ZRANGE", await r.zRange("{z}a", 0, -1), ["e", "a", "b", "c", "d"]);
  check.equal("ZRANGE WITHSCORES", scored(await r.zRangeWithScores("{z}a", 0, 2)), [["e", -1], ["a", 1.5], ["b", 2.5]]);
  check.equal("ZRANGE BYSCORE REV", await r.zRange("{z}a", 5, 2, { BY: "SCORE", REV: true }), ["c", "b"]);
  check.equal("ZRANGEBYSCORE", await r.zRangeByScore("{z}a", "(1.5", "+inf", { LIMIT: { offset: 0, count: 2 } }), ["b", "c"]);
  check.equal("ZCOUNT", await r.zCount("{z}a", 1, "(4.25"), 2);
  check.equal("ZRANK", [await r.zRank("{z}a", "a"), await r.zRevRank("{z}a", "a"), await r.zRank("{z}a", "x")], [1, 3, null]);
  await r.zAdd("z:lex", "abcdef".split("").map((value) => ({ value, score: 0 })));
  check.equal("ZRANGEBYLEX", await r.zRangeByLex("z:lex", "(b", "[e"), ["c", "d", "e"]);
  await r.zAdd("{z}b", [{ value: "b", score: 10 }, { value: "q", score: 20 }]);
  const weighted = [{ key: "{z}b", weight: 2 }, { key: "{z}a", weight: 1 }];
  check.equal("ZUNIONSTORE", await r.zUnionStore("{z}u", weighted, { AGGREGATE: "MAX" }), 6);
  check.equal("ZUNIONSTORE scores", await r.zmScore("{z}u", ["b", "q", "x"]), [20, 40, null]);
  check.equal("ZPOPMIN", plain(await r.zPopMin("{z}a")), { value: "e", score: -1 });
  check.equal("ZREM", await r.zRem("{z}a", ["a", "nope"]), 1);
  const big = range(1000).map((i) => ({ value: `m${i}`, score: i / 4 }));
  check.equal("ZADD 1,000", await r.zAdd("z:big", big), 1000);
  const scanned = new Map(scored(await scanAll((cursor) => r.zScan("z:big", cursor, { COUNT: 50 }), "members")));
  check.equal("ZSCAN", scanned, new Map(scored(big)));
  check.equal("ZREMRANGEBYRANK", await r.zRemRangeByRank("z:big", 10, -1), 990);
});

await check.group("pipelines", async () => {
  // node-redis pipelines whatever is sent in one turn of the event loop.
  const sums = Array(10).fill(0);
  const sent = [];
  const want = [];
  for (const i of range(250)) {
    sent.push(r.set(`p:${i}`, `value ${i}`), r.incrBy(`p:n:${i % 10}`, i));
    want.push("OK", (sums[i % 10] += i));
  }
  check.equal("replies of 500 commands at once", await Promise.all(sent), want);
  // execAsPipeline sends the commands as they are: no MULTI.
  const pipe = r.multi();
  for (const i of range(500)) pipe.get(`p:${i}`);
  if (!cluster) {
    check.equal("GET of a pipeline of 500", await pipe.execAsPipeline(), range(500).map((i) => (i < 250 ? `value ${i}` : null)));
  } else {
    const replies = await Promise.all(range(500).map((i) => r.get(`p:${i}`)));
    check.equal("500 GET at once", replies, range(500).map((i) => (i < 250 ? `value ${i}` : null)));
  }
  const [set, push, get] = await Promise.allSettled([r.set("p:e", "x"), r.lPush("p:e", "y"), r.get("p:e")]);
  check.equal("around an error", [set.value, get.value], ["OK", "x"]);
  check.true("error in a pipeline", push.reason instanceof ErrorReply && push.reason.message === wrongType);
});

await check.group("errors", async () => {
  await r.set("e", "text");
  await check.fails("LPUSH on a string", ErrorReply, wrongType, r.lPush("e", "x"));
  await check.fails("HGET on a string", ErrorReply, wrongType, r.hGet("e", "f"));
  await check.fails("INCR of text", ErrorReply, "ERR value is not an integer or out of range", r.incr("e"));
  await check.fails("SETEX 0", ErrorReply, "ERR invalid expire time in 'setex' command", r.setEx("e", 0, "x"));
  await check.fails("unknown command", ErrorReply, "ERR unknown command 'NOSUCH'", node.sendCommand(["NOSUCH"]));
  await check.fails("wrong arity", ErrorReply, "ERR wrong number of arguments for 'get' command", node.sendCommand(["GET"]));
  check.equal("GET after the errors", await r.get("e"), "text");
});

await check.group("pool", async () => {
  const pool = createClientPool({ url }, { minimum: 1, maximum: 4 });
  pool.on("error", () => {});
  await pool.connect();
  const replies = await Promise.all(range(200).map((i) => pool.incrBy("pool", i)));
  check.equal("INCRBY of a pool of clients", replies.length, 200);
  check.equal("GET after the pool", await r.get("pool"), "19900");
  check.true("connections in the pool", pool.totalClients >= 1 && pool.totalClients <= 4);
  await pool.close();
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
    check.equal("primaries", r.masters.map((one) => one.port), [port]);
    check.equal("slots known", r.slots.filter((slot) => slot.master.port === port).length, 16384);
    const [slots, ...more] = await node.clusterSlots();
    check.equal("CLUSTER SLOTS", [slots.from, slots.to, slots.master.port, more], [0, 16383, port, []]);
    check.equal("CLUSTER KEYSLOT", await node.clusterKeySlot("{user1000}.following"), 3443);
    check.true("CLUSTER INFO", (await node.clusterInfo()).includes("cluster_state:ok\r\n"));
    await check.fails("MGET over slots", ErrorReply, "CROSSSLOT Keys in request don't hash to the same slot", node.mGet(["a", "b"]));
  });
}

await check.group("server", async () => {
  const info = await node.info();
  check.true("INFO tcp_port", info.includes(`\r\ntcp_port:${port}\r\n`));
  check.true("INFO redis_mode", info.includes(`\r\nredis_mode:${cluster ? "cluster" : "standalone"}\r\n`));
  check.equal("CLIENT GETNAME of the option", await node.clientGetName(), "halcyon-test");
  check.equal("CLIENT SETNAME", await node.clientSetName("renamed"), "OK");
  check.equal("CLIENT GETNAME", await node.clientGetName(), "renamed");
  check.equal("CLIENT LIST", (await node.clientList()).filter((one) => one.name === "renamed").length, 1);
  check.equal("CONFIG GET", plain(await node.configGet("port")), { port: `${port}` });
  check.equal("COMMAND COUNT", await node.commandCount(), (await node.command()).length);
  check.equal("SET before FLUSHDB", await r.set("server", "1"), "OK");
  check.true("DBSIZE with data", (await node.dbSize()) > 0);
  check.equal("FLUSHDB", await node.flushDb(), "OK");
  check.equal("DBSIZE after FLUSHDB", await node.dbSize(), 0);
});

check.finish();
