"""What the number of nodes costs each of them: 200 and 1,000 (`--quick`: 200) primaries of one cluster in one process, with three members
of etcd on the same CPUs (`halcyon lab nodes --help`). Each has its own connection, lease and watch, the agent of a server, and the table by
which a server routes; no server is behind them.

A change counts from the instant at which etcd is asked for it until a node routes by it: first a node's address, a record of 250 bytes,
then the owner of a slot, the record of all slots. As many nodes as there are on one machine do their work one after the other, while
each of a real cluster has a machine: that all work is measured with 200, and again 16 of them work while the others only note when etcd has
told them (1,000 that all work do not even join in six minutes on two CPUs). What a node's work is stands beside it. Idle, bytes and packets are those of the nodes' sockets, requests those that etcd counts.
"""

import contextlib
import json
import re
import subprocess
import tempfile
import time
import urllib.request

from clusters import CLUSTER_NAME, START_TIMEOUT_S, Etcd, process_cpu_s, traffic
from servers import die_with_parent

NAME = "nodes"
WORKING = 16
IDLE_S = 15
KINDS = {"address": "a node's address", "slot": "the owner of a slot"}


def measure(run):
    for nodes, working in run.pick([(200, 200), (1_000, WORKING)], [(200, 200), (200, WORKING)]):
        who = f"{nodes:,} nodes" if working == nodes else f"{nodes:,} nodes, {working} of which work and the others listen"
        rows = standing_rows(run, who) + change_rows(run, who)
        for program in run.halcyon:
            run.attempt(rows, program.name, lambda: crowd(run, program, nodes, working))
            run.tell(rows, program.name)


def standing_rows(run, who):
    return [
        run.table.row(f"{who}: all have joined after", "s", 1),
        run.table.row(f"{who}, idle: bytes that a node sends and receives", "bytes/s", 0),
        run.table.row(f"{who}, idle: packets of a node", "packets/s", 1),
        run.table.row(f"{who}, idle: etcd's requests from a node", "1/s", 2),
        run.table.row(f"{who}, idle: CPU of all nodes / of etcd", "% of a CPU", 1),
        run.table.row(f"{who}: memory of a node / of a member of etcd", "MB", 1),
    ]


def change_rows(run, who):
    rows = []
    for changed in KINDS.values():
        title = f"{who}: {changed} changes; "
        rows += [
            run.table.row(f"{title}etcd has told a node, median / p99 / longest", "ms", 1),
            run.table.row(f"{title}a node routes by it, median / p99 / longest", "ms", 1),
            run.table.row(f"{title}a node's own work, reading it / deciding and routing, medians", "ms", 2),
        ]
    return rows


def crowd(run, program, nodes, working):
    with Etcd() as etcd, running(program, etcd, nodes, working) as lab:
        expect(lab, "joined")
        expect(lab, "idle")
        before = counters(lab, etcd)
        expect(lab, "changing")
        seconds, size, packets, requests, lab_cpu_s, etcd_cpu_s = (
            now - then for now, then in zip(counters(lab, etcd), before, strict=True)
        )
        memory = resident_mb(lab.pid) / nodes, max(resident_mb(process.pid) for process in etcd.processes)
        report = finish(lab)
    run.progress(f"leases lost: {report['leases_lost']}")
    each = seconds * nodes
    shares = lab_cpu_s / seconds * 100, etcd_cpu_s / seconds * 100
    return [report["joined_s"], size / each, packets / each, requests / each, shares, memory, *waits(report)]


def waits(report):
    values = []
    for kind in KINDS:
        of = report["waits"][kind]
        values += [tuple(of[what][share] for share in ("median_ms", "p99_ms", "longest_ms")) for what in ("arrived", "in_place")]
        values.append((of["read"]["median_ms"], of["work"]["median_ms"]))
    return values


@contextlib.contextmanager
def running(program, etcd, nodes, agents):
    """The lab, of which the end of what it tells people is told where it fails."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as progress:
        for member in etcd.clients:
            wait_until_healthy(member)
        process = subprocess.Popen(
            [program.path, "lab", "nodes", "--cluster-etcd", etcd.endpoints, "--cluster-name", CLUSTER_NAME, "--nodes", str(nodes),
             "--agents", str(agents), "--idle", str(IDLE_S), "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=progress, text=True, preexec_fn=die_with_parent,
        )
        process.progress = progress
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_until_healthy(member):
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{member}/health", timeout=20) as answer:
            if b"true" in answer.read():
                return
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"etcd: {member} is not healthy after {START_TIMEOUT_S} s")
        time.sleep(0.05)


def expect(lab, event):
    told = told_by(lab)
    if told.get("event") != event:
        raise RuntimeError(f"the lab told {told}, not {event}")


def told_by(lab):
    line = lab.stdout.readline()
    if not line:
        lab.wait()
        lab.progress.seek(0)
        raise RuntimeError("the lab ended: " + "".join(lab.progress.readlines()[-1:]).strip())
    return json.loads(line)


def finish(lab):
    report = told_by(lab)
    lab.wait()
    return report


def counters(lab, etcd):
    """Now; bytes and packets of the nodes; requests to etcd; CPU of the nodes and of etcd."""
    size, packets = traffic([lab.pid])
    return time.monotonic(), size, packets, sum(map(requests, etcd.clients)), process_cpu_s(lab.pid), etcd.cpu_s()


def requests(member):
    """Messages that clients have sent to this member so far."""
    with urllib.request.urlopen(f"{member}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return sum(float(count) for count in re.findall(r"(?m)^grpc_server_msg_received_total\{.*\} (\S+)$", text))


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
