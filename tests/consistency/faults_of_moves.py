"""Slots that move while things break: each fault begins a move of some of a primary's slots, and most break something then."""

import time

from faults import FAULTS, cut_both, fault

# How long after a move has begun something breaks, and how fast it is: few clients write little.
BREAKS_AFTER_S = (0, 0.2)
PACES_BYTES_PER_S = [0, 3_000, 30_000]
MOVED_MAX = 2000
# What a primary keeps, so that it stays one that others see.
KEPT = 100


def owners(cluster):
    """(node, id, ranges of slots) of each primary that has slots, as the first node says that answers."""
    by_address = {cluster.address(node): node for node in cluster.nodes}
    for node in cluster.nodes:
        told = cluster.call(node, "CLUSTER", "NODES")
        if told and "master" in told:
            lines = [line.split() for line in told.splitlines()]
            masters = [line for line in lines if "master" in line[2] and len(line) > 8]
            found = [(by_address.get(line[1].split("@")[0]), line[0], ranges(line[8:])) for line in masters]
            return [owner for owner in found if owner[0]]
    return []


def ranges(words):
    pairs = [word.partition("-") for word in words if "[" not in word]
    return [(int(first), int(last or first)) for first, _, last in pairs]


def begin(cluster, rng):
    """Begins to move a part of one of a primary's ranges; (source, destination, what it did), or None if that cannot be."""
    known = owners(cluster)
    if len(known) < 2:
        return None
    (source, _, slots), (target, target_id, _) = rng.sample(known, 2)
    first, last = max(slots, key=lambda pair: pair[1] - pair[0])
    count = min(MOVED_MAX, last - first + 1 - KEPT)
    if count < 1:
        return None
    start = rng.randint(first, last - count + 1)
    end = start + rng.randint(1, count) - 1
    pace = rng.choice(PACES_BYTES_PER_S)
    cluster.call(source, "CONFIG", "SET", "cluster-migration-max-bytes-per-second", pace)
    answer = cluster.call(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", start, end, "NODE", target_id)
    return source, target, f"{start}-{end} from {source.name} to {target.name}: {answer}"


def then(cluster, rng, act):
    """Begins a move, and does this a moment later."""
    begun = begin(cluster, rng)
    if not begun:
        return "no slots to move"
    source, target, told = begun
    time.sleep(rng.uniform(*BREAKS_AFTER_S))
    return f"{told}; {act(source, target)}"


@fault()
def slot_move(cluster, rng):
    told = [begun[2] for begun in [begin(cluster, rng) for _ in range(rng.randint(1, 3))] if begun]
    return "; ".join(told) or "no slots to move"


@fault()
def slot_move_and_kill(cluster, rng):
    def act(source, target):
        killed = rng.choice([[source], [target], [source, target]])
        for node in killed:
            node.kill()
        return f"killed {[node.name for node in killed]}"

    return then(cluster, rng, act)


@fault()
def slot_move_and_stop(cluster, rng):
    def act(source, target):
        node = rng.choice([source, target])
        node.stop()
        time.sleep(rng.uniform(0.5, 4.0))
        return f"stopped {node.name}"

    return then(cluster, rng, act)


@fault()
def slot_move_and_etcd(cluster, rng):
    def act(source, target):
        how = rng.choice(["kill", "stop"])
        for member in cluster.etcds:
            getattr(member, how)()
        time.sleep(rng.uniform(0.5, 3.0))
        return f"etcd away ({how})"

    return then(cluster, rng, act)


@fault()
def slot_move_and_cancel(cluster, rng):
    return then(cluster, rng, lambda source, _: f"cancelled: {cluster.call(source, 'CLUSTER', 'CANCELSLOTMIGRATIONS')}")


@fault()
def slot_move_and_failover(cluster, rng):
    return then(cluster, rng, lambda *_: FAULTS["failover"][0](cluster, rng))


@fault(needs="cuts")
def slot_move_and_cut(cluster, rng):
    def act(source, target):
        node = rng.choice([source, target])
        others = rng.choice([[source, target], cluster.etcds, [*cluster.etcds, source, target]])
        others = [other for other in others if other is not node]
        cut_both(cluster, node, others)
        return f"{node.name} cut from {[each.name for each in others]}"

    return then(cluster, rng, act)


def came_to(cluster):
    """How moves have ended, as the nodes remember them: a count by state."""
    states = {}
    for node in cluster.nodes:
        words = (cluster.call(node, "CLUSTER", "GETSLOTMIGRATIONS") or "").splitlines()
        fields = list(zip(words, words[1:], strict=False))
        names = [value for name, value in fields if name == "name"]
        states.update(zip(names, [value for name, value in fields if name == "state"], strict=False))
    counts = {}
    for state in states.values():
        counts[state] = counts.get(state, 0) + 1
    return counts
