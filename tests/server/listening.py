"""What is listened on can be changed while the server runs, and so can how it treats its callers and its process."""

import os
import socket
import tempfile

from harness import PATIENCE_S, Client, Error, Server, check, expect, free_port, wait_until
from tls import connect as connect_tls
from tls import serving

NO_PORT = "Unable to listen on this port. Check server logs."


def is_open(port, address="127.0.0.1"):
    try:
        with Client(socket.create_connection((address, port), timeout=PATIENCE_S)) as client:
            return client.call("PING") == "PONG"
    except ConnectionRefusedError:
        return False


def refused(directive, text):
    return Error(f"ERR CONFIG SET failed (possibly related to argument '{directive}') - {text}")


@check
def listening_port_changes():
    """CONFIG SET port: the new port is open and the old one closed at once, connections stay, and a taken port changes nothing"""
    with Server(threads=4) as server, server.connect() as admin, socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        for _ in range(20):
            old, new = server.port, free_port()
            expect(admin.call("CONFIG", "SET", "port", new), "OK")
            assert is_open(new) and not is_open(old), (old, new)
            server.port = new
        # Every worker has its own socket there: a refusal of one of them would show.
        clients = [server.connect() for _ in range(64)]
        for client in clients:
            expect(client.call("PING"), "PONG")
            client.__exit__()
        expect(admin.call("CONFIG", "SET", "maxmemory", 1000000, "port", taken), refused("port", NO_PORT))
        expect(admin.call("CONFIG", "GET", "port", "maxmemory"), [b"port", str(server.port).encode(), b"maxmemory", b"0"])
        assert is_open(server.port), "the port is closed after a change that was refused"
        expect(admin.call("CONFIG", "SET", "port", 0), "OK")
        assert not is_open(server.port), "port 0 is open"
        expect(admin.call("CONFIG", "SET", "port", server.port), "OK")
        assert is_open(server.port), "the port does not open again"


@check
def listening_addresses_change():
    """CONFIG SET bind: closes an address and opens another on the same port"""
    with Server() as server, server.connect() as admin:
        assert not is_open(server.port, "127.0.0.2"), "an address that was not asked for is open"
        expect(admin.call("CONFIG", "SET", "bind", "127.0.0.2 127.0.0.3"), "OK")
        expect([is_open(server.port, f"127.0.0.{last}") for last in (1, 2, 3)], [False, True, True])
        expect(admin.call("CONFIG", "SET", "bind", "192.0.2.1"), refused("bind", "Failed to bind to specified addresses."))
        expect([is_open(server.port, f"127.0.0.{last}") for last in (1, 2, 3)], [False, True, True])
        expect(admin.call("CONFIG", "SET", "bind", "* -::*"), "OK")
        expect([is_open(server.port, f"127.0.0.{last}") for last in (1, 2, 3)], [True, True, True])


@check
def listening_tls_port_changes():
    """CONFIG SET tls-port: moves, closes and opens the TLS port, and refuses to open one without a certificate"""
    with serving("--tls-auth-clients", "no", threads=4) as server, server.connect() as admin:
        with connect_tls(server) as before:
            server.tls_port = free_port()
            expect(admin.call("CONFIG", "SET", "tls-port", server.tls_port), "OK")
            expect(before.call("PING"), "PONG")
        with connect_tls(server) as client:
            expect(client.call("PING"), "PONG")
        expect(admin.call("CONFIG", "SET", "tls-port", 0), "OK")
        assert not is_open(server.tls_port), "TLS port 0 is open"
        expect(admin.call("CONFIG", "SET", "tls-port", server.tls_port), "OK")
        with connect_tls(server) as client:
            expect(client.call("CONFIG", "SET", "tls-port", server.port), refused("tls-port", NO_PORT))
            expect(client.call("PING"), "PONG")
    with Server() as server, server.connect() as admin:
        refusal = admin.call("CONFIG", "SET", "tls-port", free_port())
        assert isinstance(refusal, Error) and "Unable to update TLS configuration" in refusal, refusal
        expect(admin.call("CONFIG", "GET", "tls-port"), [b"tls-port", b"0"])


def keepalive_timer(server, client):
    """Whether the server's end of a connection has a keep-alive timer."""
    theirs = client.socket.getsockname()[1]
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.read().splitlines()[1:]:
            fields = line.split()
            ports = [int(end.split(":")[1], 16) for end in fields[1:3]]
            if ports == [server.port, theirs]:
                return fields[5].startswith("02:")
    raise AssertionError("the connection is not in /proc/net/tcp")


@check
def listening_keepalive_changes():
    """CONFIG SET tcp-keepalive: holds for the connections that come after it"""
    with Server() as server, server.connect() as admin:
        assert keepalive_timer(server, admin), "the default is not to probe"
        for seconds, wanted in [(0, False), (60, True), (0, False)]:
            expect(admin.call("CONFIG", "SET", "tcp-keepalive", seconds), "OK")
            with server.connect() as client:
                expect(client.call("PING"), "PONG")
                expect(keepalive_timer(server, client), wanted, f"keep-alive timer at {seconds} s")


@check
def process_tells_its_supervisor():
    """supervised: systemd is told when the server is ready, and when it ends"""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = os.path.join(directory, "notify")
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        os.environ["NOTIFY_SOCKET"] = path
        try:
            with Server("--supervised", "auto") as server:
                assert b"READY=1" in manager.recv(1000).split(b"\n"), "not told that it is ready"
                server.terminate()
                assert b"STOPPING=1" in manager.recv(1000).split(b"\n"), "not told that it ends"
        finally:
            del os.environ["NOTIFY_SOCKET"]


@check
def process_adjusts_its_oom_score():
    """oom-score-adj: sets how readily the kernel ends the process, and puts it back"""
    def score(server):
        with open(f"/proc/{server.process.pid}/oom_score_adj", encoding="ascii") as file:
            return int(file.read())

    with Server() as server, server.connect() as admin:
        start = score(server)
        values = ("oom-score-adj-values", "100 200 300")
        expect(admin.call("CONFIG", "SET", "oom-score-adj", "relative", *values), "OK")
        expect(score(server), min(start + 100, 1000), "relative score")
        expect(admin.call("CONFIG", "SET", "oom-score-adj", "absolute"), "OK")
        expect(score(server), 100, "absolute score")
        expect(admin.call("CONFIG", "SET", "oom-score-adj", "no"), "OK")
        wait_until(lambda: score(server) == start, "the score at start")
