"""Checks before a request reaches its path, and headers and metrics after it.

Plain ASGI: it never reads a body, and records only the path, status and time of a request, and in the access log also
its client, method and size.
"""

import logging
import time
from collections.abc import Collection
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitreous.serve.body import LARGE_BODY
from vitreous.serve.clients import Pool, TokenCheck, client_of
from vitreous.serve.errors import RequestError
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_MAX_PATH = 200  # characters of a path in the access log
access_log = logging.getLogger("vitreous.access")
"""One line per request: time, client, method, path without its query, status, bytes of the body, milliseconds."""


class Middleware:
    """Outermost layer of the service: access control, request limits, security headers and metrics.

    `token` and `hosts` are those of `create_app`; `paths` have their own label in the metrics.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str, hosts: Collection[str], paths: Collection[str]
    ) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths
        self.tokens, self.hosts = TokenCheck(token, limits.wrong_tokens) if token else None, hosts
        self.budget = Pool("too many bytes of requests are in memory", limits.total_bytes, limits.client_share)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, size, method = time.monotonic(), 500, 0, scope["method"]
        path = str(scope["path"])
        if method == "HEAD":  # the headers of a GET; the server omits the body
            scope = {**scope, "method": "GET"}

        async def send_with_headers(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = _extra_headers(scope, path, status)
                encoded = ((name.lower().encode(), value.encode()) for name, value in extra.items())
                message["headers"] = [*message["headers"], *encoded]
            elif method == "HEAD":
                message["body"] = b""
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._check_access(scope, path)
        except RequestError as error:
            await error.response()(scope, receive, send_with_headers)
        else:
            await self._forward(scope, receive, send_with_headers)
        seconds = time.monotonic() - started
        self.metrics.count_request(path if path in self.paths else "other", status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            address, shown = (scope.get("client") or "-")[0], quote(path)[:_MAX_PATH]
            access_log.info("%s %s %s %s %d %d %.1f", now, address, method, shown, status, size, 1000 * seconds)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.budget.claim(client_of(scope.get("client"))) as memory, self.metrics.active.track_inprogress():
            scope.setdefault("state", {})["memory"] = memory
            await self.app(scope, receive, send)

    async def _check_access(self, scope: Scope, path: str) -> None:
        """Raise `RequestError` if host, origin or token forbid the request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1 or any(sign in host for sign in "@/"):
            raise RequestError(403, "host: expected one host name")
        if self.hosts and _host_name(host) not in self.hosts:
            raise RequestError(403, "host: unknown host name; allow it with --name")
        origin = headers.get("origin")
        if origin is not None and scope["method"] != "GET" and origin.partition("://")[2] != host:
            raise RequestError(403, "origin: requests from pages of other sites are not allowed")
        if self.tokens and (path.startswith("/v1/") or path == "/metrics"):
            await self.tokens.check(headers, scope.get("client"))


def _extra_headers(scope: Scope, path: str, status: int) -> dict[str, str]:
    headers = _HEADERS | {"Content-Security-Policy": _DOCS_POLICY if path == "/docs" else _PAGE_POLICY}
    if path.startswith("/v1/"):
        headers["Cache-Control"] = "no-store"
    if status == 408 or (status >= 400 and scope["method"] == "POST" and not _is_short(scope)):
        headers["Connection"] = "close"  # the rest of the body is not read
    return headers


def _host_name(host: str) -> str | None:
    """Return the name in a `Host` header without its port; None if the header is invalid."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 (raises ValueError for an invalid port)
    except ValueError:
        return None
    return parts.hostname


def _is_short(scope: Scope) -> bool:
    """Return whether the declared body is short enough to be read to its end."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return length.isdigit() and int(length) <= LARGE_BODY
