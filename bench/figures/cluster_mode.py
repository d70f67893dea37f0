"""What cluster mode costs: CPU per GET and SET of a server with and without `cluster-enabled`, one node that owns all slots.

Both servers of a program run all the time and take turns on CPU 0, redis-benchmark is on CPU 1: 50 connections, 64 B values, 100,000 keys
that all exist, at pipelines of 64, 16 and 1. The cost is what the median of the rounds' ratios says.
"""

import statistics

from figures.get_set import CONNECTIONS, VALUE_BYTES
from figures.topology import own_all_slots
from generator import load_keys, redis_benchmark
from servers import running

NAME = "cluster_mode"
KEYS = 100_000


def measure(run):
    requests_of_pipeline = {
        64: run.pick(2_000_000, 500_000),
        16: run.pick(1_000_000, 300_000),
        1: run.pick(100_000, 40_000),
    }
    rounds = run.pick(9, 3)
    with running(run.programs) as standalone, running(run.programs, ["--cluster-enabled", "yes"]) as clustered:
        for alone, cluster in zip(standalone, clustered, strict=True):
            own_all_slots(cluster)
            for server in (alone, cluster):
                run.progress(f"loading {server.name}")
                load_keys(server, KEYS, zero_padded_to=12, value=b"x" * VALUE_BYTES)
        for pipeline, requests in requests_of_pipeline.items():
            for command in ["GET", "SET"]:
                rows = [
                    run.table.row(f"{command}, pipeline {pipeline}: CPU per command, standalone / cluster mode", "us", 3),
                    run.table.row(f"{command}, pipeline {pipeline}: what cluster mode costs", "%", 1),
                ]
                run.progress(rows[0].title)
                for pair in zip(standalone, clustered, strict=True):
                    run.attempt(rows, pair[0].name, lambda: compare(pair, command, pipeline, requests, rounds))
                    run.tell(rows, pair[0].name)


def compare(pair, command, pipeline, requests, rounds):
    """In each round both take a turn, and each of them goes first as often as the other."""
    of_rounds = []
    for number in range(rounds + 1):
        turns = {server: cpu_us(server, command, pipeline, requests) for server in (pair if number % 2 else reversed(pair))}
        # The first round warms up.
        if number:
            of_rounds.append(tuple(turns[server] for server in pair))
    medians = tuple(statistics.median(cpu) for cpu in zip(*of_rounds, strict=True))
    return medians, 100 * (statistics.median(cluster / alone for alone, cluster in of_rounds) - 1)


def cpu_us(server, command, pipeline, requests):
    before_s = server.cpu_s()
    redis_benchmark(server, "-t", command.lower(), "-c", CONNECTIONS, "-d", VALUE_BYTES, "-r", KEYS, "-P", pipeline, "-n", requests)
    return (server.cpu_s() - before_s) / requests * 1e6
