"""Real servers follow Halcyon: full and partial synchronization, slow replicas, waiting for acknowledgements."""

import contextlib
import re
import threading
import time

from harness import Error, Server, check, encode, expect, wait_until
from peers import Peer, info, programs, wait_for_link
from persistence import fill as fill_with_all

OPTIONS = ["--save", "", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", 0]


def fill(client):
    """Every type, but no score that later versions write with fewer digits: their digests would differ."""
    fill_with_all(client)
    client.call("DEL", "zset:large")
    for number in range(300):
        client.call("ZADD", "zset:large", number, f"member:{number}")


class Load:
    """Writes of every type on some connections, all of which a replica can repeat, until it is ended."""

    def __init__(self, server, connections=2):
        self.stopping = threading.Event()
        self.rounds = 0
        self.threads = [threading.Thread(target=self.run, args=(server, n), daemon=True) for n in range(connections)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def run(self, server, number):
        with server.connect() as client:
            turn = 0
            while not self.stopping.is_set():
                turn += 1
                commands = [
                    ["SELECT", turn % 3],
                    ["SET", f"string:{turn % 500}", f"{number}:{turn}"],
                    ["APPEND", "appended", turn % 10],
                    ["INCR", "counter"],
                    ["RPUSH", "list", turn],
                    ["LPUSH", f"list:{turn % 50}", "x" * (turn % 300)],
                    ["LTRIM", "list", -100, -1],
                    ["SADD", "set", turn % 1000],
                    ["SREM", "set", (turn * 7) % 1000],
                    ["HSET", "hash", f"field:{turn % 300}", turn],
                    ["HDEL", "hash", f"field:{(turn * 3) % 300}"],
                    ["ZADD", "zset", turn, f"member:{turn % 700}"],
                    ["ZINCRBY", "zset", 5, f"member:{turn % 100}"],
                    ["MULTI"],
                    ["SET", f"one:{turn % 20}", turn],
                    ["SET", f"two:{turn % 20}", turn],
                    ["EXEC"],
                    ["DEL", f"string:{(turn * 11) % 500}"],
                    ["SETRANGE", f"long:{turn % 4}", (turn * 997) % 20_000, "y" * 100],
                ]
                client.send(b"".join(encode(*command) for command in commands))
                for command in commands:
                    reply = client.reply()
                    assert not isinstance(reply, Error), (command, reply)
                self.rounds += 1


def wait_for_offset(primary, replica):
    """Until the replica has everything."""
    offset = int(info(primary, "replication")["master_repl_offset"])
    wait_until(lambda: int(info(replica, "replication")["slave_repl_offset"]) >= offset, "a replica that caught up")


def expect_same(primary, replica, about):
    wait_for_offset(primary, replica)
    expect(replica.call("DEBUG", "DIGEST"), primary.call("DEBUG", "DIGEST"), f"digest of {about}")


@contextlib.contextmanager
def followed(path, *options, peer_options=()):
    """A server with data, and a real server that follows it, with a connection to each."""
    with Server(*OPTIONS, *options) as server, server.connect() as client:
        fill(client)
        with Peer(path, "--replicaof", "127.0.0.1", server.port, *peer_options) as peer, peer.connect() as replica:
            wait_for_link(replica)
            yield server, client, peer, replica


@check
def primary_is_followed():
    """redis-server 7.0, Redis 8 and Valkey 9 follow under load, with the size told or the end marked"""
    for name, path in programs().items():
        for diskless in ("yes", "no"):
            with Server(*OPTIONS, "--repl-diskless-sync", diskless) as server, server.connect() as client:
                fill(client)
                with Load(server) as load:
                    with Peer(path, "--replicaof", "127.0.0.1", server.port) as peer, peer.connect() as replica:
                        wait_for_link(replica)
                        seen = load.rounds
                        wait_until(lambda: load.rounds > seen + 20, "more load")
                        load.end()
                        expect_same(client, replica, f"{name}, diskless {diskless}")
                        expect(client.call("WAIT", 1, 5_000), 1)
                        shown = info(client, "replication")
                        line = rf"ip=127\.0\.0\.1,port={peer.port},state=online,offset=\d+,lag=[01]"
                        assert re.fullmatch(line, shown["slave0"]), shown["slave0"]
                        expect((shown["connected_slaves"], shown["role"]), ("1", "master"))
                        role = client.call("ROLE")
                        expect((role[0], role[2][0][:2]), (b"master", [b"127.0.0.1", str(peer.port).encode()]))
                        listed = client.call("CLIENT", "LIST", "TYPE", "replica").decode()
                        assert listed.count("\n") == 1 and " flags=S " in listed, listed
                        expect(info(client, "stats")["sync_full"], "1")


@check
def primary_link_cut():
    """a link that is cut again and again under load: each time the stream goes on where it stopped"""
    for name, path in programs().items():
        with followed(path, "--repl-backlog-size", "64mb") as (server, client, peer, replica):
            with Load(server) as load:
                for cut in range(1, 6):
                    expect(client.call("CLIENT", "KILL", "TYPE", "replica"), 1)
                    seen = load.rounds
                    wait_until(lambda: info(client, "stats")["sync_partial_ok"] == str(cut), "a stream that goes on")
                    wait_until(lambda: load.rounds > seen + 5, "more load")
                peer.stop()
                time.sleep(0.3)
                expect(client.call("CLIENT", "KILL", "TYPE", "replica"), 1)
                time.sleep(0.3)
                peer.go_on()
                wait_until(lambda: info(client, "stats")["sync_partial_ok"] == "6", "a stream that goes on")
            expect_same(client, replica, name)
            expect(info(client, "stats")["sync_full"], "1")


@check
def primary_synchronizes_many():
    """several replicas that come at once share one snapshot; one that is lost meanwhile harms nobody"""
    path = next(iter(programs().values()))
    with Server(*OPTIONS[:-1], 1) as server, server.connect() as client, contextlib.ExitStack() as stack:
        fill(client)
        with Load(server):
            peers = [stack.enter_context(Peer(path, "--replicaof", "127.0.0.1", server.port)) for _ in range(4)]
            wait_until(lambda: info(client, "replication")["connected_slaves"] == "4", "four replicas")
            peers.pop().close()
            replicas = [stack.enter_context(peer.connect()) for peer in peers]
            for replica in replicas:
                wait_for_link(replica)
        for replica in replicas:
            expect_same(client, replica, "one of several")
        assert server.log().count("Starting BGSAVE for SYNC") <= 2, server.log()
        wait_until(lambda: info(client, "replication")["connected_slaves"] == "3", "three replicas")
        expect(client.call("WAIT", 3, 5_000), 3)


class FakeReplica:
    """A connection that speaks a replica's part, as slowly as the check wants."""

    def __init__(self, server, *options):
        self.client = server.connect()
        for option, value in options:
            expect(self.client.call("REPLCONF", option, value), "OK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.socket.close()

    def line(self):
        """The next line that is not empty."""
        while True:
            while b"\n" not in self.client.buffer:
                piece = self.client.socket.recv(1 << 16)
                assert piece, "the primary closed the connection"
                self.client.buffer += piece
            line, self.client.buffer = self.client.buffer.split(b"\n", 1)
            if line.strip():
                return line.strip()

    def full_sync(self):
        """Asks for everything; the id and the offset."""
        self.client.send(encode("PSYNC", "?", -1))
        word, stream, offset = self.line().split()
        expect(word, b"+FULLRESYNC")
        return stream.decode(), int(offset)

    def payload(self):
        """The payload, whole."""
        line = self.line()
        if not line.startswith(b"$EOF:"):
            return self.client.read(int(line[1:]))
        mark, payload = line[5:], self.client.buffer
        while not payload.endswith(mark):
            piece = self.client.socket.recv(1 << 20)
            assert piece, "the primary closed the connection"
            payload += piece
        self.client.buffer = b""
        return payload[: -len(mark)]

    def command(self):
        """The next command of the stream that is no PING."""
        while (command := self.client.reply()) == [b"PING"]:
            pass
        return command

    def acknowledge(self, offset):
        self.client.send(encode("REPLCONF", "ACK", offset))


@check
def primary_answers_handshakes():
    """the replies to REPLCONF and PSYNC, empty lines meanwhile, payloads alone, without keys, with functions"""
    with Server(*OPTIONS[:-1], 2) as server, server.connect() as client:
        fill(client)
        with FakeReplica(server, ("listening-port", 1234), ("capa", "eof"), ("capa", "psync2")) as replica:
            replica.client.send(encode("PSYNC", "?", -1))
            # It waits for others that may come: an empty line a second says so.
            expect(replica.client.read(1), b"\n")
            word, stream, offset = replica.line().split()
            assert word == b"+FULLRESYNC" and len(stream) == 40 and int(offset) >= 0, (word, stream, offset)
            payload = replica.payload()
            assert payload.startswith(b"REDIS0010") and b"string:299" in payload, payload[:20]
            client.call("SET", "after", "sync")
            time.sleep(0.3)
            replica.client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"the stream came unasked: {replica.client.socket.recv(100)}")
            replica.client.socket.settimeout(30)
            replica.acknowledge(int(offset))
            expect(replica.command(), [b"SELECT", b"0"])
            expect(replica.command(), [b"SET", b"after", b"sync"])
        end = int(info(client, "replication")["master_repl_offset"])
        with FakeReplica(server) as replica:
            replica.client.send(encode("PSYNC", stream.decode(), int(offset) + 1))
            expect(replica.line(), b"+CONTINUE")
            expect(replica.command(), [b"SELECT", b"0"])
        with FakeReplica(server, ("capa", "psync2")) as replica:
            replica.client.send(encode("PSYNC", stream.decode().upper(), end + 1))
            expect(replica.line(), b"+CONTINUE " + stream)
            # A command that is answered would spoil the stream.
            replica.client.send(encode("PING"))
            assert replica.client.at_end()
        for asked in [(stream.decode(), end + 2), ("0" * 40, 1)]:
            with FakeReplica(server, ("capa", "eof")) as replica:
                replica.client.send(encode("PSYNC", *asked))
                assert replica.line().startswith(b"+FULLRESYNC " + stream)
        expect(info(client, "stats")["sync_partial_err"], "2")
        expect(info(client, "stats")["sync_partial_ok"], "2")
        with FakeReplica(server, ("capa", "eof"), ("rdb-only", 1)) as replica:
            replica.client.send(encode("SYNC"))
            assert b"string:299" in replica.payload()
            assert replica.client.at_end()
        for filtered, has_functions in [("functions", True), ("", False)]:
            options = [("capa", "eof"), ("rdb-only", 1), ("rdb-filter-only", filtered)]
            with FakeReplica(server, *options) as replica:
                replica.full_sync()
                payload = replica.payload()
                assert b"string:299" not in payload and (b"register_function" in payload) == has_functions
        with FakeReplica(server, ("rdb-filter-only", "functions")) as replica:
            expect(replica.client.call("PSYNC", "?", -1), "ERR Filtered replica requires EOF capability")


@check
def primary_sync_is_bounded():
    """while a replica is sent the snapshot slowly, 150 MB are written: memory stays bounded, and the sync ends"""
    value = b"v" * 100_000
    with Server(*OPTIONS, "--repl-diskless-sync", "no") as server, server.connect() as client:
        fill(client)
        for number in range(200):
            client.call("SET", f"kept:{number}", value)
        with FakeReplica(server) as replica:
            stream, offset = replica.full_sync()
            line = replica.line()
            before = server.resident_bytes()
            for number in range(1_500):
                expect(client.call("SET", f"key:{number % 10}", value), "OK")
            growth_bytes = server.resident_bytes() - before
            assert growth_bytes < 80 << 20, f"grew by {growth_bytes >> 20} MB"
            replica.client.read(int(line[1:]))
            expect(replica.command(), [b"SELECT", b"0"])
            for number in range(1_500):
                expect(replica.command(), [b"SET", f"key:{number % 10}".encode(), value])
            replica.acknowledge(int(info(client, "replication")["master_repl_offset"]))
            expect(client.call("SET", "last", 1), "OK")
            expect(replica.command(), [b"SET", b"last", b"1"])


@check
def primary_cuts_slow_replicas_off():
    """a replica that does not read is cut off at its limit of unsent bytes; the others do not notice"""
    value = b"v" * 100_000
    limit = ["--client-output-buffer-limit", "replica", "20mb", 0, 0, "--repl-backlog-disk-size", 0]
    path = next(iter(programs().values()))
    with followed(path, *limit) as (server, client, _, replica):
        with FakeReplica(server) as slow:
            stream, offset = slow.full_sync()
            slow.payload()
            slow.acknowledge(offset)
            before = server.resident_bytes()
            wait_until(lambda: info(client, "replication")["connected_slaves"] == "2", "two replicas")
            for number in range(600):
                expect(client.call("SET", f"key:{number % 10}", value), "OK")
                if number % 20 == 0:
                    # So that the other replica does not fall behind, too.
                    assert client.call("WAIT", 1, 30_000) >= 1
            wait_until(lambda: info(client, "replication")["connected_slaves"] == "1", "one to be cut off")
            growth_bytes = server.resident_bytes() - before
            assert growth_bytes < 60 << 20, f"grew by {growth_bytes >> 20} MB"
        expect_same(client, replica, "the other replica")
        expect(info(client, "stats")["client_output_buffer_limit_disconnections"], "1")


@check
def primary_wait():
    """WAIT and WAITAOF count replicas, end when these acknowledge, and tell how many did when patience ends"""
    for name, path in programs().items():
        with followed(path, peer_options=["--appendonly", "yes"]) as (server, client, peer, replica):
            expect(client.call("WAIT", 0, 0), 1, f"{name} WAIT without a write")
            for number in range(20):
                expect(client.call("SET", "k", number), "OK")
                expect(client.call("WAIT", 1, 30_000), 1, f"{name} WAIT")
            expect(client.call("WAIT", 2, 100), 1, f"{name} WAIT for too many")
            if name != "redis-server":
                expect(client.call("SET", "k", "disk"), "OK")
                expect(client.call("WAITAOF", 0, 1, 30_000), [0, 1], f"{name} WAITAOF")
            peer.stop()
            expect(client.call("SET", "k", "stopped"), "OK")
            expect(client.call("WAIT", 1, 100), 0, f"{name} WAIT for one that is stopped")
            client.send(encode("WAIT", 1, 0))
            time.sleep(0.2)
            peer.go_on()
            expect(client.reply(), 1, f"{name} WAIT for one that comes back")
            client.send(encode("MULTI") + encode("SET", "k", "multi") + encode("WAIT", 1, 0) + encode("EXEC"))
            expect([client.reply() for _ in range(3)], ["OK", "QUEUED", "QUEUED"])
            assert client.reply()[1] in (0, 1)


@check
def primary_needs_replicas():
    """min-replicas-to-write refuses writes while too few replicas follow, or were heard of"""
    path = next(iter(programs().values()))
    refusal = "NOREPLICAS Not enough good replicas to write."
    with followed(path, "--min-replicas-max-lag", 1) as (server, client, peer, _):
        expect(client.call("CONFIG", "SET", "min-replicas-to-write", 1), "OK")
        expect(client.call("SET", "k", 1), "OK")
        expect(info(client, "replication")["min_slaves_good_slaves"], "1")
        expect(client.call("CONFIG", "SET", "min-replicas-to-write", 2), "OK")
        expect(client.call("SET", "k", 1), refusal)
        expect(client.call("GET", "k"), b"1")
        reply = client.call("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "k")
        assert isinstance(reply, Error) and reply.startswith("NOREPLICAS"), reply
        expect(client.call("CONFIG", "SET", "min-replicas-to-write", 1), "OK")
        peer.stop()
        wait_until(lambda: client.call("SET", "k", 1) == refusal, "a replica that is not heard of to count no more")
        peer.go_on()
        wait_until(lambda: client.call("SET", "k", 1) == "OK", "a replica that is heard of to count again")


@check
def primary_times_replicas_out():
    """a replica that is silent is closed after repl-timeout; PINGs come meanwhile; the backlog ends with its time"""
    options = ["--repl-timeout", 2, "--repl-ping-replica-period", 1, "--repl-backlog-ttl", 1]
    with Server(*OPTIONS, *options) as server, server.connect() as client:
        with FakeReplica(server) as replica:
            stream, offset = replica.full_sync()
            replica.payload()
            expect(replica.client.reply(), [b"PING"])
            with contextlib.suppress(AssertionError, ConnectionResetError):
                while True:
                    expect(replica.client.reply(), [b"PING"])
        shown = info(client, "replication")
        expect((shown["repl_backlog_active"], shown["master_replid"]), ("1", stream))
        wait_until(lambda: info(client, "replication")["repl_backlog_active"] == "0", "the backlog to end")
        assert info(client, "replication")["master_replid"] != stream


@check
def primary_serves_outages_from_files():
    """a replica that was away, or too slow, for more than the backlog is served from the append-only files"""
    value, count = b"v" * 10_000, 3_000
    options = ["--appendonly", "yes", "--repl-backlog-size", "64kb", "--auto-aof-rewrite-percentage", 0]
    with Server(*OPTIONS, *options) as server, server.connect() as client:
        wait_until(lambda: client.call("PING") == "PONG", "a server that has loaded its files")
        with FakeReplica(server, ("capa", "psync2")) as replica:
            stream, offset = replica.full_sync()
            replica.payload()
            wait_until(lambda: "state=online" in info(client, "replication")["slave0"], "a replica that is online")
        for number in range(count):
            expect(client.call("SET", f"key:{number}", value), "OK")
        with FakeReplica(server, ("capa", "psync2")) as replica:
            replica.client.send(encode("PSYNC", stream, offset + 1))
            assert replica.line().startswith(b"+CONTINUE ")
            expect(replica.command(), [b"SELECT", b"0"])
            for number in range(count):
                expect(replica.command(), [b"SET", f"key:{number}".encode(), value])
            # From now on it reads nothing, and falls behind. What is not synced yet stays in memory, up to 64 MB.
            before = server.resident_bytes()
            for number in range(5 * count):
                expect(client.call("SET", f"slow:{number % 10}", value), "OK")
            growth_bytes = server.resident_bytes() - before
            assert growth_bytes < 90 << 20, f"grew by {growth_bytes >> 20} MB"
            for number in range(5 * count):
                expect(replica.command(), [b"SET", f"slow:{number % 10}".encode(), value])
            expect(client.call("SET", "last", 1), "OK")
            expect(replica.command(), [b"SET", b"last", b"1"])
        shown = info(client, "stats")
        expect((shown["sync_full"], shown["sync_partial_ok"]), ("1", "1"))
        expect(client.call("WAITAOF", 1, 0, 0), [1, 0])


@check
def primary_outages_of_real_servers():
    """each real server is cut off for far more than the backlog, and goes on without a full synchronization"""
    options = ["--appendonly", "yes", "--repl-backlog-size", "64kb"]
    for name, path in programs().items():
        with followed(path, *options) as (server, client, peer, replica):
            peer.stop()
            expect(client.call("CLIENT", "KILL", "TYPE", "replica"), 1)
            for number in range(1_000):
                expect(client.call("SET", f"key:{number % 100}", b"v" * 10_000), "OK")
            peer.go_on()
            with Load(server) as load:
                seen = load.rounds
                wait_until(lambda: info(client, "stats")["sync_partial_ok"] == "1", "a stream that goes on")
                wait_until(lambda: load.rounds > seen + 5, "more load")
            expect_same(client, replica, name)
            expect(info(client, "stats")["sync_full"], "1")
