"""What is done to a cluster. A fault begins, holds for a while, and is over when everything runs and nothing is cut."""

import time

HOLD_S = (1.5, 5.0)
FLAPS = 6
FLAP_S = 0.4

FAULTS = {}


def fault(needs=None):
    """Marks a fault: a function of the cluster and of chance that says what it did; it may also hold by itself.

    `needs`: what not every machine allows, "cuts" or "disks" (`Cluster.allows`).
    """

    def mark(function):
        FAULTS[function.__name__] = (function, needs)
        return function

    return mark


def pick(cluster, rng):
    """A node, more often a primary, and those who follow it."""
    primaries, replicas = cluster.roles()
    if not primaries or rng.random() < 0.25:
        return rng.choice(cluster.nodes), []
    primary = rng.choice(primaries)
    return primary, replicas.get(primary.name, [])


def cut_both(cluster, one, others):
    for other in others:
        cluster.network.cut(one.name, other.name)
        cluster.network.cut(other.name, one.name)


@fault()
def kill(cluster, rng):
    node, _ = pick(cluster, rng)
    node.kill()
    return f"killed {node.name}"


@fault()
def kill_and_start(cluster, rng):
    node, _ = pick(cluster, rng)
    node.kill()
    time.sleep(rng.uniform(0, 1.0))
    node.start()
    return f"killed {node.name} and started it at once"


@fault()
def kill_shard(cluster, rng):
    node, replicas = pick(cluster, rng)
    for each in [node, *replicas]:
        each.kill()
    time.sleep(rng.uniform(0, 2.0))
    for each in [node, *replicas]:
        each.start()
    return f"killed {node.name} and all its replicas"


@fault()
def stop(cluster, rng):
    node, _ = pick(cluster, rng)
    node.stop()
    time.sleep(rng.uniform(2.5, 5.0))
    return f"stopped {node.name} for longer than a lease"


@fault()
def etcd_member(cluster, rng):
    member = rng.choice(cluster.etcds)
    rng.choice([member.kill, member.stop])()
    return f"{member.name} away"


@fault()
def etcd_whole(cluster, rng):
    act = rng.choice(["kill", "stop"])
    for member in cluster.etcds:
        getattr(member, act)()
    time.sleep(rng.uniform(1.0, 4.0))
    return f"etcd away ({act})"


@fault()
def etcd_whole_and_kill(cluster, rng):
    for member in cluster.etcds:
        member.stop()
    node, _ = pick(cluster, rng)
    node.kill()
    return f"etcd stopped, then {node.name} killed"


@fault()
def failover(cluster, rng):
    node, replicas = pick(cluster, rng)
    if not replicas:
        return "no replica to hand over to"
    replica = rng.choice(replicas)
    return f"{node.name} hands over to {replica.name}: {cluster.call(replica, 'CLUSTER', 'FAILOVER')}"


@fault()
def failover_and_kill(cluster, rng):
    told = failover(cluster, rng)
    time.sleep(rng.uniform(0, 0.2))
    return f"{told}; {kill(cluster, rng)}"


@fault(needs="cuts")
def cut_from_replicas(cluster, rng):
    node, replicas = pick(cluster, rng)
    some = [replica for replica in replicas if rng.random() < 0.7] or replicas
    cut_both(cluster, node, some)
    return f"{node.name} cut from {[each.name for each in some]}"


@fault(needs="cuts")
def cut_from_etcd(cluster, rng):
    node, _ = pick(cluster, rng)
    cut_both(cluster, node, cluster.etcds)
    return f"{node.name} cut from etcd"


@fault(needs="cuts")
def cut_from_servers(cluster, rng):
    node, _ = pick(cluster, rng)
    cut_both(cluster, node, [*cluster.etcds, *(each for each in cluster.nodes if each is not node)])
    return f"{node.name} cut from everybody but clients"


@fault(needs="cuts")
def cut_one_way(cluster, rng):
    node, _ = pick(cluster, rng)
    others = [each for each in [*cluster.etcds, *cluster.nodes] if each is not node and rng.random() < 0.5]
    is_sent = rng.random() < 0.5
    for other in others:
        cluster.network.cut(*((node.name, other.name) if is_sent else (other.name, node.name)))
    return f"{node.name} {'is not heard by' if is_sent else 'does not hear'} {[each.name for each in others]}"


@fault(needs="cuts")
def halves(cluster, rng):
    machines = [*cluster.etcds, *cluster.nodes]
    some = {each.name for each in machines if rng.random() < 0.4}
    for one in machines:
        for other in machines:
            if one.name in some and other.name not in some:
                cut_both(cluster, one, [other])
    return f"{sorted(some)} cut from the rest"


@fault(needs="cuts")
def flap(cluster, rng):
    node, replicas = pick(cluster, rng)
    others = rng.choice([replicas or cluster.etcds, cluster.etcds])
    for _ in range(FLAPS):
        cut_both(cluster, node, others)
        time.sleep(rng.uniform(0, FLAP_S))
        cluster.network.heal()
        time.sleep(rng.uniform(0, FLAP_S))
    return f"{node.name} cut from {[each.name for each in others]} and back, {FLAPS} times"
