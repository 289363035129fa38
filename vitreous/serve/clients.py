"""What one client may use: a part of the requests, connections and bytes of the service, and a few wrong tokens."""

import asyncio
import hmac
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Any

from vitreous.serve.errors import RETRY_AFTER, RequestError

_MAX_CLIENTS = 10_000  # that are remembered
_MAX_TOKEN_WAIT = 3.0  # seconds that the check of a token may be delayed
_BEARER = {"WWW-Authenticate": "Bearer"}


def client_of(address: Any) -> str:
    """Return the client of an address and port: its IPv4 address, or its IPv6 network of 64 bits."""
    text = address[0] if address else ""
    try:
        host = ip_address(text.partition("%")[0])
    except ValueError:
        return str(text)
    if isinstance(host, IPv6Address):
        return str(host.ipv4_mapped or IPv6Address(int(host) >> 64 << 64))
    return str(host)


@dataclass
class Pool:
    """An amount of something that all clients share; `message` says that too much of it is used.

    Together, the claims of a client may use at most `share` of what the others leave, so some is left for a client that
    comes later. A client's only claim may use all that is left.
    """

    message: str
    most: int
    share: float
    used: int = 0
    _by_client: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def claim(self, client: str, amount: int = 0) -> "Iterator[Claim]":
        """Use an amount, to which the claim can add, until the end of the `with` block."""
        claim = Claim(self, client)
        try:
            claim.add(amount)
            yield claim
        finally:
            claim.add(-claim.used)

    def allows(self, client: str, amount: int, own: int = 0) -> bool:
        """Return whether a client may use more for a claim that uses `own` already."""
        used = self._by_client[client]
        left = self.most - self.used + used
        return used + amount <= (left if used == own else self.share * left)

    def add(self, client: str, amount: int) -> None:
        """Count an amount that a client uses, or no longer uses if it is negative."""
        self.used += amount
        self._by_client[client] += amount
        if not self._by_client[client]:
            del self._by_client[client]


@dataclass
class Claim:
    """The part of a pool that one request uses."""

    pool: Pool
    client: str
    used: int = 0

    def add(self, amount: int) -> None:
        """Use more; `RequestError` if the pool does not allow it."""
        if amount > 0 and not self.pool.allows(self.client, amount, self.used):
            raise RequestError(429, f"{self.pool.message.format(self.pool.used)}; try again", RETRY_AFTER)
        self.pool.add(self.client, amount)
        self.used += amount


class TokenCheck:
    """Compares tokens. After some wrong ones, the tokens of a client are compared one a second, and few of them wait.

    A right token waits its turn, too: otherwise guesses could be told apart at any rate. A connection that has sent the
    right token does not wait.
    """

    def __init__(self, token: str, wrong_tokens: int) -> None:
        self._digest, self._burst = sha256(token.encode()).digest(), wrong_tokens
        self._debts: dict[str, float] = {}  # time at which the wrong tokens of a client are forgotten; one a second
        self._connections: dict[Any, None] = {}  # that have sent the right token, oldest first

    async def check(self, headers: Mapping[str, str], address: Any) -> None:
        """Raise `RequestError` unless the headers have the right token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        wrong = RequestError(401, "token: missing or wrong; expected Authorization: Bearer TOKEN", _BEARER)
        if scheme.lower() != "bearer" or not token.strip():
            raise wrong
        client, now, connection = client_of(address), time.monotonic(), tuple(address or ())
        trusted = connection in self._connections
        debt = max(self._debts.get(client, 0.0), now)
        delay = 0.0 if trusted else debt - now + 1 - self._burst
        limited = RequestError(
            429, "token: too many wrong tokens; try again later", {"Retry-After": str(max(1, math.ceil(delay)))}
        )
        if delay > _MAX_TOKEN_WAIT:
            raise limited
        if len(self._debts) > _MAX_CLIENTS:
            self._debts = {name: time for name, time in self._debts.items() if time > now}
        self._debts[client] = debt + 1
        if delay > 0:
            await asyncio.sleep(delay)
        if not hmac.compare_digest(sha256(token.strip().encode()).digest(), self._digest):
            self._connections.pop(connection, None)
            raise limited if delay > 0 else wrong
        self._debts[client] -= 1
        self._connections[connection] = None
        if len(self._connections) > _MAX_CLIENTS:
            del self._connections[next(iter(self._connections))]
