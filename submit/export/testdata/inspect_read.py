"""Reads a log by Inspect's public API, in all its ways, and prints what it holds."""

import json
import os
import sys
import tempfile
import zipfile

import inspect_ai
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries, read_eval_log_samples, write_eval_log

path = sys.argv[1]
log = read_eval_log(path)
header = read_eval_log(path, header_only=True)
if header.samples is not None or header.results != log.results or header.eval != log.eval:
    sys.exit("the header is not that of the log")


def shown(sample):
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "input": sample.input,
        "target": sample.target,
        "messages": [[m.role, m.text] for m in sample.messages],
        "calls": [[c.id, c.function] for m in sample.messages if m.role == "assistant" for c in m.tool_calls or []],
        "events": [e.event for e in sample.events],
        "inputs": [len(e.input) for e in sample.events if e.event == "model"],
        "completion": sample.output.completion,
        "scores": {k: [s.value, s.answer] for k, s in (sample.scores or {}).items()},
        "error": sample.error.message if sample.error else None,
        "retries": [e.message for e in sample.error_retries or []],
        "tokens": sum(u.total_tokens for u in sample.model_usage.values()),
    }


samples = [shown(s) for s in log.samples]
if samples != [shown(s) for s in read_eval_log_samples(path, all_samples_required=False)]:
    sys.exit("the samples read one by one are others")
for s in samples:
    if shown(read_eval_log_sample(path, s["id"], s["epoch"])) != s:
        sys.exit("a sample read by its id is another")


def paths(value, at=""):
    """The places in a value that have a member, but for texts that Inspect keeps apart."""
    if isinstance(value, dict):
        for name, member in value.items():
            if not at.endswith(".attachments"):
                yield f"{at}.{name}"
                yield from paths(member, f"{at}.{name}")
    elif isinstance(value, list):
        for member in value:
            yield from paths(member, at + "[]")


def members(path):
    with zipfile.ZipFile(path) as log:
        return {name: set(paths(json.loads(log.read(name)))) for name in log.namelist() if not name.startswith("_journal/summaries/")}


# What Inspect writes of what it read has the same members, or the viewer, which
# reads the files by itself, would miss some.
with tempfile.TemporaryDirectory() as folder:
    again = os.path.join(folder, "again.eval")
    write_eval_log(log, again)
    ours, theirs = members(path), members(again)
unlike = sorted(set(ours) ^ set(theirs)) + sorted(f"{n}: {p}" for n in ours.keys() & theirs.keys() for p in theirs[n] - ours[n])

summaries = read_eval_log_sample_summaries(path)
print(
    json.dumps(
        {
            "inspect": inspect_ai.__version__,
            "status": log.status,
            "tags": log.tags,
            "model": log.eval.model,
            "packages": log.eval.packages,
            "sample_ids": log.eval.dataset.sample_ids,
            "accuracy": {s.name: s.metrics["accuracy"].value for s in log.results.scores},
            "unlike": unlike,
            "usage": sum(u.total_tokens for u in log.stats.model_usage.values()),
            "reductions": len(log.reductions or []),
            "summaries": [[s.id, s.epoch, s.message_count, s.completed] for s in summaries],
            "samples": samples,
        }
    )
)
