#!/usr/bin/env python3
"""The peer of log_bench: the ordering checks of a log, and nothing else, in Python.

    sluice plan ... --format log > run.log
    python3 log_peer.py run.log

Reads a text log line by line (fields in any order, seq ascending) and checks that F climbs the stages,
that B falls, and that every exit has its enter. Prints records a second of processor time.
"""
import sys
import time


def main(path):
    begun = time.process_time()
    entered, exited = set(), set()
    stages = records = wrong = 0
    with open(path, encoding="ascii") as log:
        for line in log:
            fields = dict(field.split("=", 1) for field in line.split())
            step = int(fields.get("step", 0))
            stage, mb, phase = int(fields["stage"]), int(fields["mb"]), fields["phase"]
            int(fields["seq"])
            key = (step, stage, phase, mb)
            records += 1
            stages = max(stages, stage + 1)
            if fields["event"] == "exit":
                wrong += key not in entered
                entered.discard(key)
                exited.add(key)
                continue
            wrong += key in entered or key in exited
            entered.add(key)
            if phase == "F":
                wrong += stage > 0 and (step, stage - 1, "F", mb) not in exited
            else:
                wrong += (step, stage, "F", mb) not in exited
                wrong += stage + 1 < stages and (step, stage + 1, "B", mb) not in exited
    seconds = time.process_time() - begun
    print(f"{records} records, {wrong} wrong, {records / seconds:.0f} records/s")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
