"""A connection outside its requests: bounded in how long it is silent and in how long a request's head may be."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SILENT = 30.0
"""Seconds until the head of a request must have come."""
HEAD = 65_536
"""Bytes of such a head."""


class Connection(HttpToolsProtocol):
    """Ends where a client says nothing, or does not come to the point."""

    _deadline: asyncio.TimerHandle | None = None
    _inside, _read = True, 0  # whether in a head, and how much of it has come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._read += len(data)
        super().data_received(data)
        if self._inside and self._read > HEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        self._inside = False
        self._forget()
        super().on_headers_complete()

    def _expect(self) -> None:
        self._forget()
        self._inside, self._read = True, 0
        self._deadline = self.loop.call_later(SILENT, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
