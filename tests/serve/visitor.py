"""A service in its own process, and a visitor who opens its page in a browser."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
PHONE, DESK = 390, 1280  # widths in pixels
LOOKS = [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")]
TOKEN = "correct-horse"


@contextlib.contextmanager
def run_service(
    *words: str, module: str = "vitreous", **environment: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `vitreous serve` in a process; yield its address and the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "serve", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://\S+", line)
        assert address, line
        yield address[0], process
    finally:
        process.kill()
        process.communicate()


class Visit:
    """A page in a browser window, with its requests and all errors."""

    def __init__(self, browser: Any, address: str, panel: str = "", width: int = DESK, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(15_000)
        self.page, self.panel_id, self.address = self.context.new_page(), panel, address
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{address}/#{panel}")

    @property
    def panel(self) -> Any:
        """The visible panel."""
        return self.page.locator(f"#{self.panel_id}")

    def answer_with(self, path: str, content: str) -> None:
        """Answer requests to a path with a stored response."""
        self.page.route(f"**/{path}", lambda route: route.fulfill(body=content, content_type="application/json"))

    def draw(self, *positions: tuple[float, float]) -> None:
        """Draw a stroke on the canvas, in units of its side."""
        box = self.page.locator(".slate").bounding_box()
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in positions]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        for point in points[1:]:
            self.page.mouse.move(*point, steps=5)
        self.page.mouse.up()

    def drop(self, name: str, content: bytes) -> None:
        """Drop a file on the panel."""
        transfer = self.page.evaluate_handle(
            "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d; }",
            [name, content.decode()],
        )
        for event in ("dragenter", "dragover", "drop"):
            self.panel.dispatch_event(event, {"dataTransfer": transfer})

    def download(self, button: str) -> str:
        """Return the text that a button downloads."""
        with self.page.expect_download() as waiting:
            self.panel.get_by_role("button", name=button).click()
        return str(Path(waiting.value.path()).read_text("utf-8"))

    def check(self, screenshot: Path) -> None:
        """Check errors, external requests, width, font sizes and accessibility; save a screenshot."""
        self.page.screenshot(path=screenshot, full_page=True)
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith((self.address, "blob:", "data:"))] == []
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.page.viewport_size["width"]
        text = "[...document.querySelectorAll('p, li, td, th, dt, code, label, button')].filter(e => e.offsetWidth > 1)"
        assert min(self.page.evaluate(f"{text}.map(e => parseFloat(getComputedStyle(e).fontSize))")) >= 13
        assert self.accessibility_errors() == []

    def accessibility_errors(self) -> list[str]:
        """Return the serious and critical violations that axe reports."""
        self.page.evaluate(AXE)
        violations = self.page.evaluate("axe.run()")["violations"]
        return [
            f"{violation['id']}: {node['html'][:120]}"
            for violation in violations
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]
