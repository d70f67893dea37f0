"""Memory under its limits: maxmemory with pipelines, clients that hold too much, and MONITOR between two clients."""

import re
import socket

from harness import Server, check, encode, expect, wait_until

MIB = 1024 * 1024


def info(client, field):
    text = client.call("INFO")
    return int(re.search(rb"\r\n%s:(\d+)\r\n" % field.encode(), b"\r\n" + text)[1])


@check
def limit_holds():
    """maxmemory holds for data plus buffers while clients write far more, and every command is answered"""
    with Server("--maxmemory", 32 * MIB, "--maxmemory-policy", "allkeys-lru") as server, server.connect() as client:
        sent = 0
        for batch in range(60):
            commands = [encode("SET", f"key:{batch}:{n}", b"x" * (n * 37 % 9_000)) for n in range(300)]
            client.send(b"".join(commands))
            for _ in commands:
                expect(client.reply(), "OK")
            sent += len(commands)
            used = info(client, "used_memory")
            assert used < 34 * MIB, f"{used} bytes are used"
        assert info(client, "evicted_keys") > 0, "nothing was evicted"
        expect(info(client, "evicted_keys") + client.call("DBSIZE"), sent)


@check
def limit_lowered():
    """Lowering maxmemory evicts in the background, without a command that writes"""
    with Server("--maxmemory-policy", "allkeys-random") as server, server.connect() as client:
        client.send(b"".join(encode("SET", f"key:{n}", b"x" * 1_000) for n in range(20_000)))
        for _ in range(20_000):
            expect(client.reply(), "OK")
        expect(client.call("CONFIG", "SET", "maxmemory", info(client, "used_memory") - 8 * MIB), "OK")
        wait_until(lambda: client.call("DBSIZE") < 13_000, "keys are evicted")
        assert client.call("DBSIZE") > 5_000, "far too many keys were evicted"


@check
def clients_are_evicted():
    """maxmemory-clients closes the client that holds most, and leaves those alone that are to stay"""
    with Server() as server, server.connect() as admin, server.connect() as small, server.connect() as kept:
        expect(kept.call("CLIENT", "NO-EVICT", "on"), "OK")
        begun = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (32 * MIB)
        kept.send(begun + b"x" * (3 * MIB))
        small.send(begun + b"x" * 100_000)
        wait_until(lambda: info(admin, "mem_clients_normal") > 3 * MIB, "the clients' memory is counted")
        with server.connect() as greedy:
            greedy.send(begun + b"x" * (6 * MIB))
            wait_until(lambda: info(admin, "mem_clients_normal") > 9 * MIB, "the clients' memory is counted")
            expect(admin.call("CONFIG", "SET", "maxmemory-clients", 8 * MIB), "OK")
            wait_until(lambda: info(admin, "evicted_clients") == 1, "a client is evicted")
            greedy.socket.settimeout(30)
            assert is_closed(greedy.socket), "the largest client was not closed"
        assert info(admin, "mem_clients_normal") < 8 * MIB, "what the client held is still counted"
        listed = admin.call("CLIENT", "LIST")
        expect(len(listed.splitlines()), 3)


@check
def slow_readers_are_closed():
    """A client with more unsent replies than client-output-buffer-limit allows is closed"""
    limit = "normal 200000 0 0"
    with Server() as server, server.connect() as admin, server.connect() as slow:
        expect(admin.call("CONFIG", "SET", "client-output-buffer-limit", limit), "OK")
        expect(admin.call("SET", "k", b"x" * 150_000), "OK")
        slow.send(encode("GET", "k") * 1_000)
        wait_until(lambda: info(admin, "client_output_buffer_limit_disconnections") == 1, "the client is closed")


@check
def monitors():
    """MONITOR shows another client's commands in order, and nothing after RESET"""
    with Server() as server, server.connect() as monitor, server.connect() as client:
        expect(monitor.call("MONITOR"), "OK")
        for n in range(50):
            expect(client.call("SET", f"k{n}", "v"), "OK")
        port = client.socket.getsockname()[1]
        for n in range(50):
            line = monitor.reply()
            pattern = r'^\d+\.\d{6} \[0 127\.0\.0\.1:%d\] "SET" "k%d" "v"$' % (port, n)
            assert re.match(pattern, line if isinstance(line, str) else line.decode()), line
        expect(monitor.call("RESET"), "RESET")
        expect(client.call("GET", "k1"), b"v")
        expect(monitor.call("PING"), "PONG")


def is_closed(connection):
    try:
        while connection.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False
