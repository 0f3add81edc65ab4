"""Opens a folder of logs in Inspect's viewer, as a server and as a bundle of files, and prints what they answer."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

logs, bundle = sys.argv[1:]
view = [sys.executable, "-m", "inspect_ai", "view"]
subprocess.run([*view, "bundle", "--log-dir", logs, "--output-dir", bundle], check=True, stdout=subprocess.DEVNULL)
with open(os.path.join(bundle, "logs", "listing.json")) as f:
    listing = json.load(f)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
address = f"http://127.0.0.1:{port}/api/"
server = subprocess.Popen([*view, "start", "--log-dir", logs, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL)


def get(path):
    with urllib.request.urlopen(address + path, timeout=30) as answer:
        return answer.read()


try:
    for _ in range(300):
        try:
            get("log-dir")
            break
        except urllib.error.URLError:
            if server.poll() is not None:
                sys.exit("the viewer's server ended")
            time.sleep(0.1)
    served = {}
    for name in sorted(listing):
        path = urllib.request.quote(os.path.join(logs, name), safe="")
        log = json.loads(get(f"logs/{path}"))
        size = int(get(f"log-size/{path}"))
        whole = get(f"log-bytes/{path}?start=0&end={size - 1}")
        with open(os.path.join(logs, name), "rb") as f:
            if f.read() != whole:
                sys.exit("the viewer's server gives other bytes")
        served[name] = {"samples": len(log["samples"]), "status": log["status"]}
finally:
    server.terminate()
    server.wait()
print(json.dumps({"listing": {n: e["status"] for n, e in listing.items()}, "served": served}))
