"""`RefusedError`: a request that gets no answer, and why, in one line."""

import json
from collections.abc import Mapping

AGAIN = {"Retry-After": "1"}


class RefusedError(Exception):
    """A status, a reason for the client, and headers."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})

    @property
    def content(self) -> bytes:
        """What the client is sent."""
        return json.dumps({"error": self.reason}, ensure_ascii=False, separators=(",", ":")).encode()
