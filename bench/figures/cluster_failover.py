"""From SIGKILL of a primary to the first acknowledged write elsewhere: three primaries with two replicas each, default settings,
Halcyon under `durability quorum`. A client tries every node in turn, 5 ms apart, until a write to a slot of the one that was killed is
acknowledged. Median and longest of all runs.
"""

import contextlib
import random
import statistics
import time

from clusters import cluster, wait_until
from generator import encode

NAME = "cluster_failover"
TIMEOUT_S = 60
REPLY_TIMEOUT_S = 0.5
PAUSE_S = 0.005
SETTLE_S = 4.0
SEED = 1


def measure(run):
    row = run.table.row("SIGKILL of a primary to the first acknowledged write: median / longest", "s", 2)
    for program in run.programs:
        run.attempt([row], program.name, lambda: [failovers(run, program, run.pick(50, 5))])


def failovers(run, program, runs):
    arguments = ["--durability", "quorum"] if program.is_halcyon else []
    rng, waits_s = random.Random(SEED), []
    with cluster(program, nodes=9, replicas=2, arguments=arguments) as (servers, _):
        for number in range(runs):
            time.sleep(SETTLE_S + rng.random())
            primary, key = rng.choice([(server, key) for server in servers for key in owned_keys(server)])
            killed_s = time.monotonic()
            primary.process.kill()
            waits_s.append(until_written([server for server in servers if server is not primary], key) - killed_s)
            primary.restart()
            for server in servers:
                wait_until(server, "CLUSTER INFO", b"cluster_state:ok")
            wait_until(primary, "INFO replication", b"master_link_status:up")
            if number % 10 == 9:
                run.progress(f"{program.name}: {number + 1} of {runs}, median {statistics.median(waits_s):.2f} s")
    return statistics.median(waits_s), max(waits_s)


def owned_keys(server):
    """A key that this node takes writes of; none of a replica."""
    with server.connect() as connection:
        for number in range(50):
            connection.sendall(encode("SET", f"key:{number}", number))
            if connection.recv(1024).startswith(b"+OK"):
                return [f"key:{number}"]
    return []


def until_written(servers, key):
    """When a write was acknowledged."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        for server in servers:
            with contextlib.suppress(OSError), server.connect(timeout_s=REPLY_TIMEOUT_S) as connection:
                connection.sendall(encode("SET", key, "after"))
                if connection.recv(1024).startswith(b"+OK"):
                    return time.monotonic()
        time.sleep(PAUSE_S)
    raise RuntimeError(f"no write was acknowledged in {TIMEOUT_S} s")
