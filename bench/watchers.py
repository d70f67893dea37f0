"""What the machine itself holds up: a process at real-time priority on each CPU, which wants to run every half millisecond.

It precedes every thread of a server, so what holds it up is no server's doing: the host that has taken the CPU away, an interrupt,
the kernel where it cannot be preempted. A client's wait less the time for which a watcher waited as well is what remains to be
explained. Where real-time priority is not allowed there are no watchers.
"""

import contextlib
import gc
import multiprocessing
import os
import time

PERIOD_S = 0.0005
# What it takes to wake at all.
HELD_UP_S = 0.0002
PRIORITY = 50
POLLS_EVERY = 16


class Watchers:
    """The watchers' pipes."""

    def __init__(self, pipes):
        self.pipes = pipes

    def begin(self):
        for pipe in self.pipes:
            pipe.send("begin")

    def end(self):
        """Returns when they were held up since `begin`: (from, to) in seconds of the monotonic clock, in order, none overlapping."""
        for pipe in self.pipes:
            pipe.send("end")
        merged = []
        for start_s, end_s in sorted(held_up for pipe in self.pipes for held_up in pipe.recv()):
            if merged and start_s <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end_s))
            else:
                merged.append((start_s, end_s))
        return merged


@contextlib.contextmanager
def watching(cpus):
    """Watches these CPUs ("0,1"); yields the watchers, or None where that is not allowed."""
    context = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for cpu in cpus.split(","):
        ours, theirs = context.Pipe()
        process = context.Process(target=watch_until_closed, args=(int(cpu), theirs, [*pipes, ours]), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        is_allowed = [pipe.recv() for pipe in pipes]
        yield Watchers(pipes) if all(is_allowed) else None
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()


def watch_until_closed(cpu, pipe, other_ends):
    """Says first whether it may watch; between "begin" and "end" does, and answers "end" with when it was held up."""
    for end in other_ends:
        end.close()
    gc.disable()
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        pipe.send(False)
        return
    pipe.send(True)
    with contextlib.suppress(EOFError):
        while pipe.recv() == "begin":
            held_up = watch_until_told(pipe)
            pipe.recv()
            pipe.send(held_up)


def watch_until_told(pipe):
    held_up, polled = [], 0
    clock = time.perf_counter
    while True:
        due_s = clock() + PERIOD_S
        time.sleep(PERIOD_S)
        woken_s = clock()
        if woken_s - due_s > HELD_UP_S:
            held_up.append((due_s, woken_s))
        polled += 1
        if polled % POLLS_EVERY == 0 and pipe.poll():
            return held_up


def overlap_s(start_s, end_s, held_up):
    """For how long of this time a watcher was held up."""
    return sum(max(0.0, min(end_s, to_s) - max(start_s, from_s)) for from_s, to_s in held_up)
