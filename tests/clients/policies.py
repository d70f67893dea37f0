"""What each library absorbs of a cluster's changes by its own rules, and what it hands on to its user.

An error of a program is `step: kind: text`; the steps are named in changes.md. Each pattern has its reason beside it, and
where in the library's source that stands. What no pattern finds is a failure: of the server, or of what is known of the
library.
"""

from typing import NamedTuple


class Policy(NamedTuple):
    """What is handed on in which phase, as regular expressions; `in_any` while anything changes."""

    in_any: tuple = ()
    move: tuple = ()
    fail_over: tuple = ()
    kill: tuple = ()

    def handed_on(self, phase):
        """Nothing while nothing changes."""
        return (*self.in_any, *getattr(self, phase)) if phase in ("move", "fail_over", "kill") else ()


# While a slot moves key by key: some keys of one command are here and some there.
TRYAGAIN = r"^several: .*TRYAGAIN"
# A node that was killed and is back says so until it knows who serves which slots; so does Redis.
CLUSTERDOWN = r"CLUSTERDOWN"
# Jedis waits ever longer between two attempts, but not before every second one.
NO_ATTEMPTS_LEFT = r"No more cluster attempts left"

POLICIES = {
    # cluster.py: MOVED, ASK, TRYAGAIN, CLUSTERDOWN and broken connections are tried again, so often and so far apart
    # as `retry` and `cluster_error_retry_attempts` say.
    "redis-py": Policy(),
    # cluster.go, pipelineProcessCmds and txPipelineProcessCmds: what breaks while the replies of a pipeline are read
    # is set as its commands' error; only what broke before is tried again. internal/error.go: TRYAGAIN is no error to
    # try again at.
    "go-redis-v6": Policy(
        move=(TRYAGAIN,), kill=(r"^(pipeline|transaction): (\*errors.errorString: EOF|\*net.OpError: )",),
    ),
    # internal/error.go (v7), error.go (v8, v9): broken connections, LOADING, READONLY, CLUSTERDOWN and, from v8 on,
    # TRYAGAIN are tried again MaxRedirects times; pipelines as well.
    "go-redis-v7": Policy(move=(TRYAGAIN,)),
    "go-redis": Policy(),
    # JedisClusterCommand.runWithRetries: MOVED, ASK and broken connections are tried again, all attempts at once, so
    # that an outage uses them up; other error replies are handed on.
    "jedis-2": Policy(
        move=(TRYAGAIN,),
        kill=(CLUSTERDOWN, r"JedisClusterMaxRedirectionsException", r"JedisConnectionException", r"NoReachableCluster"),
    ),
    # JedisClusterCommand.runWithRetries: as before, but with pauses, for as long as it is told.
    "jedis-3": Policy(move=(TRYAGAIN,), kill=(CLUSTERDOWN, NO_ATTEMPTS_LEFT)),
    # ClusterCommandExecutor: as before. ClusterPipeline and MultiNodePipelineBase: a pipeline is never tried again;
    # where a node of it is gone there is a NullPointerException.
    "jedis-7": Policy(
        in_any=(r"^pipeline: .*(JedisMovedDataException|JedisAskDataException)",), move=(TRYAGAIN,),
        kill=(CLUSTERDOWN, NO_ATTEMPTS_LEFT, r"^pipeline: .*(JedisConnection|NullPointer|IllegalState)Exception"),
    ),
    # ClusterCommand and ClusterDistributionChannelWriter: MOVED and ASK are followed; what a broken connection owes
    # is asked again on the next (ConnectionWatchdog), but the first command that was to be answered, which
    # CommandHandler.exceptionCaught ends; other error replies are handed on.
    "lettuce": Policy(move=(TRYAGAIN,), kill=(CLUSTERDOWN, r"(Connection reset|Broken pipe)")),
    # cluster/index.js, handleError: MOVED, ASK, TRYAGAIN, CLUSTERDOWN and closed connections are tried again.
    # pipeline.js: a pipeline is tried again as a whole, unless its replies differ in kind.
    "ioredis": Policy(kill=(r"^transaction: .*(EXECABORT|Command aborted due to connection close)",)),
    # client/lib/cluster/index.js, _execute: MOVED and ASK are followed; other errors are handed on, also that the
    # connection broke that a command was sent on. cluster-slots.js: so are the commands of a node that it has found to
    # be no primary any more.
    "node-redis": Policy(
        in_any=(r"DisconnectsClientError",), move=(TRYAGAIN,),
        kill=(CLUSTERDOWN, r"Socket closed unexpectedly", r"ECONNRE", r"closed"),
    ),
    # cluster_handling/sync_connection.rs, request: MOVED, ASK, TRYAGAIN and CLUSTERDOWN are tried again `retries`
    # times. So are broken connections, but all at once, so that an outage uses the tries up.
    "redis-rs": Policy(kill=(r"^\w+: (Io: |Server\(Moved\): )",)),
}


def policy_of(name):
    """The policy under the longest beginning of the name."""
    return POLICIES[max((start for start in POLICIES if name.startswith(start)), key=len)]
