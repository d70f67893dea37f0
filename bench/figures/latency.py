"""Latency of one connection that sends SET or GET in turn, each after the other's reply: median, p99 and p99.9.

A loop in Python on CPU 1 over 100,000 keys with 100 B values; servers take turns, and each percentile is the median of
its rounds.
"""

import time

from figures.connections import on_generator_cpu
from generator import encode
from servers import running

NAME = "latency"
KEYS = 100_000
RECEIVE_BYTES = 4_096


def measure(run):
    seconds = run.pick(4, 1.5)
    rows = [
        run.table.row("SET and GET by turns, one connection: median", "us", 1),
        run.table.row("SET and GET by turns, one connection: p99", "us", 1),
        run.table.row("SET and GET by turns, one connection: p99.9", "us", 1),
    ]
    with running(run.programs) as servers, on_generator_cpu():
        for _ in range(run.pick(3, 1)):
            for server in servers:
                run.attempt(rows, server.name, lambda: once(server, seconds))


def once(server, seconds):
    value = b"x" * 100
    # Prepared, so that the loop spends its time waiting.
    requests = []
    for number in range(10_000):
        key = f"key:{number * 7919 % KEYS}"
        requests += [encode("SET", key, value), encode("GET", key)]
    waits_us = []
    clock = time.perf_counter
    with server.connect() as connection:
        send, receive = connection.sendall, connection.recv
        ends_s = clock() + seconds
        while clock() < ends_s:
            for request in requests[:2_000]:
                started_s = clock()
                send(request)
                reply = receive(RECEIVE_BYTES)
                waits_us.append((clock() - started_s) * 1e6)
                if reply[:1] not in b"+$":
                    raise RuntimeError(f"unexpected reply {reply[:100]!r}")
            requests = requests[2_000:] + requests[:2_000]
    waits_us.sort()
    return [waits_us[int(len(waits_us) * share)] for share in (0.5, 0.99, 0.999)]
