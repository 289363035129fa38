"""Sections of text, figures and tables as one HTML file that needs nothing else: no network, no script."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_DPI = 160
_LARGE = 200_000  # bytes from which on a figure is of photographs, and need not be exact
_WIDE = 6.5  # inches from which on a figure is given the whole width, and scrolls on a telephone


@dataclass(frozen=True)
class Table:
    """Rows of text under one line of headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Args:
        title: also its place in the table of contents.
        text: paragraphs, with an empty line between them; what stands in backticks is set as code.
        figures: each with its caption, which is also what a screen reader says.
        tables, code: below the figures.
    """

    title: str
    text: str = ""
    figures: "Sequence[tuple[str, Figure]]" = ()
    tables: Sequence[Table] = ()
    code: str = ""


def page(title: str, lead: str, numbers: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        title: of the window and above all.
        lead: a sentence below it.
        numbers: the few that matter, each with its name first.
        sections: in their order.
    """
    names = [section.title for section in sections]
    contents = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in names)
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers)
    style = (files("vitreous") / "page.css").read_text("utf-8")
    # Whatever a class or a column is called, the page can load and run nothing.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>{_paragraphs(lead)}<dl>{tiles}</dl></header>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
<main>
{"".join(map(_section, sections))}</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    figures = "".join(_figure(caption, figure) for caption, figure in section.figures)
    parts = [
        f"<h2>{escape(section.title)}</h2>",
        _paragraphs(section.text),
        f'<div class="figures">{figures}</div>' if figures else "",
        f'<div class="tables">{"".join(map(_table, section.tables))}</div>' if section.tables else "",
        f"<pre><code>{escape(section.code)}</code></pre>" if section.code else "",
    ]
    return f'<section id="{_anchor(section.title)}">\n' + "\n".join(filter(None, parts)) + "\n</section>\n"


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _paragraphs(text: str) -> str:
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return "".join(f"<p>{part}</p>" for part in marked.split("\n\n") if part.strip())


def _figure(caption: str, figure: "Figure") -> str:
    from PIL.Image import open as open_image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, pil_kwargs={"compress_level": 1})
    with open_image(drawn) as pixels:
        width, height = pixels.size
        # Lossless WebP keeps the edges of lines and letters, in two thirds of what PNG takes.
        image = _webp(pixels, lossless=True, method=4)
        if len(image) > _LARGE:
            image = _webp(pixels, quality=80)
    wide = ' class="wide"' if figure.get_figwidth() > _WIDE else ""
    source = f"data:image/webp;base64,{base64.b64encode(image).decode()}"
    picture = f'<img src="{source}" width="{width}" height="{height}" alt="{escape(caption)}">'
    return f"<figure{wide}>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _webp(picture: "Image", **how: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, "webp", **how)
    return content.getvalue()


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.headings)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def percent(share: float, digits: int = 1) -> str:
    """A share as it is printed."""
    return f"{100 * share:.{digits}f} %"
