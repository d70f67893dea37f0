"""Celery with Redis as broker and result backend: a worker process runs tasks, chains, a chord, retries and a delayed task."""

import os
import subprocess
import sys

from celery import Celery, chain, chord, group

URL = f"redis://127.0.0.1:{os.environ['PORT']}/0"
WAIT_S = 40
app = Celery("celery_app", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True, worker_hijack_root_logger=False, result_expires=60, task_default_queue="work",
    imports=("celery_app",),
)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def stubborn(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


def check(name, found, expected):
    assert found == expected, f"{name}: {found!r}, expected {expected!r}"
    print(f"celery: {name}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--concurrency", "2", "--loglevel", "WARNING"]
    worker = subprocess.Popen([*command, "--without-gossip", "--without-mingle"], cwd=here)
    try:
        check("a task", add.delay(2, 3).get(timeout=WAIT_S), 5)
        check("a chain", chain(add.s(1, 1), add.s(10), add.s(100))().get(timeout=WAIT_S), 112)
        check("a group", group(add.s(n, n) for n in range(20))().get(timeout=WAIT_S), [2 * n for n in range(20)])
        check("a chord", chord((add.s(n, 1) for n in range(10)), total.s())().get(timeout=WAIT_S), 55)
        check("retries", stubborn.delay().get(timeout=WAIT_S), 2)
        check("a delayed task", add.apply_async((4, 4), countdown=0.5).get(timeout=WAIT_S), 8)
        results = [add.delay(n, 1) for n in range(200)]
        check("many tasks", sum(result.get(timeout=WAIT_S) for result in results), sum(range(200)) + 200)
        results[0].forget()
        check("workers answer", len(app.control.ping(timeout=5)), 1)
    finally:
        worker.terminate()
        worker.wait(timeout=WAIT_S)


if __name__ == "__main__":
    main()
