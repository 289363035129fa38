"""`vitreous serve`: answer over HTTP."""

from dataclasses import asdict, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from tyro.conf import Positional, arg

from vitreous.serve.limits import Limits

_LimitOptions = make_dataclass(
    "LimitOptions", [(name, kind | None, None) for name, kind in get_type_hints(Limits).items()]
)
_LimitOptions.__doc__ = Limits.__doc__


def serve(
    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="[RUN...]")] = (),
    *,
    powder: bool = False,
    database: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: tuple[str, ...] = (),
    token_file: Path | None = None,
    open: bool = False,
    proxy: tuple[str, ...] = (),
    access_log: bool = False,
    device: Literal["cpu", "cuda"] = "cpu",
    limits: Annotated[Any, arg(name="", constructor=_LimitOptions)] = _LimitOptions(),  # noqa: B008
) -> None:
    """Answer over HTTP, with a page to try it on: predictions, what they rest on, and unit cells of powder patterns.

    vitreous serve runs/mnist assay.onnx --powder

    Then open http://127.0.0.1:8000. It listens on this machine alone unless told. Limits that are not given: see
    docs/serve.md, or /v1/models of a service that runs.

    Args:
        runs: folders of runs, and files that vitreous export has made.
        powder: find unit cells, too.
        database: identify phases with this file of vitreous powder database, and find unit cells, too.
        host: address to listen at.
        port: to listen at; 0 for any that is free.
        name: other names of this machine under which it may be called, e.g. by a proxy before it.
        token_file: a file with the token that clients must send; VITREOUS_TOKEN is one, too.
        open: listen beyond this machine with neither a token nor a name: anyone may use the service.
        proxy: address of a proxy before it, which states its clients in X-Forwarded-For.
        access_log: print a line per request: time, client, method, path, status, bytes, milliseconds.
        device: where runs compute.
    """
    from vitreous.core.extras import load_extra

    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        load_extra(module, "serve")
    from vitreous.serve.server import serve as start

    chosen = {name: value for name, value in asdict(limits).items() if value is not None}
    more: dict[str, Any] = {"database": database, "open_to_all": open, "proxies": proxy, "access_log": access_log}
    start(runs, powder, host, port, name, token_file, device, Limits(**chosen), **more)
