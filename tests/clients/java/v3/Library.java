import java.util.*;
import redis.clients.jedis.*;

/** What Jedis 3 spells differently from other versions. */
class Library {
    static class OneConnection extends Jedis implements Api {
        OneConnection(String host, int port) {
            super(host, port);
        }
    }

    static class Cluster extends JedisCluster implements Api {
        Cluster(HostAndPort node) {
            super(node);
        }
    }

    static Api alone(String host, int port) {
        return new OneConnection(host, port);
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
        return api.set(key, value, redis.clients.jedis.params.SetParams.setParams().nx().ex(seconds));
    }

    static Long zaddNx(Api api, String key, double score, String member) {
        return api.zadd(key, score, member, redis.clients.jedis.params.ZAddParams.zAddParams().nx());
    }

    static String configGet(Jedis node, String name) {
        List<String> config = node.configGet(name);
        return config.size() == 2 && config.get(0).equals(name) ? config.get(1) : "not one setting: " + config;
    }

    /** Commands that came after Jedis 2. */
    static void newer(Daily check) {
        check.equal("SET for GETDEL", check.api.set("newer", "x"), "OK");
        check.equal("GETDEL", check.api.getDel("newer"), "x");
        check.equal("UNLINK of nothing", check.api.unlink("newer"), 0L);
        check.equal("RPUSH", check.api.rpush("newer:l", "a", "b", "c"), 3L);
        check.equal("LPOS", check.api.lpos("newer:l", "c"), 2L);
        check.equal("LPOP 2", check.api.lpop("newer:l", 2), List.of("a", "b"));
    }
}
