"""Mutated files and uploads, for the tests of the service and for `benchmarks/fuzz.py`."""

import io
import string
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitreous.powder.example import example
from vitreous.powder.files import write_pattern

Upload = tuple[str, dict[str, str], str, bytes]  # path, fields, file name, content
_TRICKS = (
    "../../etc/passwd", "..\\..\\win.ini", "/etc/passwd", "con", "a\x00.csv", "a.csv/../b", "%2e%2e%2fa.csv", "a;b.csv",
    "🦔.csv", "x" * 300 + ".csv", ".csv", "a.CSV", "a.csv.gz", '"quoted".csv', "$(reboot).png", "a.png\r\nX: y",
)  # fmt: skip
_WORDS = ("", "nan", "-1", "1e999", "Cu", "cu ", "true", "0.5", "999999999999", "vit", "run", "\x00", "é", "[]", "{}")
_FIELDS = ("model", "coverage", "anode", "wavelength", "row", "target", "maps", "heads", "layer", "peaks", "system")


def valid_uploads(folder: Path, spectra: Path) -> list[Upload]:
    """Valid uploads for a service of the models `vit` (digits) and `run` (trained on `spectra`), and of searches."""
    pixels = np.random.default_rng(0).integers(0, 255, (12, 9), dtype=np.uint8)
    x = np.random.default_rng(0).normal(size=(4, 24))
    uploads: list[Upload] = []

    def encode(write: Callable[[io.BytesIO], Any]) -> bytes:
        content = io.BytesIO()
        write(content)
        return content.getvalue()

    for suffix, form in ((".png", "PNG"), (".jpg", "JPEG"), (".bmp", "BMP"), (".tif", "TIFF")):
        picture = encode(lambda file, form=form: Image.fromarray(pixels).save(file, form))  # type: ignore[misc]
        uploads += [(path, {"model": "vit"}, f"a{suffix}", picture) for path in ("/v1/predict", "/v1/explain")]
    uploads.append(("/v1/predict", {"model": "vit"}, "a.npy", encode(lambda file: np.save(file, pixels))))
    table = spectra.read_bytes()
    for path in ("/v1/predict", "/v1/explain"):
        uploads.append((path, {"model": "run"}, "a.csv", b"\n".join(table.splitlines()[:6])))
        uploads.append((path, {"model": "run"}, "a.npy", encode(lambda file: np.save(file, x))))
        uploads.append((path, {"model": "run"}, "a.npz", encode(lambda file: np.savez(file, x=x))))
        uploads.append((path, {"model": "run"}, "a.npz", encode(lambda file: np.savez_compressed(file, x=x))))
    flat = np.linspace(10, 30, 120)
    for name in ("a.xy", "a.csv"):
        pattern = example("triclinic")
        write_pattern(folder / name, pattern)
        short = b"\n".join((folder / name).read_bytes().splitlines()[:90])
        uploads.append(("/v1/index", {"system": "cubic", "most": "1"}, name, short))
    lines = b"\n".join(f"{angle:.3f} {height:.1f}".encode() for angle, height in zip(flat, flat % 7, strict=True))
    uploads.append(("/v1/index", {"system": "cubic", "anode": "Cu"}, "a.txt", lines))
    uploads.append(("/v1/index", {"peaks": "true", "system": "cubic", "anode": "Cu"}, "a.txt", lines[:200]))
    xml = b"<xrdMeasurements><usedWavelength><kAlpha1>1.5406</kAlpha1></usedWavelength></xrdMeasurements>"
    uploads += [("/v1/index", {}, "a.xrdml", xml), ("/v1/index", {}, "a.raw", b"RAW1.01" + bytes(800))]
    uploads.append(("/v1/index", {}, "a.brml", encode(lambda file: _zip(file, {"Experiment0/RawData0.xml": xml}))))
    cif = b"data_a\nloop_\n_pd_meas_2theta_scan\n_pd_meas_counts_total\n" + lines
    uploads += [("/v1/index", {"anode": "Cu", "system": "cubic"}, "a.cif", cif)]
    return uploads


def _zip(file: io.BytesIO, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _flip_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content or b"\0")
    for place in rng.integers(0, len(changed), rng.integers(1, 20)):
        changed[place] = int(rng.integers(0, 256))
    return bytes(changed)


def _replace_word(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace a word of a text."""
    words = [b"nan", b"inf", b"-1e308", b"1e400", b"", b"abc", b"1,5", b"0x10", "½".encode(), b"9" * 400, b"-0"]
    parts = content.split(b"," if b"," in content else b" ")
    parts[int(rng.integers(len(parts)))] = words[int(rng.integers(len(words)))]
    return (b"," if b"," in content else b" ").join(parts)


def _enlarge_size(content: bytes, rng: np.random.Generator) -> bytes:
    """Make a size field huge: of an image, an array or a member of an archive."""
    large = int(rng.choice([2**31 - 1, 2**32 - 1, 65_535, 100_000, 2**30]))
    if content.startswith(b"\x89PNG"):
        return content[:16] + struct.pack(">II", large, large) + content[24:]
    if b"'shape': (" in content:
        return content.replace(b"'shape': (4, 24)", f"'shape': ({large}, 9)".encode()[:16].ljust(16))
    at = int(rng.integers(0, max(1, len(content) - 4)))
    return content[:at] + struct.pack("<I", large) + content[at + 4 :]


def _reencode(content: bytes, rng: np.random.Generator) -> bytes:
    codes = ("utf-16", "utf-32", "utf-8-sig", "cp037", "utf-7")
    return content.decode("latin-1").encode(codes[int(rng.integers(len(codes)))], "replace")


def _zip_bomb(content: bytes, rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    name = ("x.npy", "Data0/Profile0.txt", "Experiment0/RawData0.xml", "../../x.npy")[int(rng.integers(4))]
    _zip(file, {name: bytes(int(rng.choice([1_000, 3_000_000, 80_000_000])))})
    return file.getvalue()


def _entity_bomb(content: bytes, rng: np.random.Generator) -> bytes:
    levels = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">{levels}]><a>&l11;</a>'.encode()


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "unchanged": lambda content, rng: content,
    "cut end": lambda content, rng: content[: int(rng.integers(0, len(content) + 1))],
    "cut start": lambda content, rng: content[int(rng.integers(0, len(content) + 1)) :],
    "flipped bytes": _flip_bytes,
    "replaced word": _replace_word,
    "huge size": _enlarge_size,
    "other encoding": _reencode,
    "repeated": lambda content, rng: content * int(rng.integers(2, 30)),
    "zip bomb": _zip_bomb,
    "entity bomb": _entity_bomb,
    "noise": lambda content, rng: rng.bytes(int(rng.integers(0, 5000))),
    "long line": lambda content, rng: content + b"1," * int(rng.integers(1, 200_000)),
    "deep": lambda content, rng: b"[" * int(rng.integers(1, 100_000)),
}


def mutate_uploads(seeds: list[Upload], count: int) -> Iterator[tuple[str, Upload]]:
    """Uploads with mutated contents, and now and then with other fields and hostile names."""
    rng = np.random.default_rng(0)
    names = list(MUTATIONS)
    for number in range(count):
        path, fields, name, content = seeds[number % len(seeds)]
        how = names[number // len(seeds) % len(names)] if number % 3 else names[int(rng.integers(len(names)))]
        fields = dict(fields)
        if rng.random() < 0.2:
            fields[_FIELDS[int(rng.integers(len(_FIELDS)))]] = _WORDS[int(rng.integers(len(_WORDS)))]
        if rng.random() < 0.2:
            name = _TRICKS[int(rng.integers(len(_TRICKS)))]
        elif rng.random() < 0.1:
            name = "a" + seeds[int(rng.integers(len(seeds)))][2][1:]
        yield how, (path, fields, name, MUTATIONS[how](content, rng))


def send_upload(client: Any, upload: Upload) -> Any:
    """Send a form without escaping names, as hostile clients do."""
    path, fields, name, content = upload
    edge = "".join(np.random.default_rng(len(content)).choice(list(string.ascii_letters), 20))
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join([*parts, head.encode(), content, f"\r\n--{edge}--\r\n".encode()])
    return client.post(path, content=body, headers={"content-type": f"multipart/form-data; boundary={edge}"})
