import java.util.*;
import redis.clients.jedis.*;

/** What Jedis 2 spells differently from other versions. */
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
        return page.getStringCursor();
    }

    static String setNxEx(Api api, String key, String value, int seconds) {
        return api.set(key, value, "NX", "EX", seconds);
    }

    static Long zaddNx(Api api, String key, double score, String member) {
        return api.zadd(key, score, member, redis.clients.jedis.params.sortedset.ZAddParams.zAddParams().nx());
    }

    static String configGet(Jedis node, String name) {
        List<String> config = node.configGet(name);
        return config.size() == 2 && config.get(0).equals(name) ? config.get(1) : "not one setting: " + config;
    }

    /** Nothing here is newer than Jedis 2: one more read. */
    static void newer(Daily check) {
        check.equal("EXISTS of one key", check.api.exists("newer:none"), false);
    }
}
