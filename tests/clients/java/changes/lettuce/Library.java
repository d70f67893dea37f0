import io.lettuce.core.*;
import io.lettuce.core.cluster.*;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;

/** lettuce 5 and 7: what changes is looked for every second and whenever a redirection or a broken connection hints at it. */
class Library {
    static final Duration TIMEOUT = Duration.ofSeconds(20);
    final StatefulRedisClusterConnection<String, String> connection;
    final RedisAdvancedClusterCommands<String, String> client;

    Library(String[] nodes) {
        List<RedisURI> places = new ArrayList<>();
        for (String node : nodes) {
            RedisURI place = RedisURI.create("redis://" + node);
            place.setTimeout(TIMEOUT);
            places.add(place);
        }
        RedisClusterClient factory = RedisClusterClient.create(places);
        factory.setOptions(ClusterClientOptions.builder()
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enableAllAdaptiveRefreshTriggers()
                        .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200))
                        .enablePeriodicRefresh(Duration.ofSeconds(1))
                        .build())
                .maxRedirects(40)
                .build());
        connection = factory.connect();
        client = connection.sync();
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
        return client.<Long>eval(script, ScriptOutputType.INTEGER, key);
    }

    void mset(String... pairs) {
        Map<String, String> all = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) all.put(pairs[at], pairs[at + 1]);
        client.mset(all);
    }

    List<String> mget(String... keys) {
        List<String> found = new ArrayList<>();
        for (KeyValue<String, String> each : client.mget(keys)) found.add(each.getValueOrElse(null));
        return found;
    }

    List<String> gets(String... keys) throws Exception {
        List<RedisFuture<String>> replies = new ArrayList<>();
        for (String key : keys) replies.add(connection.async().get(key));
        List<String> found = new ArrayList<>();
        for (RedisFuture<String> reply : replies) found.add(reply.get(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS));
        return found;
    }
}
