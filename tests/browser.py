# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Chromium without a screen, driven over a pipe by the DevTools protocol.

    with Browser() as browser, browser.open("page.html", width=375, dark=True) as page:
        assert page.requested_hosts == set() and page.console == []
        assert page.run("document.querySelectorAll('h1').length") == 1
        page.screenshot("page.png")

A suite that uses it has CHROMIUM (tests/run/suites.py) among its packages. Nothing else is needed: no driver, no
library. The browser
resolves no host name, so that a page which refers to another host does not reach it; `Page.requests` shows the attempt.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
import typing as t
import urllib.parse

PROGRAM = "/usr/bin/chromium"
DESKTOP, PHONE = 1280, 375

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio"),
    *("--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
    "--remote-debugging-pipe",
)
#: Seconds that Chromium has to answer a command or to load a page.
_PATIENCE = 60.0


def _pipe() -> tuple[int, int]:
    """Return the descriptors of a new pipe to read from and to write to, both above those that Chromium expects."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


#: Text of less contrast than WCAG 2.1 AA asks: 4.5, or 3 for large text. Text over images is not judged.
_POOR_CONTRAST = """(() => {
  const rgba = text => {
    const srgb = text.startsWith("color(srgb");
    const [r, g, b, a = 1] = text.match(/-?[0-9.e-]+/g).map(Number);
    return srgb ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = colour => {
    const [r, g, b] = colour.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const layers = [];
    let image = false;
    for (let e = element; e; e = e.parentElement) {
      const own = getComputedStyle(e);
      image ||= own.backgroundImage !== "none";
      layers.push(rgba(own.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    if (image) continue;
    const ground = layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
    const [a, b] = [light(over(rgba(style.color), ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${node.data.trim().slice(0, 60)}`);
  }
  return [...new Set(found)];
})()"""
#: Elements that reach beyond the window's right edge, unless a box around them scrolls.
_CUT_OFF = """(() => {
  const width = document.documentElement.clientWidth;
  const scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  return [...document.body.querySelectorAll("*")]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > width + 1
      && e.getBoundingClientRect().left < width && !scrolls(e.parentElement))
    .map(e => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.trim().slice(0, 60)}`);
})()"""


class BrowserError(Exception):
    """A command that Chromium refused or did not answer in time, or an exception of the page's script."""


class PageLeft(BrowserError):
    """A command that was under way while its page loaded another one."""


#: What Chromium says of such a command.
_LEFT = (
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
)


class Browser:
    """One running Chromium; a context manager. Its profile is empty, and removed at the end."""

    def __init__(self, program: str = PROGRAM):
        """Start `program`. Raise FileNotFoundError if it is not installed."""
        if not pathlib.Path(program).exists():
            raise FileNotFoundError(f"{program} is missing. Run apt-get install chromium fonts-dejavu-core.")
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        (commands, self._to), (self._from, answers) = _pipe(), _pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        start = f'exec "$0" "$@" 3<&{commands} 4>&{answers} {commands}<&- {answers}>&-'
        home = self._profile.name
        self._process = subprocess.Popen(
            ["bash", "-c", start, program, *_FLAGS, f"--user-data-dir={home}/profile", "about:blank"],
            env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(commands, answers), start_new_session=True,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._unread = b""
        self._last = 0
        self._answers: dict[int, dict[str, t.Any]] = {}
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and all its processes, and remove its profile."""
        with contextlib.suppress(BrowserError, OSError):
            self.command("Browser.close", seconds=5)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for descriptor in (self._to, self._from):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._profile.cleanup()

    def open(
        self,
        target: str | os.PathLike[str],
        *,
        width: int = DESKTOP,
        height: int = 800,
        dark: bool = False,
        scripts: bool = True,
    ) -> Page:
        """Return `target`, a file or a URL, loaded in a window of its own that shares nothing with other pages.

        The window has `width` x `height` CSS pixels, and is a phone's where `width` is below 600. `dark` sets
        prefers-color-scheme. `scripts` False disables the page's scripts; `Page.run` works all the same. Raise
        BrowserError if the page does not load.
        """
        url = str(target) if "://" in str(target) else pathlib.Path(target).resolve().as_uri()
        context = self.command("Target.createBrowserContext")["browserContextId"]
        tab = self.command("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.command("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        phone = width < 600
        page.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        page.command("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.command("Emulation.setEmulatedMedia", features=[scheme])
        page.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.goto(url)
        return page

    def command(self, method: str, session: str = "", seconds: float = _PATIENCE, **parameters: t.Any) -> t.Any:
        """Return the result of one command of the DevTools protocol, of the page `session` or of the browser.

        Raise BrowserError if Chromium refuses it, has ended, or does not answer within `seconds`, PageLeft if another
        page was loaded meanwhile.
        """
        number = self.send(method, session, **parameters)
        self.wait(lambda: number in self._answers, seconds, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            kind = PageLeft if answer["error"]["message"] in _LEFT else BrowserError
            raise kind(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def send(self, method: str, session: str = "", **parameters: t.Any) -> int:
        """Send one command and return its number, without waiting. Raise BrowserError if Chromium has ended."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        unsent = json.dumps({**message, **({"sessionId": session} if session else {})}).encode() + b"\0"
        try:
            while unsent:
                unsent = unsent[os.write(self._to, unsent) :]
        except BrokenPipeError:
            raise BrowserError(f"{method}: Chromium has ended.") from None
        return self._last

    def wait(self, ready: t.Callable[[], bool], seconds: float, what: str) -> None:
        """Read messages until `ready`. Raise BrowserError with `what` after `seconds`, or if Chromium has ended."""
        end = time.monotonic() + seconds
        while not ready():
            left = end - time.monotonic()
            if left <= 0:
                raise BrowserError(f"{what}: nothing after {seconds:g} s.")
            if select.select([self._from], [], [], left)[0]:
                self._read(what)

    def _read(self, what: str) -> None:
        """Read what Chromium has sent. Keep its answers, and give its events to the pages that they are about."""
        got = os.read(self._from, 1 << 20)
        if not got:
            raise BrowserError(f"{what}: Chromium has ended.")
        *messages, self._unread = (self._unread + got).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif message.get("sessionId") in self._pages:
                self._pages[message["sessionId"]].event(message["method"], message["params"])


class Page:
    """One page in a window of its own; a context manager that closes the window.

    `console` has the errors and warnings of scripts and of loading, and dialogs, each with its kind: "error: ...".
    `requests` has the URLs that were requested, in order, those that failed and `data:` among them.
    """

    def __init__(self, browser: Browser, session: str, context: str):
        self._browser = browser
        self._session = session
        self._context = context
        self._loaded = False
        self.console: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._browser.command("Target.disposeBrowserContext", browserContextId=self._context)

    @property
    def requested_hosts(self) -> set[str]:
        """The hosts of all requests, with ports; files and `data:` have none."""
        return {urllib.parse.urlsplit(url).netloc for url in self.requests} - {""}

    def goto(self, url: str) -> None:
        """Load `url`, and wait for its load event. Raise BrowserError if it cannot be loaded."""
        self._loaded = False
        failure = self.command("Page.navigate", url=url).get("errorText")
        if failure:
            raise BrowserError(f"{url}: {failure}")
        self._browser.wait(lambda: self._loaded, _PATIENCE, url)

    def text(self) -> str:
        """Return the page's visible text."""
        return str(self.run("document.body.innerText"))

    def run(self, expression: str) -> t.Any:
        """Return the value of a JavaScript expression as JSON carries it; a promise is awaited.

        Raise BrowserError if the expression raises.
        """
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60) -> t.Any:
        """Return the first true value of a JavaScript expression. Raise BrowserError if none comes in `seconds`.

        A link or form may load another page meanwhile: the expression is then evaluated there.
        """
        end = time.monotonic() + seconds
        while True:
            value = None
            with contextlib.suppress(PageLeft):
                value = self.run(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"{expression}: still {value!r} after {seconds:g} s.")
            time.sleep(0.05)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window, 0 if it fits."""
        return int(self.run("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def poor_contrast(self) -> list[str]:
        """Return "ratio: text" of the visible texts with less contrast than WCAG 2.1 AA asks (4.5, large text 3)."""
        return list(self.run(_POOR_CONTRAST))

    def cut_off(self) -> list[str]:
        """Return the visible elements that reach beyond the window's right edge and are in no box that scrolls."""
        return list(self.run(_CUT_OFF))

    def screenshot(self, path: str | os.PathLike[str], whole: bool = False) -> None:
        """Write a PNG of the window, or of the `whole` page, to `path`."""
        more: dict[str, t.Any] = {}
        if whole:
            size = self.command("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
            more = {"clip": clip, "captureBeyondViewport": True}
        data = self.command("Page.captureScreenshot", format="png", **more)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path: str | os.PathLike[str]) -> None:
        """Write the page to `path` as it prints: A4, with backgrounds."""
        data = self.command("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def command(self, method: str, **parameters: t.Any) -> t.Any:
        """Return the result of a DevTools command for this page; see `Browser.command`."""
        return self._browser.command(method, session=self._session, **parameters)

    def event(self, method: str, parameters: dict[str, t.Any]) -> None:
        """Record one event of the DevTools protocol."""
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(f"error: {details.get('exception', {}).get('description') or details['text']}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            said = " ".join(str(one.get("value", one.get("description", ""))) for one in parameters["args"])
            self.console.append(f"{parameters['type']}: {said}")
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}".rstrip())
        elif method == "Page.javascriptDialogOpening":
            self.console.append(f"dialog: {parameters['message']}")
            # The page stands still until its dialog is answered; the answer itself is of no interest.
            self._browser.send("Page.handleJavaScriptDialog", self._session, accept=True)
