"""Files of the web page. They are read once at start, so no other file on disk can be requested."""

import mimetypes
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Response

PAGE = files("vitreous.serve") / "page"
INDEX = "index.html"


def mount_page(app: FastAPI, folder: Traversable) -> None:
    """Serve every file of a folder under its relative path, and its index at `/`."""
    for path, content in _read_files(folder, "").items():
        media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
        for url in (path, "") if path == INDEX else (path,):
            app.add_api_route(f"/{url}", _endpoint(content, media_type), methods=["GET"], include_in_schema=False)


def _read_files(folder: Traversable, parent: str) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    contents: dict[str, bytes] = {}
    for item in folder.iterdir():
        path = parent + item.name
        if not item.name.startswith("."):
            contents |= _read_files(item, f"{path}/") if item.is_dir() else {path: item.read_bytes()}
    return contents


def _endpoint(content: bytes, media_type: str) -> Callable[[], Awaitable[Response]]:
    async def send_file() -> Response:
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return send_file
