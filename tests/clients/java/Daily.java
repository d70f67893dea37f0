import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.*;
import redis.clients.jedis.params.*;

/**
 * Jedis doing a day's work against the server at 127.0.0.1:--port. One source for Jedis 2, 3 and 7: what differs between
 * them stands in v2, v3 and v7 (Api and Library). Flushes the database it is given.
 */
public class Daily {
    static final String HOST = "127.0.0.1";
    static final int THREADS = 16;
    static final String WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";

    interface Body {
        void run() throws Exception;
    }

    int port;
    boolean cluster;
    Api api;
    /** One plain connection to the node, for commands that no cluster client offers. */
    Jedis node;
    int passed;
    List<String> failures = new ArrayList<>();

    void holds(String what, boolean holds) {
        if (holds) passed++;
        else failures.add(what);
    }

    /** Holds when both are equal; collections compare by content: some versions return a list where others return a set. */
    void equal(String what, Object got, Object want) {
        if (got instanceof Collection && want instanceof List) got = new ArrayList<>((Collection<?>) got);
        if (got instanceof Collection && want instanceof Set) got = new HashSet<>((Collection<?>) got);
        String text = what + ": got " + got + ", want " + want;
        holds(text.length() > 600 ? text.substring(0, 600) : text, Objects.equals(got, want));
    }

    /** Holds when the body throws the library's error for an error reply, with this text. */
    void fails(String what, String text, Body body) throws Exception {
        try {
            body.run();
            failures.add(what + ": no error");
        } catch (JedisDataException error) {
            holds(what + ": " + error, error.getMessage().contains(text));
        }
    }

    void group(String name, Body body) {
        int passedBefore = passed, failedBefore = failures.size();
        try {
            body.run();
        } catch (Throwable error) {
            StringBuilder trace = new StringBuilder(error.toString());
            for (StackTraceElement frame : error.getStackTrace()) trace.append("\n    ").append(frame);
            failures.add(trace.toString());
        }
        System.out.printf("%s: %d passed, %d failed%n", name, passed - passedBefore, failures.size() - failedBefore);
        for (String failure : failures.subList(failedBefore, failures.size())) System.out.println("  FAIL " + failure);
    }

    static List<String> list(String... values) {
        return Arrays.asList(values);
    }

    static Set<String> set(String... values) {
        return new HashSet<>(Arrays.asList(values));
    }

    void connect() {
        equal("PING", node.ping(), "PONG");
        equal("ECHO", node.echo("hällo"), "hällo");
        equal("FLUSHDB", node.flushDB(), "OK");
        equal("DBSIZE when empty", node.dbSize(), 0L);
    }

    void strings() {
        equal("GET of nothing", api.get("s:none"), null);
        equal("SET", api.set("s:a", "one"), "OK");
        equal("GET", api.get("s:a"), "one");
        equal("SET NX EX on a key", Library.setNxEx(api, "s:a", "two", 100), null);
        equal("SETNX", api.setnx("s:nx", "1"), 1L);
        equal("GETSET", api.getSet("s:a", "four"), "one");
        equal("APPEND", api.append("s:a", "+five"), 9L);
        equal("STRLEN", api.strlen("s:a"), 9L);
        equal("GETRANGE", api.getrange("s:a", -4, -1), "five");
        equal("SETRANGE", api.setrange("s:a", 4, "-"), 9L);
        equal("GET after SETRANGE", api.get("s:a"), "four-five");
        equal("MSET", api.mset("{s}1", "v1", "{s}2", "", "{s}3", "v3"), "OK");
        equal("MSETNX", api.msetnx("{s}1", "x", "{s}4", "x"), 0L);
        equal("MGET", api.mget("{s}1", "{s}2", "{s}4", "{s}3"), list("v1", "", null, "v3"));
        equal("INCR", api.incr("s:n"), 1L);
        equal("INCRBY", api.incrBy("s:n", 41), 42L);
        equal("DECRBY", api.decrBy("s:n", 50), -8L);
        equal("INCRBYFLOAT", api.incrByFloat("s:f", 10.5), 10.5);
        equal("INCRBYFLOAT down", api.incrByFloat("s:f", -0.25), 10.25);
        equal("TTL without expiry", api.ttl("s:a"), -1L);
        equal("TTL of nothing", api.ttl("s:none"), -2L);
        equal("EXPIRE", api.expire("s:a", 1000), 1L);
        holds("TTL", api.ttl("s:a") > 900 && api.ttl("s:a") <= 1000);
        holds("PTTL", api.pttl("s:a") > 900_000 && api.pttl("s:a") <= 1_000_000);
        equal("PERSIST", api.persist("s:a"), 1L);
        equal("TTL after PERSIST", api.ttl("s:a"), -1L);
        equal("SETEX", api.setex("s:ex", 500, "x"), "OK");
        holds("TTL after SETEX", api.ttl("s:ex") > 400 && api.ttl("s:ex") <= 500);
        equal("EXPIREAT in the past", api.expireAt("s:ex", 1), 1L);
        equal("GET after EXPIREAT in the past", api.get("s:ex"), null);
        byte[] key = {'s', ':', 0, (byte) 255, '\r', '\n'}, binary = new byte[262];
        for (int i = 0; i < binary.length; i++) binary[i] = (byte) i;
        equal("SET binary", api.set(key, binary), "OK");
        holds("GET binary", Arrays.equals(api.get(key), binary));
        equal("SET unicode", api.set("s:ключ", "値 🚀 ñ"), "OK");
        equal("GET unicode", api.get("s:ключ"), "値 🚀 ñ");
        byte[] megabyte = new byte[1 << 20], bigKey = "s:big".getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < megabyte.length; i++) megabyte[i] = (byte) (i * 31 + i / 256);
        equal("SET 1 MB", api.set(bigKey, megabyte), "OK");
        holds("GET 1 MB", Arrays.equals(api.get(bigKey), megabyte));
        equal("STRLEN 1 MB", api.strlen("s:big"), 1L << 20);
    }

    void keys() throws Exception {
        node.flushDB();
        equal("MSET for keys", api.mset("{k}a", "1", "{k}b", "2"), "OK");
        equal("EXISTS", api.exists("{k}a", "{k}b", "{k}a", "{k}c"), 3L);
        equal("TYPE string", api.type("{k}a"), "string");
        equal("TYPE of nothing", api.type("{k}c"), "none");
        equal("RENAME", api.rename("{k}a", "{k}c"), "OK");
        equal("GET renamed", api.get("{k}c"), "1");
        equal("RENAMENX onto a key", api.renamenx("{k}c", "{k}b"), 0L);
        fails("RENAME of nothing", "no such key", () -> api.rename("{k}a", "{k}d"));
        equal("DEL", api.del("{k}b", "{k}c", "{k}nope"), 2L);
        for (String[] encoded : new String[][] {{"12345", "int"}, {"short", "embstr"}, {"x".repeat(100), "raw"}}) {
            api.set("k:enc", encoded[0]);
            equal("OBJECT ENCODING " + encoded[1], node.objectEncoding("k:enc"), encoded[1]);
        }
        node.flushDB();
        Set<String> want = new HashSet<>(), found = new HashSet<>();
        for (int i = 0; i < 1000; i++) {
            want.add("scan:" + i);
            api.set("scan:" + i, "v");
        }
        api.sadd("other", "x");
        String cursor = "0";
        do {
            var page = node.scan(cursor, new ScanParams().match("scan:*").count(100));
            found.addAll(page.getResult());
            cursor = Library.cursor(page);
        } while (!cursor.equals("0"));
        holds("SCAN finds each key", found.equals(want));
        equal("KEYS", node.keys("scan:99*").size(), 11);
        equal("DBSIZE", node.dbSize(), 1001L);
    }

    void lists() {
        equal("RPUSH", api.rpush("{l}a", "a", "b", "c", "d"), 4L);
        equal("LPUSH", api.lpush("{l}a", "y", "z"), 6L);
        equal("LRANGE", api.lrange("{l}a", 0, -1), list("z", "y", "a", "b", "c", "d"));
        equal("LLEN", api.llen("{l}a"), 6L);
        equal("LINDEX", api.lindex("{l}a", -2), "c");
        equal("LSET", api.lset("{l}a", 1, "Y"), "OK");
        equal("LREM", api.lrem("{l}a", 1, "a"), 1L);
        equal("LPOP", api.lpop("{l}a"), "z");
        equal("RPOP", api.rpop("{l}a"), "d");
        equal("RPOPLPUSH", api.rpoplpush("{l}a", "{l}b"), "c");
        equal("LRANGE left", api.lrange("{l}a", 0, -1), list("Y", "b"));
        equal("LPOP of nothing", api.lpop("l:none"), null);
        String[] values = new String[1000];
        for (int i = 0; i < values.length; i++) values[i] = "" + i;
        equal("RPUSH 1,000", api.rpush("l:long", values), 1000L);
        equal("LTRIM", api.ltrim("l:long", 100, -101), "OK");
        equal("LRANGE long", api.lrange("l:long", 0, -1), list(values).subList(100, 900));
    }

    void hashes() {
        Map<String, String> want = new HashMap<>(), found = new HashMap<>();
        for (int i = 0; i < 1000; i++) want.put("field:" + i, "value " + i);
        equal("HMSET 1,000", api.hmset("h:big", want), "OK");
        equal("HGETALL 1,000", api.hgetAll("h:big"), want);
        String cursor = "0";
        do {
            var page = api.hscan("h:big", cursor);
            for (var entry : page.getResult()) found.put(entry.getKey(), entry.getValue());
            cursor = Library.cursor(page);
        } while (!cursor.equals("0"));
        equal("HSCAN", found, want);
        equal("HSET", api.hset("h", "a", "1"), 1L);
        equal("HSET again", api.hset("h", "a", "2"), 0L);
        equal("HSETNX", api.hsetnx("h", "a", "9"), 0L);
        equal("HMSET", api.hmset("h", Map.of("b", "two", "c", "")), "OK");
        equal("HGET", api.hget("h", "a"), "2");
        equal("HGET of nothing", api.hget("h", "x"), null);
        equal("HGETALL", api.hgetAll("h"), Map.of("a", "2", "b", "two", "c", ""));
        equal("HGETALL of nothing", api.hgetAll("h:none"), Map.of());
        equal("HMGET", api.hmget("h", "c", "x", "b"), list("", null, "two"));
        equal("HINCRBY", api.hincrBy("h", "a", 40), 42L);
        equal("HINCRBYFLOAT", api.hincrByFloat("h", "f", 1.5), 1.5);
        equal("HLEN", api.hlen("h"), 4L);
        equal("HEXISTS", api.hexists("h", "f"), true);
        equal("HKEYS", api.hkeys("h"), set("a", "b", "c", "f"));
        equal("HVALS", api.hvals("h"), set("42", "two", "", "1.5"));
        equal("HDEL", api.hdel("h", "a", "f", "nope"), 2L);
        equal("OBJECT ENCODING hash", node.objectEncoding("h"), "listpack");
        equal("OBJECT ENCODING big hash", node.objectEncoding("h:big"), "hashtable");
    }

    void sets() {
        equal("SADD", api.sadd("{t}a", "a", "b", "c", "d", "a"), 4L);
        equal("SADD again", api.sadd("{t}b", "c", "d", "e"), 3L);
        equal("SMEMBERS", api.smembers("{t}a"), set("a", "b", "c", "d"));
        equal("SCARD", api.scard("{t}a"), 4L);
        equal("SISMEMBER", api.sismember("{t}a", "a"), true);
        equal("SISMEMBER of nothing", api.sismember("{t}a", "z"), false);
        equal("SINTER", api.sinter("{t}a", "{t}b"), set("c", "d"));
        equal("SUNION", api.sunion("{t}a", "{t}b"), set("a", "b", "c", "d", "e"));
        equal("SDIFF", api.sdiff("{t}a", "{t}b"), set("a", "b"));
        equal("SINTERSTORE", api.sinterstore("{t}i", "{t}a", "{t}b"), 2L);
        equal("SUNIONSTORE", api.sunionstore("{t}u", "{t}a", "{t}b"), 5L);
        equal("SDIFFSTORE", api.sdiffstore("{t}d", "{t}a", "{t}b"), 2L);
        equal("SMEMBERS stored", api.smembers("{t}d"), set("a", "b"));
        equal("SMOVE", api.smove("{t}a", "{t}b", "a"), 1L);
        equal("SREM", api.srem("{t}b", "a", "zzz"), 1L);
        Set<String> all = new HashSet<>(), found = new HashSet<>();
        for (int i = 0; i < 1000; i++) all.add("m" + i);
        equal("SADD 1,000", api.sadd("t:big", all.toArray(new String[0])), 1000L);
        String cursor = "0";
        do {
            var page = api.sscan("t:big", cursor);
            found.addAll(page.getResult());
            cursor = Library.cursor(page);
        } while (!cursor.equals("0"));
        equal("SSCAN", found, all);
        Collection<String> some = api.srandmember("t:big", 20);
        holds("SRANDMEMBER 20", new HashSet<>(some).size() == 20 && all.containsAll(some));
        equal("SRANDMEMBER -20", api.srandmember("t:big", -20).size(), 20);
        Set<String> taken = api.spop("t:big", 300);
        holds("SPOP 300", taken.size() == 300 && all.containsAll(taken));
        all.removeAll(taken);
        equal("SPOP leaves the rest", api.smembers("t:big"), all);
        holds("SPOP", all.contains(api.spop("t:big")));
        equal("SADD integers", api.sadd("t:int", "1", "2", "3"), 3L);
        equal("OBJECT ENCODING intset", node.objectEncoding("t:int"), "intset");
    }

    void sortedSets() {
        Map<String, Double> scores = new HashMap<>(Map.of("a", 1.0, "b", 2.5, "c", 3.0, "d", Double.POSITIVE_INFINITY));
        equal("ZADD", api.zadd("{z}a", scores), 4L);
        equal("ZADD NX on a member", Library.zaddNx(api, "{z}a", 9, "a"), 0L);
        equal("ZADD NX", Library.zaddNx(api, "{z}a", -1, "e"), 1L);
        equal("ZSCORE", api.zscore("{z}a", "b"), 2.5);
        equal("ZSCORE of inf", api.zscore("{z}a", "d"), Double.POSITIVE_INFINITY);
        equal("ZSCORE of nothing", api.zscore("{z}a", "nope"), null);
        equal("ZINCRBY", api.zincrby("{z}a", 1.25, "c"), 4.25);
        equal("ZRANGE", api.zrange("{z}a", 0, -1), list("e", "a", "b", "c", "d"));
        List<String> scored = new ArrayList<>();
        for (var tuple : api.zrangeWithScores("{z}a", 0, 2)) scored.add(tuple.getElement() + "=" + tuple.getScore());
        equal("ZRANGE WITHSCORES", scored, list("e=-1.0", "a=1.0", "b=2.5"));
        equal("ZREVRANGE", api.zrevrange("{z}a", 0, 1), list("d", "c"));
        equal("ZRANGEBYSCORE", api.zrangeByScore("{z}a", "(1", "+inf"), list("b", "c", "d"));
        equal("ZRANGEBYSCORE LIMIT", api.zrangeByScore("{z}a", "-inf", "5", 1, 2), list("a", "b"));
        equal("ZCOUNT", api.zcount("{z}a", "1", "(4.25"), 2L);
        equal("ZRANK", api.zrank("{z}a", "a"), 1L);
        equal("ZREVRANK", api.zrevrank("{z}a", "a"), 3L);
        equal("ZRANK of nothing", api.zrank("{z}a", "nope"), null);
        equal("ZCARD", api.zcard("{z}a"), 5L);
        for (String member : "a b c d e f".split(" ")) api.zadd("z:lex", 0, member);
        equal("ZRANGEBYLEX", api.zrangeByLex("z:lex", "(b", "[e"), list("c", "d", "e"));
        equal("ZREVRANGEBYLEX", api.zrevrangeByLex("z:lex", "+", "[e"), list("f", "e"));
        equal("ZLEXCOUNT", api.zlexcount("z:lex", "-", "(c"), 2L);
        equal("ZREMRANGEBYLEX", api.zremrangeByLex("z:lex", "[a", "[b"), 2L);
        api.zadd("{z}b", new HashMap<>(Map.of("b", 10.0, "q", 20.0)));
        ZParams weighted = new ZParams().weights(2, 1).aggregate(ZParams.Aggregate.MAX);
        equal("ZUNIONSTORE", api.zunionstore("{z}u", weighted, "{z}b", "{z}a"), 6L);
        equal("ZUNIONSTORE score", api.zscore("{z}u", "q"), 40.0);
        equal("ZINTERSTORE", api.zinterstore("{z}i", "{z}a", "{z}b"), 1L);
        equal("ZINTERSTORE score", api.zscore("{z}i", "b"), 12.5);
        equal("ZREM", api.zrem("{z}a", "a", "nope"), 1L);
        equal("ZREMRANGEBYSCORE", api.zremrangeByScore("{z}a", "-inf", "+inf"), 4L);
        equal("EXISTS once empty", api.exists("{z}a"), false);
        Map<String, Double> big = new HashMap<>(), found = new HashMap<>();
        for (int i = 0; i < 1000; i++) big.put("m" + i, i / 4.0);
        equal("ZADD 1,000", api.zadd("z:big", big), 1000L);
        String cursor = "0";
        do {
            var page = api.zscan("z:big", cursor);
            for (var tuple : page.getResult()) found.put(tuple.getElement(), tuple.getScore());
            cursor = Library.cursor(page);
        } while (!cursor.equals("0"));
        equal("ZSCAN", found, big);
        equal("ZREMRANGEBYRANK", api.zremrangeByRank("z:big", 10, -1), 990L);
    }

    void pipelines() throws Exception {
        Pipeline pipe = node.pipelined();
        List<Response<?>> replies = new ArrayList<>();
        List<Object> got = new ArrayList<>(), want = new ArrayList<>();
        long[] sums = new long[10];
        for (int i = 0; i < 250; i++) {
            replies.add(pipe.set("p:" + i, "value " + i));
            want.add("OK");
            replies.add(pipe.incrBy("p:n:" + i % 10, i));
            want.add(sums[i % 10] += i);
        }
        pipe.sync();
        for (Response<?> reply : replies) got.add(reply.get());
        equal("replies of a pipeline of 500", got, want);
        pipe = node.pipelined();
        want.clear();
        for (int i = 0; i < 500; i++) {
            pipe.get("p:" + i);
            want.add(i < 250 ? "value " + i : null);
        }
        equal("GET of a pipeline of 500", pipe.syncAndReturnAll(), want);
        pipe = node.pipelined();
        pipe.set("p:e", "x");
        Response<Long> push = pipe.lpush("p:e", "y");
        Response<String> get = pipe.get("p:e");
        pipe.sync();
        fails("error in a pipeline", WRONG_TYPE, push::get);
        equal("pipeline goes on after an error", get.get(), "x");
    }

    void errors() throws Exception {
        api.set("e", "text");
        fails("LPUSH on a string", WRONG_TYPE, () -> api.lpush("e", "x"));
        fails("HGET on a string", WRONG_TYPE, () -> api.hget("e", "f"));
        fails("INCR of text", "ERR value is not an integer or out of range", () -> api.incr("e"));
        fails("SETEX 0", "ERR invalid expire time in 'setex' command", () -> api.setex("e", 0, "x"));
        fails("LSET of nothing", "ERR no such key", () -> api.lset("e:none", 1, "x"));
        equal("GET after the errors", api.get("e"), "text");
    }

    long connectionsReceived() {
        for (String line : node.info("stats").split("\r\n"))
            if (line.startsWith("total_connections_received:")) return Long.parseLong(line.split(":")[1]);
        throw new IllegalStateException("INFO stats has no total_connections_received");
    }

    /** Halcyon's nodes answer as Sentinels do. */
    void sentinels() throws Exception {
        if (Library.configGet(node, "sentinel-port").startsWith("not one setting")) return;
        int port;
        try (java.net.ServerSocket probe = new java.net.ServerSocket(0)) {
            port = probe.getLocalPort();
        }
        equal("CONFIG SET sentinel-port", node.configSet("sentinel-port", "" + port), "OK");
        try (JedisSentinelPool pool = new JedisSentinelPool("mymaster", Collections.singleton(HOST + ":" + port))) {
            equal("the primary", pool.getCurrentHostMaster(), new HostAndPort(HOST, this.port));
            try (Jedis jedis = pool.getResource()) {
                equal("SET by way of a Sentinel", jedis.set("by-sentinel", "x"), "OK");
                equal("GET by way of a Sentinel", jedis.get("by-sentinel"), "x");
            }
        }
        equal("CONFIG SET sentinel-port 0", node.configSet("sentinel-port", "0"), "OK");
    }

    void pool() {
        api.set("pool", "0");
        long before = connectionsReceived();
        for (int i = 0; i < 200; i++) api.set("pool", "" + i);
        equal("connections opened by 200 commands in a row", connectionsReceived() - before, 0L);
        equal("GET after 200 commands", api.get("pool"), "199");
        try (JedisPool pool = new JedisPool(new JedisPoolConfig(), HOST, port)) {
            for (int i = 0; i < 200; i++) {
                try (Jedis jedis = pool.getResource()) {
                    jedis.incr("pool");
                }
            }
            equal("connections opened by a JedisPool", connectionsReceived() - before, 1L);
            equal("GET after the pool", api.get("pool"), "399");
        }
        if (!cluster) {
            node.select(3);
            node.set("d", "x");
            equal("GET in database 3", node.get("d"), "x");
            equal("GET in database 0", api.get("d"), null);
            equal("DEL in database 3", node.del("d"), 1L);
            node.select(0);
        }
    }

    void concurrency() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Integer>> results = new ArrayList<>();
        try (JedisPool pool = new JedisPool(new JedisPoolConfig(), HOST, port)) {
            for (int t = 0; t < THREADS; t++) {
                int thread = t;
                results.add(threads.submit(() -> {
                    int good = 0;
                    for (int i = 0; i < 100; i++) {
                        String key = "c:" + thread + ":" + i, value = thread + "/" + i, got;
                        if (cluster) {
                            api.set(key, value);
                            got = api.get(key);
                            api.incr("c:total");
                        } else {
                            try (Jedis jedis = pool.getResource()) {
                                jedis.set(key, value);
                                got = jedis.get(key);
                                jedis.incr("c:total");
                            }
                        }
                        if (value.equals(got)) good++;
                    }
                    return good;
                }));
            }
            for (Future<Integer> result : results) equal("replies seen by a thread", result.get(), 100);
        } finally {
            threads.shutdownNow();
        }
        equal("INCR from all threads", api.get("c:total"), "" + THREADS * 100);
    }

    void topology() throws Exception {
        // A node that was never told its address may leave the host empty.
        Set<String> nodes = Library.nodes(api);
        holds("nodes discovered: " + nodes, nodes.size() == 1 && nodes.iterator().next().endsWith(":" + port));
        List<Object> slots = node.clusterSlots();
        equal("CLUSTER SLOTS", slots.size(), 1);
        equal("CLUSTER SLOTS range", ((List<?>) slots.get(0)).subList(0, 2), Arrays.asList(0L, 16383L));
        equal("CLUSTER KEYSLOT", node.clusterKeySlot("{user1000}.following"), 3443L);
        holds("CLUSTER INFO", node.clusterInfo().contains("cluster_state:ok\r\n"));
        holds("CLUSTER NODES", node.clusterNodes().contains("myself,master"));
        equal("SET with a hash tag", api.set("{user1000}.x", "1"), "OK");
        equal("CLUSTER COUNTKEYSINSLOT", node.clusterCountKeysInSlot(3443), 1L);
        equal("CLUSTER GETKEYSINSLOT", node.clusterGetKeysInSlot(3443, 10), list("{user1000}.x"));
        fails("MGET over slots", "CROSSSLOT Keys in request don't hash to the same slot", () -> node.mget("a", "b"));
    }

    void server() {
        String info = node.info();
        holds("INFO tcp_port", info.contains("\r\ntcp_port:" + port + "\r\n"));
        holds("INFO redis_mode", info.contains("\r\nredis_mode:" + (cluster ? "cluster" : "standalone") + "\r\n"));
        equal("CLIENT GETNAME without one", node.clientGetname(), null);
        equal("CLIENT SETNAME", node.clientSetname("halcyon-test"), "OK");
        equal("CLIENT GETNAME", node.clientGetname(), "halcyon-test");
        equal("CLIENT LIST", node.clientList().split(" name=halcyon-test ", -1).length, 2);
        equal("CONFIG GET", Library.configGet(node, "port"), "" + port);
        holds("TIME", Long.parseLong(node.time().get(0)) > 1_600_000_000L);
        api.set("server", "1");
        holds("DBSIZE with data", node.dbSize() > 0);
        equal("FLUSHDB", node.flushDB(), "OK");
        equal("DBSIZE after FLUSHDB", node.dbSize(), 0L);
    }

    public static void main(String[] arguments) throws Exception {
        Daily daily = new Daily();
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i].equals("--port")) daily.port = Integer.parseInt(arguments[++i]);
            else if (arguments[i].equals("--cluster")) daily.cluster = true;
            else throw new IllegalArgumentException(arguments[i]);
        }
        String jar = Jedis.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        String version = jar.replaceAll(".*/jedis-(.*)\\.jar", "$1");
        String name = "client jedis " + version + (daily.cluster ? " cluster" : " alone");
        daily.group("connect", () -> {
            daily.node = new Jedis(HOST, daily.port);
            daily.api = daily.cluster ? Library.cluster(HOST, daily.port) : Library.alone(HOST, daily.port);
            daily.connect();
        });
        if (daily.passed > 0) {
            daily.group("strings", daily::strings);
            daily.group("keys", daily::keys);
            daily.group("lists", daily::lists);
            daily.group("hashes", daily::hashes);
            daily.group("sets", daily::sets);
            daily.group("sorted_sets", daily::sortedSets);
            daily.group("pipelines", daily::pipelines);
            daily.group("errors", daily::errors);
            daily.group("newer", () -> Library.newer(daily));
            daily.group("pool", daily::pool);
            daily.group("concurrency", daily::concurrency);
            if (daily.cluster) daily.group("topology", daily::topology);
            if (daily.cluster) daily.group("sentinels", daily::sentinels);
            daily.group("server", daily::server);
        }
        boolean good = daily.failures.isEmpty() && daily.passed > 0;
        System.out.println(name + ": " + (good ? daily.passed + " checks passed" : daily.failures.size() + " checks FAILED"));
        System.exit(good ? 0 : 1);
    }
}
