#!/usr/bin/env python3
"""The planner beside a plain Python simulator of the same law, in one run: lockstep_ratio.py PROGRAM...

PROGRAM is planner_bench, with arguments of its own if any. Prints processor time per action of both
and the ratio, and the peak memory of the largest timeline. Exits 1 when the two disagree about a
makespan, or the ratio is below 200.
"""

import json
import resource
import subprocess
import sys
import time

import lockstep_peer

WANTED = 200


def benchmark(program, name):
    """Seconds of processor time per iteration."""
    run = subprocess.run(program + ["--benchmark_filter=^" + name + "$", "--benchmark_format=json"],
                         check=True, capture_output=True, text=True)
    result = next(each for each in json.loads(run.stdout)["benchmarks"] if each["run_type"] == "iteration")
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[result["time_unit"]]
    return result["cpu_time"] * unit


def main():
    program = sys.argv[1:]
    if not program:
        sys.exit("usage: lockstep_ratio.py PROGRAM...: expected the path of planner_bench")
    # The known makespans first: a peer that computes something else would be no peer.
    for stages, microbatches, depth, link, known in [(4, 8, 3, 0, 33), (4, 8, 2, 0, 39), (4, 32, 3, 1, 157),
                                                     (4, 32, 6, 1, 111)]:
        found = lockstep_peer.makespan(stages, microbatches, depth, [1] * stages, [2] * stages, link)
        if found != known:
            sys.exit(f"S={stages} M={microbatches} W={depth}: the peer says {found}, expected {known}")

    # The largest first: the peak memory of children never falls.
    largest = benchmark(program, "DrainOrder/1024/16384")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"S=1024 M=16384: {largest:.3f} s, {peak:.0f} MiB peak for the whole process")

    stages, microbatches = 16, 256
    actions = 2 * stages * microbatches
    start = time.process_time()
    lockstep_peer.makespan(stages, microbatches, stages - 1, [1] * stages, [2] * stages, 1)
    peer = time.process_time() - start
    print(f"S={stages} M={microbatches}, per action: Python in lock step {1e9 * peer / actions:.0f} ns")
    ratios = {}
    for name in ("DrainOrder", "Law"):
        ours = benchmark(program, f"{name}/{stages}/{microbatches}")
        ratios[name] = peer / ours
        print(f"  {name:<11} {1e9 * ours / actions:6.2f} ns, {peer / ours:5.0f}x, {1 / ours:.0f} timelines/s")
    if ratios["DrainOrder"] < WANTED:
        sys.exit(f"DrainOrder is {ratios['DrainOrder']:.0f}x as fast as the peer, expected {WANTED}x or more")


main()
