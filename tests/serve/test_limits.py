"""Every limit of the service gives an error of one line and does not affect the next request."""

import asyncio
import io
import json
import struct
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.serve.clients import make_client, make_sum_client, post_error
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics

PATH = "/v1/predict"
ONE = {"samples": [[1, 2, 3, 4, 5]]}


def test_a_large_body_is_refused_by_its_declared_length_and_by_its_bytes() -> None:
    client, _ = make_sum_client(Limits(body=1000))
    with client:
        large = json.dumps({"samples": [[1] * 5] * 200}).encode()
        kind = {"content-type": "application/json"}
        assert post_error(client, PATH, 413, content=large, headers=kind) == "body: expected at most 1000 bytes"
        assert post_error(client, PATH, 413, content=iter([large[:600], large[600:]]), headers=kind).startswith("body:")
        assert client.post(PATH, json=ONE).status_code == 200


def test_the_number_of_samples_is_limited() -> None:
    client, _ = make_sum_client(Limits(rows=3))
    with client:
        assert client.post(PATH, json={"samples": ONE["samples"] * 3}).status_code == 200
        assert "expected at most 3" in post_error(client, PATH, json={"samples": ONE["samples"] * 4})
        table = b"0,1,2,3,4\n" + b"1,2,3,4,5\n" * 4
        assert "expected at most 3" in post_error(client, PATH, files={"file": ("a.csv", table)})
        assert client.post(PATH, files={"file": ("a.csv", table[:-10])}).status_code == 200
        assert "expected at most 3" in post_error(client, PATH, files=[("file", ("a.csv", table))] * 4)
        assert "expected at most 3" in post_error(client, PATH, files={"file": ("a.csv", b"0\n" + b"1\n" * 10_000)})


def test_the_number_of_points_is_limited() -> None:
    client, _ = make_sum_client(Limits(points=50))
    with client:
        wide = ",".join(map(str, range(60))).encode()
        assert "more than 50 columns" in post_error(client, PATH, files={"file": ("a.csv", wide + b"\n" + wide)})
        content = io.BytesIO()
        np.save(content, np.zeros((1, 60)))
        upload = {"file": ("a.npy", content.getvalue())}
        assert "found 60 points, expected at most 50" in post_error(client, PATH, files=upload)


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + width) * height) if width * height < 10**8 else b"nothing"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(5000, 5000), (60_000, 60_000), (2_000_000_000, 2_000_000_000)])
def test_pixels_are_limited_before_decoding(width: int, height: int, client: TestClient) -> None:
    upload = {"data": {"model": "vit"}, "files": {"file": ("a.png", _png(width, height))}}
    assert "pixels" in post_error(client, PATH, **upload)
    assert client.post(PATH, data={"model": "vit"}, files={"file": ("a.png", _png(9, 9))}).status_code == 200


def test_the_unpacked_size_of_an_archive_is_limited(client: TestClient) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(200_000_000))
    assert len(packed.getvalue()) < 1_000_000
    upload = {"data": {"model": "run"}, "files": {"file": ("a.npz", packed.getvalue())}}
    assert "unpacks to 200000000 bytes" in post_error(client, PATH, **upload)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Data0/Profile0.txt", bytes(200_000_000))
    assert "unpacks to" in post_error(client, "/v1/index", files={"file": ("a.rasx", packed.getvalue())})


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_array_of_a_false_shape_is_refused(suffix: str, client: TestClient) -> None:
    array, packed = io.BytesIO(), io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (500_000, 1000)}  # 2 GB
    np.lib.format.write_array_header_1_0(array, header)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.npy", array.getvalue())
    content = array if suffix == ".npy" else packed
    upload = {"data": {"model": "run"}, "files": {"file": (f"a{suffix}", content.getvalue())}}
    assert "states shape (500000, 1000) of float32" in post_error(client, PATH, **upload)


def test_other_formats_are_refused(client: TestClient) -> None:
    content = io.BytesIO()
    np.save(content, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    upload = {"data": {"model": "run"}, "files": {"file": ("a.npy", content.getvalue())}}
    assert "Python objects" in post_error(client, PATH, **upload)
    for name in ("a.gz", "a.xy.gz", "a.pkl", "a.h5", "a.parquet", "a", "..", "a.csv.exe", "x" * 500):
        upload = {"data": {"model": "run"}, "files": {"file": (name, b"1,2\n3,4\n")}}
        message = post_error(client, PATH, **upload)
        assert "file type: unknown choice" in message
        assert len(message) < 200


def test_the_queue_of_a_model_is_limited() -> None:
    client, predictor = make_sum_client(Limits(queue=4, requests=100))
    with client, ThreadPoolExecutor(8) as threads:
        predictor.gate.clear()
        running = threads.submit(client.post, PATH, json=ONE)
        assert predictor.entered.wait(10)
        waiting = threads.submit(client.post, PATH, json={"samples": ONE["samples"] * 4})
        while not client.get("/metrics").text.count('vitreous_waiting{what="sums"} 4.0'):
            pass
        assert "too many requests are waiting" in post_error(client, PATH, 429, json=ONE)
        predictor.gate.set()
        assert running.result(10).status_code == waiting.result(10).status_code == 200
        assert client.post(PATH, json=ONE).status_code == 200


def test_the_number_of_concurrent_requests_is_limited() -> None:
    client, predictor = make_sum_client(Limits(requests=1))
    with client, ThreadPoolExecutor(2) as threads:
        predictor.gate.clear()
        running = threads.submit(client.post, PATH, json=ONE)
        assert predictor.entered.wait(10)
        assert "1 requests are in progress" in post_error(client, PATH, 429, json=ONE)
        assert client.get("/healthz").status_code == 200
        predictor.gate.set()
        assert running.result(10).status_code == 200
        assert client.post(PATH, json=ONE).status_code == 200


def test_a_prediction_beyond_its_time_limit_is_cancelled() -> None:
    client, predictor = make_sum_client(Limits(seconds=0.3, batch=1))
    with client, ThreadPoolExecutor(3) as threads:
        predictor.gate.clear()
        late = [threads.submit(client.post, PATH, json=ONE) for _ in range(3)]
        assert sorted(reply.result(10).status_code for reply in late) == [503, 503, 503]
        predictor.gate.set()
        assert client.post(PATH, json=ONE).status_code == 200
    assert len(predictor.sizes) == 2  # the first, which was being computed, and the last; waiting ones were cancelled


def test_a_search_beyond_its_time_limit_is_killed() -> None:
    limits = Limits(search_seconds=0.5)
    with make_client({}, limits, Metrics(), powder=True) as other:
        message = post_error(other, "/v1/index", 503, json={"example": "triclinic"})
    assert message == "no answer within the time limit; the work was cancelled"


def test_the_bytes_of_all_requests_are_limited() -> None:
    client, predictor = make_sum_client(Limits(body=100_000))
    middleware: Any = client.app
    middleware.budget.most = 150_000
    kind = {"content-type": "application/json"}
    body = json.dumps(ONE).encode().ljust(90_000)
    with client, ThreadPoolExecutor(1) as threads:
        predictor.gate.clear()
        running = threads.submit(client.post, PATH, content=body, headers=kind)
        assert predictor.entered.wait(10)
        assert "too many bytes of requests" in post_error(client, PATH, 429, content=body, headers=kind)
        predictor.gate.set()
        assert running.result(10).status_code == 200
        assert middleware.budget.used == 0
        assert client.post(PATH, content=body, headers=kind).status_code == 200


def test_work_for_a_disconnected_client_is_cancelled() -> None:
    client, predictor = make_sum_client(Limits(batch=1))
    app: Any = client.app
    body = json.dumps(ONE).encode()

    async def send_and_disconnect() -> None:
        messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            await asyncio.sleep(0.05)
            return messages.pop(0)

        async def send(message: Any) -> None:
            pass

        headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
        scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers, "query_string": b""}
        await app(scope, receive, send)

    with client, ThreadPoolExecutor(1) as threads:
        predictor.gate.clear()
        running = threads.submit(client.post, PATH, json=ONE)
        assert predictor.entered.wait(10)
        asyncio.run(send_and_disconnect())
        predictor.gate.set()
        assert running.result(10).status_code == 200
        assert client.post(PATH, json=ONE).status_code == 200
    assert predictor.sizes == [1, 1]
