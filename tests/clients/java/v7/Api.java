import redis.clients.jedis.commands.JedisCommands;

/** What the pooled and the cluster client of Jedis 7 have in common. */
interface Api extends JedisCommands {
    String set(byte[] key, byte[] value);

    byte[] get(byte[] key);
}
