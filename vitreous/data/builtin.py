"""Data sets by name: scikit-learn's digits, and MNIST from its files, fetched once and checked by sha256."""

import gzip
import hashlib
import http.client
import os
import urllib.request
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from vitreous.atomic import write_atomically
from vitreous.data.extras import load_extra
from vitreous.data.source import Axis, Source
from vitreous.errors import InputError

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
TIMEOUT = 15  # seconds without an answer

# sha256 of each file unpacked
MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_IMAGE_HEADER, _LABEL_HEADER = 16, 8  # bytes before the pixels and before the labels of an idx file
_AXES = (Axis("y", "px"), Axis("x", "px"))
_CLASSES = tuple("0123456789")
WHITE = {"digits": 1.0, "mnist": 255.0}
"""What a white pixel is in the images of each data set; their ground is black, 0."""


def data_folder() -> Path:
    """Where data sets lie: the setting `VITREOUS_DATA`, or the user's cache folder."""
    if os.environ.get("VITREOUS_DATA"):
        return Path(os.environ["VITREOUS_DATA"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vitreous"


def digits() -> Source:
    """scikit-learn's 1,797 digits of 8×8 pixels, float32 in [0, 1].

    The test part is the one of `train_test_split(test_size=0.2, stratify=y, random_state=0)`, so that figures compare.
    """
    data = load_extra("sklearn.datasets").load_digits()
    x = (data.images[:, None] / 16).astype(np.float32)  # (n, 8, 8) -> (n, 1, 8, 8)
    y = data.target.astype(np.int64)
    rows = np.arange(len(y))
    train, test = load_extra("sklearn.model_selection").train_test_split(
        rows, test_size=0.2, stratify=y, random_state=0
    )
    parts = {"train": np.sort(train), "test": np.sort(test)}
    return Source("digits", x, y, _AXES, ("grey",), _CLASSES, parts=parts)


def mnist() -> Source:
    """MNIST, 60,000 + 10,000 digits of 28×28 pixels in uint8, from `data_folder()/mnist`, fetched where absent."""
    folder = data_folder() / "mnist"
    train_x, train_y, test_x, test_y = (_read(folder, name) for name in MNIST)
    x = np.concatenate([train_x[_IMAGE_HEADER:], test_x[_IMAGE_HEADER:]]).reshape(-1, 1, 28, 28)
    y = np.concatenate([train_y[_LABEL_HEADER:], test_y[_LABEL_HEADER:]]).astype(np.int64)
    train, test = np.split(np.arange(len(y)), [len(train_y) - _LABEL_HEADER])
    return Source("mnist", x, y, _AXES, ("grey",), _CLASSES, parts={"train": train, "test": test})


def _read(folder: Path, name: str) -> NDArray[np.uint8]:
    """The bytes of a file, unpacked and as they should be."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None) or _fetch(folder, name)
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read ({fault})") from None
    found = hashlib.sha256(content).hexdigest()
    if found != MNIST[name]:
        raise InputError(
            f"{path}: unpacked, its sha256 is {found[:16]}…, expected {MNIST[name][:16]}…; delete it to fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8)


def _fetch(folder: Path, name: str) -> Path:
    """Bring a file from the first mirror that has it right; whole or not at all."""
    reason = ""
    for mirror in MIRRORS:
        try:
            packed = _download(f"{mirror}{name}.gz")
            if hashlib.sha256(gzip.decompress(packed)).hexdigest() == MNIST[name]:
                return _keep(folder / f"{name}.gz", packed)
            reason = f"{mirror}{name}.gz has another sha256"
        except (OSError, http.client.HTTPException, EOFError, zlib.error) as fault:
            reason = str(fault) or type(fault).__name__
    files = ", ".join(f"{file}.gz" for file in MNIST)
    raise InputError(f"mnist: cannot be fetched ({reason.splitlines()[0]}); put {files} into {folder}")


def _download(url: str) -> bytes:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with (
        urllib.request.urlopen(url, timeout=TIMEOUT) as response,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task(url.rpartition("/")[2], total=int(response.headers.get("Content-Length") or 0) or None)
        content = bytearray()
        while chunk := response.read(1 << 16):
            content += chunk
            progress.update(task, advance=len(chunk))
    return bytes(content)


def _keep(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path
