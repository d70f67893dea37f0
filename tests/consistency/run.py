#!/usr/bin/env python3
"""Breaks a cluster while clients write down what they see, and judges that: see README.md.

    tests/consistency/run.py [--rounds N] [--seed N] [--only FAULT,...] [--shards 3] [--copies 3] [--fsync MODE]

Starts HALCYON_BIN, or target/release/halcyon, or target/ci/halcyon, and etcd. The last line is "N passed, N failed": a round
passes if the cluster works after it, and the whole run has one more check, of everything that clients saw.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import disks
import faults
import faults_of_disks  # noqa: F401
import faults_of_moves
import machines
import network

HERE = pathlib.Path(__file__).resolve().parent
# Commands that have to be answered after a round, and how long that may take.
PROGRESS_COMMANDS = 300
PROGRESS_TIMEOUT_S = 40
QUIET_S = (0.5, 2.0)


class Clients:
    """The program that works, writes down and judges."""

    def __init__(self, cluster, seed):
        program = build()
        nodes = ",".join(map(cluster.address, cluster.nodes))
        command = [*cluster.network.command(machines.CLIENTS), program, "-nodes", nodes, "-seed", str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.line() == "working", "the clients did not begin"

    def line(self):
        return self.process.stdout.readline().strip()

    def say(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def done(self):
        self.say("report")
        return int(self.line().split()[0])

    def judge(self):
        self.say("stop")
        told = self.line()
        self.process.wait()
        assert told, "the clients ended without a word"
        return json.loads(told)


def build():
    program = HERE / ".cache" / "checker"
    program.parent.mkdir(exist_ok=True)
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "checker", check=True)
    return str(program)


def main():
    options = parsed()
    rng = random.Random(options.seed)
    directory = tempfile.mkdtemp(prefix="halcyon-consistency-")
    names = machines.machine_names(options.shards, options.copies)
    # First of all: what others mount is seen by processes that come later.
    has_disks = disks.can_mount(directory)
    net, cluster = network.network(names), None
    passed, failed, is_judged = 0, 0, False
    try:
        settings = ["--durability", "quorum", "--appendonly", "yes", "--appendfsync", options.fsync]
        cluster = machines.Cluster(net, directory, options.shards, options.copies, settings, has_disks)
        with cluster:
            possible = possible_faults(cluster, options)
            clients = Clients(cluster, options.seed)
            for number in range(1, options.rounds + 1):
                trouble = play(cluster, clients, rng, options, number, rng.choice(possible))
                passed, failed = passed + (not trouble), failed + bool(trouble)
                if trouble:
                    break
            failed += conclude(cluster, clients)
            passed += not failed
            is_judged = True
    finally:
        net.close()
        is_kept = failed or not is_judged
        if cluster:
            cluster.end_disks(is_kept)
        if is_kept:
            print(f"what is left: {directory}", flush=True)
        else:
            machines.remove(directory)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="")
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--fsync", default="everysec")
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name]
    for name in set(options.only) - set(faults.FAULTS):
        parser.error(f"no fault is called {name}")
    return options


def possible_faults(cluster, options):
    """The names of the faults that are wanted, and that this machine allows."""
    wanted = options.only or list(faults.FAULTS)
    possible = [name for name in wanted if cluster.allows(faults.FAULTS[name][1])]
    assert possible, f"this machine allows none of {', '.join(wanted)}"
    return possible


def play(cluster, clients, rng, options, number, name):
    """A round of this fault; whether something is wrong afterwards."""
    told = faults.FAULTS[name][0](cluster, rng)
    time.sleep(rng.uniform(*faults.HOLD_S))
    cluster.bring_back()
    before, healed_s = clients.done(), time.monotonic()
    deadline = healed_s + PROGRESS_TIMEOUT_S
    while not cluster.is_mended() or clients.done() < before + PROGRESS_COMMANDS:
        if time.monotonic() > deadline:
            refusing = "".join(f", {node.name} does not write" for node in cluster.mending)
            print(f"FAILED  round {number}, seed {options.seed}: {name}: {told}: no progress afterwards{refusing}", flush=True)
            return True
        time.sleep(0.1)
    print(f"ok      round {number}: {name}: {told} (works again after {time.monotonic() - healed_s:.1f} s)", flush=True)
    time.sleep(rng.uniform(*QUIET_S))
    return False


def conclude(cluster, clients):
    """Judges the whole; returns how much is wrong."""
    found = clients.judge()
    moves = faults_of_moves.came_to(cluster)
    if moves:
        print("slot moves:", ", ".join(f"{count} {state}" for state, count in moves.items()), flush=True)
    wrong = found.pop("wrong") + cluster.panics()
    print("clients:", ", ".join(f"{count} {what}" for what, count in found.items()), flush=True)
    for each in wrong:
        print(f"FAILED  {each}", flush=True)
    return len(wrong)


if __name__ == "__main__":
    os.environ.setdefault("GOFLAGS", "-mod=mod")
    sys.exit(main())
