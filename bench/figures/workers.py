"""Two workers against one, on the same work: throughput and CPU per command. Halcyon only.

Server and generator share CPUs 0 and 1, for one worker and for two. The generator is two redis-benchmark processes of
25 connections (its --threads rounds times to 250 ms). GET and SET at pipeline 16 leave much of both CPUs to the
generator; LPOS over 1,000 elements is work for the server almost alone.
"""

from generator import Ended, load_keys, redis_benchmark
from servers import running

NAME = "workers"
CPUS = "0,1"
PROCESSES = 2
KEYS = 100_000
LISTS = 100
ELEMENTS = 1_000


def measure(run):
    works = {
        "GET": (["-r", KEYS, "-n", run.pick(1_500_000, 250_000), "-P", 16, "-d", 64], "get"),
        "SET": (["-r", KEYS, "-n", run.pick(1_500_000, 250_000), "-P", 16, "-d", 64], "set"),
        "LPOS": (["-r", LISTS, "-n", run.pick(200_000, 50_000), "-P", 16], None),
    }
    for program in run.halcyon:
        with running([program], threads=1, cpus=CPUS) as [one], running([program], threads=2, cpus=CPUS) as [two]:
            for server in [one, two]:
                prepare(server)
            for name, (options, test) in works.items():
                run.progress(name)
                for _ in range(run.pick(3, 1)):
                    for label, server in [("one worker", one), ("two workers", two)]:
                        rows = [
                            run.table.row(f"{name}, {label}: throughput, all on two CPUs", "requests/s", 0),
                            run.table.row(f"{name}, {label}: CPU per command", "us", 3),
                        ]
                        run.attempt(rows, server.name, lambda: once(server, options, test))


def prepare(server):
    load_keys(server, KEYS, zero_padded_to=12, value=b"x" * 64)
    with server.connect() as connection:
        client = Ended(connection)
        elements = [f"element:{number}" for number in range(ELEMENTS)]
        for number in range(LISTS):
            client.call("RPUSH", f"list:{number:012}", *elements)


def once(server, options, test):
    requests = PROCESSES * options[options.index("-n") + 1]
    work = ["-t", test] if test else ["LPOS", "list:__rand_int__", "missing"]
    before_s = server.cpu_s()
    per_s = redis_benchmark(server, "-c", 25, *options, *work, cpus=CPUS, processes=PROCESSES)
    return per_s, (server.cpu_s() - before_s) / requests * 1e6
