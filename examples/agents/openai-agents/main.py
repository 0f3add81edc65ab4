import asyncio
import os
import sys
from contextlib import AsyncExitStack

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp

INSTRUCTIONS = """Answer the question. Use the tools. Attachments are in the working folder.
End with a line FINAL ANSWER: and the answer, as short as possible."""


async def main():
    set_tracing_disabled(True)  # traces would go to another host
    async with AsyncExitStack() as stack:
        servers = []
        if url := os.environ.get("GAIA_MCP_URL"):
            server = MCPServerStreamableHttp({"url": url}, name="gaia", client_session_timeout_seconds=600)
            servers.append(await stack.enter_async_context(server))
        agent = Agent(name="solver", instructions=INSTRUCTIONS, model=os.environ["GAIA_MODEL"], mcp_servers=servers)
        result = await Runner.run(agent, sys.stdin.read(), max_turns=50)
        print(result.final_output)


asyncio.run(main())
