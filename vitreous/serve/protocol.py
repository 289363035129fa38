"""HTTP protocol with limits before a request is complete: time until its headers, and their size."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 30.0
"""Time limit for the headers of a request."""
HEADER_BYTES = 65_536
"""Size limit of the headers of a request."""


class LimitedProtocol(HttpToolsProtocol):
    """Closes connections whose client sends no headers in time, or too many."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers, _received = True, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        if self._in_headers and self._received > HEADER_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_headers()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._cancel_deadline()
        super().on_headers_complete()

    def _start_headers(self) -> None:
        self._cancel_deadline()
        self._in_headers, self._received = True, 0
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
