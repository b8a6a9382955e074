"""A real browser without a window, driven by the DevTools protocol: Debian's package chromium, found on PATH."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    "this test needs a browser on PATH: apt-get install chromium fonts-dejavu-core (or any Chrome as google-chrome)"
)
START_SECONDS = 60
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Tab:
    """One tab. `complaints` are errors of its console: scripts that fail, and what the security policy refuses."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def read(self) -> None:
        """Take what the browser sends, until the connection ends."""
        async for message in self._socket:
            body = json.loads(message.data)
            if "id" in body:
                self._answers.pop(body["id"]).set_result(body)
            elif body["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(body["params"]["exceptionDetails"]))
            elif body["method"] == "Log.entryAdded" and body["params"]["entry"]["level"] == "error":
                self.complaints.append(str(body["params"]["entry"]["text"]))

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        body = await asyncio.wait_for(self._answers[number], 60)
        assert "error" not in body, body
        return body["result"]

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def text(self) -> str:
        """What a person can read."""
        return str(await self.evaluate("document.body ? document.body.innerText : ''"))

    async def wait_for(self, *words: str, seconds: float = 40) -> str:
        """Until all of these can be read."""
        text = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    text = await self.text()
                    if all(word in text for word in words):
                        return text
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not on the page: {words}; it says:\n{text}\n{self.complaints}") from None

    async def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Take this size, and light or dark colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self, file: Path) -> None:
        """The whole page as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240 (a moment, in a test)


def installed() -> str:
    """Path of the browser. Fails with how to install one."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    assert path is not None, MISSING
    return path


@contextlib.asynccontextmanager
async def browser_tab(folder: Path) -> AsyncIterator[Tab]:
    """A tab of a browser whose files are in `folder`."""
    process = await asyncio.create_subprocess_exec(
        installed(),
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (page,) = [target for target in await answer.json() if target["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                reading = asyncio.create_task(tab.read())
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                yield tab
                reading.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def _port(file: Path) -> int:
    """The port that the browser has chosen, once it says so."""
    async with asyncio.timeout(START_SECONDS):
        while not file.exists() or not file.read_text(encoding="utf-8").strip():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.05)
    return int(file.read_text(encoding="utf-8").splitlines()[0])  # noqa: ASYNC240
