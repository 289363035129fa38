"""Mutated files and requests: how many are answered, how many refused in one line, and how many end uncleanly.

    python -m benchmarks.fuzz                            # 10,000 files and 10,000 requests, about half an hour
    python -m benchmarks.fuzz --files 2000 --requests 0

Files of every format that is read (powder patterns, spectra, images, runs, exported models) are mutated and read in a
process of their own. Requests go to a service on this machine. Unclean ends are other exceptions than `InputError`,
messages of several lines, NaN in an answer, a process that dies or takes more than a minute, and HTTP answers of 500
and above, except 503 of a service that is full. The exit code is 1 if there is one.
"""

import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import tyro
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.serve_load import service
from tests.mutations import MUTATIONS, mutate_uploads, send_upload, valid_uploads
from tests.powder.files.contents import FORMATS
from tests.spectra import spectra_file
from vitreous.cli import main as vitreous

SECONDS = 60.0
OUTCOMES = ("answered", "refused", "unclean")
HOSTILE = (b"{", b"[" * 50_000, b'{"x": NaN}', b'{"x": 1e999}', b"null", b"\xff\xfe", b'{"x": [[1, "a"]]}', b"[]" * 9)


def make_models(folder: Path) -> None:
    """A run of spectra, a run of digits, and the export of each."""
    spectra = spectra_file(folder / "spectra.csv", rows=80, points=24)
    settings = ["--steps", "20", "--batch", "16", "--device", "cpu"]
    vitreous(["train", str(spectra), "--target", "height:mm", "--out", str(folder / "run"), *settings])
    vitreous(["train", "digits", "--out", str(folder / "vit"), *settings])
    for name in ("run", "vit"):
        for suffix, form in ((".onnx", "onnx"), (".safetensors", "torch")):
            vitreous(["export", str(folder / name), "--out", str(folder / f"{name}{suffix}"), "--format", form])


def seed_files(folder: Path) -> list[tuple[str, str, bytes]]:
    """Kind, name and content of valid files."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 24)).cumsum(1)
    table = pd.DataFrame(x, columns=[f"{500 + 2 * i}" for i in range(24)]).assign(height=x[:, 7])
    picture = Image.fromarray(rng.integers(0, 255, (12, 9), dtype=np.uint8))
    seeds = [("pattern", f"a{suffix}", content()) for suffix, content in FORMATS.values()]
    writers: dict[str, Callable[[Any], Any]] = {
        "a.csv": lambda file: table.to_csv(file, index=False),
        "a.parquet": table.to_parquet,
        "a.npz": lambda file: np.savez(file, x=x, y=x[:, 7]),
        "b.npz": lambda file: np.savez_compressed(file, train_x=x, train_y=x[:, 7], test_x=x, test_y=x[:, 3]),
        "a.npy": lambda file: np.save(file, x),
        "a.h5": lambda file: _write_hdf5(file, x),
    }
    images = {f"a.{form}": form for form in ("png", "jpeg", "bmp", "tiff")}
    for name in (*writers, *images):
        content = io.BytesIO()
        writers[name](content) if name in writers else picture.save(content, images[name])
        seeds.append(("spectra" if name in writers else "image", name, content.getvalue()))
    for path in sorted((folder / "run").glob("*.*")):
        seeds.append(("run", path.name, path.read_bytes()))
    seeds += [("export", path.name, path.read_bytes()) for path in sorted(folder.glob("*.*")) if path.suffix != ".csv"]
    return seeds


def _write_hdf5(file: io.BytesIO, x: Any) -> None:
    import h5py

    with h5py.File(file, "w") as target:
        target["x"], target["y"] = x, x[:, 7]
        target["x"].attrs["units"] = "1"


def mutated_files(folder: Path, count: int) -> Iterator[tuple[str, str, str, bytes]]:
    """Kind, mutation, name and content."""
    rng, seeds, names = np.random.default_rng(1), seed_files(folder), list(MUTATIONS)
    for number in range(count):
        kind, name, content = seeds[number % len(seeds)]
        mutation = names[int(rng.integers(len(names)))]
        yield kind, mutation, name, MUTATIONS[mutation](content, rng)


def read_files(connection: Any, models: Path) -> None:
    """Read the files whose kind and path come through the connection; send back how each ended."""
    while True:
        kind, path = connection.recv()
        connection.send(_outcome(kind, path, models))


def _outcome(kind: str, path: Path, models: Path) -> tuple[str, str]:
    import vitreous as vt
    from vitreous.powder.files import read_pattern
    from vitreous.predict import predict_files
    from vitreous.run.folder import read_experiment, read_log, read_result

    x = np.linspace(0, 1, 24)[None]
    readers: dict[str, Callable[[], Any]] = {
        "pattern": lambda: read_pattern(path).intensity,
        "spectra": lambda: vt.data.read(path, ["height"] if path.suffix in (".csv", ".parquet") else []).x[:5],
        "image": lambda: [row["probability"] for row in predict_files(models / "vit", [path])],
        "run": lambda: [read_experiment(path), read_result(path), read_log(path)] and vt.load(path)(x).values,
        "export": lambda: vt.load(path)(x if "run" in path.name else np.zeros((1, 8, 8))).rows()[0].values(),
    }
    try:
        values = readers[kind]()
        numbers = np.array([value for value in np.ravel(list(values)) if not isinstance(value, str)], np.float64)
        return ("answered", "") if np.isfinite(numbers).all() else ("unclean", "an answer that is not finite")
    except vt.InputError as fault:
        return ("refused", "") if len(str(fault).splitlines()) == 1 else ("unclean", f"several lines: {fault}")
    except BaseException as fault:  # MemoryError and the panics of compiled readers are what is looked for
        return "unclean", f"{type(fault).__name__}: {fault}"


def fuzz_files(folder: Path, count: int, report: Callable[[str], None]) -> dict[str, Counter[str]]:
    """Outcomes by kind of file."""
    counts: dict[str, Counter[str]] = {}
    context, worker, connection = get_context("spawn"), None, None
    target = folder / "mutated"
    for kind, mutation, name, content in track(mutated_files(folder, count), "files", total=count):
        shutil.rmtree(target, ignore_errors=True)
        if kind == "run":
            shutil.copytree(folder / "run", target)
        target.mkdir(exist_ok=True)
        (target / name).write_bytes(content)
        if worker is None or connection is None:
            connection, remote = context.Pipe()
            worker = context.Process(target=read_files, args=(remote, folder), daemon=True)
            worker.start()
            remote.close()
        connection.send((kind, target if kind == "run" else target / name))
        try:
            outcome, reason = connection.recv() if connection.poll(SECONDS) else ("unclean", f"took over {SECONDS:g} s")
        except EOFError:
            outcome, reason = "unclean", "the process died"
        if reason.startswith(("took", "the process")):
            worker.kill()
            worker = None
        if outcome == "unclean":
            report(f"{kind} {name}, {mutation}: {reason[:300]}")
        counts.setdefault(kind, Counter())[outcome] += 1
    if worker is not None:
        worker.kill()
    return counts


def fuzz_requests(folder: Path, count: int, report: Callable[[str], None]) -> dict[str, Counter[str]]:
    """Outcomes by path of the service."""
    counts: dict[str, Counter[str]] = {}
    uploads = valid_uploads(folder, folder / "spectra.csv")
    rng = np.random.default_rng(2)
    with (
        service([folder / "run", folder / "vit"], "cpu", "--powder") as running,
        httpx.Client(base_url=f"http://127.0.0.1:{running.port}", timeout=SECONDS) as client,
    ):
        for number, (how, upload) in enumerate(track(mutate_uploads(uploads, count), "requests", total=count)):
            path, status, text = upload[0], 0, ""
            try:
                reply = _send_json(client, path, rng) if number % 5 == 4 else send_upload(client, upload)
                status, text = reply.status_code, reply.text
            except (httpx.HTTPError, UnicodeError) as fault:
                text = f"{type(fault).__name__}: {fault}"
            outcome = "unclean"
            if status == 200:
                outcome = "unclean" if "NaN" in text else "answered"
            elif 400 <= status < 500 or status == 503:
                outcome = "refused" if len(" ".join(json.loads(text).values()).splitlines()) == 1 else "unclean"
            if outcome == "unclean":
                report(f"{path}, {how}: {status} {text[:300]}")
            counts.setdefault(path, Counter())[outcome] += 1
    return counts


def _send_json(client: httpx.Client, path: str, rng: np.random.Generator) -> httpx.Response:
    """A JSON body in place of a form."""
    valid = json.dumps({"model": "run", "x": [[0.1] * 24]}).encode()
    choices = [*HOSTILE, *(MUTATIONS[name](valid, rng) for name in ("flipped bytes", "replaced word", "cut end"))]
    body = choices[int(rng.integers(len(choices)))]
    return client.post(path, content=body, headers={"content-type": "application/json"})


def main(files: int = 10_000, requests: int = 10_000) -> None:
    """Print the outcomes.

    Args:
        files: number of mutated files.
        requests: number of mutated requests.
    """
    console, faults = Console(width=110), list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_models(folder)
        counts = fuzz_files(folder, files, faults.append) if files else {}
        if requests:
            counts |= fuzz_requests(folder, requests, faults.append)
    table = Table(title=f"{files:,} mutated files and {requests:,} mutated requests")
    for heading in ("", "sent", *OUTCOMES):
        table.add_column(heading, justify="right" if heading else "left")
    total = sum(counts.values(), Counter[str]())
    for kind, outcomes in {**counts, "all": total}.items():
        table.add_row(kind, *(f"{number:,}" for number in (outcomes.total(), *(outcomes[each] for each in OUTCOMES))))
    for fault in faults[:50]:
        console.print(fault, markup=False)
    console.print(table)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    tyro.cli(main)
