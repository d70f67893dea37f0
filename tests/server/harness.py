"""A Halcyon process on a free port, a plain RESP client, and the list of checks that `run.py` works through."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "scripts"))
from ports import free_port  # noqa: E402, F401

START_TIMEOUT_S = 20
# Anything that should happen is waited for this long: only a defect gets here.
PATIENCE_S = 60

CHECKS = []


def check(function):
    """Marks a check; its docstring's first line is its name. It fails by raising."""
    CHECKS.append(function)
    return function


class Skip(Exception):
    """Raised where this machine cannot run a check."""


def binary():
    named = os.environ.get("HALCYON_BIN")
    built = [REPOSITORY / "target/release/halcyon", REPOSITORY / "target/ci/halcyon"]
    for candidate in [os.path.abspath(named)] if named else built:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise SystemExit("tests/server: no server; build it or set HALCYON_BIN")


def run_to_end(*arguments, cwd=None):
    """Starts the server where it should end by itself; returns its exit code and the lines of its output."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [binary(), *map(str, arguments)], cwd=cwd or directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
        )
    return done.returncode, done.stdout.splitlines()


class Process:
    """A server of any kind: its process, `port`, `directory` and log."""

    def launch(self, command, before_start=None):
        self.log_path = os.path.join(self.directory, "log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=before_start,
            )

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def connect(self):
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S))


class Server(Process):
    """A running server; a context manager that kills it, and fails if it had ended by itself."""

    def __init__(self, *arguments, threads=2, port=None, directory=None, before_start=None):
        self.is_directory_kept = directory is not None
        self.directory = directory or tempfile.mkdtemp(prefix="halcyon-test-")
        self.port = free_port() if port is None else port
        command = [binary(), "--port", self.port, "--bind", "127.0.0.1", "--dir", self.directory, "--threads", threads]
        self.launch([*command, *arguments], before_start)

    def __enter__(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while "ready to accept connections" not in self.log():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log()
                self.close()
                raise AssertionError(f"the server did not start: {log}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        ended, log = self.process.poll(), self.log()
        self.close()
        assert ended in (None, 0), f"the server ended with {ended}: {log[-2000:]}"
        assert "panic" not in log, log[-2000:]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if not self.is_directory_kept:
            shutil.rmtree(self.directory, ignore_errors=True)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))

    def terminate(self):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)


class Error(str):
    """An error reply."""


class Client:
    """A connection that reads replies: int, bytes, None, list, str for simple strings, Error."""

    def __init__(self, connection):
        self.socket = connection
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def call(self, *words):
        self.send(encode(*words))
        return self.reply()

    def read(self, count):
        """Exactly `count` bytes."""
        pieces, length = [self.buffer], len(self.buffer)
        while length < count:
            piece = self.socket.recv(1 << 20)
            assert piece, "the server closed the connection early"
            pieces.append(piece)
            length += len(piece)
        data = b"".join(pieces)
        self.buffer = data[count:]
        return data[:count]

    def line(self):
        while b"\r\n" not in self.buffer:
            piece = self.socket.recv(1 << 16)
            assert piece, "the server closed the connection early"
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        raise AssertionError(f"not a RESP2 reply: {line!r}")

    def at_end(self):
        """True if the server closes the connection with nothing left to read."""
        with contextlib.suppress(ConnectionResetError):
            return not self.buffer and self.socket.recv(1) == b""
        return True


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def expect(actual, wanted, about="reply"):
    assert actual == wanted, f"{about}: got {shorten(actual)}, wanted {shorten(wanted)}"


def shorten(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)} characters)"


def wait_until(condition, about):
    """Polls `condition` until it holds and returns its value."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"in vain waited for: {about}"
        time.sleep(0.02)
    return value
