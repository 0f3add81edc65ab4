"""Reads a leaderboard file as the leaderboard's app does: argument 1, with the levels of the split's tasks in 2."""

import json
import sys

with open(sys.argv[2]) as f:
    levels = json.load(f)
ids, counts = [], {1: 0, 2: 0, 3: 0}
with open(sys.argv[1]) as f:
    for ix, line in enumerate(f):
        task = json.loads(line)
        if "model_answer" not in task:
            sys.exit(f"line {ix} has no model_answer")
        if not isinstance(task["model_answer"], str) or not isinstance(task["reasoning_trace"], str):
            sys.exit(f"line {ix} has an answer or trace that is no text")
        ids.append(task["task_id"])
        counts[int(levels[task["task_id"]])] += 1
if len(set(ids)) != len(ids):
    sys.exit("a task is there twice")
if counts != {1: 53, 2: 86, 3: 26}:
    sys.exit(f"{counts} tasks by level")
print(len(ids))
