"""Built-in data sets: digits, MNIST with download and checksums, and `read` for every kind of input."""

import gzip
import hashlib
import io
import sys
import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vitreous.core.errors import InputError
from vitreous.data import builtin, data_folder, digits, mnist, read, split

# a data set in MNIST's four files, of 6 + 4 images
PIXELS = np.random.default_rng(0).integers(0, 256, (10, 28, 28), dtype=np.uint8)
LABELS = np.arange(10, dtype=np.uint8)
FILES = {
    "train-images-idx3-ubyte": bytes(16) + PIXELS[:6].tobytes(),
    "train-labels-idx1-ubyte": bytes(8) + LABELS[:6].tobytes(),
    "t10k-images-idx3-ubyte": bytes(16) + PIXELS[6:].tobytes(),
    "t10k-labels-idx1-ubyte": bytes(8) + LABELS[6:].tobytes(),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a small MNIST, with its checksums in place of the real ones."""
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    monkeypatch.setattr(builtin, "MNIST", {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()})
    return tmp_path / "mnist"


class Web:
    """Replaces `urlopen`: returns the files, except for mirrors that are set to fail."""

    def __init__(self, broken: dict[str, Exception | bytes] | None = None) -> None:
        self.broken = broken or {}
        self.asked: list[str] = []

    def __call__(self, url: str, timeout: float) -> Any:
        assert timeout > 0
        self.asked.append(url)
        mirror, _, name = url.rpartition("/")
        answer = self.broken.get(f"{mirror}/", gzip.compress(FILES[name.removesuffix(".gz")]))
        if isinstance(answer, Exception):
            raise answer
        response = io.BytesIO(answer)
        headers = Message()
        headers["Content-Length"] = str(len(answer))
        response.headers = headers  # type: ignore[attr-defined]
        return response


def holds_the_small_mnist() -> None:
    source = mnist()
    assert np.array_equal(source.x, PIXELS[:, None])
    assert source.y is not None
    assert source.y.tolist() == LABELS.tolist()
    assert source.parts["test"].tolist() == [6, 7, 8, 9]


def test_digits_are_scikit_learns_with_its_usual_test_part() -> None:
    source = digits()
    data = load_digits()
    assert source.x.dtype == np.float32
    assert (source.x.min(), source.x.max()) == (0, 1)
    assert np.array_equal(source.x[:, 0] * 16, data.images)
    _, test = train_test_split(np.arange(1797), test_size=0.2, stratify=data.target, random_state=0)
    subsets = split(source)
    assert subsets.test.tolist() == sorted(test)
    assert (len(subsets.train), len(subsets.validation)) == (1293, 144)
    assert (source.input, source.classes) == ((1, 8, 8), tuple("0123456789"))


def test_the_real_mnist() -> None:
    if not (data_folder() / "mnist").is_dir():
        pytest.skip(f"{data_folder() / 'mnist'} is absent; set VITREOUS_DATA")
    source = mnist()
    assert source.x.shape == (70_000, 1, 28, 28)
    assert source.x.dtype == np.uint8
    assert source.y is not None
    assert np.bincount(source.y[source.parts["train"]]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert source.y[source.parts["test"]][:5].tolist() == [7, 2, 1, 0, 4]


@pytest.mark.parametrize("packed", [True, False])
def test_files_may_be_packed_or_not(home: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.urlopen", Web(dict.fromkeys(builtin.MIRRORS, OSError("not to be asked"))))
    home.mkdir()
    for name, data in FILES.items():
        (home / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    holds_the_small_mnist()


def test_absent_files_are_fetched_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web()
    monkeypatch.setattr("urllib.request.urlopen", web)
    holds_the_small_mnist()
    assert web.asked == [f"{builtin.MIRRORS[0]}{name}.gz" for name in FILES]
    assert sorted(path.name for path in home.iterdir()) == sorted(f"{name}.gz" for name in FILES)
    holds_the_small_mnist()
    assert len(web.asked) == 4


FAULTS: list[Exception | bytes] = [
    urllib.error.URLError("no route"),
    TimeoutError("timed out"),
    ConnectionResetError("reset"),
    b"<html>log in to the hotel's network</html>",
    gzip.compress(b"something else", mtime=0),
    gzip.compress(FILES["train-images-idx3-ubyte"], mtime=0)[:-20],
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_second_mirror_stands_in_for_the_first(
    home: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception | bytes
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", Web({builtin.MIRRORS[0]: fault}))
    holds_the_small_mnist()


@pytest.mark.parametrize("fault", FAULTS)
def test_when_no_mirror_answers_one_line_says_which_files_go_where(
    home: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception | bytes
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", Web(dict.fromkeys(builtin.MIRRORS, fault)))
    with pytest.raises(InputError) as error:
        mnist()
    assert str(error.value).startswith("mnist: cannot be downloaded (")
    assert str(error.value).endswith(f"; put {', '.join(f'{name}.gz' for name in FILES)} into {home}")
    assert "\n" not in str(error.value)
    assert not home.exists() or not list(home.iterdir())


def test_a_fetch_that_cannot_be_kept_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("urllib.request.urlopen", Web())
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        mnist()
    assert list(home.iterdir()) == []


def test_a_file_with_another_digest_is_named(home: Path) -> None:
    home.mkdir()
    path = home / "train-images-idx3-ubyte"
    path.write_bytes(b"something else")
    with pytest.raises(InputError) as error:
        mnist()
    assert str(error.value).startswith(f"{path}: the decompressed file has SHA-256 ")
    assert "\n" not in str(error.value)
    path.rename(path.with_suffix(".gz"))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz: cannot be read \(Not a gzipped file"):
        mnist()


def test_the_data_folder_is_the_setting_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_DATA", "/data")
    assert data_folder() == Path("/data")
    monkeypatch.delenv("VITREOUS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_folder() == Path("/cache/vitreous")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache" / "vitreous"


def test_read_accepts_data_sets_files_and_folders(tmp_path: Path) -> None:
    assert read("digits").name == "digits"
    (tmp_path / "x.csv").write_text("1,2,assay\n1,2,3\n4,5,6\n")
    source = read(str(tmp_path / "x.csv"), ["assay:mg"])
    assert source.targets[0].label == "assay (mg)"
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        Image.fromarray(PIXELS[0]).save(tmp_path / "pets" / kind / "1.png")
    assert read(tmp_path / "pets").classes == ("cat", "dog")
    with pytest.raises(InputError, match="digtis: no such file or folder; expected one, or a data set: digits, mnist"):
        read("digtis")
    for images in ("digits", tmp_path / "pets"):
        with pytest.raises(InputError, match="the class of an image is its folder; targets are for spectra"):
            read(images, ["assay"])


def test_digits_without_scikit_learn_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match="this needs scikit-learn"):
        digits()
