"""Checks before a request reaches its path, and headers and metrics after it.

Plain ASGI: it never reads a body, and records only the path, status and time of a request.
"""

import hmac
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitreous.serve.body import LARGE_BODY, ByteBudget, ByteReservation
from vitreous.serve.errors import RETRY_AFTER, RequestError
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
_BEARER = {"WWW-Authenticate": "Bearer"}


class Middleware:
    """Outermost layer of the service: access control, request limits, security headers and metrics.

    `token` and `hosts` are those of `create_app`; `paths` have their own label in the metrics.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str, hosts: Collection[str], paths: Collection[str]
    ) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths
        self.token, self.hosts = token.encode(), hosts
        self.budget, self.active = ByteBudget(limits.total_bytes), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500
        path = str(scope["path"])

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = _extra_headers(scope, path, status)
                encoded = ((name.lower().encode(), value.encode()) for name, value in extra.items())
                message["headers"] = [*message["headers"], *encoded]
            await send(message)

        try:
            self._check_access(scope, path)
        except RequestError as error:
            await error.response()(scope, receive, send_with_headers)
        else:
            await self._forward(scope, receive, send_with_headers)
        self.metrics.count_request(path if path in self.paths else "other", status, time.monotonic() - started)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        reservation = scope.setdefault("state", {})["reservation"] = ByteReservation(self.budget)
        self.active += 1
        try:
            with self.metrics.active.track_inprogress():
                await self.app(scope, receive, send)
        finally:
            reservation.release()
            self.active -= 1

    def _check_access(self, scope: Scope, path: str) -> None:
        """Raise `RequestError` if host, origin, token or the number of requests forbid the request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1 or any(sign in host for sign in "@/"):
            raise RequestError(403, "host: expected one host name")
        if self.hosts and _host_name(host) not in self.hosts:
            raise RequestError(403, "host: unknown host name; allow it with --name")
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and origin.partition("://")[2] != host:
            raise RequestError(403, "origin: requests from pages of other sites are not allowed")
        needs_token = self.token and (path.startswith("/v1/") or path == "/metrics")
        if needs_token and not self._has_token(headers):
            raise RequestError(401, "token: missing or wrong; expected Authorization: Bearer TOKEN", _BEARER)
        if scope["method"] == "POST" and self.active >= self.limits.requests:
            raise RequestError(429, f"{self.active} requests are in progress; try again", RETRY_AFTER)

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token)


def _extra_headers(scope: Scope, path: str, status: int) -> dict[str, str]:
    headers = _HEADERS | {"Content-Security-Policy": _DOCS_POLICY if path == "/docs" else _PAGE_POLICY}
    if path.startswith("/v1/"):
        headers["Cache-Control"] = "no-store"
    if status >= 400 and scope["method"] == "POST" and not _is_short(scope):
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
