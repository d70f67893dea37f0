"""What clients notice of slots that move in one step (CLUSTER MIGRATESLOTS), among three primaries on this machine, all CPUs.

A client of one connection, which follows MOVED, writes and reads a small key of the moved slot again and again. Its longest wait
while the slot moves, of nothing but that key, of a list of 10 million elements, and of 1 GB in values of 1 KB; the same time's
99th percentile, and how long the move takes. Peers without the command are left out.
"""

import contextlib
import socket
import threading
import time

from clusters import cluster
from generator import Ended, encode

NAME = "slot_move"
# Its slot, 5061, is the first node's.
TAG = "{bar}"
SLOT = 5061
VALUE_BYTES = 1000
LOAD_SCRIPT = "for i = 1, 1000 do redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':' .. i, string.rep('x', %d)) end" % VALUE_BYTES
LIST_SCRIPT = (
    "local all = {} for i = 1, 5000 do all[i] = 'element:' .. i end "
    "redis.call('RPUSH', KEYS[1] .. ':list', unpack(all))"
)
MOVE_TIMEOUT_S = 300
QUIET_S = 1


def measure(run):
    elements, size_mb = run.pick(10_000_000, 1_000_000), run.pick(1000, 100)
    for title, script, times in [
        ("a small key", None, 0),
        (f"a list of {elements:,} elements", LIST_SCRIPT, elements // 5000),
        (f"{size_mb} MB in values of 1 KB", LOAD_SCRIPT, size_mb * 1_000_000 // VALUE_BYTES // 1000),
    ]:
        rows = [
            run.table.row(f"slot move, {title}: longest wait of a client of the slot", "ms"),
            run.table.row(f"slot move, {title}: 99th percentile of its waits", "ms"),
            run.table.row(f"slot move, {title}: how long it takes", "s"),
        ]
        for program in run.programs:
            if program.is_halcyon or has_command(program):
                run.progress(f"{program.name}, {title}")
                run.attempt(rows, program.name, lambda: one_move(program, script, times))
                run.tell(rows, program.name)


def has_command(program):
    return program.name.startswith("valkey") and int(program.version.split(".")[0]) >= 9


def one_move(program, script, times):
    # What a move writes may be behind as far as these servers let it.
    arguments = [] if program.is_halcyon else ["--client-output-buffer-limit", "replica", "0", "0", "0"]
    with cluster(program, nodes=3, arguments=arguments) as (servers, _):
        source, target = servers[0], servers[1]
        with contextlib.closing(source.connect(timeout_s=MOVE_TIMEOUT_S)) as connection:
            ended = Ended(connection)
            for number in range(times):
                ended.call("EVAL", script, 1, TAG, number)
        with contextlib.closing(target.connect()) as connection:
            target_id = Ended(connection).call("CLUSTER", "MYID").split(b"\r\n")[1]
        with Loop(source.port) as loop, contextlib.closing(source.connect()) as connection:
            time.sleep(QUIET_S)
            began_s = time.monotonic()
            ended = Ended(connection)
            ended.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", SLOT, SLOT, "NODE", target_id)
            await_end(ended)
            took_s = time.monotonic() - began_s
            time.sleep(QUIET_S)
        waits_ms = sorted((end_s - start_s) * 1000 for start_s, end_s in loop.waits if end_s > began_s)
        if loop.error or not waits_ms:
            raise RuntimeError(f"the client of the slot: {loop.error or 'no answer'}")
        return waits_ms[-1], waits_ms[len(waits_ms) * 99 // 100], took_s


def await_end(ended):
    deadline_s = time.monotonic() + MOVE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        told = ended.call("CLUSTER", "GETSLOTMIGRATIONS")
        if b"success" in told:
            return
        if b"failed" in told or b"cancelled" in told:
            raise RuntimeError(f"the move has failed: {told[-200:]!r}")
        time.sleep(0.01)
    raise RuntimeError("the move does not end")


class Loop:
    """A client that writes and reads a key without a pause, and notes when each answer was asked for and came; a context manager."""

    def __init__(self, port):
        self.port, self.waits, self.error, self.is_over = port, [], None, False
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()

    def run(self):
        connections = {}
        commands = [encode("SET", TAG, "x"), encode("GET", TAG)]
        try:
            while not self.is_over:
                for command in commands:
                    start_s = time.monotonic()
                    reply = self.ask(connections, command)
                    while reply.startswith(b"-MOVED"):
                        self.port = int(reply.rsplit(b":", 1)[1])
                        reply = self.ask(connections, command)
                    self.waits.append((start_s, time.monotonic()))
                    if reply.startswith(b"-"):
                        self.error = reply.decode(errors="replace").strip()
                        return
        except OSError as error:
            self.error = str(error)
        finally:
            for connection in connections.values():
                connection.close()

    def ask(self, connections, command):
        if self.port not in connections:
            connections[self.port] = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            connections[self.port].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[self.port].sendall(command)
        return connections[self.port].recv(4096)
