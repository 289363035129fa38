"""The web page: its files, read once, so that nothing else of the disk can be asked for."""

import mimetypes
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Response

INDEX = "index.html"


def mount_page(app: FastAPI) -> None:
    """Serve every file of the page under its own path, and its index at `/`."""
    home = files("vitreous.serve") / "page"
    for path, content in _files(home, "").items():
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        for place in (path, "") if path == INDEX else (path,):
            app.add_api_route(f"/{place}", _sends(content, kind), methods=["GET"], include_in_schema=False)


def _files(folder: Traversable, above: str) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    found: dict[str, bytes] = {}
    for item in folder.iterdir():
        if item.name.startswith("."):
            continue
        found |= _files(item, f"{above}{item.name}/") if item.is_dir() else {above + item.name: item.read_bytes()}
    return found


def _sends(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send
