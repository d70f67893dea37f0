"""Following a primary: real servers under a mixed load, cut links, chains, changes of roles, restarts, TLS."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from certificates import Certificates
from harness import PATIENCE_S, Client, Error, Server, Skip, check, encode, expect, free_port, wait_until
from persistence import directory, fill

PEERS = os.path.expanduser("~/.cache/halcyon-peers/bin")
REDIS = "redis-server"
REDIS_8 = os.path.join(PEERS, "redis8-server")
VALKEY_9 = os.path.join(PEERS, "valkey9-server")
QUIET = ["--save", "", "--repl-diskless-sync-delay", "0"]


class Peer:
    """A real server; a context manager that ends it."""

    def __init__(self, program, *arguments):
        self.program = shutil.which(program)
        if not self.program:
            raise Skip(f"there is no {program}")
        self.directory = tempfile.mkdtemp(prefix="halcyon-peer-")
        self.port = free_port()
        self.arguments = arguments

    def __enter__(self):
        command = [self.program, "--port", self.port, "--bind", "127.0.0.1", "--dir", self.directory, *QUIET,
                   "--enable-debug-command", "yes", *self.arguments]
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline and self.process.poll() is None, f"{self.program} did not start"
            with contextlib.suppress(OSError), self.connect() as client:
                if client.call("PING") in ("PONG", Error("NOAUTH Authentication required.")):
                    return self
            time.sleep(0.02)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def connect(self):
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S))


def halcyon(*arguments, **options):
    return Server("--enable-debug-command", "yes", *QUIET, *arguments, **options)


def info(client, section="replication"):
    text = client.call("INFO", section)
    assert not isinstance(text, Error), text
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


def follow(client, primary):
    expect(client.call("REPLICAOF", "127.0.0.1", primary.port), "OK")
    wait_for_link(client)


def wait_for_link(client):
    wait_until(lambda: is_up(client), "the link to the primary")


def is_up(client):
    text = client.call("INFO", "replication")
    return not isinstance(text, Error) and b"master_link_status:up" in text


def wait_for_all(primary, replica):
    """Waits until the replica has everything that the primary has now."""
    offset = int(info(primary)["master_repl_offset"])
    wait_until(lambda: int(info(replica)["slave_repl_offset"]) >= offset, "the replica to catch up")


def state(client, databases=6):
    """All data by value."""
    found = {}
    for db in range(databases):
        expect(client.call("SELECT", db), "OK")
        for key in sorted(client.call("KEYS", "*")):
            found[db, key] = value(client, key)
    client.call("SELECT", 0)
    return found


def value(client, key):
    kind = client.call("TYPE", key)
    if kind == "string":
        content = client.call("GET", key)
    elif kind == "list":
        content = client.call("LRANGE", key, 0, -1)
    elif kind == "set":
        content = sorted(client.call("SMEMBERS", key))
    elif kind == "zset":
        flat = client.call("ZRANGE", key, 0, -1, "WITHSCORES")
        # Versions write the same number in different digits.
        content = [(member, float(score)) for member, score in zip(flat[::2], flat[1::2])]
    elif kind == "hash":
        flat = client.call("HGETALL", key)
        content = sorted(zip(flat[::2], flat[1::2]))
    else:
        content = [client.call("XRANGE", key, "-", "+"), groups(client, key)]
    end = client.call("PEXPIRETIME", key)
    return kind, content, end


def groups(client, key):
    """Of each group its name, its place and what its consumers have not acknowledged."""
    found = []
    for group in client.call("XINFO", "GROUPS", key):
        facts = dict(zip(group[::2], group[1::2]))
        name = facts[b"name"]
        pending = [entry[:2] + entry[3:] for entry in client.call("XPENDING", key, name, "-", "+", 1000)]
        found.append((name, facts[b"last-delivered-id"], pending))
    return found


def expect_same(primary, replica, databases=6):
    # What is about to end does so before it is looked at.
    time.sleep(0.2)
    wait_for_all(primary, replica)
    wanted, got = state(primary, databases), state(replica, databases)
    differ = [key for key in {*wanted, *got} if wanted.get(key) != got.get(key)]
    assert not differ, f"{len(differ)} of {len(wanted)} keys differ: {[(key, wanted.get(key), got.get(key)) for key in differ[:2]]}"


SCRIPT = "redis.call('INCR', KEYS[1]) redis.call('RPUSH', KEYS[2], redis.call('TIME')[1]) return 1"


def random_commands(rng, hash_ends):
    """A few commands that belong together."""
    number, other = rng.randrange(200), rng.randrange(200)
    member, text = rng.randrange(50), "x" * rng.randrange(200)
    choice = rng.randrange(22 if hash_ends else 20)
    return [
        [["SET", f"s:{number}", text]],
        [["APPEND", f"s:{number}", text]],
        [["SET", f"e:{number}", text, "PX", rng.randrange(1, 60)]],
        [["INCRBYFLOAT", f"f:{number}", rng.random()]],
        [["RPUSH", f"l:{number}", text, member], ["LTRIM", f"l:{number}", -20, -1]],
        [["LMOVE", f"l:{number}", f"l:{other}", "LEFT", "RIGHT"]],
        [["SADD", f"t:{number}", member, member + 1], ["SPOP", f"t:{other}"]],
        [["SPOP", f"t:{number}", 3]],
        [["SUNIONSTORE", f"t:{number}", f"t:{other}", "t:1"]],
        [["ZADD", f"z:{number}", rng.random(), member], ["ZPOPMIN", f"z:{other}"]],
        [["HSET", f"h:{number}", member, text], ["HINCRBYFLOAT", f"h:{number}", "n", 0.1]],
        [["HDEL", f"h:{number}", member]],
        [["XADD", f"x:{number % 9}", "MAXLEN", "~", 50, "*", "f", text]],
        [["XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", "x:g", ">"], ["XADD", "x:g", "*", "f", member]],
        [["MULTI"], ["INCR", f"c:{number}"], ["INCR", f"c:{other}"], ["EXEC"]],
        [["EVAL", SCRIPT, 2, f"c:{number}", f"l:{other}"]],
        [["DEL", f"s:{number}", f"l:{other}"]],
        [["RENAME", f"z:{number}", f"z:{other}"], ["EXPIRE", f"z:{other}", 1000]],
        [["SELECT", rng.randrange(4)]],
        [["MSET", f"s:{number}", 1, f"s:{other}", 2], ["SETRANGE", f"s:{number}", 5, "y"]],
        [["HSET", f"h:{number}", "e", 1], ["HPEXPIRE", f"h:{number}", rng.randrange(1, 60), "FIELDS", 1, "e"]],
        [["HEXPIRE", f"h:{number}", 1000, "FIELDS", 1, member]],
    ][choice]


def load(primary, seed, rounds, hash_ends=False):
    """A mixed load from one connection, 200 commands at a time."""
    rng = random.Random(seed)
    with primary.connect() as client:
        client.call("XGROUP", "CREATE", "x:g", "g", "0", "MKSTREAM")
        for _ in range(rounds):
            commands = []
            while len(commands) < 200:
                commands += random_commands(rng, hash_ends)
            client.send(b"".join(encode(*command) for command in commands))
            for _ in commands:
                client.reply()


@contextlib.contextmanager
def under_load(primary, rounds=60, **options):
    """Two connections write meanwhile; at the end, both are done."""
    writers = [threading.Thread(target=load, args=(primary, seed, rounds), kwargs=options) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    yield
    for writer in writers:
        writer.join()


def follows(program, hash_ends, *arguments):
    with Peer(program, *arguments) as peer, halcyon() as server, peer.connect() as primary, server.connect() as replica:
        fill(primary)
        with under_load(peer, hash_ends=hash_ends):
            follow(replica, peer)
        load(peer, 3, 20, hash_ends)
        expect_same(primary, replica)
        expect(len(replica.call("FUNCTION", "LIST")), 1, "libraries of functions")
        if program == REDIS:
            expect(replica.call("DEBUG", "DIGEST"), primary.call("DEBUG", "DIGEST"))
        expect(info(replica)["role"], "slave")
        assert replica.call("SET", "k", "v").startswith("READONLY"), "a replica takes no writes"


@check
def replica_of_redis_7():
    """Halcyon follows Redis 7.0 from the first byte on, while that is written to"""
    follows(REDIS, False)


@check
def replica_of_redis_7_by_disk():
    """Halcyon follows a Redis 7.0 that makes its file on the disk first"""
    follows(REDIS, False, "--repl-diskless-sync", "no")


@check
def replica_of_redis_8():
    """Halcyon follows Redis 8.0, fields with ends among its data"""
    follows(REDIS_8, True)


@check
def replica_of_valkey_9():
    """Halcyon follows Valkey 9.1"""
    follows(VALKEY_9, False)


@check
def replica_of_halcyon():
    """Halcyon follows Halcyon"""
    with halcyon() as first, halcyon() as second, first.connect() as primary, second.connect() as replica:
        fill(primary)
        with under_load(first, hash_ends=True):
            follow(replica, first)
        expect_same(primary, replica)
        expect(replica.call("DEBUG", "DIGEST"), primary.call("DEBUG", "DIGEST"))


@check
def replica_loads_as_it_comes():
    """repl-diskless-load on-empty-db: what comes is loaded without a file"""
    for by_disk in ("yes", "no"):
        with (Peer(REDIS, "--repl-diskless-sync", by_disk) as peer, halcyon("--repl-diskless-load", "on-empty-db") as server,
              peer.connect() as primary, server.connect() as replica):
            fill(primary)
            follow(replica, peer)
            expect_same(primary, replica)
            assert not [name for name in os.listdir(server.directory) if name.endswith(".rdb")], "a file was left"


@check
def replica_after_a_cut():
    """a link that is cut goes on where it was, again and again, and no transaction is ever half there"""
    with Peer(REDIS) as peer, halcyon() as server, peer.connect() as primary, server.connect() as replica:
        primary.call("CONFIG", "SET", "repl-backlog-size", "64mb")
        follow(replica, peer)
        with under_load(peer, rounds=150):
            for _ in range(5):
                time.sleep(0.1)
                primary.call("CLIENT", "KILL", "TYPE", "replica")
                wait_until(lambda: not is_up(replica) or int(info(primary, "stats")["sync_partial_ok"]) > 0, "the cut")
                wait_for_link(replica)
        expect_same(primary, replica)
        stats = info(primary, "stats")
        expect(stats["sync_full"], "1", "full synchronizations")
        assert int(stats["sync_partial_ok"]) >= 1, stats


@check
def replica_between_two_redis():
    """Redis -> Halcyon -> Redis: what the first is told, the last has"""
    with (Peer(REDIS) as first, halcyon() as middle, Peer(REDIS) as last, first.connect() as primary,
          middle.connect() as relay, last.connect() as end):
        fill(primary)
        follow(relay, first)
        with under_load(first):
            follow(end, middle)
        expect_same(primary, relay)
        expect_same(primary, end)
        expect(end.call("DEBUG", "DIGEST"), primary.call("DEBUG", "DIGEST"))
        expect(info(end)["master_replid"], info(primary)["master_replid"], "the stream's name")


@check
def replica_and_primary_change_places():
    """the way to Halcyon and back: each server goes on with the other's stream, without all data anew"""
    # A PING between the last look and the change of roles would be Redis's alone.
    quiet = ("--repl-ping-replica-period", "3600")
    with Peer(REDIS, *quiet) as peer, halcyon(*quiet) as server, peer.connect() as redis, server.connect() as ours:
        fill(redis)
        load(peer, 1, 10)
        follow(ours, peer)
        wait_for_all(redis, ours)
        expect(ours.call("REPLICAOF", "NO", "ONE"), "OK")
        expect(ours.call("SET", "written", "here"), "OK")
        follow(redis, server)
        load(server, 2, 10)
        expect_same(ours, redis)
        stats = info(ours, "stats")
        expect((stats["sync_full"], stats["sync_partial_ok"]), ("0", "1"), "synchronizations of Redis")
        expect(redis.call("REPLICAOF", "NO", "ONE"), "OK")
        expect(redis.call("SET", "written", "there"), "OK")
        follow(ours, peer)
        load(peer, 3, 10)
        expect_same(redis, ours)
        stats = info(redis, "stats")
        expect((stats["sync_full"], stats["sync_partial_ok"]), ("1", "1"), "synchronizations of Halcyon")
        expect(ours.call("GET", "written"), b"there")


@check
def replica_takes_over():
    """FAILOVER hands over from Redis to Halcyon, and back, with nothing lost and nothing sent anew"""
    with Peer(REDIS) as peer, halcyon() as server, peer.connect() as redis, server.connect() as ours:
        fill(redis)
        follow(ours, peer)
        load(peer, 1, 5)
        wait_until(lambda: "state=online" in info(redis).get("slave0", ""), "the replica to be online")
        expect(redis.call("FAILOVER", "TO", "127.0.0.1", server.port), "OK")
        wait_until(lambda: info(ours)["role"] == "master" and is_up(redis), "the change of roles")
        expect(ours.call("SET", "after", 1), "OK")
        load(server, 2, 5)
        expect_same(ours, redis)
        expect(info(ours, "stats")["sync_full"], "0", "full synchronizations")
        expect(ours.call("FAILOVER"), "OK")
        wait_until(lambda: info(redis)["role"] == "master" and is_up(ours), "the way back")
        expect(info(ours)["master_failover_state"], "no-failover")
        expect(redis.call("SET", "back", 1), "OK")
        load(peer, 3, 5)
        expect_same(redis, ours)
        expect(info(redis, "stats")["sync_full"], "1", "full synchronizations")


@check
def replica_restarts():
    """a replica that saved goes on with the stream from there when it starts again"""
    with Peer(REDIS, "--repl-backlog-size", "64mb") as peer, directory() as path, peer.connect() as primary:
        fill(primary)
        with halcyon(directory=path) as server, server.connect() as replica:
            follow(replica, peer)
            load(peer, 1, 10)
            expect_same(primary, replica)
            expect(replica.call("SAVE"), "OK")
        load(peer, 2, 10)
        with halcyon("--replicaof", "127.0.0.1", peer.port, directory=path) as server, server.connect() as replica:
            wait_for_link(replica)
            expect_same(primary, replica)
        stats = info(primary, "stats")
        expect((stats["sync_full"], stats["sync_partial_ok"]), ("1", "1"))


@check
def replica_files_begin_within_a_database():
    """a replica's append-only files begin in the database that its primary's stream is in"""
    with Peer(REDIS) as peer, directory() as path, peer.connect() as primary:
        with halcyon("--appendonly", "yes", directory=path) as server, server.connect() as replica:
            wait_until(lambda: info(replica, "persistence")["loading"] == "0", "the files to be made")
            follow(replica, peer)
            wait_until(lambda: is_rewritten(replica), "the files after the synchronization")
            primary.call("SELECT", 3)
            primary.call("SET", "before", 1)
            wait_for_all(primary, replica)
            assert not isinstance(replica.call("BGREWRITEAOF"), Error)
            wait_until(lambda: is_rewritten(replica), "the rewrite")
            primary.call("SET", "after", 2)
            wait_for_all(primary, replica)
            expect(server.terminate(), 0, "exit code")
        with halcyon("--appendonly", "yes", directory=path) as server, server.connect() as client:
            wait_until(lambda: info(client, "persistence")["loading"] == "0", "the data to be loaded")
            client.call("SELECT", 3)
            expect([client.call("GET", "before"), client.call("GET", "after")], [b"1", b"2"])


def is_rewritten(client):
    fields = info(client, "persistence")
    return fields["aof_rewrite_in_progress"] == "0" and fields["aof_rewrite_scheduled"] == "0"


@check
def replica_over_tls():
    """tls-replication: the link is TLS, and a primary that another authority signed is refused"""
    with Certificates() as certificates:
        tls_port = free_port()
        options = certificates.options("server")
        with halcyon("--tls-port", tls_port, *options) as first, first.connect() as primary:
            fill(primary)
            with halcyon("--tls-replication", "yes", *options) as second, second.connect() as replica:
                expect(replica.call("REPLICAOF", "127.0.0.1", tls_port), "OK")
                wait_for_link(replica)
                load(first, 1, 5)
                expect_same(primary, replica)
        stranger = certificates.options("stranger")
        with halcyon("--tls-port", tls_port, *stranger) as first:
            with halcyon("--tls-replication", "yes", *options) as second, second.connect() as replica:
                expect(replica.call("REPLICAOF", "127.0.0.1", tls_port), "OK")
                wait_until(lambda: "TLS handshake with MASTER failed" in second.log(), "the refusal")
                expect(info(replica)["master_link_status"], "down")


@check
def replica_needs_a_password():
    """masterauth and masteruser, and what the log says without them"""
    with Peer(REDIS, "--requirepass", "secret") as peer, halcyon() as server, server.connect() as replica:
        with peer.connect() as primary:
            expect(primary.call("AUTH", "secret"), "OK")
            expect(primary.call("SET", "k", "v"), "OK")
        expect(replica.call("REPLICAOF", "127.0.0.1", peer.port), "OK")
        wait_until(lambda: "NOAUTH" in server.log(), "the refusal")
        expect(replica.call("CONFIG", "SET", "masteruser", "default", "masterauth", "secret"), "OK")
        wait_for_link(replica)
        expect(replica.call("GET", "k"), b"v")


@check
def replica_without_its_primary():
    """a primary that is gone: stale data are served or refused as the directive says, writes never"""
    with halcyon("--replica-serve-stale-data", "no") as server, server.connect() as replica:
        with Peer(REDIS) as peer, peer.connect() as primary:
            primary.call("SET", "k", "v")
            follow(replica, peer)
            expect(replica.call("GET", "k"), b"v")
        wait_until(lambda: not is_up(replica), "the loss of the primary")
        assert replica.call("GET", "k").startswith("MASTERDOWN"), "stale data were served"
        expect(replica.call("ROLE")[3], b"connect")
        expect(replica.call("CONFIG", "SET", "replica-serve-stale-data", "yes"), "OK")
        expect(replica.call("GET", "k"), b"v")
        expect(replica.call("REPLICAOF", "NO", "ONE"), "OK")
        expect(replica.call("SET", "k", "w"), "OK")


@check
def replica_leaves_ends_to_its_primary():
    """keys past their end are hidden on a replica, and go when the primary deletes them"""
    with Peer(REDIS) as peer, halcyon() as server, peer.connect() as primary, server.connect() as replica:
        primary.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        follow(replica, peer)
        primary.call("SET", "k", "v", "PX", 100)
        wait_for_all(primary, replica)
        wait_until(lambda: replica.call("GET", "k") is None, "the end")
        expect(replica.call("DBSIZE"), 1)
        primary.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        wait_until(lambda: replica.call("DBSIZE") == 0, "the primary's DEL")
