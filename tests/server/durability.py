"""Replies that wait for the disk: which do, which do not, and that what was answered is there after a crash.

Nothing here is timed: DEBUG JOURNAL-PAUSE stops the writing of the files, and INFO tells when so many replies wait.
"""

import select
import threading

from harness import Error, Server, check, encode, expect, wait_until
from persistence import directory

DEBUG = ["--enable-debug-command", "yes", "--save", ""]
EVERYSEC = ["--appendonly", "yes", "--appendfsync", "everysec"]
ALWAYS = ["--appendonly", "yes", "--appendfsync", "always"]
NEVER = ["--appendonly", "yes", "--appendfsync", "no"]


def info(client, name):
    text = client.call("INFO", "persistence").decode()
    return next(line.split(":", 1)[1] for line in text.split("\r\n") if line.startswith(name + ":"))


def ready(server):
    """A client of a server that has loaded."""
    client = server.connect()
    wait_until(lambda: info(client, "loading") == "0", "the data to be loaded")
    return client


def pause(client, is_paused=True):
    expect(client.call("DEBUG", "JOURNAL-PAUSE", int(is_paused)), "OK")


def wait_for_waiting(client, replies):
    wait_until(lambda: int(info(client, "replies_waiting")) == replies, f"{replies} replies that wait")


def is_silent(client):
    """True if nothing has come; to be asked when INFO has told that the reply waits."""
    return not client.buffer and not select.select([client.socket], [], [], 0)[0]


@check
def replies_wait_for_the_sync():
    """with appendfsync always, writes and reads of what they wrote wait for the sync, nothing else does, one sync frees all"""
    with Server(*DEBUG, *ALWAYS) as server, ready(server) as admin:
        clients = [server.connect() for _ in range(8)]
        expect(clients[0].call("SET", "settled", "1"), "OK")
        pause(admin)
        for number, client in enumerate(clients[:4]):
            client.send(encode("SET", f"key{number}", number))
        wait_for_waiting(admin, 4)
        clients[4].send(encode("GET", "key0"))
        clients[5].send(encode("MULTI") + encode("GET", "settled") + encode("INCR", "n") + encode("EXEC"))
        wait_for_waiting(admin, 6)
        clients[6].send(encode("DBSIZE"))
        wait_for_waiting(admin, 7)
        # All that wait are silent, but for what came before; who does not wait is answered now.
        for reply in ["OK", "QUEUED", "QUEUED"]:
            expect(clients[5].reply(), reply)
        assert all(is_silent(client) for client in clients[:7]), "a reply came too early"
        for _ in range(100):
            expect(clients[7].call("GET", "settled"), b"1")
            expect(clients[7].call("EXISTS", "none"), 0)
        assert info(admin, "connections_waiting") == "7", info(admin, "connections_waiting")
        executed, synced = int(info(admin, "log_offset_executed")), int(info(admin, "log_offset_synced"))
        assert synced < executed, (synced, executed)
        pause(admin, False)
        for client in clients[:4]:
            expect(client.reply(), "OK")
        expect(clients[4].reply(), b"0")
        expect(clients[5].reply(), [b"1", 1])
        expect(clients[6].reply(), 6)
        wait_for_waiting(admin, 0)
        expect(info(admin, "connections_waiting"), "0")
        expect(info(admin, "log_offset_synced"), info(admin, "log_offset_executed"))


@check
def what_was_answered_survives():
    """after a kill -9, with appendfsync always, all that was answered is there"""
    with directory() as path:
        acknowledged = {}

        def write(client, number):
            # Pipelined; the kill ends it somewhere.
            try:
                for round_number in range(10_000):
                    words = [encode("SET", f"{number}:{round_number}:{at}", at) for at in range(16)]
                    client.send(b"".join(words))
                    for _ in range(16):
                        expect(client.reply(), "OK")
                        acknowledged[number] = acknowledged.get(number, 0) + 1
            except (OSError, AssertionError):
                pass

        server = Server(*DEBUG, *ALWAYS, directory=path)
        with server, ready(server) as admin:
            threads = [threading.Thread(target=write, args=(server.connect(), number)) for number in range(20)]
            for thread in threads:
                thread.start()
            wait_until(lambda: sum(acknowledged.values()) > 20_000, "enough writes")
            pause(admin)
            server.process.kill()
            for thread in threads:
                thread.join()
            server.process.wait()
            server.process.returncode = 0
        with Server(*DEBUG, *ALWAYS, directory=path) as server, ready(server) as client:
            for number, count in acknowledged.items():
                client.send(b"".join(encode("EXISTS", f"{number}:{at // 16}:{at % 16}") for at in range(count)))
                found = [client.reply() for _ in range(count)]
                expect(found, [1] * count, f"what client {number} was told is written")


@check
def each_connection_chooses():
    """CLIENT DURABILITY: one connection waits, and causes the sync that nobody else asks for; the others do not wait"""
    for mode in [EVERYSEC, NEVER]:
        with Server(*DEBUG, *mode) as server, ready(server) as admin, server.connect() as strict, server.connect() as other:
            expect(strict.call("CLIENT", "DURABILITY", "always"), "OK")
            expect(strict.call("SET", "first", "1"), "OK")
            pause(admin)
            strict.send(encode("SET", "mine", "1"))
            wait_for_waiting(admin, 1)
            expect(other.call("SET", "theirs", "1"), "OK")
            expect(other.call("GET", "mine"), b"1")
            assert is_silent(strict), "a reply came too early"
            pause(admin, False)
            expect(strict.reply(), "OK")
            assert int(info(admin, "log_offset_synced")) > 0
            pause(admin)
            expect(other.call("SET", "theirs", "2"), "OK")
            strict.send(encode("GET", "theirs"))
            wait_for_waiting(admin, 1)
            pause(admin, False)
            expect(strict.reply(), b"2")
            expect(strict.call("CLIENT", "DURABILITY", "default"), "OK")
            pause(admin)
            expect(strict.call("SET", "mine", "2"), "OK")
            pause(admin, False)
    with Server(*DEBUG, *ALWAYS) as server, ready(server) as admin, server.connect() as client:
        expect(client.call("CLIENT", "DURABILITY", "none"), "OK")
        pause(admin)
        expect(client.call("SET", "mine", "1"), "OK")
        expect(client.call("GET", "mine"), b"1")
        pause(admin, False)


@check
def what_is_pushed_waits():
    """a keyspace event, an invalidation and the reply of a client that waited come when what they tell of is safe"""
    with Server(*DEBUG, *ALWAYS, "--notify-keyspace-events", "KEA") as server, ready(server) as admin:
        with server.connect() as writer, server.connect() as listener, server.connect() as blocked:
            expect(listener.call("SUBSCRIBE", "__keyevent@0__:lpush")[0], b"subscribe")
            blocked.send(encode("BLPOP", "queue", 0))
            wait_until(lambda: b"blocked_clients:1" in admin.call("INFO", "clients"), "a client that waits")
            pause(admin)
            writer.send(encode("LPUSH", "queue", "a"))
            wait_for_waiting(admin, 3)
            assert all(is_silent(client) for client in [writer, listener, blocked]), "something came too early"
            pause(admin, False)
            expect(writer.reply(), 1)
            expect(listener.reply(), [b"message", b"__keyevent@0__:lpush", b"queue"])
            expect(blocked.reply(), [b"queue", b"a"])


@check
def waiting_replies_are_bounded():
    """replies that wait count as unsent: a client that pipelines on holds a bounded amount of memory"""
    with Server(*DEBUG, *ALWAYS) as server, ready(server) as admin, server.connect() as client:
        pause(admin)
        count, value = 2_000, b"x" * 10_000
        client.call("CLIENT", "SETNAME", "greedy")
        client.send(encode("SET", "key", value) + encode("GET", "key") * count)

        def unsent_bytes():
            lines = admin.call("CLIENT", "LIST").decode().splitlines()
            line = next(line for line in lines if "name=greedy" in line)
            return int(next(word for word in line.split() if word.startswith("omem=")).split("=")[1])

        wait_until(lambda: unsent_bytes() > 200_000, "replies to pile up")
        last = 0
        while (now := int(info(admin, "replies_waiting"))) != last:
            last = now
        assert unsent_bytes() < 2_000_000, unsent_bytes()
        pause(admin, False)
        expect(client.reply(), "OK")
        for _ in range(count):
            expect(client.reply(), value)


@check
def a_stalled_disk_holds_writers_up():
    """with the files stalled the log fills up to its bound: writers wait, others are served, and then all goes on"""
    with Server(*DEBUG, *EVERYSEC) as server, ready(server) as admin:
        pause(admin)
        before = server.resident_bytes()
        value, count = b"x" * 1_000_000, 200
        writers = [server.connect() for _ in range(4)]

        def write(client):
            for _ in range(count // len(writers)):
                client.send(encode("SET", "key", value))

        threads = [threading.Thread(target=write, args=(client,)) for client in writers]
        for thread in threads:
            thread.start()
        bound = 64 << 20
        wait_until(lambda: int(info(admin, "log_offset_executed")) >= bound, "the log to be full")
        with server.connect() as client:
            client.send(encode("SET", "small", "1"))
            for _ in range(1_000):
                expect(admin.call("GET", "none"), None)
            expect(admin.call("STRLEN", "key"), len(value))
            assert is_silent(client), "a write went on without room"
            executed = int(info(admin, "log_offset_executed"))
            assert executed < bound + 8 * len(value), executed
            grown = server.resident_bytes() - before
            assert grown < bound + (64 << 20), grown
            pause(admin, False)
            expect(client.reply(), "OK")
        for client in writers:
            for _ in range(count // len(writers)):
                expect(client.reply(), "OK")
        for thread in threads:
            thread.join()
        assert int(info(admin, "log_offset_executed")) > count * len(value)


@check
def promises_need_files():
    """durability always and everysec are refused without append-only files, at the start, too"""
    with Server(*DEBUG) as server, server.connect() as client:
        for mode in ["always", "everysec"]:
            reply = client.call("CLIENT", "DURABILITY", mode)
            assert isinstance(reply, Error) and "needs append-only files" in reply, reply
        reply = client.call("CONFIG", "SET", "durability", "always")
        assert isinstance(reply, Error) and "needs append-only files" in reply, reply
        expect(client.call("CONFIG", "SET", "appendonly", "yes", "durability", "always"), "OK")
        expect(client.call("SET", "key", "1"), "OK")
        wait_until(lambda: info(client, "log_offset_synced") == info(client, "log_offset_executed"), "the sync")
        pause(client)
        with server.connect() as writer:
            writer.send(encode("SET", "key", "2"))
            wait_for_waiting(client, 1)
            assert is_silent(writer)
            pause(client, False)
            expect(writer.reply(), "OK")
