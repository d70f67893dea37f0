"""MIGRATE between processes: Halcyon and real servers, both ways, in pairs of any two, over TLS, into what hangs."""

import contextlib
import threading
import time

from certificates import Certificates
from harness import Error, Server, check, expect, free_port, wait_until
from peers import Peer, programs

KINDS = [
    ["SET", "text", "v"], ["SET", "number", "17"], ["SET", "long", "x" * 300_000], ["RPUSH", "list", "a", "b"],
    ["SADD", "ints", "1", "2"], ["SADD", "set", "a", "b"], ["ZADD", "zset", "1", "a", "2.5", "b"],
    ["HSET", "hash", "f", "v"], ["XADD", "stream", "5-1", "f", "v"], ["XGROUP", "CREATE", "stream", "g", "0"],
    ["SADD", "many", *(f"member:{number}" for number in range(20_000))],
    ["ZADD", "ranked", *(word for number in range(20_000) for word in (str(number), f"member:{number}"))],
]
KEYS = ["text", "number", "long", "list", "ints", "set", "zset", "hash", "stream", "many", "ranked"]


def halcyon(*arguments):
    return Server("--save", "", "--enable-debug-command", "yes", *arguments)


def fill(client):
    for words in KINDS:
        client.call(*words)
    expect(client.call("PEXPIRE", "list", "100000"), 1)


def move(source, target, *options):
    return source.call("MIGRATE", "127.0.0.1", target.port, "", "0", "5000", *options, "KEYS", *KEYS)


@check
def migrate_pairs():
    """MIGRATE: values of every type go to Halcyon, redis-server and newer ones, and come back as they were"""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(halcyon())
        others = [stack.enter_context(halcyon())]
        others += [stack.enter_context(Peer(path)) for path in programs().values()]
        near = home.connect()
        fill(near)
        digests = {key: near.call("DEBUG", "DIGEST-VALUE", key) for key in KEYS}
        for other in others:
            far = other.connect()
            expect(move(near, other), "OK")
            expect(near.call("DBSIZE"), 0)
            expect(far.call("DBSIZE"), len(KEYS))
            assert 0 < far.call("PTTL", "list") <= 100_000
            expect(move(far, home, "COPY"), "OK")
            expect(move(far, home), Error("ERR Target instance replied with error: BUSYKEY Target key name already exists."))
            expect(move(far, home, "REPLACE"), "OK")
            expect(far.call("DBSIZE"), 0)
            expect({key: near.call("DEBUG", "DIGEST-VALUE", key) for key in KEYS}, digests)


@check
def migrate_passwords():
    """MIGRATE: AUTH and AUTH2; a kept connection remembers its database and is closed after ten seconds"""
    with halcyon() as home, halcyon("--requirepass", "secret") as other:
        near = home.connect()
        words = ["MIGRATE", "127.0.0.1", other.port, "a", "3", "2000"]
        expect(near.call("SET", "a", "1"), "OK")
        expect(near.call(*words), Error("ERR Target instance replied with error: NOAUTH Authentication required."))
        expect(near.call(*words, "AUTH", "secret"), "OK")
        expect(near.call("SET", "a", "2"), "OK")
        expect(near.call(*words, "REPLACE", "AUTH2", "default", "secret"), "OK")
        far = other.connect()
        expect(far.call("AUTH", "secret"), "OK")
        expect(far.call("SELECT", "3"), "OK")
        expect(far.call("GET", "a"), b"2")
        assert b"cmdstat_select:calls=2," in far.call("INFO", "commandstats"), "one for MIGRATE, one of this client"
        assert b"migrate_cached_sockets:1\r\n" in near.call("INFO", "stats")
        idle = lambda: b"migrate_cached_sockets:0\r\n" in near.call("INFO", "stats")  # noqa: E731
        wait_until(idle, "the connection to be closed")


@check
def migrate_hanging():
    """MIGRATE: a server that hangs, or is gone, costs its client the timeout and nobody else anything"""
    path = next(iter(programs().values()))
    with halcyon() as home, Peer(path) as other:
        near, beside = home.connect(), home.connect()
        words = ["MIGRATE", "127.0.0.1", other.port, "a", "0", "300"]
        for value in ("1", "2"):
            expect(near.call("SET", "a", value), "OK")
            expect(near.call(*words, "REPLACE"), "OK")
        expect(near.call("SET", "a", "3"), "OK")
        other.stop()
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(near.call(*words, "REPLACE")))
        waiting.start()
        while waiting.is_alive():
            expect(beside.call("GET", "a"), b"3")
        expect(answers, [Error("IOERR error or timeout reading to target instance")])
        other.go_on()
        expect(near.call(*words, "REPLACE"), "OK")
        # The connection that is kept has died meanwhile: another one is made.
        other.process.kill()
        other.process.wait()
        expect(near.call("SET", "a", "4"), "OK")
        expect(near.call(*words), Error("IOERR error or timeout writing to target instance"))
        expect(near.call("GET", "a"), b"4")


@check
def migrate_under_writes():
    """MIGRATE: counters that others go on incrementing lose nothing, wherever they are"""
    with halcyon() as home, halcyon() as other:
        near, far = home.connect(), other.connect()
        counted, is_over = [0, 0], threading.Event()

        def increment(number):
            with home.connect() as client:
                while not is_over.is_set():
                    client.call("INCRBY", "counter", "1")
                    counted[number] += 1

        threads = [threading.Thread(target=increment, args=[number]) for number in range(2)]
        for thread in threads:
            thread.start()
        moved, deadline = 0, time.monotonic() + 2
        while time.monotonic() < deadline:
            reply = near.call("MIGRATE", "127.0.0.1", other.port, "counter", "0", "5000")
            if reply == "OK":
                moved += int(far.call("GETDEL", "counter"))
            else:
                expect(reply, "NOKEY")
        is_over.set()
        for thread in threads:
            thread.join()
        left = int(near.call("GET", "counter") or 0)
        expect(moved + left, sum(counted))
        assert moved > 0


@check
def migrate_tls():
    """MIGRATE: over TLS where tls-cluster says so"""
    with Certificates() as certificates:
        options = certificates.options("server")
        tls_port = free_port()
        with halcyon(*options, "--tls-cluster", "yes") as home:
            with halcyon(*options, "--tls-port", str(tls_port)) as other:
                near, far = home.connect(), other.connect()
                expect(near.call("SET", "a", "1"), "OK")
                expect(near.call("MIGRATE", "127.0.0.1", tls_port, "a", "0", "2000"), "OK")
                expect(far.call("GET", "a"), b"1")
                expect(near.call("SET", "a", "1"), "OK")
                refused = near.call("MIGRATE", "127.0.0.1", other.port, "a", "0", "500")
                expect(refused, Error("IOERR error or timeout connecting to the client"))
