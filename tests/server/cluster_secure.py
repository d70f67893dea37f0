"""Nodes and `halcyon cluster` on an etcd that wants TLS, client certificates and credentials."""

import contextlib

from certificates import Certificates
from cluster import OPTIONS, Nodes
from cluster_bad_input import call, is_refused
from cluster_tools import expect_keys, fill, slots_of, tool
from etcd import Etcd
from harness import Server, check, expect, wait_until

PASSWORD = "secret"


@contextlib.contextmanager
def secure_etcd(members):
    """(etcd, certificates): it answers nobody without a certificate of its authority, and lets in nobody but root."""
    with Certificates() as made:
        flags = [
            "--cert-file", made.path("server.crt"), "--key-file", made.path("server.key"), "--client-cert-auth",
            "--trusted-ca-file", made.path("ca.crt"),
        ]
        ctl_flags = [
            "--cacert", made.path("ca.crt"), "--cert", made.path("client.crt"), "--key", made.path("client.key"),
        ]
        with Etcd(members, flags, "https", ctl_flags) as etcd:
            etcd.ctl("user", "add", f"root:{PASSWORD}")
            etcd.ctl("user", "grant-role", "root", "root")
            etcd.ctl("auth", "enable")
            etcd.ctl_flags += ["--user", f"root:{PASSWORD}"]
            yield etcd, made


def directives(made, certificate="client", authority="ca", password=PASSWORD):
    """What lets a node in, or not; certificate None: it shows none."""
    shown = ["--cluster-etcd-cert-file", made.path(f"{certificate}.crt")] if certificate else []
    shown += ["--cluster-etcd-key-file", made.path(f"{certificate}.key")] if certificate else []
    return [
        "--cluster-etcd-ca-cert-file", made.path(f"{authority}.crt"), *shown,
        "--cluster-etcd-username", "root", "--cluster-etcd-password", password,
    ]


@check
def cluster_on_etcd_by_tls():
    """cluster: etcd by TLS with client certificates and credentials: nodes join, fail over; halcyon cluster works"""
    with secure_etcd(members=3) as (etcd, made):
        right = directives(made)
        with Nodes(etcd, 4, "--repl-diskless-sync-delay", 0, *right) as nodes:
            nodes.await_shards(4)
            code, text = tool(etcd, "create", "--replicas", 1, *right)
            expect(code, 0, text)
            for number in range(4):
                nodes.await_state(number)
            wait_until(lambda: tool(etcd, "status", *right)[1].count(": in sync") == 4, "replicas to be in sync")
            fill(nodes, 100)
            expect_keys(nodes, 100)
            # A member that dies takes the session's token with it.
            etcd.kill(0)
            primary = next(number for number in range(4) if nodes.call(number, "SET", "foo", "1") == "OK")
            replica = next(
                number for number in range(4) if nodes.lines(number)[nodes.id(number)][2] == nodes.id(primary))
            nodes.call(primary, "WAIT", 1, 1000)
            nodes.kill(primary)
            wait_until(lambda: nodes.call(replica, "GET", "foo") == b"1", "the replica to lead")


@check
def cluster_on_etcd_by_tls_refuses():
    """cluster: etcd by TLS: a wrong authority, no certificate, a stranger's one and a wrong password are told in the log"""
    with secure_etcd(members=1) as (etcd, made):
        for wrong in [
            directives(made, authority="other"), directives(made, certificate=None),
            directives(made, certificate="stranger"), directives(made, password="wrong"),
        ]:
            with Server(*OPTIONS, "--cluster-etcd", etcd.endpoints, *wrong) as server:
                wait_until(lambda server=server: "cannot be used" in server.log(), "a line in the log")
                assert is_refused(server, "has not heard from etcd yet"), call(server, "GET", "key")
                assert PASSWORD not in server.log() and "wrong" not in server.log(), server.log()
            code, text = tool(etcd, "status", *wrong)
            assert code == 1 and "cannot be used" in text, text
        expect(etcd.ctl("get", "--prefix", "/halcyon/"), "", "what stands in etcd")


@check
def cluster_gets_another_shard():
    """cluster: halcyon cluster add-shard gives a shard its share of the slots, with their keys; said again, it has it"""
    with Etcd(members=1) as etcd, Nodes(etcd, 3) as nodes:
        nodes.await_shards(3)
        for number, (start, end) in enumerate([(0, 8191), (8192, 16383)]):
            expect(nodes.call(number, "CLUSTER", "ADDSLOTSRANGE", start, end), "OK")
        for number in range(3):
            nodes.await_state(number)
        fill(nodes, 500)
        added = nodes.addresses()[2]
        code, text = tool(etcd, "add-shard", added, agreed=False)
        assert code == 1 and "Nothing was changed" in text, text
        code, text = tool(etcd, "add-shard", added)
        expect(code, 0, text)
        counts = [len(slots_of(etcd, nodes, number)) for number in range(3)]
        assert sum(counts) == 16384 and max(counts) - min(counts) <= 1, counts
        expect_keys(nodes, 500)
        code, text = tool(etcd, "add-shard", added)
        assert code == 0 and "Nothing has to move" in text, text
        code, text = tool(etcd, "add-shard", "127.0.0.1:1")
        assert code == 1 and "There is no shard '127.0.0.1:1'" in text, text
