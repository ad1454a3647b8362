#!/usr/bin/env python3
"""Plants many faults in one build, and reports which command notices each.

    tests/mutants.py --files lib/sluice/law.hpp lib/sluice/law.cpp \\
        --table tests/law_mutants.txt --targets law_test law_property \\
        --run '{build}/tests/law_test' --run '{build}/fuzz/law_property'

The sources are copied into a folder of their own and rewritten so that every fault is a choice at
run time: `a < b` becomes `sluice::mutants::lt(17, a, b)`, which is `a <= b` when the environment says
SLUICE_MUTANT=17. One build then holds all mutants; with SLUICE_MUTANT=0 it is the program as it was.

Faults come from two places. A table holds what a person thought of (see `read_table`). The operators
below are planted wherever the text allows: comparisons, + - * /, && and ||, conditions forced true or
false, true and false, min and max, statements left out. What does not compile is dropped and said.
Needs nothing but Python's standard library, CMake and the compiler of the project.
"""

import argparse
import bisect
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

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEADER = r"""// Which fault is planted in this run. Made by tests/mutants.py.
#pragma once

#include <cstdlib>
#include <type_traits>

namespace sluice::mutants {

inline const int planted = [] {
  const char* asked = std::getenv("SLUICE_MUTANT");
  return asked == nullptr ? 0 : std::atoi(asked);
}();

constexpr bool on(int mutant) { return !std::is_constant_evaluated() && planted == mutant; }
constexpr bool forced(int mutant, bool found) {
  return on(mutant) ? true : on(mutant + 1) ? false : found;
}

#define SLUICE_MUTANTS_BINARY(name, op, first, second)                    \
  template <class L, class R>                                             \
  constexpr auto name(int mutant, L&& left, R&& right) {                  \
    if constexpr (requires { left first right; }) {                       \
      if (on(mutant)) return static_cast<decltype(left op right)>(left first right);     \
    }                                                                     \
    if constexpr (requires { left second right; }) {                      \
      if (on(mutant + 1)) return static_cast<decltype(left op right)>(left second right); \
    }                                                                     \
    return left op right;                                                 \
  }
SLUICE_MUTANTS_BINARY(lt, <, <=, >=)
SLUICE_MUTANTS_BINARY(le, <=, <, >)
SLUICE_MUTANTS_BINARY(gt, >, >=, <=)
SLUICE_MUTANTS_BINARY(ge, >=, >, <)
#undef SLUICE_MUTANTS_BINARY

#define SLUICE_MUTANTS_BINARY(name, op, first)                            \
  template <class L, class R>                                             \
  constexpr auto name(int mutant, L&& left, R&& right) {                  \
    if constexpr (requires { left first right; }) {                       \
      if (on(mutant)) return static_cast<decltype(left op right)>(left first right); \
    }                                                                     \
    return left op right;                                                 \
  }
SLUICE_MUTANTS_BINARY(eq, ==, !=)
SLUICE_MUTANTS_BINARY(ne, !=, ==)
SLUICE_MUTANTS_BINARY(add, +, -)
SLUICE_MUTANTS_BINARY(sub, -, +)
SLUICE_MUTANTS_BINARY(mul, *, +)
SLUICE_MUTANTS_BINARY(div, /, *)
#undef SLUICE_MUTANTS_BINARY

template <class T>
constexpr T largest(int mutant, const T& a, const T& b) {
  return (a < b) != on(mutant) ? b : a;
}
template <class T>
constexpr T least(int mutant, const T& a, const T& b) {
  return (b < a) != on(mutant) ? b : a;
}

}  // namespace sluice::mutants
"""

BINARY = {  # operator: precedence, function, what its mutants make of it
    "*": (10, "mul", ["+"]), "/": (10, "div", ["*"]), "%": (10, None, []),
    "+": (9, "add", ["-"]), "-": (9, "sub", ["+"]),
    "<<": (8, None, []), ">>": (8, None, []), "<=>": (7, None, []),
    "<": (6, "lt", ["<=", ">="]), "<=": (6, "le", ["<", ">"]),
    ">": (6, "gt", [">=", "<="]), ">=": (6, "ge", [">", "<"]),
    "==": (5, "eq", ["!="]), "!=": (5, "ne", ["=="]),
    "&": (4, None, []), "^": (3, None, []), "|": (2, None, []),
    "&&": (1, "&&", []), "||": (0, "||", []),
}
OPERATOR = re.compile(r"(?<=\s)(<=>|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|])(?=\s)")
# Where an operand ends, besides brackets and weaker operators.
STOP = re.compile(r"(?<=\s)(=|[-+*/%&|^]=|<<=|>>=|\?|:)(?=\s)|[;,{]|\b(return|co_return|co_yield|co_await|throw|case|else)\b")
PAIRS = {")": "(", "]": "[", "}": "{"}
OPENS = {v: k for k, v in PAIRS.items()}


@dataclasses.dataclass
class Mutant:
    id: int
    file: str
    line: int
    what: str
    planted: str = ""  # from the table: why a person thought of it

    def place(self):
        return f"{self.file}:{self.line}"


@dataclasses.dataclass
class Site:
    """A stretch of a file that one rewriting replaces."""
    start: int
    end: int
    kind: str
    parts: list  # (start, end) of what is kept inside, and rewritten in turn
    labels: list  # what each mutant of it makes
    planted: list = dataclasses.field(default_factory=list)
    extra: list = dataclasses.field(default_factory=list)


def blank(text):
    """The same text, of the same length, without comments, strings, characters and directives."""
    out = list(text)
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
                       r'|^[ \t]*#[^\n]*', re.S | re.M)
    for found in token.finditer(text):
        if found.group().startswith("'") and found.start() and text[found.start() - 1].isalnum():
            continue  # a digit separator
        for i in range(found.start(), found.end()):
            if out[i] != "\n":
                out[i] = " " if found.group()[0] in "/#" or found.group().lstrip()[:1] == "#" else "_"
    return "".join(out)


class Source:
    def __init__(self, name, text):
        self.name, self.text, self.mask = name, text, blank(text)
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.sites = []
        self.excluded = self.find_excluded()

    def line_of(self, offset):
        return bisect.bisect_right(self.starts, offset)

    def find_excluded(self):
        """Text that is not run: declarations of templates, concepts, assertions of the compiler."""
        spans = []
        for m in re.finditer(r"\b(template\s*<|static_assert\s*\(|requires\b|concept\b|using\b|"
                             r"case\b|enum\b|(?:inline )?constexpr\s+[\w:<>, ]+\s+\w+\s*(?:=|\{))",
                             self.mask):
            end = re.compile(r"[;{]|:(?!:)|(?<=>)\s*\n").search(self.mask, m.end())
            spans.append((m.start(), end.end() if end else m.end()))
        return spans

    def runs(self, start, end):
        return not any(a < end and start < b for a, b in self.excluded)

    def close(self, opening):
        """Offset of the bracket that closes the one at `opening`; -1 without one."""
        depth = 0
        for i in range(opening, len(self.mask)):
            if self.mask[i] in OPENS:
                depth += 1
            elif self.mask[i] in PAIRS:
                depth -= 1
                if depth == 0:
                    return i
        return -1

    def operand_left(self, at, precedence):
        """Start of the left operand of a binary operator at `at`."""
        tokens = list(OPERATOR.finditer(self.mask, max(0, at - 2000), at))
        stops = list(STOP.finditer(self.mask, max(0, at - 2000), at))
        ends = {m.end() - 1: ("op", m) for m in tokens} | {m.end() - 1: ("stop", m) for m in stops}
        i, depth, angle = at - 1, 0, 0
        while i >= 0:
            c = self.mask[i]
            if c in PAIRS:
                if c == "}" and depth == 0:
                    return i + 1
                depth += 1
            elif c in OPENS:
                if depth == 0:
                    return i + 1
                depth -= 1
            elif depth == 0:
                if c == ">" and self.mask[i - 1] not in " -<>=" and i not in ends:
                    angle += 1
                elif c == "<" and angle and self.mask[i - 1] not in " <":
                    angle -= 1
                elif angle == 0 and i in ends:
                    kind, m = ends[i]
                    if kind == "stop" or BINARY[m.group()][0] < precedence:
                        return m.end()
            i -= 1
        return 0

    def operand_right(self, at, precedence):
        i, depth, angle = at, 0, 0
        while i < len(self.mask):
            c = self.mask[i]
            if c == "{" and depth == 0 and not re.match(r"[\w>)\]]", self.mask[i - 1]):
                return i
            if c in OPENS:
                depth += 1
            elif c in PAIRS:
                if depth == 0:
                    return i
                depth -= 1
            elif depth == 0:
                if c == "<" and self.mask[i - 1] not in " <" and self.mask[i + 1] not in " =<":
                    angle += 1
                elif c == ">" and angle and self.mask[i - 1] != "-":
                    angle -= 1
                elif angle == 0:
                    stop = STOP.match(self.mask, i)
                    if stop and stop.group() != "{":
                        return i
                    operator = OPERATOR.match(self.mask, i)
                    if operator:
                        if BINARY[operator.group()][0] <= precedence:
                            return i
                        i = operator.end()
                        continue
            i += 1
        return i

    # --- what can be planted ---

    def trimmed(self, start, end):
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return start, end

    def snippet(self, start, end):
        return re.sub(r"\s+", " ", self.text[start:end]).strip()

    def find_operators(self):
        for m in OPERATOR.finditer(self.mask):
            precedence, function, others = BINARY[m.group()]
            if function is None:
                continue
            left = self.trimmed(self.operand_left(m.start(), precedence), m.start())
            right = self.trimmed(m.end(), self.operand_right(m.end(), precedence))
            if left[0] >= left[1] or right[0] >= right[1] or not self.runs(left[0], right[1]):
                continue
            head = self.mask[left[0]:left[1]]
            if '"' in self.text[left[0]:right[1]] and function == "add":
                continue  # joins texts
            if re.match(r"(const|auto|else|operator)\b", head) or head.endswith("operator"):
                continue
            whole = self.snippet(left[0], right[1])
            if function in ("&&", "||"):
                labels = [f"`{whole}` without `{self.snippet(*left)}`",
                          f"`{whole}` without `{self.snippet(*right)}`"]
            else:
                labels = [f"`{whole}` with `{o}`" for o in others]
            self.sites.append(Site(left[0], right[1], function, [left, right], labels))

    def find_conditions(self):
        for m in re.finditer(r"\b(if|while)\s*\(", self.mask):
            close = self.close(m.end() - 1)
            inner = self.trimmed(m.end(), close)
            text = self.mask[inner[0]:inner[1]]
            declares = re.match(r"(const\b|auto\b|[\w:<>*&]+\s+[\w*&]+\s*=)", text) or ";" in text
            if declares or "co_await" in text or not self.runs(*inner):
                continue
            whole = self.snippet(*inner)
            self.sites.append(Site(*inner, "condition", [inner],
                                   [f"{m.group(1)} (`{whole}`) always true",
                                    f"{m.group(1)} (`{whole}`) never true"]))

    def find_words(self):
        for m in re.finditer(r"\b(true|false)\b", self.mask):
            if not self.runs(*m.span()) or re.search(r"(noexcept|explicit)\s*\($", self.mask[:m.start()]):
                continue
            other = "false" if m.group() == "true" else "true"
            self.sites.append(Site(*m.span(), m.group(), [],
                                   [f"`{self.statement_at(m.start())}` with {other}"]))
        for m in re.finditer(r"\bstd::(max|min)\(", self.mask):
            close = self.close(m.end() - 1)
            arguments = self.arguments(m.end(), close)
            if len(arguments) != 2 or not self.runs(m.start(), close):
                continue
            other = "min" if m.group(1) == "max" else "max"
            self.sites.append(Site(m.start(), close + 1, m.group(1), arguments,
                                   [f"`{self.snippet(m.start(), close + 1)}` with {other}"]))

    def arguments(self, start, end):
        found, depth, begin = [], 0, start
        for i in range(start, end):
            depth += self.mask[i] in OPENS
            depth -= self.mask[i] in PAIRS
            if self.mask[i] == "," and depth == 0:
                found.append(self.trimmed(begin, i))
                begin = i + 1
        return found + [self.trimmed(begin, end)]

    def statement_at(self, offset):
        line = self.line_of(offset)
        return self.text[self.starts[line - 1]:].split("\n", 1)[0].strip()

    def find_statements(self):
        pattern = re.compile(r"^[ \t]*((?:\+\+|--|\*|co_await )?[\w.:\[\]]+(?:->[\w.]+)*"
                             r"(?:\(|\+\+;|--;|\s(?:[-+*/|&]?=)\s))", re.M)
        for m in pattern.finditer(self.mask):
            start = m.start(1)
            before = self.mask[:start].rstrip()
            if not before or before[-1] not in ";{}" or re.match(r"(return|if|for|while|switch|case|throw"
                    r"|static_assert|catch|co_return|using|delete|goto|do)\b", m.group(1)):
                continue
            if self.scope_of(start) != "code":
                continue
            end, depth = start, 0
            while end < len(self.mask) and not (self.mask[end] == ";" and depth == 0):
                depth += self.mask[end] in OPENS
                depth -= self.mask[end] in PAIRS
                end += 1
                if depth < 0:
                    break
            if end >= len(self.mask) or self.mask[end] != ";" or not self.runs(start, end):
                continue
            whole = self.snippet(start, end)
            if len(whole) > 160 or ".reserve(" in whole:  # which changes time alone
                continue
            self.sites.append(Site(start, end + 1, "statement", [(start, end + 1)],
                                   [f"`{whole};` left out"]))

    def scope_of(self, offset):
        """`code` inside a function's body, else `declarations`."""
        depth = 0
        for i in range(offset - 1, -1, -1):
            if self.mask[i] == "}":
                depth += 1
            elif self.mask[i] == "{":
                if depth:
                    depth -= 1
                    continue
                head = self.mask[max(0, i - 600):i]
                head = re.split(r"[;{}]", head)[-1]
                return "declarations" if re.search(r"\b(namespace|class|struct|enum|union)\b", head) \
                    and "(" not in head else "code"
        return "declarations"

    def plant_automatically(self):
        self.find_operators()
        self.find_conditions()
        self.find_words()
        self.find_statements()

    def plant(self, before, after, what):
        count = self.text.count(before)
        if count != 1:
            raise SystemExit(f"{self.name}: the table's text is there {count} times, expected once:\n"
                             f"  {before}")
        start = self.text.index(before)
        end = start + len(before)
        label = f"`{self.snippet(start, end)}` becomes `{re.sub(chr(10), ' ', after)}`"
        for site in self.sites:
            if site.kind.startswith("table") and site.start < end and start < site.end:
                if (site.start, site.end) != (start, end):
                    raise SystemExit(f"{self.name}: two entries of the table overlap:\n  {before}")
                site.labels.append(label)
                site.planted.append(what)
                site.extra.append(after)
                return
        kind = "table statement" if before.rstrip().endswith((";", "}")) else "table expression"
        self.sites.append(Site(start, end, kind, [], [label], [what], [after]))

    # --- rewriting ---

    def settle(self, dropped):
        """Leaves out what overlaps the table, what overlaps without nesting, and what is dropped."""
        table = [s for s in self.sites if s.kind.startswith("table")]
        kept = list(table)
        for site in sorted((s for s in self.sites if not s.kind.startswith("table")),
                           key=lambda s: (s.start, -s.end)):
            crosses = any(s.start < site.end and site.start < s.end for s in table)
            for other in kept:
                nested = (other.start <= site.start and site.end <= other.end) or \
                         (site.start <= other.start and other.end <= site.end)
                if other.start < site.end and site.start < other.end and not nested:
                    crosses = True
            if not crosses and (self.name, site.start, site.kind) not in dropped:
                kept.append(site)
        # The outer one first; of two with the same text the condition is outside.
        rank = {"statement": 0, "condition": 1}
        self.sites = sorted(kept, key=lambda s: (s.start, -s.end, rank.get(s.kind, 2)))

    def rewrite(self, first, mutants):
        """The text with every site in it; appends to `mutants`, numbered from `first`."""
        ids = {}
        for site in self.sites:
            ids[id(site)] = first
            for i, label in enumerate(site.labels):
                planted = site.planted[i] if site.planted else ""
                mutants.append(Mutant(first + i, self.name, self.line_of(site.start), label, planted))
            first += len(site.labels)

        def emit(start, end, sites):
            out, at = [], start
            while sites:
                site = sites[0]
                inside = [s for s in sites[1:] if s.start < site.end]
                sites = [s for s in sites[1:] if s.start >= site.end]
                out.append(self.text[at:site.start])
                out.append(replace(site, inside))
                at = site.end
            return "".join(out) + self.text[at:end]

        def replace(site, inside):
            n = ids[id(site)]
            part = [emit(a, b, [s for s in inside if a <= s.start and s.end <= b]) for a, b in site.parts]
            on = "sluice::mutants::on"
            if site.kind == "&&":
                return (f"(({on}({n}) || static_cast<bool>({part[0]})) && "
                        f"({on}({n + 1}) || static_cast<bool>({part[1]})))")
            if site.kind == "||":
                return (f"((!{on}({n}) && static_cast<bool>({part[0]})) || "
                        f"(!{on}({n + 1}) && static_cast<bool>({part[1]})))")
            if site.kind == "condition":
                return f"sluice::mutants::forced({n}, static_cast<bool>({part[0]}))"
            if site.kind in ("true", "false"):
                return f"({on}({n}) != {site.kind})"
            if site.kind == "max":
                return f"sluice::mutants::largest({n}, {part[0]}, {part[1]})"
            if site.kind == "min":
                return f"sluice::mutants::least({n}, {part[0]}, {part[1]})"
            if site.kind == "statement":
                return f"if (!{on}({n})) {part[0]}"
            if site.kind == "table expression":
                text = f"({self.text[site.start:site.end]})"
                for i, after in enumerate(site.extra):
                    text = f"({on}({n + i}) ? ({after}) : {text})"
                return text
            if site.kind == "table statement":
                text = "{ " + self.text[site.start:site.end] + " }"
                for i, after in enumerate(site.extra):
                    text = f"if ({on}({n + i})) {{ {after} }} else {text}"
                return text
            return f"sluice::mutants::{site.kind}({n}, {part[0]}, {part[1]})"

        body = emit(0, len(self.text), list(self.sites))
        include = "#include <sluice/mutants.hpp>\n"
        body = body.replace("#pragma once\n", "#pragma once\n" + include, 1) \
            if "#pragma once\n" in body else include + body
        return body, first


def read_table(path):
    """Entries are separated by empty lines; `#` begins a comment. An entry:

        file: lib/sluice/law.hpp
        what: the gate is tested on every turn
        before: open_ = open_ || held_ >= gate_;
        after: open_ = held_ >= gate_;

    Lines that begin with white space continue the one above. `before` is there once in the file; it is
    an expression, or, when it ends with a semicolon or a brace, statements. An empty `after` leaves
    statements out.
    """
    entries, entry, key = [], {}, None
    for line in pathlib.Path(path).read_text().splitlines() + [""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if entry:
                missing = {"file", "what", "before", "after"} - entry.keys()
                if missing:
                    raise SystemExit(f"{path}: an entry lacks {', '.join(sorted(missing))}: {entry}")
                entries.append(entry)
            entry, key = {}, None
        elif line[0].isspace():
            entry[key] += "\n" + line
        else:
            key, _, value = line.partition(":")
            entry[key] = value.strip()
    return entries


class Build:
    """The copied tree, its faults and its programs."""

    def __init__(self, folder, files, table, automatic=True, options=()):
        self.folder = pathlib.Path(folder).resolve()
        self.tree, self.build = self.folder / "tree", self.folder / "build"
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
        self.write("lib/sluice/mutants.hpp", HEADER)

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
            # -g0 -O1: quick to build; still the code that is tested.
            done = subprocess.run(
                ["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DSLUICE_WERROR=OFF", *self.options],
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
    parser.add_argument("--files", nargs="+", required=True, help="sources to plant faults in")
    parser.add_argument("--table", help="faults that a person thought of")
    parser.add_argument("--only-table", action="store_true", help="no automatic faults")
    parser.add_argument("--targets", nargs="+", required=True, help="what to build")
    parser.add_argument("--run", action="append", required=True, metavar="COMMAND",
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
    build = Build(arguments.folder, arguments.files, table, not arguments.only_table, arguments.option)
    if arguments.list:
        build.rewrite(write=False)
        for mutant in build.mutants:
            print(mutant.id, mutant.place(), mutant.what, mutant.planted)
        return 0
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
