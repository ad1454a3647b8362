#!/usr/bin/env python3
"""Is a divergence ever silent? Plants faults in runtime and kernels, and replays clean recordings.

    tests/replay_mutants.py --report tests/replay_mutants.md

One run makes the whole report, from a build of its own that it begins anew. The unmutated program
records a set of runs (tests/mutant_cases.cpp: adaptive and fixed orders, verify mode) and replays them.
Then every mutant replays them. What a mutant changed is taken from what the ranks tell before the
replayer hears it, and from errors, results and final weights; whether the replayer noticed, and what it
called it, is held against that:

    caught    the replayer says `diverged`; or the step is stuck (nothing is left to run) or stalled (the
              pipeline's watchdog saw nothing move) where the recorded one was not; or the program ends
              with an error or a signal
    hang      no end within the time limit: not counted as caught
    silent    something changed, and the replayer says what it says of a clean run
    same      every event, hash, error, result and weight is as recorded: on these runs the mutant is the
              program itself

A replay does not ask the law and the policies; only the plan is derived with them. So a fault there that a
replay rightly calls `same` is looked at in the way that finds it: the mutant makes the run a second time,
live, and the two recordings are compared as `sluice diff` does. All faults there are counted apart.

The class is right when it is that of the causally first difference, the place when it is within 64
actions of it on its rank; a step that fails at its end has its place there.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import time

import mutants

DECIDES = [f"lib/sluice/{name}" for name in ("law.hpp", "law.cpp", "policy.cpp")]  # live runs alone
RUNTIME = [f"lib/sluice/{name}" for name in (
    "director.cpp", "call.hpp", "call.cpp", "stop_request.cpp", "edges.hpp", "event.cpp", "executors.hpp", "ticket.hpp", "ready_set.hpp", "door.hpp", "intake.hpp",
    "microbatch.hpp", "in_order.hpp", "split_table.hpp", "rank_core.hpp", "rank_core.cpp", "rank_loop.hpp",
    "step.hpp", "step_core.hpp", "step_core.cpp", "step_life.hpp", "update.hpp", "pipeline_state.hpp",
    "step_error.cpp", "step_plans.cpp", "slots.cpp", "messages.hpp", "stage.hpp", "random.cpp")]
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


WITHIN = 128  # events: enter and exit of 64 actions


def truth_of(recorded, seen):
    """(classes that are right for the causally first difference, [its places as (step, rank, number)]);
    (None, []) without a difference."""
    before, after = by_rank(recorded), by_rank(seen)
    for step in range(len(recorded["errors"])):
        first = [(*difference, key) for key in sorted(before.keys() | after.keys()) if key[0] == step
                 if (difference := first_difference(before.get(key, []), after.get(key, [])))]
        if first:
            # A rank that was merely stopped explains nothing while another one differs by itself.
            own = [f for f in first if not f[0]] or first
            least = min(f[1] for f in own)
            causes = [f for f in own if f[1] == least]
            return set().union(*(f[2] for f in causes)), [(*f[4], f[3]) for f in causes]
        for name, classes in (("errors", {"failure", "count"}), ("results", {"result"})):
            if recorded[name][step:step + 1] != seen[name][step:step + 1]:
                return classes, []
    return ({"state"}, []) if recorded["weights"] != seen["weights"] else (None, [])


def is_near(told, places):
    """Whether the replayer's place is one of `places`, or not far from it on its rank."""
    return not places or any((told["step"], told["rank"]) == place[:2] and
                             abs(told["local"] - place[2]) <= WITHIN for place in places)


def first_difference(old, new):
    """(whether the rank was merely stopped, where in the causal order, classes, number of the event) of
    one rank in a step"""
    for i in range(max(len(old), len(new))):
        a = old[i] if i < len(old) else None
        b = new[i] if i < len(new) else None
        if a == b:
            continue
        at = a[0] if a else old[-1][0] + 1 if old else 1
        stopped = (not b or b[1] in OUTCOMES) and (not a or a[1] not in OUTCOMES)
        return stopped, at, kinds_of(a, b), i
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


@dataclasses.dataclass
class Verdict:
    kind: str  # caught, hang, silent, same
    named: str = ""  # the class that was told
    right: set = None  # the classes that are right; None: nothing to hold it to
    case: str = ""
    said: str = ""
    near: bool = True  # the place that was told is near the first difference
    by_diff: bool = False  # told by a comparison of two recordings, not by a replay
    plan: bool = False  # the mutant derives another plan from the same configuration

    def is_right(self):
        return self.right is None or self.named in self.right


def judge(recorded, code, output, cases):
    """What became of a run of all cases, held against one without a fault."""
    seen = parsed(output)
    silent = None
    for name in cases:
        old, new = recorded[name], seen.get(name)
        if new is None:
            if code is None:
                return Verdict("hang", case=name, said="no end within the time limit")
            if code == 3:
                return Verdict("caught", "stalled", {"stalled"}, name, "the watchdog saw nothing move")
            if code < 0:
                return Verdict("caught", "signal", {"signal"}, name, f"ends with signal {-code}")
            return Verdict("caught", "error", {"error"}, name, output.strip().splitlines()[-1][:120])
        if new["verdict"] == "error":
            return Verdict("caught", "error", {"error"}, name, new["message"][:120])
        if new["verdict"] == "unfinished":
            return Verdict("caught", "error", {"error"}, name,
                           "steps of the recording are left that were not asked for")
        if new["stuck"]:
            return Verdict("caught", "stuck", {"stuck"}, name, "the step never ends: nothing is left to run")
        right, places = truth_of(old, new)
        if new["verdict"] == "diverged":
            return Verdict("caught", new["class"], right, name, near=is_near(new, places))
        if by_rank(new) == by_rank(old) and new["errors"] != old["errors"]:
            return Verdict("caught", "error", {"error"}, name, "the step's caller gets: " + next(
                e for e, r in zip(new["errors"], old["errors"]) if e != r)[:80])
        if right is not None and silent is None:
            silent = Verdict("silent", "", right, name, f"the verdict is {new['verdict']}")
    return silent or Verdict("same", plan=any(e.get("plan") for e in seen.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default=mutants.ROOT / "build" / "replay_mutants")
    parser.add_argument("--files", nargs="+", default=DECIDES + RUNTIME + KERNELS)
    parser.add_argument("--limit", type=float, default=10, help="seconds that a mutant may take")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--build-jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--clean", type=int, default=100000, help="replays without a fault")
    parser.add_argument("--only", nargs="+", type=int, help="only these mutants, by number")
    parser.add_argument("--report", help="write the list of mutants and verdicts, as Markdown")
    parser.add_argument("--no-build", action="store_true", help="the mutants that were built last")
    arguments = parser.parse_args()

    options = ["-DSLUICE_TOOLS=OFF", "-DSLUICE_BENCH=OFF", "-DSLUICE_EXAMPLES=OFF", "-DSLUICE_FUZZ=OFF"]
    build = mutants.Build(arguments.folder, arguments.files, [], True, options)
    start = time.monotonic()
    if arguments.no_build:
        build.mutants = [mutants.Mutant(**m) for m in
                         json.loads((build.folder / "mutants.json").read_text())]
    else:
        shutil.rmtree(build.folder, ignore_errors=True)
        build.make(["mutant_replay"], arguments.build_jobs)
    print(f"{len(build.mutants)} mutants, built in {time.monotonic() - start:.0f} s", flush=True)

    program = str(build.build / "tests" / "mutant_replay")
    recordings = build.folder / "recordings"
    shutil.rmtree(recordings, ignore_errors=True)
    recordings.mkdir()

    def run(mode, mutant, limit, *more):
        code, output = build.run([program, mode, str(recordings), *more], mutant, limit)
        return code, output.replace(f"{recordings}/", "")

    code, output = run("record", 0, 60)
    if code != 0:
        raise SystemExit(output)
    recorded = parsed(output)
    cases = list(recorded)
    # A replay tells a cancelled step in other words than the run did.
    replayed = parsed(run("replay", 0, 60)[1])
    for name in cases:
        if by_rank(replayed[name]) != by_rank(recorded[name]):
            raise SystemExit(f"without a fault: {name} replays with other events")
    for mode, truth in (("replay", replayed), ("again", recorded)):
        clean = judge(truth, *run(mode, 0, 60), cases)
        if clean.kind != "same":
            raise SystemExit(f"without a fault: {clean}")
    code, alarms = run("clean", 0, 36000, str(arguments.clean))
    print(alarms, flush=True)

    def try_one(mutant):
        verdict = judge(replayed, *run("replay", mutant.id, arguments.limit), cases)
        if mutant.file not in DECIDES:
            return verdict
        if verdict.kind == "same":
            plan = verdict.plan
            verdict = judge(recorded, *run("again", mutant.id, arguments.limit), cases)
            verdict.by_diff, verdict.plan = True, plan
        return verdict

    chosen = [m for m in build.mutants if not arguments.only or m.id in arguments.only]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, verdict in zip(chosen, pool.map(try_one, chosen)):
            rows.append((mutant, verdict))
            wrong = "" if verdict.is_right() else "right: " + ",".join(sorted(verdict.right))
            print(f"{mutant.id:4} {mutant.place():45} {verdict.kind:7} {verdict.named:8} {wrong} "
                  f"{'' if verdict.near else 'elsewhere'} {verdict.case} {verdict.said}  {mutant.what}", flush=True)

    text = summary(rows, alarms.strip().splitlines()[-1])
    print(text)
    if arguments.report:
        write_report(arguments.report, rows, text)
    return 0


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "none"


def counted(rows):
    """How many are caught, and as what."""
    count = collections.Counter(verdict.kind for _, verdict in rows)
    changed = count["caught"] + count["silent"] + count["hang"]
    classes = collections.Counter(v.named for _, v in rows if v.kind == "caught")
    # Of what shows nowhere outside, such as a step whose end is told wrong, there is nothing to hold it to.
    held = [v for _, v in rows if v.kind == "caught" and v.right is not None
            and v.named not in ("signal", "error", "stuck", "stalled")]
    right = sum(v.is_right() for v in held)
    near = sum(v.near for v in held)
    return (f"{len(rows)} mutants: {count['same']} change nothing on these runs, {changed} change something.\n"
            f"Of those, {count['caught']} are caught ({share(count['caught'], changed)}), "
            f"{count['hang']} hang, {count['silent']} are silent.\n"
            f"Caught as: {', '.join(f'{name} {n}' for name, n in classes.most_common()) or 'nothing'}.\n"
            f"The class of a divergence is right for {right} of {len(held)} ({share(right, len(held))}), "
            f"the place for {near}.")


def summary(rows, alarms):
    decides = [r for r in rows if r[0].file in DECIDES]
    text = f"Without a fault: {alarms}.\n\n**Runtime and kernels.** " + \
        counted([r for r in rows if r[0].file not in DECIDES])
    if decides:
        again = sum(v.by_diff for _, v in decides)
        plans = sum(v.plan for _, v in decides)
        text += ("\n\n**The law and the policies,** which a replay does not ask. " + counted(decides) +
                 f"\n{again} of them were run again live and compared with the recording; of these, {plans} "
                 "derive another plan, which a replay tells before it runs anything. One that hangs does so "
                 "while the plan is derived.")
    return text


def write_report(path, rows, text):
    lines = ["# Faults planted in runtime and kernels, and what a replay says of each", "",
             "Made by `tests/replay_mutants.py --report`, which says how: one run on a build of its own.", "",
             text, "", "## Faults that change something", "", "| place | fault | verdict | class | where |",
             "|---|---|---|---|---|"]
    same = collections.defaultdict(list)
    for mutant, verdict in rows:
        if verdict.kind == "same":
            same[mutant.file].append(mutant.line)
            continue
        shown = verdict.named if verdict.is_right() or verdict.kind != "caught" else \
            f"{verdict.named}, not {' or '.join(sorted(verdict.right))}"
        kind = verdict.kind + (" by diff" if verdict.by_diff else "")
        lines.append(f"| {mutant.place()} | {mutant.what.replace('|', chr(92) + '|')} | {kind} | {shown} | "
                     f"{verdict.case}{'' if verdict.near else ', elsewhere'}{': ' + verdict.said if verdict.said else ''} |")
    lines += ["", "## Faults that change nothing on these runs", "",
              "Every event, hash, error, result and weight is as recorded. Lines, with how many faults if several:", ""]
    for file, places in same.items():
        times = collections.Counter(places)
        lines.append(f"- {file}: " + ", ".join(f"{line}" + (f" ({n})" if n > 1 else "")
                                              for line, n in sorted(times.items())))
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
