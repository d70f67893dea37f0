"""go-redis through ten years, as cluster clients of one node that owns all slots: 100 goroutines that GET for 5 s.

Server and clients share CPUs 0 and 1; the versions take turns, and each figure is the median of the rounds. Older
versions are shown against v9 too (1 = as fast), and by the share of their GETs that failed. The program is built from
bench/clients/go-redis into ~/.cache/halcyon-bench; without Go the figure is left out.
"""

import os
import pathlib
import shutil
import subprocess

from figures.topology import own_all_slots
from generator import load_keys
from servers import REPOSITORY, running

NAME = "old_clients"
CPUS = "0,1"
WORKERS = 2
VERSIONS = ["v9", "v8", "v7", "v6"]
GOROUTINES = 100
KEYS = 10_000
SOURCES = REPOSITORY / "bench" / "clients" / "go-redis"
CACHE = pathlib.Path.home() / ".cache" / "halcyon-bench"
BUILD_TIMEOUT_S = 600


def measure(run):
    try:
        clients = {version: build(version) for version in VERSIONS}
    except (OSError, subprocess.SubprocessError) as error:
        run.progress(f"left out, the clients cannot be built: {error}")
        run.table.notes.append(f"- {NAME}: left out, the clients cannot be built ({error})")
        return
    seconds = run.pick(5, 2)
    for program in run.programs:
        threads = WORKERS if program.is_halcyon else 1
        with running([program], ["--cluster-enabled", "yes"], threads=threads, cpus=CPUS) as [server]:
            run.attempt([], server.name, lambda: own_all_slots(server))
            load_keys(server, KEYS, name=b"key:")
            for _ in range(run.pick(3, 1)):
                measure_round(run, server, clients, seconds)


def measure_round(run, server, clients, seconds):
    newest_per_s = None
    for version, client in clients.items():
        run.progress(f"{server.name}, go-redis {version}")
        rows = [
            run.table.row(f"go-redis {version}, cluster client, {GOROUTINES} goroutines: GETs that succeed", "requests/s", 0),
            run.table.row(f"go-redis {version}, cluster client: GETs that fail", "%", 2),
        ]
        if version != VERSIONS[0]:
            rows.append(run.table.row(f"go-redis {version}, cluster client: GETs that succeed, against {VERSIONS[0]}", "", 2))

        def once():
            nonlocal newest_per_s
            per_s, failed_percent, first_error = get(server, client, seconds)
            note = f"- {NAME}, {server.name}, {version}: {first_error}"
            if first_error and note not in run.table.notes:
                run.table.notes.append(note)
            if version == VERSIONS[0]:
                newest_per_s = per_s
                return per_s, failed_percent
            return per_s, failed_percent, per_s / newest_per_s if newest_per_s else "no v9"

        run.attempt(rows, server.name, once)


def build(version):
    """Builds the client of one version, which is quick when nothing has changed; returns the program's path."""
    program = CACHE / f"go-redis-{version}"
    environment = os.environ | {
        "GOMODCACHE": str(CACHE / "go" / "modules"),
        "GOCACHE": str(CACHE / "go" / "build"),
        # A directory that git may not read must not fail the build for its version stamp.
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
    }
    if not shutil.which("go"):
        raise FileNotFoundError("go is not installed")
    build = subprocess.run(
        ["go", "build", "-tags", version, "-o", str(program), "."],
        cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S,
    )
    if build.returncode != 0:
        raise OSError((build.stderr.strip().splitlines() or ["go build failed"])[-1])
    return program


def get(server, client, seconds):
    """GETs that succeeded in a second, the percentage that failed, and the first error's text."""
    command = ["taskset", "-c", CPUS, str(client), "-address", f"127.0.0.1:{server.port}"]
    command += ["-goroutines", str(GOROUTINES), "-keys", str(KEYS), "-span", f"{seconds}s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode != 0:
        raise RuntimeError(f"the client ended with {done.returncode}: {done.stderr.strip()[:200]}")
    succeeded, failed, took_s, *error = done.stdout.strip().split(" ", 3)
    total = int(succeeded) + int(failed)
    return int(succeeded) / float(took_s), 100 * int(failed) / max(1, total), "".join(error)
