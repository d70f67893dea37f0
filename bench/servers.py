"""Finding, starting, watching and ending the servers that are measured."""

import atexit
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PEERS_DIRECTORY = pathlib.Path.home() / ".cache" / "halcyon-peers" / "bin"
SERVER_CPUS = "0"
GENERATOR_CPUS = "1"
START_TIMEOUT_S = 20
# Above the 10,000 idle connections of one figure; the default would refuse the one that asks.
CLIENTS_MAX = 12_000
# Redis's cluster bus listens 10,000 above its port.
PORT_MAX = 55_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Program:
    """A server that can be started: `name` is a column of the table."""

    def __init__(self, name, path):
        self.name = name
        self.path = str(path)
        text = subprocess.run([self.path, "--version"], capture_output=True, text=True, timeout=20).stdout
        version = re.search(r"v=(\S+)", text)
        self.version = version.group(1) if version else "?"

    @property
    def is_halcyon(self):
        return self.name == "halcyon"

    def __str__(self):
        return f"{self.name} {self.version}"


def find_programs():
    """Halcyon first, then every peer on this machine. A peer that does not run is reported and left out."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    halcyon = os.environ.get("HALCYON_BIN") or str(target / "release" / "halcyon")
    if not os.access(halcyon, os.X_OK):
        raise SystemExit(f"bench: {halcyon} is not there; build it with: cargo build --release -p halcyon")
    candidates = []
    for pair in filter(None, os.environ.get("HALCYON_PEERS", "").split(",")):
        name, separator, path = pair.partition("=")
        if not separator or not name or name == "halcyon":
            raise SystemExit(f"bench: HALCYON_PEERS is name=path,name=path,...; not: {pair}")
        candidates.append((name, path))
    candidates.append(("valkey9", PEERS_DIRECTORY / "valkey9-server"))
    candidates.append(("redis8", PEERS_DIRECTORY / "redis8-server"))
    candidates.append(("valkey", shutil.which("valkey-server")))
    candidates.append(("redis", shutil.which("redis-server")))
    programs = [Program("halcyon", halcyon)]
    for name, path in candidates:
        if not path or not os.path.exists(path) or any(program.name == name for program in programs):
            continue
        try:
            programs.append(Program(name, path))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"bench: {name} ({path}) does not run: {error}", flush=True)
    return programs


class Server:
    """One running server with a directory of its own, on a free port of 127.0.0.1."""

    def __init__(self, program, arguments=(), threads=1, cpus=SERVER_CPUS):
        self.program = program
        self.name = program.name
        self.directory = tempfile.mkdtemp(prefix="halcyon-bench-")
        self.port = free_port()
        self.command = ["taskset", "-c", cpus, program.path, "--port", str(self.port), "--bind", "127.0.0.1"]
        self.command += ["--dir", self.directory, "--save", "", "--appendonly", "no", "--maxclients", str(CLIENTS_MAX)]
        self.command += ["--io-threads", str(threads), *arguments]
        self.log_path = os.path.join(self.directory, "log")
        atexit.register(self.stop)
        self._start([b"+PONG"])

    def _start(self, answers):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                preexec_fn=die_with_parent,
            )
        self._wait_until_up(tuple(answers))

    def restart(self):
        """Kills the server and starts it again on its directory; returns when it answers, be it that it is loading."""
        self.process.kill()
        self.process.wait()
        self._start([b"+PONG", b"-LOADING"])

    def pause(self):
        """Has the kernel stop the process, so that its connections fall silent."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        """Ends [`pause`]."""
        self.process.send_signal(signal.SIGCONT)

    @property
    def pid(self):
        return self.process.pid

    def connect(self, timeout_s=60):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def cpu_s(self):
        """User and system time of the whole process so far: of all threads in ns where the kernel tells, else in ticks."""
        if os.path.exists("/proc/self/schedstat"):
            total_ns = 0
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                # A thread may end between the two calls.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    with open(f"/proc/{self.pid}/task/{thread}/schedstat", encoding="ascii") as schedstat:
                        total_ns += int(schedstat.read().split()[0])
            if total_ns:
                return total_ns / 1e9
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def stop(self):
        """Ends this process, and only this one."""
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_until_up(self, answers):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), self.connect(timeout_s=2) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(64).startswith(answers):
                    return
            time.sleep(0.02)
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            tail = "".join(log.readlines()[-3:]).strip()
        self.stop()
        raise RuntimeError(f"{self.name} did not start: {tail}")


@contextlib.contextmanager
def running(programs, arguments=(), **options):
    """Starts all of `programs` and ends them afterwards; yields the servers in the same order."""
    servers = []
    try:
        for program in programs:
            servers.append(Server(program, arguments, **options))
        yield servers
    finally:
        for server in servers:
            server.stop()


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= PORT_MAX:
            return port


def die_with_parent():
    """Has the kernel end the server when this process dies in a way that runs no handler."""
    if os.uname().sysname == "Linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
