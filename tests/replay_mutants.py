#!/usr/bin/env python3
"""Is a divergence ever silent? Plants faults in runtime and kernels, and replays clean recordings.

    tests/replay_mutants.py --report tests/replay_mutants.md

The unmutated program records a set of runs (tests/mutant_replay.cpp: adaptive order, verify mode). Then
every mutant replays them. What a mutant changed is taken from what the ranks tell before the replayer
hears it, and from errors, results and final weights; whether the replayer noticed, and what it called it,
is held against that:

    caught    the replayer says `diverged`; or the step is stuck (nothing is left to run) or stalled (the
              pipeline's watchdog saw nothing move) where the recorded one was not; or the program ends
              with an error or a signal
    hang      no end within the time limit: not counted as caught
    silent    something changed, and the replayer says what it says of a clean run
    same      every event, hash, error, result and weight is as recorded: on these runs the mutant is the
              program itself

The class is right when it is that of the causally first difference.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

import mutants

# Not the law and the policies: a replay does not ask them.
RUNTIME = [f"lib/sluice/{name}" for name in (
    "director.cpp", "ticket.hpp", "ready_set.hpp", "door.hpp", "intake.hpp",
    "microbatch.hpp", "in_order.hpp", "split_table.hpp", "rank_core.hpp", "rank_core.cpp", "rank_loop.hpp",
    "step.hpp", "step_core.hpp", "step_core.cpp", "step_life.hpp", "update.hpp", "pipeline_state.hpp",
    "step_plans.cpp", "slots.cpp", "messages.hpp", "stage.hpp", "random.cpp")]
KERNELS = [f"kernels/sluice/kernels/{name}" for name in (
    "data_set.cpp", "data_set_source.cpp", "elementwise.cpp", "linear.cpp", "loss.cpp", "model.cpp",
    "onednn.cpp", "perceptron_part.cpp", "perceptron_stage.cpp", "sgd.cpp", "tensor.cpp", "tensor_pool.cpp")]

OUTCOMES = ("stopped", "aborted")  # of ranks that the first difference has stopped


def by_rank(seen):
    """{(step, rank): [(lamport, kind, action, hash, step and rank as told)]}"""
    found = collections.defaultdict(list)
    for line in seen["events"]:
        step, rank, lamport, kind, action, value, *told = line.split()
        found[int(step), int(rank)].append((int(lamport), kind, action, value, *told))
    return found


def class_of(recorded, seen):
    """The classes that are right for the causally first difference; None without a difference."""
    before, after = by_rank(recorded), by_rank(seen)
    for step in range(len(recorded["errors"])):
        first = [difference for key in sorted(before.keys() | after.keys()) if key[0] == step
                 if (difference := first_difference(before.get(key, []), after.get(key, [])))]
        if first:
            # A rank that was merely stopped explains nothing while another one differs by itself.
            own = [f for f in first if not f[0]] or first
            least = min(f[1] for f in own)
            return set().union(*(f[2] for f in own if f[1] == least))
        for name, classes in (("errors", {"failure", "count"}), ("results", {"result"})):
            if recorded[name][step:step + 1] != seen[name][step:step + 1]:
                return classes
    return {"state"} if recorded["weights"] != seen["weights"] else None


def first_difference(old, new):
    """(whether the rank was merely stopped, where in the causal order, classes) of one rank in a step"""
    for i in range(max(len(old), len(new))):
        a = old[i] if i < len(old) else None
        b = new[i] if i < len(new) else None
        if a == b:
            continue
        at = a[0] if a else old[-1][0] + 1 if old else 1
        stopped = (not b or b[1] in OUTCOMES) and (not a or a[1] not in OUTCOMES)
        return stopped, at, kinds_of(a, b)
    return None


def kinds_of(a, b):
    kinds = {e[1] for e in (a, b) if e}
    if not a or not b:  # fewer or more, or one that is not possible
        return {"count", "action"} | ({"failure"} if kinds & {"failed", "committed", *OUTCOMES} else set())
    if a[1:3] == b[1:3] and a[3] != b[3]:
        return {"tensor"} if a[1] == "exit" else {"state"}
    if a[1] == b[1]:  # another action, place in the causal order, rank or step
        return {"action"}
    if kinds & {"failed", "committed", *OUTCOMES}:
        return {"failure", "count"} | ({"action"} if "enter" in kinds else set())
    return {"action", "count"}


def parsed(output):
    found = {}
    for line in output.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            found[entry["case"]] = entry
    return found


def judge(recorded, code, output, cases):
    """(verdict, class the replayer gave, classes that are right, case, what was said)"""
    seen = parsed(output)
    silent = None
    for name in cases:
        old, new = recorded[name], seen.get(name)
        if new is None:
            if code is None:
                return "hang", "", set(), name, "no end within the time limit"
            if code == 3:
                return "caught", "stalled", {"stalled"}, name, "the watchdog saw nothing move"
            if code < 0:
                return "caught", "signal", {"signal"}, name, f"ends with signal {-code}"
            return "caught", "error", {"error"}, name, output.strip().splitlines()[-1][:120]
        if new["verdict"] == "error":
            return "caught", "error", {"error"}, name, new["message"][:120]
        if new["verdict"] == "unfinished":
            return "caught", "error", {"error"}, name, "steps of the recording are left that were not asked for"
        if new["stuck"]:
            return "caught", "stuck", {"stuck"}, name, "the step never ends: nothing is left to run"
        right = class_of(old, new)
        if new["verdict"] == "diverged":
            return "caught", new["class"], right, name, ""
        if by_rank(new) == by_rank(old) and new["errors"] != old["errors"]:
            return "caught", "error", {"error"}, name, "the step's caller gets: " + next(
                e for e, r in zip(new["errors"], old["errors"]) if e != r)[:80]
        if right is not None and silent is None:
            silent = ("silent", "", right, name, f"the verdict is {new['verdict']}")
    return silent or ("same", "", set(), "", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default=mutants.ROOT / "build" / "replay_mutants")
    parser.add_argument("--files", nargs="+", default=RUNTIME + KERNELS)
    parser.add_argument("--table", default=mutants.ROOT / "tests" / "replay_mutants.txt")
    parser.add_argument("--limit", type=float, default=20, help="seconds that a mutant may take")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--only", nargs="+", type=int, help="only these mutants, by number")
    parser.add_argument("--report", help="write the list of mutants and verdicts, as Markdown")
    parser.add_argument("--no-build", action="store_true", help="the mutants that were built last")
    arguments = parser.parse_args()

    table = mutants.read_table(arguments.table) if pathlib.Path(arguments.table).is_file() else []
    options = ["-DSLUICE_TOOLS=OFF", "-DSLUICE_BENCH=OFF", "-DSLUICE_EXAMPLES=OFF", "-DSLUICE_FUZZ=OFF"]
    build = mutants.Build(arguments.folder, arguments.files, table, True, options)
    start = time.monotonic()
    if arguments.no_build:
        build.mutants = [mutants.Mutant(**m) for m in
                         json.loads((build.folder / "mutants.json").read_text())]
    else:
        build.make(["mutant_replay"])
    print(f"{len(build.mutants)} mutants, built in {time.monotonic() - start:.0f} s", flush=True)

    program = str(build.build / "tests" / "mutant_replay")
    recordings = build.folder / "recordings"
    subprocess.run(["rm", "-rf", str(recordings)], check=True)
    recordings.mkdir()
    code, output = build.run([program, "record", str(recordings)], 0, 60)
    recorded = parsed(output)
    if code != 0:
        raise SystemExit(output)
    cases = list(recorded)
    code, output = build.run([program, "replay", str(recordings)], 0, 60)
    clean = judge(recorded, code, output, cases)
    if clean[0] != "same":
        raise SystemExit(f"without a fault: {clean}")

    chosen = [m for m in build.mutants if m.file in arguments.files
              and (not arguments.only or m.id in arguments.only)]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def try_one(mutant):
            code, output = build.run([program, "replay", str(recordings)], mutant.id, arguments.limit)
            return judge(recorded, code, output.replace(f"{recordings}/", ""), cases)
        for mutant, verdict in zip(chosen, pool.map(try_one, chosen)):
            rows.append((mutant, verdict))
            kind, named, right, case, said = verdict
            print(f"{mutant.id:4} {mutant.place():45} {kind:7} {named:8} "
                  f"{'' if right is None or named in right or kind == 'same' else 'right: ' + ','.join(sorted(right))} "
                  f"{case} {said}  {mutant.what}", flush=True)

    text = summary(rows, build)
    print(text)
    if arguments.report:
        write_report(arguments.report, rows, text)
    return 0


def summary(rows, build):
    count = collections.Counter(verdict[0] for _, verdict in rows)
    changed = count["caught"] + count["silent"] + count["hang"]
    # Of what shows nowhere outside, such as a step whose end is told wrong, there is nothing to hold it to.
    named = [v for _, v in rows if v[0] == "caught" and v[2] is not None and v[1] not in ("signal", "error", "stuck", "stalled")]
    right = sum(v[1] in v[2] for v in named)
    classes = collections.Counter(v[1] for _, v in rows if v[0] == "caught")
    share = (lambda a, b: f"{100 * a / b:.1f} %" if b else "none")
    return (f"{len(rows)} mutants: {count['same']} change nothing on these runs, {changed} change something.\n"
            f"Of those, {count['caught']} are caught ({share(count['caught'], changed)}), "
            f"{count['hang']} hang, {count['silent']} are silent.\n"
            f"Caught as: {', '.join(f'{name} {n}' for name, n in classes.most_common())}.\n"
            f"The class of a divergence is right for {right} of {len(named)} ({share(right, len(named))}).")


def write_report(path, rows, text):
    lines = ["# Faults planted in runtime and kernels, and what a replay says of each", "",
             "Made by `tests/replay_mutants.py --report`, which says how.", "", text, "",
             "## Faults that change something", "", "| place | fault | verdict | class | where |",
             "|---|---|---|---|---|"]
    same = collections.defaultdict(list)
    for mutant, (kind, named, right, case, said) in rows:
        if kind == "same":
            same[mutant.file].append(mutant.line)
            continue
        what = (f"{mutant.planted}: " if mutant.planted else "") + mutant.what
        shown = named if kind != "caught" or right is None or named in right else \
            f"{named}, not {' or '.join(sorted(right))}"
        lines.append(f"| {mutant.place()} | {what.replace('|', chr(92) + '|')} | {kind} | {shown} | "
                     f"{case}{': ' + said if said else ''} |")
    lines += ["", "## Faults that change nothing on these runs", "",
              "Every event, hash, error, result and weight is as recorded. Lines, with how many faults if several:", ""]
    for file, places in same.items():
        counted = collections.Counter(places)
        lines.append(f"- {file}: " + ", ".join(f"{line}" + (f" ({n})" if n > 1 else "")
                                              for line, n in sorted(counted.items())))
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
