"""Members of etcd on loopback, and what they hold."""

import json
import os
import shutil
import subprocess
import time

# It also lets modules of scripts/ be imported.
from harness import Skip, wait_until

import etcd_members


class Etcd(etcd_members.Members):
    """So many members that do not wait for their disk; a context manager that kills them.

    `flags`: more of each member's options; `ctl_flags`: what etcdctl needs to be let in.
    """

    def __init__(self, members=3, flags=(), scheme="http", ctl_flags=()):
        if not shutil.which("etcd") or not shutil.which("etcdctl"):
            raise Skip("etcd or etcdctl is missing")
        self.ctl_flags = list(ctl_flags)
        super().__init__(members, ["--unsafe-no-fsync", *flags], scheme)

    def __enter__(self):
        try:
            wait_until(self.is_healthy, "etcd to be healthy")
        except BaseException:
            self.close()
            raise
        return self

    def ctl(self, *words, endpoints=None):
        """What etcdctl answers; it fails if that does."""
        return subprocess.run(
            ["etcdctl", "--endpoints", endpoints or self.endpoints, *self.ctl_flags, *map(str, words)],
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

    def resume(self):
        super().resume()
        wait_until(self.is_healthy, "etcd to be healthy again")


def lasts(seconds, condition):
    """True if the condition holds all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not condition():
            return False
        time.sleep(0.02)
    return True
