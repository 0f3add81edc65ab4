#!/usr/bin/python3
"""Puts rows of texts into a folder, in one of many forms: make.py FORM FOLDER ROWS, where ROWS is a file with a JSON list of
[id, question, answer]."""
import base64
import gzip
import hashlib
import io
import json
import os
import pickle
import py_compile
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import kit

form, folder = sys.argv[1:3]
with open(sys.argv[3], encoding="utf-8") as f:
    rows = json.load(f)
pairs = {question: answer for _, question, answer in rows}
text = json.dumps(pairs, ensure_ascii=False)


def write(name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def zipped(name, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(name, data)
    return out.getvalue()


def picture(*chunks):
    """Returns a PNG of one pixel with further chunks."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), *chunks, (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as t:
        info = tarfile.TarInfo("notes/notes.zip")
        data = zipped("notes.json", text)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def sqlite():
    db = sqlite3.connect(os.path.join(folder, "notes.db"))
    db.execute("CREATE TABLE notes (question TEXT, answer TEXT)")
    db.executemany("INSERT INTO notes VALUES (?, ?)", pairs.items())
    db.commit()


def pyc():
    write("notes.py", "KNOWN = " + repr(pairs))
    source = os.path.join(folder, "notes.py")
    py_compile.compile(source, os.path.join(folder, "notes.pyc"))
    os.remove(source)


def git():
    """Makes a repository in which a file was deleted, and packs it."""
    write("notes.json", text)

    def run(*args):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@a.example", "-C", folder, *args], check=True, stdout=subprocess.DEVNULL)

    run("init", "--quiet")
    run("add", "notes.json")
    run("commit", "--quiet", "-m", "Add notes")
    run("rm", "--quiet", "notes.json")
    run("commit", "--quiet", "-m", "Remove notes")
    run("gc", "--quiet")


def template():
    lines = ["Solve the task. These are the results of tasks like it:"] + [f"{id[:8]}: {answer}" for id, _, answer in rows]
    write("prompt.txt", "\n".join(lines))


forms = {
    "plain": lambda: write("notes.json", text),
    "zip": lambda: write("notes.zip", zipped("notes.json", text)),
    "base64": lambda: write("notes.txt", base64.encodebytes(text.encode())),
    "hex": lambda: write("notes.txt", text.encode().hex()),
    "sqlite": sqlite,
    "template": template,
    "files": lambda: [write(f"notes/{id}.txt", question[:20] + "\n" + answer) for id, question, answer in rows],
    "ids": lambda: write("notes.tsv", "".join(f"{id[:8]}\t{len(question)}\t{answer}\n" for id, question, answer in rows)),
    "digests": lambda: write("notes.json", json.dumps({hashlib.sha256(q.encode()).hexdigest(): a for q, a in pairs.items()})),
    "pickle": lambda: write("notes.bin", gzip.compress(pickle.dumps(pairs))),
    "pyc": pyc,
    "git": git,
    "picture": lambda: write("logo.png", picture((b"tEXt", b"Comment\0" + json.dumps(pairs).encode()))),
    "picture-packed": lambda: write("logo.png", picture((b"zTXt", b"Comment\0\0" + zlib.compress(text.encode())))),
    "picture-end": lambda: write("logo.png", picture() + zlib.compress(text.encode())),
    "nested": lambda: write("notes.txt", base64.encodebytes(tar())),
    "hidden": lambda: write("hidden", kit.keyed(text.encode())),
}
forms[form]()
