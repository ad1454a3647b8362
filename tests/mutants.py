#!/usr/bin/env python3
"""Plants many faults in one build, and reports which command notices each.

    tests/mutants.py --files lib/sluice/law.hpp lib/sluice/law.cpp \\
        --table tests/law_mutants.txt --targets plan_test law_property \\
        --run '{build}/tests/plan_test' --run '{build}/fuzz/law_property'

The sources are copied into a folder of their own and rewritten so that every fault is a choice at
run time: `a < b` becomes `sluice::mutants::lt(17, a, b)`, which is `a <= b` when the environment says
SLUICE_MUTANT=17. One build then holds all mutants; with SLUICE_MUTANT=0 it is the program as it was.

Faults come from two places. A table holds what a person thought of (see `read_table`). The operators
of mutant_source.py are planted wherever the text allows: comparisons, + - * /, && and ||, conditions forced true or
false, true and false, min and max, statements left out. What does not compile is dropped and said.
Needs nothing but Python's standard library, CMake and the compiler of the project.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from mutant_source import Mutant, Source, read_table

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Build:
    """The copied tree, its faults and its programs."""

    def __init__(self, folder, files, table, automatic=True, options=()):
        self.folder = pathlib.Path(folder).resolve()
        self.tree = self.folder / "tree"
        self.build = self.tree / "build" / "release"
        self.files, self.table = list(files), table
        self.automatic, self.options = automatic, list(options)
        self.mutants, self.dropped = [], set()

    def make(self, targets, jobs=2):
        self.copy_tree()
        for _ in range(8):
            self.rewrite()
            wrong = self.compile(targets, jobs)
            if not wrong:
                self.folder.joinpath("mutants.json").write_text(
                    json.dumps([dataclasses.asdict(m) for m in self.mutants], indent=1))
                return
            self.dropped |= wrong
            print(f"{len(wrong)} places do not compile when mutated and are dropped", file=sys.stderr)
        raise SystemExit("the mutated sources do not compile")

    def copy_tree(self):
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True)
        names = [n for n in listed.stdout.decode().split("\0") if n]
        if not names:
            raise SystemExit("mutants.py wants a git checkout: it copies what is not ignored")
        mutated = set(self.files)
        for name in names:
            source, target = ROOT / name, self.tree / name
            if not source.is_file() or name in mutated:
                continue
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        self.write("lib/sluice/mutants.hpp", (ROOT / "tests" / "mutants.hpp").read_text())

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)

    def rewrite(self, write=True):
        self.mutants, self.lines, first = [], {}, 1
        for name in self.files:
            source = Source(name, (ROOT / name).read_text())
            if self.automatic:
                source.plant_automatically()
            for entry in self.table:
                if entry["file"] == name:
                    source.plant(entry["before"], entry["after"], entry["what"])
            source.settle(self.dropped)
            text, first = source.rewrite(first, self.mutants)
            self.lines[name] = source
            if write:
                self.write(name, text)
        unknown = {e["file"] for e in self.table} - set(self.files)
        if unknown:
            raise SystemExit(f"the table names files that are not mutated: {', '.join(sorted(unknown))}")

    def compile(self, targets, jobs):
        """Builds. Returns the sites to drop; empty: built."""
        if not (self.build / "build.ninja").is_file():
            # As the project itself is built: what has no fault planted in it comes from the compiler cache.
            done = subprocess.run(["cmake", "--preset", "release", *self.options], cwd=self.tree,
                                  capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stdout + done.stderr)
        done = subprocess.run(["ninja", "-C", self.build, "-k", "0", f"-j{jobs}", *targets],
                              capture_output=True, text=True)
        if done.returncode == 0:
            return set()
        self.folder.joinpath("errors.log").write_text(done.stdout)
        wrong = set()
        tree = str(self.tree) + "/"
        for m in re.finditer(r"([^\s:]+):(\d+):\d+:[^\n]*(?:error|required from)", done.stdout):
            path = os.path.normpath(os.path.join(self.build, m.group(1)))
            name = path.removeprefix(tree)
            if path == name or name not in self.lines:
                continue
            source = self.lines[name]
            wrong |= self.sites_on(source, int(m.group(2)))
        if not wrong:
            raise SystemExit(done.stdout[-6000:] + done.stderr[-2000:])
        return wrong

    def sites_on(self, source, line):
        """The sites whose rewriting is on this line of the rewritten file, which has one line more."""
        line -= 1
        there = [s for s in source.sites if not s.kind.startswith("table")
                 and source.line_of(s.start) <= line <= source.line_of(s.end)]
        # What stands on a line may be right: first without the expressions, then without statements.
        chosen = [s for s in there if s.kind != "statement"] or there
        return {(source.name, s.start, s.kind) for s in chosen}

    def run(self, command, mutant, limit):
        """(exit code or None when the time was up, output) of a command under one mutant."""
        environment = dict(os.environ, SLUICE_MUTANT=str(mutant))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=environment, start_new_session=True,
                                   shell=isinstance(command, str), cwd=self.build)
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output


FAILED = re.compile(r"^\[  FAILED  \] (\w+\.\w+)", re.M)


def who_kills(build, mutant, commands, limit, first_only):
    """[(program, [tests])] of the commands that notice a mutant."""
    found = []
    for command in commands:
        code, output = build.run(command, mutant.id, limit)
        if code == 0:
            continue
        how = "no end within the time limit" if code is None else \
              f"signal {-code}" if code < 0 else f"exit code {code}"
        tests = sorted(set(FAILED.findall(output))) or [how]
        found.append((pathlib.Path(command.split()[0]).name, tests))
        if first_only:
            break
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", nargs="+", help="sources to plant faults in; without: those of the table")
    parser.add_argument("--table", help="faults that a person thought of")
    parser.add_argument("--only-table", action="store_true", help="no automatic faults")
    parser.add_argument("--targets", nargs="+", help="what to build")
    parser.add_argument("--run", action="append", metavar="COMMAND",
                        help="notices a fault by its exit code; {build} is the build's folder; repeatable")
    parser.add_argument("--all", action="store_true", help="run every command, not only up to the first kill")
    parser.add_argument("--folder", default=ROOT / "build" / "mutants", help="where to build")
    parser.add_argument("--option", action="append", default=[], help="for CMake, like -DSLUICE_TOOLS=OFF")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a command may take")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--only", nargs="+", type=int, help="only these mutants, by number")
    parser.add_argument("--report", help="write the list of mutants and who kills each, as Markdown")
    parser.add_argument("--list", action="store_true", help="print the mutants, build nothing")
    arguments = parser.parse_args()

    table = read_table(arguments.table) if arguments.table else []
    files = arguments.files or sorted({entry["file"] for entry in table})
    if not files:
        parser.error("give --files, or a --table that names some")
    build = Build(arguments.folder, files, table, not arguments.only_table, arguments.option)
    if arguments.list:
        build.rewrite(write=False)
        for mutant in build.mutants:
            print(mutant.id, mutant.place(), mutant.what, mutant.planted)
        return 0
    if not arguments.targets or not arguments.run:
        parser.error("give --targets and --run, or --list")
    build.make(arguments.targets)
    commands = [c.replace("{build}", str(build.build)) for c in arguments.run]
    for command in commands:
        code, output = build.run(command, 0, 10 * arguments.limit)
        if code != 0:
            raise SystemExit(f"fails without any fault:\n{command}\n{output[-4000:]}")

    chosen = [m for m in build.mutants if not arguments.only or m.id in arguments.only]
    rows, alive, start = [], 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        verdicts = pool.map(lambda m: who_kills(build, m, commands, arguments.limit, not arguments.all), chosen)
        for mutant, killers in zip(chosen, verdicts):
            alive += not killers
            by = "; ".join(f"{program}: {', '.join(tests[:4])}" for program, tests in killers) or "**alive**"
            rows.append((mutant, by))
            print(f"{mutant.id:4} {mutant.place():40} {mutant.what}  ->  {by}", flush=True)
    print(f"{len(rows)} mutants, {len(rows) - alive} killed, {alive} alive, "
          f"{time.monotonic() - start:.0f} s; {len(build.dropped)} places not mutated: they would not compile")
    if arguments.report:
        lines = ["| no. | place | fault | noticed by |", "|---|---|---|---|"]
        for mutant, by in rows:
            what = (f"{mutant.planted}: " if mutant.planted else "") + mutant.what
            lines.append(f"| {mutant.id} | {mutant.place()} | {what.replace('|', chr(92) + '|')} | {by} |")
        pathlib.Path(arguments.report).write_text("\n".join(lines) + "\n")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
