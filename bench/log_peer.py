#!/usr/bin/env python3
"""The peer of log_bench: the ordering checks of a log, and nothing else, in Python.

    log_stream 100000000 > run.log
    python3 log_peer.py run.log

Reads a text log line by line (fields in any order, seq ascending) and checks that F climbs the stages,
that B falls, and that every exit has its enter. Prints records a second of processor time.
"""
import sys
import time


def check(log):
    """Records, and how many of them come where they must not."""
    entered, exited = set(), set()
    enter, leave, done = entered.add, entered.discard, exited.add
    stages = records = wrong = 0
    for line in log:
        fields = dict([field.split("=", 1) for field in line.split()])
        stage, mb, phase, step = int(fields["stage"]), int(fields["mb"]), fields["phase"], fields.get("step")
        int(fields["seq"])
        key = (step, stage, phase, mb)
        records += 1
        if stage >= stages:
            stages = stage + 1
        if fields["event"] == "exit":
            if key not in entered:
                wrong += 1
            leave(key)
            done(key)
            continue
        if key in entered or key in exited:
            wrong += 1
        enter(key)
        if phase == "F":
            if stage > 0 and (step, stage - 1, "F", mb) not in exited:
                wrong += 1
        elif (step, stage, "F", mb) not in exited:
            wrong += 1
        elif stage + 1 < stages and (step, stage + 1, "B", mb) not in exited:
            wrong += 1
    return records, wrong


def measure(log):
    """Records, wrong ones, and records a second."""
    begun = time.process_time()
    records, wrong = check(log)
    return records, wrong, records / (time.process_time() - begun)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="ascii") as lines:
        print("{} records, {} wrong, {:.0f} records/s".format(*measure(lines)))
