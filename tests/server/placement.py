"""Where threads run: by Redis's lists of CPUs, and by `server-cpulist auto`, on this machine and on made-up ones."""

import contextlib
import os
import platform
import socket
import tempfile
import time

from harness import PATIENCE_S, Client, Server, Skip, check, expect, free_port, wait_until
from no_fork import threads
from peers import Peer, programs

# Since this, Linux keeps connections on the CPU that a listening socket asks for.
STEERING_LINUX = (6, 2)
CONNECTIONS = 25
# As many as one worker may have beside another that has none, or one, and far more than that.
FEW_CONNECTIONS, MANY_CONNECTIONS = 15, 90


def two_cpus():
    own = sorted(os.sched_getaffinity(0))
    if len(own) < 2:
        raise Skip("needs two CPUs")
    return own[0], own[1]


def placement(client):
    """INFO placement, by field; what has fields of its own is a dictionary."""
    lines = client.call("INFO", "placement").decode().split("\r\n")
    expect(lines[0], "# Placement", "head of the section")
    fields = dict(line.split(":", 1) for line in lines[1:] if line)
    for name, value in fields.items():
        if name.startswith(("placement_worker", "placement_interface")) and "=" in value:
            fields[name] = dict(part.split("=", 1) for part in value.split(","))
    return fields


def bound(server):
    """The CPUs that each thread may run on, by the thread's name."""
    return {thread["Name"]: thread["Cpus_allowed_list"] for thread in threads(server)}


def expect_bound(server, wanted):
    # A thread has its name, and is bound, only once it runs.
    wait_until(lambda: wanted.items() <= bound(server).items(), f"{wanted} in {bound(server)}")


def free_list():
    return bound_list(os.sched_getaffinity(0))


def bound_list(cpus):
    """CPUs as the kernel writes them."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@check
def placement_lists():
    """Lists of CPUs: each thread is where its list says, the saver where that of its work does"""
    first, second = two_cpus()
    lists = [
        "--server-cpulist", f"{first},{second}", "--bio-cpulist", second,
        "--bgsave-cpulist", first, "--aof_rewrite_cpulist", second,
    ]
    with Server(*lists, threads=0) as server, server.connect() as client:
        expect_bound(server, {
            "worker-0": str(first), "worker-1": str(second), "reaper": str(second), "journal-sync": str(second),
            "long-lane": bound_list([first, second]), "saver": str(first), "sync": str(first),
        })
        assert "worker-2" not in bound(server), bound(server)
        fields = placement(client)
        expect([fields["placement_rule"], fields["placement_workers"]], ["list", "2"])
        expect(fields["placement_worker1"]["cpus"], str(second), "CPU of worker 1")
        expect(fields["placement_worker1"]["bound"], "1", "whether it is bound")
        client.call("BGREWRITEAOF")
        expect_bound(server, {"saver": str(second)})
        wait_until(lambda: b"aof_rewrite_in_progress:0" in client.call("INFO", "persistence"), "the rewrite's end")
        client.call("BGSAVE")
        expect_bound(server, {"saver": str(first)})


@check
def placement_lists_unset():
    """Without lists threads run anywhere; the server's list is also that of what Redis has children for"""
    first, _ = two_cpus()
    with Server() as server, server.connect() as client:
        expect_bound(server, {name: free_list() for name in ["worker-0", "worker-1", "reaper", "saver"]})
        expect(placement(client)["placement_rule"], "unset")
        assert b"# Placement" not in client.call("INFO"), "it is shown unasked"
        assert b"# Placement" in client.call("INFO", "all"), "it is not shown with all"
    with Server("--server_cpulist", first, "--bgsave_cpulist", "", threads=2) as server:
        bound_to_first = {name: str(first) for name in ["worker-0", "worker-1", "saver"]}
        expect_bound(server, {**bound_to_first, "reaper": free_list()})


@check
def placement_lists_without_effect():
    """A list that is none, or has no CPU of this machine, has no effect, as in Redis"""
    first, _ = two_cpus()
    for given, rule in [("3-1", "list-unreadable"), ("0-7:0", "list-unreadable"), ("4000", "list-unusable")]:
        with Server("--server-cpulist", given, "--bio-cpulist", given) as server, server.connect() as client:
            expect_bound(server, {name: free_list() for name in ["worker-0", "worker-1", "reaper"]})
            expect(placement(client)["placement_rule"], rule, given)
            expect(client.call("CONFIG", "GET", "server_cpulist"), [b"server_cpulist", given.encode()])
            for name in ["server-cpulist", "bio-cpulist"]:
                assert f"{name} '{given}'" in server.log(), server.log()
    with Server("--server-cpulist", f"{first},4000") as server:
        expect_bound(server, {"worker-0": str(first), "worker-1": str(first)})


def are_bound_as_told(server, fields):
    """What INFO says of workers is so of both."""
    is_so = bound(server)
    for number in range(2):
        worker = fields[f"placement_worker{number}"]
        cpus = worker["cpus"].replace(" ", ",") if worker["bound"] == "1" else free_list()
        if is_so.get(f"worker-{number}") != cpus:
            return False
    return True


@check
def placement_auto():
    """server-cpulist auto: starts on this machine, and on one of which nothing can be read, and says what it chose"""
    two_cpus()
    with tempfile.TemporaryDirectory() as nothing:
        for root in ["/", nothing, "/nonexistent"]:
            with Server("--server-cpulist", "auto", "--machine-root", root) as server, server.connect() as client:
                fields = placement(client)
                rules = ["plain", "apart", "shared", "steered", "quota"] if root == "/" else ["plain", "quota"]
                assert fields["placement_rule"] in rules and fields["placement_reason"], fields
                expect(fields["placement_workers"], "2", "workers")
                wait_until(
                    lambda server=server, client=client: are_bound_as_told(server, placement(client)),
                    "workers to be bound as INFO says",
                )
                expect(client.call("CONFIG", "GET", "*cpulist")[1::2].count(b"auto"), 2, "values of auto")


@contextlib.contextmanager
def made_up_machine(queues):
    """A directory with the files of a machine whose one interface has a queue on each of these CPUs."""
    with tempfile.TemporaryDirectory() as root:
        columns = sorted(os.sched_getaffinity(0))
        table = [" ".join(f"CPU{cpu}" for cpu in columns)]
        for number, cpu in enumerate(queues):
            counts = " ".join("900" if column == cpu else "0" for column in columns)
            table.append(f" {40 + number}: {counts} PCI-MSIX-0000:01:00.0 {number}-edge eth0-TxRx-{number}")
            write(root, f"proc/irq/{40 + number}/smp_affinity_list", f"{bound_list(columns)}\n")
            write(root, f"proc/irq/{40 + number}/effective_affinity_list", f"{cpu}\n")
            write(root, f"sys/class/net/eth0/queues/rx-{number}/rps_cpus", "0\n")
        write(root, "proc/interrupts", "\n".join(table) + "\n")
        write(root, "sys/class/net/eth0/operstate", "up\n")
        write(root, "sys/class/net/eth0/device/numa_node", "0\n")
        yield root


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def expect_auto(fields):
    if fields["placement_rule"] == "quota":
        raise Skip("a control group limits the CPUs, so that nothing is chosen")


@check
def placement_apart():
    """server-cpulist auto: the worker is kept off the CPU that all packets arrive on"""
    for busy in two_cpus():
        with made_up_machine([busy]) as root:
            auto = ["--server-cpulist", "auto", "--machine-root", root]
            with Server(*auto, threads=1) as server, server.connect() as client:
                fields = placement(client)
                expect_auto(fields)
                expect([fields["placement_rule"], fields["placement_avoided_cpus"]], ["apart", str(busy)])
                expect(fields["placement_interface0_queue0"], {"irq": "40", "cpus": str(busy)}, "queue")
                worker = bound(server)["worker-0"]
                assert worker == fields["placement_worker0"]["cpus"] and worker != str(busy), worker


def need_steering():
    if tuple(int(part) for part in platform.release().split(".")[:2]) < STEERING_LINUX:
        raise Skip(f"Linux {platform.release()} does not steer")


@check
def placement_steered():
    """server-cpulist auto: where queues match workers, a connection is the worker's on the CPU that it arrives on"""
    cpus = two_cpus()
    with made_up_machine(cpus) as root:
        auto = ["--server-cpulist", "auto", "--machine-root", root]
        with Server(*auto, threads=2) as server, server.connect() as admin:
            expect_auto(placement(admin))
            expect([placement(admin)[name] for name in ["placement_rule", "placement_steered"]], ["steered", "1"])
            expect_bound(server, {"worker-0": str(cpus[0]), "worker-1": str(cpus[1])})
            need_steering()
            for _ in range(2):
                for worker, cpu in enumerate(cpus):
                    expect_steered(server, admin, worker, cpu)
                # Sockets that are opened later are steered, too.
                port = free_port()
                expect(admin.call("CONFIG", "SET", "port", port), "OK")
                server.port = port


def by_worker(client, *names):
    """These fields of each of two workers."""
    fields = placement(client)
    return [[int(fields[f"placement_worker{number}"][name]) for name in names] for number in range(2)]


@contextlib.contextmanager
def connected_from(server, cpu, count):
    """So many connections from one CPU, where those of this machine arrive as well."""
    own = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        os.sched_setaffinity(0, {cpu})
        try:
            for _ in range(count):
                connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
                expect(stack.enter_context(Client(connection)).call("PING"), "PONG")
        finally:
            os.sched_setaffinity(0, own)
        yield


def expect_steered(server, admin, worker, cpu):
    before = by_worker(admin, "accepted_near", "accepted_far")
    with connected_from(server, cpu, CONNECTIONS):
        before[worker][0] += CONNECTIONS
        about = f"connections from CPU {cpu}, accepted near and far by each worker"
        expect(by_worker(admin, "accepted_near", "accepted_far"), before, about)


@check
def placement_steered_and_balanced():
    """server-cpulist auto: what was steered stays, but for a load that would leave other workers with little to do"""
    cpus = two_cpus()
    with made_up_machine(cpus) as root:
        auto = ["--server-cpulist", "auto", "--machine-root", root]
        with Server(*auto, threads=2) as server, server.connect() as admin:
            expect_auto(placement(admin))
            need_steering()
            loads = lambda: [load for load, in by_worker(admin, "connections")]
            idle = loads()
            expect(sum(idle), 1, "connections")
            with connected_from(server, cpus[0], FEW_CONNECTIONS):
                few = loads()
                expect(few, [idle[0] + FEW_CONNECTIONS, idle[1]], "connections of each worker")
                # Longer than a connection has to be there before it may be moved.
                time.sleep(2.5)
                expect(loads(), few, "connections of each worker, a while later")
            with connected_from(server, cpus[0], MANY_CONNECTIONS):
                wait_until(lambda: loads()[1] >= MANY_CONNECTIONS // 3, "a share for the other worker")


@check
def placement_lists_as_redis():
    """Lists of CPUs, odd ones among them, are those that redis-server makes of them"""
    first, second = two_cpus()
    forms = [
        "{a}", "{b}", "{a},{b}", "{a}-{b}", "{a}-{b}:7", "{b},{a}-{b}:1", "{b}-{a}", "{a}-", "{a},", ",{a}", "{a},,{b}",
        " {b}", "{b} ", "{a}, {b}", "{b}x", "{a}x,{b}", "{a}:2", "{a}:2,{b}", "{a}x-{b}", "{a}-{b}:0", "{a}-{b}:",
        "{b},4000", "4000", "x",
    ]
    path = programs().get("redis-server")
    if not path:
        raise Skip("there is no redis-server")
    for given in [form.format(a=first, b=second) for form in forms]:
        with Peer(path, "--server_cpulist", given) as peer, peer.connect() as client:
            # It is bound last of all, before it answers anybody.
            expect(client.call("PING"), "PONG")
            main = next(thread for thread in threads(peer) if thread["Name"] == "redis-server")
            wanted = main["Cpus_allowed_list"]
        with Server("--server_cpulist", given, threads=0) as server:
            expect_bound(server, {"long-lane": wanted})
            wait_until(
                lambda server=server, wanted=wanted: cpus_of_workers(server) == wanted, f"CPUs {wanted} of workers by {given!r}"
            )


def cpus_of_workers(server):
    """All that workers are bound to together; None: some are not bound yet, others are."""
    lists = {cpus for name, cpus in bound(server).items() if name.startswith("worker-")}
    if lists == {free_list()}:
        return free_list()
    return bound_list(map(int, lists)) if lists and all(map(str.isdigit, lists)) else None
