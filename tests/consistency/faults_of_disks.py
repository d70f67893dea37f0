"""Disks that are full until the fault is over, and what else happens meanwhile.

A primary whose disk is full refuses what writes. A replica ends, as Redis's does, before it takes what it cannot write; it
is started again once there is room.
"""

import time

from faults import fault, pick
from faults_of_moves import then

# What is left of the room at first: a piece of what is written next may find some.
LEFT_BYTES = [0, 0, 4_096, 20_000]
# How long it may take until a node notices, or has files that end soon.
NOTICED_S = 2
REWRITTEN_S = 3
LOOK_S = 0.05


def fill(cluster, rng, *nodes):
    """Fills the disks of these nodes, and waits until they notice; says what they do then."""
    cluster.mending.update(nodes)
    for node in nodes:
        begin_file(cluster, node)
        node.disk.fill(rng.choice(LEFT_BYTES))
    deadline = time.monotonic() + NOTICED_S
    while time.monotonic() < deadline and any(noticed(cluster, node) is None for node in nodes):
        time.sleep(LOOK_S)
    if rng.random() < 0.3:
        for node in nodes:
            cluster.call(node, "BGREWRITEAOF")
    for node in nodes:
        # What they have let go of meanwhile.
        node.disk.fill()
    return ", ".join(f"{node.name} is full and {noticed(cluster, node) or 'goes on'}" for node in nodes)


def begin_file(cluster, node):
    """Has the node write to a small file: one that has grown has room beyond its end, and would be written to for long."""
    if cluster.call(node, "BGREWRITEAOF") is None:
        return
    deadline = time.monotonic() + REWRITTEN_S
    while time.monotonic() < deadline:
        told = cluster.call(node, "INFO", "persistence") or ""
        if "aof_rewrite_in_progress:0" in told and "aof_rewrite_scheduled:0" in told:
            return
        time.sleep(LOOK_S)


def noticed(cluster, node):
    """What a node does since its disk is full; None: it has not noticed."""
    if node.process.poll() is not None:
        return "has ended"
    return "refuses writes" if "MISCONF" in (cluster.call(node, "PING") or "") else None


@fault(needs="disks")
def disk_full(cluster, rng):
    node, _ = pick(cluster, rng)
    return fill(cluster, rng, node)


@fault(needs="disks")
def disk_full_of_shard(cluster, rng):
    node, replicas = pick(cluster, rng)
    # The primary last: a replica notices by what is written.
    return fill(cluster, rng, *(replica for replica in replicas if rng.random() < 0.7), node)


@fault(needs="disks")
def disk_full_and_kill(cluster, rng):
    node, _ = pick(cluster, rng)
    told = fill(cluster, rng, node)
    node.kill()
    if rng.random() < 0.5:
        return f"{told}; killed"
    time.sleep(rng.uniform(0, 1.0))
    node.start()
    return f"{told}; killed and started while it is"


@fault(needs="disks")
def disk_full_and_stop(cluster, rng):
    """Who was deposed meanwhile has to give up what is void, and take what is new, without room for it."""
    node, _ = pick(cluster, rng)
    begin_file(cluster, node)
    node.stop()
    time.sleep(rng.uniform(2.5, 4.0))
    cluster.mending.add(node)
    node.disk.fill(rng.choice(LEFT_BYTES))
    node.go_on()
    return f"stopped {node.name} for longer than a lease, and it is full"


@fault(needs="disks")
def disk_full_and_failover(cluster, rng):
    node, replicas = pick(cluster, rng)
    if not replicas:
        return "no replica to hand over to"
    replica = rng.choice(replicas)
    told = fill(cluster, rng, rng.choice([node, node, replica]))
    return f"{told}; {node.name} hands over to {replica.name}: {cluster.call(replica, 'CLUSTER', 'FAILOVER')}"


@fault(needs="disks")
def slot_move_and_disk_full(cluster, rng):
    return then(cluster, rng, lambda source, target: fill(cluster, rng, rng.choice([source, target])))
