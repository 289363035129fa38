"""Starting the service: load models, bind the address, and answer until a signal arrives."""

import asyncio
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Collection, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vitreous.core.errors import InputError
from vitreous.serve.app import create_app
from vitreous.serve.clients import Pool, client_of
from vitreous.serve.identifying import Identifier
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.middleware import LOOPBACK
from vitreous.serve.middleware import access_log as log
from vitreous.serve.models import load_models

HEADER_SECONDS = 30.0
"""Time limit for the headers of a request, for the rest of a refused body, and for a client that reads nothing."""
HEADER_BYTES = 65_536
"""Size limit of the headers of a request."""
TOKEN_VARIABLE = "VITREOUS_TOKEN"
_MIN_TOKEN = 8  # characters
_KEEP_ALIVE = 30  # seconds that an idle connection stays open
_OTHER_FILES = 256  # open files of the process besides connections


def serve(
    runs: Sequence[Path],
    powder: bool,
    host: str,
    port: int,
    names: Sequence[str],
    token_file: Path | None,
    device: str,
    limits: Limits,
    *,
    database: Path | None = None,
    open_to_all: bool = False,
    proxies: Sequence[str] = (),
    access_log: bool = False,
) -> None:
    """Serve runs, exported models and, with `powder`, searches for unit cells until a signal arrives.

    Args:
        port: port to listen on; 0 for any free port.
        names: further host names that requests may use, e.g. of a proxy.
        token_file: file with the token that clients must send; None for the environment's token.
        device: device for runs; ONNX models use the CPU.
        database: database of phases to identify; it implies `powder`.
        open_to_all: allow an address that other machines can reach with neither a token nor names.
        proxies: addresses of proxies, which state the address of a client in `X-Forwarded-For`.
        access_log: print a line per request to standard error.
    """
    powder = powder or database is not None
    if not runs and not powder:
        raise InputError("serve: found neither a run nor --powder, expected at least one of them")
    token = read_token(token_file)
    with _listen(host, port) as listener:
        bound = listener.getsockname()[0]
        local = ip_address(bound.partition("%")[0]).is_loopback
        if not (local or token or names or open_to_all):
            raise InputError(
                f"host: found {host}, which other machines can reach; expected a token (--token-file FILE or "
                f"{TOKEN_VARIABLE}), the name of this machine (--name NAME), or --open to let anyone use the service"
            )
        if access_log:
            _start_access_log()
        metrics = Metrics()
        models = load_models(runs, device, limits, metrics)
        indexer = Indexer(limits, metrics) if powder else None
        identifier = None if database is None else Identifier(database, limits, metrics)
        hosts = {*LOOPBACK, bound, *map(str.lower, names)} if local or names else ()
        connections = Pool("", _limit_connections(limits.connections), limits.client_share)
        config = uvicorn.Config(
            create_app(models, indexer, limits, metrics, token, hosts, identifier=identifier),
            http=partial(LimitedProtocol, connections, proxies),  # type: ignore[arg-type]
            lifespan="on",
            ws="none",
            access_log=False,  # the middleware has its own
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            log_level="warning",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(max(limits.seconds, limits.search_seconds * powder)) + 5,
        )
        names_served = [*models, *["powder"] * powder, *([] if database is None else [database.name])]
        message = f"vitreous: serving {', '.join(names_served)} at {_address(listener)}"
        if not local and not token:
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
    """Closes connections of clients that have too many, send no headers in time or too many, or read no answers."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers, _received, _counted, _message_ended = True, 0, False, False

    def __init__(self, pool: Pool, proxies: Collection[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pool, self._proxies = pool, proxies

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._owner = client_of(self.client)
        if self._owner not in self._proxies:
            if not self._pool.allows(self._owner, 1):
                transport.abort()
                return
            self._pool.add(self._owner, 1)
            self._counted = True
        self._start_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        if self._counted:
            self._pool.add(self._owner, -1)
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
        self._in_headers = self._message_ended = False
        self._cancel_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._message_ended = True
        self._cancel_deadline()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._message_ended and not self._in_headers:
            self._start_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_deadline()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_deadline()

    def _start_headers(self) -> None:
        self._in_headers, self._received = True, 0
        self._start_deadline()

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _start_access_log() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _limit_connections(wanted: int) -> int:
    """Return the number of connections that the open files of the process allow, after raising their limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(wanted, soft - _OTHER_FILES))
    return wanted


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
