"""Requests for slots that have left: handed on to the new owner, in order, by nobody twice; who is told of it, and when."""

import contextlib
import signal
import time

from certificates import Certificates
from cluster import Nodes
from etcd import Etcd
from harness import Error, check, encode, expect, free_port, wait_until

# bar's slot, which the first of three nodes has and gives to the second; hello's stays with the first.
SLOT = 5061


@contextlib.contextmanager
def late(*options, kind=Nodes):
    """Three nodes, of which the first has given bar's slot to the second, and knows."""
    with Etcd(members=1) as etcd, kind(etcd, 3, *options) as nodes:
        nodes.create()
        move(nodes)
        yield nodes


def move(nodes):
    expect(nodes.call(0, "CLUSTER", "SETSLOT", SLOT, "NODE", nodes.id(1)), "OK")
    mine = nodes.id(0)
    wait_until(lambda: str(SLOT - 1) in " ".join(nodes.lines(0)[mine][7:]), "the slot to have left")


def moved(nodes):
    return f"MOVED {SLOT} 127.0.0.1:{nodes.ports[1]}"


def figures(nodes, number=0):
    """INFO cluster as numbers."""
    lines = nodes.call(number, "INFO", "cluster").decode().splitlines()
    pairs = [line.split(":") for line in lines if ":" in line]
    return {name: int(value) for name, value in pairs if value.isdigit()}


@check
def redirects_are_handed_on_in_order():
    """redirects: late requests are run by the new owner, in one order with what the old one runs, in any pipeline"""
    with late("--cluster-redirect-rate", "0") as nodes, nodes.servers[0].connect() as client:
        expect(client.call("SET", "bar", "1"), "OK")
        expect(nodes.call(1, "GET", "bar"), b"1", "what the new owner has")
        expect(client.call("GET", "bar"), b"1")
        counts = 500
        commands, wanted = [], []
        for number in range(counts):
            commands += [
                ("RPUSH", "{bar}l", number), ("RPUSH", "{hello}l", number), ("LINDEX", "{bar}l", -1), ("ECHO", number),
                ("LRANGE", "{bar}l", number, number), ("GET", "foo"), ("INCR", "bar"), ("NOSUCH",),
            ]
            text = str(number).encode()
            unknown = "ERR unknown command 'NOSUCH', with args beginning with: "
            there = f"MOVED 12182 127.0.0.1:{nodes.ports[2]}"
            wanted += [number + 1, number + 1, text, text, [text], there, number + 2, unknown]
        client.send(b"".join(encode(*words) for words in commands))
        expect([client.reply() for _ in commands], wanted, "replies in order")
        # Many clients at once, each with its own order.
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(nodes.servers[0].connect()) for _ in range(20)]
            for number, each in enumerate(clients):
                key = "{bar}%d" % number
                each.send(b"".join(encode("INCR", key) + encode("PING") for _ in range(200)))
            for each in clients:
                expect([each.reply() for _ in range(400)], [word for at in range(200) for word in (at + 1, "PONG")])
        seen = figures(nodes)
        expect(seen["cluster_forwarded_requests"], 2 + 4 * counts + 20 * 200, "requests handed on")
        expect((seen["cluster_redirects_told"], seen["cluster_redirects_told_at_once"]), (0, 0))
        expect(seen["cluster_forwarded_lost"], 0)
        wait_until(lambda: figures(nodes)["cluster_relays_waiting_requests"] == 0, "nothing to wait any more")


@check
def redirects_of_every_shape():
    """redirects: replies large and small, of either protocol; what cannot be handed on is told at once; REPLY OFF"""
    with late("--cluster-redirect-rate", "0") as nodes, nodes.servers[0].connect() as client:
        for length in [0, 10, 70_000, 1_000_000]:
            expect(client.call("SET", "bar", b"x" * length), "OK")
            expect(client.call("GET", "bar"), b"x" * length)
        expect(str(client.call("SET", "bar", b"x" * 1_100_000)), moved(nodes), "too long to be handed on")
        # A reply of more than any buffer, to a client that takes its time.
        with nodes.servers[1].connect() as direct:
            for _ in range(20):
                direct.send(encode("RPUSH", "{bar}long", *[b"y" * 1000] * 1000))
            expect([direct.reply() for _ in range(20)][-1], 20_000)
        client.send(encode("LRANGE", "{bar}long", 0, -1) + encode("PING"))
        expect(len(client.reply()), 20_000, "a long list")
        expect(client.reply(), "PONG")
        for words in [("BLPOP", "bar", 0), ("WATCH", "bar"), ("XREAD", "BLOCK", 1, "STREAMS", "bar", "$"),
                      ("SSUBSCRIBE", "bar")]:
            expect(str(client.call(*words)), moved(nodes), words[0])
        transaction = [("MULTI",), ("SET", "{bar}t", 1), ("INCR", "{bar}t"), ("EXEC",), ("MULTI",), ("INCR", "{bar}t"),
                       ("PING",), ("EXEC",), ("GET", "{bar}t"), ("GET", "hello")]
        client.send(b"".join(encode(*words) for words in transaction))
        wanted = ["OK", "QUEUED", "QUEUED", ["OK", 2], "OK", "QUEUED", "QUEUED", Error(moved(nodes)), b"2", None]
        expect([client.reply() for _ in wanted], wanted, "a transaction is handed on whole, or not at all")
        expect(str(client.call("HSET", "bar", "f", 1)),
               "WRONGTYPE Operation against a key holding the wrong kind of value")
        client.send(b"".join(encode(*words) for words in [
            ("CLIENT", "REPLY", "OFF"), ("SET", "bar", "silent"), ("CLIENT", "REPLY", "ON"), ("CLIENT", "REPLY", "SKIP"),
            ("APPEND", "bar", "ly"), ("GET", "bar")]))
        expect([client.reply(), client.reply()], ["OK", b"silently"])
        client.call("CLIENT", "SETINFO", "LIB-NAME", "a-library")
        listed = nodes.call(0, "CLUSTER", "REDIRECTS")
        entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in listed]
        expect(entries[0][b"addr"].decode(), "127.0.0.1:%d" % client.socket.getsockname()[1])
        expect((entries[0][b"lib-name"], entries[0][b"told"]), (b"a-library", 6))
        # RESP3 over a relay of its own.
        with nodes.servers[0].connect() as modern:
            modern.send(encode("HELLO", 3))
            expect(modern.line()[:1], b"%")
        with nodes.servers[0].connect() as modern:
            nodes.call(1, "HSET", "{bar}h", "f", "v")
            modern.send(encode("HELLO", 3, "SETNAME", "m") + encode("CLIENT", "REPLY", "SKIP") + encode("PING"))
            modern.send(encode("HGETALL", "{bar}h") + encode("HGET", "{bar}h", "g") + encode("PING"))
            wanted = b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n_\r\n+PONG\r\n"
            read = b""
            while not read.endswith(wanted):
                piece = modern.socket.recv(4096)
                assert piece, read
                read += piece


@check
def redirects_are_told_in_turn():
    """redirects: as many clients are told a second as the rate says, each in its turn, and all in the end"""
    rate = 20
    with late("--cluster-redirect-rate", rate) as nodes, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(nodes.servers[0].connect()) for _ in range(20)]
        for client in clients:
            expect(client.call("PING"), "PONG")
        started = time.monotonic()
        told, asked = [0] * len(clients), 0

        def round_of_all():
            for number, client in enumerate(clients):
                answer = client.call("SET", "bar", number)
                told[number] += answer == moved(nodes)
                assert answer in ("OK", moved(nodes)), answer
            return all(told)

        while not round_of_all():
            asked += len(clients)
            assert time.monotonic() < started + 60, f"some were never told: {told}"
        elapsed_s = time.monotonic() - started
        # A tenth of a second's share may have been saved up.
        assert sum(told) <= rate * elapsed_s + rate / 10 + 1, f"{told} in {elapsed_s} s"
        assert asked > sum(told), "most were handed on"
        seen = figures(nodes)
        expect((seen["cluster_redirects_told"], seen["cluster_redirects_told_at_once"]), (sum(told), 0))
        expect(nodes.call(0, "CONFIG", "SET", "cluster-redirects", "plain"), "OK")
        for client in clients:
            expect(str(client.call("GET", "bar")), moved(nodes))


@check
def redirects_to_a_node_that_dies():
    """redirects: the new owner is killed: who waits for an answer loses its connection, who comes later is told"""
    options = ["--cluster-redirect-rate", "0", "--cluster-require-full-coverage", "no"]
    with late(*options) as nodes, nodes.servers[0].connect() as client:
        for _ in range(10):
            with nodes.servers[0].connect() as waiting:
                expect(waiting.call("INCR", "bar") > 0, True)
                nodes.servers[1].process.send_signal(signal.SIGSTOP)
                waiting.send(encode("INCR", "bar") + encode("PING"))
                if is_on_its_way(nodes):
                    nodes.kill(1)
                    assert waiting.at_end(), "nobody knows whether it was run"
                    break
                # It took too long to ask for it on the connection that was there.
                nodes.servers[1].process.send_signal(signal.SIGCONT)
        else:
            raise AssertionError("no request was ever on its way")
        expect(str(client.call("GET", "bar")), moved(nodes), "handed on no more")
        expect(client.call("SET", "hello", 1), "OK", "what stays here")
        expect(figures(nodes)["cluster_forwarded_lost"], 1)


def is_on_its_way(nodes):
    """Waits until a request was sent to a node that does not answer; False if that did not come about."""
    deadline = time.monotonic() + 0.8
    while time.monotonic() < deadline:
        seen = figures(nodes)
        if seen["cluster_relays_waiting_requests"] == 1 and seen["cluster_relays_waiting_bytes"] == 0:
            return True
    return False


class TlsNodes(Nodes):
    """Nodes that speak TLS with each other."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.certificates = self.stack.enter_context(Certificates())
        self.tls_ports = [free_port() for _ in self.ports]

    def start(self, number, *options):
        secret = ["--tls-cluster", "yes", "--tls-port", self.tls_ports[number], "--tls-auth-clients", "no"]
        return super().start(number, *secret, *self.certificates.options(), *options)

    def come_by_tls(self, number, what):
        """How many clients of which CLIENT LIST says `what` have come to this node by TLS."""
        lines = self.call(number, "CLIENT", "LIST").decode().splitlines()
        return sum(f" laddr=127.0.0.1:{self.tls_ports[number]} " in line and what in line for line in lines)


class SecretNodes(TlsNodes):
    """Nodes that let nobody in without a password, nor by TLS without a certificate; to each other they speak as a user."""

    PASSWORD, USER, USERS_PASSWORD = "for-clients", "node", "for-nodes"

    def start(self, number, *options):
        passwords = ["--requirepass", self.PASSWORD, "--masteruser", self.USER, "--masterauth", self.USERS_PASSWORD]
        user = ["--user", self.USER, "on", f">{self.USERS_PASSWORD}", "~*", "&*", "+@all"]
        return super().start(number, *passwords, *user, "--tls-auth-clients", "yes", *options)

    def connect(self, number):
        client = self.servers[number].connect()
        expect(client.call("AUTH", self.PASSWORD), "OK")
        return client

    def call(self, number, *words):
        with self.connect(number) as client:
            return client.call(*words)

    def create(self, replicas=0):
        """As redis-cli does it."""
        self.await_shards(3)
        for number, (first, last) in enumerate([(0, 5460), (5461, 10922), (10923, 16383)]):
            expect(self.call(number, "CLUSTER", "ADDSLOTSRANGE", first, last), "OK")
        for number in range(3):
            self.await_state(number)


@check
def redirects_over_tls_with_a_password():
    """redirects: handed on over TLS, with masterauth; where that is not let in, clients are told at once"""
    with late("--cluster-redirect-rate", "0", kind=TlsNodes) as nodes, nodes.servers[0].connect() as client:
        expect(client.call("SET", "bar", b"x" * 300_000), "OK")
        expect(client.call("GET", "bar"), b"x" * 300_000)
        with nodes.servers[1].connect() as there:
            expect(there.call("CONFIG", "SET", "requirepass", "secret"), "OK")
            expect(there.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1, True)
            wait_until(lambda: length(nodes) == moved(nodes), "the password to be missed")
            expect(nodes.call(0, "CONFIG", "SET", "masterauth", "secret"), "OK")
            wait_until(lambda: client.call("STRLEN", "bar") == 300_000, "the password to do")
            # To whom it may not be handed on by that user: told, and run by nobody.
            expect(there.call("ACL", "SETUSER", "default", "-set"), "OK")
            expect(str(client.call("SET", "bar", 1)), moved(nodes))
            expect(client.call("STRLEN", "bar"), 300_000)


def length(nodes):
    """STRLEN bar at the old owner; None: it was on its way when the connection to the new one was killed."""
    try:
        return nodes.call(0, "STRLEN", "bar")
    except (AssertionError, OSError):
        return None


@check
def redirects_between_nodes_that_want_certificates_and_passwords():
    """redirects: handed on as masteruser, by TLS with a certificate; clients are told once that user is not let in any more"""
    with late("--cluster-redirect-rate", "0", kind=SecretNodes) as nodes, nodes.connect(0) as client:
        expect(client.call("SET", "bar", b"x" * 300_000), "OK")
        expect(client.call("STRLEN", "bar"), 300_000)
        with nodes.connect(0) as modern:
            modern.send(encode("HELLO", 3, "SETNAME", "m") + encode("HGETALL", "{bar}none") + encode("PING"))
            read = b""
            while not read.endswith(b"%0\r\n+PONG\r\n"):
                piece = modern.socket.recv(4096)
                assert piece, read
                read += piece
        expect(nodes.come_by_tls(1, f" user={nodes.USER} ") >= 2, True, "connections by TLS, of both protocols")
        told = figures(nodes)["cluster_redirects_told_at_once"]
        expect(told, 0, "told at once")
        expect(nodes.call(1, "ACL", "SETUSER", nodes.USER, "off"), "OK")
        nodes.call(1, "CLIENT", "KILL", "USER", nodes.USER)
        wait_until(lambda: length(nodes) == moved(nodes), "clients to be told")
        expect(nodes.call(1, "ACL", "SETUSER", nodes.USER, "on"), "OK")
        wait_until(lambda: length(nodes) == 300_000, "requests to be handed on again")
