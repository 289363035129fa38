"""Every bound of the service holds, is told in one line, and is forgotten with the next request."""

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

from tests.serve.models import sums_client
from vitreous.serve.limits import Limits

ONE = {"samples": [[1, 2, 3, 4, 5]]}


def refused(client: TestClient, status: int, path: str = "/v1/predict", **request: Any) -> str:
    reply = client.post(path, **request)
    assert reply.status_code == status, reply.text
    if status in (429, 503):
        assert reply.headers["retry-after"] == "1"
    return str(reply.json()["error"])


def test_a_body_that_is_too_large_is_refused_by_its_length_and_by_its_bytes() -> None:
    client, _ = sums_client(Limits(body=1000))
    with client:
        large = json.dumps({"samples": [[1] * 5] * 200}).encode()
        kind = {"content-type": "application/json"}
        assert refused(client, 413, content=large, headers=kind) == "body: expected 1000 bytes at most"
        assert refused(client, 413, content=iter([large[:600], large[600:]]), headers=kind).startswith("body:")
        assert client.post("/v1/predict", json=ONE).status_code == 200


def test_samples_of_a_request_are_counted() -> None:
    client, _ = sums_client(Limits(rows=3))
    with client:
        assert client.post("/v1/predict", json={"samples": ONE["samples"] * 3}).status_code == 200
        assert "expected 3 at most" in refused(client, 422, json={"samples": ONE["samples"] * 4})
        table = b"0,1,2,3,4\n" + b"1,2,3,4,5\n" * 4
        assert "expected 3 at most" in refused(client, 422, files={"file": ("a.csv", table)})
        assert client.post("/v1/predict", files={"file": ("a.csv", table[:-10])}).status_code == 200
        assert "expected 3 at most" in refused(client, 422, files=[("file", ("a.csv", table))] * 4)
        assert "expected 3 at most" in refused(client, 422, files={"file": ("a.csv", b"0\n" + b"1\n" * 10_000)})


def test_points_are_counted() -> None:
    client, _ = sums_client(Limits(points=50))
    with client:
        wide = ",".join(map(str, range(60))).encode()
        assert "more than 50 columns" in refused(client, 422, files={"file": ("a.csv", wide + b"\n" + wide)})
        content = io.BytesIO()
        np.save(content, np.zeros((1, 60)))
        assert "found 60 points, expected 50" in refused(client, 422, files={"file": ("a.npy", content.getvalue())})


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + width) * height) if width * height < 10**8 else b"nothing"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(5000, 5000), (60_000, 60_000), (2_000_000_000, 2_000_000_000)])
def test_pixels_are_counted_before_they_are_unpacked(width: int, height: int, client: TestClient) -> None:
    upload = {"data": {"model": "vit"}, "files": {"file": ("a.png", _png(width, height))}}
    assert "pixels" in refused(client, 422, **upload)
    assert client.post("/v1/predict", data={"model": "vit"}, files={"file": ("a.png", _png(9, 9))}).status_code == 200


def test_an_archive_is_measured_before_it_is_unpacked(client: TestClient) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(200_000_000))
    assert len(packed.getvalue()) < 1_000_000
    upload = {"data": {"model": "run"}, "files": {"file": ("a.npz", packed.getvalue())}}
    assert "unpacks to 200000000 bytes" in refused(client, 422, **upload)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Data0/Profile0.txt", bytes(200_000_000))
    assert "unpacks to" in refused(client, 422, "/v1/index", files={"file": ("a.rasx", packed.getvalue())})


def test_gzip_objects_and_other_formats_are_not_taken(client: TestClient) -> None:
    content = io.BytesIO()
    np.save(content, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    upload = {"data": {"model": "run"}, "files": {"file": ("a.npy", content.getvalue())}}
    assert "Python objects" in refused(client, 422, **upload)
    for name in ("a.gz", "a.xy.gz", "a.pkl", "a.h5", "a.parquet", "a", "..", "a.csv.exe", "x" * 500):
        upload = {"data": {"model": "run"}, "files": {"file": (name, b"1,2\n3,4\n")}}
        told = refused(client, 422, **upload)
        assert "file type: unknown choice" in told
        assert len(told) < 200


def test_what_waits_is_bounded_and_room_returns() -> None:
    client, sums = sums_client(Limits(queue=4, requests=100))
    with client, ThreadPoolExecutor(8) as threads:
        sums.gate.clear()
        running = threads.submit(client.post, "/v1/predict", json=ONE)
        assert sums.entered.wait(10)
        waiting = threads.submit(client.post, "/v1/predict", json={"samples": ONE["samples"] * 4})
        while not client.get("/metrics").text.count('vitreous_waiting{what="sums"} 4.0'):
            pass
        assert "too much is waiting" in refused(client, 429, json=ONE)
        sums.gate.set()
        assert running.result(10).status_code == waiting.result(10).status_code == 200
        assert client.post("/v1/predict", json=ONE).status_code == 200


def test_requests_at_a_time_are_bounded() -> None:
    client, sums = sums_client(Limits(requests=1))
    with client, ThreadPoolExecutor(2) as threads:
        sums.gate.clear()
        running = threads.submit(client.post, "/v1/predict", json=ONE)
        assert sums.entered.wait(10)
        assert "1 requests are being worked on" in refused(client, 429, json=ONE)
        assert client.get("/healthz").status_code == 200
        sums.gate.set()
        assert running.result(10).status_code == 200
        assert client.post("/v1/predict", json=ONE).status_code == 200


def test_an_answer_that_takes_too_long_is_dropped() -> None:
    client, sums = sums_client(Limits(seconds=0.3, batch=1))
    with client, ThreadPoolExecutor(3) as threads:
        sums.gate.clear()
        late = [threads.submit(client.post, "/v1/predict", json=ONE) for _ in range(3)]
        assert sorted(each.result(10).status_code for each in late) == [503, 503, 503]
        sums.gate.set()
        assert client.post("/v1/predict", json=ONE).status_code == 200
    assert len(sums.sizes) == 2  # the one that was being computed, and the last; those that waited were dropped


def test_a_search_that_takes_too_long_is_killed(client: TestClient) -> None:
    from tests.serve.models import client_of
    from vitreous.serve.metrics import Metrics

    limits = Limits(search_seconds=0.5)
    with client_of({}, limits, Metrics(), powder=True) as other:
        told = refused(other, 503, "/v1/index", json={"example": "triclinic"})
    assert told == "no answer within the time limit; the work was dropped"


def test_all_bodies_together_are_bounded() -> None:
    client, sums = sums_client(Limits(body=100_000))
    guard: Any = client.app
    guard.budget.most = 150_000
    kind = {"content-type": "application/json"}
    body = json.dumps(ONE).encode().ljust(90_000)
    with client, ThreadPoolExecutor(1) as threads:
        sums.gate.clear()
        running = threads.submit(client.post, "/v1/predict", content=body, headers=kind)
        assert sums.entered.wait(10)
        assert "too much is being sent" in refused(client, 429, content=body, headers=kind)
        sums.gate.set()
        assert running.result(10).status_code == 200
        assert guard.budget.held == 0
        assert client.post("/v1/predict", content=body, headers=kind).status_code == 200


def test_work_of_a_client_that_has_left_is_dropped() -> None:
    client, sums = sums_client(Limits(batch=1))
    app: Any = client.app
    body = json.dumps(ONE).encode()

    async def leave_at_once() -> None:
        messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            await asyncio.sleep(0.05)
            return messages.pop(0)

        async def send(message: Any) -> None:
            pass

        headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
        scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": headers, "query_string": b""}
        await app(scope, receive, send)

    with client, ThreadPoolExecutor(1) as threads:
        sums.gate.clear()
        running = threads.submit(client.post, "/v1/predict", json=ONE)
        assert sums.entered.wait(10)
        asyncio.run(leave_at_once())
        sums.gate.set()
        assert running.result(10).status_code == 200
        assert client.post("/v1/predict", json=ONE).status_code == 200
    assert sums.sizes == [1, 1]
