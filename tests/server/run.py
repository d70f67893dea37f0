#!/usr/bin/env python3
"""Checks of the server as a process: how it starts and ends, bad clients, bounds under load.

    tests/server/run.py [NAME...]     only checks whose function name starts so

Starts HALCYON_BIN, or target/release/halcyon, or target/ci/halcyon, once a check. The last line is
"N passed, N failed"; exit code 0 only when nothing failed.
"""

import sys
import time
import traceback

import acl  # noqa: F401  (each import registers its checks)
import append_only  # noqa: F401
import clients  # noqa: F401
import cluster  # noqa: F401
import cluster_bad_input  # noqa: F401
import cluster_secure  # noqa: F401
import cluster_tools  # noqa: F401
import durability  # noqa: F401
import failover  # noqa: F401
import groups  # noqa: F401
import lab_nodes  # noqa: F401
import listening  # noqa: F401
import load  # noqa: F401
import loading  # noqa: F401
import memory  # noqa: F401
import migrate  # noqa: F401
import no_fork  # noqa: F401
import no_fork_paths  # noqa: F401
import persistence  # noqa: F401
import placement  # noqa: F401
import publish  # noqa: F401
import quorum  # noqa: F401
import redirects  # noqa: F401
import replication_faults  # noqa: F401
import replication_replica  # noqa: F401
import replication_outages  # noqa: F401
import replication_primary  # noqa: F401
import scripts  # noqa: F401
import sentinel_clients  # noqa: F401
import staleness  # noqa: F401
import slot_moves  # noqa: F401
import startup  # noqa: F401
import storm  # noqa: F401
import tls  # noqa: F401
from harness import CHECKS, Skip


def main():
    passed = failed = 0
    for function in sorted(CHECKS, key=lambda function: function.__module__ != "startup"):
        if sys.argv[1:] and not function.__name__.startswith(tuple(sys.argv[1:])):
            continue
        title = function.__doc__.splitlines()[0]
        started_s = time.monotonic()
        try:
            function()
            passed += 1
            print(f"ok      {title} ({time.monotonic() - started_s:.1f} s)", flush=True)
        except Skip as reason:
            print(f"skipped {title}: {reason}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {title} ({function.__name__}): {error}", flush=True)
            frames = traceback.extract_tb(error.__traceback__)
            print("        " + " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames)), flush=True)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
