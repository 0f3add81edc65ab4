"""Holds the lock that huggingface_hub takes for the blob of a dataset: argument 1
is the lock file. Writes a line when it has it and lets go when its input ends.

Only interop_lock_test.go runs this file.
"""

import pathlib
import sys

from huggingface_hub.utils import WeakFileLock

path = pathlib.Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
with WeakFileLock(path):
    print("locked", flush=True)
    sys.stdin.read()
