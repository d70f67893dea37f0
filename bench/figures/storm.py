"""A third of the slots (`--quick`: a ninth) moves while 10,000 connections send 30,000 requests a second: three primaries, and clients
that follow the rules of Jedis 2.9, Jedis 7, hiredis-vip, redis-py and go-redis (`halcyon lab storm --help`). Each primary gives that
share of its slots to the next, one after the other: Halcyon by `halcyon cluster move-slots`, who has CLUSTER MIGRATESLOTS by that, each
in ten parts, as people do it; others by redis-cli's reshard, slot by slot.

Latency counts from the instant a request was due, redirects and waiting included. Clients learn where slots are after these have moved
as well as while they do: what is said of the move counts 5 s more, and of p99 and p99.9 the worse of both. Two stalls of 50 ms in a phase of
eight seconds, and the kernel's own threads make such ones, decide its p99: so the median of the p99 of each second stands beside it. The servers, the generator
and who moves the slots share CPUs 0 and 1; the generator has precedence, since its own waits are not the servers'. Topology commands'
CPU is what INFO commandstats says, against all CPU that the servers used; reading and answering them costs as much as for any command, and
so their share among all commands stands beside it.
"""

import contextlib
import os
import subprocess
import time

from clusters import CLUSTER_NAME, cluster
from generator import Ended
from probe import PROBE_NICENESS
from servers import die_with_parent
from storm_generator import Generator

NAME = "storm"
PRIMARIES = 3
CONNECTIONS = 10_000
PER_S = 30_000
PARTS = 10
AFTER_S = 5
MOVE_TIMEOUT_S = 600
POLL_S = 0.02
SHARES = ["p50_ms", "p99_ms", "p999_ms", "longest_ms"]
PHASES = ["quiet", "moving", "after"]
# Of what each of these is a share or a rate, so that two phases can be taken together.
WEIGHTS = {
    "topology_commands_per_s": lambda phase: phase["seconds"],
    "topology_cpu_percent": lambda phase: phase["servers_cpu_percent"] * phase["seconds"],
    "topology_calls_percent": lambda phase: phase["requests"],
    "servers_cpu_percent": lambda phase: phase["seconds"],
}


def measure(run):
    share = run.pick("a third", "a ninth")
    title = f"storm of {CONNECTIONS:,} connections, {PER_S:,} requests/s: "
    phases = ["quiet", f"while {share} of the slots moves", f"in the {AFTER_S} s after"]
    rows = [run.table.row(f"{title}{phase}, p50 / p99 / p99.9 / longest", "ms", 2) for phase in phases]
    rows += [
        run.table.row("storm: p99 / p99.9 against those of the quiet cluster", "x", 2),
        run.table.row("storm: p99 of the median second, quiet / moving / after", "ms", 2),
        run.table.row(f"storm: {share} of the slots has moved after", "s", 1),
        run.table.row("storm: topology commands sent by clients, quiet / moving", "1/s", 1),
        run.table.row("storm: inside topology commands, quiet / moving", "% of the servers' CPU", 2),
        run.table.row("storm: topology commands among all commands, quiet / moving", "%", 2),
        run.table.row("storm: CPU of all servers, quiet / moving", "% of a CPU", 0),
        run.table.row("storm: MOVED / ASK / errors", "", 0),
    ]
    for program in run.programs:
        run.progress(program.name)
        run.attempt(rows, program.name, lambda: storm(run, program))
        run.tell(rows, program.name)


def storm(run, program):
    with cluster(program, nodes=PRIMARIES) as (servers, etcd):
        addresses = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        options = ["--nodes", addresses, "--connections", CONNECTIONS, "--rate", PER_S, "--keys", run.pick(100_000, 30_000)]
        with Generator(run.programs[0].path, options, give_precedence) as generator:
            time.sleep(run.pick(20, 8))
            generator.begin("moving")
            started_s = time.monotonic()
            for move in moves(servers, run.pick(3, 9)):
                move_slots(program, etcd, servers, *move)
            took_s = time.monotonic() - started_s
            generator.begin("after")
            time.sleep(AFTER_S)
            report = generator.report()
    return figures(run, program, report, took_s)


def give_precedence():
    """In the generator's process."""
    die_with_parent()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PROBE_NICENESS)


def moves(servers, share):
    """(from, to, first slot, last slot): the first of each, one in `share`.

    Those behind come first, so that none moves on what it was given: redis-cli takes the lowest slots that a node has.
    """
    found = []
    for at, server in reversed(list(enumerate(servers))):
        [(first, last)] = owned(server)
        found.append((at, (at + 1) % len(servers), first, first + (last - first + 1) // share - 1))
    return found


def myself(server):
    """What CLUSTER NODES says of the node that is asked."""
    with server.connect() as connection:
        lines = Ended(connection).call("CLUSTER", "NODES").decode().splitlines()
    return next(line for line in lines if "myself" in line).split()


def owned(server):
    """Its ranges of slots."""
    words = [word for word in myself(server)[8:] if not word.startswith("[")]
    return sorted((int(first), int(last or first)) for first, _, last in (word.partition("-") for word in words))


def move_slots(program, etcd, servers, source, target, first, last):
    source, target = servers[source], servers[target]
    if not program.is_halcyon and not migrates(source):
        execute("redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", myself(source)[0],
                "--cluster-to", myself(target)[0], "--cluster-slots", last - first + 1, "--cluster-yes")
        return wait_until_owned(source, target, first, last)
    bounds = [first + (last + 1 - first) * part // PARTS for part in range(PARTS + 1)]
    for low, end in zip(bounds, bounds[1:]):
        if program.is_halcyon:
            addresses = [f"127.0.0.1:{server.port}" for server in (source, target)]
            execute(program.path, "cluster", "move-slots", *addresses, f"{low}-{end - 1}", "--cluster-etcd", etcd.endpoints,
                    "--cluster-name", CLUSTER_NAME, "--yes")
        else:
            with source.connect() as connection:
                Ended(connection).call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", low, end - 1, "NODE", myself(target)[0])
        wait_until_owned(source, target, low, end - 1)


def migrates(server):
    with server.connect() as connection:
        return b"MIGRATESLOTS" in Ended(connection).call("CLUSTER", "HELP")


def wait_until_owned(source, target, first, last):
    deadline_s = time.monotonic() + MOVE_TIMEOUT_S
    while not any(low <= first and last <= high for low, high in owned(target)):
        if migrates(source):
            with source.connect() as connection:
                told = Ended(connection).call("CLUSTER", "GETSLOTMIGRATIONS")
            if b"failed" in told:
                raise RuntimeError("slots did not move: " + " ".join(told.decode(errors="replace").split())[-300:])
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"slots {first}-{last} did not move in {MOVE_TIMEOUT_S} s")
        time.sleep(POLL_S)


def execute(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=MOVE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]}: {(done.stdout + done.stderr).strip()[-300:]}")


def figures(run, program, report, took_s):
    phases = {phase["name"]: phase for phase in report["phases"]}
    quiet, moving, after = (phases[name] for name in PHASES)
    for phase in (quiet, moving, after):
        run.progress(
            f"{program.name}, {phase['name']}: generator {phase['generator_cpu_percent']:.0f} % of a CPU, p99 of its lag "
            f"{phase['generator_lag_p99_ms']:.2f} ms; topology commands {phase['topology_commands']}; errors {phase['errors']}; "
            f"INFO {phase['servers_redirects']}"
        )
    values = [tuple(phase[share] for share in SHARES) for phase in (quiet, moving, after)]
    values.append(tuple(max(moving[share], after[share]) / quiet[share] for share in ("p99_ms", "p999_ms")))
    values.append(tuple(phase["p99_of_median_second_ms"] for phase in (quiet, moving, after)))
    values.append(took_s)
    for name, of in WEIGHTS.items():
        weights = [(phase[name], of(phase)) for phase in (moving, after)]
        values.append((quiet[name], sum(value * weight for value, weight in weights) / sum(weight for _, weight in weights)))
    errors = sum(sum(phase["errors"].values()) for phase in (quiet, moving, after))
    values.append((moving["moved"] + after["moved"], moving["ask"] + after["ask"], errors))
    return values
