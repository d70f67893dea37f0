"""What it costs to be answered only when the data is on the disk, and what it costs those who do not ask for it.

- `appendfsync always`, 200 connections that SET 64 B values of a million keys: requests per second at pipelines of 1 and 16.
- Half of 200 connections SET, the others GET keys that nobody writes: median and 99th percentile of the GETs, with
  `appendfsync always` and without persistence.
- SET at pipeline 16 from 50 connections, with `appendfsync everysec` and without persistence: requests per second and CPU.

Servers write to the directory for temporary files; how long a sync takes there is a row of its own.
"""

import csv
import io
import os
import subprocess
import tempfile
import time

from generator import load_keys, redis_benchmark
from servers import GENERATOR_CPUS, running

NAME = "durability"
KEYS = 1_000_000
READ_KEYS = 100_000
VALUE_BYTES = 64
NONE = ["--appendonly", "no"]
EVERYSEC = ["--appendonly", "yes", "--appendfsync", "everysec"]
ALWAYS = ["--appendonly", "yes", "--appendfsync", "always"]
# Rewriting the files is another subject.
NO_REWRITE = ["--auto-aof-rewrite-percentage", "0"]
# No benchmark gets so far while another is measured.
ENDLESS = 1_000_000_000


def measure(run):
    sync_ms = time_of_sync_ms(run.pick(200, 50))
    run.table.notes.append(f"- {NAME}: a sync of 4 KiB took {sync_ms:.2f} ms in the median")
    writes(run)
    reads(run)
    everysec(run)


def time_of_sync_ms(count):
    """The median of what fdatasync takes after 4 KiB were appended."""
    times_ms = []
    with tempfile.TemporaryFile(prefix="halcyon-bench-") as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            file.flush()
            started_s = time.monotonic()
            os.fdatasync(file.fileno())
            times_ms.append((time.monotonic() - started_s) * 1000)
    return sorted(times_ms)[count // 2]


def set_arguments(connections, pipeline, requests):
    return ["-t", "set", "-c", connections, "-d", VALUE_BYTES, "-r", KEYS, "-P", pipeline, "-n", requests]


def writes(run):
    with running(run.programs, [*ALWAYS, *NO_REWRITE]) as servers:
        for pipeline, requests in {1: run.pick(200_000, 60_000), 16: run.pick(1_000_000, 300_000)}.items():
            row = run.table.row(f"SET, always, 200 connections, pipeline {pipeline}: throughput", "requests/s", 0)
            run.progress(row.title)
            for _ in range(run.pick(3, 1)):
                for server in servers:
                    arguments = set_arguments(200, pipeline, requests)
                    run.attempt([row], server.name, lambda: [redis_benchmark(server, *arguments)])


def reads(run):
    for mode, options in {"no persistence": NONE, "always": ALWAYS}.items():
        with running(run.programs, [*options, *NO_REWRITE]) as servers:
            row = run.table.row(f"GET of other keys, half of 200 clients SET, {mode}: p50 / p99", "ms", 2)
            run.progress(row.title)
            for server in servers:
                load_keys(server, READ_KEYS, name=b"read:", zero_padded_to=12, value=b"x" * VALUE_BYTES)
            for _ in range(run.pick(3, 1)):
                for server in servers:
                    run.attempt([row], server.name, lambda: [beside_writers(server, run.pick(100_000, 30_000))])


def beside_writers(server, requests):
    """The latencies of GETs, median and 99th percentile, while as many connections write."""
    base = ["taskset", "-c", GENERATOR_CPUS, "redis-benchmark", "-h", "127.0.0.1", "-p", str(server.port), "--csv"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    writer = subprocess.Popen([*base, *map(str, set_arguments(100, 1, ENDLESS))], **pipes)
    try:
        time.sleep(0.5)
        reading = [*base, "-c", "100", "-r", str(READ_KEYS), "-n", str(requests), "GET", "read:__rand_int__"]
        output = subprocess.run(reading, capture_output=True, text=True, timeout=120, check=False).stdout
        if writer.poll() is not None:
            raise RuntimeError("the writers ended early")
    finally:
        writer.kill()
        writer.communicate()
    rows = [row for row in csv.DictReader(io.StringIO(output)) if row.get("p50_latency_ms")]
    if not rows:
        raise RuntimeError(f"redis-benchmark: {output.strip()[:200]}")
    return float(rows[-1]["p50_latency_ms"]), float(rows[-1]["p99_latency_ms"])


def everysec(run):
    requests = run.pick(1_000_000, 300_000)
    with running(run.programs, NONE) as without, running(run.programs, [*EVERYSEC, *NO_REWRITE]) as with_files:
        for _ in range(run.pick(3, 1)):
            for mode, servers in {"no persistence": without, "everysec": with_files}.items():
                rows = [
                    run.table.row(f"SET, {mode}, pipeline 16: throughput", "requests/s", 0),
                    run.table.row(f"SET, {mode}, pipeline 16: CPU per command", "us", 3),
                ]
                run.progress(rows[0].title)
                for server in servers:
                    run.attempt(rows, server.name, lambda: timed(server, requests))


def timed(server, requests):
    before_s = server.cpu_s()
    per_s = redis_benchmark(server, *set_arguments(50, 16, requests))
    return per_s, (server.cpu_s() - before_s) / requests * 1e6
