"""What one client's heavy command costs another client: waits of SET and GET while the command runs.

The server has CPUs 0 and 1: Halcyon with two workers, peers as they come (more I/O threads of theirs would only take
the CPUs from each other). A process of its own sends SET and GET, one request at a time, over four
connections by turns, so that it meets every thread of the server, the one with the heavy connection included. Another
connection meanwhile sends one heavy command over values of 1,000,000 elements (`--elements N`), or over as many keys, and reads all
of its reply. Each cell is median / p99 / p99.9 / longest of the waits from the command's beginning to at least a second
later, and each of the four is the median of the rounds. The first row is the same with no command: what the machine
itself adds.

DEL, UNLINK and EXPIRE get a set, a hash, a sorted set and a list of their own: copies share what they hold in some servers.
"""

import contextlib
import gc
import multiprocessing
import os
import time

from generator import Ended, encode, load_keys
from servers import running

NAME = "stall"
CPUS = "0,1"
WORKERS = 2
PROBE_CONNECTIONS = 4
PROBE_KEYS = 1_000
# Before everything else that shares the CPUs: a wait for the scheduler is not the server's.
PROBE_NICENESS = -15
RECEIVE_BYTES = 4_096
WATCH_S = 1.0
# What goes on after the reply (freeing, for example) still counts.
AFTER_REPLY_S = 0.3
AFTER_EXPIRY_S = 1.5
SHARES = (0.5, 0.99, 0.999)
CHUNK_ELEMENTS = 1_000
TYPES = ("set", "hash", "zset", "list", "stream")


def measure(run):
    elements = run.elements or run.pick(1_000_000, 200_000)
    loads = {kind: load_requests(kind, elements) for kind in TYPES}
    for number in range(run.pick(3, 1)):
        for program in run.programs:
            run.progress(f"{program.name}, round {number + 1}")
            threads = WORKERS if program.is_halcyon else 1
            with running([program], threads=threads, cpus=CPUS) as [server], probing(server) as probe:
                watch_all(run, server, probe, loads, elements)


def watch_all(run, server, probe, loads, elements):
    """Runs every heavy command once."""
    with server.connect() as connection:
        heavy = Ended(connection)

        def watch(title, *commands, after_s=AFTER_REPLY_S):
            rows = [run.table.row(f"Waits while: {title}", "ms", 2)]
            run.attempt(rows, server.name, lambda: [waits_ms(heavy, probe, commands, after_s)])

        def load(*kinds, name="own"):
            for kind in kinds:
                heavy.call("DEL", f"{name}:{kind}")
                for request in loads[kind]:
                    heavy.call_encoded(request.replace(b"\0\0\0", name.encode()))

        load(*TYPES, name="one")
        load("set", "zset", name="two")
        watch("nothing else")
        watch("SMEMBERS", ("SMEMBERS", "one:set"))
        watch("HGETALL", ("HGETALL", "one:hash"))
        watch("LRANGE 0 -1", ("LRANGE", "one:list", 0, -1))
        watch("ZRANGE 0 -1 WITHSCORES", ("ZRANGE", "one:zset", 0, -1, "WITHSCORES"))
        watch("XRANGE - +", ("XRANGE", "one:stream", "-", "+"))
        watch("SORT ALPHA LIMIT 0 10", ("SORT", "one:set", "ALPHA", "LIMIT", "0", "10"))
        watch(f"SRANDMEMBER -{elements // 2}", ("SRANDMEMBER", "one:set", -elements // 2))
        watch("SINTER of two", ("SINTER", "one:set", "two:set"))
        watch("SUNIONSTORE of two", ("SUNIONSTORE", "out:set", "one:set", "two:set"))
        watch("ZINTERSTORE of two", ("ZINTERSTORE", "out:zset", 2, "one:zset", "two:zset"))
        watch("ZUNIONSTORE of two", ("ZUNIONSTORE", "out:zset", 2, "one:zset", "two:zset"))
        watch("COPY of each type", *[("COPY", f"one:{kind}", f"copy:{kind}") for kind in TYPES])
        load("list")
        watch("LREM of every other element", ("LREM", "own:list", 0, "odd"))
        heavy.call("FLUSHALL", "ASYNC")
        load(*TYPES)
        watch("DEL of each type", *[("DEL", f"own:{kind}") for kind in TYPES])
        load(*TYPES)
        watch("UNLINK of each type", *[("UNLINK", f"own:{kind}") for kind in TYPES])
        load(*TYPES)
        watch("EXPIRE 1 of each type, and expiry", *[("EXPIRE", f"own:{kind}", 1) for kind in TYPES], after_s=1 + AFTER_EXPIRY_S)
        load_keys(server, elements)
        watch(f"KEYS * of {elements:,}", ("KEYS", "*"))
        watch(f"FLUSHALL ASYNC of {elements:,}", ("FLUSHALL", "ASYNC"))


def load_requests(kind, elements):
    """Commands that add `elements` to a key called by three bytes to replace, and the type."""
    if kind == "stream":
        return [
            b"".join(encode("XADD", b"\0\0\0:stream", f"{number + 1}-0", "field", f"element:{number:012}") for number in chunk)
            for chunk in (range(first, first + CHUNK_ELEMENTS) for first in range(0, elements, CHUNK_ELEMENTS))
        ]
    command = {"set": "SADD", "hash": "HSET", "zset": "ZADD", "list": "RPUSH"}[kind]
    requests = []
    for first in range(0, elements, CHUNK_ELEMENTS):
        words = [command, b"\0\0\0:" + kind.encode()]
        for number in range(first, first + CHUNK_ELEMENTS):
            member = f"element:{number:012}"
            if kind == "hash":
                words += [member, member]
            elif kind == "zset":
                words += [number, member]
            else:
                words.append("odd" if kind == "list" and number % 2 else member)
        requests.append(encode(*words))
    return requests


def waits_ms(heavy, probe, commands, after_s):
    """Waits of the probe while `commands` run one after the other: the shares, and the longest."""
    probe.send("begin")
    started_s = time.monotonic()
    for words in commands:
        heavy.call(*words)
    time.sleep(max(after_s, WATCH_S - (time.monotonic() - started_s)))
    probe.send("end")
    waits_us = probe.recv()
    if isinstance(waits_us, str):
        raise RuntimeError(waits_us)
    waits_us.sort()
    return tuple(waits_us[int(len(waits_us) * share)] / 1e3 for share in SHARES) + (waits_us[-1] / 1e3,)


@contextlib.contextmanager
def probing(server):
    """Runs the client whose waits are measured in a process of its own; yields the pipe to it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=probe_until_closed, args=(server, theirs, ours), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(timeout=10)
        if process.is_alive():
            process.terminate()


def probe_until_closed(server, pipe, other_end):
    """Between "begin" and "end" sends SET and GET by turns; answers "end" with the waits in microseconds, or an error."""
    other_end.close()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PROBE_NICENESS)
    gc.disable()
    connections = [server.connect() for _ in range(PROBE_CONNECTIONS)]
    with contextlib.suppress(EOFError):
        while pipe.recv() == "begin":
            try:
                answer = probe_until_told(connections, pipe)
            except (OSError, RuntimeError) as error:
                answer = f"the other client: {error}"
                pipe.recv()
            else:
                pipe.recv()
            pipe.send(answer)


def probe_until_told(connections, pipe):
    value = b"x" * 100
    requests = []
    for number in range(PROBE_KEYS):
        connection = connections[number % len(connections)]
        requests += [(connection, encode("SET", f"probe:{number}", value)), (connection, encode("GET", f"probe:{number}"))]
    waits_us = []
    clock = time.perf_counter
    while True:
        for connection, request in requests:
            started_s = clock()
            connection.sendall(request)
            reply = connection.recv(RECEIVE_BYTES)
            waits_us.append((clock() - started_s) * 1e6)
            # A GET finds nothing where all keys have just been flushed.
            if reply[:1] not in b"+$":
                raise RuntimeError(f"unexpected reply {reply[:100]!r}")
            if len(waits_us) % 16 == 0 and pipe.poll():
                return waits_us
