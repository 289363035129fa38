"""`vitreous serve`: answer over HTTP."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


def serve(
    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="[RUN...]")] = (),
    *,
    powder: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: tuple[str, ...] = (),
    token_file: Path | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    batch: int | None = None,
    wait: float | None = None,
    queue: int | None = None,
    requests: int | None = None,
    body: int | None = None,
    points: int | None = None,
    pixels: int | None = None,
    rows: int | None = None,
    seconds: float | None = None,
    searches: int | None = None,
    search_queue: int | None = None,
    search_seconds: float | None = None,
    memory: int | None = None,
) -> None:
    """Answer over HTTP, with a page to try it on: predictions, what they rest on, and unit cells of powder patterns.

    vitreous serve runs/mnist assay.onnx --powder

    Then open http://127.0.0.1:8000. It listens on this machine alone unless told. Limits that are not given: see
    docs/serve.md, or /v1/models of a service that runs.

    Args:
        runs: folders of runs, and files that vitreous export has made.
        powder: find unit cells, too.
        host: address to listen at.
        port: to listen at; 0 for any that is free.
        name: other names of this machine under which it may be called, e.g. by a proxy before it.
        token_file: a file with the token that clients must send; VITREOUS_TOKEN is one, too.
        device: where runs compute.
        batch: samples that a model computes together.
        wait: milliseconds that a sample waits for others.
        queue: samples that may wait for a model.
        requests: requests that are worked on at a time.
        body: bytes of a request.
        points: of a pattern or a spectrum.
        pixels: of an image.
        rows: samples of a request.
        seconds: that an answer may take.
        searches: processes that search for cells.
        search_queue: searches that may wait.
        search_seconds: that a search may take.
        memory: megabytes of a process that searches or reads files.
    """
    from vitreous.core.extras import load_extra

    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        load_extra(module, "serve")
    from vitreous.serve.limits import Limits
    from vitreous.serve.server import serve as start

    given = {
        "batch": batch, "wait": wait, "queue": queue, "requests": requests, "body": body, "points": points,
        "pixels": pixels, "rows": rows, "seconds": seconds, "searches": searches, "search_queue": search_queue,
        "search_seconds": search_seconds, "memory": memory,
    }  # fmt: skip
    limits = Limits(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    start(runs, powder, host, port, name, token_file, device, limits)
