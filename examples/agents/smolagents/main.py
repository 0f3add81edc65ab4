import os
import sys
from contextlib import nullcontext

from mcpadapt.core import MCPAdapt
from mcpadapt.smolagents_adapter import SmolAgentsAdapter
from smolagents import OpenAIModel, ToolCallingAgent


class Adapter(SmolAgentsAdapter):
    """Keeps arguments optional that are optional, and does not send those that are None."""

    def adapt(self, func, tool):
        for name, schema in tool.inputSchema.setdefault("properties", {}).items():
            if name not in tool.inputSchema.get("required", []):
                schema["nullable"] = True
        return super().adapt(lambda given: func({k: v for k, v in (given or {}).items() if v is not None}), tool)


question = sys.stdin.read()
if attached := [name for name in os.listdir() if name.startswith("attachment")]:
    question += "\n\nThe attachment is the file " + attached[0] + "."
model = OpenAIModel(os.environ["GAIA_MODEL"], api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
url = os.environ.get("GAIA_MCP_URL")
server = MCPAdapt({"url": url, "transport": "streamable-http"}, Adapter()) if url else nullcontext([])
with server as tools:
    tools = [t for t in tools if t.name != "submit_answer"]  # final_answer is its own
    agent = ToolCallingAgent(tools=tools, model=model, max_steps=20, verbosity_level=0)
    answer = agent.run(question)
with open("ANSWER", "w") as f:
    f.write(str(answer))
