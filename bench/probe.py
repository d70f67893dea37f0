"""The client whose waits are measured while another keeps the server busy: SET and GET by turns, one request at a time."""

import contextlib
import gc
import multiprocessing
import os
import time

from generator import encode
from watchers import overlap_s

# The server under it has both CPUs, and Halcyon as many workers.
PROBE_CPUS = "0,1"
PROBE_WORKERS = 2
PROBE_CONNECTIONS = 4
PROBE_KEYS = 1_000
# Before everything else that shares the CPUs: a wait for the scheduler is not the server's.
PROBE_NICENESS = -15
RECEIVE_BYTES = 4_096
WATCH_S = 1.0
# What goes on after the reply (freeing, for example) still counts.
AFTER_REPLY_S = 0.3
SHARES = (0.5, 0.99, 0.999)
# From here on it is looked at what held a wait up.
LONG_S = 0.0005


def waits_ms(probe, work, after_s=AFTER_REPLY_S):
    """Waits of the probe while `work()` runs: the shares, and the longest."""
    waits_us, _ = waits_while(probe, work, after_s)
    return shares_ms(waits_us)


def waits_and_own_ms(probe, watchers, work, after_s=AFTER_REPLY_S):
    """As `waits_ms`, and the same of the waits less what the watchers were held up meanwhile."""
    watchers.begin()
    try:
        waits_us, long_s = waits_while(probe, work, after_s)
    finally:
        held_up = watchers.end()
    own_us = [wait_us for wait_us in waits_us if wait_us <= LONG_S * 1e6]
    own_us += [(end_s - start_s - overlap_s(start_s, end_s, held_up)) * 1e6 for start_s, end_s in long_s]
    return shares_ms(waits_us), shares_ms(own_us)


def waits_while(probe, work, after_s):
    """Runs `work()`; returns all waits in microseconds, and the (beginning, end) of the long ones in seconds."""
    probe.send("begin")
    started_s = time.monotonic()
    try:
        work()
        time.sleep(max(after_s, WATCH_S - (time.monotonic() - started_s)))
    finally:
        probe.send("end")
        answer = probe.recv()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


def shares_ms(waits_us):
    waits_us = sorted(waits_us)
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
    """Between "begin" and "end" sends SET and GET by turns; answers "end" with what `waits_while` returns, or an error."""
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
    waits_us, long_s = [], []
    clock = time.perf_counter
    while True:
        for connection, request in requests:
            started_s = clock()
            connection.sendall(request)
            reply = connection.recv(RECEIVE_BYTES)
            ended_s = clock()
            waits_us.append((ended_s - started_s) * 1e6)
            if ended_s - started_s > LONG_S:
                long_s.append((started_s, ended_s))
            # A GET finds nothing where all keys have just been flushed.
            if reply[:1] not in b"+$":
                raise RuntimeError(f"unexpected reply {reply[:100]!r}")
            if len(waits_us) % 16 == 0 and pipe.poll():
                return waits_us, long_s
