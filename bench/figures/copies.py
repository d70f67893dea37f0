"""What copying the data costs clients: waits of SET and GET during BGSAVE, BGREWRITEAOF, a full sync and a replica's restart.

The server has CPUs 0 and 1 and append-only files (`appendfsync everysec`). It holds 20,000,000 keys `key:N` with 100-byte
values (`--elements N` for another number) and one sorted set of half as many members. One process sets 20,000 random keys a
second all the time; the probe is that of the figure stall. The replica is another server of the same program, which shares the
CPUs; it is killed for its restart, and has append-only files of its own. Each cell is median / p99 / p99.9 / longest of the waits from the
beginning to half a second after the end. What has not ended in ten minutes is given up, and its cell says so.

The rows "less the machine's" leave out of each wait for how long a process at real-time priority was held up meanwhile, on either CPU
(`bench/watchers.py`): that is nothing a server does.

The extra memory is the most that the machine had less to give than before, in per cent of what the server held then: pages that a
forked child shares no more, or versions of keys that are kept, and buffers.
"""

import contextlib
import multiprocessing
import os
import random
import threading
import time

from generator import Ended, ask, encode, load_keys
from probe import PROBE_CPUS, PROBE_WORKERS, probing, waits_and_own_ms, waits_ms
from servers import Server, running
from watchers import watching

NAME = "copies"
TIMEOUT_S = 600
NO_END = f"no end in {TIMEOUT_S} s"
WRITES_PER_S = 20_000
# Of writes: so many at once, so many times a second.
BURSTS_PER_S = 100
CHUNK_MEMBERS = 1_000
POLL_S = 0.1
AFTER_S = 0.5
MEMORY_POLL_S = 0.05
FILES = ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"]


def measure(run):
    keys = run.elements or run.pick(20_000_000, 1_000_000)
    for program in run.programs:
        run.progress(program.name)
        threads = PROBE_WORKERS if program.is_halcyon else 1
        with running([program], FILES, threads=threads, cpus=PROBE_CPUS) as [server]:
            load_keys(server, keys, progress=lambda text, name=program.name: run.progress(f"{name}: {text}"))
            load_sorted_set(server, keys // 2)
            with probing(server) as probe, writing(server, keys), watching(PROBE_CPUS) as watchers:
                watch_all(run, server, probe, watchers, threads)


def watch_all(run, server, probe, watchers, threads):
    with server.connect(timeout_s=TIMEOUT_S) as connection:
        client = Ended(connection)

        def watch(title, work, measures_memory=False):
            rows = [run.table.row(f"Waits while: {title}, 20,000 writes/s", "ms", 2)]
            if watchers:
                rows.append(run.table.row(f"Waits while: {title}, less the machine's", "ms", 2))
            if measures_memory:
                rows.append(run.table.row(f"Extra memory of {title}", "%", 1))
            run.attempt(rows, server.name, lambda: watched(work, measures_memory))
            run.tell(rows, server.name)

        def watched(work, measures_memory):
            ended = []
            work_once = lambda: ended.append(has_ended(work))
            with extra_memory() as extra:
                if watchers:
                    waits = waits_and_own_ms(probe, watchers, work_once, AFTER_S)
                else:
                    waits = [waits_ms(probe, work_once, AFTER_S)]
            values = [figures if ended[0] else NO_END for figures in waits]
            return values + [extra[0] * 100 / server.resident_bytes()] if measures_memory else values

        watch("no copy", lambda: time.sleep(5))
        watch("BGSAVE", lambda: finish(client, "BGSAVE", b"rdb_bgsave_in_progress:0"), measures_memory=True)
        watch("BGREWRITEAOF", lambda: finish(client, "BGREWRITEAOF", b"aof_rewrite_in_progress:0"), measures_memory=True)
        watch_replica(server, threads, watch)


def finish(client, command, over):
    """Has the server copy its data; returns once it is done."""
    client.call(command)
    wait_for(lambda: over in client.call("INFO", "persistence"))


def watch_replica(server, threads, watch):
    replica = Server(server.program, [*FILES, "--replicaof", "127.0.0.1", str(server.port)], threads=threads, cpus=PROBE_CPUS)
    try:
        watch("a full sync", lambda: follow(replica))
        watch("a replica's restart", lambda: restart(replica))
    finally:
        replica.stop()


def follow(replica):
    with replica.connect(timeout_s=TIMEOUT_S) as connection:
        wait_for(lambda: b"master_link_status:up" in ask(connection, "INFO", "replication"))


def restart(replica):
    """Kills the replica and starts it again on its directory; returns once it follows."""
    replica.restart()
    follow(replica)


class Endless(Exception):
    """What was waited for did not come."""


def has_ended(work):
    """Does it; false if it was given up."""
    try:
        work()
    except Endless:
        return False
    return True


def wait_for(is_over):
    deadline = time.monotonic() + TIMEOUT_S
    while not is_over():
        if time.monotonic() > deadline:
            raise Endless
        time.sleep(POLL_S)


def load_sorted_set(server, members):
    with server.connect(timeout_s=TIMEOUT_S) as connection:
        client = Ended(connection)
        for first in range(0, members, CHUNK_MEMBERS):
            words = [word for number in range(first, first + CHUNK_MEMBERS) for word in (number, f"member:{number:012}")]
            client.call("ZADD", "sorted", *words)


@contextlib.contextmanager
def extra_memory():
    """Yields a list whose one item is, at the end, the most bytes that the machine had less to give than at the beginning."""
    extra, over = [0], threading.Event()
    before = available_bytes()

    def look():
        while not over.wait(MEMORY_POLL_S):
            extra[0] = max(extra[0], before - available_bytes())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield extra
    finally:
        over.set()
        thread.join()


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        line = next(line for line in meminfo if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


@contextlib.contextmanager
def writing(server, keys):
    """Sets random ones of the keys all the time, from a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=write_forever, args=(server, keys), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def write_forever(server, keys):
    draw, value = random.Random(1), b"y" * 100
    burst = WRITES_PER_S // BURSTS_PER_S
    replies = len(b"+OK\r\n") * burst
    with server.connect(timeout_s=TIMEOUT_S) as connection:
        due_s = time.monotonic()
        while os.getppid() != 1:
            connection.sendall(b"".join(encode("SET", f"key:{draw.randrange(keys)}", value) for _ in range(burst)))
            received = 0
            while received < replies:
                piece = connection.recv(replies)
                if not piece or b"-" in piece:
                    raise RuntimeError(f"a write failed: {piece[:100].decode(errors='replace')}")
                received += len(piece)
            # What was late is not made up for at once: the rate is a bound.
            due_s = max(due_s + 1 / BURSTS_PER_S, time.monotonic() - 1 / BURSTS_PER_S)
            time.sleep(max(0.0, due_s - time.monotonic()))
