"""The live page as a test sees and uses it: colours, words, keys. Waits on what the page shows."""

import re
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page

TIMEOUT_MS = 30_000
LANE = 16  # CSS pixels above the samples
Colour = tuple[int, int, int, int]
_READ_BACK = (
    "willReadFrequently"  # Chromium's advice when a test reads a canvas; the page never does
)


class LivePage:
    """One page in a context of its own; `errors` and `strangers` must be empty in the end."""

    def __init__(self, context: BrowserContext, address: str, directory: Path) -> None:
        self._context = context
        self._address = address
        self._directory = directory
        self.page: Page = context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self.expected_errors = re.compile(r"$.^")
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        context.on("request", lambda request: self._asked(request.url))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning") or _READ_BACK in message.text:
            return
        if not self.expected_errors.search(message.text):
            self.errors.append(message.text)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "blob" and parts.netloc != self._address:
            self.strangers.append(url)

    def go(self, query: str = "", *, is_drawn: bool = True) -> None:
        """Open it and wait until samples are drawn."""
        self.page.goto(f"http://{self._address}/live{query}")
        if not is_drawn:
            return
        self.wait_for("document.getElementById('board').dataset.painted !== undefined")

    def close(self) -> None:
        """Close its context."""
        self._context.close()

    def wait_for(self, claim: str) -> None:
        """Until a JavaScript expression is true."""
        self.page.wait_for_function(f"() => {claim}")

    def wait_for_paint(self, metric: str, window: str = "60s", after: int = -(10**9)) -> int:
        """Until samples of these are drawn, newer than column `after`; the newest column."""
        shown = "(document.getElementById('board').dataset.painted ?? '').split(' ')"
        self.wait_for(
            f"(([metric, window, column]) => metric === '{metric}' && window === '{window}'"
            f" && column > {after})({shown})"
        )
        return int(self.at("#board").get_attribute("data-painted").split()[-1])  # type: ignore[union-attr]  # waited for

    def wait_until(self, state: str) -> None:
        """Until the connection is in a state."""
        self.wait_for(f"document.body.dataset.connection === '{state}'")

    def wait_for_frames(self) -> None:
        """Until whatever the page has to draw is drawn."""
        self.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def choose(self, name: str) -> None:
        """Press the switch of this name."""
        self.page.get_by_role("radio", name=name, exact=True).check()

    def at(self, selector: str) -> Locator:
        """Elements."""
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        """The text of one element."""
        return self.at(selector).inner_text()

    def evaluate(self, expression: str, argument: Any = None) -> Any:
        """A JavaScript expression or function."""
        return self.page.evaluate(expression, argument)

    def colour(self, row: int, age: int, group: int = 0) -> Colour:
        """Red, green, blue, alpha in the middle of a cell; `age` columns before the newest."""
        return cast(Colour, tuple(self.evaluate(_PIXEL, [*self._place(row, age, group), group])))

    def pixels(self, row: int, age: int, group: int = 0) -> set[Colour]:
        """All colours inside a cell, a pixel away from its borders."""
        found = self.evaluate(_PIXELS, [*self._place(row, age, group), group])
        return {cast(Colour, tuple(pixel)) for pixel in found}

    def hover(self, row: int, age: int, group: int = 0) -> None:
        """Put the mouse on a cell."""
        canvas = self.at("canvas.heat").nth(group)
        x, y = self._place(row, age, group)
        canvas.evaluate(
            "(c, y) => scrollBy(0, c.getBoundingClientRect().top + y * c.clientHeight - 400)", y
        )
        box = canvas.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    def hover_lane(self, age: int, group: int = 0) -> None:
        """Put the mouse between the marks above a group's samples."""
        box = self.at("canvas.heat").nth(group).bounding_box()
        assert box is not None
        x, _ = self._place(0, age, group)
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + LANE / 2)

    def _place(self, row: int, age: int, group: int) -> tuple[float, float]:
        """The middle of a cell as shares of its canvas."""
        rows = self.at("canvas.heat").nth(group).evaluate("(c) => c.clientHeight") - LANE
        count = self.at(".group").nth(group).locator(".names:not(.again) li").count()
        columns = 120
        y = (LANE + (row + 0.5) * rows / count) / (rows + LANE)
        return (columns - age - 0.5) / columns, y


_PIXEL = """([x, y, group]) => {
  const canvas = document.querySelectorAll("canvas.heat")[group];
  const place = [Math.floor(x * canvas.width), Math.floor(y * canvas.height)];
  return [...canvas.getContext("2d").getImageData(...place, 1, 1).data];
}"""

_PIXELS = """([x, y, group]) => {
  const canvas = document.querySelectorAll("canvas.heat")[group];
  const wide = Math.max(1, Math.floor(canvas.width / 120) - 2), tall = 8;
  const left = Math.floor(x * canvas.width - wide / 2);
  const top = Math.floor(y * canvas.height - tall / 2);
  const data = canvas.getContext("2d").getImageData(left, top, wide, tall).data;
  return Array.from({ length: wide * tall }, (_, at) => [...data.slice(4 * at, 4 * at + 4)]);
}"""
