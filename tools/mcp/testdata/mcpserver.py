"""A server of the Model Context Protocol in nothing but Python's own library."""
import contextlib, io, json, sys, traceback

TOOLS = [
    {"name": "echo", "description": "Says a text again.", "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}},
    {"name": "run", "description": "Runs code in the server, and says what it printed.", "inputSchema": {
        "type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}},
]


def run(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(code, {})
        except BaseException:
            traceback.print_exc(file=out)
    return out.getvalue()


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        args = params["arguments"]
        text = args["text"] if params["name"] == "echo" else run(args["code"])
        return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params"))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "there is no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
