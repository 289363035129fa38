"""`RequestError`: an HTTP error with a message of one line, and how other exceptions become one."""

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from vitreous.core.batching import ClosedError, FullError
from vitreous.core.errors import InputError, first_line

RETRY_AFTER = {"Retry-After": "1"}
_LATE = "no answer within the time limit; the work was cancelled"
_CLIENT_CLOSED = 499  # appears only in logs and metrics: nobody receives the response
_log = logging.getLogger("vitreous.serve")


class RequestError(Exception):
    """An error response: status, message for the client, and headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    def response(self) -> JSONResponse:
        """The response to send."""
        return JSONResponse({"error": self.message}, self.status, self.headers)


_CONVERSIONS: dict[type[Exception], Callable[[Any], RequestError]] = {
    RequestError: lambda error: error,
    InputError: lambda error: RequestError(422, first_line(error)),
    FullError: lambda error: RequestError(429, "too many requests are waiting; try again", RETRY_AFTER),
    ClosedError: lambda error: RequestError(503, "the service is shutting down", RETRY_AFTER),
    TimeoutError: lambda error: RequestError(503, _LATE, RETRY_AFTER),
    ClientDisconnect: lambda error: RequestError(_CLIENT_CLOSED, "the client disconnected"),
    HTTPException: lambda error: RequestError(error.status_code, str(error.detail).lower(), error.headers),
}


def to_request_error(error: Exception) -> RequestError:
    """Convert an exception to the error response of the client.

    An exception of any other type is a bug: its type and place are logged, without data of the client.
    """
    for kind, convert in _CONVERSIONS.items():
        if isinstance(error, kind):
            return convert(error)
    frames = traceback.extract_tb(error.__traceback__, -1)
    _log.error("%s in %s", type(error).__name__, f"{frames[0].name}:{frames[0].lineno}" if frames else "?")
    return RequestError(500, "internal error of the service; it has been logged")
