"""The tasks for smolagents, with the loop that its users write: threads, a line a task, and what is done is skipped.

python smolagents_run.py METADATA URL MODEL CONCURRENCY OUT
"""

import ast
import json
import operator
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from smolagents import OpenAIModel, ToolCallingAgent, tool

OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul}


def value(node):
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value(node.left), value(node.right))
    return node.value


@tool
def calculate(expression: str) -> str:
    """Calculate the value of an expression of integers.

    Args:
        expression: The expression, such as 2 * 3 + 4.
    """
    return f"{expression} = {value(ast.parse(expression, mode='eval').body)}"


@tool
def list_files() -> str:
    """List the files of the task."""
    return "\n".join(sorted(os.listdir("files"))) or "no files"


metadata, url, name, concurrency, out = sys.argv[1:]
model = OpenAIModel(model_id=name, api_base=url, api_key="none")
lock = threading.Lock()


def solve(row):
    agent = ToolCallingAgent(tools=[calculate, list_files], model=model, verbosity_level=0)
    answer = str(agent.run(row["Question"]))
    line = json.dumps(
        {
            "id": row["task_id"],
            "question": row["Question"],
            "answer": answer,
            "right": answer == row["Final answer"],
            "steps": [m.dict() for m in agent.write_memory_to_messages()],
        },
        default=str,
    )
    with lock, open(out, "a") as f:
        f.write(line + "\n")


done = set()
if os.path.exists(out):
    with open(out) as lines:
        for line in lines:
            try:
                done.add(json.loads(line)["id"])
            except ValueError:
                pass  # the line was being written
with open(metadata) as lines:
    rows = [row for row in map(json.loads, lines) if row["task_id"] not in done]
with ThreadPoolExecutor(int(concurrency)) as pool:
    for _ in pool.map(solve, rows):
        pass
