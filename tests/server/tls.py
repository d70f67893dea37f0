"""TLS: who is let in, by which protocols and ciphers, reloading, and bounds under bad clients."""

import contextlib
import os
import socket
import ssl
import subprocess
import threading
import time

from certificates import PASSWORD, Certificates
from clients import reset_on_close
from harness import PATIENCE_S, Client, Error, Server, check, encode, expect, free_port, run_to_end, wait_until
from load import expect_bounded, growth_while_unread
from startup import expect_refusal

NO_CERTIFICATE = ["--tls-auth-clients", "no"]


@contextlib.contextmanager
def serving(*options, server="server", threads=2, plain=True):
    """A server with a TLS port, `server.tls_port`, and its certificates."""
    with Certificates() as certificates:
        tls_port = free_port()
        arguments = ["--tls-port", tls_port, *certificates.options(server), *options]
        with Server(*arguments, threads=threads, port=None if plain else 0) as running:
            running.tls_port = tls_port
            running.certificates = certificates
            yield running


def context(server, certificate=None, version=None, ciphers=None):
    made = ssl.create_default_context(cafile=server.certificates.path("ca.crt"))
    if certificate:
        made.load_cert_chain(server.certificates.path(f"{certificate}.crt"), server.certificates.path(f"{certificate}.key"))
    if version:
        made.minimum_version = made.maximum_version = version
    if ciphers:
        made.set_ciphers(ciphers)
    return made


def connect(server, *arguments, **options):
    """A client over TLS, its handshake done."""
    return Client(wrap(server, plain_socket(server), *arguments, **options))


def wrap(server, connection, *arguments, **options):
    return context(server, *arguments, **options).wrap_socket(connection, server_hostname="localhost")


def plain_socket(server):
    made = socket.create_connection(("127.0.0.1", server.tls_port), timeout=PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def is_let_in(server, *arguments, **options):
    """True if a client is served, False if it is turned away in or right after the handshake."""
    try:
        with connect(server, *arguments, **options) as client:
            return client.call("PING") == "PONG"
    except (ssl.SSLError, ConnectionError, AssertionError):
        return False


def run(*words, standard_input=b""):
    """A program to its end: exit code and all that it printed."""
    done = subprocess.run(
        [str(word) for word in words], input=standard_input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=PATIENCE_S, check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")


def s_client(server, *options):
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.tls_port}", "-quiet"]
    command += ["-CAfile", server.certificates.path("ca.crt"), "-verify_return_error", *options]
    # It reads until the server closes, which QUIT makes it do.
    return run(*command, standard_input=b"PING\r\nQUIT\r\n")


@check
def tls_protocols():
    """TLS: s_client speaks 1.2 and 1.3, 1.1 is refused; tls-protocols narrows it, at run time too"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as admin:
        for options, served in [(["-tls1_2"], True), (["-tls1_3"], True), (["-tls1_1"], False)]:
            code, text = s_client(server, *options)
            expect(("+PONG" in text, code == 0), (served, served), f"{options}: {text}")
        expect(admin.call("CONFIG", "SET", "tls-protocols", "TLSv1.2"), "OK")
        expect([is_let_in(server, version=version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)],
               [True, False], "with TLSv1.2 alone")
        expect(admin.call("CONFIG", "SET", "tls-protocols", "TLSv1.3"), "OK")
        expect([is_let_in(server, version=version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)],
               [False, True], "with TLSv1.3 alone")


@check
def tls_ciphers():
    """TLS: tls-ciphers and tls-ciphersuites choose by OpenSSL's names, and tls-prefer-server-ciphers by order"""
    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    options = ["--tls-ciphers", "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305"]
    options += ["--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", *NO_CERTIFICATE]
    with serving(*options, server="rsa") as server, connect(server) as admin:
        def chosen(**options):
            with connect(server, **options) as client:
                return client.socket.cipher()[0]

        expect(chosen(version=old, ciphers="ECDHE+CHACHA20:ECDHE+AESGCM"), "ECDHE-RSA-CHACHA20-POLY1305")
        expect(chosen(version=old, ciphers="ECDHE+AESGCM"), "ECDHE-RSA-AES128-GCM-SHA256")
        expect(is_let_in(server, version=old, ciphers="ECDHE-RSA-AES256-GCM-SHA384"), False, "a cipher not named")
        # OpenSSL asks for AES-256 first, which is not named, then for CHACHA20.
        expect(chosen(version=new), "TLS_CHACHA20_POLY1305_SHA256")
        expect(admin.call("CONFIG", "SET", "tls-ciphersuites", "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"), "OK")
        expect(chosen(version=new), "TLS_AES_256_GCM_SHA384", "the client's order")
        expect(admin.call("CONFIG", "SET", "tls-prefer-server-ciphers", "yes"), "OK")
        expect(chosen(version=new), "TLS_AES_128_GCM_SHA256", "the server's order")
        refusal = admin.call("CONFIG", "SET", "tls-ciphers", "ECDHE-RSA-AES128-GCM-SHA256:NO-SUCH-CIPHER")
        assert isinstance(refusal, Error) and "'NO-SUCH-CIPHER'" in refusal and "CHACHA20" in refusal, refusal


@check
def tls_client_certificates():
    """TLS: tls-auth-clients yes, optional and no let in whom they should"""
    for setting, expected in [
        ("yes", {"client": True, None: False, "stranger": False}),
        ("optional", {"client": True, None: True, "stranger": False}),
        ("no", {"client": True, None: True, "stranger": True}),
    ]:
        with serving("--tls-auth-clients", setting) as server:
            for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
                let_in = {name: is_let_in(server, name, version=version) for name in expected}
                expect(let_in, expected, f"{setting}, {version.name}")


@check
def tls_redis_cli():
    """TLS: redis-cli --tls with and without a client certificate, and with only a TLS port open"""
    with serving(plain=False) as server:
        path = server.certificates.path
        cli = ["redis-cli", "-h", "localhost", "-p", server.tls_port, "--tls", "--cacert", path("ca.crt")]
        with_certificate = [*cli, "--cert", path("client.crt"), "--key", path("client.key")]
        expect(run(*with_certificate, "PING"), (0, "PONG\n"))
        code, text = run(*cli, "PING")
        assert code != 0 and "PONG" not in text, text
        value = os.urandom(700_000).hex().encode()
        expect(run(*with_certificate, "-x", "SET", "k", standard_input=value), (0, "OK\n"))
        code, text = run(*with_certificate, "GET", "k")
        expect((code, text.strip() == value.decode()), (0, True), "a value of 1.4 MB")
        code, text = run(*with_certificate, "INFO", "server")
        assert f"tcp_port:{server.tls_port}\r" in text and f"name=tls,bind=127.0.0.1,port={server.tls_port}\r" in text, text
        code, text = run(*with_certificate, "CLIENT", "LIST")
        assert f" laddr=127.0.0.1:{server.tls_port} " in text, text


@check
def tls_not_spoken():
    """TLS: who does not speak it gets an end, not a reply"""
    with serving(*NO_CERTIFICATE) as server, server.connect() as plain:
        for request in [encode("PING"), b"PING\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x00"]:
            with Client(plain_socket(server)) as client:
                with contextlib.suppress(OSError):
                    client.send(request)
                    client.socket.shutdown(socket.SHUT_WR)
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while piece := client.socket.recv(1000):
                        answer += piece
                assert not answer.startswith((b"+", b"-", b"$")), answer
            expect(plain.call("PING"), "PONG")


@check
def tls_reload():
    """TLS: CONFIG SET takes new certificates without a restart, and what is bad changes nothing"""
    def serial(server):
        with connect(server) as client:
            expect(client.call("PING"), "PONG")
            return client.socket.getpeercert()["subject"][0][0][1]

    with serving(*NO_CERTIFICATE) as server, connect(server) as old:
        path = server.certificates.path
        expect(serial(server), "server")
        both = ("CONFIG", "SET", "tls-cert-file", path("server2.crt"), "tls-key-file", path("server2.key"))
        expect(old.call(*both), "OK")
        expect(serial(server), "server2", "after a change of names")
        for arguments, reason in [
            (("tls-cert-file", path("missing.crt")), "No such file"),
            (("tls-cert-file", path("server.crt")), "not the key of the certificate"),
            (("tls-key-file", path("ca.crt")), "no private key in it"),
            (("tls-cert-file", path("ca.key")), "no certificate in it"),
            (("tls-cert-file", ""), "No tls-cert-file configured!"),
            (("tls-ca-cert-file", path("ca.key")), "no certificate in it"),
            (("tls-ca-cert-dir", path("missing")), "No such file"),
            (("tls-protocols", "TLSv1.1"), "'TLSv1.2' and 'TLSv1.3'"),
            (("tls-ciphersuites", "NONE"), "TLS_AES_128_GCM_SHA256"),
            (("tls-protocols", "TLSv1.2", "tls-ciphers", "!ALL"), "No cipher suite is left for TLSv1.2"),
            (("tls-ca-cert-file", "", "tls-auth-clients", "yes"), "tls-ca-cert-file or tls-ca-cert-dir must be"),
        ]:
            before = old.call("CONFIG", "GET", "tls-*")
            refusal = old.call("CONFIG", "SET", *arguments)
            assert isinstance(refusal, Error) and refusal.startswith("ERR CONFIG SET failed"), refusal
            assert "Unable to update TLS configuration" in refusal and reason in refusal, refusal
            expect(old.call("CONFIG", "GET", "tls-*"), before, f"values after {arguments}")
            expect(serial(server), "server2", f"after {arguments}")
        # The same name with another content.
        for kind in ["crt", "key"]:
            os.replace(path(f"server.{kind}"), path(f"server2.{kind}"))
        expect(old.call(*both), "OK")
        expect(serial(server), "server", "after a change of content")
        expect(old.call("PING"), "PONG", "a connection from before")
        # A directory of authorities does as well as a file.
        os.mkdir(path("authorities"))
        os.rename(path("ca.crt"), path("authorities/ca.crt"))
        expect(old.call("CONFIG", "SET", "tls-ca-cert-file", "", "tls-ca-cert-dir", path("authorities"),
                        "tls-auth-clients", "yes"), "OK")
        os.rename(path("authorities/ca.crt"), path("ca.crt"))
        expect([is_let_in(server, name) for name in ("client", "stranger", None)], [True, False, False])


@check
def tls_bad_start():
    """TLS: what cannot be used ends the start with a line that says what and why"""
    with Certificates() as certificates:
        path = certificates.path
        base = ["--port", "0", "--tls-port", free_port()]
        expect_refusal(run_to_end(*base), "No tls-cert-file configured!")
        expect_refusal(run_to_end(*base, "--tls-cert-file", path("server.crt"), "--tls-key-file", path("server.key")),
                       "tls-ca-cert-file")
        expect_refusal(run_to_end(*base, *certificates.options(), "--tls-key-file", path("client.key")), "client.key", "not the key")
        expect_refusal(run_to_end(*base, *certificates.options(), "--tls-cert-file", path("gone.crt")), "gone.crt")
        expect_refusal(run_to_end(*base, *certificates.options(), "--tls-ciphers", "AES128-SHA"),
                       "'AES128-SHA'", "ECDHE-RSA-AES128-GCM-SHA256")
        expect_refusal(run_to_end(*base, *certificates.options(), "--tls-protocols", "TLSv1.1"), "TLSv1.1", "TLSv1.3")
        expect_refusal(run_to_end("--port", "0"), "tls-port")


@check
def tls_encrypted_keys():
    """TLS: keys under a password, in the forms that openssl writes"""
    with Certificates() as certificates:
        path = certificates.path
        forms = [
            ("pkcs8", "-topk8", "-v2", "aes-256-cbc"),
            ("pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"),
            ("pkcs8", "-topk8", "-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA512", "-iter", "5000"),
        ]
        for number, form in enumerate(forms):
            certificates.openssl(*form, "-in", "server.key", "-out", f"under{number}.key", "-passout", f"pass:{PASSWORD}")
        certificates.openssl("rsa", "-aes256", "-in", "rsa.key", "-out", "under3.key", "-passout", f"pass:{PASSWORD}")
        certificates.openssl("pkcs8", "-topk8", "-v2", "des3", "-in", "server.key", "-out", "old.key", "-passout", f"pass:{PASSWORD}")
        base = ["--port", "0", "--tls-port", free_port(), *certificates.options()]
        secret = ["--tls-key-file-pass", PASSWORD]
        expect_refusal(run_to_end(*base, "--tls-key-file", path("under0.key")), "under0.key", "tls-key-file-pass")
        expect_refusal(run_to_end(*base, "--tls-key-file", path("under0.key"), "--tls-key-file-pass", "wrong"), "under0.key", "password is wrong")
        expect_refusal(run_to_end(*base, *secret, "--tls-key-file", path("old.key")), "old.key", "openssl pkcs8 -topk8")
        tls_port = free_port()
        options = ["--tls-port", tls_port, *certificates.options(), *secret, *NO_CERTIFICATE]
        with Server(*options, "--tls-key-file", path("under0.key")) as server, server.connect() as admin:
            server.tls_port, server.certificates = tls_port, certificates
            for number, name in [(0, "server"), (1, "server"), (2, "server"), (3, "rsa")]:
                files = ("tls-cert-file", path(f"{name}.crt"), "tls-key-file", path(f"under{number}.key"))
                expect(admin.call("CONFIG", "SET", *files), "OK")
                assert is_let_in(server), f"under{number}.key"


@check
def tls_resumption():
    """TLS: sessions are resumed while tls-session-caching is on, not when it is off or after a reload"""
    def is_resumed(server, made, session):
        raw = plain_socket(server)
        with made.wrap_socket(raw, server_hostname="localhost", session=session) as connection:
            client = Client(connection)
            expect(client.call("PING"), "PONG")
            return connection.session_reused, connection.session

    with serving() as server, connect(server, "client") as admin:
        for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
            made = context(server, "client", version=version)
            resumed, session = is_resumed(server, made, None)
            expect(resumed, False, "the first")
            resumed, session = is_resumed(server, made, session)
            expect(resumed, True, f"the second, {version.name}")
            expect(admin.call("CONFIG", "SET", "tls-session-caching", "no"), "OK")
            resumed, session = is_resumed(server, made, session)
            expect(resumed, False, "with caching off")
            expect(admin.call("CONFIG", "SET", "tls-session-caching", "yes"), "OK")
            expect(is_resumed(server, made, session)[0], False, "one from before")


@check
def tls_large_values():
    """TLS: values from 1 byte to 5 MB, both ways, singly and pipelined"""
    with serving("--tls-auth-clients", "yes") as server, connect(server, "client") as client:
        for length in [0, 1, 1_000, 16_383, 16_384, 16_385, 65_535, 65_536, 70_000, 1 << 20, 5_000_000]:
            value = os.urandom(length)
            expect(client.call("SET", "k", value), "OK", f"SET of {length}")
            expect(client.call("GET", "k"), value, f"GET of {length}")
        value = os.urandom(1 << 20)
        # A TLS socket of Python's is for one thread: each pair is read before the next is sent.
        for _ in range(20):
            client.send(encode("SET", "k", value) + encode("GET", "k"))
            expect(client.reply(), "OK")
            expect(client.reply(), value)
        client.send(encode("RPUSH", "list", *[b"%d" % number * 100 for number in range(20_000)]) + encode("LRANGE", "list", 0, -1))
        expect(client.reply(), 20_000)
        expect(client.reply(), [b"%d" % number * 100 for number in range(20_000)])


@check
def tls_pipeline():
    """TLS: a pipeline of 10,000 commands in one piece, and 1,000 connections at once"""
    with serving(*NO_CERTIFICATE) as server:
        with connect(server) as client:
            client.send(b"".join(encode("ECHO", number) for number in range(10_000)))
            expect([client.reply() for _ in range(10_000)], [b"%d" % number for number in range(10_000)])
        made = context(server)
        clients = [
            Client(made.wrap_socket(plain_socket(server), server_hostname="localhost")) for _ in range(1_000)
        ]
        for client in clients:
            client.send(encode("PING"))
        for client in clients:
            expect(client.reply(), "PONG")
            client.socket.close()


class Dribble:
    """A TLS client over memory, whose bytes go out as the check wants them to."""

    def __init__(self, server, **options):
        self.socket = plain_socket(server)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context(server, **options).wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def pieces(self, length):
        """What is to be sent, in pieces."""
        while self.outgoing.pending:
            yield self.outgoing.read(length)

    def until_done(self, action, length, between=lambda: None):
        """Does `action` to its end, sending `length` bytes at a time."""
        while True:
            try:
                result, wants = action(), False
            except ssl.SSLWantReadError:
                result, wants = None, True
            for piece in self.pieces(length):
                self.socket.sendall(piece)
                between()
            if not wants:
                return result
            data = self.socket.recv(1 << 16)
            assert data, "the server closed the connection early"
            self.incoming.write(data)


@check
def tls_byte_by_byte():
    """TLS: a client that sends its handshake and its commands one byte at a time, while another is served"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as other:
        slow = Dribble(server)
        between = lambda: expect(other.call("PING"), "PONG")
        slow.until_done(slow.session.do_handshake, 1, between)
        slow.until_done(lambda: slow.session.write(encode("SET", "slow", "value") + encode("GET", "slow")), 1, between)
        received = b""
        while len(received) < len(b"+OK\r\n$5\r\nvalue\r\n"):
            received += slow.until_done(lambda: slow.session.read(100), 1)
        expect(received, b"+OK\r\n$5\r\nvalue\r\n")
        slow.socket.close()


@check
def tls_broken_record():
    """TLS: a record that was tampered with ends its connection, whole or in pieces, and nobody else notices"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as other:
        for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
            for length in [1, 7, 1 << 16]:
                for spoil in [lambda record: record[:-1] + bytes([record[-1] ^ 1]), lambda _: b"GET / HTTP/1.1\r\n\r\n"]:
                    client = Dribble(server, version=version)
                    client.until_done(client.session.do_handshake, 1 << 16)
                    client.session.write(encode("SET", "k", "spoilt"))
                    record = spoil(client.outgoing.read())
                    with contextlib.suppress(ConnectionError):
                        for start in range(0, len(record), length):
                            client.socket.sendall(record[start : start + length])
                            expect(other.call("PING"), "PONG")
                        while client.socket.recv(1 << 16):
                            pass
                    client.socket.close()
        expect(other.call("EXISTS", "k"), 0)


@check
def tls_pushed():
    """TLS: published messages and replies to blocked commands reach TLS clients"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as reader, connect(server) as waiter, server.connect() as plain:
        expect(reader.call("SUBSCRIBE", "news"), [b"subscribe", b"news", 1])
        waiter.send(encode("BLPOP", "list", 0))
        message = os.urandom(100_000)
        for _ in range(20):
            expect(plain.call("PUBLISH", "news", message), 1)
            expect(reader.reply(), [b"message", b"news", message])
        wait_until(lambda: plain.call("INFO", "clients").count(b"blocked_clients:1\r\n") == 1, "a blocked client")
        expect(plain.call("RPUSH", "list", "element"), 1)
        expect(waiter.reply(), [b"list", b"element"])


@check
def tls_half_closed():
    """TLS: a client that says it sends no more, by close_notify or by the socket alone, gets every reply and the end"""
    for says_so in [True, False]:
        with serving(*NO_CERTIFICATE) as server:
            client = Dribble(server)
            client.until_done(client.session.do_handshake, 1 << 16)
            client.session.write(b"".join(encode("ECHO", number) for number in range(1_000)))
            if says_so:
                with contextlib.suppress(ssl.SSLError):
                    client.session.unwrap()
            for piece in client.pieces(1 << 16):
                client.socket.sendall(piece)
            client.socket.shutdown(socket.SHUT_WR)
            # After its own close_notify Python's session reads no more: what counts is that all arrives.
            count, data = 0, b""
            while data := client.socket.recv(1 << 16):
                client.incoming.write(data)
                count += len(data)
            assert count > sum(len(b"$%d\r\n%d\r\n" % (len(str(number)), number)) for number in range(1_000)), count
            if not says_so:
                replies = b""
                with contextlib.suppress(ssl.SSLZeroReturnError):
                    while piece := client.session.read(1 << 16):
                        replies += piece
                expect(replies.count(b"\r\n"), 2_000, "lines of replies")


@check
def tls_gone_in_handshake():
    """TLS: clients that disappear in the middle of a handshake leave nothing behind"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as other:
        hello = Dribble(server)
        with contextlib.suppress(ssl.SSLWantReadError):
            hello.session.do_handshake()
        hello.socket.close()
        hello = hello.outgoing.read()
        for reset in [False, True]:
            for length in [0, 1, 5, 100, len(hello) - 1, len(hello)]:
                for _ in range(10):
                    with Client(plain_socket(server)) as client:
                        client.send(hello[:length])
                        if reset:
                            reset_on_close(client)
                    expect(other.call("PING"), "PONG")
        wait_until(lambda: other.call("CLIENT", "LIST").count(b"\n") == 1, "all connections but one are closed")


@check
def tls_half_open():
    """TLS: 500 half-open handshakes while an established client goes on; those that take too long are closed"""
    with serving(*NO_CERTIFICATE) as server, connect(server) as client:
        before = server.resident_bytes()
        stuck = []
        for number in range(500):
            each = Dribble(server)
            with contextlib.suppress(ssl.SSLWantReadError):
                each.session.do_handshake()
            # Some have not said a word, some half of one, some have been answered and do not go on.
            hello = each.outgoing.read()
            each.socket.sendall(hello[: [0, len(hello) // 2, len(hello)][number % 3]])
            stuck.append(each)
            if number % 10 == 0:
                expect(client.call("PING"), "PONG")
        expect(client.call("SET", "k", "v"), "OK")
        connected = lambda: int(client.call("INFO", "clients").split(b"connected_clients:")[1].split(b"\r")[0])
        # On a slow machine the first are late already.
        wait_until(lambda: connected() > 400, "half-open ones to be counted")
        assert is_let_in(server), "a handshake among them"
        growth_bytes = server.resident_bytes() - before
        assert growth_bytes < 32 << 20, f"500 half-open handshakes took {growth_bytes} bytes"
        # Ten seconds are over for all of them before our patience is.
        wait_until(lambda: connected() == 1, "their end")
        expect(client.call("GET", "k"), b"v")
        for each in stuck:
            each.socket.close()


@check
def tls_handshake_storm():
    """TLS: handshakes one after the other from 8 threads, while an established client gets every reply"""
    with serving(*NO_CERTIFICATE, server="rsa", threads=1) as server, connect(server) as client:
        made, stop, done = context(server), threading.Event(), []

        def storm():
            while not stop.is_set():
                with contextlib.suppress(ConnectionError):
                    with made.wrap_socket(plain_socket(server), server_hostname="localhost"):
                        done.append(1)

        threads = [threading.Thread(target=storm) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for number in range(2_000):
                expect(client.call("SET", "k", number), "OK")
            wait_until(lambda: len(done) > 50, "handshakes to be done meanwhile")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        expect(client.call("GET", "k"), b"1999")


@check
def tls_unread_pipeline():
    """TLS: 100,000 pipelined GETs of 1 kB, unread: bounded memory, others served, then every reply arrives"""
    count, batch, value = 100_000, 1_000, b"v" * 1_000
    with serving(*NO_CERTIFICATE) as server, connect(server) as client:
        expect(client.call("SET", "k", value), "OK")
        requests, replies = encode("GET", "k") * batch, (b"$1000\r\n" + value + b"\r\n") * batch
        client.send(requests)
        expect(client.read(len(replies)), replies)
        growth_bytes, sender = growth_while_unread(server, lambda: [client.send(requests) for _ in range(count // batch)])
        expect_bounded(growth_bytes)
        for _ in range(count // batch):
            expect(client.read(len(replies)), replies)
        sender.join()
        expect(client.call("PING"), "PONG")


@check
def tls_idle_memory():
    """TLS: idle connections that have just had large values own no buffers"""
    value = os.urandom(200_000)
    with serving(*NO_CERTIFICATE) as server:
        made = context(server)
        rounds = []
        for _ in range(4):
            clients = [
                Client(made.wrap_socket(plain_socket(server), server_hostname="localhost")) for _ in range(300)
            ]
            before = server.resident_bytes()
            for client in clients:
                expect(client.call("SET", "k", value), "OK")
                expect(client.call("GET", "k"), value)
            rounds.append(server.resident_bytes() - before)
            for client in clients:
                client.socket.close()
        # In the first round the server's own buffers grow to what they are in use, and now and then in another. What each
        # connection owned would be there in every one.
        assert min(rounds[1:]) < 300 * 16_384, f"300 connections grew by {rounds}"


@check
def tls_protected_mode():
    """TLS: protected mode and maxclients hold for TLS clients, too"""
    with serving("--maxclients", "2", *NO_CERTIFICATE) as server, connect(server) as first, server.connect() as second:
        expect([first.call("PING"), second.call("PING")], ["PONG", "PONG"])
        expect([is_let_in(server) for _ in range(3)], [False] * 3, "above maxclients")
        second.socket.close()
        wait_until(lambda: is_let_in(server), "a place")
    address = other_address()
    if address is None:
        return
    with serving("--bind", "127.0.0.1", address, *NO_CERTIFICATE) as server, connect(server) as local:
        def from_elsewhere():
            raw = socket.create_connection((address, server.tls_port), timeout=PATIENCE_S)
            return Client(context(server).wrap_socket(raw, server_hostname="localhost"))

        with from_elsewhere() as client:
            reply = client.reply()
            assert isinstance(reply, Error) and reply.startswith("DENIED "), reply
            assert client.at_end(), "the connection stays open"
        expect(local.call("CONFIG", "SET", "protected-mode", "no"), "OK")
        with from_elsewhere() as client:
            expect(client.call("PING"), "PONG")


def other_address():
    """An address of this machine that is not the loopback's, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: it only chooses an address.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


@check
def tls_cluster():
    """TLS: in cluster mode a TLS client is told of the TLS port, a plain one of the plain port"""
    with serving("--cluster-enabled", "yes", *NO_CERTIFICATE) as server:
        with connect(server) as secure, server.connect() as plain:
            for client, port in [(secure, server.tls_port), (plain, server.port)]:
                expect(client.call("CLUSTER", "SLOTS")[0][2][1], port, "CLUSTER SLOTS")
                assert b":%d@" % port in client.call("CLUSTER", "NODES"), "CLUSTER NODES"
            shard = secure.call("CLUSTER", "SHARDS")[0][3][0]
            facts = dict(zip(shard[::2], shard[1::2]))
            expect((facts[b"port"], facts[b"tls-port"]), (server.port, server.tls_port), "CLUSTER SHARDS")


@check
def tls_balanced():
    """TLS: connections move between workers and go on"""
    with serving(*NO_CERTIFICATE, threads=4) as server:
        clients = [connect(server) for _ in range(40)]
        ends_s = time.monotonic() + 3
        while time.monotonic() < ends_s:
            for number, client in enumerate(clients):
                expect(client.call("ECHO", number), b"%d" % number)
        for client in clients:
            client.socket.close()
