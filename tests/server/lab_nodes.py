"""`halcyon lab nodes`: many nodes of a cluster in one process, against a real etcd."""

import json

from etcd import Etcd
from harness import check, expect
from storm import lab

NODES = 20
AGENTS = 12
CHANGES = 3


@check
def lab_nodes_says_what_is_wrong():
    """lab nodes: bad options and an etcd that is not there are one clear message each"""
    for words, message in [
        (["--nodes", 5, "--agents", 6], "--agents: 6 of 5 nodes cannot decide"),
        ([], "Set --cluster-etcd"),
        (["--cluster-etcd", "http://127.0.0.1:1"], "etcd: http://127.0.0.1:1: "),
    ]:
        code, text = lab("nodes", *words)
        expect((code, message in text), (1, True), f"{words}: {text}")
    code, text = lab("nodes", "--help")
    expect((code, text.startswith("Usage: halcyon lab nodes")), (0, True), text)


@check
def lab_nodes_all_know_of_each_change():
    """lab nodes: all that decide and all that listen join and know of each change, and nothing is left in etcd"""
    with Etcd(members=1) as etcd:
        code, text = run(etcd)
        expect(code, 0, text)
        told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        expect([event.get("event") for event in told], ["joined", "idle", "changing", None])
        report = told[-1]
        expect((report["nodes"], report["agents"]), (NODES, AGENTS))
        for kind in ["address", "slot"]:
            waits = report["waits"][kind]
            expect(waits["changes"], CHANGES)
            for what in ["arrived", "in_place", "all"]:
                assert 0 < waits[what]["median_ms"] <= waits[what]["longest_ms"], (kind, what, waits)
            assert waits["all"]["longest_ms"] >= waits["in_place"]["longest_ms"], waits
        expect(etcd.records(), {})


@check
def lab_nodes_leaves_a_cluster_alone():
    """lab nodes: a name under which there is a cluster already is refused, and stays as it was"""
    with Etcd(members=1) as etcd:
        record = {"id": "a" * 40, "format": 1}
        etcd.ctl("put", "/halcyon/default/cluster", json.dumps(record))
        code, text = run(etcd)
        expect((code, "There is a cluster called 'default'" in text), (1, True), text)
        expect(etcd.records(), {"cluster": record})


def run(etcd):
    return lab("nodes", "--cluster-etcd", etcd.endpoints, "--nodes", NODES, "--agents", AGENTS, "--changes", CHANGES,
               "--idle", 0, "--json")
