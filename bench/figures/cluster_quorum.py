"""What a write costs that is acknowledged by every copy: a shard of three copies on this machine, all CPUs.

SET of 64 B values: median latency of one connection, and requests per second of 200, with `durability none` and `quorum`, files synced
every second and before each acknowledgement. Others have nothing like it.
"""

import csv
import io
import subprocess

from clusters import cluster
from generator import redis_benchmark
from servers import GENERATOR_CPUS

NAME = "cluster_quorum"
MODES = {
    "none": ["--durability", "none"],
    "quorum": ["--durability", "quorum"],
    "quorum, files synced first": ["--durability", "quorum", "--appendonly", "yes", "--appendfsync", "always"],
}


def measure(run):
    for title, arguments in MODES.items():
        rows = [
            run.table.row(f"SET on three copies, {title}: median of one connection", "us", 0),
            run.table.row(f"SET on three copies, {title}: 200 connections", "requests/s", 0),
        ]
        run.progress(title)
        for program in run.halcyon:
            run.attempt(rows, program.name, lambda: one_mode(program, arguments, run.pick(200_000, 40_000)))


def one_mode(program, arguments, requests):
    with cluster(program, nodes=9, replicas=2, arguments=arguments) as (servers, _):
        primary = next(server for server in servers if answers(server))
        alone = median_us(primary, requests // 10)
        return alone, redis_benchmark(primary, "-t", "set", "-c", 200, "-d", 64, "-n", requests)


def answers(server):
    """True if this node takes the writes of redis-benchmark's key."""
    done = subprocess.run(["redis-cli", "-p", str(server.port), "SET", "key:__rand_int__", "x"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() == "OK"


def median_us(server, requests):
    command = ["taskset", "-c", GENERATOR_CPUS, "redis-benchmark", "-p", str(server.port), "--csv", "-t", "set", "-c", "1",
               "-d", "64", "-n", str(requests)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout
    rows = [row for row in csv.DictReader(io.StringIO(output)) if row.get("p50_latency_ms")]
    if not rows:
        raise RuntimeError(f"redis-benchmark: {output.strip()[:200]}")
    return float(rows[-1]["p50_latency_ms"]) * 1000
