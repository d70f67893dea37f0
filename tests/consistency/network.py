"""Machines of a cluster as network namespaces behind one router, so that packets from one to another can be dropped."""

import os
import subprocess

# Each run has namespaces of its own, named after its process.
PREFIX = f"hc{os.getpid() % 100_000}"


class Unavailable(Exception):
    """This machine does not allow network namespaces."""


def ip(*words, within=None):
    words = [str(word) for word in words]
    command = ["ip", "-n", within, *words] if within else ["ip", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()}")


class Network:
    """Namespaces by name, each with an address; `cut` drops what one sends to another until `heal`."""

    def __init__(self, names):
        self.router = f"{PREFIX}-router"
        self.namespaces, self.addresses, self.cuts = {}, {}, 0
        try:
            self.add(self.router)
            for number, name in enumerate(names, start=1):
                self.connect(number, name)
            self.within(self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        except (Unavailable, FileNotFoundError) as error:
            self.close()
            raise Unavailable(str(error)) from error

    def add(self, namespace):
        ip("netns", "add", namespace)
        self.namespaces[namespace] = namespace
        ip("link", "set", "lo", "up", within=namespace)

    def connect(self, number, name):
        namespace, link = f"{PREFIX}-{name}", f"v{number}"
        self.add(namespace)
        self.namespaces[name] = namespace
        self.addresses[name] = f"10.213.{number}.2"
        ip("link", "add", link, "netns", self.router, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        for within, device, address in [(self.router, link, f"10.213.{number}.1"), (namespace, "eth0", f"10.213.{number}.2")]:
            ip("addr", "add", f"{address}/24", "dev", device, within=within)
            ip("link", "set", device, "up", within=within)
        ip("route", "add", "default", "via", f"10.213.{number}.1", within=namespace)

    def command(self, name):
        """What to write before a command so that it runs on this machine."""
        return ["ip", "netns", "exec", self.namespaces[name]]

    def within(self, name, *command):
        subprocess.run([*self.command(name), *command], check=True, capture_output=True)

    def cut(self, source, target):
        """Drops what `source` sends to `target`, not what it is sent."""
        ip("rule", "add", "from", self.addresses[source], "to", self.addresses[target], "priority", 10, "blackhole",
           within=self.router)
        self.cuts += 1

    def heal(self):
        """Nothing is dropped any more."""
        for _ in range(self.cuts):
            ip("rule", "del", "priority", 10, within=self.router)
        self.cuts = 0

    def close(self):
        for namespace in set(self.namespaces.values()):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


class Loopback:
    """Where there are no namespaces: every machine is this one, and nothing is cut."""

    def __init__(self, names):
        self.addresses = dict.fromkeys(names, "127.0.0.1")

    def command(self, _name):
        return []

    def heal(self):
        """Nothing was cut."""

    def close(self):
        """Nothing was made."""


def network(names):
    """The machines of these names, apart if this machine can."""
    if os.geteuid() == 0:
        try:
            return Network(names)
        except Unavailable as reason:
            print(f"no network namespaces, so nothing is cut: {reason}", flush=True)
    return Loopback(names)
