"""What nodes on etcd say to wrong addresses and credentials, to other clusters and to an etcd that was restored."""

import json
import os
import shutil
import subprocess
import tempfile

from cluster import OPTIONS, Nodes, assign_two, read
from etcd import Etcd
from harness import Server, check, expect, free_port, run_to_end, wait_until

NOT_SERVED = "CLUSTERDOWN"


def call(server, *words):
    with server.connect() as client:
        return client.call(*words)


def is_refused(server, why):
    """True if a command on a key is refused for this reason."""
    answer = str(call(server, "GET", "key"))
    return answer.startswith(NOT_SERVED) and why in answer


@check
def cluster_options_that_do_not_fit_are_refused():
    """cluster: options that do not fit end the process with one line that says what to do"""
    for options, wanted in [
        (["--cluster-etcd", "http://127.0.0.1:1"], "set 'cluster-enabled yes' as well"),
        (["--cluster-enabled", "yes", "--cluster-etcd", "ftp://a"], "'ftp://a' is no address of etcd"),
        (["--cluster-enabled", "yes", "--cluster-etcd", "https://a:1"], "set cluster-etcd-ca-cert-file as well"),
        (["--cluster-enabled", "yes", "--cluster-etcd", "http://a:1,https://b:1"], "some members by http and"),
        (["--cluster-enabled", "yes", "--cluster-etcd", "a", "--cluster-name", "a/b"], "letters, digits, dots"),
        (["--cluster-enabled", "yes", "--cluster-etcd", "a", "--cluster-shard", "x"], "40 hex digits"),
    ]:
        code, lines = run_to_end("--port", free_port(), *options)
        assert code != 0, f"{options}: it ended with {code}"
        assert any(wanted in line for line in lines), f"{options}: {lines}"


@check
def cluster_etcd_that_is_not_there_is_waited_for():
    """cluster: a node waits for an etcd that is not there, says so once, serves nothing, and joins when it comes"""
    with Etcd(members=1) as etcd:
        etcd.kill(0)
        with Server(*OPTIONS, "--cluster-etcd", etcd.endpoints) as server:
            wait_until(lambda: f"etcd: {etcd.clients[0]} cannot be used" in server.log(), "a line in the log")
            assert is_refused(server, "has not heard from etcd yet"), call(server, "GET", "key")
            expect(call(server, "PING"), "PONG")
            etcd.restart(0)
            wait_until(lambda: etcd.is_healthy() and len(etcd.records()) >= 4, "the node to join")
            expect(server.log().count("cannot be used"), 1, "lines about etcd")


@check
def cluster_credentials_are_checked():
    """cluster: wrong credentials for etcd are told in one line; right ones work"""
    with Etcd(members=1) as etcd:
        etcd.ctl("user", "add", "root:secret")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("auth", "enable")
        options = [*OPTIONS, "--cluster-etcd", etcd.endpoints, "--cluster-etcd-username", "root"]
        with Server(*options, "--cluster-etcd-password", "wrong") as server:
            wait_until(lambda: "authentication failed" in server.log(), "a line in the log")
            assert is_refused(server, "has not heard from etcd yet"), call(server, "GET", "key")
            assert "wrong" not in server.log(), "the password is in the log"
        with Server(*options, "--cluster-etcd-password", "secret") as server:
            wait_until(
                lambda: call(server, "CLUSTER", "ADDSLOTSRANGE", 0, 16383) == "OK", "the node to lead a shard")
            wait_until(lambda: call(server, "SET", "key", "1") == "OK", "the node to serve")


@check
def cluster_of_another_name_is_refused():
    """cluster: a node that is part of a cluster serves nothing from another one's etcd, nor without any"""
    with tempfile.TemporaryDirectory() as directory:
        with Etcd(members=1) as etcd, Server(*OPTIONS, "--cluster-etcd", etcd.endpoints, directory=directory) as server:
            config = os.path.join(directory, "nodes.conf")
            wait_until(lambda: "halcyon-cluster" in read(config), "the cluster's id to be kept")
            server.terminate()
        code, lines = run_to_end("--port", free_port(), *OPTIONS, "--dir", directory)
        assert code != 0 and any("set cluster-etcd, or remove the file" in line for line in lines), (code, lines)
        with Etcd(members=1) as etcd, Server(*OPTIONS, "--cluster-etcd", etcd.endpoints, directory=directory) as server:
            wait_until(lambda: is_refused(server, "but etcd holds none under this name"), "the node to refuse")
            with Server(*OPTIONS, "--cluster-etcd", etcd.endpoints) as other:
                wait_until(lambda: "cluster" in etcd.records(), "another cluster")
                wait_until(lambda: not is_refused(other, "has not heard"), "it to be there")
            server.terminate()


@check
def cluster_nodes_with_one_id_are_told_apart():
    """cluster: of two nodes with one id, the later one serves nothing and says why"""
    with Etcd(members=1) as etcd, Nodes(etcd, 2) as nodes, tempfile.TemporaryDirectory() as directory:
        assign_two(nodes)
        shutil.copy(os.path.join(nodes.directories[0], "nodes.conf"), directory)
        with Server(*OPTIONS, "--cluster-etcd", etcd.endpoints, directory=directory) as twin:
            wait_until(lambda: is_refused(twin, nodes.id(0)), "the twin to refuse")
            expect(nodes.call(0, "SET", "3560", "1"), "OK")


def revision(etcd, endpoints=None):
    return json.loads(etcd.ctl("get", "nothing", "-w", "json", endpoints=endpoints))["header"]["revision"]


def restored(etcd, nodes, go_on):
    """Has the nodes of a cluster meet an etcd that was restored from a backup; both have to refuse it.

    `go_on`: is called with etcd's revision before, to change what was restored before the nodes see it.
    """
    assign_two(nodes)
    backup = os.path.join(etcd.directory, "backup")
    etcd.ctl("snapshot", "save", backup)
    # So many changes are lost that those made on the restored one, before both nodes have seen it, do not make up for them.
    for turn in range(10):
        giver, taker = turn % 2, 1 - turn % 2
        expect(nodes.call(giver, "CLUSTER", "SETSLOT", 0, "NODE", nodes.id(taker)), "OK")
        wait_until(lambda taker=taker: nodes.call(taker, "SET", "3560", "1") == "OK", "the slot's new owner to serve")
        expect(nodes.call(taker, "DEL", "3560"), 1)
    before = revision(etcd)
    etcd.kill(0)
    shutil.rmtree(os.path.join(etcd.directory, "0"))
    subprocess.run(
        ["etcdctl", "snapshot", "restore", backup, "--data-dir", os.path.join(etcd.directory, "0"), "--name", "m0",
         "--initial-cluster", f"m0={etcd.peers[0]}", "--initial-advertise-peer-urls", etcd.peers[0]],
        env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, timeout=30, check=True,
    )
    go_on(before)
    etcd.restart(0)
    for number in range(2):
        wait_until(lambda number=number: is_refused(nodes.servers[number], "restored"), f"node {number} to refuse")


@check
def cluster_on_a_restored_etcd_is_refused():
    """cluster: an etcd that was restored from an old backup is noticed; nothing is served from it"""
    with Etcd(members=1) as etcd, Nodes(etcd, 2) as nodes:
        restored(etcd, nodes, lambda _: None)


@check
def cluster_on_a_restored_etcd_that_has_gone_on_is_refused():
    """cluster: an etcd that was restored, and written to since by others, is noticed though its revision is higher"""

    def go_on(before):
        elsewhere = f"http://127.0.0.1:{free_port()}"
        command = etcd.commands[0]
        etcd.commands[0] = [word.replace(etcd.clients[0], elsewhere) for word in command]
        etcd.restart(0)
        wait_until(lambda: is_healthy(elsewhere), "the restored etcd to be healthy")
        while revision(etcd, elsewhere) < before + 10:
            etcd.ctl("put", "something", "else", endpoints=elsewhere)
        etcd.kill(0)
        etcd.commands[0] = command

    def is_healthy(endpoints):
        try:
            return revision(etcd, endpoints) > 0
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False

    with Etcd(members=1) as etcd, Nodes(etcd, 2) as nodes:
        restored(etcd, nodes, go_on)
