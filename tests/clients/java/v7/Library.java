import java.util.*;
import redis.clients.jedis.*;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.ScanResult;

/** What Jedis 7 spells differently from other versions. */
class Library {
    static class Pooled extends JedisPooled implements Api {
        Pooled(String host, int port) {
            super(host, port);
        }
    }

    static class Cluster extends JedisCluster implements Api {
        Cluster(HostAndPort node) {
            super(node);
        }
    }

    static Api alone(String host, int port) {
        return new Pooled(host, port);
    }

    static Api cluster(String host, int port) {
        return new Cluster(new HostAndPort(host, port));
    }

    static Set<String> nodes(Api api) {
        return ((JedisCluster) api).getClusterNodes().keySet();
    }

    static String cursor(ScanResult<?> page) {
        return page.getCursor();
    }

    static String setNxEx(Api api, String key, String value, int seconds) {
        return api.set(key, value, SetParams.setParams().nx().ex(seconds));
    }

    static Long zaddNx(Api api, String key, double score, String member) {
        return api.zadd(key, score, member, ZAddParams.zAddParams().nx());
    }

    static String configGet(Jedis node, String name) {
        Map<String, String> config = node.configGet(name);
        return config.size() == 1 ? config.get(name) : "not one setting: " + config;
    }

    /** Commands that came after Jedis 2, and the clients that came with Jedis 7. */
    static void newer(Daily check) {
        Api api = check.api;
        check.equal("SET for GETDEL", api.set("newer", "x"), "OK");
        check.equal("SET GET", api.setGet("newer", "y"), "x");
        check.equal("GETEX", api.getEx("newer", GetExParams.getExParams().ex(100)), "y");
        check.holds("TTL after GETEX", api.ttl("newer") > 0);
        check.equal("GETDEL", api.getDel("newer"), "y");
        check.equal("RPUSH", api.rpush("{n}l", "a", "b", "c"), 3L);
        check.equal("LPOS", api.lpos("{n}l", "c"), 2L);
        check.equal("LMOVE", api.lmove("{n}l", "{n}m", ListDirection.LEFT, ListDirection.RIGHT), "a");
        check.equal("SADD", api.sadd("{n}s", "a", "b"), 2L);
        check.equal("SMISMEMBER", api.smismember("{n}s", "a", "z"), List.of(true, false));
        check.equal("ZADD", api.zadd("{n}z", Map.of("a", 1.0, "b", 2.0)), 2L);
        check.equal("ZMSCORE", api.zmscore("{n}z", "a", "z"), Arrays.asList(1.0, null));
        check.equal("ZRANGE BYSCORE", api.zrange("{n}z", ZRangeParams.zrangeByScoreParams(2, 9)), List.of("b"));
        check.equal("ZPOPMIN", api.zpopmin("{n}z").getElement(), "a");
        HostAndPort address = new HostAndPort(Daily.HOST, check.port);
        try (UnifiedJedis client = check.cluster ? RedisClusterClient.create(address) : RedisClient.create(address)) {
            AbstractPipeline pipe = client.pipelined();
            List<Response<String>> replies = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                pipe.set("n:" + i, "" + i);
                replies.add(pipe.get("n:" + i));
            }
            pipe.sync();
            int good = 0;
            for (int i = 0; i < 500; i++) good += replies.get(i).get().equals("" + i) ? 1 : 0;
            check.equal("pipeline of the new clients", good, 500);
            pipe.close();
        }
        DefaultJedisClientConfig resp3 = DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
        try (Jedis node = new Jedis(address, resp3)) {
            check.equal("HGETALL in RESP3", node.hset("n:h", "a", "1") == 1 ? node.hgetAll("n:h") : null, Map.of("a", "1"));
            check.equal("ZSCORE in RESP3", node.zscore("{n}z", "b"), 2.0);
        }
    }
}
