#!/usr/bin/env python3
"""A schedule idea in twenty lines: a gradient that is there goes on at once.

    sluice plan -S 4 -M 8 --backward 2 --policy 'python3 examples/backward_first.py'
"""
import json
import sys

credits = {}  # what a rank may hold

for line in sys.stdin:
    ask = json.loads(line)
    rank = ask["rank"]
    if ask["kind"] == "begin":
        credits[rank] = ask["plan"]["credits"][rank]
    if ask["kind"] == "choose":
        backwards = [action for action in ask["ready"] if "F" not in action]
        forwards = [action for action in ask["ready"] if "F" in action]
        if not backwards and ask["held"] < credits[rank]:
            backwards = forwards
        print(json.dumps({"action": backwards[0] if backwards else None}), flush=True)
