"""Clients that misbehave, and what others notice of it: nothing."""

import contextlib
import socket
import struct
import threading
import time

from harness import Server, check, encode, expect, wait_until


@check
def half_closed():
    """A client that shuts its sending side still gets every reply, then the end"""
    with Server() as server:
        for commands in [1, 1_000, 50_000]:
            with server.connect() as client:
                sender = threading.Thread(target=send_and_shut, args=(client, commands))
                sender.start()
                for number in range(commands):
                    expect(client.reply(), b"%d" % number, "reply of " + str(commands))
                sender.join()
                assert client.at_end(), "more than the replies arrived"


def send_and_shut(client, commands):
    # If the server or the check gives up first, the replies tell.
    with contextlib.suppress(OSError):
        client.send(b"".join(encode("ECHO", number) for number in range(commands)))
        client.socket.shutdown(socket.SHUT_WR)


@check
def byte_by_byte():
    """A client that sends one byte at a time is understood, inline and array, and others are served meanwhile"""
    with Server() as server, server.connect() as slow, server.connect() as other:
        slow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = encode("SET", "slow", b"a\r\nb") + b"GET slow\r\n" + encode("GET", "slow")
        for position in range(len(request)):
            slow.send(request[position : position + 1])
            expect(other.call("PING"), "PONG")
        expect([slow.reply(), slow.reply(), slow.reply()], ["OK", b"a\r\nb", b"a\r\nb"])


@check
def gone_mid_command():
    """Clients that disappear in the middle of a command leave nothing behind"""
    whole = encode("SET", "k", b"x" * 5_000)
    with Server() as server, server.connect() as other:
        for reset in [False, True]:
            for length in [1, 4, 20, len(whole) - 1]:
                for _ in range(20):
                    with server.connect() as client:
                        client.send(whole[:length])
                        if reset:
                            reset_on_close(client)
                    expect(other.call("PING"), "PONG")
        expect(other.call("EXISTS", "k"), 0)
        wait_until(lambda: connections(server) == 1, "all connections but one are closed")


@check
def gone_mid_reply():
    """Clients that disappear in the middle of a large reply leave nothing behind"""
    with Server() as server, server.connect() as other:
        expect(other.call("SET", "large", b"x" * 5_000_000), "OK")
        other.send(b"".join(encode("RPUSH", "list", b"y" * 1_000) for _ in range(5_000)))
        expect([other.reply() for _ in range(5_000)][-1], 5_000)
        for reset in [False, True]:
            for command in [("GET", "large"), ("LRANGE", "list", 0, -1)]:
                for _ in range(10):
                    with server.connect() as client:
                        client.send(encode(*command) * 5)
                        client.socket.recv(100)
                        if reset:
                            reset_on_close(client)
                    expect(other.call("PING"), "PONG")
        wait_until(lambda: connections(server) == 1, "all connections but one are closed")
        expect(other.call("STRLEN", "large"), 5_000_000)


@check
def garbage():
    """What is not RESP gets an error and the end, and others are served"""
    cases = [
        (b"*1\r\nPING\r\n", "ERR Protocol error: expected '$', got 'P'"),
        (b"*-99999999999999999999\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*2000000\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-5\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$999999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b'SET k "unbalanced\r\n', "ERR Protocol error: unbalanced quotes in request"),
        (b"x" * 70_000, "ERR Protocol error: too big inline request"),
    ]
    with Server() as server, server.connect() as other:
        for request, wanted in cases:
            with server.connect() as client:
                client.send(encode("PING") + request)
                expect(client.reply(), "PONG")
                expect(client.reply(), wanted, f"reply to {request[:40]!r}")
                assert client.at_end(), "the connection stays open"
            expect(other.call("PING"), "PONG")


@check
def malformed_behind_a_long_job():
    """What is not RESP, behind a command that the long lane has: both are answered in order, others are served"""
    with Server(threads=1) as server, server.connect() as other:
        for start in range(0, 20_000, 1_000):
            pairs = [word for number in range(start, start + 1_000) for word in (f"key:{number}", number)]
            expect(other.call("MSET", *pairs), "OK")
        for _ in range(3):
            with server.connect() as client:
                client.send(encode("KEYS", "key:1234") + b"*x\r\n")
                expect(client.reply(), [b"key:1234"])
                expect(client.reply(), "ERR Protocol error: invalid multibulk length")
                assert client.at_end(), "the connection stays open"
            for _ in range(3):
                expect(other.call("PING"), "PONG")


@check
def pipelined_after_auth():
    """Commands in one packet with their AUTH are held to the limits of a client that has authenticated"""
    with Server("--requirepass", "secret") as server, server.connect() as client:
        many = encode("MSET", *range(40))
        client.send(encode("AUTH", "secret") + encode("SET", "k", b"x" * 20_000) + many)
        expect([client.reply() for _ in range(3)], ["OK"] * 3)
        with server.connect() as stranger:
            stranger.send(encode("AUTH", "wrong") + many)
            stranger.reply()
            expect(stranger.reply(), "ERR Protocol error: unauthenticated multibulk length")
            assert stranger.at_end(), "the connection stays open"


@check
def gone_during_a_pause():
    """Clients that give up during CLIENT PAUSE, however long it is, are closed, and their commands do not run"""
    with Server() as server, server.connect() as other:
        expect(other.call("CLIENT", "PAUSE", 9_000_000_000_000_000_000), "OK")
        leavers = [server.connect() for _ in range(20)]
        for leaver in leavers:
            leaver.send(encode("INCR", "runs"))
        with server.connect() as patient:
            patient.send(encode("GET", "runs"))
            wait_until(lambda: other.call("CLIENT", "LIST").count(b" cmd=NULL ") == 21, "their connections")
            for leaver in leavers:
                leaver.socket.close()
            wait_until(lambda: other.call("CLIENT", "LIST").count(b"\n") == 2, "their end")
            expect(other.call("CLIENT", "UNPAUSE"), "OK")
            expect(patient.reply(), None)


@check
def announced_only():
    """What a client merely announces is not allocated"""
    with Server() as server, server.connect() as other:
        expect(other.call("PING"), "PONG")
        before = server.resident_bytes()
        clients = [server.connect() for _ in range(50)]
        for client in clients:
            client.send(b"*1000000\r\n$500000000\r\nx")
        expect(other.call("PING"), "PONG")
        # Another read of each, now that the length is known.
        for client in clients:
            client.send(b"x")
        expect(other.call("PING"), "PONG")
        time.sleep(0.2)
        growth_bytes = server.resident_bytes() - before
        assert growth_bytes < 8 << 20, f"grew by {growth_bytes} bytes for 50 announcements"
        for client in clients:
            client.socket.close()


@check
def too_many():
    """Clients above maxclients are told so; those before them are served; a place that gets free is given"""
    with Server("--maxclients", "3") as server:
        clients = [server.connect() for _ in range(3)]
        expect([client.call("PING") for client in clients], ["PONG"] * 3)
        for _ in range(3):
            with server.connect() as refused:
                expect(refused.reply(), "ERR max number of clients reached")
                assert refused.at_end(), "the connection stays open"
        expect([client.call("PING") for client in clients], ["PONG"] * 3)
        clients.pop().socket.close()
        wait_until(lambda: is_served(server), "a place")
        for client in clients:
            client.socket.close()


def is_served(server):
    with server.connect() as client:
        try:
            return client.call("PING") == "PONG"
        except (ConnectionError, AssertionError):
            return False


@check
def idle_timeout():
    """With `timeout`, an idle client is closed and one that speaks is not"""
    with Server("--timeout", "1") as server, server.connect() as idle, server.connect() as busy:
        expect(idle.call("PING"), "PONG")
        closed = threading.Event()
        threading.Thread(target=lambda: idle.at_end() and closed.set(), daemon=True).start()
        while not closed.is_set():
            expect(busy.call("PING"), "PONG")
            closed.wait(0.05)


def reset_on_close(client):
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def connections(server):
    """Connections that the server holds, of TCP, as the kernel counts them."""
    port = f":{server.port:04X}"
    count = 0
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            # 01 established, 08 closed by the peer but not by the server.
            count += fields[1].endswith(port) and fields[3] in ("01", "08")
    return count
