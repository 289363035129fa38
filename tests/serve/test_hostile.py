"""Requests that are made to keep a real service from answering others: each is refused, and `/healthz` goes on."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.serve.test_command import service
from vitreous.serve import connection

SLOWEST = 2.0  # seconds until /healthz answers, on a machine that is busy
GROWTH = 300  # megabytes


class Running:
    """A service, asked byte by byte, that is watched meanwhile."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def connected(self) -> socket.socket:
        found = urlsplit(self.url)
        return socket.create_connection((str(found.hostname), int(found.port or 0)), timeout=60)

    def post(self, path: str, kind: str, body: bytes) -> int:
        """The status of an answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        with self.connected() as there:
            there.sendall(head.encode() + body)
            return int(there.recv(64).split()[1])

    def memory(self) -> float:
        """Megabytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1000

    def watched(self, work: Callable[[], int]) -> int:
        """What the work gives; others are answered in the meantime, and memory stays."""
        self.healthy()
        before, found = self.memory(), list[int]()
        asking = threading.Thread(target=lambda: found.append(work()))
        asking.start()
        worst = 0.0
        while asking.is_alive():
            worst = max(worst, self.healthy())
            time.sleep(0.01)
        assert worst < SLOWEST
        assert self.memory() - before < GROWTH
        return found[0]

    def healthy(self) -> float:
        began = time.monotonic()
        assert urllib.request.urlopen(f"{self.url}/healthz", timeout=60).status == 200
        return time.monotonic() - began


@pytest.fixture(scope="module")
def running(paths: dict[str, Path]) -> Iterator[Running]:
    with service(str(paths["vit"]), "--powder") as (url, process):
        yield Running(url, process.pid)


def test_a_codec_that_takes_for_ever_is_refused(running: Running) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + b"a" * 1_000_000 + b"\r\n--b--\r\n"
    kind = "multipart/form-data; boundary=b; charset=punycode"
    assert running.watched(lambda: running.post("/v1/predict", kind, body)) == 415


def test_a_long_field_of_a_form_is_refused(running: Running) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + b"a" * 1_000_000 + b"\r\n--b--\r\n"
    assert running.watched(lambda: running.post("/v1/predict", "multipart/form-data; boundary=b", body)) == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/predict", b'{"samples":[["' + b"A" * 1_000_000 + b'"' + b',""' * 249 + b"]]}"),
        ("/v1/predict", b'{"samples":[["' + b"A" * 4_000_000 + b'"' + b',""' * 900_000 + b"]]}"),
        ("/v1/index", b'{"two_theta":[""' + b',""' * 2_500_000 + b"]}"),
        ("/v1/index", b"{" + b",".join(b'"k%d":1' % i for i in range(500_000)) + b"}"),
        ("/v1/explain", b'{"sample":[1],"target":"' + b"t" * 7_000_000 + b'"}'),
    ],
    ids=["long word", "longer word", "many faults", "many fields", "long target"],
)
def test_json_that_would_swell_is_refused(path: str, body: bytes, running: Running) -> None:
    assert running.watched(lambda: running.post(path, "application/json", body)) == 422


def test_a_refusal_repeats_little_of_what_was_sent(running: Running) -> None:
    body = b'{"sample":[1],"target":"' + b"t" * 90_000 + b'"}'
    head = (
        b"POST /v1/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with running.connected() as there:
        there.sendall(head % len(body) + body)
        assert len(there.recv(100_000)) < 2000


def test_a_head_without_end_is_cut(running: Running) -> None:
    def send() -> int:
        with running.connected() as there:
            there.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            try:
                for sent in range(200):
                    there.sendall(b"a" * connection.HEAD)
                    if sent > 100:
                        time.sleep(0.01)
            except OSError:
                return sent
            return -1

    assert 0 <= running.watched(send) < 200


def test_a_body_that_is_not_wanted_ends_the_connection(running: Running) -> None:
    with running.connected() as there:
        there.sendall(
            b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 999999999\r\n\r\n"
        )
        answer = there.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("host", ["evil.example@localhost", "localhost/evil", "localhost\r\nHost: localhost"])
def test_odd_names_of_the_host_are_refused(host: str, running: Running) -> None:
    with running.connected() as there:
        there.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert there.recv(64).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
