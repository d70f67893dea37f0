"""Ports for processes that tests start a moment later."""

import contextlib
import pathlib
import random
import socket

LOOPBACK = "127.0.0.1"
PORT_MIN = 10_000
PORTS_WANTED = 5_000
# The kernel's own choice for outgoing connections begins here where it does not say.
OUTGOING_MIN = 32_768
TRIES = 1_000

_given = set()


def free_ports(count):
    """Ports that nothing listens on, each given once by this process, and none that the kernel gives to outgoing connections.

    So nobody takes one before it is listened on, but for another process that chooses as this one does.
    """
    chooser, chosen = random.SystemRandom(), []
    for _ in range(TRIES):
        if len(chosen) == count:
            return chosen
        port = chooser.randrange(PORT_MIN, outgoing_min())
        if port not in _given and is_free(port):
            _given.add(port)
            chosen.append(port)
    raise OSError(f"no free ports from {PORT_MIN} on")


def free_port():
    return free_ports(1)[0]


def outgoing_min():
    """The first port that the kernel gives to outgoing connections, or one that leaves room below it."""
    with contextlib.suppress(OSError, ValueError):
        first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        if first > PORT_MIN + PORTS_WANTED:
            return first
    return OUTGOING_MIN


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
