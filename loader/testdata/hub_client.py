"""Downloads with the Python client of the hub, as it is told.

Reads JSON objects {"do": name of a function of huggingface_hub, "with": its
keyword arguments} one a line and writes, for each, {"path": what it returned} or
{"error": class of the exception, "cause": class of what caused it, "says": text}.

Only interop_test.go runs this file.
"""

import json
import sys

import huggingface_hub

for line in sys.stdin:
    call = json.loads(line)
    try:
        result = {"path": getattr(huggingface_hub, call["do"])(**call["with"])}
        if not isinstance(result["path"], str):
            result = {"error": repr(result["path"])}
    except Exception as e:
        result = {"error": type(e).__name__, "cause": type(e.__cause__).__name__, "says": str(e)}
    print(json.dumps(result), flush=True)
