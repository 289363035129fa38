"""What the command serve does, apart from its flags: load, bind, answer until told to stop."""

import gc
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from vitreous.errors import InputError
from vitreous.serve.app import create_app
from vitreous.serve.connection import Connection
from vitreous.serve.guard import LOOPBACK
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.powder import Powder
from vitreous.serve.served import serve_models

TOKEN = "VITREOUS_TOKEN"
_LEAST = 8  # letters of a token
_IDLE = 30  # seconds that a connection may be silent after an answer
_CONNECTIONS = 8  # for each request that is worked on at a time


def serve(
    runs: Sequence[Path], powder: bool, host: str, port: int, names: Sequence[str], token_file: Path | None,
    device: str, limits: Limits,
) -> None:  # fmt: skip
    """Serve models, and with `powder` searches for cells, until a signal comes."""
    if not runs and not powder:
        raise InputError("serve: found neither a run nor --powder, expected one of them or both")
    token = read_token(token_file)
    listening = _listen(host, port)
    with listening:
        metrics = Metrics()
        models = serve_models(runs, device, limits, metrics)
        app = create_app(
            models, Powder(limits, metrics) if powder else None, limits, metrics, token,
            hosts={*LOOPBACK, *map(str.lower, names)} if host in LOOPBACK or names else (),
        )  # fmt: skip
        # No log of requests: their addresses and paths are the clients' own.
        config = uvicorn.Config(
            app, http=Connection, lifespan="on", ws="none", access_log=False, log_level="warning",
            server_header=False, timeout_keep_alive=_IDLE, limit_concurrency=_CONNECTIONS * limits.requests,
            timeout_graceful_shutdown=int(max(limits.seconds, limits.search_seconds * powder)) + 5,
        )  # fmt: skip
        what = ", ".join([*models, *["powder"] * powder])
        words = f"vitreous: serving {what} at {_address(listening)}"
        if host not in LOOPBACK and not token:
            words += f"\nvitreous: anyone who can reach {host} may ask; a token would change that"
        _Announced(config, words).run(sockets=[listening])


class _Announced(uvicorn.Server):
    """Says where it is once it answers."""

    def __init__(self, config: uvicorn.Config, words: str) -> None:
        super().__init__(config)
        self._words = words

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is loaded by now stays: to look for garbage in it takes hundreds of milliseconds each time
        print(self._words, flush=True)


def read_token(path: Path | None) -> str:
    """The token that clients must send: from a file, or from the environment; empty for none."""
    if path is None:
        token = os.environ.get(TOKEN, "")
    else:
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            raise InputError(f"{path}: cannot be read ({getattr(fault, 'strerror', None) or 'not text'})") from None
        if not token:
            raise InputError(f"{path}: is empty, expected a token")
    if token and (len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token):
        raise InputError(f"token: expected {_LEAST} letters and digits or more")
    return token


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise InputError(f"host, port: cannot listen at {host}:{port} ({reason})") from None


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
