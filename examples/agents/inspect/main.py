import os
import sys

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import mcp_server_http

PROMPT = """Answer the question. Use the tools. Attachments are in the working folder.
End with a line FINAL ANSWER: and the answer, as short as possible."""

url = os.environ.get("GAIA_MCP_URL")
tools = [mcp_server_http(url=url)] if url else []
task = Task(dataset=[Sample(input=sys.stdin.read())], solver=react(prompt=PROMPT, tools=tools, submit=False), message_limit=100)
[log] = eval(task, model="openai/" + os.environ["GAIA_MODEL"], display="none", log_dir=os.path.expanduser("~/logs"),
             log_realtime=False, reasoning_summary="none")  # else it first asks the model something else
if log.status != "success":
    sys.exit(str(log.error or log.status))
text = log.samples[0].output.completion
print(text)
_, found, answer = text.rpartition("FINAL ANSWER:")
if found:
    with open("ANSWER", "w") as f:
        f.write(answer.strip())
