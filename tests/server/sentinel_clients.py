"""Clients that ask Sentinels, through a failover: redis-py's and Jedis's, where tests/clients has installed them."""

import contextlib
import os
import subprocess
import tempfile
import threading

from etcd import Etcd
from groups import Shard
from harness import REPOSITORY, Skip, check, expect, free_port, wait_until

CLIENTS = REPOSITORY / "tests/clients/.cache"


class Watched(Shard):
    """A shard whose nodes answer as Sentinels do."""

    def __init__(self, etcd):
        super().__init__(etcd, 2, "--repl-diskless-sync-delay", "0")
        self.sentinels = [free_port() for _ in self.ports]

    def start(self, number, *options):
        return super().start(number, *options, "--sentinel-port", self.sentinels[number])

    def places(self):
        return [f"127.0.0.1:{port}" for port in self.sentinels]


class Program:
    """A client's program: it says a line for each thing that has happened, and ends with `done`."""

    def __init__(self, *command, cwd=None):
        self.process = subprocess.Popen(
            [str(word) for word in command], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, bufsize=1,
        )
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def await_line(self, wanted):
        wait_until(lambda: wanted in self.lines or self.process.poll() is not None, wanted)
        assert wanted in self.lines, "\n".join(self.lines)[-3000:]

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


def goes_through(shard, client, name):
    """The client writes, its primary is killed and then comes back, and hands over in order: the client goes on writing."""
    client.await_line("written 1")
    listening = len(shard.ports)
    for turn, ends in enumerate((kill, kill, terminate), start=2):
        leader = shard.leader()
        other = 1 - leader
        wait_until(lambda wanted=listening: client.lines.count("listening") >= wanted, "a listener at each node")
        ends(shard, leader)
        wait_until(lambda other=other: shard.leader() == other, "another primary")
        client.await_line(f"switch {name} 127.0.0.1 {shard.ports[leader]} 127.0.0.1 {shard.ports[other]}")
        client.tell("write")
        client.await_line(f"written {turn}")
        with shard.servers[other].connect() as probe:
            expect(probe.call("GET", "by-sentinel"), str(turn).encode())
        shard.start(leader)
        listening += 1
        wait_until(lambda: len(shard.record()["in_sync"]) == 2, "both to be in sync")
    client.tell("end")
    client.await_line("done")


def kill(shard, number):
    shard.kill(number)


def terminate(shard, number):
    expect(shard.servers[number].terminate(), 0, "exit code")


PYTHON = '''
import sys, threading, time
import redis
from redis.sentinel import Sentinel

places = [place.rsplit(":", 1) for place in sys.argv[1:]]
places = [(host, int(port)) for host, port in places]
sentinel = Sentinel(places, socket_timeout=5)
primary = sentinel.master_for("mymaster", decode_responses=True)

def listen(host, port):
    while True:
        try:
            listener = redis.Redis(host=host, port=port, decode_responses=True).pubsub()
            listener.subscribe("+switch-master")
            for message in listener.listen():
                if message["type"] == "subscribe":
                    print("listening", flush=True)
                else:
                    print("switch", message["data"], flush=True)
        except redis.ConnectionError:
            time.sleep(0.05)

def write(turn):
    # What master_for raises while there is no primary, or the one it had has died: the next try asks the Sentinels again.
    absorbed = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError)
    for _ in range(600):
        try:
            assert primary.set("by-sentinel", turn) is True
            print("written", turn, flush=True)
            return
        except absorbed:
            time.sleep(0.05)
    raise SystemExit("no primary took a write")

for place in places:
    threading.Thread(target=listen, args=place, daemon=True).start()
write(1)
turn = 1
for line in sys.stdin:
    if line.strip() == "end":
        break
    turn += 1
    write(turn)
print("done", flush=True)
'''


def with_redis_py(version):
    python = CLIENTS / f"python-{version}/bin/python"
    if not os.access(python, os.X_OK):
        raise Skip(f"redis-py {version} is not installed: tests/clients/run.sh redis-py-{version}")
    with Etcd(members=1) as etcd, Watched(etcd) as shard:
        with Program(python, "-c", PYTHON, *shard.places()) as client:
            goes_through(shard, client, "mymaster")


@check
def sentinel_clients_redis_py_4():
    """sentinel: redis-py 4.6 finds the primary after two kills and a hand-over, and is told +switch-master"""
    with_redis_py("4.6")


@check
def sentinel_clients_redis_py_8():
    """sentinel: redis-py 8.1 finds the primary after two kills and a hand-over, and is told +switch-master"""
    with_redis_py("8.1")


# Its pool listens for +switch-master by itself; the listener here says when it came.
JAVA = '''
import java.io.*;
import java.util.*;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.*;

public class Through {
    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void listen(String place) {
        String[] at = place.split(":");
        while (true) {
            try (Jedis jedis = new Jedis(at[0], Integer.parseInt(at[1]), 0)) {
                jedis.subscribe(new JedisPubSub() {
                    public void onSubscribe(String channel, int count) { say("listening"); }
                    public void onMessage(String channel, String message) { say("switch " + message); }
                }, "+switch-master");
            } catch (JedisException gone) {
                try { Thread.sleep(50); } catch (InterruptedException end) { return; }
            }
        }
    }

    static void write(JedisSentinelPool pool, int turn) throws Exception {
        for (int i = 0; i < 600; i++) {
            try (Jedis jedis = pool.getResource()) {
                jedis.set("by-sentinel", "" + turn);
                say("written " + turn);
                return;
            } catch (JedisException none) {
                // Until the pool has heard of the next primary, its connections lead to the one before.
                Thread.sleep(50);
            }
        }
        throw new IllegalStateException("no primary took a write");
    }

    public static void main(String[] places) throws Exception {
        for (String place : places) {
            Thread thread = new Thread(() -> listen(place));
            thread.setDaemon(true);
            thread.start();
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (JedisSentinelPool pool = new JedisSentinelPool("mymaster", new HashSet<>(Arrays.asList(places)))) {
            int turn = 1;
            write(pool, turn);
            for (String line = input.readLine(); line != null && !line.equals("end"); line = input.readLine()) {
                write(pool, ++turn);
            }
        }
        say("done");
        System.exit(0);
    }
}
'''


def with_jedis(version):
    libraries = CLIENTS / f"jedis-{version}"
    jars = sorted(str(path) for path in libraries.glob("**/*.jar"))
    if not jars:
        raise Skip(f"Jedis {version} is not installed: tests/clients/run.sh jedis-{version}")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        source = os.path.join(directory, "Through.java")
        with open(source, "w", encoding="ascii") as file:
            file.write(JAVA)
        path = os.pathsep.join(jars)
        subprocess.run(["javac", "-cp", path, "-d", directory, source], check=True, capture_output=True, timeout=120)
        etcd = stack.enter_context(Etcd(members=1))
        shard = stack.enter_context(Watched(etcd))
        client = Program("java", "-cp", os.pathsep.join([directory, *jars]), "Through", *shard.places())
        goes_through(shard, stack.enter_context(client), "mymaster")


@check
def sentinel_clients_jedis_2():
    """sentinel: Jedis 2.9's pool finds the primary after two kills and a hand-over"""
    with_jedis("2.9.3")


@check
def sentinel_clients_jedis_7():
    """sentinel: Jedis 7.5's pool finds the primary after two kills and a hand-over"""
    with_jedis("7.5.3")
