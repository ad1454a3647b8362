#!/usr/bin/env python3
"""The planner beside plain Python simulators of the same law, in one run: lockstep_ratio.py PROGRAM...

PROGRAM is planner_bench, with arguments of its own if any. Both sides simulate the same law with the same
costs: equal ones, and ones that differ by stage, edge and microbatch. Prints processor time per action and
ratios, and time and peak memory of the largest shape. Exits 1 when two disagree about a makespan, or when
the law with unequal costs is less than 200 times as fast as Python in lock step.
"""

import json
import resource
import subprocess
import sys
import time

import lockstep_peer

WANTED = 200
STAGES, MICROBATCHES = 16, 256


def benchmark(program, name):
    """Seconds of processor time per iteration, and the makespan."""
    run = subprocess.run(program + ["--benchmark_filter=^" + name + "$", "--benchmark_format=json"],
                         check=True, capture_output=True, text=True)
    result = next(each for each in json.loads(run.stdout)["benchmarks"] if each["run_type"] == "iteration")
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[result["time_unit"]]
    return result["cpu_time"] * unit, result["makespan"]


def unequal():
    """The costs of planner_bench, number by number."""
    state = 1

    def between(least, most):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return least + (state >> 33) % (most - least)

    forward, backward, link = [], [], []
    for s in range(STAGES):
        forward.append(between(5, 15))
        backward.append(between(10, 30))
        if s > 0:
            link.append(between(1, 4))
    return forward, backward, link, [between(1, 5) for _ in range(MICROBATCHES)]


def equal():
    return [1] * STAGES, [2] * STAGES, [1] * (STAGES - 1), [1] * MICROBATCHES


def timed(simulate, costs):
    start = time.process_time()
    makespan = simulate(STAGES, MICROBATCHES, STAGES - 1, *costs)
    return time.process_time() - start, makespan


def main():
    program = sys.argv[1:]
    if not program:
        sys.exit("usage: lockstep_ratio.py PROGRAM...: expected the path of planner_bench")
    # The known makespans first: a peer that computes something else would be no peer.
    peers = {"lock step": lockstep_peer.lock_step, "by events": lockstep_peer.by_events}
    for stages, microbatches, depth, link, known in [(4, 8, 3, 0, 33), (4, 8, 2, 0, 39), (4, 32, 3, 1, 157),
                                                     (4, 32, 6, 1, 111)]:
        for name, peer in peers.items():
            found = peer(stages, microbatches, depth, [1] * stages, [2] * stages, [link] * (stages - 1),
                         [1] * microbatches)
            if found != known:
                sys.exit(f"S={stages} M={microbatches} W={depth}: {name} says {found}, expected {known}")

    # The largest first: the peak memory of children never falls.
    for name in ("DrainOrder", "Law"):
        seconds, _ = benchmark(program, f"{name}/1024/16384")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"S=1024 M=16384: {name} {seconds:.3f} s, {peak:.0f} MiB peak for the whole process")

    actions = 2 * STAGES * MICROBATCHES
    print(f"S={STAGES} M={MICROBATCHES}, processor time per action:")
    ratio = 0
    for kind, costs, names in (("equal", equal(), ("LawEqual", "DrainOrderEqual")),
                               ("unequal", unequal(), ("Law", "DrainOrder"))):
        times = {}
        for name, peer in peers.items():
            times[name], makespan = timed(peer, costs)
            print(f"  {kind} costs, Python {name}: {1e9 * times[name] / actions:.0f} ns")
        for name in names:
            seconds, found = benchmark(program, f"{name}/{STAGES}/{MICROBATCHES}")
            beside = ", ".join(f"{times[peer] / seconds:.0f}x {peer}" for peer in peers)
            print(f"  {kind} costs, {name}: {1e9 * seconds / actions:.2f} ns, {beside}, "
                  f"{1 / seconds:.0f} timelines/s")
            # The static order is the law's where stages are equal and links are free: not here.
            if name.startswith("Law") and found != makespan:
                sys.exit(f"{name} says {found}, the peers {makespan}")
            if name == "Law":
                ratio = times["lock step"] / seconds
    if ratio < WANTED:
        sys.exit(f"the law is {ratio:.0f}x as fast as Python in lock step, expected {WANTED}x or more")


main()
