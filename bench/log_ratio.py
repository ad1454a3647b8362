#!/usr/bin/env python3
"""The judge of logs beside a Python reader that only checks order, in one run: log_ratio.py BENCH STREAM

BENCH is log_bench and STREAM log_stream. The two take turns, the best of three counts on either side.
Prints records a second of processor time of both and the ratio. Exits 1 when it is below 50.
"""

import json
import subprocess
import sys

import log_peer

WANTED = 50
BYTES = 50_000_000


def judged(bench, name):
    """Records a second."""
    run = subprocess.run([bench, "--benchmark_filter=^" + name + "$", "--benchmark_format=json"],
                         check=True, capture_output=True, text=True)
    return json.loads(run.stdout)["benchmarks"][0]["items_per_second"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    bench, stream = sys.argv[1:]
    text = subprocess.run([stream, str(BYTES)], check=True, capture_output=True, text=True).stdout
    ours, theirs = {"CheckAgainstAPlan": 0, "CheckAgainstItself": 0}, 0
    for _ in range(3):
        records, wrong, speed = log_peer.measure(text.splitlines())
        if records == 0 or wrong > 0:
            sys.exit(f"the peer finds {wrong} of {records} records wrong, expected none")
        theirs = max(theirs, speed)
        for name in ours:
            ours[name] = max(ours[name], judged(bench, name))
    print(f"{'log_peer':<20}{theirs / 1e6:8.3f} million records/s")
    for name, speed in ours.items():
        print(f"{name:<20}{speed / 1e6:8.3f} million records/s, {speed / theirs:.1f} times the peer")
    return 0 if min(ours.values()) >= WANTED * theirs else 1


if __name__ == "__main__":
    sys.exit(main())
