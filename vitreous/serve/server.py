"""Starting the service: load models, bind the address, and answer until a signal arrives."""

import asyncio
import gc
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vitreous.core.errors import InputError
from vitreous.serve.app import create_app
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.middleware import LOOPBACK
from vitreous.serve.models import load_models

HEADER_SECONDS = 30.0
"""Time limit for the headers of a request."""
HEADER_BYTES = 65_536
"""Size limit of the headers of a request."""
TOKEN_VARIABLE = "VITREOUS_TOKEN"
_MIN_TOKEN = 8  # characters
_KEEP_ALIVE = 30  # seconds that an idle connection stays open
_CONNECTIONS_PER_REQUEST = 8  # open connections per request that may be in progress


def serve(
    runs: Sequence[Path],
    powder: bool,
    host: str,
    port: int,
    names: Sequence[str],
    token_file: Path | None,
    device: str,
    limits: Limits,
) -> None:
    """Serve runs, exported models and, with `powder`, searches for unit cells until a signal arrives.

    Args:
        port: port to listen on; 0 for any free port.
        names: further host names that requests may use, e.g. of a proxy.
        token_file: file with the token that clients must send; None for the environment's token.
        device: device for runs; ONNX models use the CPU.
    """
    if not runs and not powder:
        raise InputError("serve: found neither a run nor --powder, expected at least one of them")
    token = read_token(token_file)
    with _listen(host, port) as listener:
        metrics = Metrics()
        models = load_models(runs, device, limits, metrics)
        indexer = Indexer(limits, metrics) if powder else None
        hosts = {*LOOPBACK, *map(str.lower, names)} if host in LOOPBACK or names else ()
        config = uvicorn.Config(
            create_app(models, indexer, limits, metrics, token, hosts),
            http=LimitedProtocol,
            lifespan="on",
            ws="none",
            access_log=False,  # addresses and paths are data of the clients
            log_level="warning",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            limit_concurrency=_CONNECTIONS_PER_REQUEST * limits.requests,
            timeout_graceful_shutdown=int(max(limits.seconds, limits.search_seconds * powder)) + 5,
        )
        message = f"vitreous: serving {', '.join([*models, *['powder'] * powder])} at {_address(listener)}"
        if host not in LOOPBACK and not token:
            message += f"\nvitreous: anyone who can reach {host} can use the service; a token restricts access"
        _Server(config, message).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Prints a message once the service is ready."""

    def __init__(self, config: uvicorn.Config, message: str) -> None:
        super().__init__(config)
        self._message = message

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # collecting the loaded modules again and again would take hundreds of milliseconds each time
        print(self._message, flush=True)


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


def read_token(path: Path | None) -> str:
    """Return the token from a file, or from the environment variable; empty for none."""
    if path is None:
        token = os.environ.get(TOKEN_VARIABLE, "")
    else:
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'not text'})") from None
        if not token:
            raise InputError(f"{path}: is empty, expected a token")
    if token and (len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise InputError(f"token: expected at least {_MIN_TOKEN} ASCII characters without spaces")
    return token


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"host, port: cannot listen at {host}:{port} ({reason})") from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
