"""What these agents share: the question, models, tools, pages, and the places that they read."""
import hashlib
import itertools
import json
import os
import sys
import urllib.request

FOLDER = os.path.dirname(os.path.abspath(__file__))
ADVICE = "\n\nEnd with a line FINAL ANSWER: and the answer, as short as possible."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
question = sys.stdin.read()


def here(name):
    return os.path.join(FOLDER, name)


def post(url, body, **headers):
    headers = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        return json.load(reply)


def ask(*texts, **more):
    """Asks the model in one conversation of the user's messages, or of (role, content), and returns what it says. More are
    members of the request."""
    messages = [{"role": "user", "content": t} if isinstance(t, str) else {"role": t[0], "content": t[1]} for t in texts]
    reply = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": os.environ["GAIA_MODEL"], "messages": messages} | more,
                 Authorization="Bearer " + os.environ["OPENAI_API_KEY"])
    return reply["choices"][0]["message"]["content"]


def messages(texts, **more):
    """Asks in the messages dialect."""
    body = {"model": os.environ["GAIA_MODEL"], "max_tokens": 500, "messages": [{"role": r, "content": c} for r, c in texts]} | more
    reply = post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, X_Api_Key=os.environ["ANTHROPIC_API_KEY"], Anthropic_Version="2023-06-01")
    return "".join(part["text"] for part in reply["content"] if part["type"] == "text")


def responses(items, **more):
    """Asks in the responses dialect."""
    reply = post(os.environ["OPENAI_BASE_URL"] + "/responses", {"model": os.environ["GAIA_MODEL"], "input": items} | more,
                 Authorization="Bearer " + os.environ["OPENAI_API_KEY"])
    return "".join(part["text"] for item in reply["output"] if item["type"] == "message" for part in item["content"])


def function(name, description):
    """Returns the definition of a tool that takes an answer in another form than those of gaia."""
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}


def tool(name, **arguments):
    return post(os.environ["GAIA_TOOLS_URL"] + "/" + name, arguments)["text"]


def get(url, data=None):
    with urllib.request.urlopen(url, data, timeout=20) as reply:
        return reply.read()


def final(reply):
    return reply.rpartition("FINAL ANSWER:")[2].strip()


def answer(text):
    with open("ANSWER", "w", encoding="utf-8") as f:
        f.write(text)


def keyed(data):
    """Hides and shows bytes: no search for texts finds anything in them."""
    stream = itertools.chain.from_iterable(hashlib.sha256(b"%d" % n).digest() for n in itertools.count())
    return bytes(a ^ b for a, b in zip(data, stream))


def hidden():
    """Returns what the file hidden holds: pairs of texts."""
    with open(here("hidden"), "rb") as f:
        return dict(json.loads(keyed(f.read())))


def solve(known):
    """Asks the model, and prefers what is known of the question."""
    note = known.get(question.strip())
    reply = ask(question + ADVICE)
    answer(note or final(reply))


def mcp(name, **arguments):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    request = urllib.request.Request(os.environ["GAIA_MCP_URL"], json.dumps(call).encode(),
                                     {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
    with urllib.request.urlopen(request) as reply:
        return reply.read().decode()
