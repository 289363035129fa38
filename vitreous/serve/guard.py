"""Before a request reaches its path: who may ask, from where, and how many at a time; after it: headers and counts.

Plain ASGI. It never reads a body, and writes nothing about a request but its path's pattern, status and time.
"""

import hmac
import time
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.refused import AGAIN, RefusedError
from vitreous.serve.upload import LARGE, Budget, Share

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REFERENCE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """The outermost layer of the service.

    Args:
        app: what it guards.
        limits: of which it keeps the number of requests and their bytes.
        metrics: told of every answer.
        token: that clients must send; empty for none.
        hosts: names under which the service may be called; none for any.
        paths: those that metrics tell apart.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str, hosts: Collection[str], paths: Collection[str]
    ) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths
        self.token, self.hosts = token.encode(), hosts
        self.budget, self.active = Budget(limits.held), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500
        path = str(scope["path"])
        security = _REFERENCE if path == "/docs" else _PAGE

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                more = _HEADERS | {"Content-Security-Policy": security}
                if path.startswith("/v1/"):
                    more["Cache-Control"] = "no-store"
                if status >= 400 and scope["method"] == "POST" and not _is_short(scope):
                    more["Connection"] = "close"  # what is not read of the body is not waited for
                message["headers"] = [*message["headers"], *((k.lower().encode(), v.encode()) for k, v in more.items())]
            await send(message)

        try:
            self._admit(scope, path)
        except RefusedError as fault:
            await refuse(fault, answer)
        else:
            share = scope.setdefault("state", {})["share"] = Share(self.budget)
            self.active += 1
            self.metrics.active.set(self.active)
            try:
                await self.app(scope, receive, answer)
            finally:
                share.give_back()
                self.active -= 1
                self.metrics.active.set(self.active)
        self.metrics.request(path if path in self.paths else "other", status, time.monotonic() - started)

    def _admit(self, scope: Scope, path: str) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1 or any(sign in host for sign in "@/"):
            raise RefusedError(403, "host: expected one name")
        if self.hosts and (urlsplit(f"//{host}").hostname if _is_host(host) else None) not in self.hosts:
            raise RefusedError(403, "host: the service is not called so; it listens on this machine alone")
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and origin.partition("://")[2] != host:
            raise RefusedError(403, "origin: pages of other sites may not ask")
        if self.token and _needs_token(path) and not self._knows(headers):
            raise RefusedError(401, "token: missing or wrong; expected Authorization: Bearer TOKEN", _BEARER)
        if scope["method"] == "POST" and self.active >= self.limits.requests:
            raise RefusedError(429, f"{self.active} requests are being worked on already", AGAIN)

    def _knows(self, headers: Mapping[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token)


_BEARER = {"WWW-Authenticate": "Bearer"}


def _needs_token(path: str) -> bool:
    return path.startswith("/v1/") or path == "/metrics"


def _is_host(host: str) -> bool:
    try:
        urlsplit(f"//{host}").port  # noqa: B018
    except ValueError:
        return False
    return True


def _is_short(scope: Scope) -> bool:
    """Whether a request says that its body is one that may well be read to its end."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return length.isdigit() and int(length) <= LARGE


async def refuse(fault: RefusedError, send: Send) -> None:
    """Send a refusal."""
    size = str(len(fault.content)).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", size)]
    headers += [(name.lower().encode(), value.encode()) for name, value in fault.headers.items()]
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": fault.content})
