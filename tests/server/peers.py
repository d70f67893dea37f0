"""Real servers beside Halcyon: redis-server of PATH, and the newer ones that bench/install-peers.sh installs."""

import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import time

from harness import START_TIMEOUT_S, Process, Skip, free_port, wait_until

NEWER_DIRECTORY = pathlib.Path.home() / ".cache" / "halcyon-peers" / "bin"


def programs():
    """Name and path of each real server that is there."""
    found = {"redis-server": shutil.which("redis-server")}
    for name in ("redis8-server", "valkey9-server"):
        path = NEWER_DIRECTORY / name
        found[name] = str(path) if os.access(path, os.X_OK) else None
    found = {name: path for name, path in found.items() if path}
    if not found:
        raise Skip("there is no redis-server")
    return found


class Peer(Process):
    """A running real server; a context manager that kills it."""

    def __init__(self, path, *arguments):
        self.port = free_port()
        self.directory = tempfile.mkdtemp(prefix="halcyon-peer-")
        options = [
            "--port", self.port, "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
            "--enable-debug-command", "yes",
        ]
        self.launch([path, *options, *arguments])

    def __enter__(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                with self.connect():
                    return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log()
                self.close()
                raise AssertionError(f"a peer did not start: {log}")
            time.sleep(0.02)

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.go_on()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


def info(client, section):
    """INFO's fields."""
    lines = client.call("INFO", section).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def wait_for_link(client):
    """Until a replica has its primary's data and follows it."""
    wait_until(lambda: info(client, "replication").get("master_link_status") == "up", "a link that is up")
