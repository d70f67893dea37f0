"""What nodes of a cluster tell each other when nobody asks them anything: primaries on this machine, each a process.

Bytes and packets, sent and received by a node's sockets, per node and second; CPU of all nodes and of etcd in percent of one CPU.
"""

import time

from clusters import cluster, traffic

NAME = "cluster_idle"
SETTLE_S = 5


def measure(run):
    for nodes in run.pick([16, 64, 100], [16]):
        rows = [
            run.table.row(f"idle cluster of {nodes} primaries: traffic per node", "bytes/s", 0),
            run.table.row(f"idle cluster of {nodes} primaries: packets per node", "packets/s", 1),
            run.table.row(f"idle cluster of {nodes} primaries: CPU of all nodes", "% of a CPU", 1),
            run.table.row(f"idle cluster of {nodes} primaries: CPU of etcd", "% of a CPU", 1),
        ]
        for program in run.programs:
            run.progress(f"{program.name}, {nodes} nodes")
            run.attempt(rows, program.name, lambda: idle(program, nodes, run.pick(20, 10)))


def idle(program, nodes, seconds):
    with cluster(program, nodes) as (servers, etcd):
        time.sleep(SETTLE_S)
        pids = [server.pid for server in servers]

        def counters():
            return (*traffic(pids), sum(server.cpu_s() for server in servers), etcd.cpu_s() if etcd else 0, time.monotonic())

        before = counters()
        time.sleep(seconds)
        size, packets, cpu_s, etcd_cpu_s, elapsed_s = (now - then for now, then in zip(counters(), before, strict=True))
        share = 100 / elapsed_s
        return size / elapsed_s / nodes, packets / elapsed_s / nodes, cpu_s * share, etcd_cpu_s * share
