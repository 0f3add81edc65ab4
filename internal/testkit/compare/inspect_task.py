"""The tasks for Inspect: `inspect eval inspect_task.py`; `python inspect_task.py LOG` prints what a log holds."""

import ast
import json
import operator
import os
import sys

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool

OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul}


def value(node):
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value(node.left), value(node.right))
    return node.value


@tool
def calculate():
    async def execute(expression: str) -> str:
        """Calculate the value of an expression of integers.

        Args:
            expression: The expression, such as 2 * 3 + 4.
        """
        return f"{expression} = {value(ast.parse(expression, mode='eval').body)}"

    return execute


@tool
def list_files():
    async def execute() -> str:
        """List the files of the task."""
        return "\n".join(sorted(os.listdir("files"))) or "no files"

    return execute


@task
def mill(metadata: str):
    with open(metadata) as lines:
        rows = [json.loads(line) for line in lines]
    return Task(
        dataset=[Sample(id=r["task_id"], input=r["Question"], target=r["Final answer"]) for r in rows],
        solver=[use_tools(calculate(), list_files()), generate()],
        scorer=match(),
    )


if __name__ == "__main__":
    from inspect_ai.log import read_eval_log_samples

    for s in read_eval_log_samples(sys.argv[1], all_samples_required=False):
        if s.scores and not s.error:
            print(json.dumps({"id": s.id, "answer": s.output.completion, "right": s.scores["match"].value == "C"}))
