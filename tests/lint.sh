#!/usr/bin/env bash
# Rules that no compiler checks. Prints file:line of each violation; exits 1 if there is any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

found=0

# sources DIR...: the C++ files below the folders that exist.
sources() {
  local dir
  for dir in "$@"; do
    [[ -d $dir ]] && find "$dir" -name '*.[ch]pp'
  done | sort
}

# forbid RULE PATTERN FILE...
forbid() {
  local rule=$1 pattern=$2 hits
  shift 2
  [[ $# -gt 0 ]] || return 0
  if hits=$(grep -nHE -- "$pattern" "$@"); then
    printf '%s:\n%s\n' "$rule" "$hits"
    found=1
  fi
}

# g++ 12 destroys some temporaries of a co_await expression twice, without a warning. So such an
# expression holds only names, moves, scalars and real constructor calls: no aggregate or lambda in
# braces or brackets, no conditional operator. The expression ends at its ';' or where a block
# opens; strings and comments do not count. An element access `a[i]` is harmless but is asked to be
# named as well: the rule stays simple.
co_await_traps() {
  awk '
    function report() { print file ":" line ": " text; bad = 1 }
    # Removes strings, character literals and comments from the current line.
    function code(s) {
      gsub(/\\./, "", s)
      gsub(/"[^"]*"/, "\"\"", s)
      gsub(/\047[^\047]?\047/, "0", s)
      while (in_comment || match(s, /\/\*/)) {
        if (!in_comment) {
          head = substr(s, 1, RSTART - 1); s = substr(s, RSTART + 2)
        } else head = ""
        if (match(s, /\*\//)) { s = head " " substr(s, RSTART + 2); in_comment = 0 }
        else { in_comment = 1; return head }
      }
      sub(/\/\/.*/, "", s)
      return s
    }
    FNR == 1 { in_comment = 0; open = 0 }
    {
      s = code($0)
      while (1) {
        if (!open) {
          sub(/operator +co_await/, "operator", s)
          if (!match(s, /(^|[^A-Za-z0-9_])co_await([^A-Za-z0-9_]|$)/)) break
          s = substr(s, RSTART + RLENGTH - 1)
          open = 1; depth = 0; trap = 0; file = FILENAME; line = FNR; text = $0
        }
        ended = 0
        for (i = 1; i <= length(s); ++i) {
          c = substr(s, i, 1)
          if (c == "(") ++depth
          else if (c == ")") {
            # Closing more than was opened: the end of `if (co_await x)` or of an argument.
            if (--depth < 0) ended = 1
          } else if (c == ";" || (c == "," && depth == 0)) ended = 1
          else if (c == "{" || c == "[" || c == "?") trap = 1
          if (trap || ended) break
        }
        if (trap) { report(); ended = 1 }
        if (!ended) break
        open = 0
        s = substr(s, i + 1)
      }
    }
    END { exit bad }
  ' "$@"
}

mapfile -t all < <(sources lib kernels replay fuzz tests tools bench examples)
mapfile -t core < <(sources lib)
mapfile -t kernels < <(sources kernels)
mapfile -t replay < <(sources replay)

if [[ ${#all[@]} -gt 0 ]] && ! hits=$(co_await_traps "${all[@]}"); then
  printf 'a co_await expression with {, [ or ? in it; name the operand first:\n%s\n' "$hits"
  found=1
fi

# Arrows between the parts go one way.
include='^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]'
forbid 'lib/ knows nothing of oneDNN, of recordings or of the parts above it' \
  "$include(dnnl|oneapi/dnnl|sluice/(kernels|replay|fuzz)/)" "${core[@]}"
forbid 'kernels/ includes nothing of replay/ or fuzz/' "${include}sluice/(replay|fuzz)/" "${kernels[@]}"
forbid 'replay/ includes nothing of kernels/, fuzz/ or oneDNN' \
  "$include(dnnl|oneapi/dnnl|sluice/(kernels|fuzz)/)" "${replay[@]}"
forbid 'kernels/ uses no Asio and starts no threads' \
  "${include}asio|std::(thread|jthread|async)[^:A-Za-z0-9_]" "${kernels[@]}"

# A lock held across a suspension would be released on another thread, and block threads meanwhile. So
# in the core a file suspends or locks, never both.
for file in "${core[@]}"; do
  if grep -q 'co_await' "$file" && hits=$(grep -nE 'std::(scoped_lock|unique_lock|lock_guard)' "$file"); then
    printf 'a lock in a file that suspends:\n%s:%s\n' "$file" "$hits"
    found=1
  fi
done

# A path of one machine means nothing on another. Files of the build and of other parts of a
# checkout are not ours, so only tracked files count where git is there to say.
if git rev-parse --git-dir >/dev/null 2>&1; then
  mapfile -t tracked < <(git ls-files)
else
  mapfile -t tracked < <(find . -path ./build -prune -o -type f -print)
fi
present=()
for file in "${tracked[@]}"; do
  [[ -f $file && $file != *tests/lint.sh ]] && present+=("$file")
done
forbid 'a path of one machine' '(^|[^A-Za-z0-9_.-])/(work|home|root|Users)/[A-Za-z0-9]' "${present[@]}"

# Every test that the table of non-determinism names exists.
# shellcheck disable=SC2016  # backquotes of the page, not of the shell
while IFS=. read -r suite name; do
  if ! grep -rqE "(TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(${suite}, *${name}[,)]" tests fuzz; then
    printf 'docs/non-determinism.md names a test that is not there: %s.%s\n' "$suite" "$name"
    found=1
  fi
done < <(grep -oE '`[A-Za-z]+\.[A-Z][A-Za-z0-9]+`' docs/non-determinism.md | tr -d '`')

# The program in docs/replay.md is part of the test that runs it.
if ! diff -u <(awk '/^<!-- replay_own_program_test.cpp -->$/ { shown = 1; next }
                    shown && /^```$/ { exit }
                    shown && !/^```cpp$/' docs/replay.md) \
    <(awk '/^replay::Verdict replay_night/ { shown = 1 } shown { print }
           shown && /^}$/ { exit }' tests/replay_own_program_test.cpp); then
  printf 'the program in docs/replay.md is not the one in tests/replay_own_program_test.cpp\n'
  found=1
fi

# Every key that is read is in docs/configuration.md, and nothing else stands in its tables.
if ! diff -u <(cat tools/config.cpp tools/config_batch.cpp tools/config_record.cpp | tr -d '\n' |
  grep -oE '(section\.(whole|wholes|whole_or_wholes|text|flag|times?)\(|number_in\(section,) *"[a-z_]+"' |
  grep -oE '"[a-z_]+"' | tr -d '"' | sort -u) \
  <(awk -F'|' '/^\| `/ { print $2 }' docs/configuration.md | grep -oE '[a-z_]+' | sort -u); then
  printf 'docs/configuration.md (+) and the keys that are read (-) differ\n'
  found=1
fi

# The README's program is the example, so that what it shows is what is built.
if ! diff -u <(awk '/^<!-- embed.cpp -->$/ { shown = 1; next }
                    shown && /^```$/ { exit }
                    shown && !/^```cpp$/' README.md) examples/embed.cpp; then
  printf 'the program in README.md is not examples/embed.cpp\n'
  found=1
fi

# And its other C++ lines stand in a program that the tests build against an installed sluice.
while IFS= read -r line; do
  if ! grep -qF -- "$line" tests/embedder/record_replay.cpp; then
    printf 'README.md shows a line that tests/embedder/record_replay.cpp lacks:\n%s\n' "$line"
    found=1
  fi
done < <(awk '/directors that any pipeline takes/ { shown = 1; next } /^A recording/ { shown = 0 }
              shown && /^    / { sub(/^ +/, ""); print }' README.md)

exit "$found"
