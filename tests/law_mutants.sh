#!/usr/bin/env bash
# Plants every fault of law_mutants.txt, one at a time, and writes which property notices it to
# law_mutants.md. Not part of the test run: it builds a copy of core, replay and the suites, and takes some
# ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RC_PARAMS="max_success=${CASES-1000} seed=1"
mapfile -t files < <(sed -n 's/^file: //p' tests/law_mutants.txt | sort -u)
suites=(law schedule formula policy stuck pipeline replay)
runs=()
for suite in "${suites[@]}"; do runs+=("--run={build}/fuzz/${suite}_property"); done
exec tests/mutants.py --folder build/law_mutants --files "${files[@]}" \
  --table tests/law_mutants.txt --only-table \
  --option=-DSLUICE_KERNELS=OFF --option=-DSLUICE_TOOLS=OFF --option=-DSLUICE_BENCH=OFF \
  --option=-DSLUICE_EXAMPLES=OFF --targets "${suites[@]/%/_property}" \
  "${runs[@]}" --report tests/law_mutants.md "$@"
