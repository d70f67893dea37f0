"""Load: requests, replies, redis-benchmark, fast loading of keys."""

import csv
import io
import subprocess
import time

from servers import GENERATOR_CPUS

RECEIVE_BYTES = 1 << 20
# A bulk load sends commands in chunks of this many; key numbers of a chunk share all digits but the last three.
CHUNK_COMMANDS = 1_000
LOADER_CONNECTIONS = 4
REPORT_INTERVAL_S = 4


def encode(*words):
    """One command as RESP."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Ended:
    """Sends commands each followed by PING, and so knows where a reply of any shape ends."""

    TAIL = encode("PING")
    PONG = b"+PONG\r\n"

    def __init__(self, connection):
        self.connection = connection

    def call(self, *words):
        """The reply's bytes. Raises RuntimeError on an error reply."""
        return self.call_encoded(encode(*words))

    def call_encoded(self, request):
        self.connection.sendall(request + self.TAIL)
        reply = bytearray()
        while not reply.endswith(self.PONG):
            piece = self.connection.recv(RECEIVE_BYTES)
            if not piece:
                raise RuntimeError("the server closed the connection")
            reply += piece
        if reply.startswith(b"-"):
            raise RuntimeError(reply.split(b"\r\n", 1)[0].decode(errors="replace"))
        return bytes(reply[: -len(self.PONG)])


def ask(connection, *words):
    """Sends a command whose reply is one line or one string, of a server that may be loading and not answer PING; the reply's text."""
    connection.sendall(encode(*words))
    reply = bytearray()
    while True:
        head, separator, rest = bytes(reply).partition(b"\r\n")
        if separator and not head.startswith(b"$"):
            return head
        if separator and len(rest) >= int(head[1:]) + 2:
            return rest[:-2]
        piece = connection.recv(RECEIVE_BYTES)
        if not piece:
            raise RuntimeError("the server closed the connection")
        reply += piece


def redis_benchmark(server, *arguments, cpus=GENERATOR_CPUS, processes=1, port=None):
    """Runs redis-benchmark, or several at once; returns the sum of their requests per second."""
    command = ["taskset", "-c", cpus, "redis-benchmark", "-h", "127.0.0.1", "-p", str(port or server.port), "--csv"]
    command += [str(word) for word in arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(processes)]
    try:
        outputs = [process.communicate() for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    per_s = 0.0
    for process, (output, errors) in zip(running, outputs, strict=True):
        rows = [row for row in csv.reader(io.StringIO(output)) if len(row) > 1 and row[0] != "test"]
        if process.returncode != 0 or not rows:
            text = (errors + output).strip().splitlines()
            raise RuntimeError(f"redis-benchmark: {text[-1] if text else process.returncode}")
        per_s += float(rows[-1][1])
    return per_s


def key_commands(first_chunk, chunks, name, zero_padded_to=0, value=b"x" * 100):
    """Yields `chunks` encoded chunks of 1,000 `SET name<N> value`, N from `first_chunk * 1000` on.

    One template per number of digits makes this run at the speed of `bytes.replace`.
    """
    templates = {}
    for chunk in range(first_chunk, first_chunk + chunks):
        prefix = b"%d" % chunk if chunk else b""
        if zero_padded_to:
            prefix = prefix.rjust(zero_padded_to - 3, b"0")
        if not prefix:
            yield b"".join(encode("SET", name + b"%d" % number, value) for number in range(CHUNK_COMMANDS))
            continue
        if len(prefix) not in templates:
            mark = b"\0" * len(prefix)
            suffixes = (b"%03d" % number for number in range(CHUNK_COMMANDS))
            templates[len(prefix)] = b"".join(encode("SET", name + mark + end, value) for end in suffixes)
        yield templates[len(prefix)].replace(b"\0" * len(prefix), prefix)


def load_keys(server, count, name=b"key:", zero_padded_to=0, value=b"x" * 100, progress=None):
    """Sets `count` keys (a multiple of 1,000) over a few connections."""
    assert count % CHUNK_COMMANDS == 0, "a load is a whole number of chunks"
    connections = [server.connect() for _ in range(LOADER_CONNECTIONS)]
    owed_bytes = [0] * len(connections)
    reply_bytes = CHUNK_COMMANDS * len(b"+OK\r\n")

    def collect(index):
        while owed_bytes[index]:
            piece = connections[index].recv(owed_bytes[index])
            if not piece or b"-" in piece:
                raise RuntimeError(f"loading keys failed: {piece[:100].decode(errors='replace')}")
            owed_bytes[index] -= len(piece)

    next_report_s = 0
    try:
        for number, chunk in enumerate(key_commands(0, count // CHUNK_COMMANDS, name, zero_padded_to, value)):
            index = number % len(connections)
            collect(index)
            connections[index].sendall(chunk)
            owed_bytes[index] = reply_bytes
            if progress and time.monotonic() > next_report_s:
                progress(f"{number * CHUNK_COMMANDS:,} of {count:,} keys")
                next_report_s = time.monotonic() + REPORT_INTERVAL_S
        for index in range(len(connections)):
            collect(index)
    finally:
        for connection in connections:
            connection.close()
