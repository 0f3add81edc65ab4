import json
import os
import sys
from urllib.request import Request, urlopen

from openai import OpenAI
from playwright.sync_api import Error, sync_playwright

SYSTEM = "Answer with the tools. End with a line FINAL ANSWER: and the answer, as short as possible."
# Chromium asks these addresses for sign-in and updates, in place of Google's: nothing answers there.
QUIET = ["--gaia-url=http://127.0.0.1:9/", "--component-updater=url-source=http://127.0.0.1:9/"]
PAGE = {
    "name": "web_fetch",
    "description": "Opens an address in a browser, with JavaScript, and returns its text and links.",
    "parameters": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
}


def gate(path="", arguments=None):
    """Lists the tools of the run, or calls one."""
    request = Request(os.environ["GAIA_TOOLS_URL"] + path, arguments and arguments.encode(), {"Content-Type": "application/json"})
    with urlopen(request) as reply:
        return json.load(reply)


def browse(page, url):
    files = []
    page.once("download", lambda file: files.append(file))
    try:
        page.goto(url)
    except Error as error:
        if "Download is starting" not in error.message:
            return error.message
        file = files[0] if files else page.wait_for_event("download")
        with open(file.path(), errors="replace") as f:
            return f.read()
    links = page.eval_on_selector_all("a[href]", "all => all.map(a => a.innerText + ': ' + a.href)")
    return "\n".join([page.title(), page.inner_text("body"), "", *links])


question = sys.stdin.read()
if attached := [name for name in os.listdir() if name.startswith("attachment")]:
    question += "\n\nThe attachment is the file " + attached[0] + "."
tools = [PAGE] + [t for t in gate()["tools"] if t["name"] not in ("web_fetch", "submit_answer")]
messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path="/usr/lib/chromium/chromium", args=QUIET)
    page, client = browser.new_page(), OpenAI()
    for _ in range(20):
        reply = client.chat.completions.create(
            model=os.environ["GAIA_MODEL"], messages=messages, tools=[{"type": "function", "function": t} for t in tools]
        ).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls or []:
            name, arguments = call.function.name, call.function.arguments
            text = browse(page, json.loads(arguments)["url"]) if name == "web_fetch" else gate("/" + name, arguments)["text"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        if not reply.tool_calls:
            break
    browser.close()
print(reply.content)
