"""PUBLISH in a cluster: who has subscribed at another node gets it, once and in order; nodes talk only while somebody has."""

import select

from cluster import Nodes
from etcd import Etcd
from harness import check, expect, wait_until
from redirects import SecretNodes

SUBSCRIBER = "name=halcyon-subscriber"


def listeners(nodes, number):
    """How many other nodes listen to this one."""
    return nodes.call(number, "CLIENT", "LIST").decode().count(SUBSCRIBER)


def await_way(nodes, publisher, client, channel):
    """Publishes until the subscriber hears it: from then on it hears all."""
    sent = []

    def is_heard():
        sent.append(b"%d from node %d" % (len(sent), publisher))
        nodes.call(publisher, "PUBLISH", channel, sent[-1])
        return client.buffer or select.select([client.socket], [], [], 0.05)[0]

    wait_until(is_heard, f"a message from node {publisher}")
    heard = client.reply()[-1]
    for message in sent[sent.index(heard) + 1:]:
        expect(client.reply(), [b"message", channel.encode(), message])


@check
def publish_reaches_subscribers_of_other_nodes():
    """publish: subscribers of a cluster's nodes get what any node is told, once and in order; nodes talk only while there are some"""
    with Etcd(members=1) as etcd, Nodes(etcd, 4, "--notify-keyspace-events", "KEA") as nodes:
        nodes.await_shards(4)
        for number in range(3):
            expect(nodes.call(number, "CLUSTER", "ADDSLOTSRANGE", number * 5000, number * 5000 + 4999), "OK")
        expect(nodes.call(2, "CLUSTER", "ADDSLOTSRANGE", 15000, 16383), "OK")
        wait_until(lambda: nodes.call(3, "CLUSTER", "REPLICATE", nodes.id(0)) == "OK", "a replica")
        for number in range(4):
            nodes.await_state(number)
            expect(listeners(nodes, number), 0, "connections that nobody wants")
        with nodes.servers[0].connect() as client, nodes.servers[3].connect() as other:
            client.call("SUBSCRIBE", "news")
            for publisher in (1, 2, 3):
                await_way(nodes, publisher, client, "news")
            expect(listeners(nodes, 1), 1, "connections to node 1")
            # The publisher tells of its own subscribers only, as Redis's does.
            expect(nodes.call(1, "PUBLISH", "news", "counted"), 0)
            expect(client.reply(), [b"message", b"news", b"counted"])
            expect(nodes.call(1, "PUBSUB", "NUMSUB", "news"), [b"news", 0])
            expect(nodes.call(1, "PUBSUB", "CHANNELS"), [])
            expect(nodes.call(0, "PUBLISH", "news", "own"), 1)
            expect(client.reply(), [b"message", b"news", b"own"])
            # A replica hears its primary no other way.
            other.call("SUBSCRIBE", "for the replica")
            for publisher in (0, 1):
                await_way(nodes, publisher, other, "for the replica")
            in_order(nodes, client)
            by_pattern(nodes, client)
            nodes.kill(1)
            nodes.start(1)
            nodes.await_state(1)
            await_way(nodes, 1, client, "news")
        for number in range(4):
            wait_until(lambda number=number: listeners(nodes, number) == 0, "the connections to end")


def in_order(nodes, client):
    with nodes.servers[2].connect() as publisher:
        for number in range(2000):
            publisher.call("PUBLISH", "news", f"in order {number}")
    for number in range(2000):
        expect(client.reply(), [b"message", b"news", b"in order %d" % number])


def by_pattern(nodes, client):
    """A pattern that fits, too, is told apart; what happens to the other node's keys is not told here."""
    for words in (["PSUBSCRIBE", "n*"], ["PSUBSCRIBE", "__key*"]):
        client.call(*words)

    def is_heard():
        nodes.call(2, "PUBLISH", "__key:none", "mind")
        return client.buffer or select.select([client.socket], [], [], 0.05)[0]

    wait_until(is_heard, "a message by pattern")
    # foo's slot is 12182: the third node's.
    expect(nodes.call(2, "SET", "foo", "1"), "OK")
    expect(nodes.call(2, "PUBLISH", "news", "both"), 0)
    while (reply := client.reply()) == [b"pmessage", b"__key*", b"__key:none", b"mind"]:
        pass
    expect(sorted([reply, client.reply()]), [[b"message", b"news", b"both"], [b"pmessage", b"n*", b"news", b"both"]])
    client.call("PUNSUBSCRIBE")
    client.reply()


@check
def publish_between_nodes_that_want_certificates_and_passwords():
    """publish: nodes listen to each other as masteruser, by TLS with a certificate; again once that user is let in again"""
    with Etcd(members=1) as etcd, SecretNodes(etcd, 3) as nodes:
        nodes.create()
        with nodes.connect(0) as client:
            client.call("SUBSCRIBE", "news")
            for publisher in (1, 2):
                await_way(nodes, publisher, client, "news")
                listening = f" {SUBSCRIBER} "
                expect((listeners(nodes, publisher), nodes.come_by_tls(publisher, listening)), (1, 1), "by TLS")
            expect(nodes.call(1, "ACL", "SETUSER", nodes.USER, "off"), "OK")
            nodes.call(1, "CLIENT", "KILL", "USER", nodes.USER)
            wait_until(lambda: "do not hear of node" in nodes.servers[0].log(), "a line in the log")
            expect(listeners(nodes, 1), 0, "connections to node 1")
            expect(nodes.call(2, "PUBLISH", "news", "from another"), 0)
            expect(client.reply(), [b"message", b"news", b"from another"])
            expect(nodes.call(1, "ACL", "SETUSER", nodes.USER, "on"), "OK")
            await_way(nodes, 1, client, "news")
