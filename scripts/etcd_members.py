"""Members of etcd: the command that starts one, and several of them as processes of this machine.

Tests and benchmarks start theirs here.
"""

import shutil
import signal
import subprocess
import tempfile
from typing import NamedTuple

from ports import LOOPBACK, free_ports


class Place(NamedTuple):
    """Where a member runs: its host, the ports for clients and for other members, its data."""

    host: str
    client_port: int
    peer_port: int
    data: str

    def client_url(self, scheme="http"):
        return f"{scheme}://{self.host}:{self.client_port}"

    def peer_url(self):
        return f"http://{self.host}:{self.peer_port}"


def commands(places, options=(), scheme="http"):
    """What starts each member, by its name. `places`: each member's place by its name; `scheme`: what clients speak."""
    members = ",".join(f"{name}={place.peer_url()}" for name, place in places.items())
    return {
        name: [
            "etcd", "--name", name, "--data-dir", place.data, "--log-level", "error", "--initial-cluster", members,
            "--listen-client-urls", place.client_url(scheme), "--advertise-client-urls", place.client_url(scheme),
            "--listen-peer-urls", place.peer_url(), "--initial-advertise-peer-urls", place.peer_url(), *options,
        ]
        for name, place in places.items()
    }


class Members:
    """So many members `m0`, `m1` ... on loopback, in a temporary directory; a context manager that kills them.

    `options`: more of each member's options; `before_start` runs in each process before etcd does.
    """

    def __init__(self, count, options=(), scheme="http", before_start=None):
        self.directory = tempfile.mkdtemp(prefix="halcyon-etcd-")
        self.before_start = before_start
        ports = free_ports(2 * count)
        places = {
            f"m{number}": Place(LOOPBACK, ports[2 * number], ports[2 * number + 1], f"{self.directory}/{number}")
            for number in range(count)
        }
        self.clients = [place.client_url(scheme) for place in places.values()]
        self.peers = [place.peer_url() for place in places.values()]
        self.endpoints = ",".join(self.clients)
        self.commands = list(commands(places, options, scheme).values())
        self.processes = []
        try:
            for number in range(count):
                self.processes.append(self.start(number))
        except OSError:
            self.close()
            raise

    def start(self, number):
        with open(f"{self.directory}/{number}.log", "ab") as log:
            return subprocess.Popen(
                self.commands[number], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self.before_start,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def restart(self, number):
        self.processes[number] = self.start(number)

    def pause(self):
        """Stops every member, which keep their connections and answer nothing."""
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)

    def resume(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
