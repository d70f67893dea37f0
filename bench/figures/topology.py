"""CLUSTER SLOTS and CLUSTER NODES of a one-node cluster that owns all slots: median round trip less a PING's,
and CPU.

One connection on CPU 1 sends the command and a PING and waits for both; the same with PING and PING is taken off.
"""

import statistics
import time

from figures.connections import on_generator_cpu
from generator import Ended, encode
from servers import running

NAME = "topology"
COMMANDS = [("CLUSTER", "SLOTS"), ("CLUSTER", "NODES")]
SLOTS_TIMEOUT_S = 20


def measure(run):
    calls = run.pick(10_000, 2_000)
    with running(run.programs, ["--cluster-enabled", "yes"]) as servers, on_generator_cpu():
        for server in servers:
            run.attempt([], server.name, lambda: own_all_slots(server))
        for _ in range(run.pick(3, 1)):
            for server in servers:
                for words in COMMANDS:
                    name = " ".join(words) + ", one node"
                    rows = [
                        run.table.row(f"{name}: median round trip less PING's", "us", 1),
                        run.table.row(f"{name}: CPU per call (with a PING)", "us", 1),
                    ]
                    run.attempt(rows, server.name, lambda: once(server, words, calls))


def own_all_slots(server):
    """Halcyon owns all slots from the start; others must be told."""
    with server.connect() as connection:
        client = Ended(connection)
        if not server.program.is_halcyon:
            client.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        deadline_s = time.monotonic() + SLOTS_TIMEOUT_S
        while b"cluster_state:ok" not in client.call("CLUSTER", "INFO"):
            if time.monotonic() > deadline_s:
                raise RuntimeError("the cluster did not come up")
            time.sleep(0.05)
    return []


def once(server, words, calls):
    with server.connect() as connection:
        client = Ended(connection)
        ping_us, _ = per_call_us(server, client, ["PING"], calls)
        wall_us, cpu_us = per_call_us(server, client, words, calls)
    return wall_us - ping_us, cpu_us


def per_call_us(server, client, words, calls):
    """The median round trip, and the server's CPU per call."""
    request = encode(*words)
    waits_us = []
    cpu_before_s = server.cpu_s()
    for _ in range(calls):
        started_s = time.perf_counter()
        client.call_encoded(request)
        waits_us.append((time.perf_counter() - started_s) * 1e6)
    return statistics.median(waits_us), (server.cpu_s() - cpu_before_s) / calls * 1e6
