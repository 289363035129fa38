"""A running service under slow and many connections, killed processes and questions of an operator."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.serve.visitor import run_service
from vitreous.serve.uploads import to_bytes

CONNECTIONS = 600
PROXY = "127.0.0.3"
ONE_SAMPLE = b'{"samples": [%s]}' % str([[0] * 8] * 8).encode()
IMAGE = to_bytes(np.zeros((8, 8)))
TRICLINIC = b'{"example": "triclinic"}'


class Service:
    """A running service, asked from addresses of loopback."""

    def __init__(self, url: str, process: "subprocess.Popen[str]") -> None:
        self.address, self.process = (str(urlsplit(url).hostname), int(urlsplit(url).port or 0)), process
        self.lines = list[str]()
        assert process.stdout is not None
        threading.Thread(target=self.lines.extend, args=(process.stdout,), daemon=True).start()

    def logged(self, word: str) -> str:
        """Return the first line of the log that contains a word."""
        for _ in range(500):
            for line in self.lines:
                if word in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"{word} is not logged within ten seconds")

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(self.address, 30, (source, 0))

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        source: str = "127.0.0.1",
        kind: str = "application/json",
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=60, source_address=(source, 0))
        with contextlib.closing(connection):
            connection.request(method, path, body, {"content-type": kind})
            reply = connection.getresponse()
            return reply.status, reply.read()

    def upload(self, path: str, name: str, content: bytes, **fields: str) -> tuple[int, bytes]:
        part = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
        texts = [part.format(field, "") + text + "\r\n" for field, text in fields.items()]
        body = "".join(texts) + part.format("file", f'; filename="{name}"')
        form = "multipart/form-data; boundary=b"
        return self.ask("POST", path, body.encode() + content + b"\r\n--b--\r\n", kind=form)

    def wait_until_ready(self) -> None:
        for _ in range(500):
            if self.ask("GET", "/readyz")[0] == 200:
                return
            time.sleep(0.02)
        raise AssertionError("not ready within ten seconds")

    def workers(self) -> set[int]:
        """Return the worker processes: the children of the child of the service that forks them."""
        parents = dict[int, int]()
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = status.read_text()
                if text.rpartition(")")[2].split()[0] != "Z":
                    parents[int(status.parent.name)] = int(text.rpartition(")")[2].split()[1])
        return {pid for pid, parent in parents.items() if parents.get(parent) == self.process.pid}


@pytest.fixture(scope="module")
def running(paths: dict[str, Path]) -> Iterator[Service]:
    words = (str(paths["vit.onnx"]), "--powder", "--access-log", "--connections", str(CONNECTIONS))
    words += ("--read-seconds", "3", "--proxy", PROXY)
    with run_service(*words, module="tests.serve.hanging_service") as (url, process):
        yield Service(url, process)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"], ids=["same client", "other client"])
def test_slow_bodies_keep_nobody_out(source: str, running: Service) -> None:
    head = (
        b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(running.connect()) for _ in range(256)]
        for connection in slow:
            connection.sendall(head + b"{")
        time.sleep(0.2)
        started = time.monotonic()
        assert running.ask("POST", "/v1/predict", ONE_SAMPLE, source)[0] == 200
        assert time.monotonic() - started < 2


def test_a_client_cannot_use_all_connections(running: Service) -> None:
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(running.connect()) for _ in range(CONNECTIONS)]
        assert running.ask("GET", "/healthz", source="127.0.0.2")[0] == 200
        many[-1].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert many[-1].recv(1) == b""  # closed
        many[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert many[0].recv(12).endswith(b"200")


@pytest.mark.parametrize("path", ["/v1/index", "/v1/predict"])
def test_a_file_that_is_never_read_delays_nobody(path: str, running: Service) -> None:
    lines = b"\n".join(b"%.1f 1" % angle for angle in (20, 28.4, 35, 40.6))
    peaks = {"peaks": "true", "anode": "Cu", "system": "cubic"}
    assert running.upload("/v1/index", "a.txt", lines, **peaks)[0] == 200  # the first search loads its modules
    replies = list[tuple[int, bytes]]()
    hang = threading.Thread(target=lambda: replies.append(running.upload(path, "a.csv", b"hang")))
    hang.start()
    time.sleep(0.3)
    assert running.upload("/v1/index", "a.txt", lines, **peaks)[0] == 200
    assert running.upload("/v1/predict", "a.npy", IMAGE)[0] == 200
    assert hang.is_alive()
    hang.join(6)
    assert replies == [(503, b'{"error":"file: was not read within 3 s"}')]


def test_a_killed_search_is_an_error_of_the_service_and_the_next_one_is_answered(running: Service) -> None:
    running.wait_until_ready()
    replies = list[tuple[int, bytes]]()
    thread = threading.Thread(target=lambda: replies.append(running.ask("POST", "/v1/index", TRICLINIC)))
    thread.start()
    while b"vitreous_requests_active 2.0" not in running.ask("GET", "/metrics")[1]:
        time.sleep(0.01)
    time.sleep(0.1)
    for pid in running.workers():
        os.kill(pid, signal.SIGKILL)
    thread.join(20)
    assert replies[0][0] == 503
    assert b"try again" in replies[0][1]
    cubic = b'{"peaks": true, "anode": "Cu", "system": ["cubic"], "two_theta": [20, 28.4, 35, 40.6]}'
    assert running.ask("POST", "/v1/index", cubic)[0] == 200


def test_a_service_is_ready_while_its_processes_run(running: Service) -> None:
    running.wait_until_ready()
    workers = running.workers()
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    while running.workers() & workers:
        time.sleep(0.01)
    assert running.ask("GET", "/readyz")[0] == 503
    assert running.ask("GET", "/healthz")[0] == 200
    running.wait_until_ready()


@pytest.mark.parametrize("path", ["/", "/style.css", "/docs", "/healthz"])
def test_head_gives_the_headers_of_get(path: str, running: Service) -> None:
    address = f"http://127.0.0.1:{running.address[1]}{path}"
    replies = [urllib.request.urlopen(urllib.request.Request(address, method=method)) for method in ("GET", "HEAD")]
    lengths = [int(reply.headers["content-length"]) for reply in replies]
    types = [reply.headers["content-type"] for reply in replies]
    assert (lengths[0], types[0]) == (lengths[1], types[1])
    assert [len(reply.read()) for reply in replies] == [lengths[0], 0]


def test_the_access_log_has_a_line_per_request_without_its_query(running: Service) -> None:
    running.ask("GET", "/no%0Athing?token=secret")
    line = running.logged("thing")
    time_and_client = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 127\.0\.0\.1"
    assert re.fullmatch(rf"{time_and_client} GET /no%0Athing 404 \d+ \d+\.\d\n", line)
    assert "secret" not in "".join(running.lines)


@pytest.mark.parametrize(("source", "client"), [(PROXY, "10.1.2.3"), ("127.0.0.1", "127.0.0.1")])
def test_only_a_proxy_may_state_the_address_of_its_client(source: str, client: str, running: Service) -> None:
    with running.connect(source) as connection:
        path = f"/from-{source}"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.1.2.3\r\n\r\n".encode())
        assert running.logged(path).split()[1] == client
