import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: locks and their kin are Lua scripts with publish and subscribe. */
public class Locks {
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("PORT"));
        RedissonClient client = Redisson.create(config);
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try {
            lock(client, threads);
            fairLock(client, threads);
            readWriteLock(client);
            semaphore(client, threads);
            latch(client, threads);
            queue(client);
            mapWithExpiry(client);
            rateLimiter(client);
            topic(client);
        } finally {
            threads.shutdownNow();
            client.shutdown();
        }
    }

    private static void check(String name, Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new AssertionError(name + ": " + found + ", expected " + expected);
        }
        System.out.println("redisson: " + name);
    }

    private static void lock(RedissonClient client, ExecutorService threads) throws Exception {
        int[] counter = {0};
        List<Future<?>> running = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            running.add(threads.submit(() -> {
                RLock lock = client.getLock("lock");
                for (int n = 0; n < 50; n++) {
                    lock.lock();
                    try {
                        counter[0]++;
                    } finally {
                        lock.unlock();
                    }
                }
            }));
        }
        for (Future<?> one : running) {
            one.get(60, TimeUnit.SECONDS);
        }
        check("a lock that 8 threads want", counter[0], 400);
        RLock lock = client.getLock("lock");
        lock.lock(300, TimeUnit.MILLISECONDS);
        lock.lock(300, TimeUnit.MILLISECONDS);
        check("held twice", lock.getHoldCount(), 2);
        boolean taken = threads.submit(() -> client.getLock("lock").tryLock(5, 1, TimeUnit.SECONDS)).get();
        check("a lease that ends", taken, true);
    }

    private static void fairLock(RedissonClient client, ExecutorService threads) throws Exception {
        AtomicInteger turns = new AtomicInteger();
        List<Future<?>> running = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            running.add(threads.submit(() -> {
                RLock lock = client.getFairLock("fair");
                lock.lock();
                turns.incrementAndGet();
                lock.unlock();
            }));
        }
        for (Future<?> one : running) {
            one.get(60, TimeUnit.SECONDS);
        }
        check("a fair lock", turns.get(), 4);
    }

    private static void readWriteLock(RedissonClient client) {
        RReadWriteLock both = client.getReadWriteLock("both");
        both.readLock().lock();
        both.readLock().lock();
        both.readLock().unlock();
        both.readLock().unlock();
        both.writeLock().lock();
        both.readLock().lock();
        both.readLock().unlock();
        both.writeLock().unlock();
        check("a lock for readers and writers", both.writeLock().isLocked(), false);
    }

    private static void semaphore(RedissonClient client, ExecutorService threads) throws Exception {
        RSemaphore semaphore = client.getSemaphore("permits");
        semaphore.trySetPermits(2);
        semaphore.acquire(2);
        Future<Boolean> waiting = threads.submit(() -> semaphore.tryAcquire(1, java.time.Duration.ofSeconds(10)));
        Thread.sleep(100);
        semaphore.release();
        check("a semaphore", waiting.get(), true);
    }

    private static void latch(RedissonClient client, ExecutorService threads) throws Exception {
        client.getCountDownLatch("latch").trySetCount(2);
        CountDownLatch passed = new CountDownLatch(1);
        threads.submit(() -> {
            client.getCountDownLatch("latch").await();
            passed.countDown();
            return null;
        });
        client.getCountDownLatch("latch").countDown();
        client.getCountDownLatch("latch").countDown();
        check("a latch", passed.await(10, TimeUnit.SECONDS), true);
    }

    private static void queue(RedissonClient client) throws Exception {
        RBlockingQueue<String> queue = client.getBlockingQueue("queue");
        RDelayedQueue<String> delayed = client.getDelayedQueue(queue);
        delayed.offer("later", 500, TimeUnit.MILLISECONDS);
        queue.offer("now");
        check("a queue", queue.poll(10, TimeUnit.SECONDS), "now");
        check("a delayed queue", queue.poll(10, TimeUnit.SECONDS), "later");
        delayed.destroy();
    }

    private static void mapWithExpiry(RedissonClient client) throws Exception {
        RMapCache<String, Integer> map = client.getMapCache("map");
        map.put("stays", 1);
        map.put("goes", 2, 200, TimeUnit.MILLISECONDS);
        check("a map", map.put("stays", 5) + map.get("stays"), 6);
        Thread.sleep(400);
        check("an entry that ends", map.containsKey("goes"), false);
        map.destroy();
    }

    private static void rateLimiter(RedissonClient client) {
        RRateLimiter limiter = client.getRateLimiter("rate");
        limiter.trySetRate(RateType.OVERALL, 3, 60, RateIntervalUnit.SECONDS);
        check("a rate within its limit", limiter.tryAcquire(3), true);
        check("a rate beyond it", limiter.tryAcquire(1), false);
    }

    private static void topic(RedissonClient client) throws Exception {
        RTopic topic = client.getTopic("topic");
        CountDownLatch heard = new CountDownLatch(3);
        topic.addListener(String.class, (channel, message) -> heard.countDown());
        for (int n = 0; n < 3; n++) {
            topic.publish("message " + n);
        }
        check("a topic", heard.await(10, TimeUnit.SECONDS), true);
    }
}
