"""`RequestError`: an HTTP error with a message of one line, and how other exceptions become one."""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Send

from vitreous.core.batching import ClosedError, FullError
from vitreous.core.errors import InputError, first_line

RETRY_AFTER = {"Retry-After": "1"}
_log = logging.getLogger("vitreous.serve")


class RequestError(Exception):
    """An error response: status, message for the client, and headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    @property
    def content(self) -> bytes:
        """The response body."""
        return json.dumps({"error": self.message}, ensure_ascii=False, separators=(",", ":")).encode()


_CONVERSIONS: dict[type[Exception], Callable[[Any], RequestError]] = {
    RequestError: lambda error: error,
    InputError: lambda error: RequestError(422, first_line(error)),
    FullError: lambda error: RequestError(429, "too many requests are waiting; try again", RETRY_AFTER),
    ClosedError: lambda error: RequestError(503, "the service is shutting down", RETRY_AFTER),
    TimeoutError: lambda error: RequestError(
        503, "no answer within the time limit; the work was cancelled", RETRY_AFTER
    ),
    HTTPException: lambda error: RequestError(error.status_code, str(error.detail).lower(), error.headers),
}


def to_request_error(error: Exception) -> RequestError:
    """Convert an exception to the error response of the client.

    An exception of any other type is a bug: its type and place are logged, without data of the client.
    """
    for kind, convert in _CONVERSIONS.items():
        if isinstance(error, kind):
            return convert(error)
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    place = f"{innermost.tb_frame.f_code.co_name}:{innermost.tb_lineno}" if innermost else "?"
    _log.error("%s in %s", type(error).__name__, place)
    return RequestError(500, "internal error of the service; it has been logged")


async def send_error(error: RequestError, send: Send) -> None:
    """Send an error response through plain ASGI."""
    size = str(len(error.content)).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", size)]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": error.content})
