"""`halcyon lab storm`: clients of every kind while slots move."""

import re
import subprocess

from cluster import Nodes
from cluster_tools import tool
from etcd import Etcd
# It also lets modules of scripts/ be imported.
from harness import binary, check, expect, wait_until
from storm_generator import Generator

CONNECTIONS = 60
PER_S = 1_000
KINDS = ["jedis-2.9", "jedis-7", "hiredis-vip", "redis-py", "go-redis"]


def lab(*words, input_text=""):
    done = subprocess.run(
        [binary(), "lab", *map(str, words)], capture_output=True, text=True, timeout=60, check=False, input=input_text
    )
    return done.returncode, done.stdout + done.stderr


@check
def storm_says_what_is_wrong():
    """lab storm: bad options and nodes that are not there are one clear message each"""
    for words, message in [
        (["lightning"], "halcyon lab has no command 'lightning'"),
        (["storm"], "Say which nodes: --nodes HOST:PORT"),
        (["storm", "--nodes", "127.0.0.1:1", "--connections", 5], "127.0.0.1:1: "),
        (["storm", "--nodes", "127.0.0.1:1", "--clients", "telnet"], "there is no kind 'telnet'"),
    ]:
        code, text = lab(*words)
        expect((code, message in text), (1, True), f"{words}: {text}")
    code, text = lab("storm", "--help")
    expect((code, text.startswith("Usage: halcyon lab storm")), (0, True), text)


@check
def storm_sees_slots_move():
    """lab storm: clients of five kinds find slots that move, without an error"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.create()
        addresses = ",".join(nodes.addresses())
        options = ["--nodes", addresses, "--connections", CONNECTIONS, "--rate", PER_S, "--keys", 2000, "--warm-up", 0]
        with Generator(binary(), options) as generator:
            generator.begin("moving")
            first, second, _ = nodes.addresses()
            code, text = tool(etcd, "move-slots", first, second, "0-399")
            expect(code, 0, text)
            generator.begin("after")
            asked = asked_for_slots(nodes)
            wait_until(lambda: asked_for_slots(nodes) > asked, "a client to ask where slots are")
            report = generator.report()
    expect([phase["name"] for phase in report["phases"]], ["quiet", "moving", "after"])
    expect((report["connections"], report["clients"]), (CONNECTIONS, CONNECTIONS // 3))
    for phase in report["phases"]:
        expect(phase["errors"], {}, phase["name"])
    asked_by = {kind for phase in report["phases"] for kind in phase["topology_commands"]}
    assert asked_by and asked_by <= set(KINDS), asked_by
    moving = report["phases"][1]
    assert moving["requests"] > 0 and moving["servers_cpu_percent"] > 0, moving


def asked_for_slots(nodes):
    """How often CLUSTER SLOTS was sent to any of the nodes."""
    told = [nodes.call(number, "INFO", "commandstats").decode() for number in range(3)]
    return sum(int(calls) for calls in re.findall(r"cmdstat_cluster\|slots:calls=(\d+)", "".join(told)))
