"""The data's file: saved, loaded, exchanged with redis-server, and what happens when the disk fails."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

from harness import PATIENCE_S, Client, Error, Server, Skip, check, encode, expect, free_port, run_to_end, wait_until

DEBUG = ["--enable-debug-command", "yes"]
NO_SAVE_POINTS = ["--save", ""]
LIBRARY = "#!lua name=lib\nredis.register_function('five', function() return 5 end)"


@contextlib.contextmanager
def directory():
    path = tempfile.mkdtemp(prefix="halcyon-test-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fill(client):
    """Every type, small and large, in two databases, with ends."""
    for number in range(300):
        client.call("SET", f"string:{number}", "x" * number)
        client.call("HSET", "hash:large", f"field:{number}", number)
        client.call("ZADD", "zset:large", number / 3, f"member:{number}")
        client.call("SADD", "set:large", f"member:{number}")
        client.call("RPUSH", "list:large", "y" * number)
    client.call("SADD", "set:numbers", 1, 2, 300)
    client.call("HSET", "hash:small", "a", 1)
    client.call("SET", "long", "z" * 100_000)
    client.call("XADD", "stream", "1-1", "field", "value")
    client.call("XGROUP", "CREATE", "stream", "group", "0")
    client.call("XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">")
    client.call("XGROUP", "CREATE", "stream:empty", "group", "$", "MKSTREAM")
    client.call("SET", "ends", "later", "EX", 1_000)
    client.call("SELECT", 3)
    client.call("SET", "elsewhere", 12345)
    client.call("SELECT", 0)
    expect(client.call("FUNCTION", "LOAD", LIBRARY), b"lib")


def digest(client):
    reply = client.call("DEBUG", "DIGEST")
    assert not isinstance(reply, Error), reply
    return reply


def wait_until_loaded(client):
    deadline = time.monotonic() + PATIENCE_S
    while b"loading:1" in client.call("INFO", "persistence"):
        assert time.monotonic() < deadline, "still loading"
        time.sleep(0.01)


@contextlib.contextmanager
def redis(path, *options):
    """A real redis-server on that directory; yields a client."""
    program = shutil.which("redis-server")
    if not program:
        raise Skip("there is no redis-server")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", path, "--save", "", *DEBUG, *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                client = Client(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
                if client.call("PING") == "PONG":
                    break
            assert time.monotonic() < deadline and process.poll() is None, "redis-server did not start"
            time.sleep(0.02)
        yield client
    finally:
        process.kill()
        process.wait()


@check
def saved_and_loaded():
    """what SAVE wrote is there after a restart, and in a redis-server on the same directory; and the way back"""
    with directory() as path:
        with Server(*DEBUG, *NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            fill(client)
            before = digest(client)
            expect(client.call("SAVE"), "OK")
        with Server(*DEBUG, *NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)
            expect(client.call("FCALL", "five", 0), 5)
            assert 900 < client.call("TTL", "ends") <= 1_000
        with redis(path) as client:
            expect(digest(client), before)
            expect(client.call("FCALL", "five", 0), 5)
            client.call("SADD", "set:large", "from redis")
            before = digest(client)
            expect(client.call("SAVE"), "OK")
        with Server(*DEBUG, *NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(digest(client), before)


@check
def saved_while_written():
    """BGSAVE keeps the instant it began at, whatever is written meanwhile"""
    with directory() as path:
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            client.send(b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\nk%06d\r\n$3\r\nold\r\n" % n for n in range(100_000)))
            for _ in range(100_000):
                expect(client.reply(), "OK")
            expect(client.call("BGSAVE"), "Background saving started")
            time.sleep(0.02)
            client.send(b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\nk%06d\r\n$3\r\nnew\r\n" % n for n in range(200_000)))
            for _ in range(200_000):
                expect(client.reply(), "OK")
            while b"rdb_bgsave_in_progress:1" in client.call("INFO", "persistence"):
                time.sleep(0.01)
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("DBSIZE"), 100_000)
            for number in range(0, 100_000, 997):
                expect(client.call("GET", f"k{number:06}"), b"old")


@check
def save_slower_than_its_writers():
    """a save that is slower than those who write meanwhile ends, and what is kept for it stays within its bound"""
    count, size = 60_000, 1_000

    def put(numbers, letter):
        client.send(b"".join(encode("SET", f"k{number:06}", letter * size) for number in numbers))
        for _ in numbers:
            expect(client.reply(), "OK")

    def info(section, *names):
        lines = dict(line.split(":", 1) for line in watcher.call("INFO", section).decode().split("\r\n") if ":" in line)
        return [int(lines[name]) for name in names]

    with directory() as path:
        arguments = [*NO_SAVE_POINTS, "--rdb-key-save-delay", 30]
        with Server(*arguments, directory=path) as server, server.connect() as client, server.connect() as watcher:
            for first in range(0, count, 1_000):
                put(range(first, first + 1_000), "a")
            (used,) = info("memory", "used_memory")
            expect(client.call("BGSAVE"), "Background saving started")
            # The instant is fixed by another thread, a moment later.
            wait_until(lambda: info("persistence", "current_save_keys_total") == [count], "the save's instant")
            is_bound_reached, rng = False, random.Random(5)
            while info("persistence", "rdb_bgsave_in_progress") == [1]:
                put([rng.randrange(count) for _ in range(200)], "b")
                kept, bound = info("persistence", "current_cow_size", "current_cow_size_max")
                (used_now,) = info("memory", "used_memory")
                # What is kept when the save ends is told without its bound.
                if bound:
                    assert kept <= bound + 4 * size, (kept, bound)
                    is_bound_reached |= kept > bound - 20 * size
                assert used_now < used * 1.15, (used_now, used)
            assert is_bound_reached, "the writers were slower than the save"
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("DBSIZE"), count)
            for number in range(0, count, 97):
                expect(client.call("GET", f"k{number:06}"), b"a" * size)


@check
def reloaded():
    """DEBUG RELOAD saves and loads everything, and nobody who writes meanwhile loses anything"""
    count = 30_000
    with directory() as path, Server(*DEBUG, *NO_SAVE_POINTS, directory=path) as server:
        with server.connect() as client, server.connect() as writer:
            fill(client)
            before = digest(client)
            expect(client.call("DEBUG", "RELOAD"), "OK")
            expect(digest(client), before)
            expect(client.call("FCALL", "five", 0), 5)
            for number in range(5):
                writer.send(encode("INCR", "counter") * count)
                expect(client.call("DEBUG", "RELOAD"), "OK")
                for wanted in range(count):
                    expect(writer.reply(), number * count + wanted + 1)
            os.remove(os.path.join(path, "dump.rdb"))
            refused = client.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE")
            assert isinstance(refused, Error) and "Error trying to load the RDB dump" in refused, refused
            expect(client.call("GET", "counter"), str(5 * count).encode())
            # As redis-server: who asked for the data to be dropped first has none left.
            assert isinstance(client.call("DEBUG", "RELOAD", "NOSAVE"), Error)
            expect(client.call("DBSIZE"), 0)


@check
def accepted_by_redis_check():
    """redis-check-rdb finds nothing wrong with what SAVE writes"""
    program = shutil.which("redis-check-rdb")
    if not program:
        raise Skip("there is no redis-check-rdb")
    with directory() as path, Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
        name = os.path.join(path, "dump.rdb")
        for written in [fill, lambda client: client.call("CONFIG", "SET", "rdbcompression", "no")]:
            written(client)
            expect(client.call("SAVE"), "OK")
            done = subprocess.run([program, name], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            assert done.returncode == 0 and "RDB looks OK" in done.stdout, done.stdout
        with open(name, "r+b") as file:
            file.truncate(os.path.getsize(name) // 2)
        done = subprocess.run([program, name], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode != 0, "half a file is accepted, too"


@check
def save_points():
    """a save point saves; SIGTERM saves what came after; SHUTDOWN NOSAVE does not"""
    with directory() as path:
        with Server("--save", "1 2", directory=path) as server, server.connect() as client:
            client.call("MSET", "a", 1, "b", 2)
            deadline = time.monotonic() + PATIENCE_S
            while b"rdb_saves:0" in client.call("INFO", "persistence"):
                assert time.monotonic() < deadline, "no save point was reached"
                time.sleep(0.02)
            expect(client.call("SET", "late", 1), "OK")
            expect(server.terminate(), 0)
        with Server("--save", "900 1", directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("EXISTS", "a", "b", "late"), 3)
            client.call("SET", "lost", 1)
            client.send(b"SHUTDOWN NOSAVE\r\n")
            assert client.at_end()
            server.process.wait(timeout=PATIENCE_S)
        with Server(directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("EXISTS", "late", "lost"), 1)


@check
def full_disk():
    """a save that fails is told, stops writes where save points are set, and is forgotten when one succeeds"""
    with directory() as path, Server("--save", "900 1", directory=path) as server, server.connect() as client:
        client.call("SET", "k", "v")
        # Renaming a file over a directory fails on every system.
        os.mkdir(os.path.join(path, "dump.rdb"))
        reply = client.call("SAVE")
        assert isinstance(reply, Error) and "cannot rename" in reply, reply
        refused = client.call("SET", "k", "w")
        assert isinstance(refused, Error) and refused.startswith("MISCONF"), refused
        expect(client.call("GET", "k"), b"v")
        assert b"rdb_last_bgsave_status:err" in client.call("INFO", "persistence")
        refused = client.call("SHUTDOWN")
        assert isinstance(refused, Error) and "SHUTDOWN" in refused, refused
        os.rmdir(os.path.join(path, "dump.rdb"))
        expect(client.call("SAVE"), "OK")
        expect(client.call("SET", "k", "w"), "OK")
        assert sorted(os.listdir(path)) == ["dump.rdb", "log"], os.listdir(path)


@check
def foreign_file():
    """a file of which something belongs to a module or a later version is not called damaged, but named"""
    module = b"\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03"
    cases = [
        (b"REDIS0009\x07\x01k" + module + b"\0\xff" + bytes(8), "ReJSON-RL"),
        (b"REDIS0013\xff" + bytes(8), "version 13"),
        (b"VALKEY081\x17\x01k\0\xff" + bytes(8), "hash of paths"),
    ]
    for content, word in cases:
        with directory() as path:
            with open(os.path.join(path, "dump.rdb"), "wb") as file:
                file.write(content)
            code, lines = run_to_end("--port", free_port(), "--dir", path)
            assert code != 0 and any(word in line and "not damaged" in line for line in lines), (code, lines)
    with directory() as path:
        with open(os.path.join(path, "dump.rdb"), "wb") as file:
            file.write(b"REDIS0009\xf7" + module + b"\x02\x01\0\0\x01k\x01v\xff" + bytes(8))
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            wait_until_loaded(client)
            expect(client.call("GET", "k"), b"v")
            assert "ReJSON-RL" in server.log(), server.log()


@check
def damaged_file():
    """a damaged file is not loaded in part: the server says where it is damaged and ends"""
    with directory() as path:
        with Server(*NO_SAVE_POINTS, directory=path) as server, server.connect() as client:
            fill(client)
            client.call("SAVE")
        name = os.path.join(path, "dump.rdb")
        with open(name, "rb") as file:
            content = file.read()
        # A byte of a key: the file can still be read to its end, and only the checksum tells.
        flipped = bytearray(content)
        flipped[content.index(b"elsewhere")] ^= 0xFF
        for damaged in [content[: len(content) // 2], flipped, b"nothing of ours"]:
            with open(name, "wb") as file:
                file.write(damaged)
            code, lines = run_to_end("--port", free_port(), "--dir", path)
            assert code != 0 and any("dump.rdb" in line for line in lines), (code, lines)
