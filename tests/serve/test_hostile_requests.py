"""Hostile requests to a real service: each is refused, and other clients are still answered."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.serve.visitor import run_service
from vitreous.serve.server import HEADER_BYTES

SLOWEST = 2.0  # seconds until /healthz answers on a busy machine
MAX_GROWTH = 300  # megabytes


class ServiceProcess:
    """A service that receives raw bytes while its response time and memory are watched."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def connect(self) -> socket.socket:
        url = urlsplit(self.url)
        return socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=60)

    def post(self, path: str, kind: str, body: bytes) -> int:
        """Return the status of the response."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        with self.connect() as connection:
            connection.sendall(head.encode() + body)
            return int(connection.recv(64).split()[1])

    def memory(self) -> float:
        """Return the resident memory in megabytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1000

    def watch(self, work: Callable[[], int]) -> int:
        """Return the result of work; check that others are answered meanwhile and that memory does not grow."""
        self.health_seconds()
        before, results = self.memory(), list[int]()
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        worst = 0.0
        while thread.is_alive():
            worst = max(worst, self.health_seconds())
            time.sleep(0.01)
        assert worst < SLOWEST
        assert self.memory() - before < MAX_GROWTH
        return results[0]

    def health_seconds(self) -> float:
        began = time.monotonic()
        assert urllib.request.urlopen(f"{self.url}/healthz", timeout=60).status == 200
        return time.monotonic() - began


@pytest.fixture(scope="module")
def running(paths: dict[str, Path]) -> Iterator[ServiceProcess]:
    with run_service(str(paths["vit"]), "--powder") as (url, process):
        yield ServiceProcess(url, process.pid)


def test_a_slow_codec_is_refused(running: ServiceProcess) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + b"a" * 1_000_000 + b"\r\n--b--\r\n"
    kind = "multipart/form-data; boundary=b; charset=punycode"
    assert running.watch(lambda: running.post("/v1/predict", kind, body)) == 415


def test_a_long_field_of_a_form_is_refused(running: ServiceProcess) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + b"a" * 1_000_000 + b"\r\n--b--\r\n"
    assert running.watch(lambda: running.post("/v1/predict", "multipart/form-data; boundary=b", body)) == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/predict", b'{"samples":[["' + b"A" * 1_000_000 + b'"' + b',""' * 249 + b"]]}"),
        ("/v1/predict", b'{"samples":[["' + b"A" * 4_000_000 + b'"' + b',""' * 900_000 + b"]]}"),
        ("/v1/index", b'{"two_theta":[""' + b',""' * 2_500_000 + b"]}"),
        ("/v1/index", b"{" + b",".join(b'"k%d":1' % i for i in range(500_000)) + b"}"),
        ("/v1/explain", b'{"sample":[1],"target":"' + b"t" * 7_000_000 + b'"}'),
    ],
    ids=["long word", "longer word", "many errors", "many fields", "long target"],
)
def test_json_that_needs_much_memory_is_refused(path: str, body: bytes, running: ServiceProcess) -> None:
    assert running.watch(lambda: running.post(path, "application/json", body)) == 422


def test_an_error_quotes_little_of_the_request(running: ServiceProcess) -> None:
    body = b'{"sample":[1],"target":"' + b"t" * 90_000 + b'"}'
    head = (
        b"POST /v1/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with running.connect() as connection:
        connection.sendall(head % len(body) + body)
        assert len(connection.recv(100_000)) < 2000


def test_endless_headers_are_cut(running: ServiceProcess) -> None:
    def send() -> int:
        with running.connect() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            try:
                for sent in range(200):
                    connection.sendall(b"a" * HEADER_BYTES)
                    if sent > 100:
                        time.sleep(0.01)
            except OSError:
                return sent
            return -1

    assert 0 <= running.watch(send) < 200


def test_a_refused_body_closes_the_connection(running: ServiceProcess) -> None:
    with running.connect() as connection:
        connection.sendall(
            b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 999999999\r\n\r\n"
        )
        answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("host", ["evil.example@localhost", "localhost/evil", "localhost\r\nHost: localhost"])
def test_invalid_host_headers_are_refused(host: str, running: ServiceProcess) -> None:
    with running.connect() as connection:
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(64).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
