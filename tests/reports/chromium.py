"""Headless Chromium with the network off, driven over its debugging pipe."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--remote-debugging-pipe", "--window-size=1500,1000"),
    # A tab that Chromium takes to be hidden draws nothing, and is told of nothing that comes near.
    *("--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"),
    "--disable-background-timer-throttling",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
DEADLINE = 60.0


def found() -> str | None:
    """Path of Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """A tab. ``console``: all that was logged or thrown; ``requests``: all that was asked for;
    ``blocked``: why some of it was refused."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._rest, self._number, self._session = b"", 0, ""
        self._loaded = False
        self.console: list[str] = []
        self.requests: list[str] = []
        self.blocked: list[str] = []

    def attach(self) -> None:
        """Opening of an empty tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.bringToFront")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Answer to a command of the DevTools protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def open(self, path: Path, place: str = "") -> None:
        """Opening of a file, until it is loaded and drawn; ``place``: "#" and what it names."""
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri() + place)
        # An expression that is asked for while one page gives way to another has no answer.
        while not self._loaded:
            self._note(self._next())
        self.wait("performance.getEntriesByName('vknn-drawn').length > 0")

    def value(self, expression: str) -> Any:
        """Value of a JavaScript expression, which may be a promise."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + DEADLINE
        while not self.value(expression):
            assert time.monotonic() < end, f"{expression} stayed false: {self.console}"
            time.sleep(0.02)

    def scroll_to(self, part: str, drawn: str) -> None:
        """Scrolling to an element by its id, until the selector ``drawn`` finds something.

        Parts above grow when they are drawn, and may push it out of sight again.
        """
        there = f"document.getElementById({json.dumps(part)}).scrollIntoView()"
        self.wait(f"({there}, document.querySelector({json.dumps(drawn)}) !== null)")

    def key(self, key: str) -> None:
        """A key, pressed and let go."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
        more = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def reach(self, selector: str) -> None:
        """The Tab key, from the top on, until what the selector finds has the focus."""
        self.value(
            "document.body.tabIndex = -1, document.body.focus({preventScroll: true}), "
            "document.body.removeAttribute('tabindex')"
        )
        for _ in range(80):
            self.key("Tab")
            if self.value(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"no Tab leads to {selector}")

    def text(self, selector: str) -> str:
        """Text of the first element that the selector finds."""
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements that the selector finds."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.value(f"{found}.map(node => node.textContent)")

    def picture(self, path: Path, **options: Any) -> None:
        """A screenshot as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", **options)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + DEADLINE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"Chromium said nothing for {DEADLINE} s"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                said = [a.get("value", a.get("description", "")) for a in parameters["args"]]
                self.console.append(" ".join(map(str, said)))
            case "Runtime.exceptionThrown":
                self.console.append(json.dumps(parameters["exceptionDetails"])[:1000])
            case "Log.entryAdded":
                self.console.append(parameters["entry"]["text"])
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.loadingFailed":
                self.blocked.append(parameters.get("blockedReason", ""))
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A tab of a Chromium that ends with the block."""
    name = found()
    assert name is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # Chromium reads commands from descriptor 3 and answers on 4.
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
        command = ["bash", "-c", shell, name, *ARGUMENTS, f"--user-data-dir={folder}"]
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            process = subprocess.Popen(
                command,
                pass_fds=(to_read, from_write),
                stdin=subprocess.DEVNULL,
                stdout=nowhere,
                stderr=nowhere,
                start_new_session=True,
            )
        os.close(to_read)
        os.close(from_write)
        try:
            page = Page(to_write, from_read)
            page.attach()
            yield page
        finally:
            os.close(to_write)
            os.close(from_read)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
