"""Built-in data sets: scikit-learn's digits, and MNIST, downloaded once and checked by SHA-256."""

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.data.source import Axis, Source

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
TIMEOUT = 15  # seconds without a response

# SHA-256 of each decompressed file
MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_IMAGE_HEADER, _LABEL_HEADER = 16, 8  # bytes before the pixels and before the labels of an idx file
_MAX_BYTES = 1 << 26  # to unpack; the largest file has 47 MB
_AXES = (Axis("y", "px"), Axis("x", "px"))
_CLASSES = tuple("0123456789")
WHITE = {"digits": 1.0, "mnist": 255.0}
"""Value of a white pixel in each data set; the background is black, 0."""


def data_folder() -> Path:
    """Folder of the data sets: the environment variable `VITREOUS_DATA`, or the user's cache folder."""
    if os.environ.get("VITREOUS_DATA"):
        return Path(os.environ["VITREOUS_DATA"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vitreous"


def digits() -> Source:
    """scikit-learn's 1,797 digits of 8×8 pixels, float32 in [0, 1].

    The test part is that of `train_test_split(test_size=0.2, stratify=y, random_state=0)`, for comparable results.
    """
    data = load_extra("sklearn.datasets").load_digits()
    x = (data.images[:, None] / 16).astype(np.float32)  # (n, 8, 8) -> (n, 1, 8, 8)
    y = data.target.astype(np.int64)
    train_test_split = load_extra("sklearn.model_selection").train_test_split
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    parts = {"train": np.sort(train), "test": np.sort(test)}
    return Source("digits", x, y, _AXES, ("grey",), _CLASSES, parts=parts)


def mnist() -> Source:
    """MNIST: 70,000 digits of 28×28 pixels in uint8, from `data_folder()/mnist`; missing files are downloaded."""
    folder = data_folder() / "mnist"
    train_x, train_y, test_x, test_y = (_read(folder, name) for name in MNIST)
    x = np.concatenate([train_x[_IMAGE_HEADER:], test_x[_IMAGE_HEADER:]]).reshape(-1, 1, 28, 28)
    y = np.concatenate([train_y[_LABEL_HEADER:], test_y[_LABEL_HEADER:]]).astype(np.int64)
    train, test = np.split(np.arange(len(y)), [len(train_y) - _LABEL_HEADER])
    return Source("mnist", x, y, _AXES, ("grey",), _CLASSES, parts={"train": train, "test": test})


def _read(folder: Path, name: str) -> NDArray[np.uint8]:
    """Decompressed bytes of a file, with the expected checksum."""
    local = (path for path in (folder / name, folder / f"{name}.gz") if path.is_file())
    path = next(local, None) or _fetch(folder, name)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != MNIST[name]:
        raise InputError(
            f"{path}: the decompressed file has SHA-256 {digest[:16]}…, expected {MNIST[name][:16]}…; "
            "delete it to download it again"
        )
    return np.frombuffer(content, dtype=np.uint8)


def _fetch(folder: Path, name: str) -> Path:
    """Download a file from the first mirror with the right checksum."""
    import http.client

    reason = ""
    for mirror in MIRRORS:
        try:
            compressed = _download(f"{mirror}{name}.gz")
            with gzip.open(io.BytesIO(compressed)) as file:
                content = file.read(_MAX_BYTES)
            if hashlib.sha256(content).hexdigest() == MNIST[name]:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / f"{name}.gz", compressed)
                return folder / f"{name}.gz"
            reason = f"{mirror}{name}.gz has a different SHA-256"
        except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
            reason = str(error) or type(error).__name__
    files = ", ".join(f"{file}.gz" for file in MNIST)
    raise InputError(f"mnist: cannot be downloaded ({reason.splitlines()[0]}); put {files} into {folder}")


def _download(url: str) -> bytes:
    import urllib.request

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with (
        urllib.request.urlopen(url, timeout=TIMEOUT) as response,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task(url.rpartition("/")[2], total=int(response.headers.get("Content-Length") or 0) or None)
        content = bytearray()
        while len(content) < _MAX_BYTES and (chunk := response.read(1 << 16)):
            content += chunk
            progress.update(task, advance=len(chunk))
    return bytes(content)
