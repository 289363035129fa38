"""Sections of text, figures and tables as one self-contained HTML file, without network access or scripts."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from vitreous.insight.style import Figure

_DPI = 160
_LARGE = 200_000  # bytes above which a figure is stored with lossy compression
_WIDE = 6.5  # inches above which a figure takes the whole width and scrolls on a phone


@dataclass(frozen=True)
class Table:
    """A table: headings, rows of text and a caption."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A section of a page: text, then figures, tables and code.

    Args:
        text: paragraphs, separated by empty lines; text in backticks is set as code.
        figures: with captions, which are also the alternative texts.
    """

    title: str
    text: str = ""
    figures: Sequence[tuple[str, Figure]] = ()
    tables: Sequence[Table] = ()
    code: str = ""


def render_page(title: str, lead: str, numbers: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The HTML of a page: its title, a lead sentence, names and values of the most important numbers, and sections."""
    names = [section.title for section in sections]
    contents = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in names)
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers)
    style = (files("vitreous.insight") / "html_page.css").read_text("utf-8")
    # The page cannot load or run anything, whatever the names of classes and columns contain.
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
        f'<div class="tables">{"".join(map(render_table, section.tables))}</div>' if section.tables else "",
        f"<pre><code>{escape(section.code)}</code></pre>" if section.code else "",
    ]
    return f'<section id="{_anchor(section.title)}">\n' + "\n".join(filter(None, parts)) + "\n</section>\n"


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _paragraphs(text: str) -> str:
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return "".join(f"<p>{part}</p>" for part in marked.split("\n\n") if part.strip())


def _figure(caption: str, figure: Figure) -> str:
    from PIL.Image import open as open_image

    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=_DPI, pil_kwargs={"compress_level": 1})
    with open_image(png) as pixels:
        width, height = pixels.size
        # Lossless WebP keeps lines and letters sharp and needs two thirds of the size of PNG.
        for options in ({"lossless": True, "method": 4}, {"quality": 80}):
            content = io.BytesIO()
            pixels.save(content, "webp", **options)
            if content.tell() <= _LARGE:
                break
    wide = ' class="wide"' if figure.get_figwidth() > _WIDE else ""
    source = f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}"
    picture = f'<img src="{source}" width="{width}" height="{height}" alt="{escape(caption)}">'
    return f"<figure{wide}>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def render_table(table: Table) -> str:
    """The HTML of one table."""
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.headings)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def percent(share: float, digits: int = 1) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:.{digits}f} %"
