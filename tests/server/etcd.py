"""Members of etcd on loopback, in a temporary directory, and what they hold."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Skip, free_port, wait_until


class Etcd:
    """So many members; a context manager that kills them. `flags`: more of each member's options."""

    def __init__(self, members=3, flags=()):
        if not shutil.which("etcd") or not shutil.which("etcdctl"):
            raise Skip("etcd or etcdctl is missing")
        self.directory = tempfile.mkdtemp(prefix="halcyon-test-etcd-")
        self.flags = flags
        self.clients = [f"http://127.0.0.1:{free_port()}" for _ in range(members)]
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(members)]
        self.endpoints = ",".join(self.clients)
        self.processes = [self.start(number) for number in range(members)]

    def start(self, number):
        cluster = ",".join(f"m{at}={url}" for at, url in enumerate(self.peers))
        command = [
            "etcd", "--name", f"m{number}", "--data-dir", f"{self.directory}/{number}", "--log-level", "error",
            "--unsafe-no-fsync", "--initial-cluster", cluster,
            "--listen-client-urls", self.clients[number], "--advertise-client-urls", self.clients[number],
            "--listen-peer-urls", self.peers[number], "--initial-advertise-peer-urls", self.peers[number], *self.flags,
        ]
        with open(f"{self.directory}/{number}.log", "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        wait_until(self.is_healthy, "etcd to be healthy")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ctl(self, *words, endpoints=None):
        """What etcdctl answers; it fails if that does."""
        return subprocess.run(
            ["etcdctl", "--endpoints", endpoints or self.endpoints, *map(str, words)],
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, timeout=30, check=True,
        ).stdout

    def is_healthy(self):
        try:
            return self.ctl("get", "nothing") == ""
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False

    def records(self, name="default"):
        """The cluster's records by key, after `/halcyon/NAME/`."""
        prefix = f"/halcyon/{name}/"
        lines = self.ctl("get", "--prefix", prefix).splitlines()
        return {key.removeprefix(prefix): json.loads(value) for key, value in zip(lines[::2], lines[1::2], strict=True)}

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
        wait_until(self.is_healthy, "etcd to be healthy again")


def lasts(seconds, condition):
    """True if the condition holds all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not condition():
            return False
        time.sleep(0.02)
    return True
