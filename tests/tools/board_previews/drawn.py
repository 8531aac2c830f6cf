"""The page that draws a board, made of npm packages in a temporary directory; its pictures."""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.browser.conftest import FLAGS
from tests.programs import require_program

PAGE = Path(__file__).parent / "page"
NOTE = "preview drawn from the board's JSON and recorded data, not a Grafana screenshot"
WIDTH = 1600
TIMEOUT_MS = 10_000
_LOADERS = {"svg": "dataurl", "woff": "dataurl", "woff2": "dataurl", "ttf": "empty", "png": "empty"}
_COMPRESS = """
require("sharp")(process.argv[1]).png({ palette: true, colours: 256, effort: 10, dither: 0 })
  .toFile(process.argv[2]).catch((error) => { console.error(error); process.exit(1); });
"""


def built(directory: Path) -> Path:
    """Fetch what the page needs (300 MB) into `directory` and put it together; where it is."""
    shutil.copytree(PAGE, directory, dirs_exist_ok=True)
    install = [
        require_program("npm"),
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--silent",
    ]
    subprocess.run(install, cwd=directory, check=True)
    bundle = [
        *("node_modules/.bin/esbuild", "board.jsx", "--bundle", "--jsx=automatic"),
        *("--outfile=preview.js", "--log-level=warning"),
        '--define:process.env.NODE_ENV="production"',
        "--alias:react-custom-scrollbars-2=./scrollbars.js",
        *(f"--loader:.{ending}={loader}" for ending, loader in _LOADERS.items()),
    ]
    subprocess.run(bundle, cwd=directory, check=True)
    return directory


class Pictures(AbstractContextManager["Pictures"]):
    """A browser with the page; `write` makes a picture of a board or of some of its panels."""

    def __init__(self, page: Path) -> None:
        self._page = page

    def __enter__(self) -> Self:
        self._playwright = sync_playwright().start()
        path = require_program("chromium")
        self._browser = self._playwright.chromium.launch(executable_path=path, args=[*FLAGS])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._browser.close()
        self._playwright.stop()

    def write(self, board: Mapping[str, Any], path: Path, *, width: int = WIDTH) -> None:
        """Draw a board as `asked.board` gives it. An error on the page is a RuntimeError."""
        page = self._browser.new_page(viewport={"width": width, "height": 800})
        page.set_default_timeout(TIMEOUT_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error.stack)))
        page.goto((self._page / "preview.html").as_uri())
        page.evaluate("([board, width]) => show(board, width)", [{**board, "note": NOTE}, width])
        try:
            _settle(page)
        except PlaywrightTimeout as error:
            raise RuntimeError(f"{path.name}: {errors}") from error
        raw = self._page / "raw.png"
        page.locator("#board").screenshot(path=raw)
        page.close()
        if errors:
            raise RuntimeError(f"{path.name}: {errors}")
        command = [require_program("node"), "-e", _COMPRESS, str(raw), str(path)]
        subprocess.run(command, cwd=self._page, check=True)


def _settle(page: Page) -> None:
    """Until fonts are there and every panel is drawn."""
    page.wait_for_selector("main section")
    page.evaluate("() => document.fonts.ready")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 500)))")
