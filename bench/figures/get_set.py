"""GET and SET: the server's CPU time per command, and requests per second.

redis-benchmark on CPU 1, 50 connections, 64 B values, 1,000,000 keys that all exist, at pipelines of 64, 16 and 1.
CPU is user and system time of the process from /proc over the run; the median of the rounds.
"""

from generator import load_keys, redis_benchmark
from servers import running

NAME = "get_set"
KEYS = 1_000_000
VALUE_BYTES = 64
CONNECTIONS = 50


def measure(run):
    requests_of_pipeline = {
        64: run.pick(2_000_000, 500_000),
        16: run.pick(1_000_000, 300_000),
        1: run.pick(100_000, 40_000),
    }
    with running(run.programs) as servers:
        for server in servers:
            run.progress(f"loading {server.name}")
            # The names that redis-benchmark draws: key: and twelve digits.
            load_keys(server, KEYS, zero_padded_to=12, value=b"x" * VALUE_BYTES)
        for pipeline, requests in requests_of_pipeline.items():
            for command in ["GET", "SET"]:
                rows = [
                    run.table.row(f"{command}, pipeline {pipeline}: CPU per command", "us", 3),
                    run.table.row(f"{command}, pipeline {pipeline}: throughput", "requests/s", 0),
                ]
                run.progress(rows[0].title)
                for _ in range(run.pick(3, 1)):
                    for server in servers:
                        run.attempt(rows, server.name, lambda: once(server, command, pipeline, requests))


def once(server, command, pipeline, requests):
    before_s = server.cpu_s()
    per_s = redis_benchmark(
        server, "-t", command.lower(), "-c", CONNECTIONS, "-d", VALUE_BYTES, "-r", KEYS, "-P", pipeline, "-n", requests
    )
    return (server.cpu_s() - before_s) / requests * 1e6, per_s
