"""The processes of a cluster: three members of etcd, and nodes, each on a machine of its own."""

import pathlib
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "server"), str(TESTS.parent / "scripts")]
import disks  # noqa: E402
import etcd_members  # noqa: E402
import harness  # noqa: E402
import network as networks  # noqa: E402
from ports import free_ports  # noqa: E402

ETCDS = ["etcd1", "etcd2", "etcd3"]
CLIENTS = "clients"
START_TIMEOUT_S = 30
# How a replica ends that cannot write, and within how many lines of its panic it says so.
FULL_DISK = "Replica was unable to write command to disk"
PANIC_LINES = 4


class Machine:
    """A process on a machine of the network; it can be killed, stopped and started again on what it left."""

    def __init__(self, network, name, directory, command):
        self.network, self.name, self.command = network, name, [str(word) for word in command]
        self.directory = pathlib.Path(directory, name)
        self.directory.mkdir()
        self.process, self.is_stopped, self.starts, self.disk = None, False, 0, None

    def start(self):
        self.starts += 1
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.network.command(self.name), *self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.directory,
            )

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.is_stopped = False

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def bring_back(self):
        """Whatever happened to it: it runs afterwards."""
        if self.is_stopped:
            self.go_on()
        if self.process is None or self.process.poll() is not None:
            self.start()

    def log(self):
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")


class Cluster:
    """Three members of etcd and so many shards of so many copies, with all slots assigned; a context manager.

    `has_disks`: each node's data lie on a filesystem of their own.
    """

    def __init__(self, network, directory, shards, copies, options, has_disks):
        self.network, self.directory, self.shards, self.copies = network, directory, shards, copies
        ports = iter(free_ports(len(ETCDS) * 2 + shards * copies))
        places = {
            name: etcd_members.Place(network.addresses[name], next(ports), next(ports), "data") for name in ETCDS
        }
        self.endpoints = [place.client_url() for place in places.values()]
        self.etcds = [
            Machine(network, name, directory, command) for name, command in etcd_members.commands(places).items()
        ]
        # Those whose disk was full and that have not written since.
        self.nodes, self.ports, self.mending = [], {}, set()
        for name in node_names(shards, copies):
            self.ports[name] = next(ports)
            address = network.addresses[name]
            node = Machine(network, name, directory, [
                harness.binary(), "--port", self.ports[name], "--bind", address, "--protected-mode", "no", "--threads", "1",
                "--dir", "data", "--cluster-enabled", "yes", "--cluster-etcd", ",".join(self.endpoints),
                "--cluster-name", "consistency", "--cluster-announce-ip", address, *options,
            ])
            data = node.directory / "data"
            data.mkdir()
            node.disk = disks.Disk(data) if has_disks else None
            self.nodes.append(node)

    def allows(self, needs):
        """Whether this machine allows what a fault needs."""
        has_network, has_disks = isinstance(self.network, networks.Network), self.nodes[0].disk is not None
        return {None: True, "cuts": has_network, "disks": has_disks}[needs]

    def address(self, node):
        return f"{self.network.addresses[node.name]}:{self.ports[node.name]}"

    def __enter__(self):
        try:
            for machine in [*self.etcds, *self.nodes]:
                machine.start()
            self.wait_for("This node is the primary of its shard")
            self.run_tool("--cluster", "create", *map(self.address, self.nodes), "--cluster-replicas", self.copies - 1,
                          "--cluster-yes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for machine in [*self.nodes, *self.etcds]:
            if machine.process and machine.process.poll() is None:
                machine.kill()

    def wait_for(self, words):
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.nodes:
            while words not in node.log():
                assert node.process.poll() is None and time.monotonic() < deadline, f"{node.name}: {node.log()[-2000:]}"
                time.sleep(0.02)

    def run_tool(self, *words):
        """redis-cli on the clients' machine; returns what it prints."""
        command = [*self.network.command(CLIENTS), "redis-cli", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-500:]}"
        return done.stdout

    def call(self, node, *words):
        """redis-cli with one command for one node; None: it does not answer."""
        host, port = self.address(node).split(":")
        command = [*self.network.command(CLIENTS), "timeout", "2", "redis-cli", "-h", host, "-p", port, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def roles(self):
        """(primaries, replicas by primary) as the first node says that answers; nodes that nobody knows are in neither."""
        by_address = {self.address(node): node for node in self.nodes}
        for node in self.nodes:
            told = self.call(node, "CLUSTER", "NODES")
            if told and "master" in told:
                lines = [line.split() for line in told.splitlines()]
                known = {line[0]: by_address.get(line[1].split("@")[0]) for line in lines}
                primaries = [known[line[0]] for line in lines if "master" in line[2] and len(line) > 8]
                replicas = {primary.name: [] for primary in primaries if primary}
                for line in lines:
                    primary = known.get(line[3])
                    if "slave" in line[2] and primary and known[line[0]]:
                        replicas.setdefault(primary.name, []).append(known[line[0]])
                return [primary for primary in primaries if primary], replicas
        return [], {}

    def bring_back(self):
        self.network.heal()
        for node in self.mending:
            node.disk.free()
        for machine in [*self.etcds, *self.nodes]:
            machine.bring_back()

    def is_mended(self):
        """Whether all write again whose disk was full. Who has ended of it is started again, as a supervisor would."""
        for node in list(self.mending):
            node.bring_back()
            if self.call(node, "PING") == "PONG":
                self.mending.remove(node)
        return not self.mending

    def panics(self):
        """What logs tell of our own defects. That a replica ends whose disk is full is none."""
        found = []
        for node in self.nodes:
            lines = node.log().splitlines()
            for at, line in enumerate(lines):
                told = " ".join(lines[at : at + PANIC_LINES])
                if "panicked" in line and not (node.disk and node.disk.was_full and FULL_DISK in told):
                    found.append(f"{node.name}: {told}")
        return found

    def end_disks(self, are_kept):
        """Of what nodes have written, this leaves the directories, or nothing. Once nobody runs any more."""
        for disk in [node.disk for node in self.nodes if node.disk]:
            disk.free()
            disk.leave() if are_kept else disk.end()


def node_names(shards, copies):
    return [f"node{number}" for number in range(1, shards * copies + 1)]


def machine_names(shards, copies):
    return [*ETCDS, *node_names(shards, copies), CLIENTS]


def remove(directory):
    subprocess.run(["rm", "-rf", str(directory)], check=False)
