"""Malicious files: memory is bounded, and the time is linear in the size."""

import contextlib
import gzip
import io
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.powder.files.contents import X, Y, archive, brml, cif, rasx, rows, xrdml
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern

MEGABYTE = 1 << 20
TOO_MANY = "numbers or words, expected a pattern of at most 2000000 points"
SWOLLEN: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "points": (".xy", lambda: b"1 2\n" * 10**7, f"found 20000000 {TOO_MANY}"),
    "compressed points": (".xy.gz", lambda: gzip.compress(b"1 2\n" * 10**7), TOO_MANY),
    "bytes": (".xy", lambda: b"10.000000000 2\n" * 5 * 10**6, "found more than 64000000 bytes"),
    "header lines": (".xy", lambda: b"#wavelength\n" * 10**5 + rows(X, Y).encode(), "more than 1000000 characters of"),
    "numbers in XML": (".xrdml", lambda: xrdml().replace(b"</intens", b" 1" * 10**7 + b"</intens"), TOO_MANY),
    "elements in XML": (".xrdml", lambda: xrdml().replace(b"<scan ", b"<a/>" * 10**7 + b"<scan "), TOO_MANY),
    "values of a CIF": (".cif", lambda: b"data_x\nloop_\n_a\n" + b"1 " * 10**7, TOO_MANY),
    "points of a RAW": (".raw", lambda: b"RAW4.00" + bytes(3 * 10**7), TOO_MANY),
    "scans of an XRDML": (
        ".xrdml", lambda: xrdml().replace(b"</xrdMeasurement>", b"<scan/>" * 10_001 + b"</xrdMeasurement>"),
        "found more than 10000 scans",
    ),
    "blocks of a CIF": (
        ".cif", lambda: cif() + b"".join(b"\ndata_%d" % n for n in range(10_001)), "found more than 10000 scans",
    ),
    "files in a zip": (".brml", lambda: archive({f"{n}.xml": "" for n in range(10_001)}), "more than 10000 files"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SWOLLEN)
def test_a_swollen_file_is_refused_in_little_memory(tmp_path: Path, kind: str) -> None:
    suffix, content, message = SWOLLEN[kind]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content())
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message):
            read_pattern(path)
        assert tracemalloc.get_traced_memory()[1] < 250 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_files_that_decompress_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    swollen = archive({"Experiment0/RawData0.xml": " " * 5000})
    (tmp_path / "x.brml").write_bytes(swollen)
    (tmp_path / "x.xy.gz").write_bytes(gzip.compress(rows(X, Y).encode()))
    with pytest.raises(InputError, match=r"RawData0.xml' would unpack to \d+ bytes, expected 1000 at most"):
        read_pattern(tmp_path / "x.brml", max_bytes=1000)
    with pytest.raises(InputError, match=r"x.xy.gz: found more than 1000 bytes, expected a powder pattern"):
        read_pattern(tmp_path / "x.xy.gz", max_bytes=1000)


def test_the_members_of_a_zip_count_together(tmp_path: Path) -> None:
    (tmp_path / "x.brml").write_bytes(archive({f"{n}.xml": " " * 600 for n in range(3)}))
    with pytest.raises(InputError, match=r"would unpack to 600 bytes, expected 1000 at most"):
        read_pattern(tmp_path / "x.brml", max_bytes=1000)


@pytest.mark.parametrize(("suffix", "content"), [(".brml", brml()), (".rasx", rasx())])
def test_a_member_of_a_zip_that_is_larger_than_it_states_is_refused(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        members = {name: source.read(name).decode() for name in source.namelist()}
        first = source.namelist()[0]
        true_size = source.getinfo(first).file_size
    swollen = bytearray(archive(members | {first: members[first] + " " * 10**6}))
    size = struct.pack("<I", true_size + 10**6)
    assert swollen.count(size) == 2  # in the header of the member and in the directory
    (tmp_path / f"x{suffix}").write_bytes(bytes(swollen).replace(size, struct.pack("<I", true_size)))
    with pytest.raises(InputError, match=r"Bad CRC-32 for file"):
        read_pattern(tmp_path / f"x{suffix}", max_bytes=10**5)


def test_an_element_of_very_many_attributes_is_refused(tmp_path: Path) -> None:
    attributes = " ".join(f'a{n}=""' for n in range(1001)).encode()
    (tmp_path / "x.xrdml").write_bytes(xrdml().replace(b"<scan ", b"<scan " + attributes + b" "))
    with pytest.raises(InputError, match="found 1002 attributes of an element, expected 1000 at most"):
        read_pattern(tmp_path / "x.xrdml")


LONG: dict[str, tuple[str, Callable[[int], bytes]]] = {  # contents of a size, which may be a pattern or not
    "labels without a value": (".xy", lambda n: b"# " + b"wavelength " * n + b"\n" + rows(X, Y).encode()),
    "a heading of signs": (".xy", lambda n: b"_" * 2 * n + b" a b\n" + rows(X, Y, Y).encode()),
    "open brackets": (".xy", lambda n: b"(" * 20 * n + b"\n" + rows(X, Y).encode()),
    "a number of many digits": (".xy", lambda n: b"# wavelength 1." + b"5" * 100 * n + b"\n" + rows(X, Y).encode()),
    "columns of a CIF": (".cif", lambda n: b"data_x\nloop_\n" + b"".join(b"_t%d\n" % k for k in range(n)) + b"1 " * n),
    "a long name in a zip": (".rasx", lambda n: archive({"Data0/" + "Conditions" * (n // 2): "x"})),
    "blanks of GSAS": (".gsa", lambda n: b" " * 100 * n + b"\nBANK"),
    "text in XML": (".xrdml", lambda n: xrdml().replace(b"</kAlpha1>", b"\n " * 10 * n + b"</kAlpha1>")),
}  # fmt: skip


@pytest.mark.parametrize("kind", LONG)
def test_the_time_is_not_quadratic_in_the_size(tmp_path: Path, kind: str) -> None:
    suffix, content = LONG[kind]
    path, seconds = tmp_path / f"x{suffix}", []
    for size in (1000, 8000):
        path.write_bytes(content(size))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            with contextlib.suppress(InputError):  # the time to refuse the file counts as well
                read_pattern(path)
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
    assert seconds[1] < 20 * seconds[0]  # 8 if linear, 64 if quadratic
