import java.util.*;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.*;

/** Jedis 2: its cluster client has neither pipelines nor transactions, and waits for nothing between two attempts. */
class Library {
    static final int TIMEOUT_MS = 20_000, ATTEMPTS = 10;
    final JedisCluster client;

    Library(String[] nodes) {
        Set<HostAndPort> places = new HashSet<>();
        for (String node : nodes) places.add(HostAndPort.parseString(node));
        client = new JedisCluster(places, TIMEOUT_MS, TIMEOUT_MS, ATTEMPTS, new GenericObjectPoolConfig());
    }

    void set(String key, String value) {
        client.set(key, value);
    }

    String get(String key) {
        return client.get(key);
    }

    long incr(String key) {
        return client.incr(key);
    }

    long eval(String script, String key) {
        return (Long) client.eval(script, 1, key);
    }

    void mset(String... pairs) {
        client.mset(pairs);
    }

    List<String> mget(String... keys) {
        return client.mget(keys);
    }

    List<String> gets(String... keys) {
        List<String> found = new ArrayList<>();
        for (String key : keys) found.add(client.get(key));
        return found;
    }
}
