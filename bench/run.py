#!/usr/bin/env python3
"""Measures Halcyon side by side with every peer found on this machine, and prints one Markdown table.

Each server is pinned to CPU 0 with one worker, the generator to CPU 1; servers take turns within each figure, so that
the machine's drift meets all of them. Absolute figures differ between machines and hours: ratios are what counts.
Peers: valkey-server and redis-server of PATH, those that bench/install-peers.sh installs, and HALCYON_PEERS="name=path,...".
"""

import argparse
import os
import platform
import resource
import shutil
import signal
import sys
import time

import figures
from servers import REPOSITORY, find_programs
from table import Table, described

RESULTS_PATH = REPOSITORY / "bench" / "results.md"


class Run:
    """What a figure is given: the programs, the table, and whether it shall be quick."""

    def __init__(self, programs, table, quick, elements):
        self.programs = programs
        self.table = table
        self.quick = quick
        self.elements = elements
        self.figure = ""

    @property
    def halcyon(self):
        return [program for program in self.programs if program.is_halcyon]

    def pick(self, full, quick):
        """A size of the work."""
        return quick if self.quick else full

    def progress(self, text):
        print(f"  {self.figure}: {text}", flush=True)

    def attempt(self, rows, server_name, measure):
        """Runs `measure()`, which returns a value for each of `rows`. A failure takes their place in the table."""
        try:
            values = measure()
        except (OSError, RuntimeError) as error:
            self.progress(f"{server_name}: {error}")
            values = ["failed"] * len(rows)
            note = f"- {self.figure}, {server_name}: {error}"
            if note not in self.table.notes:
                self.table.notes.append(note)
        for row, value in zip(rows, values, strict=True):
            row.add(server_name, value)

    def tell(self, rows, server_name):
        """Prints what was measured last: where a figure takes long, its end may not come."""
        for row in rows:
            self.progress(f"{server_name}: {described(row, row.samples[server_name][-1])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [figure.NAME for figure in figures.ALL]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="only this figure (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="less of everything: half an hour with three peers on the machine that README names")
    parser.add_argument("--elements", type=int, metavar="N", help="elements of each value of the figure stall, keys of keys_stall")
    parser.add_argument("--list", action="store_true", help="list the figures, how each is measured, and end")
    parser.add_argument("--save", action="store_true", help=f"write the table to {RESULTS_PATH.relative_to(REPOSITORY)}")
    options = parser.parse_args()
    if options.list:
        for figure in figures.ALL:
            print(f"{figure.NAME}\n  " + figure.__doc__.strip().replace("\n", "\n  ") + "\n")
        return
    # A terminated run ends its servers, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    check_machine()
    programs = find_programs()
    print("Measuring " + ", ".join(str(program) for program in programs), flush=True)
    table = Table(programs)
    run = Run(programs, table, options.quick, options.elements)
    started_s = time.monotonic()
    for figure in figures.ALL:
        if options.only and figure.NAME not in options.only:
            continue
        run.figure = figure.NAME
        run.progress("...")
        figure_started_s = time.monotonic()
        figure.measure(run)
        run.progress(f"done in {time.monotonic() - figure_started_s:.0f} s")
    text = f"{describe(options.quick)}\n\n{table.markdown()}\n"
    print("\n" + text)
    print(f"Took {time.monotonic() - started_s:.0f} s")
    if options.save:
        RESULTS_PATH.write_text("# Measured\n\n" + text, encoding="utf-8")
        print(f"Written to {RESULTS_PATH}")


def check_machine():
    """Ends with a clear line where nothing could be measured."""
    for program in ["taskset", "redis-benchmark"]:
        if not shutil.which(program):
            raise SystemExit(f"bench: {program} is missing; run scripts/install-dependencies build bench")
    if os.cpu_count() < 2:
        raise SystemExit("bench: two CPUs are needed, one for the server and one for the generator")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def describe(quick):
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = os.getloadavg()[0]
    text = f"{time.strftime('%Y-%m-%d')}, {model}, {os.cpu_count()} CPUs, load at the end {load:.1f}"
    return text + (", `--quick`" if quick else "") + ". Lower is better, except requests per second."


if __name__ == "__main__":
    main()
