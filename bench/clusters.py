"""Clusters of whole processes on this machine: Halcyon's on three members of etcd, those of others by themselves."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time

from generator import ask
from servers import REPOSITORY, Server, die_with_parent

sys.path.insert(0, str(REPOSITORY / "scripts"))
import etcd_members  # noqa: E402

CLUSTER_NAME = "bench"
MEMBERS = 3
START_TIMEOUT_S = 60
# Nodes share the CPUs with everything else.
CPUS = "0,1"


class Etcd(etcd_members.Members):
    """Three members of etcd in directories of their own; a context manager."""

    def __init__(self):
        if not shutil.which("etcd"):
            raise RuntimeError("etcd is missing; run scripts/install-dependencies bench")
        super().__init__(MEMBERS, before_start=die_with_parent)

    def cpu_s(self):
        return sum(process_cpu_s(process.pid) for process in self.processes)


def process_cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def cluster(program, nodes, replicas=0, arguments=(), slots=True):
    """Starts so many nodes, of which each primary has so many replicas; yields the servers and etcd, if there is one."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd()) if program.is_halcyon else None
        options = ["--cluster-enabled", "yes", *arguments]
        if etcd:
            options += ["--cluster-etcd", etcd.endpoints, "--cluster-name", CLUSTER_NAME]
        servers = []
        stack.callback(lambda: [server.stop() for server in servers])
        for _ in range(nodes):
            servers.append(Server(program, options, cpus=CPUS))
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        for server in servers:
            # Until etcd has told a node of the cluster, it says that it knows none.
            wait_until(server, "CLUSTER NODES", b"myself")
        if slots:
            create(addresses, replicas)
            for server in servers:
                wait_until(server, "CLUSTER INFO", b"cluster_state:ok")
        for server in servers:
            wait_until(server, "CLUSTER INFO", b"cluster_known_nodes:%d" % nodes)
        yield servers, etcd


def create(addresses, replicas):
    command = ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", str(replicas), "--cluster-yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"redis-cli --cluster create: {(done.stdout + done.stderr).strip()[-300:]}")


def wait_until(server, command, wanted):
    """Asks until the answer, one line or one string, has these words. The server may be loading."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError, RuntimeError), server.connect() as connection:
            if wanted in ask(connection, *command.split()):
                return
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{server.name}: {command} did not say {wanted.decode()} in {START_TIMEOUT_S} s")
        time.sleep(0.05)


def traffic(pids):
    """(bytes, packets) that the sockets of these processes have sent and received so far."""
    wanted = set(pids)
    listed = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
    size = packets = 0
    for line in listed.splitlines():
        if wanted.intersection(int(pid) for pid in re.findall(r"pid=(\d+)", line)):
            size += sum(map(int, re.findall(r"bytes_(?:sent|received):(\d+)", line)))
            packets += sum(map(int, re.findall(r"segs_(?:out|in):(\d+)", line)))
    return size, packets
