import redis.clients.jedis.JedisCommands;
import redis.clients.jedis.MultiKeyJedisClusterCommands;

/** What a single connection and the cluster client of Jedis 2 have in common. */
interface Api extends JedisCommands, MultiKeyJedisClusterCommands {
    String set(byte[] key, byte[] value);

    byte[] get(byte[] key);
}
