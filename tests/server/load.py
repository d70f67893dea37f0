"""Bounds under load: memory per connection, spread over workers, maxmemory."""

import os
import threading
import time

from harness import Error, Server, Skip, check, encode, expect, wait_until

# What one connection that does not read may make the server grow by: marks, pieces, and allocator slack.
GROWTH_BYTES_MAX = 8 << 20
UNREAD_S = 1


def growth_while_unread(server, send):
    """Runs `send` on a thread, reads nothing for a while; returns the largest growth seen and the thread."""
    before = server.resident_bytes()
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    growth_bytes = 0
    ends_s = time.monotonic() + UNREAD_S
    with server.connect() as other:
        while time.monotonic() < ends_s:
            expect(other.call("PING"), "PONG")
            growth_bytes = max(growth_bytes, server.resident_bytes() - before)
            time.sleep(0.01)
    return growth_bytes, sender


def expect_bounded(growth_bytes):
    assert growth_bytes <= GROWTH_BYTES_MAX, f"grew by {growth_bytes} bytes, more than {GROWTH_BYTES_MAX}"


@check
def pipeline_unread():
    """200,000 pipelined GETs of 1 kB, unread: bounded memory, others served, then every reply arrives"""
    count, batch, value = 200_000, 1_000, b"v" * 1_000
    with Server() as server, server.connect() as client:
        expect(client.call("SET", "k", value), "OK")
        requests, replies = encode("GET", "k") * batch, (b"$1000\r\n" + value + b"\r\n") * batch
        # A first round, read at once: what the connection costs in use is no growth.
        client.send(requests)
        expect(client.read(len(replies)), replies)
        growth_bytes, sender = growth_while_unread(
            server, lambda: [client.send(requests) for _ in range(count // batch)]
        )
        expect_bounded(growth_bytes)
        for _ in range(count // batch):
            expect(client.read(len(replies)), replies)
        sender.join()
        expect(client.call("PING"), "PONG")


@check
def large_values_unread():
    """300 pipelined GETs of 1 MB, unread: bounded memory, then every reply arrives"""
    count, value = 300, os.urandom(1 << 20)
    with Server() as server, server.connect() as client:
        expect(client.call("SET", "k", value), "OK")
        expect(client.call("GET", "k"), value)
        growth_bytes, sender = growth_while_unread(server, lambda: client.send(encode("GET", "k") * count))
        expect_bounded(growth_bytes)
        for _ in range(count):
            expect(client.reply(), value)
        sender.join()


@check
def long_values_named_often():
    """A 1 MB hash value named 100 times, a 15 kB string 7,000 times, unread: bounded memory, then every value"""
    for value, commands in [
        (b"h" * 1_000_000, lambda value: (("HSET", "k", "f", value), ("HMGET", "k", *["f"] * 100))),
        (b"s" * 15_000, lambda value: (("SET", "k", value), ("MGET", *["k"] * 7_000))),
    ]:
        store, load = commands(value)
        with Server() as server, server.connect() as client:
            client.call(*store)
            growth_bytes, sender = growth_while_unread(server, lambda load=load: client.send(encode(*load)))
            assert growth_bytes < 20 << 20, f"{load[0]}: grew by {growth_bytes} bytes"
            count = int(client.line()[1:])
            for _ in range(count):
                assert client.reply() == value, f"a value of {load[0]}"
            sender.join()


@check
def huge_reply_unread():
    """A 50 MB list in one reply, unread: bounded memory, and the list as it was when asked for"""
    count = 50_000
    elements = [b"%06d" % number + b"e" * 1_000 for number in range(count)]
    with Server() as server, server.connect() as client, server.connect() as other:
        for start in range(0, count, 1_000):
            client.call("RPUSH", "list", *elements[start : start + 1_000])
        growth_bytes, sender = growth_while_unread(server, lambda: client.send(encode("LRANGE", "list", 0, -1)))
        expect_bounded(growth_bytes)
        # The list goes while its reply is under way.
        expect(other.call("LPOP", "list"), elements[0])
        expect(other.call("LSET", "list", -1, "changed"), "OK")
        expect(other.call("DEL", "list"), 1)
        expect(client.line(), b"*%d" % count, "header")
        for element in elements:
            expect(client.reply(), element)
        sender.join()
        expect(client.call("PING"), "PONG")


@check
def spread_over_workers():
    """50 connections on 4 workers: within seconds none has more than 1.5 times another's"""
    with Server(threads=4) as server, server.connect() as probe:
        expect(probe.call("PING"), "PONG")
        before = registrations(server.process.pid)
        clients = [server.connect() for _ in range(50)]

        def loads():
            # Long-lived ones that work are what is balanced.
            for client in clients:
                expect(client.call("PING"), "PONG")
            after = registrations(server.process.pid)
            counts = sorted((after[poll] - before.get(poll, 0) for poll in after), reverse=True)[:4]
            return counts if sum(counts) == 50 and counts[0] <= 1.5 * counts[3] else None

        try:
            wait_until(loads, "an even spread")
        except AssertionError as error:
            after = registrations(server.process.pid)
            raise AssertionError(f"{error}: {[after[poll] - before.get(poll, 0) for poll in after]}") from error
        finally:
            for client in clients:
                client.socket.close()


def registrations(pid):
    """File descriptors registered with each epoll instance of the process: each worker has one."""
    counts = {}
    directory = f"/proc/{pid}/fd"
    if not os.path.isdir(directory):
        raise Skip("no /proc")
    for number in os.listdir(directory):
        try:
            if os.readlink(f"{directory}/{number}") == "anon_inode:[eventpoll]":
                with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as info:
                    counts[number] = sum(line.startswith("tfd:") for line in info)
        except FileNotFoundError:
            continue
    return counts


@check
def out_of_memory():
    """At maxmemory with noeviction writes get -OOM, reads and deletes work, and room lets writes in again"""
    wanted = "OOM command not allowed when used memory > 'maxmemory'."
    value = b"x" * 10_000
    with Server("--maxmemory", "20mb", "--maxmemory-policy", "noeviction") as server, server.connect() as client:
        stored = 0
        while (reply := client.call("SET", f"key:{stored}", value)) == "OK":
            stored += 1
            assert stored < 5_000, "50 MB went into 20 MB"
        expect((type(reply), reply), (Error, wanted))
        assert stored > 100, f"only {stored} values of 10 kB went into 20 MB"
        for _ in range(100):
            expect(client.call("LPUSH", "list", value), wanted)
        expect(client.call("EXISTS", "list"), 0)
        expect(client.call("GET", "key:0"), value)
        expect(client.call("DBSIZE"), stored)
        expect(client.call("DEL", *[f"key:{number}" for number in range(stored)]), stored)
        wait_until(lambda: client.call("SET", "k", value) == "OK", "room")


@check
def many_connections():
    """2,000 connections open and close, and the memory they took is used again"""
    with Server() as server, server.connect() as client:
        sizes = []
        for _ in range(3):
            clients = [server.connect() for _ in range(2_000)]
            for each in clients:
                each.send(encode("PING"))
            for each in clients:
                expect(each.reply(), "PONG")
                each.socket.close()
            expect(client.call("PING"), "PONG")
            sizes.append(server.resident_bytes())
        assert sizes[2] - sizes[0] <= 4 << 20, f"resident memory over rounds: {sizes}"
