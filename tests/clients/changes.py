#!/usr/bin/env python3
"""Client libraries at work while their cluster changes: slots move, a primary hands over, a primary is killed.

    tests/clients/changes.py FILE [--alone] [--rounds N] [--by halcyon|redis-cli]

FILE has a line for each client: its name, a tab, and the command of its program, which changes.md describes. All work
at once on a cluster of three shards of two copies, or with --alone one after the other, each on a cluster of its own.
Every error that a library hands on to its user is held against what its own rules say (policies.py), and every answer
against what was written. The last line is "N passed, N failed": one for each client.
"""

import argparse
import binascii
import json
import pathlib
import queue
import re
import shlex
import subprocess
import sys
import threading
import time

from policies import policy_of

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))
from cluster import Nodes  # noqa: E402
from cluster_tools import tool  # noqa: E402
from etcd import Etcd  # noqa: E402
from harness import Skip, wait_until  # noqa: E402

SHARDS = 3
# What each program has: so many loops, each with keys of so many hash tags.
LOOPS = 3
TAGS = 12
# No answer takes so long unless something is broken.
PATIENCE_S = 90
# With `quorum` nothing acknowledged may be lost, and with 1 a shard that has lost a copy goes on.
OPTIONS = ["--durability", "quorum", "--cluster-min-in-sync", 1, "--repl-diskless-sync-delay", 0]
ERRORS_SHOWN = 6


class Client:
    """A library's program; what it tells of each phase is in `phases`."""

    def __init__(self, name, command, seeds, logs):
        self.name, self.phases, self.trouble = name, [], None
        self.log_path = logs / f"{name}-changes.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*shlex.split(command), "--nodes", ",".join(seeds), "--name", name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def say(self, line):
        """Nothing, once the program has failed."""
        if not self.trouble:
            try:
                self.process.stdin.write(f"{line}\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                self.trouble = f"ended by itself: {self.last_words()}"

    def expect(self, about, is_it):
        """Its next line, which `is_it` has to accept; None once the program has failed."""
        if self.trouble:
            return None
        try:
            line = self.lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.trouble = f"not heard of for {PATIENCE_S} s: {about}: {self.last_words()}"
            return None
        if line is None or not is_it(line):
            self.trouble = f"{about}: it said {line!r}: {self.last_words()}"
            return None
        return line

    def last_words(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")[-600:]

    def end_phase(self):
        """Takes in what it tells of a phase that has ended."""
        if line := self.expect("the phase's end", lambda line: line.startswith("{")):
            self.phases.append(json.loads(line))

    def close(self):
        self.process.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def findings(self):
        """What is wrong, a line each."""
        found = [self.trouble] if self.trouble else []
        policy = policy_of(self.name)
        for phase in self.phases:
            name = phase["phase"]
            found += [f"{name}: {wrong}" for wrong in phase["wrong"]]
            if not phase["done"]:
                found.append(f"{name}: nothing was done")
            for text, count in phase["errors"].items():
                if not any(re.search(pattern, text) for pattern in policy.handed_on(name)):
                    found.append(f"{name}: {count} times handed on: {text}")
        return found

    def summary(self):
        parts = []
        for phase in self.phases:
            errors = sum(phase["errors"].values())
            parts.append(f"{phase['phase']} {phase['done']}" + (f" ({errors} errors)" if errors else ""))
        return ", ".join(parts)


class Play:
    """A cluster, the clients that work on it, and what is done to both."""

    def __init__(self, etcd, nodes, clients, mover):
        self.etcd, self.nodes, self.clients, self.mover = etcd, nodes, clients, mover

    def phase(self, name):
        for client in self.clients:
            client.say(name)
        for client in self.clients:
            client.end_phase()

    def cycle(self):
        """Every loop of every client does all it does once more, and is answered without an error."""
        for client in self.clients:
            client.say("cycle")
        for client in self.clients:
            client.expect("a cycle without an error", lambda line: line == "cycle")

    def rounds(self, count):
        for client in self.clients:
            client.expect("ready", lambda line: line == "ready")
            client.say("quiet")
        self.cycle()
        for _ in range(count):
            for change in [self.move, self.fail_over, self.kill]:
                self.phase(change.__name__)
                started_s = time.monotonic()
                change()
                changed_s = time.monotonic() - started_s
                self.cycle()
                working_s = time.monotonic() - started_s
                print(f"        {change.__name__}: {changed_s:.1f} s, {working_s:.1f} s until all work", flush=True)
            self.phase("after")
            self.cycle()
        for client in self.clients:
            client.say("stop")
        for _ in range(2):
            for client in self.clients:
                client.end_phase()

    # ---- What is done to the cluster

    def primaries(self):
        """(number of a primary, number of its replica, its slots) of each shard."""
        numbers = {self.nodes.id(number): number for number in range(2 * SHARDS)}
        lines = self.nodes.lines(0)
        followed = {words[2]: numbers[node] for node, words in lines.items() if "slave" in words[1]}
        return [
            (numbers[node], followed[node], slots_of(words[7:]))
            for node, words in lines.items() if "master" in words[1] and len(words) > 7
        ]

    def await_copies(self):
        """Every node is there, and in the set of its shard."""
        everybody = 2 * SHARDS
        wait_until(lambda: tool(self.etcd, "status")[1].count(": in sync") == everybody, "every copy to be in sync")
        for number in range(everybody):
            wait_until(lambda number=number: self.knows_replicas(number), "every node to know its place")

    def knows_replicas(self, number):
        words = self.nodes.lines(number).values()
        return sum("slave" in each[1] for each in words) == SHARDS and not any("fail" in each[1] for each in words)

    def move(self):
        """All slots that clients have keys in go from the shard that has most of them to another one."""
        used = {slot for client in self.clients for slot in slots_used(client.name)}
        shards = sorted(self.primaries(), key=lambda shard: len(shard[2] & used))
        (taker, *_), (giver, _, slots) = shards[0], shards[-1]
        if self.mover == "halcyon":
            places = [self.nodes.addresses()[number] for number in (giver, taker)]
            code, text = tool(self.etcd, "move-slots", *places, ranges(sorted(slots & used)))
            assert code == 0, text
        else:
            self.nodes.cli(
                "--cluster", "reshard", self.nodes.addresses()[0], "--cluster-from", self.nodes.id(giver),
                "--cluster-to", self.nodes.id(taker), "--cluster-slots", len(slots) // 4, "--cluster-yes",
            )

    def fail_over(self):
        """A replica becomes the primary in order."""
        self.await_copies()
        primary, replica, _ = self.primaries()[0]
        code, text = tool(self.etcd, "failover", self.nodes.addresses()[replica])
        assert code == 0, text
        self.await_leader(replica)
        wait_until(lambda: "slave" in self.nodes.flags(replica, primary), "the old primary to follow")
        self.await_copies()

    def kill(self):
        """A primary dies, a replica takes over, and the dead one comes back."""
        self.await_copies()
        primary, replica, _ = self.primaries()[1]
        self.nodes.kill(primary)
        self.await_leader(replica)
        self.nodes.start(primary)
        self.await_copies()

    def await_leader(self, number):
        wait_until(lambda: "master" in self.nodes.flags(number, number), f"node {number} to lead its shard")


def slots_of(words):
    """The slots of words as CLUSTER NODES has them."""
    ends = [word.split("-") for word in words if not word.startswith("[")]
    return {slot for end in ends for slot in range(int(end[0]), int(end[-1]) + 1)}


def ranges(slots):
    """Ascending slots as `0-3,7`."""
    text = []
    for slot in slots:
        if text and text[-1][1] == slot - 1:
            text[-1][1] = slot
        else:
            text.append([slot, slot])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in text)


def slots_used(name):
    """The slots of a client's keys."""
    tags = [f"{name}:{loop}:{tag}" for loop in range(LOOPS) for tag in range(TAGS)]
    return {binascii.crc_hqx(tag.encode(), 0) % 16384 for tag in tags}


def play(commands, options, logs):
    """Has these clients work on a cluster of their own through all changes; returns them."""
    clients = []
    try:
        with Etcd(members=1) as etcd, Nodes(etcd, 2 * SHARDS, *OPTIONS) as nodes:
            nodes.create(replicas=1)
            scene = Play(etcd, nodes, clients, options.by)
            scene.await_copies()
            seeds = nodes.addresses()
            clients += [Client(name, command, seeds, logs) for name, command in commands.items()]
            scene.rounds(options.rounds)
    finally:
        for client in clients:
            client.close()
    return clients


def report(client):
    """Prints how it went; returns whether it went well."""
    found = client.findings()
    print(f"{'FAILED' if found else 'ok    '}  {client.name}: {client.summary()}", flush=True)
    for line in found[:ERRORS_SHOWN]:
        print(f"  FAIL {line[:400]}", flush=True)
    if len(found) > ERRORS_SHOWN:
        print(f"  and {len(found) - ERRORS_SHOWN} more", flush=True)
    return not found


def main():
    options = parsed()
    lines = pathlib.Path(options.file).read_text(encoding="utf-8").splitlines()
    commands = dict(line.split("\t", 1) for line in lines)
    logs = HERE / ".cache" / "logs"
    started_s = time.monotonic()
    groups = [{name: command} for name, command in commands.items()] if options.alone else [commands]
    try:
        verdicts = [report(client) for group in groups for client in play(group, options, logs)]
    except Skip as reason:
        sys.exit(f"tests/clients: {reason}")
    print(f"changes of the cluster took {time.monotonic() - started_s:.0f} s")
    print(f"{sum(verdicts)} passed, {len(verdicts) - sum(verdicts)} failed")
    return int(not all(verdicts) or not verdicts)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--alone", action="store_true", help="one client after the other")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--by", choices=["halcyon", "redis-cli"], default="halcyon", help="what moves the slots")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
