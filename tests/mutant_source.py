"""One file's faults: where they can be planted, and the text in which each is a choice at run time.

Used by mutants.py. Works on text, and leans on clang-format: a binary operator stands between blanks, a
template's bracket does not.
"""

import bisect
import dataclasses
import pathlib
import re

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
