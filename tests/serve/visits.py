"""A service as its visitors meet it: a process of its own, and a browser that looks at it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
PHONE, DESK = 400, 1280


@contextlib.contextmanager
def running(words: Sequence[str], **environment: str) -> Iterator[str]:
    """The address of a service, for as long as it is needed."""
    command = [sys.executable, "-m", "vitreous", "serve", *words, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | environment
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait(30)


class Visit:
    """A page as a visitor has it, and everything that went wrong on the way."""

    def __init__(self, browser: Any, address: str, flow: str = "", width: int = DESK, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(15_000)
        self.page, self.flow, self.address = self.context.new_page(), flow, address
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"{address}/#{flow}")

    @property
    def panel(self) -> Any:
        """What the visitor has before them."""
        return self.page.locator(f"#{self.flow}")

    def answer_with(self, path: str, content: str) -> None:
        """An answer that the service gave before, given again."""
        self.page.route(f"**/{path}", lambda route: route.fulfill(body=content, content_type="application/json"))

    def draw(self, *places: tuple[float, float]) -> None:
        """A stroke on the slate, in units of its side."""
        box = self.page.locator(".slate").bounding_box()
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        for point in points[1:]:
            self.page.mouse.move(*point, steps=5)
        self.page.mouse.up()

    def drop(self, name: str, content: bytes) -> None:
        """A file, dropped on the panel."""
        carried = self.page.evaluate_handle(
            "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d; }",
            [name, content.decode()],
        )
        for event in ("dragenter", "dragover", "drop"):
            self.panel.dispatch_event(event, {"dataTransfer": carried})

    def saved(self, button: str) -> str:
        """What a button gives to keep."""
        with self.page.expect_download() as waiting:
            self.panel.get_by_role("button", name=button).click()
        return str(Path(waiting.value.path()).read_text("utf-8"))

    def check(self, picture: Path) -> None:
        """Nothing failed, is too wide or too small, or shuts anyone out; and a picture for people to see."""
        self.page.screenshot(path=picture, full_page=True)
        assert self.faults == []
        assert [url for url in self.asked if not url.startswith((self.address, "blob:", "data:"))] == []
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.page.viewport_size["width"]
        text = "[...document.querySelectorAll('p, li, td, th, dt, code, label, button')].filter(e => e.offsetWidth > 1)"
        assert min(self.page.evaluate(f"{text}.map(e => parseFloat(getComputedStyle(e).fontSize))")) >= 13
        assert self.violations() == []

    def violations(self) -> list[str]:
        """What axe finds that is serious or worse."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run()")["violations"]
        return [
            f"{each['id']}: {node['html'][:120]}" for each in found if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]  # fmt: skip
