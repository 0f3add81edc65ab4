"""Writes GAIA-shaped metadata with Python, pyarrow and pandas, in as many ways as they offer.

Reads the rows as JSON objects {"id", "question", "level", "gold", "file_name",
"file_path"} one a line (the last two may be null), and writes good/<way>.parquet
and .jsonl with exactly these rows and bad/<fault>.parquet and .jsonl with one thing
changed into the directory given as argument.

Only interop_test.go runs this file.
"""

import json
import pathlib
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

rows = [json.loads(line) for line in sys.stdin]
out = pathlib.Path(sys.argv[1])
for folder in ("good", "bad"):
    (out / folder).mkdir()

PEOPLE = [
    {
        "Steps": f"{i}. look\n{i}. count",
        "Number of steps": str(i),
        "How long did this take?": "a minute",
        "Tools": "eyes",
        "Number of tools": "1",
    }
    for i in range(len(rows))
]


def columns():
    """The columns as the dataset has them, Level as text."""
    return {
        "task_id": pa.array([r["id"] for r in rows], pa.string()),
        "Question": pa.array([r["question"] for r in rows], pa.string()),
        "Level": pa.array([str(r["level"]) for r in rows], pa.string()),
        "Final answer": pa.array([r["gold"] for r in rows], pa.string()),
        "file_name": pa.array([r["file_name"] for r in rows], pa.string()),
        "file_path": pa.array([r["file_path"] for r in rows], pa.string()),
        "Annotator Metadata": pa.array(PEOPLE),
    }


def good(name, options=None, **changed):
    table = pa.table(columns() | changed)
    pq.write_table(table, out / "good" / f"{name}.parquet", **(options or {}))


def levels(kind):
    return pa.array([r["level"] for r in rows], kind)


def text(name, kind):
    return columns()[name].cast(kind)


TEXTS = ["task_id", "Question", "Level", "Final answer", "file_name", "file_path"]

good("pyarrow")
for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
    for page in ("1.0", "2.0"):
        good(f"{codec}, pages {page}", {"compression": codec, "data_page_version": page, "row_group_size": 90})
for version in ("1.0", "2.4", "2.6"):
    good(f"version {version}", {"version": version})
for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
    good(f"level {kind}", Level=levels(kind))
good("level dictionary of int64", Level=levels(pa.int64()).dictionary_encode())
good("large strings", **{n: text(n, pa.large_string()) for n in TEXTS})
good("string views", **{n: text(n, pa.string_view()) for n in TEXTS})
good("dictionaries", **{n: text(n, pa.string()).dictionary_encode() for n in TEXTS})
good("bytes without a type", {"store_schema": False}, **{n: text(n, pa.binary()) for n in TEXTS})
good("row by row", {"row_group_size": 1})
good("small pages", {"data_page_size": 64, "use_dictionary": False, "write_batch_size": 3})
good("indexed, summed", {"write_page_index": True, "write_page_checksum": True})
for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "PLAIN"):
    for page in ("1.0", "2.0"):
        good(f"{encoding}, pages {page}", {"use_dictionary": False, "column_encoding": {n: encoding for n in TEXTS}, "data_page_version": page})
good("DELTA_BINARY_PACKED", {"use_dictionary": False, "column_encoding": {"Level": "DELTA_BINARY_PACKED"}}, Level=levels(pa.int64()))
good("no annotations", **{"Annotator Metadata": pa.nulls(len(rows))})

frame = pd.DataFrame(
    {
        "task_id": [r["id"] for r in rows],
        "Question": [r["question"] for r in rows],
        "Level": [str(r["level"]) for r in rows],
        "Final answer": [r["gold"] for r in rows],
        "file_name": [r["file_name"] for r in rows],
        "file_path": [r["file_path"] for r in rows],
        "Annotator Metadata": PEOPLE,
    }
)


def by_pandas(name, changed, **options):
    changed.to_parquet(out / "good" / f"pandas, {name}.parquet", engine="pyarrow", **options)


by_pandas("plain", frame)
by_pandas("zstd", frame, compression="zstd")
by_pandas("objects", frame.astype({n: object for n in TEXTS}))
by_pandas("level int64", frame.assign(Level=[r["level"] for r in rows]))
by_pandas("level nullable", frame.assign(Level=pd.array([r["level"] for r in rows], dtype="Int64")))
by_pandas("categories", frame.astype({"Level": "category", "file_name": "category"}))
by_pandas("with its index", frame.set_index(pd.Index(range(7, 7 + len(rows)))), index=True)
by_pandas("indexed by task", frame.set_index("task_id"))

def by_json(name, folder="good", newline="\n", encoding="utf-8", level=str, last="\n", **options):
    objects = [
        {
            "task_id": r["id"],
            "Question": r["question"],
            "Level": level(r["level"]),
            "Final answer": r["gold"],
            "file_name": r["file_name"],
            "file_path": r["file_path"],
            "Annotator Metadata": PEOPLE[i],
        }
        for i, r in enumerate(rows)
    ]
    text = newline.join(json.dumps(o, **options) for o in objects) + last
    (out / folder / f"{name}.jsonl").write_bytes(text.encode(encoding))


by_json("json")
by_json("json, no escapes", ensure_ascii=False)
by_json("json, numbers", level=int, separators=(",", ":"))
by_json("json, no last line break", last="", sort_keys=True)
frame.to_json(out / "good" / "pandas.jsonl", orient="records", lines=True)
frame.to_json(out / "good" / "pandas, no escapes.jsonl", orient="records", lines=True, force_ascii=False)


def bad(name, table):
    pq.write_table(table, out / "bad" / f"{name}.parquet")


def retyped(name, column, array):
    bad(name, pa.table(columns() | {column: array}))


def without(column):
    return pa.table({k: v for k, v in columns().items() if k != column})


for column in TEXTS:
    bad(f"no {column}", without(column))
retyped("level double", "Level", levels(pa.float64()))
retyped("level decimal", "Level", levels(pa.int64()).cast(pa.decimal128(21, 2)))
retyped("level date", "Level", levels(pa.int32()).cast(pa.date32()))
retyped("level bool", "Level", pa.array([r["level"] > 1 for r in rows]))
retyped("level null", "Level", pa.nulls(len(rows)))
retyped("level one null", "Level", pa.array([None] + [r["level"] for r in rows[1:]], pa.int64()))
retyped("id number", "task_id", pa.array(range(len(rows))))
retyped("question bytes of one length", "Question", pa.array([b"four"] * len(rows), pa.binary(4)))
retyped("question null", "Question", pa.nulls(len(rows)))
retyped("answer list", "Final answer", pa.array([[r["gold"]] for r in rows]))
retyped("answer struct", "Final answer", pa.array([{"text": r["gold"]} for r in rows]))
retyped("answer number", "Final answer", pa.array([1.5] * len(rows)))
retyped("file_name bool", "file_name", pa.array([r["file_name"] is not None for r in rows]))
twice = pa.table(columns())
bad("question twice", twice.append_column("Question", twice["Question"]))
bad("no rows", pa.table(columns()).slice(0, 0))
by_json("line ends", "bad", newline="\r\n", last="\r\n")
by_json("byte order mark", "bad", encoding="utf-8-sig")
by_json("another encoding", "bad", encoding="utf-16", ensure_ascii=False)
by_json("level not a number", "bad", level=lambda _: float("nan"))
by_json("level with a point", "bad", level=float)
by_json("over several lines", "bad", indent=1)
