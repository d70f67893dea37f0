"""CLUSTER SLOTS and CLUSTER NODES of a one-node cluster that owns all slots: round trip less a PING's, and CPU.

One connection on CPU 1 sends the command and a PING and waits for both; the same with PING and PING is taken off.
"""

import time

from figures.connections import on_generator_cpu
from generator import Ended
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
                        run.table.row(f"{name}: round trip less PING's", "us", 1),
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
    return max(0.0, wall_us - ping_us), cpu_us


def per_call_us(server, client, words, calls):
    cpu_before_s, started_s = server.cpu_s(), time.perf_counter()
    for _ in range(calls):
        client.call(*words)
    elapsed_s = time.perf_counter() - started_s
    return elapsed_s / calls * 1e6, (server.cpu_s() - cpu_before_s) / calls * 1e6
